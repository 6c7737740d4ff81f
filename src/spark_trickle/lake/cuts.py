"""A cut is a catalog: every pointer of the lake, copied at one instant under another catalog name.

A reader at a cut sees all tables, stream tables too, as they were at that instant, with its SQL
unchanged. A named cut stays until it is dropped; tags keep its snapshots from expiring.
"""

from __future__ import annotations

import logging
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

from spark_trickle.catalog.rows import NamedCut
from spark_trickle.catalog.store import CatalogStore
from spark_trickle.config import Settings
from spark_trickle.errors import TrickleError
from spark_trickle.lake import jvm
from spark_trickle.lake.attempt import Attempts
from spark_trickle.lake.cleanup import delete_files, sweep
from spark_trickle.lake.functions import Functions
from spark_trickle.lake.pins import is_pin, new_pin
from spark_trickle.lake.protect import FOREVER
from spark_trickle.lake.tables import Lake
from spark_trickle.model import LAKE, Pointer, TableName
from spark_trickle.spark.names import quote
from spark_trickle.spark.reading import refuse_write
from spark_trickle.spark.session import close_catalog, new_session
from spark_trickle.sql.mentions import without_catalog

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

_log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class ReaderCut:
    """The lake at one instant, for reading. Results must be read before the cut is closed.

    A statement that writes is refused. What gets around `sql`, such as a DataFrame's `writeTo`, fails at its commit:
    the cut's catalog has a connection that cannot write.
    """

    spark: SparkSession
    instant: datetime
    pointers: Mapping[TableName, Pointer]
    functions: Functions

    def sql(self, query: str, **arguments: Any) -> DataFrame:
        with jvm.active(self.spark):  # the parser asks it for its settings
            refuse_write(self.spark, query)
        self.functions.register(self.spark, query)
        return self.spark.sql(without_catalog(query, LAKE), **arguments)

    def table(self, name: str) -> DataFrame:
        return self.spark.table(name)


@dataclass(slots=True)
class Cuts:
    spark: SparkSession
    settings: Settings
    store: CatalogStore
    attempts: Attempts
    lake: Lake

    @contextmanager
    def open(self, name: str | None, namespace: str) -> Iterator[ReaderCut]:
        """The lake as it is now, or as the named cut keeps it."""
        if name is not None:
            cut = self._named(name)
            session = new_session(self.spark, self.settings, cut.catalog_name, read_only=True)
            pointers = self.store.pointers(cut.catalog_name)
            if any(p.is_view and is_pin(p.location) for p in pointers.values()):
                self.lake.prepare(session)
            _use(session, cut.catalog_name, namespace)
            try:
                yield ReaderCut(session, cut.created_at, pointers, self.attempts.functions)
            finally:
                close_catalog(session, cut.catalog_name)
            return
        with self.attempts.frozen(namespace) as attempt:
            yield ReaderCut(attempt.session, datetime.now(UTC), attempt.pointers, attempt.functions)

    def create(self, name: str, comment: str | None) -> NamedCut:
        with self.store.write() as tx:
            cut = tx.add_cut(name, comment)
        try:
            self.attempts.freeze_sources(cut.catalog_name)
            self._keep_metadata(cut.catalog_name)
        except BaseException:
            self.drop(name)
            raise
        for pointer in self.store.pointers(cut.catalog_name).values():
            if not pointer.is_view:
                self._tag(pointer, cut.catalog_name)
        return cut

    def drop(self, name: str) -> None:
        cut = self._named(name)
        held = self.store.pointers(cut.catalog_name)
        # The tags first: while the cut is listed, a second drop can take up what a first one left.
        for pointer in self.store.pointers(names=list(held)).values():
            if not pointer.is_view:
                self._untag(pointer.name, cut.catalog_name)
        with self.store.write() as tx:
            tx.drop_cut(name)
        delete_files(self.lake.session, [p.location for p in held.values() if is_pin(p.location)])
        sweep(self.lake.session, self.store)

    def _keep_metadata(self, catalog: str) -> None:
        """A copy of each source's metadata file: writers may have old ones deleted."""
        iceberg, io = jvm.handles(self.lake.session).jvm.org.apache.iceberg, jvm.file_io(self.lake.session)
        kept: dict[TableName, str] = {}
        ours = {part.name for table in self.store.stream_tables() for part in (table, *table.states)}
        for pointer in self.store.pointers(catalog).values():
            if not pointer.is_view and pointer.name not in ours:
                kept[pointer.name] = new_pin(self.lake.session)
                metadata = self.lake.metadata(pointer.location)
                iceberg.TableMetadataParser.write(metadata, io.newOutputFile(kept[pointer.name]))
        with self.store.write() as tx:
            for name, location in kept.items():
                tx.move_private_pointer(catalog, name, location)

    def _named(self, name: str) -> NamedCut:
        cuts = {c.name: c for c in self.store.cuts()}
        if name not in cuts:
            raise TrickleError("UNKNOWN_CUT", f"there is no cut {name}; there are: {', '.join(sorted(cuts)) or 'none'}")
        return cuts[name]

    def _tag(self, pointer: Pointer, tag: str) -> None:
        snapshot = self.lake.facts(pointer.location).snapshot_id
        if snapshot is None:
            return
        try:
            changes = self.lake.load(pointer.name).manageSnapshots()
            changes.createTag(tag, snapshot).setMaxRefAgeMs(tag, FOREVER).commit()
        except Exception as error:  # a table that may not be tagged is in the cut all the same, unprotected
            _log.warning("%s is not protected from snapshot expiry: %s", pointer.name, jvm.why(error))

    def _untag(self, name: TableName, tag: str) -> None:
        try:
            table = self.lake.load(name)
            if table.refs().containsKey(tag):
                table.manageSnapshots().removeTag(tag).commit()
        except Exception as error:  # read-only by now, or gone
            _log.warning("the tag %s of %s stays: %s", tag, name, jvm.why(error))


def _use(session: SparkSession, catalog: str, namespace: str) -> None:
    parts = "".join(f".{quote(p)}" for p in namespace.split(".")) if namespace else ""
    session.sql(f"USE {quote(catalog)}{parts}")
