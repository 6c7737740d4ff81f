"""Window functions of a select list -> a chain of Window operators, one per PARTITION BY."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from sqlglot import exp

from spark_trickle.errors import NotIncremental
from spark_trickle.sql.algebra import Call, Item, Operator, Window
from spark_trickle.sql.parse import place
from spark_trickle.sql.resolve import function_name
from spark_trickle.sql.scalar import Scalar, identifier

_WRAPPERS = (exp.Filter, exp.IgnoreNulls, exp.RespectNulls)


def expand_named(node: exp.Select, text: str) -> exp.Select:
    """`OVER w` and `OVER (w)` with the definition of w written out.

    Names differ by case. The select list sees them, subqueries in it do not, and neither does ORDER BY.
    """
    definitions = {w.name: w for w in node.args.get("windows") or ()}
    if not definitions:
        return node
    node = node.copy()
    for window in [w for item in node.expressions for w in _windows(item)]:
        known = definitions.get(window.alias) if window.alias else None
        if known is not None and known.alias:  # w2 AS (w): one step, as in Spark
            known = definitions.get(known.alias)
        if known is None:
            continue
        if known.alias or any(window.args.get(arg) for arg in _SPECIFICATION):
            raise NotIncremental("WINDOW", f"the window {window.alias} has no rule yet", place=place(window, text))
        window.set("alias", None)
        for arg in _SPECIFICATION:
            given = known.args.get(arg)
            window.set(arg, [g.copy() for g in given] if isinstance(given, list) else given and given.copy())
    return node


_SPECIFICATION = ("partition_by", "order", "spec")


def _windows(item: exp.Expr) -> list[exp.Window]:
    found = item.walk(prune=lambda n: isinstance(n, exp.Query) and n is not item)
    return [n for n in found if isinstance(n, exp.Window)]


def lower_windows(
    scalars: Sequence[Scalar], relation: Operator, fresh: Callable[[str], str]
) -> tuple[Operator, tuple[Scalar, ...]]:
    """The relation with its window functions as columns, and the scalars over them."""
    chain: dict[str, tuple[tuple[Item, ...], dict[str, Call]]] = {}

    def swap(node: exp.Expr) -> exp.Expr:
        if not isinstance(node, exp.Window):
            return node
        if node.alias:
            raise NotIncremental("WINDOW", f"the window {node.alias} is not defined in the query it stands in")
        partition = [Scalar(p.copy()) for p in node.args.get("partition_by") or ()]
        key = ", ".join(p.sql() for p in partition)
        if key not in chain:
            chain[key] = (tuple(Item(fresh("p"), p) for p in partition), {})
        calls = chain[key][1]
        whole = Scalar(node.copy())
        if whole.sql() not in calls:
            heart = node.this
            while isinstance(heart, _WRAPPERS):
                heart = heart.this
            name = function_name(heart) or ""
            calls[whole.sql()] = Call(
                name=fresh(f"w_{name}"),
                whole=whole,
                function=name,
                args=tuple(Scalar(a.copy()) for a in heart.expressions if not isinstance(a, exp.Star | exp.Distinct)),
            )
        return exp.Column(this=identifier(calls[whole.sql()].name))

    found = tuple(Scalar(s.tree.copy().transform(swap)) for s in scalars)
    for keys, calls in chain.values():
        relation = Window(child=relation, keys=keys, calls=tuple(calls.values()))
    return relation, found
