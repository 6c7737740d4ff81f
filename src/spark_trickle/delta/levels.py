"""A recursion kept level by level.

Spark's recursion is a bag: the rows of level 0 are the base, those of level n the step over level n-1, until a level
is empty. Where the step uses the level before once, and linearly, its delta needs only the change of that level and
its old rows:

    dL(0) = dB;   dL(n) = d(step)(L(n-1))  with  L(n-1).old from storage and dL(n-1) just computed

The join rule reads old states before the changing input and new ones after it, so the input that holds the level
goes first: then its new state is never needed. Storage keeps the level of every row in a hidden column. Insertions
and deletions are alike: signed weights, level by level, while a level changed or its inputs did.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from spark_trickle.delta.differentiate import differentiate
from spark_trickle.model import HIDDEN_PREFIX, Column, TableName
from spark_trickle.sql.algebra import (
    Explode,
    Filter,
    Item,
    Join,
    Level,
    Matched,
    Operator,
    OuterJoin,
    Project,
    Recursion,
    Scan,
    ScanColumn,
    Side,
    keep,
)
from spark_trickle.sql.scalar import add, cast, column, number

LEVEL = f"{HIDDEN_PREFIX}level"
# Stands for the level before, as if it were a table.
PREVIOUS = TableName("", "previous level")


def is_linear(op: Recursion) -> bool:
    """Whether the step uses the level before once, in places where a change of it passes straight through."""
    return _linear(op.step)


def _levels(op: Operator) -> int:
    return sum(isinstance(o, Level) for o in op.walk())


def _linear(op: Operator) -> bool:
    if isinstance(op, Level):
        return True
    if _levels(op) != 1:
        return False
    if isinstance(op, Filter | Project | Explode):
        return _linear(op.child)
    if isinstance(op, Join):
        return all(_linear(i) for i in op.inputs if _levels(i))
    if isinstance(op, OuterJoin):
        return op.side is Side.LEFT and bool(_levels(op.left)) and _linear(op.left)
    if isinstance(op, Matched):
        return bool(_levels(op.child)) and _linear(op.child)
    return False


def as_table(step: Operator) -> Operator:
    """The step over `PREVIOUS`, with the input that holds it first in every join."""

    def rule(op: Operator) -> Operator:
        if isinstance(op, Level):
            return Scan(input=PREVIOUS, fields=op.fields)
        if isinstance(op, Join):
            first = sorted(op.inputs, key=lambda i: not _reads_previous(i))
            return Project(child=replace(op, inputs=tuple(first)), items=keep(*op.columns))
        return op

    return step.transform(rule)


def _reads_previous(op: Operator) -> bool:
    return any(isinstance(o, Scan) and o.input == PREVIOUS for o in op.walk())


def with_levels(op: Recursion, name: str) -> Recursion:
    """The recursion with one column more: the level of the row."""
    zero = cast(number(0), "int")
    base = Project(child=op.base, items=(*keep(*op.base.columns), Item(name, zero)))
    carried, level = _carry(op.step, name)
    following = add(column(level), number(1))
    step = Project(child=carried, items=(*keep(*op.names), Item(name, following)))
    return Recursion(base=base, step=step, names=(*op.names, name), level=op.level)


def _carry(op: Operator, name: str) -> tuple[Operator, str]:
    """The operator with the level of the row that it came from."""
    inner = f"{name}_of_step"
    if isinstance(op, Level):
        return replace(op, fields=(*op.fields, ScanColumn(name, inner))), inner
    if isinstance(op, Project):
        child, level = _carry(op.child, name)
        return Project(child=child, items=(*op.items, *keep(level))), level
    children = list(op.children)
    at = next(n for n, c in enumerate(children) if _levels(c))
    children[at], level = _carry(children[at], name)
    return op.with_children(tuple(children)), level


@dataclass(frozen=True, slots=True)
class Levels:
    """A recursion whose rows are stored with their level."""

    node: Recursion
    items: tuple[Item, ...]  # public columns: the node's, renamed
    hash: str

    @property
    def identity(self) -> str:
        return "the whole row within its level"

    @property
    def hidden(self) -> tuple[Column, ...]:
        return (Column(LEVEL, "int"), Column(self.hash, "bigint"))

    @property
    def full(self) -> Operator:
        return Project(child=with_levels(self.node, LEVEL), items=(*self.items, *keep(LEVEL)))

    @property
    def base(self) -> Operator:
        """The change of level 0."""
        return differentiate(self.node.base)

    @property
    def step(self) -> Operator:
        """The change of a level, over that of the level before."""
        return differentiate(as_table(self.node.step))
