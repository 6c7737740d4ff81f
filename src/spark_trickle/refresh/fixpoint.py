"""The least fixpoint of stream tables that read each other, in rounds (delta/plans/fixpoint.py).

A round derives, for every member, the rows that follow from what the members got in the round before, and keeps those
that are new. Only what is new is joined again (semi-naive evaluation). Rounds of few rows are computed on the driver.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from spark_trickle.delta.facts import Facts
from spark_trickle.delta.optimize import optimize
from spark_trickle.delta.plans.fixpoint import Fixpoint, missing
from spark_trickle.delta.steps import HASH, names
from spark_trickle.errors import TrickleError
from spark_trickle.model import Column, TableName
from spark_trickle.refresh.inputs import Feeds, Materialized
from spark_trickle.spark.compile import PlainLeaves, compile_sql, compile_statement
from spark_trickle.spark.names import quote
from spark_trickle.spark.statement import Statement, columns_sql, weighted
from spark_trickle.sql.algebra import WEIGHT, Empty, Item, Named, Operator, Project, State, UnionAll
from spark_trickle.sql.scalar import cast, null
from spark_trickle.thresholds import LOCAL, SMALL

_MANY = 8  # parts of a content from which on they are put together: each is planned in every round


@dataclass(slots=True)
class Content:
    """The rows of a member so far."""

    name: TableName
    columns: tuple[Column, ...]
    plan: Fixpoint
    base: str | None  # what is stored, in SQL, with the hash; None: it begins empty
    found: list[Materialized] = field(default_factory=list)  # what the rounds brought
    last: Materialized | None = None  # what the last one brought

    @property
    def rows(self) -> int:
        return sum(f.rows for f in self.found) + (self.last.rows if self.last else 0)

    @property
    def listed(self) -> tuple[str, ...]:
        return (*names(self.columns), HASH)

    @property
    def sql(self) -> str:
        """A SELECT of all rows."""
        return columns_sql(self.listed, self.state(State.NEW))

    def state(self, state: State) -> str:
        """All rows, or without those of the last round, as a relation."""
        parts = [] if self.base is None else [self.base]
        parts += [quote(f.view) for f in self.found]
        if self.last is not None and state is State.NEW:
            parts.append(quote(self.last.view))
        if not parts:
            return f"({self._nothing()})"
        return f"({' UNION ALL '.join(columns_sql(self.listed, part) for part in parts)})"

    def _nothing(self) -> str:
        typed = tuple(Item(c.name, cast(null(), c.type)) for c in (*self.columns, Column(HASH, "bigint")))
        return compile_sql(Project(child=Empty(names=("_",)), items=typed), PlainLeaves())

    def push(self, found: Materialized | None) -> None:
        """On to the next round."""
        if self.last is not None:
            self.found.append(self.last)
        self.last = found if found is not None and found.rows else None

    def all_found(self) -> Operator | None:
        """Everything that the rounds brought; None: nothing."""
        parts = [*self.found, *([self.last] if self.last else [])]
        views = [Named(view=f.view, names=self.listed) for f in parts]
        if len(views) < 2:
            return views[0] if views else None
        return UnionAll(inputs=tuple(views), names=self.listed)


@dataclass(slots=True)
class Rounds:
    """Brings the members of a cycle to their least fixpoint. The other tables they read are those of `feeds`."""

    feeds: Feeds
    contents: Mapping[TableName, Content]
    most: int
    most_rows: int
    told: list[dict[TableName, int]] = field(default_factory=list)  # new rows by round
    _read: dict[TableName, str] = field(default_factory=dict)  # small tables that were read once

    def run(self, *, whole: bool) -> None:
        """From nothing (`whole`), or from what is stored and the rows that came to the inputs."""
        facts = Facts(self.feeds.changed, append_only=True)
        while True:
            brought = {name: self._round(content, facts, whole=whole) for name, content in self.contents.items()}
            for name, content in self.contents.items():
                content.push(brought[name])
                self._put_together(content)
            self.told.append({n: c.last.rows for n, c in self.contents.items() if c.last is not None})
            if not self.told[-1]:
                return
            self._refuse_growth()
            facts, whole = Facts(frozenset(self.told[-1])), False

    def _round(self, content: Content, facts: Facts, *, whole: bool) -> Materialized | None:
        derived = content.plan.derived(content.columns, whole=whole)
        tree = derived if whole else optimize(derived, facts)
        if isinstance(tree, Empty):
            return None
        leaves = RoundLeaves(self, content)
        rows = self.feeds.compute(compile_statement(tree, leaves), "derived")
        if not rows.rows or (content.base is None and not content.rows):
            return rows
        return self.feeds.compute(compile_statement(missing(rows.view, content.columns), leaves), "found")

    def _put_together(self, content: Content) -> None:
        if len(content.found) < _MANY:
            return
        rows = sum(f.rows for f in content.found)
        views = tuple(Named(view=f.view, names=content.listed) for f in content.found)
        union = compile_statement(UnionAll(inputs=views, names=content.listed), RoundLeaves(self, content))
        whole = self.feeds.compute(union, "found")
        if whole.rows != rows:
            raise TrickleError("INTERNAL", f"{content.name}: {whole.rows} rows were put together of {rows}")
        content.found = [whole]

    def _refuse_growth(self) -> None:
        rows = sum(c.rows for c in self.contents.values())
        if len(self.told) < self.most and rows <= self.most_rows:
            return
        name, last = max(self.told[-1].items(), key=lambda item: item[1])
        limit = f"{self.most:,} rounds" if len(self.told) >= self.most else f"{self.most_rows:,} rows"
        raise TrickleError(
            "NO_FIXPOINT", f"{name} still grows after {limit}, by {last:,} rows in the last round, {rows:,} in all"
        )

    def input(self, table: TableName) -> str:
        """A table that is no member, at the cut. One of few rows is read once, not in every round."""
        if table not in self._read:
            item = self.feeds.inputs[table]
            self._read[table] = self.feeds.state(table, State.NEW)
            total = item.facts.total_records
            if item.columns and total is not None and total <= LOCAL:
                read = Statement({}, columns_sql(item.columns, self._read[table]))
                found = self.feeds.compute_small(read, "input")
                if found is not None:
                    self._read[table] = quote(found.view)
        return self._read[table]

    @property
    def text(self) -> str:
        """New rows by round, for people."""
        each = " + ".join(f"{sum(found.values()):,}" for found in self.told)
        return f"{len(self.told)} {'round' if len(self.told) == 1 else 'rounds'}: {each} new rows"


@dataclass(frozen=True, slots=True)
class RoundLeaves:
    """The names of tables in the statements of one member."""

    rounds: Rounds
    content: Content

    def state(self, table: TableName, state: State) -> str:
        member = self.rounds.contents.get(table)
        if member is not None:
            return member.state(state)
        return self.rounds.input(table) if state is State.NEW else self.rounds.feeds.state(table, state)

    def changes(self, table: TableName) -> str:
        member = self.rounds.contents.get(table)
        if member is None:
            return self.rounds.feeds.changes(table)
        assert member.last is not None
        return weighted(quote(member.last.view), WEIGHT)

    def stored(self) -> str:
        return self.content.state(State.NEW)

    def weight(self, table: TableName) -> str:
        return WEIGHT if table in self.rounds.contents else self.rounds.feeds.weight(table)

    def small(self, table: TableName) -> bool:
        member = self.rounds.contents.get(table)
        if member is None:
            return self.rounds.feeds.small(table)
        return member.last is None or member.last.rows <= SMALL

    def total(self, table: TableName) -> int | None:
        return None if table in self.rounds.contents else self.rounds.feeds.total(table)

    def stored_rows(self) -> int | None:
        return None
