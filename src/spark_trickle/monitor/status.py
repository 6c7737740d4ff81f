"""How stream tables stand: status, lag against the schedule, what they wait for, and what they are."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC, datetime

from spark_trickle.catalog.frontier import inputs_moved
from spark_trickle.catalog.reader import CatalogReader, unknown
from spark_trickle.config import Settings
from spark_trickle.errors import TrickleError
from spark_trickle.graph.stream_tables import Groups
from spark_trickle.model import Pointer, Status, StreamTable, TableName
from spark_trickle.results import Description, StreamTableStatus
from spark_trickle.scheduler.decide import Dag
from spark_trickle.scheduler.members import default_schedule, member
from spark_trickle.spark.settings import unusual, unusual_first


def status(
    store: CatalogReader,
    settings: Settings,
    name: TableName | None = None,
    pointers: Mapping[TableName, Pointer] | None = None,
    now: datetime | None = None,
) -> tuple[StreamTableStatus, ...]:
    """All stream tables, or one. `pointers` show sources outside the lake, too; else there must not be any."""
    now = now or datetime.now(UTC)
    known = {t.name: t for t in store.stream_tables()}
    if name is not None and name not in known:
        raise unknown(name, known)
    groups = Groups.of(known.values(), settings).all
    dag = Dag.of([member(t, known, settings) for t in known.values()], default_schedule(settings), groups)
    found = pointers if pointers is not None else store.pointers()
    last = store.last_refreshes()
    hindered = _hindered(dag, known)
    stale = {n for n, t in known.items() if _is_stale(t, found)}
    late = _with_readers(dag, stale)
    result = []
    for table in known.values() if name is None else [known[name]]:
        pending = table.name in stale
        entry = last.get(table.id)
        result.append(
            StreamTableStatus(
                name=str(table.name),
                status=table.status,
                mode=table.mode,
                schedule=table.schedule,
                incremental=table.incremental,
                reason=table.reason,
                inputs=tuple(str(d.input) for d in table.reads),
                pending=pending,
                data_timestamp=table.data_timestamp,
                last_action=entry.action if entry else None,
                last_seconds=entry.seconds if entry else None,
                last_error=table.last_error,
                states=tuple(str(s.name) for s in table.states),
                lag_seconds=_lag(table, now, pending=table.name in late),
                target_seconds=dag.target_seconds(table.name, now, settings.time_zone),
                failed_upstream=None if table.name not in hindered else str(hindered[table.name]),
            )
        )
    return tuple(result)


def gave_up(table: StreamTable, errors: int) -> bool:
    """Whether it was suspended for so many failures in a row; else it was by hand."""
    return table.status is Status.SUSPENDED and table.consecutive_errors >= errors


def _is_stale(table: StreamTable, pointers: Mapping[TableName, Pointer]) -> bool:
    try:
        return inputs_moved(table, pointers)
    except TrickleError:  # a source outside the lake that cannot be looked at now: a refresh says why
        return True


def _with_readers(dag: Dag, stale: set[TableName]) -> set[TableName]:
    """Content is as old as what it was computed from."""
    late = set(stale)
    for name in dag.order:
        if late.intersection(dag.members[name].reads):
            late.add(name)
    return late


def _lag(table: StreamTable, now: datetime, *, pending: bool) -> float | None:
    """How long the content has been behind at most: since the cut it shows. Nothing changed: not at all."""
    if table.data_timestamp is None:
        return None
    return round((now - table.data_timestamp).total_seconds(), 3) if pending else 0.0


def _hindered(dag: Dag, known: Mapping[TableName, StreamTable]) -> dict[TableName, TableName]:
    """The stream tables that an upstream, or a member of their group, keeps from being refreshed: with that one."""
    found: dict[TableName, TableName] = {}
    for name in dag.order:
        together = [m for m in dag.unit_of[name] if m != name and not known[name].consecutive_errors]
        for read in (*dag.members[name].reads, *together):
            if read in found:
                found[name] = found[read]
            elif known[read].status in (Status.SUSPENDED, Status.ERROR) or known[read].consecutive_errors:
                found[name] = read
    return found


def describe(store: CatalogReader, name: TableName) -> Description:
    table = store.find(name)
    pins = unusual_first(dict(table.settings))
    return Description(
        name=str(name),
        definition=table.definition,
        namespace=table.namespace,
        status=table.status,
        mode=table.mode,
        schedule=table.schedule,
        star=table.star,
        incremental=table.incremental,
        reason=table.reason,
        columns=table.columns,
        inputs=tuple((str(d.input), d.kind) for d in table.reads),
        functions=tuple(sorted({f for t in (table, *table.states) for f in t.functions})),
        settings=pins,
        unusual=sum(unusual(key, value) for key, value in pins),
        states=tuple(str(s.name) for s in table.states),
        data_timestamp=table.data_timestamp,
        diamond_consistency=table.diamond_consistency,
        diamond_schedule_policy=table.diamond_schedule_policy,
        created_at=table.created_at,
    )
