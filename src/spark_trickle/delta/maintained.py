"""How each operator is maintained and what that costs, in words: for `check` and for people.

The words follow the rules in `delta.rules` and `delta.root`; an operator without an entry here fails a test.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import singledispatch

from spark_trickle.delta.root import Keyed, Plan
from spark_trickle.sql.algebra import (
    Aggregate,
    Distinct,
    Filter,
    Join,
    Operator,
    Project,
    Scan,
    UnionAll,
)

CHANGE = "follows the change"
GROUPS = "follows the affected groups"
DATA = "follows the whole input"


@dataclass(frozen=True, slots=True)
class Maintained:
    how: str
    cost: str


_LINEAR = Maintained("applied to the changed rows alone", CHANGE)


@singledispatch
def maintained(op: Operator, plan: Plan | None) -> Maintained:
    """`plan` is given for the operator on top of a stream table or state table: its old result is in storage."""
    raise NotImplementedError(type(op).__name__)


@maintained.register
def _scan(op: Scan, plan: Plan | None) -> Maintained:  # noqa: ARG001
    return Maintained("the change feed: only files that differ are read", CHANGE)


@maintained.register
def _filter(op: Filter, plan: Plan | None) -> Maintained:  # noqa: ARG001
    return _LINEAR


@maintained.register
def _project(op: Project, plan: Plan | None) -> Maintained:  # noqa: ARG001
    return _LINEAR


@maintained.register
def _union_all(op: UnionAll, plan: Plan | None) -> Maintained:  # noqa: ARG001
    return _LINEAR


@maintained.register
def _join(op: Join, plan: Plan | None) -> Maintained:  # noqa: ARG001
    if not op.conditions:
        return Maintained("changed rows of each input meet all rows of the others", DATA)
    return Maintained("changed rows of each input meet the others, old state or new", f"{CHANGE}, and its partners")


@maintained.register
def _aggregate(op: Aggregate, plan: Plan | None) -> Maintained:
    if isinstance(plan, Keyed) and plan.algebra is not None:
        if plan.extrema:
            return Maintained(
                "the change is added to hidden states", f"{CHANGE}; a group whose MIN or MAX leaves is read"
            )
        return Maintained("the change is added to hidden states; no input is read", CHANGE)
    if not op.keys:
        return Maintained("one group: computed anew when an input changes", DATA)
    if plan is not None:
        return Maintained("affected groups are computed anew", GROUPS)
    return Maintained("affected groups are computed at both states, their difference goes up", GROUPS)


@maintained.register
def _distinct(op: Distinct, plan: Plan | None) -> Maintained:  # noqa: ARG001
    if isinstance(plan, Keyed) and plan.algebra is not None:
        return Maintained("the change is added to a hidden count of copies", CHANGE)
    return Maintained("affected rows are counted at both states, their difference goes up", GROUPS)
