"""Bad input: each case gives its code, says what and where, and loses nothing."""

from __future__ import annotations

import os
import sqlite3
import subprocess
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from spark_trickle import Action, Trickle, connect
from spark_trickle.errors import TrickleError
from spark_trickle.model import Status
from tests.engine.refused import refused


def rows(tr: Trickle, query: str) -> list[tuple[Any, ...]]:
    return sorted((tuple(r) for r in tr.sql(query).collect()), key=repr)


@pytest.fixture(scope="module")
def lake(module_tr: Trickle) -> Trickle:
    tr = module_tr
    tr.sql("CREATE TABLE s.base (id BIGINT, v STRING, x DOUBLE)")
    tr.sql("INSERT INTO s.base VALUES (1, 'a', 1.5), (2, 'b', 2.5)")
    tr.sql("CREATE VIEW s.a_view AS SELECT id, v FROM s.base")
    tr.create_stream_table("s.kept", "SELECT id, v FROM s.base")
    tr.create_stream_table("s.hidden", "SELECT v, count(*) AS n FROM s.base GROUP BY v HAVING count(*) > 0")
    return tr


# -- definitions that are refused --------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("query", "code", "words"),
    [
        ("SELECT * FROM s.nope", "UNKNOWN_TABLE", ["s.nope"]),
        ("SELECT id\nFROM s.base JOIN elsewhere.nope", "UNKNOWN_TABLE", ["elsewhere.nope", "line 2"]),
        ("SELECT nope FROM s.base", "UNKNOWN_COLUMN", ["`nope`", "`id`, `v`", "line 1"]),
        ("SELECT id,\n  b.nope FROM s.base b", "UNKNOWN_COLUMN", ["`b`.`nope`", "line 2"]),
        ("SELECT id\nFROM s.base WHERE (id > 1", "SYNTAX_ERROR", ["line 2"]),
        ("SELECT id FROM s.base WHERE v = 'x", "SYNTAX_ERROR", ["line 1, column 33"]),
        ("SELEC id FROM s.base", "SYNTAX_ERROR", ["line 1", "SELEC"]),
        ("", "SYNTAX_ERROR", []),
        ("-- nothing", "SYNTAX_ERROR", []),
        ("SELECT id, v AS ID FROM s.base", "DUPLICATE_COLUMN", ["ID"]),
        ("SELECT a.id, b.id FROM s.base a JOIN s.base b ON a.id = b.id", "DUPLICATE_COLUMN", ["id"]),
        ("SELECT id, INTERVAL '1' DAY AS gap FROM s.base", "UNSTORABLE_TYPE", ["gap", "interval day"]),
        ("SELECT id, array(INTERVAL '1' MONTH) AS gaps FROM s.base", "UNSTORABLE_TYPE", ["gaps"]),
        ("SELECT id, NULL AS nothing FROM s.base", "UNSTORABLE_TYPE", ["nothing", "void"]),
        ("SELECT id AS _t_count FROM s.base", "INVALID_NAME", ["_t_count"]),
        ("SELECT id AS _t_w FROM s.base", "INVALID_NAME", ["_t_w"]),
        ("SELECT id FROM _trickle.s__hidden__state1", "INVALID_QUERY", ["_trickle.s__hidden__state1", "hidden"]),
        ("SELECT id FROM s.refused", "CYCLE", ["s.refused -> s.refused"]),
        ("SELECT id, count(*) AS n FROM s.base GROUP BY v", "INVALID_QUERY", ["id"]),
        ("SELECT no_such_function(id) AS f FROM s.base", "INVALID_QUERY", ["no_such_function"]),
        ("SELECT :p AS p FROM s.base", "INVALID_QUERY", ["p"]),
    ],
)
def test_definitions(lake: Trickle, query: str, code: str, words: list[str]) -> None:
    with refused(lake, code, *words):
        lake.create_stream_table("s.refused", query)


