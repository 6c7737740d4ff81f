"""The HTTP API. Each route calls the engine once; what needs Spark, or may wait for a lease, goes through `run`."""

from __future__ import annotations

from collections.abc import Callable
from enum import StrEnum
from functools import cache, partial
from typing import TYPE_CHECKING, Annotated, Any, TypeVar
from urllib.parse import unquote

from fastapi import APIRouter, Path, Query, Response
from pydantic import AfterValidator, BaseModel, ConfigDict, TypeAdapter

from spark_trickle import __version__
from spark_trickle.catalog.rows import Alert, NamedCut
from spark_trickle.errors import TrickleError
from spark_trickle.graph.draw import Dag
from spark_trickle.model import Source
from spark_trickle.monitor.statistics import Statistics
from spark_trickle.results import (
    Check,
    Description,
    Explanation,
    HistoryEntry,
    PlannedRefresh,
    RefreshResult,
    StreamTableStatus,
    Verification,
)
from spark_trickle.scheduler.decide import ENABLED
from spark_trickle.spark.names import quote
from spark_trickle.statements.execute import execute
from spark_trickle.statements.parse import parse_statement
from spark_trickle.web.problem import Problem, problem
from spark_trickle.web.recent import Recent
from spark_trickle.web.work import Run

if TYPE_CHECKING:
    from spark_trickle.engine import Trickle

_RECENT_SECONDS = 0.25  # how old an answer may be that the catalog gives
_RECENT_ANSWERS = 256
_MANY = 10_000

T = TypeVar("T")


def _decoded(text: str) -> str:
    name = unquote(text)
    if "\x00" in name:
        raise ValueError("a name has no NUL character")
    return name


Name = Annotated[
    str,
    Path(description="As in SQL: shop.revenue; a part with special characters in backticks."),
    AfterValidator(_decoded),
]
Limit = Annotated[int, Query(ge=1, le=_MANY)]


class Body(BaseModel):
    model_config = ConfigDict(extra="forbid")


class Service(BaseModel):
    version: str
    lake: str
    enabled: bool  # the schedules of the lake
    leads: bool  # this process follows them; else it stands by


class Create(Body):
    name: str
    query: str
    schedule: str | None = None
    mode: str = "auto"
    initialize: bool = True
    star: str = "pin"
    settings: dict[str, str] = {}
    partitioned_by: list[str] = []
    cluster_by: list[str] = []
    comment: str | None = None
    properties: dict[str, str] = {}


class Alter(Body):
    """What is left out stays as it is."""

    query: str | None = None
    schedule: str | None = None
    mode: str | None = None
    star: str | None = None
    settings: dict[str, str] = {}


class Refresh(Body):
    mode: str | None = None
    upstream: bool = True


class RefreshMany(Refresh):
    names: list[str] = []  # several: a group, all or none
    all: bool = False  # every stream table, one by one


class Refreshed(BaseModel):
    results: tuple[RefreshResult, ...]
    failed: tuple[Problem, ...] = ()  # with `all`


class Verify(Body):
    deep: bool = False


class QueryText(Body):
    query: str


class Statement(Body):
    sql: str


class Done(BaseModel):
    """`kind` names the class of what the statement gave: RefreshResult, StreamTableStatus, Description, …"""

    kind: str | None
    many: bool
    result: Any


class CutName(Body):
    name: str
    comment: str | None = None


class Drawing(StrEnum):
    JSON = "json"
    MERMAID = "mermaid"
    DOT = "dot"
    SVG = "svg"


_DRAWINGS = {
    Drawing.MERMAID: "text/plain; charset=utf-8",
    Drawing.DOT: "text/vnd.graphviz; charset=utf-8",
    Drawing.SVG: "image/svg+xml",
}


