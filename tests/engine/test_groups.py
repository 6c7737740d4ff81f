"""Diamonds: their members are published together or not at all (docs/groups.md)."""

from __future__ import annotations

import pytest

from spark_trickle import Action, Trickle, TrickleError
from spark_trickle.model import SchedulePolicy, Status

BROKEN = "SELECT k, sum(10 / v) AS n FROM s.a GROUP BY k"  # fails for v = 0


@pytest.fixture
def lake(tr: Trickle) -> Trickle:
    tr.sql("CREATE TABLE s.a (k STRING, v INT)")
    tr.sql("INSERT INTO s.a SELECT 'w', 1 FROM range(50)")  # else a change of one row is a large part of it
    tr.sql("INSERT INTO s.a VALUES ('x', 1), ('x', 2), ('y', 5)")
    return tr


def diamond(
    tr: Trickle, c: str = "SELECT k, count(*) AS n FROM s.a GROUP BY k", settings: dict[str, str] | None = None
) -> None:
    tr.create_stream_table("s.b", "SELECT k, sum(v) AS total FROM s.a GROUP BY k", mode="differential")
    tr.create_stream_table("s.c", c, mode="differential")
    d = "SELECT b.k, b.total, c.* EXCEPT (k) FROM s.b b JOIN s.c c ON b.k = c.k"
    tr.create_stream_table("s.d", d, mode="differential", settings=settings)


def actions(tr: Trickle, *names: str) -> list[Action | None]:
    return [tr.history(n, limit=1)[0].action for n in names]


def epochs(tr: Trickle, *names: str) -> list[int | None]:
    return [tr.history(n, limit=1)[0].group_epoch for n in names]


ALL = ("s.b", "s.c", "s.d")


def test_one_refresh_of_a_member_publishes_all(lake: Trickle) -> None:
    diamond(lake)
    (group,) = lake.groups()
    assert group.members == ALL
    assert group.fan_ins == ("s.d",)
    assert group.paths == ("s.a -> s.b -> s.d", "s.a -> s.c -> s.d")
    assert (group.epoch, group.last_state) == (1, "COMPLETED"), "its fan-in was created with it"
    lake.sql("INSERT INTO s.a VALUES ('x', 3)")
    result = lake.refresh("s.b")
    assert (result.name, result.action) == ("s.b", Action.DIFFERENTIAL)
    assert actions(lake, *ALL) == [Action.DIFFERENTIAL] * 3
    assert epochs(lake, *ALL) == [2, 2, 2]
    assert lake.groups("s.c") == lake.groups()
    assert lake.groups()[0].epoch == 2
    assert all(lake.verify(n).equal for n in ALL)
    assert lake.refresh("s.d", upstream=False).action is Action.NO_DATA
    assert lake.groups()[0].epoch == 2, "nothing was published"


def test_one_that_fails_takes_all_back(lake: Trickle) -> None:
    diamond(lake, BROKEN)
    before = {n: lake.sql(f"SELECT * FROM {n} ORDER BY k").collect() for n in ALL}
    lake.sql("INSERT INTO s.a VALUES ('x', 0)")
    with pytest.raises(TrickleError, match=r"s\.c") as error:
        lake.refresh("s.d")
    assert error.value.code == "EVALUATION_FAILED"
    assert {n: lake.sql(f"SELECT * FROM {n} ORDER BY k").collect() for n in ALL} == before
    b, c, d = (lake.history(n, limit=1)[0] for n in ALL)
    assert (c.state, c.action, c.error_code) == ("FAILED", None, "EVALUATION_FAILED")
    for other in (b, d):
        assert (other.state, other.action) == ("COMPLETED", Action.SKIP)
        assert (other.reason or "").startswith("GROUP_FAILED: it is published together with s.c, which failed")
    assert [s.last_error is None for s in lake.status()] == [True, False, True], "the error is on the one that failed"
    (group,) = lake.groups()
    assert (group.epoch, group.last_state) == (1, "FAILED")
    assert "s.c" in (group.last_error or "")
    assert {a.kind for a in lake.alerts()} >= {"GROUP_FAILED"}
    lake.sql("DELETE FROM s.a WHERE v = 0")
    lake.sql("INSERT INTO s.a VALUES ('y', 2)")
    lake.refresh("s.d")
    assert epochs(lake, *ALL) == [2, 2, 2]
    assert all(lake.verify(n).equal for n in ALL)
    assert not [a for a in lake.alerts() if a.kind == "GROUP_FAILED" and a.state == "open"]


