"""What is deleted when: files in the catalog's list of garbage, without a lake."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from types import SimpleNamespace

import pytest

from spark_trickle.catalog.store import CatalogStore
from spark_trickle.lake import cleanup
from spark_trickle.model import Pointer, TableName
from spark_trickle.refresh.handover import trim
from spark_trickle.thresholds import GARBAGE_FILES, HELD_SECONDS, SWEPT_BY_REFRESH


def test_a_refresh_deletes_little(store: CatalogStore, monkeypatch: pytest.MonkeyPatch) -> None:
    """What upkeep left is for the upkeep thread: a refresh holds leases meanwhile."""
    deleted: list[str] = []
    monkeypatch.setattr(cleanup, "delete_files", lambda _, paths: deleted.extend(paths))
    with store.write() as tx:
        tx.add_garbage_files([f"old{n}" for n in range(GARBAGE_FILES + 1)], not_before=None, reason="x")
        for n in range(SWEPT_BY_REFRESH + 1):
            tx.add_garbage(f"log{n}")
    trim(store, SimpleNamespace(session=None), [])  # type: ignore[arg-type]
    assert deleted == [f"log{n}" for n in range(SWEPT_BY_REFRESH)]
    cleanup.sweep(None, store)  # type: ignore[arg-type]
    assert len(deleted) == GARBAGE_FILES + 1 + SWEPT_BY_REFRESH + 1
    assert store.garbage() == ()


def test_a_table_that_a_cut_holds_is_not_asked_for_all_the_time(
    store: CatalogStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[str] = []

    def delete_table(_session: object, store: CatalogStore, location: str) -> bool:
        asked.append(location)
        return not store.is_held("file:/w/a")

    monkeypatch.setattr(cleanup, "_delete_table", delete_table)
    name = TableName("s", "a")
    with store.write() as tx:
        tx.insert_pointer(Pointer(name, "file:/w/a/metadata/1.json", is_view=False))
        tx.add_cut("kept")
        tx.retire(name)
    for _ in range(3):
        cleanup.sweep(None, store)  # type: ignore[arg-type]
    assert asked == ["file:/w/a/metadata/1.json"]
    assert store.garbage_due(datetime.now(UTC)) == (0, None)
    later = datetime.now(UTC) + timedelta(seconds=HELD_SECONDS + 1)
    assert len(store.garbage(later)) == 1
    with store.write() as tx:
        tx.drop_cut("kept")
    cleanup.sweep(None, store)  # type: ignore[arg-type]
    assert len(asked) == 2
    assert store.garbage() == ()
