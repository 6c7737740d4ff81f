"""SQL constructs, alone and combined: each is kept by its deltas and stays equal, or says that it has no rule."""

from __future__ import annotations

import pytest

from spark_trickle import Action, Trickle
from spark_trickle.errors import TrickleError

pytestmark = pytest.mark.spark

STEPS = (
    "INSERT INTO s.a VALUES (7, 'x', 1), (NULL, NULL, 2)",
    "INSERT INTO s.c VALUES ('x', 0.12345678, '01', array(2, 9), map('a', 1)), ('new', 0.00000001, '1', array(), NULL)",
    "INSERT INTO s.b VALUES (NULL, 'x', 5), (2, 'z', 0)",
    "DELETE FROM s.b WHERE k IS NULL OR w = 5",
    "UPDATE s.a SET k = 'z' WHERE v = 1",
    "DELETE FROM s.c WHERE m = 1.00000001",
)

INCREMENTAL = {
    # Two equal parts that are compiled into several: the second got the names of the first.
    "marks_twice": """WITH q AS (SELECT id, k, v IN (SELECT w FROM b) AS i FROM a)
        SELECT x.id, x.i, y.id AS id2, y.i AS i2 FROM q x JOIN q y ON x.k = y.k""",
    # The sum of two decimals of 38 digits has a shorter scale.
    "long_decimals": "SELECT k, sum(m) AS t FROM c GROUP BY k",
    # Nothing is left of the change, and without keys there is a row of it all the same.
    "global_extremum": "SELECT count(*) AS n, max(v) AS hi, sum(id) AS t FROM a WHERE v > 3",
    # '1' and '01' are one number and two groups.
    "compared_as_numbers": "SELECT id, (SELECT count(*) FROM c WHERE c.s = a.v) AS n FROM a",
    "compared_and_grouped": """SELECT id, q.n FROM a,
        LATERAL (SELECT count(*) AS n FROM c WHERE c.s = a.v GROUP BY mp IS NULL) q""",
    # Which rows a LIMIT takes matters to a condition above it.
    "limit_in_exists": """SELECT id FROM a WHERE EXISTS
        (SELECT 1 FROM (SELECT w FROM b ORDER BY w DESC LIMIT 1) q WHERE q.w = a.v + 1)""",
    "ordered_generator": "SELECT explode(xs) AS x FROM c ORDER BY x LIMIT 9",
    # A count of nothing is 0 beside a text, and NULL among numbers; values take the type of the column.
    "pivoted_text": """SELECT * FROM (SELECT k, v, id, k AS t FROM a)
        PIVOT (count(id) AS n, max(t) AS t FOR v IN (1, 4))""",
    "pivoted_numbers": "SELECT * FROM (SELECT k, v, id FROM a) PIVOT (count(id) AS n, max(id) AS t FOR v IN (1, 4))",
    "pivoted_by_text": "SELECT * FROM (SELECT s, k FROM c) PIVOT (count(k) AS n FOR s IN (1, 2))",
    # Two rows of a key that nobody asks for are no error.
    "picked": "SELECT id, (SELECT m FROM c WHERE c.k = a.k || '!') AS m FROM a",
    "odd_field": "SELECT id, named_struct('user-id', k, 'x y', v) AS u FROM a",
    "nothing_but_having": "SELECT 'x' AS c FROM a HAVING 1 = 1",
    # Spark loses columns when EXISTS or IN in a select list meets itself in a union.
    "marks": "SELECT id, id IN (SELECT a_id FROM b) AS i, NOT EXISTS (SELECT 1 FROM b WHERE b.k = a.k) AS e FROM a",
    "not_in_value": "SELECT id, id NOT IN (SELECT a_id FROM b) AS i FROM a WHERE k = 'x' OR id IN (SELECT w FROM b)",
    # What stands above a recursion was taken for a part of its step.
    "over_a_recursion": """WITH RECURSIVE r(id, d) AS (SELECT id, 0 FROM a UNION ALL
        SELECT b.w, r.d + 1 FROM r JOIN b ON b.a_id = r.id WHERE r.d < 2)
        SELECT id, d, rank() OVER (PARTITION BY id ORDER BY d) AS n FROM (SELECT id, d FROM r)""",
    "grouped_recursion": """WITH RECURSIVE r(id, d) AS (SELECT id, 0 FROM a UNION ALL
        SELECT r.id, r.d + 1 FROM r WHERE r.d < 2) SELECT d, count(*) AS n FROM r GROUP BY d""",
    # A key that pipe syntax names is an identifier to the parser.
    "pipes": "FROM s.a AS x |> WHERE x.v > 0 |> AGGREGATE count(*) AS n GROUP BY x.k AS key |> WHERE n > 0",
    # A lateral join without a condition is Inner to one reading and Cross to the other.
    "lateral_without_on": "SELECT a.id, q.w FROM a INNER JOIN LATERAL (SELECT w FROM b WHERE b.k = a.k) q",
    # The rows of UNPIVOT need equal field names.
    "unpivoted": "SELECT * FROM (SELECT a_id, w FROM b) UNPIVOT INCLUDE NULLS (x FOR what IN (a_id AS one, w))",
}
RECOMPUTED = {
    "generator_and_window": (
        "SELECT k, explode(xs) AS x, count(*) OVER (PARTITION BY k) AS n FROM c",
        "GENERATOR",
    ),
    "map_below": ("SELECT mp, count(*) AS n FROM c GROUP BY mp UNION ALL SELECT mp, 0L AS n FROM c", "MAP_KEY"),
    "hidden_interval": ("SELECT count(*) AS n FROM a GROUP BY make_dt_interval(v)", "KEY_TYPE"),
}


