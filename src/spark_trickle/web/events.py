"""Server-sent events: tell browsers that what they show has changed.

One task looks at the lake for all of them, and only while somebody listens. An event carries the version of what is
there now; a browser that shows another version gets its page again.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import AsyncIterator, Callable

from fastapi.concurrency import run_in_threadpool

from spark_trickle.errors import TrickleError

_log = logging.getLogger(__name__)

_LONGEST_PAUSE = 30.0
UNREADABLE = "unreadable"  # the version of a lake whose catalog does not answer


def pause(took: float, every: float) -> float:
    """Seconds until the next look. A lake that takes long to look at is looked at less often, but is looked at.

    >>> pause(0.01, 1.0), pause(2.0, 1.0), pause(60.0, 1.0)
    (1.0, 20.0, 30.0)
    """
    return max(every, min(10 * took, _LONGEST_PAUSE))


class Events:
    """`look` gives the version, in a thread."""

    def __init__(
        self,
        look: Callable[[], str],
        *,
        most: int = 64,
        every: float = 1.0,
        heartbeat: float = 15.0,
    ) -> None:
        self._look = look
        self._most, self._every, self._heartbeat = most, every, heartbeat
        self._clients: set[asyncio.Queue[str]] = set()
        self._version: str | None = None
        self._task: asyncio.Task[None] | None = None

    @property
    def is_full(self) -> bool:
        return len(self._clients) >= self._most

    @property
    def clients(self) -> int:
        return len(self._clients)

    async def stream(self) -> AsyncIterator[str]:
        """The lines that one browser gets, until it is disconnected."""
        waiting: asyncio.Queue[str] = asyncio.Queue(1)
        self._clients.add(waiting)
        if self._task is None:
            self._version = None
            self._task = asyncio.create_task(self._watch())
        elif self._version is not None:
            waiting.put_nowait(self._version)
        try:
            yield "retry: 2000\n\n"
            while True:
                try:
                    async with asyncio.timeout(self._heartbeat):
                        version = await waiting.get()
                except TimeoutError:
                    yield ": still here\n\n"
                    continue
                yield f"event: version\ndata: {version}\n\n"
        finally:
            self._clients.discard(waiting)
            if not self._clients and self._task is not None:
                self._task.cancel()
                self._task = None

    def _tell(self, version: str) -> None:
        for waiting in self._clients:
            if waiting.full():
                waiting.get_nowait()  # the newest alone counts
            waiting.put_nowait(version)

    async def _watch(self) -> None:
        while True:
            began = time.monotonic()
            version = await self._see()
            took = time.monotonic() - began
            if version != self._version:
                self._version = version
                self._tell(version)
            await asyncio.sleep(pause(took, self._every))

    async def _see(self) -> str:
        try:
            return await run_in_threadpool(self._look)
        except TrickleError as error:
            _log.warning("the page cannot be kept up to date: %s", error)
        except Exception:
            _log.exception("the page cannot be kept up to date")
        return UNREADABLE
