"""Upkeep changes no row, is noticed by nobody, and takes away what nobody can be at."""

from __future__ import annotations

import itertools
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from datetime import timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from sqlalchemy import delete, update

from spark_trickle import Action, Trickle, TrickleError, connect
from spark_trickle.catalog.tables import leases
from spark_trickle.lake import jvm
from spark_trickle.lake.history import snapshots_of
from spark_trickle.lake.protect import FOREVER
from spark_trickle.maintenance import decide
from spark_trickle.maintenance.run import Maintainer
from spark_trickle.model import Pointer, StreamTable, TableName
from tests.conftest import QUICK
from tests.engine.lakes import other_session, private_catalogs, rows, unreferenced
from tests.engine.test_publish import Fault
from tests.engine.test_table import DuckDb, PyIceberg

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.spark

DEFINITIONS = {
    "s.rows": "SELECT id, k, v FROM s.src WHERE v > 2",
    "s.groups": "SELECT k % 3 AS kind, count(*) AS n, avg(v) AS mean, max(id) AS last FROM s.src GROUP BY k % 3, k",
    "s.over": "SELECT kind, sum(n) AS n FROM s.groups GROUP BY kind",
}
NAMES = tuple(DEFINITIONS)
SOURCE_ROWS = 60
_LOCATION = ("org.apache.iceberg.ContentFile", "location")
_numbers = itertools.count(1000)


@pytest.fixture(scope="module")
def shared(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Trickle]:
    del spark
    place = tmp_path_factory.mktemp("maintenance") / "lake"
    with connect(place, compact_files=3, retain_snapshots=3, reader_grace="0s", **QUICK) as tr:
        tr.sql("CREATE NAMESPACE s")
        tr.sql("USE s")
        tr.sql("CREATE TABLE s.src (id BIGINT, k BIGINT, v BIGINT, x DOUBLE) TBLPROPERTIES ('format-version' = '3')")
        tr.sql(f"INSERT INTO s.src SELECT id, id % 5, id % 11, id / 3 FROM range({SOURCE_ROWS})")
        for name, query in DEFINITIONS.items():
            clustered = ("v DESC",) if name == "s.rows" else ()
            partitioned = ("bucket(2, k)",) if name == "s.rows" else ()
            tr.create_stream_table(name, query, mode="differential", partitioned_by=partitioned, cluster_by=clustered)
        yield tr


@pytest.fixture
def tr(shared: Trickle) -> Iterator[Trickle]:
    """Whatever a test does, tables are right and nothing stays behind."""
    yield shared
    shared.refresher.probe = None
    shared.refresh(list(NAMES))
    for name in NAMES:
        assert shared.verify(name).equal
    assert private_catalogs(shared) == set()


def work(tr: Trickle, refreshes: int, names: Sequence[str] = NAMES) -> None:
    """Small files and deleted rows."""
    for _ in range(refreshes):
        n = next(_numbers)
        tr.sql(f"INSERT INTO s.src VALUES ({n}, {n % 5}, 7, 0.1), ({n}, {n % 5}, 9, 0.7), ({n}, NULL, 8, 0.2)")
        tr.sql(f"DELETE FROM s.src WHERE id = {n % SOURCE_ROWS}")
        results = tr.refresh(list(names))
        assert {r.action for r in results} == {Action.DIFFERENTIAL}


def pointer(tr: Trickle, name: str) -> str:
    return tr.store.pointers()[TableName.of(name)].location


def current(tr: Trickle, name: str) -> int:
    return int(tr.refresher.lake.facts(pointer(tr, name)).snapshot_id or 0)


def snapshots(tr: Trickle, name: str) -> list[int]:
    metadata = tr.refresher.lake.metadata(pointer(tr, name))
    found = jvm.handles(tr.spark).pluck(metadata.snapshots(), ("org.apache.iceberg.Snapshot", "snapshotId"))
    return [int(i) for i in found]


def row_ids(tr: Trickle, name: str) -> Counter[tuple[Any, ...]]:
    query = f"SELECT *, _row_id, _last_updated_sequence_number FROM lake.{name}"
    return Counter(map(tuple, other_session(tr).sql(query).collect()))


