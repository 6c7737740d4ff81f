"""Sources of every kind, random changes to them, and definitions over them: the material of the invariant tests.

Values come from small pools, so that duplicates, equal keys, NULLs, NaN and both zeros meet all the time. A change
is plain SQL text: what a failing test prints can be run again by hand.
"""

from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import dataclass, field, replace

from hypothesis import strategies as st

# (format version, how deletes, updates and merges are written)
KINDS = ((2, "copy-on-write"), (2, "merge-on-read"), (3, "copy-on-write"), (3, "merge-on-read"))

_STRINGS = ("NULL", "''", "'a'", "'b'", "'it''s'", "'say \"hi\"'", "'Ünï — 雪 💧'", "'a`b\\\\c'")
_DOUBLES = ("NULL", "double('NaN')", "-0.0D", "0.0D", "1.5D", "-2.25D", "double('Infinity')")
_KEYS = ("NULL", "0", "1", "2", "3")


@dataclass(frozen=True)
class Source:
    name: str
    columns: tuple[tuple[str, str], ...]  # name as written in SQL, type
    pools: tuple[tuple[str, ...], ...]  # SQL literals, one pool per column
    key: str  # what conditions and MERGE look at; its pool are whole numbers and NULL

    @property
    def key_pool(self) -> tuple[str, ...]:
        return self.pools[[c for c, _ in self.columns].index(self.key)]

    def create(self, kind: tuple[int, str]) -> str:
        version, how = kind
        listed = ", ".join(f"{c} {t}" for c, t in self.columns)
        modes = "".join(f", 'write.{what}.mode' = '{how}'" for what in ("delete", "update", "merge"))
        return f"CREATE TABLE s.{self.name} ({listed}) TBLPROPERTIES ('format-version' = '{version}'{modes})"

    def rows(self, rows: Sequence[Sequence[str]]) -> str:
        """A query that gives these rows under the names and types of the source."""
        names = [f"c{n}" for n in range(len(self.columns))]
        typed = ", ".join(f"CAST({n} AS {t}) AS {c}" for n, (c, t) in zip(names, self.columns, strict=True))
        values = ", ".join(f"({', '.join(r)})" for r in rows)
        return f"SELECT {typed} FROM VALUES {values} AS v({', '.join(names)})"

    def random_rows(self, rnd: random.Random, n: int) -> list[tuple[str, ...]]:
        return [tuple(rnd.choice(p) for p in self.pools) for _ in range(n)]


FACTS = Source(
    "facts",
    (
        ("id", "BIGINT"),
        ("k", "INT"),
        ("d", "DOUBLE"),
        ("m", "DECIMAL(12,2)"),
        ("dt", "DATE"),
        ("ts", "TIMESTAMP"),
        ("b", "BINARY"),
        ("s", "STRING"),
        ("st", "STRUCT<a: INT, x: DOUBLE>"),
        ("ar", "ARRAY<DOUBLE>"),
        ("mp", "MAP<STRING, INT>"),
        ("ok", "BOOLEAN"),
    ),
    (
        tuple(map(str, range(12))),
        _KEYS,
        _DOUBLES,
        ("NULL", "0.00", "0.10", "-3.33", "9999999999.99"),
        ("NULL", "DATE'1970-01-01'", "DATE'2024-02-29'", "DATE'1582-10-15'"),
        ("NULL", "TIMESTAMP'2024-02-29 23:59:59.999999'", "TIMESTAMP'1969-12-31 00:00:00'"),
        ("NULL", "X''", "X'00'", "X'00FF'"),
        _STRINGS,
        (
            "NULL",
            "named_struct('a', 1, 'x', -0.0D)",
            "named_struct('a', 1, 'x', 0.0D)",
            "named_struct('a', CAST(NULL AS INT), 'x', double('NaN'))",
        ),
        ("NULL", "array()", "array(0.0D, NULL)", "array(-0.0D, NULL)", "array(double('NaN'), 1.5D)"),
        ("NULL", "map()", "map('a', 1, 'b', NULL)", "map('b', NULL, 'a', 1)", "map('it''s', 2)"),
        ("NULL", "true", "false"),
    ),
    "k",
)
DIMS = Source(
    "dims",
    (("k", "INT"), ("name", "STRING"), ("o", "INT"), ("w", "DOUBLE"), ("n", "DECIMAL(10,3)")),
    (_KEYS, _STRINGS, _KEYS, _DOUBLES, ("NULL", "0.001", "2.500", "-1.000")),
    "k",
)
LABELS = Source(
    "labels",
    (("o", "INT"), ("lo", "SMALLINT"), ("hi", "BIGINT"), ("label", "STRING")),
    (_KEYS, _KEYS, _KEYS, _STRINGS),
    "o",
)
ODD = Source(
    "odd",
    (
        ("s", "INT"),
        ("d", "DATE"),
        ("k", "STRING"),
        ("f", "BOOLEAN"),
        ("o", "STRING"),
        ("n", "BIGINT"),
        ("`select`", "INT"),
        ("`wei``rd x`", "STRING"),
        ("`größe`", "DECIMAL(27,4)"),
    ),
    (
        _KEYS,
        ("NULL", "DATE'2000-01-01'", "DATE'2000-01-02'"),
        _STRINGS,
        ("NULL", "true", "false"),
        _STRINGS,
        ("NULL", "1", "2", "-5"),
        _KEYS,
        _STRINGS,
        ("NULL", "1.0001", "12345678901234567890123.4567"),
    ),
    "`select`",
)
SOURCES = (FACTS, DIMS, LABELS, ODD)


