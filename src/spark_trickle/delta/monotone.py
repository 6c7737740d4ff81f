"""Whether more rows of some tables can only add rows: what a definition in a cycle has to be."""

from __future__ import annotations

from collections.abc import Collection

from spark_trickle.model import TableName
from spark_trickle.sql.algebra import (
    Aggregate,
    Distinct,
    Match,
    Matched,
    Operator,
    OuterJoin,
    Project,
    Recursion,
    Side,
    TopK,
    Window,
)
from spark_trickle.sql.trees import tables

# What a user calls the operator, and a word that tells where it is in the text.
_WORDS: dict[type[Operator], tuple[str, tuple[str, ...]]] = {
    Aggregate: ("an aggregate (GROUP BY, INTERSECT or EXCEPT)", ("GROUP", "INTERSECT", "EXCEPT", "MINUS", "HAVING")),
    Window: ("a window function", ("OVER",)),
    TopK: ("LIMIT", ("LIMIT", "OFFSET")),
    OuterJoin: ("an outer join that may fill it with NULL", ("LEFT", "RIGHT", "FULL")),
    Matched: ("NOT EXISTS, NOT IN, or EXISTS within an OR", ("NOT", "ANTI")),
    Recursion: ("WITH RECURSIVE", ("RECURSIVE",)),
}


def offending(tree: Operator, names: Collection[TableName]) -> Operator | None:
    """An operator by which more rows of these tables may take rows away; None: the tree is monotone in them."""
    for op in tree.walk():
        below = [bool(tables(child) & set(names)) for child in op.children]
        if not any(below):
            continue
        if isinstance(op, Aggregate):
            bad = not _is_distinct(op)
        elif isinstance(op, OuterJoin):
            bad = op.side is Side.FULL or below[1]
        elif isinstance(op, Matched):
            bad = op.kind is not Match.SEMI and below[1]
        else:
            bad = isinstance(op, Window | TopK | Recursion)
        if bad:
            return op
    return None


def described(op: Operator) -> tuple[str, tuple[str, ...]]:
    """What an offending operator is called, and words one of which marks its place in the text."""
    return _WORDS[type(op)]


def set_body(tree: Operator) -> Operator | None:
    """The rows that a definition makes a set of, under its output columns; None: it may have rows twice."""
    if isinstance(tree, Project):
        kept = [i.scalar.bare for i in tree.items]
        below = set_body(tree.child)
        # Under other names or in another order rows are as different as before; without a column they need not be.
        if below is None or None in kept or set(kept) != set(tree.child.columns):
            return None
        return Project(child=below, items=tree.items)
    if isinstance(tree, Distinct):
        return tree.child
    if isinstance(tree, Aggregate) and _is_distinct(tree):
        return Project(child=tree.child, items=tree.keys)
    return None


def _is_distinct(op: Aggregate) -> bool:
    return bool(op.keys) and not op.calls
