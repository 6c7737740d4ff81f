"""Constant: d(C) = nothing. State needed: none."""

from __future__ import annotations

from spark_trickle.delta.differentiate import differentiate
from spark_trickle.sql.algebra import WEIGHT, Constant, Empty, Operator


@differentiate.register
def _constant(op: Constant) -> Operator:
    return Empty(names=(*op.columns, WEIGHT))
