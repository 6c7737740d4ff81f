"""What pointers alone tell about a stream table. Pure."""

from __future__ import annotations

from collections.abc import Mapping

from spark_trickle.model import Pointer, StreamTable, TableName


def location_of(pointers: Mapping[TableName, Pointer], name: TableName) -> str | None:
    pointer = pointers.get(name)
    return None if pointer is None else pointer.location


def inputs_moved(table: StreamTable, pointers: Mapping[TableName, Pointer]) -> bool:
    """Whether an input moved past the frontier."""
    return any(
        d.pointer is None or location_of(pointers, d.input) != d.pointer
        for t in (table, *table.states)
        for d in t.dependencies
    )


def changed_outside(table: StreamTable, pointers: Mapping[TableName, Pointer]) -> bool:
    """Whether the table, or a state table, is not what we published last."""
    return any(location_of(pointers, t.name) != t.published_pointer for t in (table, *table.states))
