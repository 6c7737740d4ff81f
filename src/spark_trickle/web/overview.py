"""What the page says about a lake: how each stream table stands, and what is wrong with what to do about it. Pure."""

from __future__ import annotations

import hashlib
import re
from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum

from spark_trickle.catalog.rows import Recent
from spark_trickle.model import Action, Status, StreamTable
from spark_trickle.monitor.health import Finding, Severity
from spark_trickle.monitor.status import gave_up
from spark_trickle.results import StreamTableStatus
from spark_trickle.web.wording import age, count, took


class State(StrEnum):
    """How a stream table stands, the worst first. The value is the word that people read."""

    FAILING = "failing"
    SUSPENDED = "suspended"
    LATE = "late"
    WAITING = "waiting"  # for an upstream that fails
    EMPTY = "not filled"
    BEHIND = "behind"  # within its schedule
    FRESH = "fresh"


ORDER = tuple(State)
_FOUND = ("SOURCE", "SNAPSHOT_EXPIRED", "UNPROTECTED", "ABANDONED", "GARBAGE", "HISTORY")  # the rest is told here
_AWAY = (State.FAILING, State.SUSPENDED)  # what reads these waits


@dataclass(frozen=True, slots=True)
class Failure:
    """A stored error."""

    code: str
    message: str
    hint: str

    @classmethod
    def parse(cls, text: str) -> Failure:
        r"""
        >>> Failure.parse("[SOURCE_DROPPED] s.a is gone\n  hint: Create it.")
        Failure(code='SOURCE_DROPPED', message='s.a is gone', hint='Create it.')
        """
        head, _, hint = text.partition("\n  hint: ")
        found = re.fullmatch(r"\[([A-Z_]+)\] (.*)", head, re.DOTALL)
        return cls(found[1], found[2], hint) if found else cls("", head, hint)


