"""Rows of the catalog as the members of a DAG."""

from __future__ import annotations

import logging
from collections.abc import Mapping
from datetime import datetime

from spark_trickle.config import Settings
from spark_trickle.errors import TrickleError
from spark_trickle.graph.stream_tables import is_slowest
from spark_trickle.model import StreamTable, TableName
from spark_trickle.schedule import Schedule, ScheduleKind, parse_schedule
from spark_trickle.scheduler.decide import Member

_log = logging.getLogger(__name__)


def member(
    table: StreamTable,
    known: Mapping[TableName, StreamTable],
    settings: Settings,
    *,
    failed_at: datetime | None = None,
    errors: int = 0,
) -> Member:
    """`errors` are failures that the catalog does not know of."""
    return Member(
        name=table.name,
        schedule=_schedule(table.schedule, settings),
        reads=tuple(d.input for d in table.reads if d.input in known),
        status=table.status,
        data_timestamp=table.data_timestamp,
        errors=max(table.consecutive_errors, errors),
        failed_at=failed_at,
        last_error=table.last_error,
        slowest=is_slowest(table, settings),
    )


def default_schedule(settings: Settings) -> Schedule:
    return _schedule(None, settings)


def _schedule(text: str | None, settings: Settings) -> Schedule:
    try:
        schedule = parse_schedule(text or settings.default_schedule)
    except TrickleError as error:  # somebody wrote to the catalog: the other tables go on
        _log.error("taken as 'manual': %s", error.message)
        schedule = Schedule(ScheduleKind.MANUAL)
    return schedule.snapped() if settings.canonical_periods else schedule
