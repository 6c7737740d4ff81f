"""The cycles of the lake: stream tables that read each other, and how their last fixpoint was reached."""

from __future__ import annotations

from spark_trickle.catalog.reader import CatalogReader, unknown
from spark_trickle.config import Settings
from spark_trickle.graph.cycles import path_of
from spark_trickle.graph.stream_tables import Groups, graph_of
from spark_trickle.model import TableName
from spark_trickle.results import CycleStatus


def cycles(reader: CatalogReader, settings: Settings, name: TableName | None = None) -> tuple[CycleStatus, ...]:
    """All of them, or the one that has this member."""
    known = {t.name: t for t in reader.stream_tables()}
    if name is not None and name not in known:
        raise unknown(name, known)
    upstream = graph_of(known.values()).upstream
    groups = Groups.of(known.values(), settings).all
    found = []
    for cycle in (c for g in groups for c in g.cycles if name is None or name in c):
        tables = [known[m] for m in cycle]
        error = next((t.last_error for t in tables if t.last_error is not None), None)
        entries = [e for m in cycle for e in reader.history(str(m), limit=50) if e.fixpoint_iteration is not None]
        last = max(entries, key=lambda e: e.started_at, default=None)
        found.append(
            CycleStatus(
                members=tuple(map(str, cycle)),
                path=" -> ".join(map(str, path_of(upstream, cycle))),
                converged=error is None and all(t.data_timestamp is not None for t in tables),
                last_iterations=None if last is None else last.fixpoint_iteration,
                last_at=None if last is None else last.started_at,
                last_reason=None if last is None else last.reason,
                last_error=error,
            )
        )
    return tuple(found)
