"""The change feed: old content + feed == new content, bit for bit, on every kind of table."""

from __future__ import annotations

import math
import os
import random
import struct
import threading
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from decimal import Decimal
from typing import TYPE_CHECKING, Any

import pytest

from spark_trickle.errors import TrickleError
from spark_trickle.lake import driver_reads
from spark_trickle.lake.feed import WEIGHT, Feed, read_changes
from spark_trickle.lake.jvm import load_metadata, static_table, table_cache, table_facts

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.spark

KINDS = [(v, m) for v in (1, 2, 3) for m in ("copy-on-write", "merge-on-read") if not (v == 1 and m == "merge-on-read")]
PARTITIONED = [(2, "merge-on-read"), (3, "copy-on-write")]  # the other kinds are tested without partitions
SEED = int(os.environ.get("INVARIANT_SEED", "7"))
STEPS = int(os.environ.get("TRICKLE_TEST_STEPS", "8"))


def properties(version: int, mode: str) -> str:
    modes = ", ".join(f"'write.{w}.mode'='{mode}'" for w in ("delete", "update", "merge"))
    return f"USING iceberg {{part}} TBLPROPERTIES ('format-version'='{version}', {modes})"


def pinned(spark: SparkSession, name: str) -> Any:
    loaded = spark._jvm.org.apache.iceberg.spark.Spark3Util.loadIcebergTable(spark._jsparkSession, f"lake.{name}")
    return static_table(spark, loaded.operations().current().metadataFileLocation(), name)


def head(table: Any) -> int | None:
    snapshot = table.currentSnapshot()
    return None if snapshot is None else snapshot.snapshotId()


def bits(value: Any) -> Any:
    """A hashable form that tells -0.0 from 0.0 and takes NaN for NaN; maps by sorted entries."""
    if isinstance(value, float):
        return "nan" if math.isnan(value) else struct.pack(">d", value)
    if isinstance(value, dict):
        return ("map", tuple(sorted(((bits(k), bits(v)) for k, v in value.items()), key=repr)))
    if isinstance(value, (list, tuple)):
        return tuple(bits(v) for v in value)
    if isinstance(value, (bytearray, bytes)):
        return ("bytes", bytes(value))
    if isinstance(value, Decimal):
        return ("decimal", str(value))
    return value


def content(spark: SparkSession, name: str, columns: list[str]) -> Counter[Any]:
    rows = spark.table(f"lake.{name}").select(*columns).collect()
    return Counter(bits(tuple(r)) for r in rows)


def net(feed: Feed) -> Counter[Any]:
    total: Counter[Any] = Counter()
    rows = [] if feed.frame is None else feed.frame.collect()
    assert feed.rows in (None, len(rows))
    if feed.frame is not None:
        for row in rows:
            assert row[-1] != 0
            assert not (feed.append_only and row[-1] < 0)
            total[bits(tuple(row[:-1]))] += row[-1]
    return total


@contextmanager
def read_by_spark() -> Iterator[None]:
    """Nothing is read on the driver."""
    before, driver_reads.DRIVER_FILES = driver_reads.DRIVER_FILES, 0
    try:
        yield
    finally:
        driver_reads.DRIVER_FILES = before


class Watched:
    """A table, and what the last look saw."""

    def __init__(self, spark: SparkSession, name: str, columns: list[str] | None = None) -> None:
        self.spark, self.name = spark, name
        self.columns = columns or spark.table(f"lake.{name}").columns
        self.snapshot, self.rows = head(pinned(spark, name)), content(spark, name, self.columns)

    def look(self, why: str = "") -> Feed:
        table = pinned(self.spark, self.name)
        now, rows = head(table), content(self.spark, self.name, self.columns)
        expected = {k: rows[k] - self.rows[k] for k in rows.keys() | self.rows.keys() if rows[k] != self.rows[k]}
        with read_changes(self.spark, table, self.snapshot, now, self.columns) as feed:
            self._check(feed, expected, why)
        if feed.local is not None:  # as it is read where there are many rows
            with read_by_spark(), read_changes(self.spark, table, self.snapshot, now, self.columns) as again:
                self._check(again, expected, why)
                assert (again.kind, again.append_only) == (feed.kind, feed.append_only)
        self.snapshot, self.rows = now, rows
        return feed

    def _check(self, feed: Feed, expected: dict[Any, int], why: str) -> None:
        change = net(feed)
        assert feed.frame is None or feed.frame.columns == [*self.columns, WEIGHT]
        assert {k: w for k, w in change.items() if w} == expected, why

    def sql(self, text: str) -> Feed:
        self.spark.sql(text.replace("{t}", f"lake.{self.name}"))
        return self.look(text)


