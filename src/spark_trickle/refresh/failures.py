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
from spark_trickle.refresh.work import Done, Request, Run, Work, completed
from spark_trickle.results import RefreshResult
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


def record_failure(store: CatalogStore, work: Work | Done, error: TrickleError, *, counts: bool = True) -> None:
    """Keep the failure; the old content stays readable. One that does not count is in the history alone."""
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
            if not counts or error.code == "LEASE_LOST":  # the table is somebody else's now
                return
            tx.update_stream_table(table.id, consecutive_errors=table.consecutive_errors + 1, last_error=str(error))
            lasting = error.kind is Kind.SCHEMA or error.code == "NO_FIXPOINT"  # trying again will not help
            if lasting and table.status is Status.ACTIVE:
                tx.update_stream_table(table.id, status=Status.ERROR)
            for kind in alerts_of(error, table.consecutive_errors + 1):
                tx.alerts.raise_(kind, error.message, str(table.name))
    except TrickleError as second:
        _log.warning("the failure of %s could not be recorded: %s", table.name, second)


def record_unbegun(store: CatalogStore, table: StreamTable, error: TrickleError, initiated_by: str) -> None:
    """A refresh that failed before it began, as it does without Spark: it counts like any other."""
    work = Work(Request(table))
    try:
        with store.write() as tx:
            tx.start_refresh(work.refresh_id, table.id, str(table.name), initiated_by)
    except TrickleError as second:
        _log.warning("the failure of %s could not be recorded: %s", table.name, second)
        return
    record_failure(store, work, error)


def record_group_failure(
    store: CatalogStore,
    run: Run,
    failed: StreamTable,
    staged: Sequence[Done],
    rest: Sequence[StreamTable],
    error: TrickleError,
    *,
    recorded: Sequence[StreamTable] = (),
) -> None:
    """Of those that were to be published together one failed: the others, staged or not begun, are skipped.

    `recorded` are others whose history has it already.
    """
    others = (*(d.table for d in staged), *rest, *recorded)
    names = ", ".join(sorted(str(t.name) for t in (failed, *others)))
    reason = Reason("GROUP_FAILED", f"it is published together with {failed.name}, which failed: {error.message}")
    try:
        with store.write() as tx:
            for done in (d for d in staged if d.table.id):  # a new one has no row in the history
                tx.finish_refresh(
                    done.refresh_id,
                    state="COMPLETED",
                    action=Action.SKIP,
                    reason=str(reason),
                    stages=done.stages.rounded(),
                    seconds=round(done.stages.total, 4),
                )
            for table in () if run.is_trial else rest:
                result = RefreshResult(str(table.name), Action.SKIP, str(reason))
                tx.add_refresh(completed(result, run.initiated_by, run.cut.instant), table.id or None)
            for group in () if run.is_trial else run.groups.all:
                if failed.name in group.members:
                    tx.group_failed([run.known[m].id for m in group.members if m in run.known], str(error))
            if not run.is_trial and error.code != "LEASE_LOST" and alerts_of(error, failed.consecutive_errors + 1):
                message = f"nothing of {names} was published, since {failed.name} failed: {error.message}"
                tx.alerts.raise_("GROUP_FAILED", message, str(failed.name))
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
