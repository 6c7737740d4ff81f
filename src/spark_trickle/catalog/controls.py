"""Changes of a stream table that touch its row only: suspend, resume, another schedule. No Spark is needed."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from spark_trickle.catalog.leases import acquire, release
from spark_trickle.catalog.store import CatalogStore, Transaction
from spark_trickle.errors import TrickleError
from spark_trickle.model import Status, StreamTable, TableName

_TTL_SECONDS = 30.0  # the transaction takes milliseconds


def suspend(store: CatalogStore, name: TableName, wait_seconds: float) -> None:
    """Schedules leave it alone until it is resumed, altered, or refreshed by hand with success."""
    with _held(store, name, wait_seconds) as (tx, table):
        tx.update_stream_table(table.id, status=Status.SUSPENDED)
        if table.status is not Status.SUSPENDED:
            tx.alerts.raise_("SUSPENDED", f"{name} was suspended by hand", str(name), "info")


def resume(store: CatalogStore, name: TableName, wait_seconds: float) -> None:
    """Leave SUSPENDED or ERROR; failures are counted from zero."""
    with _held(store, name, wait_seconds) as (tx, table):
        tx.update_stream_table(table.id, status=working(table), consecutive_errors=0, last_error=None)
        stood = table.status in (Status.SUSPENDED, Status.ERROR)
        why = f"{name} was resumed" + (f"; it was {table.status}" if stood else "")
        tx.alerts.recovered(str(name), why, resumed=stood)


def set_schedule(store: CatalogStore, name: TableName, schedule: str, wait_seconds: float) -> None:
    """A checked schedule. As every ALTER, it puts a table that is SUSPENDED or in ERROR back on its schedule."""
    with _held(store, name, wait_seconds) as (tx, table):
        status = working(table)
        tx.update_stream_table(table.id, schedule=schedule, status=status, consecutive_errors=0, last_error=None)


def working(table: StreamTable) -> Status:
    """Its status when nothing is wrong."""
    return Status.INITIALIZING if table.published_snapshot is None else Status.ACTIVE


@contextmanager
def _held(store: CatalogStore, name: TableName, wait_seconds: float) -> Iterator[tuple[Transaction, StreamTable]]:
    """A stream table that nobody refreshes meanwhile: a publish would write its whole row."""
    table = store.find(name)
    try:
        lease = acquire(store, [f"stream_table:{table.id}"], store.owner, _TTL_SECONDS, wait_seconds)
    except TrickleError as error:
        raise TrickleError(error.code, f"{name} is being refreshed: {error.message}") from error
    try:
        now = store.find(name)
        if now.id != table.id:
            raise TrickleError("PUBLISH_CONFLICT", f"{name} was dropped and made again while this call waited for it")
        with store.write() as tx:
            tx.check_lease(lease)
            yield tx, now
    finally:
        release(store, lease)
