"""Cases that once gave wrong results, each as small as it gets. After changes every table equals its definition."""

from __future__ import annotations

import pytest

from spark_trickle import Action, Trickle, TrickleError

pytestmark = pytest.mark.spark


def follow(tr: Trickle, name: str, definition: str, *changes: str) -> None:
    """Create, change, refresh, compare."""
    tr.create_stream_table(name, definition)
    assert tr.verify(name).equal, definition
    for change in changes:
        tr.sql(change)
    tr.refresh(name)
    found = tr.verify(name)
    assert found.equal, (definition, found.examples)


@pytest.fixture(scope="module")
def lake(module_tr: Trickle) -> Trickle:
    tr = module_tr
    for table, columns, rows in (
        ("u1", "x INT, id INT", "(1, 10), (2, 20)"),
        ("u2", "v INT, id INT", "(7, 10), (8, 30)"),
        ("n1", "x INT, y INT", "(1, 2), (3, 4)"),
        ("n2", "y INT, x INT", "(2, 1), (9, 9)"),
        ("la", "a INT, x INT, arr ARRAY<INT>", "(1, 100, array(1, 2)), (2, 200, array(3))"),
        ("days", "id INT, d DATE, ts TIMESTAMP", "(1, DATE'1582-10-10', TIMESTAMP'2020-01-01 00:00:01')"),
        ("maps", "id INT, m MAP<STRING, TIMESTAMP>", "(1, map('a', TIMESTAMP'2020-01-01 00:00:00.000001'))"),
    ):
        tr.sql(f"CREATE TABLE s.{table} ({columns})")
        tr.sql(f"INSERT INTO s.{table} VALUES {rows}")
    return tr


def test_names_resolve_as_in_spark(lake: Trickle) -> None:
    for n, definition in enumerate(
        [
            "SELECT u1.* FROM s.u1 JOIN s.u2 USING (id)",
            "SELECT u2.* FROM s.u1 JOIN s.u2 USING (id)",
            "SELECT * FROM s.u1 JOIN s.u2 USING (id)",
            "SELECT * FROM s.n1 NATURAL JOIN s.n2",
            "SELECT x, id FROM (s.u1) AS t(id, x)",
            "SELECT id, concat_ws('-', *) AS c FROM s.u1",
            "SELECT transform(arr, la_a -> la_a + a) AS t FROM s.la",
            "SELECT transform(arr, X -> x + 1) AS t FROM s.la",
        ]
    ):
        follow(lake, f"s.names{n}", definition)
    for table, rows in (("u1", "(5, 30)"), ("u2", "(6, 20)"), ("n1", "(9, 9)"), ("la", "(5, 5, array(6))")):
        lake.sql(f"INSERT INTO s.{table} VALUES {rows}")
    lake.sql("DELETE FROM s.la WHERE a = 1")
    for n in range(8):
        lake.refresh(f"s.names{n}")
        found = lake.verify(f"s.names{n}")
        assert found.equal, (n, found.examples)


def test_a_compaction_leaves_a_global_aggregate_alone(lake: Trickle) -> None:
    lake.sql("CREATE TABLE s.h1 (id INT, p STRUCT<a: INT>)")
    lake.sql("INSERT INTO s.h1 VALUES (1, named_struct('a', 1))")
    lake.sql("INSERT INTO s.h1 VALUES (2, named_struct('a', 4))")
    lake.create_stream_table("s.h", "SELECT sum(p.a) AS x, count(*) AS n, min(p.a) AS m FROM s.h1")
    lake.sql("CALL lake.system.rewrite_data_files(table => 's.h1', options => map('rewrite-all', 'true'))")
    lake.refresh("s.h")
    assert [tuple(r) for r in lake.sql("SELECT * FROM s.h").collect()] == [(5, 2, 1)]


def test_what_a_reader_does_at_a_cut_stays_there(lake: Trickle) -> None:
    lake.sql("CREATE TABLE s.g1 (id INT, v INT)")
    lake.sql("INSERT INTO s.g1 VALUES (1, 1)")
    lake.create_stream_table("s.g", "SELECT id, v AS n FROM g1 TABLESAMPLE (100 PERCENT)")
    with lake.cut() as cut:
        cut.sql("CREATE TEMP VIEW g1 AS SELECT 99 AS id, 99 AS v")
    lake.sql("INSERT INTO s.g1 VALUES (2, 2)")
    lake.refresh("s.g")
    assert lake.verify("s.g").equal