@pytest.mark.parametrize(
    "command",
    [
        "DROP TABLE s.base",
        "DROP TABLE s.base PURGE",
        "BEGIN DROP TABLE s.base PURGE; END",
        "INSERT INTO s.base VALUES (3, 'c', 1.0)",
        "WITH q AS (SELECT * FROM s.base) INSERT INTO s.base SELECT * FROM q",
        "FROM s.base INSERT INTO s.base SELECT *",
        "CREATE TABLE s.made AS SELECT 1 AS one",
        "SELECT id FROM s.base; DROP TABLE s.base",
        "SET spark.sql.shuffle.partitions = 1",
    ],
)
def test_a_command_is_no_definition_and_is_not_run(lake: Trickle, command: str) -> None:
    with refused(lake, "SYNTAX_ERROR"):
        lake.create_stream_table("s.refused", command)
    with refused(lake, "SYNTAX_ERROR"):
        lake.sql(f"CREATE STREAM TABLE s.refused AS {command}")
    with refused(lake, "SYNTAX_ERROR"):
        lake.alter_stream_table("s.kept", query=command)
    assert rows(lake, "SELECT id FROM s.base") == [(1,), (2,)]


@pytest.mark.parametrize(
    ("arguments", "code", "words"),
    [
        ({"schedule": "often"}, "INVALID_SCHEDULE", ["often"]),
        ({"schedule": "0s"}, "INVALID_SCHEDULE", ["0s"]),
        ({"mode": "fast"}, "INVALID_MODE", ["fast", "AUTO, DIFFERENTIAL, FULL"]),
        ({"name": "s.base"}, "NAME_TAKEN", ["table s.base"]),
        ({"name": "s.a_view"}, "NAME_TAKEN", ["view s.a_view"]),
        ({"name": "s.kept"}, "NAME_TAKEN", ["stream table s.kept"]),
        ({"name": "kept"}, "NAME_TAKEN", ["stream table s.kept"]),
        ({"name": "lake.s.kept"}, "NAME_TAKEN", ["stream table s.kept"]),
        ({"name": "_trickle.mine"}, "INVALID_NAME", ["_trickle"]),
    ],
)
def test_arguments(lake: Trickle, arguments: dict[str, Any], code: str, words: list[str]) -> None:
    with refused(lake, code, *words):
        lake.create_stream_table(**({"name": "s.refused", "query": "SELECT id FROM s.base"} | arguments))


def test_unknown_stream_tables_list_those_that_are_there(lake: Trickle) -> None:
    for call in (lake.refresh, lake.drop_stream_table, lake.explain, lake.verify, lake.status, lake.alter_stream_table):
        with refused(lake, "UNKNOWN_STREAM_TABLE", "s.absent", "s.kept"):
            call("s.absent")
    with refused(lake, "INVALID_MODE", "hourly"):
        lake.refresh("s.kept", mode="hourly")


def test_objects_of_one_session(lake: Trickle) -> None:
    lake.spark.range(3).createOrReplaceTempView("passing")
    lake.spark.udf.register("homemade", lambda x: x)
    try:
        with refused(lake, "SESSION_OBJECT", "passing", "temporary view"):
            lake.create_stream_table("s.refused", "SELECT id FROM passing")
        with refused(lake, "SESSION_OBJECT", "homemade", "function"):
            lake.create_stream_table("s.refused", "SELECT homemade(v) AS h FROM s.base")
    finally:
        lake.spark.catalog.dropTempView("passing")


def test_settings_are_named(tmp_path: Path) -> None:
    for options, word in (({"no_such": 1}, "no_such"), ({"max_change_ratio": -1}, "max_change_ratio")):
        with pytest.raises(TrickleError) as caught:
            connect(tmp_path / "lake", **options)
        assert caught.value.code == "INVALID_SETTING"
        assert word in caught.value.message
        assert caught.value.hint
    assert not (tmp_path / "lake").exists()


# -- what has no delta rule --------------------------------------------------------------------------------------------


