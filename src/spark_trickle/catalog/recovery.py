"""What a process that died left in the catalog: another process finds it, at its start or taking over."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING

from sqlalchemy import delete, select, update

from spark_trickle.catalog import rows
from spark_trickle.catalog.leases import FREE, holding
from spark_trickle.catalog.tables import iceberg_tables, leases, refresh_history
from spark_trickle.model import Pointer

if TYPE_CHECKING:
    from spark_trickle.catalog.store import CatalogStore

_PRIVATE = re.compile(r"trickle_([0-9a-f]{8})_[0-9]+")


@dataclass(frozen=True, slots=True)
class Leftover:
    """A private catalog without a living owner. Its files go first, then `Transaction.drop_catalog`."""

    catalog: str
    pointers: tuple[Pointer, ...]


@dataclass(frozen=True, slots=True)
class Recovery:
    """`failed` holds the refresh ids that were RUNNING and now are FAILED."""

    failed: tuple[str, ...]
    leftovers: tuple[Leftover, ...]


def recover(store: CatalogStore) -> Recovery:
    """Close the books of dead owners.

    Their leases are freed under a higher token first: should one of them wake up after all, its publish is
    refused, so its files may be deleted.
    """
    with store.write() as tx:
        connection = tx.connection
        found = connection.execute(select(leases).order_by(leases.c.name).with_for_update()).mappings()
        held = [h for h in map(holding, found) if h is not None]
        now = store.database.now(connection)
        living = {store.owner.id} | {h.owner.id for h in held if not h.is_stale(now)}
        for gone in (h for h in held if h.owner.id not in living):
            if gone.name == gone.owner.process_lease:
                connection.execute(delete(leases).where(leases.c.name == gone.name))
            else:
                freed = update(leases).where(leases.c.name == gone.name)
                connection.execute(freed.values(token=leases.c.token + 1, **FREE))

        h = refresh_history
        running = connection.execute(select(h.c.refresh_id, h.c.process).where(h.c.state == "RUNNING")).all()
        failed = tuple(refresh_id for refresh_id, process in running if process not in living)
        for refresh_id in failed:
            closed = update(h).where(h.c.refresh_id == refresh_id)
            connection.execute(
                closed.values(state="FAILED", ended_at=now, error_code="LEASE_LOST", error="the process died")
            )

        p = iceberg_tables
        private = select(p).where(p.c.catalog_name.like("trickle!_%", escape="!"))
        catalogs: dict[str, list[Pointer]] = {}
        for row in connection.execute(private.order_by(*p.primary_key)).mappings():
            name = _PRIVATE.fullmatch(row["catalog_name"])
            if name is not None and name[1] not in living:
                pointer = rows.pointer(
                    row["table_namespace"], row["table_name"], row["metadata_location"], row["iceberg_type"]
                )
                catalogs.setdefault(row["catalog_name"], []).append(pointer)
    return Recovery(failed, tuple(Leftover(name, tuple(found)) for name, found in catalogs.items()))


ORPHANS = "orphans"  # a kind of garbage: `location` is the lease of a table whose folder is to be looked through


def note_orphans(store: CatalogStore, ids: Iterable[int], age: timedelta) -> None:
    """A process died that worked on these tables; files are looked for when they are older than `age`.

    Noted once in that time: then the files of all deaths since are old enough.
    """
    now = datetime.now(UTC)
    noted = {g.location for g in store.garbage(kinds=(ORPHANS,)) if g.created_at > now - age}
    new = sorted({f"stream_table:{id_}" for id_ in ids} - noted)
    if new:
        with store.write() as tx:
            for location in new:
                tx.add_garbage(
                    location, kind=ORPHANS, not_before=now + 2 * age, reason="a process died that wrote to it"
                )
