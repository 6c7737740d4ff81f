"""What a stream table wrote reaches its consumers, from memory and from the change log, and users as a feed."""

from __future__ import annotations

import re
from collections import Counter
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from spark_trickle import Action, Changes, Trickle, TrickleError
from spark_trickle.catalog import retention
from spark_trickle.lake.feed import Feed
from spark_trickle.model import TableName
from spark_trickle.refresh.inputs import Feeds, Input
from tests.engine.lakes import private_catalogs, unreferenced

pytestmark = pytest.mark.spark

CHAIN = ["s.a", "s.b", "s.c"]


@pytest.fixture
def opened(monkeypatch: pytest.MonkeyPatch) -> dict[str, tuple[str, int, int]]:
    """How the feeds of stream tables were read: stream table -> kind, files and bytes read."""
    seen: dict[str, tuple[str, int, int]] = {}
    real = Feeds.open

    def spy(self: Feeds, item: Input) -> Feed:
        feed = real(self, item)
        if item.kind == "STREAM_TABLE":
            seen[item.name.name] = (feed.kind, feed.files_read, feed.bytes_read)
        return feed

    monkeypatch.setattr(Feeds, "open", spy)
    return seen


@pytest.fixture
def chain(tr: Trickle) -> Trickle:
    """Rows, then groups with an extremum, then a join: each kind of identity hands over."""
    tr.sql("CREATE TABLE s.src (id BIGINT, k STRING, v BIGINT, x DOUBLE)")
    tr.sql("CREATE TABLE s.dim (k STRING, label STRING)")
    tr.sql("INSERT INTO s.dim VALUES ('k0', 'zero'), ('k1', 'one'), (NULL, 'none')")
    tr.sql("INSERT INTO s.src SELECT id, concat('k', id % 4), id % 7, id / 2 FROM range(60)")
    tr.sql("INSERT INTO s.src VALUES (100, NULL, NULL, -0.0), (101, 'k1', 3, 0.0), (101, 'k1', 3, 0.0)")
    tr.create_stream_table("s.a", "SELECT k, v, x FROM s.src WHERE v IS NULL OR v > 1", mode="differential")
    totals = "SELECT k, count(*) AS n, sum(v) AS total, max(v) AS top, min(x) AS low FROM s.a GROUP BY k"
    tr.create_stream_table("s.b", totals, mode="differential")
    joined = "SELECT b.k, d.label, b.n, b.total, b.top FROM s.b b LEFT JOIN s.dim d ON b.k <=> d.k"
    tr.create_stream_table("s.c", joined, mode="differential")
    return tr


def change(tr: Trickle, step: int) -> None:
    """Updates, deletes and inserts in one refresh; extrema leave, groups come and go."""
    tr.sql(f"UPDATE s.src SET v = v + {step + 1} WHERE id % 9 = {step}")
    tr.sql(f"DELETE FROM s.src WHERE id = {20 + step} OR (k = 'k2' AND v >= 6)")
    tr.sql(f"INSERT INTO s.src VALUES ({200 + step}, 'new{step}', 9, 0.5), (101, 'k1', 3, 0.0)")


def check(tr: Trickle, *names: str) -> None:
    for name in names:
        found = tr.verify(name)
        assert found.equal, str(found)
    assert private_catalogs(tr) == set()
    assert unreferenced(tr, names) == set()


def log_of(tr: Trickle, name: str) -> tuple[Any, ...]:
    return tr.store.change_log([TableName.of(name)])


def log_files(tr: Trickle) -> set[Path]:
    warehouse = tr.settings.warehouse_path
    assert warehouse is not None
    return {f for f in Path(warehouse).rglob("changes/**/*.parquet") if f.is_file()}


def test_a_consumer_of_the_same_tick_reads_no_file_of_its_upstream(
    chain: Trickle, opened: dict[str, tuple[str, int, int]]
) -> None:
    tr = chain
    for step in range(2):
        change(tr, step)
        opened.clear()
        result = tr.refresh("s.c")
        assert result.action is Action.DIFFERENTIAL
        assert opened == {"a": ("handed over", 0, 0), "b": ("handed over", 0, 0)}
        check(tr, *CHAIN)
    assert log_files(tr) == set()
    change(tr, 2)
    opened.clear()
    tr.refresh(CHAIN)  # a group: one publish for all of them
    assert {kind for kind, *_ in opened.values()} == {"handed over"}
    check(tr, *CHAIN)
    assert log_files(tr) == set()


