"""What stream tables and refreshes give back: the files of a dropped table, checkpoints."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from spark_trickle import Action, Trickle
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
