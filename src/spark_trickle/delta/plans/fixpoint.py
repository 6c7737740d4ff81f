"""A member of a cycle: a set of rows, each derived from rows that it or the other members hold already.

The content is the least fixpoint. It is reached in rounds: a round derives rows from what changed in the round before,
and keeps those that are not there yet. refresh/fixpoint.py repeats it for all members until a round finds nothing.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from spark_trickle.delta.differentiate import differentiate
from spark_trickle.delta.facts import Facts
from spark_trickle.delta.plans.plan import Comparison, Key, Types
from spark_trickle.delta.plans.rows import compare_all
from spark_trickle.delta.steps import HASH, OLD, Compute, Stage, Step, Write, folded, names
from spark_trickle.model import Column, TableName
from spark_trickle.sql.algebra import (
    WEIGHT,
    Distinct,
    Filter,
    Item,
    Match,
    Matched,
    Named,
    Operator,
    Project,
    Restrict,
    ScanColumn,
    State,
    Stored,
    Weigh,
    keep,
)
from spark_trickle.sql.identity import row_hash
from spark_trickle.sql.scalar import cast, column, equal, greater, number, same
from spark_trickle.sql.trees import at

DERIVED, FOUND = "derived rows", "new rows"


@dataclass(frozen=True, slots=True)
class Fixpoint:
    full: Operator  # columns = public names
    body: Operator  # the same before it is made a set
    delta: Operator  # of the body, weighted
    cycle: tuple[TableName, ...]  # all members

    @property
    def kind(self) -> str:
        return "fixpoint"

    @property
    def keys(self) -> tuple[Key, ...]:
        return ()

    @property
    def identity(self) -> str:
        return "the whole row, once"

    @property
    def hidden(self) -> tuple[Column, ...]:
        return (Column(HASH, "bigint"),)

    def compare(self, types: Types) -> dict[str, Comparison]:  # noqa: ARG002
        return {}

    def picks_by_order(self, types: Types) -> bool:  # noqa: ARG002
        return False

    def steps(self, columns: Sequence[Column], facts: Facts) -> tuple[Step, ...]:  # noqa: ARG002
        """One round."""
        listed = (*names(columns), HASH)
        return (
            Compute(DERIVED, self.derived(columns), ends=True),
            Compute(FOUND, missing(DERIVED, columns), Stage.LOOKUP, ends=True),
            Write(enters=Named(view=FOUND, names=listed)),
        )

    def careful(self, columns: Sequence[Column]) -> tuple[tuple[Step, ...], ...]:
        return (compare_all(self.full, columns),)

    def derived(self, columns: Sequence[Column], *, whole: bool = False) -> Operator:
        """The rows that the changes of a round give, each once; `whole`: those that all rows give."""
        change = Weigh(child=at(self.body, State.NEW), weight=1) if whole else self.delta
        # Every round gives the same types: a hash depends on them.
        typed = tuple(Item(c.name, cast(column(c.name), c.type)) for c in columns)
        stored = Project(child=change, items=(*typed, *keep(WEIGHT)))
        there = Filter(child=folded(stored, columns), condition=greater(column(WEIGHT), number(0)))
        # Whether two rows are one is Spark's business here: to its DISTINCT, 0.0 is -0.0.
        rows = Distinct(child=Project(child=there, items=keep(*names(columns))))
        return Project(child=rows, items=(*keep(*names(columns)), Item(HASH, row_hash(columns))))


def missing(derived: str, columns: Sequence[Column]) -> Operator:
    """Those of a step's rows that are not stored."""
    listed = (*names(columns), HASH)
    rows = Named(view=derived, names=listed)
    there = Restrict(
        child=Stored(fields=tuple(ScanColumn(n, OLD + n) for n in listed)),
        keys=(Item(HASH, column(OLD + HASH)),),
        by=Project(child=rows, items=keep(HASH)),
    )
    on = (equal(column(OLD + HASH), column(HASH)), *(same(column(OLD + c.name), column(c.name)) for c in columns))
    return Matched(child=rows, by=there, conditions=on, kind=Match.ANTI)


def fixpoint(full: Operator, body: Operator, columns: Sequence[Column], cycle: tuple[TableName, ...]) -> Fixpoint:
    """Of a tree that is a set and monotone in the members of its cycle."""
    items = tuple(Item(c.name, column(n)) for c, n in zip(columns, full.columns, strict=True))
    shown, rows = Project(child=full, items=items), Project(child=body, items=items)
    return Fixpoint(shown, rows, differentiate(rows), cycle)
