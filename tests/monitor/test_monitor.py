"""Status, figures and controls from the catalog alone."""

from __future__ import annotations

import os
import re
import subprocess
import sys
import time
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from spark_trickle.catalog import controls
from spark_trickle.catalog.database import open_catalog
from spark_trickle.catalog.history import HistoryFilter
from spark_trickle.catalog.leases import acquire
from spark_trickle.catalog.store import CatalogStore
from spark_trickle.cli.app import run
from spark_trickle.config import Settings
from spark_trickle.errors import TrickleError
from spark_trickle.model import Action, Dependency, InputKind, Status, TableName
from spark_trickle.monitor.filters import history_filter
from spark_trickle.monitor.statistics import statistics
from spark_trickle.monitor.status import describe, status
from spark_trickle.results import HistoryEntry
from tests.catalog.records import add_revenue, table_pointer

NOON = datetime(2026, 3, 2, 12, tzinfo=UTC)
SOURCE, A, B, C = (TableName("s", n) for n in ("t", "a", "b", "c"))


@pytest.fixture
def settings(tmp_path: Path) -> Settings:
    return Settings.load(tmp_path / "lakehouse")


@pytest.fixture
def store(settings: Settings) -> Iterator[CatalogStore]:
    """t -> a -> b, and c, which nobody refreshes by itself."""
    settings.location.mkdir()
    opened = open_catalog(settings.sqlalchemy_url)
    with opened.write() as tx:
        for name, schedule, reads in ((A, "downstream", SOURCE), (B, "5m", A), (C, "manual", SOURCE)):
            id_ = add_revenue(
                tx, name=name, schedule=schedule, status=Status.ACTIVE, data_timestamp=NOON, published_snapshot=1
            )
            kind = InputKind.SOURCE if reads is SOURCE else InputKind.STREAM_TABLE
            tx.set_dependencies(id_, [Dependency(reads, kind, pointer=table_pointer(reads).location)])
        for name in (SOURCE, A, B, C):
            tx.insert_pointer(table_pointer(name))
    yield opened
    opened.close()


def entry(name: str, action: Action | None, seconds: float = 1.0, **more: Any) -> HistoryEntry:
    values: dict[str, Any] = {
        "refresh_id": f"{name}{time.perf_counter_ns()}",
        "name": name,
        "state": "COMPLETED" if action else "FAILED",
        "action": action,
        "reason": "MODE: x",
        "initiated_by": "schedule",
        "started_at": NOON,
        "ended_at": NOON + timedelta(seconds=1),
        "seconds": seconds,
        "rows_inserted": 1,
        "rows_updated": 0,
        "rows_deleted": 0,
        "rows_changed": {},
        "stages": {},
        "error_code": None,
        "error": None,
    }
    return HistoryEntry(**(values | more))


def test_lag_against_the_schedule(store: CatalogStore, settings: Settings) -> None:
    fresh = {s.name: s for s in status(store, settings, now=NOON + timedelta(minutes=9))}
    assert {(s.pending, s.lag_seconds) for s in fresh.values()} == {(False, 0.0)}
    assert [fresh[n].target_seconds for n in ("s.a", "s.b", "s.c")] == [192, 192, None]
    with store.write() as tx:
        tx.delete_pointer(SOURCE)
        tx.insert_pointer(table_pointer(SOURCE, 2))
    behind = {s.name: s for s in status(store, settings, now=NOON + timedelta(minutes=9))}
    assert [(behind[n].pending, behind[n].lag_seconds) for n in ("s.a", "s.b", "s.c")] == [
        (True, 540.0),
        (False, 540.0),  # its input is behind: so is it
        (True, 540.0),
    ]
    assert [s.name for s in status(store, settings, B)] == ["s.b"]


def test_a_failed_upstream_is_named(store: CatalogStore, settings: Settings) -> None:
    controls.suspend(store, A, 0)
    found = {s.name: s for s in status(store, settings)}
    assert found["s.a"].status is Status.SUSPENDED
    assert [found[n].failed_upstream for n in ("s.a", "s.b", "s.c")] == [None, "s.a", None]
    controls.resume(store, A, 0)
    assert {s.failed_upstream for s in status(store, settings)} == {None}
    assert [a.kind for a in store.alerts()] == ["RESUMED", "SUSPENDED"]


