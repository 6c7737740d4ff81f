"""An Iceberg REST catalog, read-only: the lake, and every named cut as a catalog of its own.

A client asks for `GET v1/config?warehouse=NAME` first and gets a prefix: `lake`, or the name that the cut's pointers
have in the database. A cut of the same name that is made later has another prefix, so a client never moves from one to
the other. A table is answered with the metadata file of its pointer, so its current snapshot is the one that the lake,
or the cut, shows. Nothing of Spark is needed where these files are local.

Everything is one route: a name may have an encoded slash in it, which routes by path would take for a separator.
"""

from __future__ import annotations

import base64
import hashlib
import json
import logging
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any
from urllib.parse import unquote_plus

from fastapi import APIRouter, Request, Response
from fastapi.concurrency import run_in_threadpool
from starlette.requests import ClientDisconnect

from spark_trickle.catalog.reader import CatalogReader
from spark_trickle.config import Settings
from spark_trickle.errors import Kind, TrickleError
from spark_trickle.lake.metadata_files import MetadataFiles, Read
from spark_trickle.model import HIDDEN_NAMESPACE, LAKE, Pointer, TableName

_log = logging.getLogger(__name__)

_METHODS = ["GET", "HEAD", "POST", "PUT", "PATCH", "DELETE"]
_SEPARATOR = "\x1f"  # between the levels of a namespace, by the specification
_PAGE = 1000  # entries, where a client wants pages and does not say how long
_LONGEST_REPORT = 4 * 1024 * 1024  # bytes of a request's body
_NAMESPACES = "/v1/{prefix}/namespaces"
_NAMESPACE = _NAMESPACES + "/{namespace}"
ENDPOINTS = (
    f"GET {_NAMESPACES}",
    f"GET {_NAMESPACE}",
    f"HEAD {_NAMESPACE}",
    *(
        f"{method} {_NAMESPACE}/{kind}s{name}"
        for kind in ("table", "view")
        for method, name in (("GET", ""), ("GET", f"/{{{kind}}}"), ("HEAD", f"/{{{kind}}}"))
    ),
    f"POST {_NAMESPACE}/tables/{{table}}/metrics",
)


@dataclass(frozen=True, slots=True)
class Ask:
    """A request: its path in decoded segments, from `v1` on."""

    method: str
    segments: tuple[str, ...]
    query: Mapping[str, str]
    known_tag: str | None = None  # If-None-Match


@dataclass(frozen=True, slots=True)
class Answer:
    status: int = 200
    body: str | None = None  # JSON
    tag: str | None = None
    allow: str | None = None


class Refusal(Exception):
    def __init__(self, status: int, type_: str, message: str, allow: str | None = None) -> None:
        super().__init__(message)
        self.answer = Answer(status, error_body(status, type_, message), allow=allow)


def router(reader: CatalogReader, settings: Settings, read: Read | None = None) -> APIRouter:
    """`read` gets the content of a metadata file that is not local: `partial(jvm.read_file, session)`."""
    catalog = RestCatalog(reader, MetadataFiles(read), settings.rest_catalog_storage)
    routes = APIRouter()

    @routes.api_route("/{path:path}", methods=_METHODS, include_in_schema=False)
    async def serve(request: Request, path: str) -> Response:
        try:
            await _drain(request)
            segments = segments_of(request.scope, path)
            ask = Ask(request.method, segments, request.query_params, request.headers.get("if-none-match"))
            answer = await run_in_threadpool(catalog.answer, ask)
        except Refusal as refusal:
            answer = refusal.answer
        except ClientDisconnect:  # while it sent a body: nobody reads the answer
            answer = Answer(400)
        headers = {"ETag": answer.tag, "Allow": answer.allow}
        given = {k: v for k, v in headers.items() if v is not None}
        if answer.body is None or request.method == "HEAD":
            return Response(status_code=answer.status, headers=given)
        return Response(answer.body, answer.status, given, "application/json")

    return routes


async def _drain(request: Request) -> None:
    """No body is of interest; one that is left unread would end the connection."""
    size = 0
    async for part in request.stream():
        size += len(part)
        if size > _LONGEST_REPORT:
            raise Refusal(413, "BadRequestException", f"The request has over {_LONGEST_REPORT} bytes.")


def segments_of(scope: Mapping[str, Any], path: str) -> tuple[str, ...]:
    """The segments of the path below the router, each decoded for itself.

    >>> segments_of({"path": "/iceberg/v1/a/b", "raw_path": b"/iceberg/v1/a%2Fb"}, "v1/a/b")
    ('v1', 'a/b')
    """
    above = str(scope["path"])[: -len(path) or None].count("/")
    try:
        # Java's client writes a space as a plus sign, others as %20.
        found = tuple(unquote_plus(s.decode("ascii"), errors="strict") for s in scope["raw_path"].split(b"/")[above:])
    except UnicodeDecodeError:
        raise Refusal(400, "BadRequestException", "The path is not UTF-8 in percent-encoding.") from None
    if any("\x00" in segment for segment in found):
        raise Refusal(400, "BadRequestException", "The path has a NUL character.")
    return found


