"""The change feed: exact row changes between two snapshots of one Iceberg table, as a Z-set.

Works for any pair of snapshots (merge-on-read, copy-on-write, rollback, branch switch, upgrade) because it compares
two states. Only files that differ are read:

- rows of added files count +1 and rows of removed files -1; when there are both, rows that were only carried over are
  cancelled by row version (`_row_id`, `_last_updated_sequence_number`) on v3, else as multisets. Files that say that
  none of their rows comes from another file need no comparison;
- a data file in both snapshots whose deletes differ gives the rows that are deleted on one side only. A row at a
  position of a data file never changes, so (`_file`, `_pos`) tells them apart;
- snapshots that only compact (`replace`) are skipped: the feed is the sum over the stretches between them.
"""

from __future__ import annotations

import json
import uuid
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

from spark_trickle.errors import TrickleError
from spark_trickle.lake.driver_reads import read_changed
from spark_trickle.lake.files import FileChanges, FileReader, FileState
from spark_trickle.lake.jvm import Java, handles, with_positions
from spark_trickle.spark.analyze import type_text
from spark_trickle.spark.names import quote
from spark_trickle.spark.runtime import Local, register_functions
from spark_trickle.sql.algebra import WEIGHT
from spark_trickle.sql.identity import identity
from spark_trickle.sql.scalar import column
from spark_trickle.thresholds import DRIVER_BYTES, DRIVER_FILES, INDEXED_FILES, INDEXED_POSITIONS, LOCAL, MANY_STRETCHES

if TYPE_CHECKING:
    from types import TracebackType

    from pyspark.sql import DataFrame, SparkSession

_CATALOG = "default_rewrite_catalog"  # Iceberg's catalog of staged scans; its source registers it on demand
Staged = tuple[Java, Java, str]  # of a staged scan: how to forget it
_VERSION = ("_row_id", "_last_updated_sequence_number")


@dataclass(slots=True)
class Feed:
    """The changes. `frame` has the asked columns and their `weight_name` (BIGINT); it is None when nothing changed.

    `rows` is the number of changed rows when metadata alone tells it. `append_only`: no weight is negative;
    `has_old`: some may be. Rows of one content may occur with several weights: only their sum has a meaning.
    Staged scans are held until `release()`.
    """

    frame: DataFrame | None
    rows: int | None
    append_only: bool
    kind: str
    files_read: int = 0
    bytes_read: int = 0
    local: Local | None = None  # `frame`, if it is on the driver
    _staged: list[Staged] = field(default_factory=list, repr=False)

    @property
    def has_old(self) -> bool:
        return not self.append_only

    @classmethod
    def sum(cls, parts: Sequence[Feed]) -> Feed:
        """One feed of several, which are released with it."""
        found = [p for p in parts if p.frame is not None]
        if len(found) == 1:
            return found[0]
        rows = [p.rows for p in found]
        return cls(
            union([p.frame for p in found if p.frame is not None]),
            None if None in rows else sum(r for r in rows if r is not None),
            all(p.append_only for p in found),
            ", ".join(dict.fromkeys(p.kind for p in found)) or "nothing",
            sum(p.files_read for p in found),
            sum(p.bytes_read for p in found),
            _staged=[s for p in found for s in p._staged],
        )

    def again(self, session: SparkSession) -> Feed:
        """For another reader, if it is on the driver or empty: nothing is read for it."""
        if self.local is None:
            return Feed(None, 0, True, self.kind)
        local = replace(self.local, session=session)
        return Feed(local.frame, self.rows, self.append_only, self.kind, local=local)

    def release(self) -> None:
        """Forget the staged scans: `frame` cannot be computed any more."""
        while self._staged:
            forget_scan(self._staged.pop())

    def __enter__(self) -> Feed:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.release()


def read_changes(session: SparkSession, table: Java, old: int | None, new: int | None, columns: Sequence[str]) -> Feed:
    """The Z-set that turns the table at snapshot `old` into the table at `new`; None is the EMPTY table.

    `table` is pinned at the cut: `columns` are names in its current schema, and both sides are read in that schema.
    """
    if old == new:
        return Feed(None, 0, True, "same snapshot")
    for snapshot in (old, new):
        if snapshot is not None and table.snapshot(snapshot) is None:
            raise TrickleError("SNAPSHOT_EXPIRED", f"Snapshot {snapshot} of {table.name()} is gone.")
    builder = _Builder(session, table, columns)
    try:
        if old is None or new is None:
            return builder.whole(old, new)
        for start, end in _stretches(session, table, old, new):
            builder.add(start, end)
        return builder.feed("compaction only")
    except BaseException:
        builder.release()
        raise


