"""Reading the history of refreshes, by filters and as figures."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from sqlalchemy import ColumnElement, case, func, select
from sqlalchemy.engine import RowMapping

from spark_trickle.catalog import rows, tables
from spark_trickle.model import HIDDEN_NAMESPACE, Action
from spark_trickle.results import HistoryEntry

HIDDEN = HIDDEN_NAMESPACE.replace("_", "!_") + "."
WROTE = tuple(a.value for a in (Action.FULL, Action.DIFFERENTIAL, Action.REINITIALIZE))


@dataclass(frozen=True, slots=True)
class HistoryFilter:
    """Which refreshes: of one stream table, begun in a span of time, with an outcome. None: whatever it is."""

    name: str | None = None
    since: datetime | None = None
    until: datetime | None = None  # not included
    action: Action | None = None
    state: str | None = None
    min_seconds: float | None = None


@dataclass(frozen=True, slots=True)
class RefreshGroup:
    """Refreshes of one stream table that are over and alike."""

    name: str
    state: str
    action: str | None
    reason: str | None  # of those that recomputed or skipped
    error_code: str | None
    refreshes: int
    seconds: float
    rows_inserted: int
    rows_updated: int
    rows_deleted: int


@dataclass(frozen=True, slots=True)
class Advance:
    """From `at` on, a stream table showed its sources as they were at `data_timestamp`."""

    stream_table_id: int
    at: datetime
    data_timestamp: datetime


class HistoryReader:
    """The part of `CatalogReader` that reads the history in bulk. Hidden state tables only if asked for by name."""

    def _rows(self, statement: Any, parameters: dict[str, Any] | None = None) -> list[RowMapping]:
        raise NotImplementedError

    def history(
        self, name: str | None = None, limit: int | None = 50, *, chosen: HistoryFilter | None = None
    ) -> tuple[HistoryEntry, ...]:
        """The newest first; of one stream table, or those of a filter."""
        h = tables.refresh_history
        statement = select(h).where(*_chosen(chosen or HistoryFilter(name=name))).order_by(h.c.id.desc())
        return tuple(rows.history_entry(row) for row in self._rows(statement.limit(limit)))

    def refresh_groups(self, chosen: HistoryFilter) -> tuple[RefreshGroup, ...]:
        """What is over, in groups of the same outcome."""
        h = tables.refresh_history
        told = (Action.FULL.value, Action.REINITIALIZE.value, Action.SKIP.value)
        reason = case((h.c.action.in_(told), h.c.reason)).label("reason")
        keys: list[Any] = [h.c.name, h.c.state, h.c.action, reason, h.c.error_code]
        summed = (h.c.seconds, h.c.rows_inserted, h.c.rows_updated, h.c.rows_deleted)
        sums = [func.coalesce(func.sum(c), 0).label(c.name) for c in summed]
        statement = select(*keys, func.count().label("refreshes"), *sums)
        found = self._rows(statement.where(h.c.state != "RUNNING", *_chosen(chosen)).group_by(*keys))
        return tuple(
            RefreshGroup(
                name=row["name"],
                state=row["state"],
                action=row["action"],
                reason=row["reason"],
                error_code=row["error_code"],
                refreshes=int(row["refreshes"]),
                seconds=float(row["seconds"]),
                rows_inserted=int(row["rows_inserted"]),
                rows_updated=int(row["rows_updated"]),
                rows_deleted=int(row["rows_deleted"]),
            )
            for row in found
        )

    def durations(self, chosen: HistoryFilter) -> dict[str, list[float]]:
        """How long the refreshes that computed something took, in seconds, by stream table, the shortest first."""
        h = tables.refresh_history
        wrote = (h.c.action.in_(WROTE), h.c.seconds.is_not(None))  # a failed one has no action
        found: dict[str, list[float]] = {}
        for row in self._rows(select(h.c.name, h.c.seconds).where(*wrote, *_chosen(chosen))):
            found.setdefault(row["name"], []).append(float(row["seconds"]))
        for times in found.values():
            times.sort()
        return found

    def advances(self, stream_table_ids: Sequence[int], since: datetime) -> tuple[Advance, ...]:
        """When data timestamps moved since a time, in that order; and of each table the last move before."""
        h = tables.refresh_history
        columns = (h.c.stream_table_id, h.c.ended_at, h.c.data_timestamp)
        moved = (h.c.data_timestamp.is_not(None), h.c.ended_at.is_not(None))
        wanted = set(stream_table_ids)
        found = list(self._rows(select(*columns).where(h.c.started_at >= since, *moved).order_by(h.c.id)))
        s, b = tables.stream_tables, h.alias("before")
        # One step back in an index for each table, not a look at all that is older.
        last = (
            select(b.c.id)
            .where(b.c.stream_table_id == s.c.id, b.c.started_at < since, b.c.data_timestamp.is_not(None))
            .order_by(b.c.id.desc())
            .limit(1)
            .scalar_subquery()
        )
        before = self._rows(select(*columns).select_from(s.join(h, h.c.id == last)).where(h.c.ended_at.is_not(None)))
        return tuple(
            Advance(int(row["stream_table_id"]), row["ended_at"], row["data_timestamp"])
            for row in (*before, *found)
            if row["stream_table_id"] in wanted
        )

    def history_size(self) -> tuple[int, datetime | None]:
        """How many refreshes the history has, and when the oldest began."""
        h = tables.refresh_history
        found = self._rows(select(func.count().label("n"), func.min(h.c.started_at).label("first")))[0]
        return int(found["n"]), found["first"]


def _chosen(by: HistoryFilter) -> list[ColumnElement[bool]]:
    h = tables.refresh_history
    found: list[ColumnElement[bool]] = [
        h.c.name == by.name if by.name is not None else h.c.name.not_like(f"{HIDDEN}%", escape="!")
    ]
    if by.since is not None:
        found.append(h.c.started_at >= by.since)
    if by.until is not None:
        found.append(h.c.started_at < by.until)
    if by.action is not None:
        found.append(h.c.action == by.action.value)
    if by.state is not None:
        found.append(h.c.state == by.state)
    if by.min_seconds is not None:
        found.append(h.c.seconds >= by.min_seconds)
    return found
