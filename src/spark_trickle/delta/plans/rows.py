"""Rows identified by all of their columns: the delta's weights say how many copies come and go."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from spark_trickle.delta.facts import Facts
from spark_trickle.delta.plans.plan import Comparison, Key, Types
from spark_trickle.delta.steps import HASH, Step, Write, as_stored, change_rows, hashed, names
from spark_trickle.model import Column
from spark_trickle.sql.algebra import WEIGHT, Operator, Project, ScanColumn, Stored, UnionAll, Weigh


@dataclass(frozen=True, slots=True)
class Rows:
    full: Operator  # columns = public names
    delta: Operator  # the same, weighted

    @property
    def kind(self) -> str:
        return "rows"

    @property
    def keys(self) -> tuple[Key, ...]:
        return ()

    @property
    def identity(self) -> str:
        return "the whole row"

    @property
    def hidden(self) -> tuple[Column, ...]:
        return (Column(HASH, "bigint"),)

    def compare(self, types: Types) -> dict[str, Comparison]:  # noqa: ARG002
        return {}

    def picks_by_order(self, types: Types) -> bool:  # noqa: ARG002
        return False

    def steps(self, columns: Sequence[Column], facts: Facts) -> tuple[Step, ...]:
        if facts.append_only and not _retracts(self.delta):
            # Only insertions, each of weight one: nothing to consolidate, nothing to look up.
            return (Write(enters=hashed(self.delta, columns)),)
        return change_rows(self.delta, columns)

    def careful(self, columns: Sequence[Column]) -> tuple[tuple[Step, ...], ...]:
        return (compare_all(self.full, columns),)


def _retracts(tree: Operator) -> bool:
    """Whether a delta can hold removals although its feeds have none: an affected group is retracted and emitted."""
    return any(isinstance(op, Weigh) and op.weight < 0 for op in tree.walk())


def against_stored(fresh: Operator, there: Operator, columns: Sequence[Column]) -> Operator:
    """Rows as they are now minus rows as they are stored."""
    new = Weigh(child=Project(child=fresh, items=as_stored(columns)), weight=1)
    return UnionAll(inputs=(new, Weigh(child=there, weight=-1)), names=(*names(columns), WEIGHT))


def compare_all(full: Operator, columns: Sequence[Column]) -> tuple[Step, ...]:
    """All rows from the new state against all that are stored."""
    there = Stored(fields=tuple(ScanColumn(c.name, c.name) for c in columns))
    return change_rows(against_stored(full, there, columns), columns)