def test_nobody_notices(tr: Trickle) -> None:
    """Files are fewer; rows, row ids, hidden columns and readers are the same, and consumers have nothing to do."""
    query = "SELECT r.id, g.total FROM s.src r JOIN (SELECT k, sum(x) AS total FROM s.src GROUP BY k) g ON r.k = g.k"
    tr.create_stream_table("s.with_state", query, mode="differential")
    names = [*NAMES, "s.with_state"]
    work(tr, 3, names)
    before = {name: row_ids(tr, name) for name in names}
    planned = tr.maintain(dry_run=True)
    assert {p.name for p in planned} > set(names)
    assert not any(p.done for p in planned)
    done = {u.name: u for u in tr.maintain()}
    rewritten = {u.name for u in done.values() if u.bytes_rewritten}
    assert rewritten > set(names)
    assert any(name.startswith("_trickle.") for name in rewritten)
    for name in rewritten:
        assert done[name].files_after < done[name].files_before
        assert done[name].files_after == (3 if name == "s.rows" else 1), done[name]  # one for each partition
        found = dict(tr.refresher.lake.metadata(pointer(tr, name)).currentSnapshot().summary())
        assert found["total-data-files"] == str(done[name].files_after)
        assert found.get("total-position-deletes", "0") == "0"
    assert {name: row_ids(tr, name) for name in names} == before
    assert not any(s.pending for s in tr.status())
    assert {r.action for r in tr.refresh(names)} == {Action.NO_DATA}
    for name in names:
        assert tr.verify(name, deep=True).equal
    for name, definition in DEFINITIONS.items():
        expected = Counter(tuple(map(str, r)) for r in tr.spark.sql(definition).collect())
        for reader in (PyIceberg(tr), DuckDb(tr)):
            assert reader.read(name) == expected, name
    files = tr.refresher.lake.table(pointer(tr, "s.rows"), "rows")
    for path in jvm.handles(tr.spark).pluck(files.currentSnapshot().addedDataFiles(files.io()), _LOCATION):
        values = [r.v for r in tr.spark.read.parquet(path).collect()]
        assert values == sorted(values, reverse=True)  # clustered by v
    assert tr.history("s.rows", limit=2)[1].action is Action.MAINTENANCE
    assert next(s for s in tr.status() if s.name == "s.rows").last_action is Action.NO_DATA
    work(tr, 1, names)
    for name in names:
        assert tr.verify(name, deep=True).equal
    assert not any(u.bytes_rewritten for u in tr.maintain(dry_run=True))  # two files are few enough
    tr.drop_stream_table("s.with_state")


def test_readers_are_left_alone(tr: Trickle) -> None:
    """A consumer that lags, an open cut, a named one, time travel. When they are gone the files go."""
    query = "SELECT * FROM s.groups ORDER BY 1, 2, 3, 4"
    tr.create_cut("kept")
    with tr.cut() as cut:
        expected = cut.sql(query).collect()
        lazy = cut.sql("SELECT count(*), sum(v) FROM s.rows")
        totals = rows(tr.spark, "SELECT count(*), sum(v) FROM lake.s.rows")
        for _ in range(2):
            work(tr, 3, ["s.rows", "s.groups"])
            tr.maintain("s.rows", "s.groups")
        then, was = current(tr, "s.groups"), rows(tr.spark, "SELECT * FROM lake.s.groups")
        work(tr, 1, ["s.rows", "s.groups"])
        assert rows(tr.spark, f"SELECT * FROM lake.s.groups VERSION AS OF {then}") == was  # time travel
        assert cut.sql(query).collect() == expected
        assert [tuple(r) for r in lazy.collect()] == totals
    with tr.cut("kept") as cut:
        assert cut.sql(query).collect() == expected
    frontier = tr.store.find(TableName.of("s.over")).dependencies[0].snapshot_id
    assert frontier in snapshots(tr, "s.groups")
    assert tr.verify("s.over", deep=True).equal  # at its frontier
    assert tr.refresh("s.over").action is Action.DIFFERENTIAL  # across the compactions
    tr.drop_cut("kept")
    work(tr, 3)
    tr.maintain()
    for name in NAMES:
        tables = [name]
        assert len(snapshots(tr, name)) <= 5, name  # three, the new one, and the one it was made of
        assert unreferenced(tr, tables) == set()
        found = list(Path(pointer(tr, name).removeprefix("file:")).parent.glob("*.metadata.json"))
        assert len(found) <= 3, (name, len(found))
    assert not tr.store.garbage()