def test_later_consumers_read_the_log_and_the_last_one_trims_it(
    chain: Trickle, opened: dict[str, tuple[str, int, int]]
) -> None:
    tr = chain
    tr.create_stream_table("s.other", "SELECT k, v FROM s.a WHERE v > 4", mode="differential")
    for step in range(2):
        change(tr, step)
        assert "log" in tr.refresh("s.a").stages
    first, second = log_of(tr, "s.a")
    assert first.to_snapshot == second.from_snapshot
    assert len(log_files(tr)) == sum(len(e.files) for e in (first, second)) == 2

    tr.sql("INSERT INTO s.src VALUES (300, 'k0', 5, 1.5), (300, 'k0', 5, 1.5)")
    assert "log" not in tr.refresh("s.a").stages  # what only adds rows is in the added files already
    assert len(log_of(tr, "s.a")) == 2
    tr.sql("CALL lake.system.rewrite_manifests('s.a')")  # a snapshot that replaces no row
    change(tr, 2)
    tr.refresh("s.a")
    assert len(log_of(tr, "s.a")) == 3

    opened.clear()
    tr.refresh("s.b")
    kind, files, size = opened["a"]
    assert kind == "added files, change log"  # the one append step, and nothing else, from the storage
    assert files == 4
    assert size > sum(f.size for e in log_of(tr, "s.a") for f in e.files)
    check(tr, "s.a", "s.b")
    assert len(log_of(tr, "s.a")) == 3  # s.other has not passed yet
    assert len(log_of(tr, "s.b")) == 1  # for s.c

    change(tr, 3)
    opened.clear()
    tr.refresh("s.other")  # with s.a: older steps from the log, the newest from memory
    assert set(opened["a"][0].split(", ")) == {"handed over", "added files", "change log"}
    assert len(log_of(tr, "s.a")) == 1  # for s.b
    tr.refresh("s.c")
    assert log_of(tr, "s.a") == log_of(tr, "s.b") == ()
    assert log_files(tr) == set()
    assert tr.store.garbage() == ()
    check(tr, *CHAIN, "s.other")


def test_the_log_goes_with_the_last_consumer_and_with_the_table(chain: Trickle) -> None:
    tr = chain
    change(tr, 0)
    tr.refresh("s.b")
    change(tr, 1)
    tr.refresh("s.a")
    assert len(log_of(tr, "s.a")) == len(log_of(tr, "s.b")) == 1
    tr.drop_stream_table("s.c")
    assert len(log_of(tr, "s.a")) == 1
    assert log_of(tr, "s.b") == ()
    assert len(log_files(tr)) == 1
    tr.drop_stream_table("s.a", cascade=True)
    assert log_files(tr) == set()
    assert tr.store.garbage() == ()


def test_a_lost_log_and_a_full_refresh(chain: Trickle, opened: dict[str, tuple[str, int, int]]) -> None:
    tr = chain
    change(tr, 0)
    tr.refresh("s.a")
    for file in log_files(tr):  # as remove_orphan_files does
        file.unlink()
    tr.refresh("s.b")
    assert "change log" not in opened["a"][0]
    check(tr, "s.a", "s.b")
    assert log_of(tr, "s.a") == ()

    change(tr, 1)
    tr.refresh("s.a")
    assert len(log_of(tr, "s.a")) == 1
    assert tr.refresh("s.a", mode="full").action is Action.FULL
    assert log_of(tr, "s.a") == ()  # everything changed: the log is of no use any more
    assert len(log_of(tr, "s.b")) == 1
    assert len(log_files(tr)) == 1
    tr.refresh("s.c")
    assert log_files(tr) == set()
    check(tr, *CHAIN)


def test_a_failed_publish_leaves_no_entry_and_no_file(chain: Trickle) -> None:
    tr = chain
    for step, point in enumerate(("before transaction", "before commit")):
        change(tr, step)

        def fail(at: str, wanted: str = point) -> None:
            if at == wanted:
                assert len(log_files(tr)) == 1  # it was there
                raise TrickleError("STORAGE_FULL", "injected")

        tr.refresher.probe = fail
        with pytest.raises(TrickleError, match="injected"):
            tr.refresh("s.a")
        assert log_of(tr, "s.a") == ()
        assert log_files(tr) == set()
    tr.refresher.probe = None
    tr.refresh("s.c")
    check(tr, *CHAIN)


