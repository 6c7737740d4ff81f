"""Window functions. Where ties would leave a result open, the order covers all columns of the input."""

from __future__ import annotations

from tests.fuzz.context import Context, Query
from tests.fuzz.expressions import Refs, column, comparable, of_type
from tests.fuzz.relations import Relation
from tests.fuzz.types import Column, Ref, T

_FUNCTIONS = {
    "row_number": 1.5, "rank": 1.0, "dense_rank": 0.8, "lag lead": 1.0, "ntile": 0.5, "aggregate over window": 3.0,
}  # fmt: skip
_FRAMES = (
    "ROWS BETWEEN 1 PRECEDING AND CURRENT ROW",
    "ROWS BETWEEN UNBOUNDED PRECEDING AND 1 FOLLOWING",
    "ROWS BETWEEN 1 FOLLOWING AND 2 FOLLOWING",
    "ROWS UNBOUNDED PRECEDING",
)
_RANGES = (
    "RANGE BETWEEN 1 PRECEDING AND 1 FOLLOWING",
    "RANGE BETWEEN UNBOUNDED PRECEDING AND CURRENT ROW",
    "RANGE BETWEEN CURRENT ROW AND UNBOUNDED FOLLOWING",
)


def _total(ctx: Context, refs: Refs) -> str:
    """An order that leaves only equal rows tied."""
    keys = comparable(refs)
    ctx.rnd.shuffle(keys)
    ways = ("", " DESC", " NULLS LAST", " DESC NULLS FIRST")
    return ", ".join(f"{r.sql}{ctx.rnd.choice(ways)}" for r in keys)


def _partition(ctx: Context, refs: Refs) -> str:
    if ctx.maybe("window without partition", 0.08):
        return ""
    keys = of_type(refs, T.INT, T.STR, T.BOOL, T.DATE) or comparable(refs)
    chosen = ctx.rnd.sample(keys, min(len(keys), ctx.rnd.choice((1, 1, 1, 2))))
    return f"PARTITION BY {', '.join(r.sql for r in chosen)}"


def _call(ctx: Context, refs: Refs, partition: str, total: str | None) -> tuple[str, str, T]:
    """A function, the inside of its OVER, and its type."""
    kind = ctx.pick(_FUNCTIONS)
    ctx.tag(kind)
    order = total or _total(ctx, refs)
    keys = of_type(refs, T.INT, T.STR, T.DATE) or comparable(refs)
    coarse = ctx.rnd.choice(keys).sql
    number = column(ctx, refs, T.INT)
    if kind == "row_number":
        return "row_number()", f"{partition} ORDER BY {order}", T.INT
    if kind == "ntile":
        return "ntile(2)", f"{partition} ORDER BY {order}", T.INT
    if kind in ("rank", "dense_rank"):
        return f"{kind}()", f"{partition} ORDER BY {coarse}{ctx.rnd.choice(('', ' DESC'))}", T.INT
    if kind == "lag lead":
        some = ctx.rnd.choice(comparable(refs))
        return f"{ctx.rnd.choice(('lag', 'lead'))}({some.sql})", f"{partition} ORDER BY {order}", some.type
    exact = of_type(refs, T.DEC, T.DBL)
    of = ctx.rnd.choice(exact).sql if exact and ctx.chance(0.3) else number
    calls = (
        (f"sum({number})", T.BIGINT),
        (f"count({of})", T.BIGINT),
        ("count(*)", T.BIGINT),
        (f"min({number})", T.INT),
        (f"max({column(ctx, refs, T.STR)})", T.STR),
        (f"avg({number})", T.INEXACT),
        (f"sum({of})", T.INEXACT),
    )
    text, type_ = ctx.rnd.choice(calls)
    frames = {"window without order": 1.0, "rows frame": 1.2, "range frame": 1.0, "order only": 1.0}
    frame = ctx.pick(frames)
    if frame != "order only":
        ctx.tag(frame)
    if frame == "window without order":
        return text, partition, type_
    if frame == "rows frame":
        return text, f"{partition} ORDER BY {order} {ctx.rnd.choice(_FRAMES)}", type_
    ints = of_type(refs, T.INT)
    if frame == "range frame" and ints:
        return text, f"{partition} ORDER BY {ctx.rnd.choice(ints).sql} {ctx.rnd.choice(_RANGES)}", type_
    return text, f"{partition} ORDER BY {coarse}", type_


def windowed(ctx: Context, input_: Relation) -> Query:
    """Some columns of the input and one to three window functions."""
    refs = input_.refs
    several = ctx.maybe("several windows", 0.25)
    named = ctx.maybe("named window", 0.15)
    wanted = [f for f in (*_FUNCTIONS, "rows frame", "range frame", "window without order") if f in ctx.want]
    count = max(len(wanted), ctx.rnd.choice((1, 1, 2)), 2 if several else 1)
    open_ = ctx.asked("undetermined")
    ctx.want.discard("undetermined")
    shared = None
    if open_:
        ctx.tag("open result")
        shared = ctx.rnd.choice(of_type(refs, T.INT, T.STR) or list(comparable(refs))).sql
        ctx.want.add("row_number")
    items: list[tuple[str, T, str]] = []
    definitions = []
    partition = _partition(ctx, refs)
    for n in range(count):
        if several and n:
            partition = _partition(ctx, refs)
        if any(f in ctx.want for f in ("rows frame", "range frame", "window without order")):
            ctx.want.add("aggregate over window")
        function, inside, type_ = _call(ctx, refs, partition, shared)
        if named and n == 0:
            name = ctx.fresh("n")
            definitions.append(f"{name} AS ({inside.strip()})")
            over = name
        else:
            over = f"({inside.strip()})"
        items.append((f"{function} OVER {over}", type_, ctx.fresh("x")))
    plain = list(refs) if not open_ else ctx.rnd.sample(refs, min(2, len(refs)))
    listed = [(r.sql, r.type, ctx.fresh("x")) for r in plain[:4]] + items
    text = ", ".join(f"{sql} AS {name}" for sql, _, name in listed)
    window = f" WINDOW {', '.join(definitions)}" if definitions else ""
    return Query(f"SELECT {text} FROM {input_.aliased}{window}", tuple(Column(n, t) for _, t, n in listed))


def latest_row(ctx: Context, input_: Relation) -> Query:
    """The first row of each partition, in the usual spelling."""
    ctx.tag("latest row per key", "row_number", "derived table")
    refs = input_.refs
    number, alias = ctx.fresh("rn"), ctx.fresh("q")
    keys = of_type(refs, T.INT, T.STR) or comparable(refs)
    key: Ref = ctx.rnd.choice(keys)
    order = _total(ctx, refs)
    if ctx.maybe("undetermined", 0.0):
        ctx.tag("open result")
        order = f"{ctx.rnd.choice(comparable(refs)).sql} DESC"
    inner = f"SELECT *, row_number() OVER (PARTITION BY {key.sql} ORDER BY {order}) AS {number} FROM {input_.aliased}"
    columns = [(c, ctx.fresh("x")) for c in input_.columns]
    listed = ", ".join(f"{alias}.{c.name} AS {n}" for c, n in columns)
    test = ctx.rnd.choice((f"{alias}.{number} = 1", f"{alias}.{number} = 1", f"{alias}.{number} <= 2"))
    return Query(
        f"SELECT {listed} FROM ({inner}) AS {alias} WHERE {test}", tuple(Column(n, c.type) for c, n in columns)
    )
