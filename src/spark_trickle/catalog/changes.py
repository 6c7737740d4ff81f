"""What a publish writes about one stream table: its row, frontier, history and change log, as data."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from typing import Protocol

from spark_trickle.catalog.alerts import AlertKind
from spark_trickle.catalog.rows import LogEntry
from spark_trickle.catalog.store import Transaction
from spark_trickle.model import Dependency, Lineage, StreamTable, TableName
from spark_trickle.results import HistoryEntry


class Change(Protocol):
    """What a publish writes besides pointers."""

    def apply(self, tx: Transaction, ids: dict[TableName, int]) -> None: ...


@dataclass(frozen=True, slots=True)
class UpkeepChange:
    """Other files with the same rows: consumers that have seen the snapshot before have seen the one after it."""

    table: StreamTable  # as it was
    history: HistoryEntry
    pointer: str
    snapshot: int
    before: tuple[int, str]  # the snapshot whose rows these are, and the pointer it had
    garbage: tuple[str, ...] = ()
    keep_until: datetime | None = None  # readers may still be at the garbage

    def apply(self, tx: Transaction, ids: dict[TableName, int]) -> None:
        table = self.table
        ids[table.name] = table.id
        tx.update_stream_table(table.id, published_snapshot=self.snapshot, published_pointer=self.pointer)
        tx.follow_upkeep(table.name, table.table_uuid, self.before, (self.snapshot, self.pointer))
        tx.add_refresh(self.history, table.id)
        tx.add_garbage_files(self.garbage, not_before=self.keep_until, reason=f"expired snapshots of {table.name}")


@dataclass(frozen=True, slots=True)
class GroupChange:
    """Members of a group were published together: those of these refreshes; the others had nothing to do."""

    members: tuple[tuple[TableName, int], ...]  # with their ids; 0: this transaction makes it
    refresh_ids: tuple[str, ...]

    def apply(self, tx: Transaction, ids: dict[TableName, int]) -> None:
        tx.group_published([id or ids[name] for name, id in self.members], self.refresh_ids)


@dataclass(frozen=True, slots=True)
class CatalogChange:
    table: StreamTable  # as its row is to be; id 0: it has none yet
    dependencies: tuple[Dependency, ...] = ()
    history: HistoryEntry | None = None
    is_running: bool = False  # the history has a RUNNING row of this refresh
    clear_log: bool = False  # the table was recomputed: what was logged before leads nowhere
    log: LogEntry | None = None
    alerts: tuple[tuple[AlertKind, str], ...] = ()  # kinds and messages
    recovered: bool = False  # it failed before, or was off its schedule
    owner: TableName | None = None  # of a hidden state table
    dropped: bool = False  # the row goes
    lineage: Lineage | None = None  # of a public one; None: it is not known

    def apply(self, tx: Transaction, ids: dict[TableName, int]) -> None:
        """Write it. `ids` are those of rows that this transaction adds: a state table refers to its owner."""
        table = self.table
        if self.dropped:
            tx.delete_stream_table(table.id)
            return
        owner_id = table.owner_id or (None if self.owner is None else ids[self.owner])
        id = ids[table.name] = tx.save_stream_table(table, owner_id)
        if self.clear_log:
            tx.clear_change_log(id)
        if self.log is not None:
            tx.log_changes(id, self.log)
        tx.set_dependencies(id, self.dependencies)
        if self.owner is None:
            tx.put_lineage(id, self.lineage)
        name = str(table.name)
        if self.recovered:
            tx.alerts.recovered(name, f"{name} was refreshed")
        for kind, message in self.alerts:
            tx.alerts.raise_(kind, message, name)
        if self.history is None:
            return
        if self.is_running:
            h = self.history
            tx.finish_refresh(
                h.refresh_id,
                state=h.state,
                action=h.action,
                reason=h.reason,
                rows_inserted=h.rows_inserted,
                rows_updated=h.rows_updated,
                rows_deleted=h.rows_deleted,
                rows_changed=h.rows_changed,
                stages=h.stages,
                seconds=h.seconds,
                bytes_read=h.bytes_read,
                snapshot_id=h.snapshot_id,
                data_timestamp=h.data_timestamp,
                fixpoint_iteration=h.fixpoint_iteration,
            )
        else:
            tx.add_refresh(self.history, id)
