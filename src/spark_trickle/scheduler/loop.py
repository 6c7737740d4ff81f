"""The thread that refreshes what is due: it leads or stands by, takes ticks, and carries their results out.

All decisions are in `decide`. Several schedulers may run on one catalog: the one that holds the lease `scheduler`
leads, and the others try to get it. What a scheduler publishes is fenced by the lease of each stream table, so that one
that was paused and lost its leases cannot publish.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from datetime import UTC, datetime

from spark_trickle.catalog.leases import Lease, acquire, is_held, release
from spark_trickle.errors import Reason, TrickleError
from spark_trickle.model import Status, StreamTable, TableName
from spark_trickle.refresh.run import Refresher
from spark_trickle.refresh.tick import Tick, record_skip
from spark_trickle.results import RefreshResult
from spark_trickle.scheduler.decide import ENABLED, Dag, Member, Memory, decide, upstream_reason
from spark_trickle.scheduler.members import default_schedule, member

_log = logging.getLogger(__name__)

_LEASE = "scheduler"
_POLL_SECONDS = 1.0  # after which stream tables that are new or were altered are noticed
_BY = "schedule"

Listener = Callable[[RefreshResult | TrickleError], None]


@dataclass(slots=True)
class _Run:
    """A tick under way."""

    tick: Tick
    waits_for: dict[TableName, set[TableName]]  # not begun: upstreams in the tick that are not done
    left: int  # not finished


@dataclass(slots=True)
class Scheduler:
    """`start` and `stop` it; `listener` hears every result and failure, in the thread where it happened."""

    refresher: Refresher
    recover: Callable[[], object]  # clean up after the dead, when it begins to lead
    listener: Listener | None = None
    _memory: Memory = field(default_factory=Memory)
    _failed_at: dict[TableName, datetime] = field(default_factory=dict)
    _lease: Lease | None = None
    _lock: threading.Lock = field(default_factory=threading.Lock)
    _wake: threading.Event = field(default_factory=threading.Event)
    _stopping: bool = False
    _thread: threading.Thread | None = None
    _pool: ThreadPoolExecutor | None = None
    _warned: set[str] = field(default_factory=set)

    # -- life ------------------------------------------------------------------------------------------------------

    @property
    def is_running(self) -> bool:
        return self._thread is not None

    @property
    def leads(self) -> bool:
        return self._lease is not None

    def start(self) -> None:
        if self._thread is not None:
            return
        self._stopping = False
        workers = self.refresher.settings.max_concurrent_refreshes
        self._pool = ThreadPoolExecutor(workers, thread_name_prefix="trickle-refresh")
        self._thread = threading.Thread(target=self._run, name="trickle-scheduler", daemon=True)
        self._thread.start()

    def stop(self) -> None:
        """Refreshes that run are finished, those that wait are not begun. Then the lease is given back."""
        if self._thread is None or self._pool is None:
            return
        self._stopping = True
        self._wake.set()
        self._thread.join()
        self._pool.shutdown()
        self._thread = self._pool = None
        self._give_up_lead()

    def _run(self) -> None:
        while not self._stopping:
            seconds = _POLL_SECONDS
            try:
                if self._lead():
                    seconds = self.step(datetime.now(UTC))
                else:
                    seconds = min(_POLL_SECONDS, self.refresher.settings.lease_seconds / 3)
            except TrickleError as error:  # the catalog does not answer, say: it may later
                _log.warning("the scheduler goes on after: %s", error)
            except Exception:
                _log.exception("the scheduler goes on after an error")
            self._wake.wait(seconds)
            self._wake.clear()

    # -- leading ---------------------------------------------------------------------------------------------------

    def _lead(self) -> bool:
        r = self.refresher
        if self._lease is not None:
            if is_held(r.store, self._lease):
                return True
            _log.warning("another scheduler leads now")
            r.heartbeat.forget(self._lease)
            self._lease = None
            return False
        try:
            lease = acquire(r.store, [_LEASE], r.store.owner, r.settings.lease_seconds, 0)
        except TrickleError as error:
            if error.code != "REFRESH_IN_PROGRESS":
                raise
            return False
        r.heartbeat.keep(lease)
        self._lease = lease
        _log.info("this scheduler leads")
        self.recover()
        return True

    def _give_up_lead(self) -> None:
        if self._lease is None:
            return
        self.refresher.heartbeat.forget(self._lease)
        try:
            release(self.refresher.store, self._lease)
        except TrickleError as error:  # it expires by itself
            _log.warning("could not release the scheduler's lease: %s", error)
        self._lease = None

    # -- ticks -----------------------------------------------------------------------------------------------------

    def step(self, now: datetime) -> float:
        """Begin what is due. Returns the seconds until it should be looked at again."""
        r = self.refresher
        if r.store.setting(ENABLED) == "false":
            return _POLL_SECONDS
        known = {t.name: t for t in r.store.stream_tables()}
        dag = Dag.of(self._members(known), default_schedule(r.settings))
        with self._lock:
            plan = decide(dag, self._memory, now, r.settings.time_zone)
        for warning in {*plan.warnings} - self._warned:
            _log.warning(warning)
        self._warned = {*plan.warnings}
        for name, reason in plan.skips:
            self._memory.skipped[name] = now
            self._tell(record_skip(r, known[name], reason, _BY))
        if plan.due:
            self._begin(plan.due)
        if plan.wake_at is None:
            return _POLL_SECONDS
        return max(0.0, min(_POLL_SECONDS, (plan.wake_at - datetime.now(UTC)).total_seconds()))

    def _members(self, known: dict[TableName, StreamTable]) -> list[Member]:
        failed = self.refresher.store.last_failures([t.id for t in known.values() if t.consecutive_errors])
        return [
            member(
                t,
                known,
                self.refresher.settings,
                failed_at=max((f for f in (failed.get(t.id), self._failed_at.get(t.name)) if f), default=None),
                errors=int(t.name in self._failed_at),
            )
            for t in known.values()
        ]

    def _begin(self, due: Sequence[TableName]) -> None:
        tick = Tick.begin(self.refresher, due, _BY)
        for result in tick.idle:
            self._tell(result)
        waits_for = {n: set(tick.upstream_of(n)) for n in tick.todo}
        run = _Run(tick, waits_for, len(tick.todo))
        with self._lock:
            self._memory.running |= frozenset(tick.todo)
            ready = [n for n, above in waits_for.items() if not above]
        for name in ready:
            self._submit(run, name)

    def _submit(self, run: _Run, name: TableName) -> None:
        with self._lock:
            if run.waits_for.pop(name, None) is None:
                return
        assert self._pool is not None
        self._pool.submit(self._refresh, run, name)

    def _refresh(self, run: _Run, name: TableName) -> None:
        reason: Reason | None = None
        try:
            if self._stopping:
                run.tick.abandon(name)
            else:
                context = self.refresher.lake.session.sparkContext
                context.setLocalProperty("spark.scheduler.pool", f"trickle-{threading.get_ident()}")
                self._tell(run.tick.refresh(name))
                self._failed_at.pop(name, None)
        except TrickleError as error:
            reason = upstream_reason(name, None, str(error))
            self._failed(name, error)
        except Exception as error:
            _log.exception("refresh of %s", name)
            reason = upstream_reason(name, None, str(error))
            self._failed(name, TrickleError("INTERNAL", f"{name}: {error}"))
        finally:
            self._finished(run, name, reason)

    def _finished(self, run: _Run, name: TableName, reason: Reason | None) -> None:
        """Consumers in the tick are begun, or skipped with the reason of their upstream's failure."""
        with self._lock:
            self._memory.running -= {name}
            run.left -= 1
            last = run.left == 0
            consumers = [n for n, above in run.waits_for.items() if name in above]
            for consumer in consumers:
                run.waits_for[consumer].discard(name)
            ready = [n for n in consumers if not run.waits_for[n]]
            doomed = [n for n in consumers if reason is not None and run.waits_for.pop(n, None) is not None]
        for consumer in doomed:
            assert reason is not None
            try:
                self._memory.skipped[consumer] = run.tick.cut.instant
                self._tell(run.tick.skip(consumer, reason))
            except TrickleError as error:
                _log.warning("a skip of %s was not recorded: %s", consumer, error)
            self._finished(run, consumer, reason)
        for consumer in ready:
            if consumer not in doomed:
                self._submit(run, consumer)
        if last:
            try:
                run.tick.end()
            except Exception as error:
                _log.warning("the sources of a tick were not protected: %s", error)
        self._wake.set()

    def _failed(self, name: TableName, error: TrickleError) -> None:
        self._failed_at[name] = datetime.now(UTC)
        self._tell(error)
        store, limit = self.refresher.store, self.refresher.settings.max_consecutive_errors
        try:
            table = store.stream_table(name)
            if table is None or table.status not in (Status.ACTIVE, Status.INITIALIZING):
                return
            if table.consecutive_errors >= limit:
                with store.write() as tx:
                    tx.update_stream_table(table.id, status=Status.SUSPENDED)
                    message = f"{name} is suspended after {table.consecutive_errors} failures in a row: {error.message}"
                    tx.add_alert("SUSPENDED", message, name=str(name), severity="error")
                _log.error(message)
        except TrickleError as second:
            _log.warning("the failure of %s could not be recorded: %s", name, second)

    def _tell(self, what: RefreshResult | TrickleError) -> None:
        _log.log(logging.INFO if isinstance(what, RefreshResult) else logging.WARNING, "%s", what)
        if self.listener is not None:
            try:
                self.listener(what)
            except Exception:
                _log.exception("the listener failed")
