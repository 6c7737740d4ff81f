"""Where a column of a tree comes from."""

from __future__ import annotations

from spark_trickle.model import TableName
from spark_trickle.sql.algebra import Aggregate, Operator, Project, Scan


def origin(op: Operator, name: str) -> tuple[TableName, str] | None:
    """The table and its column that column `name` of a tree is, unchanged; None if it is computed."""
    if isinstance(op, Scan):
        return next(((op.input, f.source) for f in op.fields if f.name == name), None)
    if isinstance(op, Project | Aggregate):
        items = op.items if isinstance(op, Project) else op.keys
        below = next((i.scalar.bare for i in items if i.name == name), None)
        return None if below is None else origin(op.child, below)
    # A column keeps its name, which is unique in the tree, through all operators that pass it on.
    return next((origin(child, name) for child in op.children if name in child.columns), None)
