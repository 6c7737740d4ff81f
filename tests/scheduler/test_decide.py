"""When stream tables are due: pure decisions under simulated clocks."""

from __future__ import annotations

import random
import time
from collections import Counter
from dataclasses import replace
from datetime import UTC, datetime, timedelta

import pytest

from spark_trickle.graph.groups import Group
from spark_trickle.model import Status, TableName
from spark_trickle.schedule import parse_schedule
from spark_trickle.scheduler.decide import LAST_RETRY, REST, Dag, Member, Memory, Plan, decide, retry_delay

DEFAULT = parse_schedule("1m").snapped()
NOON = datetime(2026, 3, 2, 12, tzinfo=UTC)


def name(text: str) -> TableName:
    return TableName("s", text)


def member(text: str, schedule: str, *reads: str, at: datetime | None = NOON, **more: object) -> Member:
    parsed = parse_schedule(schedule).snapped()
    return Member(name(text), parsed, tuple(map(name, reads)), data_timestamp=at, **more)  # type: ignore[arg-type]


def due(members: list[Member], now: datetime, memory: Memory | None = None, zone: str = "UTC") -> list[str]:
    return [n.name for n in decide(Dag.of(members, DEFAULT), memory or Memory(), now, zone).due]


def seconds(n: float) -> timedelta:
    return timedelta(seconds=n)


# -- schedules ---------------------------------------------------------------------------------------------------------


def test_a_new_one_is_due_at_once_and_then_by_its_period() -> None:
    assert due([member("a", "30s", at=None)], NOON) == ["a"]
    a = member("a", "30s", at=NOON + seconds(3))
    assert due([a], NOON + seconds(29)) == []
    assert due([a], NOON + seconds(30)) == ["a"]
    assert decide(Dag.of([a], DEFAULT), Memory(), NOON + seconds(4)).wake_at == NOON + seconds(30)


def test_after_downtime_it_is_due_once() -> None:
    a = member("a", "30s", at=NOON - timedelta(days=3))
    assert due([a], NOON) == ["a"]
    assert due([replace(a, data_timestamp=NOON)], NOON + seconds(1)) == []


@pytest.mark.parametrize(
    ("asked", "period"), [("47s", 47), ("48s", 48), ("1m", 48), ("5m", 192), ("1h", 3072), ("1d", 49152)]
)
def test_canonical_periods(asked: str, period: int) -> None:
    assert parse_schedule(asked).snapped().seconds == period


def test_canonical_periods_fall_on_the_same_instants() -> None:
    slow, fast = parse_schedule("1h").snapped(), parse_schedule("1m").snapped()
    moment = NOON
    for _ in range(20):
        found = slow.due_after(moment)
        assert found is not None
        moment = found
        assert fast.due_after(moment - seconds(1)) == moment


def test_manual_is_never_due() -> None:
    a = member("a", "manual", at=None)
    assert due([a], NOON) == []
    assert decide(Dag.of([a], DEFAULT), Memory(), NOON).wake_at is None


def fires(schedule: str, start: datetime, count: int, zone: str = "UTC") -> list[str]:
    found, parsed, moment = [], parse_schedule(schedule), start
    for _ in range(count):
        at = parsed.due_after(moment, zone)
        assert at is not None
        found.append(f"{at:%d %H:%M}")
        moment = at
    return found


def test_cron_has_a_time_zone() -> None:
    assert fires("0 6 * * *", datetime(2026, 7, 1, tzinfo=UTC), 2) == ["01 06:00", "02 06:00"]
    assert fires("0 6 * * * Asia/Kolkata", datetime(2026, 7, 1, tzinfo=UTC), 2) == ["01 00:30", "02 00:30"]
    assert fires("0 6 * * *", datetime(2026, 7, 1, tzinfo=UTC), 1, "Asia/Kolkata") == ["01 00:30"]


def test_cron_over_daylight_saving() -> None:
    """Berlin: 02:00 to 03:00 is left out on 29 March 2026, and repeated on 25 October (00:00 to 02:00 UTC)."""
    march, october = datetime(2026, 3, 28, 12, tzinfo=UTC), datetime(2026, 10, 24, 23, 50, tzinfo=UTC)
    assert fires("30 2 * * * Europe/Berlin", march, 2) == ["29 01:00", "30 00:30"]  # at the end of the gap
    assert fires("30 2 * * * Europe/Berlin", october, 2) == ["25 00:30", "26 01:30"]  # once
    assert fires("*/30 * * * * Europe/Berlin", october, 5) == [
        "25 00:00",
        "25 00:30",
        "25 01:00",
        "25 01:30",
        "25 02:00",
    ]


