"""Two processes on one lake, one of which is killed in the middle of a refresh."""

from __future__ import annotations

import signal
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from spark_trickle import Action, Trickle, TrickleError, connect
from spark_trickle.model import Pointer, TableName
from tests.engine.lakes import private_catalogs, rows, unreferenced

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

NAMES = ["s.n", "s.copy"]
ROUNDS = 1


def test_two_processes_and_a_kill(spark: SparkSession, tmp_path: Path) -> None:
    lake = tmp_path / "lake"
    with connect(lake, shuffle_partitions=2, lease_wait_seconds=60) as tr:
        tr.sql("CREATE NAMESPACE s")
        tr.sql("USE s")
        make_stream_tables(tr)
        tr.create_stream_table("s.later", "SELECT k, n FROM s.n WHERE n > 1", mode="differential")  # reads the log
        command = [sys.executable, "-m", "tests.engine.other_process", str(lake), str(ROUNDS)]
        other = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        assert other.stdin is not None
        assert other.stdout is not None
        try:
            assert other.stdout.readline() == "ready\n"

            # Both refresh the same at the same time: each change is applied once.
            for step in range(ROUNDS):
                tr.sql(f"INSERT INTO s.src VALUES ({1000 + step}, 'k1'), ({2000 + step}, 'new')")
                other.stdin.write("\n")
                other.stdin.flush()
                ours = [r.action for r in tr.refresh(NAMES)]
                theirs = other.stdout.readline().split()
                both = list(zip(map(str, ours), theirs, strict=True))
                assert all(sorted(pair) == ["DIFFERENTIAL", "NO_DATA"] for pair in both), both
                for name in NAMES:
                    assert tr.verify(name).equal
            assert {e.state for e in tr.history()} == {"COMPLETED"}

            # The other one stops before its transaction: everything is staged, its leases are held.
            tr.sql("INSERT INTO s.src VALUES (3000, 'k1')")
            other.stdin.write("\n")
            other.stdin.flush()
            assert other.stdout.readline() == "holding\n"
            with connect(lake, shuffle_partitions=2, lease_wait_seconds=0) as impatient:
                with pytest.raises(TrickleError) as caught:
                    impatient.refresh("s.n")
                assert (caught.value.code, caught.value.retryable) == ("REFRESH_IN_PROGRESS", True)
                assert str(other.pid) in caught.value.message
                # It lives: nothing of it is touched by somebody who connects.
                assert len(private_catalogs(impatient)) == 2
                assert [e.state for e in impatient.history(limit=2)] == ["RUNNING", "RUNNING"]
                assert unreferenced(impatient, NAMES) != set()
                assert len(unpublished_log(impatient)) == 1
        finally:
            other.send_signal(signal.SIGKILL)
            other.wait()
        old = rows(tr.spark, "SELECT * FROM s.n")
        running = [e.refresh_id for e in tr.history(limit=2)]

        with connect(lake, shuffle_partitions=2) as again:
            entries = [again.store.refresh_entry(i) for i in running]
            assert [(e.state, e.error_code) for e in entries if e] == [("FAILED", "LEASE_LOST")] * 2
            assert private_catalogs(again) == set()
            assert unreferenced(again, NAMES) == set()
            assert unpublished_log(again) == set()
            assert len(again.store.change_log([TableName.of("s.n")])) == ROUNDS
            assert rows(again.spark, "SELECT * FROM s.n") == old
            assert [r.action for r in again.refresh(NAMES)] == [Action.DIFFERENTIAL] * 2
            again.refresh("s.later")
            for name in [*NAMES, "s.later"]:
                assert again.verify(name).equal
        # And the one that was there all the time goes on.
        tr.sql("INSERT INTO s.src VALUES (4000, 'k1')")
        assert [r.action for r in tr.refresh(NAMES)] == [Action.DIFFERENTIAL] * 2
        for name in NAMES:
            assert tr.verify(name).equal


def unpublished_log(tr: Trickle) -> set[str]:
    """Files of the change log of s.n that no entry names."""
    name = TableName("s", "n")
    location = str(tr.refresher.lake.metadata(tr.store.pointers()[name].location).location())
    on_disk = {f.name for f in Path(location.removeprefix("file:")).glob("changes/**/*.parquet")}
    return on_disk - {f.path.rpartition("/")[2] for e in tr.store.change_log([name]) for f in e.files}


def make_stream_tables(tr: Trickle) -> None:
    tr.sql("CREATE TABLE s.src (id BIGINT, k STRING)")
    tr.sql("INSERT INTO s.src SELECT id, concat('k', id % 3) FROM range(100)")
    tr.create_stream_table("s.n", "SELECT k, count(*) AS n FROM s.src GROUP BY k", mode="differential")
    tr.create_stream_table("s.copy", "SELECT id, k FROM s.src", mode="differential")


def leave_a_reader_behind(tr: Trickle) -> None:
    """The rows of a reader's cut whose process is no more."""
    with tr.store.write() as tx:
        tx.copy_lake("trickle_0dead000_0")
    assert private_catalogs(tr) == {"trickle_0dead000_0"}


def test_a_dead_reader_costs_no_live_file(tr: Trickle) -> None:
    """What it left is older than the lake, and the lake may have forgotten the snapshots but not the files."""
    make_stream_tables(tr)
    leave_a_reader_behind(tr)
    tr.sql("INSERT INTO s.src VALUES (1000, 'k1')")
    tr.refresh(NAMES)
    until = "older_than => timestamp '2100-01-01', retain_last => 1"
    for name in NAMES:
        tr.sql(f"CALL lake.system.expire_snapshots(table => '{name}', {until})")
    with connect(tr.settings.location, shuffle_partitions=2) as again:
        assert private_catalogs(again) == set()
        assert rows(again.spark, "SELECT count(*) FROM lake.s.copy WHERE k IS NOT NULL") == [(101,)]
        for name in NAMES:
            assert again.verify(name).equal


def test_what_a_dead_refresh_needed_for_a_rename_goes(tr: Trickle) -> None:
    make_stream_tables(tr)
    source = TableName.of("s.src")
    with tr.refresher.attempts.begin({}) as attempt:
        schema = tr.refresher.lake.facts(tr.store.pointers()[source].location).schema
        left = attempt.in_schema(tr.store.pointers()[source], schema.replace('"k"', '"kind"'))
        attempt.scratch.clear()
    with tr.store.write() as tx:
        tx.copy_pointers("trickle_0dead000_0", [Pointer(source, left, is_view=False)], ["s"])
    assert Path(left.removeprefix("file:")).exists()
    with connect(tr.settings.location, shuffle_partitions=2) as again:
        assert private_catalogs(again) == set()
    assert not Path(left.removeprefix("file:")).exists()


def test_a_dead_reader_costs_no_file_of_a_cut(tr: Trickle) -> None:
    make_stream_tables(tr)
    leave_a_reader_behind(tr)
    tr.create_cut("kept")
    tr.drop_stream_table("s.copy")
    with connect(tr.settings.location, shuffle_partitions=2) as again:
        assert private_catalogs(again) == set()
        again.sql("USE s")
        with again.cut("kept") as cut:
            assert rows(cut.spark, "SELECT count(*) FROM s.copy WHERE k IS NOT NULL") == [(100,)]
