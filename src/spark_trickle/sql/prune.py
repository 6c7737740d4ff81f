"""Keep only the columns that something above uses: what a scan and a feed read follows from it."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

from spark_trickle.sql.algebra import (
    Aggregate,
    Distinct,
    Explode,
    Filter,
    Join,
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
from spark_trickle.sql.trees import scalars


def prune(tree: Operator) -> Operator:
    return _prune(tree, frozenset(tree.columns))


def _prune(op: Operator, needed: frozenset[str]) -> Operator:
    if isinstance(op, Scan):
        # A scan without columns (count(*)) keeps one: a row must be something.
        kept = tuple(f for f in op.fields if f.name in needed) or op.fields[:1]
        return replace(op, fields=kept)
    if isinstance(op, Project):
        items = tuple(i for i in op.items if i.name in needed) or op.items[:1]
        return Project(child=_prune(op.child, _used(i.scalar.columns for i in items)), items=items)
    if isinstance(op, UnionAll):
        names = tuple(n for n in op.names if n in needed) or op.names[:1]
        return UnionAll(inputs=tuple(_prune(i, frozenset(names)) for i in op.inputs), names=names)
    if isinstance(op, Distinct):
        return replace(op, child=_prune(op.child, frozenset(op.columns)))
    if isinstance(op, Aggregate):
        calls = tuple(c for c in op.calls if c.name in needed)
        if not op.keys and not calls:
            calls = op.calls[:1]  # its one row must be something
        slim = replace(op, calls=calls)
        return replace(slim, child=_prune(op.child, _used(s.columns for s in scalars(slim))))
    if isinstance(op, Window):
        calls = tuple(c for c in op.calls if c.name in needed)
        if not calls:
            return _prune(op.child, needed)
        op = replace(op, calls=calls)
    if isinstance(op, Recursion):
        return op.with_children(tuple(_prune(c, frozenset(op.names)) for c in op.children))
    if isinstance(op, Filter | Join | OuterJoin | Matched | Window | TopK | Explode):
        wanted = needed | _used(s.columns for s in scalars(op))
        return op.with_children(tuple(_prune(c, wanted & frozenset(c.columns)) for c in op.children))
    return op


def _used(columns: Iterable[frozenset[str]]) -> frozenset[str]:
    return frozenset().union(*columns)
