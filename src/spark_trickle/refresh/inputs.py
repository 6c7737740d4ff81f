"""The inputs of one refresh: where each was at the frontier, where it is at the cut, and what lies between."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from spark_trickle.catalog.rows import LogEntry
from spark_trickle.delta.facts import Facts
from spark_trickle.errors import Reason, TrickleError
from spark_trickle.lake import changelog
from spark_trickle.lake.attempt import Attempt
from spark_trickle.lake.feed import Feed, weight_name
from spark_trickle.lake.jvm import TableFacts, let_go
from spark_trickle.lake.shape import made_again, same_where_shared, shown_type
from spark_trickle.lake.tables import Lake
from spark_trickle.model import Dependency, InputKind, Pointer, TableName, UsedColumn
from spark_trickle.refresh.definition import Compiled
from spark_trickle.spark.names import quote
from spark_trickle.spark.order import is_large
from spark_trickle.spark.runtime import Local, collect_local, run_prepared
from spark_trickle.spark.statement import Statement, no_rows
from spark_trickle.sql.algebra import WEIGHT, State
from spark_trickle.thresholds import LOCAL, ONE_PIECE, SMALL

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

_HEAVY = re.compile(r"\b(?:JOIN|GROUP BY|OVER|DISTINCT)\b")  # what takes pages of memory in a task
SPARK_CATALOG = "spark_catalog."  # where Delta Lake's tables are read from


@dataclass(frozen=True, slots=True)
class Input:
    name: TableName
    kind: InputKind
    columns: tuple[str, ...]
    pointer: Pointer  # what is read: it may show the table in another schema
    facts: TableFacts
    frontier: Dependency | None  # None before the first refresh
    in_lake: Pointer  # what the lake has

    @property
    def changed(self) -> bool:
        return self.frontier is None or self.frontier.snapshot_id != self.facts.snapshot_id

    @property
    def moved(self) -> bool:
        return self.frontier is None or self.frontier.pointer != self.in_lake.location

    def at_cut(self) -> Dependency:
        """This input's part of the frontier after the refresh."""
        fields = {f.name.lower(): f for f in self.facts.fields}
        used = tuple(UsedColumn(c, fields[c.lower()].type, fields[c.lower()].id) for c in self.columns)
        return Dependency(
            input=self.name,
            kind=self.kind,
            columns=used,
            table_uuid=self.facts.uuid,
            snapshot_id=self.facts.snapshot_id,
            schema_id=self.facts.schema_id,
            pointer=self.in_lake.location,
        )


def gather(attempt: Attempt, compiled: Compiled, frontier: Mapping[TableName, Dependency]) -> tuple[Input, ...]:
    """The inputs at the cut. A missing one is named."""
    inputs = []
    for name, (kind, columns) in compiled.inputs.items():
        pointer = attempt.pointers.get(name)
        if pointer is None:
            raise TrickleError("SOURCE_DROPPED", f"{name} is gone")
        known = frontier.get(name)
        if known is not None and known.pointer is None:
            known = None
        facts = attempt.lake.facts(pointer.location)
        inputs.append(Input(name, kind, columns, pointer, facts, known, attempt.in_lake(name)))
    return tuple(inputs)


def obstacle(lake: Lake, item: Input) -> Reason | None:
    """Why the delta since the frontier cannot be known; None: it can."""
    known = item.frontier
    if known is None:
        return None
    if known.table_uuid != item.facts.uuid:
        return Reason("TABLE_REPLACED", f"{item.name} is another table than at the last refresh")
    fields = {f.name.lower(): f for f in item.facts.fields}
    for used in known.columns:
        now = fields.get(used.name.lower())
        if now is None:
            continue
        if now.id != used.field_id:
            return Reason(
                "TABLE_REPLACED", f"column {used.name} of {item.name} is another one than at the last refresh"
            )
        if now.type != used.type and not same_where_shared(used.type, now.type):
            again = made_again(used.type, now.type)
            if again:
                return Reason("TABLE_REPLACED", f"{used.name}.{again[0]} of {item.name} was dropped and made again")
            changed = f"from {shown_type(used.type)} to {shown_type(now.type)}"
            return Reason("SOURCE_CHANGED", f"column {used.name} of {item.name} changed its type {changed}")
    if item.changed and known.snapshot_id is not None:
        expired = lake.kind(item.pointer.location).expired(item.pointer.location, known.snapshot_id)
        if expired is not None:
            return Reason("SNAPSHOT_EXPIRED", f"{item.name}: {expired}")
    return None


