"""Services that die or are paused. `make kills` does it a hundred times."""

from __future__ import annotations

import random
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from spark_trickle import connect
from spark_trickle.model import Action
from spark_trickle.results import HistoryEntry
from tests.conftest import QUICK
from tests.service.kills import LEASE, check, pause
from tests.service.world import World, book_faults

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


@pytest.mark.spark
def test_a_paused_leader_publishes_nothing(spark: SparkSession, tmp_path: Path) -> None:
    del spark
    with connect(tmp_path / "lake", lease_seconds=LEASE, **QUICK) as tr:
        world = World(tr, random.Random(1), only=("big", "latest"))
        world.make("1s")
        seconds = pause(tmp_path, world, "before transaction")
        assert seconds < 3 * LEASE
        assert check(tr, world) == []
        assert "LEASE_LOST" in {e.error_code for e in tr.history(limit=10_000)}


def entry(snapshot: int, action: Action = Action.DIFFERENTIAL, state: str = "COMPLETED") -> HistoryEntry:
    now = datetime.now(UTC)
    none: dict[str, int] = {}
    return HistoryEntry(
        f"r{snapshot}", "s.t", state, action, "", "schedule", now, now, 0.1, 1, 0, 0, none, {}, None, None, snapshot
    )


def test_the_books_of_kills_can_be_wrong() -> None:
    whole = [entry(3), entry(2, Action.NO_DATA), entry(2), entry(9, state="FAILED"), entry(1, Action.FULL)]
    parent = {1: None, 2: 1, 3: 2}
    assert book_faults("s.t", whole, parent, 3) == []
    assert book_faults("s.t", whole, {3: 2}, 3) == []  # the others have expired
    assert "published twice" in book_faults("s.t", [entry(1), *whole], parent, 3)[0]
    assert "shows 2" in book_faults("s.t", whole, {1: None, 2: 1}, 2)[0]
    assert "recorded 2" in book_faults("s.t", [entry(3), entry(1)], parent, 3)[-1]
    assert "2 follows None" in book_faults("s.t", whole, {1: None, 2: None, 3: 2}, 3)[0]
