"""Create several stream tables in one transaction: each may read the others, also in a circle."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field, replace
from functools import partial

from spark_trickle.catalog.leases import Lease
from spark_trickle.delta.steps import HASH
from spark_trickle.errors import TrickleError
from spark_trickle.graph.stream_tables import Groups, Unit, graph_of
from spark_trickle.lake.staging import Staging
from spark_trickle.model import (
    LAKE,
    Column,
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
from spark_trickle.refresh.failures import record_group_failure
from spark_trickle.refresh.policy import Policy
from spark_trickle.refresh.reads import read_by, refused_cycle
from spark_trickle.refresh.run import Refresher
from spark_trickle.refresh.situation import Cut
from spark_trickle.refresh.work import Done, Request, Run
from spark_trickle.results import RefreshResult
from spark_trickle.spark.analyze import Analyzer, spark_error
from spark_trickle.sql.branches import branches_without, first_names
from spark_trickle.sql.mentions import without_catalog


@dataclass(frozen=True, slots=True)
class Wanted:
    """A stream table that is to be created."""

    name: TableName
    definition: str
    namespace: str
    schedule: str | None = None
    mode: Mode = Mode.AUTO
    star: Star = Star.PIN
    pins: Mapping[str, str | None] = field(default_factory=dict)
    options: TableOptions = field(default_factory=TableOptions)
    policy: Policy = field(default_factory=Policy)

    def draft(self, cut: Cut, known: Mapping[TableName, StreamTable], names: Sequence[TableName]) -> StreamTable:
        """Before it is compiled: what it reads is what its text may read."""
        read = read_by(self.definition, self.namespace)
        reads = []
        for name in sorted(read):
            if name in names or name in known:
                reads.append(Dependency(name, InputKind.STREAM_TABLE))
            elif name in cut.pointers and not cut.pointers[name].is_view:
                reads.append(Dependency(name, InputKind.SOURCE))
        return replace(
            StreamTable.draft(self.name, self.definition, self.namespace, self.mode, cut.instant),
            schedule=self.schedule,
            star=self.star,
            settings=tuple(sorted(self.pins.items())),
            dependencies=tuple(reads),
            **self.policy,
        )


def create_together(
    r: Refresher, wanted: Sequence[Wanted], lease: Lease, cut: Cut, known: Mapping[TableName, StreamTable]
) -> tuple[RefreshResult, ...]:
    """Under the leases of their names, which are free."""
    new = {w.name: w for w in wanted}
    drafts = {w.name: w.draft(cut, known, tuple(new)) for w in wanted}
    groups = Groups.of({**known, **drafts}.values(), r.settings)
    for name in new:
        if (cycle := groups.cycle(name)) and not r.settings.allow_circular:
            raise refused_cycle(cycle, {**known, **drafts})
    others = [known[m] for m in groups.whole(new) if m in known]
    with ExitStack() as held:
        if others:
            names = [f"stream_table:{t.id}" for t in others]
            lease = lease.also(held.enter_context(r.heartbeat.holding(names, r.settings.lease_wait_seconds)))
            known = r.known()
            cut = r.cut(d.input for t in others for d in t.reads)
            groups = Groups.of({**known, **drafts}.values(), r.settings)
            if {m for m in groups.whole(new) if m not in new} != {t.name for t in others if t.name in known}:
                raise TrickleError(
                    "REFRESH_IN_PROGRESS", f"the group of {wanted[0].name} changed meanwhile", hint="Try again."
                )
        everything = {**known, **drafts}
        order = groups.units(groups.whole(new), graph_of(everything.values()))
        pending = r.pending([t.name for t in others], known, (), None, cut)
        with r.attempts.begin({}) as attempt:
            run = Run(attempt, cut, lease, "create", everything, groups)
            staged: list[Done] = []
            try:
                for name in (m for unit in order for m in unit):
                    if name in {d.table.name for d in staged}:
                        continue
                    cycle = groups.cycle(name)
                    if cycle:
                        staged += r.stage_cycle(run, _cycle_requests(r, run, cycle, new))
                    elif name in new:
                        staged.append(r.stage(run, Request(drafts[name], options=new[name].options)))
                    elif name in pending:
                        staged.append(r.stage(run, Request(known[name])))
                for done in staged:
                    if done.table.name in new:
                        refuse_volatile(done.compiled, r.settings)
                        if done.table.mode is Mode.DIFFERENTIAL and not done.compiled.incremental:
                            raise TrickleError("NOT_INCREMENTAL", str(done.compiled.reason or "no delta rule"))
            except BaseException as error:
                r.discard(run)
                record_group_failure(r.store, run, drafts[wanted[0].name], staged, [], spark_error(error))
                raise
            r.publish(run, staged)
            sources = [d.input for done in staged for d in done.table.reads if d.kind is InputKind.SOURCE]
        r.protector.protect(sources)
    results = {d.table.name: replace(d.result(), notices=notices(d.compiled, r.settings)) for d in staged}
    return tuple(results[w.name] for w in wanted)


def _cycle_requests(r: Refresher, run: Run, cycle: Unit, new: Mapping[TableName, Wanted]) -> list[Request]:
    """Those that are new get empty tables first, so that the definitions can be read."""
    tables = _empty_tables(r, run, [new[m] for m in cycle if m in new])
    requests = []
    for name in cycle:
        if name in new:
            requests.append(Request(run.known[name], options=new[name].options, staging=tables[name]))
        else:  # its definition is compiled as one of a cycle now: another layout
            mode = Mode.FULL if run.known[name].mode is Mode.DIFFERENTIAL else None
            requests.append(Request(run.known[name], mode))
    return requests


def _empty_tables(r: Refresher, run: Run, wanted: Sequence[Wanted]) -> dict[TableName, Staging]:
    """The columns of each follow from those branches of its UNION that read only what has columns already."""
    attempt, made = run.attempt, dict[TableName, Staging]()
    waiting = {w.name: w for w in wanted}
    while waiting:
        for one in waiting.values():
            text = branches_without(without_catalog(one.definition, LAKE), partial(_is_one_of, waiting, one.namespace))
            if text is not None:
                attempt.apply(dict(run.known[one.name].settings))
                r.compiler.register(attempt, text, one.namespace, run.cut.pointers, run.known)
                columns = Analyzer(attempt.session).columns(text)
                called = first_names(one.definition)
                if called is not None and len(called) == len(columns):
                    columns = tuple(replace(c, name=n) for c, n in zip(columns, called, strict=True))
                made[one.name] = Staging.new(attempt, one.name, (*columns, Column(HASH, "bigint")), one.options)
                run.unpublished.append(made[one.name])
                run.known[one.name] = replace(run.known[one.name], columns=columns)
                del waiting[one.name]
                break
        else:
            names = ", ".join(sorted(map(str, waiting)))
            raise TrickleError(
                "CYCLE",
                f"the columns of {names} cannot be told: every branch of their definitions reads one of them",
                hint="Begin one of them with a branch that reads other tables only, and UNION the rest to it.",
            )
    return made


def _is_one_of(names: Collection[TableName], namespace: str, parts: tuple[str, ...]) -> bool:
    return resolve(parts, namespace) in names
