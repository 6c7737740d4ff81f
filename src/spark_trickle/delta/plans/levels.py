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

from collections.abc import Sequence
from dataclasses import dataclass, replace

from spark_trickle.delta.differentiate import differentiate
from spark_trickle.delta.facts import Facts
from spark_trickle.delta.plans.plan import Comparison, Key, Types
from spark_trickle.delta.plans.rows import compare_all
from spark_trickle.delta.steps import HASH, Repeat, Step, change_rows, consolidated, names, plain_call
from spark_trickle.model import HIDDEN_PREFIX, Column, TableName
from spark_trickle.sql.algebra import (
    WEIGHT,
    Aggregate,
    AsOf,
    Changes,
    Empty,
    Explode,
    Filter,
    Item,
    Join,
    Level,
    Matched,
    Named,
    Operator,
    OuterJoin,
    Project,
    Recursion,
    Scan,
    ScanColumn,
    Side,
    Stored,
    keep,
)
from spark_trickle.sql.scalar import add, call, cast, column, equal, number

LEVEL = f"{HIDDEN_PREFIX}level"
LEVELS = "levels"
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

    @property
    def kind(self) -> str:
        return "levels"

    @property
    def keys(self) -> tuple[Key, ...]:
        return ()

    @property
    def identity(self) -> str:
        return "the whole row within its level"

    @property
    def hidden(self) -> tuple[Column, ...]:
        return (Column(LEVEL, "int"), Column(HASH, "bigint"))

    @property
    def full(self) -> Operator:
        return Project(child=with_levels(self.node, LEVEL), items=(*self.items, *keep(LEVEL)))

    def compare(self, types: Types) -> dict[str, Comparison]:  # noqa: ARG002
        return {}

    def picks_by_order(self, types: Types) -> bool:  # noqa: ARG002
        return False

    def steps(self, columns: Sequence[Column], facts: Facts) -> tuple[Step, ...]:  # noqa: ARG002
        whole = (*columns, Column(LEVEL, "int"))
        changed = Named(view=LEVELS, names=(*names(whole), WEIGHT))
        return (Repeat(LEVELS, LevelSteps(self, tuple(columns))), *change_rows(changed, whole))

    def careful(self, columns: Sequence[Column]) -> tuple[tuple[Step, ...], ...]:
        return (compare_all(self.full, (*columns, Column(LEVEL, "int"))),)


@dataclass(frozen=True, slots=True)
class LevelSteps:
    """The change of each level, over that of the level before."""

    plan: Levels
    columns: tuple[Column, ...]  # public

    def deepest(self) -> Operator:
        stored = Stored(fields=(ScanColumn(LEVEL, LEVEL),))
        return Aggregate(child=stored, keys=(), calls=(plain_call(LEVEL, call("max", column(LEVEL))),))

    def level(self, depth: int, previous: str | None) -> Operator:
        node = self.plan.node
        types = {i.scalar.bare: c.type for i, c in zip(self.plan.items, self.columns, strict=True)}
        tree = differentiate(as_table(node.step) if depth else node.base)
        read = tree.transform(lambda op: self._read(op, depth - 1, previous))
        return consolidated(read, tuple(Column(n, types[n]) for n in node.names))

    def shown(self, depth: int, step: str) -> Operator:
        changed = Named(view=step, names=(*self.plan.node.names, HASH, WEIGHT))
        level = Item(LEVEL, cast(number(depth), "int"))
        return Project(child=changed, items=(*self.plan.items, level, *keep(WEIGHT)))

    def _read(self, op: Operator, before: int, previous: str | None) -> Operator:
        """The leaves that stand for the level before: its stored rows, and the change that was just computed."""
        if isinstance(op, Changes) and op.scan.input == PREVIOUS:
            if previous is None:
                return Empty(names=op.columns)
            changed = Named(view=previous, names=(*(f.source for f in op.scan.fields), WEIGHT))
            items = (*(Item(f.name, column(f.source)) for f in op.scan.fields), *keep(WEIGHT))
            return Project(child=changed, items=items)
        if isinstance(op, AsOf) and op.scan.input == PREVIOUS:
            public = {i.scalar.bare: i.name for i in self.plan.items}
            fields = tuple(ScanColumn(public[f.source], f.name) for f in op.scan.fields)
            rows = Stored(fields=(*fields, ScanColumn(LEVEL, LEVEL)))
            there = Filter(child=rows, condition=equal(column(LEVEL), number(before)))
            return Project(child=there, items=keep(*op.columns))
        return op