def test_without_a_rule(lake: Trickle) -> None:
    query = "SELECT id, v\nFROM s.base TABLESAMPLE (100 PERCENT)"
    with refused(lake, "NOT_INCREMENTAL", "SAMPLE", "line 2, column 6"):
        lake.create_stream_table("s.sampled", query, mode="differential")
    assert lake.create_stream_table("s.sampled", query).action is Action.FULL
    (shown,) = lake.status("s.sampled")
    assert not shown.incremental
    assert str(shown.reason).startswith("SAMPLE at line 2, column 6")
    with refused(lake, "NOT_INCREMENTAL", "SAMPLE"):
        lake.alter_stream_table("s.sampled", mode="differential")
    lake.sql("INSERT INTO s.base VALUES (7, 'z', 0.5)")
    with refused(lake, "NOT_INCREMENTAL", "s.sampled", "SAMPLE"):
        lake.refresh("s.sampled", mode="differential")
    result = lake.refresh("s.sampled")
    assert (result.action, result.reason.split(" ")[0]) == (Action.FULL, "SAMPLE")
    assert lake.history("s.sampled")[0].reason == result.reason
    assert lake.verify("s.sampled").equal
    lake.sql("DELETE FROM s.base WHERE id = 7")


# -- dependents and cycles ---------------------------------------------------------------------------------------------


def test_dependents_and_cycles(lake: Trickle) -> None:
    lake.create_stream_table("s.one", "SELECT id, v FROM s.base")
    lake.create_stream_table("s.two", "SELECT id FROM s.one")
    lake.create_stream_table("s.three", "SELECT id + 1 AS id FROM s.two")
    lake.sql("CREATE VIEW s.over_three AS SELECT id FROM s.three")
    with refused(lake, "CYCLE", "s.one -> s.three -> s.two -> s.one"):
        lake.alter_stream_table("s.one", query="SELECT id, 'x' AS v FROM s.three")
    with refused(lake, "CYCLE", "s.one -> s.three -> s.two -> s.one"):  # through a view
        lake.alter_stream_table("s.one", query="SELECT id, 'x' AS v FROM s.over_three")
    with refused(lake, "CYCLE", "s.one -> s.three"):  # without a rule
        lake.alter_stream_table("s.one", query="SELECT id, 'x' AS v FROM s.three ORDER BY id LIMIT 3")
    with refused(lake, "CYCLE", "s.one -> s.one"):
        lake.alter_stream_table("s.one", query="SELECT id, v FROM s.one")
    with refused(lake, "HAS_DEPENDENTS", "s.one", "s.three, s.two"):
        lake.drop_stream_table("s.one")
    with refused(lake, "HAS_DEPENDENTS", "s.three"):
        lake.sql("DROP STREAM TABLE s.two")
    assert lake.drop_stream_table("s.one", cascade=True) == ("s.three", "s.two", "s.one")
    left = {str(n) for n in lake.store.pointers()}
    assert not left & {"s.one", "s.two", "s.three"}
    assert lake.drop_stream_table("s.one", if_exists=True) == ()


# -- stream tables written by somebody else ----------------------------------------------------------------------------


def test_stream_tables_written_behind_our_back(lake: Trickle) -> None:
    lake.create_stream_table("s.auto", "SELECT id, v FROM s.base")
    lake.create_stream_table("s.strict", "SELECT id, v FROM s.base", mode="differential")
    for name in ("auto", "strict"):
        lake.spark.sql(f"DELETE FROM s.{name} WHERE id = 1")
    with refused(lake, "INTEGRITY", "s.strict"):
        lake.refresh("s.strict")
    assert lake.status("s.strict")[0].status is Status.ERROR
    strict = lake.alerts(name="s.strict", open_only=True)
    assert [a.kind for a in strict] == ["REINITIALIZE_NEEDED", "INTEGRITY"]
    result = lake.refresh("s.auto")
    assert result.action is Action.REINITIALIZE
    assert result.reason.startswith("INTEGRITY: somebody else wrote to s.auto")
    alert = lake.store.alerts()[0]
    assert (alert.kind, alert.name) == ("INTEGRITY", "s.auto")
    assert lake.refresh("s.strict", mode="full").action is Action.FULL
    assert lake.status("s.strict")[0].status is Status.ACTIVE
    assert [a.kind for a in lake.alerts(name="s.strict", open_only=True)] == ["INTEGRITY"]
    lake.spark.sql("DROP TABLE s.auto")
    again = lake.refresh("s.auto")
    assert (again.action, again.reason.split(":")[0]) == (Action.REINITIALIZE, "INTEGRITY")
    assert [(a.kind, a.occurrences) for a in lake.alerts(name="s.auto")] == [("INTEGRITY", 2)]
    for name in ("auto", "strict"):
        assert lake.verify(f"s.{name}").equal
        assert rows(lake, f"SELECT id FROM s.{name}") == [(1,), (2,)]
    lake.sql("INSERT INTO s.base VALUES (9, 'n', 0.0)")
    assert lake.refresh("s.strict").action is Action.DIFFERENTIAL
    lake.sql("DELETE FROM s.base WHERE id = 9")


