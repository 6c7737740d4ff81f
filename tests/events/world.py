"""A lake with the source, and what happens to it: do an event, refresh, compare, look at the action.

The stream tables are in mode DIFFERENTIAL: where the engine must recompute it must first refuse, and only mode AUTO
may then do it. Both are checked.
"""

from __future__ import annotations

import random
import time
import uuid
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass, field
from textwrap import shorten
from typing import TYPE_CHECKING, Any

from sqlalchemy import select

from spark_trickle import Action, RefreshResult, Trickle
from spark_trickle.catalog.tables import refresh_history
from spark_trickle.errors import TrickleError
from spark_trickle.model import Status, TableName
from tests.events import writers
from tests.events.event import Do, Event, Expect, Step
from tests.events.library import EVENTS
from tests.events.tables import COLUMNS, DEFINITIONS, DIRECT, NAMESPACE, OTHER, SOURCE, Kind, rows
from tests.jvm import PLANNING_JAVA

if TYPE_CHECKING:
    from pyspark.sql.types import StructType

# A plan runs once or twice here, over few rows: compiling it and adapting it cost more than they save.
LAKE: dict[str, Any] = {
    "shuffle_partitions": 2,
    "spark_conf": {
        "spark.sql.codegen.wholeStage": "false",
        "spark.sql.codegen.factoryMode": "NO_CODEGEN",
        "spark.sql.adaptive.enabled": "false",
        "spark.driver.extraJavaOptions": PLANNING_JAVA,
    },
}
USED = {"id", "k", "v", "w", "txt", "label", "ts", "s"}
FEW = 25  # rows below which the source is filled up before an event


class NotApplicable(Exception):
    """The event needs something that the table does not have now."""


class WrongAction(AssertionError):
    """Everything is equal, and the action is not the one that the library says."""


class Values(Mapping[str, str]):
    """What the texts of the library may ask for in braces; found out when asked."""

    def __init__(self, world: World, rnd: random.Random) -> None:
        self.world, self.rnd = world, rnd
        self.n = rnd.randrange(1000)

    def __getitem__(self, key: str) -> str:
        return str(getattr(self, key))

    def __iter__(self) -> Any:
        raise TypeError("asked one by one")

    def __len__(self) -> int:
        raise TypeError("asked one by one")

    t = f"lake.{SOURCE}"
    name = SOURCE
    d = f"lake.{OTHER}"
    columns = COLUMNS

    @property
    def layout(self) -> str:
        return self.world.kind.layout

    @property
    def layout_now(self) -> str:
        """For the columns as they are called now."""
        return self.layout.replace("(1, txt)", f"(1, {self.text})")

    @property
    def first(self) -> int:
        return self.rnd.choice((0, 20, 40, 100)) + self.n % 7

    @property
    def k(self) -> int:
        return self.n % 3

    @property
    def some(self) -> str:
        first = self.first
        return rows(self.world.schema(), first, first + 6 + self.n % 5)

    @property
    def marked(self) -> str:
        """Rows that a condition on w tells from all others."""
        return rows(self.world.schema(), self.first, self.first + 5, w="777")

    @property
    def text(self) -> str:
        return next(f.name for f in self.world.schema().fields if f.name in ("txt", "label"))

    @property
    def othertext(self) -> str:
        return "label" if self.text == "txt" else "txt"

    @property
    def inner(self) -> str:
        return next((n for n in self.world.schema()["s"].dataType.names if n in ("b", "bb")), "b")

    @property
    def otherinner(self) -> str:
        return "bb" if self.inner == "b" else "b"

    @property
    def place(self) -> str:
        return "AFTER id" if self.world.schema().names[0] != "id" else "FIRST"

    @property
    def inner_place(self) -> str:
        first = self.world.schema()["s"].dataType.names[0]
        return f"AFTER {self.inner}" if first == "a" else "FIRST"

    @property
    def unused(self) -> str:
        found = [n for n in self.world.schema().names if n not in USED]
        return found[-1] if found else str(self._none("every column is used"))

    @property
    def new(self) -> int:
        self.world.columns += 1
        return self.world.columns

    @property
    def last(self) -> int:
        return self.world.columns

    @property
    def rest(self) -> str:
        """All columns but k."""
        return ", ".join(f"`{n}`" for n in self.world.schema().names if n != "k")

    @property
    def id(self) -> int:
        """An id that is there."""
        found = self.world.ids()
        if not found:
            raise NotApplicable("the table is empty")
        return self.rnd.choice(found)

    @property
    def head(self) -> int:
        return self.world.head() or self._none("the table has no snapshot")

    @property
    def ancestor(self) -> int:
        found = self.world.ancestors()[1:]
        return self.rnd.choice(found[:5]) if found else self._none("no older snapshot")

    @property
    def side(self) -> int:
        """The head of branch side."""
        ref = self.world.metadata().ref(f"side{self.world.branches}")
        return int(ref.snapshotId()) if ref is not None else self._none("no branch")

    @property
    def branch(self) -> str:
        return f"side{self.world.branches}"

    @property
    def newbranch(self) -> str:
        self.world.branches += 1
        return self.branch

    @property
    def next_version(self) -> int:
        version = self.world.metadata().formatVersion()
        return version + 1 if version < 3 else self._none("already format v3")

    def _none(self, why: str) -> int:
        raise NotApplicable(why)


