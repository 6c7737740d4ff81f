"""Which alerts the state of a lake raises and ends: a simulated clock, no IO."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from spark_trickle.catalog.alerts import KINDS, Ends
from spark_trickle.catalog.rows import Alert
from spark_trickle.lake.retention import Expiring
from spark_trickle.model import Mode, Status
from spark_trickle.monitor.alarms import AGAIN, QUIET, Decided, Seen, decide
from spark_trickle.results import StreamTableStatus

NOON = datetime(2026, 3, 2, 12, tzinfo=UTC)
PERIOD = 192.0


def table(name: str = "s.a", **values: Any) -> StreamTableStatus:
    given: dict[str, Any] = {
        "name": name,
        "status": Status.ACTIVE,
        "mode": Mode.AUTO,
        "schedule": "5m",
        "incremental": True,
        "reason": None,
        "inputs": ("s.t",),
        "pending": True,
        "data_timestamp": NOON,
        "last_action": None,
        "last_seconds": None,
        "last_error": None,
        "lag_seconds": 0.0,
        "target_seconds": PERIOD,
    }
    return StreamTableStatus(**(given | values))


def alert(kind: str, name: str = "s.a", at: datetime = NOON, last_seen: datetime | None = None) -> Alert:
    return Alert(1, at, "warning", kind, name, "x", last_seen or at)


def raised(decided: Decided) -> list[tuple[str, str]]:
    return [(r.kind, r.name) for r in decided.raises]


def ended(decided: Decided) -> list[str]:
    return [r.alert.kind for r in decided.resolves]


class Clock:
    """A lake whose alerts live in memory, looked at every five seconds."""

    def __init__(self) -> None:
        self.now = NOON
        self.open: dict[tuple[str, str], Alert] = {}
        self.log: list[tuple[str, str]] = []

    def look(self, *statuses: StreamTableStatus, seconds: float = 5, **more: Any) -> None:
        self.now += timedelta(seconds=seconds)
        decided = decide(Seen(self.now, tuple(self.open.values()), statuses, **more))
        for r in decided.raises:
            known = self.open.get((r.kind, r.name))
            if known is None:
                self.log.append(("raised", r.kind))
                known = Alert(len(self.log), self.now, "warning", r.kind, r.name, r.message, self.now, 0)
            self.open[r.kind, r.name] = replace(known, occurrences=known.occurrences + 1, last_seen_at=self.now)
        for over in decided.resolves:
            self.log.append(("resolved", over.alert.kind))
            del self.open[over.alert.kind, over.alert.name or ""]


def test_stale_is_more_than_two_periods() -> None:
    for lag, expected in ((2 * PERIOD, []), (2 * PERIOD + 0.1, [("STALE", "s.a")])):
        assert raised(decide(Seen(NOON, (), [table(lag_seconds=lag)]))) == expected
    late = table(lag_seconds=400.0, failed_upstream="s.up")
    (found,) = decide(Seen(NOON, (), [late])).raises
    assert found.message == "s.a is 6 min 40 s behind, its schedule allows 3 min 12 s; it waits for s.up"
    assert raised(decide(Seen(NOON, (), [late], stale_periods=3))) == []


@pytest.mark.parametrize(
    "values",
    [
        {"target_seconds": None},  # nobody asks
        {"lag_seconds": None},  # never filled
        {"status": Status.SUSPENDED},  # it has an alert of its own
        {"status": Status.ERROR},
    ],
)
def test_what_is_not_stale(values: dict[str, Any]) -> None:
    assert decide(Seen(NOON, (), [table(**({"lag_seconds": 10_000.0} | values))])).raises == ()


def test_nothing_is_stale_while_schedules_are_off() -> None:
    late = table(lag_seconds=10_000.0)
    assert decide(Seen(NOON, (), [late], enabled=False)).raises == ()
    # What was so before is not over, either.
    assert decide(Seen(NOON, [alert("STALE")], [late], enabled=False)).resolves == ()


def test_a_day_of_a_table_whose_refresh_takes_longer_than_its_period() -> None:
    """It is stale once, not once per refresh; the alert counts on, and ends once when refreshes are fast again."""
    clock = Clock()
    lag = 0.0
    for _ in range(24 * 720):
        lag += 5
        if lag > 3 * PERIOD:
            lag = 1.5 * PERIOD  # published: the cut is as old as the refresh was long
        clock.look(table(lag_seconds=lag))
    assert clock.log == [("raised", "STALE")]
    (found,) = clock.open.values()
    # Only looks at which it is beyond two periods count.
    assert 60 <= found.occurrences <= 24 * 60 // 10
    clock.look(table(lag_seconds=10.0))
    assert clock.log == [("raised", "STALE"), ("resolved", "STALE")]
    assert not clock.open


def test_what_lasts_is_seen_again_every_ten_minutes() -> None:
    late = table(lag_seconds=10_000.0)
    soon, later = NOON + AGAIN - timedelta(seconds=1), NOON + AGAIN
    assert decide(Seen(soon, [alert("STALE")], [late])).raises == ()
    assert raised(decide(Seen(later, [alert("STALE")], [late]))) == [("STALE", "s.a")]
    assert decide(Seen(later, [alert("STALE", last_seen=soon)], [late])).raises == ()


@pytest.mark.parametrize("kind", ["REFRESH_FAILED", "REINITIALIZE_NEEDED", "GROUP_FAILED"])
def test_failures_end_with_the_next_success(kind: str) -> None:
    for status, error, expected in (
        (Status.ACTIVE, "[SPARK_FAILED] x", []),
        (Status.ERROR, "[SPARK_FAILED] x", []),
        (Status.ERROR, None, []),
        (Status.ACTIVE, None, [kind]),
    ):
        assert ended(decide(Seen(NOON, [alert(kind)], [table(status=status, last_error=error)]))) == expected


def test_suspended_ends_with_the_status() -> None:
    assert ended(decide(Seen(NOON, [alert("SUSPENDED")], [table(status=Status.SUSPENDED)]))) == []
    (over,) = decide(Seen(NOON, [alert("SUSPENDED")], [table()])).resolves
    assert over.why == "s.a is ACTIVE"


def test_alerts_of_a_dropped_table_end() -> None:
    open_ = [alert(kind) for kind in KINDS]
    (over, *others) = decide(Seen(NOON, open_, [table("s.other")])).resolves
    assert over.why == "s.a was dropped"
    # UNPROTECTED is about a source, which is no stream table.
    assert {o.alert.kind for o in (over, *others)} == set(KINDS) - {"UNPROTECTED"}


def test_what_has_no_end_of_its_own_is_over_after_an_hour() -> None:
    kinds = [kind for kind, known in KINDS.items() if known.ends is Ends.QUIET]
    assert "INTEGRITY" in kinds
    for kind in kinds:
        seen = Seen(NOON + QUIET, [alert(kind, at=NOON - QUIET, last_seen=NOON)], [table()])
        assert ended(seen_before := decide(replace(seen, now=seen.now - timedelta(seconds=1)))) == [], seen_before
        assert ended(decide(seen)) == [kind]


def test_every_kind_that_is_open_can_end() -> None:
    """Nothing stays open for ever: with a table that works, all end within an hour."""
    for kind in KINDS:
        found = decide(Seen(NOON + QUIET, [alert(kind)], [table()]))
        assert ended(found) == ([kind] if KINDS[kind].ends is not Ends.AT_ONCE else []), kind


def test_snapshots_near_their_end() -> None:
    made = NOON - timedelta(days=4)
    one = Expiring("s.t", 7, made, made + timedelta(days=5))
    (found,) = decide(Seen(NOON, (), [table()], expiring={"s.a": one})).raises
    assert found.message == "s.a reflects snapshot 7 of s.t, which may be expired from 2026-03-03 12:00 UTC on"
    before = Seen(NOON - timedelta(seconds=1), [alert("SNAPSHOT_EXPIRING")], [table()], expiring={"s.a": one})
    assert decide(before) == Decided((), decide(before).resolves)
    assert ended(decide(before)) == ["SNAPSHOT_EXPIRING"]
    assert ended(decide(replace(before, now=NOON))) == []


def test_a_change_log_that_grows() -> None:
    def at(entries: int, *open_: Alert) -> Decided:
        return decide(Seen(NOON, open_, [table()], log_entries={"s.a": entries}))

    assert raised(at(400)) == []
    assert raised(at(401)) == [("CHANGE_LOG_GROWING", "s.a")]
    assert ended(at(201, alert("CHANGE_LOG_GROWING"))) == []
    assert ended(at(200, alert("CHANGE_LOG_GROWING"))) == ["CHANGE_LOG_GROWING"]


def test_a_kind_of_a_newer_version_is_left_alone() -> None:
    assert decide(Seen(NOON, [alert("FROM_THE_FUTURE")], [])) == Decided((), ())


def test_a_thousand_tables_take_no_time() -> None:
    statuses = [table(f"s.t{n}", lag_seconds=500.0 * (n % 2)) for n in range(1000)]
    open_ = [alert("STALE", f"s.t{n}") for n in range(0, 1000, 2)]
    begun = datetime.now(UTC)
    found = decide(Seen(NOON, open_, statuses))
    assert (datetime.now(UTC) - begun).total_seconds() < 0.5
    assert (len(found.raises), len(found.resolves)) == (500, 500)
