"""Every event on every kind of table, and random sequences: `python -m tests.events.run --seed 1 --sequences 5`.

A sequence is a lake of one kind with 30 events; after each the four stream tables are refreshed and compared. What
fails is printed as a script that plays it again. Exit code 1 when anything failed.
"""

from __future__ import annotations

import argparse
import os
import random
import shutil
import sys
import tempfile
import time
import traceback
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

from spark_trickle import connect
from spark_trickle.errors import TrickleError
from tests.events.event import Event
from tests.events.library import EVENTS, known
from tests.events.tables import KINDS, PARTITIONINGS, Kind
from tests.events.world import LAKE, NotApplicable, World, WrongAction

STEPS = 30
VERBOSE = "EVENTS_VERBOSE"
SELDOM = 0.15  # of the steps of a sequence change the table for good


@contextmanager
def world(version: int, mode: str, partitioning: str, folder: Path | None = None) -> Iterator[World]:
    """A new lake with a source of that kind. Scripts of failures start with it."""
    place = Path(tempfile.mkdtemp(prefix="trickle-events-", dir=folder))
    try:
        with connect(place / "lake", **LAKE) as tr:
            made = World(tr, Kind(version, mode, partitioning))
            made.create()
            yield made
    finally:
        shutil.rmtree(place, ignore_errors=True)


@dataclass
class Tally:
    played: int = 0
    skipped: int = 0
    failures: list[str] = field(default_factory=list)
    actions: Counter[str] = field(default_factory=Counter)
    known: Counter[str] = field(default_factory=Counter)

    def fail(self, what: str, world: World, error: BaseException) -> None:
        self.failures.append(what)
        said = "".join(traceback.format_exception_only(error)).strip()
        where = traceback.extract_tb(error.__traceback__)[-1]
        print(f"-- FAILURE {what}\n{said}\n-- at {where.filename}:{where.lineno}\n{world.text()}\n", flush=True)

    def __str__(self) -> str:
        actions = ", ".join(f"{n} {a}" for a, n in sorted(self.actions.items()))
        lines = [f"{self.played} events played, {self.skipped} not applicable, {len(self.failures)} failed ({actions})"]
        gaps = [f"  known: {n} x {what}" for what, n in sorted(self.known.items())]
        return "\n".join([*lines, *gaps, *(f"  failed: {f}" for f in self.failures)])


def play(tally: Tally, made: World, event: Event, seed: int, what: str, *, strict: bool) -> bool:
    """Whether the lake can go on."""
    started = time.monotonic()
    try:
        results = made.play(event, seed, strict=strict)
    except NotApplicable:
        tally.skipped += 1
        made.refresh_anyhow()  # some steps may have been done
        return True
    except WrongAction as error:
        tally.fail(what, made, error)
        return True
    except Exception as error:
        gap = known(event, made.kind)
        if gap is not None and isinstance(error, TrickleError) and error.code == gap[0]:
            tally.known[f"{event.name} on {made.kind}: {gap[1]}"] += 1
        else:
            tally.fail(what, made, error)
        return False
    tally.played += 1
    if VERBOSE in os.environ:
        parts = ", ".join(f"{k} {v:.1f}" for k, v in made.seconds.items())
        print(f"  {what}: {time.monotonic() - started:.1f} s ({parts})", flush=True)
        made.seconds.clear()
    tally.actions.update(str(r.action) for r in results)
    return True


def cross(tally: Tally, kinds: Sequence[Kind], events: Sequence[Event], folder: Path) -> None:
    """Every event on every kind it fits. After a failure the kind goes on in a new lake."""
    for kind in kinds:
        left = [e for e in sorted(events, key=lambda e: e.once) if e.fits(kind)]
        started, total = time.monotonic(), len(left)
        while left:
            with world(kind.version, kind.mode, kind.partitioning, folder) as made:
                while left:
                    event = left.pop(0)
                    if not play(tally, made, event, 1, f"{event.name} on {kind}", strict=True):
                        break
        print(f"{kind}: {total} events, {time.monotonic() - started:.0f} s; {tally}", flush=True)


def sequence(tally: Tally, seed: int, steps: int, events: Sequence[Event], folder: Path) -> None:
    rnd = random.Random(f"events {seed}")
    kind = rnd.choice(KINDS)
    often = [e for e in events if e.fits(kind) and not e.once]
    seldom = [e for e in events if e.fits(kind) and e.once]
    started = time.monotonic()
    with world(kind.version, kind.mode, kind.partitioning, folder) as made:
        for number in range(1, steps + 1):
            event = rnd.choice(seldom if seldom and rnd.random() < SELDOM else often or seldom)
            if not play(tally, made, event, rnd.randrange(10**6), f"sequence {seed}, step {number}", strict=False):
                break
    print(f"sequence {seed} on {kind}: {time.monotonic() - started:.0f} s; {tally}", flush=True)


def main(arguments: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.events.run", description=__doc__)
    parser.add_argument("--seed", type=int, default=1, help="of the first sequence")
    parser.add_argument("--sequences", type=int, default=5)
    parser.add_argument("--steps", type=int, default=STEPS)
    parser.add_argument("--no-cross", action="store_true", help="sequences only")
    parser.add_argument("--events", default="", help="some of them, such as append,compact")
    parser.add_argument("--versions", default="1,2,3")
    parser.add_argument("--modes", default="copy-on-write,merge-on-read")
    parser.add_argument("--partitionings", default=",".join(PARTITIONINGS))
    options = parser.parse_args(arguments)
    wanted = options.events.split(",") if options.events else [e.name for e in EVENTS]
    events = [e for e in EVENTS if e.name in wanted]
    kinds = [
        k
        for k in KINDS
        if str(k.version) in options.versions.split(",")
        and k.mode in options.modes.split(",")
        and k.partitioning in options.partitionings.split(",")
    ]
    print(f"seed {options.seed}, {options.sequences} sequences of {options.steps}, {len(events)} events", flush=True)
    folder = Path(tempfile.mkdtemp(prefix="trickle-events-"))
    tally, started = Tally(), time.monotonic()
    try:
        with connect(folder / "keep", **LAKE):  # keeps Spark running between the lakes
            for seed in range(options.seed, options.seed + options.sequences):
                sequence(tally, seed, options.steps, events, folder)
            if not options.no_cross:
                cross(tally, kinds, events, folder)
    finally:
        shutil.rmtree(folder, ignore_errors=True)
    print(f"{tally}\n{time.monotonic() - started:.0f} s", flush=True)
    return 1 if tally.failures else 0


if __name__ == "__main__":
    sys.exit(main())
