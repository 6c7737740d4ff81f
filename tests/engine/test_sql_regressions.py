"""What the fuzzer and the first uses of the whole of SQL broke, each once."""

from __future__ import annotations

import pytest

from spark_trickle import Action, Trickle
from spark_trickle.errors import TrickleError

STEPS = (
    "INSERT INTO s.a VALUES (7, 'x', 1), (NULL, NULL, 2)",
    "INSERT INTO s.b VALUES (NULL, 'x', 5), (2, 'z', 0)",
    "DELETE FROM s.b WHERE k IS NULL OR w = 5",
    "UPDATE s.a SET k = 'z' WHERE v = 1",
)

DEFINITIONS = {
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


@pytest.fixture(scope="module")
def lake(module_tr: Trickle) -> Trickle:
    tr = module_tr
    tr.sql("CREATE TABLE s.a (id INT, k STRING, v INT)")
    tr.sql("CREATE TABLE s.b (a_id INT, k STRING, w INT)")
    tr.sql("INSERT INTO s.a VALUES (1, 'x', 1), (2, 'y', 1), (2, 'y', 1), (3, NULL, 4)")
    tr.sql("INSERT INTO s.b VALUES (1, 'x', 2), (2, 'x', 3), (3, 'y', 9)")
    return tr


def test_each_stays_equal(lake: Trickle) -> None:
    for name, text in DEFINITIONS.items():
        lake.create_stream_table(f"s.{name}", text, mode="differential")
    for statement in STEPS:
        lake.sql(statement)
        for name in DEFINITIONS:
            result = lake.refresh(f"s.{name}")
            assert result.action in (Action.DIFFERENTIAL, Action.NO_DATA), str(result)
            verified = lake.verify(f"s.{name}")
            assert verified.equal, f"{name} after {statement}: {verified}"


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
