"""Filter: d(σp(X)) = σp(dX).

UPDATE: a row that enters, leaves or stays is seen as its -1 and +1 versions, each judged alone. NULL: a condition
that is NULL drops the row on either side alike. State needed: none.
"""

from __future__ import annotations

from spark_trickle.delta.differentiate import differentiate
from spark_trickle.sql.algebra import Filter, Operator


@differentiate.register
def _filter(op: Filter) -> Operator:
    return Filter(child=differentiate(op.child), condition=op.condition)
