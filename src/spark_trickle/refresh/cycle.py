"""Refresh the members of a cycle together: one decision, one fixpoint, then each is written like any other."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace

from spark_trickle.config import Settings
from spark_trickle.delta.monotone import offending
from spark_trickle.delta.plans.fixpoint import Fixpoint
from spark_trickle.delta.plans.rows import compare_all
from spark_trickle.delta.steps import names
from spark_trickle.errors import Reason, TrickleError
from spark_trickle.lake.attempt import Attempt
from spark_trickle.lake.staging import Counts, Staging
from spark_trickle.model import Action, Mode, Pointer, Shape, StreamTable, TableName
from spark_trickle.refresh.decide import NO_CHANGE, Decision, decide_early
from spark_trickle.refresh.definition import Compiled
from spark_trickle.refresh.fixpoint import Content, RoundLeaves, Rounds
from spark_trickle.refresh.full import described
from spark_trickle.refresh.handover import hand_over
from spark_trickle.refresh.inputs import Feeds, Input, gather
from spark_trickle.refresh.runner import Runner
from spark_trickle.refresh.situation import refuse_taken, situation_of
from spark_trickle.refresh.work import Done, Made, Request, Run, Work
from spark_trickle.spark.compile import compile_statement
from spark_trickle.sql.algebra import Named
from spark_trickle.thresholds import LOCAL

_WHOLE = (Action.FULL, Action.REINITIALIZE)
_NOTHING = Decision(Action.NO_DATA, NO_CHANGE)


Shapes = tuple[tuple[TableName, Shape], ...]


def refuse_other_types(table: StreamTable, request: Request, compiled: Compiled) -> None:
    """The others read it in the types that its table has; a round must give the same."""
    if request.staging is None and not table.columns:
        return
    for read, made in zip(table.columns, compiled.columns, strict=False):
        if stored_type(read.type) != stored_type(made.type):
            raise TrickleError(
                "INVALID_QUERY",
                f"column {made.name} of {table.name} is {read.type.upper()} where its cycle reads it and "
                f"{made.type.upper()} in the result",
                hint="CAST it to one type in every branch. If the definition is altered, drop the cycle and create it "
                "again.",
            )
    if [c.name for c in table.columns] != [c.name for c in compiled.columns]:
        before = ", ".join(c.name for c in table.columns)
        raise TrickleError(
            "INVALID_QUERY",
            f"{table.name} has the columns {before} where its cycle reads it and "
            f"{', '.join(c.name for c in compiled.columns)} in the result",
            hint="Give the columns the same names in every branch.",
        )


def stored_type(type_: str) -> str:
    """
    >>> stored_type("array<smallint>"), stored_type("varchar(3)")
    ('array<int>', 'string')
    """
    return re.sub(r"\b(?:var)?char\(\d+\)", "string", re.sub(r"\b(?:tiny|small)int\b", "int", type_))


def refuse_other_shape(source: TableName, one: str, other: str) -> None:
    if one != other:
        raise TrickleError(
            "SOURCE_CHANGED",
            f"the members of a cycle see other columns of {source}, since it was changed between their definitions",
            hint="Drop the cycle and create it again.",
        )


def plan_of(name: TableName, compiled: Compiled) -> Fixpoint:
    if not isinstance(compiled.plan, Fixpoint):
        raise TrickleError("NOT_MONOTONE", f"{name} is in a cycle, and not incremental: {compiled.reason}")
    return compiled.plan


def outside(found: Mapping[TableName, Sequence[Input]]) -> dict[TableName, Input]:
    """The tables that members of a cycle read besides each other, with all the columns that some member reads."""
    merged: dict[TableName, Input] = {}
    for inputs in found.values():
        for item in inputs:
            known = merged.get(item.name)
            if item.name in found:
                continue
            if known is None:
                merged[item.name] = item
            else:  # a member that has not read it yet has no frontier there, and the fixpoint begins at nothing
                columns = tuple(dict.fromkeys((*known.columns, *item.columns)))
                merged[item.name] = replace(known, columns=columns)
    return merged


@dataclass(slots=True)
class CycleRefresh:
    """One refresh of a cycle. `staged` has the tables that were made for it already."""

    settings: Settings
    run: Run
    works: Mapping[TableName, Work]
    compiled: Mapping[TableName, Compiled]
    shapes: Mapping[TableName, Shapes]  # of the sources, as each member sees them
    staged: dict[TableName, Staging] = field(default_factory=dict)

    def refresh(self) -> list[Done]:
        attempt = self.run.attempt
        inputs = {
            name: gather(attempt, self.compiled[name], {d.input: d for d in work.table.dependencies})
            for name, work in self.works.items()
        }
        feeds = Feeds(attempt, outside(inputs))
        try:
            decisions = self._decide(inputs, feeds)
            for name, work in self.works.items():
                work.decision = decisions[name]
            actions = {d.action for d in decisions.values()}
            if actions == {Action.NO_DATA}:
                return [self._done(work, decisions[name], Counts(), {}) for name, work in self.works.items()]
            start_over = bool(actions & {*_WHOLE}) or not self._only_grows(feeds)
            return self._write(feeds, decisions, start_over=start_over)
        finally:
            feeds.release()

    # -- deciding --------------------------------------------------------------------------------------------------

    def _decide(self, inputs: Mapping[TableName, Sequence[Input]], feeds: Feeds) -> dict[TableName, Decision]:
        found: dict[TableName, Decision] = {}
        for name, work in self.works.items():
            table, asked, altered = work.table, work.request.mode, work.request.altered
            if table.mode is Mode.FULL:
                raise TrickleError("INVALID_MODE", f"{name} is in a cycle: its mode must be AUTO or DIFFERENTIAL")
            lake, cut = self.run.attempt.lake, self.run.cut
            situation = situation_of(lake, table, self.compiled[name], inputs[name], cut, asked, ())
            if altered is not None:
                situation = replace(situation, reshaped=altered.reason, initialized=True)
            found[name] = decide_early(situation) or _by_fixpoint("")
        actions = {d.action for d in found.values()}
        if actions == {Action.NO_DATA}:
            return found
        if actions.isdisjoint(_WHOLE):
            for item in feeds.inputs.values():
                if item.changed:
                    feeds.open(item)
                    feeds.count(item.name)
            if not feeds.changed:
                return dict.fromkeys(found, _NOTHING)
        # One that has nothing to do by itself may get rows from the others.
        return {n: d if d.action in _WHOLE else _by_fixpoint("") for n, d in found.items()}

    def _only_grows(self, feeds: Feeds) -> bool:
        """Whether the change can only add rows: then what is stored is a part of the new fixpoint."""
        plans = [plan_of(n, c) for n, c in self.compiled.items()]
        return feeds.append_only and all(offending(p.full, feeds.changed) is None for p in plans)

    # -- computing and writing -------------------------------------------------------------------------------------

    def _write(self, feeds: Feeds, decisions: Mapping[TableName, Decision], *, start_over: bool) -> list[Done]:
        attempt = self.run.attempt
        first = next(iter(self.works.values()))
        with first.stages("compile"):
            for name in self.works:
                if name not in self.staged:
                    self.staged[name] = self._open(name, decisions[name].action)
            attempt.tune(small=not start_over and feeds.all_small)
            feeds.before_query = self._show
        with first.stages("fixpoint"):
            rounds = self._rounds(feeds, start_over=start_over)
            rounds.run(whole=start_over)
        counts: dict[TableName, Counts] = {}
        for name, work in self.works.items():
            counts[name] = self._write_one(rounds, name, decisions[name].action, start_over=start_over)
            staging = self.staged[name]
            hand_over(staging, feeds, work.table, self.run.known, work.stages)
            if staging.recorded:
                attempt.pointers[name] = Pointer(name, staging.location, is_view=False)
        told = {n: self._reason(d, rounds, start_over=start_over) for n, d in decisions.items()}
        read = {str(n): r for n, r in feeds.rows.items()}
        return [self._done(w, told[n], counts[n], read, len(rounds.told)) for n, w in self.works.items()]

    def _reason(self, decision: Decision, rounds: Rounds, *, start_over: bool) -> Decision:
        if decision.action in _WHOLE:
            return replace(decision, reason=decision.reason.also(rounds.text))
        return _by_fixpoint(rounds.text + (", from the beginning, since rows may have left" if start_over else ""))

    def _open(self, name: TableName, action: Action) -> Staging:
        attempt, compiled, cut = self.run.attempt, self.compiled[name], self.run.cut
        table, request = self.works[name].table, self.works[name].request
        attempt.register_missing(cut.pointers, [name])
        if action is Action.DIFFERENTIAL:
            staging = Staging.onto(attempt, name, table.file_schema)
        else:
            refuse_taken(attempt.lake, table, cut)
            options = request.options if request.altered is None else request.altered.options
            options = described(attempt, compiled, options)
            fits = compiled.layout == table.layout and bool(table.file_schema)
            columns = None if fits else compiled.all_columns
            staging = Staging.reshaped(attempt, name, columns, table.file_schema, options)
        self.run.unpublished.append(staging)
        return staging

    def _show(self, sql: str) -> None:
        for staging in self.staged.values():
            staging.show_in(sql)

    def _rounds(self, feeds: Feeds, *, start_over: bool) -> Rounds:
        contents = {
            name: Content(
                name, compiled.columns, plan_of(name, compiled), None if start_over else self.staged[name].target
            )
            for name, compiled in self.compiled.items()
        }
        return Rounds(feeds, contents, self.settings.max_fixpoint_iterations, self.settings.max_fixpoint_rows)

    def _write_one(self, rounds: Rounds, name: TableName, action: Action, *, start_over: bool) -> Counts:
        content, staging, feeds, stages = (
            rounds.contents[name],
            self.staged[name],
            rounds.feeds,
            self.works[name].stages,
        )
        rows = content.rows
        if not start_over:
            found = content.all_found()
            if found is None:
                return Counts()
            with stages("apply"):
                statement = compile_statement(found, RoundLeaves(rounds, content))
                local = feeds.keys(statement) if rows <= LOCAL else None
                staging.change(local or feeds.frame(statement))
            return Counts(inserted=rows)
        everything = feeds.query(content.sql)
        if action in _WHOLE:
            with stages("full"):
                before = staging.rows or 0
                staging.overwrite(everything, few=rows <= LOCAL)
            return Counts(inserted=rows, deleted=before)
        # All rows are known: they are compared with what is stored, and the difference is written.
        fresh = feeds.materialize(everything, "fresh")
        runner = Runner(feeds, staging, stages, given={"fresh": fresh})
        feeds.before_query = self._show
        return runner.run(compare_all(Named(view="fresh", names=names(content.columns)), content.columns))

    def _done(
        self, work: Work, decision: Decision, counts: Counts, read: Mapping[str, int], rounds: int | None = None
    ) -> Done:
        """Its frontier has the other members as this refresh leaves them."""
        name, attempt = work.table.name, self.run.attempt
        compiled, staging = self.compiled[name], self.staged.get(name)
        changed = {n: r for n, r in read.items() if n in map(str, compiled.inputs)}
        staging = staging if staging is not None and staging.recorded else None
        made = Made(gather(attempt, compiled, {}), staging, counts, changed, rounds=rounds)
        row = replace(work.table, columns=compiled.columns, shapes=self.shapes[name])
        return Done(row, work.stages, work.refresh_id, decision, compiled, made, retired=work.table.states)


def _by_fixpoint(text: str) -> Decision:
    return Decision(Action.DIFFERENTIAL, Reason("FIXPOINT", text))


@contextmanager
def least_fixpoint(
    attempt: Attempt, settings: Settings, compiled: Mapping[TableName, Compiled]
) -> Iterator[dict[TableName, str]]:
    """The contents that the members of a cycle should have, computed from nothing, as views."""
    inputs = {name: gather(attempt, one, {}) for name, one in compiled.items()}
    feeds = Feeds(attempt, outside(inputs))
    try:
        attempt.tune(small=False)
        contents = {n: Content(n, c.columns, plan_of(n, c), None) for n, c in compiled.items()}
        rounds = Rounds(feeds, contents, settings.max_fixpoint_iterations, settings.max_fixpoint_rows)
        rounds.run(whole=True)
        views = {}
        for name, content in contents.items():
            made = feeds.materialize(feeds.query(content.sql), "fixpoint")
            feeds.show([made.view])
            views[name] = made.view
        yield views
    finally:
        feeds.release()
