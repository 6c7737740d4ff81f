"""Refreshes of all time, added up from the history a little at a time.

What ended some minutes ago is added once and remembered. The rest is read again at every look: a refresh may still
run, and a transaction that is late may bring a row with a smaller id than those that are there. When old history was
deleted, what is stored of it and the rest are added up anew.
"""

from __future__ import annotations

import threading
from collections.abc import Sequence
from datetime import datetime, timedelta

from spark_trickle.catalog.reader import CatalogReader
from spark_trickle.catalog.retention import DELETED, Key, add, deleted_sums
from spark_trickle.catalog.rows import RefreshSum

_LATE = timedelta(minutes=10)  # after which no row of an ended refresh is expected any more


class Totals:
    """Shared by threads. `limits` are the bounds of the durations that are told apart."""

    def __init__(self, reader: CatalogReader, limits: Sequence[float]) -> None:
        self._reader = reader
        self._limits = tuple(limits)
        self._settled: dict[Key, RefreshSum] = {}
        self._upto = 0  # the last id in the settled sums
        self._deleted: str | None = None  # what is in the settled sums of deleted history
        self._lock = threading.Lock()

    def look(self, now: datetime) -> tuple[RefreshSum, ...]:
        with self._lock:
            while True:
                found, deleted = self._look(now), self._reader.setting(DELETED)
                if deleted == self._deleted:
                    return found
                # Some was deleted since, perhaps between two of these queries.
                self._deleted, stored = deleted_sums(self._reader)
                self._settled, self._upto = {}, 0
                add(self._settled, stored)

    def _look(self, now: datetime) -> tuple[RefreshSum, ...]:
        upto = self._reader.settled(self._upto, now - _LATE)
        if upto > self._upto:
            add(self._settled, self._reader.refresh_sums(self._upto, upto, self._limits))
        self._upto = upto
        found = dict(self._settled)
        add(found, self._reader.refresh_sums(self._upto, None, self._limits))
        return tuple(found.values())
