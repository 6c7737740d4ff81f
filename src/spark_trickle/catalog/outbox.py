"""The outbox of alerts: what is to be told, to whom, and how often it was tried. Only the scheduler that leads writes.

A notice is written with its alert, for nobody in particular. `hand_out` makes one delivery of it for each target, and
`claim` takes the oldest delivery of a target for a while: a successor who finds it claimed waits.
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime

from sqlalchemy import and_, delete, func, insert, select, update

from spark_trickle.catalog import rows
from spark_trickle.catalog.leases import Lease
from spark_trickle.catalog.rows import Delivery
from spark_trickle.catalog.store import CatalogStore
from spark_trickle.catalog.tables import outbox as o

MOST = 1000  # deliveries that wait for one target; the oldest beyond them go


def hand_out(
    store: CatalogStore, lease: Lease, targets: Sequence[str], now: datetime
) -> tuple[tuple[Delivery, ...], int]:
    """Make deliveries of new notices. Returns the notices, in their order, and how many deliveries were given up."""
    new = o.c.target.is_(None)
    with store.database.read() as connection:  # nearly always there is nothing: no write lock is taken
        if connection.execute(select(o.c.id).where(new).limit(1)).first() is None:
            return (), 0
    with store.write() as tx:
        tx.check_lease(lease)
        found = tx.connection.execute(delete(o).where(new).returning(o)).mappings()
        notices = sorted((rows.delivery(row) for row in found), key=lambda d: d.id)
        values = [
            {
                "notice": n.notice,
                "target": target,
                "body": n.body,
                "created_at": n.created_at,
                "attempts": 0,
                "next_at": now,
            }
            for n in notices
            for target in targets
        ]
        if values:
            tx.connection.execute(insert(o), values)
        lost = 0
        for target in targets:
            kept = select(o.c.id).where(o.c.target == target).order_by(o.c.id.desc()).offset(MOST - 1).limit(1)
            last = tx.connection.execute(kept).scalar()
            if last is not None:
                lost += tx.connection.execute(delete(o).where(o.c.target == target, o.c.id < last)).rowcount
    return tuple(notices), lost


def due(store: CatalogStore, now: datetime) -> tuple[str, ...]:
    """The targets whose oldest delivery may be tried."""
    first = select(func.min(o.c.id)).where(o.c.target.is_not(None)).group_by(o.c.target)
    with store.database.read() as connection:
        found = connection.execute(select(o.c.target).where(o.c.id.in_(first), o.c.next_at <= now))
        return tuple(sorted(str(row[0]) for row in found))


def claim(store: CatalogStore, lease: Lease, target: str, now: datetime, until: datetime) -> Delivery | None:
    """The oldest delivery of a target, if it may be tried; nobody else tries it until then."""
    first = select(func.min(o.c.id)).where(o.c.target == target).scalar_subquery()
    taken = update(o).where(and_(o.c.id == first, o.c.next_at <= now))
    with store.write() as tx:
        tx.check_lease(lease)
        row = tx.connection.execute(taken.values(attempts=o.c.attempts + 1, next_at=until).returning(o)).mappings()
        found = row.first()
    return None if found is None else rows.delivery(found)


def delivered(store: CatalogStore, delivery: Delivery) -> None:
    with store.write() as tx:
        tx.connection.execute(delete(o).where(o.c.id == delivery.id))


def failed(store: CatalogStore, delivery: Delivery, why: str, next_at: datetime) -> None:
    with store.write() as tx:
        tx.connection.execute(update(o).where(o.c.id == delivery.id).values(last_error=why, next_at=next_at))


def give_up(store: CatalogStore, lease: Lease, before: datetime) -> int:
    """Forget what is older, whomever it was for; returns how many."""
    old = o.c.created_at < before
    with store.database.read() as connection:
        if connection.execute(select(o.c.id).where(old).limit(1)).first() is None:
            return 0
    with store.write() as tx:
        tx.check_lease(lease)
        return tx.connection.execute(delete(o).where(old)).rowcount


def waiting(store: CatalogStore) -> dict[str | None, int]:
    """Deliveries by target; without one, notices that nobody has handed out."""
    with store.database.read() as connection:
        found = connection.execute(select(o.c.target, func.count()).group_by(o.c.target))
        return {row[0]: int(row[1]) for row in found}
