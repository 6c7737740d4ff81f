"""The application over a real catalog, without Spark: what needs it is not called, or stands still until it is told."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from types import SimpleNamespace
from typing import Any

import httpx
from fastapi import FastAPI
from pydantic import SecretStr

from spark_trickle import Trickle
from spark_trickle.catalog.store import CatalogStore
from spark_trickle.config import Settings
from spark_trickle.web.app import create_app
from spark_trickle.web.work import Work
from tests.web.page_lake import PageLake
from tests.web.serving import served

TOKEN = "0123456789abcdef-token"


def engine(store: CatalogStore, settings: Settings) -> Any:
    """The facade with its catalog alone."""
    tr: Any = Trickle.__new__(Trickle)
    tr.store, tr.settings = store, settings
    sources = SimpleNamespace(pointers=store.pointers)
    lake = SimpleNamespace(session=None, history=PageLake.commits)
    tr.refresher = SimpleNamespace(attempts=SimpleNamespace(sources=sources), lake=lake)
    process = SimpleNamespace(pid=None, poll=lambda: None)
    context = SimpleNamespace(_gateway=SimpleNamespace(proc=process))
    tr.spark = SimpleNamespace(catalog=SimpleNamespace(currentDatabase=lambda: "default"), sparkContext=context)
    tr._inspector = SimpleNamespace(store_lineages=lambda _names: None)
    tr._scheduler = SimpleNamespace(is_running=True, leads=False)
    return tr


def app_over(tr: Any, token: str | None = None, work: Work | None = None) -> FastAPI:
    return create_app(tr, token=None if token is None else SecretStr(token), id="this", work=work or Work())


@contextmanager
def asking(app: FastAPI, token: str | None = None) -> Iterator[httpx.Client]:
    headers = {} if token is None else {"Authorization": f"Bearer {token}"}
    with served(app) as address, httpx.Client(base_url=address, trust_env=False, headers=headers) as client:
        yield client
    app.state.work.close()


def problem_of(response: httpx.Response, status: int, code: str) -> dict[str, Any]:
    assert response.status_code == status, response.text
    assert response.headers["content-type"] == "application/problem+json"
    found: dict[str, Any] = response.json()
    assert (found["status"], found["code"]) == (status, code)
    assert found["title"]
    assert found["detail"]
    assert found["hint"]
    return found