def test_the_very_values_that_left_are_handed_over(tr: Trickle) -> None:
    """Equal to Spark, and different to a consumer that looks closer: which of them left is not for it to guess."""
    tr.sql("CREATE TABLE s.src (id BIGINT, k STRING, x DOUBLE, m MAP<STRING, INT>)")
    zeros = ", ".join(
        f"({2 * n}, 'k{n}', -0.0D, map('a', 1, 'b', 2)), ({2 * n + 1}, 'k{n}', 0.0D, map('b', 2, 'a', 1))"
        for n in range(8)
    )
    tr.sql(f"INSERT INTO s.src VALUES {zeros}")
    tr.create_stream_table("s.a", "SELECT k, x, m FROM s.src", mode="differential")
    tr.create_stream_table("s.t", "SELECT k, string(x) AS t, map_keys(m) AS ks FROM s.a", mode="differential")
    tr.sql("DELETE FROM s.src WHERE id IN (0, 3, 4, 7)")
    assert tr.refresh("s.t").action is Action.DIFFERENTIAL  # from memory
    check(tr, "s.a", "s.t")
    tr.sql("DELETE FROM s.src WHERE id IN (8, 11, 12, 15)")
    tr.refresh("s.a")
    assert tr.refresh("s.t").action is Action.DIFFERENTIAL  # from the log
    check(tr, "s.a", "s.t")


# -- the feed for users ------------------------------------------------------------------------------------------------


def content(tr: Trickle, name: str) -> Counter[tuple[Any, ...]]:
    return Counter(tuple(map(repr, r)) for r in tr.sql(f"SELECT * FROM {name}").collect())


def weights(changes: Changes) -> Counter[tuple[Any, ...]]:
    """The sum of weights per row; zeros are left out."""
    found: Counter[tuple[Any, ...]] = Counter()
    for row in changes.frame.collect():
        *values, weight, _, _ = row
        found[tuple(map(repr, values))] += weight
    return Counter({row: n for row, n in found.items() if n})


def difference(new: Counter[Any], old: Counter[Any]) -> Counter[Any]:
    return Counter({row: new[row] - old[row] for row in {*new, *old} if new[row] != old[row]})


EVENTS = (
    "INSERT INTO s.src SELECT id, 'p', id % 3, NULL FROM range(1000, 1020)",
    "UPDATE s.src SET v = v + 1 WHERE id % 5 = 0",
    "DELETE FROM s.src WHERE id % 11 = 3 OR v IS NULL",
    "compact",
    "INSERT INTO s.src VALUES (101, 'k1', 3, 0.0), (101, 'k1', 3, 0.0), (7, NULL, NULL, NULL), (7, NULL, NULL, NULL)",
    "full",
    "UPDATE s.src SET x = x + 0.5 WHERE k = 'k0'",
    "compact",
    "DELETE FROM s.src WHERE k = 'p' AND v = 2",
)


def test_changes_add_up_to_the_difference_from_every_point(chain: Trickle) -> None:
    tr = chain
    names = ("s.a", "s.b")
    points: dict[str, list[tuple[Changes, datetime, Counter[Any]]]] = {n: [] for n in names}
    for event in (None, *EVENTS):
        if event == "compact":
            for name in names:
                tr.sql(f"CALL lake.system.rewrite_manifests('{name}')")
        elif event is not None:
            if event != "full":
                tr.sql(event)
            tr.refresh("s.b", mode="full" if event == "full" else None)
        for name in names:
            points[name].append((tr.changes(name), datetime.now(UTC), content(tr, name)))
    for name in names:
        now = content(tr, name)
        for n, (start, at, then) in enumerate(points[name]):
            since = (start.token, start.to_snapshot, at)[n % 3]
            assert weights(tr.changes(name, since)) == difference(now, then), (name, n, since)
        whole = tr.changes(name)
        assert whole.from_snapshot is None
        assert weights(whole) == now
        assert {r[0] for r in whole.frame.select("_weight").collect()} == {1}

    # Each publish is a step with its own snapshot and time; compactions are none, and the FULL one changed no row.
    start = points["s.a"][0][0]
    found = tr.changes("s.a", start.token)
    steps = found.frame.groupBy("_snapshot", "_time").count().orderBy("_time").collect()
    history = [h for h in reversed(tr.history("s.a")) if h.snapshot_id and h.action != "NO_DATA"][1:]
    wrote = [h for h in history if h.snapshot_id in {r["_snapshot"] for r in steps}]
    assert [r["_snapshot"] for r in steps] == [h.snapshot_id for h in wrote]
    assert [r["_time"].astimezone(UTC) for r in steps] == [h.ended_at for h in wrote]
    assert len(steps) == 6
    assert found.to_snapshot == points["s.a"][-1][0].to_snapshot
    # Publishes that each add up to the content after them.
    running = points["s.a"][0][2]
    for step, snapshot in enumerate(r["_snapshot"] for r in steps):
        rows = [tuple(r) for r in found.frame.where(f"_snapshot = {snapshot}").collect()]
        assert rows, step
        for *values, weight, _, _ in rows:
            running[tuple(map(repr, values))] += weight
        assert min(running.values()) >= 0
    assert +running == content(tr, "s.a")