def test_none_refreshes_each_by_itself(lake: Trickle) -> None:
    diamond(lake, BROKEN, settings={"diamond_consistency": "none"})
    assert lake.groups() == ()
    lake.sql("INSERT INTO s.a VALUES ('x', 0)")
    assert lake.refresh("s.b").action is Action.DIFFERENTIAL, "s.c does not hinder it"
    with pytest.raises(TrickleError, match=r"s\.c"):
        lake.refresh("s.d")
    assert lake.refresh("s.d", upstream=False).action is Action.DIFFERENTIAL, "with s.c as it is"
    assert "diamond_consistency = none" in str(lake.describe("s.d"))
    lake.alter_stream_table("s.d", settings={"diamond_consistency": "atomic"})
    assert [g.members for g in lake.groups()] == [ALL]
    lake.alter_stream_table("s.d", settings={"diamond_consistency": "default"})
    assert [g.members for g in lake.groups()] == [ALL]
    lake.sql("ALTER STREAM TABLE s.c SET ('diamond_consistency' = 'none')")
    assert lake.groups() == ()


def test_a_bad_policy_is_refused(lake: Trickle) -> None:
    with pytest.raises(TrickleError, match="is not one of atomic, none, default"):
        lake.create_stream_table("s.b", "SELECT k FROM s.a", settings={"diamond_consistency": "maybe"})
    lake.create_stream_table("s.b", "SELECT k FROM s.a")
    with pytest.raises(TrickleError, match="is not one of fastest, slowest, default"):
        lake.alter_stream_table("s.b", settings={"diamond_schedule_policy": "soon"})


def test_one_is_recomputed_while_others_are_differential(lake: Trickle) -> None:
    diamond(lake)
    lake.alter_stream_table("s.c", mode="full")
    lake.sql("INSERT INTO s.a VALUES ('x', 4)")
    lake.refresh("s.d")
    assert actions(lake, *ALL) == [Action.DIFFERENTIAL, Action.FULL, Action.DIFFERENTIAL]
    assert epochs(lake, *ALL) == [2, 2, 2]
    assert all(lake.verify(n).equal for n in ALL)


def test_a_chain_is_no_group(lake: Trickle) -> None:
    lake.create_stream_table("s.b", "SELECT k, v FROM s.a")
    lake.create_stream_table("s.c", BROKEN.replace("s.a", "s.b"))
    lake.sql("INSERT INTO s.a VALUES ('x', 0)")
    with pytest.raises(TrickleError, match=r"s\.c"):
        lake.refresh("s.c")
    assert lake.history("s.b", limit=1)[0].action is Action.DIFFERENTIAL, "published before"
    assert epochs(lake, "s.b") == [None]
    assert lake.groups() == ()


def test_a_member_with_nothing_to_do(lake: Trickle) -> None:
    """Its content is that of the cut already; the group is published all the same."""
    lake.sql("CREATE TABLE s.other (k STRING, w INT)")
    lake.create_stream_table("s.b", "SELECT k, sum(v) AS total FROM s.a GROUP BY k")
    lake.create_stream_table("s.c", "SELECT a.k, o.w FROM s.a a JOIN s.other o ON a.k = o.k")
    lake.create_stream_table("s.d", "SELECT b.k, b.total, c.w FROM s.b b JOIN s.c c ON b.k = c.k")
    lake.sql("INSERT INTO s.other VALUES ('x', 1)")
    lake.refresh("s.d")
    assert [lake.history(n, limit=1)[0].group_epoch for n in ("s.c", "s.d")] == [2, 2]
    assert lake.history("s.b", limit=1)[0].action is not Action.DIFFERENTIAL
    assert all(lake.verify(n).equal for n in ALL)