def lineage(session: SparkSession, table: Java, old: int, new: int) -> tuple[tuple[int, str], ...] | None:
    """The snapshots after `old` up to `new` with their operations, oldest first; None when `old` is no ancestor."""
    snapshot = "org.apache.iceberg.Snapshot"
    held = handles(session)
    between = held.jvm.org.apache.iceberg.util.SnapshotUtil.ancestorsBetween(table, new, old)
    parents = held.pluck(between, (snapshot, "parentId"))
    if not parents or parents[-1] != str(old):
        return None
    ids = [int(i) for i in held.pluck(between, (snapshot, "snapshotId"))]
    operations = held.pluck(between, (snapshot, "operation"))
    return tuple(zip(reversed(ids), reversed(operations), strict=True))


def _stretches(session: SparkSession, table: Java, old: int, new: int) -> list[tuple[int, int]]:
    """Pairs of snapshots whose changes add up to the whole: a linear history is cut at `replace` snapshots."""
    line = lineage(session, table, old, new)
    if line is None or all(operation != "replace" for _, operation in line):
        return [(old, new)]
    found: list[tuple[int, int]] = []
    start = previous = old
    for id_, operation in line:
        if operation == "replace":
            if previous != start:
                found.append((start, previous))
            start = id_
        previous = id_
    if previous != start:
        found.append((start, previous))
    return found if len(found) <= MANY_STRETCHES else [(old, new)]


