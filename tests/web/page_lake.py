"""A lake for the page: a real catalog with a history, and in place of Spark what would be written after a refresh."""

from __future__ import annotations

import json
import random
import time
from datetime import UTC, datetime, timedelta
from typing import Any

from sqlalchemy import insert

from spark_trickle.catalog import controls, tables
from spark_trickle.catalog.leases import acquire
from spark_trickle.catalog.owner import Owner
from spark_trickle.catalog.store import CatalogStore
from spark_trickle.config import Settings
from spark_trickle.errors import TrickleError
from spark_trickle.lake.table_history import Commit, TableHistory
from spark_trickle.model import Action, Dependency, InputKind, Status, TableName, UsedColumn
from spark_trickle.monitor import status as monitor
from spark_trickle.monitor.health import Health, health
from spark_trickle.monitor.pending import PendingInput, SourceState, pending, source_states
from spark_trickle.results import Description, Explanation, RefreshResult, StreamTableStatus, Verification
from spark_trickle.scheduler.decide import ENABLED, LEASE
from spark_trickle.statements.names import parse_name
from tests.catalog.records import add_revenue, table_pointer

SQL = "SELECT region, sum(amount) AS total\nFROM {0}\nGROUP BY region"


class PageLake:
    """The methods of `Trickle` that the page calls."""

    def __init__(self, store: CatalogStore, settings: Settings) -> None:
        self.store, self.settings = store, settings
        self.fails: TrickleError | None = None  # what the next refresh raises
        self.seconds = 0.0  # that a refresh takes
        self.explained = 0

    def health(self) -> Health:
        return health(self.store, self.settings, self.commits)

    def pending(self, name: str) -> tuple[PendingInput, ...]:
        return pending(self.store, self.commits, self._name(name))

    def source_states(self) -> tuple[SourceState, ...]:
        return source_states(self.store, self.commits)

    @staticmethod
    def commits(location: str) -> TableHistory:
        """The table at a pointer of `table_pointer`: a commit for each version."""
        head = int(location[-10:-5])
        ago = datetime.now(UTC) - timedelta(seconds=14)
        return TableHistory(
            "iceberg v3",
            "",
            head,
            {n: Commit(n, n - 1 or None, ago, "append", 120, 4, rows=1_000_000 + n) for n in range(1, head + 1)},
            frozenset(range(1, head + 1)),
        )

    def status(self) -> tuple[StreamTableStatus, ...]:
        return monitor.status(self.store, self.settings)

    def describe(self, name: str) -> Description:
        return monitor.describe(self.store, self._name(name))

    def set_enabled(self, enabled: bool) -> None:
        with self.store.write() as tx:
            tx.put_setting(ENABLED, "true" if enabled else "false")

    def suspend(self, name: str) -> None:
        controls.suspend(self.store, self._name(name), 5)

    def resume(self, name: str) -> None:
        controls.resume(self.store, self._name(name), 5)

    def refresh(self, name: str) -> RefreshResult:
        time.sleep(self.seconds)
        if self.fails is not None:
            raise self.fails
        refreshed(self.store, str(self._name(name)), reason="CHANGE_RATIO: 3 of 1000 rows changed, at most 15 %")
        return RefreshResult(str(self._name(name)), Action.DIFFERENTIAL, "CHANGE_RATIO: few", 3, 0, 1, 0.25)

    def verify(self, name: str) -> Verification:
        return Verification(str(self._name(name)), True, 120, 0, 0, 0.5)

    def explain(self, name: str) -> Explanation:
        self.explained += 1
        table = self.store.find(self._name(name))
        tree = "Aggregate(region; total = sum(amount))\n  Scan(shop.orders)"
        return Explanation(
            str(table.name), table.definition, True, None, "region", tree, "SELECT 1", "SELECT 2",
            Action.NO_DATA, "NO_CHANGE: no input changed since the last refresh", ("a notice <b>",),
        )  # fmt: skip

    def _name(self, name: str) -> TableName:
        return parse_name(name, lambda: "default")

    # -- what happens in the lake ----------------------------------------------------------------------------------

    def add(
        self,
        name: str | TableName,
        reads: list[str | TableName],
        *,
        lag: float = 0,
        schedule: str | None = "1m",
        status: Status = Status.ACTIVE,
        **more: Any,
    ) -> int:
        """A stream table whose content is `lag` seconds old; what it reads and is not there becomes a source."""
        full = TableName.of(name) if isinstance(name, str) else name
        inputs = [TableName.of(r) if isinstance(r, str) else r for r in reads]
        known = {t.name for t in self.store.stream_tables()}
        at = None if status is Status.INITIALIZING else datetime.now(UTC) - timedelta(seconds=lag)
        values = {"definition": SQL.format(inputs[0] if inputs else "range(9)"), "published_snapshot": 1} | more
        with self.store.write() as tx:
            id_ = add_revenue(tx, name=full, schedule=schedule, status=status, data_timestamp=at, **values)
            there = self.store.pointers()
            for each in (*inputs, full):
                if each not in there:
                    tx.insert_pointer(table_pointer(each))
            tx.set_dependencies(
                id_,
                [
                    Dependency(
                        each,
                        InputKind.STREAM_TABLE if each in known else InputKind.SOURCE,
                        (UsedColumn("region", "string", 1), UsedColumn("amount", "decimal(12,2)", 2)),
                        snapshot_id=int((there.get(each) or table_pointer(each)).location[-10:-5]),
                        pointer=(there.get(each) or table_pointer(each)).location,
                    )
                    for each in inputs
                ],
            )
        return id_

    def change(self, name: str | TableName) -> None:
        """Somebody commits to a table."""
        full = TableName.of(name) if isinstance(name, str) else name
        old = self.store.pointers()[full].location
        with self.store.write() as tx:
            tx.swap_pointer(full, old, table_pointer(full, 1 + int(old[-10:-5])).location)

    def fail(self, name: str, error: TrickleError, times: int = 1, suspend: bool = False) -> None:
        table = self.store.find(TableName.of(name))
        for _ in range(times):
            record(
                self.store,
                name,
                None,
                state="FAILED",
                seconds=0.8,
                error_code=error.code,
                error=error.message,
                reason=None,
            )
        with self.store.write() as tx:
            status = Status.SUSPENDED if suspend else table.status
            tx.update_stream_table(table.id, consecutive_errors=times, last_error=str(error), status=status)
            if suspend:
                message = f"{name} is suspended after {times} failures in a row: {error.message}"
                tx.alerts.raise_("SUSPENDED", message, name)

    def led(self) -> None:
        acquire(self.store, [LEASE], Owner.here(), ttl_seconds=3600, wait_seconds=0)


