"""Rows read on the driver: the same rows, bit for bit, as Spark reads."""

from __future__ import annotations

import random
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import pytest

from spark_trickle.lake import driver_reads
from spark_trickle.spark.runtime import Local, collect_local, condition_within
from tests.lake.test_feed import bits

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

pytestmark = pytest.mark.spark

# Pages of ten rows and row groups of some hundred: a file of a few thousand rows has many of both.
SMALL_PAGES = (
    "'format-version'='3', 'write.delete.mode'='merge-on-read', 'write.update.mode'='merge-on-read', "
    "'write.parquet.page-row-limit'='10', 'write.parquet.row-group-size-bytes'='20000', "
    "'write.parquet.row-group-check-min-record-count'='100', 'write.parquet.row-group-check-max-record-count'='100'"
)
ROWS = 25_000  # more than a small file has
COLUMNS = {
    "id": "id",
    "i": "CAST(id % 1000 AS INT)",
    "n": "CASE WHEN id % 5 = 0 THEN NULL ELSE -id END",
    "s": "CASE WHEN id % 7 = 0 THEN NULL ELSE concat('text ', id) END",
    "bytes": "CASE WHEN id % 3 = 0 THEN CAST(unhex(hex(200 + id % 50)) AS STRING) ELSE 'ä' END",
    "d": "CAST(id / 100 AS DECIMAL(12, 2))",
    "wide": "CAST(id * 1000000000000 AS DECIMAL(38, 4))",
    "on": "date_add(DATE'2000-01-01', CAST(id AS INT))",
    "at": "timestamp_micros(id * 1000003)",
    "f": "CASE WHEN id % 2 = 0 THEN -0.0D ELSE id / 3.0D END",
    "a": "array(id, id + 1)",
    "m": "map(concat('b', id), id, 'a', NULL)",
    "st": "named_struct('x', id, 'y', map('k', array(id)))",
    "bin": "unhex(hex(id))",
    "yes": "id % 2 = 0",
}
KEYS = ("id", "i", "n", "s", "bytes", "d", "wide", "on", "at")


@pytest.fixture(scope="module")
def name(spark: SparkSession) -> Iterator[str]:
    spark.sql("CREATE SCHEMA IF NOT EXISTS lake.d")
    name = f"lake.d.t{random.SystemRandom().randrange(10**9)}"
    listed = ", ".join(f"{expression} AS {column}" for column, expression in COLUMNS.items())
    spark.sql(
        f"CREATE TABLE {name} USING iceberg TBLPROPERTIES ({SMALL_PAGES}) AS "
        f"SELECT /*+ COALESCE(1) */ {listed} FROM range({ROWS})"
    )
    spark.sql(f"INSERT INTO {name} SELECT /*+ COALESCE(1) */ {listed} FROM range(500, 700)")  # a small file
    spark.sql(f"DELETE FROM {name} WHERE id % 10 = 3")
    yield name
    spark.sql(f"DROP TABLE {name} PURGE")


def load(spark: SparkSession, name: str) -> Any:
    return spark._jvm.org.apache.iceberg.spark.Spark3Util.loadIcebergTable(spark._jsparkSession, name)


def looked_up(
    spark: SparkSession, name: str, columns: list[str], keys: list[str], by: Local | None
) -> DataFrame | None:
    table = load(spark, name)
    snapshot = table.currentSnapshot().snapshotId()
    found = driver_reads.look_up(spark, table, table.schema(), snapshot, columns, keys, by, ("_file", "_pos"))
    if found is None:
        return None
    assert found.frame.count() == found.rows
    return found.frame


def rows(frame: DataFrame) -> list[Any]:
    return sorted((bits(tuple(r)) for r in frame.collect()), key=repr)


def keys_of(spark: SparkSession, sql: str) -> Local:
    local = collect_local(spark.sql(sql), 10_000)
    assert local is not None
    return local


@pytest.mark.parametrize("key", KEYS)
def test_rows_with_keys_of_any_type_are_those_that_spark_finds(spark: SparkSession, name: str, key: str) -> None:
    picked = f"SELECT {key} FROM {name} WHERE id IN (0, 1, 13, 510, 699, 12345, 24998, 24999)"
    by = keys_of(spark, picked)
    found = looked_up(spark, name, list(COLUMNS), [key], by)
    assert found is not None
    # Both come as the rows of a table: strings by their bytes, maps in their order.
    shown = [f"CAST({c} AS BINARY)" if c == "bytes" else c for c in COLUMNS] + ["_file", "_pos"]
    expected = spark.sql(f"SELECT *, _file, _pos FROM {name} WHERE {key} IN ({picked}) OR ({key} IS NULL AND EXISTS "
                         f"(SELECT 1 FROM ({picked}) WHERE {key} IS NULL))")  # fmt: skip
    assert rows(found.selectExpr(*shown)) == rows(expected.selectExpr(*shown))


