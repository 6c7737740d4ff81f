"""A query without the branches of its UNIONs that read some tables: what those tables hold at first."""

from __future__ import annotations

from collections.abc import Callable

from sqlglot import exp

from spark_trickle.sql.parse import parse_query, render

IsOpen = Callable[[tuple[str, ...]], bool]  # whether a table, by the parts of its name, is one of those


def branches_without(text: str, is_open: IsOpen) -> str | None:
    """None: every branch reads one of them."""
    tree = parse_query(text)
    kept = _kept(tree, is_open)
    return None if kept is None else render(kept)


def _kept(tree: exp.Expr, is_open: IsOpen) -> exp.Expr | None:
    if isinstance(tree, exp.Union):
        sides = [_kept(side, is_open) for side in (tree.this, tree.expression)]
        left, right = sides
        if left is not None and right is not None:
            return tree
        found = left if left is not None else right
        shared = tree.args.get("with_") or tree.args.get("with")
        if found is not None and shared is not None:
            found.set("with_" if "with_" in tree.arg_types else "with", shared)
        return found
    ctes = {c.alias.lower() for c in tree.find_all(exp.CTE)}
    for table in tree.find_all(exp.Table):
        parts = tuple(p.name for p in table.parts)
        if not (len(parts) == 1 and parts[0].lower() in ctes) and is_open(parts):
            return None
    return tree
