"""`/metrics` over catalogs with a history, read with Prometheus' own parser."""

from __future__ import annotations

import re
import time
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import httpx
import pytest
from prometheus_client.parser import text_string_to_metric_families
from sqlalchemy import delete, insert

from spark_trickle.catalog import tables
from spark_trickle.catalog.database import open_catalog
from spark_trickle.catalog.leases import acquire
from spark_trickle.catalog.owner import Owner
from spark_trickle.catalog.store import CatalogStore
from spark_trickle.config import Settings
from spark_trickle.model import Dependency, InputKind, Status, TableName
from spark_trickle.scheduler.decide import ENABLED, LEASE
from spark_trickle.web import metrics
from tests.catalog.records import add_revenue, table_pointer
from tests.web.service import problem_of
from tests.web.serving import app_of, served

SOURCE, A, B, C = (TableName("s", n) for n in ("src", "a", "b", 'c"\\\n'))
Samples = dict[tuple[str, tuple[tuple[str, str], ...]], float]


@contextmanager
def asking(store: CatalogStore, settings: Settings, pointers: metrics.Pointers | None = None) -> Iterator[httpx.Client]:
    routes = metrics.router(store, lambda: settings, pointers, leads=lambda: False)
    with served(app_of(routes)) as address, httpx.Client(base_url=address, trust_env=False) as client:
        yield client


@pytest.fixture
def settings(tmp_path: Path) -> Settings:
    return Settings.load(tmp_path / "lakehouse")


@pytest.fixture
def lake(settings: Settings) -> Iterator[CatalogStore]:
    """src -> a -> b; c has a name that needs escapes, is refreshed by hand and has no content."""
    settings.location.mkdir()
    store = open_catalog(settings.sqlalchemy_url)
    fill(store)
    yield store
    store.close()


def fill(store: CatalogStore) -> None:
    ago = datetime.now(UTC) - timedelta(minutes=7)
    with store.write() as tx:
        for name, schedule, reads, at in (
            (A, "downstream", SOURCE, ago),
            (B, "5m", A, ago),
            (C, "manual", SOURCE, None),
        ):
            status = Status.INITIALIZING if at is None else Status.ACTIVE
            id_ = add_revenue(tx, name=name, schedule=schedule, status=status, data_timestamp=at)
            kind = InputKind.SOURCE if reads is SOURCE else InputKind.STREAM_TABLE
            tx.set_dependencies(id_, [Dependency(reads, kind, pointer=table_pointer(reads).location)])
        add_revenue(tx, name=TableName("_trickle", "state"), owner_id=1)
        for name in (SOURCE, A, B):
            tx.insert_pointer(table_pointer(name))


def record(
    store: CatalogStore, table: int | None, action: str | None, ended: datetime | None = None, **more: Any
) -> int:
    """A row of the history; without an action and an end it runs."""
    ended = ended or datetime.now(UTC)
    names = {1: str(A), 2: str(B), 3: str(C), 4: "_trickle.state"}
    values = {
        "refresh_id": f"r{time.perf_counter_ns()}",
        "stream_table_id": table,
        "name": names.get(table or 0, "s.dropped"),
        "state": "COMPLETED",
        "action": action,
        "initiated_by": "schedule",
        "started_at": ended - timedelta(seconds=1),
        "ended_at": ended,
        "seconds": 0.2,
        "rows_inserted": 1,
        "rows_updated": 2,
        "rows_deleted": 3,
        "rows_changed": "{}",
        "stages": "{}",
    } | more
    with store.write() as tx:
        found = tx.connection.execute(insert(tables.refresh_history).values(**values))
        return int(found.inserted_primary_key[0])


def scrape(client: httpx.Client) -> Samples:
    response = client.get("/metrics")
    assert response.status_code == 200, response.text
    return parsed(response.text)