@dataclass(frozen=True, slots=True)
class Materialized:
    """A relation that was computed."""

    view: str
    rows: int
    sums: Mapping[str, tuple[int, int]]  # by column: of its positive and its negative values


@dataclass(slots=True)
class Feeds:
    """The change feeds of one attempt, and the names its SQL uses for tables (`Leaves`)."""

    attempt: Attempt
    inputs: Mapping[TableName, Input]
    feeds: dict[TableName, Feed] = field(default_factory=dict)
    rows: dict[TableName, int] = field(default_factory=dict)
    _views: dict[TableName, str] = field(default_factory=dict)
    _checkpoints: dict[str, DataFrame] = field(default_factory=dict)  # by the view over them
    _old: dict[TableName, str] = field(default_factory=dict)
    sizes: dict[str, int] = field(default_factory=dict)  # rows of materialized views
    local: dict[str, Local] = field(default_factory=dict)  # those of them that are on the driver
    before_query: Callable[[str], None] = lambda _: None  # what Spark must know before it runs this text
    _unseen: set[str] = field(default_factory=set)  # those of these that Spark does not know yet

    def open(self, item: Input) -> Feed:
        """Plan the feed of a changed input; counts its rows only where metadata does not tell."""
        old = item.frontier.snapshot_id if item.frontier else None
        feed = self._from_log(item, old)
        if feed is None:
            kind = self.attempt.lake.kind(item.pointer.location)
            feed = kind.changes(self.attempt.session, item.pointer, old, item.columns)
        self.feeds[item.name] = feed
        if feed.frame is None:
            self.rows[item.name] = 0
        elif feed.rows is not None:
            self.rows[item.name] = feed.rows
        return feed

    def _from_log(self, item: Input, old: int | None) -> Feed | None:
        """The feed of a stream table: what was written to it is known."""
        session, new = self.attempt.session, item.facts.snapshot_id
        if item.kind is not InputKind.STREAM_TABLE or old is None or new is None:
            return None
        table = self.attempt.lake.table(item.pointer.location, str(item.name))
        delta = self.attempt.deltas.get(item.name)
        if delta is not None and (delta.from_snapshot, delta.to_snapshot) == (old, new):
            return changelog.handed_over(session, table, delta, item.columns)
        known: list[changelog.Delta | LogEntry] = [*self.attempt.store.change_log([item.name])]
        if delta is not None:
            known.append(delta)
        return changelog.read(session, table, old, new, item.columns, known)

    def count(self, name: TableName) -> int:
        """Changed rows of an input; materializes the feed when nobody knows."""
        if name not in self.rows:
            self.keep(name)
        return self.rows[name]

    def keep(self, name: TableName) -> None:
        """Materialize a feed: it is read more than once, or its size is needed."""
        frame = self.feeds[name].frame if name in self.feeds else None
        if frame is None or name in self._views:
            return
        if self.feeds[name].local is not None:
            self.changes(name)  # it is there already
            return
        self.attempt.tune()
        found = self.materialize(frame, "changes")
        self._views[name] = found.view
        self.rows[name] = found.rows

    def materialize(self, frame: DataFrame, what: str, summed: Sequence[str] = ()) -> Materialized:
        """Compute a relation once and give it a view name.

        A small one becomes a local relation: Spark plans over it in no time, and knows its size. A large one is
        checkpointed. Either way the plan behind it is gone, so plans do not grow from step to step.
        """
        from pyspark.sql import functions as F

        found = self.materialize_small(frame, what, summed)
        if found is not None:
            return found
        checkpoint = frame.localCheckpoint()
        view = self.attempt.view_name(what)
        self._checkpoints[view] = checkpoint
        checkpoint.createOrReplaceTempView(view)
        values = [F.col(quote(c)).cast("bigint") for c in summed]
        parts = [F.sum(F.greatest(v * sign, F.lit(0))) for v in values for sign in (1, -1)]
        counted = checkpoint.agg(F.count(F.lit(1)), *parts).first()
        assert counted is not None
        self.sizes[view] = int(counted[0])
        sums = [int(n or 0) for n in counted[1:]]
        return Materialized(
            view, self.sizes[view], dict(zip(summed, zip(sums[::2], sums[1::2], strict=True), strict=True))
        )

    def materialize_small(self, frame: DataFrame, what: str, summed: Sequence[str] = ()) -> Materialized | None:
        """The same, but only if it has few rows."""
        local = collect_local(frame, LOCAL, summed=summed)
        return None if local is None else self._named(local, what, summed)

    def _named(self, local: Local, what: str, summed: Sequence[str]) -> Materialized:
        return Materialized(self.name(local, what), local.rows, dict(zip(summed, local.sums, strict=True)))

    def name(self, local: Local, what: str) -> str:
        """A view of a relation on the driver; Spark learns of it when a statement of its own reads it."""
        view = self.attempt.view_name(what)
        self.sizes[view] = local.rows
        self.local[view] = local
        self._unseen.add(view)
        return view

    # Statements

    def query(self, sql: str) -> DataFrame:
        """A statement for Spark."""
        self.show(view for view in self._unseen if quote(view) in sql)
        self.before_query(sql)
        return self.attempt.session.sql(sql)

    def show(self, views: Iterable[str]) -> None:
        """Let Spark know these views, if they are on the driver."""
        for view in self._unseen.intersection(views):
            self.local[view].frame.createOrReplaceTempView(view)
            self._unseen.remove(view)

    def rows_of(self, statement: Statement, summed: Sequence[str] = ()) -> Local | None:
        """The rows of a statement, without Spark's help; None where that cannot be."""
        plain = statement.without_hints().sql
        views = self._only_local(plain)
        if views is None:
            return None
        return run_prepared(self.attempt.session, plain, {v: self.local[v] for v in views}, LOCAL, summed)

    def _only_local(self, sql: str) -> list[str] | None:
        """The views that a statement reads, if they are all on the driver and it reads no table besides."""
        if quote(self.attempt.slot.catalog) in sql or SPARK_CATALOG in sql:  # tables of the lake, sources outside
            return None
        views = self.attempt.views_in(sql)
        return views if self.local.keys() >= set(views) else None

    def frame(self, statement: Statement) -> DataFrame:
        """The same statement for Spark, which plans those over few rows without exchanging any."""
        views = self._only_local(statement.sql)
        if views is not None and len(_HEAVY.findall(statement.sql)) <= ONE_PIECE:
            self.attempt.tune(local=True)
            return self.query(statement.in_one_piece(views))
        self.attempt.tune()
        return self.query(statement.sql)

    def compute(self, statement: Statement, what: str, summed: Sequence[str] = ()) -> Materialized:
        """Compute a statement once and give it a view name."""
        local = self.rows_of(statement, summed)
        if local is not None:
            return self._named(local, what, summed)
        return self.materialize(self.frame(statement), what, summed)

    def compute_small(self, statement: Statement, what: str) -> Materialized | None:
        """The same, but only if it has few rows."""
        local = self.rows_of(statement)
        return self.materialize_small(self.frame(statement), what) if local is None else self._named(local, what, ())

    def keys(self, statement: Statement) -> Local | None:
        """Few rows on the driver, without a name; None if there are many."""
        return self.rows_of(statement) or collect_local(self.frame(statement), LOCAL)

    @property
    def changed(self) -> frozenset[TableName]:
        return frozenset(n for n, f in self.feeds.items() if f.frame is not None and self.rows.get(n) != 0)

    @property
    def nothing(self) -> bool:
        """Whether metadata alone tells that no row changed: compaction, rewritten manifests, other refs."""
        return all(f.frame is None for f in self.feeds.values())

    @property
    def all_small(self) -> bool:
        return all(self.rows.get(n, SMALL + 1) <= SMALL for n in self.changed)

    @property
    def append_only(self) -> bool:
        return all(f.append_only for f in self.feeds.values() if f.frame is not None)

    @property
    def bytes_read(self) -> int:
        return sum(f.bytes_read for f in self.feeds.values())

    # Leaves: the names of tables in the SQL of this attempt

    def state(self, table: TableName, state: State) -> str:
        if state is State.NEW:
            return self.attempt.qualified(table)
        if table not in self._old:
            self._old[table] = self._old_state(self.inputs[table])
        return self._old[table]

    def _old_state(self, item: Input) -> str:
        here = self.attempt.qualified(item.name)
        frontier = item.frontier
        if frontier is None or frontier.snapshot_id is None:
            return no_rows(here)
        kind = self.attempt.lake.kind(item.pointer.location)
        sql = kind.old_state(item.pointer, here, frontier.snapshot_id)
        return self.attempt.pin(item.name, frontier.snapshot_id) if sql is None else sql

    def look_up(
        self, table: TableName, state: State, columns: Sequence[str], keys: Sequence[str], by: Local | None
    ) -> Local | None:
        """Few rows of a state: all whose keys `by` has, perhaps more; all if it is None. None: Spark must look."""
        item = self.inputs[table]
        old = None if item.frontier is None else item.frontier.snapshot_id
        at = item.facts.snapshot_id if state is State.NEW else old
        if at is None:
            return None
        kind = self.attempt.lake.kind(item.pointer.location)
        return kind.look_up(self.attempt.session, item.pointer, at, columns, keys, by)

    def changes(self, table: TableName) -> str:
        if table not in self._views:
            frame = self.feeds[table].frame if table in self.feeds else None
            if frame is None:  # asked for only when the pass that drops unchanged inputs is switched off
                return no_rows(self.attempt.qualified(table), self.weight(table))
            local = self.feeds[table].local
            if local is not None:
                self._views[table] = self.name(local, "changes")
            else:
                self._views[table] = self.attempt.view_name("changes")
                frame.createOrReplaceTempView(self._views[table])
        return quote(self._views[table])

    def weight(self, table: TableName) -> str:
        return weight_name(self.inputs[table].columns) if table in self.inputs else WEIGHT

    def small(self, table: TableName) -> bool:
        if not table.namespace:  # a materialized view of this attempt
            return self.sizes.get(table.name, SMALL + 1) <= SMALL
        return self.rows.get(table, SMALL + 1) <= SMALL

    def total(self, table: TableName) -> int | None:
        return self.inputs[table].facts.total_records if table in self.inputs else None

    @property
    def facts(self) -> Facts:
        """What passes over a delta tree know of this refresh."""
        little = frozenset(t for t in self.inputs if not is_large(self.total(t)))
        return Facts(self.changed, little, append_only=self.append_only)

    def lend(self, views: Sequence[str]) -> None:
        """These views live as long as the attempt, not only as long as the feeds."""
        self.show(views)
        self.attempt.checkpoints += [self._checkpoints.pop(v) for v in views if v in self._checkpoints]

    def release(self) -> None:
        for frame in self._checkpoints.values():
            let_go(frame)
        for feed in self.feeds.values():
            feed.release()
