"""The fuzzer in CI: a fixed seed and a time box. Fresh seeds belong in `make fuzz`.

FUZZ_SECONDS and FUZZ_SEED give another run.
"""

from __future__ import annotations

import os
import random
from collections import Counter
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from spark_trickle.delta import differentiate
from spark_trickle.errors import TrickleError
from spark_trickle.sql.algebra import WEIGHT, Join, Operator, Project, State, UnionAll, keep
from spark_trickle.sql.parse import parse_query
from spark_trickle.sql.trees import at
from tests.fuzz.constructs import CONSTRUCTS, Schedule
from tests.fuzz.grammar import Generated
from tests.fuzz.plan import TWINS, Case, Round, rounds
from tests.fuzz.replay import Script, minimize
from tests.fuzz.run import fuzz
from tests.fuzz.shrink import smaller_queries
from tests.fuzz.world import Outcome, Verdict, play

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

SECONDS = float(os.environ.get("FUZZ_SECONDS", "75"))
SEED = int(os.environ.get("FUZZ_SEED", "1"))
MINIMUM_SHARE = 0.95  # of valid queries that are maintained incrementally
MOST_INVALID = 0.02


@pytest.mark.spark
@pytest.mark.slow
def test_no_failure(spark: SparkSession, tmp_path: Path) -> None:
    tally = fuzz(SEED, SECONDS, out=tmp_path / "fuzz-failures", minimize_seconds=30)
    assert not tally.failures, "\n\n".join(f"{o.case.query.sql}\n  {o.failure}" for o in tally.failures)
    assert any(o.compared for o in tally.outcomes), "no query was compared: the machine is too slow for the time box"
    # A slow machine tries few queries: one odd query is no share.
    few = len(tally.valid) * (1 - MINIMUM_SHARE) < 1
    assert len(tally.of(Verdict.INVALID)) <= max(1, MOST_INVALID * len(tally.outcomes))
    assert tally.share >= MINIMUM_SHARE or (few and len(tally.valid) * (1 - tally.share) <= 1.01), tally.reasons()


def phantom_join(op: Join) -> Operator:
    """The classic mistake: the old state of the other side is not told from the new one."""
    names = (*op.columns, WEIGHT)
    terms = []
    for i, changing in enumerate(op.inputs):
        others = tuple(at(x, State.NEW) for n, x in enumerate(op.inputs) if n != i)
        joined = Join(inputs=(differentiate(changing), *others), conditions=op.conditions)
        terms.append(Project(child=joined, items=keep(*names)))
    return UnionAll(inputs=tuple(terms), names=names)


@pytest.mark.spark
def test_a_planted_bug_is_seen_and_made_smaller(spark: SparkSession, tmp_path: Path) -> None:
    round_ = next(rounds(1, Schedule()))
    query = "SELECT a.k AS x, b.k AS y FROM s.ta AS a JOIN s.tb AS b ON a.k = b.k WHERE a.k > 0 OR b.g <> ''"
    planted = replace(round_, cases=(Case("q", Generated(query, frozenset(), None), False),))
    right = differentiate.dispatch(Join)
    differentiate.register(Join)(phantom_join)
    try:
        outcome = play(tmp_path / "lake", planted)[0]
        assert outcome.failure is not None
        assert "DIFFERS" in outcome.failure or "INTEGRITY" in outcome.failure
        script = Script.of(planted, outcome)
        smaller = minimize(script, tmp_path / "smaller", 30)
        assert smaller is not None
        assert len(smaller.text()) < len(script.text())
    finally:
        differentiate.register(Join)(right)
    assert smaller.play(tmp_path / "right").failure is None


# -- the generator, without Spark ----------------------------------------------------------------------------------


def some(seed: int, queries: int, schedule: Schedule | None = None) -> list[Generated]:
    made: list[Generated] = []
    for round_ in rounds(seed, schedule or Schedule()):
        made += [c.query for c in round_.cases]
        if len(made) >= queries:
            return made
    raise AssertionError


def test_same_seed_same_run() -> None:
    def first(seed: int) -> list[Round]:
        made = rounds(seed, Schedule())
        return [next(made) for _ in range(3)]

    assert first(7) == first(7)
    assert first(7) != first(8)


@pytest.mark.parametrize("seed", [1, 2, 3])
def test_every_construct_has_its_share(seed: int) -> None:
    schedule = Schedule()
    made = some(seed, 500, schedule)
    assert not schedule.missed()
    counts = Counter(t for q in made for t in q.tags)
    assert set(counts) == set(CONSTRUCTS)
    unmet = [q.forced for q in made if q.forced and q.forced not in q.tags]
    assert len(unmet) <= 0.01 * len(made), unmet


@pytest.mark.parametrize("seed", [1, 2, 3])
def test_our_parser_takes_every_query(seed: int) -> None:
    refused = []
    for q in some(seed, 500):
        try:
            parse_query(q.sql)
        except TrickleError as error:
            refused.append(f"{q.sql}\n  {error}")
    assert not refused, "\n".join(refused)


def test_a_tenth_has_twins() -> None:
    made = rounds(1, Schedule())
    cases = [c for _ in range(5) for c in next(made).cases]
    assert sum(c.twin for c in cases) == len(cases) // TWINS


def test_scripts_are_read_as_written() -> None:
    round_ = next(rounds(1, Schedule()))
    script = Script.of(round_, Outcome(round_.cases[0], failure="differs", step=2))
    assert Script.read(script.text()) == Script(
        script.creation, script.query, script.steps, tags=script.tags, how=script.how
    )


def test_smaller_queries_are_smaller() -> None:
    rnd = random.Random(1)
    for q in rnd.sample(some(1, 100), 20):
        for text in smaller_queries(q.sql):
            assert len(text) < len(q.sql)
            parse_query(text)
