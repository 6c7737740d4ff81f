"""One refresh as values: what a call shares, what is asked of a stream table, what was made of it."""

from __future__ import annotations

import uuid
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from fnmatch import fnmatchcase

from spark_trickle.catalog.alerts import AlertKind
from spark_trickle.catalog.changes import CatalogChange, GroupChange
from spark_trickle.catalog.frontier import location_of
from spark_trickle.catalog.leases import Lease
from spark_trickle.errors import Reason
from spark_trickle.graph.stream_tables import Groups
from spark_trickle.lake.attempt import Attempt
from spark_trickle.lake.publish import Member
from spark_trickle.lake.staging import Counts, Staging
from spark_trickle.model import (
    RUNS,
    Action,
    Dependency,
    InputKind,
    Mode,
    Shape,
    Status,
    StreamTable,
    TableName,
    TableOptions,
)
from spark_trickle.refresh.decide import Decision
from spark_trickle.refresh.definition import Compiled
from spark_trickle.refresh.inputs import Input
from spark_trickle.refresh.situation import Cut
from spark_trickle.refresh.stages import Stages
from spark_trickle.results import HistoryEntry, RefreshResult

# Reasons that somebody should look at.
Alerts = tuple[tuple[AlertKind, str], ...]  # kinds and messages
_ALERTS: dict[str, AlertKind] = {"INTEGRITY": "INTEGRITY", "REWRITTEN": "REWRITTEN"}


@dataclass(frozen=True, slots=True)
class Run:
    """What all stream tables of one call share."""

    attempt: Attempt
    cut: Cut
    lease: Lease
    initiated_by: str
    known: dict[TableName, StreamTable]  # all stream tables; those of this run as it leaves them
    groups: Groups  # as they are when this run is over
    unpublished: list[Staging] = field(default_factory=list)  # their files go if the run fails

    @property
    def is_trial(self) -> bool:
        """Whether a failure only refuses a statement: nothing has happened to the lake."""
        return self.initiated_by in ("create", "alter")

    def counts(self, request: Request) -> bool:
        """Whether a failure counts: one by a definition that is refused for it is no fault of other tables."""
        return not self.is_trial or request.altered is not None


@dataclass(frozen=True, slots=True)
class Altered:
    """What was altered so that the content is recomputed."""

    settings: tuple[str, ...] = ()  # the differences in words
    definition: bool = True
    options: TableOptions = field(default_factory=TableOptions)

    @property
    def reason(self) -> Reason:
        text = ["the definition was changed"] if self.definition else []
        if self.options.partitioned_by is not None:
            text.append(f"partitioned by {', '.join(map(str, self.options.partitioned_by)) or 'nothing'}")
        if self.options.clustered_by is not None:
            text.append(f"clustered by {', '.join(map(str, self.options.clustered_by)) or 'nothing'}")
        return Reason("ALTERED", "; ".join((*text, *self.settings)))


@dataclass(frozen=True, slots=True)
class Request:
    """What is asked of one stream table, or hidden state table."""

    table: StreamTable  # as it is to be; id 0: it is created
    mode: Mode | None = None  # for this refresh
    altered: Altered | None = None
    options: TableOptions = field(default_factory=TableOptions)
    initialize: bool = True  # False: it is created empty
    compiled: Compiled | None = None  # if it is known already, with the stages that this took
    staging: Staging | None = None  # its table, if the attempt has it already
    stages: Stages | None = None

    @property
    def is_new(self) -> bool:
        return not self.table.id


@dataclass(slots=True)
class Work:
    """One request on its way. What it has come to is noted here only for the record of a failure."""

    request: Request
    stages: Stages = field(default_factory=Stages)
    refresh_id: str = field(default_factory=lambda: uuid.uuid4().hex)
    decision: Decision | None = None
    states: tuple[Done, ...] = ()

    @property
    def table(self) -> StreamTable:
        return self.request.table


@dataclass(frozen=True, slots=True)
class Made:
    """What was computed for a stream table."""

    inputs: tuple[Input, ...]
    staging: Staging | None  # None: only the frontier moves
    counts: Counts = field(default_factory=Counts)
    changed: Mapping[str, int] = field(default_factory=dict)  # rows read, by input
    bytes_read: int = 0
    rounds: int | None = None  # of a cycle, until nothing new was found


@dataclass(frozen=True, slots=True)
class Done:
    """A stream table, or hidden state table, that waits for its publish: nothing of it is missing."""

    table: StreamTable
    stages: Stages
    refresh_id: str
    decision: Decision
    compiled: Compiled
    made: Made
    states: tuple[Done, ...] = ()
    retired: tuple[StreamTable, ...] = ()  # state tables that it needs no longer

    @property
    def action(self) -> Action:
        return self.decision.action

    def result(self) -> RefreshResult:
        counts = self.made.counts
        return RefreshResult(
            name=str(self.table.name),
            action=self.action,
            reason=str(self.decision.reason),
            rows_inserted=counts.inserted,
            rows_updated=counts.updated,
            rows_deleted=counts.deleted,
            seconds=round(self.stages.total, 4),
            stages=self.stages.rounded(),
            rows_changed=dict(self.made.changed),
        )


# -- what is published -------------------------------------------------------------------------------------------------


def members(run: Run, done: Done, completed: Sequence[str] = ()) -> list[Member]:
    """A stream table with its hidden state tables in one publish; the owner first, since the others refer to it.

    `completed` are the patterns of names whose refreshes are an alert each.
    """
    found = [_member(run, done, None, _alerts(done, completed))]
    found += [_member(run, state, done.table.name) for state in done.states]
    for gone in done.retired:
        found.append(Member(gone.name, run.lease, CatalogChange(gone, dropped=True), retired=gone.name))
    return found


