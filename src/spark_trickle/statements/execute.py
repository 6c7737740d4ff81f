"""A STREAM TABLE statement becomes a call of the engine."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any, Protocol

from spark_trickle.errors import TrickleError
from spark_trickle.model import Mode, Star, TableOptions
from spark_trickle.statements.data import (
    AlterStreamTable,
    CreateStreamTable,
    CreateStreamTables,
    DescribeStreamTable,
    DropStreamTable,
    ExplainStreamTable,
    Name,
    RefreshStreamTable,
    ResumeStreamTable,
    ShowStreamTables,
    Statement,
    SuspendStreamTable,
)


class Engine(Protocol):
    """What a statement can ask for; `Trickle` is one."""

    def create_stream_table(
        self,
        name: str,
        query: str,
        schedule: str | None,
        mode: str | Mode,
        initialize: bool,
        star: str | Star,
        settings: Mapping[str, object] | None,
        options: TableOptions | None,
    ) -> Any: ...
    def create_stream_tables(self, tables: Sequence[Mapping[str, Any]]) -> Any: ...
    def alter_stream_table(
        self,
        name: str,
        query: str | None,
        schedule: str | None,
        mode: str | Mode | None,
        star: str | Star | None,
        settings: Mapping[str, object] | None,
        options: TableOptions | None,
    ) -> Any: ...
    def suspend(self, name: str) -> Any: ...
    def resume(self, name: str) -> Any: ...
    def drop_stream_table(self, name: str, cascade: bool, if_exists: bool) -> Any: ...
    def refresh(self, name: str, mode: str | Mode | None) -> Any: ...
    def status(self, name: str | None = None) -> Any: ...
    def explain(self, name: str) -> Any: ...
    def describe(self, name: str) -> Any: ...


def execute(statement: Statement, engine: Engine) -> Any:
    """Run a statement; returns what the engine's method of the same name returns."""
    match statement:
        case ShowStreamTables():
            return engine.status()
        case CreateStreamTable():
            return _create(statement, engine)
        case CreateStreamTables():
            return engine.create_stream_tables([_arguments(one) for one in statement.tables])
        case AlterStreamTable():
            return engine.alter_stream_table(
                _quoted(statement.name),
                statement.query,
                statement.schedule,
                statement.mode,
                statement.star,
                dict(statement.settings),
                None,
            )
        case SuspendStreamTable():
            return engine.suspend(_quoted(statement.name))
        case ResumeStreamTable():
            return engine.resume(_quoted(statement.name))
        case DropStreamTable():
            return engine.drop_stream_table(_quoted(statement.name), statement.cascade, statement.if_exists)
        case RefreshStreamTable():
            return engine.refresh(_quoted(statement.name), statement.mode)
        case DescribeStreamTable():
            return engine.describe(_quoted(statement.name))
        case ExplainStreamTable():
            return engine.explain(_quoted(statement.name))


def _arguments(statement: CreateStreamTable) -> dict[str, Any]:
    return {
        "name": _quoted(statement.name),
        "query": statement.query,
        "schedule": statement.schedule,
        "mode": statement.mode or Mode.AUTO,
        "star": statement.star or Star.PIN,
        "settings": dict(statement.settings),
        "options": statement.options,
    }


def _create(statement: CreateStreamTable, engine: Engine) -> Any:
    name = _quoted(statement.name)
    if statement.or_replace or statement.if_not_exists:
        try:
            existing = engine.status(name)
        except TrickleError as error:
            if error.code != "UNKNOWN_STREAM_TABLE":
                raise
        else:
            if statement.if_not_exists:
                return existing
            mode, star = statement.mode or Mode.AUTO, statement.star or Star.PIN
            settings = dict(statement.settings)
            # What is not said about the table goes back to nothing, as the query does; properties stay.
            options = replace(
                statement.options,
                partitioned_by=statement.options.partitioned_by or (),
                clustered_by=statement.options.clustered_by or (),
            )
            altered = engine.alter_stream_table(
                name, statement.query, statement.schedule, mode, star, settings, options
            )
            return altered or engine.status(name)
    return engine.create_stream_table(
        name,
        statement.query,
        statement.schedule,
        statement.mode or Mode.AUTO,
        statement.initialize,
        statement.star or Star.PIN,
        dict(statement.settings),
        statement.options,
    )


def _quoted(name: Name) -> str:
    return ".".join("`" + part.replace("`", "``") + "`" for part in name)
