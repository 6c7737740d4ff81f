"""The life of stream tables in places that reading the code found to be wrong."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from spark_trickle import Action, Trickle
from spark_trickle.errors import TrickleError
from spark_trickle.model import Status, TableName
from tests.engine.refused import refused

EXPIRE = "CALL lake.system.expire_snapshots(table => '{t}', older_than => TIMESTAMP '2999-01-01', retain_last => 1)"


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


def test_a_name_twice_and_the_consumer_first(lake: Trickle) -> None:
    lake.create_stream_table("s.twice", "SELECT id, v FROM s.t", mode="differential")
    lake.create_stream_table("s.above", "SELECT v, count(*) AS n FROM s.twice GROUP BY v", mode="differential")
    lake.sql("INSERT INTO s.t VALUES (100, 1)")
    found = lake.refresh(["s.above", "s.twice", "s.twice"], upstream=False)
    assert [r.action for r in found] == [Action.DIFFERENTIAL] * 3
    for name in ("s.twice", "s.above"):
        assert lake.verify(name).equal
        assert not lake.status(name)[0].pending


def test_a_view_that_closes_a_circle(lake: Trickle) -> None:
    lake.sql("CREATE VIEW s.v AS SELECT id FROM s.t")
    lake.create_stream_table("s.first", "SELECT id FROM s.v")
    lake.create_stream_table("s.second", "SELECT id FROM s.first")
    lake.sql("CREATE OR REPLACE VIEW s.v AS SELECT id FROM s.second")
    with refused(lake, "CYCLE"):
        lake.refresh("s.first")
    assert lake.drop_stream_table("s.first", cascade=True) == ("s.second", "s.first")


def test_one_that_fails_does_not_blame_the_others(lake: Trickle) -> None:
    lake.sql("CREATE TABLE s.doomed (id INT)")
    lake.create_stream_table("s.healthy", "SELECT id, v FROM s.t WHERE v = 2")
    lake.create_stream_table("s.ill", "SELECT id FROM s.doomed")
    lake.sql("INSERT INTO s.t VALUES (101, 2)")
    lake.sql("DROP TABLE s.doomed")
    with refused(lake, "SOURCE_DROPPED"):
        lake.refresh(["s.healthy", "s.ill"])
    status = {s.name: s for s in lake.status()}
    assert status["s.healthy"].status is Status.ACTIVE
    assert status["s.healthy"].last_error is None
    assert status["s.ill"].status is Status.ERROR
    assert lake.refresh("s.healthy").action is Action.DIFFERENTIAL
    assert lake.verify("s.healthy").equal
    lake.drop_stream_table("s.ill")


def test_asked_for_differential_it_never_recomputes(lake: Trickle) -> None:
    lake.sql("CREATE VIEW s.meaning AS SELECT id, v FROM s.t WHERE v > 2")
    lake.create_stream_table("s.strict", "SELECT id FROM s.meaning")
    lake.sql("CREATE OR REPLACE VIEW s.meaning AS SELECT id, v FROM s.t WHERE v > 3")
    with refused(lake, "DEPENDENCY_CHANGED"):
        lake.refresh("s.strict", mode="differential")
    assert lake.refresh("s.strict").action is Action.REINITIALIZE
    lake.create_stream_table("s.today", "SELECT id FROM s.t WHERE current_date() > DATE'2000-01-01'")
    with refused(lake, "NOT_INCREMENTAL"):
        lake.refresh("s.today", mode="differential")
    lake.drop_stream_table("s.today")


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


def test_verify_says_what_is_gone(lake: Trickle) -> None:
    lake.sql("CREATE TABLE s.short (id INT)")
    lake.sql("INSERT INTO s.short VALUES (1)")
    lake.create_stream_table("s.of_short", "SELECT id FROM s.short")
    lake.sql("INSERT INTO s.short VALUES (2)")
    lake.sql(EXPIRE.format(t="s.short"))
    with refused(lake, "SNAPSHOT_EXPIRED"):
        lake.verify("s.of_short")
    lake.sql("DROP TABLE s.short")
    lake.sql("CREATE TABLE s.short (id INT)")
    with refused(lake, "TABLE_REPLACED"):
        lake.verify("s.of_short")


def test_dropped_while_a_new_consumer_was_filled(lake: Trickle) -> None:
    """Either the consumer is refused or the drop: never a stream table over nothing."""
    lake.create_stream_table("s.base", "SELECT id FROM s.t")

    def drop_base(point: str) -> None:
        if point == "before transaction":
            lake.refresher.probe = None
            lake.drop_stream_table("s.base")

    lake.refresher.probe = drop_base
    try:
        with pytest.raises(TrickleError, match="PUBLISH_CONFLICT"):
            lake.create_stream_table("s.late", "SELECT id FROM s.base")
    finally:
        lake.refresher.probe = None
    assert not [s for s in lake.status() if s.name in ("s.base", "s.late")]


def test_checkpoints_are_given_back(lake: Trickle, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("spark_trickle.refresh.inputs.LOCAL", 0)  # everything is large
    lake.create_stream_table("s.large", "SELECT v, count(*) AS n FROM s.t GROUP BY v", mode="differential")
    held: Callable[[], int] = lake.spark.sparkContext._jsc.getPersistentRDDs().size
    before = set(lake.spark.sparkContext._jsc.getPersistentRDDs().keySet())
    lake.sql("UPDATE s.t SET v = 4 WHERE id < 3")
    assert lake.refresh("s.large").action is Action.DIFFERENTIAL
    assert lake.verify("s.large").equal
    assert set(lake.spark.sparkContext._jsc.getPersistentRDDs().keySet()) <= before, held()


def test_a_file_that_comes_again(lake: Trickle) -> None:
    """Deletes that were written before it came again do not apply to it."""
    tr: Any = lake
    tr.sql("CREATE TABLE s.again (id INT) USING iceberg TBLPROPERTIES ('format-version' = '2', "
           "'write.delete.mode' = 'merge-on-read')")  # fmt: skip
    tr.sql("INSERT INTO s.again SELECT /*+ COALESCE(1) */ id FROM range(10)")
    tr.sql("INSERT INTO s.again VALUES (100)")
    tr.create_stream_table("s.of_again", "SELECT id FROM s.again", mode="differential")
    tr.sql("DELETE FROM s.again WHERE id = 3")
    tr.refresh("s.of_again")
    jvm = tr.spark._jvm
    name = TableName.of("s.again")
    table = tr.refresher.lake.load(name)
    tasks = table.newScan().planFiles().iterator()
    file = next(t.file() for t in iter(tasks.next, None) if t.file().recordCount() == 10)
    table.newDelete().deleteFile(file).commit()
    added = jvm.org.apache.iceberg.DataFiles.builder(table.spec()).copy(file).build()
    table.newAppend().appendFile(added).commit()
    assert tr.sql("SELECT count(*) FROM s.again").collect()[0][0] == 11
    assert tr.refresh("s.of_again").action is Action.DIFFERENTIAL
    assert tr.verify("s.of_again").equal


def test_an_error_of_the_engine_is_one(lake: Trickle) -> None:
    with pytest.raises(TrickleError) as caught:
        lake.alter_stream_table("s.nowhere", "SELECT 1")
    assert caught.value.code == "UNKNOWN_STREAM_TABLE"
