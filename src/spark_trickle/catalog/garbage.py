"""Writing the change log, and the garbage that its files become when nobody needs them any more."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from datetime import UTC, datetime
from typing import Any

from sqlalchemy import Connection, delete, insert, update

from spark_trickle.catalog import rows, tables
from spark_trickle.catalog.rows import LogEntry
from spark_trickle.thresholds import GARBAGE_FILES


class GarbageWriter:
    """The part of a transaction that writes the change log and garbage."""

    connection: Connection

    # Change log

    def log_changes(self, stream_table_id: int, entry: LogEntry) -> None:
        values = {
            "stream_table_id": stream_table_id,
            "from_snapshot": entry.from_snapshot,
            "to_snapshot": entry.to_snapshot,
            "rows": entry.rows,
            "files": rows.as_json(entry.files),
        }
        self.connection.execute(insert(tables.change_log).values(created_at=datetime.now(UTC), **values))

    def trim_change_log(self, ids: Iterable[int]) -> None:
        """Forget entries; their files become garbage with the same commit."""
        chosen = list(ids)
        if chosen:
            self._forget_changes(tables.change_log.c.id.in_(chosen))

    def clear_change_log(self, stream_table_id: int) -> None:
        """Forget all entries of a stream table: it was recomputed, or it goes."""
        self._forget_changes(tables.change_log.c.stream_table_id == stream_table_id)

    def _forget_changes(self, which: Any) -> None:
        c = tables.change_log
        # What somebody else has forgotten already is not returned, so no file becomes garbage twice.
        gone = self.connection.execute(delete(c).where(which).returning(c.c.id, c.c.files)).mappings().all()
        for row in gone:
            for file in rows.files_of(row):
                self.add_garbage(file.path, reason="change log")

    # Garbage

    def add_garbage(
        self,
        location: str,
        *,
        kind: str = "file",
        not_before: datetime | None = None,
        reason: str | None = None,
    ) -> None:
        values = {"kind": kind, "location": location, "not_before": not_before, "reason": reason}
        self.connection.execute(insert(tables.garbage).values(created_at=datetime.now(UTC), **values))

    def add_garbage_files(self, paths: Sequence[str], *, not_before: datetime | None, reason: str) -> None:
        """Many files in few rows."""
        for start in range(0, len(paths), GARBAGE_FILES):
            listed = "\n".join(paths[start : start + GARBAGE_FILES])
            self.add_garbage(listed, kind="files", not_before=not_before, reason=reason)

    def put_off_garbage(self, ids: Iterable[int], until: datetime) -> None:
        """Somebody holds these tables: they are due again later, or when a named cut is dropped."""
        chosen = list(ids)
        if chosen:
            g = tables.garbage
            self.connection.execute(update(g).where(g.c.id.in_(chosen)).values(not_before=until))

    def drop_garbage(self, ids: Iterable[int]) -> None:
        """The files are gone."""
        chosen = list(ids)
        if chosen:
            self.connection.execute(delete(tables.garbage).where(tables.garbage.c.id.in_(chosen)))
