"""Expressions that can fail, over two tables in which they do not.

`tcode` has texts, divisors and arrays, `tkind` says by key what may be done with them. A key is *open* or *shut*. Of an
open key every code is a number, no divisor is zero, every array has two elements, and `tkind` has at most one row; of a
shut key nothing of this holds, `tkind` has no row of kind 'num', and no code asks. So a query that looks at the kind
first never fails. Keys open and shut between two refreshes: a pair of an old row and a new one, which never existed,
would fail.
"""

from __future__ import annotations

import random
from collections.abc import Iterator

from tests.engine.workload import KINDS, Source
from tests.fuzz.context import Context, Query
from tests.fuzz.schema import Table
from tests.fuzz.types import Column, T

KEYS = range(6)
_OPEN = (
    ("'1'", "'7'", "'12'", "' 3'"),
    ("1", "2", "5"),
    ("'2024-01-01'", "'2024-02-29'"),
    ("array(1, 2)", "array(3, 4, 5)"),
)
_SHUT = (
    ("'x'", "''", "CAST(X'FF' AS STRING)", "'1e'"),
    ("0", "0", "NULL"),
    ("'soon'", "'2024-13-01'"),
    ("array()", "array(1)"),
)
_CODE = Source(
    "tcode",
    (("k", "INT"), ("code", "STRING"), ("den", "INT"), ("day", "STRING"), ("arr", "ARRAY<INT>"), ("ask", "BOOLEAN")),
    ((), (), (), (), (), ()),
    "k",
)
_KIND = Source("tkind", (("k", "INT"), ("kind", "STRING"), ("lim", "INT")), ((), (), ()), "k")
_TYPES = {"INT": T.INT, "STRING": T.STR, "BOOLEAN": T.BOOL, "ARRAY<INT>": T.INTS}
Rows = list[tuple[str, ...]]
Open = frozenset[int]


def tables(rnd: random.Random) -> tuple[Table, Table]:
    def table(source: Source) -> Table:
        return Table(source, tuple(Column(n, _TYPES[t]) for n, t in source.columns), rnd.choice(KINDS), 0, guarded=True)

    return table(_CODE), table(_KIND)


def some_open(rnd: random.Random) -> Open:
    return frozenset(rnd.sample(KEYS, rnd.choice((2, 3, 4))))


def codes(rnd: random.Random, key: int, open_: Open) -> Rows:
    pools = _OPEN if key in open_ else _SHUT

    def one() -> tuple[str, ...]:
        ask = rnd.choice(("true", "true", "false")) if key in open_ else rnd.choice(("false", "NULL"))
        return (str(key), *(rnd.choice(p) for p in pools), ask)

    return [one() for _ in range(rnd.choice((1, 1, 2)))]


def kinds(rnd: random.Random, key: int, open_: Open) -> Rows:
    if key in open_:
        return [(str(key), rnd.choice(("'num'", "'num'", "'num'", "'text'")), rnd.choice("159"))][
            : rnd.choice((1, 1, 1, 0))
        ]
    return [(str(key), rnd.choice(("'text'", "NULL")), rnd.choice("159")) for _ in range(rnd.choice((0, 1, 2, 2)))]


def rows(rnd: random.Random, open_: Open) -> tuple[Rows, Rows]:
    """What the two tables have."""
    return [r for k in KEYS for r in codes(rnd, k, open_)], [r for k in KEYS for r in kinds(rnd, k, open_)]


def creation(rnd: random.Random, both: tuple[Table, Table], open_: Open) -> list[str]:
    statements = [t.source.create(t.kind) for t in both]
    for table, some in zip(both, rows(rnd, open_), strict=True):
        statements.append(f"INSERT INTO {table.name} {table.source.rows(some)}")
    return statements