# -- changes -------------------------------------------------------------------------------------------------------


@st.composite
def rows(draw: st.DrawFn, source: Source, most: int = 8) -> list[tuple[str, ...]]:
    """Rows, some of them several times."""
    one = st.tuples(*map(st.sampled_from, source.pools))
    some = draw(st.lists(one, min_size=1, max_size=most))
    return some + draw(st.lists(st.sampled_from(some), max_size=3))


@st.composite
def condition(draw: st.DrawFn, source: Source) -> str:
    """Holds for some of the rows."""
    at = draw(st.integers(0, len(source.columns) - 1))
    (name, type_), value = source.columns[at], draw(st.sampled_from(source.pools[at]))
    if type_.startswith("MAP"):
        return f"{name} IS NULL"
    return f"{name} <=> CAST({value} AS {type_})"


@st.composite
def change(draw: st.DrawFn, source: Source) -> list[str]:
    """One or two statements that change the source."""
    t = f"s.{source.name}"
    names = [c for c, _ in source.columns]
    kind = draw(st.sampled_from(_CHANGES))
    where = draw(condition(source))
    if kind == "insert":
        return [f"INSERT INTO {t} {source.rows(draw(rows(source)))}"]
    if kind == "copy":
        return [f"INSERT INTO {t} SELECT * FROM {t} WHERE {where} LIMIT 5"]
    if kind == "update":
        at = draw(st.integers(0, len(names) - 1))
        value = draw(st.sampled_from(source.pools[at]))
        return [f"UPDATE {t} SET {names[at]} = CAST({value} AS {source.columns[at][1]}) WHERE {where}"]
    if kind == "same":
        return [f"UPDATE {t} SET {source.key} = {source.key} WHERE {where}"]
    if kind == "move":
        return [f"UPDATE {t} SET {source.key} = (coalesce({source.key}, 0) + 1) % 4 WHERE {where}"]
    if kind == "delete":
        return [f"DELETE FROM {t} WHERE {where}"]
    if kind == "keep":
        return [f"DELETE FROM {t} WHERE NOT ({where})", f"INSERT INTO {t} {source.rows(draw(rows(source)))}"]
    if kind == "merge":
        return [_merge(source, t, draw(rows(source, 4)), where)]
    if kind == "overwrite":
        more = source.rows(draw(rows(source)))
        return [f"INSERT OVERWRITE {t} SELECT * FROM {t} WHERE NOT ({where}) UNION ALL {more}"]
    if kind == "compact":
        return [f"CALL lake.system.rewrite_data_files(table => '{t}', options => map('rewrite-all', 'true'))"]
    empty = {"truncate": f"TRUNCATE TABLE {t}", "delete all": f"DELETE FROM {t}"}[kind]
    return [empty, f"INSERT INTO {t} {source.rows(draw(rows(source)))}"] if draw(st.booleans()) else [empty]


_CHANGES = (
    *("insert", "insert", "copy", "update", "update", "same", "move", "delete", "delete", "keep"),
    *("merge", "merge", "merge", "overwrite", "compact", "truncate", "delete all"),
)


