"""Scalar expressions over the columns of a relation.

A `Scalar` wraps a sqlglot tree whose columns are bare, unique names of the algebra (`o_id`), never a user's
qualified spelling. Trees are copied on the way in and never changed afterwards, so scalars can be shared, compared
and hashed like values. Rules build new scalars with the few constructors below, never by pasting text.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from sqlglot import exp

from spark_trickle.sql.parse import render

_OUTER = "(outer)"  # no table can be called so: marks the columns of the query around a subquery


@dataclass(frozen=True, slots=True, eq=False)
class Scalar:
    tree: exp.Expr

    # By text: the trees' own equality folds the case of some literals.
    def __eq__(self, other: object) -> bool:
        return isinstance(other, Scalar) and self.sql() == other.sql()

    def __hash__(self) -> int:
        return hash(self.sql())

    @property
    def columns(self) -> frozenset[str]:
        return frozenset(c.name for c in self.tree.find_all(exp.Column) if c.table != _OUTER)

    @property
    def outer(self) -> frozenset[str]:
        """The columns of the query around a subquery that this scalar uses."""
        return frozenset(c.name for c in self.tree.find_all(exp.Column) if c.table == _OUTER)

    @property
    def bare(self) -> str | None:
        """The column's name when the scalar is nothing but a column."""
        return self.tree.name if isinstance(self.tree, exp.Column) and self.tree.table != _OUTER else None

    def sql(self) -> str:
        return render(self.tree)

    def substitute(self, by: Mapping[str, Scalar]) -> Scalar:
        """Replace columns by scalars: how a projection is seen through."""

        def swap(node: exp.Expr) -> exp.Expr:
            if isinstance(node, exp.Column) and node.table != _OUTER and node.name in by:
                return operand(by[node.name].tree)
            return node

        return Scalar(self.tree.copy().transform(swap))

    def inward(self, by: Mapping[str, Scalar] | None = None) -> Scalar:
        """With the columns of the query around replaced: by their namesakes, or by what `by` has for them."""

        def swap(node: exp.Expr) -> exp.Expr:
            if is_outer(node) and (by is None or node.name in by):
                return operand(by[node.name].tree) if by else exp.Column(this=identifier(node.name))
            return node

        return Scalar(self.tree.copy().transform(swap))

    def outward(self) -> Scalar:
        """With all its columns marked as those of the query around a subquery."""

        def swap(node: exp.Expr) -> exp.Expr:
            return outer_column(node.name) if isinstance(node, exp.Column) else node

        return Scalar(self.tree.copy().transform(swap))

    def __str__(self) -> str:
        return self.sql()


_ATOMS = (exp.Column, exp.Literal, exp.Anonymous, exp.Cast, exp.Paren, exp.Boolean, exp.Null, exp.Case, exp.Identifier)


def operand(tree: exp.Expr) -> exp.Expr:
    """A copy that keeps its meaning inside any other expression."""
    copy = tree.copy()
    return copy if isinstance(copy, _ATOMS) else exp.Paren(this=copy)


def identifier(name: str) -> exp.Identifier:
    return exp.Identifier(this=name, quoted=True)


def column(name: str, table: str | None = None) -> Scalar:
    return Scalar(exp.Column(this=identifier(name), table=identifier(table) if table else None))


def outer_column(name: str) -> exp.Column:
    """A column of the query around a subquery, until the subquery is decorrelated."""
    return exp.Column(this=identifier(name), table=identifier(_OUTER))


def is_outer(node: exp.Expr) -> bool:
    return isinstance(node, exp.Column) and node.table == _OUTER


def text(value: str) -> Scalar:
    return Scalar(exp.Literal.string(value))


def null() -> Scalar:
    return Scalar(exp.Null())


def true() -> Scalar:
    return Scalar(exp.Boolean(this=True))


def boolean(value: bool) -> Scalar:
    return Scalar(exp.Boolean(this=value))


def is_null(value: Scalar) -> Scalar:
    return Scalar(exp.Is(this=operand(value.tree), expression=exp.Null()))


def negate(value: Scalar) -> Scalar:
    return Scalar(exp.Not(this=operand(value.tree)))


def same(left: Scalar, right: Scalar) -> Scalar:
    """Null-safe equality."""
    return Scalar(exp.NullSafeEQ(this=operand(left.tree), expression=operand(right.tree)))


def either(left: Scalar, right: Scalar) -> Scalar:
    return Scalar(exp.Or(this=operand(left.tree), expression=operand(right.tree)))


def number(value: int) -> Scalar:
    literal: exp.Expr = exp.Literal.number(abs(value))
    return Scalar(exp.Neg(this=literal) if value < 0 else literal)


def call(function: str, *args: Scalar) -> Scalar:
    return Scalar(exp.Anonymous(this=function, expressions=[a.tree.copy() for a in args]))


