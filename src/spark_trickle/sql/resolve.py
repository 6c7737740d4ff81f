"""From an expression as written to a Scalar over unique column names, refusing by name what has no rule.

Subqueries inside an expression are lowered on the way and stand in the scalar as a column (`Pending`), which the
query has to attach to its relation before the scalar is used.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from enum import StrEnum

from sqlglot import exp

from spark_trickle.errors import NotIncremental
from spark_trickle.sql.algebra import Operator
from spark_trickle.sql.functions import (
    SESSION_DEPENDENT,
    TIME_DEPENDENT,
    TIME_WINDOWS,
    VOLATILE,
    FunctionKind,
    Functions,
)
from spark_trickle.sql.parse import place, render
from spark_trickle.sql.scalar import Scalar, identifier, is_outer, operand, outer_column
from spark_trickle.sql.scope import Outputs, Scope, Unresolved, with_fields
from spark_trickle.sql.stars import POSITION, SHOWN, Starred, expand, is_counted, is_star, name_fields

_NO_PARENTHESES: dict[type[exp.Expr], str] = {
    exp.CurrentDate: "current_date",
    exp.CurrentTimestamp: "current_timestamp",
    exp.CurrentTime: "current_time",
    exp.CurrentUser: "current_user",
    exp.Localtimestamp: "localtimestamp",
}

LAMBDA = "__v"  # begins the names of lambda parameters, and of nothing else
_PLACED = "(placed)"  # marks the column that stands for a subquery


class Place(StrEnum):
    """The clause an expression stands in: what names mean depends on it."""

    SELECT = "SELECT"
    WHERE = "WHERE"
    ON = "ON"
    GROUP_BY = "GROUP BY"
    HAVING = "HAVING"
    ORDER_BY = "ORDER BY"


_SEES_ALIASES = frozenset([Place.SELECT, Place.GROUP_BY])
_SEES_OUTPUTS = frozenset([Place.HAVING, Place.ORDER_BY])


class SubqueryKind(StrEnum):
    EXISTS = "exists"
    IN = "in"
    NOT_IN = "not in"  # the column tells what keeps NOT IN from being true
    SCALAR = "scalar"


@dataclass(frozen=True, slots=True)
class Pending:
    """A subquery met in an expression, to be attached to the relation as column `name`."""

    kind: SubqueryKind
    name: str
    operator: Operator  # the subquery; may use outer columns
    values: tuple[Scalar, ...]  # left of IN
    node: exp.Expr


# Lowers a subquery that sees the scope around it.
LowerSubquery = Callable[[exp.Expr, Scope], Operator]


def function_name(node: exp.Expr) -> str | None:
    """The lower-case name of a function call, None for any other node."""
    if isinstance(node, exp.Anonymous):
        return str(node.this if isinstance(node.this, str) else node.name).lower()
    if type(node) in _NO_PARENTHESES:
        return _NO_PARENTHESES[type(node)]
    return None


def is_all(node: exp.Expr) -> bool:
    """Whether this is the word ALL of GROUP BY ALL and ORDER BY ALL. Backticks around it change nothing."""
    return isinstance(node, exp.Column) and len(node.parts) == 1 and node.name.lower() == "all"


class Resolver:
    """Expressions of one SELECT. `aliases` grows while the select list is read: later items may use them."""

    def __init__(
        self,
        scope: Scope,
        functions: Functions,
        text: str,
        *,
        fresh: Callable[[str], str],
        subquery: LowerSubquery,
        outer: Scope | None = None,
        rows: Operator | None = None,
    ) -> None:
        self.scope = scope
        self.functions = functions
        self.text = text
        self.fresh = fresh
        self.subquery = subquery
        self.outer = outer
        self.rows = rows  # what the scope's columns are columns of: for asking Spark about types
        self.aliases: dict[str, Scalar] = {}
        self.outputs: Outputs | None = None
        self.second: dict[str, Scalar] = {}  # what a name in HAVING means where the input column is no group key
        self.pending: dict[str, Pending] = {}  # by the text of the subquery: equal ones are one

    def refuse(self, reason: str, message: str, node: exp.Expr) -> NotIncremental:
        return NotIncremental(reason, message, place=place(node, self.text))

    def scalar(self, tree: exp.Expr, *, clause: Place) -> Scalar:
        # Wrapped, so that a tree which is one column can be replaced as well.
        holder = exp.Paren(this=tree.copy())
        self._place_subqueries(holder, clause)
        for node in holder.walk():
            self._check(node, clause)
        self._expand_stars(holder)
        name_fields(holder)
        _rename_lambdas(holder)
        for node in list(holder.find_all(exp.Column)):
            if node.table == _PLACED:
                node.set("table", None)
            elif not is_outer(node):
                node.replace(self._column(node, clause))
        for node in holder.find_all(exp.Anonymous):
            if isinstance(node.this, str):
                node.set("this", node.this.lower())
        return Scalar(_without_parentheses(holder))

    def knows(self, name: str) -> bool:
        """Whether a select list, or the inputs, have a column of this name: it goes before a keyword."""
        try:
            in_outputs = self.outputs is not None and self.outputs.resolve((name,)) is not None
            return in_outputs or name.lower() in self.aliases or self.scope.resolve((name,)) is not None
        except Unresolved:
            return True

    # -- subqueries ------------------------------------------------------------------------------------------------

    def _place_subqueries(self, holder: exp.Expr, clause: Place) -> None:
        if any(_is_in(node) for node in holder.walk()):
            _push_not(holder)
        while True:
            node = next((n for n in holder.walk() if _is_subquery(n)), None)
            if node is None:
                return
            negated = _is_in(node) and isinstance(_parent(node), exp.Not)
            key = f"{negated} {render(node)}"
            if key not in self.pending:
                self.pending[key] = self._lower_subquery(node, clause, negated=negated)
            node.replace(placed(self.pending[key].name, ""))

    def _lower_subquery(self, node: exp.Expr, clause: Place, *, negated: bool) -> Pending:
        values: tuple[Scalar, ...] = ()
        if isinstance(node, exp.Exists):
            kind, query = SubqueryKind.EXISTS, node.this
        elif isinstance(node, exp.In):
            kind, query = SubqueryKind.NOT_IN if negated else SubqueryKind.IN, node.args["query"]
            left = node.this.unnest()
            parts = left.expressions if isinstance(left, exp.Tuple) else [left]
            values = tuple(self.scalar(p, clause=clause) for p in parts)
        else:
            kind, query = SubqueryKind.SCALAR, node
        operator = self.subquery(query, self.scope)
        if kind is SubqueryKind.SCALAR and len(operator.columns) != 1:
            raise self.refuse("SUBQUERY", "a subquery used as a value gives one column", node)
        if values and len(operator.columns) != len(values):
            raise self.refuse("SUBQUERY", "IN compares as many columns as stand on its left", node)
        return Pending(kind, self.fresh(f"{kind.name.lower()}_q"), operator, values, node)

    # -- stars -----------------------------------------------------------------------------------------------------

    def star(self, node: exp.Expr) -> tuple[Starred, ...]:
        """The columns that a star stands for."""
        try:
            return expand(node, self.scope, self._type)
        except Unresolved as why:
            around = self._outer_star(node)
            if around is None:
                raise self.refuse("STAR", f"{why} cannot be expanded", node) from None
            return around

    def _outer_star(self, node: exp.Expr) -> tuple[Starred, ...] | None:
        """`t.*` where t is a table of the query around."""
        try:
            found = expand(node, self.outer, lambda _: None) if self.outer is not None else None
        except Unresolved:
            return None
        return None if found is None else tuple((shown, scalar.outward()) for shown, scalar in found)

    def _type(self, scalar: Scalar) -> str | None:
        types = self.functions.types(self.rows, [scalar]) if self.rows is not None else None
        return types[0] if types else None

    def _expand_stars(self, holder: exp.Expr) -> None:
        stars = [n for n in holder.walk() if is_star(n) and not is_star(n.parent or n) and not is_counted(n)]
        for parent in {id(n.parent): n.parent for n in stars if n.parent is not None}.values():
            if not any(map(is_star, parent.expressions)):
                raise self.refuse("STAR", "* has no rule here", parent)
            written: list[exp.Expr] = []
            for at, arg in enumerate(parent.expressions):
                arg.meta[POSITION] = at
                if not is_star(arg):
                    written.append(arg)
                    continue
                for shown, scalar in self.star(arg):
                    column = scalar.tree.copy().transform(_mark_placed)
                    column.meta[SHOWN] = shown
                    written.append(column)
            parent.set("expressions", written)

    # -- checks ----------------------------------------------------------------------------------------------------

    def _check(self, node: exp.Expr, clause: Place) -> None:
        if isinstance(node, exp.Window) and clause not in (Place.SELECT, Place.ORDER_BY):
            raise self.refuse("WINDOW", f"a window function in {clause}", node)
        name = function_name(node)
        if name is None:
            return
        if name in TIME_WINDOWS:
            raise self.refuse("TIME_WINDOW", f"{name}() has no delta rule yet", node)
        if name in VOLATILE:
            raise self.refuse("VOLATILE", f"{name}() is not deterministic", node)
        if name in TIME_DEPENDENT or (name == "unix_timestamp" and not node.expressions):
            raise self.refuse("TIME_DEPENDENT", f"{name}() moves with the clock although no source changes", node)
        if name in SESSION_DEPENDENT:
            raise self.refuse("SESSION_DEPENDENT", f"{name}() depends on the session that asks", node)
        kind = self.functions.kind(name)
        if kind is FunctionKind.GENERATOR and not (clause is Place.SELECT and _whole(node)):
            raise self.refuse("GENERATOR", f"the generator {name}() inside another expression", node)
        if kind is FunctionKind.UNKNOWN:
            raise self.refuse("UNKNOWN_FUNCTION", f"Spark's registry does not know {name}()", node)
        if kind is FunctionKind.VOLATILE:
            raise self.refuse("VOLATILE", f"{name}() is not deterministic", node)
        if kind is FunctionKind.SESSION:
            raise self.refuse("SESSION_OBJECT", f"{name}() is registered in one session only", node)

    # -- names -----------------------------------------------------------------------------------------------------

    def _column(self, node: exp.Column, clause: Place) -> exp.Expr:
        """What a name means in this clause: docs/names.md has the rules, and a test for each."""
        parts = tuple(p.name for p in node.parts)
        shown = self._find(self.outputs, parts, node) if self.outputs and clause in _SEES_OUTPUTS else None
        if clause is Place.ORDER_BY and shown is not None:
            return shown
        try:
            found = self.scope.resolve(parts)
        except Unresolved as why:
            if shown is None:
                raise self.refuse("NAME_RESOLUTION", str(why), node) from None
            found = None
        if found is not None:
            if shown is not None and Scalar(shown) != Scalar(found):
                self.second[Scalar(found).sql()] = Scalar(shown)
            return found
        if shown is not None:
            return shown
        alias = self.aliases.get(parts[0].lower()) if clause in _SEES_ALIASES else None
        if alias is not None:
            return with_fields(operand(alias.tree), parts[1:])
        if self.outer is not None:
            around = self._find(self.outer, parts, node)
            if around is not None:
                inner = around if isinstance(around, exp.Column) else around.find(exp.Column)
                assert inner is not None
                marked = outer_column(inner.name)
                if inner is around:
                    return marked
                inner.replace(marked)
                return around
        if len(parts) == 1 and parts[0].lower() == "grouping__id":  # a call without parentheses, from Hive
            return exp.Anonymous(this="grouping_id")
        raise self.refuse("NAME_RESOLUTION", f"{'.'.join(parts)} is not a column of the inputs", node)

    def _find(self, scope: Scope | Outputs, parts: tuple[str, ...], node: exp.Column) -> exp.Expr | None:
        try:
            return scope.resolve(parts)
        except Unresolved as why:
            raise self.refuse("NAME_RESOLUTION", str(why), node) from None


def _is_in(node: exp.Expr) -> bool:
    return isinstance(node, exp.In) and node.args.get("query") is not None


def _is_subquery(node: exp.Expr) -> bool:
    return isinstance(node, exp.Exists | exp.Subquery | exp.Select | exp.SetOperation) or _is_in(node)


def _parent(node: exp.Expr) -> exp.Expr | None:
    parent = node.parent
    while isinstance(parent, exp.Paren):
        parent = parent.parent
    return parent


def _push_not(holder: exp.Expr) -> None:
    """NOT over AND and OR moves inwards, as in Spark's own optimizer: `NOT (a IN (…) OR b)` holds a NOT IN."""
    changed = True
    while changed:
        changed = False
        for node in holder.find_all(exp.Not):
            inner = node.this.unnest()
            if not any(_is_in(n) for n in inner.walk()):
                continue
            if isinstance(inner, exp.Not):
                node.replace(exp.Paren(this=inner.this.copy()))
            elif isinstance(inner, exp.And | exp.Or):
                other = exp.Or if isinstance(inner, exp.And) else exp.And
                sides = [exp.Not(this=exp.Paren(this=s.copy())) for s in (inner.this, inner.expression)]
                node.replace(exp.Paren(this=other(this=sides[0], expression=sides[1])))
            else:
                continue
            changed = True
            break


