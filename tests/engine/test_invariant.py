"""After every refresh, every stream table equals its definition: random changes, every kind of source, every rule.

INVARIANT_SEED (or --hypothesis-seed) gives other changes, INVARIANT_EXAMPLES more of them. A failure prints
the seed and all statements since the lake was made.
"""

from __future__ import annotations

import math
import os
import random
from collections import Counter
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import HealthCheck, Phase, core, given, seed, settings

from spark_trickle import Action, RefreshResult, Trickle, connect
from spark_trickle.delta.optimize import PASSES
from spark_trickle.model import TableName
from tests.engine import workload
from tests.engine.workload import DEFINITIONS, KINDS, SOURCES, VIEWS, Definition

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

SEED = int(os.environ.get("INVARIANT_SEED") or core.global_force_seed or 3)
EXAMPLES = int(os.environ.get("INVARIANT_EXAMPLES", "1"))

# A step takes most of a minute: no shrinking, no replays. The lake lives on from step to step. One example more,
# because the first is always the simplest there is, and that one is left out.
few = settings(
    max_examples=EXAMPLES + 1,
    deadline=None,
    database=None,
    phases=[Phase.generate],
    suppress_health_check=list(HealthCheck),
)


MAINTAINED = 5  # stream tables at each step
THREADS = 3  # most of a small query is planning, which uses one core


@dataclass(repr=False)  # hypothesis prints it, and the log is long
class World:
    """A lake, what was done to it, and the first failure."""

    tr: Trickle
    definitions: tuple[Definition, ...]
    log: list[str] = field(default_factory=list)
    steps: int = 0
    failure: BaseException | None = None

    @contextmanager
    def reporting(self) -> Iterator[None]:
        """Say how a failure can be had again."""
        try:
            yield
        except BaseException as error:
            print(f"\nINVARIANT_SEED={SEED}, after these statements:\n" + ";\n".join(self.log) + ";")
            self.failure = error
            raise

    def run(self, statement: str) -> None:
        self.log.append(statement)
        self.tr.sql(statement)

    def fill(self, rnd: random.Random, rows: int) -> None:
        """Sources of all four kinds (which has which follows from the seed), and the stream tables."""
        for n, source in enumerate(SOURCES):
            self.run(source.create(KINDS[(n + SEED) % len(KINDS)]))
            # In two commits, so that files have neighbours that do not change.
            for _ in range(2):
                self.run(f"INSERT INTO s.{source.name} {source.rows(source.random_rows(rnd, rows // 2))}")
        for view in VIEWS:
            self.run(view)
        self.create()

    def create(self) -> None:
        for d in self.definitions:
            self.log.append(f"CREATE STREAM TABLE s.{d.name} MODE DIFFERENTIAL AS {d.sql}")
            # Strict: whatever cannot be kept incrementally is refused here.
            self.tr.create_stream_table(f"s.{d.name}", d.sql, mode="differential")

    def snapshots(self) -> dict[str, int | None]:
        pointers = self.tr.store.pointers()
        at = {s.name: pointers[TableName("s", s.name)].location for s in SOURCES}
        return {name: self.tr.refresher.lake.facts(location).snapshot_id for name, location in at.items()}

    def refresh(self, *, together: bool) -> list[RefreshResult]:
        names = [f"s.{d.name}" for d in self.definitions]
        self.log.append(f"-- refresh {'as a group' if together else 'one by one'}")
        if together:
            return list(self.tr.refresh(names))
        return [self.tr.refresh(n) for n in names]

    def check(self, changed: set[str], results: Sequence[RefreshResult]) -> None:
        """Each refresh was incremental if it had anything to do, and each table equals its definition."""
        with ThreadPoolExecutor(THREADS) as pool:
            verified = list(pool.map(self.tr.verify, [f"s.{d.name}" for d in self.definitions]))
        wrong = []
        for d, result, verification in zip(self.definitions, results, verified, strict=True):
            expected = {Action.DIFFERENTIAL} if changed & set(d.reads) else {Action.NO_DATA}
            if d.over_stream_tables:  # what they read changes only if the result of their upstream did
                expected.add(Action.NO_DATA)
            if result.action not in expected:
                wrong.append(f"{d.name}: {result.action} ({result.reason}) after changes to {sorted(changed)}")
            if not verification.equal:
                wrong.append(f"{verification}\n  {result}\n  {d.sql}")
        assert not wrong, "\n".join(wrong)

    def maintain(self, some: Sequence[Definition]) -> None:
        """Upkeep of some of them changes nothing, and the next step goes on from there."""
        names = [f"s.{d.name}" for d in some]
        self.log.append(f"-- maintain {' '.join(names)}")
        found = self.tr.maintain(*names)
        assert not any(u.failed for u in found), found
        assert any(u.bytes_rewritten for u in found), found
        wrong = [str(v) for v in (self.tr.verify(n, deep=True) for n in names) if not v.equal]
        assert not wrong, "\n".join(wrong)
        assert {self.tr.refresh(n).action for n in names} == {Action.NO_DATA}

    def check_plainly(self) -> None:
        """The same without any of our SQL: both sides as a reader sees them, counted in Python."""
        with ThreadPoolExecutor(THREADS) as pool:
            wrong = [w for w in pool.map(self._differs_plainly, self.definitions) if w]
        assert not wrong, "\n".join(wrong)

    def _differs_plainly(self, d: Definition) -> str | None:
        stored = Counter(plain(d, r) for r in self.tr.spark.sql(f"SELECT * FROM s.{d.name}").collect())
        defined = Counter(plain(d, r) for r in self.tr.spark.sql(d.sql).collect())
        if stored == defined:
            return None
        return f"{d.name}: extra {stored - defined}, missing {defined - stored}\n  {d.sql}"


