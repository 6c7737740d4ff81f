"""What users are shown: results of refreshes, plans, checks and verifications, each with its text."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from datetime import datetime

from spark_trickle.model import RUNS, Action, Column, Consistency, InputKind, Mode, SchedulePolicy, Star, Status


@dataclass(frozen=True, slots=True)
class RefreshResult:
    """What one refresh did, and why."""

    name: str
    action: Action
    reason: str
    rows_inserted: int = 0
    rows_updated: int = 0
    rows_deleted: int = 0
    seconds: float = 0.0
    stages: dict[str, float] = field(default_factory=dict)  # stage -> seconds
    rows_changed: dict[str, int] = field(default_factory=dict)  # input -> changed rows read
    notices: tuple[str, ...] = ()  # at creation: what the definition's author should know

    def __str__(self) -> str:
        rows = f"+{self.rows_inserted} ~{self.rows_updated} -{self.rows_deleted}"
        done = f"{self.name}: {self.action} {rows} in {self.seconds:.2f} s ({self.reason})"
        return "\n".join([done, *(f"notice: {n}" for n in self.notices)])


@dataclass(frozen=True, slots=True)
class PlannedRefresh:
    """What a refresh would do now, and why: a dry run."""

    name: str
    action: Action
    reason: str
    rows_changed: dict[str, int] = field(default_factory=dict)  # input -> changed rows, where they were counted
    expected_seconds: float | None = None  # what the same cost before
    sql: str | None = None  # what it would compute

    def __str__(self) -> str:
        cost = "" if self.expected_seconds is None else f", about {self.expected_seconds:.2f} s"
        done = f"{self.name}: would be {self.action}{cost} ({self.reason})"
        return done if self.sql is None else "\n".join([done, *(f"    {line}" for line in self.sql.splitlines())])


@dataclass(frozen=True, slots=True)
class HistoryEntry:
    """A row of `refresh_history`."""

    refresh_id: str
    name: str
    state: str  # RUNNING, COMPLETED, FAILED
    action: Action | None
    reason: str | None
    initiated_by: str
    started_at: datetime
    ended_at: datetime | None
    seconds: float | None
    rows_inserted: int
    rows_updated: int
    rows_deleted: int
    rows_changed: dict[str, int]
    stages: dict[str, float]
    error_code: str | None
    error: str | None
    snapshot_id: int | None = None  # of the stream table, after this refresh
    bytes_read: int | None = None
    data_timestamp: datetime | None = None  # that the stream table got; None: it kept the one it had
    group_epoch: int | None = None  # of the group that was published together
    fixpoint_iteration: int | None = None  # rounds of a cycle

    def __str__(self) -> str:
        what = self.action or self.state
        rows = f"+{self.rows_inserted} ~{self.rows_updated} -{self.rows_deleted}"
        took = "" if self.seconds is None else f" in {self.seconds:.2f} s"
        why = self.error or self.reason or ""
        return f"{self.started_at:%Y-%m-%d %H:%M:%S} {self.name}: {what} {rows}{took} ({why})"


@dataclass(frozen=True, slots=True)
class StreamTableStatus:
    """One line of `status()`."""

    name: str
    status: Status
    mode: Mode
    schedule: str | None
    incremental: bool
    reason: str | None
    inputs: tuple[str, ...]
    pending: bool  # an input moved past the frontier
    data_timestamp: datetime | None
    last_action: Action | None
    last_seconds: float | None
    last_error: str | None
    states: tuple[str, ...] = ()  # its hidden state tables
    lag_seconds: float | None = None  # since the cut that its content shows; 0 when no input changed after it
    target_seconds: float | None = None  # how old its schedule allows it to get; None: nobody asks
    failed_upstream: str | None = None  # a stream table that it reads and that failed: it waits for that one

    def is_late(self, periods: float) -> bool:
        """Whether it is so many times as old as its schedule allows. One that nobody refreshes is not called late."""
        if self.lag_seconds is None or not self.target_seconds or self.status not in RUNS:
            return False
        return self.lag_seconds > periods * self.target_seconds

    def __str__(self) -> str:
        fresh = "behind" if self.pending else "fresh"
        return f"{self.name}: {self.status} {self.mode} {fresh}, last {self.last_action or '-'}"


@dataclass(frozen=True, slots=True)
class Explanation:
    """How a stream table is maintained: what `explain` shows."""

    name: str
    definition: str
    incremental: bool
    reason: str | None
    identity: str
    operators: str  # the operator tree, one line per operator
    delta_sql: str | None  # what a DIFFERENTIAL refresh runs
    full_sql: str
    next_action: Action
    next_reason: str
    notices: tuple[str, ...] = ()

    def __str__(self) -> str:
        how = "incremental" if self.incremental else f"full only: {self.reason}"
        lines = [
            f"{self.name}: {how}",
            f"identity: {self.identity}",
            f"next refresh: {self.next_action} ({self.next_reason})",
        ]
        lines += [f"notice: {n}" for n in self.notices]
        lines += ["", "operators:", self.operators, "", "full refresh:", self.full_sql]
        if self.delta_sql:
            lines += ["", "differential refresh:", self.delta_sql]
        return "\n".join(lines)


@dataclass(frozen=True, slots=True)
class GroupStatus:
    """Stream tables that are published in one transaction, or not at all."""

    members: tuple[str, ...]  # upstream first
    fan_ins: tuple[str, ...]  # where paths meet
    paths: tuple[str, ...]  # why they are a group: two for each fan-in and ancestor
    schedule_policy: SchedulePolicy
    epoch: int  # how often they were published together
    last_state: str | None  # COMPLETED, FAILED; None: not refreshed yet
    last_at: datetime | None
    last_error: str | None

    def __str__(self) -> str:
        last = "not refreshed yet" if self.last_at is None else f"{self.last_state} at {self.last_at:%Y-%m-%d %H:%M:%S}"
        return f"{', '.join(self.members)}: epoch {self.epoch}, {last}"


@dataclass(frozen=True, slots=True)
class CycleStatus:
    """Stream tables that read each other."""

    members: tuple[str, ...]
    path: str  # how they do
    converged: bool  # the last refresh reached the fixpoint
    last_iterations: int | None  # rounds of the last refresh that computed something
    last_at: datetime | None
    last_reason: str | None  # with the new rows of each round
    last_error: str | None

    def __str__(self) -> str:
        last = "not refreshed yet" if self.last_at is None else f"{self.last_iterations} rounds at {self.last_at:%F %T}"
        return f"{self.path}: {last if self.converged else f'not converged: {self.last_error}'}"


def units_of(names: Iterable[str], groups: Iterable[GroupStatus]) -> list[tuple[str, ...]]:
    """Names of stream tables, those of a group together."""
    members = {member: group.members for group in groups for member in group.members}
    return list(dict.fromkeys(members.get(name, (name,)) for name in names))


@dataclass(frozen=True, slots=True)
class Description:
    """What a stream table is: what `describe` shows."""

    name: str
    definition: str
    namespace: str  # unqualified names in the definition are looked up here
    status: Status
    mode: Mode
    schedule: str | None
    star: Star
    incremental: bool
    reason: str | None
    columns: tuple[Column, ...]
    inputs: tuple[tuple[str, InputKind], ...]
    functions: tuple[tuple[str, str], ...]  # of the lake: name and version
    settings: tuple[tuple[str, str | None], ...]  # pinned; those that differ from Spark's defaults first
    unusual: int  # how many differ
    states: tuple[str, ...]  # its hidden state tables
    data_timestamp: datetime | None
    created_at: datetime
    diamond_consistency: Consistency | None = None  # None: as the lake has it
    diamond_schedule_policy: SchedulePolicy | None = None

    def __str__(self) -> str:
        how = "incremental" if self.incremental else f"full only: {self.reason}"
        lines = [
            f"{self.name}: {self.status}, mode {self.mode}, schedule {self.schedule or '-'}, {how}",
            f"definition, in namespace {self.namespace or '-'}, * means {self.star}:",
            *(f"  {line}" for line in self.definition.splitlines()),
            "columns:",
            *(f"  {c.name} {c.type}" for c in self.columns),
            "inputs:",
            *(f"  {name} ({kind})" for name, kind in self.inputs),
        ]
        for key in ("diamond_consistency", "diamond_schedule_policy"):
            own = getattr(self, key)
            lines += [] if own is None else [f"{key} = {own.lower()}"]
        if self.functions:
            lines += ["functions:", *(f"  {name}, version {version[:12]}" for name, version in self.functions)]
        lines += ["settings:"]
        lines += [f"  {key} = {value}" for key, value in self.settings[: self.unusual]]
        rest = len(self.settings) - self.unusual
        lines += [f"  and {rest} with Spark's default values" if rest else "  none yet: pinned at the next refresh"]
        lines += [f"hidden state table: {s}" for s in self.states]
        return "\n".join(lines)


@dataclass(frozen=True, slots=True)
class CheckedOperator:
    """One line of the operator tree of a checked query."""

    depth: int
    label: str
    how: str  # how its result is maintained
    cost: str  # what that cost follows


@dataclass(frozen=True, slots=True)
class CheckedInput:
    """A table that a checked query reads."""

    name: str
    kind: InputKind
    columns: tuple[str, ...]
    rows: int | None  # None: the table does not say
    also_read: tuple[str, ...]  # what a refresh looks at besides the changes, when this input alone changed


@dataclass(frozen=True, slots=True)
class Obstacle:
    """Why a query is not incremental."""

    reason: str  # a name of sql/reasons.py
    word: str  # never, not yet
    message: str
    meaning: str
    change: str  # what to write instead
    line: int | None = None  # in the query; None: the whole of it
    column: int | None = None
    shown: str = ""  # that line, with the place marked

    def __str__(self) -> str:
        at = f" at line {self.line}, column {self.column}" if self.line else ""
        lines = [f"{self.reason}{at} ({self.word}): {self.message}", *self.shown.splitlines()]
        return "\n".join([*lines, f"  {self.meaning}", f"  → {self.change}"])


@dataclass(frozen=True, slots=True)
class Check:
    """What `check` says about a query before a stream table is made of it."""

    query: str
    incremental: bool
    obstacle: Obstacle | None
    columns: tuple[Column, ...]
    identity: str
    operators: tuple[CheckedOperator, ...]  # empty where the query could not be read that far
    inputs: tuple[CheckedInput, ...]
    views: tuple[str, ...]
    notices: tuple[str, ...]
    delta_sql: str | None  # what a DIFFERENTIAL refresh would run if every input changed

    def __str__(self) -> str:
        lines = ["incremental" if self.incremental else "not incremental: every refresh would be FULL"]
        if self.obstacle is not None:
            lines += ["", str(self.obstacle)]
        lines += [f"notice: {n}" for n in self.notices]
        if self.operators:
            width = max(len("  " * o.depth + o.label) for o in self.operators)
            lines += ["", "operators:"]
            lines += [
                f"  {'  ' * o.depth + o.label:<{min(width, 60)}}  {o.how}" + (f"; cost {o.cost}" if o.cost else "")
                for o in self.operators
            ]
        lines += ["", "inputs:"]
        for i in self.inputs:
            rows = "" if i.rows is None else f", {i.rows:,} rows"
            also = f"; when it changes, also read: {', '.join(i.also_read)}" if i.also_read else ""
            lines.append(f"  {i.name} ({i.kind}{rows}): {', '.join(i.columns)}{also}")
        lines += [f"  {v} (view)" for v in self.views]
        if self.incremental:
            lines += ["", f"identity: {self.identity}"]
        if self.delta_sql:
            lines += ["", "differential refresh:", self.delta_sql]
        return "\n".join(lines)


@dataclass(frozen=True, slots=True)
class Upkeep:
    """What one pass of maintenance did to a stream table or hidden state table, or would do."""

    name: str
    done: bool  # False: nothing was to be done, or it could not be done now, or only looked at
    reason: str
    files_before: int = 0  # data files
    files_after: int = 0
    files_left: int = 0  # small files that wait for the next pass
    bytes_rewritten: int = 0
    snapshots_expired: int = 0
    files_unneeded: int = 0  # that no snapshot refers to any more: they go after `reader_grace`
    metadata_deleted: int = 0  # metadata files
    seconds: float = 0.0
    failed: bool = False  # the reason is an error

    def __str__(self) -> str:
        if not self.done:
            return f"{self.name}: {'FAILED, ' if self.failed else ''}{self.reason}"
        what = []
        if self.bytes_rewritten:
            size = self.bytes_rewritten / 1e6
            what.append(f"{self.files_before} data files are {self.files_after} ({size:.1f} MB rewritten)")
        if self.snapshots_expired:
            what.append(f"{self.snapshots_expired} snapshots expired, {self.files_unneeded} files are unneeded")
        if self.metadata_deleted:
            what.append(f"{self.metadata_deleted} old metadata files deleted")
        return f"{self.name}: {', '.join(what)} in {self.seconds:.2f} s ({self.reason})"


@dataclass(frozen=True, slots=True)
class Verification:
    """Whether a stream table equals its definition at its frontier, as multisets."""

    name: str
    equal: bool
    rows: int
    missing: int  # rows the definition has and the table lacks
    extra: int  # rows the table has and the definition lacks
    seconds: float
    examples: tuple[str, ...] = ()
    unjudged: tuple[str, ...] = ()  # columns that differ, and whose value SQL leaves open
    parts: tuple[str, ...] = ()  # what else was compared, each with its own part of the definition

    def __str__(self) -> str:
        if self.equal:
            lines = [f"{self.name}: equal, {self.rows} rows ({self.seconds:.2f} s)"]
        else:
            lines = [f"{self.name}: DIFFERS, {self.missing} rows missing, {self.extra} rows extra"]
            lines += [f"  {e}" for e in self.examples]
        return "\n".join([*lines, *(f"  {r}" for r in self.remarks)])

    @property
    def remarks(self) -> tuple[str, ...]:
        """How far the comparison went."""
        open_ = f"not judged, since SQL leaves their values open: {', '.join(self.unjudged)}" if self.unjudged else ""
        parts = f"also compared: {', '.join(self.parts)}" if self.parts else ""
        return tuple(r for r in (open_, parts) if r)
