"""The application that `trickle up` serves: the API, the REST catalog, metrics, the page, and whether it works.

/api/v1       the HTTP API (docs/service.md)     /healthz  the process lives
/iceberg      the REST catalog                   /readyz   the catalog answers, the scheduler runs
/metrics      for Prometheus                     /docs     the API as a page, /openapi.json for programs
/             the page
"""

from __future__ import annotations

import asyncio
import threading
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from typing import TYPE_CHECKING, Any

from fastapi import FastAPI
from fastapi.responses import HTMLResponse
from pydantic import SecretStr

from spark_trickle import __version__
from spark_trickle.errors import TrickleError
from spark_trickle.lake import jvm
from spark_trickle.scheduler.decide import ENABLED
from spark_trickle.web import api, metrics, page, problem, rest_catalog
from spark_trickle.web.problem import Problem
from spark_trickle.web.reference import reference
from spark_trickle.web.security import Guard, Sessions, add_login
from spark_trickle.web.work import Work

if TYPE_CHECKING:
    from spark_trickle.engine import Trickle


def create_app(
    tr: Trickle, *, token: SecretStr | None = None, id: str = "", port: int = 0, work: Work | None = None
) -> FastAPI:
    """`id` tells this service from others (`/healthz` says it). `app.state.work` is to be closed at the end."""
    app = FastAPI(
        title="Trickle",
        version=__version__,
        description="Stream tables of a lake. Errors are problem details (RFC 9457).",
        docs_url=None,  # its page loads scripts from elsewhere
        redoc_url=None,
        responses={"default": {"model": Problem, "description": "Why not."}},
        separate_input_output_schemas=False,
    )
    run = app.state.work = work or Work(partial(_own_pool, tr))
    ending = app.state.ending = asyncio.Event()
    # Browsers send a cookie to all ports of a host: several services on one must not share its name.
    sessions = None if token is None else Sessions(token, f"trickle_session_{port}")

    @app.get("/healthz", include_in_schema=False)
    async def healthz() -> dict[str, str]:
        return {"status": "ok", "id": id}

    # A thread of its own: those that all requests share may wait for something slow, and this says nothing of that.
    probe = ThreadPoolExecutor(1, thread_name_prefix="trickle-ready")

    @app.get("/readyz", include_in_schema=False)
    async def readyz() -> dict[str, Any]:
        return await asyncio.get_running_loop().run_in_executor(probe, _ready, tr)

    read = partial(jvm.read_file, tr.refresher.lake.session)
    recent = api.recent_answers()
    app.include_router(api.router(tr, run, recent))
    app.include_router(rest_catalog.router(tr.store, tr.settings, read), prefix="/iceberg")
    pointers = tr.refresher.attempts.sources.pointers
    app.include_router(metrics.router(tr.store, lambda: tr.settings, pointers, lambda: tr.leads))
    app.include_router(page.router(tr, run, changed=recent.forget, can_log_out=sessions is not None))
    add_login(app, sessions)
    problem.install(app)

    @app.get("/docs", include_in_schema=False)
    async def docs() -> HTMLResponse:
        return HTMLResponse(reference(app.openapi()))

    app.add_middleware(Guard, names=tr.settings.service_names, sessions=sessions, ending=ending)
    return app


def _ready(tr: Trickle) -> dict[str, Any]:
    tr.store.setting(ENABLED)  # an error if the catalog does not answer
    if not tr.spark_runs:
        raise TrickleError("SPARK_FAILED", "Spark's JVM is gone.", hint="Start `trickle up` again.")
    if not tr.follows_schedules:
        raise TrickleError("SERVICE_BUSY", "The scheduler of this service does not run.")
    return {"status": "ok", "leads": tr.leads}


def _own_pool(tr: Trickle) -> None:
    """Each worker has a pool of Spark's fair scheduler, so that long work does not hold up refreshes."""
    tr.spark.sparkContext.setLocalProperty("spark.scheduler.pool", f"trickle-web-{threading.get_ident()}")