def router(tr: Trickle, run: Run) -> APIRouter:
    routes = APIRouter(prefix="/api/v1")
    recent = Recent(_RECENT_SECONDS, _RECENT_ANSWERS)

    async def answer(type_: Any, function: Callable[..., Any], *args: Any) -> Response:
        """What the catalog alone tells."""

        def make() -> bytes:
            return _adapter(type_).dump_json(function(*args))

        return Response(await recent.get((function.__name__, args), make), media_type="application/json")

    async def change(function: Callable[..., T], *args: Any) -> T:
        try:
            return await run(function, *args)
        finally:
            recent.forget()

    # -- the lake ------------------------------------------------------------------------------------------------------

    def known() -> Service:
        enabled = tr.store.setting(ENABLED) != "false"
        return Service(version=__version__, lake=tr.settings.shown_catalog, enabled=enabled, leads=tr.leads)

    @routes.get("/service", tags=["lake"], response_model=Service)
    async def service() -> Response:
        """What answers here."""
        return await answer(Service, known)

    @routes.post("/enable", tags=["lake"])
    async def enable() -> None:
        """Let the lake's schedules run again."""
        await change(tr.set_enabled, True)

    @routes.post("/disable", tags=["lake"])
    async def disable() -> None:
        """Stop all schedules of the lake, whoever runs them. Refreshes by hand still work."""
        await change(tr.set_enabled, False)

    @routes.get("/alerts", tags=["lake"], response_model=tuple[Alert, ...])
    async def alerts(limit: Limit = 50) -> Response:
        """What somebody should know, the newest first."""
        return await answer(tuple[Alert, ...], tr.alerts, limit)

    @routes.get("/graph", tags=["lake"], response_model=Dag)
    async def graph(format: Drawing = Drawing.JSON) -> Response:
        """The stream tables and what they read."""
        if format is Drawing.JSON:
            return await answer(Dag, tr.graph)

        def draw() -> bytes:
            return str(getattr(tr.graph(), format.value)()).encode()

        return Response(await recent.get(("drawing", format), draw), media_type=_DRAWINGS[format])

    @routes.get("/sources", tags=["lake"], response_model=tuple[Source, ...])
    async def sources() -> Response:
        """The tables outside the lake that it knows by name."""
        return await answer(tuple[Source, ...], tr.sources)

    @routes.get("/history", tags=["lake"], response_model=tuple[HistoryEntry, ...])
    async def history(limit: Limit = 50) -> Response:
        """Refreshes of all stream tables, the newest first."""
        return await answer(tuple[HistoryEntry, ...], tr.history, None, limit)

    @routes.get("/statistics", tags=["lake"], response_model=tuple[Statistics, ...])
    async def statistics(limit: Limit = 1000) -> Response:
        """The last refreshes in figures, for each stream table."""
        return await answer(tuple[Statistics, ...], tr.statistics, limit)

    @routes.get("/cuts", tags=["cuts"], response_model=tuple[NamedCut, ...])
    async def cuts() -> Response:
        """The instants that are kept."""
        return await answer(tuple[NamedCut, ...], tr.cuts)

    @routes.post("/cuts", tags=["cuts"], status_code=201)
    async def create_cut(body: CutName) -> NamedCut:
        """Keep this instant of the whole lake under a name."""
        return await change(tr.create_cut, body.name, body.comment)

    @routes.delete("/cuts/{name}", tags=["cuts"])
    async def drop_cut(name: Name) -> None:
        await change(tr.drop_cut, name)

    # -- stream tables -------------------------------------------------------------------------------------------------

    @routes.get("/stream-tables", tags=["stream tables"], response_model=tuple[StreamTableStatus, ...])
    async def list_() -> Response:
        """How every stream table stands."""
        return await answer(tuple[StreamTableStatus, ...], tr.status)

    @routes.post("/stream-tables", tags=["stream tables"], status_code=201)
    async def create(body: Create) -> RefreshResult:
        """Define a stream table and fill it."""
        call = partial(
            tr.create_stream_table,
            partitioned_by=body.partitioned_by,
            cluster_by=body.cluster_by,
            comment=body.comment,
            properties=body.properties,
        )
        first = (body.name, body.query, body.schedule, body.mode, body.initialize, body.star, body.settings)
        return await change(call, *first)

    @routes.get("/stream-tables/{name}", tags=["stream tables"], response_model=Description)
    async def describe(name: Name) -> Response:
        """Its definition, and everything that bears on the definition's meaning."""
        return await answer(Description, tr.describe, name)

    @routes.patch("/stream-tables/{name}", tags=["stream tables"])
    async def alter(name: Name, body: Alter) -> RefreshResult | None:
        """Change what is given. A changed query or setting recomputes the table, in one transaction."""
        what = (body.query, body.schedule, body.mode, body.star, body.settings)
        return await change(tr.alter_stream_table, name, *what)

    @routes.delete("/stream-tables/{name}", tags=["stream tables"])
    async def drop(name: Name, cascade: bool = False, if_exists: bool = False) -> tuple[str, ...]:
        """Drop it and its files; with `cascade` also those that read it. Returns what was dropped."""
        return await change(tr.drop_stream_table, name, cascade, if_exists)

    def one_status(name: str) -> StreamTableStatus:
        return tr.status(name)[0]

    @routes.get("/stream-tables/{name}/status", tags=["stream tables"], response_model=StreamTableStatus)
    async def status_of(name: Name) -> Response:
        """How it stands."""
        return await answer(StreamTableStatus, one_status, name)

    def one_history(name: str, limit: int) -> tuple[HistoryEntry, ...]:
        tr.describe(name)  # there is one of that name
        return tr.history(name, limit)

    @routes.get("/stream-tables/{name}/history", tags=["stream tables"], response_model=tuple[HistoryEntry, ...])
    async def history_of(name: Name, limit: Limit = 50) -> Response:
        """Its refreshes, the newest first."""
        return await answer(tuple[HistoryEntry, ...], one_history, name, limit)

    @routes.get("/stream-tables/{name}/explain", tags=["stream tables"])
    async def explain(name: Name) -> Explanation:
        """How it is maintained, and what the next refresh would do."""
        return await run(tr.explain, name)

    @routes.post("/stream-tables/{name}/refresh", tags=["refresh"])
    async def refresh(name: Name, body: Refresh | None = None) -> RefreshResult:
        """Bring it up to now; the answer comes when that is done."""
        asked = body or Refresh()
        return await change(partial(tr.refresh, name, asked.mode, upstream=asked.upstream))

    @routes.post("/stream-tables/{name}/suspend", tags=["refresh"])
    async def suspend(name: Name) -> None:
        """Take it off its schedule."""
        await change(tr.suspend, name)

    @routes.post("/stream-tables/{name}/resume", tags=["refresh"])
    async def resume(name: Name) -> None:
        """Put it back on its schedule."""
        await change(tr.resume, name)

    @routes.post("/stream-tables/{name}/verify", tags=["stream tables"])
    async def verify(name: Name, body: Verify | None = None) -> Verification:
        """Compare it with its definition at its frontier, row by row."""
        return await run(tr.verify, name, (body or Verify()).deep)

    # -- several, and text ---------------------------------------------------------------------------------------------

    @routes.post("/refresh", tags=["refresh"])
    async def refresh_many(body: RefreshMany) -> Refreshed:
        """Refresh some as one group, all or none; or all, one by one, where one that fails does not stop the others."""
        if body.all == bool(body.names):
            raise TrickleError("INVALID_REQUEST", "Name stream tables, or say all.", hint='Send {"all": true}, say.')
        if body.all:
            return await change(_refresh_all, tr, body)
        names: Any = body.names[0] if len(body.names) == 1 else body.names
        found = await change(partial(tr.refresh, names, body.mode, upstream=body.upstream))
        return Refreshed(results=found if isinstance(found, tuple) else (found,))

    @routes.post("/plan", tags=["refresh"])
    async def plan(body: RefreshMany) -> tuple[PlannedRefresh, ...]:
        """What a refresh would do now. Nothing is written."""
        names = _all_names(tr) if body.all else body.names
        return await run(partial(tr.plan, names, body.mode, upstream=body.upstream))

    @routes.post("/check", tags=["stream tables"])
    async def check(body: QueryText) -> Check:
        """Whether a query would be incremental; if not, why, and what to change. Nothing is created."""
        return await run(tr.check, body.query)

    @routes.post("/sql", tags=["stream tables"])
    async def sql(body: Statement) -> Done:
        """Run one STREAM TABLE statement: CREATE, ALTER, DROP, REFRESH, DESCRIBE, EXPLAIN, SHOW."""
        statement = parse_statement(body.sql)
        if statement is None:
            raise TrickleError(
                "INVALID_STATEMENT",
                "Only STREAM TABLE statements are run here.",
                hint="Send other SQL to Spark: with `trickle sql`, or from a session of your own.",
            )
        return _done(await change(execute, statement, tr))

    return routes


@cache
def _adapter(type_: Any) -> TypeAdapter[Any]:
    return TypeAdapter(type_)


def _done(result: Any) -> Done:
    many = isinstance(result, tuple)
    one = next(iter(result), None) if many else result
    return Done(kind=None if one is None else type(one).__name__, many=many, result=result)


def _all_names(tr: Trickle) -> list[str]:
    return [".".join(map(quote, s.name.split("."))) for s in tr.status()]


def _refresh_all(tr: Trickle, asked: RefreshMany) -> Refreshed:
    results, failed = [], []
    for name in _all_names(tr):
        try:
            results.append(tr.refresh(name, asked.mode, upstream=asked.upstream))
        except TrickleError as error:
            failed.append(problem(error))
    return Refreshed(results=tuple(results), failed=tuple(failed))
