"""The public facade: `connect()` and `Trickle`.

with spark_trickle.connect("lakehouse") as tr:
    tr.sql("CREATE STREAM TABLE shop.big AS SELECT id, amount FROM shop.orders WHERE amount > 100")
    tr.refresh("shop.big")
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from functools import partial
from textwrap import shorten
from typing import TYPE_CHECKING, Any, overload

from spark_trickle.catalog import controls
from spark_trickle.catalog.alerts import alert_kind
from spark_trickle.catalog.database import open_catalog
from spark_trickle.catalog.leases import Heartbeat
from spark_trickle.catalog.rows import Alert, NamedCut
from spark_trickle.config import Settings
from spark_trickle.errors import TrickleError
from spark_trickle.graph.draw import Dag, dag_of
from spark_trickle.lake.attempt import Attempts, session_settings
from spark_trickle.lake.cleanup import clean_up
from spark_trickle.lake.cuts import Cuts, ReaderCut
from spark_trickle.lake.jvm import active
from spark_trickle.lake.protect import Protector
from spark_trickle.lake.retention import expiring
from spark_trickle.lake.tables import Lake
from spark_trickle.maintenance.run import Maintainer
from spark_trickle.model import Action, LakeFunction, Mode, Source, Star, TableName, TableOptions, resolve
from spark_trickle.monitor import status as monitor
from spark_trickle.monitor.compliance import Compliance, compliance
from spark_trickle.monitor.cycles import cycles
from spark_trickle.monitor.filters import Moment, history_filter, moment
from spark_trickle.monitor.groups import groups
from spark_trickle.monitor.health import Health, health
from spark_trickle.monitor.lineage import LineageEntry, lineage
from spark_trickle.monitor.pending import PendingInput, SourceState, pending, source_states
from spark_trickle.monitor.statistics import Statistics, statistics
from spark_trickle.monitor.watch import Callback, Watch
from spark_trickle.refresh.changes import ChangeReader, Changes, Since
from spark_trickle.refresh.check import check_query
from spark_trickle.refresh.compiler import Compiler
from spark_trickle.refresh.create_together import Wanted
from spark_trickle.refresh.inspect import Inspector
from spark_trickle.refresh.manage import Manager, check_name
from spark_trickle.refresh.policy import policy_in
from spark_trickle.refresh.run import Refresher
from spark_trickle.results import (
    Check,
    CycleStatus,
    Description,
    Explanation,
    GroupStatus,
    HistoryEntry,
    PlannedRefresh,
    RefreshResult,
    StreamTableStatus,
    Upkeep,
    Verification,
)
from spark_trickle.schedule import check_schedule, parse_duration
from spark_trickle.scheduler.decide import ENABLED
from spark_trickle.scheduler.loop import Listener, Scheduler
from spark_trickle.scheduler.reload import Reloader
from spark_trickle.spark.reading import changed_tables
from spark_trickle.spark.session import (
    build_session,
    check_session,
    jvm_process,
    new_session,
    release_session,
)
from spark_trickle.spark.settings import differences, given
from spark_trickle.sql.mentions import mentioned
from spark_trickle.statements.execute import execute
from spark_trickle.statements.names import parse_name
from spark_trickle.statements.parse import parse_statement, query_in_place, table_options

if TYPE_CHECKING:
    from types import TracebackType

    from pyspark.sql import SparkSession


def connect(
    path_or_url: str | os.PathLike[str] | None = None, *, spark: SparkSession | None = None, **options: Any
) -> Trickle:
    """Open a lake, making it if it is not there.

    Args:
        path_or_url: a folder (SQLite catalog and warehouse inside), a `trickle.toml`, or a PostgreSQL URL (then
            `warehouse` says where table files go). None: settings decide, by default the folder `lakehouse`.
        spark: a running classic SparkSession to use; it is checked. None: Trickle starts one.
        options: settings by keyword; docs/configuration.md lists them.
    """
    settings = Settings.load(path_or_url, **options)
    return Trickle(settings, spark)


class Trickle:
    """A lake with its stream tables. Safe to use from several threads."""

    def __init__(self, settings: Settings, spark: SparkSession | None = None) -> None:
        self.settings = settings
        if not settings.is_postgres:
            settings.location.mkdir(parents=True, exist_ok=True)
        self.store = open_catalog(settings.sqlalchemy_url)
        self.store.notify_channel = settings.notify_channel
        self._owned = spark is None
        with ExitStack() as opened:  # what fails half-way is let go of again
            opened.callback(self.store.close)
            formats = {s.format for s in self.store.sources()}
            self.spark: SparkSession = (
                build_session(settings, formats) if spark is None else check_session(spark, settings)
            )
            if self._owned:
                opened.callback(release_session, self.spark)
            session = new_session(self.spark, settings)
            lake = Lake(session)
            if self._owned and formats:
                lake.prepare(self.spark)
            heartbeat = Heartbeat(self.store, ttl_seconds=settings.lease_seconds)
            heartbeat.start()
            opened.callback(heartbeat.stop)
            attempts = Attempts(self.spark, settings, self.store, lake)
            opened.callback(attempts.close)
            protector = Protector(self.store, lake, settings.protect)
            self.refresher = Refresher(self.store, settings, lake, attempts, heartbeat, Compiler(lake), protector)
            self._manager = Manager(self.refresher)
            self._inspector = Inspector(self.refresher)
            self.maintainer = Maintainer(self.refresher)
            self._changes = ChangeReader(self.refresher, self.spark)
            upkeep = partial(self.maintainer.next, "schedule")
            self._scheduler = Scheduler(self.refresher, self._clean_up, upkeep=upkeep)
            opened.callback(self._scheduler.stop)
            self._watch = Watch(
                self.store,
                Reloader(settings, self._use),
                lambda: self._scheduler.lease,
                attempts.sources.pointers,
                partial(expiring, lake),
            )
            opened.callback(self._watch.stop)
            self._cuts = Cuts(self.spark, settings, self.store, attempts, lake)
            self._clean_up()
            self._opened = opened.pop_all()

    # -- stream tables ---------------------------------------------------------------------------------------------

    def create_stream_table(
        self,
        name: str | Sequence[str],
        query: str,
        schedule: str | None = None,
        mode: str | Mode = Mode.AUTO,
        initialize: bool = True,
        star: str | Star = Star.PIN,
        settings: Mapping[str, object] | None = None,
        options: TableOptions | None = None,
        *,
        partitioned_by: Sequence[str] = (),
        cluster_by: Sequence[str] = (),
        comment: str | None = None,
        properties: Mapping[str, str] | None = None,
    ) -> RefreshResult:
        """Define a stream table and fill it. All of it happens or nothing.

        `star` says what `SELECT *` means when a source gets other columns: PIN, those of now; FOLLOW, those it then
        has, and the stream table is recomputed. `settings` are Spark's settings that the definition runs under, now
        and ever after (docs/settings.md), such as `{"time_zone": "Europe/Berlin"}`; else those of this connection.
        `diamond_consistency` and `diamond_schedule_policy` are given there, too (docs/groups.md).

        The rest is about the Iceberg table: `partitioned_by=["day(ts)", "bucket(16, id)"]`, `cluster_by=["region"]`,
        a comment and table properties. `options` has the same in one value.
        """
        full = self._name(name)
        checked = check_schedule(schedule, self.settings.min_schedule_seconds)
        text = query.strip().removesuffix(";").rstrip()
        policy, others = policy_in(settings or {})
        pins = given(others)
        try:
            result = self._manager.create(
                full,
                text,
                self._namespace(),
                checked,
                _mode(mode),
                _star(star),
                pins,
                options or table_options(partitioned_by, cluster_by, comment, properties),
                policy,
                initialize=initialize,
            )
        except TrickleError as error:
            raise self._session_object(error, text) from error
        told = differences(str(full), session_settings(self.spark), self.refresher.attempts.own_settings | pins)
        return replace(result, notices=(*result.notices, *told))

    def create_stream_tables(self, tables: Sequence[Mapping[str, Any]]) -> tuple[RefreshResult, ...]:
        """Define several stream tables and fill them, in one transaction.

        Each is given by the arguments of `create_stream_table` (without `initialize`). They may read each other,
        whatever their order. Where they do so in a circle, with the setting `allow_circular`, their contents are the
        least fixpoint (docs/cycles.md).

            tr.create_stream_tables([
                {"name": "g.odd", "query": "SELECT src, dst FROM g.edges UNION SELECT e.src, o.dst FROM …"},
                {"name": "g.even", "query": "SELECT …"},
            ])
        """
        wanted = [self._wanted(**table) for table in tables]
        try:
            return self._manager.create_all(wanted)
        except TrickleError as error:
            raise self._session_object(error, "; ".join(w.definition for w in wanted)) from error

    def _wanted(
        self,
        name: str | Sequence[str],
        query: str,
        schedule: str | None = None,
        mode: str | Mode = Mode.AUTO,
        star: str | Star = Star.PIN,
        settings: Mapping[str, object] | None = None,
        options: TableOptions | None = None,
        *,
        partitioned_by: Sequence[str] = (),
        cluster_by: Sequence[str] = (),
        comment: str | None = None,
        properties: Mapping[str, str] | None = None,
    ) -> Wanted:
        policy, others = policy_in(settings or {})
        return Wanted(
            self._name(name),
            query.strip().removesuffix(";").rstrip(),
            self._namespace(),
            check_schedule(schedule, self.settings.min_schedule_seconds),
            _mode(mode),
            _star(star),
            self.refresher.attempts.own_settings | given(others),
            options or table_options(partitioned_by, cluster_by, comment, properties),
            policy,
        )

    def alter_stream_table(
        self,
        name: str | Sequence[str],
        query: str | None = None,
        schedule: str | None = None,
        mode: str | Mode | None = None,
        star: str | Star | None = None,
        settings: Mapping[str, object] | None = None,
        options: TableOptions | None = None,
    ) -> RefreshResult | None:
        """Change what is given. A changed query, setting or partitioning recomputes the table, in one transaction."""
        checked = check_schedule(schedule, self.settings.min_schedule_seconds)
        policy, others = policy_in(settings or {})
        text = None if query is None else query.strip().removesuffix(";").rstrip()
        try:
            return self._manager.alter(
                self._name(name),
                definition=text,
                namespace=self._namespace(),
                schedule=checked,
                mode=None if mode is None else _mode(mode),
                star=None if star is None else _star(star),
                settings=given(others),
                options=options or TableOptions(),
                policy=policy,
            )
        except TrickleError as error:
            raise self._session_object(error, text or "") from error

    def drop_stream_table(
        self, name: str | Sequence[str], cascade: bool = False, if_exists: bool = False
    ) -> tuple[str, ...]:
        """Drop a stream table and its files; with `cascade` also those that read it. Returns what was dropped."""
        return tuple(map(str, self._manager.drop(self._name(name), cascade=cascade, if_exists=if_exists)))

    def suspend(self, name: str | Sequence[str]) -> None:
        """Take a stream table off its schedule, until `resume`, an ALTER, or a refresh by hand that succeeds."""
        controls.suspend(self.store, self._name(name), self.settings.lease_wait_seconds)

    def resume(self, name: str | Sequence[str]) -> None:
        """Put a stream table that is SUSPENDED or in ERROR back on its schedule."""
        controls.resume(self.store, self._name(name), self.settings.lease_wait_seconds)

    @overload
    def refresh(self, name: str, mode: str | Mode | None = None, *, upstream: bool = True) -> RefreshResult: ...

    @overload
    def refresh(
        self, name: list[str] | tuple[str, ...], mode: str | Mode | None = None, *, upstream: bool = True
    ) -> tuple[RefreshResult, ...]: ...

    def refresh(
        self, name: str | list[str] | tuple[str, ...], mode: str | Mode | None = None, *, upstream: bool = True
    ) -> RefreshResult | tuple[RefreshResult, ...]:
        """Bring a stream table up to now, the stream tables it reads first (unless `upstream=False`).

        A list of names is a group: all are computed at one cut and published in one transaction.
        """
        asked = None if mode is None else _mode(mode)
        names = [self._name(name)] if isinstance(name, str) else [self._name(n) for n in name]
        group = not isinstance(name, str)
        results = self.refresher.refresh(names, asked, upstream=upstream, together=group, initiated_by="manual")
        return results if group else results[0]

    def plan(
        self, name: str | list[str] | tuple[str, ...], mode: str | Mode | None = None, *, upstream: bool = True
    ) -> tuple[PlannedRefresh, ...]:
        """What `refresh` would do now: action, reason, changed rows, SQL, and what it cost before. Nothing is written.

        One for each stream table that the refresh would look at, upstream first.
        """
        names = [self._name(name)] if isinstance(name, str) else [self._name(n) for n in name]
        return self._inspector.plan(names, None if mode is None else _mode(mode), upstream=upstream)

    def status(self, name: str | None = None) -> tuple[StreamTableStatus, ...]:
        pointers = self.refresher.attempts.sources.pointers()
        return monitor.status(self.store, self.settings, None if name is None else self._name(name), pointers)

    def history(
        self,
        name: str | None = None,
        limit: int = 50,
        *,
        since: Moment = None,
        until: Moment = None,
        action: str | Action | None = None,
        status: str | None = None,
        failed_only: bool = False,
        min_seconds: float | None = None,
    ) -> tuple[HistoryEntry, ...]:
        """Refreshes, the newest first.

        Args:
            since, until: when they began: times with their zone, or how long ago (`"24h"`).
            status: RUNNING, COMPLETED or FAILED; `failed_only` is the last.
            min_seconds: those that took at least so long.
        """
        filters: dict[str, Any] = {"action": action, "status": status, "failed_only": failed_only}
        chosen = history_filter(
            self._full(name), limit=limit, since=since, until=until, min_seconds=min_seconds, **filters
        )
        return self.store.history(limit=limit, chosen=chosen)

    def statistics(
        self, name: str | None = None, *, since: Moment = None, until: Moment = None
    ) -> tuple[Statistics, ...]:
        """Refreshes in figures, for each stream table: counts, times, rows, actions, why they recomputed or failed."""
        return statistics(self.store, history_filter(self._full(name), since=since, until=until))

    def groups(self, name: str | None = None) -> tuple[GroupStatus, ...]:
        """Stream tables that are published together: who, why, how often by now, and how the last time ended."""
        return groups(self.store, self.settings, None if name is None else self._name(name))

    def cycles(self, name: str | None = None) -> tuple[CycleStatus, ...]:
        """Stream tables that read each other: who, by which path, and how their last fixpoint was reached."""
        return cycles(self.store, self.settings, None if name is None else self._name(name))

    def lineage(
        self, name: str, column: str | None = None, *, depth: int | None = None, down: bool = False
    ) -> tuple[LineageEntry, ...]:
        """Where the columns of a stream table come from, through other stream tables to the sources.

        Args:
            column: of that table; None: all. `tr.lineage("shop.revenue.total")` is the same as naming it here.
            depth: how many definitions are looked through: 1 gives what the table's own one reads.
            down: the other way: which columns depend on that of a stream table or source.
        """
        return lineage(
            self.store,
            self._name(name),
            column,
            depth=depth,
            down=down,
            store=self._inspector.store_lineages,
            namespace=self._namespace(),
        )

    def compliance(self, name: str | None = None, *, since: Moment = "24h") -> tuple[Compliance, ...]:
        """How much of the time since then stream tables were as fresh as their schedules ask, plus one refresh."""
        now = datetime.now(UTC)
        start = moment("since", since, now) or now - timedelta(days=1)
        return compliance(self.store, self.settings, start, None if name is None else self._name(name), now)

    def health(self) -> Health:
        """What is wrong, the worst first, and what to do about it."""
        pointers = self.refresher.attempts.sources.pointers()
        return health(self.store, self.settings, self.refresher.lake.history, pointers)

    def pending(self, name: str | None = None) -> tuple[PendingInput, ...]:
        """What the inputs of a stream table, or of all, hold that it does not show yet: commits, rows, files, age.

        From metadata alone: rows are those of the commits' summaries.
        """
        full = None if name is None else self._name(name)
        return pending(self.store, self.refresher.lake.history, full, self.refresher.attempts.sources.pointers())

    def source_states(self) -> tuple[SourceState, ...]:
        """The tables that stream tables read: who reads them, how far the last reader is behind, what is protected."""
        return source_states(self.store, self.refresher.lake.history, self.refresher.attempts.sources.pointers())

    def check(self, query: str) -> Check:
        """Whether a query would be incremental, operator by operator; if not, why, where, and what to change.

        A query, or a CREATE STREAM TABLE statement with one in it. Nothing is created.
        """
        text = query_in_place(query)
        try:
            return check_query(self.refresher, text, self._namespace())
        except TrickleError as error:
            raise self._session_object(error, text) from error

    def explain(self, name: str | Sequence[str]) -> Explanation:
        """How a stream table is maintained, and what the next refresh would do."""
        return self._inspector.explain(self._name(name))

    def describe(self, name: str | Sequence[str]) -> Description:
        """What a stream table is: its definition and everything that bears on the definition's meaning."""
        return monitor.describe(self.store, self._name(name))

    def verify(self, name: str | Sequence[str], deep: bool = False) -> Verification:
        """Compare a stream table with its definition at its frontier, as multisets.

        The definition is run by plain Spark as it was written, under the settings it was created with. `deep` also
        compares every hidden column and every hidden state table with its own part of the definition.
        """
        return self._inspector.verify(self._name(name), deep=deep)

    # -- schedules -------------------------------------------------------------------------------------------------

    def start(self, listener: Listener | None = None, on_alert: Callback | None = None) -> None:
        """Refresh stream tables by their schedules, in threads of this process, until `stop` or `close`.

        Several processes may do so on one lake: one leads, the others stand by and take over when it is gone.
        `listener` is called with every `RefreshResult`, and with the `TrickleError` of every refresh that failed;
        `on_alert` with a `Notice` when an alert of the lake is raised or resolved, in the process that leads.
        """
        self._scheduler.listener = listener
        self._watch.on_alert = on_alert
        self._scheduler.start()
        self._watch.start()

    def stop(self, *, wait: bool = True) -> None:
        """Stop refreshing by schedule; refreshes that run are finished.

        `wait=False` only begins no more of them: another `stop()` waits for those that run.
        """
        self._scheduler.stop(wait=False)
        if wait:
            self._watch.stop()
            self._scheduler.stop()

    @property
    def follows_schedules(self) -> bool:
        """Whether `start` was called, and not `stop`."""
        return self._scheduler.is_running

    @property
    def leads(self) -> bool:
        """Whether this process refreshes by schedule; else it stands by, or was not started."""
        return self._scheduler.leads

    @property
    def spark_runs(self) -> bool:
        """Whether Spark's JVM lives, as far as this process can tell: not of one that it did not start."""
        process = jvm_process(self.spark)
        return process is None or process.poll() is None

    def reload_settings(self) -> tuple[str, ...]:
        """Read `trickle.toml` again now, instead of when the scheduler looks at it. Returns what changed."""
        return self._watch.reloader.reload()

    def _use(self, settings: Settings) -> None:
        self.settings = self.refresher.settings = settings
        self.store.notify_channel = settings.notify_channel

    def set_enabled(self, enabled: bool) -> None:
        """Switch the schedules of the whole lake off or on, for all processes. Refreshes by hand work either way."""
        with self.store.write() as tx:
            tx.put_setting(ENABLED, "true" if enabled else "false")

    def alerts(
        self,
        limit: int = 50,
        *,
        open_only: bool = False,
        name: str | Sequence[str] | None = None,
        kind: str | None = None,
        since: Moment = None,
    ) -> tuple[Alert, ...]:
        """Alerts, those seen last first (docs/alerts.md). `since`: last seen then or later ('24h': ago)."""
        chosen = None if name is None else str(self._name(name))
        asked = None if kind is None else alert_kind(kind)
        after = moment("since", since, datetime.now(UTC))
        return self.store.alerts(limit, open_only=open_only, name=chosen, kind=asked, since=after)

    def graph(self) -> Dag:
        """The stream tables and their inputs as a graph: `print(tr.graph())`, or `.mermaid()`, `.dot()`, `.svg()`."""
        return dag_of(self.store.stream_tables())

    # -- changes ---------------------------------------------------------------------------------------------------

    def changes(self, name: str | Sequence[str], since: Since = None) -> Changes:
        """What changed in a stream table since a moment: rows with weight, snapshot and time of their refresh.

        Args:
            since: a snapshot id of the table, a time with its zone (the last publish at or before it), or the token
                of an earlier call. None: from the beginning, that is everything in the table now.
        """
        return self._changes.changes(self._name(name), since)

    def follow(self, name: str | Sequence[str], since: Since = None, poll_seconds: float = 1.0) -> Iterator[Changes]:
        """`changes`, then those of every further publish, without end. Asking for the next one closes the last."""
        return self._changes.follow(self._name(name), since, poll_seconds)

    # -- SQL -------------------------------------------------------------------------------------------------------

    def sql(self, text: str, **arguments: Any) -> Any:
        """A STREAM TABLE statement, or any other for Spark, unchanged.

        Returns the dataclasses of the method of the same name, and a DataFrame for Spark's statements.
        """
        statement = parse_statement(text)
        if statement is None:
            self._refuse_change(text)
            self.refresher.attempts.functions.register(self.spark, text)
            return self.spark.sql(text, **arguments)
        return execute(statement, self)

    def _refuse_change(self, text: str) -> None:
        """A stream table is changed by its sources and by STREAM TABLE statements, by nothing else."""
        with active(self.spark):  # the parser asks it for its settings
            changed = changed_tables(self.spark, text)
        for parts in changed:
            name = resolve(parts, self._namespace())
            if self.store.stream_table(name) is not None:
                raise TrickleError(
                    "STREAM_TABLE",
                    f"{name} is a stream table; {shorten(text, 60, placeholder=' …')!r} would change it",
                    hint=f"Write to its sources, or use ALTER STREAM TABLE {name} or DROP STREAM TABLE {name}.",
                )

    # -- functions -------------------------------------------------------------------------------------------------

    def create_function(self, name: str, path: str, returns: str, deterministic: bool = True) -> LakeFunction:
        """Let definitions, and all SQL of this lake, call a Python function by a name.

        Args:
            name: of one part, not that of a built-in function.
            path: `package.module:function`, importable wherever the lake is used.
            returns: a Spark type such as `decimal(10,2)`.
            deterministic: False for a function whose result differs from call to call.
        """
        return self.refresher.attempts.functions.create(self.spark, name, path, returns, deterministic=deterministic)

    def drop_function(self, name: str) -> None:
        """Forget a function; refused while a stream table uses it."""
        self.refresher.attempts.functions.drop(name)

    def functions(self) -> tuple[LakeFunction, ...]:
        """The lake's functions, in the order of their names."""
        return tuple(self.refresher.attempts.functions.known().values())

    # -- sources ---------------------------------------------------------------------------------------------------

    def create_source(self, name: str | Sequence[str], format: str, location: str | os.PathLike[str]) -> Source:
        """Let definitions, and all SQL of this lake, read a table outside it by a name.

        Args:
            name: a free name of the lake, such as `shop.clicks`; its namespace is made if it is not there.
            format: `delta`, a Delta Lake table. Spark must have been started with Delta Lake: the first time with
                `connect(delta_lake=True)`; a lake that has such a source does so by itself.
            location: its path or URI.
        """
        full = self._name(name)
        check_name(full)
        made = self.refresher.attempts.sources.create(full, format, os.fspath(location))
        if self._owned:
            self.refresher.lake.prepare(self.spark)
        return made

    def drop_source(self, name: str | Sequence[str]) -> None:
        """Forget a source; refused while a stream table reads it. The table itself stays as it is."""
        self.refresher.attempts.sources.drop(self._name(name))

    def sources(self) -> tuple[Source, ...]:
        """The tables outside the lake that it knows, in the order of their names."""
        return self.store.sources()

    # -- cuts ------------------------------------------------------------------------------------------------------

    @contextmanager
    def cut(self, name: str | None = None) -> Iterator[ReaderCut]:
        """The whole lake at one instant: any number of tables and stream tables, all of the same moment.

        With a name, the instant that `create_cut(name)` kept.
        """
        with self._cuts.open(name, self._namespace()) as cut:
            yield cut

    def create_cut(self, name: str, comment: str | None = None) -> NamedCut:
        """Keep this instant under a name until it is dropped; its snapshots are protected from expiry."""
        return self._cuts.create(name, comment)

    def drop_cut(self, name: str) -> None:
        self._cuts.drop(name)

    def cuts(self) -> tuple[NamedCut, ...]:
        return self.store.cuts()

    # -- maintenance -----------------------------------------------------------------------------------------------

    def maintain(self, *names: str, dry_run: bool = False) -> tuple[Upkeep, ...]:
        """Rewrite small files, expire snapshots and delete what nobody needs, now: of these stream tables, or of all.

        One pass for each; what is left for another one is said. `dry_run` says what would be done.
        """
        if self.settings.maintenance == "off" and not dry_run:
            raise TrickleError(
                "INVALID_SETTING", "maintenance is off", hint="Set maintenance to manual, or use dry_run to see."
            )
        return tuple(self.maintainer.maintain([self._name(n) for n in names], dry_run=dry_run))

    # -- life ------------------------------------------------------------------------------------------------------

    def close(self) -> None:
        """Let go of the lake. A Spark session that was passed in stays open."""
        try:
            self._opened.close()
        except Exception:
            if self.spark_runs:
                raise
            # Else nothing of Spark is left to let go of; the rest is closed. What ended it all is said elsewhere.

    def __enter__(self) -> Trickle:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    # -- names -----------------------------------------------------------------------------------------------------

    def _namespace(self) -> str:
        return str(self.spark.catalog.currentDatabase())

    def _name(self, name: str | Sequence[str]) -> TableName:
        return parse_name(name, self._namespace)

    def _full(self, name: str | None) -> str | None:
        return None if name is None else str(self._name(name))

    def _clean_up(self) -> tuple[str, ...]:
        """Close the books of dead processes."""
        r, age = self.refresher, timedelta(seconds=parse_duration(self.settings.orphan_age))
        return clean_up(r.lake.session, self.store, r.lake, age)

    def _session_object(self, error: TrickleError, text: str) -> TrickleError:
        """Say so when the unknown table or function exists in the caller's session only."""
        if error.code not in ("UNKNOWN_TABLE", "INVALID_QUERY"):
            return error
        used = {parts[-1].lower() for parts in mentioned(text)}
        for row in self.spark.sql("SHOW VIEWS IN global_temp").collect():  # lists those of the session too
            if row.isTemporary and row.viewName.lower() in used:
                return TrickleError("SESSION_OBJECT", f"{row.viewName} is a temporary view of this session")
        if error.code == "INVALID_QUERY":
            functions = self.spark._jsparkSession.sessionState().catalog()
            identifier = self.spark._jvm.org.apache.spark.sql.catalyst.FunctionIdentifier
            for name in sorted(used - {f.name for f in self.store.functions()}):
                if functions.isTemporaryFunction(identifier(name)):
                    return TrickleError(
                        "SESSION_OBJECT",
                        f"{name} is a function of this session",
                        hint=f'Register it with the lake: tr.create_function("{name}", "package.module:function", '
                        'returns="type").',
                    )
        return error


def _mode(mode: str | Mode) -> Mode:
    try:
        return Mode(str(mode).upper())
    except ValueError:
        raise TrickleError("INVALID_MODE", f"{mode!r} is not one of {', '.join(Mode)}") from None


def _star(star: str | Star) -> Star:
    try:
        return Star(str(star).upper())
    except ValueError:
        raise TrickleError("INVALID_STAR", f"{star!r} is not one of {', '.join(Star)}") from None
