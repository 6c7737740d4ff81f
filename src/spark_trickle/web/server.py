"""The application on a socket, in a thread of its own."""

from __future__ import annotations

import socket
import threading
import time

import uvicorn
from fastapi import FastAPI

from spark_trickle.errors import TrickleError
from spark_trickle.web.security import is_loopback

_BACKLOG = 256


def listen(host: str, port: int, *, has_token: bool) -> socket.socket:
    """The socket, before anything slow is started. Without a token it is one of the loopback interface."""
    try:
        known = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE)
    except OSError as error:
        raise TrickleError("INVALID_SETTING", f"service_host {host!r} is not an address: {error.strerror}.") from error
    # With its protocol number: else asyncio leaves Nagle's algorithm on, and an answer waits 40 ms for a late ACK.
    family, kind, protocol, _, address = known[0]
    if not has_token and not is_loopback(str(address[0])):
        raise TrickleError(
            "INVALID_SETTING",
            f"To listen at {host}, which other machines can reach, the service needs a token.",
            hint="Set TRICKLE_SERVICE_TOKEN or service_token_file, or leave service_host at 127.0.0.1.",
        )
    listener = socket.socket(family, kind, protocol)
    try:
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listener.bind(address)
        listener.listen(_BACKLOG)
    except OSError as error:
        listener.close()
        why = f"`trickle up` cannot listen at {host}:{port}: {error.strerror}."
        raise TrickleError("ADDRESS_IN_USE", why) from error
    return listener


def url_of(listener: socket.socket) -> str:
    """Where this machine reaches it."""
    host, port = listener.getsockname()[:2]
    host = {"0.0.0.0": "127.0.0.1", "::": "::1"}.get(host, host)
    return f"http://[{host}]:{port}" if ":" in host else f"http://{host}:{port}"


class Server:
    """`start` it, and `stop` it: it then takes no more requests, answers those it has, and is gone."""

    def __init__(self, app: FastAPI, listener: socket.socket) -> None:
        config = uvicorn.Config(
            app, log_config=None, access_log=False, server_header=False, lifespan="off", ws="none", backlog=_BACKLOG
        )
        self._app = app
        self._server = _Server(config)
        self._thread = threading.Thread(
            target=self._server.run, args=([listener],), name="trickle-service", daemon=True
        )

    def start(self) -> None:
        self._thread.start()
        while not self._server.started:
            if not self._thread.is_alive():
                raise TrickleError("INTERNAL", "The web server did not start; the log says why.")
            time.sleep(0.01)

    def stop(self) -> None:
        self._app.state.work.refuse()
        self._server.should_exit = True
        self._thread.join()
        self._app.state.work.close()


class _Server(uvicorn.Server):
    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        self.config.app.state.ending.set()  # type: ignore[union-attr]
        await super().shutdown(sockets)