@dataclass
class World:
    tr: Trickle
    kind: Kind
    script: list[str] = field(default_factory=list)  # what was done, as Python that does it again
    branches: int = 0
    columns: int = 0  # that were added
    seconds: Counter[str] = field(default_factory=Counter)  # by what was done

    # -- set up ------------------------------------------------------------------------------------------------------

    def create(self) -> None:
        tr = self.tr
        tr.sql(f"CREATE NAMESPACE IF NOT EXISTS {NAMESPACE}")
        tr.sql(f"CREATE TABLE lake.{SOURCE} ({COLUMNS}) {self.kind.layout}")
        tr.sql(f"CREATE TABLE lake.{OTHER} (k INT, name STRING)")
        tr.sql(
            f"INSERT INTO lake.{OTHER} VALUES (0, 'zero'), (1, 'one'), (1, 'uno'), (2, NULL), (2, NULL), (NULL, 'n')"
        )
        for first in (0, 30):
            tr.sql(f"INSERT INTO lake.{SOURCE} {rows(self.schema(), first, first + 30)}")
        for name, definition in DEFINITIONS.items():
            tr.create_stream_table(name, definition, schedule="manual", mode="differential")

    # -- the source as it is now -------------------------------------------------------------------------------------

    def schema(self) -> StructType:
        return self.tr.spark.table(f"lake.{SOURCE}").schema

    def ids(self) -> list[int]:
        found = self.tr.spark.sql(f"SELECT DISTINCT id FROM lake.{SOURCE} WHERE k IN (1, 2) ORDER BY id")
        return [r[0] for r in found.collect()]

    def count(self) -> int:
        return int(self.tr.spark.table(f"lake.{SOURCE}").count())

    def metadata(self) -> Any:
        pointer = self.tr.store.pointers(names=[TableName.of(SOURCE)])[TableName.of(SOURCE)]
        return self.tr.refresher.lake.metadata(pointer.location)

    def head(self) -> int | None:
        snapshot = self.metadata().currentSnapshot()
        return None if snapshot is None else int(snapshot.snapshotId())

    def ancestors(self) -> list[int]:
        """Snapshots on the way back from the head of main that still exist, the newest first."""
        metadata = self.metadata()
        found, snapshot = [], metadata.currentSnapshot()
        while snapshot is not None:
            found.append(int(snapshot.snapshotId()))
            parent = snapshot.parentId()
            snapshot = None if parent is None else metadata.snapshot(parent)
        return found

    # -- events ------------------------------------------------------------------------------------------------------

    def play(self, event: Event, seed: int, *, strict: bool = True) -> list[RefreshResult]:
        """Do an event, refresh, compare. Raises AssertionError, or NotApplicable before anything was done.

        `strict`: the event is done to a table where it has an effect.
        """
        values = Values(self, random.Random(f"{event.name} {seed}"))
        self.script.append(f"world.do({event.name!r}, {seed})")
        few = self.count() < FEW
        if event.before or few:
            with self.timed("before"):
                if few:
                    self.step("INSERT INTO {t} " + rows(self.schema(), 0, 40), values)
                for step in event.before:
                    self.step(step, values)
            with self.timed("refresh before"):
                self.refresh_anyhow()
        with self.timed("event"):
            for step in event.steps:
                self.step(step, values)
        return self.settle(event, values, strict=strict)

    @contextmanager
    def timed(self, what: str) -> Iterator[None]:
        started = time.perf_counter()
        yield
        self.seconds[what] += time.perf_counter() - started

    def do(self, name: str, seed: int) -> list[RefreshResult]:
        """For scripts: an event by its name."""
        return self.play(next(e for e in EVENTS if e.name == name), seed, strict=False)

    def step(self, step: Step, values: Values) -> None:
        if isinstance(step, Do):
            arguments = [a.format_map(values) for a in step.arguments]
            self.script.append(f"#   {step.name}({', '.join(arguments)})")
            try:
                DOES[step.name](self.tr, *arguments)
            except ValueError as error:
                if any(limit in str(error) for limit in writers.PYICEBERG_CANNOT):
                    raise NotApplicable("PyIceberg cannot write this table") from error
                raise
            return
        text = step.format_map(values)
        self.script.append(f"#   {shorten(text, 180)};")
        self.tr.sql(text)

    # -- what must follow --------------------------------------------------------------------------------------------

    def settle(self, event: Event, values: Values, *, strict: bool) -> list[RefreshResult]:
        expect, jobs = event.expect_for(self.kind), [0]
        if expect.code is not None:
            with self.timed("refusal"):
                results = self.refused(expect, event.after, values, strict=strict)
        else:
            with self.timed("refresh"), self.counted() as jobs:
                results = list(self.tr.refresh(list(DEFINITIONS)))
        with self.timed("compare"):
            self.reached()
            self.equal()
        if expect.code is None:
            problem = self.wrong_action(event, expect, results, jobs[0], strict=strict)
            if problem is not None:
                raise WrongAction("\n".join([problem, *map(str, results)]))
        return results

    def wrong_action(
        self, event: Event, expect: Expect, results: Sequence[RefreshResult], jobs: int, *, strict: bool
    ) -> str | None:
        actions = {r.action for r in results if r.name in (expect.of or DIRECT)}
        if expect.action is Action.NO_DATA:
            if {r.action for r in results} != {Action.NO_DATA}:
                return "NO_DATA was expected"
            if not all(r.reason.startswith("NO_CHANGE") for r in results):
                return "the reason NO_CHANGE was expected"
            if read := self.bytes_read(results):
                return f"{read} bytes were read"
            return f"{jobs} Spark jobs ran" if jobs else None
        if not strict:
            return None if actions <= {expect.action, Action.NO_DATA} else f"{expect.action} or NO_DATA was expected"
        if actions != {expect.action}:
            return f"{expect.action} was expected"
        changed = sum(r.rows_inserted + r.rows_updated + r.rows_deleted for r in results)
        return "the event changed no stream table: the test shows nothing" if event.effect and not changed else None

    def refused(self, expect: Expect, after: Sequence[Step], values: Values, *, strict: bool) -> list[RefreshResult]:
        """Mode DIFFERENTIAL says no and keeps what it has; then mode AUTO recomputes, once, and says why."""
        before = {name: self.content(name) for name in DEFINITIONS}
        affected = expect.of or DIRECT
        error: TrickleError | None = None
        results: list[RefreshResult] = []
        try:
            results = list(self.tr.refresh(list(DEFINITIONS)))
        except TrickleError as refusal:
            error = refusal
        if error is None:
            shown = "\n".join(map(str, results))
            assert not strict, f"{expect.code} was expected of mode DIFFERENTIAL\n{shown}"
            return results
        assert error.code == expect.code, str(error)
        assert any(n in error.message for n in affected), str(error)
        assert expect.says in error.message, str(error)
        broken = [s.name for s in self.tr.status() if s.status is Status.ERROR]
        assert len(broken) == 1, broken
        assert broken[0] in affected, broken
        now = {name: self.content(name) for name in DEFINITIONS}
        assert now == before, "the old content is not readable as it was"
        for step in after:
            self.step(step, values)
        for name in DEFINITIONS:
            self.tr.alter_stream_table(name, mode="auto")
        try:
            results = list(self.tr.refresh(list(DEFINITIONS)))
        finally:
            for name in DEFINITIONS:
                self.tr.alter_stream_table(name, mode="differential")
        shown = "\n".join(map(str, results))
        if expect.action is Action.REINITIALIZE:
            anew = [r for r in results if r.name in affected]
            assert {r.action for r in anew} == {Action.REINITIALIZE}, shown
            reasons = {r.reason.partition(":")[0] for r in anew}
            # In a sequence a column may come back with another type than it had.
            assert reasons == {expect.reason or expect.code} or (not strict and "DEPENDENCY_CHANGED" in reasons), shown
        again = list(self.tr.refresh(list(DEFINITIONS)))
        assert {r.action for r in again} == {Action.NO_DATA}, "recomputed more than once\n" + "\n".join(map(str, again))
        return results

    def refresh_anyhow(self) -> None:
        """Bring everything up, whatever it takes."""
        try:
            self.tr.refresh(list(DEFINITIONS))
        except TrickleError:
            self.tr.refresh(list(DEFINITIONS), mode="full")

    def reached(self) -> None:
        """The frontier is where the inputs are, and nobody is in trouble."""
        for status in self.tr.status():
            assert status.status is Status.ACTIVE, str(status)
            assert not status.pending, f"{status.name} is behind after a refresh"

    def equal(self) -> None:
        with ThreadPoolExecutor(2) as pool:
            found = list(pool.map(self.tr.verify, DEFINITIONS))
        assert all(f.equal for f in found), "\n".join(map(str, found))

    # -- looking -----------------------------------------------------------------------------------------------------

    def content(self, name: str) -> list[str]:
        return sorted(repr(tuple(r)) for r in self.tr.spark.table(f"lake.{name}").collect())

    @contextmanager
    def counted(self) -> Iterator[list[int]]:
        """The number of Spark jobs that this thread starts; known at the end."""
        context, found, tag = self.tr.spark.sparkContext, [0], f"events-{uuid.uuid4().hex}"
        context.addJobTag(tag)
        try:
            yield found
        finally:
            context.removeJobTag(tag)
            found[0] = len(context._jsc.sc().statusTracker().getJobIdsForTag(tag))

    def bytes_read(self, results: Sequence[RefreshResult]) -> int:
        """Of the last refresh of each, as the history has it."""
        h, total = refresh_history, 0
        for result in results:
            last = select(h.c.bytes_read).where(h.c.name == result.name).order_by(h.c.id.desc()).limit(1)
            total += self.tr.store._rows(last)[0]["bytes_read"] or 0
        return total

    def text(self) -> str:
        """The script so far."""
        head = [
            "from tests.events.run import world",
            f"with world({self.kind.version}, {self.kind.mode!r}, {self.kind.partitioning!r}) as world:",
        ]
        return "\n".join([*head, *(f"    {line}" for line in self.script)])


DOES: dict[str, Any] = {
    "pyiceberg_append": lambda tr, first: writers.pyiceberg_append(tr, SOURCE, int(first), int(first) + 8),
    "pyiceberg_delete": lambda tr, condition: writers.pyiceberg_delete(tr, SOURCE, condition),
    "pyiceberg_overwrite": lambda tr, first, condition: writers.pyiceberg_overwrite(
        tr, SOURCE, int(first), int(first) + 8, condition
    ),
    "equality_delete": lambda tr, value, column="id": writers.equality_delete(tr.spark, SOURCE, int(value), column),
    "add_default": lambda tr, column: writers.add_default(tr.spark, SOURCE, column),
    "refresh": lambda tr, name: tr.refresh(name),
    "orphan": lambda tr: writers.old_orphan(tr.spark, SOURCE),
    "no_orphan": lambda tr: writers.no_orphan(tr.spark, SOURCE),
}
