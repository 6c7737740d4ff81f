"""Subqueries in expressions: EXISTS, IN and scalar ones, correlated or not, at every place Spark takes them."""

from __future__ import annotations

from tests.fuzz.context import Context
from tests.fuzz.expressions import Refs, column, of_type, predicate
from tests.fuzz.relations import correlation, source
from tests.fuzz.types import KEYS, T

_PREDICATES = {"exists": 1.0, "not exists": 1, "in subquery": 1.2, "not in subquery": 1, "scalar subquery": 1.2}
_PLACES = {"plain": 4.0, "subquery under or": 1, "subquery under not": 0.7, "subquery under case": 0.7}


def where(ctx: Context, refs: Refs, chance: float = 0.4, depth: int = 2) -> str:
    """A WHERE clause, or nothing; perhaps with subqueries in it."""
    parts = []
    wanted = ctx.asked("subquery", *_PREDICATES, *_PLACES, "correlated", "correlated scalar subquery")
    if wanted or (ctx.subqueries > 0 and ctx.relations > 0 and ctx.chance(0.22)):
        ctx.want.discard("subquery")
        parts.append(condition(ctx, refs))
    if ctx.asked("like", "in list", "between", "collation") or ctx.chance(chance):
        parts.append(predicate(ctx, refs, depth))
    return f" WHERE {' AND '.join(parts)}" if parts else ""


def condition(ctx: Context, refs: Refs) -> str:
    """A subquery as a condition, or under something."""
    place = ctx.pick(_PLACES)
    inner = comparison(ctx, refs)
    if place == "subquery under or":
        ctx.tag(place)
        return f"({inner} OR {predicate(ctx, refs, 1)})"
    if place == "subquery under not":
        ctx.tag(place)
        return f"NOT ({inner} {ctx.rnd.choice(('AND', 'OR'))} {predicate(ctx, refs, 0)})"
    if place == "subquery under case":
        ctx.tag(place)
        return f"CASE WHEN {inner} THEN {predicate(ctx, refs, 0)} ELSE {predicate(ctx, refs, 0)} END"
    return inner


def comparison(ctx: Context, refs: Refs) -> str:
    kind = ctx.pick(_PREDICATES)
    if kind == "scalar subquery":
        text, type_ = scalar(ctx, refs)
        other = column(ctx, refs, T.INT if type_ is T.BIGINT else type_)
        return f"{other} {ctx.rnd.choice(('=', '<', '>=', '<>'))} {text}"
    ctx.subqueries -= 1
    ctx.tag(kind)
    inner = source(ctx)
    linked = correlation(ctx, tuple(refs), inner.refs)
    if kind in ("exists", "not exists"):
        if ctx.maybe("correlated", 0.85):
            if ctx.chance(0.15):
                a, b = column(ctx, inner.refs, T.INT), column(ctx, refs, T.INT)
                linked = f"{a} {ctx.rnd.choice(('<', '>'))} {b}"
            test = linked
        else:
            test = predicate(ctx, inner.refs, 1)
        what = ctx.rnd.choice(("1", "*", column(ctx, inner.refs, T.INT)))
        end = f" LIMIT {ctx.rnd.choice((0, 1, 1, 5))}" if ctx.maybe("limit in exists", 0.08) else ""
        return f"{'NOT ' if kind == 'not exists' else ''}EXISTS (SELECT {what} FROM {inner.aliased} WHERE {test}{end})"
    shared = [t for t in KEYS if of_type(refs, t) and of_type(inner.refs, t)] or [T.INT]
    type_ = T.INT if T.INT in shared and ctx.chance(0.6) else ctx.rnd.choice(shared)
    test = ""
    if ctx.maybe("correlated", 0.3):
        test = f" WHERE {linked}"
    elif ctx.chance(0.7):
        # NULLs on the inner side decide NOT IN: leave them out half of the time.
        some = column(ctx, inner.refs, type_)
        return (
            f"{column(ctx, refs, type_)} {'NOT ' if kind == 'not in subquery' else ''}IN "
            f"(SELECT {some} FROM {inner.aliased} WHERE {some} IS NOT NULL AND {predicate(ctx, inner.refs, 1)})"
        )
    word = "NOT IN" if kind == "not in subquery" else "IN"
    return f"{column(ctx, refs, type_)} {word} (SELECT {column(ctx, inner.refs, type_)} FROM {inner.aliased}{test})"


def scalar(ctx: Context, refs: Refs) -> tuple[str, T]:
    """A subquery with one value: an aggregate, which has exactly one row whatever the data."""
    ctx.subqueries -= 1
    ctx.tag("scalar subquery")
    inner = source(ctx)
    calls = (
        ("count(*)", T.BIGINT),
        (f"sum({column(ctx, inner.refs, T.INT)})", T.BIGINT),
        (f"max({column(ctx, inner.refs, T.INT)})", T.INT),
        (f"min({column(ctx, inner.refs, T.STR)})", T.STR),
        (f"count(DISTINCT {column(ctx, inner.refs, T.STR)})", T.BIGINT),
        (f"coalesce(max({column(ctx, inner.refs, T.INT)}), 0) + 1", T.INT),
        (f"avg({column(ctx, inner.refs, T.DEC)})", T.DEC),
    )
    call, type_ = ctx.rnd.choice(calls)
    test = ""
    if ctx.maybe("correlated scalar subquery", 0.55):
        ctx.tag("correlated")
        test = f" WHERE {correlation(ctx, tuple(refs), inner.refs)}"
    elif ctx.chance(0.5):
        test = f" WHERE {predicate(ctx, inner.refs, 1)}"
    return f"(SELECT {call} FROM {inner.aliased}{test})", type_


def item(ctx: Context, refs: Refs) -> tuple[str, T]:
    """A subquery as a column."""
    ctx.tag("subquery in select list")
    if ctx.asked("scalar subquery", "correlated scalar subquery") or ctx.chance(0.6):
        ctx.want.discard("scalar subquery")
        text, type_ = scalar(ctx, refs)
        if ctx.chance(0.25) and type_ is T.BIGINT:
            return f"coalesce({text}, 0) + 1", type_
        return text, type_
    return f"({comparison(ctx, refs)})", T.BOOL
