"""The history by filters and in groups, in both databases."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime, timedelta

from spark_trickle.catalog.history import Advance, HistoryFilter
from spark_trickle.catalog.store import CatalogStore
from spark_trickle.model import Action, Lineage, Origin, TableName, Via
from tests.catalog.records import REVENUE, add_revenue
from tests.monitor.test_monitor import entry

NOON = datetime(2026, 3, 2, 12, tzinfo=UTC)


def at(minutes: float) -> datetime:
    return NOON + timedelta(minutes=minutes)


def fill(store: CatalogStore) -> int:
    """Every minute a refresh, one of them failed, and one of a hidden state table."""
    actions = [Action.FULL, Action.DIFFERENTIAL, Action.NO_DATA, None, Action.SKIP]
    with store.write() as tx:
        id_ = add_revenue(tx)
        for n, action in enumerate(actions * 2):
            told = {"error_code": "SPARK_FAILED"} if action is None else {"reason": f"CODE{n % 5}: {n}"}
            done = entry(str(REVENUE), action, n + 0.5, started_at=at(n), ended_at=at(n + 0.5), **told)
            shown = None if action in (None, Action.SKIP) else at(n)
            tx.add_refresh(replace(done, data_timestamp=shown, refresh_id=f"r{n}"), id_)
        tx.add_refresh(entry("_trickle.part", Action.FULL, refresh_id="hidden", started_at=at(3)), 99)
    return id_


def test_filters(store: CatalogStore) -> None:
    fill(store)

    def found(**filters: object) -> list[str]:
        return [e.refresh_id for e in store.history(chosen=HistoryFilter(**filters))]  # type: ignore[arg-type]

    assert found(since=at(7), until=at(9)) == ["r8", "r7"]
    assert found(state="FAILED") == ["r8", "r3"]
    assert found(action=Action.FULL, min_seconds=1) == ["r5"]
    assert found(name="_trickle.part") == ["hidden"]
    assert store.history(limit=1)[0].data_timestamp is None
    assert store.history(str(REVENUE), limit=3)[2].data_timestamp == at(7)


def test_groups_durations_and_counts(store: CatalogStore) -> None:
    fill(store)
    groups = store.refresh_groups(HistoryFilter(since=at(1)))
    told = {(g.state, g.action, g.reason, g.error_code): (g.refreshes, g.seconds) for g in groups}
    assert told == {
        ("COMPLETED", "DIFFERENTIAL", None, None): (2, 8.0),
        ("COMPLETED", "NO_DATA", None, None): (2, 10.0),
        ("FAILED", None, None, "SPARK_FAILED"): (2, 12.0),
        ("COMPLETED", "SKIP", "CODE4: 4", None): (1, 4.5),
        ("COMPLETED", "SKIP", "CODE4: 9", None): (1, 9.5),
        ("COMPLETED", "FULL", "CODE0: 5", None): (1, 5.5),
    }
    assert store.durations(HistoryFilter()) == {str(REVENUE): [0.5, 1.5, 5.5, 6.5]}
    assert store.refresh_counts(at(7)) == {"COMPLETED": 2, "FAILED": 1}
    assert store.history_size() == (11, NOON)


def test_advances(store: CatalogStore) -> None:
    id_ = fill(store)
    every = [
        Advance(at(n + 0.5), at(n), computed)
        for n, computed in ((0, True), (1, True), (2, False), (5, True), (6, True))
    ]
    last = Advance(at(7.5), at(7), False)
    assert store.advances(NOON - timedelta(days=1)) == {id_: [*every, last]}
    assert store.advances(at(4), id_) == {id_: [*every[2:], last]}  # the last one before the window
    assert store.advances(at(60)) == {id_: [last]}
    assert store.advances(at(60), id_ + 1) == {}


def test_garbage_and_lineage(store: CatalogStore) -> None:
    assert store.garbage_due(NOON) == (0, None)
    with store.write() as tx:
        tx.add_garbage("file:/a", not_before=at(5))
        tx.add_garbage("file:/b", not_before=at(3))
        tx.add_garbage("file:/c")
        id_ = add_revenue(tx)
        own = Lineage({"ü": frozenset([Origin(TableName("shop.eu", "orders"), "o.x", Via.IDENTITY)])}, frozenset())
        tx.put_lineage(id_, own)
        tx.put_lineage(id_, own)
    assert store.garbage_due(at(4))[0] == 2
    assert store.garbage_due(datetime.now(UTC) + timedelta(days=1)) == (3, at(3))
    assert store.lineages() == store.lineages([REVENUE]) == {REVENUE: own}
    assert store.lineages([TableName("s", "x")]) == {}
