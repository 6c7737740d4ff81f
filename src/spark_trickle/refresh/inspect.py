"""Looking without touching: explain, verify, status."""

from __future__ import annotations

import time
from collections import ChainMap
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from datetime import datetime

from spark_trickle.catalog.frontier import location_of
from spark_trickle.delta.steps import HASH
from spark_trickle.errors import Reason, TrickleError
from spark_trickle.lake.attempt import Attempt
from spark_trickle.model import Action, InputKind, Mode, Pointer, StreamTable, TableName
from spark_trickle.refresh.as_written import definition_view, notices
from spark_trickle.refresh.cycle import least_fixpoint
from spark_trickle.refresh.decide import NO_CHANGE, Decision, decide_early
from spark_trickle.refresh.definition import Compiled
from spark_trickle.refresh.equality import Difference, compare
from spark_trickle.refresh.full import full_select
from spark_trickle.refresh.inputs import Feeds, gather
from spark_trickle.refresh.run import Refresher, new_state
from spark_trickle.refresh.situation import Cut, other_code, past_of, situation_of
from spark_trickle.refresh.step_texts import Frontier, steps_sql
from spark_trickle.refresh.work import Done, Made, Request, Work
from spark_trickle.results import Explanation, PlannedRefresh, Verification
from spark_trickle.spark.analyze import Analyzer, spark_error
from spark_trickle.spark.compile import PlainLeaves, compile_sql
from spark_trickle.spark.names import quote, quote_table
from spark_trickle.spark.statement import columns_sql