@pytest.fixture
def made(spark: SparkSession) -> Iterator[list[str]]:
    spark.sql("CREATE SCHEMA IF NOT EXISTS lake.f")
    names: list[str] = []
    yield names
    assert table_cache(spark).size() == 0
    for name in names:
        spark.sql(f"DROP TABLE lake.{name} PURGE")


def create(
    spark: SparkSession,
    made: list[str],
    columns: str,
    version: int = 3,
    mode: str = "merge-on-read",
    part: str = "",
) -> str:
    name = f"f.t{random.SystemRandom().randrange(10**9)}"
    spark.sql(f"CREATE TABLE lake.{name} ({columns}) {properties(version, mode).format(part=part)}")
    made.append(name)
    return name


@pytest.mark.parametrize(
    ("version", "mode", "part"),
    [(v, m, "PARTITIONED BY (g)" if (v, m) in PARTITIONED else "") for v, m in KINDS],
)
def test_every_kind_of_change(spark: SparkSession, made: list[str], version: int, mode: str, part: str) -> None:
    name = create(spark, made, "id BIGINT, g INT, v STRING", version, mode, part)
    t = Watched(spark, name)
    first = t.sql("INSERT INTO {t} VALUES (1,0,'a'),(2,1,'b'),(3,0,'c'),(3,0,'c'),(4,1,NULL)")
    assert (first.rows, first.append_only) == (5, True)
    t.sql("INSERT INTO {t} SELECT id, id % 2, concat('r', id) FROM range(10, 40)")
    start, start_rows = t.snapshot, t.rows
    update = t.sql("UPDATE {t} SET v = 'bb' WHERE id = 2")
    assert update.has_old
    t.sql("DELETE FROM {t} WHERE id = 1")
    t.sql("DELETE FROM {t} WHERE id IN (11, 12)")  # a second delete from the same files
    t.sql("UPDATE {t} SET v = NULL WHERE id BETWEEN 12 AND 15")
    t.sql(
        "MERGE INTO {t} t USING (SELECT 13L id, 'm' v UNION ALL SELECT 99L, 'n') s ON t.id = s.id "
        "WHEN MATCHED THEN UPDATE SET v = s.v WHEN NOT MATCHED THEN INSERT (id, g, v) VALUES (s.id, 1, s.v)"
    )
    t.spark.sql(f"DELETE FROM lake.{name} WHERE id = 20")
    t.spark.sql(f"INSERT INTO lake.{name} VALUES (20, 0, 'r20')")
    assert not +net_of(spark, t)  # deleted and inserted again: no net change
    t.look("delete and insert again")
    before_compaction = t.snapshot
    compaction = t.sql(f"CALL lake.system.rewrite_data_files(table => '{name}', options => map('rewrite-all', 'true'))")
    assert (compaction.frame, compaction.files_read) == (None, 0)
    assert t.snapshot != before_compaction
    assert t.sql(f"CALL lake.system.rewrite_manifests('{name}')").frame is None
    t.spark.sql(f"INSERT INTO lake.{name} VALUES (50, 1, 'x')")
    t.spark.sql(f"CALL lake.system.rewrite_data_files(table => '{name}', options => map('rewrite-all', 'true'))")
    t.spark.sql(f"INSERT INTO lake.{name} VALUES (51, 1, 'y')")
    across = t.look("append, compaction, append")
    assert (across.rows, across.append_only) == (2, True)
    t.sql("DELETE FROM {t} WHERE id = 51")
    assert t.sql(f"CALL lake.system.rollback_to_snapshot('{name}', {start})").frame is not None
    assert t.rows == start_rows
    t.sql("INSERT OVERWRITE {t} SELECT id + 1, g, v FROM {t}")
    t.sql("TRUNCATE TABLE {t}")
    t.sql("INSERT INTO {t} VALUES (7, 1, 'again')")
    # jump from far back to here, and to and from EMPTY
    table = pinned(spark, name)
    for old, new, rows in (
        (start, t.snapshot, start_rows),
        (t.snapshot, None, t.rows),
        (None, start, Counter()),
    ):
        with read_changes(spark, table, old, new, t.columns) as feed:
            change = net(feed)
            after = {start: start_rows, t.snapshot: t.rows, None: Counter()}[new]
            assert {k: w for k, w in change.items() if w} == {
                k: after[k] - rows[k] for k in after.keys() | rows.keys() if after[k] != rows[k]
            }


