"""Distinct below the root: an aggregate whose keys are all columns and which has no calls.

    K = rows of dX;   d(δ(X)) = δ(X.new at K) - δ(X.old at K)

A row that loses one of several copies is in both sides and cancels. State needed: the inputs' own tables. A Distinct
at the root keeps a hidden count instead: see `delta.plans`.
"""

from __future__ import annotations

from spark_trickle.delta.differentiate import differentiate
from spark_trickle.delta.rules.aggregate import by_affected_groups
from spark_trickle.sql.algebra import Aggregate, Distinct, Operator, keep


@differentiate.register
def _distinct(op: Distinct) -> Operator:
    return by_affected_groups(as_aggregate(op))


def as_aggregate(op: Distinct) -> Aggregate:
    return Aggregate(child=op.child, keys=keep(*op.columns), calls=())
