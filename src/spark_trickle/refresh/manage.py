"""The life of a stream table: create, alter, drop. Each is one attempt and one transaction."""

from __future__ import annotations

import uuid
from collections.abc import Mapping
from dataclasses import dataclass, replace

from spark_trickle.catalog.leases import Lease
from spark_trickle.catalog.store import Transaction
from spark_trickle.errors import TrickleError
from spark_trickle.lake import owned
from spark_trickle.lake.attempt import Attempt
from spark_trickle.lake.protect import sources_of
from spark_trickle.lake.publish import Member, publish
from spark_trickle.lake.staging import Staging
from spark_trickle.model import (
    HIDDEN_NAMESPACE,
    Action,
    Dependency,
    InputKind,
    Mode,
    RefreshResult,
    Star,
    Status,
    StreamTable,
    TableName,
    TableOptions,
)
from spark_trickle.refresh.as_written import notices, refuse_volatile
from spark_trickle.refresh.decide import Decision
from spark_trickle.refresh.definition import Compiled, resolve
from spark_trickle.refresh.full import described, write_full
from spark_trickle.refresh.handover import trim
from spark_trickle.refresh.inputs import gather
from spark_trickle.refresh.outcome import Counts
from spark_trickle.refresh.record import Work, completed, draft_of, shapes_of, streams_of
from spark_trickle.refresh.run import Altered, Refresher, graph_of, refuse_cycle, same_as_leased, unknown
from spark_trickle.refresh.situation import Cut, refuse_taken
from spark_trickle.refresh.stages import Stages
from spark_trickle.spark.analyze import spark_error
from spark_trickle.spark.settings import TIME_ZONE, Pins, changed, zone
from spark_trickle.sql.mentions import mentioned

_OURS = frozenset(["format-version", "comment", "location", "provider", "uuid", "write.format.default"])
_LONGEST = 200  # a name has to fit into the catalog with what is added to it