class _Builder:
    """Collects the parts of one feed; each part is a DataFrame over staged scans."""

    def __init__(self, session: SparkSession, table: Java, columns: Sequence[str]) -> None:
        self._session = session
        self._table = table
        self._columns = tuple(columns)
        self._weight = weight_name(columns)
        self._held = handles(session)
        self._files = FileReader(session, table)
        self._parts: list[DataFrame] = []
        self._kinds: list[str] = []
        self._rows: int | None = 0
        self._append_only = True
        self._read: dict[str, int] = {}  # path -> bytes
        self._staged: list[Staged] = []
        self._stand_in: Java = None
        self._local: Local | None = None  # a part that was read on the driver

    def feed(self, nothing: str) -> Feed:
        if not self._parts:
            return Feed(None, 0, True, nothing)
        frame = union(self._parts)
        kind = ", ".join(dict.fromkeys(self._kinds))
        total = sum(self._read.values())
        local = self._local if len(self._parts) == 1 else None
        return Feed(frame, self._rows, self._append_only, kind, len(self._read), total, local, self._staged)

    def release(self) -> None:
        Feed(None, None, True, "", _staged=self._staged).release()

    def whole(self, old: int | None, new: int | None) -> Feed:
        """From or to the EMPTY table."""
        snapshot = new if old is None else old
        assert snapshot is not None
        states = self._files.plan(snapshot)
        if states:
            self._one_side(states, 1 if old is None else -1)
        return self.feed("no rows")

    def add(self, old: int, new: int) -> None:
        changes = self._files.changes(old, new)
        if self._on_the_driver(changes):
            return
        if changes.touched and not self._can_stand_in(changes.touched):
            changes = FileChanges(
                (*changes.added, *(now for _, now in changes.touched)),
                (*changes.removed, *(was for was, _ in changes.touched)),
                (),
            )
        if changes.added and changes.removed and not self._files.are_fresh(old, new, changes):
            self._both_sides(changes.added, changes.removed)
        elif changes.added and changes.removed:  # a stream table that was recomputed
            self._one_side(changes.added, 1)
            self._one_side(changes.removed, -1)
        elif changes.added:
            self._one_side(changes.added, 1)
        elif changes.removed:
            self._one_side(changes.removed, -1)
        if changes.touched:
            self._touched(changes.touched)

    def _on_the_driver(self, changes: FileChanges) -> bool:
        """Few rows of which nothing can cancel out are read at once."""
        if not (changes.added or changes.removed or changes.touched) or (changes.added and changes.removed):
            return False
        sides = [*((s, 1) for s in changes.added), *((s, -1) for s in changes.removed)]
        live = [s.live_rows for s, _ in sides]
        rows = sum(n for n in live if n is not None)
        if None in live or rows > LOCAL or len(sides) + len(changes.touched) > DRIVER_FILES:
            return False
        if sum(s.size for s, _ in sides) > DRIVER_BYTES:
            return False
        if changes.touched and not self._few_positions(changes.touched):
            return False
        found = read_changed(self._session, self._table, self._columns, self._weight, sides, changes.touched)
        if found is None:
            return False
        kinds = (("added files", changes.added), ("removed files", changes.removed), ("deleted rows", changes.touched))
        states = [*(s for s, _ in sides), *(now for _, now in changes.touched)]
        self._read |= {state.path: state.bytes_read for state in states}
        if found.rows:
            self._local = found
            grows = not changes.removed and not changes.touched
            self._part(found.frame, ", ".join(kind for kind, some in kinds if some), found.rows, positive=grows)
        return True

    # -- parts -----------------------------------------------------------------------------------------------

    def _part(self, frame: DataFrame, kind: str, rows: int | None, *, positive: bool) -> None:
        self._parts.append(frame)
        self._kinds.append(kind)
        self._rows = None if self._rows is None or rows is None else self._rows + rows
        self._append_only = self._append_only and positive

    def _one_side(self, states: Sequence[FileState], weight: int) -> None:
        live = [s.live_rows for s in states]
        rows = None if None in live else sum(n for n in live if n is not None)
        if rows == 0:
            return
        kind = "added files" if weight > 0 else "removed files"
        self._part(self._weigh(self._scan(states), weight), kind, rows, positive=weight > 0)

    def _both_sides(self, added: Sequence[FileState], removed: Sequence[FileState]) -> None:
        after, before = self._scan(added), self._scan(removed)
        if all(s.first_row_id is not None for s in (*added, *removed)):
            for side, other, weight in ((after, before, 1), (before, after, -1)):
                versions = other.select(*(other[c].alias(f"_other{c}") for c in _VERSION))
                same = (side[_VERSION[0]] == versions[f"_other{_VERSION[0]}"]) & (
                    side[_VERSION[1]] == versions[f"_other{_VERSION[1]}"]
                )
                self._part(
                    self._weigh(side.join(versions, same, "left_anti"), weight),
                    "row versions",
                    None,
                    positive=False,
                )
            return
        both = self._weigh(after, 1).unionAll(self._weigh(before, -1))
        self._part(cancel(both, self._columns), "multisets", None, positive=False)

    def _touched(self, pairs: Sequence[tuple[FileState, FileState]]) -> None:
        """Rows deleted on one side only: read with Iceberg's `_deleted` flag, so that only deleted rows are joined."""
        grown = [(was, now) for was, now in pairs if not was.deletes]
        shrunk = [(was, now) for was, now in pairs if not now.deletes]
        changed = [(was, now) for was, now in pairs if was.deletes and now.deletes]
        for states, weight in (([now for _, now in grown], -1), ([was for was, _ in shrunk], 1)):
            if states:
                rows = _vector_rows(states)
                self._part(self._weigh(self._deleted(states), weight), "deleted rows", rows, positive=weight > 0)
        if changed and self._few_positions(changed):
            self._by_position(changed)
        elif changed:
            self._by_comparison(changed)

    def _few_positions(self, pairs: Sequence[tuple[FileState, FileState]]) -> bool:
        deletes = [d for pair in pairs for state in pair for d in state.deletes]
        few = len(pairs) <= INDEXED_FILES and sum(d.rows for d in deletes) <= INDEXED_POSITIONS
        return few and not any(d.by_value for d in deletes)

    def _by_position(self, pairs: Sequence[tuple[FileState, FileState]]) -> None:
        """The positions that only one side deletes are known before anything is read: each file is read once."""
        from pyspark.sql import functions as F

        gone: list[tuple[FileState, list[int]]] = []
        back: list[tuple[FileState, list[int]]] = []
        for was, now in pairs:
            newly, again = self._files.differing_positions(was, now)
            if newly:
                gone.append((now, newly))
            if again:
                back.append((was, again))
        for found, weight in ((gone, -1), (back, 1)):
            if not found:
                continue
            listed = json.dumps([{"f": state.path, "p": positions} for state, positions in found])
            places = self._session.sql(
                "SELECT f AS _other_file, explode(p) AS _other_pos FROM "
                "(SELECT inline(from_json(:listed, 'array<struct<f: string, p: array<bigint>>>')))",
                args={"listed": listed},
            )
            side = self._deleted([state for state, _ in found])
            same = (side["_file"] == places["_other_file"]) & (side["_pos"] == places["_other_pos"])
            chosen = side.join(F.broadcast(places), same, "left_semi")
            rows = sum(len(positions) for _, positions in found)
            self._part(self._weigh(chosen, weight), "deleted rows", rows, positive=weight > 0)

    def _by_comparison(self, changed: Sequence[tuple[FileState, FileState]]) -> None:
        """Deleted rows of one side that are not deleted on the other."""
        from pyspark.sql import functions as F

        only_grew = all(was.deletes < now.deletes for was, now in changed)
        was = self._deleted([was for was, _ in changed])
        now = self._deleted([now for _, now in changed])
        place = ("_file", "_pos")
        # Record counts of position deletes bound the rows to broadcast; those of equality deletes do not.
        counts = [d.rows if d.is_vector else INDEXED_POSITIONS for pair in changed for s in pair for d in s.deletes]
        small = sum(counts) < INDEXED_POSITIONS
        for side, other, weight in ((now, was, -1), (was, now, 1)):
            if weight > 0 and only_grew:
                continue
            known = other.select(*(other[c].alias(f"_other{c}") for c in place))
            same = (side["_file"] == known["_other_file"]) & (side["_pos"] == known["_other_pos"])
            left = side.join(F.broadcast(known) if small else known, same, "left_anti")
            self._part(self._weigh(left, weight), "deleted rows", None, positive=weight > 0)

    # -- staged scans ----------------------------------------------------------------------------------------

    def _can_stand_in(self, pairs: Sequence[tuple[FileState, FileState]]) -> bool:
        from py4j.protocol import Py4JJavaError

        compared = self._files.compared_columns(pairs)
        if compared is None and self._table.operations().current().formatVersion() >= 3:
            return False  # a stand-in has one schema; a table that is read as it is finds the column in an older one
        try:
            columns = tuple(dict.fromkeys((*self._columns, *(compared or ()))))
            self._stand_in = with_positions(self._session, self._table, columns)
        except Py4JJavaError:  # a column of a type or with a default that v2 does not know
            return False
        return True

    def _scan(self, states: Sequence[FileState]) -> DataFrame:
        return self._stage(self._table, states)

    def _deleted(self, states: Sequence[FileState]) -> DataFrame:
        frame = self._stage(self._stand_in, states)
        return frame.select(*map(quote, self._columns), "_file", "_pos", "_deleted").where("_deleted")

    def _stage(self, table: Java, states: Sequence[FileState]) -> DataFrame:
        self._read |= {state.path: state.bytes_read for state in states}
        frame, staged = stage_scan(self._session, table, [self._files.task(state) for state in states])
        self._staged.append(staged)
        return frame

    def _weigh(self, frame: DataFrame, weight: int) -> DataFrame:
        from pyspark.sql import functions as F

        return frame.select(*(frame[quote(c)] for c in self._columns), F.lit(weight).cast("bigint").alias(self._weight))


