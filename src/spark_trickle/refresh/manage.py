"""The life of a stream table: create, alter, drop. Each is one attempt and one transaction."""

from __future__ import annotations

import uuid
from collections.abc import Mapping
from dataclasses import dataclass, replace
from datetime import UTC, datetime

from spark_trickle.catalog.leases import Lease
from spark_trickle.catalog.store import Transaction
from spark_trickle.errors import TrickleError
from spark_trickle.graph.dag import Graph
from spark_trickle.lake.attempt import Attempt
from spark_trickle.lake.cleanup import drop_files
from spark_trickle.lake.publish import Member, publish
from spark_trickle.lake.staging import Staging
from spark_trickle.model import (
    HIDDEN_NAMESPACE,
    Action,
    Dependency,
    HistoryEntry,
    InputKind,
    Mode,
    RefreshResult,
    Status,
    StreamTable,
    TableName,
)
from spark_trickle.refresh.definition import Compiled, resolve
from spark_trickle.refresh.full import create_view, write_full
from spark_trickle.refresh.inputs import gather
from spark_trickle.refresh.run import Refresher, graph_of, unknown
from spark_trickle.refresh.situation import Cut
from spark_trickle.refresh.stages import Stages
from spark_trickle.spark.analyze import spark_error
from spark_trickle.sql.mentions import mentioned

_LONGEST = 200  # a name has to fit into the catalog with what is added to it


