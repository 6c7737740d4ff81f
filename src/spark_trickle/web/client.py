"""The engine behind a service: the methods of `Trickle` that commands call, asked over HTTP.

Results are the same classes and errors the same codes, so a command shows the same text and ends with the same exit
code, whoever does the work. Nothing of Spark is imported.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from http.client import HTTPConnection, HTTPException, HTTPResponse
from typing import Any, TypeVar
from urllib.parse import quote, urlencode

from pydantic import SecretStr, TypeAdapter, ValidationError

from spark_trickle.errors import CODES, TrickleError
from spark_trickle.results import (
    Check,
    Description,
    Explanation,
    GroupStatus,
    PlannedRefresh,
    RefreshResult,
    StreamTableStatus,
    Upkeep,
    Verification,
)
from spark_trickle.web.registration import ANSWER_SECONDS, Service, connect

T = TypeVar("T")

_LONGEST_PROBLEM = 1024 * 1024
_KINDS: dict[str, Any] = {
    c.__name__: c for c in (Description, Explanation, RefreshResult, StreamTableStatus, Verification)
}


class RemoteLake:
    """A lake by way of its service."""

    def __init__(self, service: Service, token: SecretStr | None) -> None:
        self.service = service
        self._token = token
        self._connection: HTTPConnection | None = None

    # -- as in Trickle -------------------------------------------------------------------------------------------------

    def create_stream_table(
        self,
        name: str,
        query: str,
        schedule: str | None = None,
        mode: str = "auto",
        initialize: bool = True,
        star: str = "pin",
        settings: Mapping[str, str] | None = None,
        *,
        partitioned_by: Sequence[str] = (),
        cluster_by: Sequence[str] = (),
        comment: str | None = None,
        properties: Mapping[str, str] | None = None,
    ) -> RefreshResult:
        body = {
            "name": name,
            "query": query,
            "schedule": schedule,
            "mode": mode,
            "initialize": initialize,
            "star": star,
            "settings": dict(settings or {}),
            "partitioned_by": list(partitioned_by),
            "cluster_by": list(cluster_by),
            "comment": comment,
            "properties": dict(properties or {}),
        }
        return self._ask(RefreshResult, "POST", "stream-tables", body=body)

    def alter_stream_table(
        self,
        name: str,
        query: str | None = None,
        schedule: str | None = None,
        mode: str | None = None,
        star: str | None = None,
        settings: Mapping[str, str] | None = None,
    ) -> RefreshResult | None:
        body = {"query": query, "schedule": schedule, "mode": mode, "star": star, "settings": dict(settings or {})}
        answer: type[RefreshResult | None] = RefreshResult | None  # type: ignore[assignment]
        return self._ask(answer, "PATCH", "stream-tables", name, body=body)

    def groups(self) -> tuple[GroupStatus, ...]:
        return self._ask(tuple[GroupStatus, ...], "GET", "groups")

    def drop_stream_table(self, name: str, cascade: bool = False, if_exists: bool = False) -> tuple[str, ...]:
        given = {"cascade": json.dumps(cascade), "if_exists": json.dumps(if_exists)}
        return self._ask(tuple[str, ...], "DELETE", "stream-tables", name, query=given)

    def refresh(
        self, name: str | list[str], mode: str | None = None, *, upstream: bool = True
    ) -> RefreshResult | tuple[RefreshResult, ...]:
        names = [name] if isinstance(name, str) else name
        body = {"names": names, "mode": mode, "upstream": upstream}
        found = self._ask(dict[str, Any], "POST", "refresh", body=body)["results"]
        results: tuple[RefreshResult, ...] = _read(tuple[RefreshResult, ...], found)
        return results[0] if isinstance(name, str) else results

    def plan(
        self, name: str | list[str], mode: str | None = None, *, upstream: bool = True
    ) -> tuple[PlannedRefresh, ...]:
        names = [name] if isinstance(name, str) else name
        body = {"names": names, "mode": mode, "upstream": upstream}
        return self._ask(tuple[PlannedRefresh, ...], "POST", "plan", body=body)

    def status(self, name: str | None = None) -> tuple[StreamTableStatus, ...]:
        if name is not None:
            return (self._ask(StreamTableStatus, "GET", "stream-tables", name, "status"),)
        return self._ask(tuple[StreamTableStatus, ...], "GET", "stream-tables")

    def explain(self, name: str) -> Explanation:
        return self._ask(Explanation, "GET", "stream-tables", name, "explain")

    def verify(self, name: str, deep: bool = False) -> Verification:
        return self._ask(Verification, "POST", "stream-tables", name, "verify", body={"deep": deep})

    def check(self, query: str) -> Check:
        return self._ask(Check, "POST", "check", body={"query": query})

    def sql(self, text: str) -> Any:
        """A STREAM TABLE statement."""
        done = self._ask(dict[str, Any], "POST", "sql", body={"sql": text})
        kind: Any = _KINDS.get(done["kind"], Any)
        return _read(tuple[kind, ...] if done["many"] else kind, done["result"])

    def maintain(self, *names: str, dry_run: bool = False) -> tuple[Upkeep, ...]:
        return self._ask(tuple[Upkeep, ...], "POST", "maintain", body={"names": names, "dry_run": dry_run})

    def close(self) -> None:
        if self._connection is not None:
            self._connection.close()

    # -- HTTP ----------------------------------------------------------------------------------------------------------

    def _ask(
        self, answer: type[T], method: str, *path: str, body: object = None, query: Mapping[str, str] | None = None
    ) -> T:
        target = "/api/v1/" + "/".join(quote(p, safe="") for p in path) + (f"?{urlencode(query)}" if query else "")
        headers = {"Accept": "application/json"}
        if self._token is not None:
            headers["Authorization"] = f"Bearer {self._token.get_secret_value()}"
        if body is not None:
            headers["Content-Type"] = "application/json"
        try:
            connection = self._connect()
            connection.request(method, target, None if body is None else json.dumps(body).encode(), headers)
            response = connection.getresponse()
            content = response.read()
        except (OSError, HTTPException) as error:
            self.close()
            why = f"The service at {self.service.url} stopped answering: {error or type(error).__name__}."
            raise TrickleError("SERVICE_GONE", why) from error
        if response.status >= 400:
            raise _error(response, content)
        try:
            result: T = _read(answer, json.loads(content))
            return result
        except (ValidationError, ValueError) as error:
            raise _other_version(f"its answer cannot be read: {str(error).splitlines()[0]}") from error

    def _connect(self) -> HTTPConnection:
        if self._connection is None:
            self._connection = connect(self.service.url, ANSWER_SECONDS)
            self._connection.connect()
            self._connection.sock.settimeout(None)  # a refresh takes as long as it takes
        return self._connection


def _read(answer: Any, value: object) -> Any:
    return TypeAdapter(answer).validate_python(value)


def _error(response: HTTPResponse, content: bytes) -> TrickleError:
    try:
        body = json.loads(content[:_LONGEST_PROBLEM])
        code, detail, hint = body["code"], body["detail"], body["hint"]
    except (ValueError, KeyError, TypeError):
        return _other_version(f"it answered with status {response.status}")
    if code not in CODES:
        return _other_version(f"{code}: {detail}")
    return TrickleError(code, detail, hint=hint)


def _other_version(why: str) -> TrickleError:
    hint = "Restart `trickle up` with the version of this command, or say --local."
    return TrickleError("INTERNAL", f"The service of this lake does not speak as this command does: {why}.", hint=hint)
