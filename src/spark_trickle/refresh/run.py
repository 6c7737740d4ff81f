"""Run refreshes: take the cut, decide, stage in an attempt, publish.

One attempt serves all stream tables of a call, so that they all see the same cut, and a consumer reads what its
upstream has just staged. A chain publishes table by table; a group in one transaction at the end.
"""

from __future__ import annotations

import logging
import uuid
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from functools import partial

from spark_trickle.catalog.connection import OutcomeUnknown
from spark_trickle.catalog.leases import Heartbeat, Lease
from spark_trickle.catalog.store import CatalogStore
from spark_trickle.config import Settings
from spark_trickle.delta.optimize import PASSES, Pass
from spark_trickle.errors import Kind, TrickleError
from spark_trickle.graph.dag import Graph
from spark_trickle.lake.attempt import Attempt, Attempts
from spark_trickle.lake.protect import Protector, sources_of
from spark_trickle.lake.publish import Member, publish
from spark_trickle.lake.staging import Staging
from spark_trickle.lake.tables import Lake
from spark_trickle.model import (
    Action,
    Mode,
    RefreshResult,
    Status,
    StreamTable,
    TableName,
    TableOptions,
)
from spark_trickle.refresh.compiler import Compiler
from spark_trickle.refresh.decide import Decision, decide_by_cost, decide_early
from spark_trickle.refresh.definition import Compiled
from spark_trickle.refresh.definition_check import misread
from spark_trickle.refresh.full import described, write_full
from spark_trickle.refresh.handover import hand_over, trim
from spark_trickle.refresh.inputs import Feeds, Input, gather
from spark_trickle.refresh.outcome import Counts, Differential
from spark_trickle.refresh.record import Work, completed, forget, member_of, new_state, state_member_of
from spark_trickle.refresh.situation import Cut, behind, location_of, look, past_of, refuse_taken, size_of, touched
from spark_trickle.refresh.stages import Stages
from spark_trickle.spark.analyze import data_error, spark_error
from spark_trickle.spark.settings import Pins

_log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Altered:
    """What was altered so that the content is computed anew."""

    settings: tuple[str, ...] = ()  # the differences in words
    definition: bool = True
    options: TableOptions = field(default_factory=TableOptions)

    @property
    def reason(self) -> str:
        text = ["the definition was changed"] if self.definition else []
        if self.options.partitioned_by is not None:
            text.append(f"partitioned by {', '.join(map(str, self.options.partitioned_by)) or 'nothing'}")
        if self.options.clustered_by is not None:
            text.append(f"clustered by {', '.join(map(str, self.options.clustered_by)) or 'nothing'}")
        return f"ALTERED: {'; '.join((*text, *self.settings))}"