def test_a_year_of_cron_is_due_once_a_day() -> None:
    a = member("a", "30 2 * * * America/New_York", at=datetime(2026, 1, 1, tzinfo=UTC))
    moment, days = datetime(2026, 1, 1, tzinfo=UTC), []
    while moment < datetime(2027, 1, 1, tzinfo=UTC):
        moment += timedelta(minutes=17)
        if due([a], moment):
            days.append(moment.date())
            a = replace(a, data_timestamp=moment)
    assert len(days) == len(set(days)) == 365


# -- DOWNSTREAM --------------------------------------------------------------------------------------------------------


def test_downstream_follows_its_fastest_consumer() -> None:
    members = [
        member("a", "downstream"),
        member("b", "calculated", "a"),
        member("slow", "1h", "a"),
        member("fast", "30s", "b"),
        member("by_hand", "manual", "a"),
    ]
    dag = Dag.of(members, DEFAULT)
    assert due(members, NOON + seconds(30)) == ["a", "b", "fast"]
    assert [dag.target_seconds(name(n), NOON, "UTC") for n in ("a", "b", "slow", "by_hand")] == [30, 30, 3072, None]
    # Without its fast consumer it follows the other one.
    stopped = [replace(m, status=Status.SUSPENDED) if m.name.name == "fast" else m for m in members]
    assert due(stopped, NOON + seconds(30)) == []


def test_downstream_without_consumers_has_the_default() -> None:
    dag = Dag.of([member("a", "downstream")], DEFAULT)
    assert dag.schedules[name("a")] == (DEFAULT,)
    assert "s.a" in dag.warnings[0]
    assert Dag.of([member("a", "downstream"), member("b", "manual", "a")], DEFAULT).schedules[name("a")] == ()


def test_downstream_of_one_that_cannot_run_is_refreshed_once_per_period() -> None:
    members = [
        member("a", "downstream"),
        member("broken", "30s", status=Status.SUSPENDED),
        member("c", "30s", "a", "broken"),
    ]
    assert due(members, NOON + seconds(30)) == ["a"]
    members[0] = replace(members[0], data_timestamp=NOON + seconds(31))
    assert due(members, NOON + seconds(40)) == []


# -- order and failures ------------------------------------------------------------------------------------------------


def test_upstream_first_and_what_reads_a_running_one_waits() -> None:
    members = [member("c", "30s", "b"), member("b", "30s", "a"), member("a", "30s"), member("other", "30s")]
    now = NOON + seconds(30)
    order = due(members, now)
    assert sorted(order) == ["a", "b", "c", "other"]
    assert [n for n in order if n != "other"] == ["a", "b", "c"]
    assert due(members, now, Memory(frozenset([name("a")]))) == ["other"]
    assert sorted(due(members, now, Memory(frozenset([name("b")])))) == ["a", "other"]


def test_consumers_of_a_suspended_one_are_skipped_once_per_period() -> None:
    members = [
        member("a", "30s", status=Status.SUSPENDED, last_error="[SPARK_FAILED] no\n  hint: x"),
        member("b", "30s", "a"),
        member("c", "1m", "b"),
        member("d", "30s"),
    ]
    dag, memory, now = Dag.of(members, DEFAULT), Memory(), NOON + seconds(60)
    plan = decide(dag, memory, now)
    assert [n.name for n in plan.due] == ["d"]
    assert [(n.name, str(r)) for n, r in plan.skips] == [
        (n, "UPSTREAM_FAILED: s.a is SUSPENDED: [SPARK_FAILED] no") for n in ("b", "c")
    ]
    memory.skipped.update({n: now for n, _ in plan.skips})
    assert decide(dag, memory, now + seconds(10)).skips == ()
    assert [n.name for n, _ in decide(dag, memory, now + seconds(30)).skips] == ["b"]


def test_a_failed_one_is_retried_later_and_later_and_its_consumers_wait() -> None:
    for errors in range(1, 12):
        delay = retry_delay(name("a"), errors).total_seconds()
        assert 0.75 * min(5 * 2 ** (errors - 1), LAST_RETRY) <= delay <= 1.25 * LAST_RETRY
    failed = NOON + seconds(60)
    a = member("a", "30s", errors=1, failed_at=failed, last_error="boom")
    members = [a, member("b", "30s", "a")]
    before, after = failed + seconds(2), failed + retry_delay(a.name, 1)
    plan = decide(Dag.of(members, DEFAULT), Memory(), before)
    assert plan.due == ()
    assert [str(r) for _, r in plan.skips] == ["UPSTREAM_FAILED: the last refresh of s.a failed: boom"]
    assert plan.wake_at == after
    assert due(members, after) == ["a", "b"]


