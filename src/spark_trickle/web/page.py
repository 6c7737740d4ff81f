"""The page of `trickle up`: how the lake stands, for people. docs/page.md says what is shown.

Everything is HTML from the server and works without scripts. A small script gets the same page again when the server
says that it shows something else now, and takes over what differs. Who may ask is decided by the app around it.
"""

from __future__ import annotations

import hashlib
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from datetime import UTC, datetime, timedelta
from importlib.resources import files
from typing import TYPE_CHECKING, Any
from urllib.parse import parse_qsl, unquote

from fastapi import APIRouter, Request, Response
from fastapi.concurrency import run_in_threadpool
from fastapi.responses import RedirectResponse, StreamingResponse
from jinja2 import Environment, PackageLoader, StrictUndefined
from starlette.exceptions import HTTPException
from starlette.requests import ClientDisconnect

from spark_trickle import __version__
from spark_trickle.catalog.alerts import KINDS
from spark_trickle.catalog.history import HistoryFilter
from spark_trickle.errors import Kind, TrickleError
from spark_trickle.model import StreamTable, TableName
from spark_trickle.monitor.statistics import statistics
from spark_trickle.spark.names import quote_table
from spark_trickle.web import wording
from spark_trickle.web.asked import Requests
from spark_trickle.web.events import UNREADABLE, Events
from spark_trickle.web.looks import Looks
from spark_trickle.web.overview import Overview, State, summary
from spark_trickle.web.picture import LARGEST, picture, spark_line

if TYPE_CHECKING:
    from spark_trickle.engine import Trickle

Run = Callable[..., Awaitable[Any]]

HEADERS = {
    "Content-Security-Policy": "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; "
    "connect-src 'self'; form-action 'self'; base-uri 'none'; frame-ancestors 'none'",
    "X-Content-Type-Options": "nosniff",
    "X-Frame-Options": "DENY",
    "Referrer-Policy": "same-origin",  # with no-referrer, forms would be sent with `Origin: null`
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
}
_TYPES = {"css": "text/css; charset=utf-8", "js": "text/javascript; charset=utf-8", "svg": "image/svg+xml"}
_STATUS = {Kind.USER: 400, Kind.SCHEMA: 409, Kind.TRANSIENT: 503, Kind.INTERNAL: 500}
_LONGEST_FORM = 4096  # bytes
_ON_A_PAGE = 100  # stream tables
_HISTORY = 50
_LONGEST_HISTORY = 1000
_MOST_ALERTS = 1000  # that are over
_FIGURES = timedelta(hours=24)  # that the figures of a stream table are about


def router(
    tr: Trickle, run: Run, *, changed: Callable[[], object] = lambda: None, can_log_out: bool = False
) -> APIRouter:
    """The page of a lake. `run` awaits what needs Spark, as `await run(function, *args)`.

    `changed` is called when a button has changed something. `can_log_out`: there is a token, and so there are sessions.
    Streams of events end when their clients are disconnected: a server that stops must do that.
    """
    routes = APIRouter(include_in_schema=False)
    looks = Looks(tr)
    requests = Requests()
    events = Events(lambda: f"{looks.now().version}.{requests.version}")
    static = _static()
    pages = _Pages(static, where=_where(tr), can_log_out=can_log_out)

    def forget() -> None:
        looks.forget()
        changed()

    async def shown(build: Callable[[], tuple[str, Mapping[str, Any]]]) -> Response:
        """`build` gives the template and what is in it, in a thread."""

        def render() -> Response:
            try:
                found = looks.now()
                template, values = build()
                version = f"{found.version}.{requests.version}"
                values = {**values, "default_schedule": tr.settings.default_schedule}  # it may change while we run
                return pages.page(template, 200, found=found, version=version, **values)
            except TrickleError as error:
                status = 404 if error.code.startswith("UNKNOWN_") else _STATUS[error.kind]
                title = "Not found" if status == 404 else "This cannot be shown"
                values = {"title": title, "error": error, "version": UNREADABLE, "found": None}
                return pages.page("error.html", status, **values)

        return await run_in_threadpool(render)

    @routes.get("/")
    async def lake(request: Request) -> Response:
        query = request.query_params
        return await shown(lambda: ("lake.html", _lake(looks.now(), query)))

    @routes.post("/")
    async def switch(request: Request) -> Response:
        form = await _form(request)
        if form.get("action") == "enable":
            await run_in_threadpool(tr.set_enabled, True)
            forget()
        return _back("/")

    @routes.get("/stream-tables/{rest:path}")
    async def stream_table(request: Request) -> Response:
        name = _name(request)
        query = request.query_params
        plan = None
        if "plan" in query:
            plan = await _plan(tr, run, name)
        asked = requests.of(str(name))
        return await shown(lambda: ("stream_table.html", _stream_table(tr, looks, name, query) | _both(plan, asked)))

    @routes.post("/stream-tables/{rest:path}")
    async def act(request: Request) -> Response:
        name = _name(request)
        form = await _form(request)
        work = _work(tr, run, name, form)
        if work is not None and await run_in_threadpool(tr.store.stream_table, name) is not None:

            async def told() -> tuple[str, bool]:
                try:
                    return await work()
                finally:
                    forget()

            await requests.ask(str(name), form["action"], told)
            looks.forget()  # perhaps it runs on: that is shown, too
        return _back(f"{wording.path_of(str(name))}#asked")

    @routes.get("/sources")
    async def sources() -> Response:
        return await shown(lambda: ("sources.html", _sources(tr)))

    @routes.get("/alerts")
    async def alerts(request: Request) -> Response:
        limit = _number(request.query_params.get("limit"), 100, _MOST_ALERTS)
        return await shown(lambda: ("alerts.html", _alerts(tr, looks.now(), limit)))

    @routes.get("/events")
    async def listen() -> Response:
        if events.is_full:
            return Response(status_code=204)  # a browser does not ask again after this
        headers = {**HEADERS, "Cache-Control": "no-store", "X-Accel-Buffering": "no"}
        return StreamingResponse(_encoded(events.stream()), media_type="text/event-stream", headers=headers)

    @routes.get("/static/{file}")
    async def asset(file: str, request: Request) -> Response:
        if file not in static:
            raise HTTPException(404, headers=HEADERS)
        body, tag = static[file]
        known = request.query_params.get("v") == tag
        caching = "public, max-age=31536000, immutable" if known else "no-cache"
        return Response(
            body,
            headers={**HEADERS, "Cache-Control": caching, "ETag": f'"{tag}"'},
            media_type=_TYPES[file.rsplit(".", 1)[-1]],
        )

    return routes


