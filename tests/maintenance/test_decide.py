"""Which files are rewritten and which snapshots expire: pure, so every case is here."""

from __future__ import annotations

import random
from datetime import UTC, datetime, timedelta

import pytest

from spark_trickle.maintenance.decide import Rules, StoredFile, need, to_expire, to_rewrite
from spark_trickle.model import SnapshotFacts
from spark_trickle.thresholds import EXPIRED_AT_ONCE, EXPIRED_PER_PASS, LOG_ENTRIES, REWRITTEN_BYTES

NOW = datetime(2026, 1, 8, tzinfo=UTC)
RULES = Rules(timedelta(days=1), 10, 128_000_000, 4)
KB, MB = 1_000, 1_000_000


def file(name: str, size: int, live: float = 1.0, partition: str = "") -> StoredFile:
    return StoredFile(name, partition, size, 1000, round(1000 * live))


@pytest.mark.parametrize(
    ("files", "chosen"),
    [
        ([file("a", KB), file("b", KB), file("c", KB)], ""),
        ([file("a", KB), file("b", KB), file("c", KB), file("d", 900 * KB)], "abcd"),
        ([file("a", KB), file("b", KB), file("c", KB), file("d", 9 * MB)], ""),  # of another size
        ([file("a", KB), file("b", KB), file("c", KB), file("d", KB, partition="p")], ""),
        ([file("a", 100 * MB), file("b", 100 * MB), file("c", 100 * MB), file("d", 100 * MB)], ""),
        ([file("a", 100 * MB, 0.71)], ""),
        ([file("a", 100 * MB, 0.7)], "a"),
        ([file("a", 100 * KB, 0.1)], ""),  # reading it all the same costs little
        ([file("a", 20 * MB, 0.5), *(file(n, 10 * MB) for n in "bcd")], "abcd"),  # once
    ],
)
def test_which_files(files: list[StoredFile], chosen: str) -> None:
    assert "".join(sorted(f.path for f in to_rewrite(files, RULES)[0])) == chosen


def test_a_pass_is_bounded() -> None:
    files = [file(str(n), 50 * MB) for n in range(20)]
    found = need(files, (), RULES)
    assert 2 <= len(found.rewrite) <= REWRITTEN_BYTES / (50 * MB)
    assert found.left == 20 - len(found.rewrite)
    assert "in a later pass" in str(found.reason)
    huge = [file(str(n), REWRITTEN_BYTES) for n in range(4)]
    assert len(need(huge, (), Rules(timedelta(), 1, 4 * REWRITTEN_BYTES, 4)).rewrite) == 2  # it goes on, anyway


