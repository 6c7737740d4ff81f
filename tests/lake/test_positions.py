"""Commits by position: the table reads as SQL would have left it, and the change feed agrees."""

from __future__ import annotations

import json
import random
from collections import Counter, defaultdict
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import pytest

from spark_trickle.errors import TrickleError
from spark_trickle.lake.feed import read_changes
from spark_trickle.lake.positions import append_and_delete
from spark_trickle.spark.analyze import type_text
from spark_trickle.spark.runtime import collect_local, register_functions
from spark_trickle.sql.identity import identity
from spark_trickle.sql.scalar import column

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.spark


@pytest.fixture
def name(spark: SparkSession) -> Iterator[str]:
    spark.sql("CREATE SCHEMA IF NOT EXISTS lake.p")
    name = f"lake.p.t{random.SystemRandom().randrange(10**9)}"
    yield name
    spark.sql(f"DROP TABLE IF EXISTS {name} PURGE")


def create(spark: SparkSession, name: str, part: str = "", version: int = 3) -> None:
    spark.sql(
        f"CREATE TABLE {name} (id BIGINT, g INT, v STRING) USING iceberg {part} TBLPROPERTIES ("
        f"'format-version'='{version}', 'write.delete.mode'='merge-on-read')"
    )
    for i in range(3):
        spark.sql(f"INSERT INTO {name} SELECT id + {i * 100}, CAST(id % 2 AS INT), 'a' FROM range(100)")


def load(spark: SparkSession, name: str) -> Any:
    return spark._jvm.org.apache.iceberg.spark.Spark3Util.loadIcebergTable(spark._jsparkSession, name)


def places(spark: SparkSession, name: str, where: str) -> dict[str, list[int]]:
    found: dict[str, list[int]] = defaultdict(list)
    for file, position in spark.sql(f"SELECT _file, _pos FROM {name} WHERE {where}").collect():
        found[file].append(position)
    return found


def ids(spark: SparkSession, name: str) -> Counter[int]:
    return Counter(r[0] for r in spark.sql(f"SELECT id FROM {name}").collect())


@pytest.mark.parametrize("part", ["", "PARTITIONED BY (g)", "PARTITIONED BY (bucket(3, id))"])
def test_delete_and_delete_again(spark: SparkSession, name: str, part: str) -> None:
    create(spark, name, part)
    gone: set[int] = set()
    for where, more in (
        ("id IN (5, 105)", {5, 105}),
        ("id IN (6, 105, 106)", {6, 106}),
        ("id < 3", {0, 1, 2}),
    ):
        table = load(spark, name)
        before = table.currentSnapshot().snapshotId()
        after = append_and_delete(spark, table, None, places(spark, name, where)).snapshot
        gone |= more
        assert ids(spark, name) == Counter(set(range(300)) - gone)
        assert after == load(spark, name).currentSnapshot().snapshotId()
        with read_changes(spark, load(spark, name), before, after, ["id"]) as feed:
            assert feed.rows == len(more)
            assert feed.frame is not None
            assert {tuple(r) for r in feed.frame.collect()} == {(i, -1) for i in more}
    per_file = spark.sql(f"SELECT referenced_data_file FROM {name}.delete_files").collect()
    assert len(per_file) == len(set(per_file))  # one vector per data file: older ones were replaced
    spark.sql(f"DELETE FROM {name} WHERE id = 7")  # Spark goes on from there
    assert ids(spark, name) == Counter(set(range(300)) - gone - {7})


@pytest.mark.parametrize("part", ["", "PARTITIONED BY (g)"])
@pytest.mark.parametrize("few", [False, True])
def test_append_and_delete_in_one_commit(spark: SparkSession, name: str, part: str, few: bool) -> None:
    create(spark, name, part)
    table = load(spark, name)
    before = table.currentSnapshot().snapshotId()
    rows = spark.sql("SELECT 'new' AS v, CAST(id % 2 AS INT) AS g, id FROM range(1000, 1004)")
    entering = collect_local(rows, 10) if few else rows
    after = append_and_delete(spark, table, entering, places(spark, name, "id IN (1, 2)")).snapshot
    current = load(spark, name)
    assert current.currentSnapshot().parentId() == before
    assert ids(spark, name) == Counter([*(set(range(300)) - {1, 2}), *range(1000, 1004)])
    assert spark.sql(f"SELECT count(DISTINCT _row_id), count(*) FROM {name}").first() == (302, 302)
    with read_changes(spark, current, before, after, ["id", "v"]) as feed:
        assert feed.rows == 6
        assert feed.frame is not None
        found = {tuple(r) for r in feed.frame.collect()}
    assert found == {(1, "a", -1), (2, "a", -1), *((i, "new", 1) for i in range(1000, 1004))}
    spark.sql(f"UPDATE {name} SET v = 'u' WHERE id = 1001")
    assert spark.sql(f"SELECT v FROM {name} WHERE id = 1001").collect() == [("u",)]


def test_many_positions(spark: SparkSession, name: str) -> None:
    create(spark, name)
    spark.sql(f"INSERT INTO {name} SELECT /*+ COALESCE(1) */ id + 1000, 0, 'b' FROM range(50000)")
    append_and_delete(spark, load(spark, name), None, places(spark, name, "id >= 1000 AND id % 5 = 0"))
    assert spark.sql(f"SELECT count(*), count_if(id >= 1000 AND id % 5 = 0) FROM {name}").first() == (
        40300,
        0,
    )


