"""The thread that refreshes what is due: it leads or stands by, takes ticks, and carries their results out.

All decisions are in `decide`. Several schedulers may run on one catalog: the one that holds the lease `scheduler`
leads, and the others try to get it. What a scheduler publishes is fenced by the lease of each stream table, so that one
that was paused and lost its leases cannot publish.
"""

from __future__ import annotations

import logging
import math
import threading
import time
from collections import deque
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from datetime import UTC, datetime

from spark_trickle.catalog.leases import Lease, is_held
from spark_trickle.errors import Reason, TrickleError
from spark_trickle.graph.stream_tables import Groups, Unit
from spark_trickle.model import Status, StreamTable, TableName
from spark_trickle.refresh.run import Refresher
from spark_trickle.refresh.tick import Tick, record_skip
from spark_trickle.results import RefreshResult, Upkeep
from spark_trickle.scheduler.decide import ENABLED, LEASE, Dag, Member, Memory, decide, failed_reason
from spark_trickle.scheduler.members import default_schedule, member
from spark_trickle.spark.analyze import spark_error

_log = logging.getLogger(__name__)

_POLL_SECONDS = 1.0  # after which stream tables that are new or were altered are noticed
_UPKEEP_SECONDS = 2.0  # between two looks at what needs upkeep, unless the last one found something
_PATIENCE_SECONDS = 60.0  # for which upkeep waits for a moment when no refresh runs
_BY = "schedule"

Listener = Callable[[RefreshResult | TrickleError], None]


@dataclass(slots=True)
class _Run:
    """A tick under way."""

    tick: Tick
    waits_for: dict[Unit, set[Unit]]  # not begun: upstreams in the tick that are not done
    left: int  # not finished


