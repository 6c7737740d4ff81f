"""The lineage of a definition that is recomputed because it asks the clock: that of its text with the time stopped."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import TYPE_CHECKING

from spark_trickle.errors import TrickleError
from spark_trickle.model import Lineage
from spark_trickle.spark.analyze import Analyzer
from spark_trickle.spark.guard import roundtrip
from spark_trickle.sql.clock import pin_time
from spark_trickle.sql.lineage import lineage
from spark_trickle.sql.lower import Tables, lower

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


def lineage_at_a_moment(
    session: SparkSession,
    analyzer: Analyzer,
    tables: Tables,
    text: str,
    namespace: str,
    names: Sequence[str],
    columns: Collection[str],
) -> Lineage | None:
    """`columns` of the inputs go before bare CURRENT_DATE. None: the rest of it cannot be read for certain, either."""
    pinned = pin_time(text, columns=columns)
    try:
        root = lower(pinned, tables, analyzer, namespace).root
        return lineage(root, names) if roundtrip(session, pinned) is None else None
    except (TrickleError, ValueError, IndexError, KeyError, AttributeError, AssertionError):
        return None