def test_the_feed_shows_public_columns_and_nothing_that_is_not_seen(tr: Trickle) -> None:
    tr.sql("CREATE TABLE s.src (id BIGINT, k STRING, v BIGINT)")
    tr.sql("INSERT INTO s.src VALUES (1, 'a', 1), (2, 'a', 5), (3, 'b', 2)")
    tr.create_stream_table("s.top", "SELECT k, max(v) AS top FROM s.src GROUP BY k", mode="differential")
    start = tr.changes("s.top")
    assert start.frame.columns == ["k", "top", "_weight", "_snapshot", "_time"]
    assert [f.dataType.simpleString() for f in start.frame.schema.fields[-3:]] == ["bigint", "bigint", "timestamp"]
    tr.sql("INSERT INTO s.src VALUES (4, 'a', 2)")  # only a hidden count changes
    tr.refresh("s.top")
    unseen = tr.changes("s.top", start.token)
    assert unseen.from_snapshot != unseen.to_snapshot
    assert unseen.frame.collect() == []
    tr.sql("DELETE FROM s.src WHERE id = 2")
    tr.refresh("s.top")
    with tr.changes("s.top", unseen.token) as found:
        assert sorted(tuple(r)[:3] for r in found.frame.collect()) == [("a", 2, 1), ("a", 5, -1)]
    again = tr.changes("s.top", found.token)
    assert again.from_snapshot == again.to_snapshot == found.to_snapshot
    assert again.frame.collect() == []
    assert again.frame.columns == start.frame.columns
    assert again.token == found.token

    # The frame is the user's: it outlives the table, and mixes with what is in the session.
    found.frame.createOrReplaceTempView("changed")
    tr.drop_stream_table("s.top")
    assert tr.sql("SELECT sum(_weight) FROM changed").first()[0] == 0
    assert len(found.frame.collect()) == 2


def test_many_changed_rows(tr: Trickle) -> None:
    tr.sql("CREATE TABLE s.src (id BIGINT, v BIGINT)")
    tr.sql("INSERT INTO s.src SELECT id, id FROM range(50000)")
    tr.create_stream_table("s.a", "SELECT id, v FROM s.src", mode="differential")
    tr.create_stream_table("s.b", "SELECT id % 100 AS k, sum(v) AS v FROM s.a GROUP BY id % 100", mode="differential")
    start = tr.changes("s.a")
    tr.sql("UPDATE s.src SET v = v + 1 WHERE id < 40000")
    tr.refresh("s.b")  # the delta is not on the driver: it must live until s.b has read it
    tr.sql("UPDATE s.src SET v = v + 1 WHERE id >= 15000")
    tr.refresh("s.a")
    tr.refresh("s.b")
    check(tr, "s.a", "s.b")
    with tr.changes("s.a", start.token) as found:
        total = found.frame.selectExpr("count(*)", "sum(_weight)", "sum(v * _weight)").first()
        assert tuple(total) == (2 * 40000 + 2 * 35000, 0, 75000)
        found.frame.createOrReplaceTempView("many")
        assert tr.sql("SELECT count(*) FROM many JOIN s.a USING (id) WHERE many._weight > 0").first()[0] == 75000


