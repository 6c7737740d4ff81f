"""Passes that make a state follow the keys of a change, from the top of a tree down to the tables.

A delta looks at a state only where a change touches it. The rules say so where they need it (`Restrict`), and
`restrict_partners` adds it where partners of a change are looked for. `push_restrictions` then moves it below
projections, filters, groups and joins: a join restricted to some keys starts from the input that has them.
"""

from __future__ import annotations

from dataclasses import replace

from spark_trickle.delta.facts import Facts
from spark_trickle.sql.algebra import (
    Aggregate,
    Distinct,
    Filter,
    Item,
    Join,
    Match,
    Matched,
    Operator,
    OuterJoin,
    Project,
    Restrict,
    Side,
    Stored,
    UnionAll,
    keep,
)
from spark_trickle.sql.scalar import Scalar, sides
from spark_trickle.sql.trees import is_change, tables


def restrict_partners(tree: Operator, facts: Facts) -> Operator:
    """Where one side of a match is a change, only the rows of the other side with its keys can matter.

    Spark can broadcast the side that partners are looked for *in*, not the side they are looked for *for*: where the
    change is on the latter, it would sort the whole state.
    """

    def comes_and_stays(change: Operator, state: Operator) -> bool:
        """Whether one side is made of a change and the other of states alone, which are worth restricting."""
        much = any(t not in facts.little for t in tables(state)) or any(isinstance(o, Stored) for o in state.walk())
        return much and is_change(change) and not is_change(state)

    def rule(op: Operator) -> Operator:
        if isinstance(op, Matched) and comes_and_stays(op.child, op.by):
            return replace(op, by=_restricted(op.by, op.child, op.conditions))
        if isinstance(op, Matched) and op.kind is Match.SEMI and comes_and_stays(op.by, op.child):
            return replace(op, child=_restricted(op.child, op.by, op.conditions))
        if isinstance(op, OuterJoin) and op.side is Side.LEFT and comes_and_stays(op.left, op.right):
            return replace(op, right=_restricted(op.right, op.left, op.conditions))
        return op

    return tree.transform(rule)


def _restricted(state: Operator, change: Operator, conditions: tuple[Scalar, ...]) -> Operator:
    """The rows of a state that have the keys of some row of the change."""
    here, there = frozenset(state.columns), frozenset(change.columns)
    keys: list[Item] = []
    wanted: list[Item] = []
    for condition in conditions:
        found = sides(condition)
        for own, other in () if found is None else (found, found[::-1]):
            if own.columns and own.columns <= here and other.columns and other.columns <= there:
                name = f"partner_{len(keys)}"
                keys.append(Item(name, own))
                wanted.append(Item(name, other))
                break
    if not keys:
        return state
    return Restrict(child=state, keys=tuple(keys), by=Distinct(child=Project(child=change, items=tuple(wanted))))


def push_restrictions(tree: Operator, facts: Facts) -> Operator:  # noqa: ARG001
    """Restrictions as far down as they go."""
    return tree.transform(lambda op: _push(op) if isinstance(op, Restrict) and op.keys else op)


def _push(op: Restrict) -> Operator:
    child = op.child
    if isinstance(child, Project):
        by = {i.name: i.scalar for i in child.items}
        keys = tuple(Item(k.name, k.scalar.substitute(by)) for k in op.keys)
        return replace(child, child=_push(replace(op, child=child.child, keys=keys)))
    if any(k.scalar.bare is None for k in op.keys):
        return op  # an expression may fail on rows that are not there any more further up
    used = {k.scalar.bare for k in op.keys}
    if isinstance(child, Filter | Distinct):
        return replace(child, child=_push(replace(op, child=child.child)))
    if isinstance(child, UnionAll):
        return replace(child, inputs=tuple(_push(replace(op, child=i)) for i in child.inputs))
    if isinstance(child, Matched) and used <= set(child.child.columns):
        return replace(child, child=_push(replace(op, child=child.child)))
    if isinstance(child, OuterJoin) and child.side is Side.LEFT and used <= set(child.left.columns):
        return replace(child, left=_push(replace(op, child=child.left)))
    if isinstance(child, Aggregate) and used <= {k.name for k in child.keys}:
        by = {k.name: k.scalar for k in child.keys}
        keys = tuple(Item(k.name, k.scalar.substitute(by)) for k in op.keys)
        return replace(child, child=_push(replace(op, child=child.child, keys=keys)))
    return _into_join(op, child) if isinstance(child, Join) else op


def _into_join(op: Restrict, join: Join) -> Operator:
    """The input that has the most keys is restricted, and the join starts from it."""
    keys = {i: tuple(k for k in op.keys if k.scalar.columns <= set(x.columns)) for i, x in enumerate(join.inputs)}
    first = max(keys, key=lambda i: len(keys[i]))
    if not keys[first]:
        return op
    start = _push(Restrict(child=join.inputs[first], keys=keys[first], by=op.by))
    others = tuple(x for i, x in enumerate(join.inputs) if i != first)
    made = Project(child=replace(join, inputs=(start, *others)), items=keep(*join.columns))
    return made if keys[first] == op.keys else replace(op, child=made)
