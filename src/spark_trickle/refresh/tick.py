"""A tick: stream tables that are refreshed at one cut, each group published by itself, in any number of threads.

All that have something to do are leased before the cut is taken, as in every refresh. A consumer reads what the tick
published of its upstream, and everything else at the cut.
"""

from __future__ import annotations

import threading
from collections import ChainMap
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import UTC, datetime

from spark_trickle.catalog.leases import Lease
from spark_trickle.errors import Reason, TrickleError
from spark_trickle.graph.stream_tables import Groups, Unit, graph_of
from spark_trickle.lake.protect import sources_of
from spark_trickle.model import RUNS, Action, Pointer, StreamTable, TableName
from spark_trickle.refresh.decide import NO_CHANGE
from spark_trickle.refresh.failures import located, record_unbegun
from spark_trickle.refresh.reads import with_readers
from spark_trickle.refresh.run import Refresher
from spark_trickle.refresh.situation import Cut
from spark_trickle.refresh.work import Request, Run, completed
from spark_trickle.results import RefreshResult
from spark_trickle.spark.analyze import spark_error


@dataclass(slots=True)
class Tick:
    """`todo` wait for `refresh`, upstream first; `idle` had nothing to do; the others are left for the next tick."""

    refresher: Refresher
    cut: Cut
    initiated_by: str
    todo: tuple[Unit, ...]
    idle: tuple[RefreshResult, ...]
    _pending: frozenset[TableName]  # of the members of `todo`; the others are idle
    _leases: dict[Unit, Lease]
    _known: dict[TableName, StreamTable]
    _groups: Groups
    _published: dict[TableName, Pointer] = field(default_factory=dict)
    _lock: threading.Lock = field(default_factory=threading.Lock)

    @classmethod
    def begin(cls, refresher: Refresher, names: Sequence[TableName], initiated_by: str) -> Tick:
        """Lease, take the cut, and finish those that have nothing to do. `names` are in topological order."""
        r = refresher
        leases: dict[Unit, Lease] = {}
        try:
            known = r.known()
            chosen = [n for n in names if n in known]
            pending = _pending(r, chosen, known, r.cut())
            for unit in r.groups(known).units(chosen, graph_of(known.values())):
                if not pending.isdisjoint(unit):
                    lease = r.heartbeat.take(*(f"stream_table:{known[m].id}" for m in unit))
                    if lease is not None:
                        leases[unit] = lease
            before, known = known, r.known()
            # Dropped, made again or suspended since.
            chosen = [n for n in chosen if n in known and known[n].id == before[n].id and known[n].status in RUNS]
            cut = r.cut()
            for read in {d.input for n in chosen for d in known[n].reads}:
                with suppress(TrickleError):  # a source outside the lake: all tables see it as it is now
                    cut.pointers.get(read)
            pending = _pending(r, chosen, known, cut)
            groups = r.groups(known)
            todo: list[Unit] = []
            left: set[TableName] = set()  # somebody refreshes it, or it has got something to do only just now
            for unit in groups.units(chosen, graph_of(known.values())):
                begun = unit in leases or pending.isdisjoint(unit)
                above = (d.input for m in unit for d in known[m].reads)
                if not begun or groups.unit(unit[0]) != unit or not left.isdisjoint(above):
                    left.update(unit)
                elif not pending.isdisjoint(unit):
                    todo.append(unit)
            waiting = {m for u in todo for m in u}  # idle members of a group are done when it is
            nothing = [known[n] for n in chosen if n not in left and n not in waiting]
            idle = _nothing_to_do(r, nothing, cut, initiated_by)
        except BaseException:
            for lease in leases.values():
                r.heartbeat.give_back(lease)
            raise
        for unit in [u for u in leases if u not in todo]:
            r.heartbeat.give_back(leases.pop(unit))
        return cls(r, cut, initiated_by, tuple(todo), idle, frozenset(pending), leases, known, groups)

    def upstream_of(self, unit: Unit) -> tuple[Unit, ...]:
        """What it reads of the others that this tick refreshes."""
        reads = {d.input for m in unit for d in self._known[m].reads}
        return tuple(u for u in self.todo if u != unit and not reads.isdisjoint(u))

    def refresh(self, unit: Unit) -> tuple[RefreshResult, ...]:
        """Refresh one of `todo`, after those it reads. A failure is recorded and raised.

        Each thread has a pool of Spark's fair scheduler: no refresh waits for the jobs of another one.
        """
        r, lease = self.refresher, self._leases[unit]
        with self._lock:
            known, published = dict(self._known), dict(self._published)
        cut = Cut(ChainMap(published, self.cut.pointers), self.cut.instant)  # type: ignore[arg-type]
        began = False
        tables = self._tables(unit)
        try:
            r.lake.session.sparkContext.setLocalProperty("spark.scheduler.pool", f"trickle-{threading.get_ident()}")
            with r.attempts.begin({}) as attempt:
                began = True  # from here on failures are recorded where they happen
                run = Run(attempt, cut, lease, self.initiated_by, known, self._groups)
                staged = r.refresh_together(run, [Request(t) for t in tables])
        except Exception as error:
            if began:
                raise
            problem = located(spark_error(error), tables[0])
            for table in tables:
                record_unbegun(r.store, table, problem, self.initiated_by)
            raise problem from error
        finally:
            self._release(unit)
        with self._lock:
            for done in staged:
                self._known[done.table.name] = done.table
                if done.made.staging is not None:
                    pointer = Pointer(done.table.name, done.made.staging.location, is_view=False)
                    self._published[done.table.name] = pointer
        idle = [t for t in map(known.__getitem__, unit) if t.name not in self._pending]
        return (*(done.result() for done in staged), *_nothing_to_do(r, idle, self.cut, self.initiated_by))

    def skip(self, unit: Unit, reason: Reason) -> tuple[RefreshResult, ...]:
        """One of `todo` cannot be refreshed: say why in its history."""
        self._release(unit)
        return tuple(record_skip(self.refresher, t, reason, self.initiated_by) for t in self._tables(unit))

    def abandon(self, unit: Unit) -> None:
        """One of `todo` is not refreshed after all."""
        self._release(unit)

    def end(self) -> None:
        """After the last one: tag the source snapshots that are reflected now."""
        self.refresher.protector.protect(sources_of(self._known[m] for u in self.todo for m in u))

    def _tables(self, unit: Unit) -> list[StreamTable]:
        with self._lock:
            return [self._known[m] for m in unit if m in self._pending]

    def _release(self, unit: Unit) -> None:
        with self._lock:
            lease = self._leases.pop(unit, None)
        if lease is not None:
            self.refresher.heartbeat.give_back(lease)


