"""What is due now, and why not. Pure: the state of the DAG and the time in, a plan out.

A stream table is due when its schedule has a time after its data timestamp that is not in the future. So a table that
was not refreshed for long is due once, not once for every period it missed. One whose schedule is DOWNSTREAM has the
schedules of the stream tables that read it.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, timedelta
from graphlib import CycleError, TopologicalSorter

from spark_trickle.errors import Reason, TrickleError
from spark_trickle.graph.groups import Group
from spark_trickle.graph.stream_tables import Unit
from spark_trickle.model import RUNS, Status, TableName
from spark_trickle.schedule import Schedule, ScheduleKind

ENABLED = "scheduler.enabled"  # a setting in the catalog: "false" stops the schedules of the lake
LEASE = "scheduler"  # of the scheduler that leads
FIRST_RETRY = 5.0  # seconds after a failure; doubled with every further one
LAST_RETRY = 600.0
# A table rests between two refreshes, so that others who wait for its lease, and look every half second, get it.
REST = timedelta(seconds=0.6)
_LONG_AGO = datetime(1970, 1, 1, tzinfo=UTC)


@dataclass(frozen=True, slots=True)
class Member:
    """A stream table as the scheduler sees it."""

    name: TableName
    schedule: Schedule
    reads: tuple[TableName, ...] = ()  # other stream tables
    status: Status = Status.ACTIVE
    data_timestamp: datetime | None = None
    errors: int = 0  # in a row
    failed_at: datetime | None = None  # the last of them
    last_error: str | None = None
    slowest: bool = False  # its group need not be due before it is


@dataclass(frozen=True, slots=True)
class Plan:
    """What to do at one instant."""

    due: tuple[TableName, ...]  # upstream first
    skips: tuple[tuple[TableName, Reason], ...]
    wake_at: datetime | None  # when something that is not due now will be
    warnings: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Dag:
    """The stream tables in topological order, each with the schedules that say when it is due."""

    order: tuple[TableName, ...]
    members: Mapping[TableName, Member]
    schedules: Mapping[TableName, tuple[Schedule, ...]]  # of a DOWNSTREAM one, those of its consumers; none: manual
    warnings: tuple[str, ...] = ()
    units: tuple[Unit, ...] = ()  # the same order, those of a group beside each other
    unit_of: Mapping[TableName, Unit] = field(default_factory=dict)

    @classmethod
    def of(cls, members: Sequence[Member], default: Schedule, groups: Sequence[Group[TableName]] = ()) -> Dag:
        known = {m.name: m for m in members}
        reads = {m.name: [r for r in m.reads if r in known] for m in members}
        together = [g.members for g in groups if known.keys() >= set(g.members)]
        grouped = {m for members in together for m in members}
        all_units: list[Unit] = [*together, *((n,) for n in known if n not in grouped)]
        number = {m: n for n, unit in enumerate(all_units) for m in unit}  # tuples of many names are slow keys
        above = {n: {number[r] for m in unit for r in reads[m]} - {n} for n, unit in enumerate(all_units)}
        try:
            units = tuple(all_units[n] for n in TopologicalSorter(above).static_order())
        except CycleError as error:  # two definitions were altered at once: the other tables go on
            circle = [m for n in error.args[1] for m in all_units[n]]
            found = cls.of([m for m in members if m.name not in circle], default, groups)
            told = f"not refreshed, since they read each other: {' -> '.join(map(str, circle))}"
            return replace(found, warnings=(*found.warnings, told))
        order = tuple(m for unit in units for m in unit)
        unit_of = {m: unit for unit in units for m in unit}
        consumers: dict[TableName, list[Member]] = {n: [] for n in order}
        for member in members:
            for read in reads[member.name]:
                consumers[read].append(member)
        schedules: dict[TableName, tuple[Schedule, ...]] = {}
        warnings: list[str] = []
        for name in reversed(order):  # consumers first
            own = known[name].schedule
            if own.kind is ScheduleKind.DOWNSTREAM:
                schedules[name] = tuple(dict.fromkeys(_wanted(name, consumers, schedules, {name})))
                alone = {c.name for c in consumers[name]} <= {*unit_of[name]}  # nobody else reads it
                if not schedules[name] and alone:
                    schedules[name] = (default,)
                    warnings.append(f"{name} has schedule DOWNSTREAM and no stream table reads it: it has the default")
            else:
                schedules[name] = () if own.kind is ScheduleKind.MANUAL else (own,)
        return cls(order, known, schedules, tuple(warnings), units, unit_of)

    def due_after(self, name: TableName, moment: datetime, zone: str) -> datetime | None:
        schedules = self.schedules.get(name, ())  # one that reads itself by accident has none
        if len(schedules) == 1:  # nearly always
            return schedules[0].due_after(moment, zone)
        times = (s.due_after(moment, zone) for s in schedules)
        return min((t for t in times if t is not None), default=None)

    def target_seconds(self, name: TableName, now: datetime, zone: str) -> float | None:
        """How old the content may get; None: nobody asks."""
        own, unit = self._own_target(name, now, zone), self.unit_of.get(name, (name,))
        if own is None or not self.is_slowest(unit):
            return own
        return max(t for m in unit if (t := self._own_target(m, now, zone)) is not None)

    def _own_target(self, name: TableName, now: datetime, zone: str) -> float | None:
        periods = (s.target_seconds(now, zone) for s in self.schedules.get(name, ()))
        return min((p for p in periods if p is not None), default=None)

    def is_slowest(self, unit: Unit) -> bool:
        """Whether a group waits for the last of its members to be due; no member asks for more."""
        return len(unit) > 1 and all(self.members[m].slowest for m in unit)


def _wanted(
    name: TableName,
    consumers: Mapping[TableName, Sequence[Member]],
    schedules: Mapping[TableName, tuple[Schedule, ...]],
    seen: set[TableName],
) -> Iterator[Schedule]:
    """The schedules of what reads a stream table. Those that read each other are asked one after the other."""
    for consumer in consumers[name]:
        if consumer.status not in RUNS or consumer.name in seen:
            continue
        seen.add(consumer.name)
        if consumer.name in schedules:
            yield from schedules[consumer.name]
        elif consumer.schedule.kind is ScheduleKind.DOWNSTREAM:
            yield from _wanted(consumer.name, consumers, schedules, seen)
        elif consumer.schedule.kind is not ScheduleKind.MANUAL:
            yield consumer.schedule


@dataclass(slots=True)
class Memory:
    """What the scheduler remembers between two plans."""

    running: frozenset[TableName] = frozenset()  # begun by an earlier plan and not finished
    skipped: dict[TableName, datetime] = field(default_factory=dict)  # when a skip was last recorded
    finished: dict[TableName, datetime] = field(default_factory=dict)  # when it was last done with a table


def decide(dag: Dag, memory: Memory, now: datetime, zone: str = "UTC") -> Plan:
    """The stream tables to refresh now, upstream first, and those that cannot be although they are due.

    One that is running, or that reads a running one, waits: it is due again as soon as that is done.
    """
    due, wake_at = _due(dag, now, zone)
    rests = {n: at + REST for n in due if (at := memory.finished.get(n)) is not None and at + REST > now}
    wake_at = min([*([wake_at] if wake_at else []), *rests.values()], default=None)
    held = _held_back(dag, memory, due, now, zone)
    run: dict[TableName, None] = {}
    skips: dict[TableName, Reason] = {}
    for unit in dag.units:
        if due.isdisjoint(unit) or not memory.running.isdisjoint(unit):
            continue
        outside = (r for m in unit for r in dag.members[m].reads if r in dag.members)
        reads = dict.fromkeys(r for r in outside if dag.unit_of[r] is not unit)
        # One that waits for a member of its group is as old as that one.
        reasons = (_hindered(dag.members[m], run, skips) for u in reads for m in dag.unit_of[u])
        reason = _off(dag, unit) or next((r for r in reasons if r), None)
        if reason is not None:
            skips |= {m: reason for m in unit if dag.members[m].status in RUNS}
        elif not rests.keys().isdisjoint(unit) or not held.isdisjoint(unit):
            continue
        elif not any(u in memory.running or (u in due and u not in run) for u in reads):
            run |= dict.fromkeys(unit)
    told = tuple((n, r) for n, r in skips.items() if _is_new(dag, memory, n, now, zone))
    return Plan(tuple(run), told, wake_at, dag.warnings)


def _off(dag: Dag, unit: Unit) -> Reason | None:
    """Why a group is not refreshed: one of its members is not."""
    off = next((m for m in map(dag.members.__getitem__, unit) if m.status not in RUNS), None)
    if off is None:
        return None
    what = upstream_reason(off.name, off.status, off.last_error).message
    return Reason("GROUP_FAILED", f"they are published together: {what}")


def _held_back(dag: Dag, memory: Memory, due: set[TableName], now: datetime, zone: str) -> set[TableName]:
    """Upstreams that wait until all upstreams of a late consumer are done: else some of them might always run."""
    held: set[TableName] = set()
    for unit in dag.units:
        reads = {r for m in unit for r in dag.members[m].reads if dag.unit_of.get(r) is not unit}
        if due.isdisjoint(unit) or not memory.running.isdisjoint(unit) or memory.running.isdisjoint(reads):
            continue
        for name in unit:
            first = dag.due_after(name, min(dag.members[name].data_timestamp or _LONG_AGO, now), zone)
            second = None if first is None else dag.due_after(name, first, zone)
            if second is not None and second <= now:
                held.update(reads)
    return held


def _due(dag: Dag, now: datetime, zone: str) -> tuple[set[TableName], datetime | None]:
    due: set[TableName] = set()
    wake_at: datetime | None = None
    for unit in dag.units:
        members = [m for m in map(dag.members.__getitem__, unit) if m.status in RUNS]
        # Clocks of other hosts may be ahead.
        wanted = (dag.due_after(m.name, min(m.data_timestamp or _LONG_AGO, now), zone) for m in members)
        times = [t for t in wanted if t is not None]
        if not times:
            continue
        at = max(times) if dag.is_slowest(unit) else min(times)
        for member in members:
            if member.failed_at is not None and member.errors:
                at = max(at, min(member.failed_at, now) + retry_delay(member.name, member.errors))
        if at <= now:
            due.update(m.name for m in members)
        elif wake_at is None or at < wake_at:
            wake_at = at
    return due, wake_at


def _hindered(upstream: Member, run: Mapping[TableName, None], skips: Mapping[TableName, Reason]) -> Reason | None:
    """Why a stream table that reads this one is not refreshed."""
    if upstream.name in skips:
        return skips[upstream.name]
    if upstream.status not in RUNS:
        return upstream_reason(upstream.name, upstream.status, upstream.last_error)
    if upstream.errors and upstream.name not in run:
        return upstream_reason(upstream.name, None, upstream.last_error)
    return None


def upstream_reason(name: TableName, status: Status | None, error: str | None) -> Reason:
    """Why consumers of a stream table are not refreshed: it is SUSPENDED or in ERROR, or its last refresh failed."""
    what = f"{name} is {status}" if status is not None else f"the last refresh of {name} failed"
    first = (error or "").split("\n", 1)[0]
    return Reason("UPSTREAM_FAILED", f"{what}: {first}" if first else what)


def failed_reason(unit: Unit, error: TrickleError) -> Reason:
    """Why what reads this is not refreshed: it has just failed."""
    if len(unit) == 1:
        return upstream_reason(unit[0], None, str(error))
    names = ", ".join(map(str, unit))
    return Reason("UPSTREAM_FAILED", f"nothing of {names} was published: {str(error).splitlines()[0]}")


def _is_new(dag: Dag, memory: Memory, name: TableName, now: datetime, zone: str) -> bool:
    """One skip per time of the schedule is enough."""
    last = memory.skipped.get(name)
    if last is None:
        return True
    at = dag.due_after(name, last, zone)
    return at is not None and at <= now


def retry_delay(name: TableName, errors: int) -> timedelta:
    """Exponential backoff. The jitter follows from the name: tables that failed together are not retried together."""
    jitter = int.from_bytes(hashlib.sha256(f"{name}/{errors}".encode()).digest()[:2], "big") / 2**16
    seconds = min(FIRST_RETRY * 2 ** min(errors - 1, 20), LAST_RETRY)
    return timedelta(seconds=seconds * (0.75 + 0.5 * jitter))