@dataclass(slots=True)
class Refresher:
    store: CatalogStore
    settings: Settings
    lake: Lake
    attempts: Attempts
    heartbeat: Heartbeat
    compiler: Compiler
    protector: Protector
    passes: tuple[Pass, ...] = PASSES
    probe: Callable[[str], None] | None = None  # tests fail a refresh at a named point

    def cut(self, reads: Iterable[TableName] = ()) -> Cut:
        """`reads` are looked at now; other sources outside the catalog when they are first asked for."""
        instant = datetime.now(UTC)
        pointers = self.attempts.sources.pointers()
        for name in reads:
            pointers.get(name)
        return Cut(pointers, instant)

    def pins(self, table: StreamTable) -> dict[str, str | None]:
        """What its definition runs under. One from before settings were kept has those of this connection."""
        kept = dict(table.settings)
        return {key: kept.get(key, value) for key, value in self.attempts.own_settings.items()}

    def compile(
        self,
        attempt: Attempt,
        name: TableName,
        definition: str,
        namespace: str,
        cut: Cut,
        known: Mapping[TableName, StreamTable],
        pins: Pins,
        *,
        check: bool,
    ) -> Compiled:
        """`check` runs the net below the parser: what we misread is compiled once more, as written."""
        compiled = self.compiler.compile(attempt, name, definition, namespace, cut.pointers, known, pins)
        found = misread(attempt, compiled, cut.instant, self.settings) if check else None
        if found is None:
            return compiled
        return self.compiler.compile(attempt, name, definition, namespace, cut.pointers, known, pins, found)

    # -- refresh ---------------------------------------------------------------------------------------------------

    def refresh(
        self, names: Sequence[TableName], mode: Mode | None, *, upstream: bool, together: bool, initiated_by: str
    ) -> tuple[RefreshResult, ...]:
        """Refresh stream tables; results in the order of `names`."""
        started = Stages()
        known = {t.name: t for t in self.store.stream_tables()}
        for name in names:
            if name not in known:
                raise unknown(name, known)
        # Also without upstream: each once, and after those of the others that it reads.
        order = graph_of(known.values()).ancestors_first(names)
        if not upstream:
            order = tuple(n for n in order if n in names)
        cut = self.cut()
        if self._pending(order, known, names, mode, cut):
            results = self._run(order, known, names, mode, started, together=together, initiated_by=initiated_by)
            self.protector.protect(sources_of(known[n] for n in order))
        else:
            results = {n: self._no_data(known[n], cut, started, initiated_by) for n in order if n in names}
        return tuple(results[name] for name in names)

    def _pending(
        self,
        order: Sequence[TableName],
        known: Mapping[TableName, StreamTable],
        names: Sequence[TableName],
        mode: Mode | None,
        cut: Cut,
    ) -> tuple[TableName, ...]:
        """The stream tables that may have something to do, told by pointers alone."""
        pointers = cut.pointers
        found: dict[TableName, None] = {}
        for name in order:
            table = known[name]
            asked = name in names and mode is Mode.FULL
            moved = behind(table, pointers) or any(d.input in found for d in table.reads)
            own = touched(table, pointers)
            code = self.attempts.functions.changed(table.functions)
            due = table.status is not Status.ACTIVE or time_dependent(table) or not table.settings
            if asked or moved or own or code or due:
                found[name] = None
        return tuple(found)

    def _no_data(self, table: StreamTable, cut: Cut, stages: Stages, initiated_by: str) -> RefreshResult:
        reason = "NO_CHANGE: no input changed since the last refresh"
        result = RefreshResult(str(table.name), Action.NO_DATA, reason, seconds=round(stages.total, 4))
        with self.store.write() as tx:
            tx.add_refresh(completed(result, initiated_by, cut.instant), table.id)
            tx.update_stream_table(table.id, data_timestamp=cut.instant)
        return result

    def _run(
        self,
        order: Sequence[TableName],
        before: Mapping[TableName, StreamTable],
        names: Sequence[TableName],
        mode: Mode | None,
        started: Stages,
        *,
        together: bool,
        initiated_by: str,
    ) -> dict[TableName, RefreshResult]:
        """All of them are leased before the cut is taken: what need not be computed is at the same cut as the rest."""
        leases = [f"stream_table:{before[n].id}" for n in order]
        with self.heartbeat.holding(leases, self.settings.lease_wait_seconds) as lease:
            # Another refresh may have been here while we waited.
            known = {t.name: t for t in self.store.stream_tables()}
            for name in order:
                same_as_leased(before[name], known)
            cut = self.cut(d.input for name in order for d in known[name].reads)
            pending = self._pending(order, known, names, mode, cut)
            results: dict[TableName, RefreshResult] = {}
            staged: list[Work] = []
            publishing = False
            with self.attempts.begin({}) as attempt:
                try:
                    for n, name in enumerate(pending, start=1):
                        attempt.to_come = frozenset(pending[n:])
                        asked = mode if name in names else None
                        work = self._stage(attempt, known, name, cut, asked, lease, initiated_by)
                        known[name] = work.table  # with its new columns, for consumers in this attempt
                        staged.append(work)
                        if not together or n == len(pending):
                            publishing = True
                            self._publish(staged)
                            publishing = False
                            results.update({w.table.name: w.result() for w in staged})
                            staged = []
                except BaseException as error:
                    for work in staged:
                        self._undo(work, error, own=publishing)
                    raise
            for name in names:
                if name not in results:
                    results[name] = self._no_data(known[name], cut, started, initiated_by)
        return results

    def rebuild(
        self,
        attempt: Attempt,
        table: StreamTable,
        known: Mapping[TableName, StreamTable],
        cut: Cut,
        lease: Lease,
        altered: Altered,
    ) -> RefreshResult:
        """Recompute a stream table whose definition was altered, and publish both together."""
        everything = {**known, table.name: table}
        work = self._stage(attempt, everything, table.name, cut, None, lease, "alter", altered=altered)
        try:
            self._publish([work])
        except BaseException as error:
            self._undo(work, error)
            raise
        return work.result()

    def _undo(self, work: Work, error: BaseException, *, own: bool = True) -> None:
        """`own`: the error is not only that of another member of the group."""
        entry = None if isinstance(error, OutcomeUnknown) else self.store.refresh_entry(work.refresh_id)
        if entry is not None and entry.state == "RUNNING":  # else it is published, or may be
            for member in work.members:
                if member.staging is not None:
                    self.discard(member.staging)
        self._failed(work, spark_error(error), own=own)

    def _stage(
        self,
        attempt: Attempt,
        known: Mapping[TableName, StreamTable],
        name: TableName,
        cut: Cut,
        asked: Mode | None,
        lease: Lease,
        initiated_by: str,
        *,
        altered: Altered | None = None,
    ) -> Work:
        table = known[name]
        table = replace(table, settings=tuple(sorted(self.pins(table).items())))
        work = Work(table, attempt, Stages(), uuid.uuid4().hex, Decision(Action.NO_DATA, ""))
        if altered is not None:
            work.options = altered.options
        with self.store.write() as tx:
            tx.start_refresh(work.refresh_id, table.id, str(name), initiated_by)
        staging: list[Staging] = []
        try:
            self._compute(work, known, cut, asked, lease, staging, altered=altered)
        except BaseException as error:
            for stage in staging:
                self.discard(stage)
            problem = _located(spark_error(error), table)
            self._failed(work, problem)
            if isinstance(error, Exception):
                raise problem from error
            raise
        return work

    def _compute(
        self,
        work: Work,
        known: Mapping[TableName, StreamTable],
        cut: Cut,
        asked: Mode | None,
        lease: Lease,
        opened: list[Staging],
        *,
        altered: Altered | None,
    ) -> None:
        table, attempt = work.table, work.attempt
        attempt.tune(small=False)
        with work.stages("compile"):
            pins = dict(table.settings)
            unseen = table.status is Status.INITIALIZING  # created empty: nobody has looked yet
            compiled = self.compile(
                attempt, table.name, table.definition, table.namespace, cut, known, pins, check=unseen
            )
            refuse_cycle(table.name, compiled, known)  # a view may have got another text
        # Another text needs other states, or the same ones with the same rows; other settings give them other rows.
        below = altered if altered is not None and altered.settings else None
        states = self.stage_states(work, compiled, known, cut, asked, lease, opened, lambda: table.id, altered=below)
        inputs, staging = self._maintain(work, compiled, known, cut, asked, opened, states, altered=altered)
        work.members.append(member_of(work, compiled, inputs, staging, cut, lease))

    def _maintain(
        self,
        work: Work,
        compiled: Compiled,
        known: Mapping[TableName, StreamTable],
        cut: Cut,
        asked: Mode | None,
        opened: list[Staging],
        states: Sequence[Work],
        *,
        altered: Altered | None = None,
    ) -> tuple[Sequence[Input], Staging | None]:
        """Decide and compute one table whose state tables are staged already."""
        table, attempt, stages = work.table, work.attempt, work.stages
        attempt.tune(small=False)
        before = len(opened)
        with stages("compile"):
            frontier = {d.input: d for d in table.dependencies}
            inputs = gather(attempt, compiled, frontier)
            situation = look(self.lake, table, compiled, inputs, cut, asked, [s.decision for s in states])
            if altered is not None and (situation.initialized or table.owner_id is None):
                situation = replace(situation, reshaped=altered.reason, initialized=True)
        feeds = Feeds(attempt, {i.name: i for i in inputs})
        try:
            decision = decide_early(situation)
            if decision is None or decision.action is Action.DIFFERENTIAL:
                with stages("feed"):
                    for item in inputs:
                        if item.changed:
                            feeds.open(item)
                if decision is None:
                    with stages("feed"):
                        sizes = [size_of(self.lake, i, feeds) for i in inputs if i.changed]
                    decision = decide_by_cost(sizes, past_of(self.store, table), self.settings.max_change_ratio)
            if decision.action is Action.DIFFERENTIAL and feeds.nothing and all(_idle(s.decision) for s in states):
                moved = ", ".join(str(i.name) for i in inputs if i.changed)
                decision = Decision(Action.NO_DATA, f"NO_CHANGE: the new snapshots of {moved} hold the same rows")
            work.decision = decision
            attempt.tune(small=decision.action is Action.DIFFERENTIAL and feeds.all_small)
            try:
                staging = self._apply(work, compiled, feeds, cut, opened)
            except Exception as error:
                again = _second_try(error, decision, asked or table.mode)
                if again is None:
                    raise
                while len(opened) > before:
                    self.discard(opened.pop())
                attempt.restore(cut.pointers, table.name)
                work.decision = again
                attempt.tune(small=False)
                staging = self._apply(work, compiled, feeds, cut, opened, carefully=True)
            if staging is not None:
                hand_over(staging, feeds, table, known, stages)
            hidden = {s.table.name for s in states}
            for below in states:
                work.changed |= below.changed
            work.changed |= {str(n): r for n, r in feeds.rows.items() if n not in hidden}
            work.bytes_read = feeds.bytes_read + sum(s.bytes_read for s in states)
            work.decision = _with_states(work.decision, states)
        finally:
            feeds.release()
        return inputs, staging

    def stage_states(
        self,
        owner: Work,
        compiled: Compiled,
        known: Mapping[TableName, StreamTable],
        cut: Cut,
        asked: Mode | None,
        lease: Lease,
        opened: list[Staging],
        owner_id: Callable[[], int],
        *,
        altered: Altered | None = None,
    ) -> tuple[Work, ...]:
        """Bring the hidden state tables up to the cut, in the owner's attempt and for its publish.

        They follow the owner's mode. Those that the definition no longer needs go with the same publish.
        """
        attempt, have = owner.attempt, {t.name: t for t in owner.table.states}
        done: dict[TableName, Work] = {}
        for state in compiled.states:
            with owner.stages("states"):
                table = have.get(state.name) or new_state(owner.table, state, cut)
                work = Work(
                    replace(table, mode=owner.table.mode),
                    attempt,
                    Stages(),
                    uuid.uuid4().hex,
                    Decision(Action.NO_DATA, ""),
                )
                attempt.register_missing(cut.pointers, [state.name])
                below = [done[i] for i in state.compiled.inputs if i in done]
                inputs, staging = self._maintain(
                    work, state.compiled, known, cut, asked, opened, below, altered=altered
                )
                owner.members.append(state_member_of(work, state.compiled, inputs, staging, cut, lease, owner_id))
                done[state.name] = work
        for table in (t for t in have.values() if t.name not in done):  # no longer needed
            owner.members.append(Member(table.name, lease, retired=table.name, write=partial(forget, table.id)))
        return tuple(done.values())

    # -- stage -----------------------------------------------------------------------------------------------------

    def _apply(
        self,
        work: Work,
        compiled: Compiled,
        feeds: Feeds,
        cut: Cut,
        opened: list[Staging],
        *,
        carefully: bool = False,
    ) -> Staging | None:
        table, attempt, action = work.table, work.attempt, work.decision.action
        if action is Action.NO_DATA:
            return None
        if action is Action.DIFFERENTIAL:
            assert compiled.plan is not None
            attempt.register_missing(cut.pointers, [table.name])
            staging = Staging.onto(attempt, table.name, table.file_schema)
            opened.append(staging)
            run = Differential(feeds, staging, compiled.columns, work.stages, self.passes)
            work.counts = run.run_carefully(compiled.plan) if carefully else run.run(compiled.plan)
            return staging
        refuse_taken(self.lake, table, cut)
        fits = compiled.layout == table.layout and bool(table.file_schema)
        with work.stages("full"):
            options = described(attempt, compiled, work.options)
            if table.name in cut.pointers:
                attempt.register_missing(cut.pointers, [table.name])
                columns = None if fits else compiled.all_columns
                staging = Staging.reshaped(attempt, table.name, columns, table.file_schema, options)
            else:
                staging = Staging.new(attempt, table.name, compiled.all_columns, options)
            opened.append(staging)
            before = self._rows_before(staging)
            written = write_full(attempt, compiled, staging, cut.instant)
        work.counts = Counts(inserted=written, deleted=before)
        return staging

    def _rows_before(self, staging: Staging) -> int:
        if staging.base is None or staging.head is None:
            return 0
        return self.lake.rows(staging.attempt.session, staging.base.location, staging.head) or 0

    # -- publish ---------------------------------------------------------------------------------------------------

    def _publish(self, staged: Sequence[Work]) -> None:
        with staged[-1].stages("publish"):
            publish(self.store, self.lake, [m for w in staged for m in w.members], probe=self.probe)
        trim(self.store, self.lake, [w.table for w in staged])

    def _failed(self, work: Work, error: TrickleError, *, own: bool = True) -> None:
        """Keep the failure; the old content stays readable. What failed elsewhere is no fault of this table."""
        table = work.table
        try:
            known = self.store.refresh_entry(work.refresh_id)
            if known is not None and known.state != "RUNNING":
                return  # published, and failed only afterwards
            with self.store.write() as tx:
                tx.finish_refresh(
                    work.refresh_id,
                    state="FAILED",
                    action=None,
                    reason=work.decision.reason or None,
                    stages=work.stages.rounded(),
                    seconds=round(work.stages.total, 4),
                    error_code=error.code,
                    error=error.message,
                )
                if not own:
                    return
                fields = {"consecutive_errors": table.consecutive_errors + 1, "last_error": str(error)}
                tx.update_stream_table(table.id, **fields)  # type: ignore[arg-type]
                if error.kind is Kind.SCHEMA and table.status is Status.ACTIVE:
                    tx.update_stream_table(table.id, status=Status.ERROR)
        except TrickleError as second:
            _log.warning("the failure of %s could not be recorded: %s", table.name, second)

    def discard(self, staging: Staging) -> None:
        """Delete the files of a failed refresh, unless they are published: an error may come after the commit."""
        try:
            live = self.store.pointers(names=[staging.name])
            if location_of(live, staging.name) != staging.location:
                staging.discard()
        except Exception as error:
            _log.warning("files of a failed refresh of %s stay behind: %s", staging.name, error)


