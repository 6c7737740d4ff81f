"""Refreshes in figures: how many, how long, what they did and why they recomputed."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass

from spark_trickle.errors import Reason
from spark_trickle.model import Action
from spark_trickle.results import HistoryEntry


@dataclass(frozen=True, slots=True)
class Statistics:
    """Of one stream table, over the refreshes looked at."""

    name: str
    refreshes: int  # that computed something or had nothing to compute
    failures: int
    skips: int
    actions: dict[str, int]
    p50_seconds: float | None  # of those that computed something
    p95_seconds: float | None
    rows_changed: int  # inserted, updated and deleted
    full_reasons: dict[str, int]  # why AUTO recomputed, by code

    def __str__(self) -> str:
        times = "" if self.p50_seconds is None else f", p50 {self.p50_seconds:.2f} s, p95 {self.p95_seconds:.2f} s"
        return f"{self.name}: {self.refreshes} refreshes, {self.failures} failed, {self.skips} skipped{times}"


def statistics(history: Iterable[HistoryEntry]) -> tuple[Statistics, ...]:
    """One for each stream table, in the order of their names."""
    of: dict[str, list[HistoryEntry]] = {}
    for entry in history:
        if entry.state != "RUNNING" and entry.action is not Action.MAINTENANCE:
            of.setdefault(entry.name, []).append(entry)
    return tuple(_of(name, entries) for name, entries in sorted(of.items()))


def _of(name: str, entries: list[HistoryEntry]) -> Statistics:
    done = [e for e in entries if e.state == "COMPLETED" and e.action is not Action.SKIP]
    times = sorted(e.seconds for e in done if e.seconds is not None and e.action is not Action.NO_DATA)
    whole = [e for e in done if e.action in (Action.FULL, Action.REINITIALIZE)]
    return Statistics(
        name=name,
        refreshes=len(done),
        failures=sum(e.state == "FAILED" for e in entries),
        skips=sum(e.action is Action.SKIP for e in entries),
        actions=dict(Counter(str(e.action) for e in done)),
        p50_seconds=_quantile(times, 0.5),
        p95_seconds=_quantile(times, 0.95),
        rows_changed=sum(e.rows_inserted + e.rows_updated + e.rows_deleted for e in done),
        full_reasons=dict(Counter(Reason.parse(e.reason or "").code for e in whole)),
    )


def _quantile(ordered: list[float], share: float) -> float | None:
    """The smallest value that at least this share of the values do not exceed."""
    if not ordered:
        return None
    at = max(0, -(-len(ordered) * share // 1) - 1)
    return ordered[int(at)]
