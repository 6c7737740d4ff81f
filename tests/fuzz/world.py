"""A round in a lake: create, change, refresh, compare; and the judgement of what went wrong.

What counts as a failure: any error that the plain query does not raise in Spark over the same data, an action other
than the promised one, and content that differs from the definition. FULL with a named reason is a refusal, no failure.
"""

from __future__ import annotations

import random
import re
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from enum import StrEnum
from pathlib import Path
from types import ModuleType
from typing import Any, TypeVar

from spark_trickle import Action, Trickle, connect
from spark_trickle.delta.optimize import PASSES
from spark_trickle.errors import TrickleError
from spark_trickle.lake import driver_reads
from spark_trickle.results import Verification
from spark_trickle.spark import order
from spark_trickle.thresholds import DRIVER_FILES
from tests.fuzz.exact import Difference, compare
from tests.fuzz.plan import Case, Round
from tests.fuzz.schema import NAMESPACE
from tests.jvm import PLANNING_JAVA

# Every query is new and its tables are tiny: compiling code and adapting plans take longer than running them.
LAKE: dict[str, Any] = {
    "shuffle_partitions": 2,
    "compact_files": 2,
    "retain_snapshots": 2,
    "reader_grace": "0s",
    "spark_conf": {
        "spark.sql.codegen.wholeStage": "false",
        "spark.sql.codegen.factoryMode": "NO_CODEGEN",
        "spark.sql.adaptive.enabled": "false",
        "spark.sql.constraintPropagation.enabled": "false",
        "spark.driver.extraJavaOptions": PLANNING_JAVA,
    },
}
# Whoever refreshes: a stream table means what it meant where it was created.
FOREIGN: dict[str, Any] = {
    **LAKE,
    "time_zone": "Pacific/Auckland",
    "spark_conf": {
        **LAKE["spark_conf"],
        "spark.sql.ansi.enabled": "false",
        "spark.sql.legacy.sizeOfNull": "true",
        "spark.sql.mapKeyDedupPolicy": "LAST_WIN",
        "spark.sql.groupByOrdinal": "false",
        "spark.sql.caseSensitive": "true",
    },
}
SET_BETWEEN = {
    "spark.sql.session.timeZone": "America/Los_Angeles",
    "spark.sql.ansi.enabled": "false",
    "spark.sql.orderByOrdinal": "false",
    "spark.sql.legacy.timeParserPolicy": "LEGACY",
}
MAINTAINED = 0.3  # of the stream tables, after a refresh
LARGE = order.LARGE
THREADS = 3  # most of a small query is planning, which uses one core
X = TypeVar("X")
# What a column of a type may be partitioned by.
_TRANSFORMS = {
    "boolean": ("{}",),
    "integer": ("{}", "bucket(3, {})", "truncate(2, {})"),
    "long": ("{}", "bucket(3, {})", "truncate(5, {})"),
    "double": ("{}",),
    "decimal": ("{}", "bucket(3, {})"),
    "string": ("bucket(3, {})", "truncate(1, {})"),  # as it is: not what is no valid UTF-8
    "binary": ("bucket(3, {})",),
    "date": ("{}", "month({})"),
    "timestamp": ("{}", "day({})"),
    "timestamp_ntz": ("hour({})",),
}
_SUM = re.compile(r"\bsum\(([\w.]+)\)")


class Verdict(StrEnum):
    DIFFERENTIAL = "DIFFERENTIAL"
    FULL = "FULL"  # runs, but recomputes: a refusal
    REFUSED = "REFUSED"  # not even created
    INVALID = "INVALID"  # Spark refuses the query: a fault of the generator
    RAISES = "RAISES"  # the plain query fails in Spark too


