"""WITH RECURSIVE below the root: if anything it reads changed, the new fixpoint minus the old.

    d(ρ(B, S)) = ρ(B.new, S.new) - ρ(B.old, S.old)

State needed: the inputs' own tables.
"""

from __future__ import annotations

from spark_trickle.delta.differentiate import differentiate
from spark_trickle.delta.rules.aggregate import difference
from spark_trickle.sql.algebra import Changes, Item, Operator, Project, Recursion, Restrict, UnionAll
from spark_trickle.sql.scalar import number
from spark_trickle.sql.trees import at, scans


@differentiate.register
def _recursion(op: Recursion) -> Operator:
    changed = any_change(op)
    return difference(op, lambda state: Restrict(child=at(op, state), keys=(), by=changed))


def any_change(op: Operator) -> Operator:
    """A relation that has rows exactly when some table below changed."""
    told = tuple(Project(child=Changes(scan=s), items=(Item("changed", number(1)),)) for s in dict.fromkeys(scans(op)))
    return UnionAll(inputs=told, names=("changed",))
