"""What becomes of refreshes, and of the process that does them, when Spark's JVM is gone."""

from __future__ import annotations

import signal
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from spark_trickle.catalog.database import open_catalog
from spark_trickle.catalog.leases import Heartbeat
from spark_trickle.catalog.store import CatalogStore
from spark_trickle.cli import service, serving
from spark_trickle.errors import TrickleError
from spark_trickle.graph.stream_tables import Groups, Unit
from spark_trickle.model import TableName
from spark_trickle.refresh.situation import Cut
from spark_trickle.refresh.tick import Tick
from spark_trickle.scheduler.loop import Scheduler
from tests.catalog.records import add_revenue

A = TableName("s", "a")


@pytest.fixture
def store(tmp_path: Path) -> Iterator[CatalogStore]:
    store = open_catalog(f"sqlite:///{tmp_path / 'catalog.db'}")
    with store.write() as tx:
        add_revenue(tx, name=A)
    yield store
    store.close()


def gone(*_: object) -> None:
    raise ConnectionRefusedError("nobody listens")


def test_a_refresh_that_cannot_begin_counts_like_one_that_fails(store: CatalogStore) -> None:
    session = SimpleNamespace(sparkContext=SimpleNamespace(setLocalProperty=gone))
    refresher: Any = SimpleNamespace(
        store=store, heartbeat=Heartbeat(store, ttl_seconds=30), lake=SimpleNamespace(session=session)
    )
    for times in (1, 2):
        lease = refresher.heartbeat.take("stream_table:1")
        known = {t.name: t for t in store.stream_tables()}
        cut, nobody = Cut({}, datetime.now(UTC)), Groups((), {}, {})
        tick = Tick(refresher, cut, "schedule", ((A,),), (), frozenset([A]), {(A,): lease}, known, nobody)
        with pytest.raises(TrickleError, match="nobody listens"):
            tick.refresh((A,))
        found = store.history(str(A))
        assert [(h.state, h.initiated_by) for h in found] == [("FAILED", "schedule")] * times
        assert "nobody listens" in str(found[0].error)
        assert store.find(A).consecutive_errors == times
        assert store.lease_expires_at("stream_table:1") is None, "the lease is given back"


def test_a_scheduler_that_is_told_to_end_begins_nothing_more_at_once() -> None:
    scheduler = Scheduler(SimpleNamespace(), lambda: None)  # type: ignore[arg-type]
    scheduler._thread = SimpleNamespace(join=lambda: pytest.fail("it waited"))  # type: ignore[assignment]
    abandoned: list[Unit] = []
    run: Any = SimpleNamespace(tick=SimpleNamespace(abandon=abandoned.append))
    scheduler.stop(wait=False)
    assert not scheduler._submit(run, (A,))
    assert abandoned == [(A,)]


@pytest.fixture
def signals() -> Iterator[None]:
    before = {each: signal.getsignal(each) for each in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP)}
    yield
    for each, handler in before.items():
        signal.signal(each, handler)


@pytest.mark.usefixtures("signals")
def test_up_ends_with_an_error_so_that_another_one_leads(store: CatalogStore, monkeypatch: pytest.MonkeyPatch) -> None:
    said: list[str] = []
    lake = SimpleNamespace(
        store=store,
        spark_runs=False,
        start=lambda _: said.append("start"),
        stop=lambda *, wait=True: said.append(f"stop {wait}"),
        reload_settings=lambda: (),
    )

    @contextmanager
    def opened(_: object) -> Iterator[Any]:
        yield lake

    monkeypatch.setattr(service, "open_lake", opened)
    monkeypatch.setattr(service, "KEEP_SECONDS", 0.01)
    monkeypatch.setattr(serving, "write_log", lambda *, as_json: None)
    with pytest.raises(TrickleError, match="JVM is gone") as ended:
        service.up(host=None, port=None, web=False, log_format=service.LogFormat.TEXT)
    assert ended.value.exit_code != 0
    assert said == ["start", "stop False", "stop True"], "it gives up the lease, and begins nothing before that"