@dataclass
class Outcome:
    """What became of one case. After a failure it is left alone."""

    case: Case
    verdict: Verdict = Verdict.DIFFERENTIAL
    reason: str = ""
    seconds: dict[str, float] = field(default_factory=dict)  # of Spark and the engine, by what was done
    failure: str | None = None
    step: int = 0
    compared: int = 0  # comparisons with the definition
    deltas: int = 0  # refreshes that were DIFFERENTIAL
    rows: int = 0  # the most rows a comparison saw
    twin: str = ""  # what was switched off in the twin
    partitioned_by: tuple[str, ...] = ()

    @property
    def alive(self) -> bool:
        return self.failure is None and self.verdict in (Verdict.DIFFERENTIAL, Verdict.FULL)

    @property
    def reason_code(self) -> str:
        found = re.match(r"[A-Z_]+", self.reason)
        return found[0] if found else "NO_NAMED_REASON"

    @contextmanager
    def timed(self, what: str) -> Iterator[None]:
        started = time.perf_counter()
        try:
            yield
        finally:
            self.seconds[what] = self.seconds.get(what, 0) + time.perf_counter() - started

    def fail(self, step: int, what: str) -> None:
        if self.failure is None:
            self.failure, self.step = what, step


@dataclass
class World:
    """One lake with the tables of one round."""

    tr: Trickle
    round: Round
    outcomes: list[Outcome] = field(default_factory=list)
    threads: int = THREADS
    foreign: Trickle | None = None  # a connection with other settings, which refreshes at every second step

    def map(self, do: Callable[[Outcome], X], outcomes: Sequence[Outcome]) -> list[X]:
        with ThreadPoolExecutor(self.threads) as pool:
            return list(pool.map(do, outcomes))

    def table(self, outcome: Outcome) -> str:
        return f"{NAMESPACE}.{outcome.case.name}{'_twin' if outcome.twin else ''}"

    # -- create ----------------------------------------------------------------------------------------------------

    def fill(self) -> None:
        self.tr.sql(f"CREATE NAMESPACE {NAMESPACE}")
        self.change(self.round.creation)

    def create(self, cases: Sequence[Case]) -> None:
        self.outcomes = [Outcome(c) for c in cases]
        self.map(self._create, self.outcomes)

    def _create(self, outcome: Outcome) -> None:
        sql = outcome.case.query.sql
        try:
            outcome.partitioned_by = self._partitioning(outcome.case)
            with outcome.timed("create"):
                self.tr.create_stream_table(self.table(outcome), sql, partitioned_by=outcome.partitioned_by)
        except Exception as error:
            self._created_badly(outcome, error)
            return
        status = self.tr.status(self.table(outcome))[0]
        outcome.reason = status.reason or ""
        outcome.verdict = Verdict.DIFFERENTIAL if status.incremental else Verdict.FULL
        if not status.incremental and outcome.reason_code == "NO_NAMED_REASON":
            outcome.fail(0, f"FULL without a named reason: {outcome.reason!r}")
        if outcome.reason_code == "DEFINITION_CHECK":
            outcome.fail(0, f"misread: {outcome.reason}")
        if "stumbled over" in outcome.reason:
            outcome.fail(0, f"the parser raised: {outcome.reason}")

    def _partitioning(self, case: Case) -> tuple[str, ...]:
        """One or two columns that can be, chosen by the query alone: twins are partitioned alike."""
        if case.partitioned_by or not case.partitioned:
            return case.partitioned_by
        rnd = random.Random(case.query.sql)
        columns = [(f.name, f.dataType.typeName()) for f in self.tr.spark.sql(case.query.sql).schema]
        fit = [rnd.choice(_TRANSFORMS[t]).format(f"`{name}`") for name, t in columns if t in _TRANSFORMS]
        return tuple(rnd.sample(fit, min(len(fit), rnd.choice((1, 1, 2)))))

    def _created_badly(self, outcome: Outcome, error: Exception) -> None:
        spark = self.tr.spark
        try:
            planned = spark.sql(outcome.case.query.sql)
            _ = planned.schema
        except Exception as refusal:
            outcome.verdict, outcome.reason = Verdict.INVALID, _short(refusal)
            return
        outcome.reason = _short(error)
        if self._raises(outcome):
            outcome.verdict = Verdict.RAISES
            return
        outcome.verdict = Verdict.REFUSED
        if isinstance(error, TrickleError) and error.code == "NOT_INCREMENTAL":
            outcome.reason = error.message
            return
        outcome.fail(0, f"creation failed: {_short(error, 1500)}")

    def _raises(self, outcome: Outcome) -> bool:
        """Whether Spark itself fails on the plain query now, or would if it met the rows in another order.

        A sum that fits may pass values on its way that do not: then it fails by chance. All that is positive comes
        first in one order, all that is negative in another.
        """
        text = outcome.case.query.sql
        orders = (_SUM.sub(rf"sum({part}(\1, 0))", text) for part in ("greatest", "least"))
        for query in dict.fromkeys((text, *orders)):
            try:
                self.tr.spark.sql(query).collect()
            except Exception:
                return True
        return False

    # -- steps -----------------------------------------------------------------------------------------------------

    def change(self, statements: Sequence[str]) -> None:
        """Each source in the order of its statements, the sources beside each other."""
        of: dict[str, list[str]] = {}
        for statement in statements:
            named = re.search(rf"\b{NAMESPACE}\.\w+", statement)
            of.setdefault(named[0] if named else "", []).append(statement)

        def run(mine: list[str]) -> None:
            for statement in mine:
                self.tr.sql(statement)

        with ThreadPoolExecutor(self.threads) as pool:
            list(pool.map(run, of.values()))

    def refresh_and_compare(self, number: int, *, last: bool) -> None:
        """Refresh all, then compare all; what runs FULL is compared at the end only."""
        alive = [o for o in self.outcomes if o.alive]
        tr = self.foreign if self.foreign is not None and number % 2 else self.tr
        with set_for_a_while(tr, SET_BETWEEN if self.foreign is not None and not number % 2 else {}):
            self.map(lambda o: self._refresh(tr, o, number), alive)
        self.map(lambda o: self._maintain(o, number), [o for o in alive if o.alive])
        again = [o for o in alive if o.alive and (o.verdict is Verdict.DIFFERENTIAL or last)]
        self.map(lambda o: self._compare(o, number), again)
        if last:  # what the engine says of itself must be true as well
            self.map(lambda o: self._verify(o, number), [o for o in again if o.alive])

    def _maintain(self, outcome: Outcome, number: int) -> None:
        """Some of them: what is compared, and refreshed next, has other files then."""
        if random.Random(f"{outcome.case.query.sql} {number}").random() >= MAINTAINED:
            return
        try:
            with outcome.timed("maintain"):
                failed = [u for u in self.tr.maintain(self.table(outcome)) if u.failed]
        except Exception as error:
            outcome.fail(number, f"maintenance failed: {_short(error, 1500)}")
            return
        if failed:
            outcome.fail(number, f"maintenance failed: {failed[0]}")

    def _refresh(self, tr: Trickle, outcome: Outcome, number: int) -> None:
        promised = outcome.verdict is Verdict.DIFFERENTIAL
        try:
            # AUTO may find FULL cheaper; the delta is what is tested here.
            with outcome.timed("refresh"):
                result = tr.refresh(self.table(outcome), "DIFFERENTIAL" if promised else None)
        except Exception as error:
            if self._raises(outcome):
                outcome.verdict, outcome.reason = Verdict.RAISES, _short(error)
            else:
                outcome.fail(number, f"refresh failed: {_short(error, 1500)}")
            return
        allowed = {Action.DIFFERENTIAL, Action.NO_DATA} if promised else {Action.FULL, Action.NO_DATA}
        if result.action not in allowed:
            outcome.fail(number, f"{result.action} instead of {outcome.verdict}: {result.reason}")
        outcome.deltas += result.action is Action.DIFFERENTIAL

    def _compare(self, outcome: Outcome, number: int) -> None:
        """As a reader would, column by column. What SQL leaves open only `verify` can tell."""
        if outcome.verdict is Verdict.FULL and outcome.reason_code == "LIMIT":
            return  # Spark takes any rows: two runs of the plain query may differ
        if outcome.case.query.open:
            self._verify(outcome, number)
        else:
            self._check(outcome, number, "compare", lambda: self._compare_plainly(outcome))

    def _verify(self, outcome: Outcome, number: int) -> None:
        if outcome.verdict is Verdict.FULL and (outcome.case.query.open or outcome.reason_code == "LIMIT"):
            return  # two runs of the plain query may differ as well
        self._check(outcome, number, "verify", lambda: self.tr.verify(self.table(outcome)))

    def _check(self, outcome: Outcome, number: int, what: str, look: Callable[[], Difference | Verification]) -> None:
        try:
            with outcome.timed(what):
                found = look()
        except Exception as error:
            if self._raises(outcome):
                outcome.verdict, outcome.reason = Verdict.RAISES, _short(error)
            else:
                outcome.fail(number, f"{what} failed: {_short(error, 1500)}")
            return
        outcome.compared += 1
        outcome.rows = max(outcome.rows, found.rows)
        if not found.equal:
            shown = "".join(f"\n  {e}" for e in found.examples)
            said = " in the eyes of verify" if what == "verify" else ""
            outcome.fail(number, f"DIFFERS{said}, {found.missing} rows missing, {found.extra} rows extra{shown}")

    def _compare_plainly(self, outcome: Outcome) -> Difference:
        """Both sides as they are now, in a session with the settings of the connection that created it."""
        session, name = self.tr.spark, self.table(outcome)
        view = f"defined_{name.partition('.')[2]}"
        session.sql(outcome.case.query.sql).createOrReplaceTempView(view)
        return compare(session, name, view, session.table(name).schema, dict(outcome.case.query.how))