def test_controls_wait_for_a_refresh_and_say_whose(store: CatalogStore) -> None:
    other = open_catalog(store.database.url)
    lease = acquire(other, [f"stream_table:{store.find(A).id}"], other.owner, 30, 0)
    with pytest.raises(TrickleError) as caught:
        controls.suspend(store, A, 0)
    assert caught.value.code == "REFRESH_IN_PROGRESS"
    assert caught.value.message.startswith("s.a is being refreshed")
    assert store.find(A).status is Status.ACTIVE
    del lease
    other.close()
    controls.set_schedule(store, B, "10m", 0)
    assert store.find(B).schedule == "10m"


def test_an_unknown_one_is_refused_with_those_there_are(store: CatalogStore, settings: Settings) -> None:
    for call in (
        lambda: status(store, settings, TableName("s", "nope")),
        lambda: describe(store, TableName("s", "nope")),
        lambda: controls.resume(store, TableName("s", "nope"), 0),
    ):
        with pytest.raises(TrickleError, match=r"there is no stream table s\.nope; there are: s\.a, s\.b, s\.c"):
            call()


def test_statistics(store: CatalogStore) -> None:
    history = [
        *(entry("s.a", Action.DIFFERENTIAL, n) for n in range(1, 21)),
        entry("s.a", Action.NO_DATA, 0.001, rows_inserted=0),
        entry("s.a", Action.FULL, 40.0, reason="CHANGE_RATIO: much", rows_inserted=100),
        entry("s.a", None, error_code="SPARK_FAILED"),
        entry("s.b", Action.SKIP, reason="UPSTREAM_FAILED: s.a", rows_inserted=0),
        entry("s.b", None, state="RUNNING"),
    ]
    with store.write() as tx:
        for e in history:
            tx.add_refresh(e, None)
    a, b = statistics(store, HistoryFilter())
    assert (a.refreshes, a.failures, a.skips, a.rows_changed) == (22, 1, 0, 120)
    assert (a.p50_seconds, a.p95_seconds) == (11, 20)
    assert a.actions == {"DIFFERENTIAL": 20, "NO_DATA": 1, "FULL": 1}
    assert a.full_reasons == {"CHANGE_RATIO": 1}
    assert (a.failure_codes, b.skip_reasons) == ({"SPARK_FAILED": 1}, {"UPSTREAM_FAILED": 1})
    assert statistics(store, HistoryFilter(since=NOON + timedelta(seconds=1))) == ()
    assert [s.name for s in statistics(store, HistoryFilter(name="s.b"))] == ["s.b"]
    assert (b.refreshes, b.failures, b.skips, b.p50_seconds) == (0, 0, 1, None)


def test_filters_of_the_history(store: CatalogStore) -> None:
    """Each filter by itself, and together; the newest first, and no more than asked for."""
    kinds = [Action.FULL, Action.DIFFERENTIAL, Action.NO_DATA, None]
    with store.write() as tx:
        for n in range(40):
            at = NOON + timedelta(minutes=n)
            tx.add_refresh(entry(f"s.{'ab'[n % 2]}", kinds[n % 4], float(n), refresh_id=f"r{n}", started_at=at), None)

    def found(**filters: Any) -> list[int]:
        limit = filters.pop("limit", 1000)
        chosen = history_filter(filters.pop("name", None), now=NOON + timedelta(hours=1), **filters)
        return [int(e.refresh_id[1:]) for e in store.history(limit=limit, chosen=chosen)]

    every = list(reversed(range(40)))
    assert found() == every
    assert found(limit=3) == [39, 38, 37]
    assert found(name="s.b", limit=2) == [39, 37]
    assert found(since=NOON + timedelta(minutes=38)) == [39, 38]
    assert found(since="22m") == [39, 38]
    assert found(since=timedelta(minutes=22)) == [39, 38]
    assert found(until=NOON + timedelta(minutes=2)) == [1, 0]
    assert found(since="2026-03-02T13:05:00+01:00", until="2026-03-02T12:07:00+00:00") == [6, 5]
    assert found(action="full") == [n for n in every if n % 4 == 0]
    assert found(failed_only=True) == found(status="failed") == [n for n in every if n % 4 == 3]
    assert found(status="running") == []
    assert found(min_seconds=37.5) == [39, 38]
    assert found(name="s.a", action=Action.NO_DATA, min_seconds=30, since="40m") == [38, 34, 30]


