"""What is wrong, in order, and what to do."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from spark_trickle.catalog import controls
from spark_trickle.catalog.database import open_catalog
from spark_trickle.catalog.leases import acquire
from spark_trickle.catalog.store import CatalogStore
from spark_trickle.cli.app import run
from spark_trickle.config import Settings
from spark_trickle.lake.table_history import TableHistory
from spark_trickle.model import Action, Dependency, InputKind, Mode, Source, Status, StreamTable, TableName
from spark_trickle.monitor.health import Facts, Health, diagnose, health
from spark_trickle.monitor.pending import SourceState
from spark_trickle.results import StreamTableStatus
from spark_trickle.scheduler.decide import LEASE
from tests.catalog.records import add_revenue, table_pointer
from tests.monitor.test_monitor import entry

NOON = datetime(2026, 3, 2, 12, tzinfo=UTC)
A, B, SOURCE = (TableName("s", n) for n in ("a", "b", "t"))


def table(name: TableName = A, **values: Any) -> StreamTable:
    draft = StreamTable.draft(name, "SELECT 1", "s", Mode.AUTO, NOON)
    return replace(draft, **{"id": 1, "status": Status.ACTIVE, **values})


def shown(name: TableName = A, **values: Any) -> StreamTableStatus:
    given: dict[str, Any] = {
        "name": str(name),
        "status": Status.ACTIVE,
        "mode": Mode.AUTO,
        "schedule": "1m",
        "incremental": True,
        "reason": None,
        "inputs": ("s.t",),
        "pending": False,
        "data_timestamp": NOON,
        "last_action": Action.FULL,
        "last_seconds": 1.0,
        "last_error": None,
        "lag_seconds": 0.0,
        "target_seconds": 60.0,
    }
    return StreamTableStatus(**(given | values))


def source(**values: Any) -> SourceState:
    given: dict[str, Any] = {
        "name": "s.t",
        "format": "iceberg v2",
        "readers": ("s.a",),
        "current": 5,
        "changed_at": NOON,
        "rows": 7,
        "oldest_frontier": 5,
        "oldest_reader": "s.a",
        "behind": 0,
        "frontiers_readable": True,
        "frontiers": 1,
        "protected": 1,
    }
    return SourceState(**(given | values))


EXPOSED = source(protected=0, exposed_since=NOON - timedelta(hours=2))


def judged(
    tables: list[StreamTable] | None = None, statuses: list[StreamTableStatus] | None = None, **more: Any
) -> Health:
    led = {"lease_expires_at": NOON + timedelta(seconds=20)}
    found = tuple(tables or [table()])
    return diagnose(Facts(NOON, found, tuple(statuses or [shown()]), **(led | more)))


def codes(found: Health) -> list[str]:
    return [f"{f.severity} {f.code}" for f in found.findings]


def test_nothing_is_wrong() -> None:
    well = judged(sources=(source(),), refreshes={"COMPLETED": 10}, history=(10, NOON))
    assert well.findings == ()
    assert well.is_well
    assert str(well) == (
        "nothing is wrong; 1 stream table, 1 active, 0 behind; a scheduler leads; 10 refreshes in 24 h, 0 failed"
    )


@pytest.mark.parametrize(
    ("tables", "statuses", "more", "code", "says"),
    [
        ({"status": Status.ERROR, "last_error": "[X] boom\n hint"}, {}, {}, "ERROR ERROR", "[X] boom"),
        ({"status": Status.SUSPENDED, "consecutive_errors": 3}, {}, {}, "ERROR SUSPENDED", "after 3 failures"),
        ({"status": Status.SUSPENDED}, {}, {}, "INFO SUSPENDED", "by hand"),
        ({"consecutive_errors": 1, "last_error": "no"}, {}, {}, "WARNING FAILING", "trickle history s.a --failed"),
        ({}, {}, {"lease_expires_at": None}, "ERROR NO_SCHEDULER", "1 stream table with a schedule"),
        ({}, {}, {"lease_expires_at": NOON - timedelta(seconds=1)}, "ERROR NO_SCHEDULER", "trickle up"),
        ({}, {}, {"enabled": False}, "WARNING SCHEDULES_OFF", "trickle enable"),
        ({}, {"lag_seconds": 121.0}, {}, "ERROR STALE", "s.a is 121 s behind, and may be 60 s"),
        ({}, {"lag_seconds": 121.0}, {"stale_periods": 1.5}, "ERROR STALE", "more than 1.5 times as old"),
        ({}, {"failed_upstream": "s.b", "lag_seconds": 999.0}, {}, "WARNING UPSTREAM_FAILED", "waiting for s.b: s.a"),
        ({}, {}, {"sources": None}, "INFO SOURCES_UNSEEN", "tr.health()"),
        (
            {},
            {},
            {"sources": (source(format=None, current=None, problem="the table is gone"),)},
            "ERROR SOURCE",
            "s.t, which is read by s.a: the table is gone",
        ),
        ({}, {}, {"sources": (source(frontiers_readable=False),)}, "WARNING SNAPSHOT_EXPIRED", "of s.t"),
        ({}, {}, {"sources": (EXPOSED,)}, "WARNING UNPROTECTED", "since 2026-03-02 10:00 snapshots of s.t"),
        ({}, {}, {"abandoned": ("s.a",)}, "WARNING ABANDONED", "s.a"),
        ({}, {}, {"garbage": (3, NOON - timedelta(days=2))}, "WARNING GARBAGE", "the oldest since 2026-02-28"),
        ({}, {}, {"history": (2_000_000, NOON)}, "INFO HISTORY", "2,000,000 refreshes"),
        ({}, {}, {"alerts": {("INTEGRITY", "error"): 2}}, "INFO ALERTS", "INTEGRITY 2"),
    ],
)
def test_each_thing_that_is_wrong(
    tables: dict[str, Any], statuses: dict[str, Any], more: dict[str, Any], code: str, says: str
) -> None:
    found = judged([table(**tables)], [shown(**statuses)], **more)
    assert codes(found) == [code]
    assert says in str(found)
    assert found.is_well is code.startswith("INFO")


@pytest.mark.parametrize(
    ("statuses", "more"),
    [
        ({"lag_seconds": 119.0}, {}),
        ({"lag_seconds": 121.0}, {"stale_periods": 3.0}),
        ({"target_seconds": None, "lag_seconds": 9999.0}, {"lease_expires_at": None}),  # by hand: nobody need lead
        ({}, {"garbage": (50, NOON)}),
        ({}, {"sources": (EXPOSED,), "protect": "off"}),
        ({}, {"sources": (source(protected=0, exposed_since=NOON - timedelta(minutes=59)),)}),  # a tag comes soon
        ({}, {"sources": (source(readers=(), format=None, current=None, problem="gone"),)}),
        ({}, {"alerts": {("RESUMED", "info"): 2}}),
    ],
)
def test_what_is_not_wrong(statuses: dict[str, Any], more: dict[str, Any]) -> None:
    assert codes(judged(None, [shown(**statuses)], **more)) == []


def test_the_worst_comes_first_and_many_are_one_line() -> None:
    many = [shown(TableName("s", f"x{n}"), lag_seconds=500.0 + n) for n in range(20)]
    found = judged([table(consecutive_errors=2)], many, history=(10**7, NOON))
    assert codes(found) == ["ERROR STALE", "WARNING FAILING", "INFO HISTORY"]
    assert "s.x0, s.x1, s.x2, s.x3, s.x4 and 15 more; s.x19 is 519 s behind" in found.findings[0].message
    assert len(found.findings[0].names) == 20
    assert found.summary.startswith("1 error, 1 warning; ")


# -- over a catalog ----------------------------------------------------------------------------------------------------


@pytest.fixture
def settings(tmp_path: Path) -> Settings:
    return Settings.load(tmp_path / "lakehouse")


@pytest.fixture
def store(settings: Settings) -> Iterator[CatalogStore]:
    """t -> a -> b."""
    settings.location.mkdir()
    opened = open_catalog(settings.sqlalchemy_url)
    with opened.write() as tx:
        for name, reads in ((A, SOURCE), (B, A)):
            id_ = add_revenue(
                tx,
                name=name,
                schedule="5m",
                status=Status.ACTIVE,
                data_timestamp=datetime.now(UTC),
                published_snapshot=1,
            )
            kind = InputKind.SOURCE if reads is SOURCE else InputKind.STREAM_TABLE
            tx.set_dependencies(id_, [Dependency(reads, kind, (), "u", 1, 0, table_pointer(reads).location)])
        for name in (SOURCE, A, B):
            tx.insert_pointer(table_pointer(name))
    yield opened
    opened.close()


def unread(_location: str) -> TableHistory:
    return TableHistory("iceberg v2", "u", 1)


def test_what_is_seen(store: CatalogStore, settings: Settings) -> None:
    assert codes(health(store, settings)) == ["ERROR NO_SCHEDULER", "INFO SOURCES_UNSEEN"]
    lease = acquire(store, [LEASE], store.owner, 30, 0)
    well = health(store, settings, unread)
    # The metadata that `unread` tells has no snapshots.
    assert (codes(well), well.scheduler, well.stream_tables) == (["WARNING SNAPSHOT_EXPIRED"], True, 2)
    id_ = store.find(A).id
    with store.write() as tx:
        tx.start_refresh("r1", id_, "s.a", "schedule")
        tx.update_stream_table(id_, consecutive_errors=3, last_error="[SPARK_FAILED] x", status=Status.SUSPENDED)
        tx.add_refresh(entry("s.b", None, started_at=datetime.now(UTC)), store.find(B).id)
        tx.add_garbage("file:/w/x", not_before=datetime.now(UTC) - timedelta(days=3))
    found = health(store, settings)
    assert codes(found) == [
        "ERROR SUSPENDED",
        "WARNING UPSTREAM_FAILED",
        "WARNING ABANDONED",
        "WARNING GARBAGE",
        "INFO SOURCES_UNSEEN",
    ]
    assert (found.refreshes, found.failures) == (2, 1)
    held = acquire(store, [f"stream_table:{id_}"], store.owner, 30, 0)
    assert "WARNING ABANDONED" not in codes(health(store, settings))
    del lease, held


def test_a_refresh_that_ends_while_it_is_looked_at_is_not_abandoned(store: CatalogStore, settings: Settings) -> None:
    ids = {name: store.find(name).id for name in (A, B)}
    look = store.lease_expires_at

    def ends_meanwhile(lease: str) -> datetime | None:
        if lease == f"stream_table:{ids[A]}" and store.refresh_entry("r1").state == "RUNNING":  # type: ignore[union-attr]
            with store.write() as tx:
                tx.finish_refresh("r1", state="COMPLETED", action=Action.FULL, reason=None)
                tx.start_refresh("r3", ids[A], "s.a", "schedule")  # the next one, whose lease was not looked at
        return look(lease)

    store.lease_expires_at = ends_meanwhile  # type: ignore[method-assign]
    with store.write() as tx:
        tx.start_refresh("r1", ids[A], "s.a", "schedule")
        tx.start_refresh("r2", ids[B], "s.b", "schedule")
    abandoned = [f.names for f in health(store, settings).findings if f.code == "ABANDONED"]
    assert abandoned == [("s.b",)]


def test_readers_of_sources_outside_the_lake_are_not_called_late(store: CatalogStore, settings: Settings) -> None:
    """Without Spark nobody knows whether they are."""
    with store.write() as tx:
        tx.delete_pointer(SOURCE)
        tx.add_source(Source("s.t", "delta", "/data/t", "file:/w/t/view.json"))
    later = datetime.now(UTC) + timedelta(days=1)
    without = health(store, settings, unread, now=later)
    assert codes(without) == ["ERROR NO_SCHEDULER", "INFO SOURCES_UNSEEN"]
    assert without.findings[0].names == ("s.a", "s.b")
    assert "sources outside the lake (s.t) were not looked at" in str(without)
    assert "ERROR STALE" in codes(health(store, settings, pointers=store.pointers(), now=later))


def test_the_command(
    store: CatalogStore, settings: Settings, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", "200")
    command = ["--lake", str(settings.location), "health"]
    controls.suspend(store, A, 0)
    controls.suspend(store, B, 0)
    assert run(command) == 1  # the metadata of s.t is not there
    assert "its metadata cannot be read" in capsys.readouterr().out
    with store.write() as tx:
        for name in (A, B):
            tx.set_dependencies(store.find(name).id, [])
    assert run([*command, "--output", "json"]) == 0
    told = json.loads(capsys.readouterr().out)
    assert told["is_well"] is True
    assert [f["severity"] for f in told["findings"]] == ["INFO", "INFO"]