def _whole(node: exp.Expr) -> bool:
    """Whether the node is the whole expression, but for the wrapper `scalar` puts around it."""
    return isinstance(node.parent, exp.Paren) and node.parent.parent is None


def placed(name: str, shown: str) -> exp.Column:
    """A column that has its final name already; `shown` names a field of a struct after it."""
    column = exp.Column(this=identifier(name), table=identifier(_PLACED))
    column.meta[SHOWN] = shown
    return column


def _mark_placed(node: exp.Expr) -> exp.Expr:
    return placed(node.name, "") if isinstance(node, exp.Column) and not is_outer(node) else node


def _rename_lambdas(tree: exp.Expr) -> None:
    """Give lambda parameters names that no column has: renamed columns must not be captured."""
    for number, node in enumerate(reversed(list(tree.find_all(exp.Lambda)))):
        names = {p.name.lower(): f"{LAMBDA}{number}_{n}" for n, p in enumerate(node.expressions)}
        for part in list(node.walk()):
            if isinstance(part, exp.Column):
                first = part.parts[0].name.lower()
                if first in names:  # spelled in another case than the parameter
                    fields = tuple(p.name for p in part.parts[1:])
                    part.replace(with_fields(exp.Identifier(this=names[first], quoted=True), fields))
            elif isinstance(part, exp.Identifier) and part.name.lower() in names:
                field = isinstance(part.parent, exp.Dot) and part.arg_key == "expression"
                if not field and not isinstance(part.parent, exp.Column):
                    part.replace(exp.Identifier(this=names[part.name.lower()], quoted=True))


def _without_parentheses(tree: exp.Expr) -> exp.Expr:
    while isinstance(tree, exp.Paren):
        tree = tree.this
    return tree.copy()
