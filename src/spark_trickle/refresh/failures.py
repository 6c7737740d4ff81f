"""What becomes of a refresh that fails: what is tried instead, how the error reads, what the catalog keeps of it."""

from __future__ import annotations

import logging
from collections.abc import Sequence
from dataclasses import replace

from spark_trickle.catalog.alerts import AlertKind
from spark_trickle.catalog.store import CatalogStore
from spark_trickle.errors import ErrorCode, Kind, Reason, TrickleError
from spark_trickle.model import Action, Mode, Status, StreamTable
from spark_trickle.refresh.decide import Decision
from spark_trickle.refresh.tracing import trace
from spark_trickle.refresh.work import Done, Work
from spark_trickle.spark.analyze import data_error

_log = logging.getLogger(__name__)


def second_try(error: Exception, decision: Decision, mode: Mode) -> Decision | None:
    """What to do after a failure that need not be the definition's; None: it is what it is."""
    if isinstance(error, TrickleError):
        # The table is not what the deltas say it should be: recompute it.
        if error.code != "INTEGRITY" or mode is Mode.DIFFERENTIAL:
            return None
        return Decision(Action.REINITIALIZE, Reason("INTEGRITY", error.message))
    met = data_error(error)
    if met is None or decision.action is not Action.DIFFERENTIAL:
        return None
    # Perhaps for a row that is in neither state: the new state alone tells.
    also = f"DELTA_FAILED: all rows compared, since the change met: {met}"
    return replace(decision, reason=decision.reason.also(also))


def record_failure(store: CatalogStore, work: Work | Done, error: TrickleError, *, own: bool = True) -> None:
    """Keep the failure; the old content stays readable. What failed elsewhere is no fault of this table."""
    table = work.table
    trace(work, error)
    try:
        known = store.refresh_entry(work.refresh_id)
        if known is None or known.state != "RUNNING":
            return  # new, or published and failed only afterwards
        with store.write() as tx:
            tx.finish_refresh(
                work.refresh_id,
                state="FAILED",
                action=None,
                reason=None if work.decision is None else str(work.decision.reason),
                stages=work.stages.rounded(),
                seconds=round(work.stages.total, 4),
                error_code=error.code,
                error=error.message,
            )
            if not own or error.code == "LEASE_LOST":  # the table is somebody else's now
                return
            tx.update_stream_table(table.id, consecutive_errors=table.consecutive_errors + 1, last_error=str(error))
            if error.kind is Kind.SCHEMA and table.status is Status.ACTIVE:
                tx.update_stream_table(table.id, status=Status.ERROR)
            for kind in alerts_of(error, table.consecutive_errors + 1):
                tx.alerts.raise_(kind, error.message, str(table.name))
    except TrickleError as second:
        _log.warning("the failure of %s could not be recorded: %s", table.name, second)


def record_unbegun(store: CatalogStore, table: StreamTable, error: TrickleError, initiated_by: str) -> None:
    """A refresh that failed before it began, as it does without Spark: it counts like any other."""
    work = Work(table)
    try:
        with store.write() as tx:
            tx.start_refresh(work.refresh_id, table.id, str(table.name), initiated_by)
    except TrickleError as second:
        _log.warning("the failure of %s could not be recorded: %s", table.name, second)
        return
    record_failure(store, work, error)


def record_group_failure(store: CatalogStore, tables: Sequence[StreamTable], error: TrickleError) -> None:
    """Stream tables that were to be published together, as they were before; the first one failed."""
    if error.code == "LEASE_LOST" or not alerts_of(error, tables[0].consecutive_errors + 1):
        return
    first, *others = (str(t.name) for t in tables)
    message = f"nothing of {', '.join(sorted((first, *others)))} was published, since {first} failed: {error.message}"
    try:
        with store.write() as tx:
            tx.alerts.raise_("GROUP_FAILED", message, first)
    except TrickleError as second:
        _log.warning("the failure of a group could not be recorded: %s", second)


# Only a recomputation helps, and the mode does not allow it.
_REINITIALIZE: tuple[ErrorCode, ...] = (
    "SNAPSHOT_EXPIRED",
    "TABLE_REPLACED",
    "DEPENDENCY_CHANGED",
    "INTEGRITY",
    "REWRITTEN",
)


def alerts_of(error: TrickleError, in_a_row: int) -> tuple[AlertKind, ...]:
    """The alerts that a failed refresh raises. What may go away by itself is none the first time.

    >>> [alerts_of(TrickleError("SPARK_FAILED", "an executor is gone"), n) for n in (1, 2)]
    [(), ('REFRESH_FAILED',)]
    """
    if error.code == "INTEGRITY":
        return "INTEGRITY", "REINITIALIZE_NEEDED"
    if error.code in _REINITIALIZE:
        return ("REINITIALIZE_NEEDED",)
    return () if error.kind is Kind.TRANSIENT and in_a_row < 2 else ("REFRESH_FAILED",)


# What a definition once had and has no longer, by what Spark says about it.
_GONE: dict[ErrorCode, ErrorCode] = {
    "UNKNOWN_TABLE": "SOURCE_DROPPED",
    "UNKNOWN_COLUMN": "SOURCE_CHANGED",
    "INVALID_QUERY": "SOURCE_CHANGED",
}


def located(error: TrickleError, table: StreamTable) -> TrickleError:
    """The error with the stream table's name in it."""
    if not table.id:
        return error  # the user has just written it
    if error.code in _GONE:
        return TrickleError(_GONE[error.code], f"{table.name}: {error.message}")
    if str(table.name) in error.message:
        return error
    return TrickleError(error.code, f"{table.name}: {error.message}", hint=error.hint)
