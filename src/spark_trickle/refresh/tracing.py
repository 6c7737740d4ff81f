"""Spans of OpenTelemetry for refreshes, if `opentelemetry-api` is installed (the extra `otel`).

Spans are made when a refresh is over, with the times that its stages took themselves: nothing of a refresh depends on
this module. The parent is the span in which the caller is, if any. docs/metrics.md has the names.
"""

from __future__ import annotations

import logging
from functools import cache
from typing import TYPE_CHECKING

from spark_trickle.errors import TrickleError

if TYPE_CHECKING:
    from opentelemetry.context import Context
    from opentelemetry.trace import Tracer

    from spark_trickle.refresh.work import Done, Work

_log = logging.getLogger(__name__)


@cache
def tracer() -> Tracer | None:
    """Of the provider that the program has set, now or later."""
    try:
        from opentelemetry import trace
    except ImportError:
        return None
    return trace.get_tracer("spark_trickle")


def trace(work: Work | Done, error: TrickleError | None = None) -> None:
    """Tell that a refresh is over. A refresh never fails for what an exporter does."""
    found = tracer()
    if found is None:
        return
    try:
        _span(found, work, "trickle.refresh", error, None)
    except Exception as failure:
        _log.warning("there is no span of the refresh of %s: %s", work.table.name, failure)


def _span(tracer: Tracer, work: Work | Done, name: str, error: TrickleError | None, context: Context | None) -> None:
    from opentelemetry.trace import Status, StatusCode, set_span_in_context

    whole = work.stages.whole
    span = tracer.start_span(name, context, attributes=attributes(work), start_time=whole.start)
    if not span.is_recording():  # no provider is set, or this one is not sampled
        return
    if error is not None:
        span.set_attribute("error.type", error.code)
        span.set_status(Status(StatusCode.ERROR, error.message))
    below = set_span_in_context(span, context)
    for part in work.stages.intervals:
        tracer.start_span(f"{name}.{part.stage}", below, start_time=part.start).end(part.end)
    for state in work.states:
        _span(tracer, state, "trickle.state", None, below)
    span.end(whole.end)


def attributes(work: Work | Done) -> dict[str, str | int]:
    found: dict[str, str | int] = {"trickle.table": str(work.table.name), "trickle.refresh_id": work.refresh_id}
    if work.decision is not None:
        found |= {"trickle.action": str(work.decision.action), "trickle.reason": str(work.decision.reason)}
    made = getattr(work, "made", None)  # what failed has made nothing
    if made is not None:
        counts = made.counts
        found |= {
            "trickle.rows_inserted": counts.inserted,
            "trickle.rows_updated": counts.updated,
            "trickle.rows_deleted": counts.deleted,
            "trickle.rows_read": sum(made.changed.values()),
        }
    return found
