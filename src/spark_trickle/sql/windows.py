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
    """`OVER w` with the definition of w written out."""
    definitions = {w.name.lower(): w for w in node.args.get("windows") or ()}
    if not definitions:
        return node
    node = node.copy()
    scopes = [*node.expressions, *([node.args["order"]] if node.args.get("order") else [])]
    for part in scopes:
        for window in list(part.find_all(exp.Window)):
            name = window.alias or (window.args["first"].name if _based(window) else "")
            if not name:
                continue
            known = definitions.get(name.lower())
            if known is None or known.alias or window.args.get("partition_by") or window.args.get("order"):
                raise NotIncremental("WINDOW", f"the window {name} has no rule yet", place=place(window, text))
            window.set("alias", None)
            window.set("first", None)
            for arg in ("partition_by", "order", "spec"):
                given = known.args.get(arg)
                if given is not None and window.args.get(arg) is None:
                    window.set(arg, [g.copy() for g in given] if isinstance(given, list) else given.copy())
    return node


def _based(window: exp.Window) -> bool:
    return isinstance(window.args.get("first"), exp.Expression)


def lower_windows(
    scalars: Sequence[Scalar], relation: Operator, fresh: Callable[[str], str]
) -> tuple[Operator, tuple[Scalar, ...]]:
    """The relation with its window functions as columns, and the scalars over them."""
    chain: dict[str, tuple[tuple[Item, ...], dict[str, Call]]] = {}

    def swap(node: exp.Expr) -> exp.Expr:
        if not isinstance(node, exp.Window):
            return node
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
