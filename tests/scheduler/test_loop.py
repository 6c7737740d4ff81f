"""The scheduler on a real lake: ticks, order, failures, a switch for the lake, two schedulers.

One lake for all: every test leaves its stream tables ACTIVE and equal to their definitions.
"""

from __future__ import annotations

import itertools
import time
from collections.abc import Callable, Iterator
from datetime import UTC, datetime
from typing import TYPE_CHECKING

import pytest

from spark_trickle import Action, RefreshResult, Trickle, TrickleError, connect
from spark_trickle.catalog.alerts import Notice
from spark_trickle.catalog.rows import Alert
from spark_trickle.model import Status, TableName
from spark_trickle.refresh.tick import Tick
from tests.conftest import QUICK

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.spark

A, B, C, D = (TableName("s", n) for n in "abcd")
NAMES = ("s.a", "s.b", "s.c", "s.d", "s.e")
_numbers = itertools.count(100)


@pytest.fixture(scope="module")
def shared(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Trickle]:
    """t -> a -> b -> c, and t -> d -> e, which fails for a zero."""
    del spark
    with connect(tmp_path_factory.mktemp("scheduler") / "lake", lease_seconds=3, **QUICK) as tr:
        tr.sql("CREATE NAMESPACE s")
        tr.sql("USE s")
        tr.sql("CREATE TABLE t (k INT, v INT)")
        tr.sql("INSERT INTO t SELECT id, id + 1 FROM range(40)")
        tr.create_stream_table("s.a", "SELECT k, v FROM t WHERE v > 0", schedule="1s")
        tr.create_stream_table("s.b", "SELECT k, count(*) AS n, sum(v) AS v FROM s.a GROUP BY k", schedule="downstream")
        tr.create_stream_table("s.c", "SELECT max(v) AS top FROM s.b", schedule="2s")
        tr.create_stream_table("s.d", "SELECT k, 10 DIV v AS v FROM t", schedule="1s")
        tr.create_stream_table("s.e", "SELECT sum(v) AS v FROM s.d", schedule="1s")
        yield tr


@pytest.fixture
def lake(shared: Trickle) -> Iterator[Trickle]:
    shared.refresh(list(NAMES))
    yield shared
    shared.stop()
    assert {s.status for s in shared.status()} == {Status.ACTIVE}
    for name in NAMES:
        found = shared.verify(name)
        assert found.equal, found


def insert(tr: Trickle) -> int:
    """A row with a value above all others."""
    n = next(_numbers)
    tr.sql(f"INSERT INTO s.t VALUES ({n}, {n})")
    return n


def top(tr: Trickle) -> int:
    return int(tr.spark.table("lake.s.c").first()[0])


def count(tr: Trickle, name: str) -> int:
    return int(tr.spark.table(f"lake.s.{name}").count())


def alerts(tr: Trickle) -> list[Alert]:
    """Those of d that do not depend on how fast this machine is: a period is a second."""
    return [a for a in tr.alerts(name="s.d") if a.kind != "STALE"]


def wait(seconds: float, done: Callable[[], object]) -> None:
    end = time.monotonic() + seconds
    while not done():
        assert time.monotonic() < end, "it did not happen in time"
        time.sleep(0.1)


# -- a tick ------------------------------------------------------------------------------------------------------------


def test_a_tick_is_one_cut(lake: Trickle) -> None:
    first = insert(lake)
    tick = Tick.begin(lake.refresher, [A, B, C], "schedule")
    assert tick.todo == ((A,), (B,), (C,))
    assert [tick.upstream_of(unit) for unit in tick.todo] == [(), ((A,),), ((B,),)]
    second = insert(lake)  # after the cut: none of them sees it
    actions = [result.action for unit in tick.todo for result in tick.refresh(unit)]
    assert actions[0] is Action.DIFFERENTIAL
    assert Action.NO_DATA not in actions
    tick.end()
    assert top(lake) == first
    assert {s.data_timestamp for s in lake.status() if s.name in NAMES[:3]} == {tick.cut.instant}
    for name in NAMES[:3]:
        assert lake.verify(name).equal
    again = Tick.begin(lake.refresher, [A, B, C], "schedule")
    for unit in again.todo:
        again.refresh(unit)
    assert top(lake) == second


def test_nothing_to_do_is_recorded_for_all_at_once(lake: Trickle) -> None:
    tick = Tick.begin(lake.refresher, [A, B, C, D], "schedule")
    assert tick.todo == ()
    assert [(r.name, r.action) for r in tick.idle] == [(f"s.{n}", Action.NO_DATA) for n in "abcd"]
    assert {s.data_timestamp for s in lake.status() if s.name != "s.e"} == {tick.cut.instant}
    assert {h.initiated_by for h in lake.history(limit=4)} == {"schedule"}


def test_what_somebody_else_refreshes_is_left_out(lake: Trickle) -> None:
    insert(lake)
    table = lake.store.stream_table(A)
    assert table is not None
    with lake.refresher.heartbeat.holding([f"stream_table:{table.id}"], 0):
        tick = Tick.begin(lake.refresher, [A, B, C, D], "schedule")
    assert tick.todo == ((D,),)  # b and c wait for a
    assert tick.idle == ()
    tick.abandon((D,))
    assert lake.refresh("s.d").rows_inserted == 1  # its lease is free


# -- the loop ----------------------------------------------------------------------------------------------------------


