"""Tables and views of the lake as their metadata files describe them. Metadata files never change: cached by path."""

from __future__ import annotations

import json
import uuid
from typing import TYPE_CHECKING

from spark_trickle.errors import TrickleError
from spark_trickle.lake import jvm
from spark_trickle.lake.cache import LruCache
from spark_trickle.lake.delta_lake.log import DeltaTables, Version, is_delta
from spark_trickle.lake.jvm import Java, TableFacts
from spark_trickle.model import HIDDEN_NAMESPACE, LAKE, Pointer, TableName
from spark_trickle.spark.compile import quote, quote_table
from spark_trickle.sql.lower import LakeView

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_PIN = "trickle-pin-"


def is_pin(pointer: Pointer) -> bool:
    """Whether a metadata file was written for one attempt or cut alone."""
    return pointer.location.rpartition("/")[2].startswith(_PIN)


class Lake:
    """Reads metadata through a session; safe to share between threads."""

    def __init__(self, session: SparkSession) -> None:
        self.session = session
        self.delta = DeltaTables(session)
        self._metadata = LruCache[str, Java](size=32)
        self._facts = LruCache[str, TableFacts]()
        self._views = LruCache[str, LakeView]()

    def metadata(self, location: str) -> Java:
        """Iceberg's TableMetadata in this file."""
        return self._metadata.get(location, lambda: self._read_metadata(location))

    def _read_metadata(self, location: str) -> Java:
        try:
            return jvm.load_metadata(self.session, location)
        except Exception as error:
            raise TrickleError(
                "CATALOG_CORRUPT", f"the metadata file {location} cannot be read: {jvm.why(error)}"
            ) from error

    def facts(self, location: str) -> TableFacts:
        if is_delta(location):
            return self.delta.facts(location)
        return self._facts.get(location, lambda: jvm.table_facts(self.session, self.metadata(location)))

    def expired(self, location: str, snapshot_id: int) -> str | None:
        """Why the table at an older snapshot cannot be known any more; None: it can."""
        if is_delta(location):
            new = Version.of(location)
            return self.delta.unreadable(new.at(snapshot_id), new)
        there = self.metadata(location).snapshot(snapshot_id) is not None
        return None if there else f"snapshot {snapshot_id} was removed"

    def rows(self, session: SparkSession, location: str, snapshot_id: int) -> int | None:
        """Rows of the table at a snapshot; None: nobody counted them."""
        if is_delta(location):
            cut = Version.of(location)
            return self.delta.rows(session, cut.at(snapshot_id), cut)
        snapshot = self.metadata(location).snapshot(snapshot_id)
        summary = dict(snapshot.summary()) if snapshot is not None else {}
        if "total-records" not in summary:
            return None
        return max(int(summary["total-records"]) - int(summary.get("total-position-deletes", 0)), 0)

    def table(self, location: str, name: str) -> Java:
        """A read-only Iceberg table pinned at this metadata."""
        return jvm.static_table(self.session, self.metadata(location), name)

    def load(self, name: TableName) -> Java:
        """The table in the lake's own catalog, as it is now: commits go there."""
        util = jvm.handles(self.session).jvm.org.apache.iceberg.spark.Spark3Util
        return util.loadIcebergTable(self.session._jsparkSession, f"{quote(LAKE)}.{quote_table(name)}")

    @property
    def warehouse(self) -> str:
        return str(self.session.conf.get(f"spark.sql.catalog.{LAKE}.warehouse"))

    def new_pin(self) -> str:
        """A place for a metadata file of one attempt or cut. Not among a source's files: those are somebody else's."""
        return f"{self.warehouse}/{HIDDEN_NAMESPACE}/pins/{_PIN}{uuid.uuid4()}.metadata.json"

    def view(self, pointer: Pointer) -> LakeView:
        return self._views.get(pointer.location, lambda: self._read_view(pointer))

    def _read_view(self, pointer: Pointer) -> LakeView:
        parser = jvm.handles(self.session).jvm.org.apache.iceberg.view.ViewMetadataParser
        body = json.loads(parser.toJson(parser.read(jvm.file_io(self.session), pointer.location)))
        current = next(v for v in body["versions"] if v["version-id"] == body["current-version-id"])
        schema = next(s for s in body["schemas"] if s["schema-id"] == current["schema-id"])
        text = next(r["sql"] for r in current["representations"] if r["dialect"] == "spark")
        return LakeView(
            name=pointer.name,
            text=text,
            namespace=".".join(current["default-namespace"]),
            columns=tuple(f["name"] for f in schema["fields"]),
        )