@pytest.mark.parametrize(
    ("filters", "says"),
    [
        ({"limit": 0}, "limit is 0"),
        ({"limit": 10**9}, "limit is 1000000000; it must be between 1 and 1,000,000"),
        ({"since": "yesterday"}, "since is 'yesterday', which is no time and no duration"),
        ({"since": "2026-03-02T13:05:00"}, "a time without a zone"),
        ({"until": "999999999999999d"}, "until is '999999999999999d'"),
        ({"since": "1h", "until": "2h"}, "is not before until"),
        ({"action": "fast"}, "action is 'fast', not one of NO_DATA, DIFFERENTIAL"),
        ({"status": "done"}, "status is 'done', not one of RUNNING, COMPLETED, FAILED"),
        ({"status": "completed", "failed_only": True}, "exclude each other"),
        ({"min_seconds": -1}, "min_seconds is -1"),
        ({"min_seconds": float("nan")}, "min_seconds is nan"),
    ],
)
def test_a_filter_that_means_nothing_is_refused(filters: dict[str, Any], says: str) -> None:
    with pytest.raises(TrickleError, match=re.escape(says)) as caught:
        history_filter(**filters)
    assert caught.value.code == "INVALID_FILTER"


# -- the command line --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("arguments", "code", "text"),
    [
        (["status"], 0, "192 s"),
        (["status", "s.nope"], 2, "there is no stream table s.nope"),
        (["history"], 0, "none"),
        (["history", "--failed", "--since", "1h"], 0, "none"),
        (["history", "-n", "0"], 2, "limit is 0"),
        (["statistics", "--since", "soon"], 2, "since is 'soon'"),
        (["statistics", "s.nope"], 2, "there is no stream table s.nope"),
        (["statistics", "s.a"], 0, "none"),
        (["describe", "s.a"], 0, "downstream"),
        (["alter", "s.b", "--schedule", "10m"], 0, "s.b is altered"),
        (["alter", "s.b", "--schedule", "often"], 2, "'often' is not a valid schedule"),
        (["suspend", "s.a"], 0, "s.a is suspended"),
        (["resume", "s.a"], 0, "s.a is resumed"),
        (["disable"], 0, "off"),
        (["enable"], 0, "run"),
        (["graph"], 0, "└─ s.b  ACTIVE  5m"),
        (["graph", "--format", "mermaid"], 0, "flowchart LR"),
        (["alerts"], 0, "There are no alerts."),
        (["alerts", "--open", "--kind", "stale", "--since", "2h"], 0, "No alert is like that."),
        (["alerts", "--kind", "late"], 2, "CHANGE_LOG_GROWING"),
        (["alerts", "--since", "soon"], 2, "which is no time and no duration"),
        (["refresh", "s.nope"], 2, "there is no stream table s.nope"),
        (["verify", "s.nope"], 2, "there is no stream table s.nope"),
        (["explain", "s.nope"], 2, "there is no stream table s.nope"),
        (["changes", "s.nope"], 2, "there is no stream table s.nope"),
        (["create", "s.x", "-q", "SELECT 1", "--schedule", "often"], 2, "'often' is not a valid schedule"),
    ],
)
def test_commands_that_need_no_data_need_no_spark(
    store: CatalogStore,
    settings: Settings,
    arguments: list[str],
    code: int,
    text: str,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    del store
    monkeypatch.setattr("spark_trickle.engine.build_session", lambda *_, **__: pytest.fail("Spark was started"))
    monkeypatch.setenv("COLUMNS", "200")
    assert run(["--lake", str(settings.location), *arguments]) == code
    shown = capsys.readouterr()
    assert text in shown.out + shown.err


def test_a_command_from_a_cold_start_imports_no_spark(store: CatalogStore, settings: Settings) -> None:
    del store
    script = (
        "import sys; from spark_trickle.cli.app import run; code = run(sys.argv[1:]); "
        "print(sorted({'pyspark', 'sqlglot'} & set(sys.modules))); sys.exit(code)"
    )
    command = [sys.executable, "-c", script, "--lake", str(settings.location), "status"]
    done = subprocess.run(command, capture_output=True, text=True, check=True, env=os.environ)
    assert done.stdout.splitlines()[-1] == "[]"
