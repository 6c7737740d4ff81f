"""Keep only the columns that something above uses: what a scan and a feed read follows from it."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

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


def prune(tree: Operator) -> Operator:
    return _prune(tree, frozenset(tree.columns))


def _prune(op: Operator, needed: frozenset[str]) -> Operator:
    if isinstance(op, Scan):
        # A scan without columns (count(*)) keeps one: a row must be something.
        kept = tuple(f for f in op.fields if f.name in needed) or op.fields[:1]
        return replace(op, fields=kept)
    if isinstance(op, Filter):
        return replace(op, child=_prune(op.child, needed | op.condition.columns))
    if isinstance(op, Project):
        items = tuple(i for i in op.items if i.name in needed) or op.items[:1]
        return Project(child=_prune(op.child, _used(i.scalar.columns for i in items)), items=items)
    if isinstance(op, Join):
        wanted = needed | _used(c.columns for c in op.conditions)
        return replace(op, inputs=tuple(_prune(i, wanted & frozenset(i.columns)) for i in op.inputs))
    if isinstance(op, UnionAll):
        names = tuple(n for n in op.names if n in needed) or op.names[:1]
        return UnionAll(inputs=tuple(_prune(i, frozenset(names)) for i in op.inputs), names=names)
    if isinstance(op, Distinct):
        return replace(op, child=_prune(op.child, frozenset(op.columns)))
    if isinstance(op, Aggregate):
        calls = tuple(c for c in op.calls if c.name in needed)
        wanted = _used(s.columns for s in (*(k.scalar for k in op.keys), *(c.whole for c in calls)))
        return replace(op, child=_prune(op.child, wanted), calls=calls)
    return op


def _used(columns: Iterable[frozenset[str]]) -> frozenset[str]:
    return frozenset().union(*columns)
