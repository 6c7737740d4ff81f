"""From a parsed definition to the algebra.

Spark has accepted the text already; this module gives every column a unique name, inlines views and CTEs, expands
stars and USING, and turns each clause into operators. A construct it does not know is refused with a name and the
place in the text (`NotIncremental`), which AUTO turns into FULL.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Protocol

from sqlglot import exp

from spark_trickle.errors import NotIncremental
from spark_trickle.model import InputKind, TableName
from spark_trickle.sql.algebra import Distinct, Filter, Item, Join, Operator, Project, Scan, ScanColumn, UnionAll
from spark_trickle.sql.functions import Functions
from spark_trickle.sql.grouping import lower_grouped
from spark_trickle.sql.parse import parse_query, place
from spark_trickle.sql.resolve import Resolver
from spark_trickle.sql.scalar import Scalar, column, conjuncts, equal
from spark_trickle.sql.scope import Output, Scope, Unresolved, Visible, join_scopes

MAX_VIEW_DEPTH = 10


@dataclass(frozen=True, slots=True)
class LakeTable:
    """A table the definition may read: a source, or the storage of a stream table."""

    name: TableName
    kind: InputKind
    columns: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class LakeView:
    """A plain view: its text is inlined."""

    name: TableName
    text: str
    namespace: str
    columns: tuple[str, ...]


class Tables(Protocol):
    def find(self, parts: tuple[str, ...], namespace: str) -> LakeTable | LakeView | None: ...


@dataclass(frozen=True, slots=True)
class Lowered:
    """A definition in the algebra; the root's columns are in the order of the select list."""

    root: Operator
    shown: tuple[str, ...]  # the names of its columns as the user sees them; "" where Spark makes one up
    inputs: tuple[LakeTable, ...]
    views: tuple[LakeView, ...]
    notices: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Relation:
    operator: Operator
    outputs: tuple[Output, ...]


@dataclass(frozen=True, slots=True)
class Context:
    """What a query sees from outside: CTEs by name, and where unqualified tables live."""

    namespace: str
    text: str
    ctes: dict[str, tuple[exp.Expr, tuple[str, ...], Context]] = field(default_factory=dict)
    view_depth: int = 0


def lower(text: str, tables: Tables, functions: Functions, namespace: str) -> Lowered:
    lowering = Lowering(tables, functions)
    relation = lowering.query(parse_query(text), Context(namespace=namespace, text=text))
    return Lowered(
        root=relation.operator,
        shown=tuple(o.shown for o in relation.outputs),
        inputs=tuple(lowering.inputs.values()),
        views=tuple(lowering.views.values()),
        notices=tuple(dict.fromkeys(lowering.notices)),
    )


