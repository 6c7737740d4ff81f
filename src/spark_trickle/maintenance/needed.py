"""Who needs which snapshots of a table: those never expire."""

from __future__ import annotations

import re
from collections.abc import Iterable

from spark_trickle.errors import TrickleError
from spark_trickle.lake.tables import Lake
from spark_trickle.model import InputKind, Pointer, StreamTable, TableName

_NUMBER = re.compile(r"\d{6,}")


def reads(table: StreamTable, name: TableName) -> bool:
    return any(d.input == name for d in table.reads)


def named_versions(lake: Lake, name: TableName, tables: Iterable[StreamTable]) -> set[int]:
    """The snapshots that definitions over a table may name: `VERSION AS OF 123`, in a view, too.

    Any long number is taken for one. One that is none keeps nothing.
    """
    found: set[int] = set()
    for table in tables:
        if table.incremental or not reads(table, name):
            continue
        texts = [table.definition]
        for view in (d for d in table.reads if d.kind is InputKind.VIEW and d.pointer):
            try:
                texts.append(lake.view(Pointer(view.input, str(view.pointer), is_view=True)).text)
            except (TrickleError, KeyError, StopIteration):  # not Spark's, or gone: its next refresh says so
                continue
        found |= {int(number) for text in texts for number in _NUMBER.findall(text)}
    return found
