"""Outer joins: the inner part, and the rows without a partner padded with NULL.

    d(L ⟕ R) = dL ⟕ R.new  +  L.old ⋈ dR  +  pad(A ▷ R.new) - pad(A ▷ R.old),   A = L.old ⋉ dR

A are the rows of L that a change of R may give a first partner or take the last one from; for the others nothing
changes. A full join adds the same for the right side: d(R ▷ L), padded on the left. UPDATE: both versions of a row
are judged alone. NULL: a condition that is NULL is no partner, on all sides alike. Duplicates: weights multiply.
Conditions may be of any form. State needed: the inputs' own tables at frontier and cut.
"""

from __future__ import annotations

from spark_trickle.delta.differentiate import differentiate
from spark_trickle.delta.rules.matched import delta_of_match
from spark_trickle.sql.algebra import (
    WEIGHT,
    Item,
    Join,
    Match,
    Matched,
    Operator,
    OuterJoin,
    Project,
    Side,
    State,
    UnionAll,
    Weigh,
    keep,
)
from spark_trickle.sql.scalar import null
from spark_trickle.sql.trees import at


@differentiate.register
def _outer_join(op: OuterJoin) -> Operator:
    names = (*op.columns, WEIGHT)
    left, right = op.left, op.right
    left_old, right_new = at(left, State.OLD), at(right, State.NEW)
    changed = differentiate(right)
    from_left = OuterJoin(left=differentiate(left), right=right_new, conditions=op.conditions, side=Side.LEFT)
    from_right = Join(inputs=(changed, left_old), conditions=op.conditions)
    terms: list[Operator] = [Project(child=t, items=keep(*names)) for t in (from_left, from_right)]
    affected = Matched(child=left_old, by=changed, conditions=op.conditions, kind=Match.SEMI)
    for other, weight in ((right_new, 1), (at(right, State.OLD), -1)):
        alone = Matched(child=affected, by=other, conditions=op.conditions, kind=Match.ANTI)
        terms.append(_padded(Weigh(child=alone, weight=weight), op.columns))
    if op.side is Side.FULL:
        alone = Matched(child=right, by=left, conditions=op.conditions, kind=Match.ANTI)
        terms.append(_padded(delta_of_match(alone), op.columns))
    return UnionAll(inputs=tuple(terms), names=names)


def _padded(child: Operator, columns: tuple[str, ...]) -> Operator:
    there = set(child.columns)
    own = tuple(Item(c, null()) if c not in there else keep(c)[0] for c in columns)
    return Project(child=child, items=(*own, *keep(WEIGHT)))
