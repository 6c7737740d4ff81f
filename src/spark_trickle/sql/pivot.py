"""PIVOT -> an aggregate with filtered calls; UNPIVOT -> a generator."""

from __future__ import annotations

from functools import reduce

from sqlglot import exp

from spark_trickle.sql.aggregate_facts import facts_of
from spark_trickle.sql.algebra import Aggregate, Call, Explode, Filter, Fresh, Item, Operator, Project, keep
from spark_trickle.sql.context import Relation
from spark_trickle.sql.functions import FunctionKind
from spark_trickle.sql.resolve import Place, Resolver, function_name
from spark_trickle.sql.scalar import (
    Scalar,
    call,
    case_when,
    cast,
    column,
    conjunction,
    either,
    greater,
    number,
    same,
    text,
)
from spark_trickle.sql.scope import Output, Scope


def lower_pivot(node: exp.Pivot, operator: Operator, scope: Scope, resolver: Resolver, fresh: Fresh) -> Relation:
    """Grouped by every column that is neither pivoted nor aggregated.

    A value that a group lacks gives NULL, a count too, if all results are numbers: Spark then aggregates by group and
    value first, and spreads. Else it aggregates the values that meet each condition, and a count of none is 0.
    """
    fields = node.args["fields"]
    if len(fields) != 1 or not isinstance(fields[0], exp.In):
        raise resolver.refuse("PIVOT", "this form of PIVOT has no delta rule yet", node)
    heads = _parts(fields[0].this)
    pivoted = [resolver.scalar(h, clause=Place.WHERE) for h in heads]
    calls = [(a.alias if isinstance(a, exp.Alias) else "", a.unalias()) for a in node.expressions]
    scalars = [resolver.scalar(c, clause=Place.SELECT) for _, c in calls]
    if resolver.pending:
        raise resolver.refuse("PIVOT", "a subquery inside PIVOT has no delta rule yet", node)
    kinds, results = resolver.functions.types(operator, pivoted), resolver.functions.types(operator, scalars)
    if kinds is None or results is None:
        raise resolver.refuse("PIVOT", "PIVOT over columns of a query further out has no delta rule yet", node)
    spread = all(r in _SPREAD or r.startswith("decimal") for r in results)
    if not spread and any(not facts_of(f).skips_null for s in scalars for f in _functions(s, resolver)):
        raise resolver.refuse("PIVOT", "this aggregate beside one that gives no number has no delta rule yet", node)
    used = frozenset().union(*(s.columns for s in (*pivoted, *scalars)))
    kept = [o for o in scope.star if o.name not in used]
    keys = tuple(Item(fresh(f"k_{o.shown}"), column(o.name)) for o in kept)
    outputs = [Output(o.shown, k.name) for o, k in zip(kept, keys, strict=True)]
    made: list[Call] = []
    items: list[Item] = []
    for value in fields[0].expressions:
        shown, literal = (value.alias, value.this) if isinstance(value, exp.PivotAlias | exp.Alias) else ("", value)
        # A value takes the type of the column, not the other way round.
        parts = _parts(literal) if len(heads) > 1 else [literal]  # a tuple for one column is a struct
        values = [cast(resolver.scalar(v, clause=Place.WHERE), k) for v, k in zip(parts, kinds, strict=True)]
        condition = conjunction(same(p, v) for p, v in zip(pivoted, values, strict=True))
        assert condition is not None
        present = Call(fresh("n"), _filtered(call("count", number(1)), condition), "count", (), filter=condition)
        made.append(present)
        for (alias, written), scalar in zip(calls, scalars, strict=True):
            whole = _aggregated(scalar, condition, resolver, written, made, fresh)
            name = fresh("pivot")
            there = greater(column(present.name), number(0))
            items.append(Item(name, case_when(there, whole) if spread else whole))
            # Other names that Spark makes up are taken from its own analysis.
            value_name = shown or (literal.name if isinstance(literal, exp.Literal) and _is_plain(literal) else "")
            known = value_name if len(calls) == 1 else f"{value_name}_{alias}" if value_name and alias else ""
            outputs.append(Output(known, name))
    grouped = Aggregate(child=operator, keys=keys, calls=tuple(made))
    result = Project(child=grouped, items=(*keep(*(k.name for k in keys)), *items))
    return Relation(result, tuple(outputs))


