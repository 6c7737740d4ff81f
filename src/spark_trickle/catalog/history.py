"""Reading the history of refreshes, by filters and as figures."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any, NamedTuple

from sqlalchemy import ColumnElement, Select, and_, case, func, or_, select
from sqlalchemy.engine import RowMapping

from spark_trickle.catalog import rows, tables
from spark_trickle.catalog.rows import Recent, RefreshSum
from spark_trickle.model import HIDDEN_NAMESPACE, Action
from spark_trickle.results import HistoryEntry
from spark_trickle.thresholds import LISTED_NAMES

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


class Advance(NamedTuple):
    """From `at` on, a stream table showed its sources as they were at `data_timestamp`."""

    at: datetime
    data_timestamp: datetime
    computed: bool  # False: NO_DATA


class HistoryReader:
    """The part of `CatalogReader` that reads the history in bulk. Hidden state tables only if asked for by name."""

    def _rows(self, statement: Any, parameters: dict[str, Any] | None = None) -> list[RowMapping]:
        raise NotImplementedError

    def _tuples(self, statement: Any) -> Sequence[Any]:
        """Without the names of the columns: cheaper, where there are many rows."""
        raise NotImplementedError

    def history(
        self, name: str | None = None, limit: int | None = 50, *, chosen: HistoryFilter | None = None
    ) -> tuple[HistoryEntry, ...]:
        """The newest first; of one stream table, or those of a filter."""
        h = tables.refresh_history
        statement = select(h).where(*_chosen(chosen or HistoryFilter(name=name))).order_by(h.c.id.desc())
        return tuple(rows.history_entry(row) for row in self._rows(statement.limit(limit)))

    def recent(self, stream_table_ids: Collection[int], each: int) -> dict[int, tuple[Recent, ...]]:
        """The last refreshes of each of these stream tables, the oldest first."""
        h, s, older = tables.refresh_history, tables.stream_tables, tables.refresh_history.alias("older")
        of_it = (older.c.stream_table_id == s.c.id, is_refresh(older))
        first = select(older.c.id).where(*of_it).order_by(older.c.id.desc())
        from_ = func.coalesce(first.limit(1).offset(each - 1).scalar_subquery(), 0)
        columns = (h.c.stream_table_id, h.c.id, h.c.state, h.c.action, h.c.started_at, h.c.ended_at, h.c.seconds)
        last = and_(h.c.stream_table_id == s.c.id, h.c.id >= from_, is_refresh(h))
        joined = select(*columns).select_from(s.join(h, last))
        ids = sorted(set(stream_table_ids))
        found: dict[int, list[Recent]] = {id_: [] for id_ in ids}
        for start in range(0, len(ids), LISTED_NAMES):
            statement = joined.where(s.c.id.in_(ids[start : start + LISTED_NAMES])).order_by(h.c.id)
            for row in self._rows(statement):
                found[row["stream_table_id"]].append(rows.recent(row))
        return {id_: tuple(entries) for id_, entries in found.items()}

    def refresh_groups(self, chosen: HistoryFilter) -> tuple[RefreshGroup, ...]:
        """What is over, in groups of the same outcome."""
        h = tables.refresh_history
        told = (Action.FULL.value, Action.REINITIALIZE.value, Action.SKIP.value)
        reason = case((h.c.action.in_(told), h.c.reason)).label("reason")
        keys: list[Any] = [h.c.name, h.c.state, h.c.action, reason, h.c.error_code]
        summed = (h.c.seconds, h.c.rows_inserted, h.c.rows_updated, h.c.rows_deleted)
        added = [func.coalesce(func.sum(c), 0).label(c.name) for c in summed]
        statement = select(*keys, func.count().label("refreshes"), *added)
        over = (h.c.state != "RUNNING", is_refresh(h))
        found = self._rows(statement.where(*over, *_chosen(chosen)).group_by(*keys))
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
        for name, seconds in self._tuples(select(h.c.name, h.c.seconds).where(*wrote, *_chosen(chosen))):
            found.setdefault(name, []).append(float(seconds))
        for times in found.values():
            times.sort()
        return found

    def advances(self, since: datetime, stream_table_id: int | None = None) -> dict[int, list[Advance]]:
        """How the data timestamp of each stream table moved since a time, in order, and the last move before it."""
        h, s = tables.refresh_history, tables.stream_tables
        columns = (h.c.stream_table_id, h.c.ended_at, h.c.data_timestamp, h.c.action)
        moved = [h.c.data_timestamp.is_not(None), h.c.ended_at.is_not(None)]
        b = h.alias("before")
        # One step back in an index for each table, not a look at all that is older.
        last = (
            select(b.c.id)
            .where(b.c.stream_table_id == s.c.id, b.c.started_at < since, b.c.data_timestamp.is_not(None))
            .order_by(b.c.id.desc())
            .limit(1)
            .correlate(s)
            .scalar_subquery()
        )
        before = select(*columns).select_from(s.join(h, h.c.id == last)).where(*moved)
        after = select(*columns).where(h.c.started_at >= since, h.c.stream_table_id.is_not(None), *moved)
        if stream_table_id is not None:
            before = before.where(s.c.id == stream_table_id)
            after = after.where(h.c.stream_table_id == stream_table_id)
        found: dict[int, list[Advance]] = {}
        for statement in (before, after.order_by(h.c.id)):
            for id_, at, data_timestamp, action in self._tuples(statement):
                found.setdefault(id_, []).append(Advance(at, data_timestamp, action in WROTE))
        return found

    def refresh_counts(self, since: datetime) -> dict[str, int]:
        """Refreshes that began since then, by state."""
        h = tables.refresh_history
        counted = select(h.c.state, func.count().label("n")).where(*_chosen(HistoryFilter(since=since)))
        return {row["state"]: int(row["n"]) for row in self._rows(counted.group_by(h.c.state))}

    def history_size(self) -> tuple[int, datetime | None]:
        """How many refreshes the history has, and when the oldest began."""
        h = tables.refresh_history
        found = self._rows(select(func.count().label("n"), func.min(h.c.started_at).label("first")))[0]
        return int(found["n"]), found["first"]


def is_refresh(history: Any) -> Any:
    """Upkeep is in the history, and is no refresh."""
    return or_(history.c.action.is_(None), history.c.action != Action.MAINTENANCE.value)


def sums_of(chosen: Any, limits: Sequence[float]) -> Select[Any]:
    """Of these rows of the history, the refreshes of public stream tables that are over, in groups."""
    h = tables.refresh_history
    public = h.c.name.not_like(f"{HIDDEN}%", escape="!")
    over = and_(chosen, h.c.state != "RUNNING", public, is_refresh(h))
    took = func.coalesce(h.c.seconds, 0)
    bucket = case(*((took <= limit, n) for n, limit in enumerate(limits)), else_=len(limits))
    keys = [h.c.stream_table_id, h.c.state, h.c.action, bucket.label("bucket")]
    added = [func.sum(c).label(c.name) for c in (h.c.seconds, h.c.rows_inserted, h.c.rows_updated, h.c.rows_deleted)]
    return select(*keys, func.count().label("refreshes"), *added).where(over).group_by(*keys)


def sums(found: Iterable[RowMapping]) -> tuple[RefreshSum, ...]:
    return tuple(
        RefreshSum(
            stream_table_id=row["stream_table_id"],
            state=row["state"],
            action=row["action"],
            bucket=row["bucket"],
            refreshes=int(row["refreshes"]),
            seconds=float(row["seconds"] or 0),
            rows_inserted=int(row["rows_inserted"]),
            rows_updated=int(row["rows_updated"]),
            rows_deleted=int(row["rows_deleted"]),
        )
        for row in found
    )


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