class Lowering:
    """One run of `lower`: hands out unique names and remembers what was read."""

    def __init__(self, tables: Tables, functions: Functions) -> None:
        self.tables = tables
        self.functions = functions
        self.inputs: dict[TableName, LakeTable] = {}
        self.views: dict[TableName, LakeView] = {}
        self.notices: list[str] = []
        self._taken: set[str] = {"__w"}

    def fresh(self, base: str) -> str:
        name, n = base, 1
        while name.lower() in self._taken:
            n += 1
            name = f"{base}_{n}"
        self._taken.add(name.lower())
        return name

    def refuse(self, reason: str, message: str, node: exp.Expr, context: Context) -> NotIncremental:
        return NotIncremental(reason, message, place=place(node, context.text))

    # -- queries ---------------------------------------------------------------------------------------------------

    def query(self, node: exp.Expr, context: Context) -> Relation:
        context = self._with_ctes(node, context)
        self._refuse_tail(node, context)
        if isinstance(node, exp.Subquery):
            return self.query(node.this, context)
        if isinstance(node, exp.Union):
            return self._union(node, context)
        if isinstance(node, exp.SetOperation):
            word = "INTERSECT" if isinstance(node, exp.Intersect) else "EXCEPT"
            raise self.refuse("SET_OPERATION", f"{word} has no delta rule yet", node, context)
        if isinstance(node, exp.Select):
            return self._select(node, context)
        raise self.refuse("QUERY_FORM", f"{node.key} has no delta rule yet", node, context)

    def _with_ctes(self, node: exp.Expr, context: Context) -> Context:
        clause = node.args.get("with_")
        if clause is None:
            return context
        if clause.args.get("recursive"):
            raise self.refuse("RECURSION", "WITH RECURSIVE has no delta rule yet", clause, context)
        inner = Context(context.namespace, context.text, dict(context.ctes), context.view_depth)
        for cte in clause.expressions:
            # A CTE sees those before it, as they are now.
            seen = Context(inner.namespace, inner.text, dict(inner.ctes), inner.view_depth)
            aliases = tuple(c.name for c in cte.args["alias"].args.get("columns") or ())
            inner.ctes[cte.alias.lower()] = (cte.this, aliases, seen)
        return inner

    def _refuse_tail(self, node: exp.Expr, context: Context) -> None:
        for arg in ("limit", "offset"):
            if node.args.get(arg) is not None:
                raise self.refuse("LIMIT", "LIMIT and OFFSET have no delta rule yet", node.args[arg], context)
        for arg in ("order", "sort", "cluster", "distribute"):
            if node.args.get(arg) is not None:
                self.notices.append(f"{arg.upper()} BY is ignored: a table has no order")

    def _union(self, node: exp.Union, context: Context) -> Relation:
        if node.args.get("by_name"):
            raise self.refuse("UNION_BY_NAME", "UNION BY NAME has no delta rule yet", node, context)
        left, right = self.query(node.this, context), self.query(node.expression, context)
        outputs = tuple(Output(o.shown, self.fresh(f"u_{o.shown}")) for o in left.outputs)
        names = tuple(o.name for o in outputs)
        branches = tuple(
            Project(
                child=side.operator,
                items=tuple(Item(n, column(o.name)) for n, o in zip(names, side.outputs, strict=True)),
            )
            for side in (left, right)
        )
        union: Operator = UnionAll(inputs=branches, names=names)
        return Relation(Distinct(child=union) if node.args.get("distinct") else union, outputs)

    # -- SELECT ----------------------------------------------------------------------------------------------------

    def _select(self, node: exp.Select, context: Context) -> Relation:
        for arg, reason, what in (
            ("laterals", "LATERAL_VIEW", "LATERAL VIEW"),
            ("pivots", "PIVOT", "PIVOT"),
            ("match", "MATCH_RECOGNIZE", "MATCH_RECOGNIZE"),
            ("qualify", "QUALIFY", "QUALIFY"),
            ("kind", "QUERY_FORM", "SELECT AS"),
        ):
            if node.args.get(arg):
                found = node.args[arg][0] if isinstance(node.args[arg], list) else node
                raise self.refuse(reason, f"{what} has no delta rule yet", found, context)
        if node.args.get("from_") is None:
            raise self.refuse("NO_SOURCE", "a query without FROM has nothing that changes", node, context)
        if any(isinstance(e, exp.Star) and e.args.get("replace") for e in node.expressions):
            raise self.refuse("STAR_REPLACE", "SELECT * REPLACE has no delta rule yet", node, context)
        relation, scope = self._from(node, context)
        resolver = Resolver(scope, self.functions, context.text)
        where = node.args.get("where")
        if where is not None:
            relation = _filtered(relation, resolver.scalar(where.this, clause="WHERE"))
        selected = self._select_list(node, resolver, context)
        grouped = lower_grouped(node, selected, resolver, relation, self.fresh)
        if grouped is None:
            items = tuple(Item(self.fresh(shown or "column"), scalar) for shown, scalar in selected)
            relation = Project(child=relation, items=items)
        else:
            relation, items = grouped
        outputs = tuple(Output(shown, i.name) for (shown, _), i in zip(selected, items, strict=True))
        distinct = node.args.get("distinct")
        if distinct is not None:
            if distinct.args.get("on"):
                raise self.refuse("DISTINCT_ON", "DISTINCT ON is not Spark SQL", distinct, context)
            relation = Distinct(child=relation)
        return Relation(relation, outputs)

    def _select_list(self, node: exp.Select, resolver: Resolver, context: Context) -> tuple[tuple[str, Scalar], ...]:
        """(shown name, scalar) for each output column, stars expanded, lateral aliases seen through."""
        selected: list[tuple[str, Scalar]] = []
        for item in node.expressions:
            inner = item.unalias()
            star = inner if isinstance(inner, exp.Star) else inner.this if isinstance(inner, exp.Column) else None
            if isinstance(star, exp.Star):
                qualifier = tuple(p.name for p in inner.parts[:-1]) if isinstance(inner, exp.Column) else ()
                dropped = {c.name.lower() for c in star.args.get("except_") or ()}
                try:
                    outputs = resolver.scope.expand(qualifier)
                except Unresolved as why:
                    raise self.refuse("STAR", f"{why} cannot be expanded", inner, context) from None
                selected += [(o.shown, column(o.name)) for o in outputs if o.shown.lower() not in dropped]
                continue
            scalar = resolver.scalar(inner, clause="SELECT")
            named = isinstance(item, exp.Alias) or isinstance(inner, exp.Column | exp.Dot)
            shown = (item.alias or inner.name) if named else ""
            if isinstance(item, exp.Alias):
                resolver.aliases.setdefault(shown.lower(), scalar)
            selected.append((shown, scalar))
        return tuple(selected)

    # -- FROM ------------------------------------------------------------------------------------------------------

    def _from(self, node: exp.Select, context: Context) -> tuple[Operator, Scope]:
        operator, scope = self._source(node.args["from_"].this, context)
        return self._joins(node.args.get("joins") or (), operator, scope, context)

    def _joins(
        self, joins: list[exp.Join] | tuple[()], operator: Operator, scope: Scope, context: Context
    ) -> tuple[Operator, Scope]:
        for join in joins:
            side, kind = join.side.upper(), join.kind.upper()
            if side in ("LEFT", "RIGHT", "FULL") and kind not in ("SEMI", "ANTI"):
                raise self.refuse("OUTER_JOIN", f"{side} OUTER JOIN has no delta rule yet", join.this, context)
            if kind in ("SEMI", "ANTI"):
                raise self.refuse("SEMI_JOIN", f"{kind} JOIN has no delta rule yet", join.this, context)
            if kind not in ("", "INNER", "CROSS", "OUTER"):
                raise self.refuse("JOIN_FORM", f"{kind} JOIN has no delta rule yet", join.this, context)
            right, right_scope = self._source(join.this, context)
            using = tuple(i.name for i in join.args.get("using") or ())
            if join.method.upper() == "NATURAL":
                theirs_ = {o.shown for o in right_scope.star}
                using = tuple(o.shown for o in scope.star if o.shown in theirs_)
            conditions: list[Scalar] = []
            try:
                for name in using:
                    mine_, theirs = scope.find(name), right_scope.find(name)
                    if mine_ is None or theirs is None:
                        raise Unresolved(name)
                    conditions.append(equal(column(mine_.name), column(theirs.name)))
                scope = join_scopes(scope, right_scope, using)
            except Unresolved as why:
                raise self.refuse("NAME_RESOLUTION", str(why), join, context) from None
            if join.args.get("on") is not None:
                resolver = Resolver(scope, self.functions, context.text)
                conditions += conjuncts(resolver.scalar(join.args["on"], clause="ON"))
            operator = _joined(operator, right, tuple(conditions))
        return operator, scope

    def _source(self, node: exp.Expr, context: Context) -> tuple[Operator, Scope]:
        for arg, reason, what in (
            ("pivots", "PIVOT", "PIVOT"),
            ("sample", "SAMPLE", "TABLESAMPLE"),
            ("laterals", "LATERAL_VIEW", "LATERAL VIEW"),
            ("version", "TIME_TRAVEL", "VERSION / TIMESTAMP AS OF"),
            ("when", "TIME_TRAVEL", "VERSION / TIMESTAMP AS OF"),
        ):
            if node.args.get(arg):
                raise self.refuse(reason, f"{what} has no delta rule yet", node, context)
        if isinstance(node, exp.Table) and isinstance(node.this, exp.Identifier):
            operator, scope = self._table(node, context)
        elif isinstance(node, exp.Subquery):
            operator, scope = self._subquery(node, context)
        elif isinstance(node, exp.Values):
            raise self.refuse("VALUES", "an inline VALUES table has no delta rule yet", node, context)
        elif isinstance(node, exp.Lateral):
            raise self.refuse("LATERAL", "LATERAL has no delta rule yet", node, context)
        else:
            raise self.refuse("TABLE_FUNCTION", "a table function has no delta rule yet", node, context)
        return self._joins(node.args.get("joins") or (), operator, scope, context)

    def _subquery(self, node: exp.Subquery, context: Context) -> tuple[Operator, Scope]:
        if isinstance(node.this, exp.Table):  # parentheses around a join
            if node.args.get("alias"):
                raise self.refuse("ALIASED_JOIN", "an alias on a table in parentheses has no rule yet", node, context)
            return self._source(node.this, context)
        relation = self.query(node.this, context)
        return self._visible(relation, (node.alias,) if node.alias else (), _alias_columns(node))

    def _visible(
        self, relation: Relation, qualifier: tuple[str, ...], renamed: tuple[str, ...]
    ) -> tuple[Operator, Scope]:
        outputs = relation.outputs
        if renamed:
            if len(renamed) > len(outputs):
                raise NotIncremental("COLUMN_ALIASES", f"{len(renamed)} names for {len(outputs)} columns")
            # A view keeps the columns it had when it was made.
            outputs = tuple(Output(s, o.name) for s, o in zip(renamed, outputs, strict=False))
        return relation.operator, Scope(relations=[Visible(qualifier, outputs)], star=list(outputs))

    def _table(self, node: exp.Table, context: Context) -> tuple[Operator, Scope]:
        parts = tuple(p.name for p in node.parts)
        renamed = _alias_columns(node)
        if len(parts) == 1 and parts[0].lower() in context.ctes:
            body, aliases, inner = context.ctes[parts[0].lower()]
            relation = self.query(body, inner)
            return self._visible(relation, (node.alias or parts[0],), renamed or aliases)
        found = self.tables.find(parts, context.namespace)
        qualifier = (node.alias,) if node.alias else parts
        if found is None:
            raise self.refuse("UNKNOWN_INPUT", f"{'.'.join(parts)} is not a table of the lake", node, context)
        if isinstance(found, LakeView):
            return self._visible(self._view(found, node, context), qualifier, renamed or found.columns)
        self.inputs[found.name] = found
        prefix = node.alias or parts[-1]
        fields = tuple(ScanColumn(c, self.fresh(f"{prefix}_{c}")) for c in found.columns)
        outputs = tuple(Output(f.source, f.name) for f in fields)
        return self._visible(Relation(Scan(input=found.name, fields=fields), outputs), qualifier, renamed)

    def _view(self, view: LakeView, node: exp.Expr, context: Context) -> Relation:
        if context.view_depth >= MAX_VIEW_DEPTH:
            raise self.refuse("VIEW_DEPTH", f"views nested deeper than {MAX_VIEW_DEPTH}", node, context)
        self.views[view.name] = view
        inner = Context(namespace=view.namespace, text=view.text, view_depth=context.view_depth + 1)
        try:
            return self.query(parse_query(view.text), inner)
        except NotIncremental as why:
            raise NotIncremental(
                why.reason, f"in view {view.name}: {why.message}", place=place(node, context.text)
            ) from why


def _alias_columns(node: exp.Expr) -> tuple[str, ...]:
    alias = node.args.get("alias")
    return tuple(c.name for c in alias.args.get("columns") or ()) if isinstance(alias, exp.TableAlias) else ()


def _joined(left: Operator, right: Operator, conditions: tuple[Scalar, ...]) -> Join:
    """Flatten nested inner joins into one: the delta then orders them freely."""
    inputs: list[Operator] = []
    gathered: list[Scalar] = []
    for side in (left, right):
        if isinstance(side, Join):
            inputs += side.inputs
            gathered += side.conditions
        else:
            inputs.append(side)
    return Join(inputs=tuple(inputs), conditions=(*gathered, *conditions))


def _filtered(relation: Operator, condition: Scalar) -> Operator:
    """WHERE over a join is part of the join; over anything else a filter."""
    if isinstance(relation, Join):
        return Join(inputs=relation.inputs, conditions=(*relation.conditions, *conjuncts(condition)))
    return Filter(child=relation, condition=condition)