def test_a_consumer_that_is_filled_keeps_what_it_may_stand_at(tr: Trickle, monkeypatch: pytest.MonkeyPatch) -> None:
    """Its cut is in memory, and it has no frontier yet: its lease tells since when it runs."""
    monkeypatch.setattr(decide, "CLOCKS", timedelta())
    tr.create_stream_table("s.late", "SELECT kind, n FROM s.groups", initialize=False)
    lease = f"stream_table:{tr.store.find(TableName.of('s.late')).id}"
    tr.refresh("s.over")
    with tr.refresher.heartbeat.holding([lease], 0):
        at = current(tr, "s.groups")
        for _ in range(2):
            work(tr, 4, ["s.groups", "s.over"])
            tr.maintain("s.groups")
        assert at in snapshots(tr, "s.groups")
    work(tr, 4, ["s.groups", "s.over"])
    tr.maintain("s.groups")
    assert at not in snapshots(tr, "s.groups")
    tr.drop_stream_table("s.late")


def test_when_a_snapshot_was_replaced(tr: Trickle) -> None:
    work(tr, 2, ["s.groups"])
    found = {s.id: s for s in snapshots_of(tr.refresher.lake, pointer(tr, "s.groups")).snapshots}
    line = [s for s in found.values() if s.is_current]
    assert [s.until for s in line] == [*(s.at for s in line[1:]), None]


def test_a_scan_of_before_has_its_grace(tr: Trickle) -> None:
    before = tr.refresher.settings
    tr.refresher.settings = before.model_copy(update={"reader_grace": "1h", "retain_snapshots": 2})
    try:
        frame = other_session(tr).sql("SELECT count(*), sum(v) FROM lake.s.rows")
        expected = rows(tr.spark, "SELECT count(*), sum(v) FROM lake.s.rows")
        frame._jdf.queryExecution().executedPlan()  # it has its snapshot, and has read nothing yet
        at = current(tr, "s.rows")
        work(tr, 3, ["s.rows"])
        tr.maintain("s.rows")
        assert at not in snapshots(tr, "s.rows")
        assert [tuple(r) for r in frame.collect()] == expected
        assert [g.kind for g in tr.store.garbage()] == ["files"]
    finally:
        tr.refresher.settings = before


def test_a_pass_that_fails_leaves_nothing(tr: Trickle) -> None:
    work(tr, 2, ["s.groups"])
    before, files = pointer(tr, "s.groups"), unreferenced(tr, ["s.groups"])
    for point in ("before checks", "before transaction", "before commit"):
        tr.refresher.probe = Fault(point)
        (failed,) = tr.maintain("s.groups")
        assert not failed.done
        assert "injected" in failed.reason
        assert pointer(tr, "s.groups") == before
        assert unreferenced(tr, ["s.groups"]) == files
        assert private_catalogs(tr) == set()
        assert Path(before.removeprefix("file:")).exists()
    tr.refresher.probe = Fault("after commit")  # published after all
    tr.maintain("s.groups")
    tr.refresher.probe = None
    assert pointer(tr, "s.groups") != before
    assert tr.refresh("s.groups").action is Action.NO_DATA
    assert tr.verify("s.groups", deep=True).equal