def test_a_name_that_somebody_else_took(lake: Trickle) -> None:
    lake.create_stream_table("s.seen", "SELECT id FROM s.base")
    lake.spark.sql("DROP TABLE s.seen")
    lake.refresh("s.seen")
    assert rows(lake, "SELECT id FROM s.seen") == [(1,), (2,)]
    for what, made in (("TABLE", "(mine INT) USING iceberg"), ("VIEW", "AS SELECT 7 AS mine")):
        lake.spark.sql("DROP TABLE s.seen")
        lake.spark.sql(f"CREATE {what} s.seen {made}")
        for mode in (None, "full"):
            with refused(lake, "NAME_TAKEN", "s.seen", what.lower()):
                lake.refresh("s.seen", mode=mode)
        assert lake.sql("SELECT * FROM s.seen").columns == ["mine"]
        lake.spark.sql(f"DROP {what} s.seen")
        lake.refresh("s.seen")
    lake.spark.sql("DROP TABLE s.seen")
    lake.spark.sql("CREATE TABLE s.seen (mine INT) USING iceberg")
    lake.drop_stream_table("s.seen")
    assert lake.sql("SELECT * FROM s.seen").columns == ["mine"], "it is not ours to drop"
    lake.sql("DROP TABLE s.seen")


# -- sources that change under a definition ----------------------------------------------------------------------------


@pytest.fixture
def source(lake: Trickle) -> Iterator[str]:
    """A source with a column that nobody uses, and two stream tables over it."""
    lake.sql("CREATE TABLE s.source (id BIGINT, used STRING, unused STRING)")
    lake.sql("INSERT INTO s.source VALUES (1, 'a', 'x'), (2, 'b', 'y')")
    lake.create_stream_table("s.auto_copy", "SELECT id, used FROM s.source")
    lake.create_stream_table("s.strict_copy", "SELECT id, used FROM s.source", mode="differential")
    yield "s.source"
    for name in ("s.auto_copy", "s.strict_copy"):
        lake.drop_stream_table(name)
    lake.sql("DROP TABLE IF EXISTS s.source")


def test_columns_that_are_not_used(lake: Trickle, source: str) -> None:
    lake.sql("ALTER TABLE s.source ADD COLUMN more INT")
    assert lake.refresh("s.auto_copy").action is Action.NO_DATA
    lake.sql("ALTER TABLE s.source RENAME COLUMN unused TO other")
    assert lake.refresh("s.strict_copy").action is Action.NO_DATA
    lake.sql("ALTER TABLE s.source DROP COLUMN other")
    lake.sql("INSERT INTO s.source VALUES (3, 'c', 3)")
    assert lake.refresh("s.strict_copy").action is Action.DIFFERENTIAL
    assert lake.verify("s.strict_copy").equal


def test_a_used_column_that_goes(lake: Trickle, source: str) -> None:
    lake.sql("ALTER TABLE s.source RENAME COLUMN used TO renamed")
    for name in ("s.auto_copy", "s.strict_copy"):
        assert lake.refresh(name).action is Action.NO_DATA  # it is the same column
    lake.sql("ALTER TABLE s.source DROP COLUMN renamed")
    for name in ("s.auto_copy", "s.strict_copy"):
        with refused(lake, "SOURCE_CHANGED", name, "used"):
            lake.refresh(name)
        assert lake.status(name)[0].status is Status.ERROR
    assert lake.history("s.auto_copy")[0].error_code == "SOURCE_CHANGED"
    assert rows(lake, "SELECT used FROM s.auto_copy") == [("a",), ("b",)]  # the old content stays
    # Another column of the same name is another column.
    lake.sql("ALTER TABLE s.source ADD COLUMN used STRING")
    with refused(lake, "TABLE_REPLACED", "s.strict_copy", "used", "s.source"):
        lake.refresh("s.strict_copy")
    assert lake.refresh("s.auto_copy").action is Action.REINITIALIZE
    assert rows(lake, "SELECT used FROM s.auto_copy") == [(None,), (None,)]
    assert lake.verify("s.auto_copy").equal


