"""Tables and views as their pointers describe them."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import TYPE_CHECKING

from spark_trickle.lake import jvm
from spark_trickle.lake.cache import LruCache
from spark_trickle.lake.delta_lake.kind import DeltaLake
from spark_trickle.lake.iceberg import Iceberg
from spark_trickle.lake.jvm import Java, TableFacts
from spark_trickle.lake.kinds import OutsideKind, Problem, SourceKind, replaced
from spark_trickle.lake.pins import warehouse
from spark_trickle.lake.table_history import TableHistory
from spark_trickle.model import LAKE, Dependency, Pointer, TableName
from spark_trickle.spark.names import quote, quote_table
from spark_trickle.sql.lower import LakeView

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


class Lake:
    """Reads metadata through a session; safe to share between threads."""

    def __init__(self, session: SparkSession) -> None:
        self.session = session
        self._iceberg = Iceberg(session)
        # By the word that CREATE SOURCE has for the format. A new kind is a module, and a line here.
        self.outside: Mapping[str, OutsideKind] = {
            "delta": DeltaLake(session),
        }
        self._views = LruCache[str, LakeView]()

    # -- tables of any kind ----------------------------------------------------------------------------------------

    def kind(self, location: str) -> SourceKind:
        """The one place where kinds are told apart."""
        return next((kind for kind in self.outside.values() if kind.owns(location)), self._iceberg)

    def facts(self, location: str) -> TableFacts:
        return self.kind(location).facts(location)

    def rows(self, session: SparkSession, location: str, snapshot_id: int) -> int | None:
        """Rows of the table at this or an older snapshot; None: nobody counted them."""
        return self.kind(location).rows(session, location, snapshot_id)

    def history(self, location: str) -> TableHistory:
        return self.kind(location).history(location)

    def lost(self, location: str, then: Dependency) -> Problem | None:
        """Why all rows that a refresh read then cannot be read any more; None: they can."""
        kind = self.kind(location)
        if then.pointer is None or self.kind(then.pointer) is not kind:
            return replaced(then)
        return kind.lost(location, then)

    def prepare(self, session: SparkSession) -> None:
        """Let a session of ours read sources outside the lake."""
        for kind in self.outside.values():
            if kind.available(session):
                kind.prepare(session)

    # -- Iceberg tables --------------------------------------------------------------------------------------------

    def metadata(self, location: str) -> Java:
        """Iceberg's TableMetadata in this file."""
        return self._iceberg.metadata(location)

    def table(self, location: str, name: str) -> Java:
        """A read-only Iceberg table pinned at this metadata."""
        return self._iceberg.table(location, name)

    def load(self, name: TableName) -> Java:
        """The table in the lake's own catalog, as it is now: commits go there."""
        util = jvm.handles(self.session).jvm.org.apache.iceberg.spark.Spark3Util
        return util.loadIcebergTable(self.session._jsparkSession, f"{quote(LAKE)}.{quote_table(name)}")

    @property
    def warehouse(self) -> str:
        return warehouse(self.session)

    # -- views -----------------------------------------------------------------------------------------------------

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