def _is_plain(literal: exp.Literal) -> bool:
    """Whether the text of a value is the name of its column."""
    return bool(literal.is_string or literal.name.isdigit())


# What Spark spreads.
_SPREAD = frozenset(["boolean", "tinyint", "smallint", "int", "bigint", "float", "double"])


def _functions(scalar: Scalar, resolver: Resolver) -> list[str]:
    """The aggregates in an expression."""
    names = (function_name(n) for n in scalar.tree.walk())
    return [n for n in names if n is not None and resolver.functions.kind(n) is FunctionKind.AGGREGATE]


def _parts(node: exp.Expr) -> list[exp.Expr]:
    inner = node.unnest()
    return list(inner.expressions) if isinstance(inner, exp.Tuple) else [inner]


def _filtered(scalar: Scalar, condition: Scalar) -> Scalar:
    where = exp.Where(this=condition.tree.copy())
    return Scalar(exp.Filter(this=scalar.tree.copy(), expression=where))


def _aggregated(
    scalar: Scalar, condition: Scalar, resolver: Resolver, node: exp.Expr, made: list[Call], fresh: Fresh
) -> Scalar:
    """The expression with each aggregate call in it limited to one value, and replaced by its column."""

    def swap(part: exp.Expr) -> exp.Expr:
        name = function_name(part)
        if name is None or resolver.functions.kind(name) is not FunctionKind.AGGREGATE:
            return part
        args = part.expressions
        distinct = bool(args) and isinstance(args[0], exp.Distinct)
        found = Call(
            name=fresh(f"a_{name}"),
            whole=_filtered(Scalar(part), condition),
            function=name,
            args=tuple(
                Scalar(a.copy()) for a in (args[0].expressions if distinct else args) if not isinstance(a, exp.Star)
            ),
            distinct=distinct,
            filter=condition,
        )
        made.append(found)
        return column(found.name).tree

    if any(isinstance(n, exp.Filter | exp.WithinGroup | exp.Window) for n in scalar.tree.walk()):
        raise resolver.refuse("PIVOT", "this aggregate inside PIVOT has no delta rule yet", node)
    return Scalar(scalar.tree.copy().transform(swap))


def lower_unpivot(node: exp.Pivot, operator: Operator, scope: Scope, resolver: Resolver, fresh: Fresh) -> Relation:
    """One row per column that is turned: its name and its value, NULL values left out unless told otherwise."""
    fields = node.args["fields"]
    if len(fields) != 1 or not isinstance(fields[0], exp.In) or len(node.expressions) != 1:
        raise resolver.refuse("UNPIVOT", "this form of UNPIVOT has no delta rule yet", node)
    value_names = [p.name for p in _parts(node.expressions[0])]
    name_name = fields[0].this.name
    rows, turned = [], set()
    for part in fields[0].expressions:
        alias, inner = (part.args["alias"].name, part.this) if isinstance(part, exp.PivotAlias) else ("", part)
        columns = _parts(inner)
        scalars = [resolver.scalar(c, clause=Place.WHERE) for c in columns]
        if any(s.bare is None for s in scalars) or len(scalars) != len(value_names):
            raise resolver.refuse("UNPIVOT", "UNPIVOT takes columns", part)
        turned |= {s.bare for s in scalars}
        label = alias or "_".join(c.name for c in columns)
        fields = [part for n, s in zip(value_names, scalars, strict=True) for part in (text(n), s)]
        rows.append(call("named_struct", text(name_name), text(label), *fields))
    kept = [o for o in scope.star if o.name not in turned]
    names = (fresh(name_name), *(fresh(v) for v in value_names))
    result: Operator = Explode(child=operator, generator=call("inline", call("array", *rows)), names=names)
    if not node.args.get("include_nulls"):
        some = reduce(either, (call("isnotnull", column(n)) for n in names[1:]))
        result = Filter(child=result, condition=some)
    outputs = (*kept, *(Output(s, n) for s, n in zip((name_name, *value_names), names, strict=True)))
    items = keep(*(o.name for o in outputs))
    return Relation(Project(child=result, items=items), outputs)
