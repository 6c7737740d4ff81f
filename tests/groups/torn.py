"""Readers beside the refreshes of random DAGs: `python -m tests.groups.torn --reads 2000`.

Up to twelve stream tables over two sources, with diamonds. Each source has one row with its version, and each stream
table tells the lowest and the highest version of each source that reach it. So a read of all members of a group is
torn if they tell more than one version of a source. Sources change, random stream tables are refreshed, random members
fail, and a thread reads all stream tables in one query.
"""

from __future__ import annotations

import argparse
import random
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from spark_trickle import Trickle, TrickleError, connect
from spark_trickle.refresh.run import Refresher
from spark_trickle.results import RefreshResult
from tests.fuzz.world import LAKE

SOURCES = ("s1", "s2")
FAILS = 0.1  # of the refreshes of each stream table
NONE = -1  # the version of a source that does not reach a stream table


@dataclass(frozen=True)
class Dag:
    """Names of stream tables with what they read, upstream first."""

    reads: dict[str, tuple[str, ...]]

    @classmethod
    def random(cls, rnd: random.Random) -> Dag:
        names = [f"t{n}" for n in range(rnd.randint(4, 12))]
        reads = {"t0": ("s1",), "t1": ("s1",), "t2": ("t0", "t1")}  # one diamond at least
        for n, name in enumerate(names[3:], start=3):
            reads[name] = tuple(rnd.sample([*SOURCES, *names[:n]], rnd.choice((1, 2, 2, 3))))
        return cls(reads)

    def query(self, name: str) -> str:
        """The lowest and highest versions that its inputs tell."""
        reads = self.reads[name]
        columns = []
        for source in SOURCES:
            low = [f"{r}.v" if r == source else f"{r}.{source}_low" for r in reads if r not in SOURCES or r == source]
            high = [c.replace("_low", "_high") for c in low]
            if not low:
                columns.append(f"{NONE} AS {source}_low, {NONE} AS {source}_high")
                continue
            # A source that does not reach an input is no version.
            lows = ", ".join(f"nullif({c}, {NONE})" for c in low)
            highs = ", ".join(f"nullif({c}, {NONE})" for c in high)
            least = f"least({lows})" if len(low) > 1 else lows
            greatest = f"greatest({highs})" if len(high) > 1 else highs
            columns.append(f"coalesce({least}, {NONE}) AS {source}_low, coalesce({greatest}, {NONE}) AS {source}_high")
        return f"SELECT {', '.join(columns)} FROM {' CROSS JOIN '.join(f's.{r} {r}' for r in reads)}"


@dataclass
class Found:
    reads: int = 0
    torn: int = 0
    refreshes: int = 0
    failed: int = 0
    groups: int = 0

    def __add__(self, other: Found) -> Found:
        mine, theirs = vars(self), vars(other)
        return Found(**{k: mine[k] + theirs[k] for k in mine})


Versions = dict[str, tuple[int, ...]]  # by stream table: the lowest and highest of each source


def is_torn(groups: Sequence[Sequence[str]], seen: Versions) -> bool:
    for members in groups:
        for n in range(len(SOURCES)):
            told = {v for m in members for v in seen[m.removeprefix("s.")][2 * n : 2 * n + 2]} - {NONE}
            if len(told) > 1:
                return True
    return False


@contextmanager
def failing(tr: Trickle, rnd: random.Random) -> Iterator[None]:
    """Random refreshes fail after their rows are computed."""
    honest = Refresher.decide

    def decide(self: Refresher, *arguments: object) -> object:
        found = honest(self, *arguments)  # type: ignore[arg-type]
        if self is tr.refresher and rnd.random() < FAILS:
            raise TrickleError("SPARK_FAILED", "an executor is gone")
        return found

    Refresher.decide = decide  # type: ignore[method-assign, assignment]
    try:
        yield
    finally:
        Refresher.decide = honest  # type: ignore[method-assign]


def play(tr: Trickle, seed: int, reads: int, *, consistency: str = "atomic", with_cut: bool = True) -> Found:
    """One DAG until it was read so often."""
    rnd, found = random.Random(seed), Found()
    dag = Dag.random(rnd)
    for source in SOURCES:
        tr.sql(f"CREATE OR REPLACE TABLE s.{source} AS SELECT 0 AS v")
    for name in dag.reads:
        tr.create_stream_table(f"s.{name}", dag.query(name), settings={"diamond_consistency": "atomic"})
    groups = [g.members for g in tr.groups()]  # those that there would be without `none`
    for name in dag.reads:
        tr.alter_stream_table(f"s.{name}", settings={"diamond_consistency": consistency})
    found.groups = len(groups)
    query = " UNION ALL ".join(f"SELECT '{n}' AS name, * FROM s.{n}" for n in dag.reads)
    over = threading.Event()
    errors: list[BaseException] = []

    def read() -> None:
        try:
            while found.reads < reads and not over.is_set():
                if with_cut:
                    with tr.cut() as cut:
                        rows = cut.sql(query).collect()
                else:
                    rows = tr.sql(query).collect()
                found.reads += 1
                found.torn += is_torn(groups, {r[0]: tuple(r)[1:] for r in rows})
        except BaseException as error:
            errors.append(error)
        finally:
            over.set()

    reader = threading.Thread(target=read)
    reader.start()
    try:
        with failing(tr, rnd):
            while not over.is_set():
                tr.sql(f"UPDATE s.{rnd.choice(SOURCES)} SET v = v + 1")
                found.failed += not refreshed(tr, f"s.{rnd.choice(list(dag.reads))}")
                found.refreshes += 1
    finally:
        over.set()
        reader.join()
    if errors:
        raise errors[0]
    tr.refresh([f"s.{n}" for n in dag.reads])
    wrong = [str(v) for v in (tr.verify(f"s.{n}") for n in dag.reads) if not v.equal]
    assert not wrong, wrong
    for name in reversed(dag.reads):
        tr.drop_stream_table(f"s.{name}")
    return found


def refreshed(tr: Trickle, name: str) -> RefreshResult | None:
    try:
        return tr.refresh(name)
    except TrickleError as error:
        if error.code != "SPARK_FAILED":
            raise
        return None


def run(tr: Trickle, seed: int, reads: int, say: Callable[[str], None], **how: object) -> Found:
    """DAG after DAG, of 100 reads each."""
    total, n = Found(), 0
    while total.reads < reads:
        began = time.monotonic()
        found = play(tr, seed + n, min(100, reads - total.reads), **how)  # type: ignore[arg-type]
        total, n = total + found, n + 1
        say(f"DAG {seed + n - 1}: {found}, {time.monotonic() - began:.0f} s")
    return total


def main(arguments: list[str]) -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--reads", type=int, default=2000)
    parser.add_argument("--seed", type=int, default=1)
    a = parser.parse_args(arguments)
    with tempfile.TemporaryDirectory(prefix="trickle-torn-") as folder, connect(Path(folder) / "lake", **LAKE) as tr:
        tr.sql("CREATE NAMESPACE s")
        others = max(1, a.reads // 10)
        loose = run(tr, a.seed, others, print, consistency="none")
        bare = run(tr, a.seed, others, print, with_cut=False)
        atomic = run(tr, a.seed, a.reads, print)
    print(f"each by itself, read at a cut: {loose}")
    print(f"groups, read without a cut:    {bare}")
    print(f"groups, read at a cut:         {atomic}")
    # Without a cut a query may meet two moments; it need not.
    good = atomic.torn == 0 and loose.torn > 0
    print("no torn read of a group at a cut" if good else "NOT as it should be")
    return 0 if good else 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
