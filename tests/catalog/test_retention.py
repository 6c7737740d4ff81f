"""Old history goes; what the engine asks for and the totals of all time stay."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from sqlalchemy import Engine, event, select

from spark_trickle.catalog import retention, tables
from spark_trickle.catalog.retention import DELETED, deleted_until, trim_history
from spark_trickle.catalog.store import CatalogStore, Transaction
from spark_trickle.model import Action, Mode, StreamTable
from spark_trickle.monitor.totals import Totals
from spark_trickle.refresh.decide import Change, Past, decide_by_cost
from spark_trickle.results import HistoryEntry
from spark_trickle.thresholds import DURATIONS, PAST_REFRESHES
from tests.catalog.records import REVENUE
from tests.catalog.test_totals import record

NOW = datetime(2026, 6, 1, tzinfo=UTC)
KEEP = timedelta(days=30)


def ids(store: CatalogStore) -> list[int]:
    return [r["id"] for r in store._rows(select(tables.refresh_history.c.id).order_by(tables.refresh_history.c.id))]


def made(store: CatalogStore) -> None:
    with store.write() as tx:
        assert tx.save_stream_table(StreamTable.draft(REVENUE, "SELECT 1", "s", Mode.AUTO, NOW)) == 1


def refreshes(totals: Totals) -> tuple[int, float, int]:
    found = totals.look(NOW)
    return sum(s.refreshes for s in found), round(sum(s.seconds for s in found), 6), sum(s.rows_inserted for s in found)


def test_old_history_goes_and_is_still_counted(store: CatalogStore) -> None:
    made(store)
    old, count = NOW - timedelta(days=40), PAST_REFRESHES + 20
    for n in range(1, count + 1):
        record(store, n, old + timedelta(minutes=n), seconds=0.25)
    record(store, count + 1, NOW - timedelta(days=1), seconds=7.0)
    record(store, count + 2, None)
    watching, late = Totals(store, DURATIONS), Totals(store, DURATIONS)
    expected = (count + 1, 0.25 * count + 7, (count + 1) * 2**40)
    assert refreshes(watching) == expected
    assert trim_history(store, NOW - KEEP) == 20
    # The newest that tell costs, and the first, at which its changes begin.
    assert ids(store) == [1, *range(22, count + 3)]
    for totals in (watching, late, Totals(store, DURATIONS)):
        assert refreshes(totals) == expected
    assert trim_history(store, NOW - KEEP) == 0
    record(store, count + 3, NOW - timedelta(hours=1), seconds=0.25)
    assert trim_history(store, NOW - timedelta(hours=2)) == 1
    for totals in (watching, late, Totals(store, DURATIONS)):
        assert refreshes(totals) == (count + 2, 0.25 * (count + 1) + 7, (count + 2) * 2**40)


def statements(store: CatalogStore, do: Callable[[], object]) -> Iterator[tuple[bool, str, Any]]:
    """What a call runs: whether in a write transaction, text and parameters."""
    found: list[tuple[bool, str, Any]] = []
    writing, write = [False], store.write

    @contextmanager
    def watched() -> Iterator[Transaction]:
        with write() as tx:
            writing[0] = True
            try:
                yield tx
            finally:
                writing[0] = False

    def note(_connection: object, _cursor: object, statement: str, parameters: object, *_: object) -> None:
        found.append((writing[0], statement, parameters))

    store.write = watched  # type: ignore[method-assign]
    event.listen(Engine, "before_cursor_execute", note)
    try:
        do()
    finally:
        event.remove(Engine, "before_cursor_execute", note)
        store.write = write  # type: ignore[method-assign]
    yield from found


def test_nobody_waits_while_old_history_is_chosen(store: CatalogStore, monkeypatch: pytest.MonkeyPatch) -> None:
    """The history is ranked once, and before the transactions that delete."""
    monkeypatch.setattr(retention, "TRIMMED_ROWS", 7)
    made(store)
    for n in range(1, PAST_REFRESHES + 22):
        record(store, n, NOW - timedelta(days=40), seconds=0.25)
    ran = list(statements(store, lambda: trim_history(store, NOW - KEEP)))
    assert [writing for writing, text, _ in ran if "row_number" in text] == [False]
    assert sum("DELETE FROM" in text for _, text, _ in ran) == 3
    assert len(ids(store)) == PAST_REFRESHES + 1


def test_the_last_failure_is_found_by_an_index(store: CatalogStore) -> None:
    made(store)
    record(store, 1, NOW - timedelta(days=2), state="FAILED")
    record(store, 2, NOW - timedelta(days=1), state="FAILED")
    record(store, 3, NOW)
    assert store.last_failures([1]) == {1: NOW - timedelta(days=1)}
    if store.database.is_sqlite:
        ((_, text, parameters),) = statements(store, lambda: store.last_failures([1]))
        with store.database.read() as connection:
            plan = connection.exec_driver_sql(f"EXPLAIN QUERY PLAN {text}", parameters).all()
        assert "trickle_refresh_history_failed" in str(plan)


@pytest.mark.parametrize("trimmed", [False, True])
def test_auto_remembers_what_differential_took(store: CatalogStore, trimmed: bool) -> None:
    """Simulated: DIFFERENTIAL takes 30 times as long as FULL. Far more refreshes than are looked at pass in between."""
    made(store)
    seconds = {Action.FULL: 1.0, Action.DIFFERENTIAL: 30.0, Action.REINITIALIZE: 1.0}
    done: list[Action] = []

    def refresh(action: Action, code: str) -> None:
        done.append(action)
        at = NOW - timedelta(days=60) + timedelta(minutes=len(done))
        entry = HistoryEntry(
            refresh_id=str(len(done)),
            name=str(REVENUE),
            state="COMPLETED",
            action=action,
            reason=f"{code}: why",
            initiated_by="manual",
            started_at=at,
            ended_at=at,
            seconds=seconds[action],
            rows_inserted=0,
            rows_updated=0,
            rows_deleted=0,
            rows_changed={"s.orders": 100},
            stages={},
            error_code=None,
            error=None,
        )
        with store.write() as tx:
            tx.add_refresh(entry, 1)

    refresh(Action.FULL, "INITIAL")
    for _ in range(2):
        refresh(Action.DIFFERENTIAL, "CHANGE_RATIO")
    for n in range(800):
        past = Past.of(store.costs(1, PAST_REFRESHES))
        decision = decide_by_cost([Change("s.orders", 100, 10_000)], past, 0.15)
        refresh(decision.action, decision.reason.code)
        if trimmed and n % 150 == 0:
            trim_history(store, NOW - KEEP)
    tried = done[3:].count(Action.DIFFERENTIAL)
    assert tried == (0 if trimmed else 1)  # FULL for 580 s allow a trial of 29 s more; what was deleted is not counted
    refresh(Action.REINITIALIZE, "ALTERED")
    for _ in range(PAST_REFRESHES + 1):
        refresh(Action.FULL, "REQUESTED")
    trim_history(store, NOW - KEEP)
    assert Past.of(store.costs(1, PAST_REFRESHES)).differential == ()  # it was another query


def test_history_of_a_dropped_table_goes_as_a_whole(store: CatalogStore) -> None:
    for n in range(1, 4):
        record(store, n, NOW - timedelta(days=40))
    assert trim_history(store, NOW - KEEP) == 3
    assert ids(store) == []
    assert store.setting(DELETED) == "[]"  # nobody asks for it any more


def test_the_start_of_the_changes_is_known(store: CatalogStore) -> None:
    """A time before what is kept must not be taken for one before the first content."""
    made(store)
    for n in range(1, PAST_REFRESHES + 20):
        record(store, n, NOW - timedelta(days=40) + timedelta(minutes=n))
    moment = NOW - timedelta(days=40) + timedelta(minutes=10)
    before = store.published_at(1, moment)
    trim_history(store, NOW - KEEP)
    after = store.published_at(1, moment)
    assert before is not None
    assert after is not None
    newest = NOW - timedelta(days=40) + timedelta(minutes=19)
    assert after[1] < moment < newest  # what the history tells is wrong for it
    assert deleted_until(store, 1) == newest
    record(store, PAST_REFRESHES + 20, NOW - timedelta(days=35))
    trim_history(store, NOW - KEEP)
    assert deleted_until(store, 1) == newest + timedelta(minutes=1)
    assert deleted_until(store, 2) is None
