"""Refreshes in figures: how many, how long, what they did and why they recomputed."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from spark_trickle.catalog.history import HistoryFilter, RefreshGroup
from spark_trickle.catalog.reader import CatalogReader
from spark_trickle.errors import Reason
from spark_trickle.model import Action


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
    full_reasons: dict[str, int]  # why it was recomputed, by code
    seconds: float = 0.0  # of all of them together
    rows_inserted: int = 0
    rows_updated: int = 0
    rows_deleted: int = 0
    skip_reasons: dict[str, int] = field(default_factory=dict)
    failure_codes: dict[str, int] = field(default_factory=dict)

    def __str__(self) -> str:
        times = "" if self.p50_seconds is None else f", p50 {self.p50_seconds:.2f} s, p95 {self.p95_seconds:.2f} s"
        return f"{self.name}: {self.refreshes} refreshes, {self.failures} failed, {self.skips} skipped{times}"


def statistics(reader: CatalogReader, chosen: HistoryFilter) -> tuple[Statistics, ...]:
    """One for each stream table that was refreshed, in the order of their names."""
    return figures(reader.refresh_groups(chosen), reader.durations(chosen))


def figures(groups: Iterable[RefreshGroup], durations: Mapping[str, list[float]]) -> tuple[Statistics, ...]:
    """Pure. `durations` are sorted."""
    of: dict[str, list[RefreshGroup]] = {}
    for group in groups:
        of.setdefault(group.name, []).append(group)
    return tuple(_of(name, found, durations.get(name, [])) for name, found in sorted(of.items()))


def _of(name: str, groups: list[RefreshGroup], times: list[float]) -> Statistics:
    done = [g for g in groups if g.state == "COMPLETED" and g.action != Action.SKIP]
    skipped = [g for g in groups if g.action == Action.SKIP]
    failed = [g for g in groups if g.state == "FAILED"]
    whole = [g for g in done if g.action in (Action.FULL, Action.REINITIALIZE)]
    inserted, updated, deleted = (sum(getattr(g, f"rows_{what}") for g in done) for what in _ROWS)
    return Statistics(
        name=name,
        refreshes=sum(g.refreshes for g in done),
        failures=sum(g.refreshes for g in failed),
        skips=sum(g.refreshes for g in skipped),
        actions=_counted((str(g.action), g) for g in done),
        p50_seconds=quantile(times, 0.5),
        p95_seconds=quantile(times, 0.95),
        rows_changed=inserted + updated + deleted,
        full_reasons=_counted((_code(g), g) for g in whole),
        seconds=round(sum(g.seconds for g in groups), 3),
        rows_inserted=inserted,
        rows_updated=updated,
        rows_deleted=deleted,
        skip_reasons=_counted((_code(g), g) for g in skipped),
        failure_codes=_counted((g.error_code or "INTERNAL", g) for g in failed),
    )


_ROWS = ("inserted", "updated", "deleted")


def _code(group: RefreshGroup) -> str:
    return Reason.parse(group.reason or "").code


def _counted(pairs: Iterable[tuple[str, RefreshGroup]]) -> dict[str, int]:
    """The most frequent first."""
    found: Counter[str] = Counter()
    for key, group in pairs:
        found[key] += group.refreshes
    return dict(found.most_common())


def quantile(ordered: list[float], share: float) -> float | None:
    """The smallest value that at least this share of the values do not exceed.

    >>> quantile([1.0, 2.0, 3.0, 10.0], 0.5), quantile([1.0, 2.0, 3.0, 10.0], 0.95), quantile([], 0.5)
    (2.0, 10.0, None)
    """
    if not ordered:
        return None
    at = max(0, -(-len(ordered) * share // 1) - 1)
    return ordered[int(at)]
