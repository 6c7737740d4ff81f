"""The groups of the lake: who is published together, why, and how often that was done."""

from __future__ import annotations

from spark_trickle.catalog.reader import CatalogReader, unknown
from spark_trickle.config import Settings
from spark_trickle.graph.groups import paths_of
from spark_trickle.graph.stream_tables import Groups, is_slowest
from spark_trickle.model import InputKind, SchedulePolicy, TableName
from spark_trickle.results import GroupStatus


def groups(reader: CatalogReader, settings: Settings, name: TableName | None = None) -> tuple[GroupStatus, ...]:
    """All of them, or the one that has this member."""
    known = {t.name: t for t in reader.stream_tables()}
    if name is not None and name not in known:
        raise unknown(name, known)
    states = {frozenset(s.members): s for s in reader.groups()}
    found = []
    reads = {t.name: [d.input for d in t.reads if d.kind is not InputKind.VIEW] for t in known.values()}
    for group in Groups.of(known.values(), settings).all:
        if name is not None and name not in group.members:
            continue
        state = states.get(frozenset(known[m].id for m in group.members))
        slowest = all(is_slowest(known[m], settings) for m in group.members)
        found.append(
            GroupStatus(
                members=tuple(map(str, group.members)),
                fan_ins=tuple(dict.fromkeys(str(d.fan_in) for d in group.diamonds)),
                paths=tuple(" -> ".join(map(str, path)) for d in group.diamonds for path in paths_of(reads, d)),
                schedule_policy=SchedulePolicy.SLOWEST if slowest else SchedulePolicy.FASTEST,
                epoch=0 if state is None else state.epoch,
                last_state=None if state is None else state.state,
                last_at=None if state is None else state.at,
                last_error=None if state is None else state.error,
            )
        )
    return tuple(found)
