"""What a refresh wrote to a stream table, for its consumers: from memory in the same attempt, from files afterwards.

A `Delta` is exactly the rows that left and the rows that entered, as relations of the attempt. A `LogEntry` is the same
as Parquet files that no table refers to, named by a row of the catalog that the publish writes. `read` gives a consumer
the changes between two snapshots out of both, and compares snapshots only over the stretches that neither covers.
Every fall-back is to the comparison, so a missing entry costs time and nothing else.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from spark_trickle.catalog.rows import LogEntry, LoggedFile
from spark_trickle.lake.feed import Feed, lineage, read_changes, stage_scan
from spark_trickle.lake.files import FileReader, FileState
from spark_trickle.lake.jvm import Java, handles, spark_types, with_weight
from spark_trickle.lake.positions import write_files
from spark_trickle.model import TableName
from spark_trickle.spark.names import quote
from spark_trickle.sql.algebra import WEIGHT
from spark_trickle.thresholds import LOG_ENTRIES, LOG_FILE_ROWS, MANY_STRETCHES

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

_CONTENT = "org.apache.iceberg.ContentFile"


@dataclass(frozen=True, slots=True)
class Delta:
    """The rows that one refresh removed from and added to a stream table, over views of its attempt.

    `select` gives all its columns and the weight; where nothing left, every weight is 1.
    """

    table: TableName
    from_snapshot: int
    to_snapshot: int
    select: str
    views: tuple[str, ...]  # must live as long as the attempt
    added: int
    removed: int

    @property
    def rows(self) -> int:
        return self.added + self.removed


@dataclass(frozen=True, slots=True)
class Step:
    """A stretch of a table's history; without a `source` its two ends are compared."""

    start: int
    end: int
    source: Delta | LogEntry | None


def steps(start: int, line: Sequence[tuple[int, str]], known: Iterable[Delta | LogEntry]) -> tuple[Step, ...]:
    """Cover a history by what is known; `line` are the snapshots after `start` with their operations.

    Stretches of compactions alone change nothing and are left out.

    >>> log = [LogEntry(2, 3, 7, ()), LogEntry(4, 5, 7, ())]
    >>> [(s.start, s.end, s.source is not None) for s in steps(1, [(2, "append"), (3, "overwrite")], log)]
    [(1, 2, False), (2, 3, True)]
    >>> line = [(3, "overwrite"), (4, "replace"), (5, "overwrite"), (6, "replace")]
    >>> [(s.start, s.end, s.source is not None) for s in steps(2, line, log)]
    [(2, 3, True), (4, 5, True)]
    """
    by_start = {entry.from_snapshot: entry for entry in known}
    place = {snapshot: n for n, (snapshot, _) in enumerate(line)}
    found: list[Step] = []
    at, n = start, 0
    gap: int | None = None  # where a stretch that nothing covers began
    while True:
        entry = by_start.get(at)
        if entry is not None and place.get(entry.to_snapshot, -1) >= n:
            if gap is not None:
                found.append(Step(gap, at, None))
                gap = None
            found.append(Step(at, entry.to_snapshot, entry))
            at, n = entry.to_snapshot, place[entry.to_snapshot] + 1
            continue
        if n == len(line):
            break
        snapshot, operation = line[n]
        if operation != "replace" and gap is None:
            gap = at
        at, n = snapshot, n + 1
    if gap is not None:
        found.append(Step(gap, at, None))
    return tuple(found)


def read(
    session: SparkSession,
    table: Java,
    old: int,
    new: int,
    columns: Sequence[str],
    known: Sequence[Delta | LogEntry],
) -> Feed:
    """As `read_changes`, from what is known where it reaches. `table` is pinned at the cut."""
    covered = _covered(session, table, old, new, known) if known else None
    if covered is None:
        return read_changes(session, table, old, new, columns)
    parts: list[Feed] = []
    try:
        logged: list[LogEntry] = []
        for step in covered:
            if isinstance(step.source, Delta):
                parts.append(handed_over(session, table, step.source, columns))
            elif step.source is not None:
                logged.append(step.source)
            else:
                parts.append(read_changes(session, table, step.start, step.end, columns))
        if logged:
            parts.append(_logged(session, table, logged, columns))
        return Feed.sum(parts)
    except BaseException:
        for part in parts:
            part.release()
        raise


