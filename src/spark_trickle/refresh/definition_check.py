"""The net below the parser: when a stream table is created, our form of its definition is run beside its text.

The round-trip guard proves that the text was parsed as Spark parses it. What names, windows and keys *mean* is decided
afterwards, and only the rows tell whether that was read as Spark reads it. So row count and an order-independent hash
of both are compared, over the same snapshots and under the pinned settings. Columns that SQL leaves open and sums of
floats are left out.
"""

from __future__ import annotations

from datetime import datetime

from spark_trickle.config import Settings
from spark_trickle.delta.plans.plan import Comparison
from spark_trickle.lake.attempt import Attempt
from spark_trickle.refresh.as_written import definition_view
from spark_trickle.refresh.definition import Compiled
from spark_trickle.refresh.equality import key_of
from spark_trickle.refresh.full import AttemptLeaves
from spark_trickle.spark.analyze import spark_error
from spark_trickle.spark.compile import compile_sql
from spark_trickle.spark.names import quote
from spark_trickle.thresholds import CHECKED_ROWS, SMALL

_LEFT_OUT = (Comparison.OPEN, Comparison.APPROXIMATE)


def misread(attempt: Attempt, compiled: Compiled, instant: datetime, settings: Settings) -> str | None:
    """How the rows of our form differ from those of the text; None: they do not, or nobody was to look."""
    if compiled.whole is None or not compiled.settled or settings.check_definition == "off":
        return None
    rows = _rows(attempt, compiled)
    if settings.check_definition == "auto" and rows > CHECKED_ROWS:
        return None
    attempt.use(compiled.namespace)
    attempt.tune(small=rows <= SMALL)
    kept = [c for c in compiled.columns if compiled.compare.get(c.name) not in _LEFT_OUT]
    keys = ", ".join(key_of(c, compiled.compare) for c in kept) or "1"
    whole = compiled.whole
    named = zip(whole.columns, compiled.columns, strict=True)
    listed = ", ".join(f"{quote(n)} AS {quote(c.name)}" for n, c in named)
    ours = _summary(0, f"SELECT {listed} FROM ({compile_sql(whole, AttemptLeaves(attempt))})", keys)
    theirs = _summary(1, f"SELECT * FROM {quote(definition_view(attempt, compiled, instant))}", keys)
    try:
        found, expected = attempt.session.sql(f"{ours} UNION ALL {theirs} ORDER BY n").collect()
    except Exception as error:
        try:
            attempt.session.sql(theirs).collect()
        except Exception as own:  # the text fails as well: that is the user's
            raise spark_error(own) from own
        return f"our form of the query fails, and its text does not: {spark_error(error).message.splitlines()[0]}"
    if found[1:] == expected[1:]:
        return None
    if found[1] != expected[1]:
        return f"our form of the query gives {found[1]} rows, and its text {expected[1]}"
    return f"our form of the query gives other rows than its text ({found[1]} each)"


def _summary(number: int, select: str, keys: str) -> str:
    return (
        f"(SELECT {number} AS n, count(*), coalesce(sum(CAST(xxhash64({keys}) AS DECIMAL(20, 0))), 0) FROM ({select}))"
    )


def _rows(attempt: Attempt, compiled: Compiled) -> float:
    """Of all inputs together; many, where one of them does not tell."""
    rows = [attempt.lake.facts(attempt.pointers[name].location).total_records for name in compiled.reads]
    return sum(float("inf") if r is None else r for r in rows)