class RestCatalog:
    """The answer to every request; shared by threads."""

    def __init__(self, reader: CatalogReader, files: MetadataFiles, storage: Mapping[str, str]) -> None:
        self._reader = reader
        self._files = files
        self._storage = dict(storage)

    def answer(self, ask: Ask) -> Answer:
        try:
            return self._answer(ask)
        except Refusal as refusal:
            return refusal.answer
        except TrickleError as error:
            _log.warning("%s: %s", error.code, error.message)
            status, type_ = (503, "ServiceUnavailableException") if error.kind is Kind.TRANSIENT else (500, error.code)
            return Answer(status, error_body(status, type_, str(error)))
        except Exception:
            _log.exception("a request to the REST catalog failed")
            return Answer(500, error_body(500, "InternalServerError", "The server failed; its log says why."))

    def _answer(self, ask: Ask) -> Answer:
        match ask.segments:
            case ("v1", _, "namespaces", _, "tables", _, "metrics") if ask.method == "POST":
                return Answer(204)  # a client's report on a scan: nobody reads it
            case ("v1", *_) if ask.method not in ("GET", "HEAD"):
                raise read_only(ask)
            case ("v1", "config"):
                return self._config(ask)
            case ("v1", prefix, "namespaces"):
                return self._list_namespaces(self._catalog(prefix), ask)
            case ("v1", prefix, "namespaces", levels):
                return self._load_namespace(self._catalog(prefix), _namespace(levels), ask)
            case ("v1", prefix, "namespaces", levels, "tables" | "views" as kind):
                return self._list(self._catalog(prefix), _namespace(levels), kind, ask)
            case ("v1", prefix, "namespaces", levels, "tables" | "views" as kind, name):
                return self._load(self._catalog(prefix), TableName(_namespace(levels), name), kind, ask)
        raise Refusal(404, "NotFoundException", f"This catalog has no endpoint /{'/'.join(ask.segments)}.")

    # -- catalogs --------------------------------------------------------------------------------------------------

    def _catalog(self, name: str) -> str:
        """The name in the database of the lake, or of a cut that is asked for by its own name or by that one."""
        if name in ("", LAKE):
            return LAKE
        cuts = {c.name: c.catalog_name for c in self._reader.cuts()}
        # That one first: clients that have it as their prefix stay with their cut, whatever others are called.
        catalog = name if name in cuts.values() else cuts.get(name)
        if catalog is None:
            there = ", ".join((LAKE, *cuts))
            raise Refusal(404, "NoSuchWarehouseException", f"There is no warehouse {name}; there are: {there}.")
        return catalog

    def _config(self, ask: Ask) -> Answer:
        prefix = self._catalog(ask.query.get("warehouse", ""))
        # The token of `trickle up` does not run out, and nobody here gives another one.
        defaults = {"token-refresh-enabled": "false"}
        return _json({"defaults": defaults, "overrides": {"prefix": prefix}, "endpoints": ENDPOINTS})

    # -- namespaces ------------------------------------------------------------------------------------------------

    def _namespaces(self, catalog: str) -> set[str]:
        return namespaces(self._reader.namespaces(catalog), self._reader.pointers(catalog))

    def _list_namespaces(self, catalog: str, ask: Ask) -> Answer:
        known = self._namespaces(catalog)
        parent = _namespace(ask.query.get("parent", ""))
        if parent and parent not in known:
            raise _unknown_namespace(parent)
        names, token = page(children(known, parent), ask.query)
        return _json({"namespaces": [n.split(".") for n in names], "next-page-token": token})

    def _load_namespace(self, catalog: str, namespace: str, ask: Ask) -> Answer:
        if namespace not in self._namespaces(catalog):
            raise _unknown_namespace(namespace)
        if ask.method == "HEAD":
            return Answer(204)
        properties = self._reader.namespace_properties(namespace, catalog)
        return _json({"namespace": namespace.split("."), "properties": properties})

    # -- tables and views ------------------------------------------------------------------------------------------

    def _list(self, catalog: str, namespace: str, kind: str, ask: Ask) -> Answer:
        pointers = self._reader.pointers(catalog)
        if namespace not in namespaces(self._reader.namespaces(catalog), pointers):
            raise _unknown_namespace(namespace)
        chosen = (p for p in pointers.values() if p.name.namespace == namespace)
        names, token = page((p.name.name for p in chosen if p.is_view == (kind == "views")), ask.query)
        listed = [{"namespace": namespace.split("."), "name": name} for name in names]
        return _json({"identifiers": listed, "next-page-token": token})

    def _load(self, catalog: str, name: TableName, kind: str, ask: Ask) -> Answer:
        pointer = self._pointer(catalog, name, kind)
        if ask.method == "HEAD":
            return Answer(204)
        only_referenced = kind == "tables" and _only_referenced(ask.query)
        tag = self._tag(pointer, only_referenced=only_referenced)
        if ask.known_tag is not None and tag in ask.known_tag:
            return Answer(304, tag=tag)
        try:
            metadata = self._files.text(pointer.location, only_referenced=only_referenced)
        except FileNotFoundError:
            now = self._pointer(catalog, name, kind)
            if now == pointer:
                why = f"The metadata file of {name} is not there: {pointer.location}"
                raise Refusal(500, "InternalServerError", why) from None
            return self._load(catalog, name, kind, ask)  # it moved on, and the old file was removed
        return Answer(body=loaded(pointer.location, metadata, self._storage if kind == "tables" else {}), tag=tag)

    def _pointer(self, catalog: str, name: TableName, kind: str) -> Pointer:
        found = None if _hidden(name.namespace) else self._reader.pointers(catalog, [name]).get(name)
        if found is None or found.is_view != (kind == "views"):
            type_ = "NoSuchViewException" if kind == "views" else "NoSuchTableException"
            raise Refusal(404, type_, f"There is no {kind[:-1]} {name} in this catalog.")
        return found

    def _tag(self, pointer: Pointer, *, only_referenced: bool) -> str:
        """Of the answer: its metadata file never changes."""
        text = json.dumps([pointer.location, only_referenced, self._storage], sort_keys=True)
        return f'"{hashlib.sha256(text.encode()).hexdigest()[:32]}"'


