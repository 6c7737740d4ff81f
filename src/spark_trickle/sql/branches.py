"""A query without the branches of its UNIONs that read some tables: what those tables hold at first."""

from __future__ import annotations

from collections.abc import Callable

from sqlglot import exp

from spark_trickle.sql.parse import parse_query, render

IsOpen = Callable[[tuple[str, ...]], bool]  # whether a table, by the parts of its name, is one of those


def branches_without(text: str, is_open: IsOpen) -> str | None:
    """None: every branch reads one of them, itself or through a CTE."""
    tree = parse_query(text)
    ctes = list(tree.find_all(exp.CTE))
    open_ctes: set[str] = set()
    before = -1
    while len(open_ctes) != before:
        before = len(open_ctes)
        open_ctes |= {c.alias.lower() for c in ctes if _reads_open(c.this, is_open, open_ctes)}
    known = {c.alias.lower() for c in ctes}

    def one_of(parts: tuple[str, ...]) -> bool:
        if len(parts) == 1 and parts[0].lower() in known:
            return parts[0].lower() in open_ctes
        return is_open(parts)

    for cte in ctes:
        if cte.alias.lower() in open_ctes:
            with_ = cte.parent
            cte.pop()
            if isinstance(with_, exp.With) and not with_.expressions:
                with_.pop()
    kept = _kept(tree, one_of)
    return None if kept is None else render(kept)


def first_names(text: str) -> tuple[str, ...] | None:
    """The output columns of a query are called as in its first branch; None: that does not tell, or not by place."""
    tree = parse_query(text)
    while isinstance(tree, exp.SetOperation):
        if tree.args.get("by_name"):
            return None
        tree = tree.this
    if not isinstance(tree, exp.Select) or tree.is_star:
        return None
    names = tuple(item.alias_or_name for item in tree.expressions)
    return names if all(names) else None


def _reads_open(tree: exp.Expr, is_open: IsOpen, ctes: set[str]) -> bool:
    for table in tree.find_all(exp.Table):
        parts = tuple(p.name for p in table.parts)
        if is_open(parts) or (len(parts) == 1 and parts[0].lower() in ctes):
            return True
    return False


def _kept(tree: exp.Expr, is_open: IsOpen) -> exp.Expr | None:
    if not isinstance(tree, exp.Union):
        return None if _reads_open(tree, is_open, set()) else tree
    left, right = _kept(tree.this, is_open), _kept(tree.expression, is_open)
    if left is not None and right is not None:
        tree.set("this", left)
        tree.set("expression", right)
        return tree
    found = left if left is not None else right
    for key in ("with_", "with"):
        if found is not None and tree.args.get(key) is not None:
            found.set(key, tree.args[key])
    return found
