"""Rows to records and back. A value that cannot be read is an error that names table, row and column."""

from __future__ import annotations

import json
from collections.abc import Iterable
from dataclasses import asdict, dataclass
from datetime import datetime
from enum import Enum
from functools import cached_property
from types import UnionType
from typing import Annotated, Any, Generic, Literal, TypeVar, Union, get_args, get_origin, get_type_hints

from pydantic import (
    AfterValidator,
    AwareDatetime,
    BaseModel,
    ConfigDict,
    GetCoreSchemaHandler,
    Strict,
    ValidationError,
    create_model,
)
from pydantic_core import core_schema
from sqlalchemy.engine import RowMapping

from spark_trickle.errors import TrickleError
from spark_trickle.model import (
    Action,
    Dependency,
    LakeFunction,
    Lineage,
    Origin,
    Origins,
    Pointer,
    Shape,
    Source,
    StreamTable,
    TableName,
    Via,
)
from spark_trickle.results import HistoryEntry

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class NamedCut:
    """A cut that stays until it is dropped: the rows of `iceberg_tables` under `catalog_name`."""

    name: str
    catalog_name: str
    created_at: datetime
    comment: str | None


@dataclass(frozen=True, slots=True)
class Alert:
    """Something a person should look at."""

    id: int
    created_at: datetime
    severity: str
    kind: str
    name: str | None  # the stream table, or source
    message: str
    last_seen_at: datetime | None = None
    occurrences: int = 1
    resolved_at: datetime | None = None  # None: it is open

    @property
    def state(self) -> str:
        return "open" if self.resolved_at is None else "resolved"


@dataclass(frozen=True, slots=True)
class GroupState:
    """What became of the refreshes of a group."""

    id: int
    members: tuple[int, ...]  # ids of stream tables
    epoch: int  # how often they were published together
    state: str  # of the last one: COMPLETED, FAILED
    at: datetime
    error: str | None


@dataclass(frozen=True, slots=True)
class Delivery:
    """Something to be told about an alert, to one webhook."""

    id: int
    notice: str  # the same one for all targets, and for all attempts
    target: str | None
    body: str
    created_at: datetime
    attempts: int


@dataclass(frozen=True, slots=True)
class Cost:
    """What a refresh that computed content took."""

    id: int
    action: Action
    reason: str | None
    seconds: float
    rows_changed: dict[str, int]

    @property
    def code(self) -> str:
        """
        >>> Cost(1, Action.FULL, "INITIAL: first refresh", 1.0, {}).code
        'INITIAL'
        """
        return (self.reason or "").partition(":")[0]


@dataclass(frozen=True, slots=True)
class Recent:
    """A refresh in short."""

    id: int
    state: str  # RUNNING, COMPLETED, FAILED
    action: Action | None
    started_at: datetime
    ended_at: datetime | None
    seconds: float | None


@dataclass(frozen=True, slots=True)
class RefreshSum:
    """Refreshes of one stream table that are over and alike."""

    stream_table_id: int | None
    state: str
    action: str | None  # None: it failed
    bucket: int  # by duration
    refreshes: int
    seconds: float
    rows_inserted: int
    rows_updated: int
    rows_deleted: int


@dataclass(frozen=True, slots=True)
class Garbage:
    """Files that nothing references any more, to be deleted when `not_before` has passed."""

    id: int
    kind: str
    location: str
    created_at: datetime
    not_before: datetime | None
    reason: str | None


@dataclass(frozen=True, slots=True)
class LoggedFile:
    """A data file of the change log."""

    path: str
    size: int
    rows: int


@dataclass(frozen=True, slots=True)
class LogEntry:
    """What turns a stream table at `from_snapshot` into the one at `to_snapshot`. `id` is 0 before it has a row."""

    from_snapshot: int
    to_snapshot: int
    rows: int
    files: tuple[LoggedFile, ...]
    id: int = 0
    table: TableName | None = None


class _JsonText:
    """A column of text that is JSON. pydantic's own `Json` would take bytes as well."""

    def __get_pydantic_core_schema__(self, source: Any, handler: GetCoreSchemaHandler) -> core_schema.CoreSchema:
        return core_schema.chain_schema([core_schema.str_schema(strict=True), core_schema.json_schema(handler(source))])


