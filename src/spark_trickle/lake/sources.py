"""Tables outside the lake that it knows by names of its own.

The name belongs to a view in the lake, so nothing else can have it, and SQL reads the table by it. In a cut, and for
definitions, the name means the table at one version instead: `CutPointers` puts the version's pointer over the view's,
and an attempt registers a view of that version (`OutsideKind`, `Attempt.register`).
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field

from spark_trickle.catalog.store import CatalogStore
from spark_trickle.errors import TrickleError
from spark_trickle.lake import jvm
from spark_trickle.lake.tables import Lake
from spark_trickle.model import Pointer, Source, TableName

_LONGEST = 800  # of a location: with version and table id it has to fit into the catalog


@dataclass(slots=True)
class CutPointers(Mapping[TableName, Pointer]):
    """The pointers of a cut. A source outside the catalog is looked at when it is first asked for, and then stays."""

    lake: Mapping[TableName, Pointer]
    sources: Mapping[TableName, Source]
    current: Callable[[Source], str | None]
    _known: dict[TableName, Pointer | None] = field(default_factory=dict)

    def __getitem__(self, name: TableName) -> Pointer:
        if name not in self.sources:
            return self.lake[name]
        if name not in self._known:
            location = self.current(self.sources[name])
            self._known[name] = None if location is None else Pointer(name, location, is_view=False)
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
        return CutPointers(found, live, self._current) if live else found

    def _current(self, source: Source) -> str | None:
        return self._lake.outside[source.format].current(source.location)

    def live(self, pointers: Mapping[TableName, Pointer]) -> dict[TableName, Source]:
        """The sources whose names are still theirs: a view can be dropped or replaced in SQL."""
        found = {}
        for source in self.known():
            name = TableName.of(source.name)
            pointer = pointers.get(name)
            if pointer is not None and pointer.location == source.view:
                found[name] = source
        return found

    def create(self, name: TableName, format: str, location: str) -> Source:
        kind = self._lake.outside.get(format.lower())
        if kind is None:
            raise TrickleError(
                "INVALID_SOURCE", f"{format!r} is not a format of a source; there are: {', '.join(self._lake.outside)}"
            )
        place = _checked(location)
        kind.require(f"{name} would be a {kind.title} table")
        try:
            now = kind.current(place)
            if now is None:
                raise TrickleError("INVALID_SOURCE", f"there is no {kind.title} table at {place}")
            view = kind.write_view(name, now, pinned=False)
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

    def freeze(self, pointers: Mapping[TableName, Pointer]) -> dict[TableName, Pointer]:
        """Views of the live sources at the versions they have now, for one attempt or cut alone."""
        found = {}
        for name, source in self.live(pointers).items():
            kind = self._lake.outside[source.format]
            now = kind.current(source.location) if kind.available(self._lake.session) else None
            if now is not None:
                found[name] = Pointer(name, kind.write_view(name, now, pinned=True), is_view=True)
        return found

    def drop(self, name: TableName) -> None:
        views = {s.name: s.view for s in self.known()}
        with self._store.write() as tx:
            tx.drop_source(name)
        if not self._store.catalogs_with(name):  # else a cut shows it
            jvm.file_io(self._lake.session).deleteFile(views[str(name)])


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
