"""What `trickle up` serves, from the free port to the entry by which other commands find it; and its log."""

from __future__ import annotations

import gc
import logging
import os
import sys
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from spark_trickle.cli.common import load_settings
from spark_trickle.monitor.json_log import JsonFormatter
from spark_trickle.web.registration import Registration, Service

if TYPE_CHECKING:
    from spark_trickle.engine import Trickle
    from spark_trickle.web.server import Server

_BEHIND = 10  # nice


@dataclass(frozen=True, slots=True)
class Served:
    url: str
    server: Server
    registration: Registration
    jvm: int | None  # its process

    def start(self) -> None:
        put_behind(self.jvm)
        gc.collect()
        gc.freeze()  # what is there now stays: each later search for garbage among it would hold up all requests
        self.server.start()
        self.registration.keep()

    def keep(self) -> None:
        self.registration.keep()
        put_behind(self.jvm)

    def stop(self) -> None:
        self.registration.remove()
        self.server.stop()


@contextmanager
def serving(web: bool, host: str | None, port: int | None) -> Iterator[Callable[[Trickle], Served | None]]:
    """The address is taken at once, before Spark starts; what is yielded makes the server of a lake."""
    if not web:
        yield lambda _: None
        return
    from spark_trickle.web.server import Server, listen, url_of

    settings = load_settings()
    token = settings.token
    host = settings.service_host if host is None else host
    port = settings.service_port if port is None else port
    with closing(listen(host, port, has_token=token is not None)) as listener:

        def attach(tr: Trickle) -> Served:
            from spark_trickle.spark.session import jvm_process
            from spark_trickle.web.app import create_app

            service = Service.here(url_of(listener))
            app = create_app(tr, token=token, id=service.id, port=listener.getsockname()[1])
            entry = Registration(tr.settings, tr.store, service)
            jvm = jvm_process(tr.spark)
            return Served(service.url, Server(app, listener), entry, None if jvm is None else jvm.pid)

        yield attach


def put_behind(process: int | None) -> None:
    """Give the threads of Spark's JVM a lower priority than those that answer requests.

    On cores that refreshes keep busy, an answer would wait several times for its turn. Threads that start later
    have the priority of those that started them.
    """
    folder = Path(f"/proc/{process}/task")
    if process is None or not folder.is_dir():  # not started here, or not on Linux
        return
    for thread in os.listdir(folder):
        with suppress(OSError):  # it has ended
            if os.getpriority(os.PRIO_PROCESS, int(thread)) < _BEHIND:
                os.setpriority(os.PRIO_PROCESS, int(thread), _BEHIND)


def write_log(*, as_json: bool) -> None:
    """Warnings for people; for programs also every refresh."""
    handler = logging.StreamHandler(sys.stderr)
    plain = logging.Formatter("%(asctime)s %(levelname)s %(name)s: %(message)s")
    handler.setFormatter(JsonFormatter() if as_json else plain)
    for name in ("spark_trickle", "uvicorn"):
        logger = logging.getLogger(name)
        logger.handlers = [handler]
        logger.propagate = False
        logger.setLevel(logging.INFO if as_json else logging.WARNING)
