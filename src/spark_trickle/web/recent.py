"""An answer that many ask for: it is computed at most once in a while, by one of them, for all."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from typing import Generic, TypeVar

from fastapi.concurrency import run_in_threadpool

T = TypeVar("T")


class Recent(Generic[T]):
    """`make` is called in a worker thread. An answer is at most `seconds` old, and newer than `forget`."""

    def __init__(self, make: Callable[[], T], seconds: float) -> None:
        self._make = make
        self._seconds = seconds
        self._lock = threading.Lock()
        self._kept: tuple[float, int, T] | None = None  # until when, version, answer
        self._version = 0

    async def get(self) -> T:
        kept = self._fresh()
        return await run_in_threadpool(self._get) if kept is None else kept[2]

    def forget(self) -> None:
        """Something was changed through this service: who did it sees it."""
        self._version += 1

    def _fresh(self) -> tuple[float, int, T] | None:
        kept = self._kept
        return kept if kept is not None and time.monotonic() < kept[0] and kept[1] == self._version else None

    def _get(self) -> T:
        with self._lock:
            kept = self._fresh()
            if kept is None:
                version = self._version
                made = self._make()
                kept = self._kept = (time.monotonic() + self._seconds, version, made)
            return kept[2]
