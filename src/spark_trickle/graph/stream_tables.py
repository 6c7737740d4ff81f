"""The graph of a lake's stream tables, and the groups in it."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import lru_cache
from graphlib import TopologicalSorter
from typing import TYPE_CHECKING

from spark_trickle.graph.dag import Graph
from spark_trickle.graph.groups import Group, groups_of
from spark_trickle.model import Consistency, InputKind, SchedulePolicy, StreamTable, TableName

if TYPE_CHECKING:
    from spark_trickle.config import Settings

Unit = tuple[TableName, ...]  # what is published together, upstream first: a group, or one stream table
_Reads = tuple[tuple[TableName, tuple[TableName, ...], bool], ...]  # name, what it reads, whether it is atomic


def graph_of(tables: Iterable[StreamTable]) -> Graph[TableName]:
    """The DAG of stream tables."""
    found = tuple(tables)
    names = {t.name for t in found}
    return Graph({t.name: [d.input for d in t.reads if d.input in names] for t in found})


def is_atomic(table: StreamTable, settings: Settings) -> bool:
    own = table.diamond_consistency
    return (own or Consistency(settings.diamond_consistency.upper())) is Consistency.ATOMIC


def is_slowest(table: StreamTable, settings: Settings) -> bool:
    own = table.diamond_schedule_policy
    return (own or SchedulePolicy(settings.diamond_schedule_policy.upper())) is SchedulePolicy.SLOWEST


@dataclass(frozen=True, slots=True)
class Groups:
    """The groups of some stream tables."""

    all: tuple[Group[TableName], ...]
    by_member: Mapping[TableName, Group[TableName]]
    by_cycle: Mapping[TableName, Unit]  # those that are in one

    @classmethod
    def of(cls, tables: Iterable[StreamTable], settings: Settings) -> Groups:
        """Sources count: two stream tables over the same one have an ancestor in common."""
        return _groups(
            tuple(
                (t.name, tuple(d.input for d in t.reads if d.kind is not InputKind.VIEW), is_atomic(t, settings))
                for t in sorted(tables, key=lambda t: t.name)
            )
        )

    def cycle(self, name: TableName) -> Unit:
        """All that read each other with it, itself too; nothing if there is no cycle."""
        return self.by_cycle.get(name, ())

    def unit(self, name: TableName) -> Unit:
        group = self.by_member.get(name)
        return (name,) if group is None else group.members

    def units(self, names: Iterable[TableName], graph: Graph[TableName]) -> tuple[Unit, ...]:
        """These stream tables, those of a group beside each other, upstream first."""
        wanted = dict.fromkeys(names)
        number: dict[TableName, int] = {}  # of the unit: tuples of many names are slow keys
        units: list[Unit] = []
        for name in wanted:
            if name not in number:
                units.append(tuple(m for m in self.unit(name) if m in wanted))
                number.update(dict.fromkeys(units[-1], len(units) - 1))
        reads = {
            n: {number[r] for m in unit for r in graph.upstream.get(m, ()) if r in number} - {n}
            for n, unit in enumerate(units)
        }
        return tuple(units[n] for n in TopologicalSorter(reads).static_order())

    def whole(self, names: Iterable[TableName]) -> tuple[TableName, ...]:
        """These, and all that are published together with one of them."""
        return tuple(dict.fromkeys(member for name in names for member in self.unit(name)))


@lru_cache(maxsize=16)  # the scheduler asks every second
def _groups(reads: _Reads) -> Groups:
    atomic = {name for name, _, is_it in reads if is_it}
    found = groups_of({name: read for name, read, _ in reads}, atomic.__contains__)
    cycles = {member: cycle for group in found for cycle in group.cycles for member in cycle}
    return Groups(found, {member: group for group in found for member in group.members}, cycles)
