"""UnionAll: d(A + B) = dA + dB.

Duplicates: weights add. State needed: none.
"""

from __future__ import annotations

from spark_trickle.delta.differentiate import differentiate
from spark_trickle.sql.algebra import WEIGHT, Operator, UnionAll


@differentiate.register
def _union_all(op: UnionAll) -> Operator:
    return UnionAll(inputs=tuple(differentiate(i) for i in op.inputs), names=(*op.names, WEIGHT))
