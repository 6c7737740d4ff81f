"""Sources whose columns change: definitions follow by field id, or say what they lost. Files that come and go."""

from __future__ import annotations

from typing import Any

import pytest

from spark_trickle import Action, Trickle
from spark_trickle.model import Status, TableName
from tests.engine.refused import refused


def source(tr: Trickle, name: str, columns: str = "id BIGINT, amount INT, s STRUCT<a: INT, b: STRING>") -> None:
    tr.sql(f"CREATE TABLE s.{name} ({columns}) USING iceberg TBLPROPERTIES ('format-version' = '3')")
    tr.sql(f"INSERT INTO s.{name} SELECT id, id % 7, named_struct('a', id % 3, 'b', 'x') FROM range(50)")


def columns(tr: Trickle, name: str) -> list[str]:
    return list(tr.sql(f"SELECT * FROM {name}").columns)


def equal(tr: Trickle, name: str) -> bool:
    found = tr.verify(name)
    assert found.equal, found
    return True


def step(tr: Trickle, name: str, change: str) -> tuple[Action, str]:
    """One change of the schema, then one of the rows."""
    tr.sql(change)
    after = tr.refresh(name)
    equal(tr, name)
    return after.action, after.reason.partition(":")[0]


@pytest.fixture(scope="module")
def lake(module_tr: Trickle) -> Trickle:
    return module_tr


def test_columns_that_a_definition_does_not_use(lake: Trickle) -> None:
    source(lake, "unused")
    lake.create_stream_table("s.unused_st", "SELECT id, amount FROM s.unused WHERE amount > 2", mode="differential")
    for change in (
        "ALTER TABLE s.unused ADD COLUMN note STRING",
        "ALTER TABLE s.unused RENAME COLUMN s TO nested",
        "ALTER TABLE s.unused ADD COLUMN nested.c INT",
        "ALTER TABLE s.unused DROP COLUMN nested.b",
        "ALTER TABLE s.unused ALTER COLUMN amount FIRST",
        "ALTER TABLE s.unused DROP COLUMN note",
    ):
        assert step(lake, "s.unused_st", change)[0] is Action.NO_DATA, change
    lake.sql("DELETE FROM s.unused WHERE id = 3")
    assert lake.refresh("s.unused_st").action is Action.DIFFERENTIAL
    assert equal(lake, "s.unused_st")


def test_a_rename_is_followed(lake: Trickle) -> None:
    source(lake, "renamed")
    lake.create_stream_table("s.renamed_rows", "SELECT id, amount FROM s.renamed WHERE s.a > 0", mode="differential")
    lake.create_stream_table(
        "s.renamed_sums", "SELECT amount, sum(id) AS t FROM s.renamed GROUP BY amount", mode="differential"
    )
    lake.sql("ALTER TABLE s.renamed RENAME COLUMN amount TO total")
    lake.sql("ALTER TABLE s.renamed RENAME COLUMN s.a TO z")
    lake.sql("INSERT INTO s.renamed VALUES (100, 5, named_struct('z', 1, 'b', 'y'))")
    lake.sql("DELETE FROM s.renamed WHERE id < 5")
    for name in ("s.renamed_rows", "s.renamed_sums"):
        assert lake.refresh(name).action is Action.DIFFERENTIAL
        assert equal(lake, name)
        assert "amount" in columns(lake, name)
    # The old name means another column now: not to this definition.
    lake.sql("ALTER TABLE s.renamed ADD COLUMN amount STRING")
    lake.sql("UPDATE s.renamed SET total = total + 1, amount = 'no number' WHERE id < 20")
    for name in ("s.renamed_rows", "s.renamed_sums"):
        assert lake.refresh(name).action is Action.DIFFERENTIAL
        assert equal(lake, name)
    lake.sql("ALTER TABLE s.renamed RENAME COLUMN amount TO amount2")
    assert lake.refresh("s.renamed_rows").action is Action.NO_DATA
    assert lake.explain("s.renamed_rows").incremental


