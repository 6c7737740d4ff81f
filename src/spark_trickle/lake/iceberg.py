"""Iceberg tables: a location is a metadata file. Such files never change: what they say is cached by path."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from functools import partial
from typing import TYPE_CHECKING

from spark_trickle.errors import TrickleError
from spark_trickle.lake import jvm
from spark_trickle.lake.cache import LruCache
from spark_trickle.lake.driver_reads import look_up
from spark_trickle.lake.feed import Feed, read_changes
from spark_trickle.lake.jvm import Java, TableFacts
from spark_trickle.lake.kinds import Problem, replaced
from spark_trickle.lake.metadata_files import MetadataFiles
from spark_trickle.lake.pins import new_pin
from spark_trickle.lake.table_history import TableHistories, TableHistory
from spark_trickle.model import Dependency, Pointer
from spark_trickle.spark.runtime import Local
from spark_trickle.thresholds import KEPT_FEED_ROWS, KEPT_FEEDS

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_Change = tuple[str, int | None, int | None, str, tuple[str, ...]]  # uuid, from, to, schema, columns


_MAX_AGE = "history.expire.max-snapshot-age-ms"
_MIN_KEPT = "history.expire.min-snapshots-to-keep"
_FIVE_DAYS = 432_000_000  # what Iceberg's expire_snapshots takes where the property is not set
_MOST_KEPT = 1000  # that are looked at


class Iceberg:
    """The source kind of the lake's own tables."""

    def __init__(self, session: SparkSession) -> None:
        self._session = session
        self._metadata = LruCache[str, Java](size=32)
        self._facts = LruCache[str, TableFacts]()
        self._feeds = LruCache[_Change, Feed](size=KEPT_FEEDS)
        self._histories = TableHistories(MetadataFiles(partial(jvm.read_file, session)))

    def metadata(self, location: str) -> Java:
        """Iceberg's TableMetadata in this file."""
        return self._metadata.get(location, lambda: self._read_metadata(location))

    def _read_metadata(self, location: str) -> Java:
        try:
            return jvm.load_metadata(self._session, location)
        except Exception as error:
            raise TrickleError(
                "CATALOG_CORRUPT", f"the metadata file {location} cannot be read: {jvm.why(error)}"
            ) from error

    def table(self, location: str, name: str) -> Java:
        """A read-only Iceberg table pinned at this metadata."""
        return jvm.static_table(self._session, self.metadata(location), name)

    def facts(self, location: str) -> TableFacts:
        return self._facts.get(location, lambda: jvm.table_facts(self._session, self.metadata(location)))

    def rows(self, _session: SparkSession, location: str, snapshot_id: int) -> int | None:
        snapshot = self.metadata(location).snapshot(snapshot_id)
        if snapshot is None:
            return None
        summary = snapshot.summary()
        total, deleted = summary.get("total-records"), summary.get("total-position-deletes")
        return None if total is None else max(int(total) - int(deleted or 0), 0)

    def history(self, location: str) -> TableHistory:
        return self._histories.of(location)

    def expired(self, location: str, snapshot_id: int) -> str | None:
        there = self.metadata(location).snapshot(snapshot_id) is not None
        return None if there else f"snapshot {snapshot_id} was removed"

    def expires(self, location: str, snapshot_id: int) -> tuple[datetime, datetime] | None:
        metadata = self.metadata(location)
        snapshot = metadata.snapshot(snapshot_id)
        if snapshot is None or self._is_kept(metadata, snapshot_id):
            return None
        made_at = datetime.fromtimestamp(snapshot.timestampMillis() / 1000, UTC)
        try:
            return made_at, made_at + timedelta(milliseconds=_number(metadata, _MAX_AGE, _FIVE_DAYS))
        except OverflowError:  # never
            return None

    def _is_kept(self, metadata: Java, snapshot_id: int) -> bool:
        """By a tag, by a branch, or as one of the newest."""
        names = jvm.handles(self._session).text(metadata.refs().keySet())
        if any(metadata.ref(name).snapshotId() == snapshot_id for name in names):
            return True
        newest = metadata.currentSnapshot()
        for _ in range(min(_number(metadata, _MIN_KEPT, 1), _MOST_KEPT)):
            if newest is None or newest.snapshotId() == snapshot_id:
                return newest is not None
            newest = None if newest.parentId() is None else metadata.snapshot(newest.parentId())
        return False

    def lost(self, location: str, then: Dependency) -> Problem | None:
        if self.facts(location).uuid != then.table_uuid:
            return replaced(then)
        gone = None if then.snapshot_id is None else self.expired(location, then.snapshot_id)
        return None if gone is None else ("SNAPSHOT_EXPIRED", f"{then.input}: {gone}")

    def registered(self, _session: SparkSession, pointer: Pointer) -> Pointer:
        return pointer

    def at(self, location: str, snapshot_id: int | None) -> str:
        if self.facts(location).snapshot_id == snapshot_id:
            return location
        iceberg = jvm.handles(self._session).jvm.org.apache.iceberg
        builder = iceberg.TableMetadata.buildFrom(self.metadata(location))
        if snapshot_id is None:
            return self._write(builder.removeRef("main"))
        return self._write(builder.setRef("main", iceberg.SnapshotRef.branchBuilder(snapshot_id).build()))

    def in_schema(self, location: str, schema: str) -> str:
        iceberg = jvm.handles(self._session).jvm.org.apache.iceberg
        current = self.metadata(location)
        builder = iceberg.TableMetadata.buildFrom(current)
        # Nobody writes here; a default spec or order over a column that is not shown would be refused.
        builder = builder.setDefaultPartitionSpec(iceberg.PartitionSpec.unpartitioned())
        builder = builder.setDefaultSortOrder(iceberg.SortOrder.unsorted())
        builder = builder.setCurrentSchema(iceberg.SchemaParser.fromJson(schema), current.lastColumnId())
        return self._write(builder.setProperties(self._by_positions()))

    def _by_positions(self) -> Java:
        """What keeps a DELETE from rewriting data files."""
        found = jvm.handles(self._session).jvm.java.util.HashMap()
        found.put("write.delete.mode", "merge-on-read")
        return found

    def _write(self, builder: Java) -> str:
        location = new_pin(self._session)
        parser = jvm.handles(self._session).jvm.org.apache.iceberg.TableMetadataParser
        parser.write(builder.discardChanges().build(), jvm.file_io(self._session).newOutputFile(location))
        return location

    def changes(self, session: SparkSession, pointer: Pointer, old: int | None, columns: Sequence[str]) -> Feed:
        facts = self.facts(pointer.location)
        # Not by location: a tag makes another one.
        key = (facts.uuid, old, facts.snapshot_id, facts.schema, tuple(columns))
        kept = self._feeds.find(key)
        if kept is not None:
            return kept.again(session)
        table = self.table(pointer.location, str(pointer.name))
        feed = read_changes(session, table, old, facts.snapshot_id, columns)
        if feed.frame is None or (feed.local is not None and feed.local.rows <= KEPT_FEED_ROWS):
            self._feeds.put(key, feed)
        return feed

    def old_state(self, pointer: Pointer, here: str, snapshot_id: int) -> str | None:
        written = self.metadata(pointer.location).snapshot(snapshot_id).schemaId()
        if written in (None, self.facts(pointer.location).schema_id):
            return f"{here} VERSION AS OF {snapshot_id}"
        return None  # VERSION AS OF shows the names and types that the snapshot was written with

    def look_up(
        self,
        session: SparkSession,
        pointer: Pointer,
        snapshot_id: int,
        columns: Sequence[str],
        keys: Sequence[str],
        by: Local | None,
    ) -> Local | None:
        table = self.table(pointer.location, str(pointer.name))
        return look_up(session, table, table.schema(), snapshot_id, columns, keys, by)


def _number(metadata: Java, key: str, default: int) -> int:
    text = metadata.properties().get(key)
    return int(text) if text is not None and str(text).isdigit() else default
