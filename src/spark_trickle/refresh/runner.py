"""Run the steps of a DIFFERENTIAL refresh (delta/steps.py) over the feeds and the storage of one stream table."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

from spark_trickle.delta.optimize import PASSES, UNRESTRICTED, Pass, optimize
from spark_trickle.delta.steps import Compute, Repeat, Stage, Step, Total, Write, plain_call
from spark_trickle.errors import TrickleError
from spark_trickle.lake.changelog import Delta
from spark_trickle.lake.staging import Counts, Staging
from spark_trickle.model import TableName
from spark_trickle.refresh.inputs import Feeds, Materialized
from spark_trickle.spark.analyze import data_error
from spark_trickle.spark.compile import compile_parts, compile_sql, compile_statement
from spark_trickle.spark.runtime import Local, condition_within
from spark_trickle.spark.statement import PLACES, Narrowed, Place, Statement, columns_sql
from spark_trickle.sql.algebra import (
    FILE,
    POSITION,
    Aggregate,
    Distinct,
    Empty,
    Named,
    Operator,
    State,
    Stored,
    UnionAll,
    keep,
)
from spark_trickle.sql.scalar import call, column, number
from spark_trickle.thresholds import LOCAL, MANY_POSITIONS, MOST_GROUPS, SMALL

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

_NOTHING = Materialized("", 0, {})


@dataclass(frozen=True, slots=True)
class StepLeaves:
    """The tables of the attempt, and the stored rows."""

    feeds: Feeds
    staging: Staging

    def state(self, table: TableName, state: State) -> str:
        return self.feeds.state(table, state)

    def changes(self, table: TableName) -> str:
        return self.feeds.changes(table)

    def stored(self) -> str:
        return self.staging.target

    def weight(self, table: TableName) -> str:
        return self.feeds.weight(table)

    def small(self, table: TableName) -> bool:
        return self.feeds.small(table)

    def total(self, table: TableName) -> int | None:
        return self.feeds.total(table)

    def stored_rows(self) -> int | None:
        return self.staging.rows


@dataclass(slots=True)
class Runner:
    feeds: Feeds
    staging: Staging
    timed: Callable[[str], AbstractContextManager[None]]
    passes: tuple[Pass, ...] = PASSES
    given: Mapping[str, Materialized] = field(default_factory=dict)  # steps that were computed elsewhere
    _done: dict[str, Materialized] = field(default_factory=dict)  # by the name of the step
    _levels: dict[str, Operator] = field(default_factory=dict)  # what a repeated step stands for

    def __post_init__(self) -> None:
        self.feeds.before_query = self.staging.show_in
        self._done.update(self.given)

    def run(self, steps: Sequence[Step]) -> Counts:
        if not self.given and not self.feeds.changed:
            return Counts()  # compaction and the like: new snapshots, the same rows
        for step in steps:
            if isinstance(step, Write):
                return self._write(step)
            with self.timed(str(step.stage if isinstance(step, Compute) else Stage.DELTA)):
                there = self._compute(step) if isinstance(step, Compute) else self._repeat(step)
            if not there:
                return Counts()
        raise AssertionError("the last step writes")

    def run_first_of(self, alternatives: Sequence[Sequence[Step]]) -> Counts:
        """The first of these that the data does not make fail."""
        for steps in alternatives[:-1]:
            try:
                return self.run(steps)
            except Exception as error:
                if isinstance(error, TrickleError) or data_error(error) is None:
                    raise
        return self.run(alternatives[-1])

    # -- computing ---------------------------------------------------------------------------------------------------

    def _compute(self, step: Compute) -> bool:
        """False: nothing is left to do."""
        if step.when is not None and not self._total(step.when):
            if step.otherwise:
                self._done[step.name] = self._done[step.otherwise]
            return True
        expected = self._total(step.rows) if isinstance(step.rows, Total) else None
        if isinstance(step.rows, str):
            expected = self._done[step.rows].rows
        tree, passes = step.tree, self.passes
        if step.whole is not None and self._most(expected):
            tree, passes = step.whole, tuple(p for p in passes if p in UNRESTRICTED)
        made = self._materialized(tree, step.name, step.totals, passes)
        if expected is not None and made.rows != expected:
            what = "lacks rows that should change" if made.rows < expected else "holds rows more than once"
            raise TrickleError("INTEGRITY", f"{self.staging.name} {what}: {made.rows} were found for {expected}")
        self._done[step.name] = made
        return bool(made.rows) or not step.ends

    def _most(self, affected: int | None) -> bool:
        """Whether restricting a large input to the affected groups leaves out little of it, and costs a join."""
        facts, stored = self.feeds.facts, self.staging.rows
        large = any(t not in facts.little for t in self.feeds.inputs)
        return large and affected is not None and stored is not None and affected > MOST_GROUPS * stored

    def _materialized(
        self, tree: Operator, name: str, totals: Sequence[str] = (), passes: tuple[Pass, ...] | None = None
    ) -> Materialized:
        slim = optimize(self._bound(tree), self.feeds.facts, self.passes if passes is None else passes)
        if isinstance(slim, Empty):
            return _NOTHING
        return self.feeds.compute(self._statement(slim), name.replace(" ", "_"), totals)

    def _bound(self, tree: Operator) -> Operator:
        """With the names of steps replaced by those of their views."""

        def rule(op: Operator) -> Operator:
            if isinstance(op, Named) and op.view in self._levels:
                return self._levels[op.view]
            return replace(op, view=self._done[op.view].view) if isinstance(op, Named) else op

        return tree.transform(rule)

    def _statement(self, tree: Operator) -> Statement:
        """A tree that is bound and optimized, with what it reads more than once computed before."""
        self.feeds.attempt.tune()
        leaves = StepLeaves(self.feeds, self.staging)
        parts = compile_parts(tree, leaves)
        twice = parts.feeds_read_twice()
        if any(p.narrowed and p.narrowed.by for p in parts.ctes):  # by the keys of changes: they are read once more
            twice |= parts.reads()
        if twice:
            for name in twice:
                self.feeds.keep(name)
            parts = compile_parts(tree, leaves)

        def shared(statement: Statement) -> str:
            return self.feeds.compute(statement, "shared").view

        def if_small(statement: Statement) -> str | None:
            found = self.feeds.compute_small(statement, "step")
            return None if found is None else found.view

        return parts.staged(shared, if_small, self._narrow)

    def _narrow(self, wanted: Narrowed, keys: Statement | None) -> Place | None:
        """The rows of a table with these keys: read on the driver if they are few, else the table under a condition."""
        leaf, listed = wanted.leaf, [own for own, _ in wanted.keys]
        by = None if keys is None else self.feeds.keys(keys)
        if by is None and keys is not None:
            return None
        if isinstance(leaf, Stored):
            columns = list(dict.fromkeys(f.source for f in leaf.fields))
            found = self.staging.look_up(columns, listed, by, PLACES if leaf.positions else ())
        else:
            columns = list(dict.fromkeys(f.source for f in leaf.scan.fields))
            found = self.feeds.look_up(leaf.scan.input, leaf.state, columns, listed, by)
        if found is not None:
            return Place(view=self.feeds.name(found, "found"))
        if by is None:
            return None
        leaves = StepLeaves(self.feeds, self.staging)
        table = leaves.stored() if isinstance(leaf, Stored) else leaves.state(leaf.scan.input, leaf.state)
        there = self.feeds.query(columns_sql(listed, table))
        condition = condition_within(by, there)
        return None if condition is None else Place(condition=condition)

    def _select(self, tree: Operator) -> Statement:
        """Over steps that are there already: nothing is computed before."""
        return compile_statement(self._bound(tree), StepLeaves(self.feeds, self.staging))

    def _repeat(self, step: Repeat) -> bool:
        """The change of each level, from that of the level before."""
        session = self.feeds.attempt.session
        limit = int(session.conf.get("spark.sql.cteRecursionLevelLimit", "100") or 100)
        found = self.feeds.frame(self._select(step.levels.deepest())).first()
        deepest = -1 if found is None or found[0] is None else int(found[0])
        shown: list[Operator] = []
        depth, previous = 0, self._level(step, 0, None)
        while previous is not None or depth <= deepest:
            if previous is not None:
                shown.append(self._bound(step.levels.shown(depth, previous)))
            depth += 1
            if limit >= 0 and depth > limit:
                raise TrickleError(
                    "EVALUATION_FAILED", f"[RECURSION_LEVEL_LIMIT_EXCEEDED] the recursion has more than {limit} levels"
                )
            previous = self._level(step, depth, previous)
        if shown:
            self._levels[step.name] = UnionAll(inputs=tuple(shown), names=shown[0].columns)
        return bool(shown)

    def _level(self, step: Repeat, depth: int, previous: str | None) -> str | None:
        """The step that has the change of a level; None: it did not change."""
        name = f"{step.name} {depth}"
        self._done[name] = self._materialized(step.levels.level(depth, previous), name)
        return name if self._done[name].rows else None

    def _total(self, total: Total) -> int:
        return self._done[total.step].sums[total.column][total.negative] if self._done[total.step].rows else 0

    # -- writing -----------------------------------------------------------------------------------------------------

    def _write(self, step: Write) -> Counts:
        if step.entering is None:
            return self._append(step)
        entering = self._total(step.entering)
        leaving = 0 if step.leaving is None else self._total(step.leaving)
        updated = 0 if step.updated is None else self._total(step.updated)
        lost = 0 if step.lost is None else self._total(step.lost)
        if lost:
            raise TrickleError(
                "INTEGRITY", f"{self.staging.name} lacks rows that should change: {lost} of its groups are not right"
            )
        if not entering + leaving:
            return Counts()
        with self.timed(str(Stage.APPLY)):
            rows: DataFrame | Local | None = None
            if entering:
                enters = self._select(step.enters)
                rows = self.feeds.keys(enters) if entering <= LOCAL else None
                rows = rows or self._one_file(self.feeds.frame(enters), entering)
            if leaving > MANY_POSITIONS and step.positions is not None:
                self._refuse_doubles(self._places(step.positions), leaving)
                self.staging.change(rows, places=self.feeds.frame(self._select(step.positions)))
            else:
                self.staging.change(rows, self._positions(step, leaving))
            self._keep_delta(step, entering, leaving)
        return Counts(entering - updated, updated, leaving - updated)

    def _append(self, step: Write) -> Counts:
        tree = optimize(self._bound(step.enters), self.feeds.facts, self.passes)
        if isinstance(tree, Empty):
            return Counts()
        with self.timed(str(Stage.DELTA)):
            statement = self._statement(tree)
        with self.timed(str(Stage.APPLY)):
            changed = sum(self.feeds.rows.values())
            local = self.feeds.keys(statement) if changed <= LOCAL else None
            added = self.staging.change(local or self._one_file(self.feeds.frame(statement), changed))
        return Counts(inserted=added.get("added-records", 0))

    def _one_file(self, frame: DataFrame, rows: int) -> DataFrame:
        """Small files slow every later refresh."""
        return frame.coalesce(1) if rows <= SMALL else frame

    def _positions(self, step: Write, leaving: int) -> dict[str, list[int]]:
        found: dict[str, list[int]] = {}
        if leaving and step.positions is not None:
            local = None if leaving > LOCAL else self.feeds.keys(self._select(step.positions))
            if local is None:
                listed = plain_call("positions", call("collect_list", column(POSITION)))
                tree = Aggregate(child=step.positions, keys=keep(FILE), calls=(listed,))
                found = {r[0]: r[1] for r in self.feeds.frame(self._select(tree)).collect()}
            else:
                for file, position in local.pairs():
                    found.setdefault(file, []).append(position)
            self._refuse_doubles(sum(len(set(p)) for p in found.values()), leaving)
        return found

    def _places(self, positions: Operator) -> int:
        """How many different ones there are."""
        listed = Distinct(child=positions)
        counted = Aggregate(child=listed, keys=(), calls=(plain_call("places", call("count", number(1))),))
        found = self.feeds.frame(self._select(counted)).first()
        return 0 if found is None else int(found[0])

    def _refuse_doubles(self, places: int, leaving: int) -> None:
        if places != leaving:
            raise TrickleError("INTEGRITY", f"{self.staging.name} holds a key more than once")

    def _keep_delta(self, step: Write, added: int, removed: int) -> None:
        """What was just staged, for consumers: they need not read it back."""
        staging = self.staging
        base = None if staging.base is None else staging.attempt.lake.facts(staging.base.location).snapshot_id
        if base is None or staging.head is None:
            return
        change = self._bound(step.change(removes=bool(removed)))
        views = tuple({op.view: None for op in change.walk() if isinstance(op, Named)})
        select = compile_sql(change, StepLeaves(self.feeds, staging))
        staging.delta = Delta(staging.name, base, staging.head, select, views, added, removed)
