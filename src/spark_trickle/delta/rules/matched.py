"""Semi, anti and existence joins (EXISTS, IN, NOT IN, under any expression):

    d(L ? R) = (dL + A) ? R.new  -  A ? R.old,   A = L.old ⋉ dR

A are the rows of L for which some changed row of R meets the conditions: only for them the answer can change. NOT IN
carries `a = b OR a = b IS NULL` as its condition, so that a NULL that comes or goes in R affects every row, and a row
whose own value is NULL is affected by every change. UPDATE: both versions of a row of L are judged against the same
R. Duplicates: partners are not counted, rows of L keep their weights. State needed: the inputs' own tables.
"""

from __future__ import annotations

from dataclasses import replace

from spark_trickle.delta.differentiate import differentiate
from spark_trickle.sql.algebra import WEIGHT, Match, Matched, Operator, State, UnionAll, Weigh
from spark_trickle.sql.trees import at


@differentiate.register
def _matched(op: Matched) -> Operator:
    return delta_of_match(op)


def delta_of_match(op: Matched) -> Operator:
    new, old = at(op.by, State.NEW), at(op.by, State.OLD)
    affected = Matched(
        child=at(op.child, State.OLD), by=differentiate(op.by), conditions=op.conditions, kind=Match.SEMI
    )
    now = UnionAll(inputs=(differentiate(op.child), Weigh(child=affected, weight=1)), names=(*op.child.columns, WEIGHT))
    before = Weigh(child=replace(op, child=affected, by=old), weight=-1)
    return UnionAll(inputs=(replace(op, child=now, by=new), before), names=(*op.columns, WEIGHT))
