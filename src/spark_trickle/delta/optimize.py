"""Passes over a delta tree. Each is a pure function that keeps the meaning and can be switched off in tests."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from spark_trickle.delta.facts import Facts
from spark_trickle.delta.restrict import push_restrictions, restrict_partners
from spark_trickle.sql.algebra import (
    Aggregate,
    AsOf,
    Changes,
    Empty,
    Operator,
    State,
    UnionAll,
)

Pass = Callable[[Operator, Facts], Operator]


def drop_unchanged(tree: Operator, facts: Facts) -> Operator:
    """Terms whose input did not change are empty, and emptiness spreads upwards."""

    def rule(op: Operator) -> Operator:
        if isinstance(op, Changes) and op.scan.input not in facts.changed:
            return Empty(names=op.columns)
        if isinstance(op, UnionAll):
            live = tuple(i for i in op.inputs if not isinstance(i, Empty))
            if not live:
                return Empty(names=op.columns)
            return live[0] if len(live) == 1 else replace(op, inputs=live)
        # An aggregate without keys has a row even over nothing; with keys it has none.
        grouped = not isinstance(op, Aggregate) or bool(op.keys)
        if grouped and any(isinstance(c, Empty) for c in op.children):
            return Empty(names=op.columns)
        return op

    return tree.transform(rule)


def unify_states(tree: Operator, facts: Facts) -> Operator:
    """An input that did not change has one state: read it as the new one, so that equal subtrees are shared."""

    def rule(op: Operator) -> Operator:
        if isinstance(op, AsOf) and op.state is State.OLD and op.scan.input not in facts.changed:
            return replace(op, state=State.NEW)
        return op

    return tree.transform(rule)


# What a restriction reaches may itself be partners of another state: hence twice.
_FOLLOW: tuple[Pass, ...] = (restrict_partners, push_restrictions)
PASSES: tuple[Pass, ...] = (drop_unchanged, unify_states, *_FOLLOW, *_FOLLOW)


# Without what restricts states to the keys of a change.
UNRESTRICTED = tuple(p for p in PASSES if p not in _FOLLOW)


def optimize(tree: Operator, facts: Facts, passes: tuple[Pass, ...] = PASSES) -> Operator:
    for apply in passes:
        tree = apply(tree, facts)
    return tree
