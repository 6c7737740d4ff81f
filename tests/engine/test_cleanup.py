"""What stream tables and refreshes give back: the files of a dropped table, checkpoints."""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from spark_trickle import Action, Trickle
from spark_trickle.catalog.recovery import ORPHANS, note_orphans
from spark_trickle.lake import jvm
from spark_trickle.lake.cleanup import delete_files
from spark_trickle.model import TableName

pytestmark = pytest.mark.spark


@pytest.fixture(scope="module")
def lake(module_tr: Trickle) -> Trickle:
    module_tr.sql("CREATE TABLE s.t (id BIGINT, v INT)")
    module_tr.sql("INSERT INTO s.t SELECT id, id % 5 FROM range(40)")
    return module_tr


def folder_of(tr: Trickle, name: str) -> Path:
    location = str(tr.refresher.lake.facts(tr.store.pointers()[TableName.of(name)].location).location)
    return Path(location.removeprefix("file:"))


def files_in(folder: Path) -> int:
    return sum(1 for f in folder.rglob("*") if f.is_file() and not f.name.endswith(".crc"))


def test_dropped_stream_tables_leave_no_files(lake: Trickle) -> None:
    lake.create_stream_table("s.moving", "SELECT id FROM s.t")
    folder = folder_of(lake, "s.moving")
    lake.create_cut("kept")
    lake.alter_stream_table("s.moving", "SELECT id, v, v + 1 AS w FROM s.t")
    assert folder_of(lake, "s.moving") == folder, "one table for life"
    lake.drop_stream_table("s.moving")
    lake.create_stream_table("s.moving", "SELECT v FROM s.t")
    assert files_in(folder), "the cut still shows it"
    with lake.cut("kept") as cut:
        assert cut.sql("SELECT * FROM s.moving").columns == ["id"]
        assert cut.sql("SELECT count(*) FROM s.moving").collect()[0][0] > 0
    lake.drop_cut("kept")
    assert not files_in(folder)
    second = folder_of(lake, "s.moving")
    lake.drop_stream_table("s.moving")
    assert not files_in(second)
    assert not lake.store.garbage()


def test_checkpoints_are_given_back(lake: Trickle, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("spark_trickle.refresh.inputs.LOCAL", 0)  # everything is large
    lake.create_stream_table("s.large", "SELECT v, count(*) AS n FROM s.t GROUP BY v", mode="differential")
    held: Callable[[], int] = lake.spark.sparkContext._jsc.getPersistentRDDs().size
    before = set(lake.spark.sparkContext._jsc.getPersistentRDDs().keySet())
    lake.sql("UPDATE s.t SET v = 4 WHERE id < 3")
    assert lake.refresh("s.large").action is Action.DIFFERENTIAL
    assert lake.verify("s.large").equal
    assert set(lake.spark.sparkContext._jsc.getPersistentRDDs().keySet()) <= before, held()


def test_many_files_are_deleted_at_once(lake: Trickle, tmp_path: Path) -> None:
    """Also those with blanks in their names, and beside some that are gone already."""
    paths = [tmp_path / f"a b{n}.parquet" for n in range(300)]
    for path in paths[:-5]:
        path.write_text("x")
    io = jvm.file_io(lake.spark)
    assert jvm.handles(lake.spark).class_of("org.apache.iceberg.io.SupportsBulkOperations").isInstance(io)
    delete_files(lake.spark, [f"file:{paths[-1]}"])
    delete_files(lake.spark, (f"file:{p}" for p in paths))
    assert not any(p.exists() for p in paths)


def test_files_that_a_dead_process_left_without_a_commit(lake: Trickle) -> None:
    """Only what is old goes, and only what neither the table, a cut nor the garbage refers to."""
    lake.create_stream_table("s.orphaned", "SELECT v, count(*) AS n FROM s.t GROUP BY v", partitioned_by=["v"])
    lake.create_cut("orphans")
    lake.sql("UPDATE s.t SET v = v + 1 WHERE id < 9")
    lake.refresh("s.orphaned", "DIFFERENTIAL")
    folder = folder_of(lake, "s.orphaned")
    there = {f for f in folder.rglob("*") if f.is_file()}
    data = next(f for f in there if f.suffix == ".parquet")
    manifest = next(f for f in there if f.suffix == ".avro")
    metadata = next(f for f in there if f.name.endswith(".metadata.json"))
    like_these = (data, manifest, metadata)
    left = [f.with_name(f"left-{f.name}") for f in like_these]
    for file, like in zip(left, like_these, strict=True):
        file.write_bytes(like.read_bytes())
    young = data.with_name("young.parquet")
    young.write_bytes(b"of a writer that is not done")
    for file in there.union(left):
        os.utime(file, (time.time() - 7200, time.time() - 7200))

    before = lake.refresher.settings
    lake.refresher.settings = before.model_copy(update={"orphan_age": "1h"})
    try:
        id_ = lake.store.find(TableName.of("s.orphaned")).id
        assert lake.maintainer.delete_orphans() == 0, "nobody died"
        note_orphans(lake.store, [id_, id_, 999_999], timedelta(0))
        with lake.refresher.heartbeat.holding([f"stream_table:{id_}"], 5):
            assert lake.maintainer.delete_orphans() == 0, "a refresh is running"
        assert lake.maintainer.delete_orphans() == 3
        assert not lake.store.garbage(kinds=(ORPHANS,))
    finally:
        lake.refresher.settings = before
    assert {f for f in folder.rglob("*") if f.is_file()} >= there | {young}
    assert not any(file.exists() for file in left)
    with lake.cut("orphans") as cut:
        assert cut.sql("SELECT sum(n) FROM s.orphaned").collect()[0][0] == 40
    assert lake.verify("s.orphaned").equal
    lake.drop_cut("orphans")


def test_a_death_is_noted_once_while_its_files_are_young(lake: Trickle) -> None:
    for _ in range(3):
        note_orphans(lake.store, [7, 8], timedelta(hours=1))
    noted = lake.store.garbage(kinds=(ORPHANS,))
    assert sorted(g.location for g in noted) == ["stream_table:7", "stream_table:8"]
    assert lake.store.garbage(datetime.now(UTC), kinds=(ORPHANS,)) == ()
    with lake.store.write() as tx:
        tx.drop_garbage(g.id for g in noted)
