"""Writing the history of refreshes, and what became of groups."""

from __future__ import annotations

import json
from collections.abc import Collection, Mapping
from datetime import UTC, datetime
from typing import Any

from sqlalchemy import Connection, and_, delete, insert, select, update

from spark_trickle.catalog import rows, tables
from spark_trickle.catalog.owner import Owner
from spark_trickle.errors import TrickleError
from spark_trickle.model import Action
from spark_trickle.results import HistoryEntry


class HistoryWriter:
    """The part of a transaction that writes refreshes and groups."""

    connection: Connection
    _owner: Owner

    def start_refresh(self, refresh_id: str, stream_table_id: int, name: str, initiated_by: str) -> None:
        self._add_history(
            refresh_id=refresh_id,
            stream_table_id=stream_table_id,
            name=name,
            state="RUNNING",
            initiated_by=initiated_by,
            started_at=datetime.now(UTC),
            rows_inserted=0,
            rows_updated=0,
            rows_deleted=0,
            rows_changed="{}",
            stages="{}",
        )

    def finish_refresh(
        self,
        refresh_id: str,
        *,
        state: str,
        action: Action | None,
        reason: str | None,
        rows_inserted: int = 0,
        rows_updated: int = 0,
        rows_deleted: int = 0,
        rows_changed: Mapping[str, int] | None = None,
        stages: Mapping[str, float] | None = None,
        error_code: str | None = None,
        error: str | None = None,
        seconds: float | None = None,
        bytes_read: int | None = None,
        bytes_written: int | None = None,
        snapshot_id: int | None = None,
        data_timestamp: datetime | None = None,
        fixpoint_iteration: int | None = None,
    ) -> None:
        """Close a RUNNING refresh. One that another process has closed already: LEASE_LOST."""
        h = tables.refresh_history
        closed = update(h).where(and_(h.c.refresh_id == refresh_id, h.c.state == "RUNNING"))
        changed = self.connection.execute(
            closed.values(
                state=state,
                action=None if action is None else action.value,
                reason=reason,
                ended_at=datetime.now(UTC),
                seconds=seconds,
                rows_inserted=rows_inserted,
                rows_updated=rows_updated,
                rows_deleted=rows_deleted,
                rows_changed=rows.as_json(dict(rows_changed or {})),
                stages=rows.as_json(dict(stages or {})),
                error_code=error_code,
                error=error,
                bytes_read=bytes_read,
                bytes_written=bytes_written,
                snapshot_id=snapshot_id,
                data_timestamp=data_timestamp,
                fixpoint_iteration=fixpoint_iteration,
            )
        )
        if changed.rowcount != 1:
            raise TrickleError("LEASE_LOST", f"refresh {refresh_id} was closed by another process")

    def add_refresh(self, entry: HistoryEntry, stream_table_id: int | None) -> None:
        """A refresh that is over, such as NO_DATA or SKIP, in one row."""
        self._add_history(
            refresh_id=entry.refresh_id,
            stream_table_id=stream_table_id,
            name=entry.name,
            state=entry.state,
            action=None if entry.action is None else entry.action.value,
            reason=entry.reason,
            initiated_by=entry.initiated_by,
            started_at=entry.started_at,
            ended_at=entry.ended_at,
            seconds=entry.seconds,
            rows_inserted=entry.rows_inserted,
            rows_updated=entry.rows_updated,
            rows_deleted=entry.rows_deleted,
            rows_changed=rows.as_json(entry.rows_changed),
            stages=rows.as_json(entry.stages),
            error_code=entry.error_code,
            error=entry.error,
            snapshot_id=entry.snapshot_id,
            bytes_read=entry.bytes_read,
            data_timestamp=entry.data_timestamp,
            fixpoint_iteration=entry.fixpoint_iteration,
        )

    def _add_history(self, **values: Any) -> None:
        self.connection.execute(insert(tables.refresh_history).values(process=self._owner.id, **values))

    # Groups

    def group_published(self, members: Collection[int], refresh_ids: Collection[str]) -> int:
        """These stream tables were published together, by these refreshes. Returns how often by now."""
        epoch = self._group_before(members) + 1
        self._put_group(members, epoch, "COMPLETED", None)
        h = tables.refresh_history
        self.connection.execute(update(h).where(h.c.refresh_id.in_(list(refresh_ids))).values(group_epoch=epoch))
        return epoch

    def group_failed(self, members: Collection[int], error: str) -> None:
        self._put_group(members, self._group_before(members), "FAILED", error)

    def _group_before(self, members: Collection[int]) -> int:
        """The epoch so far. Groups are disjoint: those that share a member with this one are gone."""
        epochs = [0]
        g = tables.groups
        for id, of, epoch in self.connection.execute(select(g.c.id, g.c.members, g.c.epoch)).all():
            if not set(members).isdisjoint(json.loads(of)):
                epochs.append(epoch)
                self.connection.execute(delete(g).where(g.c.id == id))
        return max(epochs)

    def _put_group(self, members: Collection[int], epoch: int, state: str, error: str | None) -> None:
        listed = json.dumps(sorted(members))
        values = {"members": listed, "epoch": epoch, "state": state, "at": datetime.now(UTC), "error": error}
        self.connection.execute(insert(tables.groups).values(**values))
