"""Window below the root, by affected partitions:

    K = partition keys of dX;   d(ω(X)) = ω(X.new at K) - ω(X.old at K)

A row of an affected partition whose values stay the same is in both sides and cancels. Without PARTITION BY there is
one partition, recomputed whole whenever anything changes. NULL keys form a partition (keys are compared null-safe).
Only for functions whose answer does not depend on how ties fall: what is retracted must be what was emitted.
State needed: the inputs' own tables. A window at the root needs only the new state: see `delta.plans`.
"""

from __future__ import annotations

from dataclasses import replace

from spark_trickle.delta.differentiate import differentiate
from spark_trickle.delta.rules.aggregate import affected_keys, difference, key_items
from spark_trickle.sql.algebra import Operator, Restrict, Window
from spark_trickle.sql.trees import at


@differentiate.register
def _window(op: Window) -> Operator:
    affected = affected_keys(op) if op.keys else differentiate(op.child)
    return difference(op, lambda state: within(op, at(op.child, state), affected))


def within(op: Window, child: Operator, affected: Operator) -> Operator:
    """The window functions over the affected partitions only."""
    if not op.keys:
        return Restrict(child=replace(op, child=child), keys=(), by=affected)
    return replace(op, child=Restrict(child=child, keys=key_items(op), by=affected))