def _second_try(error: Exception, decision: Decision, mode: Mode) -> Decision | None:
    """What to do after a failure that need not be the definition's; None: it is what it is."""
    if isinstance(error, TrickleError):
        # The table is not what the deltas say it should be: start it anew.
        if error.code != "INTEGRITY" or mode is Mode.DIFFERENTIAL:
            return None
        return Decision(Action.REINITIALIZE, f"INTEGRITY: {error.message}")
    met = data_error(error)
    if met is None or decision.action is not Action.DIFFERENTIAL:
        return None
    # Perhaps for a row that is in neither state: the new state alone tells.
    return replace(decision, reason=f"{decision.reason}; DELTA_FAILED: all rows compared, since the change met: {met}")


def _idle(decision: Decision) -> bool:
    return decision.action is Action.NO_DATA


def _with_states(decision: Decision, states: Sequence[Work]) -> Decision:
    """Recomputing a state table is said, too."""
    whole = [s for s in states if s.decision.action is Action.FULL and not s.decision.reason.startswith("INITIAL")]
    if decision.action is not Action.DIFFERENTIAL or not whole:
        return decision
    parts = "; ".join(f"hidden state table {s.table.name.name}: FULL, {s.decision.reason}" for s in whole)
    return replace(decision, reason=f"{decision.reason}; {parts}")


