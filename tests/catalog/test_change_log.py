"""The change log in the catalog: entries of a stream table in order, files that become garbage, times of publishes."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime, timedelta

import pytest
from sqlalchemy import text

from spark_trickle.catalog.rows import LogEntry, LoggedFile
from spark_trickle.catalog.store import CatalogStore, Transaction
from spark_trickle.errors import TrickleError
from spark_trickle.model import Action, TableName
from spark_trickle.results import HistoryEntry
from tests.catalog.records import REVENUE, add_revenue, code_of

OTHER = TableName("sales", "other")
START = datetime(2026, 1, 1, tzinfo=UTC)


def entry(start: int, end: int, *paths: str) -> LogEntry:
    return LogEntry(start, end, 7, tuple(LoggedFile(p, 100, 7) for p in paths))


def two_tables(tx: Transaction) -> tuple[int, int]:
    return add_revenue(tx), add_revenue(tx, name=OTHER)


def test_entries_are_read_by_storage_in_the_order_of_publishing(store: CatalogStore) -> None:
    with store.write() as tx:
        one, two = two_tables(tx)
        tx.log_changes(one, entry(2**62, 2, "file:/ü'\".parquet", "b"))
        tx.log_changes(two, entry(1, 5, "c"))
        tx.log_changes(one, entry(2, 1, "d"))
    first, second = store.change_log([REVENUE])
    assert replace(first, id=0, table=None) == entry(2**62, 2, "file:/ü'\".parquet", "b")
    assert (second.from_snapshot, second.table) == (2, REVENUE)
    assert first.id < second.id
    assert len(store.change_log([REVENUE, OTHER])) == 3
    assert store.change_log([]) == store.change_log([TableName("_trickle", "none")]) == ()


def test_what_is_forgotten_becomes_garbage_once(store: CatalogStore) -> None:
    with store.write() as tx:
        one, two = two_tables(tx)
        tx.log_changes(one, entry(1, 2, "a", "b"))
        tx.log_changes(one, entry(2, 3, "c"))
        tx.log_changes(two, entry(1, 2, "d"))
    ids = [e.id for e in store.change_log([REVENUE])]
    for _ in range(2):  # two processes trim the same entries
        with store.write() as tx:
            tx.trim_change_log(ids[:1])
            tx.trim_change_log([])
    assert [g.location for g in store.garbage()] == ["a", "b"]
    assert [e.id for e in store.change_log([REVENUE])] == ids[1:]
    with store.write() as tx:
        tx.clear_change_log(one)
    assert store.change_log([REVENUE]) == ()
    with store.write() as tx:
        tx.delete_stream_table(two)
    assert [(g.kind, g.location) for g in store.garbage()] == [("file", p) for p in "abcd"]


def test_a_transaction_that_fails_logs_nothing(store: CatalogStore) -> None:
    with store.write() as tx:
        one, _ = two_tables(tx)
        tx.log_changes(one, entry(1, 2, "a"))
    (known,) = store.change_log([REVENUE])

    def fail(tx: Transaction) -> None:
        tx.log_changes(one, entry(2, 3, "b"))
        tx.trim_change_log([known.id])
        raise RuntimeError

    with pytest.raises(RuntimeError), store.write() as tx:
        fail(tx)
    assert [e.to_snapshot for e in store.change_log([REVENUE])] == [2]
    assert store.garbage() == ()


@pytest.mark.parametrize("files", ["[{", '{"path": "a"}', '[{"path": "a", "size": "1", "rows": 1}]'])
def test_files_that_cannot_be_read_are_named(store: CatalogStore, files: str) -> None:
    with store.write() as tx:
        one, _ = two_tables(tx)
        tx.log_changes(one, entry(1, 2, "a"))
        tx.connection.execute(text("UPDATE trickle_change_log SET files = :files"), {"files": files})
    with pytest.raises(TrickleError) as error:
        store.change_log([REVENUE])
    assert code_of(error) == "CATALOG_CORRUPT"
    assert error.value.message.startswith("table trickle_change_log, row 1, column files: ")


def refresh(n: int, action: Action, snapshot: int | None, *, state: str = "COMPLETED") -> HistoryEntry:
    at = START + timedelta(hours=n)
    return HistoryEntry(
        f"r{n}", "sales.revenue", state, action, None, "manual", at, at, 0.1, 0, 0, 0, {}, {}, None, None, snapshot
    )


def test_when_snapshots_were_published(store: CatalogStore) -> None:
    with store.write() as tx:
        one, two = two_tables(tx)
        for h in (
            refresh(1, Action.FULL, 2**62),
            refresh(2, Action.NO_DATA, None),
            refresh(3, Action.DIFFERENTIAL, 7),
            refresh(4, Action.DIFFERENTIAL, 7),  # changed nothing
            refresh(5, Action.FULL, 8, state="FAILED"),
        ):
            tx.add_refresh(h, one)
        tx.add_refresh(refresh(6, Action.FULL, 7), two)
    hours = lambda n: START + timedelta(hours=n)  # noqa: E731
    assert store.history()[-1].snapshot_id == 2**62
    assert store.published(one, [2**62, 7, 99]) == {2**62: hours(1), 7: hours(3)}
    assert store.published(one, []) == {}
    assert store.published(one, range(2000)) == {7: hours(3), 8: hours(5)}
    assert store.published_at(one, hours(0)) is None
    assert store.published_at(one, hours(1)) == (2**62, hours(1))
    assert store.published_at(one, hours(2)) == (2**62, hours(1))
    assert store.published_at(one, hours(9)) == (7, hours(4))