def parsed(text: str) -> Samples:
    found: Samples = {}
    for family in text_string_to_metric_families(text):
        assert family.documentation
        for sample in family.samples:
            key = (sample.name, tuple(sorted(sample.labels.items())))
            assert key not in found, "a series is there once"
            found[key] = sample.value
    return found


def of(samples: Samples, name: str, **labels: str) -> float | None:
    return samples.get((f"trickle_{name}", tuple(sorted(labels.items()))))


@pytest.fixture
def client(lake: CatalogStore, settings: Settings) -> Iterator[httpx.Client]:
    with asking(lake, settings) as client:
        yield client


def test_stream_tables(lake: CatalogStore, client: httpx.Client) -> None:
    a, b, c = ({"table": str(n)} for n in (A, B, C))
    with lake.write() as tx:
        tx.swap_pointer(SOURCE, table_pointer(SOURCE).location, table_pointer(SOURCE, 2).location)
        tx.update_stream_table(2, consecutive_errors=2)
    record(lake, 1, None, ended_at=None, state="RUNNING", seconds=None)
    found = scrape(client)
    for name in (a, b):  # b is as old as what it was computed from
        assert of(found, "stream_table_lag_seconds", **name) == pytest.approx(420, abs=30)
        assert of(found, "stream_table_target_lag_seconds", **name) == 192  # 5m, as a canonical period
        assert of(found, "stream_table_data_timestamp_seconds", **name) == pytest.approx(time.time() - 420, abs=30)
    for metric in ("lag_seconds", "target_lag_seconds", "data_timestamp_seconds"):
        assert of(found, f"stream_table_{metric}", **c) is None
    assert [of(found, "stream_table_pending", **n) for n in (a, b, c)] == [1, 0, 1]
    assert [of(found, "stream_table_running", **n) for n in (a, b, c)] == [1, 0, 0]
    assert [of(found, "stream_table_consecutive_errors", **n) for n in (a, b, c)] == [0, 2, 0]
    assert of(found, "stream_table_status", **a, status="ACTIVE") == 1
    assert of(found, "stream_table_status", **c, status="INITIALIZING") == 1
    assert (of(found, "stream_tables", status="ACTIVE"), of(found, "stream_tables", status="INITIALIZING")) == (2, 1)
    assert not [key for key in found if "_trickle" in str(key)], "hidden state tables have no series"


def test_pointers_of_sources_outside_the_lake(lake: CatalogStore, settings: Settings) -> None:
    moved = {**lake.pointers(), SOURCE: table_pointer(SOURCE, 7)}
    with asking(lake, settings, lambda: moved) as client:
        found = scrape(client)
    assert of(found, "stream_table_pending", table=str(A)) == 1
    with asking(lake, settings) as client:
        assert of(scrape(client), "stream_table_pending", table=str(A)) == 0


def test_settings_of_now(lake: CatalogStore, settings: Settings) -> None:
    """As `trickle status` shows them: 5m is taken as 192 s only while periods are canonical."""
    now = [settings]
    routes = metrics.router(lake, lambda: now[0])
    with served(app_of(routes)) as address, httpx.Client(base_url=address, trust_env=False) as client:
        assert of(scrape(client), "stream_table_target_lag_seconds", table="s.b") == 192
        now[0] = settings.model_copy(update={"canonical_periods": False})
        assert of(scrape(client), "stream_table_target_lag_seconds", table="s.b") == 300


