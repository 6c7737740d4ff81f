"""The snapshots and metadata files that a table of the lake has."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime

from spark_trickle.lake.jvm import file_io, handles
from spark_trickle.lake.tables import Lake
from spark_trickle.model import SnapshotFacts

_SNAPSHOT = "org.apache.iceberg.Snapshot"
_ENTRY = "org.apache.iceberg.HistoryEntry"
_FILE = "org.apache.iceberg.io.FileInfo"
_SUFFIX = ".metadata.json"


@dataclass(frozen=True, slots=True)
class Snapshots:
    current: int
    snapshots: tuple[SnapshotFacts, ...]  # in the order they were made
    referred: frozenset[int]  # by tags and branches
    properties: Mapping[str, str]  # of the table
    summary: Mapping[str, str]  # of the current snapshot

    @property
    def files(self) -> int:
        """Data files."""
        return int(self.summary.get("total-data-files") or 0)

    def few_files(self, few: int) -> bool:
        """Whether there are fewer data files than that, and no deletes."""
        told = "total-data-files" in self.summary and "total-delete-files" in self.summary
        return told and self.files < few and self.summary["total-delete-files"] == "0"


def snapshots_of(lake: Lake, location: str) -> Snapshots:
    """Of a table that has one."""
    held, metadata = handles(lake.session), lake.metadata(location)
    listed = metadata.snapshots()
    ids = [int(i) for i in held.pluck(listed, (_SNAPSHOT, "snapshotId"))]
    parents = held.pluck(listed, (_SNAPSHOT, "parentId"))
    times = held.pluck(listed, (_SNAPSHOT, "timestampMillis"))
    parent = {id: int(p) if p else None for id, p in zip(ids, parents, strict=True)}
    head = metadata.currentSnapshot()
    current = int(head.snapshotId())
    line: set[int] = set()
    at: int | None = current
    while at is not None and at in parent and at not in line:
        line.add(at)
        at = parent[at]
    refs = metadata.refs().values()
    referred = frozenset(int(i) for i in held.pluck(refs, ("org.apache.iceberg.SnapshotRef", "snapshotId")))
    moments = [datetime.fromtimestamp(int(t) / 1000, UTC) for t in times]
    # The one after it that is still there: its own successor may have expired.
    until = dict(zip(ids, moments[1:], strict=False))
    # Iceberg's own log knows of rollbacks, too. It begins after the last gap.
    log = metadata.snapshotLog()
    logged = [int(i) for i in held.pluck(log, (_ENTRY, "snapshotId"))]
    since = [datetime.fromtimestamp(int(t) / 1000, UTC) for t in held.pluck(log, (_ENTRY, "timestampMillis"))]
    until |= dict(zip(logged, since[1:], strict=False))
    until.pop(current, None)
    found = (SnapshotFacts(i, m, i in line, until.get(i)) for i, m in zip(ids, moments, strict=True))
    return Snapshots(current, tuple(found), referred, dict(metadata.properties()), dict(head.summary()))


def metadata_files(lake: Lake, location: str) -> list[tuple[str, datetime]]:
    """The metadata files beside this one, each with the time it was written; none where storage cannot be listed."""
    listed = listed_files(lake, location.rpartition("/")[0])
    return [(path, at) for path, at in listed if path.endswith(_SUFFIX)]


def listed_files(lake: Lake, folder: str) -> list[tuple[str, datetime]]:
    """The files in a folder and below, each with the time it was written; none where storage cannot be listed."""
    from py4j.protocol import Py4JError

    held = handles(lake.session)
    try:
        listed = held.jvm.java.util.ArrayList()
        held.iterables.addAll(listed, file_io(lake.session).listPrefix(folder))
    except Py4JError:
        return []
    paths = held.pluck(listed, (_FILE, "location"))
    times = held.pluck(listed, (_FILE, "createdAtMillis"))
    return [(path, datetime.fromtimestamp(int(at) / 1000, UTC)) for path, at in zip(paths, times, strict=True)]
