"""ORDER BY … LIMIT below the root: if anything changed, the top of the new state minus the top of the old.

    d(τ(X)) = τ(X.new) - τ(X.old)

Only where the order is total, so that the old top is what was emitted. State needed: the inputs' own tables.
"""

from __future__ import annotations

from dataclasses import replace

from spark_trickle.delta.differentiate import differentiate
from spark_trickle.delta.rules.aggregate import difference
from spark_trickle.sql.algebra import Operator, Restrict, TopK
from spark_trickle.sql.trees import at


@differentiate.register
def _top_k(op: TopK) -> Operator:
    changed = differentiate(op.child)
    return difference(op, lambda state: Restrict(child=replace(op, child=at(op.child, state)), keys=(), by=changed))