def test_refreshes(lake: CatalogStore, client: httpx.Client) -> None:
    a = {"table": str(A)}
    assert of(scrape(client), "refreshes_total", **a, action="FULL", outcome="completed") is None
    record(lake, 1, "FULL", seconds=40.0)
    for seconds in (0.04, 0.2, 2.0):
        record(lake, 1, "DIFFERENTIAL", seconds=seconds)
    record(lake, 1, None, state="FAILED", seconds=7.0, error_code="SPARK_FAILED")
    record(lake, 2, "SKIP", seconds=0.0)
    record(lake, 4, "FULL", seconds=99.0)  # a hidden state table: the time is in its owner's
    record(lake, 9, "FULL", seconds=5000.0)  # of a table that was dropped
    found = scrape(client)
    assert of(found, "refreshes_total", **a, action="FULL", outcome="completed") == 1
    assert of(found, "refreshes_total", **a, action="DIFFERENTIAL", outcome="completed") == 3
    assert of(found, "refreshes_total", **a, action="NONE", outcome="failed") == 1
    assert of(found, "refreshes_total", table=str(B), action="SKIP", outcome="completed") == 1
    assert of(found, "refresh_seconds_total", **a) == pytest.approx(49.24)
    assert of(found, "rows_changed_total", **a, change="updated") == 10
    assert not [key for key in found if "dropped" in str(key)]
    duration = "refresh_duration_seconds"
    assert of(found, f"{duration}_count", action="DIFFERENTIAL") == 3
    assert of(found, f"{duration}_sum", action="DIFFERENTIAL") == pytest.approx(2.24)
    within = [of(found, f"{duration}_bucket", action="DIFFERENTIAL", le=le) for le in ("0.05", "0.1", "0.25", "2.5")]
    assert within == [1, 1, 2, 3]
    assert of(found, f"{duration}_sum", action="FULL") == pytest.approx(5040)
    assert of(found, f"{duration}_bucket", action="FULL", le="1800.0") == 1
    assert of(found, f"{duration}_bucket", action="FULL", le="+Inf") == 2
    assert of(found, f"{duration}_count", action="SKIP") is None


def test_counters_go_on(lake: CatalogStore, settings: Settings, client: httpx.Client) -> None:
    """Over refreshes that end late, over a deletion of old history, and over a restart."""
    key: dict[str, str] = {"table": str(A), "action": "DIFFERENTIAL", "outcome": "completed"}
    old = datetime.now(UTC) - timedelta(hours=2)
    first = record(lake, 1, "DIFFERENTIAL", old)
    running = record(lake, 1, None, state="RUNNING", ended_at=None, seconds=None)
    record(lake, 1, "DIFFERENTIAL", old)  # began after the one that runs, and ended long ago
    assert of(scrape(client), "refreshes_total", **key) == 2
    h = tables.refresh_history
    with lake.write() as tx:
        done = {"state": "COMPLETED", "action": "DIFFERENTIAL", "ended_at": datetime.now(UTC), "seconds": 0.1}
        tx.connection.execute(h.update().where(h.c.id == running).values(**done))
    assert of(scrape(client), "refreshes_total", **key) == 3
    with lake.write() as tx:
        tx.connection.execute(delete(h).where(h.c.id == first))
    assert of(scrape(client), "refreshes_total", **key) == 3, "old history may go"
    record(lake, 1, "DIFFERENTIAL")
    assert of(scrape(client), "refreshes_total", **key) == 4
    with asking(lake, settings) as again:
        assert of(scrape(again), "refreshes_total", **key) == 3, "what the history holds"


def test_scheduler_and_alerts(lake: CatalogStore, client: httpx.Client) -> None:
    before = scrape(client)
    assert (of(before, "scheduler_enabled"), of(before, "scheduler_led")) == (1, 0)
    assert of(before, "scheduler_lease_seconds") is None
    assert of(before, "scheduler_leads") == 0
    acquire(lake, [LEASE], Owner.here(), ttl_seconds=30, wait_seconds=0)
    with lake.write() as tx:
        tx.put_setting(ENABLED, "false")
        for name, kind, severity in ((A, "SUSPENDED", "error"), (B, "SUSPENDED", "error"), (A, "INTEGRITY", "warning")):
            row = {
                "created_at": datetime.now(UTC),
                "severity": severity,
                "kind": kind,
                "name": str(name),
                "message": "x",
            }
            tx.connection.execute(insert(tables.alerts).values(**row))
    after = scrape(client)
    assert (of(after, "scheduler_enabled"), of(after, "scheduler_led")) == (0, 1)
    assert of(after, "scheduler_lease_seconds") == pytest.approx(30, abs=10)
    assert of(after, "alerts", kind="SUSPENDED", severity="error") == 2
    assert of(after, "alerts", kind="INTEGRITY", severity="warning") == 1
    assert of(after, "alert_notices_waiting") == 0
    with lake.write() as tx:
        tx.alerts.raise_("STALE", "late", str(A))
    assert of(scrape(client), "alert_notices_waiting") == 1


