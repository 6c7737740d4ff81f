"""The life of a stream table: create, alter, drop. Each is one attempt and one transaction."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from spark_trickle.catalog.controls import working
from spark_trickle.catalog.leases import Lease
from spark_trickle.catalog.reader import unknown
from spark_trickle.delta.plans.fixpoint import Fixpoint
from spark_trickle.errors import TrickleError
from spark_trickle.graph.stream_tables import graph_of
from spark_trickle.lake import owned
from spark_trickle.lake.protect import sources_of
from spark_trickle.model import (
    HIDDEN_NAMESPACE,
    Dependency,
    InputKind,
    Mode,
    Star,
    StreamTable,
    TableName,
    TableOptions,
    resolve,
)
from spark_trickle.refresh.as_written import notices, refuse_volatile
from spark_trickle.refresh.create_together import Wanted, create_together
from spark_trickle.refresh.definition import Compiled
from spark_trickle.refresh.handover import trim
from spark_trickle.refresh.policy import Policy
from spark_trickle.refresh.reads import cycle_of, read_by, reading
from spark_trickle.refresh.run import Refresher, same_as_leased
from spark_trickle.refresh.situation import Cut, refuse_taken
from spark_trickle.refresh.stages import Stages
from spark_trickle.refresh.work import Altered, Done, Request, Run
from spark_trickle.results import RefreshResult
from spark_trickle.spark.settings import TIME_ZONE, changed, zone
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
        policy: Policy,
        *,
        initialize: bool,
    ) -> RefreshResult:
        """`settings` are pinned besides those that the connection has."""
        check_name(name)
        check_options(options)
        r = self.refresher
        pins = r.attempts.own_settings | dict(settings)
        zone(str(pins[TIME_ZONE]))
        if r.settings.allow_circular and initialize and name in read_by(definition, namespace):
            itself = Wanted(name, definition, namespace, schedule, mode, star, pins, options, policy)
            return self.create_all([itself])[0]
        with r.heartbeat.holding([f"create:{name}"], r.settings.lease_wait_seconds) as lease:
            known = r.known()
            cut = r.cut()
            self._refuse_name(name, cut, known)
            table = replace(
                StreamTable.draft(name, definition, namespace, mode, cut.instant),
                schedule=schedule,
                star=star,
                settings=tuple(sorted(pins.items())),
                **policy,
            )
            with r.attempts.begin({}, namespace) as attempt:
                run = Run(attempt, cut, lease, "create", known, r.groups(known))
                request = self._compiled(run, Request(table, options=options, initialize=initialize), check=initialize)
                if initialize and (others := self._published_with(run, request)):
                    with r.heartbeat.holding(_leases(others), r.settings.lease_wait_seconds) as theirs:
                        done = self._run_together(request, others, lease.also(theirs), "create")
                else:
                    (done,) = r.refresh_together(run, [request])
            r.protector.protect([n for n, (kind, _) in done.compiled.reads.items() if kind is InputKind.SOURCE])
            return replace(done.result(), notices=notices(done.compiled, r.settings))

    def create_all(self, wanted: Sequence[Wanted]) -> tuple[RefreshResult, ...]:
        """All of them or none; each may read the others, whatever their order."""
        r = self.refresher
        for one in wanted:
            check_name(one.name)
            check_options(one.options)
            zone(str(one.pins[TIME_ZONE]))
        twice = [w.name for n, w in enumerate(wanted) if w.name in {o.name for o in wanted[:n]}]
        if twice:
            raise TrickleError("NAME_TAKEN", f"{twice[0]} is given twice")
        with r.heartbeat.holding([f"create:{w.name}" for w in wanted], r.settings.lease_wait_seconds) as lease:
            known, cut = r.known(), r.cut()
            for one in wanted:
                self._refuse_name(one.name, cut, known)
            return create_together(r, wanted, lease, cut, known)

    def _refuse_name(self, name: TableName, cut: Cut, known: Mapping[TableName, StreamTable]) -> None:
        if name in cut.pointers or name in known:
            what = "stream table" if name in known else "view" if cut.pointers[name].is_view else "table"
            raise TrickleError("NAME_TAKEN", f"there is a {what} {name} already")
        if name.namespace not in {n.namespace for n in cut.pointers} | set(self.refresher.store.namespaces()):
            raise TrickleError(
                "INVALID_NAME", f"there is no namespace {name.namespace}", hint=f"CREATE NAMESPACE {name.namespace}"
            )

    def _compiled(self, run: Run, request: Request, *, check: bool) -> Request:
        stages = Stages()
        with stages("compile"):
            compiled = self._compile(run, request.table, check=check)
        return replace(request, compiled=compiled, stages=stages)

    def _published_with(self, run: Run, request: Request) -> list[StreamTable]:
        """The other members of the group that a stream table is in with its new definition."""
        table = _as_defined(request)
        unit = self.refresher.groups({**run.known, table.name: table}).unit(table.name)
        return [run.known[m] for m in unit if m != table.name]

    def _run_together(self, request: Request, others: Sequence[StreamTable], lease: Lease, initiated_by: str) -> Done:
        """Refresh the whole group with it, at one cut: its content is of the same moment as theirs."""
        r, table = self.refresher, _as_defined(request)
        known = r.known()
        for other in others:
            same_as_leased(other, known)
        known[table.name] = table
        groups, graph = r.groups(known), graph_of(known.values())
        if not set(groups.unit(table.name)) <= {table.name, *(o.name for o in others)}:
            raise TrickleError(
                "REFRESH_IN_PROGRESS", f"the group of {table.name} changed while this call waited", hint="Try again."
            )
        cut = r.cut(d.input for t in known.values() for d in t.reads if t.name in groups.unit(table.name))
        unit = [m for u in groups.units((table.name, *(o.name for o in others)), graph) for m in u]
        pending = r.pending([m for m in unit if m != table.name], known, (), None, cut)
        below = set(graph.descendants(table.name)) | {*r.groups(r.known()).cycle(table.name)}
        known[table.name] = replace(table, states=request.table.states)  # which it may go on with
        with r.attempts.begin({}, request.table.namespace) as attempt:
            run = Run(attempt, cut, lease, initiated_by, known, groups)
            own = self._compiled(run, replace(request, compiled=None, stages=None), check=True)
            requests = []
            for m in unit:
                if m == table.name:
                    requests.append(own)
                elif m in below:  # what it reads is recomputed: in mode DIFFERENTIAL it would be refused
                    requests.append(Request(known[m], Mode.FULL if known[m].mode is Mode.DIFFERENTIAL else None))
                elif m in pending:
                    requests.append(Request(known[m]))
            staged = r.refresh_together(run, requests)
        r.protector.protect(sources_of(d.table for d in staged))
        return next(d for d in staged if d.table.name == table.name)

    def _compile(self, run: Run, table: StreamTable, *, check: bool) -> Compiled:
        """What the user just wrote, or a refusal."""
        r = self.refresher
        known = run.known
        if table.id:  # what its new text reads decides in which cycle it is compiled
            read = read_by(table.definition, table.namespace)
            reads = tuple(Dependency(n, InputKind.STREAM_TABLE) for n in sorted(read) if n in known)
            known = {**known, table.name: replace(table, dependencies=reads, states=())}
            if not r.groups(known).cycle(table.name):
                known = {**known, table.name: replace(known[table.name], states=table.states)}
        try:
            compiled = r.compile(run.attempt, table, run.cut, known, check=check)
        except TrickleError as error:
            itself = table.name in {resolve(parts, table.namespace) for parts in mentioned(table.definition)}
            if error.code == "UNKNOWN_TABLE" and itself and table.name not in run.cut.pointers:
                raise TrickleError(
                    "CYCLE", f"the definition would read itself: {table.name} -> {table.name}"
                ) from error
            raise
        refuse_volatile(compiled, r.settings)
        refuse_not_incremental(compiled, table.mode)
        cycle = cycle_of(table.name, compiled, run.known)
        if cycle != r.groups(known).cycle(table.name):  # through a view, say
            known = {**run.known, table.name: reading(table, compiled)}
            return r.compile(run.attempt, table, run.cut, known)
        return compiled

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
        policy: Policy,
    ) -> RefreshResult | None:
        """Returns the refresh that a changed definition needed, None when nothing had to be computed."""
        check_options(options)
        r = self.refresher
        known = r.known()
        table = r.store.find(name)
        # Its group, too: two that are altered at once must not wait for each other.
        group = [known[m] for m in r.groups(known).unit(name) if m in known]
        with r.heartbeat.holding(_leases([table, *group]), r.settings.lease_wait_seconds) as lease:
            table = same_as_leased(table, r.known())
            wanted = replace(
                table,
                mode=mode or table.mode,
                schedule=schedule if schedule is not None else table.schedule,
                star=star or table.star,
                **policy,
            )
            pins = r.pins(table) | dict(settings)
            differs = changed(r.pins(table), pins)
            same = definition is None or (definition == table.definition and namespace == table.namespace)
            options = self._differing(table, options)
            laid_out = options.partitioned_by is None and options.clustered_by is None
            if same and wanted.star is table.star and not differs and laid_out:
                if wanted.mode is Mode.FULL and r.groups(r.known()).cycle(name):
                    raise TrickleError("INVALID_MODE", f"{name} is in a cycle: its mode must be AUTO or DIFFERENTIAL")
                if wanted.mode is Mode.DIFFERENTIAL and not table.incremental:
                    raise TrickleError("NOT_INCREMENTAL", table.reason or "no delta rule")
                with r.store.write() as tx:
                    tx.check_lease(lease)
                    tx.update_stream_table(
                        table.id,
                        mode=wanted.mode,
                        schedule=wanted.schedule,
                        status=working(table),
                        star=wanted.star,
                        consecutive_errors=0,
                        last_error=None,
                        **policy,
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
        known = {**r.known(), wanted.name: wanted}
        with r.attempts.begin({}, wanted.namespace) as attempt:
            run = Run(attempt, r.cut(), lease, "alter", known, r.groups(known))
            request = self._compiled(run, Request(wanted, altered=altered), check=True)
            others = self._published_with(run, request)
            # Those that it no longer is in a cycle with are kept otherwise from now on.
            before = r.groups(r.known()).cycle(wanted.name)
            others += [known[m] for m in before if m != wanted.name and m not in {o.name for o in others}]
            if others or isinstance(_plan(request), Fixpoint):
                more = [name for name in _leases(others) if name not in lease.names]
                with r.heartbeat.holding(more, r.settings.lease_wait_seconds) as theirs:
                    done = self._run_together(request, others, lease.also(theirs), "alter")
            else:
                alone = replace(run, groups=r.groups({**known, wanted.name: _as_defined(request)}))
                (done,) = r.refresh_together(alone, [request])
        r.protector.protect(sources_of([wanted, *r.store.stream_tables()]))
        return replace(done.result(), notices=notices(done.compiled, r.settings))

    # -- drop ------------------------------------------------------------------------------------------------------

    def drop(self, name: TableName, *, cascade: bool, if_exists: bool) -> tuple[TableName, ...]:
        """Returns what was dropped, consumers first."""
        r = self.refresher
        known = r.known()
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
        trim(r.store, r.lake, doomed, most=1000)
        return names

    def _is_taken(self, table: StreamTable) -> bool:
        """Whether the name belongs to somebody else's table or view by now, which stays."""
        try:
            refuse_taken(self.refresher.lake, table, self.refresher.cut())
        except TrickleError:
            return True
        return False


def _as_defined(request: Request) -> StreamTable:
    assert request.compiled is not None
    return reading(request.table, request.compiled)


def _plan(request: Request) -> object:
    return None if request.compiled is None else request.compiled.plan


def _leases(tables: Sequence[StreamTable]) -> list[str]:
    return [f"stream_table:{t.id}" for t in tables]


def refuse_not_incremental(compiled: Compiled, mode: Mode) -> None:
    if mode is Mode.DIFFERENTIAL and not compiled.incremental:
        raise TrickleError("NOT_INCREMENTAL", str(compiled.reason or "no delta rule"))


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
            raise TrickleError("INVALID_NAME", f"{str(name)!r} is not a valid name: its part {part!r} cannot be used")
    if not name.namespace:
        raise TrickleError("INVALID_NAME", f"{name.name!r} has no namespace", hint="Write it as namespace.name.")
    if name.namespace.split(".")[0] == HIDDEN_NAMESPACE:
        raise TrickleError("INVALID_NAME", f"the namespace {HIDDEN_NAMESPACE} belongs to Trickle")
    if len(str(name)) > _LONGEST:
        raise TrickleError("INVALID_NAME", f"{str(name)[:40]}… has more than {_LONGEST} characters")
