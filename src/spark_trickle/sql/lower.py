"""From a parsed definition to the algebra.

Spark has accepted the text already; this module gives every column a unique name, inlines views and CTEs, expands
stars and USING, and turns each clause into operators. A construct it does not know is refused with a name and the
place in the text (`NotIncremental`), which AUTO turns into FULL.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from sqlglot import exp

from spark_trickle.errors import NotIncremental
from spark_trickle.model import TableName
from spark_trickle.sql.algebra import (
    WEIGHT,
    Constant,
    Distinct,
    Explode,
    Item,
    Operator,
    Project,
    Recursion,
    TopK,
    keep,
)
from spark_trickle.sql.context import Context, Cte, LakeTable, LakeView, Recursing, Relation, Tables
from spark_trickle.sql.functions import FunctionKind, Functions
from spark_trickle.sql.grouping import Grouping
from spark_trickle.sql.parse import parse_query, place
from spark_trickle.sql.pipe_syntax import Pipe
from spark_trickle.sql.pipes import Pipes
from spark_trickle.sql.resolve import LAMBDA, Pending, Place, Resolver, function_name, is_all
from spark_trickle.sql.scalar import Scalar, column
from spark_trickle.sql.scope import Output, Scope, outputs_of, projected
from spark_trickle.sql.sets import by_name, renamed, set_operation
from spark_trickle.sql.sources import Sources
from spark_trickle.sql.stars import is_star
from spark_trickle.sql.subqueries import Subqueries
from spark_trickle.sql.trees import correlated
from spark_trickle.sql.windows import expand_named, lower_windows

__all__ = ["LakeTable", "LakeView", "Lowered", "Tables", "lower"]


@dataclass(frozen=True, slots=True)
class Lowered:
    """A definition in the algebra; the root's columns are in the order of the select list."""

    root: Operator
    shown: tuple[str, ...]  # the names of its columns as the user sees them; "" where Spark makes one up
    inputs: tuple[LakeTable, ...]
    views: tuple[LakeView, ...]
    notices: tuple[str, ...]


