"""Aggregate calls of every family, grouped queries, and grouping sets."""

from __future__ import annotations

from dataclasses import dataclass

from tests.fuzz.context import Context, From, Query
from tests.fuzz.expressions import Refs, column, comparable, expression, of_type, predicate
from tests.fuzz.types import ENDS, ZEROS, Column, Ref, T

_FAMILIES = {
    "count": 2.0, "sum": 2.0, "min max": 2.0, "avg": 1, "count distinct": 0.8, "bool_and": 0.5, "count_if": 0.5,
    "stddev": 0.3, "collect": 0.6, "max_by": 0.4, "percentile": 0.4, "median": 0.3, "first": 0.3,
    "distinct aggregate": 0.4, "sum near the end": 0.3, "text of a maximum": 0.2,
}  # fmt: skip


@dataclass(frozen=True)
class Call:
    sql: str
    type: T


def call(ctx: Context, refs: Refs, *, root: bool = True, key: Ref | None = None) -> Call:
    """One aggregate. Below the root there are only those whose value is the same whatever the order of rows."""
    options = dict(_FAMILIES)
    if key is None and not (root and ctx.chance(0.1)):
        del options["first"]
    if key is not None and key.type in ZEROS:  # the key has one zero, its rows have two
        del options["first"]
    ends = of_type(refs, *ENDS)
    if not ends:  # of constants near the end a few rows would be too many
        del options["sum near the end"]
    kind = ctx.pick(options)
    ctx.tag(kind)
    number = ctx.rnd.choice((T.INT, T.INT, T.BIGINT, T.DEC, T.FINE, T.DBL))
    if kind in ("sum", "avg") and ctx.asked("fine decimal"):
        number = T.FINE
    arg = expression(ctx, refs, number, 1) if ctx.chance(0.4) else column(ctx, refs, number)
    some = _some(ctx, refs)
    test = ""
    if kind not in ("first", "count_if") and ctx.maybe("aggregate filter", 0.1):
        test = f" FILTER (WHERE {predicate(ctx, refs, 1)})"
    wide = T.BIGINT if number in (T.INT, T.BIGINT) else number
    if kind == "count":
        return Call(ctx.rnd.choice(("count(*)", f"count({some.sql})", "count(1)")) + test, T.BIGINT)
    if kind in ("sum", "avg") and number is T.FINE:
        ctx.tag("fine decimal")
    if kind == "sum":
        return Call(f"sum({arg}){test}", wide)
    if kind == "avg":
        return Call(f"avg({arg}){test}", number if number in (T.DEC, T.FINE) else T.INEXACT)
    if kind == "sum near the end":
        end = ctx.rnd.choice(ends)
        if end.type is T.FAR and ctx.chance(0.4):  # Spark adds up doubles: digits that depend on the order are cut off
            return Call(f"round(avg({end.sql}) / 1e15D, 3)", T.INEXACT)
        return Call(f"sum({end.sql}){test}", end.type)
    if kind == "text of a maximum":
        # Of 0.0 and -0.0, of 'a' and 'A' either is right.
        collated = f"{column(ctx, refs, T.STR)} COLLATE UTF8_LCASE"
        of_what = ctx.rnd.choice((column(ctx, refs, T.DBL), collated))
        return Call(f"CAST({ctx.rnd.choice(('min', 'max'))}({of_what}){test} AS STRING)", T.LOOSE)
    if kind == "min max":
        ordered = [r for r in comparable(refs) if r.type not in (T.INTS, T.STRS, T.STRUCTS)] or [some]
        of = ctx.rnd.choice(ordered)
        return Call(f"{ctx.rnd.choice(('min', 'max'))}({of.sql}){test}", of.type)
    if kind == "count distinct":
        also = f", {_some(ctx, refs).sql}" if ctx.chance(0.2) else ""
        return Call(f"count(DISTINCT {some.sql}{also}){test}", T.BIGINT)
    if kind == "distinct aggregate":
        return Call(f"{ctx.rnd.choice(('sum', 'avg', 'max'))}(DISTINCT {column(ctx, refs, T.INT)}){test}", T.INEXACT)
    if kind == "bool_and":
        name = ctx.rnd.choice(("bool_and", "bool_or", "every", "some"))
        return Call(f"{name}({expression(ctx, refs, T.BOOL, 1)}){test}", T.BOOL)
    if kind == "count_if":
        return Call(f"count_if({predicate(ctx, refs, 1)})", T.BIGINT)
    if kind == "stddev":
        name = ctx.rnd.choice(("stddev", "var_pop", "variance", "stddev_pop"))
        inner = f"{name}({column(ctx, refs, T.INT)}){test}"
        # Below the root the last digits, which depend on the order of rows, are cut off.
        return Call(inner if root else f"round({inner}, 8)", T.INEXACT)
    if kind == "collect":
        type_ = ctx.rnd.choice((T.INT, T.STR))
        name = ctx.rnd.choice(("collect_list", "collect_set"))
        inner = f"{name}({column(ctx, refs, type_)}){test}"
        if ctx.chance(0.3):
            return Call(f"size({inner})", T.INT)
        return Call(f"sort_array({inner})", T.INTS if type_ is T.INT else T.STRS)
    if kind == "max_by":
        # The value itself breaks ties.
        value, by = column(ctx, refs, T.STR), column(ctx, refs, T.INT)
        return Call(f"{ctx.rnd.choice(('max_by', 'min_by'))}({value}, struct({by}, {value})){test}", T.STR)
    if kind == "percentile":
        return Call(
            f"percentile({column(ctx, refs, T.INT)}, {ctx.rnd.choice(('0.5', '0.25', '0.9'))}){test}", T.INEXACT
        )
    if kind == "median":
        return Call(f"median({column(ctx, refs, T.INT)}){test}", T.INEXACT)
    if key is not None:
        return Call(f"first({key.sql})", key.type)
    ctx.tag("open result")
    return Call(f"first({some.sql})", some.type)


