"""How much of the time stream tables were as fresh as their schedules ask.

A table is on time while the data it shows are not older than its schedule allows, plus one refresh of its own: by a
duration, that long after their instant; by a cron line, until its next time. It is told from when data timestamps
moved, so a refresh that found nothing to do counts like any other, and downtime, failures and suspension count as late.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta

from spark_trickle.catalog.history import Advance
from spark_trickle.catalog.reader import CatalogReader, unknown
from spark_trickle.config import Settings
from spark_trickle.graph.stream_tables import Groups
from spark_trickle.model import StreamTable, TableName
from spark_trickle.monitor.statistics import quantile
from spark_trickle.schedule import Schedule
from spark_trickle.scheduler.decide import Dag
from spark_trickle.scheduler.members import default_schedule, member

Deadline = Callable[[datetime], datetime | None]  # until when data of an instant are fresh enough


@dataclass(frozen=True, slots=True)
class Compliance:
    """Of one stream table with a schedule, by the schedule that it has now."""

    name: str
    schedule: str | None
    target_seconds: float | None
    refresh_seconds: float  # what is allowed besides: what a refresh took, from its cut until it was seen (p95)
    share: float | None  # of the time measured that it was on time, 0 to 1; None: nothing was measured
    measured_seconds: float
    late_seconds: float
    late_spans: int  # how often it became late
    longest_late_seconds: float
    worst_age_seconds: float  # the oldest that its data got

    def __str__(self) -> str:
        share = "-" if self.share is None else f"{self.share:.2%}"
        return f"{self.name}: {share} on time, late {self.late_spans} times, {self.late_seconds:.0f} s in all"


@dataclass(frozen=True, slots=True)
class OnTime:
    """What a window of time was like."""

    measured: float
    late: float
    spans: int
    longest: float
    worst_age: float


def on_time(
    advances: Iterable[tuple[datetime, datetime]],
    deadline: Deadline,
    allowed: timedelta,
    since: datetime,
    until: datetime,
) -> OnTime:
    """Pure. `advances` are pairs, in order: from when on the data of which instant were shown.

    What was before the first of them is not measured.
    """
    zero = timedelta()
    measured = late = longest = worst = run = zero
    spans = 0
    moves = [m for m in advances if m[0] < until]
    ends = [m[0] for m in moves[1:]] + [until]
    for (at, shown), end in zip(moves, ends, strict=False):
        start = since if at < since else at
        if end <= start:
            continue
        due = deadline(shown)
        measured += end - start
        worst = max(worst, end - shown)
        late_from = end if due is None else due + allowed
        if late_from > start:
            run = zero
        if late_from < end:
            seconds = end - max(late_from, start)
            spans += not run
            run += seconds
            late += seconds
            longest = max(longest, run)
    total, late_in_all, longest_span, age = (t.total_seconds() for t in (measured, late, longest, worst))
    return OnTime(total, late_in_all, spans, longest_span, age)


def compliance(
    reader: CatalogReader,
    settings: Settings,
    since: datetime,
    name: TableName | None = None,
    now: datetime | None = None,
) -> tuple[Compliance, ...]:
    """The stream tables that have a schedule, in the order of their names."""
    now = now or datetime.now(UTC)
    known = {t.name: t for t in reader.stream_tables()}
    if name is not None and name not in known:
        raise unknown(name, known)
    groups = Groups.of(known.values(), settings).all
    dag = Dag.of([member(t, known, settings) for t in known.values()], default_schedule(settings), groups)
    chosen = [t for t in known.values() if (name is None or t.name == name) and dag.schedules.get(t.name)]
    moved = reader.advances(since, chosen[0].id if name is not None and chosen else None)
    oldest = reader.history_size()[1]
    return tuple(
        _of(t, _from_the_start(t, moved.get(t.id, []), oldest), dag, settings.time_zone, since, now) for t in chosen
    )


def _of(
    table: StreamTable, advances: Sequence[Advance], dag: Dag, zone: str, since: datetime, now: datetime
) -> Compliance:
    took = sorted((a.at - a.data_timestamp).total_seconds() for a in advances if a.computed)
    allowed = max(quantile(took, 0.95) or 0.0, 0.0)
    deadline = _deadline(dag.schedules[table.name], zone)
    found = on_time(((a.at, a.data_timestamp) for a in advances), deadline, timedelta(seconds=allowed), since, now)
    return Compliance(
        name=str(table.name),
        schedule=table.schedule,
        target_seconds=dag.target_seconds(table.name, now, zone),
        refresh_seconds=round(allowed, 3),
        share=1 - found.late / found.measured if found.measured else None,
        measured_seconds=round(found.measured, 3),
        late_seconds=round(found.late, 3),
        late_spans=found.spans,
        longest_late_seconds=round(found.longest, 3),
        worst_age_seconds=round(found.worst_age, 3),
    )


def _deadline(schedules: Sequence[Schedule], zone: str) -> Deadline:
    """Of a DOWNSTREAM table, the first deadline among those of its consumers."""
    if len(schedules) == 1 and schedules[0].seconds is not None:  # nearly always
        period = timedelta(seconds=schedules[0].seconds)
        return lambda shown: shown + period

    def of(shown: datetime) -> datetime | None:
        times = (
            shown + timedelta(seconds=s.seconds) if s.seconds is not None else s.due_after(shown, zone)
            for s in schedules
        )
        return min((t for t in times if t is not None), default=None)

    return of


def _from_the_start(table: StreamTable, advances: list[Advance], oldest: datetime | None) -> list[Advance]:
    """With what the history does not have: the creation of a table, and what was deleted of it."""
    if not advances and table.data_timestamp is not None:
        return [Advance(table.data_timestamp, table.data_timestamp, computed=False)]
    # One that is as old as the history, or younger, showed nothing until its first refresh.
    if oldest is None or table.created_at >= oldest or not advances:
        return [Advance(table.created_at, table.created_at, computed=False), *advances]
    return advances