def step(rnd: random.Random, both: tuple[Table, Table], old: Open, new: Open) -> list[str]:
    """Statements that take the tables from one set of open keys to another; rows are repaired or replaced."""
    code, kind = both
    keys = sorted(old ^ new | set(rnd.sample(KEYS, 1)))
    repaired = [k for k in keys if k in new - old and rnd.random() < 0.6]
    statements = []
    if repaired:
        values = dict(zip(("code", "den", "day", "arr"), (rnd.choice(p) for p in _OPEN), strict=True))
        set_ = ", ".join(f"{name} = {value}" for name, value in values.items())
        statements.append(f"UPDATE {code.name} SET {set_}, ask = true WHERE k IN ({', '.join(map(str, repaired))})")
    replaced = [k for k in keys if k not in repaired]
    statements += _replaced(code, replaced, [r for k in replaced for r in codes(rnd, k, new)])
    statements += _replaced(kind, keys, [r for k in keys for r in kinds(rnd, k, new)])
    return statements


def _replaced(table: Table, keys: list[int], rows: Rows) -> Iterator[str]:
    if keys:
        yield f"DELETE FROM {table.name} WHERE k IN ({', '.join(map(str, keys))})"
    if rows:
        yield f"INSERT INTO {table.name} {table.source.rows(rows)}"


# -- queries -------------------------------------------------------------------------------------------------------

_EXPRESSIONS = {
    "failing cast": (("CAST({c}.code AS INT)", T.INT), ("CAST({c}.code AS INT) + {t}.lim", T.INT)),
    "failing division": (
        ("100 DIV {c}.den", T.BIGINT),
        ("100 % {c}.den", T.INT),
        ("CAST({t}.lim / {c}.den AS INT)", T.INT),
    ),
    "failing element": (("element_at({c}.arr, 2)", T.INT), ("{c}.arr[1]", T.INT)),
    "failing date": (("CAST({c}.day AS DATE)", T.DATE), ("year(CAST({c}.day AS DATE))", T.INT)),
    "raised error": (
        ("CASE WHEN {c}.den = 0 THEN CAST(raise_error('a row that never was') AS INT) ELSE {c}.den END", T.INT),
    ),
}  # fmt: skip


