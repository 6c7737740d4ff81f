"""How much of the time stream tables were on time: simulated histories."""

from __future__ import annotations

import random
from collections import deque
from collections.abc import Iterator
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from spark_trickle.catalog.database import open_catalog
from spark_trickle.catalog.store import CatalogStore
from spark_trickle.cli.app import run
from spark_trickle.config import Settings
from spark_trickle.errors import TrickleError
from spark_trickle.model import Action, Dependency, InputKind, Status, TableName
from spark_trickle.monitor.compliance import OnTime, compliance, on_time
from spark_trickle.schedule import parse_schedule
from tests.catalog.records import add_revenue
from tests.monitor.test_monitor import entry

NOON = datetime(2026, 3, 2, 12, tzinfo=UTC)
A, B, C, SOURCE = (TableName("s", n) for n in ("a", "b", "c", "t"))
MINUTE = timedelta(minutes=1)


def at(seconds: float) -> datetime:
    return NOON + timedelta(seconds=seconds)


def found(advances: list[tuple[float, float]], period: float, allowed: float, since: float, until: float) -> OnTime:
    return on_time(
        [(at(a), at(d)) for a, d in advances],
        lambda shown: shown + timedelta(seconds=period),
        timedelta(seconds=allowed),
        at(since),
        at(until),
    )


def test_a_table_that_keeps_its_schedule() -> None:
    """Each minute a cut, two seconds later it is seen: 62 s old at most."""
    every = [(60 * n + 2, 60 * n) for n in range(61)]
    assert found(every, 60, 2, 2, 3600) == OnTime(3598, 0, 0, 0, 62)
    one_short = found(every, 60, 1, 2, 3600)  # nothing is allowed for half of the refresh
    assert (one_short.late, one_short.spans, one_short.longest) == (59, 59, 1)


def test_no_data_moves_the_timestamp_like_any_other() -> None:
    """A source that is quiet for an hour does not make its reader late."""
    quiet = [(60 * n, 60 * n) for n in range(61)]
    assert found(quiet, 60, 0, 0, 3600).late == 0
    assert found(quiet[:1], 60, 0, 0, 3600).late == 3540  # while one that is not looked at is


def test_failures_and_downtime_are_late_until_it_catches_up() -> None:
    """Refreshes at 60 s and 120 s failed, so that of 180 s shows data of 180 s at 185 s."""
    missed = [(5, 0), (185, 180), (245, 240)]
    assert found(missed, 60, 5, 5, 300) == OnTime(295, 120, 1, 120, 185)
    # Down for an hour, then one refresh to now; it runs on into a refresh that is late by itself.
    down = [(5, 0), (3605, 3600), (3800, 3790)]
    result = found(down, 60, 5, 0, 3900)
    assert result.measured == 3895
    assert (result.late, result.spans, result.longest) == (3540 + 135 + 45, 3, 3540)


def test_a_refresh_that_shows_old_data_does_not_end_the_lateness() -> None:
    """It took ten minutes: what it shows is late at once, and the span goes on."""
    slow = [(0, 0), (700, 100), (1300, 1290)]
    result = found(slow, 60, 0, 0, 1310)
    assert (result.late, result.spans, result.longest) == (640 + 600, 1, 1240)


def test_the_window() -> None:
    """What is outside of it does not count; what was shown at its begin does."""
    moves = [(0, 0), (100, 100), (200, 200)]
    assert found(moves, 60, 0, 120, 180) == OnTime(60, 20, 1, 20, 80)
    assert found(moves, 60, 0, 500, 600) == OnTime(100, 100, 1, 100, 400)
    assert found(moves, 60, 0, -100, -50) == OnTime(0, 0, 0, 0, 0)
    assert found([], 60, 0, 0, 100) == OnTime(0, 0, 0, 0, 0)


def test_a_day_by_simulation() -> None:
    """Second by second, a clock counts what the function adds up."""
    rnd = random.Random(7)
    moves, now = [(0.0, 0.0)], 0.0
    while now < 86400:
        now += rnd.choice([60, 60, 60, 60, 300, 2000])
        moves.append((now + rnd.randrange(1, 50), now))
    late, shown, coming = 0, 0.0, deque(moves)
    for second in range(86400):
        while coming and coming[0][0] <= second:
            shown = coming.popleft()[1]
        late += second - shown >= 60 + 10
    assert late > 10_000
    assert found(moves, 60, 10, 0, 86400).late == late


# -- over a catalog ----------------------------------------------------------------------------------------------------


@pytest.fixture
def settings(tmp_path: Path) -> Settings:
    return Settings.load(tmp_path / "lakehouse", canonical_periods=False)


@pytest.fixture
def store(settings: Settings) -> Iterator[CatalogStore]:
    settings.location.mkdir()
    opened = open_catalog(settings.sqlalchemy_url)
    yield opened
    opened.close()


