"""The timed stages of a refresh, under names that the history keeps."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager


class Stages:
    """Seconds per stage; a stage entered twice adds up."""

    def __init__(self) -> None:
        self.seconds: dict[str, float] = {}
        self.started = time.perf_counter()
        self.ended: float | None = None

    def end(self) -> None:
        """What happens from now on is not of this refresh: others of the same publish go on."""
        self.ended = time.perf_counter()

    @contextmanager
    def __call__(self, name: str) -> Iterator[None]:
        start = time.perf_counter()
        try:
            yield
        finally:
            self.seconds[name] = self.seconds.get(name, 0.0) + time.perf_counter() - start

    @property
    def total(self) -> float:
        return (self.ended or time.perf_counter()) - self.started

    def rounded(self) -> dict[str, float]:
        return {name: round(seconds, 4) for name, seconds in self.seconds.items()}
