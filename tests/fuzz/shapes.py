"""The forms a query block can have, besides groups and windows."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from tests.fuzz.context import Context, From, Query
from tests.fuzz.expressions import Refs, column, comparable, expression, of_type, predicate, wanted_expression
from tests.fuzz.relations import Subquery, from_clause, source, values
from tests.fuzz.subqueries import item
from tests.fuzz.types import COMPARABLE, SCALARS, Column, T, literal

Item = tuple[str, T, str]  # expression, type, alias


def _select(items: Sequence[Item], from_: str, *, word: str = "SELECT") -> Query:
    listed = ", ".join(f"{sql} AS {name}" for sql, _, name in items)
    return Query(f"{word} {listed} FROM {from_}", tuple(Column(name, t) for _, t, name in items))


def typed(ctx: Context, from_: From, where: str, types: Sequence[T], *, plain: float = 0.75) -> Query:
    """Columns of given types."""
    items = []
    for t in types:
        sql = column(ctx, from_.refs, t) if ctx.chance(plain) else expression(ctx, from_.refs, t, 1)
        items.append((sql, t, ctx.fresh("x")))
    return _select(items, from_.sql + where)


def plain(ctx: Context, from_: From, where: str) -> Query:
    refs = from_.refs
    items: list[Item] = []
    while (forced := wanted_expression(ctx, refs)) is not None:
        items.append((*forced, ctx.fresh("x")))
    for _ in range(ctx.rnd.choice((1, 2, 3, 3))):
        if refs and ctx.chance(0.5):
            some = ctx.rnd.choice(refs)
            items.append((some.sql, some.type, ctx.fresh("x")))
        else:
            t = ctx.rnd.choice((*SCALARS, T.INT, T.STR, *(r.type for r in refs[:3])))
            items.append((expression(ctx, refs, t, 2), t, ctx.fresh("x")))
    if ctx.asked("subquery in select list") or (ctx.subqueries > 0 and ctx.relations > 0 and ctx.chance(0.08)):
        items.append((*item(ctx, refs), ctx.fresh("x")))
    if ctx.maybe("lateral alias", 0.05):
        ints = [i for i in items if i[1] is T.INT]
        if not ints:
            ints = [(expression(ctx, refs, T.INT, 1), T.INT, ctx.fresh("x"))]
            items += ints
        items.append((f"coalesce({ints[0][2]}, 0) + 1", T.INT, ctx.fresh("x")))
    return _select(items, from_.sql + where)


def distinct(ctx: Context, from_: From, where: str) -> Query:
    ctx.tag("distinct")
    found = comparable(from_.refs)
    some = ctx.rnd.sample(found, min(len(found), ctx.rnd.choice((1, 2, 3))))
    items: list[Item] = [(r.sql, r.type, ctx.fresh("x")) for r in some]
    if not items or ctx.chance(0.3):
        t = ctx.rnd.choice((T.INT, T.STR, T.BOOL))
        items.append((expression(ctx, from_.refs, t, 1), t, ctx.fresh("x")))
    return _select(items, from_.sql + where, word="SELECT DISTINCT")


def star(ctx: Context, where: Callable[[Context, Refs, float], str]) -> Query:
    ctx.tag("star except")
    base = source(ctx)
    out = ctx.rnd.sample(base.columns, ctx.rnd.randint(1, len(base.columns) - 1))
    kept = tuple(c for c in base.columns if c not in out)
    prefix = f"{base.alias}." if ctx.chance(0.5) else ""
    listed = f"{prefix}* EXCEPT ({', '.join(c.name for c in out)})"
    if ctx.chance(0.4):
        name, t = ctx.fresh("x"), ctx.rnd.choice((T.INT, T.STR))
        listed += f", {expression(ctx, base.refs, t, 1)} AS {name}"
        kept += (Column(name, t),)
    return Query(f"SELECT {listed} FROM {base.aliased}{where(ctx, base.refs, 0.5)}", kept)


def generator(ctx: Context, from_: From, where: str) -> Query:
    """A generator function among the columns."""
    ctx.tag("generator in select list")
    refs = from_.refs
    items = [(r.sql, r.type, ctx.fresh("x")) for r in ctx.rnd.sample(refs, min(2, len(refs)))]
    one, two = ctx.fresh("x"), ctx.fresh("x")
    ints, strs = column(ctx, refs, T.INTS), column(ctx, refs, T.STRS)
    forms: tuple[tuple[str, tuple[T, ...], str], ...] = (
        (f"explode({ints})", (T.INT,), ""),
        (f"explode_outer({ints})", (T.INT,), ""),
        (f"posexplode({strs})", (T.INT, T.STR), "posexplode"),
        (f"inline({column(ctx, refs, T.STRUCTS)})", (T.INT, T.STR), "inline"),
        (f"stack(2, {column(ctx, refs, T.INT)}, 'p', 7, 'q')", (T.INT, T.STR), "stack"),
    )
    call, types, tag = ctx.rnd.choice(forms)
    if tag:
        ctx.tag(tag)
    names = (one, two)[: len(types)]
    alias = names[0] if len(types) == 1 else f"({', '.join(names)})"
    listed = ", ".join([f"{s} AS {n}" for s, _, n in items] + [f"{call} AS {alias}"])
    columns = [Column(n, t) for _, t, n in items] + [Column(n, t) for n, t in zip(names, types, strict=True)]
    return Query(f"SELECT {listed} FROM {from_.sql}{where}", tuple(columns))


def ordered(ctx: Context, query: Query) -> Query:
    """ORDER BY with LIMIT and OFFSET, or by itself. A map has no order, so columns of maps are left out."""
    kept = [c for c in query.columns if c.type in COMPARABLE]
    sql = query.sql
    if len(kept) < len(query.columns) or "topk" not in ctx.want or ctx.chance(0.2):
        # Set operations and other forms too can be ordered when they stand in brackets.
        ctx.tag("derived table")
        alias = ctx.fresh("q")
        items = [(f"{alias}.{c.name}", c.type, ctx.fresh("x")) for c in kept] or [("1", T.INT, ctx.fresh("x"))]
        made = _select(items, f"({sql}) AS {alias}")
        sql, kept = made.sql, list(made.columns)
    ways = ("", " DESC", " NULLS LAST")
    by = [f"{c.name}{ctx.rnd.choice(ways)}" for c in kept]
    ctx.rnd.shuffle(by)
    if ctx.maybe("order by only", 0.1):
        return Query(f"{sql} ORDER BY {', '.join(by)}", tuple(kept))
    ctx.tag("topk")
    if ctx.asked("undetermined") or ctx.chance(0.05):
        ctx.want.discard("undetermined")
        ctx.tag("open result")
        by = by[:1]
    end = f" LIMIT {ctx.rnd.choice((1, 3, 5, 10))}"
    if ctx.maybe("offset", 0.25):
        end += f" OFFSET {ctx.rnd.choice((1, 2, 5))}"
    return Query(f"{sql} ORDER BY {', '.join(by)}{end}", tuple(kept))


# -- set operations ------------------------------------------------------------------------------------------------

_SETS = {"union": 1.0, "union all": 2.0, "intersect": 1.0, "except": 1.0, "intersect all": 0.6, "except all": 0.6}


def set_operation(ctx: Context, depth: int, subquery: Subquery) -> Query:
    types = [ctx.rnd.choice((T.INT, T.INT, T.STR))]
    types += ctx.rnd.choices(
        (T.STR, T.DATE, T.BOOL, T.DEC, T.DBL, T.INT, T.STRUCT, T.SIGNED), k=ctx.rnd.choice((0, 1, 1))
    )

    def branch() -> Query:
        if ctx.relations <= 0:
            ctx.relations += 1
        if ctx.chance(0.06):
            ctx.want.discard("values")
            made = values(ctx)
            return typed(ctx, From(made.aliased, made.refs), "", types, plain=1.0)
        from_ = from_clause(ctx, min(depth - 1, 0), subquery)
        # Keys and labels: other columns seldom have rows in common.
        keys = tuple(r for r in from_.refs if r.sql.split(".")[-1] in ("k", "g") or r.type not in (T.INT, T.STR))
        test = f" WHERE {predicate(ctx, from_.refs, 1)}" if ctx.chance(0.4) else ""
        return typed(ctx, From(from_.sql, keys or from_.refs), test, types, plain=0.9)

    def word() -> str:
        kind = ctx.pick(_SETS)
        ctx.tag(kind)
        return kind.upper()

    first = branch()
    sql = f"{first.sql} {word()} {branch().sql}"
    if ctx.chance(0.25):
        sql = f"({sql}) {word()} {branch().sql}" if ctx.chance(0.6) else f"{branch().sql} {word()} ({sql})"
        if not sql.startswith("("):
            names = [ctx.fresh("x") for _ in types]
            alias = ctx.fresh("q")
            ctx.tag("derived table")
            listed = f"SELECT * FROM ({sql}) AS {alias}({', '.join(names)})"
            return Query(listed, tuple(Column(n, t) for n, t in zip(names, types, strict=True)))
    return Query(sql, first.columns)


# -- the rest ------------------------------------------------------------------------------------------------------


def pivot(ctx: Context) -> Query:
    ctx.tag("pivot", "derived table")
    base = source(ctx)
    key, what, of = ctx.fresh("x"), ctx.fresh("x"), ctx.fresh("x")
    by = ctx.rnd.choice((T.STR, T.INT))
    beside = T.STR if ctx.maybe("pivot beside texts", 0.4) else T.INT
    inner = (
        f"SELECT {column(ctx, base.refs, beside)} AS {key}, {column(ctx, base.refs, by)} AS {what}, "
        f"{column(ctx, base.refs, T.INT)} AS {of} FROM {base.aliased}"
    )
    # The values may have another type than the column.
    options = ["'a'", "'b'", "'ab'"] if by is T.STR else ctx.rnd.choice((["0", "1", "2"], ["0L", "1L", "2L"]))
    chosen = ctx.rnd.sample(options, 2)
    names = [ctx.fresh("p") for _ in chosen]
    listed = ", ".join(f"{v} AS {n}" for v, n in zip(chosen, names, strict=True))
    if ctx.chance(0.5):
        call, type_ = ctx.rnd.choice(((f"sum({of})", T.BIGINT), (f"max({of})", T.INT), (f"count({of})", T.BIGINT)))
        columns = [Column(key, beside)] + [Column(n, type_) for n in names]
        calls = f"{call} AS v"
    else:
        calls = f"sum({of}) AS s, count(*) AS c"
        columns = [Column(key, beside)]
        columns += [Column(f"{n}_{a}", T.BIGINT) for n in names for a in ("s", "c")]
    return Query(f"SELECT * FROM ({inner}) PIVOT ({calls} FOR {what} IN ({listed}))", tuple(columns))


def unpivot(ctx: Context) -> Query:
    ctx.tag("unpivot", "derived table")
    base = source(ctx)
    key, one, two = ctx.fresh("x"), ctx.fresh("x"), ctx.fresh("x")
    of = ctx.rnd.choice((T.INT, T.STR))
    inner = (
        f"SELECT {column(ctx, base.refs, T.INT)} AS {key}, {column(ctx, base.refs, of)} AS {one}, "
        f"{expression(ctx, base.refs, of, 1)} AS {two} FROM {base.aliased}"
    )
    nulls = " INCLUDE NULLS" if ctx.chance(0.4) else ""
    name, value = ctx.fresh("x"), ctx.fresh("x")
    columns = (Column(key, T.INT), Column(name, T.STR), Column(value, of))
    return Query(f"SELECT * FROM ({inner}) UNPIVOT{nulls} ({value} FOR {name} IN ({one}, {two}))", columns)


def recursive(ctx: Context) -> Query:
    """A walk of bounded depth along pairs of keys."""
    ctx.tag("recursive", "cte")
    start, more = source(ctx), source(ctx)
    name = ctx.fresh("w")
    node, level, label = ctx.fresh("c"), ctx.fresh("c"), ctx.fresh("c")
    first, next_ = column(ctx, start.refs, T.INT), column(ctx, more.refs, T.INT)
    depth = ctx.rnd.choice((1, 2))
    if ctx.chance(0.3):
        step = f"SELECT r.{node} + 1, r.{level} + 1, r.{label} FROM {name} AS r WHERE r.{level} < {depth + 1}"
    else:
        step = (
            f"SELECT {next_}, r.{level} + 1, r.{label} FROM {name} AS r JOIN {more.aliased} "
            f"ON {more.alias}.k = r.{node} WHERE r.{level} < {depth}"
        )
    label_of, test = column(ctx, start.refs, T.STR), predicate(ctx, start.refs, 1)
    anchor = f"SELECT {first}, 0, {label_of} FROM {start.aliased} WHERE {test}"
    ctx.ctes.append(f"{name}({node}, {level}, {label}) AS ({anchor} UNION ALL {step})")
    alias = ctx.fresh("a")
    columns = ((node, T.INT), (level, T.INT), (label, T.STR))
    if ctx.chance(0.3):
        ctx.tag("count")
        x, y = ctx.fresh("x"), ctx.fresh("x")
        sql = f"SELECT {alias}.{level} AS {x}, count(*) AS {y} FROM {name} AS {alias} GROUP BY {alias}.{level}"
        return Query(sql, (Column(x, T.INT), Column(y, T.BIGINT)))
    return _select([(f"{alias}.{n}", t, ctx.fresh("x")) for n, t in columns], f"{name} AS {alias}")


def piped(ctx: Context) -> Query:
    ctx.tag("pipe")
    base = source(ctx)
    parts = [f"FROM {base.aliased}", f"WHERE {predicate(ctx, base.refs, 1)}"]
    key = ctx.rnd.choice(of_type(base.refs, T.INT, T.STR))
    x, y = ctx.fresh("x"), ctx.fresh("x")
    if ctx.chance(0.5):
        ctx.tag("count")
        parts.append(f"AGGREGATE count(*) AS {x} GROUP BY {key.sql} AS {y}")
        columns = (Column(y, key.type), Column(x, T.BIGINT))
    else:
        parts.append(f"SELECT {key.sql} AS {y}, {expression(ctx, base.refs, T.INT, 1)} AS {x}")
        columns = (Column(y, key.type), Column(x, T.INT))
    if ctx.chance(0.4):
        parts.append(f"WHERE {x} > {literal(ctx.rnd, T.INT)}")
    if ctx.chance(0.3):
        parts.append(f"SET {x} = {x} % 5")
    if ctx.chance(0.3):
        alias, z = ctx.fresh("q"), ctx.fresh("x")
        parts += [f"AS {alias}", f"EXTEND {alias}.{x} + 1 AS {z}", f"SELECT {alias}.{y}, {z}"]
        columns = (columns[0], Column(z, columns[1].type))
    elif ctx.chance(0.3):
        parts.append(f"DROP {y}")
        columns = columns[1:]
    return Query(" |> ".join(parts), columns)
