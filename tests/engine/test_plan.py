"""A dry run says what a refresh would do, and does nothing."""

from __future__ import annotations

import pytest

from spark_trickle import Action, Trickle, TrickleError
from spark_trickle.results import PlannedRefresh

pytestmark = pytest.mark.spark

NESTED = "SELECT n, count(*) AS c FROM (SELECT k, count(*) AS n FROM s.src GROUP BY k) GROUP BY n"


@pytest.fixture(scope="module")
def lake(module_tr: Trickle) -> Trickle:
    tr = module_tr
    tr.sql("CREATE TABLE s.src (id BIGINT, k STRING)")
    tr.sql("INSERT INTO s.src SELECT id, concat('k', id % 4) FROM range(100)")
    tr.create_stream_table("s.copy", "SELECT id, k FROM s.src")
    tr.create_stream_table("s.above", "SELECT k, count(*) AS n FROM s.copy GROUP BY k")
    tr.create_stream_table("s.nested", NESTED)
    tr.create_stream_table("s.sampled", "SELECT id FROM s.src TABLESAMPLE (100 PERCENT)")
    return tr


def planned(tr: Trickle, name: str, mode: str | None = None) -> PlannedRefresh:
    """The dry run of a refresh, after which nothing is other than before."""
    before = (tr.store.pointers(), tr.history(limit=1000), tr.store.stream_tables())
    found = tr.plan(name, mode)[-1]
    assert (tr.store.pointers(), tr.history(limit=1000), tr.store.stream_tables()) == before
    return found


def test_a_plan_is_what_then_happens(lake: Trickle) -> None:
    assert planned(lake, "s.copy").action is Action.NO_DATA
    assert planned(lake, "s.copy", "full").action is Action.FULL
    for change, rows in (
        ("INSERT INTO s.src VALUES (200, 'k1'), (201, 'new')", 2),
        ("DELETE FROM s.src WHERE id = 7", 1),
        ("UPDATE s.src SET k = 'all'", 202),
    ):
        lake.sql(change)
        plan = planned(lake, "s.copy")
        assert plan.rows_changed == {"s.src": rows}
        assert plan.sql is not None
        assert plan.expected_seconds is None or plan.expected_seconds > 0
        others = {"s.sampled": planned(lake, "s.sampled")}
        assert "hidden state tables changed" in planned(lake, "s.nested").reason
        done = lake.refresh("s.copy")
        assert (done.action, done.reason) == (plan.action, plan.reason)
        assert str(plan.action) in str(plan)
        for name, other in others.items():
            assert lake.refresh(name).action is other.action, name
    assert plan.action is Action.FULL
    assert "CHANGE_RATIO" in plan.reason


def test_upstream_comes_first(lake: Trickle) -> None:
    lake.refresh("s.above")
    lake.sql("INSERT INTO s.src VALUES (300, 'k1')")
    first, second = lake.plan("s.above")
    assert [first.name, second.name] == ["s.copy", "s.above"]
    assert first.action is Action.DIFFERENTIAL
    assert second.reason.startswith("UPSTREAM: s.copy")
    assert [p.name for p in lake.plan(["s.above"], upstream=False)] == ["s.above"]
    assert lake.refresh("s.above").action in (Action.DIFFERENTIAL, Action.FULL)


def test_what_would_be_refused(lake: Trickle) -> None:
    lake.create_stream_table("s.strict", "SELECT id FROM s.src", mode="differential")
    lake.spark.sql("DELETE FROM s.strict WHERE id = 1")
    plan = planned(lake, "s.strict")
    assert (plan.action, plan.reason.split(":")[0]) == (Action.SKIP, "INTEGRITY")
    assert lake.explain("s.strict").next_reason == plan.reason
    with pytest.raises(TrickleError, match=r"there is no stream table s\.nothing"):
        lake.plan("s.nothing")
