"""A service under load: `python -m tests.service.soak --seconds 600`.

Twelve stream tables, five deep, over a million rows, with schedules from 5 s to 60 s. `trickle up` keeps them fresh
while a writer commits every 2 s, 500 changed rows in all. Every second the age of each stream table is looked at: it
should be within its schedule plus one refresh. At twenty random moments the lake is kept as it is then, by hard links;
when the load is over, each stream table is verified at each of these moments. Growth of memory, open files and files on
disk is printed.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import shutil
import signal
import sqlite3
import statistics
import subprocess
import sys
import tempfile
import threading
import time
from collections import Counter
from contextlib import closing, suppress
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import psutil

from spark_trickle import Trickle, connect
from tests.service.world import NAMES, World

ROWS = 1_000_000
VERIFIED = 20
COMPLIANCE = 0.95


@dataclass
class Seen:
    """What was seen of one stream table, second by second."""

    target: float = 0.0
    looked: int = 0
    late: int = 0
    oldest: float = 0.0
    slowest: float = 0.0  # the slowest of its refreshes so far

    def look(self, lag: float, target: float, last_seconds: float) -> None:
        self.slowest = max(self.slowest, last_seconds)
        self.target, self.looked, self.oldest = target, self.looked + 1, max(self.oldest, lag)
        self.late += lag > target + self.slowest


@dataclass
class Growth:
    """What a service takes, at one moment."""

    minutes: float
    megabytes: float
    open_files: int
    threads: int
    files: Counter[str] = field(default_factory=Counter)

    @classmethod
    def of(cls, pid: int, lake: Path, began: float) -> Growth:
        family = [psutil.Process(pid), *psutil.Process(pid).children(recursive=True)]
        files = Counter(_kind(f) for f in lake.rglob("*") if f.is_file())
        return cls(
            (time.monotonic() - began) / 60,
            sum(p.memory_info().rss for p in family) / 1e6,
            sum(p.num_fds() for p in family),
            sum(p.num_threads() for p in family),
            files,
        )

    def __str__(self) -> str:
        files = ", ".join(f"{n} {kind}" for kind, n in sorted(self.files.items()))
        took = f"{self.megabytes:,.0f} MB, {self.open_files} open files, {self.threads} threads"
        return f"{self.minutes:4.1f} min: {took}; {files}"


def _kind(file: Path) -> str:
    name = file.name
    if name.endswith(".metadata.json"):
        return "metadata"
    if name.endswith(".avro"):
        return "manifest lists" if name.startswith("snap-") else "manifests"
    if name.endswith(".crc"):
        return "checksums"
    return {".parquet": "data", ".puffin": "deletes"}.get(file.suffix, "others")


@dataclass
class Soak:
    folder: Path
    seconds: float
    rnd: random.Random
    seen: dict[str, Seen] = field(default_factory=lambda: {n: Seen() for n in NAMES})
    growth: list[Growth] = field(default_factory=list)
    wrong: list[str] = field(default_factory=list)
    verified: int = 0
    commits: int = 0
    moments: list[Path] = field(default_factory=list)
    _over: threading.Event = field(default_factory=threading.Event)

    def run(self) -> None:
        lake = self.folder / "lake"
        conf: dict[str, Any] = {"shuffle_partitions": 2, "driver_memory": "2g", "master": "local[2]"}
        with connect(lake, **conf) as tr:
            world = World(tr, self.rnd, orders=ROWS, customers=20_000)
            began = time.monotonic()
            world.make()
            say(f"{len(NAMES)} stream tables over {ROWS:,} rows after {time.monotonic() - began:.0f} s")
            service = self._service(lake)
            try:
                self._wait_until_fresh(tr)
                self._load(tr, world, service, lake)
                service.send_signal(signal.SIGTERM)
                if service.wait(120) != 0:
                    self.wrong.append(f"the service ended with exit code {service.returncode}")
            finally:
                self._over.set()
                if service.poll() is None:
                    os.killpg(service.pid, signal.SIGKILL)
                    service.wait()
            self._verify(tr, "at the end")
            self._tell(tr)
        with connect(self.folder / "other", **conf):  # Spark goes on while lakes come and go
            for n, moment in enumerate(self.moments):
                self._verify_moment(lake, moment, f"at moment {n}", conf)
        say(f"{self.verified} verified")

    def _service(self, lake: Path) -> subprocess.Popen[bytes]:
        command = [sys.executable, "-c", "from spark_trickle.cli import main; main()", "--lake", str(lake), "up"]
        command += ["--port", "0"]
        environment = {**os.environ, "TRICKLE_MASTER": "local[2]", "TRICKLE_DRIVER_MEMORY": "2g"}
        log = (self.folder / "service.log").open("wb")
        with log:
            return subprocess.Popen(
                [*command, "--output", "json"], stdout=log, stderr=log, env=environment, start_new_session=True
            )

    def _wait_until_fresh(self, tr: Trickle) -> None:
        """The first refreshes of a process are slow: the load begins when each has been refreshed once."""
        began, at = time.monotonic(), datetime.now(UTC)
        while any(s.data_timestamp is None or s.data_timestamp < at for s in tr.status()):
            if time.monotonic() - began > 300:
                raise RuntimeError("the service does not refresh")
            time.sleep(0.5)
        say(f"the service has refreshed all of them after {time.monotonic() - began:.0f} s")

    def _load(self, tr: Trickle, world: World, service: subprocess.Popen[bytes], lake: Path) -> None:
        began = time.monotonic()
        writer = threading.Thread(target=self._write, args=(world,))
        writer.start()
        verify_at = sorted(self.rnd.uniform(0, self.seconds) for _ in range(VERIFIED))
        minute = 0.0
        together = {member: group.members for group in tr.groups() for member in group.members}
        while (now := time.monotonic() - began) < self.seconds:
            if service.poll() is not None:
                raise RuntimeError(f"the service ended: {(self.folder / 'service.log').read_text()[-2000:]}")
            found = {s.name: s for s in tr.status()}
            for name, s in found.items():
                if s.lag_seconds is not None and s.target_seconds is not None:
                    # One refresh of a group is that of all its members.
                    took = sum(found[m].last_seconds or 0.0 for m in together.get(name, (name,)))
                    self.seen[name].look(s.lag_seconds, s.target_seconds, took)
            if now >= minute:
                self.growth.append(Growth.of(service.pid, lake, began))
                say(f"{self.growth[-1]}; {self.share:.1%} fresh, {self.commits} commits")
                minute += 60
            if verify_at and now >= verify_at[0]:
                verify_at.pop(0)
                self._keep(lake)
            time.sleep(1)
        self._over.set()
        writer.join()
        self.growth.append(Growth.of(service.pid, lake, began))

    def _write(self, world: World) -> None:
        """Two commits every 2 s, 500 rows in all."""
        while not self._over.is_set():
            at = time.monotonic()
            try:
                world.change(490)
                world.change(10)
                self.commits += 2
            except Exception as error:
                self.wrong.append(f"a writer failed: {error}")
            self._over.wait(max(0.0, 2 - (time.monotonic() - at)))

    def _keep(self, lake: Path) -> None:
        """The lake as it is now: its catalog, then its files, which never change. What goes meanwhile is garbage."""
        moment = self.folder / f"moment{len(self.moments)}"
        moment.mkdir()
        with (
            closing(sqlite3.connect(lake / "catalog.db")) as catalog,
            closing(sqlite3.connect(moment / "catalog.db")) as copy,
        ):
            catalog.backup(copy)
        with suppress(shutil.Error):
            shutil.copytree(lake / "warehouse", moment / "warehouse", copy_function=os.link)
        self.moments.append(moment)

    def _verify_moment(self, lake: Path, moment: Path, when: str, conf: dict[str, Any]) -> None:
        """In the place of the lake: its metadata has whole paths."""
        aside = self.folder / "aside"
        lake.rename(aside)
        moment.rename(lake)
        try:
            with connect(lake, **conf) as tr:
                self._verify(tr, when)
        finally:
            shutil.rmtree(lake)
            aside.rename(lake)

    def _verify(self, tr: Trickle, when: str) -> None:
        for name in NAMES:
            found = tr.verify(name)
            self.verified += 1
            if not found.equal:
                self.wrong.append(f"{when}: {found}")

    @property
    def share(self) -> float:
        looked = sum(s.looked for s in self.seen.values())
        return 1 - sum(s.late for s in self.seen.values()) / max(looked, 1)

    def _tell(self, tr: Trickle) -> None:
        took: dict[str, list[float]] = {n: [] for n in NAMES}
        actions = Counter[str]()
        for entry in tr.history(limit=100_000):
            actions[str(entry.action or entry.state)] += 1
            if entry.initiated_by == "schedule" and entry.seconds is not None and str(entry.action) == "DIFFERENTIAL":
                took[entry.name].append(entry.seconds)
        say(f"\n{'stream table':14} schedule  fresh   oldest  refreshes  median")
        for name, s in self.seen.items():
            median = f"{statistics.median(took[name]):.2f} s" if took[name] else "-"
            fresh = 1 - s.late / max(s.looked, 1)
            say(f"{name:14} {s.target:6.0f} s {fresh:6.1%} {s.oldest:6.1f} s {len(took[name]):10} {median:>7}")
        say(f"\n{dict(actions)}; {self.commits} commits")
        for growth in self.growth:
            say(str(growth))
        if self.share < COMPLIANCE:
            self.wrong.append(f"fresh {self.share:.1%} of the time, {COMPLIANCE:.0%} are asked for")

    def figures(self) -> dict[str, Any]:
        return {
            "seconds": self.seconds,
            "fresh": round(self.share, 4),
            "commits": self.commits,
            "verified": self.verified,
            "wrong": self.wrong,
            "tables": {n: vars(s) for n, s in self.seen.items()},
            "growth": [vars(g) for g in self.growth],
        }


def say(text: str) -> None:
    print(text, flush=True)


def main(arguments: list[str]) -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seconds", type=float, default=600)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--json", type=Path, help="write the figures here")
    parser.add_argument("--keep", action="store_true", help="leave the lake")
    a = parser.parse_args(arguments)
    folder = Path(tempfile.mkdtemp(prefix="trickle-soak-"))
    soak = Soak(folder, a.seconds, random.Random(a.seed))
    try:
        soak.run()
    finally:
        if a.keep:
            say(f"the lake is in {folder}")
        else:
            shutil.rmtree(folder, ignore_errors=True)
    if a.json is not None:
        a.json.write_text(json.dumps(soak.figures(), indent=1), encoding="utf-8")
    for wrong in soak.wrong:
        say(f"WRONG {wrong}")
    say(f"fresh {soak.share:.1%} of the time, {soak.verified} verified, {len(soak.wrong)} wrong")
    return 1 if soak.wrong else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
