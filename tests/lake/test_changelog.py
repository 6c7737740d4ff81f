"""Which steps of a history a log covers, and which entries nobody needs any more."""

from __future__ import annotations

import pytest

from spark_trickle.catalog.rows import LogEntry
from spark_trickle.lake.changelog import Delta, passed, steps
from spark_trickle.model import TableName
from spark_trickle.thresholds import LOG_ENTRIES

A, W, D, R = "append", "overwrite", "delete", "replace"


def entry(start: int, end: int) -> LogEntry:
    return LogEntry(start, end, 1, (), id=end)


MEMORY = Delta(TableName("_trickle", "t"), 5, 6, "", (), 1, 1)


@pytest.mark.parametrize(
    ("line", "known", "expected"),
    [
        ([(2, W), (3, W)], [entry(1, 2), entry(2, 3)], "1-2 log, 2-3 log"),
        ([(2, A), (3, W)], [entry(2, 3)], "1-2 read, 2-3 log"),
        ([(2, W), (3, A), (4, W)], [entry(1, 2)], "1-2 log, 2-4 read"),
        ([(2, R), (3, W)], [entry(2, 3)], "2-3 log"),  # a compaction is no gap
        ([(2, W), (3, R)], [entry(1, 2)], "1-2 log"),
        ([(2, R), (3, R)], [entry(9, 10)], ""),
        ([(2, R), (3, A), (4, R), (5, W), (6, W)], [entry(4, 5), MEMORY], "2-4 read, 4-5 log, 5-6 memory"),
        ([(2, D), (3, A), (4, W)], [entry(1, 3)], "1-3 log, 3-4 read"),  # a refresh that committed twice
        ([(2, W), (3, W)], [entry(1, 7)], "1-3 read"),  # of another history
        ([(2, W)], [entry(2, 1)], "1-2 read"),  # backwards
        ([(2, W)], [], "1-2 read"),
    ],
)
def test_steps(line: list[tuple[int, str]], known: list[LogEntry | Delta], expected: str) -> None:
    kinds = {LogEntry: "log", Delta: "memory", type(None): "read"}
    assert ", ".join(f"{s.start}-{s.end} {kinds[type(s.source)]}" for s in steps(1, line, known)) == expected


SEQUENCE = {n: n for n in range(1, 8)}
LOG = [entry(1, 2), entry(2, 4), entry(4, 5)]


@pytest.mark.parametrize(
    ("frontiers", "gone"),
    [
        ([1], []),
        ([2], [2]),
        ([3], [2]),  # at a snapshot that is in no entry
        ([4, 7], [2, 4]),
        ([5], [2, 4, 5]),
        ([2, 99], [2]),  # a frontier that expired is read by nobody
        ([None, 4], [2, 4]),  # EMPTY
        ([99], [2, 4, 5]),
        ([], [2, 4, 5]),
    ],
)
def test_passed(frontiers: list[int | None], gone: list[int]) -> None:
    assert [e.to_snapshot for e in passed(LOG, frontiers, SEQUENCE)] == gone


def test_an_entry_whose_snapshot_expired_is_passed() -> None:
    assert [e.to_snapshot for e in passed(LOG, [4], {4: 4, 5: 5})] == [2, 4]


def test_a_consumer_that_never_comes_does_not_keep_everything() -> None:
    log = [entry(n, n + 1) for n in range(1, LOG_ENTRIES + 4)]
    sequence = {n: n for n in range(1, LOG_ENTRIES + 10)}
    assert [e.from_snapshot for e in passed(log, [1], sequence)] == [1, 2, 3]
