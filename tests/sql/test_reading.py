"""What the text says and what we made of it give the same rows, in plain Spark: constructs that were read wrongly."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from tests.sql.reading import Reading

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.spark

TABLES = {
    "t": "(1, 'a', 3), (1, 'b', 4), (2, 'a', 5), (2, null, 6), (null, 'c', 7) AS v(g, k, v)",
    "u": "(1, 10, 'x'), (2, 20, 'y'), (2, 21, 'z') AS v(g, w, z)",
    "ab": "(1, 2, 5), (2, 1, 6), (3, 3, 7) AS v(a, b, c)",
    "named_all": "(1, 2), (1, 3), (2, 2) AS v(`all`, v)",
    "nested": """(1, named_struct('g', 7, 'x', named_struct('y', 8, 'z', 9)), array(1, 2),
        array(named_struct('p', 1, 'q', 2)), map('k', 1)), (2, null, null, null, null) AS v(g, t, a, b, m)""",
}


@pytest.fixture(scope="module")
def reading(spark: SparkSession) -> Reading:
    return Reading(spark.newSession(), "reading", TABLES)


CASES = {
    "a named window in brackets": [
        "SELECT g, sum(v) OVER (w) AS s FROM t WINDOW w AS (PARTITION BY g ORDER BY v)",
        "SELECT sum(v) OVER (w) AS s FROM t WINDOW w AS (PARTITION BY k ORDER BY v ROWS 1 PRECEDING)",
    ],
    "a named window that is another": [
        "SELECT g, sum(v) OVER w2 AS s FROM t WINDOW w AS (PARTITION BY g ORDER BY v), w2 AS (w)",
        "SELECT g, sum(v) OVER (w2) AS s FROM t WINDOW w AS (PARTITION BY g ORDER BY v), w2 AS w",
    ],
    "keys of grouping sets that are one expression to Spark": [
        "SELECT count(*) AS n, a + b AS x, b FROM ab GROUP BY GROUPING SETS ((a + b), (b + a), (b))",
        "SELECT b + a AS x, a, b, grouping(b + a) AS q FROM ab GROUP BY GROUPING SETS ((a + b), (a), (b))",
    ],
    "keys in another spelling": [
        "SELECT b + a AS x, count(*) AS n FROM ab GROUP BY a + b",
        "SELECT b + a + 1 AS x, count(*) AS n FROM ab GROUP BY a + b HAVING b + a > 3",
        "SELECT a = b AS x, b < a AS y, count(*) AS n FROM ab GROUP BY b = a, a > b",
        "SELECT int(c) AS x, count(*) AS n FROM ab GROUP BY CAST(c AS INT)",
    ],
    "literals as keys of grouping sets": [
        "SELECT 'all' AS kind, g, count(*) AS n FROM t GROUP BY ROLLUP (kind, g)",
        "SELECT 'x' AS x, concat('x', k) AS y, k, count(*) AS n FROM t GROUP BY 'x', k WITH CUBE",
    ],
    "stars of tables that are joined by USING": [
        "SELECT struct(t.*) AS l, struct(x.*) AS r FROM t JOIN (SELECT w AS v, g AS h, g FROM u) x USING (g)",
        "SELECT struct(t.*) AS l, struct(x.*) AS r FROM t RIGHT JOIN (SELECT 3 AS v, 'a' AS k) x USING (v)",
        "SELECT struct(t.*) AS l, struct(x.*) AS r FROM t FULL JOIN (SELECT w, g FROM u) x USING (g)",
        "SELECT struct(a.*) AS x, struct(b.*) AS y, struct(c.*) AS z "
        "FROM t a JOIN u b USING (g) JOIN (SELECT 10 AS w, 1 AS o) c USING (w)",
        "SELECT q.a FROM (SELECT * FROM t LEFT SEMI JOIN (SELECT 5 AS v) x USING (v)) AS q(a, b, c)",
        "SELECT q.a FROM (SELECT * FROM t ANTI JOIN (SELECT 'a' AS k) x USING (k)) AS q(a, b, c)",
    ],
    "NATURAL goes by the very spelling": [
        "SELECT count(*) AS n FROM t NATURAL JOIN (SELECT g AS G, w FROM u)",
        "SELECT count(*) AS n FROM t NATURAL JOIN (SELECT g, w FROM u)",
    ],
    "names of lambda parameters": [
        "SELECT transform(a, y -> y + __v0_0) AS z FROM (SELECT a, 1 AS __v0_0 FROM nested)",
    ],
    "EXCEPT with the table's name": [
        "SELECT struct(t.* EXCEPT (t.k)) AS x FROM t",
        "SELECT hash(nested.* EXCEPT (nested.t, nested.m)) AS h FROM nested",
        "SELECT struct(s.* EXCEPT (s.g)) AS x FROM (SELECT g, named_struct('g', v, 'z', k) AS s FROM t) s",
    ],
    "paging through a chain": [
        "FROM t |> ORDER BY v |> OFFSET 1 |> LIMIT 3",
        "FROM t |> ORDER BY v DESC |> LIMIT 4 |> WHERE g = 2 |> LIMIT 1",
    ],
    "grouping id": [
        "SELECT grouping__id, a, b, grouping_id(a, b) AS i, count(*) AS n FROM ab GROUP BY CUBE (a, b)",
    ],
    "fields of a struct are named after columns": [
        "SELECT to_json(struct(G, t.K, v + 1, v AS z, upper(k), 1)) AS j FROM t",
        "SELECT to_json(struct(t.g, nested.t.g, (t).G, a[0], b[0].p, m['k'], m.k, nested.b[0].q)) AS j FROM nested",
        "SELECT v + 1 AS x, to_json(struct(x, X + 1)) AS j, to_json((g AS h, k)) AS i FROM t",
        "SELECT to_json(struct(CAST(g AS STRING), -g, (g), g IS NULL, (SELECT 1 AS q))) AS j FROM t",
        "SELECT to_json(transform(b, x -> struct(x.p, X, x AS y))) AS j FROM nested",
        "SELECT k, max(struct(v, k)) AS m, to_json(struct(k, count(*))) AS j FROM t GROUP BY k",
        "SELECT (g, k) AS p, count(*) AS n, (g, k) IN ((1, 'a')) AS i FROM t GROUP BY (g, k)",
    ],
    "fields of arrays_zip are named after columns": [
        "SELECT to_json(arrays_zip(A, nested.b, array(1))) AS j, arrays_zip(a) AS z FROM nested",
        "SELECT arrays_zip((a), coalesce(a), transform(array(a), x -> arrays_zip(x, a))) AS z FROM nested",
    ],
    "keys with lambdas": [
        "SELECT transform(a, x -> x + 1) AS z, count(*) AS n FROM nested GROUP BY transform(a, x -> x + 1)",
        "SELECT transform(a, x -> x + 1) AS z, count(*) AS n FROM nested GROUP BY ROLLUP (transform(a, x -> x + 1))",
    ],
    "pivoted values by their names": [
        "SELECT `3_s`, `4_m` FROM t PIVOT (sum(g) AS s, max(k) AS m FOR v IN (3, 4))",
        "SELECT a, b + 1 AS c FROM t PIVOT (sum(v) FOR k IN ('a', 'b'))",
    ],
    "stars inside expressions": [
        "SELECT count(DISTINCT *) AS n, count(* EXCEPT (k)) AS m FROM t",
        "SELECT count(t.*, u.*) AS n FROM t JOIN u ON t.g = u.g",
        "SELECT struct(*) AS x, to_json(struct(* EXCEPT (k), 1)) AS j, concat_ws(',', *) AS c FROM t",
        "SELECT struct(t.*, u.w) AS x FROM t JOIN u ON t.g = u.g",
        "SELECT greatest(*) AS x, sum(greatest(*)) OVER (PARTITION BY b) AS s FROM ab WHERE 6 IN (*)",
        "SELECT a, max(struct(*)) AS m, sum(a) FILTER (WHERE greatest(*) > 5) AS f FROM ab GROUP BY a",
        "SELECT explode(array(*)) FROM ab",
        "SELECT x.* FROM u, LATERAL (SELECT u.* EXCEPT (g), t.v FROM t WHERE t.g = u.g) AS x",
    ],
    "stars over structs": [
        "SELECT t.* FROM nested",
        "SELECT nested.t.x.*, t.x.* EXCEPT (y) FROM nested",
        "SELECT struct(g, t.*) AS x FROM nested",
        "SELECT * EXCEPT (t.x, a) FROM nested",
        "SELECT * EXCEPT (nested.t.x.y) FROM nested",
        "SELECT * EXCEPT (t.g, t.x.y) FROM nested",
        "SELECT t.g, nested.t.x, x.y FROM nested",
    ],
}


@pytest.mark.parametrize("case", CASES)
def test_our_form_is_the_text(reading: Reading, case: str) -> None:
    for text in CASES[case]:
        assert reading.agree(text)
