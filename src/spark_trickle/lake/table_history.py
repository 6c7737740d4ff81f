"""The commits of a table as its metadata tells them: when, and how many rows and files came and went.

Figures are those of Iceberg's snapshot summaries, which the writer wrote. A commit that rewrites files to change some
of their rows (copy-on-write) counts all rows of these files as added and deleted, so figures are upper bounds.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any

from spark_trickle.lake.cache import LruCache
from spark_trickle.lake.metadata_files import MetadataFiles

PREFIX = "trickle_frontier_"  # of Trickle's tags; the snapshot's id follows
_MOST_KEPT = 2000  # snapshots of a history that is kept


@dataclass(frozen=True, slots=True)
class Commit:
    """One snapshot."""

    id: int
    parent: int | None
    at: datetime
    operation: str  # append, overwrite, delete, replace
    rows_added: int = 0
    rows_deleted: int = 0
    files_added: int = 0  # with data or deletes
    files_removed: int = 0
    rows: int | None = None  # of the whole table after it; None: it is not told

    @property
    def changes_rows(self) -> bool:
        """A compaction rewrites files, and leaves all rows."""
        return self.operation != "replace"


@dataclass(frozen=True, slots=True)
class TableHistory:
    """`numbered`: snapshots are versions that count up, and their commits are not told here."""

    format: str
    uuid: str
    head: int | None  # None: EMPTY
    commits: Mapping[int, Commit] = field(default_factory=dict)
    tagged: frozenset[int] = frozenset()  # snapshots that Trickle's tags protect
    numbered: bool = False

    def has(self, snapshot: int) -> bool:
        return self.numbered or snapshot in self.commits

    def since(self, snapshot: int | None) -> tuple[Commit, ...] | None:
        """The commits after a snapshot (None: EMPTY) up to the head, the newest first.

        None: the snapshot is no ancestor of the head, or commits in between have expired.
        """
        found: list[Commit] = []
        at = self.head
        while at is not None and at != snapshot:
            commit = self.commits.get(at)
            if commit is None:
                return None
            found.append(commit)
            at = commit.parent
        return tuple(found) if at == snapshot else None


class TableHistories:
    """Shared by threads."""

    def __init__(self, files: MetadataFiles) -> None:
        self._files = files
        self._kept = LruCache[str, TableHistory](size=128)

    def of(self, location: str) -> TableHistory:
        kept = self._kept.find(location)
        if kept is None:
            kept = history_of(self._files.metadata(location))
            if len(kept.commits) <= _MOST_KEPT:
                self._kept.put(location, kept)
        return kept


def history_of(metadata: Mapping[str, Any]) -> TableHistory:
    """Of Iceberg's table metadata."""
    head = metadata.get("current-snapshot-id")
    return TableHistory(
        format=f"iceberg v{metadata['format-version']}",
        uuid=str(metadata.get("table-uuid", "")),
        head=None if head in (None, -1) else int(head),
        commits={c.id: c for c in map(_commit, metadata.get("snapshots") or ())},
        tagged=tagged_snapshots(metadata.get("refs") or ()),
    )


def tagged_snapshots(refs: Iterable[str]) -> frozenset[int]:
    """
    >>> sorted(tagged_snapshots(["main", "trickle_frontier_12", "trickle_frontier_x"]))
    [12]
    """
    named = (name.removeprefix(PREFIX) for name in refs if name.startswith(PREFIX))
    return frozenset(int(number) for number in named if number.isdigit())


def _commit(snapshot: Mapping[str, Any]) -> Commit:
    summary = snapshot.get("summary") or {}

    def number(*keys: str) -> int:
        return sum(int(summary.get(key, 0)) for key in keys)

    total = summary.get("total-records")
    # A deletion vector is replaced by one that has its positions, too.
    deleted = number("deleted-records", "added-position-deletes", "added-equality-deletes")
    return Commit(
        id=int(snapshot["snapshot-id"]),
        parent=snapshot.get("parent-snapshot-id"),
        at=datetime.fromtimestamp(snapshot["timestamp-ms"] / 1000, UTC),
        operation=str(summary.get("operation", "")),
        rows_added=number("added-records"),
        rows_deleted=max(deleted - number("removed-position-deletes"), 0),
        files_added=number("added-data-files", "added-delete-files"),
        files_removed=number("deleted-data-files", "removed-delete-files"),
        rows=None if total is None else max(int(total) - number("total-position-deletes"), 0),
    )


def summed(commits: Iterable[Commit]) -> tuple[int, int, int, int]:
    """Rows added and deleted, files added and removed, of the commits that change rows."""
    told = [c for c in commits if c.changes_rows]
    return (
        sum(c.rows_added for c in told),
        sum(c.rows_deleted for c in told),
        sum(c.files_added for c in told),
        sum(c.files_removed for c in told),
    )