def _stored(hint: Any) -> Any:
    """How the catalog stores a field of this type."""
    if get_origin(hint) is UnionType:
        return Union[tuple(_stored(member) for member in get_args(hint))]  # noqa: UP007
    if get_origin(hint) in (tuple, dict):
        return Annotated[hint, _JsonText()]
    if hint is datetime:
        return AwareDatetime
    if isinstance(hint, type) and issubclass(hint, Enum):
        return Annotated[hint, Strict(False)]  # as its text
    return hint


class Reader(Generic[T]):
    """Reads rows of a table as records, a field from the column of its name, without any conversion of types.

    `without` are fields that are no columns; `columns` have types of their own. `prefix` tells apart the tables of
    a join.
    """

    def __init__(
        self,
        table: str,
        record: type[T],
        *,
        key: str = "id",
        prefix: str = "",
        without: Iterable[str] = (),
        **columns: Any,
    ) -> None:
        self._table, self._record, self._key, self._prefix = table, record, key, prefix
        self._without, self._columns = without, columns

    @cached_property
    def _shape(self) -> type[BaseModel]:
        fields = {name: _stored(hint) for name, hint in get_type_hints(self._record).items()}
        for name in self._without:
            del fields[name]
        types = {name: (hint, ...) for name, hint in (fields | self._columns).items()}
        shape: type[BaseModel] = create_model(self._table, __config__=ConfigDict(strict=True), **types)  # type: ignore[call-overload]
        return shape

    def values(self, row: RowMapping) -> dict[str, Any]:
        """The columns, checked."""
        prefix = self._prefix
        try:
            return self._shape.model_validate({c: row[prefix + c] for c in self._shape.model_fields}).__dict__
        except ValidationError as error:
            first = error.errors(include_url=False, include_input=False)[0]
            column, *inside = map(str, first["loc"])
            value = row[prefix + column]
            shown = repr(value) if len(repr(value)) <= 60 else f"{value!r:.57}..."
            place = f"{'.'.join(inside)}: " if inside else ""
            why = "the value is missing" if value is None else f"{shown} cannot be read ({place}{first['msg']})"
            raise _corrupt(self._table, row[prefix + self._key], column, why) from error

    def __call__(self, row: RowMapping) -> T:
        return self._record(**self.values(row))


def _corrupt(table: str, row: object, column: str, why: str) -> TrickleError:
    return TrickleError("CATALOG_CORRUPT", f"table {table}, row {row}, column {column}: {why}")


def _json(text: str) -> str:
    json.loads(text)
    return text


def _pairs(value: dict[str, Any] | None) -> tuple[tuple[str, Any], ...]:
    return tuple(sorted((value or {}).items()))


@dataclass(frozen=True, slots=True)
class _StoredShape:
    namespace: str
    name: str
    uuid: str
    schema: str


@dataclass(frozen=True, slots=True)
class _StoredSource:
    location: str
    view: str


_StoredOrigin = tuple[str, str, str, Annotated[Via, Strict(False)]]


@dataclass(frozen=True, slots=True)
class _StoredLineage:
    columns: dict[str, tuple[_StoredOrigin, ...]]
    rows: tuple[_StoredOrigin, ...]


_FUNCTIONS: Any = Annotated[_stored(dict[str, str] | None), AfterValidator(_pairs)]
_FILES = _stored(tuple[LoggedFile, ...])

_stream_tables = Reader(
    "trickle_stream_tables",
    StreamTable,
    prefix="s_",
    without=("dependencies", "states", "functions"),
    name=str,
    default_namespace=str,
    layout=Annotated[str, AfterValidator(_json)],
    functions_used=_FUNCTIONS,
    shapes=_stored(tuple[_StoredShape, ...] | None),
    settings=Annotated[_stored(dict[str, str | None] | None), AfterValidator(_pairs)],
    file_schema=_stored(dict[str, Any] | None),
)
_dependencies = Reader(
    "trickle_dependencies", Dependency, prefix="d_", without=("input",), input_namespace=str, input_name=str
)
_change_log = Reader("trickle_change_log", LogEntry, without=("table",), namespace=str, name=str)
_sources = Reader(
    "trickle_sources",
    Source,
    without=("format", "location", "view"),
    namespace=str,
    kind=str,
    state=Annotated[_StoredSource, _JsonText()],
)
_lineage = Reader("trickle_lineage", object, key="stream_table_id", lineage=Annotated[_StoredLineage, _JsonText()])
_only_files = Reader("trickle_change_log", object, files=_FILES)
_only_functions = Reader("trickle_stream_tables", object, functions_used=_FUNCTIONS)