def guarded(ctx: Context) -> Query:
    """A query over the two tables that fails for no row of either state."""
    if ctx.asked("one row of several") or (not ctx.asked(*_EXPRESSIONS) and ctx.chance(0.15)):
        return _one_row(ctx)
    kind = ctx.pick(dict.fromkeys(_EXPRESSIONS, 1.0))
    ctx.tag(kind)
    c, t = ctx.fresh("a"), ctx.fresh("a")
    form, type_ = ctx.rnd.choice(_EXPRESSIONS[kind])
    value = form.format(c=c, t=t)
    numeric = type_ in (T.INT, T.BIGINT)
    on, is_num = f"{c}.k = {t}.k", f"{t}.kind = 'num'"
    guarded_value = f"CASE WHEN {is_num} THEN {value} END"
    x, y, z = ctx.fresh("x"), ctx.fresh("x"), ctx.fresh("x")
    sides = ctx.rnd.choice((("s.tcode", c, "s.tkind", t), ("s.tkind", t, "s.tcode", c)))
    word, join = ctx.rnd.choice((("inner join", "JOIN"), ("left join", "LEFT JOIN"), ("inner join", "JOIN")))
    from_ = f"{sides[0]} AS {sides[1]} {join} {sides[2]} AS {sides[3]} ON {on}"
    place = ctx.rnd.choice(("select", "where", "filter", "sum", "group", "on", "exists", "window", "derived", "having"))
    if place not in ("exists", "on"):
        ctx.tag(word)
    if place == "where":  # the guard before the value, which needs both tables
        test = f"{value} > {t}.lim" if numeric else f"{value} > make_date(2000 + {t}.lim, 1, 1)"
        test = f"CASE WHEN {is_num} THEN {test} ELSE {t}.lim > 1 END"
        sql = f"SELECT {c}.k AS {x}, {t}.lim AS {y} FROM {from_} WHERE {test}"
        return Query(sql, (Column(x, T.INT), Column(y, T.INT)))
    if place == "filter":
        sql = f"SELECT {c}.k AS {x}, {value} AS {y} FROM s.tcode AS {c} JOIN s.tkind AS {t} ON {on} WHERE {is_num}"
        return Query(sql, (Column(x, T.INT), Column(y, type_)))
    if place == "sum":
        call, of = (f"sum({guarded_value})", T.BIGINT) if numeric else (f"max({guarded_value})", type_)
        ctx.tag("sum" if numeric else "min max")
        sql = f"SELECT {c}.k AS {x}, {call} AS {y}, count(*) AS {z} FROM {from_} GROUP BY {c}.k"
        return Query(sql, (Column(x, T.INT), Column(y, of), Column(z, T.BIGINT)))
    if place == "group":
        ctx.tag("group by expression", "count")
        sql = f"SELECT {guarded_value} AS {x}, count(*) AS {y} FROM {from_} GROUP BY {guarded_value}"
        return Query(sql, (Column(x, type_), Column(y, T.BIGINT)))
    if place == "on":
        ctx.tag("left join", "mixed condition")
        test = f"CASE WHEN {is_num} THEN {value} IS NOT NULL ELSE false END"
        sql = f"SELECT {c}.k AS {x}, {t}.lim AS {y} FROM s.tcode AS {c} LEFT JOIN s.tkind AS {t} ON {on} AND {test}"
        return Query(sql, (Column(x, T.INT), Column(y, T.INT)))
    if place == "exists":
        ctx.tag("exists", "correlated")
        test = f"CASE WHEN {is_num} THEN {value} IS NOT NULL ELSE false END"
        sql = (
            f"SELECT {c}.k AS {x} FROM s.tcode AS {c} WHERE EXISTS (SELECT 1 FROM s.tkind AS {t} WHERE {on} AND {test})"
        )
        return Query(sql, (Column(x, T.INT),))
    if place == "window":
        ctx.tag("aggregate over window", "window without order")
        call = f"max({guarded_value}) OVER (PARTITION BY {c}.k)"
        return Query(f"SELECT {c}.k AS {x}, {call} AS {y} FROM {from_}", (Column(x, T.INT), Column(y, type_)))
    if place == "derived":
        ctx.tag("derived table")
        q = ctx.fresh("q")
        inner = f"SELECT {c}.k AS {x}, {guarded_value} AS {y} FROM {from_}"
        sql = f"SELECT {q}.{x} AS {z}, {q}.{y} AS {y} FROM ({inner}) AS {q} JOIN s.tkind AS {q}t ON {q}.{x} = {q}t.k"
        return Query(sql, (Column(z, T.INT), Column(y, type_)))
    if place == "having":
        ctx.tag("having", "count")
        test = f"count({guarded_value}) > 0"
        sql = f"SELECT {c}.k AS {x}, count(*) AS {y} FROM {from_} GROUP BY {c}.k HAVING {test}"
        return Query(sql, (Column(x, T.INT), Column(y, T.BIGINT)))
    sql = f"SELECT {c}.k AS {x}, {guarded_value} AS {y}, {t}.lim AS {z} FROM {from_}"
    return Query(sql, (Column(x, T.INT), Column(y, type_), Column(z, T.INT)))


def _one_row(ctx: Context) -> Query:
    """A scalar subquery that has several rows for keys nobody asks for."""
    ctx.tag("one row of several", "scalar subquery", "correlated scalar subquery", "correlated")
    c, t, x, y = ctx.fresh("a"), ctx.fresh("a"), ctx.fresh("x"), ctx.fresh("x")
    value = f"(SELECT {t}.lim FROM s.tkind AS {t} WHERE {t}.k = {c}.k)"
    if ctx.chance(0.3):
        ctx.tag("sum")
        sql = f"SELECT {c}.k AS {x}, sum({value}) AS {y} FROM s.tcode AS {c} WHERE {c}.ask GROUP BY {c}.k"
        return Query(sql, (Column(x, T.INT), Column(y, T.BIGINT)))
    ctx.tag("subquery in select list")
    sql = f"SELECT {c}.k AS {x}, {value} AS {y} FROM s.tcode AS {c} WHERE {c}.ask"
    return Query(sql, (Column(x, T.INT), Column(y, T.INT)))
