"""In which order the inputs of a join follow the change it starts from: those first that add the fewest rows.

Only row counts are known. How many values a key has is taken from the smallest table that has it: of customers,
suppliers and nations joined by the nation's key, a customer has one of 25. That is right where keys refer to tables,
and elsewhere costs time, never rows.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass

from spark_trickle.sql.algebra import Filter, Operator
from spark_trickle.sql.scalar import Scalar, sides

# Of an input with more rows it is worth knowing first which are needed.
LARGE = 50_000
_FILTERED = 0.5  # a guess: what a condition on one input leaves of it

Key = frozenset[tuple[int, str]]  # (input, what it compares): all said to be equal


def is_large(rows: int | None) -> bool:
    return rows is None or rows > LARGE


def join_order(inputs: Sequence[Operator], conditions: Sequence[Scalar], rows: Sequence[int]) -> tuple[int, ...]:
    """The indexes of the inputs, starting with 0; `rows` of each."""
    graph = _Graph(inputs, conditions, rows)
    order, waiting = [0], list(range(1, len(inputs)))
    while waiting:
        following = min(waiting, key=lambda i: (not graph.connected(i, order), graph.fan_out(i, order), i))
        waiting.remove(following)
        order.append(following)
    return tuple(order)


@dataclass(frozen=True, slots=True)
class _Graph:
    inputs: Sequence[Operator]
    conditions: Sequence[Scalar]
    rows: Sequence[int]

    def connected(self, i: int, before: Collection[int]) -> bool:
        """Whether some condition is about this input and those before."""
        own, others = set(self.inputs[i].columns), {c for j in before for c in self.inputs[j].columns}
        return any(c.columns & own and c.columns & others and c.columns <= own | others for c in self.conditions)

    def fan_out(self, i: int, before: Collection[int]) -> float:
        """How many rows of an input a row of those before meets, more or less."""
        found = float(self.rows[i])
        for key in self.keys():
            of = {j for j, _ in key}
            if i in of and of.intersection(before):
                found /= max(1, min(self.rows[j] for j in of))
        own = set(self.inputs[i].columns)
        filtered = isinstance(self.inputs[i], Filter) or any(c.columns and c.columns <= own for c in self.conditions)
        return found * _FILTERED if filtered else found

    def keys(self) -> list[Key]:
        owner = {c: i for i, op in enumerate(self.inputs) for c in op.columns}
        keys: list[Key] = []
        for condition in self.conditions:
            made: set[tuple[int, str]] = set()
            for side in sides(condition) or ():
                owners = {owner[c] for c in side.columns if c in owner}
                if len(owners) == 1:
                    made.add((owners.pop(), side.sql()))
            if len({i for i, _ in made}) == 2:
                equal = frozenset(made).union(*(k for k in keys if k & made))
                keys = [*(k for k in keys if not k & made), equal]
        return keys
