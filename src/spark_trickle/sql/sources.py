"""The FROM clause: tables, views, CTEs, derived tables, joins of every kind, LATERAL, VALUES, generators, pivots."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

from sqlglot import exp

from spark_trickle.errors import NotIncremental
from spark_trickle.sql.algebra import (
    Constant,
    Item,
    Level,
    Match,
    Matched,
    Operator,
    OuterJoin,
    Project,
    Scan,
    ScanColumn,
    Side,
    keep,
)
from spark_trickle.sql.context import Context, LakeView, Recursing, Relation
from spark_trickle.sql.decorrelate import lateral
from spark_trickle.sql.domain import joined
from spark_trickle.sql.functions import FunctionKind
from spark_trickle.sql.parse import parse_query, place
from spark_trickle.sql.pivot import lower_pivot, lower_unpivot
from spark_trickle.sql.resolve import Pending, Place, function_name
from spark_trickle.sql.scalar import Scalar, call, column, conjuncts, equal
from spark_trickle.sql.scope import Output, Scope, Unresolved, Visible, join_scopes
from spark_trickle.sql.trees import correlated

if TYPE_CHECKING:
    from spark_trickle.sql.lower import Lowering

MAX_VIEW_DEPTH = 10

Source = tuple[Operator, Scope]


class Sources:
    def __init__(self, lowering: Lowering) -> None:
        self.lowering = lowering

    def clause(self, node: exp.Select, context: Context) -> Source:
        """The whole FROM clause of a SELECT."""
        operator, scope = self.source(node.args["from_"].this, context)
        operator, scope = self._joins(node.args.get("joins") or (), operator, scope, context)
        return self._lateral_views(node, operator, scope, context)

    def refuse(self, reason: str, message: str, node: exp.Expr, context: Context) -> NotIncremental:
        return self.lowering.refuse(reason, message, node, context)

    # -- one item --------------------------------------------------------------------------------------------------

    def source(self, node: exp.Expr, context: Context) -> Source:
        for arg, reason, what in (
            ("sample", "SAMPLE", "TABLESAMPLE"),
            ("version", "TIME_TRAVEL", "VERSION / TIMESTAMP AS OF"),
            ("when", "TIME_TRAVEL", "VERSION / TIMESTAMP AS OF"),
        ):
            if node.args.get(arg):
                raise self.refuse(reason, f"{what} has no delta rule yet", node, context)
        if isinstance(node, exp.Table) and isinstance(node.this, exp.Identifier):
            operator, scope = self._table(node, context)
        elif isinstance(node, exp.Table) and isinstance(node.this, exp.Anonymous):
            operator, scope = self._function(node.this, node, context)
        elif isinstance(node, exp.Subquery):
            operator, scope = self._subquery(node, context)
        elif isinstance(node, exp.Values):
            operator, scope = self.values(node, context)
        elif isinstance(node, exp.Lateral):  # first in FROM: it sees only what is around a subquery
            operator, scope = self._joined_lateral(node, Constant(names=()), Scope(), "", None, context)
        else:
            raise self.refuse("TABLE_FUNCTION", "this kind of table has no delta rule yet", node, context)
        for pivot in node.args.get("pivots") or ():
            operator, scope = self.pivot(pivot, operator, scope, context)
        operator, scope = self._lateral_views(node, operator, scope, context)
        return self._joins(node.args.get("joins") or (), operator, scope, context)

    def _subquery(self, node: exp.Subquery, context: Context) -> Source:
        qualifier = (node.alias,) if node.alias else ()
        if isinstance(node.this, exp.Table):  # parentheses around a table or a join
            operator, scope = self.source(node.this, context)
            if not qualifier:
                return operator, scope
            return self.visible(Relation(operator, tuple(scope.star)), qualifier, _alias_columns(node))
        relation = self.lowering.query(node.this, context)
        return self.visible(relation, qualifier, _alias_columns(node))

    def visible(self, relation: Relation, qualifier: tuple[str, ...], renamed: Sequence[str]) -> Source:
        outputs = relation.outputs
        if renamed:
            if len(renamed) > len(outputs):
                raise NotIncremental("COLUMN_ALIASES", f"{len(renamed)} names for {len(outputs)} columns")
            # A view keeps the columns it had when it was made.
            outputs = tuple(Output(s, o.name) for s, o in zip(renamed, outputs, strict=False))
        return relation.operator, Scope(relations=[Visible(qualifier, outputs)], star=list(outputs))

    def _table(self, node: exp.Table, context: Context) -> Source:
        low = self.lowering
        parts = tuple(p.name for p in node.parts)
        renamed = _alias_columns(node)
        known = context.ctes.get(parts[0].lower()) if len(parts) == 1 else None
        if isinstance(known, Recursing):
            fields = tuple(ScanColumn(o.name, low.fresh(f"l_{o.name}")) for o in known.outputs)
            outputs = tuple(Output(o.shown, f.name) for o, f in zip(known.outputs, fields, strict=True))
            relation = Relation(Level(level=known.level, fields=fields), outputs)
            return self.visible(relation, (node.alias or parts[0],), renamed)
        if known is not None:
            relation = low.cte(parts[0], known)
            return self.visible(relation, (node.alias or parts[0],), renamed or known.columns)
        found = low.tables.find(parts, context.namespace)
        qualifier = (node.alias,) if node.alias else parts
        if found is None:
            raise self.refuse("UNKNOWN_INPUT", f"{'.'.join(parts)} is not a table of the lake", node, context)
        if isinstance(found, LakeView):
            return self.visible(self._view(found, node, context), qualifier, renamed or found.columns)
        low.inputs[found.name] = found
        prefix = node.alias or parts[-1]
        fields = tuple(ScanColumn(c, low.fresh(f"{prefix}_{c}")) for c in found.columns)
        outputs = tuple(Output(f.source, f.name) for f in fields)
        return self.visible(Relation(Scan(input=found.name, fields=fields), outputs), qualifier, renamed)

    def _view(self, view: LakeView, node: exp.Expr, context: Context) -> Relation:
        if context.view_depth >= MAX_VIEW_DEPTH:
            raise self.refuse("VIEW_DEPTH", f"views nested deeper than {MAX_VIEW_DEPTH}", node, context)
        self.lowering.views[view.name] = view
        inner = Context(namespace=view.namespace, text=view.text, view_depth=context.view_depth + 1)
        try:
            return self.lowering.query(parse_query(view.text), inner)
        except NotIncremental as why:
            raise NotIncremental(
                why.reason, f"in view {view.name}: {why.message}", place=place(node, context.text)
            ) from why

    def values(self, node: exp.Values, context: Context) -> Source:
        low = self.lowering
        resolver = low.resolver(Scope(), context)
        rows = []
        for row in node.expressions:
            cells = row.expressions if isinstance(row, exp.Tuple) else [row.unnest()]
            rows.append([resolver.scalar(c, clause=Place.WHERE).tree for c in cells])
        if resolver.pending or any(Scalar(c).outer for r in rows for c in r):
            raise self.refuse("VALUES", "a subquery inside VALUES has no delta rule yet", node, context)
        alias = _alias_columns(node)
        shown = alias or tuple(f"col{n + 1}" for n in range(len(rows[0])))
        prefix = node.alias or "v"
        outputs = tuple(Output(s, low.fresh(f"{prefix}_{s}")) for s in shown)
        body = exp.Values(expressions=[exp.Tuple(expressions=[c.copy() for c in r]) for r in rows])
        constant = Constant(names=tuple(o.name for o in outputs), body=Scalar(body))
        return self.visible(Relation(constant, outputs), (node.alias,) if node.alias else (), ())

    def _function(self, function: exp.Anonymous, node: exp.Expr, context: Context) -> Source:
        """A table function that sees no table beside it: range(), or a generator over constants."""
        low, name = self.lowering, function_name(function) or ""
        resolver = low.resolver(Scope(), context)
        renamed = _alias_columns(node)
        qualifier = (node.alias,) if node.alias else ()
        if name == "range":
            args = [resolver.scalar(a, clause=Place.WHERE) for a in function.expressions]
            if resolver.pending or any(a.outer for a in args):
                raise self.refuse("TABLE_FUNCTION", "range() of a subquery has no delta rule yet", node, context)
            column_ = low.fresh("id")
            body = Constant(names=(column_,), body=call("range", *args))
            return self.visible(Relation(body, (Output("id", column_),)), qualifier, renamed)
        if low.functions.kind(name) is not FunctionKind.GENERATOR:
            raise self.refuse("TABLE_FUNCTION", f"the table function {name}() has no delta rule yet", node, context)
        generator = resolver.scalar(function, clause=Place.SELECT)
        return self._generated(Constant(names=()), generator, qualifier, renamed, context, node)

    def _generated(
        self,
        child: Operator,
        generator: Scalar,
        qualifier: tuple[str, ...],
        renamed: Sequence[str],
        context: Context,
        node: exp.Expr,
        *,
        outer: bool = False,
    ) -> Source:
        """The columns a generator adds to the rows of `child`, as a source beside them."""
        low = self.lowering
        if generator.outer and not renamed:
            raise self.refuse("GENERATOR", "name the columns of this generator: AS t(a, b)", node, context)
        shown = tuple(renamed) or low.functions.generated(child, generator)
        operator, names = low.exploded(child, generator, shown, outer=outer)
        outputs = tuple(Output(s, n) for s, n in zip(shown, names, strict=True))
        return operator, Scope(relations=[Visible(qualifier, outputs)], star=list(outputs))

    # -- LATERAL VIEW, pivots --------------------------------------------------------------------------------------

    def _lateral_views(self, node: exp.Expr, operator: Operator, scope: Scope, context: Context) -> Source:
        low = self.lowering
        for view in node.args.get("laterals") or ():
            resolver = low.resolver(scope, context)
            generator = resolver.scalar(view.this, clause=Place.SELECT)
            operator = low.subqueries.attach_all(operator, list(resolver.pending.values()))
            alias = view.args.get("alias")
            qualifier = (alias.name,) if alias is not None and alias.name else ()
            operator, more = self._generated(
                operator,
                generator,
                qualifier,
                _alias_columns(view),
                context,
                view,
                outer=bool(view.args.get("outer")),
            )
            scope = join_scopes(scope, more)
        return operator, scope

    def pivot(self, node: exp.Pivot, operator: Operator, scope: Scope, context: Context) -> Source:
        resolver = self.lowering.resolver(scope, context)
        lower = lower_unpivot if node.args.get("unpivot") else lower_pivot
        relation = lower(node, operator, scope, resolver, self.lowering.fresh)
        return self.visible(relation, (node.alias,) if node.alias else (), _alias_columns(node))

    # -- joins -----------------------------------------------------------------------------------------------------

    def _joins(self, joins: Sequence[exp.Join], operator: Operator, scope: Scope, context: Context) -> Source:
        for join in joins:
            operator, scope = self.join(join, operator, scope, context)
        return operator, scope

    def join(self, join: exp.Join, left: Operator, scope: Scope, context: Context) -> Source:
        side, kind = join.side.upper(), join.kind.upper()
        if kind not in ("", "INNER", "CROSS", "OUTER", "SEMI", "ANTI"):
            raise self.refuse("JOIN_FORM", f"{kind} JOIN has no delta rule yet", join.this, context)
        if isinstance(join.this, exp.Lateral):
            if kind in ("SEMI", "ANTI") or side in ("RIGHT", "FULL") or join.args.get("using"):
                raise self.refuse("LATERAL", f"{side} {kind} JOIN LATERAL has no delta rule yet", join.this, context)
            return self._joined_lateral(join.this, left, scope, side, join.args.get("on"), context)
        right, right_scope = self.source(join.this, context)
        if kind in ("SEMI", "ANTI"):
            side = ""
        using = tuple(i.name for i in join.args.get("using") or ())
        if join.method.upper() == "NATURAL":
            theirs = {o.shown for o in right_scope.star}  # by their very spelling: to Spark g and G are not common
            using = tuple(o.shown for o in scope.star if o.shown in theirs)
        conditions, shared = self._using(join, using, scope, right_scope, context)
        both = join_scopes(scope, right_scope)
        left, right, found, later = self._on(join, both, left, right, side or kind, context)
        conditions += found
        if kind in ("SEMI", "ANTI"):
            match = Match.SEMI if kind == "SEMI" else Match.ANTI
            keys = [mine for _, mine, _ in shared]
            star = [*keys, *(o for o in scope.star if o not in keys)]
            return Matched(child=left, by=right, conditions=tuple(conditions), kind=match), replace(scope, star=star)
        if not side:
            operator = joined(left, right, tuple(conditions))
            if later:
                condition, pending = later
                operator = self.lowering.subqueries.filtered(operator, condition, pending)
        elif side == "RIGHT":
            operator = OuterJoin(left=right, right=left, conditions=tuple(conditions), side=Side.LEFT)
        else:
            operator = OuterJoin(left=left, right=right, conditions=tuple(conditions), side=Side(side.lower()))
        if not using:
            return operator, both
        merged, operator = self._merged(shared, side, operator)
        taken = {u.lower() for u in using}
        rest = [o for o in (*scope.star, *right_scope.star) if o.shown.lower() not in taken]
        hidden = [mine for _, mine, _ in shared if side in ("RIGHT", "FULL")]
        hidden += [theirs for _, _, theirs in shared if side != "RIGHT"]
        return operator, Scope(both.relations, [*merged, *rest], [*hidden, *both.hidden])

    def _using(
        self, join: exp.Join, using: tuple[str, ...], left: Scope, right: Scope, context: Context
    ) -> tuple[list[Scalar], list[tuple[str, Output, Output]]]:
        conditions, shared = [], []
        try:
            for name in using:
                mine, theirs = left.find(name), right.find(name)
                if mine is None or theirs is None:
                    raise Unresolved(name)
                conditions.append(equal(column(mine.name), column(theirs.name)))
                shared.append((mine.shown, mine, theirs))
        except Unresolved as why:
            raise self.refuse("NAME_RESOLUTION", str(why), join, context) from None
        return conditions, shared

    def _merged(
        self, shared: list[tuple[str, Output, Output]], side: str, operator: Operator
    ) -> tuple[list[Output], Operator]:
        """The USING columns, which appear once: the side that is always there, or either where both may lack."""
        if side != "FULL":
            return [Output(shown, (r if side == "RIGHT" else m).name) for shown, m, r in shared], operator
        items, outputs = [], []
        for shown, mine, theirs in shared:
            name = self.lowering.fresh(shown)
            items.append(Item(name, call("coalesce", column(mine.name), column(theirs.name))))
            outputs.append(Output(shown, name))
        return outputs, Project(child=operator, items=(*keep(*operator.columns), *items))

    def _on(
        self, join: exp.Join, both: Scope, left: Operator, right: Operator, kind: str, context: Context
    ) -> tuple[Operator, Operator, list[Scalar], tuple[Scalar, list[Pending]] | None]:
        """The conditions of ON. A subquery in it is attached to the side it uses, or for inner joins filters after."""
        if join.args.get("on") is None:
            return left, right, [], None
        low = self.lowering
        resolver = low.resolver(both, context)
        condition = resolver.scalar(join.args["on"], clause=Place.ON)
        pending = list(resolver.pending.values())
        if not pending:
            return left, right, list(conjuncts(condition)), None
        if kind in ("", "INNER", "CROSS"):
            return left, right, [], (condition, pending)
        for one in pending:
            used = correlated(one.operator).union(*(v.columns for v in one.values))
            if used <= set(left.columns):
                left = low.subqueries.attach(left, one, Match.MARK)
            elif used <= set(right.columns):
                right = low.subqueries.attach(right, one, Match.MARK)
            else:
                raise self.refuse("SUBQUERY", "a subquery in ON that uses both sides has no rule yet", join, context)
        return left, right, list(conjuncts(condition)), None

    def _joined_lateral(
        self, node: exp.Lateral, left: Operator, scope: Scope, side: str, on: exp.Expr | None, context: Context
    ) -> Source:
        low = self.lowering
        inner = replace(context, outer=scope)
        qualifier = (node.alias,) if node.alias else ()
        renamed = _alias_columns(node)
        if isinstance(node.this, exp.Anonymous):
            if not side and on is None:  # the generator runs over the left side itself
                resolver = low.resolver(scope, context)
                generator = resolver.scalar(node.this, clause=Place.SELECT)
                left = low.subqueries.attach_all(left, list(resolver.pending.values()))
                operator, more = self._generated(left, generator, qualifier, renamed, context, node)
                return operator, join_scopes(scope, more)
            around = low.resolver(Scope(), inner)
            generator = around.scalar(node.this, clause=Place.SELECT)
            shown = renamed or low.functions.generated(left, generator.inward())
            sub, more = self._generated(Constant(names=()), generator, qualifier, shown, inner, node)
        else:
            relation = low.query(node.this, inner)
            sub = Project(child=relation.operator, items=keep(*(o.name for o in relation.outputs)))
            _, more = self.visible(relation, qualifier, renamed)
        both = join_scopes(scope, more)
        conditions: tuple[Scalar, ...] = ()
        if on is not None:
            resolver = low.resolver(both, context)
            conditions = conjuncts(resolver.scalar(on, clause=Place.ON))
            if resolver.pending:
                raise self.refuse("SUBQUERY", "a subquery in ON of a LATERAL join has no rule yet", on, context)
        return lateral(left, sub, conditions, low.fresh, low.functions.types, left=side == "LEFT"), both


def _alias_columns(node: exp.Expr) -> tuple[str, ...]:
    alias = node.args.get("alias")
    return tuple(c.name for c in alias.args.get("columns") or ()) if isinstance(alias, exp.TableAlias) else ()