def test_what_is_created_joins_at_one_cut(lake: Trickle) -> None:
    """Its group is refreshed with it: s.d never shows an old s.b beside a new s.c."""
    lake.create_stream_table("s.b", "SELECT k, sum(v) AS total FROM s.a GROUP BY k")
    lake.sql("INSERT INTO s.a VALUES ('z', 7)")
    lake.create_stream_table("s.c", "SELECT k, sum(v) AS total FROM s.a GROUP BY k")
    lake.create_stream_table("s.d", "SELECT b.k, b.total = c.total AS same FROM s.b b FULL JOIN s.c c ON b.k = c.k")
    assert {r.same for r in lake.sql("SELECT * FROM s.d").collect()} == {True}
    assert lake.sql("SELECT * FROM s.d").count() == 4
    assert epochs(lake, "s.b", "s.d") == [1, 1]
    assert all(lake.verify(n).equal for n in ALL)


def test_what_is_altered_takes_its_group_along(lake: Trickle) -> None:
    diamond(lake)
    lake.sql("INSERT INTO s.a VALUES ('z', 7)")
    lake.alter_stream_table("s.b", "SELECT k, max(v) AS total FROM s.a GROUP BY k")
    assert epochs(lake, *ALL) == [2, 2, 2]
    rows = sorted(tuple(r) for r in lake.sql("SELECT k, total, n FROM s.d").collect())
    assert rows == [("w", 1, 50), ("x", 2, 2), ("y", 5, 1), ("z", 7, 1)]
    assert all(lake.verify(n).equal for n in ALL)
    with pytest.raises(TrickleError, match=r"s\.d"):  # it is no longer what s.d can be made of
        lake.alter_stream_table("s.b", "SELECT k FROM s.a")
    assert {(str(s.status), s.last_error) for s in lake.status() if s.name != "s.b"} == {("ACTIVE", None)}
    assert lake.groups()[0].last_state == "COMPLETED", "what is refused is no failure of the group"
    assert not [h for h in lake.history() if h.state == "RUNNING"]
    assert "max(v)" in lake.describe("s.b").definition
    assert all(lake.verify(n).equal for n in ALL)


def test_dropped_and_made_again(lake: Trickle) -> None:
    diamond(lake)
    lake.drop_stream_table("s.d")
    assert lake.groups() == ()
    lake.sql("INSERT INTO s.a VALUES ('x', 3)")
    assert lake.refresh("s.b").action is Action.DIFFERENTIAL
    assert epochs(lake, "s.b") == [None]
    lake.create_stream_table("s.d", "SELECT b.k FROM s.b b JOIN s.c c ON b.k = c.k")
    assert [g.members for g in lake.groups()] == [ALL]
    assert lake.verify("s.d").equal


def test_nested_diamonds_are_one_group(lake: Trickle) -> None:
    diamond(lake)
    lake.create_stream_table("s.e", "SELECT k, min(v) AS least FROM s.a GROUP BY k")
    lake.create_stream_table("s.f", "SELECT d.k, d.total, e.least FROM s.d d JOIN s.e e ON d.k = e.k")
    (group,) = lake.groups()
    assert sorted(group.members) == ["s.b", "s.c", "s.d", "s.e", "s.f"]
    lake.sql("INSERT INTO s.a VALUES ('x', 9)")
    lake.refresh("s.e")
    assert set(epochs(lake, *group.members)) == {lake.groups()[0].epoch}
    assert all(lake.verify(n).equal for n in group.members)


