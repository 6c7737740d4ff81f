"""Questions to a tree of operators, and trees over one state of their inputs."""

from __future__ import annotations

from functools import singledispatch

from spark_trickle.model import TableName
from spark_trickle.sql.algebra import (
    Aggregate,
    AsOf,
    Changes,
    Explode,
    Filter,
    Join,
    Level,
    Matched,
    Named,
    Operator,
    OuterJoin,
    Project,
    Recursion,
    Scan,
    State,
    TopK,
    Window,
)
from spark_trickle.sql.scalar import Scalar


def open_levels(tree: Operator) -> bool:
    """Whether the tree is a part of a recursion's step: it reads a level whose recursion is further up."""
    below = list(tree.walk())
    own = {o.level for o in below if isinstance(o, Recursion)}
    return any(isinstance(o, Level) and o.level not in own for o in below)


def tables(tree: Operator) -> frozenset[TableName]:
    """What it reads of the lake, as states or as changes."""
    leaves = [op for op in tree.walk() if isinstance(op, Scan | AsOf | Changes)]
    return frozenset(leaf.input if isinstance(leaf, Scan) else leaf.scan.input for leaf in leaves)


def is_change(tree: Operator) -> bool:
    """Whether it is made of changes of tables or of their keys, not of states alone."""
    return any(isinstance(op, Changes | Named) for op in tree.walk())


def correlated(tree: Operator) -> frozenset[str]:
    """The columns of the query around that a subquery uses."""
    return frozenset().union(*(s.outer for op in tree.walk() for s in scalars(op)))


@singledispatch
def scalars(op: Operator) -> tuple[Scalar, ...]:  # noqa: ARG001
    """The scalars of one operator, without its children's."""
    return ()


@scalars.register
def _(op: Filter) -> tuple[Scalar, ...]:
    return (op.condition,)


@scalars.register
def _(op: Project) -> tuple[Scalar, ...]:
    return tuple(i.scalar for i in op.items)


@scalars.register(Join)
@scalars.register(OuterJoin)
@scalars.register(Matched)
def _(op: Join | OuterJoin | Matched) -> tuple[Scalar, ...]:
    return op.conditions


@scalars.register(Aggregate)
@scalars.register(Window)
def _(op: Aggregate | Window) -> tuple[Scalar, ...]:
    return (*(k.scalar for k in op.keys), *(c.whole for c in op.calls))


@scalars.register
def _(op: TopK) -> tuple[Scalar, ...]:
    return op.order


@scalars.register
def _(op: Explode) -> tuple[Scalar, ...]:
    return (op.generator,)


def at(tree: Operator, state: State) -> Operator:
    """The tree over the old or the new state of its inputs."""
    return tree.transform(lambda op: AsOf(scan=op, state=state) if isinstance(op, Scan) else op)


def scans(tree: Operator) -> tuple[Scan, ...]:
    return tuple(op for op in tree.walk() if isinstance(op, Scan))
