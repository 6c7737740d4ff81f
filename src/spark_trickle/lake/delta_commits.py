"""What commits of a Delta table did, from their texts. Pure: the Delta protocol fixes their format."""

from __future__ import annotations

import json
from collections import OrderedDict
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

Actions = dict[str, Any]  # one line of a commit, or the action in it


@dataclass(frozen=True, slots=True)
class Commits:
    """What the commits after one version up to another did.

    `added` and `removed` are the files that changed rows, in the net: the change is the rows of the one less the rows
    of the other. Rewritten files whose rows stay (`dataChange` false, as OPTIMIZE writes them) are not among them.
    """

    added: tuple[Actions, ...]
    removed: tuple[Actions, ...]
    left: tuple[str, ...]  # paths that the old version has and the new one has not
    passing: tuple[str, ...]  # other paths whose rows are in the change and that the new version has not
    change_files: tuple[str, ...]
    appends_only: bool
    metadata: tuple[Actions, ...]

    @property
    def changed(self) -> bool:
        return bool(self.added or self.removed)


def fold(actions: Iterable[Actions]) -> Commits:
    """The net effect of commits, given in order.

    A file with other deleted rows is another file: its identity is its path and its deletion vector.
    """
    net: OrderedDict[tuple[str, str], int] = OrderedDict()
    known: dict[tuple[str, str], Actions] = {}
    last: dict[tuple[str, str], bool] = {}  # added, not removed
    first: dict[tuple[str, str], bool] = {}
    change_files: list[str] = []
    metadata: list[Actions] = []
    removes = False
    for action in actions:
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
            # What the file holds is in both; partition values are not always in a removal.
            if added or key not in known:
                known[key] = file
            if file["dataChange"]:
                net[key] = net.get(key, 0) + (1 if added else -1)
                removes = removes or not added
    changed = {key: weight for key, weight in net.items() if weight}
    plus = [key for key, weight in changed.items() if weight > 0]
    minus = [key for key, weight in changed.items() if weight < 0]
    present = {path for (path, _), added in last.items() if added}
    left = {path: None for (path, _), added in first.items() if not added and path not in present}
    passing = {path: None for path, _ in changed if path not in present and path not in left}
    return Commits(
        added=tuple(known[k] for k in plus),
        removed=tuple(known[k] for k in minus),
        left=tuple(left),
        passing=tuple(passing),
        change_files=tuple(change_files),
        appends_only=not removes and not change_files,
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
