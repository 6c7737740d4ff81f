"""Publish: one SQL transaction moves every member's pointers and writes frontier, history and status.

Four conditions, all checked before anything is visible:
1. the lake's pointer is still the one the attempt started from;
2. the chain from the staged snapshot down to the base holds only snapshots that the attempt recorded;
3. the lease's fencing token is current, inside the same transaction;
4. the stream tables that were read are still there.
Any failure publishes nothing.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from spark_trickle.catalog.changes import Change
from spark_trickle.catalog.leases import Lease
from spark_trickle.catalog.store import CatalogStore, Transaction
from spark_trickle.errors import TrickleError
from spark_trickle.lake.staging import Staging
from spark_trickle.lake.tables import Lake
from spark_trickle.model import Pointer, TableName


@dataclass(frozen=True, slots=True)
class Member:
    """One stream table's part of a publish. `staging` is None when only the frontier moves."""

    name: TableName
    lease: Lease
    change: Change  # row, frontier, history
    staging: Staging | None = None
    reads: tuple[TableName, ...] = ()  # other stream tables: they must still be there
    retired: TableName | None = None  # a hidden state table that goes


def publish(
    store: CatalogStore,
    lake: Lake,
    members: Sequence[Member],
    also: Sequence[Change] = (),
    *,
    probe: Callable[[str], None] | None = None,
) -> None:
    """All members and what is to be written `also`, or nothing. Tests fail at the points where `probe` is called."""
    at = probe or (lambda _point: None)
    at("before checks")
    for member in members:
        if member.staging is not None:
            check_chain(lake, member.staging)
    at("before transaction")
    ids: dict[TableName, int] = {}
    with store.write() as tx:
        for member in members:
            at(f"in transaction, before {member.name}")
            tx.check_lease(member.lease)
            tx.hold_inputs(member.reads)
            _move(tx, member)
            member.change.apply(tx, ids)
        for change in also:
            change.apply(tx, ids)
        at("before commit")
    at("after commit")


def _move(tx: Transaction, member: Member) -> None:
    staging = member.staging
    if staging is not None:
        if staging.base is None:
            tx.insert_pointer(Pointer(staging.name, staging.location, is_view=False))
        elif staging.location != staging.base.location:
            tx.swap_pointer(staging.name, staging.base.location, staging.location)
    if member.retired is not None:
        tx.retire(member.retired)


def check_chain(lake: Lake, staging: Staging) -> None:
    """Condition 2, on the very file that will be published."""
    metadata = lake.metadata(staging.location)
    base = None if staging.base is None else lake.facts(staging.base.location).snapshot_id
    recorded = set(staging.recorded)
    current = metadata.currentSnapshot()
    at = None if current is None else current.snapshotId()
    if at != (staging.recorded[-1] if staging.recorded else base):
        raise _foreign(staging.name)
    while at is not None and at != base:
        if at not in recorded:
            raise _foreign(staging.name)
        at = metadata.snapshot(at).parentId()
    if at != base:
        raise _foreign(staging.name)


def _foreign(name: TableName) -> TrickleError:
    return TrickleError("PUBLISH_CONFLICT", f"the staged copy of {name} holds a commit that this refresh did not make")
