"""Give what a refresh wrote to its consumers, and forget it when they have it.

Consumers in the same attempt take it from memory. For those that come later it is logged, unless it only added rows:
then the added files are the log already.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable, Mapping

from spark_trickle.catalog.store import CatalogStore
from spark_trickle.lake import changelog
from spark_trickle.lake.cleanup import sweep
from spark_trickle.lake.jvm import handles, why
from spark_trickle.lake.staging import Staging
from spark_trickle.lake.tables import Lake
from spark_trickle.model import InputKind, StreamTable, TableName
from spark_trickle.refresh.inputs import Feeds
from spark_trickle.refresh.stages import Stages
from spark_trickle.thresholds import SWEPT_BY_REFRESH

_log = logging.getLogger(__name__)


def hand_over(
    staging: Staging, feeds: Feeds, table: StreamTable, known: Mapping[TableName, StreamTable], stages: Stages
) -> None:
    """Keep the delta of a DIFFERENTIAL refresh for whoever reads the table."""
    delta, attempt = staging.delta, staging.attempt
    if delta is None:
        return
    readers = {t.name for t in known.values() if any(d.input == table.name for d in t.reads)}
    if not readers and table.owner_id is None:
        return
    feeds.lend(delta.views)
    attempt.deltas[staging.name] = delta
    if delta.removed and readers - attempt.to_come:
        pinned = attempt.lake.table(staging.location, str(staging.name))
        with stages("log"):
            staging.log = changelog.write(attempt.session, pinned, delta, attempt.slot.catalog)


def trim(store: CatalogStore, lake: Lake, tables: Iterable[StreamTable], most: int = SWEPT_BY_REFRESH) -> None:
    """After these stream tables moved on or were dropped: forget what all consumers of their inputs have passed.

    Entries become garbage in one transaction, and the files go afterwards: a crash in between leaves a note of them.
    What upkeep left is not for a refresh to delete, which holds leases: that is much at once.
    Nothing here can undo the publish, so a failure is only said.
    """
    try:
        _trim(store, lake, {d.input for t in tables for d in t.reads if d.kind is InputKind.STREAM_TABLE})
        sweep(lake.session, store, ("file", "table"), most)
    except Exception as error:
        _log.warning("the change log was not trimmed: %s", why(error))


def _trim(store: CatalogStore, lake: Lake, names: set[TableName]) -> None:
    entries = store.change_log(names)
    if not entries:
        return
    frontiers: dict[TableName, list[int | None]] = {}
    for table in store.stream_tables():
        for part in (*table.states, table):
            for d in part.dependencies:
                if d.input in names:
                    frontiers.setdefault(d.input, []).append(d.snapshot_id)
    pointers = store.pointers(names=names)
    doomed: list[int] = []
    for table_name in {e.table for e in entries if e.table is not None}:
        own = [e for e in entries if e.table == table_name]
        numbers = _sequence(lake, pointers[table_name].location) if table_name in pointers else {}
        doomed += [e.id for e in changelog.passed(own, frontiers.get(table_name, ()), numbers)]
    if doomed:
        with store.write() as tx:
            tx.trim_change_log(doomed)


def _sequence(lake: Lake, location: str) -> dict[int, int]:
    """The snapshots of a table in the order they were made."""
    snapshot, held = "org.apache.iceberg.Snapshot", handles(lake.session)
    found = lake.metadata(location).snapshots()
    ids = held.pluck(found, (snapshot, "snapshotId"))
    numbers = held.pluck(found, (snapshot, "sequenceNumber"))
    return {int(i): int(n) for i, n in zip(ids, numbers, strict=True)}