async def _encoded(lines: AsyncIterator[str]) -> AsyncIterator[bytes]:
    async for line in lines:
        yield line.encode()


def _both(plan: object, asked: object) -> dict[str, Any]:
    return {"plan": plan, "asked": asked}


def _where(tr: Trickle) -> str:
    return tr.store.shown_url if tr.settings.is_postgres else str(tr.settings.location)


# -- what is asked -----------------------------------------------------------------------------------------------------


def _name(request: Request) -> TableName:
    """From the path as it was sent: a name may have a slash in it."""
    raw: bytes = request.scope.get("raw_path") or request.scope["path"].encode()
    sent = raw.decode("latin-1").partition("?")[0].partition("/stream-tables/")[2]
    return TableName.of(unquote(sent))


def _number(text: str | None, default: int, most: int) -> int:
    """
    >>> _number("7", 1, 100), _number("x", 1, 100), _number("-3", 1, 100), _number("9999", 1, 100)
    (7, 1, 1, 100)
    """
    if text is None or not (text.isascii() and text.isdigit()) or len(text) > 9:
        return default
    return max(1, min(int(text), most))


async def _form(request: Request) -> dict[str, str]:
    """The fields of a small form; of anything else, none."""
    body = bytearray()
    try:
        async for part in request.stream():
            body += part
            if len(body) > _LONGEST_FORM:
                return {}
    except ClientDisconnect:
        return {}
    try:
        return dict(parse_qsl(bytes(body).decode("utf-8", "replace"), max_num_fields=20))
    except ValueError:  # more fields than that
        return {}


def _back(path: str) -> Response:
    return RedirectResponse(path, 303, HEADERS)


def _work(
    tr: Trickle, run: Run, name: TableName, form: Mapping[str, str]
) -> Callable[[], Awaitable[tuple[str, bool]]] | None:
    """What a button does, and how it says what came of it."""
    text = quote_table(name)

    async def refresh() -> tuple[str, bool]:
        result = await run(tr.refresh, text)
        rows = f"+{result.rows_inserted:,} ~{result.rows_updated:,} -{result.rows_deleted:,}"
        return f"{result.action} {rows} in {wording.took(result.seconds)}: {result.reason}", True

    async def verify() -> tuple[str, bool]:
        found = await run(tr.verify, text)
        return str(found), bool(found.equal)

    async def suspend() -> tuple[str, bool]:
        await run_in_threadpool(tr.suspend, text)
        return "Its schedule does not refresh it any more.", True

    async def resume() -> tuple[str, bool]:
        await run_in_threadpool(tr.resume, text)
        return "It follows its schedule again.", True

    return {"refresh": refresh, "verify": verify, "suspend": suspend, "resume": resume}.get(form.get("action", ""))


async def _plan(tr: Trickle, run: Run, name: TableName) -> object:
    try:
        return await run(tr.explain, quote_table(name))
    except TrickleError as error:
        return error


# -- what is shown -----------------------------------------------------------------------------------------------------