def net_of(spark: SparkSession, t: Watched) -> Counter[Any]:
    table = pinned(spark, t.name)
    with read_changes(spark, table, t.snapshot, head(table), t.columns) as feed:
        return net(feed)


TYPES = (
    "d DOUBLE, f FLOAT, s STRUCT<a: INT, b: ARRAY<DOUBLE>>, m MAP<STRING, DOUBLE>, b BINARY, "
    "n DECIMAL(20, 4), ts TIMESTAMP, dt DATE, id INT"
)
VALUES = """
  (-0.0D, CAST('NaN' AS FLOAT), named_struct('a', 1, 'b', array(0.0D, -0.0D)), map('x', -0.0D), X'00FF', 1.5,
    TIMESTAMP'2024-01-01 00:00:00', DATE'2024-01-01', 1),
  (0.0D, CAST('-0.0' AS FLOAT), named_struct('a', 1, 'b', array(0.0D, NULL)), map('x', 0.0D), X'',
    1.5000, NULL, NULL, 1),
  (CAST('NaN' AS DOUBLE), NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL),
  (CAST('NaN' AS DOUBLE), NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL),
  (1.0D, 1.0F, named_struct('a', NULL, 'b', NULL), map('x', NULL, 'y', 1.0D), X'01', -1.0, NULL, DATE'1900-01-01', 2)
"""


@pytest.mark.parametrize(("version", "mode"), KINDS)
def test_values_bit_for_bit(spark: SparkSession, made: list[str], version: int, mode: str) -> None:
    t = Watched(spark, create(spark, made, TYPES, version, mode))
    t.sql(f"INSERT INTO {{t}} SELECT /*+ COALESCE(1) */ * FROM VALUES {VALUES}")
    t.sql("DELETE FROM {t} WHERE id = 2")
    t.sql("UPDATE {t} SET d = -0.0D WHERE CAST(d AS STRING) = '0.0'")  # only the sign of a zero changes
    t.sql("UPDATE {t} SET d = 0.0D WHERE id = 1 AND length(b) = 0")
    t.sql("UPDATE {t} SET m = map('y', 1.0D, 'x', d) WHERE id = 1")
    t.sql("DELETE FROM {t} WHERE isnan(d)")
    t.sql(f"INSERT OVERWRITE {{t}} SELECT * FROM VALUES {VALUES}")
    narrow = Watched(spark, t.name, ["d", "m"])
    narrow.sql("UPDATE {t} SET id = 5 WHERE id = 1")  # a column that is not used
    narrow.sql("UPDATE {t} SET d = 5 WHERE id = 5")


@pytest.mark.parametrize(("version", "mode"), KINDS)
def test_columns_of_the_cut(spark: SparkSession, made: list[str], version: int, mode: str) -> None:
    name = create(spark, made, "id BIGINT, v STRING, gone INT", version, mode)
    spark.sql(f"INSERT INTO lake.{name} SELECT id, concat('v', id), 0 FROM range(10)")
    old = head(pinned(spark, name))
    spark.sql(f"ALTER TABLE lake.{name} RENAME COLUMN v TO w")
    spark.sql(f"ALTER TABLE lake.{name} ADD COLUMN `odd name` INT")
    spark.sql(f"ALTER TABLE lake.{name} DROP COLUMN gone")
    before = content(spark, name, ["id", "w", "`odd name`"])
    spark.sql(f"UPDATE lake.{name} SET w = 'new', `odd name` = 1 WHERE id = 3")
    table = pinned(spark, name)
    with read_changes(spark, table, old, head(table), ["id", "w", "odd name"]) as feed:
        change = net(feed)
    assert {k: w for k, w in change.items() if w} == {(3, "v3", None): -1, (3, "new", 1): 1}
    assert before[(3, "v3", None)] == 1