def test_by_schedule(lake: Trickle) -> None:
    """One tick, one publish; a suspended member holds the others."""
    diamond(lake, BROKEN, settings={"diamond_schedule_policy": "slowest"})
    assert lake.describe("s.d").diamond_schedule_policy is SchedulePolicy.SLOWEST
    assert lake.groups()[0].schedule_policy is SchedulePolicy.FASTEST, "all members have to agree"
    for name in ("s.b", "s.c"):
        lake.alter_stream_table(name, settings={"diamond_schedule_policy": "slowest"})
    assert lake.groups()[0].schedule_policy is SchedulePolicy.SLOWEST
    from spark_trickle.refresh.tick import Tick

    lake.sql("INSERT INTO s.a VALUES ('x', 3)")
    names = [lake.store.find(lake._name(n)).name for n in ALL]
    tick = Tick.begin(lake.refresher, names, "schedule")
    assert tick.todo == (tuple(names),)
    assert [r.action for r in tick.refresh(tick.todo[0])] == [Action.DIFFERENTIAL] * 3
    tick.end()
    assert set(epochs(lake, *ALL)) == {2}
    lake.sql("INSERT INTO s.a VALUES ('x', 3)")
    alone = Tick.begin(lake.refresher, names[:1], "schedule")
    assert (alone.todo, alone.idle) == ((), ()), "not without the others"
    lake.suspend("s.c")
    partly = Tick.begin(lake.refresher, names, "schedule")
    assert (partly.todo, partly.idle) == ((), ())
    assert {s.name: s.status for s in lake.status()}["s.c"] is Status.SUSPENDED


def test_what_is_created_and_fails_leaves_nothing(lake: Trickle) -> None:
    """Its group was staged before it."""
    diamond(lake)
    lake.sql("INSERT INTO s.a VALUES ('x', 0)")
    before = lake.groups()
    with pytest.raises(TrickleError, match="DIVIDE_BY_ZERO"):
        lake.create_stream_table("s.e", "SELECT b.k, 10 / (b.total - b.total) AS n FROM s.b b JOIN s.c c ON b.k = c.k")
    assert lake.groups() == before
    assert not [h for h in lake.history() if h.state == "RUNNING"]
    assert {s.last_error for s in lake.status()} == {None}
    assert not lake.alerts()
    lake.refresh("s.d")
    assert all(lake.verify(n).equal for n in ALL)


def test_full_is_for_the_whole_group(lake: Trickle) -> None:
    diamond(lake)
    assert lake.refresh("s.b", "full").action is Action.FULL
    assert actions(lake, *ALL) == [Action.FULL] * 3


def test_a_member_that_joins_while_a_refresh_waits(lake: Trickle) -> None:
    """It is refreshed with the group that there is when its turn comes."""
    import threading

    lake.create_stream_table("s.b", "SELECT k, sum(v) AS total FROM s.a GROUP BY k")
    lake.create_stream_table("s.c", "SELECT k, count(*) AS n FROM s.a GROUP BY k")
    lake.sql("INSERT INTO s.a VALUES ('x', 3)")
    ids = [lake.store.find(lake._name(n)).id for n in ("s.b", "s.c")]
    seen = threading.Event()
    waiting = threading.Thread(target=lambda: (seen.set(), lake.refresh("s.b")))
    with lake.refresher.heartbeat.holding([f"stream_table:{i}" for i in ids], 5) as lease:
        waiting.start()
        seen.wait()
        lake.refresher.heartbeat.give_back(lease)
        lake.create_stream_table("s.d", "SELECT b.k, b.total, c.n FROM s.b b JOIN s.c c ON b.k = c.k")
        lake.sql("INSERT INTO s.a VALUES ('y', 4)")
    waiting.join()
    lake.refresh("s.c")
    assert len(set(epochs(lake, *ALL))) == 1
    assert all(lake.verify(n).equal for n in ALL)