def test_tables_keep_themselves_fresh(lake: Trickle) -> None:
    heard: list[RefreshResult | TrickleError] = []
    before = count(lake, "d")
    lake.start(heard.append)
    n = insert(lake)
    wait(120, lambda: top(lake) == n and count(lake, "d") == before + 1)
    lake.sql(f"DELETE FROM s.t WHERE k = {n}")
    wait(120, lambda: top(lake) < n and count(lake, "d") == before)
    lake.stop()
    assert not any(isinstance(h, TrickleError) for h in heard), heard
    last = lake.history(limit=1)[0].refresh_id
    time.sleep(1.5)
    assert lake.history(limit=1)[0].refresh_id == last  # it has stopped


def test_a_failing_one_is_suspended_its_consumers_are_skipped_and_others_go_on(
    lake: Trickle, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("spark_trickle.scheduler.decide.FIRST_RETRY", 0.1)
    lake.sql("INSERT INTO s.t VALUES (-1, 0)")  # 10 DIV 0
    n = insert(lake)
    heard: list[Notice] = []
    lake.start(on_alert=heard.append)
    wait(180, lambda: lake.status("s.d")[0].status is Status.SUSPENDED)
    wait(60, lambda: top(lake) == n)
    wait(60, lambda: lake.history("s.e", limit=1)[0].action is Action.SKIP)
    assert "s.d" in str(lake.history("s.e", limit=1)[0].reason)
    assert "DIVIDE_BY_ZERO" in str(lake.status("s.d")[0].last_error)
    assert [(a.kind, a.occurrences) for a in alerts(lake)] == [("SUSPENDED", 1), ("REFRESH_FAILED", 3)]
    assert {a.name for a in lake.alerts(open_only=True, kind="suspended")} == {"s.d"}
    lake.sql("DELETE FROM s.t WHERE v = 0")
    lake.sql("ALTER STREAM TABLE s.d RESUME")
    rows = count(lake, "t")
    wait(120, lambda: count(lake, "d") == rows and not lake.status("s.e")[0].pending)
    assert [(a.kind, a.state) for a in alerts(lake)] == [
        (kind, "resolved") for kind in ("RESUMED", "SUSPENDED", "REFRESH_FAILED")
    ]
    wait(10, lambda: "RESUMED" in {h.alert.kind for h in heard})
    assert [(h.event, h.alert.kind) for h in heard if h.alert.name == "s.d" and h.alert.kind != "STALE"] == [
        ("raised", "REFRESH_FAILED"),
        ("raised", "SUSPENDED"),
        ("resolved", "REFRESH_FAILED"),
        ("raised", "RESUMED"),
    ]


def test_suspend_resume_and_the_switch_of_the_lake(lake: Trickle) -> None:
    lake.suspend("s.a")
    lake.set_enabled(False)
    before, rows, others = lake.history(limit=1)[0].refresh_id, count(lake, "a"), count(lake, "d")
    n = insert(lake)
    assert lake._scheduler.step(datetime.now(UTC)) > 0
    assert lake.history(limit=1)[0].refresh_id == before
    lake.set_enabled(True)
    lake.start()
    wait(120, lambda: count(lake, "d") == others + 1)
    wait(60, lambda: lake.history("s.c", limit=1)[0].action is Action.SKIP)
    assert count(lake, "a") == rows
    lake.resume("s.a")
    wait(120, lambda: top(lake) == n)
    lake.stop()
    # A refresh by hand brings a suspended one back, too.
    lake.sql("ALTER STREAM TABLE s.a SUSPEND")
    assert lake.status("s.a")[0].status is Status.SUSPENDED
    lake.refresh("s.a")
    assert lake.status("s.a")[0].status is Status.ACTIVE
    with pytest.raises(TrickleError, match="no stream table"):
        lake.suspend("s.nope")


def test_one_leads_and_the_other_takes_over(lake: Trickle) -> None:
    with connect(lake.settings.location, lease_seconds=3, **QUICK) as other:
        lake.start()
        wait(30, lambda: lake._scheduler.leads)
        other.start()
        time.sleep(2)
        assert not other._scheduler.leads
        # It goes silent, as a process that was paused: its leases expire, and what it publishes is refused.
        lake.refresher.heartbeat.stop()
        wait(60, lambda: other._scheduler.leads)
        wait(30, lambda: not lake._scheduler.leads)
        n = insert(other)
        wait(120, lambda: top(other) == n)
        lake.stop()
        other.stop()
    lake.refresher.heartbeat.start()


def test_settings_change_while_it_runs(lake: Trickle) -> None:
    file = lake.settings.location / "trickle.toml"
    file.write_text('max_concurrent_refreshes = 1\ndefault_schedule = "9s"\n', encoding="utf-8")
    assert set(lake.reload_settings()) == {"max_concurrent_refreshes", "default_schedule"}
    assert lake.settings.default_schedule == "9s"
    lake.start()
    n = insert(lake)
    wait(120, lambda: top(lake) == n)
    assert lake._scheduler._workers == 1
    assert lake.alerts(kind="refresh_completed") == ()
    file.write_text('max_concurrent_refreshes = 3\nalert_completed = ["s.c", "x.*"]\n', encoding="utf-8")
    wait(20, lambda: lake.settings.max_concurrent_refreshes == 3)  # the file is looked at
    n = insert(lake)
    wait(120, lambda: top(lake) == n)
    lake.stop()
    assert lake._scheduler._workers == 3
    assert {(a.name, a.state) for a in lake.alerts(kind="refresh_completed")} == {("s.c", "resolved")}
