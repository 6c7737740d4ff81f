"""What a stream table wrote reaches its consumers, from memory and from the change log, and users as a feed."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from spark_trickle import Action, Changes, Trickle, TrickleError
from spark_trickle.lake.feed import Feed
from spark_trickle.model import TableName
from spark_trickle.refresh.inputs import Feeds, Input
from tests.engine.lakes import private_catalogs, storage_of, unreferenced

pytestmark = pytest.mark.spark

CHAIN = ["s.a", "s.b", "s.c"]


@pytest.fixture
def opened(monkeypatch: pytest.MonkeyPatch) -> Iterator[dict[str, tuple[str, int, int]]]:
    """How the feeds of stream tables were read: storage -> kind, files and bytes read."""
    seen: dict[str, tuple[str, int, int]] = {}
    real = Feeds.open

    def spy(self: Feeds, item: Input) -> Feed:
        feed = real(self, item)
        if item.kind == "STREAM_TABLE":
            seen[item.name.name] = (feed.kind, feed.files_read, feed.bytes_read)
        return feed

    monkeypatch.setattr(Feeds, "open", spy)
    yield seen


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
    assert unreferenced(tr, [storage_of(tr, n) for n in names]) == set()


def log_of(tr: Trickle, name: str) -> tuple[Any, ...]:
    return tr.store.change_log([TableName.of(storage_of(tr, name))])


def log_files(tr: Trickle) -> set[Path]:
    warehouse = tr.settings.warehouse_path
    assert warehouse is not None
    return {f for f in Path(warehouse).rglob("changes/**/*.parquet") if f.is_file()}


def test_a_consumer_of_the_same_tick_reads_no_file_of_its_upstream(
    chain: Trickle, opened: dict[str, tuple[str, int, int]]
) -> None:
    tr = chain
    for step in range(3):
        change(tr, step)
        opened.clear()
        result = tr.refresh("s.c")
        assert result.action is Action.DIFFERENTIAL
        assert opened == {"s__a": ("handed over", 0, 0), "s__b": ("handed over", 0, 0)}
        check(tr, *CHAIN)
    assert log_files(tr) == set()
    change(tr, 3)
    opened.clear()
    tr.refresh(CHAIN)  # a group: one publish for all of them
    assert {kind for kind, *_ in opened.values()} == {"handed over"}
    check(tr, *CHAIN)
    assert log_files(tr) == set()
