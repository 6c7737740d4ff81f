"""What a refresh leaves in the catalog: the members of its publish, with the rows that each writes."""

from __future__ import annotations

import uuid
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime

from spark_trickle.catalog.leases import Lease
from spark_trickle.catalog.store import Transaction
from spark_trickle.lake.attempt import Attempt
from spark_trickle.lake.publish import Member
from spark_trickle.lake.staging import Staging
from spark_trickle.model import (
    Action,
    Dependency,
    HistoryEntry,
    InputKind,
    Mode,
    Pointer,
    RefreshResult,
    Shape,
    Status,
    StreamTable,
    TableName,
    TableOptions,
)
from spark_trickle.refresh.decide import Decision
from spark_trickle.refresh.definition import Compiled, StateTable
from spark_trickle.refresh.inputs import Input
from spark_trickle.refresh.outcome import Counts
from spark_trickle.refresh.situation import Cut, location_of
from spark_trickle.refresh.stages import Stages


@dataclass(slots=True)
class Work:
    """One stream table in one attempt."""

    table: StreamTable
    attempt: Attempt
    stages: Stages
    refresh_id: str
    decision: Decision
    counts: Counts = field(default_factory=Counts)
    changed: dict[str, int] = field(default_factory=dict)
    bytes_read: int = 0
    members: list[Member] = field(default_factory=list)  # what is published: hidden state tables, then the table
    shapes: tuple[tuple[TableName, Shape], ...] = ()  # of the sources, as this stream table sees them
    options: TableOptions = field(default_factory=TableOptions)

    def result(self) -> RefreshResult:
        return RefreshResult(
            name=str(self.table.name),
            action=self.decision.action,
            reason=self.decision.reason,
            rows_inserted=self.counts.inserted,
            rows_updated=self.counts.updated,
            rows_deleted=self.counts.deleted,
            seconds=round(self.stages.total, 4),
            stages=self.stages.rounded(),
            rows_changed=self.changed,
        )


def member_of(
    work: Work,
    compiled: Compiled,
    inputs: Sequence[Input],
    staging: Staging | None,
    cut: Cut,
    lease: Lease,
) -> Member:
    """The stream table in its publish: data, row, frontier and history."""
    table, attempt = work.table, work.attempt
    work.shapes = shapes_of(attempt, compiled)  # now: the next stream table may see the sources otherwise
    if staging is not None:
        # Consumers in this attempt read what was just staged.
        attempt.pointers[table.name] = Pointer(table.name, staging.location, is_view=False)

    def write(tx: Transaction) -> None:
        _write(tx, table.id, work, compiled, inputs, staging, cut)
        if work.decision.reason.startswith("INTEGRITY"):
            tx.add_alert("INTEGRITY", work.decision.reason, name=str(table.name))
        result = work.result()
        tx.finish_refresh(
            work.refresh_id,
            state="COMPLETED",
            action=result.action,
            reason=result.reason,
            rows_inserted=result.rows_inserted,
            rows_updated=result.rows_updated,
            rows_deleted=result.rows_deleted,
            rows_changed=result.rows_changed,
            stages=result.stages,
            seconds=result.seconds,
            bytes_read=work.bytes_read,
            snapshot_id=None if staging is None else staging.head,
        )

    work.table = replace(table, columns=compiled.columns)
    return Member(table.name, lease, staging=staging, reads=streams_of(compiled), write=write)


def state_member_of(
    work: Work,
    compiled: Compiled,
    inputs: Sequence[Input],
    staging: Staging | None,
    cut: Cut,
    lease: Lease,
    owner_id: Callable[[], int],
) -> Member:
    """A hidden state table in its owner's publish; `owner_id` is known when that row is written."""
    table = work.table
    if staging is not None:
        work.attempt.pointers[table.name] = Pointer(table.name, staging.location, is_view=False)
    result = work.result()  # before the owner's work begins

    def write(tx: Transaction) -> None:
        id = table.id or tx.add_stream_table(
            table.name,
            definition=table.definition,
            namespace=table.namespace,
            mode=table.mode,
            schedule=None,
            columns=table.columns,
            incremental=True,
            reason=None,
            fingerprint=table.fingerprint,
            layout=table.layout,
            owner_id=owner_id(),
        )
        _write(tx, id, work, compiled, inputs, staging, cut)
        if work.decision.action is not Action.NO_DATA:
            head = None if staging is None else staging.head
            tx.add_refresh(completed(result, "owner", cut.instant, work.refresh_id, head), id)

    return Member(table.name, lease, staging=staging, write=write)


