"""What went wrong elsewhere: cases from the public trackers of other systems, each under its name there.

Most are races. Events happen at their moment by hooks of the refresher: after the cut was taken and before the feed is
planned, before it is used, and during the publish. docs/peers.md lists the cases.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Collection, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager

import pytest

from spark_trickle import Action, Trickle, TrickleError, connect
from spark_trickle.lake.feed import Feed
from spark_trickle.model import TableName
from spark_trickle.refresh.inputs import Feeds, Input
from spark_trickle.sql.algebra import Operator
from tests.engine.lakes import other_session, private_catalogs, rows

TOTALS = "SELECT k, count(*) AS n, sum(v) AS total FROM {source} GROUP BY k"


def make(tr: Trickle, name: str, definition: str | None = None, mode: str = "differential") -> str:
    """A source of 100 rows in two files, and a stream table over it. Returns the stream table's name."""
    source = f"s.{name}_src"
    tr.sql(f"CREATE TABLE {source} (id INT, k INT, v BIGINT) TBLPROPERTIES ('format-version' = '2')")
    for start in (0, 50):
        some = f"SELECT CAST(id AS INT), CAST(id % 10 AS INT), id FROM range({start}, {start + 50}, 1, 1)"
        tr.sql(f"INSERT INTO {source} {some}")
    tr.create_stream_table(f"s.{name}", (definition or TOTALS).format(source=source), mode=mode)
    return f"s.{name}"


def count(tr: Trickle, name: str) -> int:
    return int(rows(tr.spark, f"SELECT coalesce(sum(n), 0) FROM {name}")[0][0])


def assert_exact(tr: Trickle, name: str, source: str) -> None:
    """The comparison of a reader, with Spark's own answer over the same tables."""
    assert rows(tr.spark, f"SELECT * FROM {name}") == rows(tr.spark, TOTALS.format(source=source))
    assert tr.verify(name).equal
    assert private_catalogs(tr) == set()


@contextmanager
def once_before(tr: Trickle, moment: str, do: Callable[[], object]) -> Iterator[None]:
    """Do something in the next refresh, when its cut is taken: before the feed is planned, or before it is used."""
    done: list[bool] = []

    def once() -> None:
        if not done:
            done.append(True)
            do()

    def passing(tree: Operator, changed: Collection[TableName]) -> Operator:
        del changed
        once()
        return tree

    def opening(feeds: Feeds, item: Input) -> Feed:
        once()
        return open_feed(feeds, item)

    passes, open_feed = tr.refresher.passes, Feeds.open
    with pytest.MonkeyPatch.context() as patched:
        if moment == "the feed is planned":
            patched.setattr(Feeds, "open", opening)
        else:
            tr.refresher.passes = (passing, *passes)
        try:
            yield
        finally:
            tr.refresher.passes = passes
    assert done, "the refresh passed the place"


# -- Trino ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("read_by", ["driver", "spark"])
@pytest.mark.parametrize("moment", ["the feed is planned", "the feed is used"])
def test_append_between_planning_and_reading(
    module_tr: Trickle, monkeypatch: pytest.MonkeyPatch, moment: str, read_by: str
) -> None:
    """trinodb/trino PR 30990: rows appended after planning were imported, and imported again by the next refresh."""
    if read_by == "spark":
        monkeypatch.setattr("spark_trickle.lake.feed.DRIVER_FILES", 0)
        monkeypatch.setattr("spark_trickle.lake.driver_reads.DRIVER_FILES", 0)
    label = f"late_{moment.rsplit(maxsplit=1)[-1]}_{read_by}"
    tr, name, source = module_tr, make(module_tr, label), f"s.{label}_src"
    writer = other_session(tr)
    tr.sql(f"INSERT INTO {source} VALUES (1000, 1, 1)")
    append = f"INSERT INTO lake.{source} VALUES (1001, 1, 10), (1002, 77, 1)"
    with once_before(tr, moment, lambda: writer.sql(append)):
        assert tr.refresh(name).action is Action.DIFFERENTIAL
    assert count(tr, name) == 101, "the cut is what was planned with"
    result = tr.refresh(name)
    assert (result.action, result.rows_changed[source]) == (Action.DIFFERENTIAL, 2)
    assert_exact(tr, name, source)
    assert tr.refresh(name).action is Action.NO_DATA