def _merge(source: Source, t: str, rows: Sequence[Sequence[str]], where: str) -> str:
    key = [c for c, _ in source.columns].index(source.key)
    by_key = {r[key]: r for r in rows}  # a row must not match twice
    names = [c for c, _ in source.columns]
    last = names[-1]
    return (
        f"MERGE INTO {t} t USING ({source.rows(list(by_key.values()))}) u ON t.{source.key} <=> u.{source.key} "
        f"WHEN MATCHED AND t.{where} THEN DELETE "
        f"WHEN MATCHED THEN UPDATE SET {names[1]} = u.{names[1]}, {last} = u.{last} WHEN NOT MATCHED THEN INSERT *"
    )


@st.composite
def step(draw: st.DrawFn) -> list[str]:
    """Changes to all sides of the three-table join at once, and sometimes to the other source."""
    changed = draw(st.permutations([FACTS, DIMS, LABELS])) + draw(st.sampled_from([[ODD], [ODD], []]))
    statements: list[str] = []
    for source in changed:
        # At least one change that surely is one: a condition may hold for no row.
        parts = [[f"INSERT INTO s.{source.name} {source.rows(draw(rows(source)))}"]]
        parts += draw(st.lists(change(source), min_size=2, max_size=4))
        for part in draw(st.permutations(parts)):
            statements += part
    return statements


# -- definitions ---------------------------------------------------------------------------------------------------

VIEWS = (
    "CREATE VIEW s.v_inner AS SELECT k, s, m, d FROM s.facts WHERE k IS NOT NULL OR d = 0",
    "CREATE VIEW s.v_outer (kk, what, total) AS SELECT v.k, upper(v.s), v.m * 2 FROM s.v_inner v WHERE v.m > -1",
)


@dataclass(frozen=True)
class Definition:
    name: str
    sql: str
    reads: tuple[str, ...]  # sources it depends on, through views and stream tables too
    bags: tuple[str, ...] = ()  # arrays in an open order
    open: tuple[str, ...] = field(default=())  # columns whose value SQL leaves open, or rounds by order

    @property
    def over_stream_tables(self) -> bool:
        return "s.chain_" in self.sql

    def twin(self) -> Definition:
        """The same under another name."""
        return replace(self, name=f"{self.name}_twin")


F, D, L, O = ("facts",), ("dims",), ("labels",), ("odd",)  # noqa: E741