@dataclass(slots=True)
class Inspector:
    refresher: Refresher

    # -- explain ---------------------------------------------------------------------------------------------------

    def explain(self, name: TableName) -> Explanation:
        r, table = self.refresher, self.refresher.store.find(name)
        known = {t.name: t for t in r.store.stream_tables()}
        cut = r.cut()
        with r.attempts.begin({}, table.namespace) as attempt:
            compiled = r.compile(attempt, table, cut, known)
            planned = self._planned(attempt, table, compiled, cut, None, measure=False)
            script = self._script(attempt, table, compiled, cut)
        return Explanation(
            name=str(name),
            definition=table.definition,
            incremental=compiled.incremental,
            reason=None if compiled.reason is None else str(compiled.reason),
            identity=compiled.plan.identity if compiled.plan else "the whole row",
            operators=_operators(compiled),
            delta_sql=script,
            full_sql=_full_sql(compiled),
            next_action=planned.action,
            next_reason=planned.reason,
            notices=notices(compiled, r.settings),
        )

    # -- lineage ---------------------------------------------------------------------------------------------------

    def store_lineages(self, names: Iterable[TableName]) -> None:
        """Of stream tables from before lineage was stored: their definitions are compiled, nothing is refreshed."""
        r, known = self.refresher, self.refresher.known()
        cut = r.cut()
        for name in names:
            if name not in known:
                continue
            with r.attempts.begin({}, known[name].namespace) as attempt:
                found = r.compile(attempt, known[name], cut, known).lineage
            if found is not None:
                with r.store.write() as tx:
                    tx.put_lineage(known[name].id, found)

    def _script(self, attempt: Attempt, table: StreamTable, compiled: Compiled, cut: Cut) -> str | None:
        """What a refresh runs; where every input can be read at the frontier by its name, as a script."""
        read = dict(item for c in (compiled, *(s.compiled for s in compiled.states)) for item in c.inputs.items())
        analyzer = Analyzer(attempt.session)
        found: dict[TableName, Frontier] = {}
        for part in (table, *table.states):
            for d in part.dependencies:
                pointer = cut.pointers.get(d.input)
                if d.input not in read or pointer is None or pointer.is_view or d.snapshot_id is None:
                    continue
                kind = self.refresher.lake.kind(pointer.location)
                if kind.expired(pointer.location, d.snapshot_id) is None:
                    sql = kind.old_state(pointer, quote_table(d.input), d.snapshot_id)
                    if sql is not None:
                        attempt.register_missing(cut.pointers, [d.input])
                        used = columns_sql(read[d.input][1], attempt.qualified(d.input))
                        found[d.input] = Frontier(analyzer.columns(used) if read[d.input][1] else (), sql)
        return steps_sql(compiled, table, found) if read.keys() <= found.keys() else steps_sql(compiled)

    # -- dry run ---------------------------------------------------------------------------------------------------

    def plan(self, names: Sequence[TableName], mode: Mode | None, *, upstream: bool) -> tuple[PlannedRefresh, ...]:
        """What a refresh of these would do now, in the order in which it would do it. Nothing is written."""
        r = self.refresher
        known = r.known()
        order = r.order(names, known, upstream=upstream)
        cut = r.cut(d.input for name in order for d in known[name].reads)
        pending = r.pending(order, known, names, mode, cut)
        found: list[PlannedRefresh] = []
        with r.attempts.begin({}) as attempt:
            for name in order:
                table, asked = known[name], mode if name in names else None
                above = [str(d.input) for d in table.reads if d.input in pending]
                if name not in pending:
                    found.append(PlannedRefresh(str(name), Action.NO_DATA, str(NO_CHANGE)))
                    continue
                compiled = r.compile(attempt, table, cut, known)
                planned = self._planned(attempt, table, compiled, cut, asked, measure=True)
                if planned.action is Action.NO_DATA and above:
                    reason = f"UPSTREAM: {', '.join(above)} comes first; what changes there decides"
                    planned = replace(planned, action=Action.DIFFERENTIAL, reason=reason)
                found.append(planned)
        return tuple(found)

    def _planned(
        self,
        attempt: Attempt,
        table: StreamTable,
        compiled: Compiled,
        cut: Cut,
        asked: Mode | None,
        *,
        measure: bool,
    ) -> PlannedRefresh:
        """`measure` counts the changed rows where the decision depends on them."""
        r = self.refresher
        have = {t.name: t for t in table.states}
        hidden = [s.name for s in compiled.states]
        attempt.register_missing(cut.pointers, hidden)
        done: list[Done] = []
        changed: dict[str, int] = {}
        moved: dict[str, None] = {}
        for part, plan in (
            *((have.get(s.name) or new_state(table, s, cut), s.compiled) for s in compiled.states),
            (table, compiled),
        ):
            there = {i: v for i, v in plan.inputs.items() if i not in hidden or i in cut.pointers}
            inputs = gather(attempt, replace(plan, inputs=there), {d.input: d for d in part.dependencies})
            moved.update({str(i.name): None for i in inputs if i.changed and i.name not in hidden})
            work = Work(Request(replace(part, mode=table.mode), asked), states=tuple(done))
            feeds = Feeds(attempt, {i.name: i for i in inputs})
            try:
                if measure:
                    decision = r.decide(cut, work, plan, feeds)
                else:
                    below = [d.decision for d in done]
                    situation = situation_of(r.lake, work.table, plan, inputs, cut, asked, below)
                    decision = decide_early(situation) or self._by_ratio(moved)
            except TrickleError as error:
                return PlannedRefresh(str(table.name), Action.SKIP, f"{error.code}: {error.message}")
            finally:
                changed |= {str(n): rows for n, rows in feeds.rows.items() if n not in hidden}
                feeds.release()
            done.append(Done(work.table, work.stages, work.refresh_id, decision, plan, Made(inputs, None)))
        decision = done[-1].decision
        if decision.reason.code == "CHANGE_RATIO" and any(d.action is not Action.NO_DATA for d in done[:-1]):
            decision = self._by_ratio(["hidden state tables"])  # by how much, is known when they are computed
        past = past_of(r.store, table)
        differential = decision.action is Action.DIFFERENTIAL
        seconds = min((s for s, _ in past.differential), default=None) if differential else past.full_seconds
        return PlannedRefresh(
            str(table.name),
            decision.action,
            str(decision.reason),
            changed,
            None if decision.action is Action.NO_DATA else seconds,
            steps_sql(compiled) if differential else None if decision.action is Action.NO_DATA else _full_sql(compiled),
        )

    def _by_ratio(self, moved: Iterable[str]) -> Decision:
        limit = f"{100 * self.refresher.settings.max_change_ratio:g} %"
        text = f"{', '.join(moved)} changed; FULL if more than {limit} of the rows did"
        return Decision(Action.DIFFERENTIAL, Reason("CHANGE_RATIO", text))

    # -- verify ----------------------------------------------------------------------------------------------------

    def verify(self, name: TableName, *, deep: bool) -> Verification:
        """Run the definition as it was written over the inputs at the frontier, and compare; `deep`: its parts, too.

        Where a value that depends on the order of rows decides which rows there are, the text has more than one right
        answer. Then the parts are compared: each hidden state table with its own definition, and the table exactly
        with its definition over the state tables. A member of a cycle is also compared with the least fixpoint, from
        nothing: rows that support each other satisfy its definition, too.
        """
        started = time.perf_counter()
        r = self.refresher
        for _ in range(3):
            table, cut = r.store.find(name), r.cut()
            if location_of(cut.pointers, table.name) == table.published_pointer:
                break  # else it was published between the two; or compacted since, which does no harm
        if table.published_snapshot is None:
            raise TrickleError(
                "INVALID_QUERY", f"{name} has no content yet", hint="Refresh it once; then it can be verified."
            )
        known = {t.name: t for t in r.store.stream_tables()}
        frontier = ChainMap[TableName, Pointer]({}, cut.pointers)  # type: ignore[arg-type]
        older: list[tuple[TableName, int | None]] = []
        cycle = r.groups(known).cycle(table.name)
        members = [known[m] for m in cycle] or [table]
        for d in {d.input: d for t in members for d in t.reads}.values():
            now = cut.pointers.get(d.input)
            if d.pointer is None or now is None:
                raise TrickleError("SOURCE_DROPPED", f"{name}: {d.input} is gone")
            if d.kind is InputKind.VIEW or now.location == d.pointer:
                frontier[d.input] = Pointer(d.input, d.pointer, is_view=d.kind is InputKind.VIEW)
                continue
            lost = r.lake.lost(now.location, d)
            if lost is not None:
                code, message = lost
                raise TrickleError(code, f"{name} cannot be verified: {message}")
            older.append((d.input, d.snapshot_id))
        try:
            with r.attempts.begin({}, table.namespace) as attempt:
                for input_, snapshot in older:
                    frontier[input_] = Pointer(input_, attempt.at(frontier[input_], snapshot), is_view=False)
                compiled = r.compiler.compile(attempt, r.definition(table), frontier, known, cycle=cycle)
                other = other_code(table, compiled)
                if other is not None:
                    raise TrickleError(
                        "DEPENDENCY_CHANGED",
                        f"{name} cannot be verified: the code of function {other} changed since its last refresh",
                    )
                if compiled.volatile is not None:
                    raise TrickleError(
                        "VOLATILE_FUNCTION",
                        f"{name} cannot be verified: {compiled.volatile} is not deterministic",
                        hint="Replace the function.",
                    )
                attempt.register_missing(frontier, [table.name, *(s.name for s in compiled.states)])
                attempt.use(table.namespace)
                instant = table.data_timestamp or cut.instant
                there = all(s.name in frontier for s in compiled.states)
                found, by_text = Difference(0, 0, 0, ()), compiled.settled or not there
                if by_text:
                    view = definition_view(attempt, compiled, instant)
                    found = compare(
                        attempt.session, attempt.qualified(table.name), quote(view), table.columns, compiled.compare
                    )
                if cycle and found.equal:
                    all_ = {
                        t.name: r.compiler.compile(attempt, r.definition(t), frontier, known, cycle=cycle)
                        for t in members
                    }
                    with least_fixpoint(attempt, r.settings, all_) as views:
                        least = compare(
                            attempt.session,
                            attempt.qualified(table.name),
                            quote(views[table.name]),
                            table.columns,
                            compiled.compare,
                        )
                    found = _together(found, least)
                deep = deep and there and compiled.plan is not None and found.equal  # else it is told already
                if deep or not by_text:
                    parts = compare_parts(attempt, table, compiled, instant, deep=deep)
                    found = _together(found, parts) if by_text else parts
        except TrickleError:
            raise
        except Exception as error:
            raise spark_error(error) from error
        return Verification(
            str(name),
            found.equal,
            found.rows,
            found.missing,
            found.extra,
            time.perf_counter() - started,
            found.examples,
            found.unjudged,
            (*(f"hidden {s.name}" for s in compiled.states), "hidden columns") if deep else (),
        )

    # -- describe --------------------------------------------------------------------------------------------------