def test_two_refreshes_at_once(module_tr: Trickle) -> None:
    """trinodb/trino #31257, PR 30987: two refreshes at once appended the same rows twice, or one commit was lost."""
    tr, name, source = module_tr, make(module_tr, "twice"), "s.twice_src"
    with connect(tr.settings.location, shuffle_partitions=2, lease_wait_seconds=60) as other:
        for step in range(3):
            tr.sql(f"INSERT INTO {source} VALUES ({1000 + step}, {step}, 1)")
            start = threading.Barrier(4)

            def refresh(by: Trickle, start: threading.Barrier = start) -> Action:
                start.wait(60)
                return by.refresh(name).action

            with ThreadPoolExecutor(4) as pool:
                actions = list(pool.map(refresh, (tr, other, tr, other)))
            assert sorted(actions) == [Action.DIFFERENTIAL, *[Action.NO_DATA] * 3]
            assert count(tr, name) == 101 + step
    assert_exact(tr, name, source)


def test_second_refresh_that_waits_for_the_first(module_tr: Trickle) -> None:
    """trinodb/trino #31257: the second one starts when all of the first is staged, and nothing is published."""
    tr, name, source = module_tr, make(module_tr, "waits"), "s.waits_src"
    tr.sql(f"INSERT INTO {source} VALUES (1000, 1, 1)")
    staged, started = threading.Event(), threading.Event()

    def hold(point: str) -> None:
        if point == "before transaction" and not staged.is_set():
            staged.set()
            assert started.wait(60)

    with (
        connect(tr.settings.location, shuffle_partitions=2, lease_wait_seconds=60) as other,
        ThreadPoolExecutor(2) as pool,
    ):
        tr.refresher.probe = hold
        try:
            first = pool.submit(tr.refresh, name)
            assert staged.wait(60)
            tr.sql(f"INSERT INTO {source} VALUES (1001, 1, 1)")  # of this the first knows nothing
            second = pool.submit(other.refresh, name)
            started.set()
            assert (first.result(120).action, second.result(120).action) == (Action.DIFFERENTIAL, Action.DIFFERENTIAL)
        finally:
            started.set()
            tr.refresher.probe = None
    assert count(tr, name) == 102
    assert_exact(tr, name, source)


def test_pinned_source_is_not_written_again(module_tr: Trickle) -> None:
    """trinodb/trino #31256: a view over a source at a fixed snapshot rewrote everything on each refresh."""
    tr = module_tr
    make(tr, "moving")
    session = other_session(tr)
    (snapshot,) = rows(session, "SELECT max_by(snapshot_id, committed_at) FROM lake.s.moving_src.snapshots")
    pinned = f"SELECT k, count(*) AS n FROM s.moving_src VERSION AS OF {snapshot[0]} GROUP BY k"
    tr.create_stream_table("s.pinned", pinned)
    before = tr.store.pointers()[TableName.of("s.pinned")]
    for _ in range(2):
        assert tr.refresh("s.pinned").action is Action.NO_DATA
    assert tr.store.pointers()[before.name] == before
    assert count(tr, "s.pinned") == 100


def test_source_that_does_not_change_is_not_written_again(module_tr: Trickle) -> None:
    """trinodb/trino #31256: what a source that stands still is joined with changes by one row."""
    tr = module_tr
    tr.sql("CREATE TABLE s.still (k INT, label STRING)")
    tr.sql("INSERT INTO s.still SELECT CAST(id AS INT), concat('k', id) FROM range(10)")
    joined = "SELECT o.id, o.v, d.label FROM {source} o JOIN s.still d ON o.k = d.k"
    name = make(tr, "beside", joined)
    before = tr.store.pointers()[TableName.of(name)]
    assert tr.refresh(name).action is Action.NO_DATA
    assert tr.store.pointers()[before.name] == before
    tr.sql("INSERT INTO s.beside_src VALUES (1000, 1, 1)")
    result = tr.refresh(name)
    assert (result.action, result.rows_inserted, result.rows_deleted) == (Action.DIFFERENTIAL, 1, 0)
    assert result.rows_changed.get("s.still", 0) == 0
    assert tr.verify(name).equal


# -- ClickHouse ----------------------------------------------------------------------------------------------------


def test_foreign_append_to_the_target(module_tr: Trickle) -> None:
    """ClickHouse/ClickHouse #120364: an append by anyone else loses the cursor, and all rows are appended again."""
    tr, name, source = module_tr, make(module_tr, "target", mode="auto"), "s.target_src"
    other_session(tr).sql(f"INSERT INTO lake.{name} SELECT * FROM lake.{name} WHERE k = 3")
    tr.sql(f"INSERT INTO {source} VALUES (1000, 1, 1)")
    result = tr.refresh(name)
    assert result.action is Action.REINITIALIZE
    assert result.reason.startswith("INTEGRITY"), "nothing is repaired without a word"
    assert_exact(tr, name, source)
    assert tr.refresh(name).action is Action.NO_DATA, "where it stands is not kept in the target"
    # A commit that changes no row is not taken for one that does.
    other_session(tr).sql(f"ALTER TABLE lake.{name} SET TBLPROPERTIES ('owner-note' = 'hello')")
    tr.sql(f"INSERT INTO {source} VALUES (1001, 1, 1)")
    assert tr.refresh(name).action is Action.DIFFERENTIAL
    assert_exact(tr, name, source)


