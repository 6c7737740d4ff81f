"""The delta of an operator tree is another operator tree.

`differentiate(X)` gives the Z-set that turns X over the old states into X over the new ones: for every row, its
count in the new result minus its count in the old. One rule per operator, registered from `rules/<operator>.py`;
an operator without a rule is refused by name. The result need not be consolidated (a row may appear with +1 and
again with -1): every rule is right for such input, and the root consolidates once.
"""

from __future__ import annotations

from functools import singledispatch

from spark_trickle.errors import NotIncremental
from spark_trickle.sql.algebra import Operator


@singledispatch
def differentiate(op: Operator) -> Operator:
    raise NotIncremental(type(op).__name__.upper(), f"{type(op).__name__} has no delta rule yet")
