"""Run refreshes: take the cut, decide, stage in an attempt, publish.

One path for all: a refresh, the first fill of a new stream table, and the recompute after an ALTER are requests that
are staged and published alike. One attempt serves all stream tables of a call, so that they all see the same cut, and
a consumer reads what its upstream has just staged. A chain publishes table by table, a group in one transaction.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime

from spark_trickle.catalog.connection import OutcomeUnknown
from spark_trickle.catalog.frontier import changed_outside, inputs_moved, location_of
from spark_trickle.catalog.leases import Heartbeat, Lease
from spark_trickle.catalog.reader import unknown
from spark_trickle.catalog.store import CatalogStore
from spark_trickle.config import Settings
from spark_trickle.delta.optimize import PASSES, Pass
from spark_trickle.errors import Reason, TrickleError
from spark_trickle.graph.stream_tables import Groups, graph_of
from spark_trickle.lake.attempt import Attempt, Attempts
from spark_trickle.lake.protect import Protector, sources_of
from spark_trickle.lake.publish import publish
from spark_trickle.lake.staging import Counts, Staging
from spark_trickle.lake.tables import Lake
from spark_trickle.model import Action, Mode, Pointer, Status, StreamTable, TableName
from spark_trickle.refresh.compiler import Compiler
from spark_trickle.refresh.cycle import CycleRefresh, Shapes, plan_of, refuse_other_shape, refuse_other_types
from spark_trickle.refresh.decide import NO_CHANGE, Decision, decide_by_cost, decide_early
from spark_trickle.refresh.definition import Compiled, Definition, StateTable
from spark_trickle.refresh.definition_check import misread
from spark_trickle.refresh.failures import located, record_failure, record_group_failure, second_try
from spark_trickle.refresh.full import described, write_full
from spark_trickle.refresh.handover import hand_over, trim
from spark_trickle.refresh.inputs import Feeds, gather
from spark_trickle.refresh.reads import reading, refuse_cycle, refused_cycle, with_readers
from spark_trickle.refresh.runner import Runner
from spark_trickle.refresh.situation import (
    Cut,
    past_of,
    refuse_taken,
    situation_of,
    size_of,
)
from spark_trickle.refresh.stages import Stages
from spark_trickle.refresh.tracing import trace
from spark_trickle.refresh.work import (
    Altered,
    Done,
    Made,
    Request,
    Run,
    Work,
    completed,
    group_changes,
    members,
    shapes_of,
)
from spark_trickle.results import RefreshResult
from spark_trickle.spark.analyze import spark_error

_log = logging.getLogger(__name__)
_TRIES = 5


@dataclass(frozen=True, slots=True)
class Asked:
    """What a call of `refresh` asks for."""

    names: tuple[TableName, ...]
    mode: Mode | None
    upstream: bool
    together: bool
    by: str


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

    def known(self) -> dict[TableName, StreamTable]:
        return {t.name: t for t in self.store.stream_tables()}

    def groups(self, known: Mapping[TableName, StreamTable]) -> Groups:
        return Groups.of(known.values(), self.settings)

    def pins(self, table: StreamTable) -> dict[str, str | None]:
        """What its definition runs under. One from before settings were kept has those of this connection."""
        kept = dict(table.settings)
        return {key: kept.get(key, value) for key, value in self.attempts.own_settings.items()}

    def definition(self, table: StreamTable) -> Definition:
        return Definition(table.name, table.definition, table.namespace, self.pins(table))

    def compile(
        self,
        attempt: Attempt,
        table: StreamTable,
        cut: Cut,
        known: Mapping[TableName, StreamTable],
        *,
        check: bool = False,
    ) -> Compiled:
        """`check` runs the net below the parser: what we misread is compiled once more, as written."""
        definition, cycle = self.definition(table), self.groups(known).cycle(table.name)
        if cycle and not self.settings.allow_circular:
            raise refused_cycle(cycle, known)
        compiled = self.compiler.compile(attempt, definition, cut.pointers, known, cycle=cycle)
        found = misread(attempt, compiled, cut.instant, self.settings) if check and not cycle else None
        return compiled if found is None else self.compiler.compile(attempt, definition, cut.pointers, known, found)

    # -- refresh ---------------------------------------------------------------------------------------------------

    def refresh(
        self, names: Sequence[TableName], mode: Mode | None, *, upstream: bool, together: bool, initiated_by: str
    ) -> tuple[RefreshResult, ...]:
        """Refresh stream tables; results in the order of `names`."""
        started = Stages()
        known = self.known()
        order = self.order(names, known, upstream=upstream)
        cut = self.cut()
        if self.pending(order, known, names, mode, cut):
            asked = Asked(tuple(names), mode, upstream, together, initiated_by)
            results = self._run(order, known, asked, started)
        else:
            results = {n: self._no_data(known[n], cut, started, initiated_by) for n in order if n in names}
        return tuple(results[name] for name in names)

    def order(
        self, names: Sequence[TableName], known: Mapping[TableName, StreamTable], *, upstream: bool
    ) -> tuple[TableName, ...]:
        """Each once, after those of the others that it reads, groups whole; with `upstream` also all that they read."""
        for name in names:
            if name not in known:
                raise unknown(name, known)
        graph, groups = graph_of(known.values()), self.groups(known)
        chosen = groups.whole(names)
        while upstream:
            more = groups.whole(graph.ancestors(chosen))
            if len(more) == len(chosen):
                break
            chosen = more
        return tuple(name for unit in groups.units(chosen, graph) for name in unit)

    def pending(
        self,
        order: Sequence[TableName],
        known: Mapping[TableName, StreamTable],
        names: Sequence[TableName],
        mode: Mode | None,
        cut: Cut,
    ) -> tuple[TableName, ...]:
        """The stream tables that may have something to do, told by pointers alone."""
        found = {n for n in order if (n in names and mode is Mode.FULL) or self.is_pending(known[n], cut)}
        return tuple(with_readers(found, order, known, self.groups(known)))

    def is_pending(self, table: StreamTable, cut: Cut) -> bool:
        """The same of one, its upstreams aside."""
        moved = inputs_moved(table, cut.pointers) or changed_outside(table, cut.pointers)
        due = table.status is not Status.ACTIVE or time_dependent(table) or not table.settings
        return moved or due or self.attempts.functions.changed(table.functions)

    def _no_data(self, table: StreamTable, cut: Cut, stages: Stages, initiated_by: str) -> RefreshResult:
        result = RefreshResult(str(table.name), Action.NO_DATA, str(NO_CHANGE), seconds=round(stages.total, 4))
        with self.store.write() as tx:
            tx.add_refresh(completed(result, initiated_by, cut.instant), table.id)
            tx.update_stream_table(table.id, data_timestamp=cut.instant, consecutive_errors=0, last_error=None)
        return result

    def _run(
        self, order: Sequence[TableName], before: Mapping[TableName, StreamTable], asked: Asked, started: Stages
    ) -> dict[TableName, RefreshResult]:
        """All of them are leased before the cut is taken: what need not be computed is at the same cut as the rest."""
        for _ in range(_TRIES):
            leases = [f"stream_table:{before[n].id}" for n in order]
            with self.heartbeat.holding(leases, self.settings.lease_wait_seconds) as lease:
                # Another refresh may have been here while we waited, and groups may have other members.
                known = self.known()
                for name in asked.names:
                    same_as_leased(before[name], known)
                again = self.order(asked.names, known, upstream=asked.upstream)
                if all(n in order and known[n].id == before[n].id for n in again):
                    return self._run_leased(again, known, asked, lease, started)
            order, before = again, known
        raise TrickleError(
            "REFRESH_IN_PROGRESS", f"what is published with {', '.join(map(str, asked.names))} changes all the time"
        )

    def _run_leased(
        self,
        order: Sequence[TableName],
        known: dict[TableName, StreamTable],
        asked: Asked,
        lease: Lease,
        started: Stages,
    ) -> dict[TableName, RefreshResult]:
        cut = self.cut(d.input for name in order for d in known[name].reads)
        pending = self.pending(order, known, asked.names, asked.mode, cut)
        results: dict[TableName, RefreshResult] = {}
        groups = self.groups(known)
        units = [tuple(order)] if asked.together else groups.units(order, graph_of(known.values()))
        # What is recomputed is recomputed with its group: the others may need it just as much.
        full = groups.whole(asked.names) if asked.mode is Mode.FULL else asked.names
        todo = [m for m in order if m in pending or (asked.mode is Mode.FULL and m in full)]
        with self.attempts.begin({}) as attempt:
            run = Run(attempt, cut, lease, asked.by, known, groups)
            for n, unit in enumerate(units, start=1):
                requests = [Request(known[m], asked.mode if m in full else None) for m in unit if m in todo]
                later = [m for u in units[n:] for m in u if m in todo]
                for done in self.refresh_together(run, requests, later):
                    results[done.table.name] = done.result()
        for name in asked.names:
            if name not in results:
                results[name] = self._no_data(known[name], cut, started, asked.by)
        self.protector.protect(sources_of(known[n] for n in order))
        return results

    def refresh_together(
        self, run: Run, requests: Sequence[Request], later: Iterable[TableName] = ()
    ) -> tuple[Done, ...]:
        """Stage these, upstream first, and publish them in one transaction, or nothing of them.

        `later` are those that the run refreshes after them.
        """
        staged: list[Done] = []
        waiting = list(requests)
        while waiting:
            cycle = run.groups.cycle(waiting[0].table.name)
            now = [r for r in waiting if r.table.name in cycle] or waiting[:1]
            waiting = [r for r in waiting if r not in now]
            rest = [r.table for r in waiting]
            run.attempt.to_come = frozenset((*(t.name for t in rest), *later))
            try:
                made = self.stage_cycle(run, now) if cycle else [self.stage(run, now[0])]
                if len(requests) > 1:
                    for done in made:
                        done.stages.end()  # others of the same publish go on
                staged += made
            except BaseException as error:
                self.discard(run)
                if staged or rest or len(now) > 1:
                    with_it = [r.table for r in now[1:]]
                    record_group_failure(
                        self.store, run, now[0].table, staged, rest, spark_error(error), recorded=with_it
                    )
                raise
        if staged:
            self.publish(run, staged)
        return tuple(staged)

    # -- stage -----------------------------------------------------------------------------------------------------

    def stage(self, run: Run, request: Request) -> Done:
        """Compute one stream table in the run's attempt. A failure is recorded, and nothing of it stays."""
        table = replace(request.table, settings=tuple(sorted(self.pins(request.table).items())))
        work = Work(replace(request, table=table), request.stages or Stages())
        if not request.is_new:
            with self.store.write() as tx:
                tx.start_refresh(work.refresh_id, table.id, str(table.name), run.initiated_by)
        try:
            done = self._compute(run, work)
        except BaseException as error:
            self.discard(run)
            problem = located(spark_error(error), table)
            record_failure(self.store, work, problem, counts=run.counts(request))
            if isinstance(error, Exception):
                raise problem from error
            raise
        run.known[table.name] = done.table  # with its new columns, for consumers in this attempt
        if request.altered is not None:
            run.known[table.name] = reading(done.table, done.compiled)
        return done

    def stage_cycle(self, run: Run, requests: Sequence[Request]) -> list[Done]:
        """Compute the members of a cycle. A failure is recorded on all of them."""
        works: dict[TableName, Work] = {}
        for request in requests:
            table = replace(request.table, settings=tuple(sorted(self.pins(request.table).items())))
            works[table.name] = Work(replace(request, table=table), request.stages or Stages())
        with self.store.write() as tx:
            for work in works.values():
                if not work.request.is_new:
                    tx.start_refresh(work.refresh_id, work.table.id, str(work.table.name), run.initiated_by)
        try:
            compiled: dict[TableName, Compiled] = {}
            shapes: dict[TableName, Shapes] = {}
            seen: dict[TableName, str] = {}  # the schemas in which they read their sources
            for name, work in works.items():
                with work.stages("compile"):
                    known = work.request.compiled
                    compiled[name] = known or self.compile(run.attempt, work.table, run.cut, run.known)
                    refuse_cycle(name, compiled[name], run.known, run.groups.cycle(name))
                    plan_of(name, compiled[name])
                    shapes[name] = shapes_of(run.attempt, compiled[name])
                    sees = run.attempt.sees
                    for source in sees.keys() & seen.keys():
                        refuse_other_shape(source, sees[source], seen[source])
                    seen |= sees
                    refuse_other_types(run.known[name], work.request, compiled[name])
            run.attempt.see(run.cut.pointers, seen)
            if len({work.table.settings for work in works.values()}) > 1:
                raise TrickleError(
                    "INVALID_SETTING", f"{', '.join(map(str, works))} read each other: one setting for all"
                )
            made = {name: work.request.staging for name, work in works.items() if work.request.staging is not None}
            done = CycleRefresh(self.settings, run, works, compiled, shapes, made).refresh()
        except BaseException as error:
            self.discard(run)
            problem = located(spark_error(error), requests[0].table)
            for work in works.values():
                record_failure(self.store, work, problem, counts=run.counts(work.request))
            if isinstance(error, Exception):
                raise problem from error
            raise
        run.known.update({d.table.name: d.table for d in done})
        return done

    def _compute(self, run: Run, work: Work) -> Done:
        request, table, attempt = work.request, work.table, run.attempt
        attempt.tune(small=False)
        compiled = request.compiled
        if compiled is None:
            with work.stages("compile"):
                unseen = table.status is Status.INITIALIZING  # created empty: nobody has looked yet
                compiled = self.compile(attempt, table, run.cut, run.known, check=unseen)
                refuse_cycle(table.name, compiled, run.known)  # a view may have got another text
        if request.is_new and not request.initialize:
            done = self._leave_empty(run, work, compiled)
        else:
            work.states = self._states(run, work, compiled.states)
            done = self._maintain(run, work, compiled)
        needed = {s.table.name for s in done.states}
        retired = tuple(t for t in table.states if t.name not in needed)
        # Now: the next stream table may see the sources otherwise.
        row = replace(table, columns=compiled.columns, shapes=shapes_of(attempt, compiled))
        return replace(done, table=row, retired=retired)

    def _leave_empty(self, run: Run, work: Work, compiled: Compiled) -> Done:
        attempt = run.attempt
        decision = Decision(Action.SKIP, Reason("INITIAL", "created empty, not yet refreshed"))
        options = described(attempt, compiled, work.request.options)
        staging = self._opened(run, Staging.new(attempt, work.table.name, compiled.all_columns, options))
        # Its state tables are not there yet.
        made = Made(gather(attempt, replace(compiled, inputs=compiled.reads), {}), staging)
        return Done(work.table, work.stages, work.refresh_id, decision, compiled, made)

    def _states(self, run: Run, owner: Work, needed: Sequence[StateTable]) -> tuple[Done, ...]:
        """Bring the hidden state tables up to the cut, in the owner's attempt and for its publish.

        They follow the owner's mode. Those that the definition no longer needs go with the same publish.
        """
        have = {t.name: t for t in owner.table.states}
        asked, altered = owner.request.mode, owner.request.altered
        # Another text needs other states, or the same ones with the same rows; other settings give them other rows.
        below = Altered(altered.settings, altered.definition) if altered is not None and altered.settings else None
        done: dict[TableName, Done] = {}
        for state in needed:
            with owner.stages("states"):
                table = have.get(state.name) or new_state(owner.table, state, run.cut)
                work = Work(Request(replace(table, mode=owner.table.mode), asked, below))
                work.states = tuple(done[i] for i in state.compiled.inputs if i in done)
                run.attempt.register_missing(run.cut.pointers, [state.name])
                made = self._maintain(run, work, state.compiled)
                work.stages.end()  # AUTO compares its seconds with those of other refreshes of this state
                done[state.name] = replace(made, table=replace(work.table, columns=state.compiled.columns))
        return tuple(done.values())

    def _maintain(self, run: Run, work: Work, compiled: Compiled) -> Done:
        """Decide and compute one table whose state tables are staged already."""
        table, attempt, stages = work.table, run.attempt, work.stages
        attempt.tune(small=False)
        before = len(run.unpublished)
        with stages("compile"):
            inputs = gather(attempt, compiled, {d.input: d for d in table.dependencies})
        feeds = Feeds(attempt, {i.name: i for i in inputs})
        try:
            decision = work.decision = self.decide(run.cut, work, compiled, feeds)
            attempt.tune(small=decision.action is Action.DIFFERENTIAL and feeds.all_small)
            try:
                staging, counts = self._apply(run, work, decision.action, compiled, feeds)
            except Exception as error:
                again = second_try(error, decision, work.request.mode or table.mode)
                if again is None:
                    raise
                self.discard(run, before)
                attempt.restore(run.cut.pointers, table.name)
                decision = work.decision = again
                attempt.tune(small=False)
                staging, counts = self._apply(run, work, decision.action, compiled, feeds, carefully=True)
            if staging is not None:
                hand_over(staging, feeds, table, run.known, stages)
                # Consumers in this attempt read what was just staged.
                attempt.pointers[table.name] = Pointer(table.name, staging.location, is_view=False)
            read = feeds.bytes_read + sum(s.made.bytes_read for s in work.states)
            made = Made(inputs, staging, counts, _changed_rows(work, feeds), read)
        finally:
            feeds.release()
        return Done(table, stages, work.refresh_id, _with_states(decision, work.states), compiled, made, work.states)

    def decide(self, cut: Cut, work: Work, compiled: Compiled, feeds: Feeds) -> Decision:
        """What to do, and why; feeds are opened where it depends on the size of the change."""
        table, stages, altered = work.table, work.stages, work.request.altered
        inputs = tuple(feeds.inputs.values())
        below = [s.decision for s in work.states]
        with stages("compile"):
            situation = situation_of(self.lake, table, compiled, inputs, cut, work.request.mode, below)
            if altered is not None and (situation.initialized or table.owner_id is None):
                situation = replace(situation, reshaped=altered.reason, initialized=True)
        decision = decide_early(situation)
        if decision is not None and decision.action is not Action.DIFFERENTIAL:
            return decision
        with stages("feed"):
            for item in inputs:
                if item.changed:
                    feeds.open(item)
            if decision is None:
                sizes = [size_of(self.lake, i, feeds) for i in inputs if i.changed]
                rows = sum(_changed_rows(work, feeds).values())
                decision = decide_by_cost(sizes, past_of(self.store, table), self.settings.max_change_ratio, rows)
        idle = feeds.nothing and all(d.action is Action.NO_DATA for d in below)
        if decision.action is Action.DIFFERENTIAL and idle:
            moved = ", ".join(str(i.name) for i in inputs if i.changed)
            return Decision(Action.NO_DATA, Reason("NO_CHANGE", f"the new snapshots of {moved} hold the same rows"))
        return decision

    def _apply(
        self, run: Run, work: Work, action: Action, compiled: Compiled, feeds: Feeds, *, carefully: bool = False
    ) -> tuple[Staging | None, Counts]:
        table, attempt = work.table, run.attempt
        if action is Action.NO_DATA:
            return None, Counts()
        if action is Action.DIFFERENTIAL:
            assert compiled.plan is not None
            attempt.register_missing(run.cut.pointers, [table.name])
            staging = self._opened(run, Staging.onto(attempt, table.name, table.file_schema))
            runner, plan = Runner(feeds, staging, work.stages, self.passes), compiled.plan
            if carefully:
                return staging, runner.run_first_of(plan.careful(compiled.columns))
            return staging, runner.run(plan.steps(compiled.columns, feeds.facts))
        refuse_taken(self.lake, table, run.cut)
        fits = compiled.layout == table.layout and bool(table.file_schema)
        altered = work.request.altered
        with work.stages("full"):
            options = described(attempt, compiled, work.request.options if altered is None else altered.options)
            if table.name in run.cut.pointers:
                attempt.register_missing(run.cut.pointers, [table.name])
                columns = None if fits else compiled.all_columns
                staging = Staging.reshaped(attempt, table.name, columns, table.file_schema, options)
            else:
                staging = Staging.new(attempt, table.name, compiled.all_columns, options)
            self._opened(run, staging)
            before = 0
            if staging.base is not None and staging.head is not None:
                before = self.lake.rows(attempt.session, staging.base.location, staging.head) or 0
            written = write_full(attempt, compiled, staging, run.cut.instant)
        return staging, Counts(inserted=written, deleted=before)

    # -- publish ---------------------------------------------------------------------------------------------------

    def publish(self, run: Run, staged: Sequence[Done]) -> None:
        """All of these in one transaction, or none."""
        try:
            with staged[-1].stages("publish"):
                told = self.settings.alert_completed
                written = [m for d in staged for m in members(run, d, told)]
                publish(self.store, self.lake, written, group_changes(run, staged), probe=self.probe)
        except BaseException as error:
            if self._is_published(run, error) is False:
                self.discard(run)
            problem = spark_error(error)
            entry = self.store.refresh_entry(staged[0].refresh_id)
            if entry is not None and entry.state == "COMPLETED":
                raise  # it happened after the commit
            named = [d for d in staged if str(d.table.name) in problem.message]
            for done in staged:
                record_failure(self.store, done, problem, counts=done in (named or staged))
            if len(staged) > 1:
                first, *others = sorted((d.table for d in staged), key=lambda t: t not in [d.table for d in named])
                record_group_failure(self.store, run, first, [], [], problem, recorded=others)
            raise
        run.unpublished.clear()
        for done in staged:
            trace(done)
        trim(self.store, self.lake, [d.table for d in staged])

    def _is_published(self, run: Run, error: BaseException) -> bool | None:
        """None: nobody knows. An error may come after the commit."""
        if isinstance(error, OutcomeUnknown):
            return None
        for staging in run.unpublished:
            live = self.store.pointers(names=[staging.name])
            return location_of(live, staging.name) == staging.location
        return False

    def _opened(self, run: Run, staging: Staging) -> Staging:
        run.unpublished.append(staging)
        return staging

    def discard(self, run: Run, left: int = 0) -> None:
        """Delete the files of what failed; the first `left` stay."""
        while len(run.unpublished) > left:
            staging = run.unpublished.pop()
            try:
                staging.discard()
            except Exception as error:
                _log.warning("files of a failed refresh of %s stay behind: %s", staging.name, error)