def test_since_must_be_understood(chain: Trickle) -> None:
    tr = chain
    start = tr.changes("s.a")
    for since, code, says in (
        (datetime.now(), "INVALID_SINCE", "no time zone"),
        ("yesterday", "INVALID_SINCE", "is not a token"),
        (True, "INVALID_SINCE", "True"),
        (1.5, "INVALID_SINCE", "1.5"),
        (tr.changes("s.b").token, "INVALID_SINCE", "the token is of s.b"),
        (12345, "SNAPSHOT_EXPIRED", "snapshot 12345 of s.a is gone"),
    ):
        with pytest.raises(TrickleError) as error:
            tr.changes("s.a", since)  # type: ignore[arg-type]
        assert error.value.code == code
        assert says in error.value.message
    with pytest.raises(TrickleError) as error:
        tr.changes("s.src")
    assert error.value.code == "UNKNOWN_STREAM_TABLE"
    # Before the table was there it was empty.
    assert weights(tr.changes("s.a", datetime.now(UTC) - timedelta(days=1))) == content(tr, "s.a")

    before = datetime.now(UTC)
    tr.alter_stream_table("s.a", query="SELECT k, v, x, id FROM s.src WHERE v > 1")
    for since in (start.token, start.to_snapshot, before):
        with pytest.raises(TrickleError) as error:
            tr.changes("s.a", since)
        assert error.value.code == "SNAPSHOT_EXPIRED"
        assert "since=None" in str(error.value)
    assert weights(tr.changes("s.a")) == content(tr, "s.a")


def test_a_time_that_the_history_has_forgotten(chain: Trickle, monkeypatch: pytest.MonkeyPatch) -> None:
    """What is kept of it must not be taken for what the table was: that would give far too many changes."""
    tr = chain
    beginning = datetime.now(UTC) - timedelta(days=1)
    points: list[tuple[datetime, Counter[Any]]] = []
    for step in range(4):
        change(tr, step)
        tr.refresh("s.a")
        points.append((datetime.now(UTC), content(tr, "s.a")))
    now = points[-1][1]
    for at, then in points:
        assert weights(tr.changes("s.a", at)) == difference(now, then)
    monkeypatch.setattr(retention, "PAST_REFRESHES", 1)
    monkeypatch.setattr(retention, "SLOW_REFRESHES", 0)  # else the last two are kept, and what they tell is right
    assert retention.trim_history(tr.store, datetime.now(UTC)) > 0
    for at, _ in points[:-1]:
        with pytest.raises(TrickleError) as error:
            tr.changes("s.a", at)
        assert error.value.code == "SNAPSHOT_EXPIRED"
        assert "history" in error.value.message
    assert weights(tr.changes("s.a", points[-1][0])) == Counter()
    assert weights(tr.changes("s.a", beginning)) == now


def test_expired_snapshots_and_tables_of_the_same_name(tr: Trickle) -> None:
    tr.sql("CREATE TABLE s.src (id BIGINT, v BIGINT)")
    tr.create_stream_table("s.a", "SELECT id, v FROM s.src", initialize=False)
    empty = tr.changes("s.a")
    assert (empty.to_snapshot, empty.frame.collect()) == (None, [])
    assert empty.frame.columns == ["id", "v", "_weight", "_snapshot", "_time"]
    tr.sql("INSERT INTO s.src VALUES (1, 1), (1, 1)")
    tr.refresh("s.a")
    assert weights(tr.changes("s.a", empty.token)) == content(tr, "s.a")
    start = tr.changes("s.a")
    tr.sql("UPDATE s.src SET v = 2")
    tr.refresh("s.a", mode="full")
    assert weights(tr.changes("s.a", start.token)) == Counter({("1", "1"): -2, ("1", "2"): 2})
    soon = (datetime.now() + timedelta(seconds=5)).strftime("%Y-%m-%d %H:%M:%S")
    tr.sql(f"CALL lake.system.expire_snapshots(table => 's.a', older_than => TIMESTAMP '{soon}', retain_last => 1)")
    with pytest.raises(TrickleError) as error:
        tr.changes("s.a", start.token)
    assert error.value.code == "SNAPSHOT_EXPIRED"
    assert re.search(r"snapshot \d+ of s.a is gone: it expired", error.value.message)
    tr.drop_stream_table("s.a")
    tr.create_stream_table("s.a", "SELECT id, v FROM s.src")
    with pytest.raises(TrickleError) as error:
        tr.changes("s.a", start.token)
    assert error.value.code == "SNAPSHOT_EXPIRED"
    assert "dropped" in error.value.message


def test_follow_waits_for_the_next_publish(tr: Trickle) -> None:
    tr.sql("CREATE TABLE s.src (id BIGINT, v BIGINT)")
    tr.create_stream_table("s.a", "SELECT id, v FROM s.src")
    feed = tr.follow("s.a", poll_seconds=0.05)
    assert next(feed).frame.collect() == []
    for step in range(2):
        tr.sql(f"INSERT INTO s.src VALUES ({step}, {step})")
        tr.refresh("s.a")
        assert [tuple(r)[:3] for r in next(feed).frame.collect()] == [(step, step, 1)]
    feed.close()  # type: ignore[attr-defined]