def compare_parts(
    attempt: Attempt, table: StreamTable, compiled: Compiled, instant: datetime, *, deep: bool
) -> Difference:
    """The table and its hidden state tables, each against its own tree over what it reads; `deep`: all columns."""
    found = Difference(0, 0, 0, ())
    stored = {t.name: t.file_schema for t in (*table.states, table)}
    for name, part in (*((s.name, s.compiled) for s in compiled.states), (table.name, compiled)):
        columns = part.all_columns if deep else part.columns
        if part.over_states:  # a hash of values that may differ tells nothing
            columns = tuple(c for c in columns if c.name != HASH)
        defined = f"({full_select(attempt, part, instant)})"
        inside = attempt.qualified(attempt.show_all(attempt.pointers[name], stored[name]))
        one = compare(attempt.session, inside, defined, columns, part.over_states)
        found = _together(one, found, str(name))
    return found


def _together(last: Difference, before: Difference, name: str = "") -> Difference:
    """Two comparisons as one; the rows are those of the last."""
    own = tuple(f"{name}: {e}" if name else e for e in last.examples)
    return Difference(
        last.rows,
        last.missing + before.missing,
        last.extra + before.extra,
        (*before.examples, *own)[:5],
        tuple(dict.fromkeys((*before.unjudged, *last.unjudged))),
    )


def _operators(compiled: Compiled) -> str:
    if compiled.root is None:
        return "(runs as written)"
    parts = [f"hidden {s.name}:\n{s.compiled.root.tree(1)}" for s in compiled.states if s.compiled.root]
    return "\n".join([*parts, compiled.root.tree()])


def _full_sql(compiled: Compiled) -> str:
    return compile_sql(compiled.plan.full, PlainLeaves()) if compiled.plan else compiled.definition
