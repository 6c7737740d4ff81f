"""Errors of the HTTP API as problem details (RFC 9457). The status follows from the error's kind."""

from __future__ import annotations

import logging
from collections.abc import Mapping
from typing import Any

from fastapi import FastAPI, Request
from fastapi.exceptions import RequestValidationError
from fastapi.responses import JSONResponse
from pydantic import BaseModel
from starlette.exceptions import HTTPException

from spark_trickle.errors import CODES, ErrorCode, Kind, TrickleError

_log = logging.getLogger(__name__)

RETRY_SECONDS = 5
_STATUS = {Kind.USER: 400, Kind.SCHEMA: 409, Kind.TRANSIENT: 503, Kind.INTERNAL: 500}
_ABSENT = ("UNKNOWN_STREAM_TABLE", "UNKNOWN_CUT")  # what a path names
_SAYS = {
    400: "The request cannot be read.",
    404: "There is nothing at this path.",
    405: "This path does not take this method.",
    408: "The request did not come whole in time.",
    413: "The request is too large.",
    503: "The service is stopping.",
}


class Problem(BaseModel):
    """The body of every error."""

    type: str
    title: str
    status: int
    detail: str
    code: str
    kind: str
    hint: str
    errors: list[dict[str, Any]] | None = None  # what is wrong with the parts of a request


class ProblemResponse(JSONResponse):
    media_type = "application/problem+json"


def problem(error: TrickleError, status: int | None = None) -> Problem:
    """
    >>> problem(TrickleError("UNKNOWN_STREAM_TABLE", "there is no s.t")).status
    404
    """
    if status is None:
        status = 404 if error.code in _ABSENT else _STATUS[error.kind]
    return Problem(
        type=f"urn:trickle:error:{error.code}",
        title=CODES[error.code].meaning,
        status=status,
        detail=error.message,
        code=error.code,
        kind=error.kind,
        hint=error.hint,
    )


def respond(
    error: TrickleError,
    status: int | None = None,
    headers: Mapping[str, str] | None = None,
    errors: list[dict[str, Any]] | None = None,
) -> ProblemResponse:
    body = problem(error, status)
    body.errors = errors
    given = dict(headers or {})
    if body.status == 503:
        given.setdefault("Retry-After", str(RETRY_SECONDS))
    return ProblemResponse(body.model_dump(exclude_none=True), body.status, given)


def install(app: FastAPI) -> None:
    """The one place where exceptions of requests become text."""

    @app.exception_handler(TrickleError)
    async def ours(_request: Request, error: TrickleError) -> ProblemResponse:
        if error.kind is Kind.INTERNAL:
            _log.error("%s: %s", error.code, error.message)
        return respond(error)

    @app.exception_handler(RequestValidationError)
    async def invalid(_request: Request, error: RequestValidationError) -> ProblemResponse:
        # Not the input: it may be large, or a secret.
        errors = [{"at": ".".join(map(str, e["loc"])), "message": e["msg"]} for e in error.errors()]
        first = f"{errors[0]['at']}: {errors[0]['message']}" if errors else "it is not valid"
        return respond(TrickleError("INVALID_REQUEST", first), 422, errors=errors)

    @app.exception_handler(HTTPException)
    async def of_http(request: Request, error: HTTPException) -> ProblemResponse:
        says = _SAYS.get(error.status_code, str(error.detail))
        message = f"{request.method} {request.scope['path'][:200]}: {says}"
        code: ErrorCode = "SERVICE_BUSY" if error.status_code == 503 else "INVALID_REQUEST"
        return respond(TrickleError(code, message), error.status_code, error.headers)
