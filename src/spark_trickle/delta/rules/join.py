"""Join (inner and cross, any number of inputs):

    d(X1 ⋈ … ⋈ Xn) = Σi  X1.old ⋈ … ⋈ Xi-1.old ⋈ dXi ⋈ Xi+1.new ⋈ … ⋈ Xn.new

Exact when several inputs change at once, because old states are read by time travel: no pair of changes is counted
twice or missed. UPDATE: both versions of the row meet the same partners. NULL: a condition that is NULL joins
nothing, on all sides alike. Duplicates: weights multiply (states have weight 1). State needed: the inputs' own
tables at frontier and cut, nothing stored.

Each term starts from its delta, the small side; the compiler then adds inputs in the order the conditions connect.
"""

from __future__ import annotations

from spark_trickle.delta.differentiate import differentiate
from spark_trickle.sql.algebra import WEIGHT, Join, Operator, Project, State, UnionAll, keep
from spark_trickle.sql.trees import at


@differentiate.register
def _join(op: Join) -> Operator:
    names = (*op.columns, WEIGHT)
    terms = []
    for i, changing in enumerate(op.inputs):
        before = tuple(at(x, State.OLD) for x in op.inputs[:i])
        after = tuple(at(x, State.NEW) for x in op.inputs[i + 1 :])
        term = Join(inputs=(differentiate(changing), *before, *after), conditions=op.conditions)
        terms.append(Project(child=term, items=keep(*names)))
    return UnionAll(inputs=tuple(terms), names=names)