def add(store: CatalogStore, name: TableName, schedule: str, created: datetime, reads: TableName = SOURCE) -> int:
    with store.write() as tx:
        id_ = add_revenue(tx, name=name, schedule=schedule, status=Status.ACTIVE, created_at=created)
        kind = InputKind.SOURCE if reads is SOURCE else InputKind.STREAM_TABLE
        tx.set_dependencies(id_, [Dependency(reads, kind)])
    return id_


def refreshed(
    store: CatalogStore, name: TableName, id_: int, cut: datetime, took: float = 1.0, action: Action = Action.FULL
) -> None:
    done = entry(str(name), action, took, started_at=cut, ended_at=cut + timedelta(seconds=took))
    shown = None if action is Action.SKIP else cut
    with store.write() as tx:
        tx.add_refresh(replace(done, data_timestamp=shown), id_)


def test_schedules_of_all_kinds(store: CatalogStore, settings: Settings) -> None:
    a = add(store, A, "downstream", NOON - MINUTE)
    b = add(store, B, "5m", NOON - MINUTE, A)
    c = add(store, C, "0 * * * *", NOON - MINUTE)
    add(store, TableName("s", "by_hand"), "manual", NOON)
    for n in range(13):
        cut = NOON + 5 * n * MINUTE
        refreshed(store, A, a, cut, 2.0)
        if n != 6:
            refreshed(store, B, b, cut, 4.0, Action.NO_DATA if n % 2 else Action.FULL)
        else:
            refreshed(store, B, b, cut, 4.0, Action.SKIP)  # its upstream failed, say
    refreshed(store, C, c, NOON, 10.0)
    hour = NOON + timedelta(hours=1)
    by = {s.name: s for s in compliance(store, settings, NOON + MINUTE, now=hour)}
    assert list(by) == ["s.a", "s.b", "s.c"]
    assert (by["s.a"].share, by["s.a"].refresh_seconds, by["s.a"].target_seconds) == (1.0, 2.0, 300)
    # Data of minute 25 were fresh until 30:04, and minute 35's came at 35:04.
    assert (by["s.b"].late_seconds, by["s.b"].late_spans) == (300.0, 1)
    assert by["s.b"].share == pytest.approx(1 - 300 / (59 * 60))
    assert by["s.b"].worst_age_seconds == 604
    assert (by["s.c"].share, by["s.c"].measured_seconds) == (1.0, 59 * 60.0)
    late = compliance(store, settings, NOON + MINUTE, C, now=hour + 30 * MINUTE)[0]
    assert late.late_seconds == 30 * 60 - 10  # 13:00 came, and ten seconds for the refresh
    with pytest.raises(TrickleError, match=r"there is no stream table s\.x"):
        compliance(store, settings, NOON, TableName("s", "x"))


def test_one_that_was_never_refreshed_and_one_whose_history_is_gone(store: CatalogStore, settings: Settings) -> None:
    add(store, A, "1m", NOON)
    with store.write() as tx:
        tx.update_stream_table(add_revenue(tx, name=B, schedule="1m", created_at=NOON), data_timestamp=at(1000))
    a, b = compliance(store, settings, NOON, now=at(1200))
    assert (a.measured_seconds, a.late_seconds) == (1200, 1140)
    assert (b.measured_seconds, b.late_seconds) == (200, 140)
    # The history begins later than the table: nobody knows how it was before.
    old = add(store, C, "1m", NOON - timedelta(days=100))
    refreshed(store, C, old, at(600), 1.0)
    refreshed(store, C, old, at(700), 1.0, Action.NO_DATA)
    (before,) = store.advances(at(650), old)[old][:1]
    assert (before.at, before.computed) == (at(601), True)  # the last one before the window
    c = compliance(store, settings, NOON, C, now=at(660))[0]
    assert (c.measured_seconds, c.late_seconds) == (59, 0)


def test_cron_over_a_weekend() -> None:
    schedule = parse_schedule("0 6 * * MON-FRI")
    friday = datetime(2026, 3, 6, 6, tzinfo=UTC)
    result = on_time([(friday, friday)], schedule.due_after, timedelta(0), friday, friday + timedelta(days=4))
    assert result.late == 24 * 3600  # from Monday at six


def test_the_command(
    store: CatalogStore, settings: Settings, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", "200")
    now = datetime.now(UTC)
    id_ = add(store, A, "5m", now - timedelta(hours=2))
    for n in range(24):
        refreshed(store, A, id_, now - 3 * (24 - n) * MINUTE)
    assert run(["--lake", str(settings.location), "compliance", "--since", "1h"]) == 0
    shown = capsys.readouterr().out
    assert "s.a" in shown
    assert "100.00 %" in shown
    assert run(["--lake", str(settings.location), "compliance", "--since", "soon"]) == 2
