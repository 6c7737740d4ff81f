"""Readers at one instant: no mixed state through a cut, and named cuts that stay."""

from __future__ import annotations

import threading
import time
from typing import Any

import pytest

from spark_trickle import Action, Trickle, TrickleError
from tests.engine.lakes import other_session, private_catalogs, rows

GROUP = ["s.a", "s.b", "s.c"]
READS = 60
# Three ways to count the same source: they agree, or the reader saw two publishes at once.
COUNTS = ("SELECT n FROM s.a", "SELECT sum(n) FROM s.b", "SELECT count(*) FROM s.c")


def make_group(tr: Trickle) -> None:
    tr.sql("CREATE TABLE s.src (id BIGINT, k STRING)")
    tr.sql("INSERT INTO s.src SELECT id, concat('k', id % 3) FROM range(100)")
    tr.create_stream_table("s.a", "SELECT count(*) AS n FROM s.src", mode="differential")
    tr.create_stream_table("s.b", "SELECT k, count(*) AS n FROM s.src GROUP BY k", mode="differential")
    tr.create_stream_table("s.c", "SELECT id FROM s.src", mode="differential")


def read(session: Any, query: str) -> int:
    (row,) = session.sql(query).collect()
    return int(row[0])


def test_reader_loop(tr: Trickle) -> None:
    make_group(tr)
    stop = threading.Event()
    errors: list[BaseException] = []
    published = 0

    def writer() -> None:
        nonlocal published
        session = other_session(tr)
        try:
            while not stop.wait(0.3):  # else the writer takes all the cores
                session.sql(f"INSERT INTO lake.s.src VALUES ({1000 + published}, 'k{published % 5}')")
                tr.refresh(GROUP)
                published += 1
        except BaseException as error:
            errors.append(error)

    thread = threading.Thread(target=writer)
    thread.start()
    states: list[tuple[int, ...]] = []
    started = time.monotonic()
    try:
        for _ in range(READS):
            with tr.cut() as cut:
                states.append(tuple(read(cut, q) for q in COUNTS))
    finally:
        stop.set()
        thread.join()
    assert not errors, errors
    print(f"{READS} cuts in {time.monotonic() - started:.1f} s, {published} publishes, {len(set(states))} states")
    assert [s for s in states if len(set(s)) != 1] == []
    assert states == sorted(states), "time does not run backwards"
    assert len(set(states)) >= 3, "the reader saw the group move"
    assert private_catalogs(tr) == set()

    # The same reads without a cut: a publish between them shows, so the loop above can fail.
    first = read(tr.spark, COUNTS[0])
    tr.sql("INSERT INTO s.src VALUES (5000, 'k1')")
    tr.refresh(GROUP)
    mixed = (first, read(tr.spark, COUNTS[1]), read(tr.spark, COUNTS[2]))
    assert mixed == (first, first + 1, first + 1)
    # With one, not: the cut was taken before.
    with tr.cut() as cut:
        first = read(cut, COUNTS[0])
        tr.sql("INSERT INTO s.src VALUES (5001, 'k1')")
        tr.refresh(GROUP)
        assert {read(cut, q) for q in COUNTS} == {first}
        assert read(cut, "SELECT count(*) FROM lake.s.src") == first, "also with the lake's name written out"
        assert read(tr.spark, COUNTS[2]) == first + 1
    for name in GROUP:
        assert tr.verify(name).equal


def test_named_cuts(tr: Trickle) -> None:
    make_group(tr)
    tr.sql("CREATE TABLE s.`dim-1` (id BIGINT)")
    tr.sql("INSERT INTO s.`dim-1` VALUES (1), (2)")
    names = ["monday", 'o\'clock "five" `x`; -- é']
    for name in names:
        tr.create_cut(name, comment="it's kept")
    assert {c.name for c in tr.cuts()} == set(names)
    assert {c.comment for c in tr.cuts()} == {"it's kept"}
    with pytest.raises(TrickleError) as taken:
        tr.create_cut("monday")
    assert taken.value.code == "NAME_TAKEN"
    # Tags are no change of content.
    assert {r.action for r in tr.refresh(GROUP)} == {Action.NO_DATA}

    tr.sql("INSERT INTO s.src VALUES (1000, 'k0')")
    tr.sql("DELETE FROM s.src WHERE id = 1")
    tr.sql("INSERT OVERWRITE s.`dim-1` VALUES (7)")
    tr.refresh(GROUP)
    tr.sql("INSERT INTO s.src VALUES (2000, 'k0')")
    tr.refresh(GROUP, mode="full")
    for table in ("s.src", "s.`dim-1`", *GROUP):
        until = "older_than => timestamp '2100-01-01', retain_last => 1"
        tr.sql(f"CALL lake.system.expire_snapshots(table => '{table}', {until})")
    for name in names:
        with tr.cut(name) as cut:
            assert [read(cut, q) for q in COUNTS] == [100, 100, 100]
            assert rows(cut.spark, "SELECT * FROM s.`dim-1`") == [(1,), (2,)]
            assert rows(cut.spark, "SELECT min(id), max(id) FROM s.src") == [(0, 99)]
    assert [read(tr.spark, q) for q in COUNTS] == [101, 101, 101]
    for name in GROUP:
        assert tr.verify(name).equal

    # A stream table dropped from the lake is still in the cut.
    tr.drop_stream_table("s.c")
    with tr.cut("monday") as cut:
        assert read(cut, COUNTS[2]) == 100

    for unknown in ("tuesday", "monday' OR 'a' = 'a", ""):
        with pytest.raises(TrickleError) as caught, tr.cut(unknown):
            pass
        assert caught.value.code == "UNKNOWN_CUT"
        with pytest.raises(TrickleError) as caught:
            tr.drop_cut(unknown)
        assert caught.value.code == "UNKNOWN_CUT"
    for name in names:
        tr.drop_cut(name)
    assert tr.cuts() == ()
    with pytest.raises(TrickleError) as caught, tr.cut("monday"):
        pass
    assert caught.value.code == "UNKNOWN_CUT"
    assert rows(tr.spark, "SELECT name FROM s.src.refs") == [("main",)]
    tr.sql("INSERT INTO s.src VALUES (3000, 'k0')")
    tr.refresh(["s.a", "s.b"])
    for name in ("s.a", "s.b"):
        assert tr.verify(name).equal