def _covered(
    session: SparkSession, table: Java, old: int, new: int, known: Sequence[Delta | LogEntry]
) -> tuple[Step, ...] | None:
    """Steps worth taking; None when comparing the two ends is better, or the only way."""
    if old == new or table.snapshot(old) is None or table.snapshot(new) is None:
        return None
    line = lineage(session, table, old, new)
    if line is None:
        return None
    found, io = steps(old, line, known), table.io()
    used = [s.source for s in found if isinstance(s.source, LogEntry)]
    # Somebody may have tidied the folder up: its files are in no metadata.
    lost = [e for e in used if not all(io.newInputFile(f.path).exists() for f in e.files)]
    if lost:
        found = steps(old, line, [k for k in known if k not in lost])
    if sum(s.source is None for s in found) > MANY_STRETCHES or (found and all(s.source is None for s in found)):
        return None
    return found


def handed_over(session: SparkSession, table: Java, delta: Delta, columns: Sequence[str]) -> Feed:
    """The feed of a delta in memory: no file is read."""
    frame = delta_frame(session, table, delta)
    shown = frame.select(*(frame[quote(c)] for c in columns), frame[WEIGHT])
    return Feed(shown, delta.rows, not delta.removed, "handed over")


def delta_frame(session: SparkSession, table: Java, delta: Delta) -> DataFrame:
    """The rows of a delta with the types that a reader of the table would see."""
    from pyspark.sql import functions as F

    types = spark_types(session, table.schema())
    frame = session.sql(delta.select)
    had = {f.name: f.dataType for f in frame.schema.fields}
    cast = [F.col(quote(c)) if had[c] == t else F.col(quote(c)).cast(t).alias(c) for c, t in types.items()]
    return frame.select(*cast, WEIGHT)


def _logged(session: SparkSession, table: Java, entries: Sequence[LogEntry], columns: Sequence[str]) -> Feed:
    """All files of these entries in one scan."""
    files = [f for e in entries for f in e.files]
    stand_in = with_weight(session, table, WEIGHT, table.location())
    reader = FileReader(session, stand_in)
    tasks = [reader.task(_state(session, stand_in, f)) for f in files]
    frame, staged = stage_scan(session, stand_in, tasks)
    shown = frame.select(*(frame[quote(c)] for c in columns), frame[WEIGHT])
    rows, size = sum(e.rows for e in entries), sum(f.size for f in files)
    return Feed(shown, rows, False, "change log", len(files), size, _staged=[staged])


def _state(session: SparkSession, table: Java, file: LoggedFile) -> FileState:
    builder = handles(session).jvm.org.apache.iceberg.DataFiles.builder(table.spec())
    made = builder.withPath(file.path).withFileSizeInBytes(file.size).withRecordCount(file.rows).withFormat("PARQUET")
    return FileState(file.path, file.rows, file.size, None, table.spec().specId(), frozenset(), made.build())


def log_folder(location: str, catalog: str) -> str:
    """Where attempts under this private catalog put the log of a table: should they die, their files are found."""
    return f"{location}/changes/{catalog}"


def write(session: SparkSession, table: Java, delta: Delta, catalog: str) -> LogEntry:
    """Write a delta as files that nothing refers to yet."""
    stand_in = with_weight(session, table, WEIGHT, log_folder(table.location(), catalog))
    frame = delta_frame(session, table, delta)
    files = write_files(session, stand_in, frame.coalesce(1) if delta.rows <= LOG_FILE_ROWS else frame)
    held = handles(session)
    paths = held.pluck(files, (_CONTENT, "location"))
    sizes = held.pluck(files, (_CONTENT, "fileSizeInBytes"))
    counts = held.pluck(files, (_CONTENT, "recordCount"))
    listed = tuple(LoggedFile(p, int(s), int(c)) for p, s, c in zip(paths, sizes, counts, strict=True))
    return LogEntry(delta.from_snapshot, delta.to_snapshot, delta.rows, listed)


def passed(
    entries: Sequence[LogEntry], frontiers: Iterable[int | None], sequence: Mapping[int, int]
) -> tuple[LogEntry, ...]:
    """Entries of one stream table that no consumer needs any more.

    `sequence` numbers the snapshots that the table still has. A consumer whose frontier is not among them, or which is
    EMPTY, does not read the log.

    >>> log = [LogEntry(1, 2, 7, ()), LogEntry(2, 4, 7, ())]
    >>> [e.to_snapshot for e in passed(log, [3, 4], {1: 1, 2: 2, 3: 3, 4: 4})]
    [2]
    """
    reached = [sequence[f] for f in frontiers if f is not None and f in sequence]
    if not reached:
        return tuple(entries)
    old = {e.id for e in entries[:-LOG_ENTRIES]}
    lowest = min(reached)
    return tuple(e for e in entries if e.id in old or sequence.get(e.to_snapshot, lowest) <= lowest)
