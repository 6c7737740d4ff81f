"""Routers on a real uvicorn, on a port of the loopback interface."""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import uvicorn
from fastapi import APIRouter, FastAPI, Request, Response

from spark_trickle.web import rest_catalog

__all__ = ["TOKEN", "app_of", "served"]

TOKEN = "a token of the tests"


def app_of(routes: APIRouter, prefix: str = "", *, token: str | None = None) -> FastAPI:
    """An app with a router; with a token it refuses requests without one, as the app of `trickle up` does."""
    app = FastAPI()
    app.include_router(routes, prefix=prefix)
    if token is not None:

        @app.middleware("http")
        async def check(request: Request, call_next) -> Response:  # type: ignore[no-untyped-def]
            if request.headers.get("authorization") != f"Bearer {token}":
                return Response(rest_catalog.error_body(401, "NotAuthorizedException", "no token"), 401)
            return await call_next(request)

    return app


class _Ending:
    """Disconnects clients when the server stops, as the app of `trickle up` does: answers without end hold it up."""

    def __init__(self, app: Any, server: list[uvicorn.Server]) -> None:
        self._app, self._server = app, server

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        async def received() -> Any:
            message = asyncio.ensure_future(receive())
            try:
                while not message.done() and not self._server[0].should_exit:
                    await asyncio.wait({message}, timeout=0.1)
                return message.result() if message.done() else {"type": "http.disconnect"}
            finally:
                message.cancel()

        is_open = False

        async def sent(message: Any) -> None:
            nonlocal is_open
            is_open = message["type"] == "http.response.start" or message.get("more_body", False)
            await send(message)

        await self._app(scope, received, sent)
        if is_open and self._server[0].should_exit:
            await send({"type": "http.response.body"})


@contextmanager
def served(app: FastAPI) -> Iterator[str]:
    """The address of the running server."""
    running: list[uvicorn.Server] = []
    server = uvicorn.Server(
        uvicorn.Config(_Ending(app, running), host="127.0.0.1", port=0, log_config=None, lifespan="off")
    )
    running.append(server)
    app.state.server = server
    thread = threading.Thread(target=server.run, daemon=True)
    thread.start()
    try:
        deadline = time.monotonic() + 20
        while not server.started:
            assert time.monotonic() < deadline, "the server does not start"
            time.sleep(0.01)
        yield f"http://127.0.0.1:{server.servers[0].sockets[0].getsockname()[1]}"
    finally:
        server.should_exit = True
        thread.join(20)