# -- StarRocks -----------------------------------------------------------------------------------------------------


def test_history_that_ends_in_compactions(module_tr: Trickle) -> None:
    """StarRocks #75704, #73520: a view became inactive for good when the source's history ended in compactions."""
    tr, name, source = module_tr, make(module_tr, "compact"), "s.compact_src"
    tr.sql(f"DELETE FROM {source} WHERE id = 7")
    assert tr.refresh(name).action is Action.DIFFERENTIAL
    for _ in range(3):
        tr.sql(f"CALL lake.system.rewrite_data_files(table => '{source}', options => map('rewrite-all', 'true'))")
    tr.sql(f"CALL lake.system.rewrite_manifests('{source}')")
    assert tr.refresh(name).action is Action.NO_DATA
    # And the snapshots from before the compactions are gone.
    forget(tr, source)
    assert tr.refresh(name).action is Action.NO_DATA
    tr.sql(f"INSERT INTO {source} VALUES (1000, 1, 1)")
    tr.sql(f"CALL lake.system.rewrite_data_files(table => '{source}', options => map('rewrite-all', 'true'))")
    result = tr.refresh(name)
    assert (result.action, result.rows_changed[source]) == (Action.DIFFERENTIAL, 1)
    assert_exact(tr, name, source)


def forget(tr: Trickle, source: str) -> None:
    until = "older_than => TIMESTAMP '2100-01-01 00:00:00', retain_last => 1"
    tr.sql(f"CALL lake.system.expire_snapshots(table => '{source}', {until})")


@pytest.mark.parametrize(
    "statement",
    [
        "DELETE FROM {s} WHERE k = 3",
        "UPDATE {s} SET k = 99 WHERE k = 4",
        "INSERT OVERWRITE {s} SELECT * FROM {s} WHERE id % 3 = 0",
        "TRUNCATE TABLE {s}",
        "MERGE INTO {s} t USING (SELECT 5 AS id) u ON t.id = u.id WHEN MATCHED THEN DELETE",
    ],
    ids=["delete", "update", "overwrite", "truncate", "merge"],
)
def test_change_that_is_no_append(module_tr: Trickle, statement: str) -> None:
    """StarRocks #61789, #69502: the incremental mode refuses DELETE and OVERWRITE of a source."""
    label = statement.partition(" ")[0].lower()
    tr, name, source = module_tr, make(module_tr, label), f"s.{label}_src"
    tr.sql(statement.format(s=source))
    assert tr.refresh(name).action is Action.DIFFERENTIAL
    assert_exact(tr, name, source)


def test_expiry_of_what_was_read_last(module_tr: Trickle) -> None:
    """StarRocks #75704, PR 76950; Snowflake: a table whose source forgot its past had to be made anew by hand."""
    tr, name, source = module_tr, make(module_tr, "expired", mode="auto"), "s.expired_src"
    tr.sql(f"INSERT INTO {source} VALUES (1000, 1, 1)")
    forget(tr, source)
    result = tr.refresh(name)
    assert result.action is Action.REINITIALIZE, "no refresh came between the two, so no tag kept what was read last"
    assert "expire" in result.reason.lower()
    assert_exact(tr, name, source)
    tr.sql(f"DELETE FROM {source} WHERE k = 1")
    assert tr.refresh(name).action is Action.DIFFERENTIAL
    assert_exact(tr, name, source)


def test_replacement_of_a_source(module_tr: Trickle) -> None:
    """StarRocks (incremental views): a source that is replaced or dropped and made again ends the view."""
    tr, name, source = module_tr, make(module_tr, "replaced", mode="auto"), "s.replaced_src"
    again = "SELECT CAST(id AS INT) AS id, CAST(id % 3 AS INT) AS k, id AS v FROM range(90)"
    tr.sql(f"CREATE OR REPLACE TABLE {source} AS {again}")
    tr.refresh(name)
    assert_exact(tr, name, source)
    tr.sql(f"DROP TABLE {source}")
    tr.sql(f"CREATE TABLE {source} AS {again} WHERE id < 60")
    result = tr.refresh(name)
    assert result.action is Action.REINITIALIZE
    assert result.reason
    assert_exact(tr, name, source)
    tr.sql(f"INSERT INTO {source} VALUES (1000, 1, 1)")
    assert tr.refresh(name).action is Action.DIFFERENTIAL
    assert_exact(tr, name, source)