def test_upgrade_to_v3(spark: SparkSession, made: list[str]) -> None:
    for mode in ("merge-on-read", "copy-on-write"):
        t = Watched(spark, create(spark, made, "id BIGINT, v STRING", 2, mode))
        t.sql("INSERT INTO {t} SELECT /*+ COALESCE(1) */ id, concat('v', id) FROM range(20)")
        t.sql("DELETE FROM {t} WHERE id = 1")
        start, rows = t.snapshot, t.rows
        assert t.sql("ALTER TABLE {t} SET TBLPROPERTIES ('format-version'='3')").kind == "same snapshot"
        t.sql("DELETE FROM {t} WHERE id = 2")
        t.sql("UPDATE {t} SET v = 'x' WHERE id = 3")
        t.sql("INSERT INTO {t} VALUES (30, 'n')")
        t.snapshot, t.rows = start, rows
        t.look("over the upgrade")
        t.sql(f"CALL lake.system.rollback_to_snapshot('{t.name}', {start})")


@pytest.mark.parametrize("version", [2, 3])
def test_branch_fast_forward(spark: SparkSession, made: list[str], version: int) -> None:
    t = Watched(spark, create(spark, made, "id BIGINT, v STRING", version))
    t.sql("INSERT INTO {t} SELECT id, 'a' FROM range(10)")
    assert t.sql("ALTER TABLE {t} CREATE BRANCH side").frame is None
    spark.sql(f"DELETE FROM lake.{t.name}.branch_side WHERE id < 3")
    spark.sql(f"INSERT INTO lake.{t.name}.branch_side VALUES (100, 'b')")
    assert t.look("a commit on another branch").frame is None
    t.sql(f"CALL lake.system.fast_forward('{t.name}', 'main', 'side')")
    t.snapshot, t.rows = None, Counter()
    t.look("from EMPTY to a snapshot with deletes")


def test_partition_scoped_position_deletes(spark: SparkSession, made: list[str]) -> None:
    t = Watched(spark, create(spark, made, "id BIGINT, g INT", 2, part="PARTITIONED BY (g)"))
    spark.sql(f"ALTER TABLE lake.{t.name} SET TBLPROPERTIES ('write.delete.granularity'='partition')")
    t.sql("INSERT INTO {t} SELECT id, id % 2 FROM range(20)")
    t.sql("INSERT INTO {t} SELECT id, id % 2 FROM range(20, 40)")
    t.sql("DELETE FROM {t} WHERE id IN (2, 4, 22)")
    scoped = [r[0] for r in spark.sql(f"SELECT referenced_data_file FROM lake.{t.name}.delete_files").collect()]
    t.sql("DELETE FROM {t} WHERE id IN (6, 24, 3)")
    t.sql("UPDATE {t} SET g = 7 WHERE id = 8")
    assert None in scoped


def test_equality_deletes(spark: SparkSession, made: list[str]) -> None:
    """Spark writes none; other engines do. One is written here through Iceberg's Java API."""
    t = Watched(spark, create(spark, made, "id INT, v STRING", 2))
    t.sql("INSERT INTO {t} SELECT CAST(id AS INT), concat('v', id) FROM range(10)")
    t.sql("DELETE FROM {t} WHERE id = 1")
    write_equality_delete(spark, t.name, 4)
    t.look("an equality delete")
    t.sql("INSERT INTO {t} VALUES (4, 'later')")
    write_equality_delete(spark, t.name, 4)
    write_equality_delete(spark, t.name, 5)
    t.look("two equality deletes, one over an older one")
    t.sql("UPDATE {t} SET v = 'u' WHERE id = 6")
    t.sql("DELETE FROM {t} WHERE id = 7")