def parameter(name: str) -> Scalar:
    """The parameter of a lambda: not a column."""
    return Scalar(identifier(name))


def for_each(array: Scalar, name: str, body: Scalar) -> Scalar:
    """`transform(array, name -> body)`."""
    lambda_ = exp.Lambda(this=body.tree.copy(), expressions=[identifier(name)])
    return Scalar(exp.Anonymous(this="transform", expressions=[array.tree.copy(), lambda_]))


def row_number(partition: Iterable[Scalar], order: Iterable[Scalar]) -> Scalar:
    return Scalar(
        exp.Window(
            this=exp.Anonymous(this="row_number"),
            partition_by=[p.tree.copy() for p in partition],
            order=exp.Order(expressions=[o.tree.copy() for o in order]),
        )
    )


def rank(order: Iterable[Scalar]) -> Scalar:
    """Over all rows, in an order such as `x DESC NULLS LAST`."""
    return Scalar(
        exp.Window(this=exp.Anonymous(this="rank"), order=exp.Order(expressions=[o.tree.copy() for o in order]))
    )


def field(struct: Scalar, name: str) -> Scalar:
    return Scalar(exp.Dot(this=operand(struct.tree), expression=identifier(name)))


_TIMESTAMP = re.compile(r"(`(?:[^`]|``)*`)|\btimestamp\b(?!_|\s*:)", re.IGNORECASE)


def in_ddl(type_: str) -> str:
    """A type as a statement says it: what TIMESTAMP means there is a setting.

    >>> in_ddl("struct<timestamp:timestamp,`a timestamp`:timestamp_ntz>")
    'struct<timestamp:timestamp_ltz,`a timestamp`:timestamp_ntz>'
    """
    return _TIMESTAMP.sub(lambda m: m[1] or "timestamp_ltz", type_)


def cast(value: Scalar, type_: str) -> Scalar:
    to = exp.DataType.build(in_ddl(type_), dialect="spark", udt=True)
    return Scalar(exp.Cast(this=value.tree.copy(), to=to))


def multiply(left: Scalar, right: Scalar) -> Scalar:
    return Scalar(exp.Mul(this=operand(left.tree), expression=operand(right.tree)))


def subtract(left: Scalar, right: Scalar) -> Scalar:
    return Scalar(exp.Sub(this=operand(left.tree), expression=operand(right.tree)))


def divide(left: Scalar, right: Scalar) -> Scalar:
    return Scalar(exp.Div(this=operand(left.tree), expression=operand(right.tree)))


def add(left: Scalar, right: Scalar) -> Scalar:
    return Scalar(exp.Add(this=operand(left.tree), expression=operand(right.tree)))


def greater(left: Scalar, right: Scalar) -> Scalar:
    return Scalar(exp.GT(this=operand(left.tree), expression=operand(right.tree)))


def less(left: Scalar, right: Scalar) -> Scalar:
    return Scalar(exp.LT(this=operand(left.tree), expression=operand(right.tree)))


def equal(left: Scalar, right: Scalar) -> Scalar:
    return Scalar(exp.EQ(this=operand(left.tree), expression=operand(right.tree)))


def case_when(condition: Scalar, then: Scalar, otherwise: Scalar | None = None) -> Scalar:
    return Scalar(
        exp.Case(
            ifs=[exp.If(this=condition.tree.copy(), true=then.tree.copy())],
            default=otherwise.tree.copy() if otherwise else None,
        )
    )


def sides(condition: Scalar) -> tuple[Scalar, Scalar] | None:
    """Both sides of an equality, null-safe or not."""
    tree = condition.tree.unnest()
    return (Scalar(tree.this), Scalar(tree.expression)) if isinstance(tree, exp.EQ | exp.NullSafeEQ) else None


def disjunction(conditions: Iterable[Scalar]) -> Scalar:
    """Any of the conditions; false when there are none."""
    result = None
    for condition in conditions:
        result = condition if result is None else either(result, condition)
    return boolean(False) if result is None else result


def conjunction(conditions: Iterable[Scalar]) -> Scalar | None:
    """All conditions joined by AND; None when there are none."""
    result: exp.Expr | None = None
    for condition in conditions:
        part = operand(condition.tree)
        result = part if result is None else exp.And(this=result, expression=part)
    return None if result is None else Scalar(result)


def conjuncts(condition: Scalar) -> tuple[Scalar, ...]:
    """The parts of an AND, flattened."""
    tree = condition.tree
    if isinstance(tree, exp.Paren):
        return conjuncts(Scalar(tree.this))
    if isinstance(tree, exp.And):
        return (*conjuncts(Scalar(tree.this)), *conjuncts(Scalar(tree.expression)))
    return (condition,)
