"""What is wrong with a lake, the worst first, and what to do about it.

`health` looks, `diagnose` judges. An ERROR is a stream table that nobody keeps fresh, a WARNING what will become one or
costs more than it should, INFO what somebody may have meant so.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, timedelta
from enum import StrEnum

from spark_trickle.catalog.reader import CatalogReader
from spark_trickle.config import Settings
from spark_trickle.graph.dag import Graph
from spark_trickle.lake.metadata_files import NotLocal
from spark_trickle.model import RUNS, Status, StreamTable
from spark_trickle.monitor.pending import Histories, Pointers, SourceState, source_states
from spark_trickle.monitor.status import gave_up, status
from spark_trickle.results import StreamTableStatus
from spark_trickle.scheduler.decide import ENABLED, LEASE

MUCH_HISTORY = 1_000_000  # refreshes
MUCH_GARBAGE = 10_000  # files and folders
OLD_GARBAGE = timedelta(days=1)
EXPOSED = timedelta(hours=1)  # tags are written with the next refresh of a reader
_DAY = timedelta(days=1)
_NAMED = 5  # stream tables that one line names


class Severity(StrEnum):
    ERROR = "ERROR"
    WARNING = "WARNING"
    INFO = "INFO"


@dataclass(frozen=True, slots=True)
class Finding:
    severity: Severity
    code: str
    message: str
    remedy: str
    names: tuple[str, ...] = ()  # the stream tables or sources it is about

    def __str__(self) -> str:
        return f"{self.severity} {self.code}: {self.message}\n  → {self.remedy}"


@dataclass(frozen=True, slots=True)
class Facts:
    """What was seen at one moment."""

    now: datetime
    stream_tables: tuple[StreamTable, ...]
    statuses: tuple[StreamTableStatus, ...]
    enabled: bool = True
    lease_expires_at: datetime | None = None  # of the scheduler that leads
    sources: tuple[SourceState, ...] | None = ()  # None: they cannot be looked at without Spark
    unseen: tuple[str, ...] = ()  # sources outside the lake
    protect: str = "lazy"
    max_consecutive_errors: int = 3
    stale_periods: float = 2
    alerts: Mapping[tuple[str, str], int] = field(default_factory=dict)  # by code and severity
    abandoned: tuple[str, ...] = ()  # stream tables with a refresh that began, and whose process is gone
    garbage: tuple[int, datetime | None] = (0, None)  # how much may be deleted by now, and since when
    history: tuple[int, datetime | None] = (0, None)
    refreshes: Mapping[str, int] = field(default_factory=dict)  # of the last day, by state


@dataclass(frozen=True, slots=True)
class Health:
    findings: tuple[Finding, ...]
    stream_tables: int
    active: int
    behind: int
    scheduler: bool  # one leads
    refreshes: int  # of the last day
    failures: int

    @property
    def is_well(self) -> bool:
        return all(f.severity is Severity.INFO for f in self.findings)

    def __str__(self) -> str:
        return "\n".join([self.summary, *map(str, self.findings)])

    @property
    def summary(self) -> str:
        found = {s: sum(f.severity is s for f in self.findings) for s in (Severity.ERROR, Severity.WARNING)}
        wrong = ", ".join(f"{n} {s.lower()}{'' if n == 1 else 's'}" for s, n in found.items() if n)
        leads = "a scheduler leads" if self.scheduler else "no scheduler leads"
        return (
            f"{wrong or 'nothing is wrong'}; {_tables(self.stream_tables)}, {self.active:,} active, "
            f"{self.behind:,} behind; {leads}; {self.refreshes:,} refreshes in 24 h, {self.failures:,} failed"
        )


def health(
    reader: CatalogReader,
    settings: Settings,
    histories: Histories | None = None,
    pointers: Pointers | None = None,
    now: datetime | None = None,
) -> Health:
    """`histories` read the metadata of sources; without them, or where only Spark could, sources are left out."""
    now = now or datetime.now(UTC)
    known = reader.stream_tables()
    unseen = () if pointers is not None else tuple(s.name for s in reader.sources())
    try:
        sources = None if histories is None else source_states(reader, histories, pointers, without=unseen)
    except NotLocal:
        sources = None
    facts = Facts(
        now=now,
        stream_tables=known,
        statuses=_statuses(reader, settings, pointers, now),
        enabled=reader.setting(ENABLED) != "false",
        lease_expires_at=reader.lease_expires_at(LEASE),
        sources=sources,
        unseen=unseen,
        protect=settings.protect,
        max_consecutive_errors=settings.max_consecutive_errors,
        stale_periods=settings.alert_stale_periods,
        alerts=reader.alert_counts(),
        abandoned=_abandoned(reader, known),
        garbage=reader.garbage_due(now),
        history=reader.history_size(),
        refreshes=reader.refresh_counts(now - _DAY),
    )
    return diagnose(facts)


def _statuses(
    reader: CatalogReader, settings: Settings, pointers: Pointers | None, now: datetime
) -> tuple[StreamTableStatus, ...]:
    found = status(reader, settings, None, pointers, now)
    if pointers is not None:
        return found
    # Without Spark nobody knows whether readers of sources outside the lake are behind.
    graph = Graph({s.name: s.inputs for s in found})
    unknown = {n for source in reader.sources() for n in graph.descendants(source.name)}
    return tuple(replace(s, pending=False, lag_seconds=None) if s.name in unknown else s for s in found)


def _abandoned(reader: CatalogReader, known: Sequence[StreamTable]) -> tuple[str, ...]:
    """Stream tables with a refresh that nobody does any more.

    One that ends between two looks has no lease at the second, and is no longer running at the third.
    """
    begun = reader.running()
    ids = set(begun.values())
    free = {t.id: str(t.name) for t in known if t.id in ids and not _is_held(reader, t)}
    if not free:
        return ()
    still = {begun[refresh] for refresh in begun.keys() & reader.running().keys()}
    return tuple(name for id_, name in free.items() if id_ in still)


def _is_held(reader: CatalogReader, table: StreamTable) -> bool:
    expires = reader.lease_expires_at(f"stream_table:{table.id}")
    return expires is not None and expires > datetime.now(UTC)


def diagnose(facts: Facts) -> Health:
    """Pure."""
    found = [f for rule in _RULES for f in rule(facts)]
    order = list(Severity)
    return Health(
        findings=tuple(sorted(found, key=lambda f: order.index(f.severity))),
        stream_tables=len(facts.stream_tables),
        active=sum(t.status is Status.ACTIVE for t in facts.stream_tables),
        behind=sum(s.pending for s in facts.statuses),
        scheduler=_leads(facts),
        refreshes=sum(facts.refreshes.values()),
        failures=facts.refreshes.get("FAILED", 0),
    )


def _leads(facts: Facts) -> bool:
    return facts.lease_expires_at is not None and facts.lease_expires_at > facts.now


def _scheduled(facts: Facts) -> tuple[str, ...]:
    runs = {str(t.name) for t in facts.stream_tables if t.status in RUNS}
    return tuple(s.name for s in facts.statuses if s.target_seconds is not None and s.name in runs)


def _broken(facts: Facts) -> Iterable[Finding]:
    for table in facts.stream_tables:
        name, why = str(table.name), _first_line(table.last_error)
        if table.status is Status.ERROR:
            remedy = f"Mend what it says, then: trickle refresh {name}, or trickle resume {name}."
            yield Finding(Severity.ERROR, "ERROR", f"{name} is not refreshed any more: {why}", remedy, (name,))
        elif gave_up(table, facts.max_consecutive_errors):
            message = f"{name} was suspended after {table.consecutive_errors} failures: {why}"
            remedy = f"Mend what it says, then: trickle resume {name}."
            yield Finding(Severity.ERROR, "SUSPENDED", message, remedy, (name,))
        elif table.status is Status.SUSPENDED:
            message = f"{name} is suspended by hand"
            yield Finding(Severity.INFO, "SUSPENDED", message, f"trickle resume {name} ends that.", (name,))
        elif table.consecutive_errors:
            message = f"the last {table.consecutive_errors} refreshes of {name} failed: {why}"
            remedy = f"It is tried again. See: trickle history {name} --failed."
            yield Finding(Severity.WARNING, "FAILING", message, remedy, (name,))


def _scheduler(facts: Facts) -> Iterable[Finding]:
    names = _scheduled(facts)
    if not names:
        return
    count = f"{_tables(len(names))} with a schedule"
    if not facts.enabled:
        message = f"the schedules of this lake are off: {count}"
        yield Finding(Severity.WARNING, "SCHEDULES_OFF", message, "Switch them on: trickle enable.", names)
    elif not _leads(facts):
        yield Finding(
            Severity.ERROR, "NO_SCHEDULER", f"nobody follows the schedules: {count}", "Run: trickle up.", names
        )


def _stale(facts: Facts) -> Iterable[Finding]:
    late = [s for s in facts.statuses if s.is_late(facts.stale_periods) and s.failed_upstream is None]
    if late:
        worst = max(late, key=lambda s: s.lag_seconds or 0)
        names = _listed([s.name for s in late])
        message = f"more than {facts.stale_periods:g} times as old as their schedules allow: {names}; "
        message += f"{worst.name} is {worst.lag_seconds:,.0f} s behind, and may be {worst.target_seconds:,.0f} s"
        remedy = f"See what its refreshes take: trickle statistics {worst.name} --since 24h."
        yield Finding(Severity.ERROR, "STALE", message, remedy, tuple(s.name for s in late))


def _hindered(facts: Facts) -> Iterable[Finding]:
    waiting: dict[str, list[str]] = {}
    for s in facts.statuses:
        if s.failed_upstream is not None:
            waiting.setdefault(s.failed_upstream, []).append(s.name)
    for upstream, names in sorted(waiting.items()):
        message = f"waiting for {upstream}: {_listed(names)}"
        yield Finding(
            Severity.WARNING, "UPSTREAM_FAILED", message, f"Mend {upstream}; they follow by themselves.", tuple(names)
        )


def _sources(facts: Facts) -> Iterable[Finding]:
    if facts.sources is None or facts.unseen:
        which = f"sources outside the lake ({_listed(facts.unseen)})" if facts.unseen else "sources"
        message = f"{which} were not looked at: only a Spark session can read their metadata"
        yield Finding(Severity.INFO, "SOURCES_UNSEEN", message, "Ask from a program: tr.health().", facts.unseen)
    for s in facts.sources or ():
        readers = _listed(s.readers)
        if not s.readers:
            continue
        if s.format is None or (s.current is None and s.problem):
            message = f"{s.name}, which is read by {readers}: {s.problem}"
            yield Finding(Severity.ERROR, "SOURCE", message, "Restore it, or alter or drop its readers.", s.readers)
        elif not s.frontiers_readable:
            message = f"a snapshot of {s.name} that its readers show is gone: {readers}"
            remedy = (
                "AUTO recomputes them at their next refresh; with mode DIFFERENTIAL: trickle refresh NAME --mode full."
            )
            yield Finding(Severity.WARNING, "SNAPSHOT_EXPIRED", message, remedy, s.readers)
        elif facts.protect != "off" and s.exposed_since is not None and facts.now - s.exposed_since > EXPOSED:
            message = f"since {s.exposed_since:%Y-%m-%d %H:%M} snapshots of {s.name} may expire: {readers} need them"
            remedy = "Refresh its readers, or let Trickle write tags to it (trickle alerts says why it could not)."
            yield Finding(Severity.WARNING, "UNPROTECTED", message, remedy, s.readers)


def _alerts(facts: Facts) -> Iterable[Finding]:
    severe = {code: n for (code, severity), n in facts.alerts.items() if severity == "error"}
    if severe:
        counts = ", ".join(f"{code} {n}" for code, n in sorted(severe.items()))
        yield Finding(Severity.INFO, "ALERTS", f"alerts of severity error: {counts}", "See: trickle alerts.")


def _leftovers(facts: Facts) -> Iterable[Finding]:
    if facts.abandoned:
        message = f"refreshes whose process is gone: {_listed(facts.abandoned)}"
        remedy = "Any process that opens the lake cleans up after it: trickle up."
        yield Finding(Severity.WARNING, "ABANDONED", message, remedy, facts.abandoned)
    count, since = facts.garbage
    if count and (count >= MUCH_GARBAGE or (since is not None and facts.now - since > OLD_GARBAGE)):
        old = "" if since is None else f", the oldest since {since:%Y-%m-%d %H:%M}"
        message = f"{count:,} files and folders wait to be deleted{old}"
        yield Finding(Severity.WARNING, "GARBAGE", message, "A process that opens the lake deletes them: trickle up.")
    rows, first = facts.history
    if rows >= MUCH_HISTORY and first is not None:
        message = f"the history has {rows:,} refreshes, the oldest of {first:%Y-%m-%d}"
        remedy = "Maintenance deletes those older than history_retain: a shorter one keeps fewer."
        yield Finding(Severity.INFO, "HISTORY", message, remedy)


_RULES: tuple[Callable[[Facts], Iterable[Finding]], ...] = (
    _broken,
    _scheduler,
    _stale,
    _hindered,
    _sources,
    _leftovers,
    _alerts,
)


def _tables(count: int) -> str:
    return f"{count:,} stream table{'' if count == 1 else 's'}"


def _listed(names: Sequence[str]) -> str:
    more = len(names) - _NAMED
    return ", ".join(names[:_NAMED]) + (f" and {more:,} more" if more > 0 else "")


def _first_line(error: str | None) -> str:
    return (error or "no error was recorded").split("\n", 1)[0]