# -- answers, pure -----------------------------------------------------------------------------------------------------


def error_body(status: int, type_: str, message: str) -> str:
    return json.dumps({"error": {"message": message, "type": type_, "code": status}}, ensure_ascii=False)


def read_only(ask: Ask) -> Refusal:
    message = f"This catalog is read-only: {ask.method} /{'/'.join(ask.segments)} is not served."
    if ask.segments[1:2] == ("oauth",):
        message = "This catalog gives no tokens: use the one that `trickle up` was started with, if any, as `token`."
    return Refusal(405, "UnsupportedOperationException", message, allow="GET, HEAD")


def loaded(location: str, metadata: str, config: Mapping[str, str]) -> str:
    """The answer to a load; the metadata is JSON already."""
    head = json.dumps(location, ensure_ascii=False)
    return f'{{"metadata-location": {head}, "metadata": {metadata}, "config": {json.dumps(config)}}}'


def namespaces(stored: Iterable[str], pointers: Iterable[TableName]) -> set[str]:
    """Those with rows of their own, those of tables, and all that they are in.

    >>> sorted(namespaces(["a"], [TableName("b.c", "t"), TableName("_trickle", "s")]))
    ['a', 'b', 'b.c']
    """
    named = {n for n in (*stored, *(p.namespace for p in pointers)) if n and not _hidden(n)}
    parts = [n.split(".") for n in named]
    return {".".join(p[:k]) for p in parts for k in range(1, len(p) + 1)}


def children(known: Iterable[str], parent: str) -> list[str]:
    """
    >>> children({"a", "a.b", "a.b.c"}, "a")
    ['a.b']
    """
    return [n for n in known if n.rpartition(".")[0] == parent]


def page(names: Iterable[str], query: Mapping[str, str]) -> tuple[list[str], str | None]:
    """The names of one page in order, and the token of the next one: the last name, so that it stays valid.

    >>> page(["c", "a", "b"], {"pageSize": "2"})
    (['a', 'b'], 'Yg==')
    >>> page(["c", "a", "b"], {"pageSize": "2", "pageToken": "Yg=="})
    (['c'], None)
    """
    ordered = sorted(names)
    if "pageToken" not in query and "pageSize" not in query:
        return ordered, None
    size, after = query.get("pageSize", str(_PAGE)), query.get("pageToken", "")
    if not re.fullmatch(r"[1-9][0-9]{0,8}", size):
        raise Refusal(400, "BadRequestException", f"pageSize is not a positive whole number: {size[:40]!r}.")
    try:
        last = base64.b64decode(after, altchars=b"-_", validate=True).decode()
    except ValueError:
        raise Refusal(400, "BadRequestException", f"pageToken is not one of this catalog: {after[:40]!r}.") from None
    rest = [n for n in ordered if n > last]
    chosen = rest[: int(size)]
    more = len(rest) > len(chosen)
    return chosen, base64.urlsafe_b64encode(chosen[-1].encode()).decode() if more else None


def _only_referenced(query: Mapping[str, str]) -> bool:
    asked = query.get("snapshots", "all")
    if asked not in ("all", "refs"):
        raise Refusal(400, "BadRequestException", f"snapshots is neither 'all' nor 'refs': {asked[:40]!r}.")
    return asked == "refs"


def _namespace(levels: str) -> str:
    return ".".join(levels.split(_SEPARATOR))


def _hidden(namespace: str) -> bool:
    return namespace.partition(".")[0] == HIDDEN_NAMESPACE


def _unknown_namespace(namespace: str) -> Refusal:
    return Refusal(404, "NoSuchNamespaceException", f"There is no namespace {namespace} in this catalog.")


def _json(value: Mapping[str, Any] | Sequence[Any]) -> Answer:
    return Answer(body=json.dumps(value, ensure_ascii=False))