def group_changes(run: Run, staged: Sequence[Done]) -> list[GroupChange]:
    """The groups of which some are published."""
    refresh_ids = {d.table.name: d.refresh_id for d in staged}
    ids = {name: table.id for name, table in run.known.items()} | {d.table.name: d.table.id for d in staged}
    return [
        GroupChange(
            tuple((m, ids[m]) for m in group.members),
            tuple(refresh_ids[m] for m in group.members if m in refresh_ids),
        )
        for group in run.groups.all
        if not refresh_ids.keys().isdisjoint(group.members)
    ]


def _member(run: Run, done: Done, owner: TableName | None, alerts: Alerts = ()) -> Member:
    together = run.groups.cycle(done.table.name)  # published with it
    reads = tuple(n for n in streams_of(done.compiled) if n not in together) if owner is None else ()
    return Member(done.table.name, run.lease, _change(run, done, owner, alerts), done.made.staging, reads)


def _change(run: Run, done: Done, owner: TableName | None, alerts: Alerts) -> CatalogChange:
    staging, action = done.made.staging, done.action
    frontier = _dependencies(run, done)
    if action is Action.SKIP:  # created empty: it has no frontier yet
        frontier = tuple(Dependency(d.input, d.kind, d.columns) for d in frontier)
    head = None if staging is None else staging.head
    by = run.initiated_by if owner is None else "owner"
    history = completed(done.result(), by, run.cut.instant, done.refresh_id, head, done.made.bytes_read)
    history = replace(history, fixpoint_iteration=done.made.rounds)
    quiet = owner is not None and action is Action.NO_DATA
    return CatalogChange(
        table=_row(run, done),
        dependencies=frontier,
        history=None if quiet else history,
        is_running=owner is None and bool(done.table.id),
        clear_log=staging is not None and action is not Action.DIFFERENTIAL,
        log=None if staging is None else staging.log,
        alerts=alerts,
        recovered=owner is None and (done.table.last_error is not None or done.table.status not in RUNS),
        owner=owner,
        lineage=done.compiled.lineage if owner is None else None,
    )


def _alerts(done: Done, completed: Sequence[str]) -> Alerts:
    reason, action = done.decision.reason, done.action
    found: list[tuple[AlertKind, str]] = []
    if reason.code in _ALERTS:
        found.append((_ALERTS[reason.code], str(reason)))
    asked = any(fnmatchcase(str(done.table.name), pattern) for pattern in completed)
    if asked and action not in (Action.NO_DATA, Action.SKIP):
        found.append(("REFRESH_COMPLETED", str(done.result())))
    return tuple(found)


def _row(run: Run, done: Done) -> StreamTable:
    """The stream table after this refresh."""
    table, staging, compiled = done.table, done.made.staging, done.compiled
    row = replace(
        table,
        columns=compiled.columns,
        incremental=compiled.incremental,
        reason=None if compiled.reason is None else str(compiled.reason),
        fingerprint=compiled.fingerprint,
        layout=compiled.layout,
        functions=compiled.functions,
    )
    if staging is not None:
        uuid_ = run.attempt.lake.facts(staging.location).uuid
        row = replace(
            row,
            published_snapshot=staging.head,
            published_pointer=staging.location,
            table_uuid=uuid_,
            file_schema=staging.schema,
        )
    elif (location := location_of(run.cut.pointers, table.name)) is not None:
        # Tags and the like move the pointer, not the content; what comes before them may expire.
        snapshot = run.attempt.lake.facts(location).snapshot_id
        row = replace(row, published_pointer=location, published_snapshot=snapshot)
    if done.action is Action.SKIP:
        return replace(row, status=Status.INITIALIZING)
    return replace(row, status=Status.ACTIVE, data_timestamp=run.cut.instant, consecutive_errors=0, last_error=None)


def _dependencies(run: Run, done: Done) -> tuple[Dependency, ...]:
    inputs = (i.at_cut() for i in done.made.inputs)
    views = (Dependency(v, InputKind.VIEW, pointer=location_of(run.cut.pointers, v)) for v in done.compiled.views)
    return (*inputs, *views)


def completed(
    result: RefreshResult,
    initiated_by: str,
    instant: datetime,
    refresh_id: str | None = None,
    snapshot_id: int | None = None,
    bytes_read: int | None = None,
) -> HistoryEntry:
    """The history of a refresh that is over; `instant` is that of its cut."""
    return HistoryEntry(
        refresh_id=refresh_id or uuid.uuid4().hex,
        name=result.name,
        state="COMPLETED",
        action=result.action,
        reason=result.reason,
        initiated_by=initiated_by,
        started_at=instant,
        ended_at=datetime.now(UTC),
        seconds=result.seconds,
        rows_inserted=result.rows_inserted,
        rows_updated=result.rows_updated,
        rows_deleted=result.rows_deleted,
        rows_changed=result.rows_changed,
        stages=result.stages,
        error_code=None,
        error=None,
        snapshot_id=snapshot_id,
        bytes_read=bytes_read,
        data_timestamp=None if result.action is Action.SKIP else instant,
    )


def streams_of(compiled: Compiled) -> tuple[TableName, ...]:
    """The other stream tables that a definition reads."""
    return tuple(name for name, (kind, _) in compiled.reads.items() if kind is InputKind.STREAM_TABLE)


def shapes_of(attempt: Attempt, compiled: Compiled) -> tuple[tuple[TableName, Shape], ...]:
    """The columns of the sources as this attempt saw them."""
    found = []
    for name, (kind, _) in compiled.reads.items():
        if kind is InputKind.SOURCE:
            facts = attempt.lake.facts(attempt.pointers[name].location)
            found.append((name, Shape(facts.uuid, facts.schema)))
    return tuple(found)