def begin(store: CatalogStore, name: str, ago: float = 0) -> None:
    """A refresh that runs, with its lease."""
    id_ = store.find(TableName.of(name)).id
    acquire(store, [f"stream_table:{id_}"], Owner.here(), ttl_seconds=3600, wait_seconds=0)
    record(store, name, None, ago, state="RUNNING")


def record(store: CatalogStore, name: str, action: str | None, ago: float = 0, **more: Any) -> None:
    """A row of the history that ended some seconds ago; state RUNNING: that began then."""
    id_ = store.find(TableName.of(name)).id
    ended = datetime.now(UTC) - timedelta(seconds=ago)
    took = more.get("seconds", 0.2)
    running = more.get("state") == "RUNNING"
    values = {
        "refresh_id": f"r{time.perf_counter_ns()}",
        "stream_table_id": id_,
        "name": name,
        "state": "COMPLETED",
        "action": action,
        "reason": "CHANGE_RATIO: 12 of 1,000 rows changed, at most 15 %",
        "initiated_by": "schedule",
        "started_at": ended if running else ended - timedelta(seconds=took),
        "ended_at": None if running else ended,
        "seconds": None if running else took,
        "rows_inserted": 3 if action == "DIFFERENTIAL" else 0,
        "rows_updated": 2 if action == "DIFFERENTIAL" else 0,
        "rows_deleted": 0,
        "rows_changed": json.dumps({"shop.orders": 12} if action == "DIFFERENTIAL" else {}),
        "stages": json.dumps({"feed": took * 0.3, "compute": took * 0.5, "publish": took * 0.2} if action else {}),
    } | more
    with store.write() as tx:
        tx.connection.execute(insert(tables.refresh_history).values(**values))


