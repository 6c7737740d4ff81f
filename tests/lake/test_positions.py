"""Commits by position: the table reads as SQL would have left it, and the change feed agrees."""

from __future__ import annotations

import random
from collections import Counter, defaultdict
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import pytest

from spark_trickle.errors import TrickleError
from spark_trickle.lake.feed import read_changes
from spark_trickle.lake.positions import append_and_delete

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
        after = append_and_delete(spark, table, None, places(spark, name, where))
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
def test_append_and_delete_in_one_commit(spark: SparkSession, name: str, part: str) -> None:
    create(spark, name, part)
    table = load(spark, name)
    before = table.currentSnapshot().snapshotId()
    rows = spark.sql("SELECT 'new' AS v, CAST(id % 2 AS INT) AS g, id FROM range(1000, 1004)")
    after = append_and_delete(spark, table, rows, places(spark, name, "id IN (1, 2)"))
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