def test_others(tr: Trickle) -> None:
    """A refresh that runs, a tag of another engine, rows of another engine, a name that is not there."""
    table = tr.store.find(TableName.of("s.rows"))
    with tr.refresher.heartbeat.holding([f"stream_table:{table.id}"], 0):
        assert [u.reason for u in tr.maintain("s.rows")] == ["a refresh of it is running"]
    other = other_session(tr)
    other.sql("ALTER TABLE lake.s.rows CREATE TAG mine")  # no harm, and the snapshot stays
    tagged = current(tr, "s.rows")
    for _ in range(2):
        work(tr, 3, ["s.rows"])
        assert tr.maintain("s.rows")[0].done
    assert tagged in snapshots(tr, "s.rows")
    other.sql("ALTER TABLE lake.s.rows DROP TAG mine")
    other.sql("DELETE FROM lake.s.groups WHERE kind = 1")
    (left,) = tr.maintain("s.groups")
    assert not left.done
    assert "INTEGRITY" in left.reason
    tr.refresh("s.groups", mode="full")
    with pytest.raises(TrickleError, match="there is no stream table"):
        tr.maintain("s.nothing")


def test_by_itself(tr: Trickle) -> None:
    """The scheduler looks after what moved, one pass at a time, and then it is quiet."""
    work(tr, 3, ["s.rows", "s.groups"])

    def done() -> Counter[str]:
        found = (h for h in tr.history(limit=50) if h.action is Action.MAINTENANCE and h.initiated_by == "schedule")
        return Counter(h.name for h in found)

    tr.start()
    deadline = time.monotonic() + 60
    while not {"s.rows", "s.groups"} <= set(done()) and time.monotonic() < deadline:
        time.sleep(0.1)
    tr.stop()
    assert {"s.rows", "s.groups"} <= set(done())
    assert max(done().values()) == 1
    assert {r.action for r in tr.refresh(["s.rows", "s.groups"])} == {Action.NO_DATA}


def test_a_definition_that_names_a_tag_or_a_version(tr: Trickle) -> None:
    """It knows by the pointer alone that something happened: a pass on the table below must not hide it."""
    tr.sql("ALTER TABLE lake.s.groups CREATE TAG audited")
    version = current(tr, "s.groups")
    was = rows(tr.spark, "SELECT * FROM lake.s.groups")
    tr.create_stream_table("s.audited", "SELECT * FROM s.groups VERSION AS OF 'audited'")
    tr.create_stream_table("s.fixed", f"SELECT * FROM s.groups VERSION AS OF {version}")
    work(tr, 3, ["s.groups"])
    tr.refresh(["s.audited", "s.fixed"], upstream=False)
    other_session(tr).sql("ALTER TABLE lake.s.groups REPLACE TAG audited AS OF VERSION " + str(current(tr, "s.groups")))
    assert tr.maintain("s.groups")[0].bytes_rewritten
    assert tr.refresh("s.audited", upstream=False).action is Action.FULL
    assert rows(tr.spark, "SELECT * FROM lake.s.audited") == rows(tr.spark, "SELECT * FROM lake.s.groups") != was
    other_session(tr).sql("ALTER TABLE lake.s.groups DROP TAG audited")
    tr.drop_stream_table("s.audited")
    for _ in range(2):
        work(tr, 4, ["s.groups", "s.over"])
        assert tr.refresh("s.fixed", upstream=False).action is Action.FULL  # no frontier is at the version
        tr.maintain("s.groups")
    assert version in snapshots(tr, "s.groups")
    assert tr.refresh("s.fixed", upstream=False).action is Action.FULL
    assert rows(tr.spark, "SELECT * FROM lake.s.fixed") == was
    tr.drop_stream_table("s.fixed")


def test_a_branch_with_a_retention_of_its_own(tr: Trickle) -> None:
    """Iceberg would expire by it whatever it is told: the snapshot of a cut, say."""
    table = tr.refresher.lake.load(TableName.of("s.groups"))
    table.manageSnapshots().setMaxSnapshotAgeMs("main", 1).commit()
    for _ in range(2):
        work(tr, 4, ["s.groups", "s.over"])
        before = snapshots(tr, "s.groups")
        (done,) = tr.maintain("s.groups")
        assert 0 < done.snapshots_expired == len(before) + 1 - len(snapshots(tr, "s.groups"))
        assert len(snapshots(tr, "s.groups")) >= 3
    ref = tr.refresher.lake.metadata(pointer(tr, "s.groups")).ref("main")
    assert ref.maxSnapshotAgeMs() == 1
    table.refresh()
    table.manageSnapshots().setMaxSnapshotAgeMs("main", FOREVER).commit()


