"""Who reads whom while definitions change: what a new definition reads, and the cycles that it makes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

from spark_trickle.errors import TrickleError
from spark_trickle.graph.cycles import components, path_of
from spark_trickle.graph.stream_tables import Groups, Unit, graph_of
from spark_trickle.model import LAKE, Dependency, StreamTable, TableName, resolve
from spark_trickle.refresh.compiled import Compiled
from spark_trickle.sql.mentions import may_read, without_catalog


def read_by(text: str, namespace: str) -> set[TableName]:
    """The tables and views that a text may read, before it is compiled."""
    return {resolve(parts, namespace) for parts in may_read(without_catalog(text, LAKE))}


def reading(table: StreamTable, compiled: Compiled) -> StreamTable:
    """As others see it once it is published: what it reads is what its definition reads now."""
    reads = (Dependency(n, kind) for n, (kind, _) in compiled.reads.items())
    return replace(table, dependencies=tuple(reads), states=())


def cycle_of(name: TableName, compiled: Compiled, known: Mapping[TableName, StreamTable]) -> Unit:
    """Those that would read each other with this one, by what its definition reads now."""
    upstream = dict(graph_of(known.values()).upstream)
    upstream[name] = tuple(i for i in compiled.reads if i in known or i == name)
    return next((c for c in components(upstream) if name in c), ())


def refuse_cycle(name: TableName, compiled: Compiled, known: Mapping[TableName, StreamTable], cycle: Unit = ()) -> None:
    """Refuse one that it was not compiled for: a view may have got another text."""
    found = cycle_of(name, compiled, known)
    if found and found != cycle:
        upstream = dict(graph_of(known.values()).upstream)
        upstream[name] = tuple(compiled.reads)
        raise refused_cycle(found, known, upstream)


def refused_cycle(
    cycle: Unit,
    known: Mapping[TableName, StreamTable],
    upstream: Mapping[TableName, Sequence[TableName]] | None = None,
) -> TrickleError:
    reads = upstream or graph_of(known.values()).upstream
    path = " -> ".join(map(str, path_of(reads, cycle)))
    return TrickleError("CYCLE", f"the definition would read itself: {path}")


def with_readers(
    changed: set[TableName], order: Sequence[TableName], known: Mapping[TableName, StreamTable], groups: Groups
) -> list[TableName]:
    """Those of `order` that changed, that read one that did, or that are in a cycle with one."""
    found, before = set(changed), -1
    while len(found) != before:
        before = len(found)
        for name in order:
            cycle = groups.cycle(name)
            if any(d.input in found for d in known[name].reads) or not found.isdisjoint(cycle):
                found.update((name, *cycle))
    return [n for n in order if n in found]