def graph_of(tables: Iterable[StreamTable]) -> Graph[TableName]:
    """The DAG of stream tables by their public names."""
    found = tuple(tables)
    names = {t.name for t in found}
    return Graph({t.name: [d.input for d in t.reads if d.input in names] for t in found})


def refuse_cycle(name: TableName, compiled: Compiled, known: Mapping[TableName, StreamTable]) -> None:
    upstream = dict(graph_of(known.values()).upstream)
    upstream[name] = tuple(i for i in compiled.reads if i in known)
    Graph(upstream).ancestors_first([name])


def same_as_leased(table: StreamTable, known: Mapping[TableName, StreamTable]) -> StreamTable:
    """The stream table as it is now that its lease is ours; another one may have got its name while we waited."""
    now = known.get(table.name)
    if now is None:
        raise unknown(table.name, known)
    if now.id != table.id:
        raise TrickleError("PUBLISH_CONFLICT", f"{table.name} was dropped and made again while this call waited for it")
    return now


def unknown(name: TableName, known: Mapping[TableName, StreamTable]) -> TrickleError:
    there = ", ".join(sorted(map(str, known))) or "none"
    return TrickleError("UNKNOWN_STREAM_TABLE", f"there is no stream table {name}; there are: {there}")


def time_dependent(table: StreamTable) -> bool:
    return bool(table.reason) and str(table.reason).startswith("TIME_DEPENDENT")


# What a definition once had and has no longer, by what Spark says about it.
_GONE = {"UNKNOWN_TABLE": "SOURCE_DROPPED", "UNKNOWN_COLUMN": "SOURCE_CHANGED", "INVALID_QUERY": "SOURCE_CHANGED"}


def _located(error: TrickleError, table: StreamTable) -> TrickleError:
    """The error with the stream table's name in it."""
    if error.code in _GONE:
        return TrickleError(_GONE[error.code], f"{table.name}: {error.message}")
    if str(table.name) in error.message:
        return error
    return TrickleError(error.code, f"{table.name}: {error.message}", hint=error.hint)
