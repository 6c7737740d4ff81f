"""Asking the page for its HTML, over one server for all tests."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from types import SimpleNamespace
from typing import Any

import httpx
from fastapi.concurrency import run_in_threadpool

from spark_trickle.web import page
from spark_trickle.web.wording import path_of
from tests.web.html import Element, elements, faults
from tests.web.serving import app_of


class _Current:
    """One server for all tests: it passes requests on to the app of the test that runs."""

    def __init__(self) -> None:
        self.app: Any = None
        self.state = SimpleNamespace()

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        await self.app(scope, receive, send)


CURRENT = _Current()


@contextmanager
def asking(lake: Any, run: page.Run = run_in_threadpool) -> Iterator[httpx.Client]:
    CURRENT.app = app_of(page.router(lake, run))
    port = CURRENT.state.server.servers[0].sockets[0].getsockname()[1]
    with httpx.Client(base_url=f"http://127.0.0.1:{port}", trust_env=False, timeout=20) as client:
        yield client


def get(client: httpx.Client, path: str, status: int = 200) -> list[Element]:
    response = client.get(path)
    assert response.status_code == status, response.text
    assert faults(response.text) == [], path
    return elements(response.text)


def text_of(found: list[Element], tag: str = "main") -> str:
    return next(e.text for e in found if e.tag == tag)


def row_of(found: list[Element], name: str) -> str:
    """The row of the table of stream tables."""
    rows = [e for e in found if e.tag == "tr" and e.attributes.get("id", "").startswith("row-")]
    return next(r.text for r in rows for th in found if th.tag == "th" and r in th.above and th.text.startswith(name))


def press(client: httpx.Client, action: str, name: str = "s.t") -> str:
    answer = client.post(path_of(name), data={"action": action})
    assert answer.status_code == 303
    return text_of(get(client, path_of(name)))
