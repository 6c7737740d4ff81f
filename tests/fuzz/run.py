"""The fuzzer: `python -m tests.fuzz.run --seconds 600 --seed 1`.

Runs rounds until the time or the number of queries is reached. Failures are printed, tried again alone and made
smaller, and written to files that `python -m tests.fuzz.replay FILE` plays. Exit code 1 when there is any.
"""

from __future__ import annotations

import argparse
import json
import shutil
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable
from pathlib import Path

from spark_trickle import connect
from tests.fuzz.constructs import Schedule
from tests.fuzz.plan import BATCH, STEPS, Round, rounds
from tests.fuzz.replay import Script, minimize
from tests.fuzz.report import Tally
from tests.fuzz.world import LAKE, THREADS, Outcome, Verdict, play

Say = Callable[[str], None]


def fuzz(
    seed: int,
    seconds: float,
    queries: int | None = None,
    *,
    out: Path | None = None,
    batch: int = BATCH,
    steps: int = STEPS,
    only_round: int | None = None,
    minimize_seconds: float = 60,
    threads: int = THREADS,
    say: Say = print,
    keep: Callable[[Tally], None] = lambda _: None,
) -> Tally:
    """Run rounds. `minimize_seconds` is spent on each of the first failures, besides `seconds`.

    `keep` is called after every round: a run of hours may be interrupted.
    """
    tally = Tally()
    started = time.monotonic()
    spent_on_failures = 0.0

    def elapsed() -> float:
        return time.monotonic() - started - spent_on_failures

    folder = Path(tempfile.mkdtemp(prefix="trickle-fuzz-"))
    try:
        # A lake that stays open keeps Spark running between the rounds.
        with connect(folder / "keep", **LAKE):
            for round_ in rounds(seed, Schedule(), batch, steps):
                if only_round is not None and round_.number != only_round:
                    continue
                lake = folder / f"round{round_.number}"
                before = time.monotonic()
                outcomes = play(lake, round_, out_of_time=lambda: elapsed() > seconds, threads=threads)
                shutil.rmtree(lake, ignore_errors=True)
                tally.add(outcomes)
                keep(tally)
                say(_progress(round_, outcomes, tally, time.monotonic() - before, elapsed()))
                failed = [o for o in outcomes if o.failure]
                at = time.monotonic()
                for o in failed:
                    _report(seed, round_, o, folder, out, say, minimize_seconds if len(tally.failures) <= 8 else 0)
                spent_on_failures += time.monotonic() - at
                enough = queries is not None and len(tally.outcomes) >= queries
                if enough or elapsed() > seconds or only_round is not None:
                    break
    finally:
        shutil.rmtree(folder, ignore_errors=True)
    say(tally.text(seed, elapsed()))
    return tally


def _progress(round_: Round, outcomes: list[Outcome], tally: Tally, seconds: float, total: float) -> str:
    failed = sum(1 for o in outcomes if o.failure)
    differential = sum(1 for o in outcomes if o.verdict is Verdict.DIFFERENTIAL and not o.twin)
    here = f"round {round_.number}: {differential} of {len(round_.cases)} DIFFERENTIAL, {failed} failures"
    total_here = f"{len(tally.outcomes)} queries, {tally.share:.0%} DIFFERENTIAL, {len(tally.failures)} failures"
    spent = Counter[str]()
    for o in outcomes:
        spent.update(o.seconds)
    parts = ", ".join(f"{what} {s:.0f} s" for what, s in spent.items())
    return f"{here}, {seconds:.0f} s ({parts}); in all {total_here}, {total:.0f} s"


def _report(
    seed: int, round_: Round, outcome: Outcome, folder: Path, out: Path | None, say: Say, budget: float
) -> None:
    off = f", with {outcome.twin} off" if outcome.twin else ""
    say(f"-- FAILURE seed {seed}, round {round_.number}, {outcome.case.name}, step {outcome.step}{off}")
    script = Script.of(round_, outcome)
    if budget and not outcome.twin:
        smaller = minimize(script, folder / "replay", budget)
        if smaller is None:
            say("-- alone it does not fail: it takes the other stream tables of the round, or chance")
        else:
            script = smaller
    say(script.text())
    if out is not None:
        out.mkdir(parents=True, exist_ok=True)
        name = f"seed{seed}-round{round_.number}-{outcome.case.name}{'-twin' if outcome.twin else ''}"
        (out / f"{name}.sql").write_text(script.text(), encoding="utf-8")


def main(arguments: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.fuzz.run", description=__doc__)
    parser.add_argument("--seconds", type=float, default=600)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--queries", type=int, default=None, help="stop after so many queries")
    parser.add_argument("--batch", type=int, default=BATCH, help="queries of a round")
    parser.add_argument("--steps", type=int, default=STEPS, help="changes of a round")
    parser.add_argument("--round", type=int, default=None, help="play this round only")
    parser.add_argument("--threads", type=int, default=THREADS)
    parser.add_argument("--minimize", type=float, default=60, help="seconds to spend on a failure")
    parser.add_argument("--out", type=Path, default=Path(tempfile.gettempdir()) / "fuzz-failures")
    parser.add_argument("--json", type=Path, default=None, help="write the figures here")
    a = parser.parse_args(arguments)
    started = time.monotonic()

    def keep(tally: Tally) -> None:
        if a.json is not None:
            figures = tally.figures(a.seed, time.monotonic() - started)
            a.json.write_text(json.dumps(figures, indent=1), encoding="utf-8")

    tally = fuzz(
        a.seed,
        a.seconds,
        a.queries,
        out=a.out,
        batch=a.batch,
        steps=a.steps,
        only_round=a.round,
        minimize_seconds=a.minimize,
        threads=a.threads,
        say=lambda text: print(text, flush=True),
        keep=keep,
    )
    if tally.failures:
        print(f"scripts of the failures are in {a.out}", flush=True)
    return 1 if tally.failures else 0


if __name__ == "__main__":
    sys.exit(main())
