"""Every event on v3 merge-on-read or on v2 copy-on-write with partitions, in turn; `make test-all` plays it on both,
`make events` has the full cross.

The tests share one lake per kind of table, and both lakes work at once. Events leave the source usable for the next
one; after a failure the next test gets a new lake.
"""

from __future__ import annotations

import threading
import traceback
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING

import pytest

from spark_trickle import Trickle, connect
from spark_trickle.errors import TrickleError
from tests.conftest import ALL
from tests.events.event import Event
from tests.events.library import EVENTS, known
from tests.events.tables import IN_CI, KINDS, Kind
from tests.events.world import LAKE, World

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = [pytest.mark.spark, pytest.mark.slow]

ORDER = sorted(EVENTS, key=lambda e: e.once)


def kinds_for(event: Event) -> list[Kind]:
    """Those of CI, or one of them in turn; for an event of other tables only, one of those."""
    fitting = [k for k in IN_CI if event.fits(k)] or [next(k for k in KINDS if event.fits(k))]
    return fitting if ALL else [fitting[ORDER.index(event) % len(fitting)]]


class Worlds:
    """One lake per kind."""

    def __init__(self, folder: pytest.TempPathFactory) -> None:
        self.folder = folder
        self.worlds: dict[Kind, World] = {}
        self.lakes: list[Trickle] = []
        self.gaps: list[str] = []  # that the test has met
        self.lock = threading.Lock()  # one migration at a time

    def play(self, kind: Kind, event: Event) -> str | None:
        """What went wrong."""
        try:
            if kind not in self.worlds:
                with self.lock:
                    lake = connect(self.folder.mktemp("events") / "lake", **LAKE)
                    self.lakes.append(lake)
                world = World(lake, kind)
                world.create()
                self.worlds[kind] = world
            self.worlds[kind].play(event, 1)
        except Exception as error:
            script = self.worlds[kind].text() if kind in self.worlds else ""
            self.worlds.pop(kind, None)
            gap = known(event, kind)
            if gap is not None and isinstance(error, TrickleError) and error.code == gap[0]:
                self.gaps.append(f"{kind}: {gap[1]}")
                return None
            return f"{event.name} on {kind}:\n{traceback.format_exc()}\n{script}"
        return None if known(event, kind) is None else f"{event.name} on {kind} works: take it out of library.KNOWN"

    def close(self) -> None:
        for lake in self.lakes:
            lake.close()


@pytest.fixture(scope="module")
def worlds(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Worlds]:
    found = Worlds(tmp_path_factory)
    yield found
    found.close()


@pytest.mark.parametrize("event", ORDER, ids=[e.name for e in ORDER])
def test_event(worlds: Worlds, event: Event) -> None:
    kinds = kinds_for(event)
    with ThreadPoolExecutor(len(kinds)) as pool:
        problems = [p for p in pool.map(lambda kind: worlds.play(kind, event), kinds) if p]
    gaps, worlds.gaps = worlds.gaps, []
    if problems:
        pytest.fail("\n\n".join(problems), pytrace=False)
    if gaps:
        pytest.xfail("; ".join(gaps))


def test_names_are_unique() -> None:
    assert len({e.name for e in EVENTS}) == len(EVENTS)