def test_a_changed_column_is_noticed_also_inside_a_struct(lake: Trickle) -> None:
    lake.sql("CREATE TABLE s.t1 (id INT, f FLOAT, p STRUCT<x: INT>)")
    lake.sql("INSERT INTO s.t1 VALUES (1, 0.1, named_struct('x', 100))")
    lake.create_stream_table("s.t1s", "SELECT id, CAST(f AS STRING) AS c FROM s.t1")
    lake.create_stream_table("s.t1p", "SELECT sum(p.x) AS x FROM s.t1")
    lake.sql("ALTER TABLE s.t1 ALTER COLUMN f TYPE DOUBLE")
    lake.sql("ALTER TABLE s.t1 DROP COLUMN p.x")
    lake.sql("ALTER TABLE s.t1 ADD COLUMN p.x INT")
    lake.sql("INSERT INTO s.t1 VALUES (2, 0.5, named_struct('x', 6))")
    for name in ("s.t1s", "s.t1p"):
        assert lake.refresh(name).action is Action.REINITIALIZE
        assert lake.verify(name).equal


@pytest.mark.parametrize("name", ["parquet.`/tmp/x`", "s.u1.snapshots", "global_temp.nothing"])
def test_what_is_not_in_the_lake_is_refused(lake: Trickle, name: str) -> None:
    with pytest.raises(TrickleError) as refused:
        lake.create_stream_table("s.foreign", f"SELECT * FROM {name}")
    assert refused.value.code in ("UNKNOWN_TABLE", "INVALID_QUERY")


@pytest.mark.parametrize(
    "definition",
    [
        "SELECT a.id, current_timestamp() AS c FROM s.u1 a LEFT JOIN s.u2 b ON a.id = b.id",
        "SELECT id, CAST('now' AS TIMESTAMP) AS c FROM s.u1",
        "SELECT id FROM s.u1 WHERE DATE'2020-01-01' < 'today'",
    ],
)
def test_the_clock_is_seen_through_other_refusals(lake: Trickle, definition: str) -> None:
    lake.create_stream_table("s.clock", definition)
    try:
        result = lake.refresh("s.clock")
        assert result.action is Action.FULL
        assert "TIME_DEPENDENT" in result.reason
    finally:
        lake.drop_stream_table("s.clock")


def test_small_differences_are_differences(lake: Trickle) -> None:
    follow(
        lake,
        "s.m",
        "SELECT id, m FROM s.maps",
        "UPDATE s.maps SET m = map('a', TIMESTAMP'2020-01-01 00:00:00.000002')",
    )
    assert lake.sql("SELECT date_format(m['a'], 'SSSSSS') FROM s.m").first()[0] == "000002"
    follow(
        lake,
        "s.d",
        "SELECT id, d, ts FROM s.days",
        "INSERT INTO s.days VALUES (2, DATE'1582-10-11', NULL)",
        "DELETE FROM s.days WHERE id = 1",
    )


def test_windows_of_time_are_not_taken_for_groups(lake: Trickle) -> None:
    lake.create_stream_table(
        "s.sw",
        "SELECT session_window(ts, '5 minutes').start AS s, count(*) AS n "
        "FROM s.days GROUP BY session_window(ts, '5 minutes')",
    )
    assert not lake.status("s.sw")[0].incremental


def test_a_chain_follows_when_its_upstream_gets_new_columns(lake: Trickle) -> None:
    lake.sql("CREATE TABLE s.b2 (id INT)")
    lake.sql("INSERT INTO s.b2 VALUES (1)")
    lake.sql("CREATE VIEW s.v2 AS SELECT * FROM s.b2")
    lake.create_stream_table("s.up2", "SELECT * FROM s.b2")
    lake.create_stream_table("s.dn2", "SELECT id + 1 AS j FROM s.up2")
    lake.create_stream_table("s.vw2", "SELECT id FROM s.v2")
    lake.sql("ALTER TABLE s.b2 ADD COLUMN extra INT")
    lake.sql("INSERT INTO s.b2 VALUES (2, 2)")
    for name in ("s.dn2", "s.vw2"):
        lake.refresh(name)
        assert lake.verify(name).equal, name
    assert lake.verify("s.up2").equal
    assert lake.refresh("s.dn2").action is Action.NO_DATA
