"""The interface of all plans."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Protocol

from spark_trickle.delta.facts import Facts
from spark_trickle.delta.steps import Step
from spark_trickle.model import Column
from spark_trickle.sql.algebra import Operator

Types = Mapping[str, str]  # of every aggregate key and call


class Comparison(StrEnum):
    """How a column is compared with its definition."""

    EXACT = "exact"
    APPROXIMATE = "approximate"  # order-dependent floats: relative error 1e-9
    ZERO = "zero"  # exact, but a zero may have either sign
    BAG = "bag"  # an array whose order SQL leaves open
    OPEN = "open"  # SQL leaves the value open


@dataclass(frozen=True, slots=True)
class Key:
    name: str  # in the tree
    stored: str  # in storage
    type: str

    @property
    def affected(self) -> str:
        """Its name among the affected keys."""
        return f"{self.name}__key"


class Plan(Protocol):
    @property
    def kind(self) -> str:
        """One word for the layout of the storage."""
        ...

    @property
    def keys(self) -> tuple[Key, ...]:
        """The stored columns that identify a row, or the part that is recomputed together."""
        ...

    @property
    def identity(self) -> str:
        """What identifies a row, in words."""
        ...

    @property
    def full(self) -> Operator:
        """The whole content of the storage but for HASH."""
        ...

    @property
    def hidden(self) -> tuple[Column, ...]:
        """The columns of the storage beside the public ones."""
        ...

    def compare(self, types: Types) -> dict[str, Comparison]:
        """How each public column is compared; columns not listed are compared exactly."""
        ...

    def picks_by_order(self, types: Types) -> bool:
        """Whether a value that depends on the order of rows decides which rows there are: HAVING sum(d) > 0.3."""
        ...

    def steps(self, columns: Sequence[Column], facts: Facts) -> tuple[Step, ...]:
        """What a DIFFERENTIAL refresh does; `columns` are the public ones."""
        ...

    def careful(self, columns: Sequence[Column]) -> tuple[tuple[Step, ...], ...]:
        """The same without evaluating anything on rows that are in neither state; the second if the first fails.

        A delta pairs old rows with new ones before the pairs cancel, and adds what leaves to what enters. An expression
        may fail for such a pair, a sum of changes may be larger than any sum. So everything is computed from the new
        state, where only the definition's own errors can happen, and compared with what is stored.
        """
        ...
