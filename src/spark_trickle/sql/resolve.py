"""From an expression as written to a Scalar over unique column names, refusing by name what has no rule."""

from __future__ import annotations

from sqlglot import exp

from spark_trickle.errors import NotIncremental
from spark_trickle.sql.functions import (
    SESSION_DEPENDENT,
    TIME_DEPENDENT,
    TIME_WINDOWS,
    VOLATILE,
    FunctionKind,
    Functions,
)
from spark_trickle.sql.parse import place
from spark_trickle.sql.scalar import Scalar, operand
from spark_trickle.sql.scope import Scope, Unresolved, with_fields

_NO_PARENTHESES: dict[type[exp.Expr], str] = {
    exp.CurrentDate: "current_date",
    exp.CurrentTimestamp: "current_timestamp",
    exp.CurrentTime: "current_time",
    exp.CurrentUser: "current_user",
    exp.Localtimestamp: "localtimestamp",
}


def function_name(node: exp.Expr) -> str | None:
    """The lower-case name of a function call, None for any other node."""
    if isinstance(node, exp.Anonymous):
        return str(node.this if isinstance(node.this, str) else node.name).lower()
    if type(node) in _NO_PARENTHESES:
        return _NO_PARENTHESES[type(node)]
    return None


class Resolver:
    """Expressions of one SELECT. `aliases` grows while the select list is read: later items may use them."""

    def __init__(self, scope: Scope, functions: Functions, text: str) -> None:
        self.scope = scope
        self.functions = functions
        self.text = text
        self.aliases: dict[str, Scalar] = {}

    def refuse(self, reason: str, message: str, node: exp.Expr) -> NotIncremental:
        return NotIncremental(reason, message, place=place(node, self.text))

    def scalar(self, tree: exp.Expr, *, clause: str) -> Scalar:
        for node in tree.walk():
            self._check(node)
        # Wrapped, so that a tree which is one column can be replaced as well.
        holder = exp.Paren(this=tree.copy())
        _rename_lambdas(holder)
        for node in list(holder.find_all(exp.Column)):
            node.replace(self._column(node, clause))
        for node in holder.find_all(exp.Anonymous):
            if isinstance(node.this, str):
                node.set("this", node.this.lower())
        return Scalar(_without_parentheses(holder))

    def _check(self, node: exp.Expr) -> None:
        if isinstance(node, exp.Window):
            raise self.refuse("WINDOW", "window functions have no delta rule yet", node)
        if isinstance(node, exp.Exists | exp.Subquery | exp.Select | exp.SetOperation) or (
            isinstance(node, exp.In) and node.args.get("query")
        ):
            raise self.refuse("SUBQUERY", "a subquery inside an expression has no delta rule yet", node)
        if isinstance(node, exp.Star) and not _counted(node):
            raise self.refuse("STAR", "* inside an expression has no rule yet", node)
        name = function_name(node)
        if name is None:
            return
        if name in TIME_WINDOWS:
            raise self.refuse("TIME_WINDOW", f"{name}() has no delta rule yet", node)
        if name in VOLATILE:
            raise self.refuse("VOLATILE", f"{name}() gives another answer every time it runs", node)
        if name in TIME_DEPENDENT or (name == "unix_timestamp" and not node.expressions):
            raise self.refuse("TIME_DEPENDENT", f"{name}() moves with the clock although no source changes", node)
        if name in SESSION_DEPENDENT:
            raise self.refuse("SESSION_DEPENDENT", f"{name}() depends on the session that asks", node)
        kind = self.functions.kind(name)
        if kind is FunctionKind.GENERATOR:
            raise self.refuse("GENERATOR", f"the generator {name}() has no delta rule yet", node)
        if kind is FunctionKind.WINDOW:
            raise self.refuse("WINDOW", f"the window function {name}() has no delta rule yet", node)
        if kind is FunctionKind.UNKNOWN:
            raise self.refuse("UNKNOWN_FUNCTION", f"Spark's registry does not know {name}()", node)
        if kind is FunctionKind.SESSION:
            raise self.refuse("SESSION_OBJECT", f"{name}() is registered in one session only", node)
        if name in ("grouping", "grouping_id"):
            raise self.refuse("GROUPING_SETS", f"{name}() has no delta rule yet", node)

    def _column(self, node: exp.Column, clause: str) -> exp.Expr:
        parts = tuple(p.name for p in node.parts)
        try:
            found = self.scope.resolve(parts)
        except Unresolved as why:
            raise self.refuse("NAME_RESOLUTION", str(why), node) from None
        alias = self.aliases.get(parts[0].lower()) if clause in ("SELECT", "GROUP BY", "HAVING") else None
        if found is not None:
            # Whether HAVING means the alias or the input column is Spark's choice, not ours to guess.
            if clause == "HAVING" and alias is not None and alias != Scalar(found):
                raise self.refuse("AMBIGUOUS_HAVING", f"{parts[0]} names an alias and an input column", node)
            return found
        if alias is not None:
            return with_fields(operand(alias.tree), parts[1:])
        raise self.refuse("NAME_RESOLUTION", f"{'.'.join(parts)} is not a column of the inputs", node)


def _counted(star: exp.Star) -> bool:
    """Whether this is the star of count(*)."""
    parent = star.parent
    return isinstance(parent, exp.Anonymous) and function_name(parent) == "count" and len(parent.expressions) == 1


def _rename_lambdas(tree: exp.Expr) -> None:
    """Give lambda parameters names that no column has: renamed columns must not be captured."""
    for number, node in enumerate(reversed(list(tree.find_all(exp.Lambda)))):
        names = {p.name.lower(): f"__v{number}_{n}" for n, p in enumerate(node.expressions)}
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
