"""What reading the code, rather than running it, found to be wrong."""

from __future__ import annotations

import pytest

from spark_trickle import Action, Trickle

STEPS = (
    "INSERT INTO s.a VALUES (7, 'x', 1), (NULL, NULL, 2)",
    "INSERT INTO s.c VALUES ('x', 0.12345678, '01', array(2, 9), map('a', 1)), ('new', 0.00000001, '1', array(), NULL)",
    "INSERT INTO s.b VALUES (NULL, 'x', 5), (2, 'z', 0)",
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
    for number, statement in enumerate(STEPS):
        lake.sql(statement)
        for name in INCREMENTAL:
            result = lake.refresh(f"s.{name}")
            assert result.action in (Action.DIFFERENTIAL, Action.NO_DATA), str(result)
            if number in (1, len(STEPS) - 1):
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
