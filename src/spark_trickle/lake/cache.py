"""A cache of what never changes for its key: metadata files, versions, compiled definitions."""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Callable, Hashable
from typing import Generic, TypeVar

K = TypeVar("K", bound=Hashable)
V = TypeVar("V")


class LruCache(Generic[K, V]):
    """Keeps the `size` values used last; None is no value. Threads may share it."""

    def __init__(self, size: int = 256) -> None:
        self._size = size
        self._values: OrderedDict[K, V] = OrderedDict()
        self._lock = threading.Lock()

    def find(self, key: K) -> V | None:
        with self._lock:
            if key in self._values:
                self._values.move_to_end(key)
            return self._values.get(key)

    def put(self, key: K, value: V) -> None:
        with self._lock:
            self._values[key] = value
            self._values.move_to_end(key)
            while len(self._values) > self._size:
                self._values.popitem(last=False)

    def get(self, key: K, compute: Callable[[], V]) -> V:
        """The value, computed if it is not there. Two threads that ask at once both compute it."""
        value = self.find(key)
        if value is None:
            value = compute()  # may take long: not under the lock
            self.put(key, value)
        return value
