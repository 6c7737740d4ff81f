"""Which files differ between two snapshots of one table: the manifest lists are compared, not the file lists.

Manifests in both lists are not opened, except delete manifests (a delete file in a manifest that both snapshots have
may apply to a data file that only one of them has) and the data manifests that hold a file whose deletes changed.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from spark_trickle.lake import jvm
from spark_trickle.lake.jvm import Java, handles

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_CONTENT = "org.apache.iceberg.ContentFile"
_DELETE = "org.apache.iceberg.DeleteFile"
_INDEX = "org.apache.iceberg.deletes.PositionDeleteIndex"
_LOCATION = (_CONTENT, "location")
_SEQUENCE = (_CONTENT, "dataSequenceNumber")
_REFERENCED = ("org.apache.iceberg.util.ContentFileUtil", "referencedDataFileLocation", _DELETE)


@dataclass(frozen=True, slots=True)
class DeleteState:
    """A delete file. A deletion vector is a blob inside a file, so its offset is part of its identity."""

    path: str
    offset: str
    rows: int
    size: int
    is_vector: bool
    sequence: int
    file: Java = field(compare=False)

    @property
    def by_value(self) -> bool:
        """An equality delete: it names no positions."""
        return not self.is_vector and self.file.equalityFieldIds() is not None


@dataclass(frozen=True, slots=True)
class FileState:
    """A data file with the delete files that apply to it at one snapshot."""

    path: str
    rows: int
    size: int
    first_row_id: int | None
    spec_id: int
    deletes: frozenset[DeleteState]
    file: Java = field(compare=False)

    @property
    def live_rows(self) -> int | None:
        """Rows that a reader sees, when metadata tells: no deletes, or one deletion vector."""
        if not self.deletes:
            return self.rows
        if len(self.deletes) == 1:
            (only,) = self.deletes
            return self.rows - only.rows if only.is_vector else None
        return None

    @property
    def bytes_read(self) -> int:
        return self.size + sum(d.size for d in self.deletes)


@dataclass(frozen=True, slots=True)
class FileChanges:
    """`touched` holds data files in both snapshots, as they were and as they are, whose deletes differ."""

    added: tuple[FileState, ...]
    removed: tuple[FileState, ...]
    touched: tuple[tuple[FileState, FileState], ...]


class FileReader:
    """Reads manifests and plans of one pinned table."""

    def __init__(self, session: SparkSession, table: Java) -> None:
        self._h = handles(session)
        self._jvm = self._h.jvm
        self._table = table
        self._io = table.io()
        self._specs = table.specs()
        self._manifests = jvm.manifests(session)
        self._schema_text: str | None = None
        self._spec_text: dict[int, str] = {}
        self._everything: Java = None
        self._no_deletes: Java = None

    def changes(self, old: int, new: int) -> FileChanges:
        """The files that differ between two snapshots."""
        before, after = self._table.snapshot(old), self._table.snapshot(new)
        old_data, new_data = before.dataManifests(self._io), after.dataManifests(self._io)
        old_files = self._read_data(self._minus(old_data, new_data))
        new_files = self._read_data(self._minus(new_data, old_data))
        if self._came_again(old_files, new_files):
            return _compare(self.plan(old), self.plan(new))
        added, removed = self._files_minus(new_files, old_files), self._files_minus(old_files, new_files)

        old_deletes, new_deletes = before.deleteManifests(self._io), after.deleteManifests(self._io)
        if old_deletes.isEmpty() and new_deletes.isEmpty():
            return FileChanges(self._states(added, {}), self._states(removed, {}), ())
        shared = self._read_deletes(self._common(new_deletes, old_deletes))
        gone = self._read_deletes(self._minus(old_deletes, new_deletes))
        come = self._read_deletes(self._minus(new_deletes, old_deletes))
        targets = [self._h.pluck(side, _REFERENCED) for side in (shared, gone, come)]
        if any("" in side for side in targets):
            # An equality delete, or position deletes of a whole partition: Iceberg's index says where they apply.
            return _compare(self.plan(old), self.plan(new))

        gone_keys, come_keys = self._delete_keys(gone), self._delete_keys(come)
        changed = {t for t, k in zip(targets[1], gone_keys, strict=True) if k not in set(come_keys)}
        changed |= {t for t, k in zip(targets[2], come_keys, strict=True) if k not in set(gone_keys)}
        added_paths, removed_paths = (self._h.pluck(side, _LOCATION) for side in (added, removed))
        changed -= {*added_paths, *removed_paths}
        touched = self._find(changed, new_files, self._common(new_data, old_data))

        sides = [(shared, targets[0]), (gone, targets[1]), (come, targets[2])]
        kept = {*changed, *removed_paths}
        deletes_old = self._deletes_by_target([sides[0], sides[1]], kept)
        deletes_new = self._deletes_by_target([sides[0], sides[2]], {*changed, *added_paths})
        pairs = zip(self._states(touched, deletes_old), self._states(touched, deletes_new), strict=True)
        return FileChanges(
            self._states(added, deletes_new),
            self._states(removed, deletes_old),
            tuple((was, now) for was, now in pairs if was.deletes != now.deletes),
        )

    def lookup(self, snapshot: int, paths: set[str]) -> tuple[FileState, ...] | None:
        """These data files at a snapshot; None when it has deletes that name no data file."""
        at = self._table.snapshot(snapshot)
        deletes = self._read_deletes(at.deleteManifests(self._io))
        targets = self._h.pluck(deletes, _REFERENCED)
        if "" in targets:
            return None
        files = self._find(paths, self._jvm.java.util.ArrayList(), at.dataManifests(self._io))
        return self._states(files, self._deletes_by_target([(deletes, targets)], paths))

    def are_fresh(self, old: int, new: int, changes: FileChanges) -> bool:
        """Whether the files that differ say that none of their rows was carried over from another file (v3).

        Those of stream tables do. A row is then told by its file and its place in it, so no row is on both sides.
        """
        states = (*changes.added, *changes.removed)
        if any(s.first_row_id is None for s in states) or len({s.path for s in states}) < len(states):
            return False
        before = self._table.snapshot(old).dataManifests(self._io)
        after = self._table.snapshot(new).dataManifests(self._io)
        paths = self._jvm.java.util.HashSet([s.path for s in states])
        manifests = self._jvm.java.util.ArrayList(self._minus(before, after))
        manifests.addAll(self._minus(after, before))
        return bool(self._manifests.fresh(manifests, self._table, paths))

    def plan(self, snapshot: int) -> tuple[FileState, ...]:
        """All files of a snapshot, as Iceberg plans them."""
        tasks = self._jvm.java.util.ArrayList()
        planned = self._table.newScan().useSnapshot(snapshot).planFiles()
        self._h.iterables.addAll(tasks, planned)
        planned.close()
        if not tasks.size():
            return ()
        task = "org.apache.iceberg.FileScanTask"
        files, deletes = self._jvm.java.util.ArrayList(), {}
        counts = (
            self._h.pluck(tasks, (task, "deletes"), ("java.util.List", "size")) if self._has_deletes(snapshot) else []
        )
        for i in range(tasks.size()):
            item = tasks.get(i)
            files.add(item.file())
            if counts and counts[i] != "0":
                deletes[item.file().location()] = frozenset(self._delete_states(item.deletes()))
        return self._states(files, deletes)

    def partitions(self, states: Sequence[FileState]) -> list[str]:
        """The partition of each file, as text that is the same for the same partition."""
        items = self._jvm.java.util.ArrayList()
        for state in states:
            items.add(state.file)
        values = self._h.pluck(items, (_CONTENT, "partition"))
        return [f"{state.spec_id} {value}" for state, value in zip(states, values, strict=True)]

    def task(self, state: FileState) -> Java:
        """The scan task that reads a file at its state."""
        iceberg = self._jvm.org.apache.iceberg
        if self._schema_text is None:
            self._schema_text = iceberg.SchemaParser.toJson(self._table.schema())
            always = iceberg.expressions.Expressions.alwaysTrue()
            self._everything = iceberg.expressions.ResidualEvaluator.unpartitioned(always)
            self._no_deletes = self._h.array(iceberg.DeleteFile)
        spec = self._spec_text.get(state.spec_id)
        if spec is None:
            spec = iceberg.PartitionSpecParser.toJson(self._specs.get(state.spec_id))
            self._spec_text[state.spec_id] = spec
        deletes = self._no_deletes
        if state.deletes:
            deletes = self._h.array(iceberg.DeleteFile, *(d.file for d in state.deletes))
        return iceberg.BaseFileScanTask(state.file, deletes, self._schema_text, spec, self._everything)

    def compared_columns(self, pairs: Sequence[tuple[FileState, FileState]]) -> tuple[str, ...] | None:
        """The columns that equality deletes of these files compare: a reader needs them. None: one is not shown."""
        found: dict[str, None] = {}
        schema = self._table.schema()
        for delete in {d for pair in pairs for state in pair for d in state.deletes if not d.is_vector}:
            for id in delete.file.equalityFieldIds() or ():
                name = schema.findColumnName(id)
                if name is None:
                    return None
                found[name] = None
        return tuple(found)

    def position_index(self, state: FileState) -> Java:
        """The deleted positions of a file as Iceberg's PositionDeleteIndex (position deletes and vectors only)."""
        return self._index(state.path, state.deletes)

    def differing_positions(self, was: FileState, now: FileState) -> tuple[list[int], list[int]]:
        """Positions that are deleted on the new side only, and on the old side only; no equality deletes."""
        before, after = self.position_index(was), self.position_index(now)
        return self._positions_minus(after, before), self._positions_minus(before, after)

    def _positions_minus(self, index: Java, other: Java) -> list[int]:
        found = self._jvm.java.util.ArrayList()
        add = self._h.handle("java.util.Collection", "add", "java.lang.Object").bindTo(found)
        index.forEach(self._h.as_interface(add, "java.util.function.LongConsumer"))
        deleted = self._h.handle(_INDEX, "isDeleted", "long").bindTo(other)
        found.removeIf(self._h.as_interface(deleted, "java.util.function.Predicate"))
        return [int(p) for p in self._h.text(found)]

    def _index(self, path: str, states: Iterable[DeleteState]) -> Java:
        inputs, deletes = self._jvm.java.util.HashMap(), self._jvm.java.util.ArrayList()
        for delete in states:
            inputs.put(delete.file, self._io.newInputFile(delete.path))
            deletes.add(delete.file)
        loader = self._jvm.org.apache.iceberg.data.BaseDeleteLoader(self._h.lookup_function(inputs))
        return loader.loadPositionDeletes(deletes, path)

    # -- reading ---------------------------------------------------------------------------------------------

    def _has_deletes(self, snapshot: int) -> bool:
        return not self._table.snapshot(snapshot).deleteManifests(self._io).isEmpty()

    def _read_data(self, manifests: Java) -> Java:
        return self._manifests.dataFiles(manifests, self._table)

    def _read_deletes(self, manifests: Java) -> Java:
        return self._manifests.deleteFiles(manifests, self._table)

    def _find(self, paths: set[str], near: Java, manifests: Java) -> Java:
        """The data files of these paths: first among those already read. Paths not found are of dangling deletes."""
        if not paths:
            return self._jvm.java.util.ArrayList()
        found = self._jvm.java.util.ArrayList(near)
        found.removeIf(self._h.others(paths, _LOCATION))
        if found.size() < len(paths):
            wanted = self._jvm.java.util.HashSet(self._list(paths - set(self._h.pluck(found, _LOCATION))))
            found.addAll(self._manifests.named(manifests, self._table, wanted))
        return found

    def _deletes_by_target(
        self, sides: Sequence[tuple[Java, list[str]]], paths: set[str]
    ) -> dict[str, frozenset[DeleteState]]:
        chosen, targets = self._jvm.java.util.ArrayList(), []
        for files, referenced in sides:
            for i, path in enumerate(referenced):
                if path in paths:
                    chosen.add(files.get(i))
                    targets.append(path)
        found: dict[str, list[DeleteState]] = {}
        for path, state in zip(targets, self._delete_states(chosen), strict=True):
            found.setdefault(path, []).append(state)
        # A deletion vector holds all deleted positions: it replaces older position deletes of its file.
        return {p: frozenset([d for d in all_ if d.is_vector] or all_) for p, all_ in found.items()}

    def _came_again(self, old_files: Java, new_files: Java) -> bool:
        """Whether a file was removed and added again (`add_files` can): other deletes apply to it than before."""
        if not old_files.size() or not new_files.size():
            return False
        was, now = (
            dict(zip(self._h.pluck(side, _LOCATION), self._h.pluck(side, _SEQUENCE), strict=True))
            for side in (old_files, new_files)
        )
        return any(now.get(path, sequence) != sequence for path, sequence in was.items())

    # -- facts in bulk ---------------------------------------------------------------------------------------

    def _states(self, files: Java, deletes: dict[str, frozenset[DeleteState]]) -> tuple[FileState, ...]:
        if not files.size():
            return ()
        data = "org.apache.iceberg.DataFile"
        items = self._jvm.java.util.ArrayList(files)
        paths = self._h.pluck(items, _LOCATION)
        rows = self._h.pluck(items, (_CONTENT, "recordCount"))
        sizes = self._h.pluck(items, (_CONTENT, "fileSizeInBytes"))
        firsts = self._h.pluck(items, (data, "firstRowId"))
        specs = self._h.pluck(items, (_CONTENT, "specId"))
        sequences = self._h.pluck(items, _SEQUENCE) if deletes else []
        return tuple(
            FileState(
                path=path,
                rows=int(rows[i]),
                size=int(sizes[i]),
                first_row_id=int(firsts[i]) if firsts[i] else None,
                spec_id=int(specs[i]),
                # A delete does not apply to a file that came after it.
                deletes=frozenset(d for d in deletes.get(path, ()) if d.sequence >= int(sequences[i] or 0)),
                file=items.get(i),
            )
            for i, path in enumerate(paths)
        )

    def _delete_states(self, files: Java) -> list[DeleteState]:
        if not files.size():
            return []
        rows = self._h.pluck(files, (_CONTENT, "recordCount"))
        sizes = self._h.pluck(files, (_CONTENT, "fileSizeInBytes"))
        formats = self._h.pluck(files, (_CONTENT, "format"))
        sequences = self._h.pluck(files, _SEQUENCE)
        return [
            DeleteState(
                path, offset, int(rows[i]), int(sizes[i]), formats[i] == "PUFFIN", int(sequences[i] or 0), files.get(i)
            )
            for i, (path, offset) in enumerate(self._delete_keys(files))
        ]

    def _delete_keys(self, files: Java) -> list[tuple[str, str]]:
        paths, offsets = self._h.pluck(files, _LOCATION), self._h.pluck(files, (_DELETE, "contentOffset"))
        return list(zip(paths, offsets, strict=True))

    def _list(self, items: Iterable[str]) -> Java:
        made = self._jvm.java.util.ArrayList()
        for item in items:
            made.add(item)
        return made

    def _minus(self, items: Java, others: Java) -> Java:
        """Manifests that are only in the first list; they are equal by path."""
        left = self._jvm.java.util.ArrayList(items)
        left.removeAll(self._jvm.java.util.HashSet(others))
        return left

    def _files_minus(self, items: Java, others: Java) -> Java:
        """Data files that are only in the first DataFileSet; they are equal by location."""
        left = self._jvm.org.apache.iceberg.util.DataFileSet.create()  # DataFileSet.of() makes a read-only one
        left.addAll(items)
        left.removeAll(others)
        return left

    def _common(self, items: Java, others: Java) -> Java:
        left = self._jvm.java.util.ArrayList(items)
        left.retainAll(self._jvm.java.util.HashSet(others))
        return left


def _compare(before: tuple[FileState, ...], after: tuple[FileState, ...]) -> FileChanges:
    was, now = {f.path: f for f in before}, {f.path: f for f in after}
    return FileChanges(
        tuple(f for p, f in now.items() if p not in was),
        tuple(f for p, f in was.items() if p not in now),
        tuple((was[p], f) for p, f in now.items() if p in was and was[p].deletes != f.deletes),
    )
