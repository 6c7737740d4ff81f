"""UNION, INTERSECT and EXCEPT over two lowered queries."""

from __future__ import annotations

from collections.abc import Sequence

from sqlglot import exp

from spark_trickle.sql.algebra import (
    Aggregate,
    Call,
    Distinct,
    Explode,
    Filter,
    Fresh,
    Item,
    Operator,
    Project,
    UnionAll,
    keep,
)
from spark_trickle.sql.context import Relation
from spark_trickle.sql.scalar import call, column, conjunction, equal, greater, number, subtract
from spark_trickle.sql.scope import Output, Visible, renamed_scope


def renamed(relation: Relation, names: tuple[str, ...]) -> Operator:
    items = tuple(Item(n, column(o.name)) for n, o in zip(names, relation.outputs, strict=True))
    return Project(child=relation.operator, items=items)


def by_name(left: Relation, right: Relation) -> Relation | None:
    """The right side with its columns in the order of the left; None when they are others."""
    theirs = {o.shown.lower(): o for o in right.outputs}
    if {o.shown.lower() for o in left.outputs} != set(theirs) or len(theirs) != len(right.outputs):
        return None
    return Relation(right.operator, tuple(theirs[o.shown.lower()] for o in left.outputs))


def set_operation(node: exp.SetOperation, left: Relation, right: Relation, fresh: Fresh) -> Relation:
    """The columns are those of the left side, under new names."""
    outputs = tuple(Output(o.shown, fresh(f"u_{o.shown}")) for o in left.outputs)
    names = tuple(o.name for o in outputs)
    distinct = bool(node.args.get("distinct"))
    operator: Operator
    if isinstance(node, exp.Union):
        operator = UnionAll(inputs=(renamed(left, names), renamed(right, names)), names=names)
        operator = Distinct(child=operator) if distinct else operator
    else:
        operator = _counted(left, right, names, fresh, intersect=isinstance(node, exp.Intersect), distinct=distinct)
    return Relation(operator, outputs, _tables(left, names))


def _tables(left: Relation, names: Sequence[str]) -> tuple[Visible, ...]:
    return renamed_scope(left.relations, {o.name: n for o, n in zip(left.outputs, names, strict=True)})


def _counted(
    left: Relation, right: Relation, names: tuple[str, ...], fresh: Fresh, *, intersect: bool, distinct: bool
) -> Operator:
    """INTERSECT and EXCEPT: count each row on both sides, then say how often it stays."""
    marks = (fresh("is_left"), fresh("is_right"))
    branches = []
    for at, side in enumerate((left, right)):
        told = tuple(Item(m, number(int(n == at))) for n, m in enumerate(marks))
        branches.append(Project(child=renamed(side, names), items=(*keep(*names), *told)))
    union = UnionAll(inputs=tuple(branches), names=(*names, *marks))
    keys = tuple(Item(fresh(f"k_{n}"), column(n)) for n in names)
    lefts, rights = (Call(fresh(f"n_{m}"), call("sum", column(m)), "sum", (column(m),)) for m in marks)
    counted = Aggregate(child=union, keys=keys, calls=(lefts, rights))
    has_left, has_right = (greater(column(c.name), number(0)) for c in (lefts, rights))
    items = tuple(Item(n, column(k.name)) for n, k in zip(names, keys, strict=True))
    if distinct:
        other = has_right if intersect else equal(column(rights.name), number(0))
        condition = conjunction((has_left, other))
        assert condition is not None
        return Project(child=Filter(child=counted, condition=condition), items=items)
    if intersect:
        many = call("least", column(lefts.name), column(rights.name))
    else:
        many = subtract(column(lefts.name), column(rights.name))
    some = Filter(child=counted, condition=greater(many, number(0)))
    copies = call("explode", call("sequence", number(1), many))
    spread = Explode(child=some, generator=copies, names=(fresh("copy"),))
    return Project(child=spread, items=items)
