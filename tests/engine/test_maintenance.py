"""Upkeep changes no row, is noticed by nobody, and takes away what nobody can be at."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from spark_trickle import Action, Trickle, TrickleError, connect
from spark_trickle.lake import jvm
from spark_trickle.maintenance import run as maintenance
from spark_trickle.model import TableName
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
    "s.with_state": "SELECT r.id, g.total FROM s.src r JOIN (SELECT k, sum(x) AS total FROM s.src GROUP BY k) g "
    "ON r.k = g.k",
    "s.over": "SELECT kind, sum(n) AS n FROM s.groups GROUP BY kind",
}
NAMES = tuple(DEFINITIONS)
HIDDEN = {"s.rows", "s.groups", "s.with_state"}


@pytest.fixture(scope="module")
def shared(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Trickle]:
    del spark
    place = tmp_path_factory.mktemp("maintenance") / "lake"
    with connect(place, compact_files=3, retain_snapshots=3, reader_grace="0s", **QUICK) as tr:
        tr.sql("CREATE NAMESPACE s")
        tr.sql("USE s")
        tr.sql("CREATE TABLE s.src (id BIGINT, k BIGINT, v BIGINT, x DOUBLE) TBLPROPERTIES ('format-version' = '3')")
        tr.sql("INSERT INTO s.src SELECT id, id % 5, id % 11, id / 3 FROM range(60)")
        for name, query in DEFINITIONS.items():
            clustered = ("v DESC",) if name == "s.rows" else ()
            partitioned = ("bucket(2, k)",) if name == "s.rows" else ()
            tr.create_stream_table(name, query, mode="differential", partitioned_by=partitioned, cluster_by=clustered)
        yield tr


_step = iter(range(1000, 9999))


@pytest.fixture
def tr(shared: Trickle) -> Iterator[Trickle]:
    """After some refreshes that left small files and deleted rows; whatever a test does, nothing stays behind."""
    work(shared, 3)
    yield shared
    shared.refresher.probe = None
    shared.refresh(list(NAMES))
    check(shared)
    assert private_catalogs(shared) == set()


def work(tr: Trickle, refreshes: int) -> None:
    for _ in range(refreshes):
        n = next(_step)
        tr.sql(f"INSERT INTO s.src VALUES ({n}, {n % 5}, 7, 0.1), ({n}, {n % 5}, 9, 0.7), ({n}, NULL, 8, 0.2)")
        tr.sql(f"DELETE FROM s.src WHERE id = {n - 1000}")
        tr.refresh(list(NAMES))


def check(tr: Trickle, *, deep: bool = True) -> None:
    for name in NAMES:
        found = tr.verify(name, deep=deep)
        assert found.equal, str(found)
        assert not deep or (name not in HIDDEN or found.parts), found


def pointer(tr: Trickle, name: str) -> str:
    return tr.store.pointers()[TableName.of(name)].location


def snapshots(tr: Trickle, name: str) -> list[int]:
    metadata = tr.refresher.lake.metadata(pointer(tr, name))
    found = jvm.handles(tr.spark).pluck(metadata.snapshots(), ("org.apache.iceberg.Snapshot", "snapshotId"))
    return [int(i) for i in found]


def summary(tr: Trickle, name: str) -> dict[str, str]:
    return dict(tr.refresher.lake.metadata(pointer(tr, name)).currentSnapshot().summary())


def row_ids(tr: Trickle, name: str) -> Counter[tuple[Any, ...]]:
    query = f"SELECT *, _row_id, _last_updated_sequence_number FROM lake.{name}"
    return Counter(map(tuple, other_session(tr).sql(query).collect()))


def test_nobody_notices(tr: Trickle) -> None:
    """Files are fewer; rows, row ids, hidden columns and readers are the same, and consumers have nothing to do."""
    before = {name: row_ids(tr, name) for name in NAMES}
    planned = tr.maintain(dry_run=True)
    assert {p.name for p in planned} > set(NAMES)
    assert not any(p.done for p in planned)
    done = {u.name: u for u in tr.maintain()}
    assert {u.name for u in done.values() if u.bytes_rewritten} > {"s.rows", "s.groups", "s.with_state"}
    assert any(name.startswith("_trickle.") for name, u in done.items() if u.bytes_rewritten)
    for name, upkeep in done.items():
        if upkeep.bytes_rewritten:
            assert upkeep.files_after < upkeep.files_before, upkeep
            assert summary(tr, name)["total-data-files"] == str(upkeep.files_after)
            assert upkeep.files_after <= (2 if name == "s.rows" else 1), upkeep  # one for each partition
            assert "total-position-deletes" not in summary(tr, name) or summary(tr, name)["total-position-deletes"] == "0"
    assert {name: row_ids(tr, name) for name in NAMES} == before
    assert not any(s.pending for s in tr.status())
    assert {r.action for r in tr.refresh(list(NAMES))} == {Action.NO_DATA}
    check(tr)
    for name, query in DEFINITIONS.items():
        expected = Counter(tuple(map(str, r)) for r in tr.spark.sql(query).collect())
        for reader in (PyIceberg(tr), DuckDb(tr)):
            assert Counter({tuple(map(str, k)): n for k, n in reader.read(name).items()}) == expected, name
    assert tr.history("s.rows", limit=2)[1].action is Action.MAINTENANCE
    assert next(s for s in tr.status() if s.name == "s.rows").last_action is Action.NO_DATA
    work(tr, 1)
    actions = {h.name: h.action for h in tr.history(limit=len(NAMES))}
    assert set(actions.values()) == {Action.DIFFERENTIAL}, actions
    again = tr.maintain()
    assert not any(u.bytes_rewritten for u in again), again  # two files are few enough


def test_files_are_sorted(tr: Trickle) -> None:
    tr.maintain("s.rows")
    metadata = tr.refresher.lake.metadata(pointer(tr, "s.rows"))
    table = tr.refresher.lake.table(str(metadata.metadataFileLocation()), "rows")
    files = jvm.handles(tr.spark).pluck(table.currentSnapshot().addedDataFiles(table.io()), _LOCATION)
    for path in files:
        values = [r.v for r in tr.spark.read.parquet(path).collect()]
        assert values == sorted(values, reverse=True)
    assert files


_LOCATION = ("org.apache.iceberg.ContentFile", "location")


def test_a_consumer_that_lags_reads_on(tr: Trickle) -> None:
    """It stands at a snapshot of before: that one stays, the log is read across the compaction."""
    source = ["s.rows", "s.groups", "s.with_state"]
    for _ in range(4):
        n = next(_step)
        tr.sql(f"INSERT INTO s.src VALUES ({n}, {n % 5}, 7, 0.1)")
        tr.sql(f"DELETE FROM s.src WHERE id = {n - 1000}")
        tr.refresh(source)
        assert any(u.snapshots_expired or u.bytes_rewritten for u in tr.maintain()) or True
    frontier = next(t for t in tr.store.stream_tables() if str(t.name) == "s.over").dependencies[0].snapshot_id
    assert frontier in snapshots(tr, "s.groups")
    assert tr.verify("s.over", deep=True).equal  # at its frontier
    assert tr.refresh("s.over").action is Action.DIFFERENTIAL
    check(tr)


def test_a_cut_stays_readable(tr: Trickle) -> None:
    query = "SELECT * FROM s.groups ORDER BY 1, 2, 3, 4"
    tr.create_cut("kept")
    with tr.cut() as cut:
        expected = cut.sql(query).collect()
        lazy = cut.sql("SELECT count(*), sum(v) FROM s.rows")
        totals = rows(tr.spark, "SELECT count(*), sum(v) FROM lake.s.rows")
        for _ in range(3):
            work(tr, 3)
            tr.maintain()
        assert cut.sql(query).collect() == expected
        assert [tuple(r) for r in lazy.collect()] == totals
    with tr.cut("kept") as cut:
        assert cut.sql(query).collect() == expected
    tr.drop_cut("kept")
    work(tr, 3)
    tr.maintain()
    assert len(snapshots(tr, "s.groups")) <= 3 + 2


def test_time_travel_within_retain(tr: Trickle) -> None:
    states = {}
    for _ in range(3):
        work(tr, 1)
        head = int(tr.refresher.lake.facts(pointer(tr, "s.groups")).snapshot_id or 0)
        states[head] = rows(tr.spark, "SELECT * FROM lake.s.groups")
    tr.maintain("s.groups")
    there = set(snapshots(tr, "s.groups"))
    assert len(there & set(states)) >= 2
    for snapshot in there & set(states):
        assert rows(tr.spark, f"SELECT * FROM lake.s.groups VERSION AS OF {snapshot}") == states[snapshot]


def test_files_go_when_nobody_needs_them(tr: Trickle, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(maintenance, "METADATA_SECONDS", 0)
    for _ in range(3):
        work(tr, 3)
        tr.maintain()
    everything = [str(t.name) for s in tr.store.stream_tables() for t in (s, *s.states)]
    assert unreferenced(tr, everything) == set()
    assert not tr.store.garbage()
    for name in everything:
        found = list(Path(pointer(tr, name).removeprefix("file:")).parent.glob("*.metadata.json"))
        assert len(found) <= 3, (name, len(found))


def test_a_reader_of_before_has_its_grace(tr: Trickle) -> None:
    patient = tr.refresher.settings.model_copy(update={"reader_grace": "1h"})
    before = tr.refresher.settings
    tr.refresher.settings = patient
    try:
        frame = other_session(tr).sql("SELECT count(*), sum(v) FROM lake.s.rows")
        expected = rows(tr.spark, "SELECT count(*), sum(v) FROM lake.s.rows")
        frame._jdf.queryExecution().executedPlan()  # it has its snapshot, and has read nothing yet
        for _ in range(2):
            work(tr, 3)
            tr.maintain("s.rows")
        assert [tuple(r) for r in frame.collect()] == expected
        assert tr.store.garbage()
    finally:
        tr.refresher.settings = before
        with tr.store.write() as tx:
            waiting = [g.location.split("\n") for g in tr.store.garbage()]
            tx.drop_garbage([g.id for g in tr.store.garbage()])
        for paths in waiting:
            for path in paths:
                jvm.file_io(tr.spark).deleteFile(path)


@pytest.mark.parametrize("point", ["before checks", "before transaction", "before commit"])
def test_a_pass_that_fails_leaves_nothing(tr: Trickle, point: str) -> None:
    everything = [str(t.name) for s in tr.store.stream_tables() for t in (s, *s.states)]
    before = {name: pointer(tr, name) for name in everything}
    files = unreferenced(tr, everything)
    tr.refresher.probe = Fault(point)
    failed = tr.maintain()
    assert not any(u.done for u in failed)
    assert any("injected" in u.reason for u in failed)
    assert {name: pointer(tr, name) for name in everything} == before
    assert unreferenced(tr, everything) == files
    assert private_catalogs(tr) == set()
    for name in everything:
        assert Path(pointer(tr, name).removeprefix("file:")).exists()


def test_a_pass_that_is_published_after_all(tr: Trickle) -> None:
    tr.refresher.probe = Fault("after commit")
    tr.maintain("s.groups")
    tr.refresher.probe = None
    assert tr.refresh("s.groups").action is Action.NO_DATA
    assert tr.verify("s.groups", deep=True).equal


def test_a_refresh_and_a_pass_exclude_each_other(tr: Trickle) -> None:
    table = tr.store.find(TableName.of("s.rows"))
    with tr.refresher.heartbeat.holding([f"stream_table:{table.id}"], 0):
        found = tr.maintain("s.rows")
    assert [u.reason for u in found] == ["a refresh of it is running"]
    assert tr.maintain("s.rows")[0].done


def test_what_somebody_else_did_is_left_to_the_refresh(tr: Trickle) -> None:
    other = other_session(tr)
    other.sql("ALTER TABLE lake.s.rows CREATE TAG mine")  # no harm, and the snapshot stays
    tagged = int(tr.refresher.lake.facts(pointer(tr, "s.rows")).snapshot_id or 0)
    assert tr.maintain("s.rows")[0].done
    work(tr, 4)
    tr.maintain("s.rows")
    assert tagged in snapshots(tr, "s.rows")
    other.sql("ALTER TABLE lake.s.rows DROP TAG mine")
    other.sql("DELETE FROM lake.s.groups WHERE kind = 1")
    left = tr.maintain("s.groups")[0]
    assert not left.done
    assert "INTEGRITY" in left.reason
    tr.refresh("s.groups", mode="full")


def test_unknown_names_are_refused(tr: Trickle) -> None:
    with pytest.raises(TrickleError, match="UNKNOWN_STREAM_TABLE|there is no stream table"):
        tr.maintain("s.nothing")


def wait(seconds: float, done: Callable[[], object]) -> None:
    end = time.monotonic() + seconds
    while not done():
        assert time.monotonic() < end, "it did not happen in time"
        time.sleep(0.1)
