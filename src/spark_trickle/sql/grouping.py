"""GROUP BY, aggregate calls, HAVING and expressions over aggregates -> Aggregate, Filter, Project."""

from __future__ import annotations

from collections.abc import Callable

from sqlglot import exp

from spark_trickle.sql.algebra import Aggregate, Call, Filter, Item, Operator, Project
from spark_trickle.sql.functions import FunctionKind
from spark_trickle.sql.resolve import Resolver, function_name
from spark_trickle.sql.scalar import Scalar, identifier

Selected = tuple[tuple[str, Scalar], ...]

_WRAPPERS = (exp.Filter, exp.WithinGroup, exp.IgnoreNulls, exp.RespectNulls)


def lower_grouped(
    node: exp.Select,
    selected: Selected,
    resolver: Resolver,
    relation: Operator,
    fresh: Callable[[str], str],
) -> tuple[Operator, tuple[Item, ...]] | None:
    """The operators of a grouped SELECT and its output items; None when nothing is grouped."""
    group, having = node.args.get("group"), node.args.get("having")
    grouping = _Grouping(resolver, fresh)
    if group is None and having is None and not any(grouping.has_call(s.tree) for _, s in selected):
        return None
    grouping.read_keys(group, selected)
    items = tuple(Item(fresh(shown or "column"), grouping.over(scalar, node)) for shown, scalar in selected)
    condition = None
    if having is not None:
        condition = grouping.over(resolver.scalar(having.this, clause="HAVING"), having)
    result: Operator = Aggregate(child=relation, keys=tuple(grouping.keys), calls=tuple(grouping.calls))
    if condition is not None:
        result = Filter(child=result, condition=condition)
    return Project(child=result, items=items), items


class _Grouping:
    def __init__(self, resolver: Resolver, fresh: Callable[[str], str]) -> None:
        self.resolver = resolver
        self.fresh = fresh
        self.keys: list[Item] = []
        self.calls: list[Call] = []

    def read_keys(self, group: exp.Group | None, selected: Selected) -> None:
        if group is None:
            return
        for arg in ("rollup", "cube", "grouping_sets", "totals"):
            if group.args.get(arg):
                raise self.resolver.refuse("GROUPING_SETS", f"{arg} has no delta rule yet", group)
        written = group.expressions
        everything = group.args.get("all") or (
            len(written) == 1 and isinstance(written[0], exp.Column) and written[0].sql().upper() == "ALL"
        )
        if everything:
            for shown, scalar in selected:
                if not self.has_call(scalar.tree):
                    self._add_key(shown, scalar)
            return
        for part in written:
            if isinstance(part, exp.Rollup | exp.Cube | exp.GroupingSets | exp.Tuple):
                raise self.resolver.refuse("GROUPING_SETS", "grouping sets have no delta rule yet", group)
            if isinstance(part, exp.Literal) and part.is_int:
                shown, scalar = selected[int(part.name) - 1]
            else:
                shown, scalar = part.name or "key", self.resolver.scalar(part, clause="GROUP BY")
            self._add_key(shown, scalar)

    def _add_key(self, shown: str, scalar: Scalar) -> None:
        if all(k.scalar != scalar for k in self.keys):
            self.keys.append(Item(self.fresh(f"k_{shown}"), scalar))

    def unit(self, node: exp.Expr) -> exp.Expr | None:
        """The function at the heart of an aggregate call with its FILTER, WITHIN GROUP, … around it."""
        heart = node
        while isinstance(heart, _WRAPPERS):
            heart = heart.this
        name = function_name(heart)
        if name is None or self.resolver.functions.kind(name) is not FunctionKind.AGGREGATE:
            return None
        return heart

    def has_call(self, tree: exp.Expr) -> bool:
        return any(self.unit(node) is not None for node in tree.walk())

    def over(self, scalar: Scalar, where: exp.Expr) -> Scalar:
        """The scalar over the aggregate's output: keys and calls replaced by their columns."""

        def swap(node: exp.Expr) -> exp.Expr:
            for key in self.keys:
                if type(node) is type(key.scalar.tree) and Scalar(node) == key.scalar:
                    return exp.Column(this=identifier(key.name))
            if self.unit(node) is not None:
                return exp.Column(this=identifier(self._call(node).name))
            return node

        result = Scalar(scalar.tree.copy().transform(swap))
        offered = {k.name for k in self.keys} | {c.name for c in self.calls}
        if not result.columns <= offered:
            raise self.resolver.refuse(
                "GROUP_EXPRESSION", f"{scalar.sql()} could not be matched with the GROUP BY expressions", where
            )
        return result

    def _call(self, node: exp.Expr) -> Call:
        whole = Scalar(node.copy())
        for known in self.calls:
            if known.whole == whole:
                return known
        heart = self.unit(node)
        assert heart is not None
        args = heart.expressions
        distinct = bool(args) and isinstance(args[0], exp.Distinct)
        if distinct:
            args = args[0].expressions
        plain = all(not isinstance(a, exp.Order | exp.Ordered | exp.Limit) for a in heart.find_all(exp.Expr))
        condition: Scalar | None = None
        outer = node
        while outer is not heart:
            if isinstance(outer, exp.Filter):
                condition = Scalar(outer.expression.this.copy())
            else:
                plain = False
            outer = outer.this
        name = function_name(heart) or ""
        call = Call(
            name=self.fresh(f"a_{name}"),
            whole=whole,
            function=name,
            args=tuple(Scalar(a.copy()) for a in args if not isinstance(a, exp.Star)),
            distinct=distinct,
            filter=condition,
            plain=plain,
        )
        self.calls.append(call)
        return call
