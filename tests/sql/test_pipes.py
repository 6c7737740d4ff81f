"""Pipe syntax, TABLE and VALUES as queries, words of clauses as names: what they give is what plain Spark gives."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from spark_trickle.errors import NotIncremental, TrickleError
from spark_trickle.sql.parse import parse_query, render
from tests.sql.reading import Reading

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

TABLES = {
    "t": "(1, 'a', 3), (1, 'b', 4), (2, 'a', 5), (2, null, 6), (null, 'c', 7) AS v(g, k, v)",
    "u": "(1, 10, 'x'), (2, 20, 'y'), (2, 21, 'z') AS v(g, w, z)",
    "nested": "(1, named_struct('g', 7, 'x', 8), array(1, 2), array(named_struct('p', 1, 'q', 2))) AS v(g, t, a, b)",
    "join": "(1, 2) AS v(a, `select`)",
}


@pytest.fixture(scope="module")
def reading(spark: SparkSession) -> Reading:
    return Reading(spark.newSession(), "pipes", TABLES)


CASES = {
    "where, select, extend": [
        "TABLE t |> WHERE t.g = 1 |> WHERE t.v = 3",
        "TABLE t |> SELECT g AS h, v |> WHERE h = 1 |> SELECT t.v",
        "FROM t |> EXTEND g + 1 AS a, a + 1 AS b |> SELECT t.*, b",
        "FROM t |> SELECT DISTINCT g |> EXTEND struct(*) AS s |> SELECT s.g",
        "FROM t |> EXTEND sum(v) OVER (PARTITION BY g) AS s, (SELECT max(w) FROM u WHERE u.g = t.g) AS m",
        "FROM t |> SELECT sum(v) OVER (w) AS x WINDOW w AS (PARTITION BY g ORDER BY v)",
        "FROM t |> SELECT g, explode(array(v, 1)) AS e |> WHERE e > 3",
    ],
    "set, drop, as": [
        "FROM t |> SET v = v + 1, k = v, V = v * 2 |> SELECT *, t.g AS h",
        "FROM t |> DROP v, k |> SELECT t.g",
        "FROM t |> JOIN u USING (g) |> DROP g",
        "FROM t |> WHERE g = 1 |> AS q |> JOIN u ON q.g = u.g |> SELECT q.v, u.w",
    ],
    "aggregate": [
        "FROM t |> AGGREGATE sum(v) AS s, count(*) GROUP BY g, k |> WHERE t.g = 1",
        "FROM t |> AGGREGATE GROUP BY g + 1 AS h, h, 1",
        "FROM t |> AGGREGATE sum(v) AS v, max(v) FILTER (WHERE v > 3) AS m",
        "FROM t |> AGGREGATE g + count(*) AS x GROUP BY g |> AGGREGATE count(DISTINCT x) AS n",
    ],
    "order by, limit": [
        "FROM t |> ORDER BY v DESC |> LIMIT 1",
        "FROM t |> ORDER BY ALL |> LIMIT 2 OFFSET 1 |> ORDER BY 3 DESC |> LIMIT 1",
        "FROM t |> ORDER BY v DESC |> EXTEND v + 1 AS x |> SET k = 'z' |> DROP v |> AS q |> SELECT q.x |> LIMIT 2",
        "FROM t |> ORDER BY v DESC |> SELECT t.g |> WHERE t.g = 2 |> OFFSET 1",
        "FROM t |> WHERE g = 1 ORDER BY t.v LIMIT 1",
        "FROM t |> SORT BY g |> DISTRIBUTE BY g |> LIMIT ALL",
    ],
    "joins": [
        "FROM t |> JOIN u ON t.g = u.g |> WHERE u.w = 10 AND t.v = 3 |> SELECT t.g, u.g AS h",
        "FROM t |> FULL OUTER JOIN u USING (g)",
        "FROM t |> RIGHT JOIN u ON t.g = u.g AND t.v > 5 |> NATURAL JOIN (SELECT 1 AS one)",
        "FROM t |> LEFT SEMI JOIN u USING (g) |> LEFT ANTI JOIN u AS x ON t.v = x.g + 3",
        "FROM t |> CROSS JOIN u |> JOIN LATERAL (SELECT t.v + u.w AS z) |> SELECT z",
        "FROM t |> JOIN LATERAL explode(array(g, v)) |> JOIN u",
    ],
    "set operations": [
        "FROM t |> UNION ALL TABLE t |> WHERE g = 1 |> SELECT t.v",
        "SELECT g FROM t |> UNION ALL SELECT g FROM u |> INTERSECT SELECT g FROM u",
        "SELECT g FROM t UNION ALL SELECT g FROM u |> WHERE g = 1",
        "FROM t |> WHERE g = 1 UNION ALL FROM t",
        "(SELECT g FROM t) UNION (SELECT g FROM u) |> WHERE g = 1",
        "FROM t |> SELECT g |> EXCEPT ALL VALUES (1), (5)",
        "FROM t |> UNION SELECT g, z, w FROM u ORDER BY v DESC LIMIT 2",
    ],
    "pivots": [
        "FROM t |> PIVOT (sum(v) FOR k IN ('a', 'b'))",
        "FROM t |> SELECT g, v |> UNPIVOT INCLUDE NULLS (x FOR n IN (g, v))",
    ],
    "chains inside queries": [
        "WITH c AS (TABLE t |> WHERE g = 1) TABLE c |> SELECT g",
        "SELECT * FROM (FROM t |> WHERE g = 1) AS x JOIN LATERAL (FROM u |> WHERE u.g = x.g |> SELECT w)",
        "SELECT g, (FROM u |> WHERE u.g = t.g |> AGGREGATE max(w)) AS m FROM t WHERE g IN (TABLE u |> SELECT g)",
        "SELECT g FROM t WHERE EXISTS (FROM u |> WHERE u.g = t.g) OR v > (FROM u |> AGGREGATE min(w)) - 4",
        "SELECT (VALUES (0) AS x(c) |> SELECT c) AS r FROM t",
        "FROM t JOIN u USING (g) |> SELECT u.g, t.v, g AS h",
        "FROM nested LATERAL VIEW explode(a) AS x |> SELECT x, t.*",
        "SELECT t.g, count(*) AS n FROM t GROUP BY t.g |> WHERE t.g = 1",
    ],
    "TABLE and VALUES": [
        "TABLE t ORDER BY v LIMIT 2",
        "(TABLE t) UNION ALL TABLE t",
        "SELECT * FROM (TABLE t) AS x WHERE x.g = 1 AND EXISTS (TABLE u)",
        "WITH c AS (TABLE t) TABLE c",
        "VALUES (1, 'a'), (2, 'b') AS v(i, s) ORDER BY i LIMIT 1",
    ],
    "words of clauses as names": [
        "SELECT j.a, j.select FROM pipes.join AS j",
        "SELECT join.a AS from FROM join",
        "SELECT * FROM t LEFT JOIN join ON t.g = join.a",
        "SELECT x.using, x.left, x.where, x.union FROM (SELECT 1 AS using, 2 AS left, 3 AS where, 4 AS union) AS x",
    ],
    "JOIN LATERAL of generators": [
        "SELECT * FROM nested JOIN LATERAL inline(b)",
        "SELECT q.x, y FROM nested JOIN LATERAL inline(b) AS q(x, y) JOIN LATERAL posexplode(a)",
        "SELECT * FROM nested LEFT JOIN LATERAL explode(a) AS e ON e.col > 1",
        "SELECT * FROM t JOIN u",
    ],
    "PIVOT of expressions, tuples and structs": [
        "SELECT * FROM t PIVOT (sum(v) + count(*) FOR k IN ('a', 'z'))",
        "SELECT * FROM t PIVOT (sum(v) / count(v) AS a, round(avg(v), 1) + 1 AS r FOR k IN ('a' AS x, 'b'))",
        "SELECT * FROM (SELECT *, v % 2 AS p FROM t) PIVOT (sum(v) FOR (k, p) IN (('a', 1) AS x, ('b', 0)))",
        "SELECT * FROM (SELECT v, struct(g, k) AS s FROM t) PIVOT (sum(v) FOR s IN ((1, 'a'), struct(2, 'a')))",
    ],
}


@pytest.mark.spark
@pytest.mark.parametrize("case", CASES)
def test_our_form_is_the_text(reading: Reading, case: str) -> None:
    for text in CASES[case]:
        assert reading.agree(text)


@pytest.mark.spark
@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("FROM t |> TABLESAMPLE (50 PERCENT)", "SAMPLE"),
        ("FROM t |> ORDER BY v |> SELECT DISTINCT g |> LIMIT 1", "LIMIT"),
        ("FROM t |> ORDER BY v |> EXTEND sum(v) OVER (PARTITION BY g) AS s |> LIMIT 1", "LIMIT"),
    ],
)
def test_refused_by_name(reading: Reading, text: str, reason: str) -> None:
    reading.session.sql(text)
    with pytest.raises(NotIncremental) as caught:
        reading.lowered(text)
    assert caught.value.reason == reason


@pytest.mark.parametrize("text", [q for case in CASES.values() for q in case if "|>" in q])
def test_a_chain_is_written_as_a_chain(text: str) -> None:
    written = render(parse_query(text))
    assert "|>" in written or "UNION" in text
    assert render(parse_query(written)) == written


@pytest.mark.parametrize(
    ("text", "place"),
    [
        ("FROM t |> GROUP BY g", "line 1, column 11"),
        ("FROM t |> SET v + 1", "line 1, column 17"),
        ("FROM t\n|> WHERE", "line 2"),
    ],
)
def test_a_wrong_step_has_a_place(text: str, place: str) -> None:
    with pytest.raises(TrickleError, match=place) as caught:
        parse_query(text)
    assert caught.value.code == "SYNTAX_ERROR"