@dataclass(frozen=True, slots=True)
class Row:
    """A stream table as the page shows it."""

    table: StreamTable
    status: StreamTableStatus
    state: State
    recent: tuple[Recent, ...]  # its last refreshes, the oldest first

    @property
    def name(self) -> str:
        return self.status.name

    @property
    def running_since(self) -> datetime | None:
        last = self.recent[-1] if self.recent else None
        return last.started_at if last is not None and last.state == "RUNNING" else None

    @property
    def last(self) -> Recent | None:
        """The last refresh that is over."""
        return next((r for r in reversed(self.recent) if r.state != "RUNNING"), None)

    @property
    def usual_seconds(self) -> float | None:
        """What its last refreshes that computed something took, the middle one."""
        times = sorted(r.seconds for r in self.recent if r.seconds is not None and r.action in _COMPUTED)
        return times[len(times) // 2] if times else None

    @property
    def reads(self) -> tuple[str, ...]:
        return self.status.inputs

    @property
    def failure(self) -> Failure | None:
        return None if self.table.last_error is None else Failure.parse(self.table.last_error)


_LEVELS = ("bad", "warn", "info")
_COMPUTED = (Action.DIFFERENTIAL, Action.FULL, Action.REINITIALIZE)


@dataclass(frozen=True, slots=True)
class Trouble:
    """Something that a person should do, or know."""

    level: str  # bad, warn, info
    title: str
    detail: str = ""
    advice: str = ""
    name: str | None = None  # the stream table it is about
    affects: tuple[str, ...] = ()  # others that wait for it, or are late because of it
    since: datetime | None = None
    actions: tuple[str, ...] = ()  # buttons


@dataclass(frozen=True, slots=True)
class Seen:
    """What the catalog says at one moment."""

    now: datetime
    tables: tuple[StreamTable, ...]
    statuses: tuple[StreamTableStatus, ...]
    recent: Mapping[int, tuple[Recent, ...]]
    failed_at: Mapping[int, datetime]
    alerts: Mapping[tuple[str, str], int]  # those that are open, by kind and severity
    enabled: bool
    lease_expires_at: datetime | None  # of the scheduler that leads
    findings: tuple[Finding, ...] = ()  # of `health`
    stale_periods: float = 2
    max_consecutive_errors: int = 3

    @property
    def led(self) -> bool:
        return self.lease_expires_at is not None and self.lease_expires_at > self.now


@dataclass(frozen=True, slots=True)
class Overview:
    now: datetime
    rows: tuple[Row, ...]  # in the order of their names
    troubles: tuple[Trouble, ...]  # the worst first
    enabled: bool
    led: bool
    alerts: int  # that are open and ask for somebody
    version: str  # another one: the page shows something else now, besides times that went on

    def find(self, name: str) -> Row | None:
        return next((r for r in self.rows if r.name == name), None)

    @property
    def worst_first(self) -> tuple[Row, ...]:
        return tuple(sorted(self.rows, key=lambda r: (ORDER.index(r.state), r.name)))

    @property
    def counts(self) -> dict[State, int]:
        found = Counter(r.state for r in self.rows)
        return {state: found[state] for state in ORDER if found[state]}

    @property
    def running(self) -> int:
        return sum(r.running_since is not None for r in self.rows)

    @property
    def level(self) -> str:
        levels = {t.level for t in self.troubles}
        return next((level for level in ("bad", "warn") if level in levels), "good")


def overview(seen: Seen) -> Overview:
    statuses = {s.name: s for s in seen.statuses}
    rows = tuple(
        Row(table, status, _state(seen, table, status), seen.recent.get(table.id, ()))
        for table in seen.tables
        if (status := statuses.get(str(table.name))) is not None  # else created between two looks
    )
    troubles = tuple(sorted(_troubles(seen, rows), key=lambda t: _LEVELS.index(t.level)))
    alerts = sum(n for (_, severity), n in seen.alerts.items() if severity != "info")
    return Overview(seen.now, rows, troubles, seen.enabled, seen.led, alerts, _version(seen, rows, troubles))


def _state(seen: Seen, table: StreamTable, status: StreamTableStatus) -> State:
    if table.status is Status.SUSPENDED and not gave_up(table, seen.max_consecutive_errors):
        return State.SUSPENDED
    if table.consecutive_errors or table.status is Status.ERROR:
        return State.FAILING
    if status.failed_upstream is not None:
        return State.WAITING
    if table.status is Status.INITIALIZING or status.lag_seconds is None:
        return State.EMPTY
    if status.is_late(seen.stale_periods):
        return State.LATE
    return State.BEHIND if status.lag_seconds else State.FRESH


def _version(seen: Seen, rows: Iterable[Row], troubles: Iterable[Trouble]) -> str:
    """Of what changes by events, not by the clock alone."""
    parts: list[object] = [seen.enabled, seen.led, sorted(seen.alerts.items())]
    parts.append([(f.code, f.names) for f in seen.findings if f.code in _FOUND])
    for row in rows:
        last = row.recent[-1] if row.recent else None
        done = (last.id, last.state) if last else None
        parts.append(
            (row.name, row.table.id, row.state, row.table.status, row.table.schedule, row.status.pending, done)
        )
        parts.append((row.table.data_timestamp, row.table.consecutive_errors, row.table.fingerprint, row.table.mode))
    parts += [(t.level, t.title, t.affects) for t in troubles if t.level != "warn"]
    return hashlib.sha256(repr(parts).encode()).hexdigest()[:16]


# -- what is wrong -----------------------------------------------------------------------------------------------------


def _troubles(seen: Seen, rows: tuple[Row, ...]) -> Iterable[Trouble]:
    if not seen.enabled:
        yield Trouble(
            "warn",
            "The schedules of this lake are switched off",
            "No stream table is refreshed by itself, in any process.",
            "Switch them on again here, or with: trickle enable",
            actions=("enable",),
        )
    elif rows and not seen.led:
        yield Trouble(
            "bad",
            "No process follows the schedules",
            "The last one ended, or has given no sign of life.",
            "If this does not go within a minute, see the log of trickle up, and start it again.",
        )
    states = {r.name: r.state for r in rows}
    affected = _affected(rows)
    yield from (_failing(r, seen, affected[r.name]) for r in rows if r.state is State.FAILING)
    for row in rows:
        above = {states.get(i) for i in row.reads}
        if row.state is State.LATE and not above.intersection((State.LATE, State.FAILING, State.SUSPENDED)):
            yield _late(row, seen.now, affected[row.name])
    levels = {Severity.ERROR: "bad", Severity.WARNING: "warn", Severity.INFO: "info"}
    for finding in seen.findings:
        if finding.code in _FOUND:
            yield Trouble(levels[finding.severity], finding.message, advice=finding.remedy)
    yield from (_suspended(r, affected[r.name]) for r in rows if r.state is State.SUSPENDED)


def _affected(rows: tuple[Row, ...]) -> dict[str, tuple[str, ...]]:
    """What waits for each stream table, or is late, and reads it directly or not."""
    consumers: dict[str, list[Row]] = {r.name: [] for r in rows}
    for row in rows:
        for read in row.reads:
            if read in consumers:
                consumers[read].append(row)
    found: dict[str, tuple[str, ...]] = {}
    for row in rows:
        if row.state not in (*_AWAY, State.LATE):
            continue
        below: dict[str, Row] = {}
        look = [row]
        while look:
            for consumer in consumers[look.pop().name]:
                if consumer.name not in below:
                    below[consumer.name] = consumer
                    look.append(consumer)
        found[row.name] = tuple(sorted(n for n, r in below.items() if r.state in (State.WAITING, State.LATE)))
    return found


def _failing(row: Row, seen: Seen, affects: tuple[str, ...]) -> Trouble:
    times, failure = row.table.consecutive_errors, row.failure
    again = "" if times < 2 else f" {times} times in a row"
    if row.table.status in (Status.SUSPENDED, Status.ERROR):
        title = f"is suspended: its refresh failed{again}"
        if row.table.status is Status.ERROR:
            title = "is not refreshed any more: its refresh failed"
        then, actions = "A refresh that succeeds puts it back on its schedule.", ("refresh", "resume")
    else:
        title = f"failed{again}"
        then, actions = "It is tried again by itself.", ("refresh", "suspend")
    hint = "" if failure is None else failure.hint
    return Trouble(
        "bad",
        title,
        "" if failure is None else f"{failure.message} ({failure.code})" if failure.code else failure.message,
        f"{hint} {then}".strip(),
        name=row.name,
        affects=affects,
        since=seen.failed_at.get(row.table.id),
        actions=actions,
    )


def _late(row: Row, now: datetime, affects: tuple[str, ...]) -> Trouble:
    lag, target = row.status.lag_seconds or 0.0, row.status.target_seconds or 0.0
    usual, since = row.usual_seconds, row.running_since
    if since is not None and (now - since).total_seconds() > target:
        detail = f"A refresh has been running for {age((now - since).total_seconds())}."
        advice = "Wait for it, or look at its plan and at Spark's own page for what takes so long."
    elif usual is not None and usual > target:
        detail = f"A refresh takes about {took(usual)}, longer than the schedule allows."
        advice = "Give it a longer schedule, or look at its plan for what takes so long."
    elif since is not None:
        detail, advice = "A refresh is running.", "Wait for it."
    else:
        detail = "It is due, and no refresh of it is running."
        advice = "Look at what runs now: more refreshes at once may help (max_concurrent_refreshes)."
    return Trouble(
        "warn",
        f"is {age(lag)} behind; its schedule allows {age(target)}",
        detail,
        advice,
        name=row.name,
        affects=affects,
        actions=("refresh",) if since is None else (),
    )


def _suspended(row: Row, affects: tuple[str, ...]) -> Trouble:
    return Trouble(
        "warn" if affects else "info",
        "is suspended by hand",
        "Its schedule does not refresh it.",
        "Resume it when it may follow its schedule again.",
        name=row.name,
        affects=affects,
        actions=("resume",),
    )


def summary(found: Overview) -> str:
    """One sentence, for the title of the page."""
    bad = [t for t in found.troubles if t.level == "bad"]
    warn = [t for t in found.troubles if t.level == "warn"]
    if bad or warn:
        return f"{count(len(bad) + len(warn), 'thing')} to look at"
    if not found.rows:
        return "No stream tables yet"
    return "All stream tables are as fresh as their schedules say"