def test_several_keys_are_compared_one_by_one(spark: SparkSession, name: str) -> None:
    by = keys_of(spark, "SELECT * FROM VALUES (1L, 1), (2L, 5), (505L, NULL) AS k(id, i)")
    found = looked_up(spark, name, ["id"], ["id", "i"], by)
    assert found is not None
    assert [r[0] for r in found.select("id").collect()] == [1]


def test_many_keys_and_none(spark: SparkSession, name: str) -> None:
    by = keys_of(spark, f"SELECT id * 37 AS id FROM range({ROWS // 37})")
    found = looked_up(spark, name, ["id"], ["id"], by)
    assert found is not None
    expected = spark.sql(f"SELECT id FROM {name} WHERE id % 37 = 0 AND id < {ROWS // 37 * 37}")
    assert rows(found.select("id")) == rows(expected)
    none = looked_up(spark, name, ["id"], ["id"], keys_of(spark, "SELECT id FROM range(0)"))
    assert none is not None
    assert none.count() == 0


def test_what_is_left_to_spark(spark: SparkSession, name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    assert looked_up(spark, name, ["id"], ["f"], keys_of(spark, "SELECT 0.0D AS f")) is None, "zeros have two forms"
    assert looked_up(spark, name, ["id"], ["id"], keys_of(spark, "SELECT '1' AS id")) is None, "another type"
    monkeypatch.setattr(driver_reads, "DRIVER_CELLS", 50)
    assert looked_up(spark, name, ["id", "s"], ["id"], keys_of(spark, "SELECT 9L * id AS id FROM range(20)")) is None
    monkeypatch.setattr(driver_reads, "LOCAL", 5)
    assert looked_up(spark, name, ["id"], ["id"], keys_of(spark, "SELECT id FROM range(20)")) is None


def test_columns_that_changed(spark: SparkSession) -> None:
    name = f"lake.d.t{random.SystemRandom().randrange(10**9)}"
    spark.sql("CREATE SCHEMA IF NOT EXISTS lake.d")
    spark.sql(f"CREATE TABLE {name} (k INT, v INT, gone INT) USING iceberg TBLPROPERTIES ({SMALL_PAGES})")
    spark.sql(f"INSERT INTO {name} SELECT /*+ COALESCE(1) */ id, id * 2, 1 FROM range({ROWS})")
    spark.sql(f"ALTER TABLE {name} RENAME COLUMN k TO `key.of it`")
    spark.sql(f"ALTER TABLE {name} ALTER COLUMN `key.of it` TYPE BIGINT")
    spark.sql(f"ALTER TABLE {name} DROP COLUMN gone")
    spark.sql(f"ALTER TABLE {name} ADD COLUMN gone STRING")
    spark.sql(f"INSERT INTO {name} VALUES (7, 1, 'new'), (3000000000, 2, NULL)")
    by = keys_of(spark, "SELECT * FROM VALUES (7L), (24000L), (3000000000L) AS k(k)")
    found = looked_up(spark, name, ["gone", "v", "key.of it"], ["key.of it"], by)
    assert found is not None
    assert {tuple(r)[:3] for r in found.collect()} == {
        (None, 14, 7),
        (None, 48_000, 24_000),
        ("new", 1, 7),
        (None, 2, 3_000_000_000),
    }
    by = keys_of(spark, "SELECT 'new' AS g UNION ALL SELECT NULL")
    found = looked_up(spark, name, ["v"], ["gone"], by)
    assert found is not None
    assert found.count() == ROWS + 2
    spark.sql(f"DROP TABLE {name} PURGE")


def test_other_files_are_left_to_spark(spark: SparkSession) -> None:
    for more in ("'write.format.default'='orc'", "'write.format.default'='avro'"):
        name = f"lake.d.t{random.SystemRandom().randrange(10**9)}"
        spark.sql("CREATE SCHEMA IF NOT EXISTS lake.d")
        spark.sql(f"CREATE TABLE {name} (k BIGINT) USING iceberg TBLPROPERTIES ({more})")
        spark.sql(f"INSERT INTO {name} VALUES (1)")
        assert looked_up(spark, name, ["k"], ["k"], keys_of(spark, "SELECT 1L AS k")) is None
        spark.sql(f"DROP TABLE {name} PURGE")


def test_partition_values_are_left_to_spark(spark: SparkSession) -> None:
    name = f"lake.d.t{random.SystemRandom().randrange(10**9)}"
    spark.sql("CREATE SCHEMA IF NOT EXISTS lake.d")
    spark.sql(f"CREATE TABLE {name} (k BIGINT, p INT, b INT) USING iceberg PARTITIONED BY (p, bucket(2, b))")
    spark.sql(f"INSERT INTO {name} SELECT id, id % 3, id FROM range(30)")
    by = keys_of(spark, "SELECT 4L AS k")
    assert looked_up(spark, name, ["k", "p"], ["k"], by) is None
    found = looked_up(spark, name, ["k", "b"], ["k"], by)
    assert found is not None
    assert [tuple(r)[:2] for r in found.collect()] == [(4, 4)]
    spark.sql(f"DROP TABLE {name} PURGE")


@pytest.mark.parametrize("edge", ["-9223372036854775808L", "9223372036854775807L", "0L", "CAST(NULL AS BIGINT)"])
def test_the_condition_of_a_scan_holds_for_every_row_with_the_keys(spark: SparkSession, edge: str) -> None:
    there = spark.sql(f"SELECT {edge} AS k, CAST(-2147483648 AS INT) AS i, 'x' AS s")
    by = keys_of(spark, f"SELECT {edge} AS k, CAST(-2147483648 AS INT) AS i, 'y' AS s UNION ALL SELECT 5L, 7, 'x'")
    condition = condition_within(by, there)
    assert condition is not None
    assert "`s`" not in condition
    assert there.where(condition).count() == 1


def test_a_small_table_is_read_whole(spark: SparkSession, name: str) -> None:
    spark.sql(f"DELETE FROM {name} WHERE id < 24000")
    found = looked_up(spark, name, ["id", "s"], [], None)
    assert found is not None
    assert rows(found) == rows(spark.sql(f"SELECT id, s, _file, _pos FROM {name}"))


def test_the_condition_of_a_scan_leaves_out_others(spark: SparkSession) -> None:
    there = spark.sql("SELECT id AS k FROM range(10)")
    condition = condition_within(keys_of(spark, "SELECT * FROM VALUES (2L), (5L) AS t(k)"), there)
    assert condition == "(`k` BETWEEN 2L AND 5L AND `k` IN (2L, 5L))"
    assert [r[0] for r in there.where(condition).collect()] == [2, 5]


def test_bounds_of_bytes_that_are_no_text_leave_nothing_out(spark: SparkSession) -> None:
    name = f"lake.d.t{random.SystemRandom().randrange(10**9)}"
    spark.sql("CREATE SCHEMA IF NOT EXISTS lake.d")
    spark.sql(f"CREATE TABLE {name} (k STRING) USING iceberg TBLPROPERTIES ({SMALL_PAGES})")
    spark.sql(
        f"INSERT INTO {name} SELECT /*+ COALESCE(1) */ CASE WHEN id = 0 THEN CAST(X'80' AS STRING) "
        f"ELSE concat('д', id) END FROM range({ROWS})"
    )
    found = looked_up(spark, name, ["k"], ["k"], keys_of(spark, "SELECT 'д77' AS k"))
    assert found is not None
    assert [r[0] for r in found.collect()] == ["д77"]
    spark.sql(f"DROP TABLE {name} PURGE")


def test_a_field_of_a_struct_that_was_made_again(spark: SparkSession) -> None:
    name = f"lake.d.t{random.SystemRandom().randrange(10**9)}"
    spark.sql("CREATE SCHEMA IF NOT EXISTS lake.d")
    spark.sql(f"CREATE TABLE {name} (k BIGINT, s STRUCT<a: INT, b: INT>) USING iceberg")
    spark.sql(f"INSERT INTO {name} SELECT 1, named_struct('a', 7, 'b', 8)")
    by = keys_of(spark, "SELECT 1L AS k")
    for expected in ((7, 8), (8, None)):
        found = looked_up(spark, name, ["s"], ["k"], by)
        assert found is not None
        assert [tuple(r[0]) for r in found.collect()] == [expected]
        if expected[1] is not None:
            spark.sql(f"ALTER TABLE {name} DROP COLUMN s.a")
            spark.sql(f"ALTER TABLE {name} ADD COLUMN s.a INT")
    spark.sql(f"DROP TABLE {name} PURGE")