@pytest.mark.parametrize("paused", ["lease", "pointer", None])
def test_a_pass_that_was_paused_deletes_no_metadata(tr: Trickle, paused: str | None) -> None:
    """Somebody took the lease, or the table is at another file, when it wakes up after its publish."""
    work(tr, 3, ["s.groups"])
    lease = f"stream_table:{tr.store.find(TableName.of('s.groups')).id}"

    def probe(point: str) -> None:
        if point == "after commit" and paused == "lease":
            with tr.store.write() as tx:
                tx.connection.execute(update(leases).where(leases.c.name == lease).values(token=leases.c.token + 1))
        elif point == "after commit" and paused == "pointer":
            other_session(tr).sql("ALTER TABLE lake.s.groups SET TBLPROPERTIES ('mine' = 'x')")

    tr.refresher.probe = probe
    try:
        (done,) = tr.maintain("s.groups")
    finally:
        tr.refresher.probe = None
        with tr.store.write() as tx:
            tx.connection.execute(delete(leases).where(leases.c.name == lease))
    assert done.done
    assert (done.metadata_deleted == 0) == (paused is not None)


def test_one_after_the_other(tr: Trickle) -> None:
    """A table that always needs a pass does not keep the others waiting."""
    served = []
    for _ in range(3):
        work(tr, 3)
        found = tr.maintainer.next("test")
        served.append(found[0].name)
    assert sorted(served) == sorted(NAMES)
    tr.maintain()


def test_files_are_planned_again_when_some_have_come(tr: Trickle, monkeypatch: pytest.MonkeyPatch) -> None:
    planned: list[str] = []
    real = Maintainer._files

    def files(self: Maintainer, table: StreamTable, *more: Any) -> Any:
        planned.append(str(table.name))
        return real(self, table, *more)

    def looks(refreshes: int) -> int:
        planned.clear()
        work(tr, refreshes, ["s.groups"])
        tr.maintainer.next("test")
        return planned.count("s.groups")

    tr.maintain()
    monkeypatch.setattr(Maintainer, "_files", files)
    before = tr.refresher.settings
    tr.refresher.settings = before.model_copy(update={"compact_files": 12, "retain_snapshots": 100})
    try:
        assert [looks(n) for n in (1, 1, 1)] == [1, 0, 0]
        assert looks(8) >= 1
    finally:
        tr.refresher.settings = before


def test_a_holder_whose_metadata_is_gone(tr: Trickle, caplog: pytest.LogCaptureFixture) -> None:
    """Nothing can be read there any more: it keeps nothing, and keeps upkeep from nothing."""
    work(tr, 3, ["s.groups"])
    gone = Pointer(TableName.of("s.groups"), pointer(tr, "s.groups") + ".gone.metadata.json", is_view=False)
    with tr.store.write() as tx:
        tx.copy_pointers("trickle_dead_0", [gone], [])
    try:
        (done,) = tr.maintain("s.groups")
        assert done.done, done
        assert "nothing is kept for it" in caplog.text
    finally:
        with tr.store.write() as tx:
            tx.drop_catalog("trickle_dead_0")


def test_a_named_cut_during_a_pass_is_no_alert(tr: Trickle) -> None:
    work(tr, 3, ["s.groups"])

    def probe(point: str) -> None:
        if point == "before transaction":
            tr.refresher.probe = None
            tr.create_cut("during")

    before = tr.alerts(kind="MAINTENANCE_FAILED")
    tr.refresher.probe = probe
    (left,) = tr.maintain("s.groups")
    assert (left.done, left.failed) == (False, False)
    assert "next pass" in left.reason
    assert tr.alerts(kind="MAINTENANCE_FAILED") == before
    assert tr.maintain("s.groups")[0].done
    tr.drop_cut("during")
