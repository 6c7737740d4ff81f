"""Answers that many ask for: each is computed at most once in a while, by one of them, for all."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Hashable

from fastapi.concurrency import run_in_threadpool

from spark_trickle.lake.cache import LruCache

_LONGEST = 256 * 1024  # bytes of an answer that is kept


class Recent:
    """Answers by key, at most `seconds` old and newer than the last `forget`.

    What is kept is given out by the event loop itself: handing a request to a thread and back takes longer than
    that when all cores are busy with refreshes.
    """

    def __init__(self, seconds: float, entries: int) -> None:
        self._seconds = seconds
        self._entries = entries
        self._kept = LruCache[Hashable, _Entry](entries)

    async def get(self, key: Hashable, make: Callable[[], bytes]) -> bytes:
        entry = self._kept.find(key)
        if entry is None:
            entry = _Entry()
            self._kept.put(key, entry)
        found = entry.fresh()
        return await run_in_threadpool(entry.get, make, self._seconds) if found is None else found

    def forget(self) -> None:
        """Something was changed through this service: who did it sees it. An answer under way is not kept."""
        self._kept = LruCache[Hashable, _Entry](self._entries)


class _Entry:
    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._kept: tuple[float, bytes] | None = None  # until when

    def fresh(self) -> bytes | None:
        kept = self._kept
        return kept[1] if kept is not None and time.monotonic() < kept[0] else None

    def get(self, make: Callable[[], bytes], seconds: float) -> bytes:
        with self._lock:
            found = self.fresh()
            if found is None:
                found = make()
                if len(found) <= _LONGEST:
                    self._kept = (time.monotonic() + seconds, found)
            return found
