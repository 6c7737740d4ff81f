"""Tables outside the lake that it knows by names of its own. Today: Delta Lake tables.

The name belongs to a view in the lake, so nothing else can have it, and SQL reads the table by it. In a cut, and for
definitions, the name means the table at one version instead: `CutPointers` puts the version's pointer over the view's,
and an attempt registers a view of that version (`delta_log.py`, `Attempt.register`).
"""

from __future__ import annotations

import json
import os
import time
import uuid
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field

from spark_trickle.catalog.store import CatalogStore
from spark_trickle.errors import TrickleError
from spark_trickle.lake import jvm
from spark_trickle.lake.delta_lake.log import Version, table_sql
from spark_trickle.lake.tables import Lake
from spark_trickle.model import Pointer, Source, TableName
from spark_trickle.spark.compile import quote
from spark_trickle.spark.session import require_delta

FORMATS = ("delta",)
_LONGEST = 800  # of a location: with version and table id it has to fit into the catalog


@dataclass(slots=True)
class CutPointers(Mapping[TableName, Pointer]):
    """The pointers of a cut. A source outside the catalog is looked at when it is first asked for, and then stays."""

    lake: Mapping[TableName, Pointer]
    sources: Mapping[TableName, str]  # locations
    look: Callable[[str], Version | None]
    _known: dict[TableName, Pointer | None] = field(default_factory=dict)

    def __getitem__(self, name: TableName) -> Pointer:
        if name not in self.sources:
            return self.lake[name]
        if name not in self._known:
            version = self.look(self.sources[name])
            self._known[name] = None if version is None else Pointer(name, str(version), is_view=False)
        found = self._known[name]
        if found is None:  # the table is not where it was
            raise KeyError(name)
        return found

    def __iter__(self) -> Iterator[TableName]:
        return iter(self.lake)

    def __len__(self) -> int:
        return len(self.lake)


class Sources:
    def __init__(self, store: CatalogStore, lake: Lake) -> None:
        self._store = store
        self._lake = lake

    def known(self) -> tuple[Source, ...]:
        return self._store.sources()

    def pointers(self) -> Mapping[TableName, Pointer]:
        """All pointers of the lake as they are now."""
        found = self._store.pointers()
        live = self.live(found)
        return CutPointers(found, live, self._lake.delta.look) if live else found

    def live(self, pointers: Mapping[TableName, Pointer]) -> dict[TableName, str]:
        """The sources whose names are still theirs, with their locations: a view can be dropped or replaced in SQL."""
        found = {}
        for source in self.known():
            name = TableName.of(source.name)
            pointer = pointers.get(name)
            if pointer is not None and pointer.location == source.view:
                found[name] = source.location
        return found

    def create(self, name: TableName, format: str, location: str) -> Source:
        if format.lower() not in FORMATS:
            raise TrickleError(
                "INVALID_SOURCE", f"{format!r} is no format of a source; there are: {', '.join(FORMATS)}"
            )
        place = _checked(location)
        require_delta(self._lake.session, f"{name} would be a Delta Lake table")
        try:
            version = self._lake.delta.look(place)
            if version is None:
                raise TrickleError("INVALID_SOURCE", f"there is no Delta Lake table at {place}")
            view = self.write_view(name, version, pinned=False)
        except TrickleError as error:
            if error.code in ("SPARK_FAILED", "UNSTORABLE_TYPE"):
                raise TrickleError("INVALID_SOURCE", error.message, hint=error.hint) from error
            raise
        source = Source(str(name), format.lower(), place, view)
        try:
            with self._store.write() as tx:
                tx.add_source(source)
        except BaseException:
            jvm.file_io(self._lake.session).deleteFile(view)
            raise
        return source

    def drop(self, name: TableName) -> None:
        views = {s.name: s.view for s in self.known()}
        with self._store.write() as tx:
            tx.drop_source(name)
        if not self._store.catalogs_with(name):  # else a cut shows it
            jvm.file_io(self._lake.session).deleteFile(views[str(name)])

    def write_view(self, name: TableName, version: Version, *, pinned: bool) -> str:
        """The metadata file of a view that has this name and shows the table: at the version, or as it will be."""
        return write_view(self._lake, name, version, pinned=pinned)


def write_view(lake: Lake, name: TableName, version: Version, *, pinned: bool) -> str:
    """Written as Iceberg would, without asking Spark to analyze the text: the columns are known."""
    described = lake.delta.describe(version)
    schema = json.loads(described.facts.schema)
    columns = [f.name for f in described.facts.fields]
    if pinned:
        text = lake.delta.select(version, version, columns)
    else:
        text = f"SELECT {', '.join(map(quote, columns))} FROM {table_sql(version, pinned=False)}"
    folder = f"{lake.warehouse}/{'/'.join(name.parts)}"
    now = int(time.time() * 1000)
    body = {
        "view-uuid": str(uuid.uuid4()),
        "format-version": 1,
        "location": folder,
        "schemas": [schema],
        "current-version-id": 1,
        "versions": [
            {
                "version-id": 1,
                "timestamp-ms": now,
                "schema-id": schema["schema-id"],
                "summary": {"engine-name": "spark", "operation": "create"},
                "default-namespace": name.namespace.split("."),
                "representations": [
                    {"type": "sql", "sql": text, "dialect": "spark"},
                ],
            }
        ],
        "version-log": [{"timestamp-ms": now, "version-id": 1}],
        "properties": {"trickle.source": "delta"},
    }
    location = lake.new_pin() if pinned else f"{folder}/metadata/trickle-source-{uuid.uuid4()}.metadata.json"
    parser = jvm.handles(lake.session).jvm.org.apache.iceberg.view.ViewMetadataParser
    parser.write(parser.fromJson(json.dumps(body)), jvm.file_io(lake.session).newOutputFile(location))
    return location


def _checked(location: str) -> str:
    text = location.strip()
    if not text:
        raise TrickleError("INVALID_SOURCE", "the location is empty")
    if "://" not in text and not text.startswith(("/", "file:")):
        text = os.path.abspath(os.path.expanduser(text))
    text = text.rstrip("/") or text
    if len(text) > _LONGEST:
        raise TrickleError("INVALID_SOURCE", f"the location has more than {_LONGEST} characters: {text[:60]}…")
    return text
