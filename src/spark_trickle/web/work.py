"""What takes long, in a bounded number of threads, with a bounded number of requests that wait for one."""

from __future__ import annotations

import asyncio
import logging
import threading
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Any, Protocol, TypeVar

from spark_trickle.errors import TrickleError
from spark_trickle.spark.analyze import spark_error

_log = logging.getLogger(__name__)

T = TypeVar("T")

WORKERS = 4  # Spark runs their jobs beside each other; more would only share its cores
WAITING = 32


class Run(Protocol):
    """`await run(function, *args)`: a call that needs Spark, or may wait for a lease."""

    async def __call__(self, function: Callable[..., T], /, *args: Any) -> T: ...


class Work:
    """A `Run`. `prepare` is called in a worker before each call."""

    def __init__(
        self, prepare: Callable[[], object] = lambda: None, *, workers: int = WORKERS, waiting: int = WAITING
    ) -> None:
        self._prepare = prepare
        self._pool = ThreadPoolExecutor(workers, thread_name_prefix="trickle-web")
        self._places = threading.Semaphore(workers + waiting)
        self._closed = False

    async def __call__(self, function: Callable[..., T], /, *args: Any) -> T:
        if not self._places.acquire(blocking=False):
            raise TrickleError("SERVICE_BUSY", "The service has as many requests waiting as it accepts.")
        try:
            future: Future[T] = self._pool.submit(self._call, function, *args)
        except RuntimeError:
            self._places.release()
            raise _stopping() from None
        future.add_done_callback(lambda _: self._places.release())
        try:
            return await asyncio.wrap_future(future)
        except asyncio.CancelledError:
            if self._closed and future.cancelled():
                raise _stopping() from None
            raise

    def _call(self, function: Callable[..., T], *args: Any) -> T:
        try:
            self._prepare()
            return function(*args)
        except TrickleError:
            raise
        except Exception as error:
            _log.exception("a request failed")
            raise spark_error(error) from error

    def refuse(self) -> None:
        """Take no more, let go of what waits; what runs goes on."""
        self._closed = True
        self._pool.shutdown(wait=False, cancel_futures=True)

    def close(self) -> None:
        self.refuse()
        self._pool.shutdown()


def _stopping() -> TrickleError:
    return TrickleError("SERVICE_BUSY", "The service is stopping.", hint="Ask again when it runs.")