@pytest.fixture(scope="module")
def lake(module_tr: Trickle) -> Trickle:
    tr = module_tr
    tr.sql("CREATE TABLE s.a (id INT, k STRING, v INT)")
    tr.sql("CREATE TABLE s.b (a_id INT, k STRING, w INT)")
    tr.sql("CREATE TABLE s.c (k STRING, m DECIMAL(18, 8), s STRING, xs ARRAY<INT>, mp MAP<STRING, INT>)")
    tr.sql("INSERT INTO s.a VALUES (1, 'x', 1), (2, 'y', 1), (2, 'y', 1), (3, NULL, 4)")
    tr.sql("INSERT INTO s.b VALUES (1, 'x', 2), (2, 'x', 3), (3, 'y', 9)")
    tr.sql(
        "INSERT INTO s.c VALUES ('x', 1.00000001, '1', array(1), map('a', 1)), ('y!', 2, '2', array(5, 6), map()), "
        "('zz', 3, '01', NULL, NULL), ('zz', 4, '1', array(7), map('b', 2))"
    )
    return tr


def test_each_stays_equal(lake: Trickle) -> None:
    for name, text in INCREMENTAL.items():
        lake.create_stream_table(f"s.{name}", text, mode="differential")
        assert lake.verify(f"s.{name}").equal, name
    for statement in STEPS:
        lake.sql(statement)
        for name in INCREMENTAL:
            result = lake.refresh(f"s.{name}")
            assert result.action in (Action.DIFFERENTIAL, Action.NO_DATA), str(result)
            if result.action is Action.DIFFERENTIAL:
                verified = lake.verify(f"s.{name}")
                assert verified.equal, f"{name} after {statement}: {verified}"


@pytest.mark.parametrize("name", RECOMPUTED)
def test_what_has_no_rule_says_so(lake: Trickle, name: str) -> None:
    text, reason = RECOMPUTED[name]
    lake.create_stream_table(f"s.{name}", text)
    status = lake.status(f"s.{name}")[0]
    assert not status.incremental
    assert (status.reason or "").startswith(reason)
    lake.sql("INSERT INTO s.c VALUES ('x', 5, '3', array(1, 2), map('a', 1))")
    lake.sql("INSERT INTO s.a VALUES (20, 'x', 5)")
    assert lake.refresh(f"s.{name}").action is Action.FULL
    assert lake.verify(f"s.{name}").equal


LIMITED = (
    "SELECT id FROM a WHERE EXISTS (SELECT 1 FROM c WHERE c.m {} LIMIT 5)",
    "SELECT id FROM a WHERE k IN (SELECT k FROM c WHERE c.m {} ORDER BY k LIMIT 5)",
    "SELECT id, (SELECT max(k) FROM (SELECT k FROM c WHERE c.m {} ORDER BY k LIMIT 5)) AS k2 FROM a",
    "SELECT id, l.k2 FROM a, LATERAL (SELECT k AS k2 FROM c WHERE c.m {} ORDER BY k LIMIT 5) l",
)


