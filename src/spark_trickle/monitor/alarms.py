"""Which alerts the state of a lake raises, and which are over. Pure: what is seen at one moment in, decisions out.

What happens in one transaction, such as a failed refresh, raises its alert there (`catalog/alerts.py`). Here are those
that only time and comparison tell, and the end of all.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta

from spark_trickle.catalog.alerts import FAILURES, KINDS, AlertKind, Ends
from spark_trickle.catalog.rows import Alert
from spark_trickle.lake.retention import Expiring
from spark_trickle.model import RUNS, Status
from spark_trickle.results import StreamTableStatus

AGAIN = timedelta(minutes=10)  # what lasts is one more occurrence after so long
QUIET = timedelta(hours=1)
EXPIRING_SHARE = 0.8  # of the age at which a snapshot may go

_OF_STREAM_TABLES = frozenset(KINDS) - {"UNPROTECTED"}  # that one is about a source


@dataclass(frozen=True, slots=True)
class Seen:
    """A lake at one moment. `open` was read before all else: an alert of later is not taken for one that is over."""

    now: datetime
    open: Sequence[Alert]
    statuses: Sequence[StreamTableStatus]
    log_entries: Mapping[str, int] = field(default_factory=dict)  # by stream table
    expiring: Mapping[str, Expiring] = field(default_factory=dict)  # by stream table: the first to go
    enabled: bool = True  # whether the schedules of the lake are followed
    stale_periods: float = 2
    most_log_entries: int = 400


@dataclass(frozen=True, slots=True)
class Raise:
    kind: AlertKind
    name: str
    message: str


@dataclass(frozen=True, slots=True)
class Resolve:
    alert: Alert
    why: str


@dataclass(frozen=True, slots=True)
class Decided:
    raises: tuple[Raise, ...]
    resolves: tuple[Resolve, ...]


def decide(seen: Seen) -> Decided:
    open_ = {(a.kind, a.name): a for a in seen.open}
    raises = []
    for found in (r for status in seen.statuses for r in _wrong(seen, status)):
        known = open_.get((found.kind, found.name))
        if known is None or seen.now - (known.last_seen_at or known.created_at) >= AGAIN:
            raises.append(found)
    statuses = {s.name: s for s in seen.statuses}
    over = ((alert, _why_over(seen, alert, statuses)) for alert in seen.open)
    return Decided(tuple(raises), tuple(Resolve(alert, why) for alert, why in over if why is not None))


def _wrong(seen: Seen, status: StreamTableStatus) -> Iterator[Raise]:
    name, lag, target = status.name, status.lag_seconds, status.target_seconds
    if seen.enabled and status.is_late(seen.stale_periods):
        assert lag is not None
        assert target is not None
        waits = f"; it waits for {status.failed_upstream}" if status.failed_upstream else ""
        yield Raise("STALE", name, f"{name} is {_long(lag)} behind, its schedule allows {_long(target)}{waits}")
    expiring = seen.expiring.get(name)
    if expiring is not None and _is_near(expiring, seen.now):
        at = f"{expiring.expires_at:%Y-%m-%d %H:%M} UTC"
        text = (
            f"{name} reflects snapshot {expiring.snapshot_id} of {expiring.source}, which may be expired from {at} on"
        )
        yield Raise("SNAPSHOT_EXPIRING", name, text)
    entries = seen.log_entries.get(name, 0)
    if entries > seen.most_log_entries:
        text = f"the change log of {name} has {entries} entries that a consumer has not read"
        yield Raise("CHANGE_LOG_GROWING", name, text)


def _why_over(seen: Seen, alert: Alert, statuses: Mapping[str, StreamTableStatus]) -> str | None:
    """None: it is not."""
    name = alert.name or ""
    status = statuses.get(name)
    if alert.kind not in KINDS:  # of a newer version
        return None
    if alert.kind in _OF_STREAM_TABLES and status is None:
        return f"{name} was dropped"
    if KINDS[alert.kind].ends is Ends.QUIET:
        quiet = seen.now - (alert.last_seen_at or alert.created_at) >= QUIET
        return "it has not happened again for an hour" if quiet else None
    assert status is not None
    return _why_recovered(seen, alert.kind, status)


def _why_recovered(seen: Seen, kind: str, status: StreamTableStatus) -> str | None:
    name, lag, target = status.name, status.lag_seconds, status.target_seconds
    if kind == "STALE":
        if target is None:
            return f"no schedule asks for more of {name}"
        # Not at twice the period: a refresh that takes that long would end it and raise it again each time.
        return f"{name} is fresh again" if lag is not None and lag <= target else None
    if kind in FAILURES:
        return f"{name} works again" if status.last_error is None and status.status in RUNS else None
    if kind == "SUSPENDED":
        return f"{name} is {status.status}" if status.status is not Status.SUSPENDED else None
    if kind == "SNAPSHOT_EXPIRING":
        expiring = seen.expiring.get(name)
        if expiring is not None and _is_near(expiring, seen.now):
            return None
        return f"{name} no longer needs a snapshot that is about to go"
    if kind == "CHANGE_LOG_GROWING":
        entries = seen.log_entries.get(name, 0)
        return f"{entries} entries are left" if entries <= seen.most_log_entries // 2 else None
    return None


def _is_near(expiring: Expiring, now: datetime) -> bool:
    age = expiring.expires_at - expiring.made_at
    return now >= expiring.made_at + EXPIRING_SHARE * age


def _long(seconds: float) -> str:
    """
    >>> [_long(n) for n in (4.2, 192, 7300, 200_000)]
    ['4 s', '3 min 12 s', '2 h 1 min', '2 d 7 h']
    """
    whole = round(seconds)
    for unit, size, below, part in (("d", 86400, "h", 3600), ("h", 3600, "min", 60), ("min", 60, "s", 1)):
        if whole >= size:
            rest = whole % size // part
            return f"{whole // size} {unit}" + (f" {rest} {below}" if rest else "")
    return f"{whole} s"