def plain(d: Definition, row: Any) -> tuple[Any, ...]:
    """A row as a hashable value; NaN equals itself, -0.0 equals 0.0, and 1 is not 1.0 nor true."""

    def value(v: Any) -> Any:
        if isinstance(v, float):
            return ("float", "NaN" if math.isnan(v) else v + 0.0)
        if isinstance(v, dict):
            return ("map", frozenset((key, value(x)) for key, x in v.items()))
        if isinstance(v, list | tuple):
            return ("list", tuple(map(value, v)))
        return (type(v).__name__, bytes(v) if isinstance(v, bytearray) else v)

    shown = []
    for name, v in zip(row.__fields__, row, strict=True):
        if name not in d.open:
            shown.append(value(sorted(v) if name in d.bags else v))
    return tuple(shown)


@pytest.fixture(scope="module")
def world(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> Iterator[World]:
    print(f"INVARIANT_SEED={SEED}")
    often = {"compact_files": 2, "retain_snapshots": 2, "reader_grace": "0s"}
    place = tmp_path_factory.mktemp("invariant") / "lake"
    with connect(place, shuffle_partitions=2, max_change_ratio=1e6, **often) as tr:
        tr.sql("CREATE NAMESPACE s")
        made = World(tr, DEFINITIONS)
        made.fill(random.Random(SEED), 40)
        yield made


@pytest.mark.slow
@seed(SEED)
@few
@given(statements=workload.step())
def test_equal_after_every_refresh(world: World, statements: list[str]) -> None:
    if world.failure is not None:  # hypothesis runs a failing example again, but the lake has moved on
        raise world.failure
    world.steps += 1
    if world.steps == 1:
        return
    with world.reporting():
        before = world.snapshots()
        for statement in statements:
            world.run(statement)
        changed = {name for name, snapshot in world.snapshots().items() if snapshot != before[name]}
        assert {"facts", "dims", "labels"} <= changed
        world.check(changed, world.refresh(together=world.steps % 2 == 0))
        if world.steps % 2 == 1:
            world.check_plainly()
        world.maintain(random.Random(SEED + world.steps).sample(world.definitions, MAINTAINED))


def test_optimizations_change_nothing(world: World) -> None:
    """Without algebraic states, and without one optimizer pass after the other: the same content."""
    tr = world.tr
    with world.reporting(), connect(tr.settings.location, shuffle_partitions=2) as other:
        other.refresher.compiler.use_states = False
        twins = World(other, tuple(d.twin() for d in DEFINITIONS if d.name in TWINS), world.log)
        assert len(twins.definitions) == len(TWINS)
        twins.create()
        for n, left_out in enumerate(dict.fromkeys(PASSES)):
            other.refresher.passes = tuple(p for p in PASSES if p is not left_out)
            # One source of each join changes and the others do not: otherwise no pass has anything to do.
            source = (workload.DIMS, workload.FACTS)[n % 2]
            rows = source.random_rows(random.Random(SEED + n), 6)
            world.run(f"UPDATE s.{source.name} SET k = (coalesce(k, 0) + 1) % 4 WHERE k IS NULL OR k > 1")
            world.run(f"INSERT INTO s.{source.name} {source.rows(rows)}")
            world.run(f"DELETE FROM s.{source.name} WHERE k = 0")
            twins.check({source.name}, twins.refresh(together=True))


TWINS = ("algebra", "joined", "joined_groups", "group_below_join", "groups_of_groups", "distinct_below_join", "united")