def _write(
    tx: Transaction,
    id: int,
    work: Work,
    compiled: Compiled,
    inputs: Sequence[Input],
    staging: Staging | None,
    cut: Cut,
) -> None:
    """The table's row and its frontier after the refresh."""
    table = work.table
    tx.update_stream_table(
        id,
        status=Status.ACTIVE,
        definition=table.definition,
        namespace=table.namespace,
        mode=table.mode,
        schedule=table.schedule,
        columns=compiled.columns,
        incremental=compiled.incremental,
        reason=compiled.reason,
        fingerprint=compiled.fingerprint,
        layout=compiled.layout,
        functions=compiled.functions,
        data_timestamp=cut.instant,
        consecutive_errors=0,
        last_error=None,
    )
    if table.owner_id is None:
        tx.update_stream_table(id, shapes=work.shapes, star=table.star, settings=table.settings)
    if staging is not None:
        tx.update_stream_table(
            id,
            published_snapshot=staging.head,
            published_pointer=staging.location,
            table_uuid=work.attempt.lake.facts(staging.location).uuid,
            file_schema=staging.schema,
        )
        if work.decision.action is not Action.DIFFERENTIAL:
            tx.clear_change_log(id)
        elif staging.log is not None:
            tx.log_changes(id, staging.log)
    elif (location := location_of(cut.pointers, table.name)) is not None:
        # Tags and compaction move the pointer, not the content; what comes before them may expire.
        snapshot = work.attempt.lake.facts(location).snapshot_id
        tx.update_stream_table(id, published_pointer=location, published_snapshot=snapshot)
    views = (Dependency(v, InputKind.VIEW, pointer=location_of(cut.pointers, v)) for v in compiled.views)
    tx.set_dependencies(id, (*(i.at_cut() for i in inputs), *views))


def completed(
    result: RefreshResult,
    initiated_by: str,
    started_at: datetime,
    refresh_id: str | None = None,
    snapshot_id: int | None = None,
) -> HistoryEntry:
    """The history of a refresh that is over."""
    return HistoryEntry(
        refresh_id=refresh_id or uuid.uuid4().hex,
        name=result.name,
        state="COMPLETED",
        action=result.action,
        reason=result.reason,
        initiated_by=initiated_by,
        started_at=started_at,
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


def draft_of(
    name: TableName,
    definition: str,
    namespace: str,
    schedule: str | None,
    mode: Mode,
    compiled: Compiled,
    cut: Cut,
) -> StreamTable:
    """A stream table before it has a row."""
    return StreamTable(
        id=0,
        name=name,
        definition=definition,
        namespace=namespace,
        mode=mode,
        schedule=schedule,
        status=Status.INITIALIZING,
        columns=compiled.columns,
        incremental=compiled.incremental,
        reason=compiled.reason,
        fingerprint=compiled.fingerprint,
        layout=compiled.layout,
        published_snapshot=None,
        published_pointer=None,
        data_timestamp=None,
        consecutive_errors=0,
        last_error=None,
        created_at=cut.instant,
    )


def new_state(owner: StreamTable, state: StateTable, cut: Cut) -> StreamTable:
    """The row-to-be of a hidden state table. It has no public name: nobody but its owner reads it."""
    own, name = state.compiled, state.name
    draft = draft_of(name, own.definition, own.namespace, None, owner.mode, own, cut)
    return replace(draft, incremental=True, reason=None, owner_id=owner.id)


def forget(id: int, tx: Transaction) -> None:
    """A hidden state table goes."""
    tx.delete_stream_table(id)