def test_a_source_that_is_dropped_and_made_again(lake: Trickle, source: str) -> None:
    lake.sql("DROP TABLE s.source")
    for name in ("s.auto_copy", "s.strict_copy"):
        with refused(lake, "SOURCE_DROPPED", name, "source"):
            lake.refresh(name)
    with refused(lake, "SOURCE_DROPPED", "s.source"):
        lake.verify("s.auto_copy")
    assert lake.status("s.auto_copy")[0].status is Status.ERROR
    assert rows(lake, "SELECT id FROM s.auto_copy") == [(1,), (2,)]
    lake.sql("CREATE TABLE s.source (used STRING, id BIGINT)")
    lake.sql("INSERT INTO s.source VALUES ('n', 5)")
    with refused(lake, "TABLE_REPLACED", "s.strict_copy", "s.source"):
        lake.refresh("s.strict_copy")
    result = lake.refresh("s.auto_copy")
    assert (result.action, result.reason.split(":")[0]) == (Action.REINITIALIZE, "TABLE_REPLACED")
    assert lake.refresh("s.strict_copy", mode="full").action is Action.FULL
    lake.sql("INSERT INTO s.source VALUES ('m', 6)")
    assert lake.refresh("s.strict_copy").action is Action.DIFFERENTIAL
    assert rows(lake, "SELECT id FROM s.strict_copy") == [(5,), (6,)]


def test_an_expired_snapshot(lake: Trickle, source: str) -> None:
    lake.sql("INSERT INTO s.source VALUES (3, 'c', 'z')")
    lake.sql(
        "CALL lake.system.expire_snapshots(table => 's.source', older_than => TIMESTAMP '2100-01-01 00:00:00', "
        "retain_last => 1)"
    )
    with refused(lake, "SNAPSHOT_EXPIRED", "s.strict_copy", "s.source"):
        lake.refresh("s.strict_copy")
    result = lake.refresh("s.auto_copy")
    assert (result.action, result.reason.split(":")[0]) == (Action.REINITIALIZE, "SNAPSHOT_EXPIRED")
    assert lake.refresh("s.strict_copy", mode="full").action is Action.FULL
    for name in ("s.auto_copy", "s.strict_copy"):
        assert lake.verify(name).equal
        assert rows(lake, f"SELECT id FROM {name}") == [(1,), (2,), (3,)]


# -- the catalog -------------------------------------------------------------------------------------------------------


def edit(tr: Trickle, statement: str, *values: Any) -> None:
    with closing(sqlite3.connect(tr.settings.location / "catalog.db")) as database:
        database.execute(statement, values)
        database.commit()


@pytest.mark.parametrize(("column", "value"), [("mode", "SOMETIMES"), ("columns", "[{"), ("created_at", "yesterday")])
def test_a_corrupted_row(lake: Trickle, column: str, value: str) -> None:
    with closing(sqlite3.connect(lake.settings.location / "catalog.db")) as database:
        (good,) = database.execute(f"SELECT {column} FROM trickle_stream_tables WHERE name = 'kept'").fetchone()
    edit(lake, f"UPDATE trickle_stream_tables SET {column} = ? WHERE name = 'kept'", value)
    try:
        for call in (lambda: lake.refresh("s.kept"), lake.status, lambda: lake.drop_stream_table("s.kept")):
            with pytest.raises(TrickleError) as caught:
                call()
            assert caught.value.code == "CATALOG_CORRUPT"
            assert column in caught.value.message
            assert caught.value.hint
    finally:
        edit(lake, f"UPDATE trickle_stream_tables SET {column} = ? WHERE name = 'kept'", good)
    lake.refresh("s.kept")
    assert lake.verify("s.kept").equal