def test_nothing_is_written_among_the_files_of_a_source(lake: Trickle) -> None:
    """It may be somebody else's, and read-only: what a rename needs is written into our own folder, for a while."""
    source(lake, "theirs")
    lake.create_stream_table("s.theirs_st", "SELECT id, amount FROM s.theirs", mode="differential")
    lake.sql("ALTER TABLE s.theirs RENAME COLUMN amount TO total")
    lake.sql("DELETE FROM s.theirs WHERE id = 3")
    warehouse = lake.settings.warehouse_path
    assert warehouse is not None
    found: list[set[str]] = []

    def look(point: str) -> None:
        found.append({f.relative_to(warehouse).parts[0] for f in warehouse.rglob("trickle-pin-*.json")})

    lake.refresher.probe = look
    try:
        assert lake.refresh("s.theirs_st").action is Action.DIFFERENTIAL
    finally:
        lake.refresher.probe = None
    assert found[0] == {"_trickle"}, "the test sees no pin: it shows nothing"
    assert not list(warehouse.rglob("trickle-pin-*.json"))


def test_two_definitions_see_one_source_differently(lake: Trickle) -> None:
    source(lake, "twice")
    lake.create_stream_table("s.twice_old", "SELECT * FROM s.twice")
    lake.sql("ALTER TABLE s.twice ADD COLUMN extra INT")
    lake.sql("ALTER TABLE s.twice RENAME COLUMN amount TO total")
    lake.create_stream_table("s.twice_new", "SELECT * FROM s.twice")
    lake.create_stream_table(
        "s.twice_both", "SELECT n.id, n.total FROM s.twice_new n JOIN s.twice_old o ON n.id = o.id"
    )
    lake.sql("INSERT INTO s.twice VALUES (200, 1, NULL, 9)")
    lake.refresh(["s.twice_old", "s.twice_new", "s.twice_both"])
    assert columns(lake, "s.twice_old") == ["id", "amount", "s"]
    assert columns(lake, "s.twice_new") == ["id", "total", "s", "extra"]
    for name in ("s.twice_old", "s.twice_new", "s.twice_both"):
        assert equal(lake, name)


def test_star_follows(lake: Trickle) -> None:
    source(lake, "followed")
    lake.sql("CREATE STREAM TABLE s.followed_st STAR FOLLOW AS SELECT *, amount + 1 AS more FROM s.followed")
    assert step(lake, "s.followed_st", "ALTER TABLE s.followed ADD COLUMN note STRING") == (
        Action.REINITIALIZE,
        "DEPENDENCY_CHANGED",
    )
    assert columns(lake, "s.followed_st") == ["id", "amount", "s", "note", "more"]
    step(lake, "s.followed_st", "ALTER TABLE s.followed RENAME COLUMN id TO key")
    assert columns(lake, "s.followed_st") == ["key", "amount", "s", "note", "more"]
    step(lake, "s.followed_st", "ALTER TABLE s.followed DROP COLUMN note")
    assert columns(lake, "s.followed_st") == ["key", "amount", "s", "more"]
    lake.sql("DELETE FROM s.followed WHERE key = 1")
    assert lake.refresh("s.followed_st").action is Action.DIFFERENTIAL
    assert equal(lake, "s.followed_st")
    lake.sql("ALTER TABLE s.followed ADD COLUMN last INT")
    lake.sql("ALTER STREAM TABLE s.followed_st SET STAR PIN")
    assert columns(lake, "s.followed_st") == ["key", "amount", "s", "last", "more"]
    assert step(lake, "s.followed_st", "ALTER TABLE s.followed ADD COLUMN very_last INT")[0] is Action.NO_DATA
    assert columns(lake, "s.followed_st") == ["key", "amount", "s", "last", "more"]
    with refused(lake, "INVALID_STAR", "sometimes"):
        lake.alter_stream_table("s.followed_st", star="sometimes")


