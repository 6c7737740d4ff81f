"""A service that can be told where to die: `python -m tests.service.daemon LAKE [--die POINT] [--stop POINT]`.

Says `leads` when it leads. A point is `begin STAGE` or `end STAGE` of a refresh or of maintenance, or one that the
publish names.
"""

from __future__ import annotations

import argparse
import itertools
import os
import signal
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, nullcontext
from pathlib import Path

from spark_trickle import connect
from spark_trickle.catalog.connection import Database
from spark_trickle.refresh.stages import Stages
from tests.jvm import QUICK_JAVA

STAGES = ("compile", "feed", "delta", "lookup", "apply", "log", "publish", "rewrite", "expire")
PUBLISH = ("before checks", "before transaction", "before commit", "after commit")
POINTS = (*(f"{at} {stage}" for stage in STAGES for at in ("begin", "end")), *PUBLISH)
# A process that is paused in a transaction keeps SQLite's lock, and nobody can write.
PAUSES = tuple(point for point in POINTS if point != "before commit")


def send_at(number: signal.Signals, point: str, times: int, database: Database) -> Callable[[str], None]:
    """A signal for this process and its JVM, which is of its group, when a refresh is at `point` the `times`-th time.

    Returns what the publish should call.
    """
    passed = itertools.count(1)

    def at(where: str) -> None:
        if where != point or next(passed) != times:
            return
        # No other thread is in a transaction when it is paused.
        with database._gate if number == signal.SIGSTOP and database._gate else nullcontext():
            os.killpg(0, number)

    timed = Stages.__call__

    @contextmanager
    def watched(self: Stages, name: str) -> Iterator[None]:
        at(f"begin {name}")
        with timed(self, name):
            yield
        at(f"end {name}")

    Stages.__call__ = watched  # type: ignore[method-assign]
    return at


def main(arguments: list[str]) -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("lake", type=Path)
    parser.add_argument("--die", choices=POINTS)
    parser.add_argument("--stop", choices=PAUSES, help="SIGSTOP instead")
    parser.add_argument("--times", type=int, default=1)
    parser.add_argument("--lease", type=float, default=3)
    a = parser.parse_args(arguments)
    number = signal.SIGKILL if a.die else signal.SIGSTOP
    stopped = threading.Event()
    conf = {"spark.driver.extraJavaOptions": QUICK_JAVA}
    # Much is to be maintained, so that it meets every kill.
    upkeep = {"compact_files": 2, "retain_snapshots": 3, "reader_grace": "5s", "orphan_age": "0s"}
    options = {"driver_memory": "1g", "shuffle_partitions": 2, "lease_seconds": a.lease, **upkeep}
    with connect(a.lake, master="local[2]", spark_conf=conf, **options) as tr:
        signal.signal(signal.SIGTERM, lambda *_: stopped.set())
        if a.die or a.stop:
            tr.refresher.probe = send_at(number, a.die or a.stop, a.times, tr.store.database)
        tr.start()
        while not stopped.is_set() and not tr._scheduler.leads:
            time.sleep(0.05)
        print("leads", flush=True)
        while not stopped.wait(0.5):
            if os.getppid() == 1:  # whoever started it is gone
                break


if __name__ == "__main__":
    main(sys.argv[1:])