def test_a_consumer_of_two_that_always_run_is_not_starved() -> None:
    """Each of the two takes longer than its period; they would begin again whenever the other one still runs."""
    members = {m.name: m for m in (member("a", "1s"), member("b", "1s"), member("c", "30s", "a", "b"))}
    memory, ends, now = Memory(frozenset([name("b")])), {name("b"): NOON + seconds(1)}, NOON + seconds(30)
    runs = Counter[str]()
    for _ in range(2000):
        for n in [n for n, at in ends.items() if at <= now]:
            del ends[n]
            memory.running -= {n}
            members[n] = replace(members[n], data_timestamp=now - seconds(2))
        for n in decide(Dag.of(list(members.values()), DEFAULT), memory, now).due:
            runs[n.name] += 1
            memory.running |= {n}
            ends[n] = now + seconds(2)
        now += seconds(0.5)
    assert runs["c"] > 10, runs
    assert runs["a"] > 100, runs


def test_a_table_rests_between_two_refreshes() -> None:
    """Else nobody who waits for its lease would get it."""
    a = member("a", "1s", at=NOON - seconds(60))
    memory = Memory(finished={a.name: NOON})
    plan = decide(Dag.of([a], DEFAULT), memory, NOON + seconds(0.1))
    assert plan.due == ()
    assert plan.wake_at == NOON + REST
    assert due([a], NOON + REST, memory) == ["a"]


def test_tables_that_read_each_other_do_not_stop_the_others() -> None:
    plan = decide(
        Dag.of([member("a", "1s", "b"), member("b", "1s", "a"), member("c", "1s")], DEFAULT),
        Memory(),
        NOON + seconds(9),
    )
    assert [n.name for n in plan.due] == ["c"]
    assert "s.a" in plan.warnings[0]
    assert "s.b" in plan.warnings[0]


def test_a_clock_that_is_ahead() -> None:
    a = member("a", "30s", at=NOON + timedelta(hours=2), errors=1, failed_at=NOON + timedelta(hours=1))
    assert due([a], NOON + seconds(60)) == []
    plan = decide(Dag.of([a], DEFAULT), Memory(), NOON + seconds(60))
    assert plan.wake_at is not None
    assert plan.wake_at <= NOON + seconds(120)


def test_error_is_not_retried() -> None:
    assert due([member("a", "30s", at=None, status=Status.ERROR)], NOON) == []


# -- scale -------------------------------------------------------------------------------------------------------------


SCHEDULES = ("10s", "30s", "1m", "5m", "1h", "downstream", "downstream", "*/10 * * * *", "0 3 * * * Europe/Berlin")
SLOW = ("3h", "6h", "12h", "1d", "downstream", "downstream", "5 */6 * * *", "0 3 * * * Europe/Berlin")


def random_dag(rnd: random.Random, count: int, schedules: tuple[str, ...] = SCHEDULES) -> list[Member]:
    members = []
    for n in range(count):
        reads = rnd.sample(range(n), min(n, rnd.choice((0, 1, 1, 2, 3))))
        members.append(member(f"t{n}", rnd.choice(schedules), *(f"t{r}" for r in reads), at=NOON))
    rnd.shuffle(members)
    return members


def test_a_thousand_are_decided_in_50_ms() -> None:
    members = random_dag(random.Random(1), 1000)
    now = NOON + timedelta(minutes=10)
    made, decided = [], []
    for _ in range(5):
        started = time.process_time()
        dag = Dag.of(members, DEFAULT)
        made.append(time.process_time() - started)
        plan = decide(dag, Memory(), now)
        decided.append(time.process_time() - started - made[-1])
    assert len(plan.due) > 500
    assert min(decided) < 0.05, decided
    assert min(made) < 0.05, made


# -- groups ------------------------------------------------------------------------------------------------------------


def diamond(b: str, c: str, d: str, *, slowest: bool = False, **more: object) -> list[Member]:
    """Over a source, with a consumer of its own; `more` is of c."""
    return [
        member("b", b, slowest=slowest),
        member("c", c, slowest=slowest, **more),
        member("d", d, "b", "c", slowest=slowest),
        member("e", "30s", "d"),
    ]


GROUP = Group((name("b"), name("c"), name("d")))