@dataclass(slots=True)
class Manager:
    refresher: Refresher

    # -- create ----------------------------------------------------------------------------------------------------

    def create(
        self,
        name: TableName,
        definition: str,
        namespace: str,
        schedule: str | None,
        mode: Mode,
        star: Star,
        settings: Mapping[str, str],
        options: TableOptions,
        *,
        initialize: bool,
    ) -> RefreshResult:
        """`settings` are pinned besides those that the connection has."""
        check_name(name)
        check_options(options)
        r = self.refresher
        pins = r.attempts.own_settings | dict(settings)
        zone(str(pins[TIME_ZONE]))
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
                    compiled = self._compile(attempt, name, definition, namespace, cut, known, pins, check=initialize)
                    refuse_volatile(compiled, r.settings)
                    refuse_not_incremental(compiled, mode)
                    refuse_cycle(name, compiled, known)
                draft = draft_of(name, definition, namespace, schedule, mode, compiled, cut)
                draft = replace(draft, star=star, settings=tuple(sorted(pins.items())))
                work = Work(draft, attempt, stages, uuid.uuid4().hex, Decision(Action.SKIP, ""), options=options)
                opened: list[Staging] = []
                try:
                    return self._fill(work, compiled, known, cut, lease, opened, initialize=initialize)
                except BaseException as error:
                    for staging in opened:
                        r.discard(staging)
                    if isinstance(error, Exception):
                        raise spark_error(error) from error
                    raise

    def _fill(
        self,
        work: Work,
        compiled: Compiled,
        known: Mapping[TableName, StreamTable],
        cut: Cut,
        lease: Lease,
        opened: list[Staging],
        *,
        initialize: bool,
    ) -> RefreshResult:
        """Stage and publish a new stream table and its hidden state tables; without `initialize` it stays empty."""
        r, attempt, draft = self.refresher, work.attempt, work.table
        ids: list[int] = []
        staging = Staging.new(attempt, draft.name, compiled.all_columns, described(attempt, compiled, work.options))
        opened.append(staging)
        if initialize:
            work.decision = Decision(Action.FULL, "INITIAL: first refresh")
            r.stage_states(work, compiled, known, cut, None, lease, opened, lambda: ids[0])
            attempt.tune(small=False)
            with work.stages("full"):
                work.counts = Counts(inserted=write_full(attempt, compiled, staging, cut.instant))
        else:
            work.decision = Decision(Action.SKIP, "INITIAL: created empty, not yet refreshed")
        result = replace(work.result(), notices=notices(compiled, r.settings))
        member = Member(
            name=draft.name,
            lease=lease,
            staging=staging,
            reads=streams_of(compiled),
            write=lambda tx: ids.append(self._add(tx, draft, compiled, staging, attempt, cut, result)),
        )
        # The owner first: its state tables refer to it.
        publish(r.store, r.lake, [member, *work.members], probe=r.probe)
        r.protector.protect([n for n, (kind, _) in compiled.reads.items() if kind is InputKind.SOURCE])
        return result

    def _compile(
        self,
        attempt: Attempt,
        name: TableName,
        definition: str,
        namespace: str,
        cut: Cut,
        known: Mapping[TableName, StreamTable],
        pins: Pins,
        *,
        check: bool = True,
    ) -> Compiled:
        try:
            return self.refresher.compile(attempt, name, definition, namespace, cut, known, pins, check=check)
        except TrickleError as error:
            itself = name in {resolve(parts, namespace) for parts in mentioned(definition)}
            if error.code == "UNKNOWN_TABLE" and itself and name not in cut.pointers:
                raise TrickleError("CYCLE", f"the definition would read itself: {name} -> {name}") from error
            raise

    def _add(
        self,
        tx: Transaction,
        draft: StreamTable,
        compiled: Compiled,
        staging: Staging,
        attempt: Attempt,
        cut: Cut,
        result: RefreshResult,
    ) -> int:
        initialized, r = result.action is Action.FULL, self.refresher
        id = tx.add_stream_table(
            draft.name,
            definition=draft.definition,
            namespace=draft.namespace,
            mode=draft.mode,
            schedule=draft.schedule,
            columns=draft.columns,
            incremental=draft.incremental,
            reason=draft.reason,
            fingerprint=draft.fingerprint,
            layout=draft.layout,
            status=Status.ACTIVE if initialized else Status.INITIALIZING,
            published_snapshot=staging.head,
            published_pointer=staging.location,
            table_uuid=r.lake.facts(staging.location).uuid,
            file_schema=staging.schema,
            data_timestamp=cut.instant if initialized else None,
            functions=compiled.functions,
            star=draft.star,
            shapes=shapes_of(attempt, compiled),
            settings=draft.settings,
        )
        if not initialized:  # its state tables are not there yet
            compiled = replace(compiled, inputs=compiled.reads)
        inputs = gather(attempt, compiled, {})
        dependencies: list[Dependency] = [i.at_cut() for i in inputs]
        dependencies += [
            Dependency(input=v, kind=InputKind.VIEW, pointer=cut.pointers[v].location) for v in compiled.views
        ]
        if not initialized:
            dependencies = [Dependency(d.input, d.kind, d.columns) for d in dependencies]
        tx.set_dependencies(id, dependencies)
        tx.add_refresh(completed(result, "create", cut.instant, snapshot_id=staging.head), id)
        return id

    # -- alter -----------------------------------------------------------------------------------------------------

    def alter(
        self,
        name: TableName,
        *,
        definition: str | None,
        namespace: str,
        schedule: str | None,
        mode: Mode | None,
        star: Star | None,
        settings: Mapping[str, str],
        options: TableOptions,
    ) -> RefreshResult | None:
        """Returns the refresh that a changed definition needed, None when nothing had to be computed."""
        check_options(options)
        r = self.refresher
        table = r.store.stream_table(name)
        if table is None:
            raise unknown(name, {t.name: t for t in r.store.stream_tables()})
        with r.heartbeat.holding([f"stream_table:{table.id}"], r.settings.lease_wait_seconds) as lease:
            table = same_as_leased(table, {t.name: t for t in r.store.stream_tables()})
            wanted = replace(
                table,
                mode=mode or table.mode,
                schedule=schedule if schedule is not None else table.schedule,
                star=star or table.star,
            )
            pins = r.pins(table) | dict(settings)
            differs = changed(r.pins(table), pins)
            same = definition is None or (definition == table.definition and namespace == table.namespace)
            options = self._differing(table, options)
            laid_out = options.partitioned_by is None and options.clustered_by is None
            if same and wanted.star is table.star and not differs and laid_out:
                if wanted.mode is Mode.DIFFERENTIAL and not table.incremental:
                    raise TrickleError("NOT_INCREMENTAL", table.reason or "no delta rule")
                status = Status.ACTIVE if table.published_snapshot is not None else table.status
                with r.store.write() as tx:
                    tx.check_lease(lease)
                    tx.update_stream_table(
                        table.id, mode=wanted.mode, schedule=wanted.schedule, status=status, star=wanted.star
                    )
                if options != TableOptions():
                    owned.set_properties(r.lake, table.name, options)
                return None
            wanted = replace(wanted, settings=tuple(sorted(pins.items())), reason=None)
            altered = Altered(differs, not same or wanted.star is not table.star, options)
            if altered.definition:
                wanted = replace(wanted, shapes=())  # another text sees the sources as they are now
            if definition is not None:
                wanted = replace(wanted, definition=definition, namespace=namespace)
            return self._alter_definition(wanted, lease, altered)

    def _differing(self, table: StreamTable, options: TableOptions) -> TableOptions:
        """The options that are not so already."""
        pointer = self.refresher.store.pointers(names=[table.name]).get(table.name)
        if pointer is None or pointer.is_view:
            return options
        metadata = self.refresher.lake.metadata(pointer.location)
        had = owned.layout_of(metadata)
        return replace(
            options,
            partitioned_by=None if options.partitioned_by == had.partitioned_by else options.partitioned_by,
            clustered_by=None if options.clustered_by == had.clustered_by else options.clustered_by,
        )

    def _alter_definition(self, wanted: StreamTable, lease: Lease, altered: Altered) -> RefreshResult:
        r = self.refresher
        known = {t.name: t for t in r.store.stream_tables()}
        cut = r.cut()
        with r.attempts.begin({}, wanted.namespace) as attempt:
            known[wanted.name] = wanted
            pins = dict(wanted.settings)
            compiled = self._compile(attempt, wanted.name, wanted.definition, wanted.namespace, cut, known, pins)
            refuse_volatile(compiled, r.settings)
            refuse_not_incremental(compiled, wanted.mode)
            refuse_cycle(wanted.name, compiled, known)
            wanted = replace(wanted, reason=compiled.reason)
            result = r.rebuild(attempt, wanted, known, cut, lease, altered)
            r.protector.protect(sources_of([wanted, *r.store.stream_tables()]))
            return replace(result, notices=notices(compiled, r.settings))

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
        names = (*consumers, name)
        leases = [f"stream_table:{known[n].id}" for n in names]
        with r.heartbeat.holding(leases, r.settings.lease_wait_seconds) as lease:
            # A refresh that we waited for may have given them other state tables.
            now = {t.id: t for t in r.store.stream_tables()}
            doomed = [now.get(known[n].id, known[n]) for n in names]
            foreign = {t.name for t in doomed if self._is_taken(t)}
            with r.store.write() as tx:
                tx.check_lease(lease)
                for table in doomed:
                    for each in (*table.states, table):
                        if each.name not in foreign:
                            tx.retire(each.name)
                        tx.delete_stream_table(each.id)
                # One that was made while we waited reads what would be gone.
                if late := tx.readers_of(t.name for t in doomed):
                    raise TrickleError("HAS_DEPENDENTS", f"{name} is read by {', '.join(map(str, late))}")
        r.protector.protect(sources_of(doomed))
        trim(r.store, r.lake, doomed)
        return names

    def _is_taken(self, table: StreamTable) -> bool:
        """Whether the name belongs to somebody else's table or view by now, which stays."""
        try:
            refuse_taken(self.refresher.lake, table, self.refresher.cut())
        except TrickleError:
            return True
        return False


def refuse_not_incremental(compiled: Compiled, mode: Mode) -> None:
    if mode is Mode.DIFFERENTIAL and not compiled.incremental:
        raise TrickleError("NOT_INCREMENTAL", compiled.reason or "no delta rule")


def check_options(options: TableOptions) -> None:
    for key, _ in options.properties:
        if key in _OURS or key.startswith("trickle."):
            raise TrickleError(
                "INVALID_OPTION",
                f"the table property {key} is set by Trickle",
                hint="Leave it out; a comment is given by COMMENT.",
            )


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
