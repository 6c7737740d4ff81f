"""Who needs which snapshots of a table: those never expire."""

from __future__ import annotations

import logging
import re
from collections.abc import Iterable

from spark_trickle.catalog.reader import CatalogReader
from spark_trickle.errors import TrickleError
from spark_trickle.lake.jvm import file_io
from spark_trickle.lake.tables import Lake
from spark_trickle.model import InputKind, Pointer, StreamTable, TableName

_log = logging.getLogger(__name__)

_NUMBER = re.compile(r"\d{6,}")


def held_snapshots(store: CatalogReader, lake: Lake, name: TableName) -> set[int]:
    """Where the lake, cuts, readers and refreshes stand in a table."""
    found: set[int] = set()
    for catalog, location in store.held_at(name).items():
        try:
            there = lake.facts(location).snapshot_id
        except TrickleError:
            if file_io(lake.session).newInputFile(location).exists():
                raise  # storage does not answer, say
            # An attempt that is over takes its metadata files along. Any other one cannot be read by anybody.
            if store.held_at(name).get(catalog) == location:
                _log.warning("%s stands at %s, which is gone: nothing is kept for it", catalog, location)
            continue
        if there is not None:
            found.add(there)
    return found


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