def test_every_metric_is_in_the_docs(lake: CatalogStore, client: httpx.Client) -> None:
    acquire(lake, [LEASE], Owner.here(), ttl_seconds=30, wait_seconds=0)
    record(lake, 1, "FULL")
    served = {family.name for family in text_string_to_metric_families(client.get("/metrics").text)}
    page = (Path(__file__).parents[2] / "docs" / "metrics.md").read_text()
    listed = set(re.findall(r"^\| `(trickle_\w+)", page, re.MULTILINE))
    ours = {name for name in served if name.startswith("trickle")}
    assert {name.removesuffix("_total") for name in listed} == ours


def test_formats(client: httpx.Client) -> None:
    plain = client.get("/metrics")
    assert plain.headers["content-type"].startswith("text/plain")
    openmetrics = client.get("/metrics", headers={"Accept": "application/openmetrics-text; version=1.0.0"})
    assert openmetrics.headers["content-type"].startswith("application/openmetrics-text")
    assert openmetrics.text.endswith("# EOF\n")
    assert of(parsed(plain.text), "info", version=metrics.__version__) == 1


def test_a_catalog_that_is_gone(lake: CatalogStore, client: httpx.Client) -> None:
    with lake.write() as tx:
        tx.connection.exec_driver_sql("DROP TABLE trickle_alerts")
    response = client.get("/metrics")
    assert "trickle_alerts" in problem_of(response, 503, "CATALOG_CORRUPT")["detail"]


def test_thousand_stream_tables(settings: Settings) -> None:
    """At 1,000 tables with 40 refreshes each a scrape stays short, and the number of series is what it should be."""
    settings.location.mkdir()
    store = open_catalog(settings.sqlalchemy_url)
    now = datetime.now(UTC)
    n = 1000
    with store.write() as tx:
        tx.insert_pointer(table_pointer(SOURCE))
        for k in range(n):
            id_ = add_revenue(tx, name=TableName("s", f"t{k}"), status=Status.ACTIVE, data_timestamp=now)
            tx.set_dependencies(id_, [Dependency(SOURCE, InputKind.SOURCE, pointer=table_pointer(SOURCE).location)])
        row = dict.fromkeys(("rows_inserted", "rows_updated", "rows_deleted"), 1) | {
            "rows_changed": "{}",
            "stages": "{}",
        }
        row |= {"initiated_by": "schedule", "started_at": now, "seconds": 0.2, "state": "COMPLETED"}
        for k in range(40):
            ended = now - timedelta(minutes=40 - k)
            action = "NO_DATA" if k % 4 else "DIFFERENTIAL"
            entries = [
                {**row, "refresh_id": f"{k}.{i}", "stream_table_id": i, "name": f"s.t{i - 1}", "action": action}
                | {"ended_at": ended}
                for i in range(1, n + 1)
            ]
            tx.connection.execute(insert(tables.refresh_history), entries)
    with asking(store, settings) as client:
        took = []
        for _ in range(3):
            response = client.get("/metrics", timeout=30)
            took.append(response.elapsed.total_seconds())
    store.close()
    found = parsed(response.text)
    assert of(found, "refreshes_total", table="s.t7", action="NO_DATA", outcome="completed") == 30
    per_table = [key for key in found if ("table", "s.t7") in key[1]]
    assert len(per_table) == 14
    assert len(found) < 14 * n + 100
    print(f"{len(response.text) / 1e6:.1f} MB, {len(found)} series, seconds: {took}")
    assert min(took) < 3, "about 0.3 s where nothing else runs"
