"""Source snapshots that stream tables reflect and that the source's own retention is about to let go."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import datetime

from spark_trickle.errors import TrickleError
from spark_trickle.lake.tables import Lake
from spark_trickle.model import Dependency, InputKind, Pointer, StreamTable, TableName


@dataclass(frozen=True, slots=True)
class Expiring:
    """A snapshot that is not the newest of its source, and that no tag or branch keeps."""

    source: str
    snapshot_id: int
    made_at: datetime
    expires_at: datetime


def expiring(lake: Lake, tables: Iterable[StreamTable], pointers: Mapping[TableName, Pointer]) -> dict[str, Expiring]:
    """For each stream table that reflects such snapshots, the one that goes first."""
    found: dict[str, Expiring] = {}
    for table in tables:
        read = (d for part in (table, *table.states) for d in part.dependencies if d.kind is InputKind.SOURCE)
        snapshots = [one for d in read if (one := _expiring(lake, d, pointers)) is not None]
        if snapshots:
            found[str(table.name)] = min(snapshots, key=lambda e: e.expires_at)
    return found


def _expiring(lake: Lake, then: Dependency, pointers: Mapping[TableName, Pointer]) -> Expiring | None:
    try:
        now = pointers.get(then.input)
        if now is None or now.is_view or now.location == then.pointer or then.snapshot_id is None:
            return None
        times = lake.kind(now.location).expires(now.location, then.snapshot_id)
    except TrickleError:  # it cannot be looked at now: a refresh says why
        return None
    return None if times is None else Expiring(str(then.input), then.snapshot_id, *times)