@pytest.mark.parametrize("target", [32 * MB, 128 * MB, 512 * MB, 10_000 * MB])
@pytest.mark.parametrize("size", [200 * KB, 20 * MB, 90 * MB, 128 * MB, 300 * MB])
@pytest.mark.parametrize("partitions", [1, 3])
def test_passes_come_to_an_end(target: int, size: int, partitions: int) -> None:
    """Whatever a table's own target is: each pass leaves fewer files than it took, and one is the last."""
    rules = RULES.of({"write.target-file-size-bytes": str(target)})
    files = [file(f"f{n}", size, partition=str(n % partitions)) for n in range(16 * partitions)]
    for n in range(100):
        found = need(files, (), rules)
        if not found:
            return
        gone = [f for f in files if f.path in set(found.rewrite)]
        made: list[StoredFile] = []
        for partition in {f.partition for f in gone}:
            total = sum(f.size for f in gone if f.partition == partition)
            pieces = max(1, round(found.pieces * total / sum(f.size for f in gone)))
            made += [file(f"m{n}_{partition}_{k}", total // pieces, partition=partition) for k in range(pieces)]
        assert len(made) < len(gone)
        files = [f for f in files if f not in gone] + made
    raise AssertionError("it goes on for ever")


def test_a_file_is_not_copied_alone() -> None:
    """The bound of a pass leaves one file of the second partition: it waits for its neighbours."""
    files = [file(f"{p}{n}", 50 * MB, partition=p) for p in "ab" for n in range(4)]
    assert len(need(files, (), RULES).rewrite) == 4


def test_rows_are_written_again_a_few_times_in_all() -> None:
    """Ten thousand small files, one by one: each row is in a few merges, and there are never many files."""
    files: list[StoredFile] = []
    written, most = 0, 0
    size = 20 * KB
    for n in range(10_000):
        files.append(StoredFile(str(n), "", size, 10, 10))
        found = need(files, (), RULES)
        if found:
            gone = [f for f in files if f.path in set(found.rewrite)]
            total = sum(f.size for f in gone)
            written += total
            files = [f for f in files if f not in gone]
            files.append(StoredFile(f"m{n}", "", total, 10, 10))
        most = max(most, len(files))
    assert sum(f.size for f in files) == 10_000 * size
    assert most < 25
    assert written < 25 * 10_000 * size


def line(count: int, every: timedelta = timedelta(minutes=1)) -> list[SnapshotFacts]:
    made = [NOW - (count - n) * every for n in range(1, count + 2)]
    return [SnapshotFacts(n, made[n - 1], True, made[n] if n < count else None) for n in range(1, count + 1)]


@pytest.mark.parametrize(
    ("snapshots", "needed", "frontiers", "kept"),
    [
        (line(20), {20}, [], range(11, 21)),
        (line(20, timedelta(hours=6)), {20}, [], range(16, 21)),  # a day is over before ten snapshots are
        (line(20), {20, 3}, [], [3, *range(11, 21)]),
        (line(20), {20}, [4], range(4, 21)),  # a consumer goes step by step
        (line(20), {20}, [4, 18], range(4, 21)),
        (line(20), {20}, [99], range(11, 21)),  # expired long ago
        ([*line(20), SnapshotFacts(77, NOW)], {20}, [], range(11, 21)),  # rolled back by somebody
        ([*line(20), SnapshotFacts(77, NOW)], {20, 77}, [], [*range(11, 21), 77]),
    ],
)
def test_which_snapshots(
    snapshots: list[SnapshotFacts], needed: set[int], frontiers: list[int], kept: list[int]
) -> None:
    gone = to_expire(snapshots, needed, frontiers, RULES, NOW)
    assert [s.id for s in snapshots if s.id not in gone] == list(kept)


def test_age_counts_from_when_a_snapshot_was_replaced() -> None:
    """Eight days old, and what the table was until a minute ago."""
    rules = Rules(timedelta(days=7), 100, 128_000_000, 4)
    week = [SnapshotFacts(1, NOW - timedelta(days=8), True, NOW - timedelta(minutes=1)), SnapshotFacts(2, NOW, True)]
    assert to_expire(week, {2}, [], rules, NOW) == ()
    assert to_expire(week, {2}, [], rules, NOW + timedelta(days=7)) == (1,)
    at_least = rules.of({"history.expire.max-snapshot-age-ms": str(2 * 60_000)})
    assert to_expire(week, {2}, [], at_least, NOW) == ()


def test_what_a_refresh_under_way_may_stand_at_stays() -> None:
    """Its cut is in memory only. It took the lease before the cut: that tells which snapshot was current."""
    snapshots = line(60)
    begun = NOW - timedelta(minutes=40, seconds=30)  # 19 is current, 20 comes in half a minute
    gone = to_expire(snapshots, {60}, [], RULES, NOW, [begun])
    assert [s.id for s in snapshots if s.id not in gone] == [18, 19, 20, *range(51, 61)]


def test_a_consumer_far_behind_holds_one_snapshot() -> None:
    snapshots = line(LOG_ENTRIES + 100)
    gone = to_expire(snapshots, {snapshots[-1].id}, [50], RULES, NOW)
    assert len(snapshots) - len(gone) == 11
    assert 50 not in gone


def test_what_is_needed_never_expires() -> None:
    rnd = random.Random(1)
    for _ in range(300):
        snapshots = line(rnd.randint(1, 60), timedelta(minutes=rnd.choice((1, 100, 10_000))))
        ids = [s.id for s in snapshots]
        needed, frontiers = {ids[-1], *rnd.choices(ids, k=2)}, rnd.choices(ids, k=2)
        rules = Rules(timedelta(hours=rnd.randint(0, 50)), rnd.randint(1, 30), 1, 2, at_least=rnd.random() < 0.5)
        gone = set(to_expire(snapshots, needed, frontiers, rules, NOW))
        assert not gone & {*needed, *frontiers}
        reach = min(frontiers)
        assert not gone & {i for i in ids if i > reach}


def test_a_pass_waits_for_enough_snapshots() -> None:
    few, enough = tuple(range(EXPIRED_AT_ONCE - 1)), tuple(range(EXPIRED_AT_ONCE))
    small = [file(n, KB) for n in "abcd"]
    assert not need([], few, RULES)
    assert need([], enough, RULES).expire == enough
    assert need(small, few, RULES).expire == few  # they go with a pass that is made anyway
    assert str(need(small, few, RULES).reason) == "MAINTENANCE: 4 small files; 19 snapshots past the newest 10 and 1d"


def test_a_first_pass_of_an_old_table_is_bounded() -> None:
    found = need([], tuple(range(10_000)), RULES)
    assert found.expire == tuple(range(EXPIRED_PER_PASS))
    assert f"10000 snapshots past the newest 10 and 1d, {EXPIRED_PER_PASS} of them in this pass" in str(found.reason)


def test_properties_of_the_table_go_first() -> None:
    assert RULES.of({}) == RULES
    assert RULES.of({"write.target-file-size-bytes": "5000000"}).target_bytes == 5_000_000
    assert to_expire(line(20), {20}, [], RULES.of({"gc.enabled": "false"}), NOW) == ()
    kept = RULES.of({"history.expire.min-snapshots-to-keep": "15"})
    assert to_expire(line(20), {20}, [], kept, NOW) == ()  # an age was not given: it is five days, as in Iceberg
    assert len(to_expire(line(200, timedelta(hours=6)), {200}, [], kept, NOW)) == 200 - 5 * 4 - 1
    assert RULES.of({"history.expire.min-snapshots-to-keep": "15"}).count == 15
    longer = Rules(timedelta(days=7), 10, 1, 4).of({"history.expire.min-snapshots-to-keep": "15"})
    assert longer.age == timedelta(days=7)
    young = RULES.of({"history.expire.max-snapshot-age-ms": str(17 * 60_000)})
    assert len(to_expire(line(20), {20}, [], young, NOW)) == 2
    assert RULES.of({"history.expire.max-snapshot-age-ms": "soon"}) == RULES