# -- Databricks and Spark ------------------------------------------------------------------------------------------


def test_one_deleted_row_is_a_small_change(module_tr: Trickle) -> None:
    """Databricks community 144008: one row was deleted, its file counted as the change, and all was recomputed."""
    tr = module_tr
    source = "s.small_src"
    modes = "'write.delete.mode' = 'copy-on-write', 'format-version' = '2'"
    tr.sql(f"CREATE TABLE {source} (id INT, k INT, v BIGINT) TBLPROPERTIES ({modes})")
    tr.sql(f"INSERT INTO {source} SELECT CAST(id AS INT), CAST(id % 1000 AS INT), id FROM range(0, 50000, 1, 1)")
    tr.create_stream_table("s.small", TOTALS.format(source=source))
    tr.sql(f"DELETE FROM {source} WHERE id = 4711")  # the only file is written again
    result = tr.refresh("s.small")
    assert (result.action, result.rows_changed[source]) == (Action.DIFFERENTIAL, 1)
    assert result.rows_inserted + result.rows_updated + result.rows_deleted == 1
    assert_exact(tr, "s.small", source)


def test_readers_never_see_an_empty_table(module_tr: Trickle) -> None:
    """apache/spark #55276, PRs 55277, 56122: a view is truncated, then filled; a failure leaves it empty."""
    tr, name, source = module_tr, make(module_tr, "seen", mode="full"), "s.seen_src"
    reader, stop = other_session(tr), threading.Event()
    seen: list[int] = []

    def read() -> None:
        while not stop.is_set():
            seen.append(int(rows(reader, f"SELECT coalesce(sum(n), 0) FROM lake.{name}")[0][0]))

    with ThreadPoolExecutor(1) as pool:
        reading = pool.submit(read)
        try:
            for step in range(3):
                tr.sql(f"INSERT INTO {source} VALUES ({1000 + step}, 1, 1)")
                assert tr.refresh(name).action is Action.FULL

                def fail(point: str) -> None:
                    if point == "before commit":
                        raise TrickleError("STORAGE_FULL", "no space is left")

                tr.sql(f"INSERT INTO {source} VALUES ({2000 + step}, 1, 1)")
                tr.refresher.probe = fail
                with pytest.raises(TrickleError, match="no space is left"):
                    tr.refresh(name)
                tr.refresher.probe = None
                assert count(tr, name) == 101 + 2 * step, "what was there before the failure"
        finally:
            tr.refresher.probe = None
            stop.set()
        reading.result(60)
    assert set(seen) <= {100, 101, 103, 105}
    assert seen == sorted(seen), "no reader goes back in time"
    assert len(seen) >= 3
    tr.refresh(name)
    assert_exact(tr, name, source)


# -- Iceberg's draft of materialized views ---------------------------------------------------------------------------


def test_freshness_by_snapshot_ids(module_tr: Trickle) -> None:
    """apache/iceberg PR 11041: fresh means that all sources are at the snapshots that the content was computed from.

    A rollback goes to a snapshot that is older than what was read: not fresh. A rename of a column or a tag makes no
    snapshot, a compaction makes one that changes no row: fresh, also in what `status` says.
    """
    tr, name, source = module_tr, make(module_tr, "fresh"), "s.fresh_src"
    (first,) = rows(tr.spark, f"SELECT max_by(snapshot_id, committed_at) FROM {source}.snapshots")
    tr.sql(f"INSERT INTO {source} VALUES (1000, 1, 1)")
    assert tr.refresh(name).action is Action.DIFFERENTIAL
    frontier = {d.input: d.snapshot_id for d in tr.store.find(TableName.of(name)).dependencies}
    assert frontier[TableName.of(source)] != first[0]
    for harmless in (
        f"ALTER TABLE {source} CREATE TAG released",
        f"ALTER TABLE {source} RENAME COLUMN v TO worth",
        f"ALTER TABLE {source} RENAME COLUMN worth TO v",
        f"CALL lake.system.rewrite_data_files(table => '{source}', options => map('rewrite-all', 'true'))",
    ):
        tr.sql(harmless)
        assert tr.refresh(name).action is Action.NO_DATA, harmless
    tr.sql(f"CALL lake.system.rollback_to_snapshot('{source}', {first[0]})")
    assert tr.refresh(name).action is Action.DIFFERENTIAL
    assert count(tr, name) == 100
    assert_exact(tr, name, source)