def _pending(
    refresher: Refresher, names: Sequence[TableName], known: Mapping[TableName, StreamTable], cut: Cut
) -> set[TableName]:
    """Those that may have something to do. So has one whose source cannot be looked at now: its refresh says why."""
    found: set[TableName] = set()
    for name in names:
        try:
            own = refresher.is_pending(known[name], cut)
        except TrickleError:
            own = True
        if own:
            found.add(name)
    return set(with_readers(found, names, known, refresher.groups(known)))


def record_skip(refresher: Refresher, table: StreamTable, reason: Reason, initiated_by: str) -> RefreshResult:
    result = RefreshResult(str(table.name), Action.SKIP, str(reason))
    with refresher.store.write() as tx:
        tx.add_refresh(completed(result, initiated_by, datetime.now(UTC)), table.id)
    return result


def _nothing_to_do(
    refresher: Refresher, tables: Sequence[StreamTable], cut: Cut, initiated_by: str
) -> tuple[RefreshResult, ...]:
    """NO_DATA for all of them in one transaction; their data are those of the cut."""
    if not tables:
        return ()
    found = []
    with refresher.store.write() as tx:
        for table in tables:
            result = RefreshResult(str(table.name), Action.NO_DATA, str(NO_CHANGE))
            try:
                tx.update_stream_table(table.id, data_timestamp=cut.instant, consecutive_errors=0, last_error=None)
            except TrickleError as error:
                if error.code != "UNKNOWN_STREAM_TABLE":
                    raise
                continue  # dropped just now
            tx.add_refresh(completed(result, initiated_by, cut.instant), table.id)
            found.append(result)
    return tuple(found)
