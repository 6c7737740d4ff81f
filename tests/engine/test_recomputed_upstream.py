"""A stream table that was recomputed has other files altogether: its consumers learn from metadata how much changed."""

from __future__ import annotations

from collections import Counter
from typing import Any

import pytest

from spark_trickle import Action, Trickle
from spark_trickle.lake.feed import Feed, read_changes
from spark_trickle.model import TableName

pytestmark = pytest.mark.spark


@pytest.fixture
def chain(tr: Trickle) -> Trickle:
    """`up` has so many rows that Spark writes them."""
    tr.sql("CREATE TABLE t AS SELECT id, id % 10 AS k FROM range(40000)")
    tr.create_stream_table("s.up", "SELECT id, k FROM t WHERE k < 9")
    tr.create_stream_table("s.down", "SELECT k, count(*) AS n, sum(id) AS total FROM s.up GROUP BY k")
    return tr


def feed_of(tr: Trickle, old: int, new: int) -> Feed:
    pointer = tr.store.pointers()[TableName("s", "up")]
    table = tr.refresher.lake.table(pointer.location, "s.up")
    return read_changes(tr.refresher.lake.session, table, old, new, ("id", "k"))


def net(feed: Feed) -> Counter[Any]:
    total: Counter[Any] = Counter()
    with feed:
        for *row, weight in feed.frame.collect() if feed.frame is not None else ():
            total[tuple(row)] += weight
    return Counter({row: n for row, n in total.items() if n})


def snapshots(tr: Trickle) -> list[int]:
    return [r[0] for r in tr.sql("SELECT snapshot_id FROM s.up.snapshots ORDER BY committed_at").collect()]


def test_how_much_changed_is_known_without_reading(chain: Trickle) -> None:
    tr = chain
    tr.sql("DELETE FROM t WHERE id = 5")
    tr.refresh("s.up", mode="full")
    old, new = snapshots(tr)
    feed = feed_of(tr, old, new)
    assert (feed.rows, feed.kind) == (36_000 + 35_999, "added files, removed files")
    assert net(feed) == Counter({(5, 5): -1})
    result = tr.refresh("s.down")
    assert result.action is Action.FULL
    assert "71999 of 36000 rows of s.up changed" in result.reason
    assert tr.verify("s.down").equal


def test_a_consumer_that_must_not_recompute_takes_the_difference(chain: Trickle) -> None:
    tr = chain
    tr.alter_stream_table("s.down", mode="differential")
    tr.sql("DELETE FROM t WHERE id = 5")
    tr.sql("INSERT INTO t VALUES (5, 4), (-1, 3)")
    tr.refresh("s.up", mode="full")
    assert tr.refresh("s.down").action is Action.DIFFERENTIAL
    assert tr.verify("s.down", deep=True).equal


def test_rows_that_a_compaction_carried_over_are_compared(chain: Trickle) -> None:
    """Back from a compaction the files of before are added again: what they hold was never away."""
    tr = chain
    tr.sql("DELETE FROM t WHERE id = 5")
    tr.refresh("s.up")
    before = snapshots(tr)[-1]
    catalog = tr.spark.catalog.currentCatalog()
    tr.spark.sql(f"CALL {catalog}.system.rewrite_data_files(table => 's.up', options => map('rewrite-all', 'true'))")
    tr.spark.sql("ALTER TABLE s.up CREATE BRANCH compacted")
    compacted = snapshots(tr)[-1]
    assert compacted != before
    tr.spark.sql(f"CALL {catalog}.system.set_current_snapshot('s.up', {before})")
    feed = feed_of(tr, compacted, before)
    assert feed.kind == "row versions"
    assert net(feed) == Counter()