@pytest.mark.parametrize(
    ("query", "change", "said"),
    [
        ("SELECT id, amount FROM {t}", "DROP COLUMN amount", "column amount"),
        ("SELECT * FROM {t}", "DROP COLUMN amount", "column amount"),
        ("SELECT id, s.a AS a FROM {t}", "DROP COLUMN s.a", "a"),
        ("SELECT id, s FROM {t}", "DROP COLUMN s.b", "s.b"),
    ],
)
def test_a_dropped_column_that_is_used(lake: Trickle, request: Any, query: str, change: str, said: str) -> None:
    table = f"dropped{abs(hash(request.node.name))}"
    source(lake, table)
    name, text = f"s.{table}_st", query.format(t=f"s.{table}")
    lake.create_stream_table(name, text)
    before = lake.sql(f"SELECT * FROM {name}").count()
    lake.sql(f"ALTER TABLE s.{table} {change}")
    lake.sql(f"DELETE FROM s.{table} WHERE id = 1")
    with refused(lake, "SOURCE_CHANGED", said):
        lake.refresh(name)
    assert lake.status(name)[0].status is Status.ERROR
    assert name in str(lake.status(name)[0].last_error)
    assert lake.sql(f"SELECT * FROM {name}").count() == before
    lake.alter_stream_table(name, query=f"SELECT id FROM s.{table}")
    assert lake.status(name)[0].status is Status.ACTIVE
    assert equal(lake, name)


def test_dropped_and_made_again(lake: Trickle) -> None:
    source(lake, "again")
    lake.create_stream_table("s.again_st", "SELECT id, amount FROM s.again")
    lake.sql("ALTER TABLE s.again DROP COLUMN amount")
    lake.sql("ALTER TABLE s.again ADD COLUMN amount INT")
    result = lake.refresh("s.again_st")
    assert (result.action, result.reason.partition(":")[0]) == (Action.REINITIALIZE, "TABLE_REPLACED")
    assert equal(lake, "s.again_st")
    assert lake.sql("SELECT * FROM s.again_st WHERE amount IS NOT NULL").count() == 0


def test_a_widened_column(lake: Trickle) -> None:
    source(lake, "wide")
    lake.create_stream_table("s.wide_st", "SELECT id, amount FROM s.wide")
    lake.create_stream_table("s.wide_no", "SELECT id FROM s.wide", mode="differential")
    lake.create_stream_table("s.wide_over", "SELECT sum(amount) AS t FROM s.wide_st")
    lake.sql("ALTER TABLE s.wide ALTER COLUMN amount TYPE BIGINT")
    lake.sql("INSERT INTO s.wide VALUES (300, 5000000000, NULL)")
    result = lake.refresh("s.wide_st")
    assert result.action is Action.REINITIALIZE
    assert lake.refresh("s.wide_no").action is Action.DIFFERENTIAL
    lake.refresh("s.wide_over")
    for name in ("s.wide_st", "s.wide_no", "s.wide_over"):
        assert equal(lake, name)
    assert lake.refresh("s.wide_st").action is Action.NO_DATA


def test_a_partition_by_a_column_that_the_definition_does_not_see(lake: Trickle) -> None:
    source(lake, "parted")
    lake.create_stream_table("s.parted_st", "SELECT * FROM s.parted", mode="differential")
    lake.sql("ALTER TABLE s.parted ADD COLUMN day INT")
    lake.sql("ALTER TABLE s.parted ADD PARTITION FIELD day")
    lake.sql("INSERT INTO s.parted SELECT id + 1000, 1, NULL, id % 3 FROM range(20)")
    lake.sql("DELETE FROM s.parted WHERE id IN (1001, 4)")
    assert lake.refresh("s.parted_st").action is Action.DIFFERENTIAL
    assert equal(lake, "s.parted_st")
    assert columns(lake, "s.parted_st") == ["id", "amount", "s"]