def _some(ctx: Context, refs: Refs) -> Ref:
    found = [r for r in comparable(refs) if r.type not in (T.INTS, T.STRS, T.STRUCTS)]
    return ctx.rnd.choice(found) if found else Ref("1", T.INT)


def _key(ctx: Context, refs: Refs) -> tuple[Ref, bool]:
    """What to group by, and whether it is more than a column."""
    if ctx.asked("group by expression") or ctx.chance(0.25):
        type_ = ctx.rnd.choice((T.INT, T.STR, T.DATE, T.BOOL))
        text = expression(ctx, refs, type_, 2)
        if any(r.sql in text for r in refs):  # a constant is an ordinal, or no key at all
            if text not in {r.sql for r in refs}:
                ctx.tag("group by expression")
            return Ref(text, type_), True
    liked = [r for r in refs if r.sql.split(".")[-1] in ("k", "g")]
    if liked and ctx.chance(0.5):
        return ctx.rnd.choice(liked), False
    keys = of_type(refs, T.INT, T.STR, T.DATE, T.BOOL, T.DBL, T.SIGNED) or comparable(refs)
    if ctx.chance(0.1):
        keys = comparable(refs) or keys
    return (ctx.rnd.choice(keys), False) if keys else (Ref("1 + 1", T.INT), True)


def grouped(ctx: Context, from_: From, where: str, *, root: bool) -> Query:
    refs = from_.refs
    if ctx.maybe("no group by", 0.12):
        keys: list[Ref] = []
    else:
        keys = list(dict.fromkeys(_key(ctx, refs)[0] for _ in range(ctx.rnd.choice((1, 1, 2)))))
    calls = [call(ctx, refs, root=root, key=keys[0] if keys else None) for _ in range(ctx.rnd.choice((1, 2, 3)))]
    if ctx.chance(0.2):
        numbers = [c for c in calls if c.type in (T.BIGINT, T.INT)]
        if numbers:
            calls.append(Call(f"coalesce({ctx.rnd.choice(numbers).sql}, 0) + count(*)", T.BIGINT))
    style = "columns"
    if keys:
        styles = {"columns": 4.0, "group by ordinal": 1, "group by alias": 1, "group by all": 0.8, "hidden key": 0.8}
        style = ctx.pick(styles)
        if style != "columns":
            ctx.tag(style)
    shown = keys if style != "hidden key" else keys[1:]
    items = [(k.sql, k.type, ctx.fresh("x")) for k in shown] + [(c.sql, c.type, ctx.fresh("x")) for c in calls]
    by = {
        "columns": ", ".join(k.sql for k in keys),
        "hidden key": ", ".join(k.sql for k in keys),
        "group by ordinal": ", ".join(str(n + 1) for n in range(len(shown))),
        "group by alias": ", ".join(n for _, _, n in items[: len(shown)]),
        "group by all": "ALL",
    }[style]
    having = ""
    if ctx.maybe("having", 0.15):
        test = ctx.rnd.choice(("count(*) > 1", "count(*) < 4", _having(ctx, refs)))
        having = f" HAVING {test}"
    group = f" GROUP BY {by}" if keys else ""
    listed = ", ".join(f"{sql} AS {name}" for sql, _, name in items)
    return Query(
        f"SELECT {listed} FROM {from_.sql}{where}{group}{having}", tuple(Column(name, t) for _, t, name in items)
    )


def _having(ctx: Context, refs: Refs) -> str:
    low, high = column(ctx, refs, T.INT), column(ctx, refs, T.STR)
    return ctx.rnd.choice((f"max({low}) > 2", f"sum({low}) IS NOT NULL", f"min({high}) < 'b' OR count(*) > 2"))


def grouping_sets(ctx: Context, from_: From, where: str, *, root: bool) -> Query:
    found = of_type(from_.refs, T.INT, T.STR, T.DATE, T.BOOL)
    keys = ctx.rnd.sample(found, min(len(found), 2))
    if not keys:
        return grouped(ctx, from_, where, root=root)
    # What is grouped by is NULL in the coarser rows, also inside aggregates: they look at other columns.
    others = [r for r in from_.refs if r not in keys] or list(from_.refs)
    calls = [call(ctx, others, root=root) for _ in range(ctx.rnd.choice((1, 2)))]
    items = [(k.sql, k.type, ctx.fresh("x")) for k in keys] + [(c.sql, c.type, ctx.fresh("x")) for c in calls]
    if ctx.maybe("grouping()", 0.4):
        ask = ctx.rnd.choice((f"grouping({keys[0].sql})", "grouping_id()"))
        items.append((ask, T.INT if ask != "grouping_id()" else T.BIGINT, ctx.fresh("x")))
    listed = [k.sql for k in keys]
    both, first = ", ".join(listed), listed[0]
    kind = ctx.pick({"grouping sets": 1.0, "cube": 1, "rollup": 1})
    ctx.tag(kind)
    if kind == "grouping sets":
        by = f"GROUPING SETS (({both}), ({first}){', ()' if ctx.chance(0.6) else ''})"
    else:
        by = f"{both} WITH {kind.upper()}" if ctx.chance(0.3) else f"{kind.upper()}({both})"
    having = " HAVING count(*) > 1" if ctx.maybe("having", 0.1) else ""
    text = ", ".join(f"{sql} AS {name}" for sql, _, name in items)
    return Query(
        f"SELECT {text} FROM {from_.sql}{where} GROUP BY {by}{having}", tuple(Column(name, t) for _, t, name in items)
    )