def test_conflict_publishes_nothing(spark: SparkSession, name: str) -> None:
    create(spark, name)
    table, found = load(spark, name), places(spark, name, "id = 5")
    spark.sql(f"DELETE FROM {name} WHERE id = 6")
    at = load(spark, name).currentSnapshot().snapshotId()
    with pytest.raises(Exception, match="concurrently added DV"):
        append_and_delete(spark, table, None, found)
    assert load(spark, name).currentSnapshot().snapshotId() == at
    assert ids(spark, name) == Counter(set(range(300)) - {6})


def test_refusals(spark: SparkSession, name: str) -> None:
    create(spark, name, version=2)
    with pytest.raises(TrickleError, match="not a v3 table"):
        append_and_delete(spark, load(spark, name), None, {"x": [1]})
    spark.sql(f"ALTER TABLE {name} SET TBLPROPERTIES ('format-version'='3')")
    # Files of a table that was never partitioned are not looked up: their positions come from a scan of the table.
    spark.sql(f"ALTER TABLE {name} ADD PARTITION FIELD bucket(2, id)")
    with pytest.raises(TrickleError, match="no data file"):
        append_and_delete(spark, load(spark, name), None, {"x": [1]})


VALUES = (
    "CAST(id AS INT) AS i",
    "id AS l",
    "IF(id = 1, NULL, CAST(id AS STRING)) AS s",
    "CAST(X'FF00C328' AS STRING) AS bytes",
    "X'00FF' AS b",
    "CAST('-0.0' AS DOUBLE) AS d",
    "CAST('NaN' AS FLOAT) AS f",
    "CAST('99999999999999999999999999999999999.123' AS DECIMAL(38,3)) AS wide",
    "CAST('-1.5' AS DECIMAL(9,2)) AS narrow",
    "DATE'0001-01-01' AS day",
    "TIMESTAMP'1582-10-10 00:00:00.123456' AS instant",
    "TIMESTAMP_NTZ'9999-12-31 23:59:59.999999' AS local",
    "map('z', 1, 'b', NULL, 'a', 3) AS m",
    "array(named_struct('x', 1, 'y', map(X'FF', array(0.0D, -0.0D, NULL))), NULL) AS nested",
    'parse_json(\'{"b": [1, "1", 1.0, null], "a": {}}\') AS v',
    "id % 2 = 0 AS odd",
)


@pytest.mark.parametrize("file_format", ["parquet", "orc", "avro"])
def test_rows_written_on_the_driver_are_those_that_spark_writes(
    spark: SparkSession, name: str, file_format: str
) -> None:
    columns = [v for v in VALUES if file_format == "parquet" or not v.endswith(" v")]
    rows = spark.sql(f"SELECT {', '.join(reversed(columns))} FROM range(3)")
    types = ", ".join(f"{f.name} {f.dataType.simpleString()}" for f in reversed(rows.schema.fields))
    properties = f"'format-version'='3', 'write.format.default'='{file_format}'"
    spark.sql(f"CREATE TABLE {name} ({types}) TBLPROPERTIES ({properties})")
    register_functions(spark)
    forms = ", ".join(identity(column(f.name), type_text(f.dataType)).sql() for f in rows.schema)
    group = f"write {file_format}"
    spark.sparkContext.setJobGroup(group, "on the driver")
    try:
        made = append_and_delete(spark, load(spark, name), collect_local(rows, 10), {})
        assert len(spark.sparkContext.statusTracker().getJobIdsForGroup(group)) <= 1  # range(); a write has another
    finally:
        spark.sparkContext.setLocalProperty("spark.jobGroup.id", None)  # type: ignore[arg-type]
    assert made.summary["added-records"] == 3
    found = spark.sql(f"SELECT file_path FROM {name}.files").collect()
    assert [f.file_path.rsplit(".", 1)[1] for f in found] == [file_format]
    rows.createOrReplaceTempView("meant")
    for one, other in (("meant", name), (name, "meant")):
        assert spark.sql(f"SELECT {forms} FROM {one} EXCEPT ALL SELECT {forms} FROM {other}").collect() == []
    statistics = f"SELECT to_json(readable_metrics) FROM {name}.files"

    def told() -> list[dict[str, object]]:
        """Counts and bounds per column; its size depends on how it was compressed."""
        found = [json.loads(r[0]) for r in spark.sql(statistics).collect()]
        return [{c: {k: v for k, v in m.items() if k != "column_size"} for c, m in f.items()} for f in found]

    (ours,) = told()
    append_and_delete(spark, load(spark, name), rows.coalesce(1), {})
    assert told() == [ours, ours]


def test_rows_of_other_types_are_cast_by_spark(spark: SparkSession, name: str) -> None:
    spark.sql(f"CREATE TABLE {name} (i INT) TBLPROPERTIES ('format-version'='3')")
    rows = collect_local(spark.sql("SELECT CAST(id AS TINYINT) AS i FROM range(3)"), 10)
    append_and_delete(spark, load(spark, name), rows, {})
    assert sorted(r.i for r in spark.table(name).collect()) == [0, 1, 2]
