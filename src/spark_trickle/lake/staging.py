"""A stream table inside an attempt: every commit is recorded, and nothing else may be on top of the base.

The attempt's catalog is private, but a job of an abandoned attempt could still commit to a table of that name. So each
step must add exactly one snapshot on top of the one before; anything else refuses the publish.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from spark_trickle.catalog.rows import LogEntry
from spark_trickle.errors import TrickleError
from spark_trickle.lake import owned
from spark_trickle.lake.attempt import Attempt
from spark_trickle.lake.changelog import Delta
from spark_trickle.lake.cleanup import delete_files, delete_staged, drop_files
from spark_trickle.lake.driver_reads import look_up
from spark_trickle.lake.feed import forget_scan, stage_scan
from spark_trickle.lake.files import FileReader, FileState
from spark_trickle.lake.jvm import Java, handles
from spark_trickle.lake.positions import Committed, append_and_delete, replace_all, rewrite
from spark_trickle.lake.protect import FOREVER
from spark_trickle.model import Column, Pointer, TableName, TableOptions
from spark_trickle.spark.names import quote
from spark_trickle.spark.runtime import Local, collect_local
from spark_trickle.thresholds import LOCAL

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

_SNAPSHOT = "org.apache.iceberg.Snapshot"


@dataclass(frozen=True, slots=True)
class Counts:
    """Rows of a stream table that a refresh changed."""

    inserted: int = 0
    updated: int = 0
    deleted: int = 0


@dataclass(slots=True)
class Staging:
    attempt: Attempt
    name: TableName
    base: Pointer | None  # None: a new table
    schema: str  # of all columns in the data files
    head: int | None = None  # the snapshot that the last step made
    recorded: list[int] = field(default_factory=list)
    location: str = ""  # the metadata file to publish
    delta: Delta | None = None  # what the steps did, where the refresh knows it
    log: LogEntry | None = None  # the delta in files, to be published with it
    _inside: TableName | None = None  # the table at its base with all columns, in this attempt only
    _shown: bool = False  # whether it is there already

    @classmethod
    def onto(cls, attempt: Attempt, name: TableName, schema: str) -> Staging:
        """Stage on top of what the lake has."""
        base = attempt.pointers[name]
        return cls(attempt, name, base, schema, attempt.lake.facts(base.location).snapshot_id, [], base.location)

    @classmethod
    def new(cls, attempt: Attempt, name: TableName, columns: Sequence[Column], options: TableOptions) -> Staging:
        """A table that exists in the attempt only, until it is published."""
        schema = owned.create(attempt, name, columns, options)
        return cls(attempt, name, None, schema, location=attempt.pointers[name].location)

    @classmethod
    def reshaped(
        cls,
        attempt: Attempt,
        name: TableName,
        columns: Sequence[Column] | None,
        known: str,
        options: TableOptions,
    ) -> Staging:
        """Stage on top of what the lake has, with other columns; None: with those it should have."""
        staging = cls.onto(attempt, name, known)
        staging.schema = owned.reshape(attempt, name, columns, known, options)
        staging.location = attempt.pointers[name].location
        return staging

    @property
    def target(self) -> str:
        """The table as it was before this refresh, with its hidden columns, for SQL."""
        if self._inside is None:
            self._inside = self.attempt.copy_name()
        return self.attempt.qualified(self._inside)

    def show_in(self, sql: str) -> None:
        """Make the table of `target` if a statement reads it: most refreshes of few rows need it not."""
        if self._inside is not None and not self._shown and self.target in sql:
            assert self.base is not None
            self.attempt.show_all(self.base, self.schema, self._inside)
            self._shown = True

    @property
    def rows(self) -> int | None:
        """How many rows were stored before this refresh, if metadata tells."""
        if self.base is None or self.head is None:
            return 0
        return self.attempt.lake.rows(self.attempt.session, self.base.location, self.head)

    def look_up(
        self, columns: Sequence[str], keys: Sequence[str], by: Local | None, places: Sequence[str]
    ) -> Local | None:
        """Few of the rows of before: all whose keys `by` has in its columns, perhaps more. None: Spark must look."""
        if self.base is None or self.head is None:
            return None
        session = self.attempt.session
        table = self.attempt.lake.table(self.base.location, str(self.name))
        schema = handles(session).jvm.org.apache.iceberg.SchemaParser.fromJson(self.schema)
        return look_up(session, table, schema, self.head, columns, keys, by, places)

    def overwrite(self, rows: DataFrame, *, few: bool = False) -> Mapping[str, int]:
        """The whole content at once, laid out as the table's partitions and order ask for.

        `few` rows are written by the driver, if they are few: two jobs less.
        """
        session = self.attempt.session
        table = self.attempt.load(self.name)
        frame = owned.laid_out(self.attempt, self.name, rows)
        found = (collect_local(frame, LOCAL) if few else None) or frame
        through = owned.stand_in(session, table, self.schema)
        if self.base is None:
            return self._record(append_and_delete(session, table, found, {}, through=through))
        return self._record(replace_all(session, table, found, through=through))

    def change(
        self,
        rows: DataFrame | Local | None,
        positions: Mapping[str, Sequence[int]] | None = None,
        places: DataFrame | None = None,
    ) -> Mapping[str, int]:
        """Rows in and rows out in one commit. `places` (FILE, POSITION) are for many: Spark writes their deletes."""
        session = self.attempt.session
        deletes_of: Java | None = None
        if places is not None:
            view = self.attempt.view_name("places")
            places.createOrReplaceTempView(view)
            delete = f"DELETE FROM {self.target} WHERE (_file, _pos) IN (SELECT * FROM {quote(view)})"
            self.show_in(delete)
            session.sql(delete)
            assert self._inside is not None
            deletes_of = self.attempt.load(self._inside).currentSnapshot()
        table = self.attempt.load(self.name)
        through = None if rows is None else owned.stand_in(session, table, self.schema)
        made = append_and_delete(session, table, rows, positions or {}, through=through, deletes_of=deletes_of)
        return self._record(made)

    def rewrite(self, chosen: Sequence[FileState], tasks: int) -> Mapping[str, int]:
        """The live rows of these data files in new ones, with their hidden columns and row ids. No row changes."""
        session = self.attempt.session
        table = self.attempt.load(self.name)
        through = owned.stand_in(session, table, self.schema)
        live = [state for state in chosen if state.live_rows != 0]
        if not live:
            return self._record(rewrite(session, table, None, chosen, through=through))
        reader = FileReader(session, through)
        frame, staged = stage_scan(session, through, [reader.task(state) for state in live])
        try:
            rows = owned.laid_out(self.attempt, self.name, frame, tasks)
            return self._record(rewrite(session, table, rows, chosen, through=through))
        finally:
            forget_scan(staged)

    def expire(self, snapshots: Sequence[int]) -> list[str]:
        """Take snapshots out of the table; gives the files that none of the others needs, which stay where they are."""
        held, table = handles(self.attempt.session), self.attempt.load(self.name)
        refs = table.refs()
        aged = {name: refs.get(name).maxSnapshotAgeMs() for name in held.text(refs.keySet())}
        aged = {name: age for name, age in aged.items() if age is not None}
        before = self._snapshots(table)
        self._set_ages(table, dict.fromkeys(aged, FOREVER))
        gone = held.jvm.java.util.ArrayList()
        add = held.handle("java.util.Collection", "add", "java.lang.Object").bindTo(gone)
        # Its defaults would expire by age, too.
        commit = (
            table.expireSnapshots().expireOlderThan(0).deleteWith(held.as_interface(add, "java.util.function.Consumer"))
        )
        for snapshot in snapshots:
            commit = commit.expireSnapshotId(snapshot)
        commit.commit()
        self._set_ages(table, aged)
        self.location = table.operations().current().metadataFileLocation()
        others = before - self._snapshots(table) - set(snapshots)
        if others:  # somebody needs them
            raise TrickleError("INTERNAL", f"Iceberg expired other snapshots of {self.name}, too: {sorted(others)}")
        return held.text(gone)

    def _snapshots(self, table: Java) -> set[int]:
        listed = table.operations().current().snapshots()
        return set(map(int, handles(self.attempt.session).pluck(listed, (_SNAPSHOT, "snapshotId"))))

    def _set_ages(self, table: Java, ages: Mapping[str, int]) -> None:
        """How old the snapshots of branches may become. Iceberg asks them, too, whatever it was told to expire."""
        if ages:
            commit = table.manageSnapshots()
            for name, age in ages.items():
                commit = commit.setMaxSnapshotAgeMs(name, age)
            commit.commit()

    def _record(self, made: Committed) -> Mapping[str, int]:
        """The numbers of the one snapshot that this step made."""
        if made.parent != self.head:
            raise TrickleError("PUBLISH_CONFLICT", f"somebody else wrote to the attempt's copy of {self.name}")
        self.head, self.location = made.snapshot, made.location
        self.recorded.append(made.snapshot)
        return made.summary

    def discard(self) -> None:
        """Delete the files that only this attempt refers to."""
        if self.log is not None:
            delete_files(self.attempt.session, [f.path for f in self.log.files])
        metadata = self.attempt.lake.metadata(self.location)
        if self.base is None:
            drop_files(self.attempt.session, metadata)
        elif self.location != self.base.location:
            delete_staged(self.attempt.session, metadata, self.recorded, {self.base.location})
