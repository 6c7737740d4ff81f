"""In which order the inputs of a join follow the first, which may be a change: those first that add the fewest rows.

Only row counts are known. How many values a key has is taken from the smallest table that has it: of customers,
suppliers and nations joined by the nation's key, a customer has one of 25. That is right where keys refer to tables,
and elsewhere costs time, never rows.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass

from spark_trickle.sql.algebra import Filter, Operator
from spark_trickle.sql.scalar import Scalar, sides
from spark_trickle.thresholds import FILTERED_SHARE, LARGE

_Key = frozenset[tuple[int, str]]  # (input, what it compares): all said to be equal


def is_large(rows: int | None) -> bool:
    """Whether it is worth knowing first which rows are needed."""
    return rows is None or rows > LARGE


def join_order(
    inputs: Sequence[Operator], conditions: Sequence[Scalar], rows: Sequence[int] | None = None
) -> tuple[int, ...]:
    """The indexes of the inputs, starting with 0, each connected by a condition to those before where there is one.

    `rows` of each input; where they are not known, the inputs follow as they are written.
    """
    columns = [frozenset(op.columns) for op in inputs]
    fan_out = None if rows is None else _FanOut.of(inputs, conditions, rows)
    order, seen, waiting = [0], columns[0], list(range(1, len(inputs)))

    def cost(i: int) -> tuple[bool, float, int]:
        apart = not any(
            c.columns & columns[i] and c.columns & seen and c.columns <= columns[i] | seen for c in conditions
        )
        return apart, fan_out(i, order) if fan_out else 0, i

    while waiting:
        following = min(waiting, key=cost)
        waiting.remove(following)
        order.append(following)
        seen |= columns[following]
    return tuple(order)


@dataclass(frozen=True, slots=True)
class _FanOut:
    """How many rows of an input a row of those before meets, more or less."""

    alone: tuple[float, ...]  # of each input: its rows, fewer if it is filtered
    keys: tuple[tuple[frozenset[int], int], ...]  # the inputs that have a key, and how many values it has

    @classmethod
    def of(cls, inputs: Sequence[Operator], conditions: Sequence[Scalar], rows: Sequence[int]) -> _FanOut:
        alone = []
        for op, count in zip(inputs, rows, strict=True):
            own = set(op.columns)
            filtered = isinstance(op, Filter) or any(c.columns and c.columns <= own for c in conditions)
            alone.append(count * FILTERED_SHARE if filtered else float(count))
        having = [frozenset(i for i, _ in key) for key in _keys(inputs, conditions)]
        return cls(tuple(alone), tuple((of, max(1, min(rows[i] for i in of))) for of in having))

    def __call__(self, i: int, before: Collection[int]) -> float:
        found = self.alone[i]
        for of, values in self.keys:
            if i in of and of.intersection(before):
                found /= values
        return found


def _keys(inputs: Sequence[Operator], conditions: Sequence[Scalar]) -> list[_Key]:
    owner = {c: i for i, op in enumerate(inputs) for c in op.columns}
    keys: list[_Key] = []
    for condition in conditions:
        made: set[tuple[int, str]] = set()
        for side in sides(condition) or ():
            owners = {owner[c] for c in side.columns if c in owner}
            if len(owners) == 1:
                made.add((owners.pop(), side.sql()))
        if len({i for i, _ in made}) == 2:
            equal = frozenset(made).union(*(k for k in keys if k & made))
            keys = [*(k for k in keys if not k & made), equal]
    return keys