def write_equality_delete(spark: SparkSession, name: str, id_: int) -> None:
    iceberg = spark._jvm.org.apache.iceberg
    table = iceberg.spark.Spark3Util.loadIcebergTable(spark._jsparkSession, f"lake.{name}")
    ids = spark._jvm.java.util.ArrayList()
    ids.add("id")
    schema = table.schema().select(ids)
    record = iceberg.data.GenericRecord.create(schema)
    record.setField("id", id_)
    path = f"{table.location()}/data/eq-{random.SystemRandom().randrange(10**12)}.parquet"
    int_array = spark.sparkContext._gateway.new_array(spark._jvm.int, 1)
    int_array[0] = schema.findField("id").fieldId()
    builder = getattr(iceberg.data, "GenericFileWriterFactory$Builder")(table)
    factory = builder.equalityFieldIds(int_array).equalityDeleteRowSchema(schema).build()
    output = iceberg.encryption.EncryptedFiles.plainAsEncryptedOutput(table.io().newOutputFile(path))
    writer = factory.newEqualityDeleteWriter(output, table.spec(), None)
    writer.write(record)
    writer.close()
    table.newRowDelta().addDeletes(writer.toDeleteFile()).commit()


def test_expired_snapshot_is_an_error(spark: SparkSession, made: list[str]) -> None:
    t = Watched(spark, create(spark, made, "id BIGINT"))
    t.sql("INSERT INTO {t} VALUES (1)")
    with pytest.raises(TrickleError, match="SNAPSHOT_EXPIRED"):
        read_changes(spark, pinned(spark, t.name), 42, t.snapshot, t.columns)


def test_facts(spark: SparkSession, made: list[str]) -> None:
    name = create(spark, made, "id BIGINT, v STRUCT<a: INT>")
    loaded = spark._jvm.org.apache.iceberg.spark.Spark3Util.loadIcebergTable(spark._jsparkSession, f"lake.{name}")
    empty = table_facts(spark, load_metadata(spark, loaded.operations().current().metadataFileLocation()))
    assert (empty.snapshot_id, empty.total_records, empty.format_version) == (None, 0, 3)
    assert [(f.id, f.name) for f in empty.fields] == [(1, "id"), (2, "v")]
    assert empty.fields[0].type == "long"
    spark.sql(f"ALTER TABLE lake.{name} SET TBLPROPERTIES ('write.metadata.compression-codec'='gzip')")
    spark.sql(f"INSERT INTO lake.{name} VALUES (1, NULL), (2, NULL)")
    loaded.refresh()
    location = loaded.operations().current().metadataFileLocation()
    assert ".gz" in location
    facts = table_facts(spark, load_metadata(spark, location))
    assert (facts.uuid, facts.total_records) == (empty.uuid, 2)
    assert facts.snapshot_id == loaded.currentSnapshot().snapshotId()


def test_pinned_table_sees_no_later_commit(spark: SparkSession, made: list[str]) -> None:
    name = create(spark, made, "id BIGINT")
    spark.sql(f"INSERT INTO lake.{name} VALUES (1)")
    table = pinned(spark, name)
    at = head(table)
    spark.sql(f"INSERT INTO lake.{name} VALUES (2)")
    table.refresh()
    assert head(table) == at


