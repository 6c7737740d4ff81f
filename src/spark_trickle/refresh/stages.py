"""The timed stages of a refresh, under names that the history keeps."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Interval:
    """A stage from one moment to another, in nanoseconds of Unix time."""

    stage: str
    start: int
    end: int


class Stages:
    """Seconds per stage; a stage entered twice adds up."""

    def __init__(self) -> None:
        self.seconds: dict[str, float] = {}
        self.intervals: list[Interval] = []
        self.started = time.perf_counter()
        self.ended: float | None = None
        self._began_at = time.time_ns()

    def end(self) -> None:
        """What happens from now on is not of this refresh: others of the same publish go on."""
        self.ended = time.perf_counter()

    @contextmanager
    def __call__(self, name: str) -> Iterator[None]:
        start = time.perf_counter()
        try:
            yield
        finally:
            end = time.perf_counter()
            self.seconds[name] = self.seconds.get(name, 0.0) + end - start
            self.intervals.append(Interval(name, self._at(start), self._at(end)))

    @property
    def total(self) -> float:
        return (self.ended or time.perf_counter()) - self.started

    @property
    def whole(self) -> Interval:
        """All of it, until now if it goes on; the publish of a group, too."""
        end = self._at(self.ended or time.perf_counter())
        return Interval("", self._began_at, max([end, *(i.end for i in self.intervals)]))

    def rounded(self) -> dict[str, float]:
        return {name: round(seconds, 4) for name, seconds in self.seconds.items()}

    def _at(self, moment: float) -> int:
        # Unix time is asked once: it may be set while a refresh runs.
        return self._began_at + int((moment - self.started) * 1e9)
