"""Pipe syntax -> operators, one step of the chain at a time.

A step sees the columns of the step before, and the tables they came from: in Spark `t.a` still means that column after
WHERE, EXTEND, AGGREGATE and the rest, until AS gives all columns another qualifier.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from sqlglot import exp

from spark_trickle.sql.algebra import Item, Operator, Project, keep
from spark_trickle.sql.context import Context, Relation
from spark_trickle.sql.pipe_syntax import Bounds, DropColumns, Extend, Pipe, Rename, SetColumns, Totals, is_bare
from spark_trickle.sql.resolve import Place, placed
from spark_trickle.sql.scalar import Scalar, column
from spark_trickle.sql.scope import Output, Scope, Visible

if TYPE_CHECKING:
    from spark_trickle.sql.lower import Lowering


@dataclass(frozen=True, slots=True)
class Step:
    """The rows after some steps of a chain, and how their columns are called."""

    operator: Operator
    scope: Scope
    order: tuple[tuple[exp.Ordered, Scalar], ...] = ()  # of an ORDER BY, kept while steps take the rows one by one
    lost: bool = False  # there was one, and whether a step kept it is open in Spark


class Pipes:
    def __init__(self, lowering: Lowering) -> None:
        self.lowering = lowering

    def relation(self, node: Pipe, context: Context) -> Relation:
        step = self._step(node, context)
        limited = any(node.args.get(a) for a in ("limit", "offset"))
        if limited and (step.order or step.lost) and not node.args.get("order"):
            message = "LIMIT at the end of a chain that is ordered: write |> LIMIT"
            raise self.lowering.refuse("LIMIT", message, node, context)
        return Relation(step.operator, tuple(step.scope.star), tuple(step.scope.relations))

    def _step(self, node: exp.Expr, context: Context) -> Step:
        if not isinstance(node, Pipe):
            return self._start(node, context)
        context = self.lowering.with_ctes(node, context)
        before = self._step(node.this, context)
        operator = node.expression
        match operator:
            case Bounds():
                return self._bounds(operator, before, context)
            case exp.Order():
                return self._ordered(operator, before, context)
            case exp.Sort() | exp.Cluster() | exp.Distribute():
                return before
        after = self._applied(operator, before, context)
        if isinstance(operator, exp.Where | DropColumns | Rename):
            return replace(after, order=before.order, lost=before.lost)
        return after

    def _start(self, node: exp.Expr, context: Context) -> Step:
        if is_bare(node):
            context = self.lowering.with_ctes(node, context)
            return Step(*self.lowering.sources.clause(node, context))
        relation = self.lowering.query(node, context)
        return Step(relation.operator, relation.scope, lost=_ordered(node))

    def _applied(self, node: exp.Expr, before: Step, context: Context) -> Step:
        low = self.lowering
        match node:
            case exp.Select():
                return self._selected(node, before, context)
            case Extend():
                return self._selected(_select([exp.Star(), *node.expressions]), before, context)
            case SetColumns():
                for assigned in node.expressions:  # one after the other: the next one sees the new value
                    before = self._assigned(assigned, before, context)
                return before
            case DropColumns():
                return Step(before.operator, _without(before.scope, {i.name.lower() for i in node.expressions}))
            case Rename():
                qualified = Visible((node.name,), tuple(before.scope.star))
                return Step(before.operator, Scope([qualified], before.scope.star))
            case Totals():
                return self._totals(node, before, context)
            case exp.Where():
                resolver = low.resolver(before.scope, context, before.operator)
                condition = resolver.scalar(node.this, clause=Place.WHERE)
                operator = low.subqueries.filtered(before.operator, condition, list(resolver.pending.values()))
                return Step(operator, before.scope)
            case exp.Join():
                return Step(*low.sources.join(node, before.operator, before.scope, context))
            case exp.Pivot():
                return Step(*low.sources.pivot(node, before.operator, before.scope, context))
            case exp.TableSample():
                raise low.refuse("SAMPLE", "TABLESAMPLE picks other rows every time it runs", node, context)
        raise low.refuse("QUERY_FORM", f"the pipe operator {node.key.upper()} has no rule yet", node, context)

    def _selected(self, node: exp.Select, before: Step, context: Context) -> Step:
        low = self.lowering
        rows, kept = before.operator, before.order if _row_by_row(node) else ()
        if kept:  # what the rows are ordered by goes along, unseen
            items = [Item(low.fresh("order"), scalar) for _, scalar in kept]
            rows = Project(child=rows, items=(*keep(*rows.columns), *items))
            node = _select([*node.expressions, *(exp.alias_(placed(i.name, i.name), i.name) for i in items)])
        relation = low.select_over(node, rows, before.scope, context)
        seen = len(relation.outputs) - len(kept)
        order = tuple((o, column(c.name)) for (o, _), c in zip(kept, relation.outputs[seen:], strict=True))
        lost = before.lost or bool(before.order and not kept)
        return Step(relation.operator, replace(relation, outputs=relation.outputs[:seen]).scope, order, lost)

    def _assigned(self, node: exp.Expr, before: Step, context: Context) -> Step:
        """SET: the new column takes the place of the old one, and its spelling."""
        after = self._selected(_select([exp.Star(), node.copy()]), before, context)
        *kept, new = after.scope.star
        star = [new if o.shown.lower() == new.shown.lower() else o for o in kept]
        return replace(after, scope=Scope(_without(after.scope, {new.shown.lower()}).relations, star))

    def _totals(self, node: Totals, before: Step, context: Context) -> Step:
        """AGGREGATE gives the keys, then the aggregates. A number among the keys is a column of the input."""
        keys = [_key(k, before.scope.star) for k in node.args.get("keys") or ()]
        select = _select([*keys, *(e.copy() for e in node.expressions)])
        if keys:
            positions = [exp.Literal.number(n + 1) for n in range(len(keys))]
            select.set("group", exp.Group(expressions=positions))
        return replace(self._selected(select, replace(before, order=()), context), lost=False)

    def _ordered(self, node: exp.Order, before: Step, context: Context) -> Step:
        low = self.lowering
        resolver = low.resolver(before.scope, context, before.operator)
        selected = tuple((o.shown, column(o.name)) for o in before.scope.star)
        order = low.order(node.expressions, selected, resolver)
        if resolver.pending:
            raise low.refuse("SUBQUERY", "a subquery in ORDER BY has no delta rule yet", node, context)
        return replace(before, order=order, lost=False)

    def _bounds(self, node: Bounds, before: Step, context: Context) -> Step:
        low = self.lowering
        bounds = low.bounds(node, context)
        if bounds is None:
            return before
        if before.lost:
            message = "LIMIT comes after a step that need not keep the order of ORDER BY"
            raise low.refuse("LIMIT", message, node, context)
        return Step(low.top(before.operator, before.order, bounds), before.scope, before.order)


def _ordered(node: exp.Expr) -> bool:
    """Whether a query gives its rows in an order that a LIMIT after it would follow."""
    while isinstance(node, exp.Subquery) and not node.args.get("order"):
        node = node.this
    return bool(node.args.get("order")) or (isinstance(node, Pipe) and node.find(exp.Order) is not None)


def _row_by_row(node: exp.Select) -> bool:
    """Whether the order of the rows outlives this SELECT."""
    return not any(node.args.get(a) for a in ("distinct", "group", "windows")) and node.find(exp.Window) is None


def _select(expressions: Sequence[exp.Expr]) -> exp.Select:
    return exp.Select(expressions=[e.copy() for e in expressions])


def _key(node: exp.Expr, star: Sequence[Output]) -> exp.Expr:
    if isinstance(node, exp.Literal) and node.is_int:
        output = star[int(node.name) - 1]
        return exp.alias_(placed(output.name, output.shown), output.shown, quoted=True)
    return node.copy()


def _without(scope: Scope, dropped: set[str]) -> Scope:
    """The scope without columns of these names; nor can they be reached through their tables."""
    star = [o for o in scope.star if o.shown.lower() not in dropped]
    left = {o.name for o in star}
    relations = [Visible(r.qualifier, tuple(o for o in r.outputs if o.name in left)) for r in scope.relations]
    return Scope(relations, star)
