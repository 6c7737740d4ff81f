"""Subqueries become joins.

A subquery is lowered with the columns of the query around it marked as *outer*. Two ways lead from there to plain
operators:

- *pull*: conditions that use outer columns are lifted out of the subquery and become conditions of the join. Cheap,
  and enough for most queries.
- *domain*: the different values of the outer columns, D, are joined into the subquery, every operator of which then
  carries them along (a group key more, a partition key more); the result joins back null-safe. Always possible.

An aggregate without GROUP BY has a row even over nothing. Pulled, its group may be missing, so its counts are made 0;
with a domain, D is left-joined to the rows first and the calls are filtered by whether there is a row, which gives
what the function says of no rows, whichever function it is.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace

from sqlglot import exp

from spark_trickle.errors import NotIncremental
from spark_trickle.sql.aggregate_facts import Empty, facts_of
from spark_trickle.sql.algebra import (
    Aggregate,
    Call,
    Distinct,
    Explode,
    Filter,
    Fresh,
    Item,
    Join,
    Match,
    Matched,
    Operator,
    OuterJoin,
    Project,
    Side,
    TopK,
    keep,
)
from spark_trickle.sql.domain import joined, with_domain
from spark_trickle.sql.scalar import (
    Scalar,
    call,
    case_when,
    column,
    conjunction,
    conjuncts,
    either,
    equal,
    greater,
    is_outer,
    number,
    sides,
    text,
    true,
)
from spark_trickle.sql.trees import correlated, scalars

Types = Callable[[Operator, Sequence[Scalar]], tuple[str, ...] | None]


# -- the kinds of subqueries -----------------------------------------------------------------------------------------


def exists(
    child: Operator,
    sub: Operator,
    conditions: tuple[Scalar, ...],
    kind: Match,
    mark: str,
    fresh: Fresh,
    types: Types,
) -> Operator:
    """EXISTS, IN and their negations: `conditions` are over the columns of both."""
    refuse_open_limit(child, sub, types)
    # IN looks for a value among the rows: which ones a LIMIT takes matters.
    pulled = pull(sub, fresh, existence=True, top=not conditions)
    if pulled is not None and _alike(child, pulled, types):
        found = tuple(c.substitute(pulled.late).inward() for c in (*conditions, *pulled.conditions))
        return Matched(child=child, by=pulled.op, conditions=found, kind=kind, mark=mark)
    by, back = with_domain(child, sub, fresh)
    return Matched(child=child, by=by, conditions=(*back, *(c.inward() for c in conditions)), kind=kind, mark=mark)


def scalar_value(child: Operator, sub: Operator, name: str, fresh: Fresh, types: Types, *, strict: bool) -> Operator:
    """A scalar subquery: the child with its value as column `name`.

    `strict`: rows for which the value is NULL are dropped above, so an inner join will do.
    """
    refuse_open_limit(child, sub, types)
    if not correlated(sub):
        one = sub if _one_row(sub) else _only(sub, fresh)
        return joined(child, Project(child=one, items=(Item(name, column(one.columns[0])),)), ())
    found = _grouped_value(child, sub, name, fresh, types, strict=strict)
    if found is not None:
        return found
    by, back = with_domain(child, sub, fresh)
    value = column(sub.columns[0])
    if not _one_row(sub):
        keys = tuple(c for c in by.columns if c not in sub.columns)
        by, value = _single(keys, by, sub.columns[0], fresh)
    joint = OuterJoin(left=child, right=by, conditions=back, side=Side.LEFT)
    return Project(child=joint, items=(*keep(*child.columns), Item(name, value)))


def lateral(
    child: Operator, sub: Operator, conditions: tuple[Scalar, ...], fresh: Fresh, types: Types, *, left: bool
) -> Operator:
    """A LATERAL join; `conditions` are those of ON."""
    refuse_open_limit(child, sub, types)
    if not correlated(sub):
        if left:
            return OuterJoin(left=child, right=sub, conditions=conditions, side=Side.LEFT)
        return joined(child, sub, conditions)
    pulled = pull(sub, fresh)
    if pulled is None or not _alike(child, pulled, types):
        by, back = with_domain(child, sub, fresh)
        if left:
            result: Operator = OuterJoin(left=child, right=by, conditions=(*back, *conditions), side=Side.LEFT)
        else:
            result = joined(child, by, (*back, *conditions))
        return Project(child=result, items=keep(*child.columns, *sub.columns))
    on = tuple(c.substitute(pulled.late).inward() for c in (*pulled.conditions, *conditions))
    if not left:
        result = joined(child, pulled.op, on)
        late = {n: s.inward() for n, s in pulled.late.items()}
    else:
        # What is computed after the join must be NULL where there was no partner.
        present = fresh("present")
        partner = Project(child=pulled.op, items=(*keep(*pulled.op.columns), Item(present, true())))
        result = OuterJoin(left=child, right=partner, conditions=on, side=Side.LEFT)
        late = {n: case_when(column(present), s.inward()) for n, s in pulled.late.items()}
    items = tuple(Item(c, late.get(c, column(c))) for c in sub.columns)
    return Project(child=result, items=(*keep(*child.columns), *items))


def refuse_open_limit(child: Operator, sub: Operator, types: Types) -> None:
    """Where Spark leaves open which rows a LIMIT takes.

    It finds the partners of an outer row first, and then takes the first of them, unless an equality compares more than
    an outer column as it is. If that is part of an expression, or cast to another type, Spark 4.1 takes any rows first
    and then looks for partners among them. Other comparisons do no harm; `NOT a <> b` is an equality.
    """
    for top in sub.walk():
        if isinstance(top, TopK) and correlated(top.child):
            for op in top.child.walk():
                if isinstance(op, Filter | Join) and not all(
                    _as_it_is(child, op, part, types) for scalar in scalars(op) for part in conjuncts(scalar)
                ):
                    raise NotIncremental(
                        "LIMIT",
                        "a LIMIT in a correlated subquery whose correlation is not by a plain column of the same type: "
                        "Spark takes any rows before it compares them",
                    )


_NO_EQUALITY = (exp.GT, exp.GTE, exp.LT, exp.LTE, exp.Between, exp.Or)


def _as_it_is(child: Operator, op: Filter | Join, condition: Scalar, types: Types) -> bool:
    found = sides(condition)
    if not condition.outer:
        return True
    if found is None:
        return isinstance(condition.tree.unnest(), _NO_EQUALITY)
    outer, own = found if found[0].outer else found[::-1]
    if own.outer or not is_outer(outer.tree):
        return False
    there = types(op.child if isinstance(op, Filter) else op, (own,))
    return there is not None and there == types(child, (outer.inward(),))


# -- pull ------------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Pulled:
    op: Operator  # without outer columns
    conditions: tuple[Scalar, ...]  # over its columns and outer ones
    late: Mapping[str, Scalar] = field(default_factory=dict)  # output columns to be computed after the join
    keyed: tuple[tuple[Operator, Scalar, Scalar], ...] = ()  # (rows, local, outer): compared, and grouped by


def _alike(child: Operator, pulled: Pulled, types: Types) -> bool:
    """Whether what rows are grouped by has the type it is compared in.

    `'1' = 1` and `'01' = 1` both hold, and are two groups: one outer value would meet more than one.
    """
    for rows, local, outer in pulled.keyed:
        own, other = types(rows, (local,)), types(child, (outer.inward(),))
        if own is None or own != other:
            return False
    return True


def pull(op: Operator, fresh: Fresh, *, existence: bool = False, top: bool = False) -> Pulled | None:
    """Lift the conditions that use outer columns; None where that is not possible.

    `existence`: only whether there is a row matters; `top`: and no condition stands above.
    """
    if existence and isinstance(op, Distinct):
        return pull(op.child, fresh, existence=True, top=top)
    if existence and top and isinstance(op, TopK) and not op.offset and op.limit != 0:
        return pull(op.child, fresh, existence=True, top=True)
    if not correlated(op):
        return Pulled(op, ())
    if isinstance(op, Filter):
        below = pull(op.child, fresh, existence=existence)
        if below is None:
            return None
        parts = [c.substitute(below.late) for c in conjuncts(op.condition)]
        local = conjunction(c for c in parts if not c.outer)
        child = below.op if local is None else Filter(child=below.op, condition=local)
        return Pulled(child, (*below.conditions, *(c for c in parts if c.outer)), below.late, below.keyed)
    if isinstance(op, Project):
        below = pull(op.child, fresh, existence=existence, top=top)
        if below is None:
            return None
        items = [Item(i.name, i.scalar.substitute(below.late)) for i in op.items]
        now = [i for i in items if not i.scalar.outer]
        late = {i.name: i.scalar for i in items if i.scalar.outer}
        used = frozenset().union(*(s.columns for s in (*below.conditions, *late.values())))
        more = keep(*(c for c in below.op.columns if c in used and c not in {i.name for i in now}))
        kept = (*now, *more) or keep(*below.op.columns[:1])
        return Pulled(Project(child=below.op, items=tuple(kept)), below.conditions, late, below.keyed)
    if isinstance(op, Join):
        inputs: list[Operator] = []
        lifted: list[Scalar] = []
        keyed: list[tuple[Operator, Scalar, Scalar]] = []
        for each in op.inputs:
            below = pull(each, fresh)
            if below is None or below.late:
                return None
            inputs.append(below.op)
            lifted += below.conditions
            keyed += below.keyed
        local_ = tuple(c for c in op.conditions if not c.outer)
        lifted += [c for c in op.conditions if c.outer]
        return Pulled(Join(inputs=tuple(inputs), conditions=local_), tuple(lifted), keyed=tuple(keyed))
    if isinstance(op, Matched) and not correlated(op.by) and not any(c.outer for c in op.conditions):
        below = pull(op.child, fresh)
        return None if below is None or below.late else replace(below, op=replace(op, child=below.op))
    if isinstance(op, OuterJoin) and op.side is Side.LEFT and not correlated(op.right):
        if any(c.outer for c in op.conditions):
            return None
        below = pull(op.left, fresh)
        return None if below is None or below.late else replace(below, op=replace(op, left=below.op))
    if isinstance(op, Explode) and not op.generator.outer:
        below = pull(op.child, fresh)
        return None if below is None or below.late else replace(below, op=replace(op, child=below.op))
    if isinstance(op, Aggregate) and op.keys:
        return _pull_grouped(op, fresh)
    return None


def _pull_grouped(op: Aggregate, fresh: Fresh) -> Pulled | None:
    """Equalities with outer columns become group keys: for one outer value the groups are the same."""
    if any(s.outer for s in (*(k.scalar for k in op.keys), *(c.whole for c in op.calls))):
        return None
    below = pull(op.child, fresh)
    if below is None or below.late:
        return None
    keys, lifted, keyed = list(op.keys), [], list(below.keyed)
    for condition in below.conditions:
        sides = _equality(condition)
        if sides is None:
            return None
        kind, local, outer = sides
        name = fresh("c")
        keys.append(Item(name, local))
        keyed.append((below.op, local, outer))
        lifted.append(Scalar(kind(this=column(name).tree, expression=exp.Paren(this=outer.tree.copy()))))
    return Pulled(Aggregate(child=below.op, keys=tuple(keys), calls=op.calls), tuple(lifted), keyed=tuple(keyed))


def _equality(condition: Scalar) -> tuple[type[exp.Expr], Scalar, Scalar] | None:
    """(kind, local side, outer side) of `local = outer`."""
    found = sides(condition)
    if found is None:
        return None
    for local, outer in (found, found[::-1]):
        if local.columns and not local.outer and outer.outer and not outer.columns:
            return type(condition.tree.unnest()), local, outer
    return None


def _grouped_value(
    child: Operator, sub: Operator, name: str, fresh: Fresh, types: Types, *, strict: bool
) -> Operator | None:
    """A scalar subquery that aggregates, or picks, the rows of equal keys: grouped by them, then joined."""
    value, below = column(sub.columns[0]), sub
    conditions: list[Scalar] = []
    while isinstance(below, Project | Filter):
        if isinstance(below, Project):
            by = {i.name: i.scalar for i in below.items}
            value = value.substitute(by)
            conditions = [c.substitute(by) for c in conditions]
        else:
            conditions.append(below.condition)
        below = below.child
    if not isinstance(below, Aggregate) or below.keys:
        return _picked_value(child, sub, name, fresh, types)
    # An aggregate of which nobody knows what it gives over no rows is left to the domain.
    known = all(facts_of(c.function).empty is not None for c in below.calls)
    if not known or any(s.outer for s in (value, *conditions)):
        return None
    grouped = _pull_grouped(below, fresh)
    if grouped is None or not _alike(child, grouped, types):
        return None
    zero = [c.name for c in below.calls if facts_of(c.function).empty is Empty.ZERO]
    zeros = {name: call("coalesce", column(name), number(0)) for name in zero}
    value = value.substitute(zeros)
    condition = conjunction(c.substitute(zeros) for c in conditions)
    if condition is not None:
        value = case_when(condition, value)
    on = tuple(c.inward() for c in grouped.conditions)
    if strict and not zeros and condition is None and _is_strict(value.tree):
        joint = joined(child, grouped.op, on)
    else:
        joint = OuterJoin(left=child, right=grouped.op, conditions=on, side=Side.LEFT)
    return Project(child=joint, items=(*keep(*child.columns), Item(name, value)))


def _picked_value(child: Operator, sub: Operator, name: str, fresh: Fresh, types: Types) -> Operator | None:
    below = pull(sub, fresh)
    if below is None or below.late:
        return None
    items, on, asked, keyed = [], [], [], list(below.keyed)
    for condition in below.conditions:
        sides = _equality(condition)
        if sides is None:
            return None
        kind, local, outer = sides
        key = fresh("c")
        items.append(Item(key, local))
        asked.append(outer.inward())
        keyed.append((below.op, local, outer))
        on.append(Scalar(kind(this=column(key).tree, expression=exp.Paren(this=outer.tree.copy()))).inward())
    if not _alike(child, replace(below, keyed=tuple(keyed)), types):
        return None
    value = Item(fresh("v"), column(sub.columns[0]))
    rows = Project(child=below.op, items=(*items, value))
    # Without a column of the child in it, Spark would look at the value before the join: for keys that no row has.
    here = Item(fresh("h"), call("substring", call("hex", call("xxhash64", *asked)), number(1), number(0)))
    one, checked = _single(tuple(i.name for i in items), rows, value.name, fresh, column(here.name))
    left = Project(child=child, items=(*keep(*child.columns), here))
    joint = OuterJoin(left=left, right=one, conditions=tuple(on), side=Side.LEFT)
    return Project(child=joint, items=(*keep(*child.columns), Item(name, checked)))


_STRICT = (
    *(exp.Column, exp.Literal, exp.Paren, exp.Neg, exp.Add, exp.Sub, exp.Mul, exp.Cast, exp.DataType),
    *(exp.EQ, exp.NEQ, exp.LT, exp.LTE, exp.GT, exp.GTE, exp.Identifier, exp.DataTypeParam),
)


def _is_strict(tree: exp.Expr) -> bool:
    return all(isinstance(n, _STRICT) for n in tree.walk())


def rejects_null(condition: Scalar, name: str) -> bool:
    """Whether a condition cannot hold when column `name` is NULL."""
    return name in condition.columns and _is_strict(condition.tree)


def _one_row(op: Operator) -> bool:
    while isinstance(op, Project):
        op = op.child
    return isinstance(op, Aggregate) and not op.keys


_TOO_MANY = "[SCALAR_SUBQUERY_TOO_MANY_ROWS] More than one row returned by a subquery used as an expression."


def _only(op: Operator, fresh: Fresh) -> Operator:
    """The one value of an uncorrelated subquery."""
    rows, value = _single((), op, op.columns[0], fresh)
    return Project(child=rows, items=(Item(fresh("s"), value),))


def _single(
    keys: tuple[str, ...], op: Operator, value: str, fresh: Fresh, here: Scalar | None = None
) -> tuple[Operator, Scalar]:
    """One row per key, and its value: more than one is Spark's error, as in the query itself.

    The value is to be asked for above the join: a key that no row has may have more. `here` is an empty text that only
    the other side of the join has.
    """
    found, many = fresh("v"), fresh("n")
    some = Call(name=found, whole=call("any_value", column(value)), function="", args=())
    count = Call(name=many, whole=call("count", number(1)), function="count", args=())
    renamed = tuple(Item(fresh(f"d_{k}"), column(k)) for k in keys)
    rows = Aggregate(child=op, keys=renamed, calls=(some, count))
    said = text(_TOO_MANY) if here is None else call("concat", text(_TOO_MANY), here)
    checked = case_when(greater(column(many), number(1)), call("raise_error", said), column(found))
    names = tuple(Item(k, column(r.name)) for k, r in zip(keys, renamed, strict=True))
    return Project(child=rows, items=(*names, *keep(found, many))), checked


def not_in(value: Scalar, other: Scalar) -> Scalar:
    """When a row of the subquery keeps `value NOT IN (…)` from being true. Spark knows this form and hashes it."""
    met = equal(value, other)
    return either(met, call("isnull", met))