def _lake(found: Overview, query: Mapping[str, str]) -> dict[str, Any]:
    word, state = query.get("q", "").strip(), query.get("state", "")
    rows = [
        r
        for r in found.worst_first
        if word.lower() in r.name.lower()
        and (not state or r.state.value == state or (state == "running" and r.running_since))
    ]
    pages = max(1, -(-len(rows) // _ON_A_PAGE))
    at = _number(query.get("page"), 1, pages)
    drawn = picture(found) if len(found.rows) <= LARGEST else None
    return {
        "title": "Stream tables",
        "summary": summary(found),
        "rows": rows[(at - 1) * _ON_A_PAGE : at * _ON_A_PAGE],
        "matches": len(rows),
        "word": word,
        "state": state,
        "page": at,
        "pages": pages,
        "picture": drawn,
    }


def _stream_table(tr: Trickle, looks: Looks, name: TableName, query: Mapping[str, str]) -> dict[str, Any]:
    row = looks.now().find(str(name))
    if row is None:
        looks.forget()
        tr.store.find(name)  # says which there are
        row = looks.now().find(str(name))
        assert row is not None, name
    limit = _number(query.get("history"), _HISTORY, _LONGEST_HISTORY)
    history = tr.store.history(str(name), limit + 1)
    figures = statistics(tr.store, HistoryFilter(str(name), since=datetime.now(UTC) - _FIGURES))
    inputs, unreadable = _inputs(tr, row.table)
    return {
        "title": str(name),
        "row": row,
        "table": row.table,
        "about": tr.describe(quote_table(name)),
        "inputs": inputs,
        "unreadable": unreadable,
        "readers": [r.name for r in looks.now().rows if row.name in r.reads],
        "history": history[:limit],
        "more": len(history) > limit and limit < _LONGEST_HISTORY,
        "limit": limit,
        "figures": next(iter(figures), None),
        "picture": picture(looks.now(), here=row.name),
    }


def _inputs(tr: Trickle, table: StreamTable) -> tuple[list[dict[str, Any]], TrickleError | None]:
    """What it reads, and what waits there."""
    try:
        waiting, error = {p.input: p for p in tr.pending(quote_table(table.name))}, None
    except TrickleError as unreadable:
        waiting, error = {}, unreadable
    used: dict[TableName, set[str]] = {}
    for part in (table, *table.states):
        for d in part.dependencies:
            used.setdefault(d.input, set()).update(c.name for c in d.columns)
    inputs = [
        {"name": str(d.input), "kind": d.kind, "columns": sorted(used[d.input]), "pending": waiting.get(str(d.input))}
        for d in table.reads
    ]
    return inputs, error


def _sources(tr: Trickle) -> dict[str, Any]:
    locations = {s.name: s.location for s in tr.store.sources()}
    return {"title": "Sources", "sources": tr.source_states(), "locations": locations}


def _alerts(tr: Trickle, found: Overview, limit: int) -> dict[str, Any]:
    open_ = tr.store.alerts(None, open_only=True)  # all of them, however many came later
    over = [a for a in tr.store.alerts(limit + len(open_) + 1) if a.state != "open"]
    return {
        "title": "Alerts",
        "alerts": [*open_, *over[:limit]],
        "known": {r.name for r in found.rows},
        "more": len(over) > limit and limit < _MOST_ALERTS,
        "remedies": {name: kind.remedy.replace("`", "") for name, kind in KINDS.items()},
    }


# -- templates and files -----------------------------------------------------------------------------------------------


def _static() -> dict[str, tuple[bytes, str]]:
    """The files with their tags, by name."""
    found = {}
    for each in files("spark_trickle.web").joinpath("static").iterdir():
        if each.name.rsplit(".", 1)[-1] in _TYPES:
            body = each.read_bytes()
            found[each.name] = body, hashlib.sha256(body).hexdigest()[:12]
    return found


class _Pages:
    """Templates, compiled once."""

    def __init__(self, static: Mapping[str, tuple[bytes, str]], **always: object) -> None:
        # Always escaped: unlike `select_autoescape`, it does not depend on what a file is called.
        self._templates = Environment(
            loader=PackageLoader("spark_trickle.web"),
            autoescape=True,
            undefined=StrictUndefined,
            trim_blocks=True,
            lstrip_blocks=True,
        )
        self._templates.filters |= {
            "age": wording.age,
            "took": wording.took,
            "exact": wording.exact,
            "path": wording.path_of,
            "listed": wording.listed,
        }
        self._templates.globals |= {
            "asset": lambda name: f"/static/{name}?v={static[name][1]}",
            "count": wording.count,
            "product": f"Trickle {__version__}",
            "spark_line": spark_line,
            "State": State,
            **always,
        }

    def page(self, template: str, status: int, **values: Any) -> Response:
        now = datetime.now(UTC)
        text = self._templates.get_template(template).render(now=now, **values)
        return Response(text, status, {**HEADERS, "Cache-Control": "no-store"}, "text/html")