def refreshed(store: CatalogStore, name: str, **more: Any) -> None:
    """A refresh by hand that saw everything."""
    table = store.find(TableName.of(name))
    record(store, name, "DIFFERENTIAL", initiated_by="manual", **more)
    now = store.pointers()
    with store.write() as tx:
        seen = [
            Dependency(d.input, d.kind, d.columns, snapshot_id=int((at := now[d.input].location)[-10:-5]), pointer=at)
            for d in table.dependencies
        ]
        tx.set_dependencies(table.id, seen)
        tx.update_stream_table(
            table.id, data_timestamp=datetime.now(UTC), consecutive_errors=0, last_error=None, status=Status.ACTIVE
        )


def many(store: CatalogStore, n: int, refreshes: int = 0) -> None:
    source = TableName("s", "src")
    now = datetime.now(UTC)
    with store.write() as tx:
        tx.insert_pointer(table_pointer(source))
        for k in range(n):
            name = TableName("s", f"t{k:03}")
            id_ = add_revenue(tx, name=name, status=Status.ACTIVE, data_timestamp=now, published_snapshot=1)
            tx.set_dependencies(id_, [Dependency(source, InputKind.SOURCE, pointer=table_pointer(source).location)])
        for k in range(refreshes):
            row: dict[str, Any] = dict.fromkeys(("rows_inserted", "rows_updated", "rows_deleted"), 1)
            row |= {
                "rows_changed": "{}",
                "stages": "{}",
                "initiated_by": "schedule",
                "started_at": now,
                "ended_at": now,
            }
            row |= {"seconds": 0.2, "state": "COMPLETED", "action": "DIFFERENTIAL"}
            ids = [
                {**row, "refresh_id": f"{k}.{i}", "stream_table_id": i, "name": f"s.t{i - 1:03}"}
                for i in range(1, n + 1)
            ]
            tx.connection.execute(insert(tables.refresh_history), ids)


def shop(store: CatalogStore, settings: Settings) -> PageLake:
    """A dozen stream tables in a DAG of depth 4, of which some are in trouble."""
    lake, r = PageLake(store, settings), random.Random(7)
    lake.led()
    lake.add("shop.orders_clean", ["shop.orders"], schedule="30s")
    lake.add("shop.clicks_clean", ["web.clicks"], schedule="10s", lag=4)
    lake.add("shop.lines_priced", ["shop.orders_clean", "shop.lines", "shop.prices"])
    lake.add("shop.customers_eu", ["crm.customers"], schedule="1h", lag=900)
    lake.add("shop.sessions", ["shop.clicks_clean"], lag=40)
    lake.add("shop.revenue_by_day", ["shop.lines_priced"], lag=200)
    lake.add("shop.revenue_by_region", ["shop.lines_priced", "shop.customers_eu"], lag=500)
    lake.add("shop.top_customers", ["shop.revenue_by_region"], schedule="downstream", lag=500)
    lake.add("shop.conversion", ["shop.sessions", "shop.orders_clean"], lag=45, schedule="5m")
    lake.add("finance.month_end", ["shop.revenue_by_day", "shop.revenue_by_region"], schedule="0 6 * * *", lag=500)
    lake.add("finance.audit", ["shop.lines_priced"], schedule="manual", incremental=False, reason="VOLATILE: rand()")
    lake.add("ops.new_report", ["shop.sessions"], status=Status.INITIALIZING, published_snapshot=None)
    for table in store.stream_tables():
        if table.status is Status.ACTIVE:
            scale = r.choice((0.05, 0.3, 2.0))
            record(store, str(table.name), "FULL", 1500, seconds=scale * 4, reason="INITIAL: first refresh")
            for n in range(34):
                seconds = scale * r.uniform(0.6, 1.6)
                action = "NO_DATA" if r.random() < 0.3 else "DIFFERENTIAL"
                record(store, str(table.name), action, 1400 - 40 * n, seconds=0.003 if action == "NO_DATA" else seconds)
    lake.change("web.clicks")
    lake.change("shop.lines_priced")
    begin(store, "shop.clicks_clean", 3)
    error = TrickleError(
        "EVALUATION_FAILED", "[CAST_INVALID_INPUT] the value 'n/a' of type STRING cannot be cast to DECIMAL(12,2)"
    )
    lake.fail("shop.revenue_by_region", error, times=3, suspend=True)
    return lake
