"""Explode: d(ε(X)) = ε(dX), the weight of a row carried to every row it generates.

Right for any deterministic generator. OUTER: a row that generates nothing stays with NULLs, on either side alike.
State needed: none.
"""

from __future__ import annotations

from dataclasses import replace

from spark_trickle.delta.differentiate import differentiate
from spark_trickle.sql.algebra import Explode, Operator


@differentiate.register
def _explode(op: Explode) -> Operator:
    return replace(op, child=differentiate(op.child))
