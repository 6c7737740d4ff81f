"""Deltas: from an operator tree to the tree of its change. Pure: no Spark, no database."""

from __future__ import annotations

from spark_trickle.delta import rules as rules
from spark_trickle.delta.differentiate import differentiate as differentiate
