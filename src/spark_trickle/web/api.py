"""The HTTP API. Each route calls the engine once; what needs Spark, or may wait for a lease, goes through `run`."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache, partial
from typing import TYPE_CHECKING, Annotated, Any, TypeVar

from fastapi import APIRouter, Query, Response
from pydantic import TypeAdapter

from spark_trickle import __version__
from spark_trickle.catalog.rows import Alert, NamedCut
from spark_trickle.errors import TrickleError
from spark_trickle.graph.draw import Dag
from spark_trickle.model import Source
from spark_trickle.monitor.compliance import Compliance
from spark_trickle.monitor.lineage import LineageEntry
from spark_trickle.monitor.pending import PendingInput, SourceState
from spark_trickle.monitor.statistics import Statistics
from spark_trickle.results import (
    Check,
    CycleStatus,
    Description,
    Explanation,
    GroupStatus,
    HistoryEntry,
    PlannedRefresh,
    RefreshResult,
    StreamTableStatus,
    Upkeep,
    Verification,
    units_of,
)
from spark_trickle.scheduler.decide import ENABLED
from spark_trickle.spark.names import quote
from spark_trickle.statements.execute import execute
from spark_trickle.statements.parse import parse_statement
from spark_trickle.web.bodies import (
    DAY,
    Alter,
    Asked,
    Create,
    CutName,
    Diagnosis,
    Done,
    Drawing,
    Filters,
    Limit,
    Maintain,
    Name,
    QueryText,
    Refresh,
    Refreshed,
    RefreshMany,
    Service,
    Since,
    Statement,
    Verify,
)
from spark_trickle.web.problem import problem
from spark_trickle.web.recent import Recent
from spark_trickle.web.work import Run

if TYPE_CHECKING:
    from spark_trickle.engine import Trickle

_RECENT_SECONDS = 0.25  # how old an answer may be that the catalog gives
_RECENT_ANSWERS = 256

T = TypeVar("T")


_DRAWINGS = {
    Drawing.MERMAID: "text/plain; charset=utf-8",
    Drawing.DOT: "text/vnd.graphviz; charset=utf-8",
    Drawing.SVG: "image/svg+xml",
}


def recent_answers() -> Recent:
    return Recent(_RECENT_SECONDS, _RECENT_ANSWERS)


def router(tr: Trickle, run: Run, recent: Recent) -> APIRouter:
    """`recent` is forgotten with every change, also with those that the page makes."""
    routes = APIRouter(prefix="/api/v1")

    async def answer(type_: Any, function: Callable[..., Any], *args: Any, **given: Any) -> Response:
        """What the catalog alone tells."""

        def make() -> bytes:
            return _adapter(type_).dump_json(function(*args, **given))

        key = (function.__name__, args, tuple(given.items()))
        return Response(await recent.get(key, make), media_type="application/json")

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
    async def alerts(
        limit: Limit = 50, open: bool = False, name: Asked = None, kind: Asked = None, since: Since = None
    ) -> Response:
        """What somebody should know, those seen last first; `open`: what is wrong now."""
        given = {"open_only": open, "name": name, "kind": kind, "since": since}
        return await answer(tuple[Alert, ...], tr.alerts, limit, **given)

    @routes.get("/health", tags=["lake"])
    async def health() -> Diagnosis:
        """What is wrong with the lake, the worst first, and what to do about it."""
        return Diagnosis.model_validate(await run(tr.health), from_attributes=True)

    @routes.get("/pending", tags=["lake"])
    async def pending(name: Asked = None) -> tuple[PendingInput, ...]:
        """What the inputs of stream tables hold that these do not show yet."""
        return await run(tr.pending, name)

    @routes.get("/source-states", tags=["lake"])
    async def source_states() -> tuple[SourceState, ...]:
        """The tables that stream tables read: who reads them, how far the last reader is behind, what is protected."""
        return await run(tr.source_states)

    @routes.get("/compliance", tags=["lake"], response_model=tuple[Compliance, ...])
    async def compliance(name: Asked = None, since: str = DAY) -> Response:
        """How much of the time since then stream tables were as fresh as their schedules ask."""
        return await answer(tuple[Compliance, ...], tr.compliance, name, since=since)

    @routes.get("/lineage", tags=["lake"])
    async def lineage(
        name: str, column: Asked = None, depth: Annotated[int | None, Query(ge=1)] = None, down: bool = False
    ) -> tuple[LineageEntry, ...]:
        """Where the columns of a stream table come from; with `down` what depends on a column, a table, a source."""
        return await run(partial(tr.lineage, name, column, depth=depth, down=down))

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
    async def history(chosen: Filters, name: Asked = None) -> Response:
        """Refreshes of all stream tables, or of one, the newest first."""
        return await answer(tuple[HistoryEntry, ...], tr.history, name, **chosen)

    @routes.get("/statistics", tags=["lake"], response_model=tuple[Statistics, ...])
    async def statistics(name: Asked = None, since: str = DAY, until: Since = None) -> Response:
        """Refreshes in figures, for each stream table."""
        return await answer(tuple[Statistics, ...], tr.statistics, name, since=since, until=until)

    @routes.get("/groups", tags=["lake"], response_model=tuple[GroupStatus, ...])
    async def groups(name: Asked = None) -> Response:
        """Stream tables that are published together: all groups, or that of one stream table."""
        return await answer(tuple[GroupStatus, ...], tr.groups, name)

    @routes.get("/cycles", tags=["lake"], response_model=tuple[CycleStatus, ...])
    async def cycles(name: Asked = None) -> Response:
        """Stream tables that read each other: all cycles, or that of one stream table."""
        return await answer(tuple[CycleStatus, ...], tr.cycles, name)

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

    def one_history(name: str, **given: Any) -> tuple[HistoryEntry, ...]:
        tr.describe(name)  # there is one of that name
        return tr.history(name, **given)

    @routes.get("/stream-tables/{name}/history", tags=["stream tables"], response_model=tuple[HistoryEntry, ...])
    async def history_of(name: Name, chosen: Filters) -> Response:
        """Its refreshes, the newest first."""
        return await answer(tuple[HistoryEntry, ...], one_history, name, **chosen)

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
        _check_which(body)
        if body.all:
            return await change(_refresh_all, tr, body)
        names: Any = body.names[0] if len(body.names) == 1 else body.names
        found = await change(partial(tr.refresh, names, body.mode, upstream=body.upstream))
        return Refreshed(results=found if isinstance(found, tuple) else (found,))

    @routes.post("/plan", tags=["refresh"])
    async def plan(body: RefreshMany) -> tuple[PlannedRefresh, ...]:
        """What a refresh would do now. Nothing is written."""
        _check_which(body)
        return await run(_plan, tr, body)

    @routes.post("/check", tags=["stream tables"])
    async def check(body: QueryText) -> Check:
        """Whether a query would be incremental; if not, why, and what to change. Nothing is created."""
        return await run(tr.check, body.query)

    @routes.post("/sql", tags=["stream tables"])
    async def sql(body: Statement) -> Done:
        """Run one STREAM TABLE statement: CREATE, ALTER, DROP, REFRESH, DESCRIBE, EXPLAIN, SHOW."""
        return _done(await change(_execute, tr, body.sql))

    @routes.post("/maintain", tags=["lake"])
    async def maintain(body: Maintain) -> tuple[Upkeep, ...]:
        """Merge small files, expire old snapshots, delete what nobody needs: of those named, or of all."""
        return await change(partial(tr.maintain, *body.names, dry_run=body.dry_run))

    return routes


@cache
def _adapter(type_: Any) -> TypeAdapter[Any]:
    return TypeAdapter(type_)


def _done(result: Any) -> Done:
    many = isinstance(result, tuple)
    one = next(iter(result), None) if many else result
    return Done(kind=None if one is None else type(one).__name__, many=many, result=result)


def _execute(tr: Trickle, text: str) -> Any:
    """Parsing is in the worker, too: a long text takes long."""
    statement = parse_statement(text)
    if statement is None:
        raise TrickleError(
            "INVALID_STATEMENT",
            "Only STREAM TABLE statements are run here.",
            hint="Send other SQL to Spark: with `trickle sql`, or from a session of your own.",
        )
    return execute(statement, tr)


def _check_which(asked: RefreshMany) -> None:
    if asked.all == bool(asked.names):
        raise TrickleError("INVALID_REQUEST", "Name stream tables, or say all.", hint='Send {"all": true}, say.')


def _plan(tr: Trickle, asked: RefreshMany) -> tuple[PlannedRefresh, ...]:
    return tr.plan(_all_names(tr) if asked.all else asked.names, asked.mode, upstream=asked.upstream)


def _all_names(tr: Trickle) -> list[str]:
    return [".".join(map(quote, s.name.split("."))) for s in tr.status()]


def _units(tr: Trickle) -> list[list[str]]:
    """Every stream table, those of a group at once."""
    names = dict(zip((s.name for s in tr.status()), _all_names(tr), strict=True))
    return [[names[m] for m in unit if m in names] for unit in units_of(names, tr.groups())]


def _refresh_all(tr: Trickle, asked: RefreshMany) -> Refreshed:
    results: list[RefreshResult] = []
    failed = []
    for names in _units(tr):
        try:
            results += tr.refresh(names, asked.mode, upstream=asked.upstream)
        except TrickleError as error:
            failed.append(problem(error))
    return Refreshed(results=tuple(results), failed=tuple(failed))