def planned(members: list[Member], now: datetime, memory: Memory | None = None) -> Plan:
    return decide(Dag.of(members, DEFAULT, [GROUP]), memory or Memory(), now)


def named(plan: Plan) -> list[str]:
    return [n.name for n in plan.due]


def test_a_group_is_due_with_the_first_of_its_members() -> None:
    members = diamond("10s", "40s", "20s")
    assert named(planned(members, NOON + seconds(9))) == []
    assert planned(members, NOON + seconds(9)).wake_at == NOON + seconds(10)
    assert named(planned(members, NOON + seconds(10))) == ["b", "c", "d"]


def test_or_with_the_last_if_all_agree() -> None:
    members = diamond("10s", "40s", "20s", slowest=True)
    assert named(planned(members, NOON + seconds(39))) == ["e"], "it has a schedule of its own"
    assert named(planned(members, NOON + seconds(40))) == ["b", "c", "d", "e"]
    dag = Dag.of(members, DEFAULT, [GROUP])
    assert [dag.target_seconds(name(n), NOON, "UTC") for n in "bcde"] == [40, 40, 40, 30]
    members[1] = replace(members[1], slowest=False)
    assert named(planned(members, NOON + seconds(10))) == ["b", "c", "d"]


def test_members_with_cron_downstream_and_manual() -> None:
    members = diamond("0 * * * *", "manual", "downstream")
    one_hour = NOON + timedelta(hours=1)
    assert named(planned(members, one_hour)) == ["b", "c", "d", "e"]
    assert named(planned(members, NOON + seconds(30))) == ["b", "c", "d", "e"], "d has the schedule of e"
    slow = diamond("0 * * * *", "manual", "20s", slowest=True)
    assert named(planned(slow, NOON + seconds(3000))) == ["e"]
    assert named(planned(slow, one_hour)) == ["b", "c", "d", "e"]


def test_a_member_that_is_suspended_holds_the_others() -> None:
    members = diamond("10s", "10s", "10s", status=Status.SUSPENDED, last_error="boom")
    plan = planned(members, NOON + seconds(30))
    assert plan.due == ()
    assert [n.name for n, _ in plan.skips] == ["b", "d", "e"]
    assert {str(r) for _, r in plan.skips} == {"GROUP_FAILED: they are published together: s.c is SUSPENDED: boom"}
    memory = Memory(skipped=dict.fromkeys(map(name, "bde"), NOON + seconds(30)))
    assert planned(members, NOON + seconds(31), memory).skips == (), "once per period"


def test_a_member_that_failed_holds_the_others_until_it_is_tried_again() -> None:
    members = diamond("1s", "1s", "1s", errors=2, failed_at=NOON + seconds(1), last_error="boom")
    delay = retry_delay(name("c"), 2)
    before, after = NOON + seconds(1) + delay - seconds(0.1), NOON + seconds(1) + delay
    assert named(planned(members, before)) == []
    assert named(planned(members, after)) == ["b", "c", "d"]


def test_a_group_that_runs_or_rests_is_left_alone() -> None:
    members = diamond("10s", "10s", "10s")
    running = Memory(running=frozenset(GROUP.members))
    assert named(planned(members, NOON + seconds(30), running)) == [], "e waits for it"
    rests = Memory(finished={name("c"): NOON + seconds(29.8)})
    assert named(planned(members, NOON + seconds(30), rests)) == []
    assert named(planned(members, NOON + seconds(29.8) + REST, rests)) == ["b", "c", "d", "e"]
    upstream = [*members, member("a", "5s")]
    upstream[0] = replace(upstream[0], reads=(name("a"),))
    assert named(planned(upstream, NOON + seconds(30), Memory(running=frozenset([name("a")])))) == []
    assert named(planned(upstream, NOON + seconds(30))) == ["a", "b", "c", "d", "e"]


def test_what_lies_before_and_after_a_group_is_ordered_by_it() -> None:
    """x reads b and is no member: it comes after d, which is published with b."""
    members = [*diamond("10s", "10s", "10s"), member("x", "10s", "b")]
    order = named(planned(members, NOON + seconds(30)))
    assert order.index("x") > order.index("d")