@contextmanager
def set_for_a_while(tr: Trickle, settings: Mapping[str, str]) -> Iterator[None]:
    """What a user may do to the session he was given."""
    before = {key: tr.spark.conf.get(key) for key in settings}
    for key, value in settings.items():
        tr.spark.conf.set(key, value)
    try:
        yield
    finally:
        for key, old in before.items():
            if old is not None:
                tr.spark.conf.set(key, old)


def switch_off(tr: Trickle, number: int) -> str:
    """Leave one optimization out, another one each time. Returns its name."""
    compiler = tr.refresher.compiler
    for option in ("use_states", "state_tables"):
        if hasattr(compiler, option):
            setattr(compiler, option, (number % 2 == 0) != (option == "use_states"))
    left_out = PASSES[number % len(PASSES)]
    tr.refresher.passes = tuple(p for p in PASSES if p is not left_out)
    return f"{'use_states' if number % 2 == 0 else 'state_tables'} and {left_out.__name__}"


def play(
    folder: Path,
    round_: Round,
    *,
    out_of_time: Callable[[], bool] = lambda: False,
    twins: bool = True,
    threads: int = THREADS,
) -> list[Outcome]:
    """A whole round in a new lake. Stops between steps when time is out."""
    # The tables are tiny: in every second round they pass for large, so that joins are made in steps; in every fourth
    # one Spark reads all rows, as it reads many.
    with ExitStack() as stack:
        stack.enter_context(_set(order, "LARGE", LARGE if round_.number % 2 else 5))
        stack.enter_context(_set(driver_reads, "DRIVER_FILES", 0 if round_.number % 4 == 2 else DRIVER_FILES))
        tr = stack.enter_context(connect(folder, **LAKE))
        world = World(tr, round_, threads=threads)
        if round_.number % 3 == 0:
            world.foreign = stack.enter_context(connect(folder, **FOREIGN))
        world.fill()
        world.create(round_.cases)
        worlds = [world]
        doubled = [o.case for o in world.outcomes if o.case.twin and o.verdict is Verdict.DIFFERENTIAL and o.alive]
        other = connect(folder, **LAKE) if doubled and twins else None
        try:
            if other is not None:
                worlds.append(_twins(other, round_, doubled, threads))
            for n, statements in enumerate(round_.steps, 1):
                if out_of_time() and n > 1:
                    break
                world.change(statements)
                if other is not None:
                    left_out = PASSES[(round_.number + n) % len(PASSES)]
                    other.refresher.passes = tuple(p for p in PASSES if p is not left_out)
                for w in worlds:
                    w.refresh_and_compare(n, last=n == len(round_.steps) or out_of_time())
        finally:
            if other is not None:
                other.close()
        return [o for w in worlds for o in w.outcomes]


@contextmanager
def _set(module: ModuleType, name: str, value: int) -> Iterator[None]:
    before = getattr(module, name)
    setattr(module, name, value)
    try:
        yield
    finally:
        setattr(module, name, before)


def _twins(tr: Trickle, round_: Round, cases: Sequence[Case], threads: int) -> World:
    off = switch_off(tr, round_.number)
    world = World(tr, round_, [Outcome(c, twin=off) for c in cases], threads)
    world.map(world._create, world.outcomes)
    return world


def _short(error: BaseException, most: int = 300) -> str:
    text = re.sub(r"\s+", " ", str(error)).strip()
    return f"{type(error).__name__}: {text}"[:most]
