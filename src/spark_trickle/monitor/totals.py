"""Refreshes of all time, added up from the history a little at a time.

What ended some minutes ago is added once and remembered, so the sums go on growing when old history is deleted. The
rest is read again at every look: a refresh may still run, and a transaction that is late may bring a row with a smaller
id than those that are there.
"""

from __future__ import annotations

import threading
from collections.abc import Iterable, Sequence
from dataclasses import replace
from datetime import datetime, timedelta

from spark_trickle.catalog.reader import CatalogReader
from spark_trickle.catalog.rows import RefreshSum

_LATE = timedelta(minutes=10)  # after which no row of an ended refresh is expected any more

_Key = tuple[int | None, str, str | None, int]


class Totals:
    """Shared by threads. `limits` are the bounds of the durations that are told apart."""

    def __init__(self, reader: CatalogReader, limits: Sequence[float]) -> None:
        self._reader = reader
        self._limits = tuple(limits)
        self._settled: dict[_Key, RefreshSum] = {}
        self._upto = 0  # the last id in the settled sums
        self._lock = threading.Lock()

    def look(self, now: datetime) -> tuple[RefreshSum, ...]:
        with self._lock:
            upto = self._reader.settled(self._upto, now - _LATE)
            if upto > self._upto:
                add(self._settled, self._reader.refresh_sums(self._upto, upto, self._limits))
            self._upto = upto
            found = dict(self._settled)
            add(found, self._reader.refresh_sums(self._upto, None, self._limits))
        return tuple(found.values())


def add(sums: dict[_Key, RefreshSum], more: Iterable[RefreshSum]) -> None:
    for group in more:
        key = (group.stream_table_id, group.state, group.action, group.bucket)
        had = sums.get(key)
        sums[key] = group if had is None else _plus(had, group)


def _plus(a: RefreshSum, b: RefreshSum) -> RefreshSum:
    return replace(
        a,
        refreshes=a.refreshes + b.refreshes,
        seconds=a.seconds + b.seconds,
        rows_inserted=a.rows_inserted + b.rows_inserted,
        rows_updated=a.rows_updated + b.rows_updated,
        rows_deleted=a.rows_deleted + b.rows_deleted,
    )