def test_downstream_in_a_cycle() -> None:
    cycle = Group((name("a"), name("b")), cycles=((name("a"), name("b")),))
    both = [member("a", "downstream", "b"), member("b", "downstream", "a")]
    dag = Dag.of(both, DEFAULT, [cycle])
    assert {dag.schedules[name(n)] for n in "ab"} == {(DEFAULT,)}
    read = [*both, member("c", "30s", "b")]
    dag = Dag.of(read, DEFAULT, [cycle])
    assert [dag.target_seconds(name(n), NOON, "UTC") for n in "abc"] == [30, 30, 30]
    alone = Group((name("a"),), cycles=((name("a"),),))
    assert Dag.of([member("a", "downstream", "a")], DEFAULT, [alone]).schedules[name("a")] == (DEFAULT,)


def test_a_chain_of_a_thousand() -> None:
    members = [member(f"t{n:04}", "downstream", *([f"t{n - 1:04}"] if n else [])) for n in range(1000)]
    members.append(member("top", "30s", "t0999"))
    assert len(due(members, NOON + seconds(30))) == 1001


def test_a_week_of_a_dag_of_200_with_failures() -> None:
    """Refreshes take time and fail, tables are suspended and resumed. What must hold is checked at every step."""
    rnd = random.Random(7)
    members = {m.name: m for m in random_dag(rnd, 200, SLOW)}
    now, memory, dag = NOON, Memory(), Dag.of(list(members.values()), DEFAULT)
    finishing: list[tuple[datetime, datetime, TableName]] = []  # when, its cut, what
    refreshed: dict[TableName, datetime] = {}  # the last cut of each
    counts = Counter[str]()
    while now < NOON + timedelta(days=7):
        plan = decide(replace(dag, members=members), memory, now)
        memory.skipped.update(dict.fromkeys((n for n, _ in plan.skips), now))
        counts["skips"] += len(plan.skips)
        ends: dict[TableName, datetime] = {}
        for n in plan.due:
            m = members[n]
            assert m.status is Status.ACTIVE
            assert n not in memory.running
            assert refreshed.get(n) != now, "twice at one cut"
            for upstream in m.reads:
                assert upstream not in memory.running, "before its upstream was done"
                assert members[upstream].status is Status.ACTIVE
                at = dag.due_after(upstream, members[upstream].data_timestamp or NOON, "UTC")
                assert upstream in ends or at is None or at > now, "before an upstream that is due"
            refreshed[n] = now
            begins = max([now, *(ends[u] for u in m.reads if u in ends)])
            # Few different instants: many end together, which is also the harder case.
            ends[n] = parse_schedule("20m").due_after(begins + seconds(rnd.choice((0, 0, 0, 3000)))) or now
            finishing.append((ends[n], now, n))
        memory.running |= frozenset(plan.due)
        # On to the next instant at which something happens.
        finishing.sort()
        times = [t for t in (plan.wake_at, *(f[0] for f in finishing[:1])) if t is not None]
        now = max(min(times, default=now), now + seconds(1))
        stopped = False
        while finishing and finishing[0][0] <= now:
            at, cut, n = finishing.pop(0)
            m = members[n]
            memory.running -= {n}
            if any(members[u].errors for u in m.reads):
                counts["skipped in the tick"] += 1  # as the loop does
            elif rnd.random() < (0.6 if m.errors else 0.02):
                counts["failures"] += 1
                errors = m.errors + 1
                stopped |= errors >= 3
                status = Status.SUSPENDED if errors >= 3 else m.status
                members[n] = replace(m, errors=errors, failed_at=at, status=status, last_error="boom")
            else:
                counts["refreshes"] += 1
                members[n] = replace(m, errors=0, data_timestamp=cut)
        suspended = [n for n, m in members.items() if m.status is Status.SUSPENDED]
        counts["suspended"] = max(counts["suspended"], len(suspended))
        if suspended and rnd.random() < 0.01:  # somebody resumes
            members.update({n: replace(members[n], status=Status.ACTIVE, errors=0) for n in suspended})
            stopped = True
        if stopped:
            dag = Dag.of(list(members.values()), DEFAULT)
    assert counts["refreshes"] > 5_000, counts
    assert min(counts[c] for c in ("failures", "skips", "skipped in the tick", "suspended")) > 0, counts
    # Nobody starves: whoever can be refreshed is not more than two periods and the longest refresh behind.
    waiting: set[TableName] = set()  # for one that failed
    for n in dag.order:
        m = members[n]
        if m.errors or m.status is not Status.ACTIVE or waiting.intersection(m.reads):
            waiting.add(n)
        target, at = dag.target_seconds(n, now, "UTC"), m.data_timestamp
        if target is not None and n not in waiting:
            assert at is not None
            assert (now - at).total_seconds() <= 2 * target + 200 * 4200, (n, at)
