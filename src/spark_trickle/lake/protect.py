"""Frontiers protected by tags: a source's snapshot that a stream table reflects does not expire while it is needed.

One commit per source and call at the most, for all stream tables together; none while every frontier is the head of
main (policy `lazy`). A tag changes no row, so the pointer that the commit makes goes into the frontiers that named the
pointer before it: "nothing changed" stays a comparison of pointers. A source that refuses tags is read unprotected.
"""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Collection, Iterable
from dataclasses import dataclass, field

from spark_trickle.catalog.store import CatalogStore
from spark_trickle.lake import jvm
from spark_trickle.lake.table_history import PREFIX, tagged_snapshots
from spark_trickle.lake.tables import Lake
from spark_trickle.model import InputKind, Pointer, StreamTable, TableName

_log = logging.getLogger(__name__)

FOREVER = 2**63 - 1
_PAUSE = 600.0  # seconds until a source that refused is asked again
_TRIES = 3  # a commit meets those of other engines and processes


@dataclass(frozen=True, slots=True)
class TagChange:
    add: frozenset[int]
    remove: frozenset[int]

    def __bool__(self) -> bool:
        return bool(self.add or self.remove)


def tags_to_change(policy: str, frontiers: Collection[int], head: int | None, tagged: Collection[int]) -> TagChange:
    """Which snapshots to tag and which tags to remove. Pure."""
    needed = set() if policy == "off" else set(frontiers)
    if policy == "lazy" and head is not None:
        needed.discard(head)
    return TagChange(frozenset(needed - set(tagged)), frozenset(set(tagged) - needed))


def sources_of(tables: Iterable[StreamTable]) -> frozenset[TableName]:
    return frozenset(d.input for t in tables for d in t.reads if d.kind is InputKind.SOURCE)


@dataclass(slots=True)
class Protector:
    store: CatalogStore
    lake: Lake
    policy: str  # lazy, always, off
    _refused: dict[TableName, float] = field(default_factory=dict)  # when; it is asked again later
    _lock: threading.Lock = field(default_factory=threading.Lock)  # two threads would undo each other's tags

    def protect(self, sources: Collection[TableName]) -> None:
        """Bring the tags of these sources in line with the frontiers of all stream tables."""
        now = time.monotonic()
        wanted = [s for s in sources if now - self._refused.get(s, -_PAUSE) >= _PAUSE]
        if wanted:
            with self._lock:
                self._protect_all(wanted)

    def _protect_all(self, wanted: Collection[TableName]) -> None:
        frontiers = self._frontiers()
        for source, pointer in self.store.pointers(names=wanted).items():
            if pointer.is_view:
                continue
            try:
                self._try_to_protect(pointer, frontiers.get(source, set()))
                self._refused.pop(source, None)
            except Exception as error:
                # Read-only, somebody else's, gone in between: it is read all the same.
                reason = jvm.why(error)
                if source not in self._refused:
                    _log.warning("%s is not protected from snapshot expiry: %s", source, reason)
                self._refused[source] = time.monotonic()
                # Every time: an alert that is not seen again for an hour is taken for over.
                with self.store.write() as tx:
                    tx.alerts.raise_("UNPROTECTED", f"snapshots of {source} cannot be tagged: {reason}", str(source))

    def _frontiers(self) -> dict[TableName, set[int]]:
        """The snapshots of each source that stream tables reflect."""
        found: dict[TableName, set[int]] = {}
        for table in self.store.stream_tables():
            for part in (table, *table.states):
                for d in part.dependencies:
                    if d.kind is InputKind.SOURCE and d.snapshot_id is not None:
                        found.setdefault(d.input, set()).add(d.snapshot_id)
        return found

    def _try_to_protect(self, pointer: Pointer, frontiers: Collection[int]) -> None:
        for left in reversed(range(_TRIES)):
            try:
                self._protect(pointer, frontiers)
                return
            except Exception:
                if not left:
                    raise

    def _protect(self, pointer: Pointer, frontiers: Collection[int]) -> None:
        if not self._change(self.lake.metadata(pointer.location), frontiers):
            return
        table = self.lake.load(pointer.name)
        # Asked after the table was loaded: a publish in between has its tag, and its frontier, here too.
        change = self._change(table.operations().current(), self._frontiers().get(pointer.name, set()))
        if not change:
            return
        commit = table.manageSnapshots()
        for snapshot in sorted(change.add):
            tag = f"{PREFIX}{snapshot}"
            commit = commit.createTag(tag, snapshot).setMaxRefAgeMs(tag, FOREVER)
        for snapshot in sorted(change.remove):
            commit = commit.removeTag(f"{PREFIX}{snapshot}")
        commit.commit()
        made = table.operations().current()
        earlier = made.previousFiles()
        if earlier.size():
            with self.store.write() as tx:
                tx.move_frontiers(pointer.name, earlier.get(earlier.size() - 1).file(), made.metadataFileLocation())

    def _change(self, metadata: jvm.Java, frontiers: Collection[int]) -> TagChange:
        head = metadata.currentSnapshot()
        tagged = tagged_snapshots(jvm.handles(self.lake.session).text(metadata.refs().keySet()))
        change = tags_to_change(self.policy, frontiers, None if head is None else head.snapshotId(), tagged)
        if not change.add:
            return change
        # A frontier that is gone cannot be tagged; the next refresh says so.
        return TagChange(frozenset(s for s in change.add if metadata.snapshot(s) is not None), change.remove)