def new_state(owner: StreamTable, state: StateTable, cut: Cut) -> StreamTable:
    """The row-to-be of a hidden state table: nobody but its owner reads it."""
    draft = StreamTable.draft(state.name, state.compiled.definition, state.compiled.namespace, owner.mode, cut.instant)
    return replace(draft, owner_id=owner.id or None)


def _changed_rows(work: Work, feeds: Feeds) -> dict[str, int]:
    """By input, those of hidden state tables instead of the tables themselves: as the history has them."""
    hidden = {s.table.name for s in work.states}
    below = {k: v for s in work.states for k, v in s.made.changed.items()}
    return below | {str(n): r for n, r in feeds.rows.items() if n not in hidden}


def _with_states(decision: Decision, states: Sequence[Done]) -> Decision:
    """Recomputing a state table is said, too."""
    done = [(s.table.name.name, s.decision) for s in states]
    whole = [(n, d) for n, d in done if d.action is Action.FULL and d.reason.code != "INITIAL"]
    if decision.action is not Action.DIFFERENTIAL or not whole:
        return decision
    parts = "; ".join(f"hidden state table {name}: FULL, {d.reason}" for name, d in whole)
    return replace(decision, reason=decision.reason.also(parts))


def same_as_leased(table: StreamTable, known: Mapping[TableName, StreamTable]) -> StreamTable:
    """The stream table as it is now that its lease is ours; another one may have got its name while we waited."""
    now = known.get(table.name)
    if now is None:
        raise unknown(table.name, known)
    if now.id != table.id:
        raise TrickleError("PUBLISH_CONFLICT", f"{table.name} was dropped and made again while this call waited for it")
    return now


def time_dependent(table: StreamTable) -> bool:
    return table.reason is not None and Reason.parse(table.reason).code == "TIME_DEPENDENT"