@pytest.mark.parametrize("name", ["", "x" * 1000])
def test_impossible_cut_names(module_tr: Trickle, name: str) -> None:
    with pytest.raises(TrickleError) as caught:
        module_tr.create_cut(name)
    assert caught.value.code == "INVALID_NAME"


READS_ONLY = (
    "SELECT count(*) FROM s.src",
    "WITH x AS (SELECT id FROM s.src) SELECT * FROM x",
    "FROM s.src SELECT id",
    "FROM s.src |> WHERE id = 1",
    "TABLE s.src",
    "VALUES (1), (2)",
    "SHOW TABLES IN s",
    "SHOW CREATE TABLE s.src",
    "DESCRIBE TABLE s.src",
    "DESCRIBE QUERY SELECT 1",
    "EXPLAIN SELECT * FROM s.src",
    "SET spark.sql.shuffle.partitions = 3",
    "USE s",
    "CREATE TEMPORARY VIEW small AS SELECT * FROM src WHERE id < 3",
    "CREATE OR REPLACE TEMP VIEW small AS SELECT 1 AS id",
    "CACHE TABLE kept AS SELECT * FROM s.src",
    "UNCACHE TABLE kept",
    "DROP VIEW small",
    "DECLARE OR REPLACE VARIABLE n INT DEFAULT 3",
    "SET VARIABLE n = 4",
    "REFRESH TABLE s.src",
)
WRITES = (
    "INSERT INTO s.src VALUES (1, 'x')",
    "INSERT OVERWRITE s.src VALUES (1, 'x')",
    "WITH x AS (SELECT 1 AS id, 'x' AS k) INSERT INTO s.src SELECT * FROM x",
    "FROM s.src INSERT INTO s.src SELECT *",
    "FROM s.src INSERT INTO s.src SELECT * INSERT INTO s.src SELECT *",
    "MERGE INTO s.src a USING s.a b ON a.id = b.n WHEN MATCHED THEN DELETE",
    "DELETE FROM s.src",
    "UPDATE lake.s.src SET k = 'x'",
    "TRUNCATE TABLE s.src",
    "CREATE TABLE s.more (id INT)",
    "CREATE TABLE s.more AS SELECT 1 AS id",
    "DROP TABLE s.src",
    "ALTER TABLE s.src ADD COLUMN more INT",
    "ALTER TABLE s.src CREATE TAG now",
    "CREATE VIEW s.more AS SELECT 1 AS id",
    "DROP VIEW s.a",
    "CREATE NAMESPACE more",
    "CALL system.expire_snapshots('s.src')",
    "COMMENT ON TABLE s.src IS 'x'",
    "/* SELECT */ insert INTO s.src VALUES (1, 'x')",
    "BEGIN INSERT INTO s.src VALUES (1, 'x'); END",
    "EXECUTE IMMEDIATE 'DELETE FROM s.src'",
)


def test_read_only(tr: Trickle) -> None:
    make_group(tr)
    tr.create_cut("kept")
    for name in (None, "kept"):
        with tr.cut(name) as cut:
            for statement in READS_ONLY:
                cut.sql(statement).collect()
            for statement in WRITES:
                with pytest.raises(TrickleError) as refused:
                    cut.sql(statement)
                assert refused.value.code == "CUT_IS_READ_ONLY", statement
                assert "tr.sql" in refused.value.hint
            with pytest.raises(Exception, match="PARSE_SYNTAX_ERROR"):
                cut.sql("SELEC 1")
            # Around `sql`: the catalog itself cannot write.
            frame, readonly = cut.spark.sql("SELECT 1L AS id, 'x' AS k"), r"(?i)read.?only"
            with pytest.raises(Exception, match=readonly):
                frame.writeTo("s.src").append()
            with pytest.raises(Exception, match=readonly):
                frame.write.saveAsTable("s.more")
            with pytest.raises(Exception, match=readonly):
                cut.spark.sql("DELETE FROM s.src WHERE id = 1")
            assert read(cut, "SELECT count(*) FROM s.src") == 100
    assert rows(tr.spark, "SELECT count(*) FROM s.src") == [(100,)]
    tr.sql("INSERT INTO s.src VALUES (1000, 'x')")  # outside of it all is as before
    assert tr.refresh("s.a").action is Action.DIFFERENTIAL


def test_what_a_reader_does_at_a_cut_stays_there(tr: Trickle) -> None:
    tr.sql("CREATE TABLE s.g1 (id INT, v INT)")
    tr.sql("INSERT INTO s.g1 VALUES (1, 1)")
    tr.create_stream_table("s.g", "SELECT id, v AS n FROM g1 TABLESAMPLE (100 PERCENT)")
    with tr.cut() as cut:
        cut.sql("CREATE TEMP VIEW g1 AS SELECT 99 AS id, 99 AS v")
    tr.sql("INSERT INTO s.g1 VALUES (2, 2)")
    tr.refresh("s.g")
    assert tr.verify("s.g").equal
