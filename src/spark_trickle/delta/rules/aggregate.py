"""Aggregate below the root, by affected groups:

    K = keys of dX;   d(γ(X)) = γ(X.new at K) - γ(X.old at K)

UPDATE: a row that moves between groups affects both. NULL keys form a group (keys are compared null-safe). A group
that appears or disappears has one side only. Without keys both states are aggregated whole: one row out, one in.
Only for aggregates whose answer does not depend on row order: what is retracted must be what was emitted.
State needed: the inputs' own tables at frontier and cut. An aggregate at the root is cheaper: see `delta.plans`.
"""

from __future__ import annotations

from collections.abc import Callable

from spark_trickle.delta.differentiate import differentiate
from spark_trickle.sql.algebra import (
    WEIGHT,
    Aggregate,
    Distinct,
    Item,
    Operator,
    Project,
    Restrict,
    State,
    UnionAll,
    Weigh,
    Window,
)
from spark_trickle.sql.trees import at


@differentiate.register
def _aggregate(op: Aggregate) -> Operator:
    return by_affected_groups(op)


def key_items(op: Aggregate | Window) -> tuple[Item, ...]:
    """The keys under the names that a relation of affected keys has them."""
    return tuple(Item(f"{k.name}__key", k.scalar) for k in op.keys)


def affected_keys(op: Aggregate | Window) -> Operator:
    """The keys of the groups or partitions that dX touches."""
    return Distinct(child=Project(child=differentiate(op.child), items=key_items(op)))


def difference(op: Operator, over: Callable[[State], Operator]) -> Operator:
    """The new rows minus the old ones."""
    sides = tuple(Weigh(child=over(state), weight=weight) for state, weight in ((State.NEW, 1), (State.OLD, -1)))
    return UnionAll(inputs=sides, names=(*op.columns, WEIGHT))


def limited(op: Aggregate, child: Operator, by: Operator) -> Aggregate:
    """The aggregate over `child`, limited to the groups in `by`."""
    if op.keys:
        child = Restrict(child=child, keys=key_items(op), by=by)
    return Aggregate(child=child, keys=op.keys, calls=op.calls)


def _side(op: Aggregate, child: Operator, affected: Operator) -> Operator:
    if op.keys:
        return limited(op, child, affected)
    return Restrict(child=limited(op, child, affected), keys=(), by=affected)  # only if anything changed


def by_affected_groups(op: Aggregate) -> Operator:
    affected = affected_keys(op) if op.keys else differentiate(op.child)
    return difference(op, lambda state: _side(op, at(op.child, state), affected))
