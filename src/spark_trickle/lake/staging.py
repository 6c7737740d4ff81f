"""A storage table inside an attempt: every commit is recorded, and nothing else may be on top of the base.

The attempt's catalog is private, but a job of an abandoned attempt could still commit to a table of that name. So each
step must add exactly one snapshot on top of the one before; anything else refuses the publish.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from spark_trickle.catalog.rows import LogEntry
from spark_trickle.errors import TrickleError
from spark_trickle.lake.attempt import Attempt
from spark_trickle.lake.changelog import Delta
from spark_trickle.lake.cleanup import delete_added, delete_files, drop_files
from spark_trickle.lake.positions import append_and_delete
from spark_trickle.model import Column, Pointer, TableName
from spark_trickle.spark.compile import quote
from spark_trickle.sql.scalar import in_ddl

PROPERTIES = {
    "format-version": "3",
    "write.delete.mode": "merge-on-read",
    "write.update.mode": "merge-on-read",
    "write.merge.mode": "merge-on-read",
    "write.distribution-mode": "none",
    "write.metadata.compression-codec": "none",
}

# Positions go through the driver up to this many; beyond, Spark deletes them.
MANY_POSITIONS = 200_000


@dataclass(slots=True)
class Staging:
    attempt: Attempt
    storage: TableName
    base: Pointer | None  # None: a new storage table
    head: int | None = None  # the snapshot that the last step made
    recorded: list[int] = field(default_factory=list)
    location: str = ""  # the metadata file to publish
    delta: Delta | None = None  # what the steps did, where the refresh knows it
    log: LogEntry | None = None  # the delta in files, to be published with it

    @classmethod
    def onto(cls, attempt: Attempt, storage: TableName) -> Staging:
        """Stage on top of what the lake has."""
        base = attempt.pointers[storage]
        facts = attempt.lake.facts(base.location)
        return cls(attempt, storage, base, facts.snapshot_id, [], base.location)

    @classmethod
    def new(cls, attempt: Attempt, storage: TableName, columns: Iterable[Column]) -> Staging:
        """A storage table that exists in the attempt only, until it is published."""
        fields = ", ".join(f"{quote(c.name)} {in_ddl(c.type)}" for c in columns)
        properties = ", ".join(f"'{k}' = '{v}'" for k, v in PROPERTIES.items())
        attempt.session.sql(
            f"CREATE TABLE {attempt.qualified(storage)} ({fields}) USING iceberg TBLPROPERTIES ({properties})"
        )
        staging = cls(attempt, storage, None)
        staging.location = attempt.location(storage)
        return staging

    @property
    def target(self) -> str:
        return self.attempt.qualified(self.storage)

    def append(self, select: str) -> dict[str, int]:
        self.attempt.session.sql(f"INSERT INTO {self.target} {select}")
        return self._record()

    def overwrite(self, select: str) -> dict[str, int]:
        self.attempt.session.sql(f"INSERT OVERWRITE {self.target} {select}")
        return self._record()

    def replace(self, select: str | None, positions: Mapping[str, Sequence[int]]) -> dict[str, int]:
        """Rows in and rows out in one commit."""
        session = self.attempt.session
        rows = None if select is None else session.sql(select)
        append_and_delete(session, self.attempt.load(self.storage), rows, positions)
        return self._record()

    def delete_view(self, view: str) -> dict[str, int]:
        """Delete the positions (`_t_file`, `_t_pos`) in a view, by Spark."""
        self.attempt.session.sql(
            f"DELETE FROM {self.target} WHERE (_file, _pos) IN "
            f"(SELECT _t_file, _t_pos FROM {quote(view)} WHERE _t_doomed)"
        )
        return self._record()

    def _record(self) -> dict[str, int]:
        """The summary of the one snapshot that this step made."""
        location = self.attempt.location(self.storage)
        snapshot = self.attempt.lake.metadata(location).currentSnapshot()
        if snapshot is None or (snapshot.parentId() != self.head):
            raise TrickleError("PUBLISH_CONFLICT", f"somebody else wrote to the attempt's copy of {self.storage}")
        self.head = snapshot.snapshotId()
        self.recorded.append(self.head)
        self.location = location
        return {str(k): int(v) for k, v in dict(snapshot.summary()).items() if str(v).isdigit()}

    def discard(self) -> None:
        """Delete the files that only this attempt refers to."""
        if self.log is not None:
            delete_files(self.attempt.session, [f.path for f in self.log.files])
        metadata = self.attempt.lake.metadata(self.location)
        if self.base is None:
            drop_files(self.attempt.session, metadata)
        else:
            delete_added(self.attempt.session, metadata, self.recorded)