cost = Reader("trickle_refresh_history", Cost)
recent = Reader("trickle_refresh_history", Recent)
history_entry = Reader("trickle_refresh_history", HistoryEntry, state=Literal["RUNNING", "COMPLETED", "FAILED"])
named_cut = Reader("trickle_cuts", NamedCut, key="name")
function = Reader("trickle_functions", LakeFunction, key="name", without=("fingerprint",))
alert = Reader("trickle_alerts", Alert)
delivery = Reader("trickle_outbox", Delivery)
garbage = Reader("trickle_garbage", Garbage)
group_state = Reader("trickle_groups", GroupState)


def stream_table(row: RowMapping, dependencies: tuple[Dependency, ...]) -> StreamTable:
    v = _stream_tables.values(row)
    v["name"], v["namespace"] = TableName(v["namespace"], v["name"]), v.pop("default_namespace")
    v["functions"] = v.pop("functions_used")
    v["shapes"] = tuple((TableName(s.namespace, s.name), Shape(s.uuid, s.schema)) for s in v["shapes"] or ())
    v["file_schema"] = "" if v["file_schema"] is None else json.dumps(v["file_schema"])
    return StreamTable(dependencies=dependencies, **v)


def dependency(row: RowMapping) -> Dependency:
    v = _dependencies.values(row)
    return Dependency(input=TableName(v.pop("input_namespace"), v.pop("input_name")), **v)


def log_entry(row: RowMapping) -> LogEntry:
    """A row of the log, joined with the name of its stream table."""
    v = _change_log.values(row)
    return LogEntry(table=TableName(v.pop("namespace"), v.pop("name")), **v)


def source(row: RowMapping) -> Source:
    v = _sources.values(row)
    state: _StoredSource = v["state"]
    return Source(f"{v['namespace']}.{v['name']}", v["kind"], state.location, state.view)


def files_of(row: RowMapping) -> tuple[LoggedFile, ...]:
    files: tuple[LoggedFile, ...] = _only_files.values(row)["files"]
    return files


def functions_used(row: RowMapping) -> tuple[tuple[str, str], ...]:
    functions: tuple[tuple[str, str], ...] = _only_functions.values(row)["functions_used"]
    return functions


def pointer(namespace: str, name: str, location: str | None, iceberg_type: str | None) -> Pointer:
    table = TableName(namespace, name)
    if not location:
        raise _corrupt("iceberg_tables", table, "metadata_location", "the value is missing")
    return Pointer(table, location, iceberg_type == "VIEW")


def lineage(row: RowMapping) -> Lineage:
    stored: _StoredLineage = _lineage.values(row)["lineage"]
    return Lineage({c: _origins(found) for c, found in stored.columns.items()}, _origins(stored.rows))


def lineage_json(found: Lineage) -> str:
    """Equal lineages have equal texts."""

    def listed(origins: Origins) -> list[list[str]]:
        return [[o.table.namespace, o.table.name, o.column, o.via] for o in sorted(origins)]

    return as_json({"columns": {c: listed(o) for c, o in found.columns.items()}, "rows": listed(found.rows)})


def _origin(stored: _StoredOrigin) -> Origin:
    namespace, name, column, via = stored
    return Origin(TableName(namespace, name), column, via)


def _origins(stored: tuple[_StoredOrigin, ...]) -> Origins:
    return frozenset(map(_origin, stored))


def as_json(value: Any) -> str:
    """Values and dataclasses as they are stored."""
    return json.dumps(value, default=asdict, ensure_ascii=False)


def shapes_json(shapes: Iterable[tuple[TableName, Shape]]) -> str:
    return as_json([asdict(name) | asdict(shape) for name, shape in shapes])


def source_json(source: Source) -> str:
    return as_json(_StoredSource(source.location, source.view))