def lower(text: str, tables: Tables, functions: Functions, namespace: str) -> Lowered:
    lowering = Lowering(tables, functions)
    relation = lowering.query(parse_query(text), Context(namespace=namespace, text=text))
    left = correlated(relation.operator)
    if left:
        raise NotIncremental("CORRELATION", f"{sorted(left)} could not be traced to a query around")
    root = Project(child=relation.operator, items=keep(*(o.name for o in relation.outputs)))
    return Lowered(
        root=relation.operator if relation.operator.columns == root.columns else root,
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
        self.sources = Sources(self)
        self.pipes = Pipes(self)
        self.subqueries = Subqueries(self.fresh, functions.types)
        self._taken: set[str] = {WEIGHT}
        # CTEs by their body: read twice, computed once. The body is kept, or another could get its id.
        self._shared: dict[int, tuple[exp.Expr, Relation]] = {}

    def fresh(self, base: str) -> str:
        if base.lower().startswith(LAMBDA):  # so that no parameter of a lambda hides it
            base = f"c{base}"
        name, n = base, 1
        while name.lower() in self._taken:
            n += 1
            name = f"{base}_{n}"
        self._taken.add(name.lower())
        return name

    def refuse(self, reason: str, message: str, node: exp.Expr, context: Context) -> NotIncremental:
        return NotIncremental(reason, message, place=place(node, context.text))

    def resolver(self, scope: Scope, context: Context, rows: Operator | None = None) -> Resolver:
        def subquery(node: exp.Expr, around: Scope) -> Operator:
            relation = self.query(node, replace(context, outer=around))
            return Project(child=relation.operator, items=keep(*(o.name for o in relation.outputs)))

        return Resolver(
            scope,
            self.functions,
            context.text,
            fresh=self.fresh,
            subquery=subquery,
            outer=context.outer,
            rows=rows,
        )

    # -- queries ---------------------------------------------------------------------------------------------------

    def query(self, node: exp.Expr, context: Context) -> Relation:
        context = self.with_ctes(node, context)
        if isinstance(node, Pipe):
            relation = self.pipes.relation(node, context)
        elif isinstance(node, exp.Select):
            return self._select(node, context)
        elif isinstance(node, exp.Subquery):
            relation = self.query(node.this, context)
        elif isinstance(node, exp.SetOperation):
            relation = self._set_operation(node, context)
        elif isinstance(node, exp.Values):
            operator, scope = self.sources.values(node, context)
            relation = Relation(operator, tuple(scope.star))
        else:
            raise self.refuse("QUERY_FORM", f"{node.key} has no delta rule yet", node, context)
        return self._top_of_outputs(node, relation, context)

    def with_ctes(self, node: exp.Expr, context: Context) -> Context:
        clause = node.args.get("with_")
        if clause is None:
            return context
        for cte in clause.expressions:
            # A CTE sees those before it, as they are now.
            aliases = tuple(c.name for c in cte.args["alias"].args.get("columns") or ())
            recursive = bool(clause.args.get("recursive")) and _reads(cte.this, cte.alias)
            known = Cte(cte.this, aliases, context, recursive)
            context = replace(context, ctes={**context.ctes, cte.alias.lower(): known})
        return context

    def cte(self, name: str, cte: Cte) -> Relation:
        """A CTE: lowered once, and seen by each reader under names of its own."""
        if id(cte.body) not in self._shared:
            first = self._recursion(name, cte) if cte.recursive else self.query(cte.body, cte.context)
            if not correlated(first.operator):
                self._shared[id(cte.body)] = (cte.body, first)
            return first
        _, found = self._shared[id(cte.body)]
        outputs = tuple(Output(o.shown, self.fresh(o.name)) for o in found.outputs)
        items = tuple(Item(n.name, column(o.name)) for n, o in zip(outputs, found.outputs, strict=True))
        return Relation(Project(child=found.operator, items=items), outputs)

    def _recursion(self, name: str, cte: Cte) -> Relation:
        body = cte.body
        while isinstance(body, exp.Subquery):
            body = body.this
        if not isinstance(body, exp.Union) or body.args.get("distinct") or _reads(body.this, name):
            raise self.refuse("RECURSION", "a recursive CTE is a base UNION ALL a step", body, cte.context)
        if any(body.args.get(a) is not None for a in ("limit", "offset", "order", "with_")):
            raise self.refuse("RECURSION", "LIMIT or WITH on a recursive CTE has no delta rule", body, cte.context)
        base = self.query(body.this, cte.context)
        shown = cte.columns or tuple(o.shown for o in base.outputs)
        outputs = tuple(Output(s, self.fresh(f"r_{s}")) for s in shown)
        names = tuple(o.name for o in outputs)
        level = self.fresh(f"level_{name}")
        context = replace(cte.context, ctes={**cte.context.ctes, name.lower(): Recursing(level, outputs)})
        step = self.query(body.expression, context)
        operator = Recursion(base=renamed(base, names), step=renamed(step, names), names=names, level=level)
        return Relation(operator, outputs)

    def _set_operation(self, node: exp.SetOperation, context: Context) -> Relation:
        left, right = self.query(node.this, context), self.query(node.expression, context)
        if not node.args.get("by_name"):
            return set_operation(node, left, right, self.fresh)
        if not isinstance(node, exp.Union):
            raise self.refuse("SET_OPERATION", "BY NAME is for UNION", node, context)
        ordered = by_name(left, right)
        if ordered is None:
            raise self.refuse("UNION_BY_NAME", "UNION BY NAME of different columns", node, context)
        return set_operation(node, left, ordered, self.fresh)

    # -- ORDER BY, LIMIT -------------------------------------------------------------------------------------------

    def _top_of_outputs(self, node: exp.Expr, relation: Relation, context: Context) -> Relation:
        """ORDER BY … LIMIT after a set operation or around parentheses: over the output columns."""
        bounds = self.bounds(node, context)
        if bounds is None:
            return relation
        resolver = self.resolver(relation.scope, context)
        selected = tuple((o.shown, column(o.name)) for o in relation.outputs)
        order = self.order(_order_of(node), selected, resolver)
        if resolver.pending:
            raise self.refuse("SUBQUERY", "a subquery in ORDER BY has no delta rule yet", node, context)
        if not isinstance(node, exp.SetOperation) and any(scalar.outer for _, scalar in order):
            # Spark looks below the parentheses first, where we have no name for what is not selected.
            raise self.refuse("NAME_RESOLUTION", "ORDER BY of a column that is not selected", node, context)
        return replace(relation, operator=self.top(relation.operator, order, bounds))

    def top(
        self, child: Operator, order: Sequence[tuple[exp.Ordered, Scalar]], bounds: tuple[int | None, int]
    ) -> Operator:
        return _top(child, [_ordered(written, scalar) for written, scalar in order], bounds)

    def bounds(self, node: exp.Expr, context: Context) -> tuple[int | None, int] | None:
        """(limit, offset); None where there is neither, and an order means nothing."""
        limit, offset = node.args.get("limit"), node.args.get("offset")
        if limit is None and offset is None:
            for arg in ("order", "sort", "cluster", "distribute"):
                if node.args.get(arg) is not None:
                    self.notices.append(f"{arg.upper()} BY is ignored: a table has no order")
            return None
        found: list[int | None] = []
        for part in (limit, offset):
            value = None if part is None else part.expression
            if value is None or value.sql().upper() == "ALL":
                found.append(None)
            elif isinstance(value, exp.Literal) and value.is_int:
                found.append(int(value.name))
            else:
                raise self.refuse("LIMIT", "LIMIT and OFFSET take a whole number here", value, context)
        return found[0], found[1] or 0

    # -- SELECT ----------------------------------------------------------------------------------------------------

    def _select(self, node: exp.Select, context: Context) -> Relation:
        for arg, reason, what in (
            ("match", "MATCH_RECOGNIZE", "MATCH_RECOGNIZE"),
            ("qualify", "QUALIFY", "QUALIFY"),
            ("kind", "QUERY_FORM", "SELECT AS"),
        ):
            if node.args.get(arg):
                found = node.args[arg][0] if isinstance(node.args[arg], list) else node
                raise self.refuse(reason, f"{what} has no delta rule yet", found, context)
        if any(isinstance(e, exp.Star) and e.args.get("replace") for e in node.expressions):
            raise self.refuse("STAR_REPLACE", "SELECT * REPLACE has no delta rule yet", node, context)
        if node.args.get("from_") is None:
            return self.select_over(node, Constant(names=()), Scope(), context)
        return self.select_over(node, *self.sources.clause(node, context), context)

    def select_over(self, node: exp.Select, operator: Operator, scope: Scope, context: Context) -> Relation:
        """All of a SELECT but its FROM clause, which gave the rows and their names."""
        node = expand_named(node, context.text)
        resolver = self.resolver(scope, context, operator)
        where = node.args.get("where")
        if where is not None:
            condition = resolver.scalar(where.this, clause=Place.WHERE)
            operator = self.subqueries.filtered(operator, condition, _take(resolver))
        selected = self._select_list(node, resolver)
        resolver.outputs = outputs_of(selected, scope)
        bounds = self.bounds(node, context)
        order = self.order(_order_of(node), selected, resolver) if bounds is not None else ()
        having = None
        if node.args.get("having") is not None:
            having = resolver.scalar(node.args["having"].this, clause=Place.HAVING)
        scalars = [*(s for _, s in selected), *(s for _, s in order)]
        operator, found = self._grouped(node, selected, scalars, having, resolver, operator)
        before = operator
        operator, found = lower_windows(found, operator, self.fresh)
        if operator is not before and any(self._generates_inside(s) for s in scalars):
            raise self.refuse("GENERATOR", "a generator beside window functions has no delta rule yet", node, context)
        relation = self._finish(node, operator, selected, found, order, bounds, context)
        if len(relation.outputs) != len(selected):  # a generator of several columns
            return relation
        columns = ((o, s.bare) for o, (_, s) in zip(relation.outputs, selected, strict=True))
        return replace(relation, relations=tuple(projected(scope, columns).relations))

    def _grouped(
        self,
        node: exp.Select,
        selected: tuple[tuple[str, Scalar], ...],
        scalars: Sequence[Scalar],
        having: Scalar | None,
        resolver: Resolver,
        operator: Operator,
    ) -> tuple[Operator, Sequence[Scalar]]:
        grouping = Grouping(resolver, self.fresh, node, operator)
        if not grouping.applies(scalars):
            return self.subqueries.attach_all(operator, _take(resolver)), scalars
        grouping.read_keys(selected)
        pending = _take(resolver, forget=False)
        used = grouping.below([*scalars, *([having] if having else ())])
        operator = grouping.expand(self.subqueries.attach_all(operator, [p for p in pending if p.name in used]))
        found = tuple(grouping.over(s) for s in scalars)
        condition = None if having is None else grouping.over(having, resolver.second)
        above = [replace(p, values=tuple(grouping.over(v) for v in p.values)) for p in pending if p.name not in used]
        # What these subqueries use of the rows must be a key; they find it under its old name.
        outer = sorted(frozenset().union(*(correlated(p.operator) for p in above)))
        seen = tuple(Item(o, grouping.over(column(o))) for o in outer)
        result = grouping.aggregate(operator)
        if seen:
            result = Project(child=result, items=(*keep(*result.columns), *seen))
        if condition is not None:
            result = self.subqueries.filtered(result, condition, [p for p in above if p.name in condition.columns])
        needed = frozenset().union(*(s.columns for s in found))
        return self.subqueries.attach_all(result, [p for p in above if p.name in needed]), found

    def _finish(
        self,
        node: exp.Select,
        operator: Operator,
        selected: tuple[tuple[str, Scalar], ...],
        found: Sequence[Scalar],
        order: Sequence[tuple[exp.Ordered, Scalar]],
        bounds: tuple[int | None, int] | None,
        context: Context,
    ) -> Relation:
        """The select list itself, DISTINCT and the top rows."""
        items: list[Item] = []
        outputs: list[Output] = []
        generated: dict[int, tuple[str, ...]] = {}
        for at, ((shown, _), scalar) in enumerate(zip(selected, found, strict=False)):
            if self._generates(scalar):
                if generated:
                    raise self.refuse("GENERATOR", "two generators in one select list", node, context)
                operator, generated[at] = self.exploded(operator, scalar, _aliases(node, shown))
        for at, ((shown, _), scalar) in enumerate(zip(selected, found, strict=False)):
            if at in generated:
                named = _aliases(node, shown) or (shown,) * (len(generated[at]) == 1) or ("",) * len(generated[at])
                items += keep(*generated[at])
                outputs += [Output(s, n) for s, n in zip(named, generated[at], strict=True)]
                continue
            name = self.fresh(shown or "column")
            items.append(Item(name, scalar))
            outputs.append(Output(shown, name))
        visible = tuple(items)
        # What is ordered by is a column that is shown, or a hidden one.
        known = {i.scalar: i.name for i in visible}
        known.update({found[at]: names[0] for at, names in generated.items() if len(names) == 1})
        hidden: list[Item] = []
        keys: list[Scalar] = []
        for (ordered, _), scalar in zip(order, found[len(selected) :], strict=True):
            if scalar not in known:
                if self._generates_inside(scalar):
                    raise self.refuse("GENERATOR", "ORDER BY an expression over a generator", ordered, context)
                known[scalar] = self.fresh("order")
                hidden.append(Item(known[scalar], scalar))
            keys.append(_ordered(ordered, column(known[scalar])))
        distinct = node.args.get("distinct")
        if distinct is not None and distinct.args.get("on"):
            raise self.refuse("DISTINCT_ON", "DISTINCT ON is not Spark SQL", distinct, context)
        if distinct is not None and hidden:
            raise self.refuse("LIMIT", "ORDER BY of something that DISTINCT drops", node, context)
        result: Operator = Project(child=operator, items=(*visible, *hidden))
        if distinct is not None:
            result = Distinct(child=result)
        if bounds is not None:
            result = _top(result, keys, bounds)
        if hidden:
            result = Project(child=result, items=keep(*(i.name for i in visible)))
        return Relation(result, tuple(outputs))

    def _select_list(self, node: exp.Select, resolver: Resolver) -> tuple[tuple[str, Scalar], ...]:
        """(shown name, scalar) for each output column, stars expanded, lateral aliases seen through."""
        selected: list[tuple[str, Scalar]] = []
        for item in node.expressions:
            inner = item.this if isinstance(item, exp.Aliases) else item.unalias()
            if is_star(inner.unnest()):
                selected += resolver.star(inner.unnest())
                continue
            scalar = resolver.scalar(inner, clause=Place.SELECT)
            named = isinstance(item, exp.Alias) or isinstance(inner, exp.Column | exp.Dot)
            shown = (item.alias or inner.name) if named else ""
            if isinstance(item, exp.Aliases):
                shown = ", ".join(e.name for e in item.expressions)
            if isinstance(item, exp.Alias) or (named and scalar.bare is None):  # a field is an alias, too
                resolver.aliases.setdefault(shown.lower(), scalar)
            selected.append((shown, scalar))
        return tuple(selected)

    def order(
        self, written: Sequence[exp.Ordered], selected: tuple[tuple[str, Scalar], ...], resolver: Resolver
    ) -> tuple[tuple[exp.Ordered, Scalar], ...]:
        """What ORDER BY orders by: positions and ALL mean columns of the select list."""
        found: list[tuple[exp.Ordered, Scalar]] = []
        for ordered in written:
            at = _ordinal(ordered)
            if at is not None:
                found.append((ordered, selected[at][1]))
            elif len(written) == 1 and is_all(ordered.this) and not resolver.knows("all"):
                found += [(ordered, scalar) for _, scalar in selected]
            else:
                found.append((ordered, resolver.scalar(ordered.this, clause=Place.ORDER_BY)))
        return tuple(found)

    # -- generators ------------------------------------------------------------------------------------------------

    def _is_generator(self, node: exp.Expr) -> bool:
        name = function_name(node)
        return name is not None and self.functions.kind(name) is FunctionKind.GENERATOR

    def _generates(self, scalar: Scalar) -> bool:
        return self._is_generator(scalar.tree)

    def _generates_inside(self, scalar: Scalar) -> bool:
        return any(map(self._is_generator, scalar.tree.walk()))

    def exploded(
        self, child: Operator, generator: Scalar, shown: Sequence[str], *, outer: bool = False
    ) -> tuple[Operator, tuple[str, ...]]:
        """A generator run over the rows of `child`; the names of its columns."""
        if not shown:
            shown = self.functions.generated(child, generator)
        names = tuple(self.fresh(s) for s in shown)
        return Explode(child=child, generator=generator, names=names, outer=outer), names


def _reads(node: exp.Expr, name: str) -> bool:
    return any(t.name.lower() == name.lower() and not t.args.get("db") for t in node.find_all(exp.Table))


def _take(resolver: Resolver, *, forget: bool = True) -> list[Pending]:
    found = list(resolver.pending.values())
    if forget:
        resolver.pending.clear()
    return found


def _order_of(node: exp.Expr) -> Sequence[exp.Ordered]:
    return node.args["order"].expressions if node.args.get("order") is not None else ()


def _ordinal(ordered: exp.Ordered) -> int | None:
    inner = ordered.this
    return int(inner.name) - 1 if isinstance(inner, exp.Literal) and inner.is_int else None


def _ordered(ordered: exp.Ordered, key: Scalar) -> Scalar:
    copy = ordered.copy()
    copy.set("this", key.tree.copy())
    return Scalar(copy)


def _top(child: Operator, order: Sequence[Scalar], bounds: tuple[int | None, int]) -> Operator:
    return TopK(child=child, order=tuple(order), limit=bounds[0], offset=bounds[1])


def _aliases(node: exp.Select, shown: str) -> tuple[str, ...]:
    """The names that `generator(…) AS (a, b)` gives, or `AS a`."""
    for item in node.expressions:
        if isinstance(item, exp.Aliases):
            names = tuple(e.name for e in item.expressions)
            if ", ".join(names) == shown:
                return names
    return ()