@dataclass(slots=True)
class Scheduler:
    """`start` and `stop` it; `listener` hears every result and failure, in the thread where it happened."""

    refresher: Refresher
    recover: Callable[[], object]  # clean up after the dead, when it begins to lead
    listener: Listener | None = None
    upkeep: Callable[[], Sequence[Upkeep]] | None = None  # one pass of maintenance, if something needs it
    _memory: Memory = field(default_factory=Memory)
    _failed_at: dict[int, datetime] = field(default_factory=dict)  # failures that the catalog does not know of, by id
    _recovered: bool = False
    _lease: Lease | None = None
    _lock: threading.Lock = field(default_factory=threading.Lock)
    _wake: threading.Event = field(default_factory=threading.Event)
    _stopping: bool = False
    _thread: threading.Thread | None = None
    _pools: list[ThreadPoolExecutor] = field(default_factory=list)  # the last one takes what is new
    _workers: int = 0
    _upkeep: threading.Thread | None = None
    _looked_at: float = -math.inf
    _more: bool = False  # whether the last look found something
    _warned: set[str] = field(default_factory=set)

    # -- life ------------------------------------------------------------------------------------------------------

    @property
    def is_running(self) -> bool:
        return self._thread is not None

    @property
    def leads(self) -> bool:
        return self._lease is not None

    @property
    def lease(self) -> Lease | None:
        """That of the scheduler that leads, if it is this one."""
        return self._lease

    def start(self) -> None:
        if self._thread is not None:
            return
        self._stopping = False
        self._new_pool()
        self._thread = threading.Thread(target=self._run, name="trickle-scheduler", daemon=True)
        self._thread.start()

    def stop(self, *, wait: bool = True) -> None:
        """Refreshes that run are finished, those that wait are not begun. Then the lease is given back.

        Without `wait` it only begins nothing more.
        """
        if self._thread is None:
            return
        self._stopping = True
        self._wake.set()
        if not wait:
            return
        self._thread.join()
        for pool in self._pools:
            pool.shutdown()
        self._pools.clear()
        if self._upkeep is not None:
            self._upkeep.join()
            self._upkeep = None
        self._thread = None
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
                self._recover()
                return True
            _log.warning("another scheduler leads now")
            r.heartbeat.forget(self._lease)
            self._lease = None
            return False
        lease = r.heartbeat.take(LEASE)
        if lease is None:
            return False
        self._lease = lease
        _log.info("this scheduler leads")
        self._recovered = False
        self._recover()
        return True

    def _recover(self) -> None:
        """Once, when it begins to lead; again if that failed."""
        if not self._recovered:
            self.recover()
            self._recovered = True

    def _give_up_lead(self) -> None:
        if self._lease is None:
            return
        self.refresher.heartbeat.give_back(self._lease)
        self._lease = None

    # -- ticks -----------------------------------------------------------------------------------------------------

    def step(self, now: datetime) -> float:
        """Begin what is due. Returns the seconds until it should be looked at again."""
        r = self.refresher
        if r.store.setting(ENABLED) == "false":
            return _POLL_SECONDS
        known = {t.name: t for t in r.store.stream_tables()}
        groups = Groups.of(known.values(), r.settings)
        dag = Dag.of(self._members(known), default_schedule(r.settings), groups.all)
        with self._lock:
            plan = decide(dag, self._memory, now, r.settings.time_zone)
        for warning in {*plan.warnings} - self._warned:
            _log.warning(warning)
        self._warned = {*plan.warnings}
        for name, reason in plan.skips:
            self._memory.skipped[name] = now
            self._tell(record_skip(r, known[name], reason, _BY))
        if plan.due:
            if self._pools and self._workers != r.settings.max_concurrent_refreshes:
                self._new_pool()
            self._begin(plan.due)
        self._maintain(idle=not plan.due and not self._memory.running)
        if plan.wake_at is None:
            return _POLL_SECONDS
        return max(0.0, min(_POLL_SECONDS, (plan.wake_at - datetime.now(UTC)).total_seconds()))

    def _maintain(self, *, idle: bool) -> None:
        """One pass at a time, in a thread of its own, when no refresh runs or upkeep has waited for long.

        What becomes due meanwhile is begun; only the stream table of the pass waits for the end of it.
        """
        if self.upkeep is None or self.refresher.settings.maintenance != "automatic":
            return
        if self._upkeep is not None and self._upkeep.is_alive():
            return
        waited = time.monotonic() - self._looked_at
        # What has waited for long is not one table, as a rule: more passes follow until nothing is found.
        patience = _UPKEEP_SECONDS if idle or self._more else _PATIENCE_SECONDS
        if waited < patience and not (idle and self._more):
            return
        self._upkeep = threading.Thread(target=self._run_upkeep, name="trickle-upkeep", daemon=True)
        self._upkeep.start()

    def _run_upkeep(self) -> None:
        assert self.upkeep is not None
        self._more = False
        try:
            self.refresher.lake.session.sparkContext.setLocalProperty("spark.scheduler.pool", "trickle-upkeep")
            found = self.upkeep()
            self._more = any(u.done for u in found)
            for upkeep in found:
                _log.info("%s", upkeep)
        except TrickleError as error:
            _log.warning("maintenance: %s", error)
        except Exception:
            _log.exception("maintenance failed")
        self._looked_at = time.monotonic()
        self._wake.set()

    def _members(self, known: dict[TableName, StreamTable]) -> list[Member]:
        failed = self.refresher.store.last_failures([t.id for t in known.values() if t.consecutive_errors])
        members = []
        for t in known.values():
            own = self._failed_at.get(t.id)
            if own is not None and t.data_timestamp is not None and t.data_timestamp > own:
                del self._failed_at[t.id]  # somebody refreshed it
                own = None
            at = max((f for f in (failed.get(t.id), own) if f), default=None)
            members.append(member(t, known, self.refresher.settings, failed_at=at, errors=int(own is not None)))
        return members

    def _new_pool(self) -> None:
        """As many threads as the settings of now allow. What older ones have begun they finish."""
        for pool in self._pools:
            pool.shutdown(wait=False)
        self._workers = self.refresher.settings.max_concurrent_refreshes
        self._pools.append(ThreadPoolExecutor(self._workers, thread_name_prefix="trickle-refresh"))

    def _begin(self, due: Sequence[TableName]) -> None:
        tick = Tick.begin(self.refresher, due, _BY)
        for result in tick.idle:
            self._tell(result)
        waits_for = {u: set(tick.upstream_of(u)) for u in tick.todo}
        run = _Run(tick, waits_for, len(tick.todo))
        with self._lock:
            self._memory.running |= frozenset(m for u in tick.todo for m in u)
            ready = [u for u, above in waits_for.items() if not above]
            for unit in ready:
                del waits_for[unit]
        for unit in ready:
            if not self._submit(run, unit):
                self._finished(run, unit, None)

    def _submit(self, run: _Run, unit: Unit) -> bool:
        """False: it is not begun, since the scheduler stops."""
        try:
            if not self._stopping and self._pools:
                self._pools[-1].submit(self._refresh, run, unit)
                return True
        except RuntimeError:  # stopped just now
            pass
        run.tick.abandon(unit)
        return False

    def _refresh(self, run: _Run, unit: Unit) -> None:
        reason: Reason | None = None
        try:
            if self._stopping:
                run.tick.abandon(unit)
            else:
                for result in run.tick.refresh(unit):
                    self._tell(result)
        except TrickleError as error:
            reason = failed_reason(unit, error)
            self._failed(unit, error)
        except Exception as error:
            _log.exception("refresh of %s", ", ".join(map(str, unit)))
            problem = spark_error(error)
            reason = failed_reason(unit, problem)
            self._failed(unit, problem)
        finally:
            self._finished(run, unit, reason)

    def _finished(self, run: _Run, unit: Unit, reason: Reason | None) -> None:
        """Consumers in the tick are begun, or skipped with the reason of their upstream's failure."""
        over = deque([(unit, reason)])
        while over:
            done, why = over.popleft()
            with self._lock:
                self._memory.running -= set(done)
                self._memory.finished.update(dict.fromkeys(done, datetime.now(UTC)))
                run.left -= 1
                consumers = [u for u, above in run.waits_for.items() if done in above]
                for consumer in consumers:
                    run.waits_for[consumer].discard(done)
                next_ = [u for u in consumers if why is not None or not run.waits_for[u]]
                for consumer in next_:
                    del run.waits_for[consumer]
            for consumer in next_:
                if why is not None:
                    self._skip(run, consumer, why)
                    over.append((consumer, why))
                elif not self._submit(run, consumer):
                    over.append((consumer, None))
        if run.left == 0:
            try:
                run.tick.end()
            except Exception as error:
                _log.warning("the sources of a tick were not protected: %s", error)
        self._wake.set()

    def _skip(self, run: _Run, unit: Unit, reason: Reason) -> None:
        self._memory.skipped.update(dict.fromkeys(unit, run.tick.cut.instant))
        try:
            for result in run.tick.skip(unit, reason):
                self._tell(result)
        except TrickleError as error:
            _log.warning("a skip of %s was not recorded: %s", ", ".join(map(str, unit)), error)

    def _failed(self, unit: Unit, error: TrickleError) -> None:
        """Of a group one has failed, and the catalog knows which."""
        self._tell(error)
        store, limit = self.refresher.store, self.refresher.settings.max_consecutive_errors
        try:
            tables = [t for t in map(store.stream_table, unit) if t is not None]
            if not any(t.consecutive_errors for t in tables):
                self._failed_at.update({t.id: datetime.now(UTC) for t in tables})
            for table in tables:
                name = table.name
                if table.status is Status.ERROR:
                    _log.error("%s is not refreshed any more: %s", name, error.message)
                with store.write() as tx:
                    if tx.suspend_failing(table.id, limit):
                        times = f"{table.consecutive_errors} failures in a row"
                        tx.alerts.raise_("SUSPENDED", f"{name} is suspended after {times}: {error.message}", str(name))
        except TrickleError as second:
            _log.warning("the failure of %s could not be recorded: %s", ", ".join(map(str, unit)), second)

    def _tell(self, what: RefreshResult | TrickleError) -> None:
        _log.log(logging.INFO if isinstance(what, RefreshResult) else logging.WARNING, "%s", what)
        if self.listener is not None:
            try:
                self.listener(what)
            except Exception:
                _log.exception("the listener failed")
