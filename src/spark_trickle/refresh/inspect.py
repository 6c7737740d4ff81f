"""Looking without touching: explain, verify, status."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass

from spark_trickle.delta.root import Keyed, Rows
from spark_trickle.errors import TrickleError
from spark_trickle.model import (
    LAKE,
    Action,
    Explanation,
    InputKind,
    Pointer,
    StreamTable,
    StreamTableStatus,
    TableName,
    Verification,
)
from spark_trickle.refresh.decide import decide_early
from spark_trickle.refresh.definition import Compiled
from spark_trickle.refresh.equality import compare
from spark_trickle.refresh.inputs import Input, gather
from spark_trickle.refresh.run import Refresher, unknown
from spark_trickle.refresh.situation import Cut, behind, look
from spark_trickle.spark.analyze import spark_error
from spark_trickle.spark.compile import PlainLeaves, compile_sql, quote
from spark_trickle.sql.algebra import Named
from spark_trickle.sql.mentions import without_catalog


@dataclass(slots=True)
class Inspector:
    refresher: Refresher

    def find(self, name: TableName) -> StreamTable:
        table = self.refresher.store.stream_table(name)
        if table is None:
            raise unknown(name, {t.name: t for t in self.refresher.store.stream_tables()})
        return table

    # -- explain ---------------------------------------------------------------------------------------------------

    def explain(self, name: TableName) -> Explanation:
        r, table = self.refresher, self.find(name)
        known = {t.name: t for t in r.store.stream_tables()}
        cut = r.cut()
        with r.attempts.begin({}, table.namespace) as attempt:
            compiled = r.compiler.compile(attempt, name, table.definition, table.namespace, cut.pointers, known)
            attempt.register_missing(cut.pointers, compiled.inputs)
            inputs = gather(r.lake, compiled, attempt.pointers, {d.input: d for d in table.dependencies})
            action, reason = self._next(table, compiled, inputs, cut)
        return Explanation(
            name=str(name),
            definition=table.definition,
            incremental=compiled.incremental,
            reason=compiled.reason,
            identity=compiled.plan.identity if compiled.plan else "the whole row",
            operators=compiled.root.tree() if compiled.root else "(runs as written)",
            delta_sql=delta_sql(compiled),
            full_sql=compile_sql(compiled.plan.full, PlainLeaves()) if compiled.plan else table.definition,
            next_action=action,
            next_reason=reason,
            notices=compiled.notices,
        )

    def _next(self, table: StreamTable, compiled: Compiled, inputs: Sequence[Input], cut: Cut) -> tuple[Action, str]:
        r = self.refresher
        try:
            decision = decide_early(look(r.lake, table, compiled, inputs, cut, None))
        except TrickleError as error:
            return Action.SKIP, f"{error.code}: {error.message}"
        if decision is not None:
            return decision.action, decision.reason
        limit = f"{100 * r.settings.max_change_ratio:g} %"
        moved = ", ".join(str(i.name) for i in inputs if i.changed)
        return Action.DIFFERENTIAL, f"CHANGE_RATIO: {moved} changed; FULL if more than {limit} of the rows did"

    # -- verify ----------------------------------------------------------------------------------------------------

    def verify(self, name: TableName) -> Verification:
        """Run the definition as it was written over the inputs at the frontier, and compare."""
        started = time.perf_counter()
        r, table = self.refresher, self.find(name)
        if table.storage_snapshot is None:
            raise TrickleError(
                "INVALID_QUERY", f"{name} has no content yet", hint="Refresh it once; then it can be verified."
            )
        known = {t.name: t for t in r.store.stream_tables()}
        cut = r.cut()
        frontier = dict(cut.pointers)
        pins: list[tuple[TableName, int | None]] = []
        for d in table.reads:
            if d.pointer is None or cut.pointers.get(d.input, None) is None:
                raise TrickleError("SOURCE_DROPPED", f"{name}: {d.input} is gone")
            if d.kind is InputKind.VIEW or frontier[d.input].location == d.pointer:
                frontier[d.input] = Pointer(d.input, d.pointer, is_view=d.kind is InputKind.VIEW)
            elif r.lake.facts(frontier[d.input].location).snapshot_id != d.snapshot_id:
                pins.append((d.input, d.snapshot_id))
        try:
            with r.attempts.begin({}, table.namespace) as attempt:
                for input_, snapshot in pins:
                    pinned = attempt.pinned_metadata(frontier[input_], snapshot)
                    frontier[input_] = Pointer(input_, pinned, is_view=False)
                compiled = r.compiler.compile(attempt, name, table.definition, table.namespace, frontier, known)
                attempt.register_missing(frontier, [table.storage])
                attempt.use(table.namespace)
                view = attempt.view_name("definition")
                attempt.session.sql(without_catalog(table.definition, LAKE)).createOrReplaceTempView(view)
                found = compare(
                    attempt.session, attempt.qualified(table.storage), quote(view), table.columns, compiled.compare
                )
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
        )

    # -- status ----------------------------------------------------------------------------------------------------

    def status(self, name: TableName | None) -> tuple[StreamTableStatus, ...]:
        r = self.refresher
        tables = r.store.stream_tables() if name is None else (self.find(name),)
        shown = {t.storage: t.name for t in r.store.stream_tables()}
        pointers = r.store.pointers()
        result = []
        for t in tables:
            last = next(iter(r.store.history(str(t.name), limit=1)), None)
            result.append(
                StreamTableStatus(
                    name=str(t.name),
                    status=t.status,
                    mode=t.mode,
                    schedule=t.schedule,
                    incremental=t.incremental,
                    reason=t.reason,
                    inputs=tuple(str(shown.get(d.input, d.input)) for d in t.reads),
                    pending=behind(t, pointers),
                    data_timestamp=t.data_timestamp,
                    last_action=last.action if last else None,
                    last_seconds=last.seconds if last else None,
                    storage=str(t.storage),
                    last_error=t.last_error,
                    states=tuple(str(s.storage) for s in t.states),
                )
            )
        return tuple(result)


def delta_sql(compiled: Compiled) -> str | None:
    """What a DIFFERENTIAL refresh computes when every input changed; the lookup in storage comes after it."""
    plan = compiled.plan
    if plan is None:
        return None
    if isinstance(plan, Rows):
        return compile_sql(plan.delta, PlainLeaves())
    if plan.algebra is not None:
        return compile_sql(plan.change(), PlainLeaves())
    return _groups_sql(plan)


def _groups_sql(plan: Keyed) -> str:
    names = tuple(f"{k.name}__key" for k in plan.keys)
    affected = compile_sql(plan.affected(), PlainLeaves())
    fresh = compile_sql(plan.recomputed(Named(view="affected keys", names=names)), PlainLeaves())
    return f"-- affected keys\n{affected};\n\n-- their new rows\n{fresh}"