def union(frames: Sequence[DataFrame]) -> DataFrame | None:
    """All rows of all frames; as a flat tree, because Spark analyzes a deep one again and again."""
    left = list(frames)
    while len(left) > 1:
        left = [a.unionAll(b) for a, b in zip(left[::2], left[1::2], strict=False)] + left[len(left) // 2 * 2 :]
    return left[0] if left else None


def stage_scan(session: SparkSession, table: Java, tasks: Sequence[Java]) -> tuple[DataFrame, Staged]:
    """A frame that reads exactly these scan tasks, until what stages them is released."""
    held, name = handles(session), f"trickle_{uuid.uuid4().hex}"
    listed = held.jvm.java.util.ArrayList()
    for task in tasks:
        listed.add(task)
    # Iceberg's source registers this catalog in the *active* session only, which may be another one.
    session.conf.set(f"spark.sql.catalog.{_CATALOG}", "org.apache.iceberg.spark.SparkRewriteTableCatalog")
    held.task_sets.stageTasks(table, name, listed)
    held.tables.add(name, table)
    return session.table(f"{_CATALOG}.{name}"), (held, table, name)


def forget_scan(staged: Staged) -> None:
    held, table, name = staged
    held.task_sets.removeTasks(table, name)
    held.tables.remove(name)


def _vector_rows(states: Sequence[FileState]) -> int | None:
    live = [s.live_rows for s in states]
    return None if None in live else sum(s.rows for s in states) - sum(n for n in live if n is not None)


def weight_name(columns: Iterable[str]) -> str:
    """What the weight is called beside these columns of a source, which may be called anything."""
    name, taken = WEIGHT, {c.lower() for c in columns}
    while name in taken:
        name += "_"
    return name


def cancel(frame: DataFrame, columns: Sequence[str]) -> DataFrame:
    """Sum the weights of rows of the same values and drop the zeros."""
    from pyspark.sql import functions as F

    weight = weight_name(columns)
    types = [type_text(frame.schema[c].dataType) for c in columns]
    if any("variant" in t for t in types):
        register_functions(frame.sparkSession)
    keys = [
        F.expr(identity(column(c), t).sql()).alias(f"k{i}") for i, (c, t) in enumerate(zip(columns, types, strict=True))
    ]
    values = [F.first(quote(c)).alias(f"v{i}") for i, c in enumerate(columns)]
    summed = frame.groupBy(*keys).agg(F.sum(quote(weight)).alias("weight"), *values).where("weight <> 0")
    shown = (F.col(f"v{i}").alias(c) for i, c in enumerate(columns))
    return summed.select(*shown, F.col("weight").alias(weight))
