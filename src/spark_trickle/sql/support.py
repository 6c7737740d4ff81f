"""What of Spark SQL is maintained incrementally, by construct, each with an example that a test compiles.

docs/sql-support.md is written from this table. The examples are over
`a (id BIGINT, k STRING, v INT, m DECIMAL(10,2), d DOUBLE, xs ARRAY<INT>)` and `b (a_id BIGINT, k STRING, w INT)`.
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Construct:
    name: str
    example: str
    operators: tuple[str, ...]  # what it becomes: each must be in the tree of the example
    cost: str
    limits: str = ""


_CHANGE = "the change alone"
_JOIN = "the change of each side, joined with the other side"
_GROUPS = "the affected groups"
_STATE = "the change, added to hidden state columns"
_PARTITIONS = "the affected partitions"

CONSTRUCTS: tuple[Construct, ...] = (
    Construct("WHERE, expressions", "SELECT id, upper(k) AS u FROM a WHERE v > 1 OR k LIKE 'x%'", ("Filter",), _CHANGE),
    Construct(
        "struct, array, map, higher-order functions",
        "SELECT id, transform(xs, x -> x + v) AS ys, named_struct('k', k).k AS f FROM a",
        ("Project",),
        _CHANGE,
    ),
    Construct("lateral column alias", "SELECT v + 1 AS w, w * 2 AS x FROM a", ("Project",), _CHANGE),
    Construct(
        "stars: * EXCEPT, of structs, inside calls",
        "SELECT * EXCEPT (xs), struct(a.* EXCEPT (d, xs)) AS s, hash(*) AS h FROM a",
        ("Project",),
        _CHANGE,
    ),
    Construct("inner and cross join", "SELECT a.id, b.w FROM a JOIN b ON a.k = b.k", ("Join",), _JOIN),
    Construct("USING, NATURAL", "SELECT * FROM b NATURAL JOIN (SELECT k, v FROM a)", ("Join",), _JOIN),
    Construct(
        "LEFT, RIGHT, FULL JOIN",
        "SELECT a.id, b.w FROM a FULL JOIN b ON a.k = b.k AND a.v < b.w",
        ("OuterJoin",),
        _JOIN + ", and the rows whose partners changed",
    ),
    Construct(
        "SEMI, ANTI JOIN",
        "SELECT id FROM a LEFT ANTI JOIN b ON a.k = b.k",
        ("Matched",),
        _JOIN,
    ),
    Construct(
        "EXISTS, IN, NOT IN in WHERE",
        "SELECT id FROM a WHERE EXISTS (SELECT 1 FROM b WHERE b.k = a.k) AND id NOT IN (SELECT a_id FROM b)",
        ("Matched",),
        _JOIN,
        "NOT IN: a NULL that comes or goes in the subquery affects every row",
    ),
    Construct(
        "EXISTS, IN under OR, NOT, CASE, in SELECT",
        "SELECT id, k IN (SELECT k FROM b) AS i FROM a WHERE v > 1 OR NOT EXISTS (SELECT 1 FROM b WHERE b.w = a.v)",
        ("Matched",),
        _JOIN,
        "IN as a value is true or false, never NULL: so Spark computes it",
    ),
    Construct(
        "scalar subquery",
        "SELECT id, (SELECT max(w) FROM b) AS hi FROM a",
        ("Aggregate", "Join"),
        "the change; all rows when the value itself changes",
    ),
    Construct(
        "correlated scalar subquery",
        "SELECT id, (SELECT count(*) FROM b WHERE b.k = a.k) AS n FROM a",
        ("Aggregate", "OuterJoin"),
        "the rows of the affected keys",
        "correlation other than by equality goes by the different outer values",
    ),
    Construct(
        "LATERAL subquery",
        "SELECT a.id, q.w FROM a, LATERAL (SELECT w FROM b WHERE b.k = a.k ORDER BY w, a_id LIMIT 2) q",
        ("Window",),
        "the affected outer values",
    ),
    Construct(
        "LATERAL VIEW, generators",
        "SELECT id, x FROM a LATERAL VIEW OUTER explode(xs) e AS x",
        ("Explode",),
        _CHANGE,
        "one generator per select list, as in Spark",
    ),
    Construct("JOIN LATERAL of a generator", "SELECT id, col FROM a JOIN LATERAL explode(xs)", ("Explode",), _CHANGE),
    Construct("UNION ALL", "SELECT k FROM a UNION ALL SELECT k FROM b", ("UnionAll",), _CHANGE),
    Construct("DISTINCT, UNION", "SELECT k FROM a UNION SELECT k FROM b", ("Distinct",), _STATE),
    Construct(
        "INTERSECT, EXCEPT [ALL]", "SELECT k FROM a EXCEPT ALL SELECT k FROM b", ("Aggregate", "Explode"), _GROUPS
    ),
    Construct(
        "GROUP BY with algebraic aggregates",
        "SELECT k, count(*) AS n, sum(m) AS s, max(v) AS hi FROM a GROUP BY k",
        ("Aggregate",),
        _STATE + "; a group that loses its extremum is read again",
    ),
    Construct(
        "GROUP BY with other aggregates",
        "SELECT k, avg(d) AS x, count(DISTINCT v) AS n, percentile(v, 0.5) AS p FROM a GROUP BY k",
        ("Aggregate",),
        _GROUPS,
    ),
    Construct(
        "HAVING",
        "SELECT k, sum(m) AS s FROM a GROUP BY k HAVING count(*) > 1",
        ("Filter",),
        "the change of a hidden state table that holds all groups",
    ),
    Construct(
        "aggregates over aggregates, below joins",
        "SELECT n, count(*) AS c FROM (SELECT k, count(*) AS n FROM a GROUP BY k) GROUP BY n",
        ("Aggregate",),
        "the change of a hidden state table",
    ),
    Construct(
        "GROUPING SETS, CUBE, ROLLUP",
        "SELECT k, v, grouping_id() AS g, count(*) AS n FROM a GROUP BY CUBE (k, v)",
        ("Explode", "Aggregate"),
        _STATE + ", once per grouping set",
        "4,096 sets",
    ),
    Construct(
        "window functions",
        "SELECT id, rank() OVER (PARTITION BY k ORDER BY v) AS r, sum(v) OVER (PARTITION BY k) AS s FROM a",
        ("Window",),
        _PARTITIONS,
        "without PARTITION BY all rows are one partition",
    ),
    Construct(
        "named windows",
        "SELECT id, sum(v) OVER (w) AS s FROM a WINDOW w AS (PARTITION BY k ORDER BY v, id)",
        ("Window",),
        _PARTITIONS,
        "the query that uses a window must define it",
    ),
    Construct(
        "latest row per key",
        "SELECT id, k, v FROM (SELECT *, row_number() OVER (PARTITION BY k ORDER BY v DESC) AS n FROM a) WHERE n = 1",
        ("Window",),
        _PARTITIONS,
        "which of tied rows is kept is open, in Spark too",
    ),
    Construct(
        "ORDER BY … LIMIT, OFFSET",
        "SELECT id, v FROM a ORDER BY v DESC, id LIMIT 10 OFFSET 2",
        ("TopK",),
        "the query again, if anything changed; only differing rows are written",
        "ORDER BY alone is ignored with a notice",
    ),
    Construct(
        "PIVOT",
        "SELECT * FROM (SELECT k, v, m FROM a) PIVOT (sum(m) / count(*) AS x FOR v IN (1 AS one, 2 AS two))",
        ("Aggregate",),
        _GROUPS,
        "no FILTER inside",
    ),
    Construct(
        "UNPIVOT", "SELECT * FROM (SELECT a_id, w FROM b) UNPIVOT (x FOR what IN (a_id, w))", ("Explode",), _CHANGE
    ),
    Construct(
        "VALUES, range(), SELECT without FROM",
        "SELECT a.id, c.n FROM a JOIN VALUES ('x', 1), ('y', 2) AS c(k, n) ON a.k = c.k",
        ("Constant",),
        "nothing: it never changes",
    ),
    Construct("TABLE, VALUES as a query", "TABLE b UNION ALL VALUES (1L, 'x', 2)", ("UnionAll",), _CHANGE),
    Construct(
        "CTE",
        "WITH c AS (SELECT k, count(*) AS n FROM a GROUP BY k) SELECT x.k, y.n FROM c x JOIN c y ON x.n = y.n",
        ("Join",),
        "computed once, however often it is read",
    ),
    Construct(
        "WITH RECURSIVE",
        "WITH RECURSIVE r(id, w) AS (SELECT id, v FROM a UNION ALL SELECT b.a_id, b.w FROM r JOIN b ON r.w = b.a_id) "
        "SELECT id, w FROM r",
        ("Scan",),
        "level by level, in a hidden state table",
        "a step that uses its level twice or with DISTINCT is computed again and compared",
    ),
    Construct(
        "pipe syntax",
        "FROM a |> JOIN b ON a.k = b.k |> WHERE w > 1 |> AGGREGATE count(*) AS n GROUP BY a.k |> SET n = n + 1",
        ("Aggregate", "Join"),
        "that of the query it stands for",
        "LIMIT right after ORDER BY, or with steps in between that take the rows one by one; no TABLESAMPLE",
    ),
)
