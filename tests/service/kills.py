"""Kill a service a hundred times: `python -m tests.service.kills --kills 100 --seed 1`.

Every second one dies at a named point of a refresh, the others at a random moment. Writers go on meanwhile. After every
tenth, one that leads is paused in a refresh, until another one has taken over. After each: stream tables equal their
definitions at their frontiers, each snapshot was published by exactly one refresh, and when somebody has cleaned up
nothing is left of the dead. At the end one refresh brings all up to now.
"""

from __future__ import annotations

import argparse
import random
import shutil
import signal
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

from spark_trickle import Trickle, connect
from tests.fuzz.world import LAKE
from tests.service.daemon import PAUSES, POINTS
from tests.service.processes import Service
from tests.service.world import CHAIN, World, faults, leftovers

LEASE = 3
SECONDS = 90.0  # within which a point should be reached


@dataclass
class Kills:
    """What was done, and what was wrong."""

    at: Counter[str] = field(default_factory=Counter)
    missed: list[str] = field(default_factory=list)  # points that were not reached in time
    faults: list[str] = field(default_factory=list)
    takeovers: list[float] = field(default_factory=list)  # seconds
    refreshes: int = 0

    def __str__(self) -> str:
        lines = [f"{n:4} {where}" for where, n in sorted(self.at.items())]
        lines += [f"not reached in {SECONDS:.0f} s, killed then: {m}" for m in self.missed]
        lines += [f"WRONG {f}" for f in self.faults]
        if self.takeovers:
            seconds = ", ".join(f"{t:.1f}" for t in self.takeovers)
            lines.append(f"paused leaders, the other one leads after: {seconds} s (leases of {LEASE} s)")
        done = f"{self.at.total()} kills, {self.refreshes} refreshes in the history, {len(self.faults)} faults"
        return "\n".join([*lines, done])


def kill(folder: Path, world: World, point: str | None, times: int, seconds: float) -> str:
    """Start a service, change sources until it is dead. Returns where it died; "" if its point was not reached."""
    arguments = ("--die", point, "--times", str(times)) if point else ()
    service = Service.start(folder / "lake", *arguments)
    try:
        if not service.leads(SECONDS) and service.alive:
            raise RuntimeError(f"the service does not lead after {SECONDS:.0f} s")
        until = time.monotonic() + (SECONDS if point else seconds)
        while service.alive and time.monotonic() < until:
            world.change()
            service.died(min(0.5, max(0.0, until - time.monotonic())))
        reached = not service.alive
        code = service.process.poll()
        if reached and code != -signal.SIGKILL:
            raise RuntimeError(f"the service ended by itself, exit code {code}")
    finally:
        service.end()
    if point:
        return point if reached else ""
    return "a random moment"


def pause(folder: Path, world: World, point: str) -> float:
    """Stop a service that leads in the middle of a refresh, let it go on when another one leads.

    Returns the seconds in which the other one took over.
    """
    first = Service.start(folder / "lake", "--stop", point)
    second: Service | None = None
    try:
        assert first.leads(SECONDS), "the first service does not lead"
        second = Service.start(folder / "lake")
        until = time.monotonic() + SECONDS
        while not first.stopped:
            assert time.monotonic() < until, f"{point} was not reached in {SECONDS:.0f} s"
            world.change()
            time.sleep(0.2)
        began = time.monotonic()
        assert second.leads(SECONDS), "the second service does not lead"
        took = time.monotonic() - began
        world.change()
        before = len(world.tr.history(limit=100_000))
        while len(world.tr.history(limit=100_000)) < before + len(world.names):  # it refreshes
            assert time.monotonic() < until, "the second service does not refresh"
            time.sleep(0.2)
        first.send(signal.SIGCONT)
        world.change()
        time.sleep(3)  # the first one finds that its leases are lost
        for service in (first, second):
            service.process.send_signal(signal.SIGTERM)
            assert service.died(SECONDS), "a service does not end after SIGTERM"
            assert service.process.returncode == 0, service.process.returncode
        return took
    finally:
        for service in (first, second):
            if service is not None:
                service.end()


def check(tr: Trickle, world: World) -> list[str]:
    """As it is, then after cleaning up, as whoever leads next does, and what upkeep does before anything else."""
    found = faults(tr, world.names)
    tr._scheduler.recover()
    tr.maintainer.delete_orphans()
    return found + leftovers(tr)


def run(kills: int, seed: int, folder: Path, say: Callable[[str], None] = print) -> Kills:
    rnd = random.Random(seed)
    done = Kills()
    with connect(folder / "lake", lease_seconds=LEASE, orphan_age="0s", **LAKE) as tr:
        world = World(tr, rnd, only=CHAIN)
        world.make("1s")
        points = list(POINTS)
        rnd.shuffle(points)
        for n in range(kills):
            began = time.monotonic()
            point = points[n // 2 % len(points)] if n % 2 == 0 else None
            times, seconds = rnd.randint(1, 6), rnd.uniform(0.0, 8.0)
            where = kill(folder, world, point, times, seconds)
            if not where:
                done.missed.append(f"{point}, time {times}")
            done.at[where or "a point that was not reached"] += 1
            wrong = [f"after kill {n} ({where or point}): {f}" for f in check(tr, world)]
            done.faults += wrong
            at = f"{where}, time {times}" if where and point else f"{where or point} after {seconds:.1f} s"
            say(f"kill {n}: {at}; {len(wrong)} faults; {time.monotonic() - began:.0f} s")
            for fault in wrong:
                say(f"  WRONG {fault}")
            if n % 10 == 9:
                point = rnd.choice(PAUSES)
                done.takeovers.append(pause(folder, world, point))
                wrong = [f"after a pause at {point}: {f}" for f in check(tr, world)]
                done.faults += wrong
                say(f"paused at {point}: another one leads after {done.takeovers[-1]:.1f} s; {len(wrong)} faults")
        tr.refresh(list(world.names))
        done.faults += [f"at the end: {f}" for f in check(tr, world)]
        late = [s.name for s in tr.status() if s.pending]
        done.faults += [f"at the end: {name} is not up to date" for name in late]
        done.refreshes = len(tr.history(limit=1_000_000))
    return done


def main(arguments: list[str]) -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--kills", type=int, default=100)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--keep", action="store_true", help="leave the lake")
    a = parser.parse_args(arguments)
    folder = Path(tempfile.mkdtemp(prefix="trickle-kills-"))
    began = time.monotonic()
    try:
        done = run(a.kills, a.seed, folder, lambda text: print(text, flush=True))
    finally:
        if a.keep:
            print(f"the lake is in {folder}", flush=True)
        else:
            shutil.rmtree(folder, ignore_errors=True)
    print(f"{done}, {time.monotonic() - began:.0f} s")
    return 1 if done.faults or not done.at else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
