"""What is known before a refresh decides: the cut, the inputs against the frontier, the storage, past costs."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime

from spark_trickle.catalog.frontier import location_of
from spark_trickle.catalog.store import CatalogStore
from spark_trickle.errors import Reason, TrickleError
from spark_trickle.lake.file_schema import shows
from spark_trickle.lake.shape import lost
from spark_trickle.lake.tables import Lake
from spark_trickle.model import Action, InputKind, Mode, Pointer, Star, StreamTable, TableName
from spark_trickle.refresh.compiler import dropped
from spark_trickle.refresh.decide import Change, Decision, Past, Situation
from spark_trickle.refresh.definition import Compiled
from spark_trickle.refresh.inputs import Feeds, Input, obstacle
from spark_trickle.thresholds import PAST_REFRESHES


@dataclass(frozen=True, slots=True)
class Cut:
    """Every pointer of the lake at one instant."""

    pointers: Mapping[TableName, Pointer]
    instant: datetime


def situation_of(
    lake: Lake,
    table: StreamTable,
    compiled: Compiled,
    inputs: Sequence[Input],
    cut: Cut,
    asked: Mode | None,
    states: Sequence[Decision] = (),
) -> Situation:
    """`states` are the decisions about its state tables, which come first."""
    reshaped: Reason | None = None
    initialized = table.published_snapshot is not None
    if initialized:
        if compiled.layout != table.layout:
            _refuse_lost(table, inputs)
            reshaped = Reason("DEPENDENCY_CHANGED", "the columns of the definition changed")
        elif _views_moved(table, compiled, cut) and (
            # Without a tree the fingerprint is of the text, which does not show what its views mean.
            compiled.root is None or compiled.fingerprint != table.fingerprint
        ):
            reshaped = Reason("DEPENDENCY_CHANGED", "a view that the definition uses changed its meaning")
        elif (other := other_code(table, compiled)) is not None:
            reshaped = Reason("DEPENDENCY_CHANGED", f"the code of function {other} changed")
        elif {s.name for s in compiled.states} != {t.name for t in table.states if t.name in cut.pointers}:
            reshaped = Reason("DEPENDENCY_CHANGED", "the definition needs other hidden state tables than before")
    problem = next((_dropped(t) for t in table.states if initialized and t.name not in cut.pointers), None)
    if problem is not None:
        reshaped = None
    # A state table that is recomputed recomputes everything above it.
    problem = problem or next((d.reason for d in states if d.action is Action.REINITIALIZE), None)
    problem = problem or next((t for t in (obstacle(lake, i) for i in inputs) if t), None)
    if initialized and problem is None:
        new = next((i.name for i in inputs if i.frontier is None), None)
        problem = Reason("TABLE_REPLACED", f"{new} is a new input") if new else foreign(lake, table, cut)
    return Situation(
        mode=table.mode,
        asked=asked,
        incremental=compiled.incremental,
        not_incremental=compiled.reason,
        initialized=initialized,
        # Without a tree nobody knows which refs of a table are read: any commit counts.
        pending=any(i.changed or (compiled.root is None and i.moved) for i in inputs)
        or any(d.action is not Action.NO_DATA for d in states),
        time_dependent=compiled.time_dependent,
        reshaped=reshaped,
        obstacle=problem,
    )


def _refuse_lost(table: StreamTable, inputs: Sequence[Input]) -> None:
    """The result lost a field because a source did: the definition has lost what it uses."""
    if table.star is Star.FOLLOW or not table.shapes:
        return
    for item in inputs:
        fields = {f.id: f.type for f in item.facts.fields}
        for used in item.frontier.columns if item.frontier is not None else ():
            gone = lost(used.type, fields.get(used.field_id, used.type))
            if gone and item.frontier is not None and item.frontier.table_uuid == item.facts.uuid:
                raise dropped(table, f"field {used.name}.{gone[0]} of {item.name}")


def _views_moved(table: StreamTable, compiled: Compiled, cut: Cut) -> bool:
    known = {d.input: d.pointer for d in table.dependencies if d.kind is InputKind.VIEW}
    now = {v: location_of(cut.pointers, v) for v in compiled.views}
    return known != now


def other_code(table: StreamTable, compiled: Compiled) -> str | None:
    """A function that the content was computed with and that has another version now."""
    now = dict(compiled.functions)
    return next((name for name, version in table.functions if now.get(name, version) != version), None)


def foreign(lake: Lake, table: StreamTable, cut: Cut) -> Reason | None:
    """What somebody else did to the table, if its rows or its hidden columns may be others now.

    Tags, properties, comments, expired snapshots and rewritten manifests do no harm.
    """
    pointer = cut.pointers.get(table.name)
    if pointer is None:
        return _dropped(table)
    if pointer.location == table.published_pointer:
        return None
    refuse_taken(lake, table, cut)
    if not shows(lake.facts(pointer.location).schema, table.file_schema):
        return Reason("INTEGRITY", f"somebody else changed the columns of {table.name}")
    metadata = lake.metadata(pointer.location)
    snapshot = metadata.currentSnapshot()
    found: Reason | None = None
    while snapshot is not None and snapshot.snapshotId() != table.published_snapshot:
        if snapshot.operation() != "replace":
            return Reason("INTEGRITY", f"somebody else wrote to {table.name}")
        if {"added-data-files", "deleted-data-files"} & set(dict(snapshot.summary())):
            found = Reason(
                "REWRITTEN", f"somebody else rewrote the data files of {table.name}, without its hidden columns"
            )
        if snapshot.parentId() == table.published_snapshot:  # which may have expired since
            return found
        snapshot = None if snapshot.parentId() is None else metadata.snapshot(snapshot.parentId())
    return found if snapshot is not None else Reason("INTEGRITY", f"somebody else wrote to {table.name}")


def refuse_taken(lake: Lake, table: StreamTable, cut: Cut) -> None:
    """Another table or view may have got the name: it is not ours to overwrite."""
    pointer = cut.pointers.get(table.name)
    if pointer is None or pointer.location == table.published_pointer:
        return
    if pointer.is_view or table.table_uuid not in (None, lake.facts(pointer.location).uuid):
        what = "view" if pointer.is_view else "table"
        raise TrickleError(
            "NAME_TAKEN",
            f"{table.name} is another {what} now: somebody dropped the stream table's and made one of that name",
            hint=f"Rename or drop that {what}, and refresh again.",
        )


def _dropped(table: StreamTable) -> Reason:
    return Reason("INTEGRITY", f"somebody else dropped {table.name}")


def size_of(lake: Lake, item: Input, feeds: Feeds) -> Change:
    """Changed rows of an input, and the rows it had at the frontier."""
    total = 0
    if item.frontier is not None and item.frontier.snapshot_id is not None:
        total = lake.rows(feeds.attempt.session, item.pointer.location, item.frontier.snapshot_id) or 0
    return Change(str(item.name), feeds.count(item.name), total)


def past_of(store: CatalogStore, table: StreamTable) -> Past:
    return Past.of(store.costs(table.id, limit=PAST_REFRESHES))
