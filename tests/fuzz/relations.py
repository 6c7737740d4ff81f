"""FROM clauses: sources, derived tables, CTEs, VALUES, joins of every kind, lateral items and generators."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from tests.fuzz.context import Context, From, Query
from tests.fuzz.expressions import column, expression, of_type, predicate
from tests.fuzz.types import ACROSS, KEYS, Column, Ref, T, literal

Subquery = Callable[[Context, int], Query]  # how a nested query is made: given by the grammar above


@dataclass(frozen=True)
class Relation:
    sql: str  # without its alias
    alias: str
    columns: tuple[Column, ...]
    renamed: bool = False  # the alias lists the columns too

    @property
    def aliased(self) -> str:
        listed = f"({', '.join(c.name for c in self.columns)})" if self.renamed else ""
        return f"{self.sql} AS {self.alias}{listed}"

    @property
    def refs(self) -> tuple[Ref, ...]:
        return tuple(Ref(f"{self.alias}.{c.name}", c.type) for c in self.columns)


def source(ctx: Context, name: str | None = None) -> Relation:
    ctx.relations -= 1
    named = [t for t in ctx.tables if t.name == name]
    table = named[0] if named else ctx.rnd.choice(ctx.tables)
    return Relation(table.name, ctx.fresh("a"), table.columns)


def derived(ctx: Context, query: Query) -> Relation:
    ctx.tag("derived table")
    return Relation(f"({query.sql})", ctx.fresh("q"), query.columns)


def cte(ctx: Context, query: Query) -> tuple[str, tuple[Column, ...]]:
    ctx.tag("cte")
    name = ctx.fresh("w")
    if ctx.chance(0.2):
        columns = tuple(Column(ctx.fresh("c"), c.type) for c in query.columns)
        ctx.ctes.append(f"{name}({', '.join(c.name for c in columns)}) AS ({query.sql})")
        return name, columns
    ctx.ctes.append(f"{name} AS ({query.sql})")
    return name, query.columns


def values(ctx: Context) -> Relation:
    ctx.tag("values")
    types = (T.INT, ctx.rnd.choice((T.STR, T.DATE, T.DEC)))
    rows = [", ".join(literal(ctx.rnd, t, null=True) for t in types) for _ in range(ctx.rnd.randint(1, 4))]
    columns = tuple(Column(ctx.fresh("v"), t) for t in types)
    sql = "(VALUES " + ", ".join(f"({r})" for r in rows) + ")"
    return Relation(sql, ctx.fresh("q"), columns, renamed=True)


def generated(ctx: Context) -> Relation:
    ctx.tag("generator in from")
    name = ctx.fresh("e")
    if ctx.chance(0.5):
        return Relation(
            f"explode(array({literal(ctx.rnd, T.INT)}, 2, 3))", ctx.fresh("f"), (Column(name, T.INT),), True
        )
    return Relation("range(0, 4)", ctx.fresh("f"), (Column(name, T.BIGINT),), True)


def relation(ctx: Context, depth: int, subquery: Subquery) -> Relation:
    """Something to read. Deep down it is a source."""
    options = {"source": 6.0, "derived table": 2.0, "cte": 1.2, "values": 0.2, "generator in from": 0.2}
    if depth <= 0 or ctx.relations <= 1:
        options = {"source": 6.0}
    chosen = ctx.pick(options)
    if chosen == "derived table":
        return derived(ctx, subquery(ctx, depth - 1))
    if chosen == "cte":
        name, columns = cte(ctx, subquery(ctx, depth - 1))
        return Relation(name, ctx.fresh("a"), columns)
    if chosen == "values":
        return values(ctx)
    if chosen == "generator in from":
        return generated(ctx)
    return source(ctx)


# -- joins ---------------------------------------------------------------------------------------------------------

_JOINS = {
    "inner join": "JOIN",
    "left join": "LEFT JOIN",
    "right join": "RIGHT JOIN",
    "full join": "FULL OUTER JOIN",
    "semi join": "LEFT SEMI JOIN",
    "anti join": "LEFT ANTI JOIN",
    "cross join": "CROSS JOIN",
}
_WEIGHTS = {
    "inner join": 4.0, "left join": 3, "right join": 1, "full join": 1.2, "semi join": 0.8, "anti join": 0.8,
    "cross join": 0.4,
}  # fmt: skip
_LATERALS = ("lateral subquery", "lateral function")
_BY_NAME = ("using", "natural")


def from_clause(ctx: Context, depth: int, subquery: Subquery, first: Relation | None = None) -> From:
    if first is None and (ctx.asked(*_BY_NAME) or (depth > 0 and ctx.relations > 1 and ctx.chance(0.06))):
        ctx.want.discard("by name")
        return _by_name(ctx)
    if first is None and ctx.relations > 1 and ctx.maybe("self join", 0.03):
        start = source(ctx)
        again = Relation(start.sql, ctx.fresh("a"), start.columns)
        made = _join(ctx, From(start.aliased, start.refs), again)
    elif first is None and ctx.relations > 2 and depth > 0 and ctx.maybe("cte twice", 0.03):
        left = ctx.subqueries
        name, columns = cte(ctx, subquery(ctx, depth - 1))
        if ctx.subqueries < left:
            ctx.tag("subquery in cte twice")
        one, two = Relation(name, ctx.fresh("a"), columns), Relation(name, ctx.fresh("a"), columns)
        made = _join(ctx, From(one.aliased, one.refs), two)
    elif first is None and ctx.asked("aggregate below join"):
        made = _aggregate_below(ctx)
    else:
        start = first or relation(ctx, depth, subquery)
        made = From(start.aliased, start.refs)
    wanted = ctx.asked("join", *_JOINS, *_LATERALS, "non-equi condition", "mixed condition")
    ctx.want.discard("join")
    joins = ctx.rnd.choices((0, 1, 2), (4, 5, 0.8))[0]
    for _ in range(max(joins, int(wanted))):
        if ctx.relations <= 0 or made.closed:
            break
        if ctx.asked("lateral", *_LATERALS) or ctx.chance(0.08):
            ctx.want.discard("lateral")
            made = _lateral(ctx, made)
        else:
            made = _join(ctx, made, relation(ctx, depth - 1, subquery))
    views = ("any lateral view", "lateral view", "lateral view outer", "posexplode", "inline", "stack")
    if ctx.asked(*views) or ctx.chance(0.03):
        made = _lateral_view(ctx, made)
    return made


def _join(ctx: Context, left: From, right: Relation) -> From:
    weights = dict(_WEIGHTS)
    if ctx.wide <= 0:
        del weights["cross join"]
    if not ctx.asked("with condition", "non-equi condition", "mixed condition"):
        ctx.want.discard("with condition")
    else:
        weights.pop("cross join", None)
        ctx.want.discard("with condition")
    kind = ctx.pick(weights)
    ctx.tag(kind)
    word = _JOINS[kind]
    if kind == "cross join":
        ctx.wide -= 1
        comma = ctx.chance(0.3)
        sql = f"{left.sql}, {right.aliased}" if comma else f"{left.sql} CROSS JOIN {right.aliased}"
        return From(sql, (*left.refs, *right.refs), closed=comma)
    sql = f"{left.sql} {word} {right.aliased} ON {_condition(ctx, left.refs, right.refs)}"
    if kind in ("semi join", "anti join"):
        return From(sql, left.refs)
    return From(sql, (*left.refs, *right.refs))


def _condition(ctx: Context, left: tuple[Ref, ...], right: tuple[Ref, ...]) -> str:
    kinds = {"equi condition": 5.0, "mixed condition": 1.5}
    if ctx.wide > 0:
        kinds["non-equi condition"] = 0.8
    kind = ctx.pick(kinds)
    ctx.tag(kind)
    if kind == "equi condition":
        equal = _equality(ctx, left, right)
        return f"{equal} AND {_equality(ctx, left, right)}" if ctx.chance(0.15) else equal
    if kind == "mixed condition":
        more = _inequality(ctx, left, right) if ctx.chance(0.6) else predicate(ctx, (*left, *right), 1)
        return f"{_equality(ctx, left, right)} AND {more}"
    ctx.wide -= 1
    return _inequality(ctx, left, right) if ctx.chance(0.7) else f"{predicate(ctx, (*left, *right), 1)}"


def _pair(ctx: Context, left: tuple[Ref, ...], right: tuple[Ref, ...], types: tuple[T, ...]) -> tuple[str, str, T]:
    """Columns of both sides of one type; the keys of sources more often than others."""
    shared = [t for t in types if of_type(left, t) and of_type(right, t)]
    type_ = ctx.rnd.choice(shared) if shared else T.INT
    if T.INT in shared and ctx.chance(0.75):
        type_ = T.INT
    return _liked(ctx, left, type_), _liked(ctx, right, type_), type_


def _liked(ctx: Context, refs: tuple[Ref, ...], type_: T) -> str:
    keys = [r for r in refs if r.type is type_ and r.sql.endswith((".k", ".g"))]
    if keys and ctx.chance(0.8):
        return ctx.rnd.choice(keys).sql
    return column(ctx, refs, type_)


def _equality(ctx: Context, left: tuple[Ref, ...], right: tuple[Ref, ...]) -> str:
    if (ctx.asked("comparison across types") or ctx.chance(0.05)) and (pair := _across(ctx, left, right)):
        ctx.tag("comparison across types")
        return f"{pair[0]} {ctx.rnd.choice(('=', '=', '<=>'))} {pair[1]}"
    a, b, _ = _pair(ctx, left, right, (*KEYS, T.DEC, T.DBL, T.BIGINT, T.SIGNED, T.FAR, T.WIDE))
    return f"{a} {ctx.rnd.choice(('=', '=', '=', '<=>'))} {b}"


def _across(ctx: Context, left: tuple[Ref, ...], right: tuple[Ref, ...]) -> tuple[str, str] | None:
    """Columns of both sides with different types that Spark compares, if there are any."""
    both = (*ACROSS, *((b, a) for a, b in ACROSS))
    found = [(a, b) for a, b in both if of_type(left, a) and of_type(right, b)]
    if not found:
        return None
    one, two = ctx.rnd.choice(found)
    return _liked(ctx, left, one), _liked(ctx, right, two)


def _inequality(ctx: Context, left: tuple[Ref, ...], right: tuple[Ref, ...]) -> str:
    a, b, type_ = _pair(ctx, left, right, (T.INT, T.BIGINT, T.DEC, T.STR, T.DATE, T.DBL))
    if type_ is T.INT and ctx.chance(0.3):
        return f"{a} BETWEEN {b} AND {b} + 1"
    return f"{a} {ctx.rnd.choice(('<', '<=', '>', '<>'))} {b}"


def _by_name(ctx: Context) -> From:
    """USING and NATURAL joins of two sources: the joined column has no table name."""
    natural = ctx.pick({"using": 1.0, "natural": 1.0}) == "natural"
    ctx.tag("natural" if natural else "using")
    left, right = source(ctx), source(ctx)
    while right.sql == left.sql:  # columns of one table have the same names on both sides
        ctx.relations += 1
        right = source(ctx)
    shared = [c for c in left.columns if c.name in {d.name for d in right.columns}]
    if not natural and ctx.chance(0.6):
        shared = [c for c in shared if c.name == "k"]
    # Spark refuses NATURAL semi and anti joins.
    out = ("cross join", "semi join", "anti join") if natural else ("cross join",)
    options = {k: w for k, w in _WEIGHTS.items() if k not in out}
    kind = ctx.pick(options)
    ctx.tag(kind)
    names = ", ".join(c.name for c in shared)
    word = _JOINS[kind]
    sql = (
        f"{left.aliased} NATURAL {word} {right.aliased}"
        if natural
        else f"{left.aliased} {word} {right.aliased} USING ({names})"
    )
    common = {c.name for c in shared}
    refs = [Ref(c.name, c.type) for c in shared]
    sides = (left,) if kind in ("semi join", "anti join") else (left, right)
    for side in sides:
        refs += [Ref(f"{side.alias}.{c.name}", c.type) for c in side.columns if c.name not in common]
    return From(sql, tuple(refs))


def _aggregate_below(ctx: Context) -> From:
    """A source joined with a grouped subquery."""
    ctx.tag("aggregate below join", "derived table", "count", "sum")
    outer, inner = source(ctx), source(ctx)
    key = column(ctx, inner.refs, T.INT)
    total = expression(ctx, inner.refs, ctx.rnd.choice((T.INT, T.BIGINT, T.DEC)), 1)
    names = ctx.fresh("x"), ctx.fresh("x"), ctx.fresh("x")
    having = " HAVING count(*) > 1" if ctx.maybe("having", 0.2) else ""
    sql = (
        f"(SELECT {key} AS {names[0]}, count(*) AS {names[1]}, sum({total}) AS {names[2]} "
        f"FROM {inner.aliased} GROUP BY {key}{having})"
    )
    columns = (Column(names[0], T.INT), Column(names[1], T.BIGINT), Column(names[2], T.BIGINT))
    grouped = Relation(sql, ctx.fresh("q"), columns)
    return _join(ctx, From(outer.aliased, outer.refs), grouped)


# -- lateral items -------------------------------------------------------------------------------------------------


def _lateral(ctx: Context, left: From) -> From:
    kind = ctx.pick({"lateral subquery": 2.0, "lateral function": 1.0})
    ctx.tag(kind)
    if kind == "lateral function":
        name = ctx.fresh("e")
        call = f"LATERAL {ctx.rnd.choice(('explode', 'explode_outer'))}({column(ctx, left.refs, T.INTS)})"
        made = Relation(call, ctx.fresh("f"), (Column(name, T.INT),), renamed=True)
        return From(f"{left.sql}, {made.aliased}", (*left.refs, *made.refs), closed=True)
    inner = source(ctx)
    on = correlation(ctx, left.refs, inner.refs)
    names = ctx.fresh("x"), ctx.fresh("x")
    if ctx.chance(0.5):
        ctx.tag("count")
        what = f"count(*) AS {names[0]}, max({column(ctx, inner.refs, T.STR)}) AS {names[1]}"
        columns = (Column(names[0], T.BIGINT), Column(names[1], T.STR))
        tail = ""
    else:
        one, two = column(ctx, inner.refs, T.INT), column(ctx, inner.refs, T.STR)
        what = f"{one} AS {names[0]}, {two} AS {names[1]}"
        columns = (Column(names[0], T.INT), Column(names[1], T.STR))
        tail = f" ORDER BY {names[0]}, {names[1]} LIMIT 2" if ctx.chance(0.25) else ""
    made = Relation(f"LATERAL (SELECT {what} FROM {inner.aliased} WHERE {on}{tail})", ctx.fresh("l"), columns)
    word = ctx.rnd.choice((",", " JOIN", " LEFT JOIN"))
    end = "" if word == "," else " ON true"
    return From(f"{left.sql}{word} {made.aliased}{end}", (*left.refs, *made.refs), closed=word == ",")


def correlation(ctx: Context, outer: tuple[Ref, ...], inner: tuple[Ref, ...]) -> str:
    """A condition of a subquery that looks at a row outside."""
    if (ctx.asked("correlated across types") or ctx.chance(0.1)) and (pair := _across(ctx, inner, outer)):
        ctx.tag("correlated across types")
        a, b = pair
    else:
        a, b, _ = _pair(ctx, inner, outer, KEYS)
    on = f"{a} {ctx.rnd.choice(('=', '=', '=', '=', '<=>'))} {b}"
    return f"{on} AND {predicate(ctx, inner, 1)}" if ctx.chance(0.4) else on


def _lateral_view(ctx: Context, made: From) -> From:
    ctx.want.discard("any lateral view")
    outer = ctx.pick({"lateral view": 1.0, "lateral view outer": 1.0}) == "lateral view outer"
    ctx.tag("lateral view outer" if outer else "lateral view")
    word = "LATERAL VIEW OUTER" if outer else "LATERAL VIEW"
    kind = ctx.pick({"explode": 3.0, "posexplode": 1, "inline": 1, "stack": 0.7, "explode map": 0.7})
    if kind in ("posexplode", "inline", "stack"):
        ctx.tag(kind)
    alias = ctx.fresh("f")
    one, two = ctx.fresh("e"), ctx.fresh("e")
    if kind == "explode":
        call, columns = f"explode({column(ctx, made.refs, T.INTS)})", [(one, T.INT)]
    elif kind == "posexplode":
        call, columns = f"posexplode({column(ctx, made.refs, T.STRS)})", [(one, T.INT), (two, T.STR)]
    elif kind == "inline":
        call, columns = f"inline({column(ctx, made.refs, T.STRUCTS)})", [(one, T.INT), (two, T.STR)]
    elif kind == "stack":
        a, b = column(ctx, made.refs, T.INT), column(ctx, made.refs, T.INT)
        call, columns = f"stack(2, {a}, 'p', {b}, 'q')", [(one, T.INT), (two, T.STR)]
    else:
        call, columns = f"explode({column(ctx, made.refs, T.MAP)})", [(one, T.STR), (two, T.INT)]
    listed = ", ".join(n for n, _ in columns)
    refs = tuple(Ref(f"{alias}.{n}", t) for n, t in columns)
    return From(f"{made.sql} {word} {call} {alias} AS {listed}", (*made.refs, *refs))
