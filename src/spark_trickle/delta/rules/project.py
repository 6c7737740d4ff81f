"""Project: d(πe(X)) = πe(dX), the weight carried along.

Right for any deterministic expression: the same input row gives the same output row whether it is added or
removed. Duplicates: rows that become equal keep their own weights. State needed: none.
"""

from __future__ import annotations

from spark_trickle.delta.differentiate import differentiate
from spark_trickle.sql.algebra import WEIGHT, Operator, Project, keep


@differentiate.register
def _project(op: Project) -> Operator:
    return Project(child=differentiate(op.child), items=(*op.items, *keep(WEIGHT)))
