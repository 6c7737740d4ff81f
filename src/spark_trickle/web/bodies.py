"""What requests of the HTTP API may say, and answers that no class of the engine is."""

from __future__ import annotations

from enum import StrEnum
from typing import Annotated, Any
from urllib.parse import unquote

from fastapi import Depends, Path, Query
from pydantic import AfterValidator, BaseModel, ConfigDict

from spark_trickle.monitor.health import Finding
from spark_trickle.results import RefreshResult
from spark_trickle.web.problem import Problem

_MANY = 10_000
DAY = "24h"  # figures of all time would read all of the history


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
Asked = str | None
Since = Annotated[str | None, Query(description="A time with its zone, or how long ago, such as 24h.")]


async def _filters(
    limit: Limit = 50,
    since: Since = None,
    until: Since = None,
    action: Asked = None,
    status: Asked = None,
    failed: bool = False,
    min_seconds: float | None = None,
) -> dict[str, Any]:
    """Which refreshes of the history: begun in a span of time, with an outcome."""
    chosen = {"limit": limit, "since": since, "until": until, "action": action, "status": status}
    return {**chosen, "failed_only": failed, "min_seconds": min_seconds}


Filters = Annotated[dict[str, Any], Depends(_filters)]


class Body(BaseModel):
    model_config = ConfigDict(extra="forbid")


class Service(BaseModel):
    version: str
    lake: str
    enabled: bool  # the schedules of the lake
    leads: bool  # this process follows them; else it stands by


class Diagnosis(BaseModel):
    """As `trickle health --output json` says it."""

    is_well: bool
    summary: str
    findings: tuple[Finding, ...]
    stream_tables: int
    active: int
    behind: int
    scheduler: bool
    refreshes: int
    failures: int


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


class Maintain(Body):
    names: list[str] = []  # none: all stream tables
    dry_run: bool = False


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