def test_a_catalog_of_a_newer_version(tr: Trickle) -> None:
    tr.sql("CREATE TABLE s.t (id INT)")
    with closing(sqlite3.connect(tr.settings.location / "catalog.db")) as database:
        (table,) = database.execute("SELECT name FROM sqlite_master WHERE name LIKE '%alembic%'").fetchone()
        (good,) = database.execute(f"SELECT version_num FROM {table}").fetchone()
    edit(tr, f"UPDATE {table} SET version_num = '9999'")
    with pytest.raises(TrickleError) as caught:
        connect(tr.settings.location)
    assert caught.value.code == "CATALOG_NEWER"
    assert "9999" in caught.value.message
    assert "pgrade" in caught.value.hint
    edit(tr, f"UPDATE {table} SET version_num = ?", good)
    with connect(tr.settings.location) as again:
        assert "s.t" in {str(n) for n in again.store.pointers()}


# -- a full disk -------------------------------------------------------------------------------------------------------


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    """A folder whose warehouse is a file system of 12 MB."""
    warehouse = tmp_path / "lake" / "warehouse"
    warehouse.mkdir(parents=True)
    if os.geteuid() != 0:
        pytest.skip("mounting a small disk needs root")
    mounted = subprocess.run(
        ["mount", "-t", "tmpfs", "-o", "size=12m", "tmpfs", str(warehouse)], capture_output=True, text=True, check=False
    )
    if mounted.returncode:
        pytest.skip(f"a small disk cannot be mounted here: {mounted.stderr.strip()}")
    yield tmp_path / "lake"
    subprocess.run(["umount", "--lazy", str(warehouse)], check=True)


def test_a_full_disk(spark: object, small_disk: Path) -> None:
    wide = "SELECT id, sha2(CAST(id AS STRING), 512) AS a, sha2(concat('x', id), 512) AS b FROM s.ids"
    with connect(small_disk, shuffle_partitions=2) as tr:
        tr.sql("CREATE NAMESPACE s")
        tr.sql("CREATE TABLE s.ids (id BIGINT)")
        tr.sql("INSERT INTO s.ids SELECT id FROM range(100)")
        tr.create_stream_table("s.wide", wide)
        tr.create_stream_table("s.wide_too", wide, mode="differential")
        tr.sql("INSERT INTO s.ids SELECT id FROM range(100, 200000)")
        for name in ("s.wide", "s.wide_too"):  # FULL, then DIFFERENTIAL
            # Iceberg's writer leaves the file that it could not finish; nothing refers to it.
            with refused(tr, "STORAGE_FULL", name, files=False):
                tr.refresh(name)
            assert rows(tr, f"SELECT count(*) FROM {name}") == [(100,)]
            assert tr.history(name)[0].error_code == "STORAGE_FULL"
        with refused(tr, "STORAGE_FULL", files=False):
            tr.create_stream_table("s.third", wide)
        warehouse = str(small_disk / "warehouse")
        subprocess.run(["mount", "-o", "remount,size=300m", warehouse], check=True)
        for name in ("s.wide", "s.wide_too"):
            tr.refresh(name)
            assert tr.verify(name).equal
            assert rows(tr, f"SELECT count(*) FROM {name}") == [(200000,)]


@pytest.mark.parametrize("name", ["parquet.`/tmp/x`", "s.base.snapshots", "global_temp.nothing"])
def test_what_is_not_in_the_lake_is_refused(lake: Trickle, name: str) -> None:
    with pytest.raises(TrickleError) as caught:
        lake.create_stream_table("s.foreign", f"SELECT * FROM {name}")
    assert caught.value.code in ("UNKNOWN_TABLE", "INVALID_QUERY")


def test_an_error_of_the_engine_is_one(lake: Trickle) -> None:
    with pytest.raises(TrickleError) as caught:
        lake.alter_stream_table("s.nowhere", "SELECT 1")
    assert caught.value.code == "UNKNOWN_STREAM_TABLE"
