"""What commits of a Delta table did, from their texts. Pure: the Delta protocol fixes their format."""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

Actions = dict[str, Any]  # one line of a commit, or the action in it
Key = tuple[str, str]  # of a file: its path and its deletion vector


@dataclass(frozen=True, slots=True)
class Net:
    """Files whose rows make up a change: those of `added` less those of `removed`."""

    added: tuple[Actions, ...]
    removed: tuple[Actions, ...]

    def __bool__(self) -> bool:
        return bool(self.added or self.removed)

    @property
    def files(self) -> tuple[Actions, ...]:
        return (*self.added, *self.removed)

    @property
    def bytes(self) -> int:
        return sum(int(f.get("size") or 0) for f in self.files)


@dataclass(frozen=True, slots=True)
class Commits:
    """What the commits after one version up to another did.

    The change can be had in two ways, of which one may read much less than the other: `by_change` sums up the files
    that commits added and removed because rows changed (not those that OPTIMIZE rewrote: their `dataChange` is false);
    `by_files` compares the files of the two versions.
    """

    by_change: Net
    by_files: Net
    left: tuple[str, ...]  # paths that the old version has and the new one has not
    passing: tuple[str, ...]  # further paths in `by_change` that the new version has not
    change_files: tuple[str, ...]  # of the change data feed
    metadata: tuple[Actions, ...]

    @property
    def changed(self) -> bool:
        return bool(self.by_change and self.by_files)


def fold(commits: Iterable[Sequence[Actions]]) -> Commits:
    """The net effect of commits, given in order."""
    changed: dict[Key, int] = {}
    first: dict[Key, bool] = {}  # whether the first, and the last, thing that happened to a file is that it was added
    last: dict[Key, bool] = {}
    known: dict[Key, Actions] = {}
    change_files: list[str] = []
    metadata: list[Actions] = []
    restated = False
    for commit in commits:
        removes = any("remove" in action for action in commit)
        for action in commit:
            if "metaData" in action:
                metadata.append(action["metaData"])
            elif "cdc" in action:
                change_files.append(action["cdc"]["path"])
            elif "add" in action or "remove" in action:
                added = "add" in action
                file = action["add" if added else "remove"]
                key = (file["path"], _vector(file))
                first.setdefault(key, added)
                last[key] = added
                if added or key not in known:  # a removal does not always say all of it
                    known[key] = file
                if file["dataChange"]:
                    changed[key] = changed.get(key, 0) + (1 if added else -1)
                elif added and not removes:
                    restated = True  # a file that was there before, with other statistics
    by_change = Net(
        tuple(known[k] for k, n in changed.items() if n > 0), tuple(known[k] for k, n in changed.items() if n < 0)
    )
    by_files = Net(
        tuple(known[k] for k in last if first[k] and last[k]),
        tuple(known[k] for k in last if not first[k] and not last[k]),
    )
    if any(abs(n) > 1 for n in changed.values()) and not restated:
        by_change = by_files  # RESTORE brings a file a second time: a list of files cannot say that
    present = {path for (path, _), added in last.items() if added}
    left = {path: None for (path, _), added in first.items() if not added and path not in present}
    passing = {f["path"]: None for f in by_change.files if f["path"] not in present and f["path"] not in left}
    return Commits(
        by_change=by_change,
        by_files=by_change if restated else by_files,
        left=tuple(left),
        passing=tuple(passing),
        change_files=tuple(change_files),
        metadata=tuple(metadata),
    )


def _vector(file: Actions) -> str:
    vector = file.get("deletionVector")
    if not vector:
        return ""
    return f"{vector['storageType']}{vector['pathOrInlineDv']}@{vector.get('offset', '')}"


def live_rows(file: Actions) -> int | None:
    """Rows of a file, if its statistics say."""
    stats = json.loads(file.get("stats") or "{}")
    if "numRecords" not in stats:
        return None
    return int(stats["numRecords"]) - int((file.get("deletionVector") or {}).get("cardinality", 0))