def test_defaults(lake: Trickle) -> None:
    source(lake, "defaults")
    lake.create_stream_table("s.defaults_st", "SELECT * FROM s.defaults", mode="differential")
    jvm: Any = lake.spark._jvm
    loaded = jvm.org.apache.iceberg.spark.Spark3Util.loadIcebergTable(lake.spark._jsparkSession, "lake.s.defaults")
    types, literal = jvm.org.apache.iceberg.types.Types, jvm.org.apache.iceberg.expressions.Literal
    loaded.updateSchema().addColumn("level", types.IntegerType.get(), literal.of(7)).commit()
    lake.create_stream_table("s.defaults_new", "SELECT id, level FROM s.defaults", mode="differential")
    lake.sql("INSERT INTO s.defaults VALUES (400, 1, NULL, 8)")
    lake.sql("DELETE FROM s.defaults WHERE id = 2")
    for name in ("s.defaults_st", "s.defaults_new"):
        assert lake.refresh(name).action is Action.DIFFERENTIAL
        assert equal(lake, name)
    found = lake.sql("SELECT DISTINCT level FROM s.defaults_new ORDER BY level").collect()
    assert [r[0] for r in found] == [7, 8]


def test_compaction_is_no_data(lake: Trickle) -> None:
    source(lake, "compacted")
    lake.sql("INSERT INTO s.compacted VALUES (500, 1, NULL)")
    lake.create_stream_table("s.compacted_st", "SELECT id, amount FROM s.compacted", mode="differential")
    lake.sql("CALL lake.system.rewrite_data_files(table => 's.compacted', options => map('rewrite-all', 'true'))")
    result = lake.refresh("s.compacted_st")
    assert (result.action, result.rows_changed) == (Action.NO_DATA, {"s.compacted": 0})
    assert not lake.status("s.compacted_st")[0].pending
    assert equal(lake, "s.compacted_st")


def test_a_compaction_leaves_a_global_aggregate_alone(lake: Trickle) -> None:
    lake.sql("CREATE TABLE s.h1 (id INT, p STRUCT<a: INT>)")
    lake.sql("INSERT INTO s.h1 VALUES (1, named_struct('a', 1))")
    lake.sql("INSERT INTO s.h1 VALUES (2, named_struct('a', 4))")
    lake.create_stream_table("s.h", "SELECT sum(p.a) AS x, count(*) AS n, min(p.a) AS m FROM s.h1")
    lake.sql("CALL lake.system.rewrite_data_files(table => 's.h1', options => map('rewrite-all', 'true'))")
    lake.refresh("s.h")
    assert [tuple(r) for r in lake.sql("SELECT * FROM s.h").collect()] == [(5, 2, 1)]


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


def test_a_file_that_comes_again(lake: Trickle) -> None:
    """Deletes that were written before it came again do not apply to it."""
    tr: Any = lake
    tr.sql("CREATE TABLE s.returned (id INT) USING iceberg TBLPROPERTIES ('format-version' = '2', "
           "'write.delete.mode' = 'merge-on-read')")  # fmt: skip
    tr.sql("INSERT INTO s.returned SELECT /*+ COALESCE(1) */ id FROM range(10)")
    tr.sql("INSERT INTO s.returned VALUES (100)")
    tr.create_stream_table("s.of_returned", "SELECT id FROM s.returned", mode="differential")
    tr.sql("DELETE FROM s.returned WHERE id = 3")
    tr.refresh("s.of_returned")
    jvm = tr.spark._jvm
    name = TableName.of("s.returned")
    table = tr.refresher.lake.load(name)
    tasks = table.newScan().planFiles().iterator()
    file = next(t.file() for t in iter(tasks.next, None) if t.file().recordCount() == 10)
    table.newDelete().deleteFile(file).commit()
    added = jvm.org.apache.iceberg.DataFiles.builder(table.spec()).copy(file).build()
    table.newAppend().appendFile(added).commit()
    assert tr.sql("SELECT count(*) FROM s.returned").collect()[0][0] == 11
    assert tr.refresh("s.of_returned").action is Action.DIFFERENTIAL
    assert tr.verify("s.of_returned").equal
