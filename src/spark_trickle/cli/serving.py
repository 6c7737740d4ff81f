"""What `trickle up` serves, from the free port to the entry by which other commands find it; and its log."""

from __future__ import annotations

import json
import logging
import sys
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import TYPE_CHECKING

from spark_trickle.cli.common import load_settings
from spark_trickle.web.registration import Registration, Service

if TYPE_CHECKING:
    from spark_trickle.engine import Trickle
    from spark_trickle.web.server import Server


@dataclass(frozen=True, slots=True)
class Served:
    url: str
    server: Server
    registration: Registration

    def start(self) -> None:
        self.server.start()
        self.registration.keep()

    def keep(self) -> None:
        self.registration.keep()

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
            from spark_trickle.web.app import create_app

            service = Service.here(url_of(listener))
            app = create_app(tr, token=token, id=service.id, port=listener.getsockname()[1])
            return Served(service.url, Server(app, listener), Registration(tr.settings, tr.store, service))

        yield attach


class _Json(logging.Formatter):
    def format(self, record: logging.LogRecord) -> str:
        at = datetime.fromtimestamp(record.created, UTC).isoformat()
        line = {"at": at, "level": record.levelname, "logger": record.name, "message": record.getMessage()}
        if record.exc_info:
            line["traceback"] = self.formatException(record.exc_info)
        return json.dumps(line, ensure_ascii=False)


def write_log(*, as_json: bool) -> None:
    """Warnings for people; for programs also every refresh."""
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(_Json() if as_json else logging.Formatter("%(asctime)s %(levelname)s %(name)s: %(message)s"))
    for name in ("spark_trickle", "uvicorn"):
        logger = logging.getLogger(name)
        logger.handlers = [handler]
        logger.propagate = False
        logger.setLevel(logging.INFO if as_json else logging.WARNING)