@dataclass(slots=True)
class Manager:
    refresher: Refresher

    # -- create ----------------------------------------------------------------------------------------------------

    def create(
        self, name: TableName, definition: str, namespace: str, schedule: str | None, mode: Mode, *, initialize: bool
    ) -> RefreshResult:
        check_name(name)
        r = self.refresher
        with r.heartbeat.holding([f"create:{name}"], r.settings.lease_wait_seconds) as lease:
            known = {t.name: t for t in r.store.stream_tables()}
            cut = r.cut()
            if name in cut.pointers or name in known:
                what = "stream table" if name in known else "view" if cut.pointers[name].is_view else "table"
                raise TrickleError("NAME_TAKEN", f"there is a {what} {name} already")
            if name.namespace not in {n.namespace for n in cut.pointers} | set(r.store.namespaces()):
                raise TrickleError(
                    "INVALID_NAME", f"there is no namespace {name.namespace}", hint=f"CREATE NAMESPACE {name.namespace}"
                )
            stages = Stages()
            with r.attempts.begin({}, namespace) as attempt:
                with stages("compile"):
                    compiled = self._compile(attempt, name, definition, namespace, cut, known)
                    refuse_not_incremental(compiled, mode)
                    self._refuse_cycle(name, compiled, known)
                storage = r.free_storage(name, cut)
                try:
                    staging = Staging.new(attempt, storage, compiled.storage_columns)
                except Exception as error:
                    raise spark_error(error) from error
                try:
                    rows = 0
                    if initialize:
                        with stages("full"):
                            rows = write_full(attempt, compiled, staging)
                    view = create_view(attempt, name, storage, compiled.columns)
                    reason = "INITIAL: first refresh" if initialize else "INITIAL: created empty, not yet refreshed"
                    result = RefreshResult(
                        str(name),
                        Action.FULL if initialize else Action.SKIP,
                        reason,
                        rows_inserted=rows,
                        seconds=round(stages.total, 4),
                        stages=stages.rounded(),
                    )
                    member = Member(
                        name=name,
                        lease=lease,
                        staging=staging,
                        view=view,
                        view_is_new=True,
                        write=lambda tx: self._add(
                            tx, name, definition, namespace, schedule, mode, compiled, staging, attempt, cut, result
                        ),
                    )
                    publish(r.store, r.lake, [member], probe=r.probe)
                except BaseException as error:
                    r.discard(staging)
                    if isinstance(error, Exception):
                        raise spark_error(error) from error
                    raise
        return result

    def _compile(
        self,
        attempt: Attempt,
        name: TableName,
        definition: str,
        namespace: str,
        cut: Cut,
        known: Mapping[TableName, StreamTable],
    ) -> Compiled:
        try:
            return self.refresher.compiler.compile(attempt, definition, namespace, cut.pointers, known)
        except TrickleError as error:
            itself = name in {resolve(parts, namespace) for parts in mentioned(definition)}
            if error.code == "UNKNOWN_TABLE" and itself and name not in cut.pointers:
                raise TrickleError("CYCLE", f"the definition would read itself: {name} -> {name}") from error
            raise

    def _add(
        self,
        tx: Transaction,
        name: TableName,
        definition: str,
        namespace: str,
        schedule: str | None,
        mode: Mode,
        compiled: Compiled,
        staging: Staging,
        attempt: Attempt,
        cut: Cut,
        result: RefreshResult,
    ) -> None:
        initialized = result.action is Action.FULL
        id = tx.add_stream_table(
            name,
            definition=definition,
            namespace=namespace,
            mode=mode,
            schedule=schedule,
            storage=staging.storage,
            columns=compiled.columns,
            incremental=compiled.incremental,
            reason=compiled.reason,
            fingerprint=compiled.fingerprint,
            layout=compiled.layout,
            status=Status.ACTIVE if initialized else Status.INITIALIZING,
            storage_snapshot=staging.head,
            data_timestamp=cut.instant if initialized else None,
        )
        tx.update_stream_table(id, storage_pointer=staging.location)
        inputs = gather(self.refresher.lake, compiled, attempt.pointers, {})
        dependencies: list[Dependency] = [i.at_cut() for i in inputs]
        dependencies += [
            Dependency(input=v, kind=InputKind.VIEW, pointer=cut.pointers[v].location) for v in compiled.views
        ]
        if not initialized:
            dependencies = [Dependency(d.input, d.kind, d.columns) for d in dependencies]
        tx.set_dependencies(id, dependencies)
        now = datetime.now(UTC)
        entry = HistoryEntry(
            refresh_id=uuid.uuid4().hex,
            name=str(name),
            state="COMPLETED",
            action=result.action,
            reason=result.reason,
            initiated_by="create",
            started_at=cut.instant,
            ended_at=now,
            seconds=result.seconds,
            rows_inserted=result.rows_inserted,
            rows_updated=0,
            rows_deleted=0,
            rows_changed={},
            stages=result.stages,
            error_code=None,
            error=None,
        )
        tx.add_refresh(entry, id)

    def _refuse_cycle(self, name: TableName, compiled: Compiled, known: Mapping[TableName, StreamTable]) -> None:
        owner = {t.storage: t.name for t in known.values()}
        upstream = dict(graph_of(known.values()).upstream)
        upstream[name] = tuple(owner[i] for i in compiled.inputs if i in owner)
        Graph(upstream).ancestors_first([name])

    # -- alter -----------------------------------------------------------------------------------------------------

    def alter(
        self,
        name: TableName,
        *,
        definition: str | None,
        namespace: str,
        schedule: str | None,
        mode: Mode | None,
    ) -> RefreshResult | None:
        """Returns the refresh that a changed definition needed, None when nothing had to be computed."""
        r = self.refresher
        table = r.store.stream_table(name)
        if table is None:
            raise unknown(name, {t.name: t for t in r.store.stream_tables()})
        with r.heartbeat.holding([f"stream_table:{table.id}"], r.settings.lease_wait_seconds) as lease:
            table = r.store.stream_table(name)
            if table is None:
                raise unknown(name, {})
            wanted = replace(
                table, mode=mode or table.mode, schedule=schedule if schedule is not None else table.schedule
            )
            if definition is None or (definition == table.definition and namespace == table.namespace):
                if wanted.mode is Mode.DIFFERENTIAL and not table.incremental:
                    raise TrickleError("NOT_INCREMENTAL", table.reason or "no delta rule")
                status = Status.ACTIVE if table.storage_snapshot is not None else table.status
                with r.store.write() as tx:
                    tx.check_lease(lease)
                    tx.update_stream_table(table.id, mode=wanted.mode, schedule=wanted.schedule, status=status)
                return None
            wanted = replace(wanted, definition=definition, namespace=namespace)
            return self._alter_definition(wanted, lease)

    def _alter_definition(self, wanted: StreamTable, lease: Lease) -> RefreshResult:
        r = self.refresher
        known = {t.name: t for t in r.store.stream_tables()}
        cut = r.cut()
        with r.attempts.begin({}, wanted.namespace) as attempt:
            compiled = self._compile(attempt, wanted.name, wanted.definition, wanted.namespace, cut, known)
            refuse_not_incremental(compiled, wanted.mode)
            self._refuse_cycle(wanted.name, compiled, known)
            return r.rebuild(attempt, wanted, known, cut, lease)

    # -- drop ------------------------------------------------------------------------------------------------------

    def drop(self, name: TableName, *, cascade: bool, if_exists: bool) -> tuple[TableName, ...]:
        """Returns what was dropped, consumers first."""
        r = self.refresher
        known = {t.name: t for t in r.store.stream_tables()}
        if name not in known:
            if if_exists:
                return ()
            raise unknown(name, known)
        consumers = graph_of(known.values()).descendants(name)
        if consumers and not cascade:
            raise TrickleError("HAS_DEPENDENTS", f"{name} is read by {', '.join(map(str, consumers))}")
        doomed = [known[n] for n in (*consumers, name)]
        leases = [f"stream_table:{t.id}" for t in doomed]
        with r.heartbeat.holding(leases, r.settings.lease_wait_seconds) as lease:
            pointers = r.store.pointers()
            with r.store.write() as tx:
                tx.check_lease(lease)
                for table in doomed:
                    tx.delete_pointer(table.name)
                    tx.delete_pointer(table.storage)
                    tx.delete_stream_table(table.id)
        for table in doomed:
            pointer = pointers.get(table.storage)
            # A cut that still holds the table keeps its files.
            if pointer is not None and not r.store.catalogs_with(table.storage):
                drop_files(r.lake.session, r.lake.metadata(pointer.location))
        return tuple(t.name for t in doomed)


def refuse_not_incremental(compiled: Compiled, mode: Mode) -> None:
    if mode is Mode.DIFFERENTIAL and not compiled.incremental:
        raise TrickleError("NOT_INCREMENTAL", compiled.reason or "no delta rule")


def check_name(name: TableName) -> None:
    for part in name.parts:
        if not part or any(c in part for c in "/\\\0") or part != part.strip():
            raise TrickleError("INVALID_NAME", f"{str(name)!r} cannot name a stream table: {part!r} is no usable part")
    if not name.namespace:
        raise TrickleError("INVALID_NAME", f"{name.name!r} has no namespace", hint="Write it as namespace.name.")
    if name.namespace.split(".")[0] == HIDDEN_NAMESPACE:
        raise TrickleError("INVALID_NAME", f"the namespace {HIDDEN_NAMESPACE} belongs to Trickle")
    if len(str(name)) > _LONGEST:
        raise TrickleError("INVALID_NAME", f"{str(name)[:40]}… has more than {_LONGEST} characters")
