"""Subqueries join the rows whose expressions ask for them: as semi and anti joins, as marks, or by their value."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from sqlglot import exp

from spark_trickle.sql.algebra import Filter, Fresh, Join, Match, Operator
from spark_trickle.sql.decorrelate import Types, exists, not_in, rejects_null, scalar_value
from spark_trickle.sql.resolve import Pending, SubqueryKind
from spark_trickle.sql.scalar import Scalar, column, conjuncts, equal


@dataclass(frozen=True, slots=True)
class Subqueries:
    fresh: Fresh
    types: Types

    def filtered(self, operator: Operator, condition: Scalar, pending: Sequence[Pending]) -> Operator:
        """WHERE: plain conditions first, then subqueries as semi and anti joins, then what needs their values."""
        by_name = {p.name: p for p in pending}
        if not by_name:
            return _filtered(operator, condition)
        parts = conjuncts(condition)
        later: list[Scalar] = []
        whole: list[tuple[Pending, Match]] = []
        for part in parts:
            used = part.columns & by_name.keys()
            if not used:
                operator = _filtered(operator, part)
                continue
            one = _whole_subquery(part, by_name)
            if one is None:
                later.append(part)
            else:
                whole.append(one)
        attached: set[str] = set()
        for one_pending, kind in whole:
            if any(one_pending.name in part.columns for part in later):
                later.append(_as_condition(one_pending, kind))
            else:
                operator = self.attach(operator, one_pending, kind)
        for part in later:
            for name in sorted(part.columns & by_name.keys() - attached):
                alone = sum(name in p.columns for p in later) == 1
                strict = alone and rejects_null(part, name)
                operator = self.attach(operator, by_name[name], Match.MARK, strict=strict)
                attached.add(name)
            operator = _filtered(operator, part)
        return operator

    def attach_all(self, operator: Operator, pending: Iterable[Pending]) -> Operator:
        for one in pending:
            if one.name not in operator.columns:
                operator = self.attach(operator, one, Match.MARK)
        return operator

    def attach(self, operator: Operator, pending: Pending, kind: Match, *, strict: bool = False) -> Operator:
        sub = pending.operator
        if pending.kind is SubqueryKind.SCALAR:
            return scalar_value(operator, sub, pending.name, self.fresh, self.types, strict=strict)
        meet = not_in if pending.kind is SubqueryKind.NOT_IN else equal
        conditions = tuple(meet(v, column(c)) for v, c in zip(pending.values, sub.columns, strict=False))
        return exists(operator, sub, conditions, kind, pending.name, self.fresh, self.types)


def _filtered(operator: Operator, condition: Scalar) -> Operator:
    """WHERE over a join is part of the join; over anything else a filter."""
    if isinstance(operator, Join):
        return Join(inputs=operator.inputs, conditions=(*operator.conditions, *conjuncts(condition)))
    return Filter(child=operator, condition=condition)


def _whole_subquery(part: Scalar, by_name: dict[str, Pending]) -> tuple[Pending, Match] | None:
    """A condition that is nothing but EXISTS, IN or a negation of them."""
    tree, kind = part.tree.unnest(), Match.SEMI
    while isinstance(tree, exp.Not):
        tree, kind = tree.this.unnest(), Match.ANTI if kind is Match.SEMI else Match.SEMI
    pending = by_name.get(tree.name) if isinstance(tree, exp.Column) else None
    if pending is None or pending.kind is SubqueryKind.SCALAR:
        return None
    return pending, kind


def _as_condition(pending: Pending, kind: Match) -> Scalar:
    mark = column(pending.name)
    return mark if kind is Match.SEMI else Scalar(exp.Not(this=mark.tree))
