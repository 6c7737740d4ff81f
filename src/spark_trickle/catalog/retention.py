"""Old history goes, and its sums stay: totals of all time are those of the history and of what was deleted of it."""

from __future__ import annotations

import json
from collections.abc import Container, Iterable, Sequence
from dataclasses import astuple, replace
from datetime import datetime
from typing import TYPE_CHECKING, Any

from sqlalchemy import ColumnElement, and_, delete, func, or_, select

from spark_trickle.catalog import tables
from spark_trickle.catalog.history import WROTE, sums, sums_of
from spark_trickle.catalog.reader import CatalogReader
from spark_trickle.catalog.rows import RefreshSum
from spark_trickle.errors import TrickleError
from spark_trickle.model import Action
from spark_trickle.thresholds import DURATIONS, PAST_REFRESHES, SLOW_REFRESHES, TRIMMED_ROWS

if TYPE_CHECKING:
    from spark_trickle.catalog.store import CatalogStore, Transaction

DELETED = "history.deleted"  # the setting that holds the sums
NEWEST = "history.deleted_until"  # and the one that holds when each stream table's newest deleted content was made

Key = tuple[int | None, str, str | None, int]


def trim_history(store: CatalogStore, before: datetime) -> int:
    """Delete the refreshes that ended before a time; gives how many. A transaction deletes some of them and adds up.

    They are chosen before it: that takes long, and nobody else could write meanwhile. What may go once may go later.
    """
    h = tables.refresh_history
    old = and_(h.c.ended_at < before, h.c.state != "RUNNING", h.c.id.not_in(select(_kept().subquery().c.id)))
    with store.database.read() as connection:
        ids = list(connection.execute(select(h.c.id).where(old).order_by(h.c.id)).scalars())
    return sum(_delete(store, before, ids[start : start + TRIMMED_ROWS]) for start in range(0, len(ids), TRIMMED_ROWS))


def _delete(store: CatalogStore, before: datetime, chosen: Sequence[int]) -> int:
    h, s = tables.refresh_history, tables.settings
    with store.write() as tx:
        text = tx.connection.execute(select(s.c.value).where(s.c.key == DELETED).with_for_update()).scalar()
        # Those that nobody else deleted; SQLite gives an id again.
        there = and_(h.c.id.in_(chosen), h.c.ended_at < before)
        ids = list(tx.connection.execute(select(h.c.id).where(there)).scalars())
        if not ids:
            return 0
        living = set(tx.connection.execute(select(tables.stream_tables.c.id)).scalars())
        held: dict[Key, RefreshSum] = {}
        add(held, _read(text))
        add(held, sums(tx.connection.execute(sums_of(h.c.id.in_(ids), DURATIONS)).mappings()))
        stored = [astuple(group) for group in held.values() if group.stream_table_id in living]
        tx.put_setting(DELETED, json.dumps(stored))
        _note_newest(tx, ids, living)
        tx.connection.execute(delete(h).where(h.c.id.in_(ids)))
    return len(ids)


def _note_newest(tx: Transaction, ids: Sequence[int], living: Container[int]) -> None:
    """Between it and the next content that is kept, nobody can tell any more what a table was at a time."""
    h, s = tables.refresh_history, tables.settings
    content = and_(h.c.id.in_(ids), h.c.action.in_(WROTE), h.c.state == "COMPLETED", h.c.stream_table_id.is_not(None))
    latest = (
        select(h.c.stream_table_id, func.max(h.c.ended_at).label("at")).where(content).group_by(h.c.stream_table_id)
    )
    newest = _newest(tx.connection.execute(select(s.c.value).where(s.c.key == NEWEST)).scalar())
    for row in tx.connection.execute(latest).mappings():
        id_, at = int(row["stream_table_id"]), row["at"]
        newest[id_] = max(at, newest.get(id_, at))
    tx.put_setting(NEWEST, json.dumps({str(i): at.isoformat() for i, at in newest.items() if i in living}))


def deleted_until(reader: CatalogReader, stream_table_id: int) -> datetime | None:
    """When the newest content of a stream table was made that the history does not tell any more."""
    return _newest(reader.setting(NEWEST)).get(stream_table_id)


def _newest(text: str | None) -> dict[int, datetime]:
    try:
        return {int(i): datetime.fromisoformat(at) for i, at in json.loads(text or "{}").items()}
    except (ValueError, TypeError, AttributeError) as error:
        raise TrickleError("CATALOG_CORRUPT", f"table trickle_settings, row {NEWEST}: {error}") from error


def _kept() -> Any:
    """Ids of what the engine asks its history for, however old: of each stream table what its last refreshes cost, its
    last DIFFERENTIAL ones and the last change of its query, its first content, since which there are changes, its last
    refresh and its last failure."""
    h = tables.refresh_history
    there = h.c.stream_table_id.in_(select(tables.stream_tables.c.id))
    content = and_(there, h.c.action.in_(WROTE), h.c.state == "COMPLETED")
    is_refresh = or_(h.c.action.is_(None), h.c.action != Action.MAINTENANCE.value)

    def last(count: int, where: ColumnElement[bool]) -> Any:
        place = func.row_number().over(partition_by=h.c.stream_table_id, order_by=h.c.id.desc()).label("place")
        ranked = select(h.c.id, place).where(where).subquery()
        return select(ranked.c.id).where(ranked.c.place <= count)

    def one(which: Any, where: ColumnElement[bool]) -> Any:
        return select(which(h.c.id).label("id")).where(where).group_by(h.c.stream_table_id)

    return last(PAST_REFRESHES, content).union(
        last(SLOW_REFRESHES, and_(content, h.c.action == Action.DIFFERENTIAL.value)),
        one(func.max, and_(content, h.c.reason.like("ALTERED%"))),
        one(func.min, content),
        one(func.max, and_(there, is_refresh)),
        one(func.max, and_(there, h.c.state == "FAILED")),
    )


def deleted_sums(reader: CatalogReader) -> tuple[str | None, tuple[RefreshSum, ...]]:
    """What was deleted, as it is stored, and as sums over `DURATIONS`."""
    text = reader.setting(DELETED)
    return text, _read(text)


def _read(text: str | None) -> tuple[RefreshSum, ...]:
    try:
        return tuple(RefreshSum(*group) for group in json.loads(text or "[]"))
    except (ValueError, TypeError) as error:
        raise TrickleError("CATALOG_CORRUPT", f"table trickle_settings, row {DELETED}: {error}") from error


def add(found: dict[Key, RefreshSum], more: Iterable[RefreshSum]) -> None:
    for group in more:
        key = (group.stream_table_id, group.state, group.action, group.bucket)
        had = found.get(key)
        found[key] = group if had is None else _plus(had, group)


def _plus(a: RefreshSum, b: RefreshSum) -> RefreshSum:
    return replace(
        a,
        refreshes=a.refreshes + b.refreshes,
        seconds=a.seconds + b.seconds,
        rows_inserted=a.rows_inserted + b.rows_inserted,
        rows_updated=a.rows_updated + b.rows_updated,
        rows_deleted=a.rows_deleted + b.rows_deleted,
    )