@pytest.mark.parametrize("query", LIMITED)
@pytest.mark.parametrize(
    "condition", ["= a.v", "<=> a.v + 0", "= CAST(a.v AS DECIMAL(18, 8))", "> 0 AND NOT c.m <> a.v"]
)
def test_a_limit_that_spark_takes_before_it_correlates_is_not_incremental(
    lake: Trickle, query: str, condition: str
) -> None:
    """Spark 4.1 limits the rows before it compares them with the outer row: any rows."""
    found = lake.check(query.format(condition))
    assert found.obstacle is not None
    assert found.obstacle.reason == "LIMIT"


def test_a_limit_over_plain_columns_is_incremental(lake: Trickle) -> None:
    for n, query in enumerate(LIMITED):
        text = query.format("> a.v - 9 AND (c.k = a.k OR a.id < 0) AND c.k = a.k")
        assert lake.check(text).incremental, text
        lake.create_stream_table(f"s.limited{n}", text, mode="differential")
        lake.sql("INSERT INTO s.c VALUES ('x', 7, '3', NULL, NULL)")
        assert lake.refresh(f"s.limited{n}").action is Action.DIFFERENTIAL
        assert lake.verify(f"s.limited{n}").equal, text


def test_a_scalar_subquery_with_two_rows_is_an_error_and_changes_nothing(lake: Trickle) -> None:
    lake.sql("CREATE TABLE s.one (k STRING, x INT)")
    lake.sql("INSERT INTO s.one VALUES ('x', 1), ('y', 2)")
    lake.sql("INSERT INTO s.a VALUES (8, 'y', 8)")  # somebody must ask for it
    text = "SELECT id, (SELECT x FROM one WHERE one.k = a.k) AS x, (SELECT max(x) FROM one) AS hi FROM a"
    lake.create_stream_table("s.scalars", text, mode="differential")
    before = sorted(map(str, lake.sql("SELECT * FROM s.scalars").collect()))
    lake.sql("INSERT INTO s.one VALUES ('y', 3)")
    with pytest.raises(TrickleError, match="SCALAR_SUBQUERY_TOO_MANY_ROWS"):
        lake.refresh("s.scalars")
    assert sorted(map(str, lake.sql("SELECT * FROM s.scalars").collect())) == before
    lake.sql("DELETE FROM s.one WHERE x = 2")
    assert lake.refresh("s.scalars").action is Action.DIFFERENTIAL
    assert lake.verify("s.scalars").equal


def test_a_recursion_grows_and_shrinks_by_level(lake: Trickle) -> None:
    lake.sql("CREATE TABLE s.edge (f INT, t INT)")
    lake.sql("INSERT INTO s.edge VALUES (1, 2), (2, 3)")
    text = "WITH RECURSIVE r(n) AS (SELECT 1 UNION ALL SELECT t FROM r JOIN edge ON f = n) SELECT n FROM r"
    lake.create_stream_table("s.reach", text, mode="differential")
    lake.sql("INSERT INTO s.edge VALUES (3, 4), (2, 5)")
    assert lake.refresh("s.reach").action is Action.DIFFERENTIAL
    assert lake.verify("s.reach").equal
    assert lake.sql("SELECT count(*) FROM s.reach").first()[0] == 5
    lake.sql("DELETE FROM s.edge WHERE t = 3")
    assert lake.refresh("s.reach").action is Action.DIFFERENTIAL
    assert lake.verify("s.reach").equal


def test_windows_of_time_are_not_taken_for_groups(lake: Trickle) -> None:
    lake.sql("CREATE TABLE s.days (id INT, ts TIMESTAMP)")
    lake.sql("INSERT INTO s.days VALUES (1, TIMESTAMP'2020-01-01 00:00:01')")
    lake.create_stream_table(
        "s.sw",
        "SELECT session_window(ts, '5 minutes').start AS s, count(*) AS n "
        "FROM s.days GROUP BY session_window(ts, '5 minutes')",
    )
    assert not lake.status("s.sw")[0].incremental