def test_sessions_and_threads(spark: SparkSession, made: list[str]) -> None:
    names = [create(spark, made, "id BIGINT, v STRING") for _ in range(4)]
    for name in names:
        spark.sql(f"INSERT INTO lake.{name} SELECT /*+ COALESCE(1) */ id, 'a' FROM range(50)")
    olds = [head(pinned(spark, name)) for name in names]
    for name in names:
        spark.sql(f"UPDATE lake.{name} SET v = '{name}' WHERE id = 7")
    found: dict[str, Counter[Any]] = {}
    errors: list[BaseException] = []

    locations = {name: pinned(spark, name).operations().current().metadataFileLocation() for name in names}

    def run(name: str, old: int | None) -> None:
        try:
            own = spark.newSession()
            for _ in range(3):
                table = static_table(own, locations[name], name)
                with read_changes(own, table, old, head(table), ["id", "v"]) as feed:
                    found[name] = net(feed)
        except BaseException as error:
            errors.append(error)

    threads = [threading.Thread(target=run, args=pair) for pair in zip(names, olds, strict=True)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    if errors:
        raise errors[0]
    assert found == {name: Counter({(7, "a"): -1, (7, name): 1}) for name in names}


def test_one_changed_file_of_500(spark: SparkSession, made: list[str]) -> None:
    name = create(spark, made, "id BIGINT, g INT", part="PARTITIONED BY (g)")
    spark.sql(f"INSERT INTO lake.{name} SELECT id, CAST(id % 500 AS INT) FROM range(1000)")
    assert spark.sql(f"SELECT count(*) FROM lake.{name}.files").first()[0] >= 500
    t = Watched(spark, name)
    spark.sql(f"DELETE FROM lake.{name} WHERE g = 77 AND id = 77")
    table = pinned(spark, name)
    seconds = []
    for _ in range(3):
        begin = time.perf_counter()
        with read_changes(spark, table, t.snapshot, head(table), t.columns) as feed:
            seconds.append(time.perf_counter() - begin)
    print(f"500 files, one changed: planned in {min(seconds):.3f} s")
    assert feed.files_read == 1
    assert min(seconds) < 0.5
    t.look()


def test_compaction_costs_nothing(spark: SparkSession, made: list[str]) -> None:
    t = Watched(spark, create(spark, made, "id BIGINT"))
    for i in range(4):
        t.sql(f"INSERT INTO {{t}} SELECT id + {i} FROM range(100)")
    old = t.snapshot
    spark.sql(f"CALL lake.system.rewrite_data_files(table => '{t.name}', options => map('rewrite-all', 'true'))")
    table = pinned(spark, t.name)
    seconds = []
    for _ in range(3):
        begin = time.perf_counter()
        feed = read_changes(spark, table, old, head(table), t.columns)
        seconds.append(time.perf_counter() - begin)
    assert (feed.frame, feed.files_read, feed.bytes_read, feed.kind) == (None, 0, 0, "compaction only")
    assert min(seconds) < 0.1


@pytest.mark.parametrize(("version", "mode"), KINDS)
def test_random_changes(spark: SparkSession, made: list[str], version: int, mode: str) -> None:
    print(f"seed {SEED}")
    rng = random.Random(f"{SEED} {version} {mode}")
    part = rng.choice(["", "PARTITIONED BY (g)", "PARTITIONED BY (bucket(2, id))"])
    t = Watched(spark, create(spark, made, "id INT, g INT, d DOUBLE, m MAP<STRING, INT>", version, mode, part))
    snapshots: list[int] = []
    unseen = False
    for step in range(STEPS):
        n, k = rng.randrange(1, 9), rng.randrange(0, 30)
        some = (
            "SELECT CAST(id % 30 AS INT), CAST(id % 3 AS INT), IF(id % 4 = 0, -0.0D, id / 2), "
            f"map('k', CAST(id AS INT)) FROM range({k}, {k + n})"
        )
        statement = rng.choice(
            [
                f"INSERT INTO {{t}} {some}",
                f"INSERT INTO {{t}} {some}",
                f"DELETE FROM {{t}} WHERE id BETWEEN {k} AND {k + n // 3}",
                f"UPDATE {{t}} SET d = -d WHERE id % 7 = {k % 7}",
                f"UPDATE {{t}} SET g = g + 1 WHERE id = {k}",
                f"MERGE INTO {{t}} t USING (SELECT DISTINCT CAST(id AS INT) id FROM range({k}, {k + n})) s "
                "ON t.id = s.id "
                "WHEN MATCHED AND t.g = 1 THEN DELETE WHEN MATCHED THEN UPDATE SET d = 0.0D "
                "WHEN NOT MATCHED THEN INSERT (id, g, d, m) VALUES (s.id, 0, NULL, NULL)",
                f"INSERT OVERWRITE {{t}} {some}",
                f"CALL lake.system.rewrite_data_files(table => '{t.name}', options => map('rewrite-all', 'true'))",
                f"CALL lake.system.rollback_to_snapshot('{t.name}', {rng.choice(snapshots)})"
                if snapshots
                else "TRUNCATE TABLE {t}",
            ]
        )
        if rng.random() < 0.3:
            spark.sql(statement.replace("{t}", f"lake.{t.name}"))  # the next look covers this step too
            unseen = True
            continue
        feed = t.sql(statement)
        if statement.startswith("INSERT INTO") and not unseen:
            assert feed.append_only, (SEED, step)
            assert feed.rows == n, (SEED, step)
        unseen = False
        if t.snapshot is not None and t.snapshot not in snapshots:
            history = spark.sql(f"SELECT snapshot_id FROM lake.{t.name}.history WHERE is_current_ancestor").collect()
            snapshots = [r[0] for r in history]
    t.look(f"seed {SEED}")
