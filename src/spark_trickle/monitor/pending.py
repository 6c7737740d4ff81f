"""What waits: the changes of inputs that stream tables do not show yet, and how sources stand. Metadata only."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from enum import StrEnum

from spark_trickle.catalog.reader import CatalogReader, unknown
from spark_trickle.errors import TrickleError
from spark_trickle.lake.metadata_files import NotLocal
from spark_trickle.lake.table_history import TableHistory, summed
from spark_trickle.model import Dependency, InputKind, Pointer, Source, StreamTable, TableName

Pointers = Mapping[TableName, Pointer]
Histories = Callable[[str], TableHistory]  # of the table at a location


class Behind(StrEnum):
    """How an input stands to the frontier of a stream table."""

    NOTHING = "NOTHING"  # no commit since the frontier
    CHANGES = "CHANGES"  # commits that the next refresh reads
    NEVER_READ = "NEVER_READ"  # the stream table was not refreshed yet
    REWOUND = "REWOUND"  # the frontier is no ancestor of the current snapshot: a rollback, another branch
    EXPIRED = "EXPIRED"  # the snapshot at the frontier is gone
    REPLACED = "REPLACED"  # another table has the name
    DROPPED = "DROPPED"
    VIEW_CHANGED = "VIEW_CHANGED"  # the text of a view
    UNREADABLE = "UNREADABLE"  # its metadata cannot be read now


@dataclass(frozen=True, slots=True)
class PendingInput:
    """What the next refresh of a stream table will find at one of its inputs.

    Rows and files are those of the commits' summaries: upper bounds where files were rewritten. None: not told.
    """

    name: str
    input: str
    kind: InputKind
    state: Behind
    commits: int | None = 0
    rows_added: int | None = 0
    rows_deleted: int | None = 0
    files_added: int | None = 0
    files_removed: int | None = 0
    oldest_at: datetime | None = None  # of the commits that wait
    age_seconds: float | None = None  # since then
    frontier: int | None = None  # the snapshot that the stream table shows
    current: int | None = None

    def __str__(self) -> str:
        if self.state is not Behind.CHANGES:
            return f"{self.name} <- {self.input}: {self.state}"
        rows = "" if self.rows_added is None else f", +{self.rows_added} -{self.rows_deleted} rows"
        return f"{self.name} <- {self.input}: {self.commits} commits{rows}"


@dataclass(frozen=True, slots=True)
class SourceState:
    """A table that stream tables read and Trickle does not own."""

    name: str
    format: str | None  # None: it is gone, or cannot be read
    readers: tuple[str, ...]
    current: int | None  # snapshot or version
    changed_at: datetime | None  # the last commit that changed rows
    rows: int | None
    oldest_frontier: int | None
    oldest_reader: str | None  # the stream table that is furthest behind
    behind: int | None  # commits between that frontier and now; None: it is not known
    frontiers_readable: bool  # False: a stream table must be recomputed
    frontiers: int  # snapshots that stream tables show
    protected: int  # of these: tagged by Trickle, or current
    exposed_since: datetime | None = None  # since when the others could expire: the source moved on, and has no tag
    problem: str | None = None

    def __str__(self) -> str:
        return self.problem or f"{self.name}: {self.format}, read by {len(self.readers)}, {self.behind} commits behind"


def pending(
    reader: CatalogReader,
    histories: Histories,
    name: TableName | None = None,
    pointers: Pointers | None = None,
    now: datetime | None = None,
) -> tuple[PendingInput, ...]:
    """For each input of a stream table, or of all of them. `pointers` show sources outside the lake, too."""
    known = {t.name: t for t in reader.stream_tables()}
    if name is not None and name not in known:
        raise unknown(name, known)
    there = pointers if pointers is not None else reader.pointers()
    chosen = known.values() if name is None else [known[name]]
    at = now or datetime.now(UTC)
    return tuple(_pending(t, d, there, histories, at) for t in chosen for d in t.reads)


def _pending(
    table: StreamTable, then: Dependency, pointers: Pointers, histories: Histories, now: datetime
) -> PendingInput:
    def found(state: Behind, **more: object) -> PendingInput:
        return PendingInput(
            str(table.name),
            str(then.input),
            then.kind,
            state,
            frontier=then.snapshot_id,
            **more,  # type: ignore[arg-type]
        )

    pointer = _look(pointers, then.input)
    if isinstance(pointer, TrickleError):
        return found(Behind.UNREADABLE, **_UNTOLD)
    if pointer is None:
        return found(Behind.DROPPED, **_UNTOLD)
    if pointer.location == then.pointer:
        return found(Behind.NOTHING, current=then.snapshot_id)
    if then.kind is InputKind.VIEW:
        return found(Behind.VIEW_CHANGED if then.pointer else Behind.NEVER_READ)
    try:
        history = histories(pointer.location)
    except NotLocal:
        raise
    except (TrickleError, OSError):
        return found(Behind.UNREADABLE, **_UNTOLD)
    if then.pointer is not None and then.table_uuid not in (None, history.uuid):
        return found(Behind.REPLACED, current=history.head, **_UNTOLD)
    if history.numbered:
        behind = None if then.pointer is None or history.head is None else history.head - (then.snapshot_id or 0)
        state = Behind.NEVER_READ if then.pointer is None else Behind.CHANGES if behind else Behind.NOTHING
        told = {**_UNTOLD, "commits": behind} if state is not Behind.NOTHING else {}
        return found(state, current=history.head, **told)
    commits = history.since(then.snapshot_id)
    if commits is None:
        if then.pointer is None:
            state = Behind.NEVER_READ  # and its first commits have expired
        else:
            gone = then.snapshot_id is not None and not history.has(then.snapshot_id)
            state = Behind.EXPIRED if gone else Behind.REWOUND
        return found(state, current=history.head, **_UNTOLD)
    added, deleted, new, old = summed(commits)
    oldest = commits[-1].at if commits else None
    state = Behind.CHANGES if commits else Behind.NOTHING  # a tag or a property, no commit
    return found(
        state if then.pointer is not None else Behind.NEVER_READ,
        current=history.head,
        commits=len(commits),
        rows_added=added,
        rows_deleted=deleted,
        files_added=new,
        files_removed=old,
        oldest_at=oldest,
        age_seconds=None if oldest is None else round((now - oldest).total_seconds(), 3),
    )


_UNTOLD: dict[str, None] = dict.fromkeys(("commits", "rows_added", "rows_deleted", "files_added", "files_removed"))


def _look(pointers: Pointers, name: TableName) -> Pointer | TrickleError | None:
    try:
        return pointers.get(name)
    except TrickleError as error:  # outside the lake
        return error


def source_states(
    reader: CatalogReader, histories: Histories, pointers: Pointers | None = None
) -> tuple[SourceState, ...]:
    """The sources that stream tables read, and those the lake knows by name, in the order of their names."""
    there = pointers if pointers is not None else reader.pointers()
    registered = {TableName.of(s.name): s for s in reader.sources()}
    readers: dict[TableName, list[tuple[StreamTable, Dependency]]] = {name: [] for name in registered}
    for table in reader.stream_tables():
        for read in table.reads:
            if read.kind is InputKind.SOURCE:
                readers.setdefault(read.input, []).append((table, read))
    return tuple(_state(name, found, registered.get(name), there, histories) for name, found in sorted(readers.items()))


def _state(
    name: TableName,
    read_by: Sequence[tuple[StreamTable, Dependency]],
    source: Source | None,
    pointers: Pointers,
    histories: Histories,
) -> SourceState:
    names = tuple(str(t.name) for t, _ in read_by)
    shown = {d.snapshot_id for _, d in read_by if d.snapshot_id is not None}

    def lost(problem: str, format: str | None = None) -> SourceState:
        return SourceState(
            name=str(name),
            format=format,
            readers=names,
            current=None,
            changed_at=None,
            rows=None,
            oldest_frontier=None,
            oldest_reader=None,
            behind=None,
            frontiers_readable=not shown,
            frontiers=len(shown),
            protected=0,
            problem=problem,
        )

    pointer = _look(pointers, name)
    known = None if source is None else source.format
    if isinstance(pointer, TrickleError):
        return lost(pointer.message, known)
    if pointer is None:
        return lost("the table is gone", known)
    try:
        history = histories(pointer.location)
    except NotLocal:
        raise
    except (TrickleError, OSError) as error:
        return lost(f"its metadata cannot be read: {error}", known)
    far: tuple[int, StreamTable, Dependency] | None = None
    readable, unknown_distance = True, False
    for table, read in read_by:
        if read.pointer is None:
            continue
        if read.table_uuid not in (None, history.uuid) or (read.snapshot_id and not history.has(read.snapshot_id)):
            readable = False
            continue
        distance = _distance(history, read)
        if distance is None:
            unknown_distance = True
        elif far is None or distance > far[0]:
            far = (distance, table, read)
    head = None if history.head is None else history.commits.get(history.head)
    safe = {*history.tagged, history.head}
    line = history.since(None) or tuple(sorted(history.commits.values(), key=lambda c: c.at, reverse=True))
    changed = next((c.at for c in line if c.changes_rows), None)
    return SourceState(
        name=str(name),
        format=history.format,
        readers=names,
        current=history.head,
        changed_at=changed,
        rows=head.rows if head is not None else None if history.numbered else 0,
        oldest_frontier=None if far is None else far[2].snapshot_id,
        oldest_reader=None if far is None else str(far[1].name),
        behind=None if far is None or unknown_distance or not readable else far[0],
        frontiers_readable=readable,
        frontiers=len(shown),
        protected=len(shown & safe),
        exposed_since=min((c[-1].at for s in shown - safe if (c := history.since(s))), default=None),
        problem=None if readable else "a snapshot that a stream table shows is gone: it will be recomputed",
    )


def _distance(history: TableHistory, read: Dependency) -> int | None:
    if history.numbered:
        return None if history.head is None else history.head - (read.snapshot_id or 0)
    commits = history.since(read.snapshot_id)
    return None if commits is None else len(commits)
