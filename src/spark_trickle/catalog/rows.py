"""Rows to records and back. A value that cannot be read is an error that names table, row and column."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum
from typing import Any, TypeVar

from sqlalchemy.engine import RowMapping

from spark_trickle.errors import TrickleError
from spark_trickle.model import (
    Action,
    Column,
    Dependency,
    HistoryEntry,
    InputKind,
    LakeFunction,
    Mode,
    Pointer,
    Shape,
    Source,
    Star,
    Status,
    StreamTable,
    TableName,
    UsedColumn,
)

_STATES = ("RUNNING", "COMPLETED", "FAILED")
E = TypeVar("E", bound=StrEnum)
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
    code: str
    name: str | None
    message: str


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


class Fields:
    """The columns of one row, read with a check of type. `prefix` tells apart the tables of a join."""

    __slots__ = ("_id", "_prefix", "_table", "_values")

    def __init__(self, table: str, values: RowMapping, *, key: str = "id", prefix: str = "") -> None:
        self._table = table
        self._values = values
        self._prefix = prefix
        self._id = values[prefix + key]

    def bad(self, column: str, why: str) -> TrickleError:
        return TrickleError("CATALOG_CORRUPT", f"table {self._table}, row {self._id}, column {column}: {why}")

    def _optional(self, column: str, kind: type[T], what: str) -> T | None:
        value = self._values[self._prefix + column]
        if value is None:
            return None
        # bool is an int in Python: a flag is no number here.
        if not isinstance(value, kind) or (kind is int and isinstance(value, bool)):
            raise self.bad(column, f"{value!r} is not {what}")
        return value

    def _required(self, column: str, value: T | None) -> T:
        if value is None:
            raise self.bad(column, "the value is missing")
        return value

    def text_or_none(self, column: str) -> str | None:
        return self._optional(column, str, "text")

    def text(self, column: str) -> str:
        return self._required(column, self.text_or_none(column))

    def number_or_none(self, column: str) -> int | None:
        return self._optional(column, int, "a whole number")

    def number(self, column: str) -> int:
        return self._required(column, self.number_or_none(column))

    def seconds_or_none(self, column: str) -> float | None:
        value = self._values[self._prefix + column]
        return float(value) if isinstance(value, int) else self._optional(column, float, "a number")

    def flag(self, column: str) -> bool:
        return self._required(column, self._optional(column, bool, "true or false"))

    def moment_or_none(self, column: str) -> datetime | None:
        value = self._optional(column, datetime, "a time")
        if value is not None and value.tzinfo is None:
            raise self.bad(column, f"{value!r} is a time without a zone")
        return value

    def moment(self, column: str) -> datetime:
        return self._required(column, self.moment_or_none(column))

    def choice(self, column: str, choices: type[E]) -> E:
        text = self.text(column)
        try:
            return choices(text)
        except ValueError:
            raise self.bad(column, f"{text!r} is not one of {', '.join(choices)}") from None

    def json(self, column: str, build: Callable[[Any], T]) -> T:
        text = self.text(column)
        try:
            return build(json.loads(text))
        except (ValueError, TypeError, KeyError, AttributeError) as error:
            shown = text if len(text) <= 60 else text[:57] + "..."
            raise self.bad(column, f"{shown!r} cannot be read ({error})") from error


def _is(value: Any, kind: type[T]) -> T:
    if not isinstance(value, kind) or (kind is int and isinstance(value, bool)):
        raise ValueError(f"{value!r} is not {kind.__name__}")
    return value


def _columns(value: Any) -> tuple[Column, ...]:
    return tuple(Column(_is(c["name"], str), _is(c["type"], str)) for c in _is(value, list))


def _used_columns(value: Any) -> tuple[UsedColumn, ...]:
    return tuple(
        UsedColumn(_is(c["name"], str), _is(c["type"], str), _is(c["field_id"], int)) for c in _is(value, list)
    )


def _counts(value: Any) -> dict[str, int]:
    return {key: _is(count, int) for key, count in _is(value, dict).items()}


def _times(value: Any) -> dict[str, float]:
    return {key: float(_is(seconds, (int, float))) for key, seconds in _is(value, dict).items()}  # type: ignore[arg-type]


def _functions(value: Any) -> tuple[tuple[str, str], ...]:
    return tuple(sorted((name, _is(version, str)) for name, version in _is(value, dict).items()))


def _shapes(value: Any) -> tuple[tuple[TableName, Shape], ...]:
    return tuple(
        (
            TableName(_is(s["namespace"], str), _is(s["name"], str)),
            Shape(_is(s["uuid"], str), _is(s["schema"], str)),
        )
        for s in _is(value, list)
    )


def _settings(value: Any) -> tuple[tuple[str, str | None], ...]:
    return tuple((key, None if one is None else _is(one, str)) for key, one in sorted(_is(value, dict).items()))


def _files(value: Any) -> tuple[LoggedFile, ...]:
    return tuple(LoggedFile(_is(f["path"], str), _is(f["size"], int), _is(f["rows"], int)) for f in _is(value, list))


def files_json(files: tuple[LoggedFile, ...]) -> str:
    return json.dumps([{"path": f.path, "size": f.size, "rows": f.rows} for f in files], ensure_ascii=False)


def files_of(values: RowMapping) -> tuple[LoggedFile, ...]:
    return Fields("trickle_change_log", values).json("files", _files)


def log_entry(values: RowMapping) -> LogEntry:
    """A row of the log, joined with the name of its stream table."""
    row = Fields("trickle_change_log", values)
    return LogEntry(
        from_snapshot=row.number("from_snapshot"),
        to_snapshot=row.number("to_snapshot"),
        rows=row.number("rows"),
        files=row.json("files", _files),
        id=row.number("id"),
        table=TableName(row.text("namespace"), row.text("name")),
    )


def columns_json(columns: tuple[Column, ...]) -> str:
    return json.dumps([{"name": c.name, "type": c.type} for c in columns], ensure_ascii=False)


def used_columns_json(columns: tuple[UsedColumn, ...]) -> str:
    return json.dumps([{"name": c.name, "type": c.type, "field_id": c.field_id} for c in columns], ensure_ascii=False)


def shapes_json(shapes: Iterable[tuple[TableName, Shape]]) -> str:
    return json.dumps(
        [{"namespace": n.namespace, "name": n.name, "uuid": s.uuid, "schema": s.schema} for n, s in shapes],
        ensure_ascii=False,
    )


def stream_table(values: RowMapping, dependencies: tuple[Dependency, ...]) -> StreamTable:
    row = Fields("trickle_stream_tables", values, prefix="s_")
    row.json("layout", lambda value: value)
    return StreamTable(
        id=row.number("id"),
        name=TableName(row.text("namespace"), row.text("name")),
        definition=row.text("definition"),
        namespace=row.text("default_namespace"),
        mode=row.choice("mode", Mode),
        schedule=row.text_or_none("schedule"),
        status=row.choice("status", Status),
        columns=row.json("columns", _columns),
        incremental=row.flag("incremental"),
        reason=row.text_or_none("reason"),
        fingerprint=row.text("fingerprint"),
        layout=row.text("layout"),
        published_snapshot=row.number_or_none("published_snapshot"),
        published_pointer=row.text_or_none("published_pointer"),
        data_timestamp=row.moment_or_none("data_timestamp"),
        consecutive_errors=row.number("consecutive_errors"),
        last_error=row.text_or_none("last_error"),
        created_at=row.moment("created_at"),
        dependencies=dependencies,
        owner_id=row.number_or_none("owner_id"),
        functions=functions_used(row),
        star=row.choice("star", Star),
        shapes=() if row.text_or_none("shapes") is None else row.json("shapes", _shapes),
        settings=() if row.text_or_none("settings") is None else row.json("settings", _settings),
        table_uuid=row.text_or_none("table_uuid"),
        file_schema="" if row.text_or_none("file_schema") is None else json.dumps(row.json("file_schema", dict)),
    )


def dependency(values: RowMapping) -> Dependency:
    row = Fields("trickle_dependencies", values, prefix="d_")
    return Dependency(
        input=TableName(row.text("input_namespace"), row.text("input_name")),
        kind=row.choice("kind", InputKind),
        columns=row.json("columns", _used_columns),
        table_uuid=row.text_or_none("table_uuid"),
        snapshot_id=row.number_or_none("snapshot_id"),
        schema_id=row.number_or_none("schema_id"),
        pointer=row.text_or_none("pointer"),
    )


def history_entry(values: RowMapping) -> HistoryEntry:
    row = Fields("trickle_refresh_history", values)
    if row.text("state") not in _STATES:
        raise row.bad("state", f"{row.text('state')!r} is not one of {', '.join(_STATES)}")
    return HistoryEntry(
        refresh_id=row.text("refresh_id"),
        name=row.text("name"),
        state=row.text("state"),
        action=None if row.text_or_none("action") is None else row.choice("action", Action),
        reason=row.text_or_none("reason"),
        initiated_by=row.text("initiated_by"),
        started_at=row.moment("started_at"),
        ended_at=row.moment_or_none("ended_at"),
        seconds=row.seconds_or_none("seconds"),
        rows_inserted=row.number("rows_inserted"),
        rows_updated=row.number("rows_updated"),
        rows_deleted=row.number("rows_deleted"),
        rows_changed=row.json("rows_changed", _counts),
        stages=row.json("stages", _times),
        error_code=row.text_or_none("error_code"),
        error=row.text_or_none("error"),
        snapshot_id=row.number_or_none("snapshot_id"),
        bytes_read=row.number_or_none("bytes_read"),
    )


def pointer(namespace: str, name: str, location: str | None, iceberg_type: str | None) -> Pointer:
    table = TableName(namespace, name)
    if not location:
        raise TrickleError(
            "CATALOG_CORRUPT",
            f"table iceberg_tables, row {table}, column metadata_location: the value is missing",
        )
    return Pointer(table, location, iceberg_type == "VIEW")


def named_cut(values: RowMapping) -> NamedCut:
    row = Fields("trickle_cuts", values, key="name")
    return NamedCut(row.text("name"), row.text("catalog_name"), row.moment("created_at"), row.text_or_none("comment"))


def functions_used(row: Fields) -> tuple[tuple[str, str], ...]:
    return () if row.text_or_none("functions_used") is None else row.json("functions_used", _functions)


def function(values: RowMapping) -> LakeFunction:
    row = Fields("trickle_functions", values, key="name")
    return LakeFunction(row.text("name"), row.text("path"), row.text("returns"), row.flag("deterministic"))


def _source_state(value: Any) -> tuple[str, str]:
    return _is(value["location"], str), _is(value["view"], str)


def source(values: RowMapping) -> Source:
    row = Fields("trickle_sources", values)
    location, view = row.json("state", _source_state)
    return Source(f"{row.text('namespace')}.{row.text('name')}", row.text("kind"), location, view)


def source_json(source: Source) -> str:
    return json.dumps({"location": source.location, "view": source.view}, ensure_ascii=False)


def alert(values: RowMapping) -> Alert:
    row = Fields("trickle_alerts", values)
    return Alert(
        id=row.number("id"),
        created_at=row.moment("created_at"),
        severity=row.text("severity"),
        code=row.text("code"),
        name=row.text_or_none("name"),
        message=row.text("message"),
    )


def garbage(values: RowMapping) -> Garbage:
    row = Fields("trickle_garbage", values)
    return Garbage(
        id=row.number("id"),
        kind=row.text("kind"),
        location=row.text("location"),
        created_at=row.moment("created_at"),
        not_before=row.moment_or_none("not_before"),
        reason=row.text_or_none("reason"),
    )
