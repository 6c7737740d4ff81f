"""Smaller forms of a query: a column, a condition, a join, a clause less. Whether one is still a query, Spark says."""

from __future__ import annotations

from collections.abc import Iterator

from sqlglot import exp

from spark_trickle.errors import TrickleError
from spark_trickle.sql.parse import parse_query, render


def smaller_queries(sql: str) -> Iterator[str]:
    """Texts with one part less each, the largest parts first."""
    seen = {sql}
    try:
        tree = parse_query(sql)
        count = len(list(_cuts(tree)))
    except TrickleError:
        return
    found = []
    for n in range(count):
        copy = tree.copy()
        try:
            result = list(_cuts(copy))[n]()
            text = render(result if isinstance(result, exp.Query) else copy)
        except Exception:
            continue
        if text not in seen and len(text) < len(sql):
            seen.add(text)
            found.append(text)
    yield from sorted(found, key=len)


def _cuts(tree: exp.Expression) -> Iterator:
    """Functions that each cut something out of the tree in place (or return another tree)."""
    for node in list(tree.walk()):
        if (
            isinstance(node, exp.Subquery)
            and isinstance(node.this, exp.Query)
            and node.find_ancestor(exp.From, exp.Join)
        ):
            yield lambda node=node: node.this.copy()
        if isinstance(node, exp.SetOperation):
            for side in (node.left, node.right):
                yield lambda node=node, side=side: _replace(node, side, tree)
        if isinstance(node, exp.Select):
            for name in ("where", "having", "joins", "laterals", "distinct", "limit", "order", "offset"):
                part = node.args.get(name)
                for one in part if isinstance(part, list) else [part] if part else []:
                    yield one.pop
            if len(node.expressions) > 1:
                for item in node.expressions:
                    yield item.pop
            group = node.args.get("group")
            if group is not None and len(group.expressions) > 1:
                for key in group.expressions:
                    yield key.pop
        if isinstance(node, exp.With) and len(node.expressions) == 1:
            yield lambda node=node: node.parent.set("with_", None)
        if isinstance(node, exp.And | exp.Or):
            for side in (node.left, node.right):
                yield lambda node=node, side=side: node.replace(side.copy())
        if isinstance(node, exp.Not | exp.Paren):
            yield lambda node=node: node.replace(node.this.copy())
        if isinstance(node, exp.Filter):
            yield lambda node=node: node.replace(node.this.copy())


def _replace(node: exp.Expression, by: exp.Expression, tree: exp.Expression) -> exp.Expression | None:
    if node is tree:
        return by.copy()
    node.replace(by.copy())
    return None
