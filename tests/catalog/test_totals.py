"""Sums over the history, and the other figures of `/metrics`, in both databases."""

from __future__ import annotations

import uuid
from datetime import UTC, datetime, timedelta
from typing import Any

from sqlalchemy import insert

from spark_trickle.catalog import tables
from spark_trickle.catalog.leases import acquire
from spark_trickle.catalog.owner import Owner
from spark_trickle.catalog.rows import RefreshSum
from spark_trickle.catalog.store import CatalogStore
from spark_trickle.model import TableName
from spark_trickle.monitor.totals import Totals
from tests.catalog.records import REVENUE, add_revenue

LIMITS = (0.1, 1.0)


def record(store: CatalogStore, id_: int, ended: datetime | None, seconds: float = 0.5, **more: Any) -> None:
    """A refresh in the history; without an end it runs."""
    values = {
        "id": id_,
        "refresh_id": uuid.uuid4().hex,
        "stream_table_id": 1,
        "name": str(REVENUE),
        "state": "RUNNING" if ended is None else "COMPLETED",
        "action": None if ended is None else "FULL",
        "initiated_by": "manual",
        "started_at": datetime.now(UTC),
        "ended_at": ended,
        "seconds": None if ended is None else seconds,
        "rows_inserted": 2**40,
        "rows_updated": 2,
        "rows_deleted": 3,
        "rows_changed": "{}",
        "stages": "{}",
    } | more
    with store.write() as tx:
        tx.connection.execute(insert(tables.refresh_history).values(**values))


def test_sums(store: CatalogStore) -> None:
    assert store.refresh_sums(0, None, LIMITS) == ()
    now = datetime.now(UTC)
    for id_, seconds in ((1, 0.1), (2, 0.5), (3, 0.25), (4, 7.0)):
        record(store, id_, now, seconds)
    record(store, 5, None)
    found = sorted(store.refresh_sums(0, None, LIMITS), key=lambda s: s.bucket)
    assert [(s.bucket, s.refreshes, s.seconds) for s in found] == [(0, 1, 0.1), (1, 2, 0.75), (2, 1, 7.0)]
    assert found[1] == RefreshSum(1, "COMPLETED", "FULL", 1, 2, 0.75, 2**41, 4, 6)
    assert [s.refreshes for s in store.refresh_sums(1, 3, LIMITS)] == [2]
    assert set(store.running().values()) == {1}


def test_the_newest_refresh_of_each_stream_table(store: CatalogStore) -> None:
    with store.write() as tx:
        assert add_revenue(tx) == 1
        add_revenue(tx, name=TableName("s", "never"))
    assert store.last_refreshes() == {}
    for id_, seconds in ((1, 0.5), (2, 0.25)):
        record(store, id_, datetime.now(UTC), seconds)
    assert {id_: entry.seconds for id_, entry in store.last_refreshes().items()} == {1: 0.25}


def test_what_is_settled(store: CatalogStore) -> None:
    now = datetime.now(UTC)
    old = now - timedelta(hours=1)
    assert store.settled(0, now) == 0
    record(store, 3, old)
    assert store.settled(0, now) == 3
    record(store, 4, None)
    record(store, 5, old)
    assert store.settled(0, now) == 3, "an older one still runs"
    assert store.settled(4, now) == 5
    record(store, 6, now)
    assert store.settled(5, now) == 5, "it ended just now"


def test_rows_that_become_visible_late(store: CatalogStore) -> None:
    """On PostgreSQL a transaction may commit an id that is smaller than those that are there."""
    totals, now = Totals(store, LIMITS), datetime.now(UTC)
    record(store, 10, now - timedelta(hours=1))
    record(store, 20, now)
    for late, expected in ((15, 3), (12, 4)):
        record(store, late, now - timedelta(minutes=1))
        assert sum(s.refreshes for s in totals.look(now)) == expected
    # Long after, all of it is settled, and is not counted again.
    for _ in range(2):
        assert sum(s.refreshes for s in totals.look(now + timedelta(hours=1))) == 4


def test_all_history_is_deleted(store: CatalogStore) -> None:
    """On SQLite the ids then begin again."""
    totals, now = Totals(store, LIMITS), datetime.now(UTC)
    record(store, 7, now - timedelta(hours=1))
    assert sum(s.refreshes for s in totals.look(now)) == 1
    with store.write() as tx:
        tx.connection.execute(tables.refresh_history.delete())
    assert sum(s.refreshes for s in totals.look(now)) == 1
    record(store, 1, now)
    assert sum(s.refreshes for s in totals.look(now)) == 2
    assert sum(s.refreshes for s in totals.look(now + timedelta(hours=1))) == 2


def test_alerts_and_leases(store: CatalogStore) -> None:
    with store.write() as tx:
        for n, kind in enumerate(("SUSPENDED", "INTEGRITY", "SUSPENDED")):
            row = {
                "created_at": datetime.now(UTC),
                "severity": "error",
                "kind": kind,
                "name": f"s.t{n}",
                "message": "x",
            }
            tx.connection.execute(insert(tables.alerts).values(**row))
    assert store.alert_counts() == {("INTEGRITY", "error"): 1, ("SUSPENDED", "error"): 2}
    assert store.lease_expires_at("scheduler") is None
    acquire(store, ["scheduler"], Owner.here(), ttl_seconds=30, wait_seconds=0)
    expires = store.lease_expires_at("scheduler")
    assert expires is not None
    assert abs((expires - datetime.now(UTC)).total_seconds() - 30) < 15