DEFINITIONS = (
    Definition("filtered", "SELECT * FROM s.facts WHERE d > 0 OR s LIKE '%''%' OR ok IS NULL", F),
    Definition(
        "projected",
        """SELECT id, CASE WHEN k > 1 THEN 'big' WHEN k IS NULL THEN 'it''s none' ELSE upper(s) END AS c,
           cast(d AS STRING) AS text, cast(m AS DOUBLE) / 3 AS third, date_add(dt, k) AS later,
           date_format(ts, 'yyyy-MM') AS month, st.a + 1 AS a1, cast(st.x AS STRING) AS x, array_contains(ar, 0) AS has,
           size(ar) AS len, mp['a'] AS a, hex(b) AS h, transform(ar, e -> cast(e AS STRING)) AS texts,
           named_struct('k', k, 'f', array(s)) AS nested
           FROM s.facts""",
        F,
    ),
    Definition(
        "joined",
        """SELECT f.id, g.name, h.label, f.m * g.n AS v FROM s.facts f JOIN s.dims g ON f.k = g.k
           JOIN s.labels h ON g.o = h.o AND h.lo <= f.id""",
        F + D + L,
    ),
    Definition(
        "self_joined",
        "SELECT a.id AS x, b.id AS y, a.d FROM s.facts a JOIN s.facts b ON a.d = b.d AND a.id < b.id AND a.k <=> b.k",
        F,
    ),
    Definition(
        "ranges",
        "SELECT g.name, h.label, h.hi FROM s.dims g, s.labels h WHERE g.o BETWEEN h.lo AND h.hi OR g.w <> 0",
        D + L,
    ),
    Definition("crossed", "SELECT g.k, g.w, h.label FROM s.dims g CROSS JOIN s.labels h", D + L),
    Definition("using_", "SELECT * FROM s.dims JOIN s.labels USING (o) WHERE label <> 'a'", D + L),
    Definition("natural_", "SELECT * FROM s.labels NATURAL JOIN s.dims", D + L),
    Definition(
        "widened",
        "SELECT k AS v, s FROM s.facts UNION ALL SELECT n, name FROM s.dims UNION ALL SELECT lo, label FROM s.labels",
        F + D + L,
    ),
    Definition("united", "SELECT k, d, s FROM s.facts UNION SELECT o, w, name FROM s.dims", F + D),
    Definition("unique_rows", "SELECT DISTINCT d, st, ar, s FROM s.facts", F),
    Definition(
        "algebra",
        """SELECT k, count(*) AS n, count(d) AS nd, sum(id) AS si, sum(m) AS sm, min(dt) AS lo, max(s) AS hi,
           min(b) AS mb, max(ts) AS mt, bool_and(ok) AS every_, bool_or(ok) AS some_, count_if(d > 0) AS pos,
           sum(m) FILTER (WHERE ok) AS smf, count(*) FILTER (WHERE s > 'a') AS nf, max(m) FILTER (WHERE NOT ok) AS mf
           FROM s.facts GROUP BY k""",
        F,
    ),
    Definition(
        "recomputed",
        """SELECT k, ok, count(DISTINCT s) AS ds, sum(DISTINCT m) AS dm, sum(d) AS sd, avg(id) AS ai, avg(m) AS am,
           min(d) AS lo, max(d) AS hi, avg(d) FILTER (WHERE d < 10) AS af, count(DISTINCT d, st) AS dd
           FROM s.facts GROUP BY k, ok""",
        F,
    ),
    Definition(
        "by_expression",
        "SELECT year(dt) + 1 AS next, concat(coalesce(s, '?'), '!') AS t, count(*) AS n, sum(m) + count(*) AS e "
        "FROM s.facts GROUP BY year(dt), coalesce(s, '?')",
        F,
    ),
    Definition(
        "by_ordinal", "SELECT cast(d AS INT) % 2 AS p, sum(id) AS t, ok FROM s.facts WHERE d < 9 GROUP BY 1, 3", F
    ),
    Definition("by_alias", "SELECT lower(s) AS what, max(dt) AS hi FROM s.facts GROUP BY what", F),
    Definition("by_all", "SELECT k, b, min(id) AS lo, count(*) AS n FROM s.facts GROUP BY ALL", F),
    Definition(
        "having_",
        """SELECT k, sum(m) AS total, sum(m) / count(*) + max(id) AS e FROM s.facts GROUP BY k
           HAVING count(*) > 4 AND max(s) IS NOT NULL""",
        F,
    ),
    Definition("hidden_keys", "SELECT count(*) AS c, sum(id) AS t FROM s.facts GROUP BY st, ok", F),
    Definition(
        "whole",
        "SELECT count(*) AS n, sum(m) AS t, min(s) AS lo, max(dt) AS hi, bool_or(ok) AS o, count(DISTINCT k) AS k "
        "FROM s.facts WHERE k < 3",
        F,
    ),
    Definition("whole_states", "SELECT count(*) AS n, sum(hi) AS t, min(label) AS lo, max(lo) AS hi FROM s.labels", L),
    Definition(
        "joined_groups",
        """SELECT g.name, h.label, sum(f.m * g.n) AS t, count(*) AS n, min(f.s) AS lo FROM s.facts f
           JOIN s.dims g ON f.k = g.k JOIN s.labels h ON g.o = h.o GROUP BY g.name, h.label""",
        F + D + L,
    ),
    Definition(
        "group_below_join",
        """SELECT f.id, f.k, t.total, t.c FROM s.facts f JOIN (SELECT k, sum(n) AS total, count(*) AS c
           FROM s.dims GROUP BY k) t ON f.k <=> t.k""",
        F + D,
    ),
    Definition(
        "groups_in_union",
        "SELECT k, count(*) AS n FROM s.dims GROUP BY k UNION ALL SELECT max(o), sum(hi) FROM s.labels",
        D + L,
    ),
    Definition(
        "groups_of_groups",
        """SELECT n, count(*) AS groups, sum(t) AS t, max(hi) AS hi FROM
           (SELECT k, d, count(*) AS n, sum(m) AS t, max(s) AS hi FROM s.facts GROUP BY k, d) GROUP BY n""",
        F,
    ),
    Definition(
        "distinct_below_join",
        "SELECT x.w, x.o, y.label FROM (SELECT DISTINCT w, o FROM s.dims) x JOIN s.labels y ON x.o = y.o",
        D + L,
    ),
    Definition(
        "cte_twice",
        """WITH c AS (SELECT k, max(s) AS m, count(*) AS n FROM s.facts GROUP BY k)
           SELECT a.k, a.m, b.k AS other, a.n + b.n AS n FROM c a JOIN c b ON a.m = b.m""",
        F,
    ),
    Definition(
        "nested",
        """SELECT q.z, q.w, count(*) AS n FROM (SELECT z, w FROM (SELECT k + 1 AS z, ok, ar AS w FROM s.facts
           WHERE ok IS NOT FALSE) WHERE z > 1) AS q GROUP BY q.z, q.w""",
        F,
    ),
    Definition("over_views", "SELECT v.*, g.name FROM s.v_outer v JOIN s.dims g ON v.kk = g.k", F + D),
    Definition("chain_1", "SELECT id, k, d, m, s, mp FROM s.facts WHERE id > 2", F),
    Definition(
        "chain_2",
        "SELECT c.k, g.name, count(*) AS n, sum(c.m) AS t FROM s.chain_1 c JOIN s.dims g ON c.k = g.k GROUP BY 1, 2",
        F + D,
    ),
    Definition(
        "chain_3",
        "SELECT DISTINCT x.name, x.n, y.d FROM s.chain_2 x JOIN s.chain_1 y ON x.k = y.k AND x.n > 1",
        F + D,
    ),
    Definition(
        "other_aggregates",
        """SELECT k, stddev(id) AS sd, percentile(id, 0.5) AS p, collect_list(s) AS l, max_by(s, id) AS mx,
           approx_count_distinct(s) AS a, bit_xor(id) AS x, array_sort(collect_set(s)) AS cs, covar_pop(id, m) AS c
           FROM s.facts GROUP BY k""",
        F,
        bags=("l",),
        open=("sd", "mx", "c"),
    ),
    Definition("odd_keys", "SELECT d, st, ar, count(*) AS n, sum(id) AS t FROM s.facts GROUP BY d, st, ar", F),
    Definition(
        "odd_names",
        "SELECT s, d, k, f, o, n, `select`, `wei``rd x`, `größe` AS `GröSSe.x` FROM s.odd WHERE n IS NOT NULL OR f",
        O,
    ),
    Definition(
        "odd_groups",
        """SELECT `select` AS n, `wei``rd x` AS `from`, count(*) AS k, sum(n) AS s, max(d) AS d, min(k) AS `o.o`,
           sum(`größe`) AS `größe`, max(f) AS f FROM s.odd GROUP BY `select`, `wei``rd x`""",
        O,
    ),
    Definition(
        "odd_join",
        "SELECT s.s, s.k AS d, d.k, d.o AS s2 FROM s.odd s JOIN s.dims d ON s.`wei``rd x` = d.name AND s.s < d.o + 2",
        O + D,
    ),
    Definition(
        "left_joined",
        """SELECT f.id, f.k, g.name, h.label FROM s.facts f LEFT JOIN s.dims g ON f.k = g.k AND g.o > 0
           LEFT JOIN s.labels h ON g.o = h.o OR h.lo = f.id""",
        F + D + L,
    ),
    Definition(
        "full_joined",
        "SELECT o, g.k, g.name, h.label FROM s.dims g FULL JOIN s.labels h USING (o) WHERE g.name IS NULL OR h.hi > 0",
        D + L,
    ),
    Definition(
        "exists_in",
        """SELECT f.id, f.s FROM s.facts f WHERE EXISTS (SELECT 1 FROM s.dims g WHERE g.k = f.k AND g.o <> f.id)
           AND f.id NOT IN (SELECT o FROM s.labels WHERE lo > 1)""",
        F + D + L,
    ),
    Definition("not_in_nulls", "SELECT g.k, g.name FROM s.dims g WHERE g.o NOT IN (SELECT h.o FROM s.labels h)", D + L),
    Definition(
        "predicates_anywhere",
        """SELECT f.id, f.k IN (SELECT k FROM s.dims) AS i, NOT EXISTS (SELECT 1 FROM s.labels h WHERE h.o = f.k) AS e,
           CASE WHEN f.ok OR f.k NOT IN (SELECT o FROM s.labels WHERE o IS NOT NULL) THEN 'a' ELSE 'b' END AS c
           FROM s.facts f WHERE f.d > 0 OR f.k IN (SELECT g.k FROM s.dims g WHERE g.name = f.s)""",
        F + D + L,
    ),
    Definition(
        "scalar_subqueries",
        """SELECT f.id, (SELECT max(g.n) FROM s.dims g WHERE g.k = f.k) AS hi,
           (SELECT count(*) FROM s.labels h WHERE h.o < f.k) AS below, (SELECT count(*) FROM s.dims) AS n
           FROM s.facts f WHERE f.m < (SELECT 1000 + max(g.n) FROM s.dims g WHERE g.k <=> f.k)""",
        F + D + L,
    ),
    Definition(
        "lateral_joined",
        """SELECT f.id, q.o, q.v, e.x FROM s.facts f LEFT JOIN LATERAL (SELECT g.o, g.o + f.id AS v FROM s.dims g
           WHERE g.k = f.k) q ON q.o > 0 LATERAL VIEW OUTER explode(f.ar) e AS x""",
        F + D,
    ),
    Definition(
        "cubed",
        """SELECT k, ok, grouping(k) AS g, grouping_id() AS gid, count(*) AS n, sum(m) AS t, max(id) AS hi FROM s.facts
           GROUP BY CUBE (k, ok)""",
        F,
    ),
    Definition(
        "rolled_up",
        "SELECT k, s, count(DISTINCT id) AS n FROM s.facts GROUP BY GROUPING SETS ((k, s), (k), (k), ()) HAVING n > 1",
        F,
    ),
    Definition(
        "set_operations",
        """(SELECT k, s FROM s.facts EXCEPT ALL SELECT o, name FROM s.dims)
           UNION ALL (SELECT k, name FROM s.dims INTERSECT SELECT o, label FROM s.labels)
           UNION ALL (SELECT k, s FROM s.facts INTERSECT ALL SELECT k, name FROM s.dims)""",
        F + D + L,
    ),
    Definition(
        "windowed",
        """SELECT id, k, s, rank() OVER (PARTITION BY k ORDER BY id, s) AS r, count(*) OVER (PARTITION BY s) AS c,
           sum(m) OVER (PARTITION BY k ORDER BY id RANGE BETWEEN 2 PRECEDING AND CURRENT ROW) AS t FROM s.facts""",
        F,
    ),
    Definition(
        "latest",
        """SELECT k, id, s, m FROM (SELECT k, id, s, m, row_number() OVER (PARTITION BY k ORDER BY id DESC, s, m) AS rn
           FROM s.facts) WHERE rn = 1""",
        F,
    ),
    Definition(
        "top", "SELECT k, name, o FROM s.dims WHERE k IS NOT NULL ORDER BY o DESC NULLS LAST, k, name LIMIT 5", D
    ),
    Definition(
        "pivoted",
        """SELECT * FROM (SELECT k, ok, m FROM s.facts)
           PIVOT (sum(m) AS t, count(*) AS n FOR ok IN (true AS y, false AS n))""",
        F,
    ),
    Definition(
        "unpivoted",
        """SELECT v.name, u.what, u.value FROM (SELECT * FROM (SELECT o, lo, hi FROM s.labels)
           UNPIVOT (value FOR what IN (lo, hi))) u JOIN VALUES (0, 'zero'), (1, 'one') AS v(o, name) ON v.o = u.o""",
        L,
    ),
    Definition(
        "recursive",
        """WITH RECURSIVE r(o, label, depth) AS (SELECT o, label, 0 FROM s.labels WHERE o = 0 UNION ALL
           SELECT g.o, g.name, r.depth + 1 FROM r JOIN s.dims g ON g.k = r.o WHERE r.depth < 2)
           SELECT o, label, depth FROM r""",
        D + L,
    ),
    Definition(
        "float_below",
        "SELECT g.name, t.total FROM s.dims g JOIN (SELECT k, sum(d) AS total FROM s.facts GROUP BY k) t ON g.k = t.k",
        F + D,
    ),
)
