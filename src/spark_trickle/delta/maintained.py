"""How each operator is maintained and what that costs, in words: for `check` and for people.

The words follow the rules in `delta.rules` and `delta.plans`; an operator without an entry here fails a test.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import singledispatch

from spark_trickle.delta.plans.keyed import Keyed
from spark_trickle.delta.plans.partitioned import Partitioned
from spark_trickle.delta.plans.plan import Plan
from spark_trickle.sql.algebra import (
    Aggregate,
    Constant,
    Distinct,
    Explode,
    Filter,
    Join,
    Level,
    Match,
    Matched,
    Operator,
    OuterJoin,
    Project,
    Recursion,
    Scan,
    TopK,
    UnionAll,
    Window,
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
def _explode(op: Explode, plan: Plan | None) -> Maintained:  # noqa: ARG001
    return _LINEAR


@maintained.register
def _constant(op: Constant, plan: Plan | None) -> Maintained:  # noqa: ARG001
    return Maintained("never changes", "nothing")


@maintained.register
def _join(op: Join, plan: Plan | None) -> Maintained:  # noqa: ARG001
    if not op.conditions:
        return Maintained("changed rows of each input meet all rows of the others", DATA)
    return Maintained("changed rows of each input meet the others, old state or new", f"{CHANGE}, and its partners")


@maintained.register
def _outer_join(op: OuterJoin, plan: Plan | None) -> Maintained:  # noqa: ARG001
    how = "changed rows meet the other input; rows that gain a first or lose their last partner change their NULLs"
    return Maintained(how, f"{CHANGE}, and its partners" if op.conditions else DATA)


@maintained.register
def _matched(op: Matched, plan: Plan | None) -> Maintained:  # noqa: ARG001
    what = {Match.SEMI: "have a partner", Match.ANTI: "have none", Match.MARK: "may have a partner"}[op.kind]
    how = f"rows that {what}: judged again where a changed row could be the partner"
    return Maintained(how, f"{CHANGE}, and its partners" if op.conditions else f"{DATA} when the other one changes")


@maintained.register
def _window(op: Window, plan: Plan | None) -> Maintained:
    if not op.keys:
        return Maintained("no PARTITION BY: one partition, recomputed when an input changes", DATA)
    if isinstance(plan, Partitioned):
        return Maintained("affected partitions are recomputed", "follows the affected partitions")
    how = "affected partitions are computed at both states, their difference goes up"
    return Maintained(how, "follows the affected partitions")


@maintained.register
def _top_k(op: TopK, plan: Plan | None) -> Maintained:  # noqa: ARG001
    return Maintained("recomputed when an input changes", DATA)


@maintained.register
def _recursion(op: Recursion, plan: Plan | None) -> Maintained:  # noqa: ARG001
    return Maintained("recomputed, level by level, when an input changes", DATA)


@maintained.register
def _level(op: Level, plan: Plan | None) -> Maintained:  # noqa: ARG001
    return Maintained("the level before", "")


@maintained.register
def _aggregate(op: Aggregate, plan: Plan | None) -> Maintained:
    if isinstance(plan, Keyed) and plan.algebra is not None:
        if plan.extrema:
            return Maintained(
                "the change is added to hidden states", f"{CHANGE}; a group whose MIN or MAX leaves is read"
            )
        return Maintained("the change is added to hidden states; no input is read", CHANGE)
    if not op.keys:
        return Maintained("one group: recomputed when an input changes", DATA)
    if plan is not None:
        return Maintained("affected groups are recomputed", GROUPS)
    return Maintained("affected groups are computed at both states, their difference goes up", GROUPS)


@maintained.register
def _distinct(op: Distinct, plan: Plan | None) -> Maintained:  # noqa: ARG001
    if isinstance(plan, Keyed) and plan.algebra is not None:
        return Maintained("the change is added to a hidden count of copies", CHANGE)
    return Maintained("affected rows are counted at both states, their difference goes up", GROUPS)
