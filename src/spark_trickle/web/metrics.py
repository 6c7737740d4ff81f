"""`/metrics`, in Prometheus' text format: what the catalog tells when it is asked.

Counters come from the stored history, so they go on after a restart and count the refreshes of all processes. Series
of a stream table go when it is dropped: there are never more than a fixed number for each one that there is.
docs/metrics.md describes each metric.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime

from fastapi import APIRouter, Request, Response
from prometheus_client import CollectorRegistry, ProcessCollector
from prometheus_client.core import (
    CounterMetricFamily,
    GaugeMetricFamily,
    HistogramMetricFamily,
    InfoMetricFamily,
    Metric,
)
from prometheus_client.exposition import choose_encoder
from prometheus_client.registry import Collector

from spark_trickle import __version__
from spark_trickle.catalog.reader import CatalogReader
from spark_trickle.catalog.rows import RefreshSum
from spark_trickle.config import Settings
from spark_trickle.errors import TrickleError
from spark_trickle.model import Pointer, StreamTable, TableName
from spark_trickle.monitor.status import status
from spark_trickle.monitor.totals import Totals
from spark_trickle.results import StreamTableStatus
from spark_trickle.scheduler.decide import ENABLED, LEASE
from spark_trickle.thresholds import DURATIONS
from spark_trickle.web.problem import respond

LIMITS = DURATIONS
_FAILED = "NONE"  # the action of a refresh that failed

Pointers = Callable[[], Mapping[TableName, Pointer]]


@dataclass(frozen=True, slots=True)
class Seen:
    """What the catalog says at one moment."""

    now: datetime
    stream_tables: tuple[StreamTable, ...]
    statuses: tuple[StreamTableStatus, ...]
    running: frozenset[int]
    sums: tuple[RefreshSum, ...]
    alerts: Mapping[tuple[str, str], int]
    enabled: bool
    lease_expires_at: datetime | None  # of the scheduler that leads
    leads: bool | None = None  # whether this process does; None: it is not known
    notices_waiting: int = 0


def router(
    reader: CatalogReader,
    settings: Callable[[], Settings],
    pointers: Pointers | None = None,
    leads: Callable[[], bool] | None = None,
) -> APIRouter:
    """`GET /metrics`. `settings` of now: they may change. `leads`: whether the scheduler of this process leads.

    `pointers` gives those of sources outside the lake, too (`tr.refresher.attempts.sources.pointers`); without it such
    sources always look changed.
    """
    registry = CollectorRegistry()
    ProcessCollector(registry=registry)
    registry.register(_Scrape(reader, settings, pointers, leads))
    routes = APIRouter()

    @routes.get("/metrics", include_in_schema=False)
    def metrics(request: Request) -> Response:
        encode, content_type = choose_encoder(request.headers.get("accept", ""))
        try:
            return Response(encode(registry), headers={"Content-Type": content_type})
        except TrickleError as error:
            return respond(error, 503)

    return routes


class _Scrape(Collector):
    """Looks at the catalog whenever it is asked."""

    def __init__(
        self,
        reader: CatalogReader,
        settings: Callable[[], Settings],
        pointers: Pointers | None,
        leads: Callable[[], bool] | None,
    ) -> None:
        self._reader = reader
        self._settings = settings
        self._pointers = pointers
        self._leads = leads
        self._totals = Totals(reader, LIMITS)

    def describe(self) -> Iterable[Metric]:
        return ()  # else the registry would ask `collect`, when there may be no catalog yet

    def collect(self) -> Iterator[Metric]:
        reader, now = self._reader, datetime.now(UTC)
        pointers = None if self._pointers is None else self._pointers()
        seen = Seen(
            now=now,
            stream_tables=reader.stream_tables(),
            statuses=status(reader, self._settings(), pointers=pointers, now=now),
            running=frozenset(reader.running().values()),
            sums=self._totals.look(now),
            alerts=reader.alert_counts(),
            enabled=reader.setting(ENABLED) != "false",
            lease_expires_at=reader.lease_expires_at(LEASE),
            leads=None if self._leads is None else self._leads(),
            notices_waiting=sum(reader.notices_waiting().values()),
        )
        return families(seen)


# -- pure --------------------------------------------------------------------------------------------------------------


def families(seen: Seen) -> Iterator[Metric]:
    yield InfoMetricFamily("trickle", "The version that serves these metrics.", {"version": __version__})
    yield from _of_stream_tables(seen)
    yield from _of_refreshes(seen)
    yield from _of_the_scheduler(seen)
    alerts = GaugeMetricFamily("trickle_alerts", "Open alerts.", labels=["kind", "severity"])
    for (kind, severity), count in seen.alerts.items():
        alerts.add_metric([kind, severity], count)
    yield alerts
    says = "Notices of alerts that are still to be told; a webhook that fails leaves its own here."
    yield GaugeMetricFamily("trickle_alert_notices_waiting", says, seen.notices_waiting)


def _of_stream_tables(seen: Seen) -> Iterator[Metric]:
    def gauge(name: str, says: str) -> GaugeMetricFamily:
        return GaugeMetricFamily(f"trickle_stream_table_{name}", says, labels=["table"])

    lag = gauge("lag_seconds", "How long the content has been behind its sources at most; 0: nothing has changed.")
    target = gauge("target_lag_seconds", "How old the content may get by the schedule; absent: refreshed by hand.")
    shown = gauge("data_timestamp_seconds", "The cut that the content shows, in Unix time; absent: not yet filled.")
    pending = gauge("pending", "1: a source has changed since the last refresh.")
    running = gauge("running", "1: a refresh has begun and not ended.")
    errors = gauge("consecutive_errors", "Refreshes that failed since the last one that did not.")
    hindered = gauge("upstream_failed", "1: a failed upstream keeps it from being refreshed.")
    state = GaugeMetricFamily("trickle_stream_table_status", "1, with the status it has.", labels=["table", "status"])
    rows = {str(t.name): t for t in seen.stream_tables}
    for of in seen.statuses:
        name, row = [of.name], rows.get(of.name)
        if of.lag_seconds is not None:
            lag.add_metric(name, of.lag_seconds)
        if of.target_seconds is not None:
            target.add_metric(name, of.target_seconds)
        if of.data_timestamp is not None:
            shown.add_metric(name, of.data_timestamp.timestamp())
        pending.add_metric(name, of.pending)
        hindered.add_metric(name, of.failed_upstream is not None)
        state.add_metric([of.name, of.status], 1)
        if row is not None:  # else created between the two looks
            running.add_metric(name, row.id in seen.running)
            errors.add_metric(name, row.consecutive_errors)
    yield from (lag, target, shown, pending, running, errors, hindered, state)
    count = GaugeMetricFamily("trickle_stream_tables", "Stream tables by status.", labels=["status"])
    for each, tables in sorted(Counter(of.status for of in seen.statuses).items()):
        count.add_metric([each], tables)
    yield count


def _of_refreshes(seen: Seen) -> Iterator[Metric]:
    names = {t.id: str(t.name) for t in seen.stream_tables}
    refreshes: Counter[tuple[str, str, str]] = Counter()
    seconds: defaultdict[str, float] = defaultdict(float)
    changed: Counter[tuple[str, str]] = Counter()
    buckets: dict[str, list[int]] = {}
    spent: defaultdict[str, float] = defaultdict(float)
    for group in seen.sums:
        action = group.action or _FAILED
        if group.action is not None and group.action != "SKIP":
            buckets.setdefault(action, [0] * (len(LIMITS) + 1))[group.bucket] += group.refreshes
            spent[action] += group.seconds
        name = None if group.stream_table_id is None else names.get(group.stream_table_id)
        if name is None:
            continue  # dropped: its series would stay for ever
        refreshes[name, action, group.state.lower()] += group.refreshes
        seconds[name] += group.seconds
        changed[name, "inserted"] += group.rows_inserted
        changed[name, "updated"] += group.rows_updated
        changed[name, "deleted"] += group.rows_deleted
    total = CounterMetricFamily("trickle_refreshes", "Refreshes that are over.", labels=["table", "action", "outcome"])
    for key, count in sorted(refreshes.items()):
        total.add_metric(key, count)
    yield total
    took = CounterMetricFamily("trickle_refresh_seconds", "Seconds that refreshes took.", labels=["table"])
    for name, value in sorted(seconds.items()):
        took.add_metric([name], value)
    yield took
    rows = CounterMetricFamily("trickle_rows_changed", "Rows that refreshes changed.", labels=["table", "change"])
    for key_, count in sorted(changed.items()):
        rows.add_metric(key_, count)
    yield rows
    durations = HistogramMetricFamily(
        "trickle_refresh_duration_seconds", "Durations of refreshes of all stream tables.", labels=["action"]
    )
    for action, counts in sorted(buckets.items()):
        durations.add_metric([action], cumulative(counts), spent[action])
    yield durations


def cumulative(counts: Iterable[int]) -> list[tuple[str, float]]:
    """
    >>> cumulative([2, 0, 1] + [0] * 10)[:3]
    [('0.05', 2), ('0.1', 2), ('0.25', 3)]
    """
    total = 0
    found: list[tuple[str, float]] = []
    for limit, count in zip((*map(str, LIMITS), "+Inf"), counts, strict=True):
        total += count
        found.append((limit, total))
    return found


def _of_the_scheduler(seen: Seen) -> Iterator[Metric]:
    def gauge(name: str, says: str, value: float) -> GaugeMetricFamily:
        return GaugeMetricFamily(f"trickle_scheduler_{name}", says, value)

    left = None if seen.lease_expires_at is None else (seen.lease_expires_at - seen.now).total_seconds()
    yield gauge("enabled", "1: the schedules of the lake run.", seen.enabled)
    yield gauge("led", "1: some process follows the schedules.", left is not None and left > 0)
    if left is not None:
        yield gauge("lease_seconds", "Until the scheduler that leads counts as dead, unless it gives a sign.", left)
    if seen.leads is not None:
        yield gauge("leads", "1: this process follows the schedules.", seen.leads)
