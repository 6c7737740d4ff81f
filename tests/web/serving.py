"""Routers on a real uvicorn, on a port of the loopback interface."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager

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


@contextmanager
def served(app: FastAPI) -> Iterator[str]:
    """The address of the running server."""
    server = uvicorn.Server(uvicorn.Config(app, host="127.0.0.1", port=0, log_config=None, lifespan="off"))
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
