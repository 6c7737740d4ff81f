"""Scan: dT = the change feed of T.

UPDATE: the old row with -1, the new row with +1. Duplicates: as many rows, or a weight. State needed: none.
"""

from __future__ import annotations

from spark_trickle.delta.differentiate import differentiate
from spark_trickle.sql.algebra import Changes, Operator, Scan


@differentiate.register
def _scan(op: Scan) -> Operator:
    return Changes(scan=op)
