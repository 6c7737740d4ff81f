"""When upkeep is done while refreshes never pause, on a simulated clock."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from spark_trickle.results import Upkeep
from spark_trickle.scheduler import loop
from spark_trickle.scheduler.loop import Scheduler


def passes(monkeypatch: pytest.MonkeyPatch, waiting: int, seconds: int) -> list[int]:
    """When there were passes, each for one of the tables that wait."""
    clock, done = 1000, []
    monkeypatch.setattr(loop.time, "monotonic", lambda: float(clock))

    def upkeep() -> list[Upkeep]:
        if len(done) == waiting:
            return []
        done.append(clock - 1000)
        return [Upkeep("s.a", True, "MAINTENANCE: 17 small files")]

    context = SimpleNamespace(setLocalProperty=lambda *_: None)
    session = SimpleNamespace(sparkContext=context)
    refresher: Any = SimpleNamespace(
        settings=SimpleNamespace(maintenance="automatic"), lake=SimpleNamespace(session=session)
    )
    scheduler = Scheduler(refresher, lambda: None, upkeep=upkeep)
    scheduler._looked_at = float(clock)
    for _ in range(seconds):
        clock += 1
        scheduler._maintain(idle=False)
        if scheduler._upkeep is not None:
            scheduler._upkeep.join()
    return done


def test_upkeep_that_is_overdue_goes_on_until_nothing_waits(monkeypatch: pytest.MonkeyPatch) -> None:
    assert passes(monkeypatch, waiting=10, seconds=200) == list(range(60, 80, 2))


def test_upkeep_waits_for_a_pause(monkeypatch: pytest.MonkeyPatch) -> None:
    assert passes(monkeypatch, waiting=10, seconds=59) == []
