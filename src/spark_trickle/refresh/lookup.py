"""What the text of a definition names, looked up in one set of pointers, and what it or its views say."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from spark_trickle.errors import TrickleError
from spark_trickle.lake.tables import Lake
from spark_trickle.model import HIDDEN_NAMESPACE, InputKind, Pointer, StreamTable, TableName, resolve
from spark_trickle.refresh.compiled import Inputs
from spark_trickle.spark.analyze import Analyzer
from spark_trickle.sql.lower import LakeTable, LakeView
from spark_trickle.sql.mentions import follows_the_clock, may_read, reads, time_of_day


class LakeTables:
    """Names of a definition, looked up in one set of pointers."""

    def __init__(
        self, lake: Lake, pointers: Mapping[TableName, Pointer], stream_tables: Mapping[TableName, StreamTable]
    ):
        self.lake = lake
        self.pointers = pointers
        self.stream_tables = stream_tables

    def find(self, parts: tuple[str, ...], namespace: str) -> LakeTable | LakeView | None:
        name = resolve(parts, namespace)
        stream_table = self.stream_tables.get(name)
        if stream_table is not None:
            return LakeTable(name, InputKind.STREAM_TABLE, tuple(c.name for c in stream_table.columns))
        pointer = self.pointers.get(name)
        if pointer is None:
            return None
        if name.namespace == HIDDEN_NAMESPACE:
            raise TrickleError(
                "INVALID_QUERY",
                f"{name} is a hidden state table",
                hint="Read the stream table that it belongs to; SHOW STREAM TABLES lists them.",
            )
        if pointer.is_view:
            return self.lake.view(pointer)
        return LakeTable(name, InputKind.SOURCE, tuple(f.name for f in self.lake.facts(pointer.location).fields))


def refuse_foreign(tables: LakeTables, definition: str, namespace: str) -> None:
    """What is not in the lake has no snapshots that could be followed."""
    try:
        names = reads(definition)
    except TrickleError:
        return  # not our grammar: Spark runs it, over the attempt's catalog
    for parts, where in names.items():
        if tables.find(parts, namespace) is None:
            raise TrickleError(
                "UNKNOWN_TABLE",
                f"{'.'.join(parts)}, at {where}, is not a table or view of the lake",
                hint="A definition reads Iceberg tables, views and stream tables of the lake, nothing else.",
            )


def clock_in(analyzer: Analyzer, tables: LakeTables, text: str, namespace: str) -> str | None:
    """What makes the definition, or a view it may read, move with the time."""
    found = first_in(follows_the_clock, tables, text, namespace)
    if found is not None:
        return found
    found = first_in(time_of_day, tables, text, namespace)
    if found is None or not analyzer.date_is_added(text):
        return None
    return f"{found}, which gets the current date,"


def first_in(look: Callable[[str], str | None], tables: LakeTables, text: str, namespace: str) -> str | None:
    """What `look` finds in the definition, or in a view it may read."""
    found = look(text)
    if found is not None:
        return found
    _, views = mentioned_inputs(tables, text, namespace)
    for name in views:
        view = tables.find(name.parts, namespace)
        found = look(view.text) if isinstance(view, LakeView) else None
        if found is not None:
            return f"{found} in view {name}"
    return None


def mentioned_inputs(tables: LakeTables, text: str, namespace: str) -> tuple[Inputs, tuple[TableName, ...]]:
    """All columns of all tables that the text or its views may mean."""
    inputs: Inputs = {}
    views: dict[TableName, None] = {}
    waiting = [(text, namespace)]
    while waiting:
        body, home = waiting.pop()
        for parts in sorted(may_read(body)):
            found = tables.find(parts, home)
            if isinstance(found, LakeTable):
                inputs[found.name] = (found.kind, found.columns)
            elif isinstance(found, LakeView) and found.name not in views:
                views[found.name] = None
                waiting.append((found.text, found.namespace))
    return inputs, tuple(views)
