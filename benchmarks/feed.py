"""The change feed of a large table when little of it changed: seconds and bytes against reading the whole table.

TPC-H lineitem in 200 files; one file is changed by an append, a delete of 100 rows, an update of 1 % of its rows and a
compaction. Planning is `read_changes` until the frame is there; total is planning and reading the frame. Bytes are
those that Spark's process read while it computed the frame, as the operating system counts them, less those of a job
that reads nothing: neither Spark's metrics nor Hadoop's statistics see Parquet's vectored reads. "Needed" are the bytes
of the used columns in the changed files, from their Parquet footers; Iceberg 1.12 reads a Parquet file of up to 1 MiB
whole (Parquet.ReadBuilder.canEagerFetch), so for such a file that is what is needed at the least.

Then a table with 500 snapshots between frontier and cut, against one with the same net change in one snapshot.

    python benchmarks/feed.py [--sf 1] [--files 200] [--snapshots 500] [--repeat 5] [--profile]
"""

from __future__ import annotations

import argparse
import cProfile
import itertools
import os
import pstats
import re
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import spark_trickle
from spark_trickle import Trickle
from spark_trickle.lake.feed import Feed, read_changes
from spark_trickle.lake.files import FileReader
from spark_trickle.lake.jvm import static_table
from spark_trickle.lake.positions import write_files
from spark_trickle.model import TableName

NAME = "bench.lineitem"
COLUMNS = ("l_orderkey", "l_quantity", "l_extendedprice", "l_discount", "l_shipdate")
BYTES, PLANNING, COMPACTION = 1.2, 0.3, 0.1  # the targets
SAME = 1.5  # times the seconds of one snapshot is still the same cost
EAGER = 1 << 20  # Iceberg reads a Parquet file of this size whole


@dataclass
class Row:
    what: str
    kind: str
    files: int
    planning: float
    total: float
    read: int
    columns: int  # bytes of the used columns
    needed: int  # the same, small files whole

    def markdown(self) -> str:
        ratio = f"{self.read / self.needed:.2f}" if self.needed else "-"
        return (
            f"| {self.what} | {self.kind} | {self.files} | {self.planning:.3f} | {self.total:.3f} "
            f"| {self.read / 1e6:.3f} | {self.columns / 1e6:.3f} | {self.needed / 1e6:.3f} | {ratio} |"
        )


HEADER = (
    "| change | feed | files | planning s | total s | MB read | MB of the columns | MB needed | read / needed |\n"
    "|---|---|---|---|---|---|---|---|---|"
)


def progress(text: str) -> None:
    print(text, file=sys.stderr, flush=True)


# -- measuring -----------------------------------------------------------------------------------------------------


def bytes_counted(tr: Trickle) -> int:
    """What Spark's process has read so far: driver and executors are one process here."""
    process = tr.spark._jvm.java.lang.ProcessHandle.current().pid()
    found = re.search(r"^rchar: (\d+)", Path(f"/proc/{process}/io").read_text(), re.MULTILINE)
    assert found is not None
    return int(found[1])


def reading_nothing(tr: Trickle) -> int:
    """What a job reads that has no input: classes, pipes, the socket to Python."""
    found = []
    for _ in range(5):
        before = bytes_counted(tr)
        consume(tr.spark.range(0))
        found.append(bytes_counted(tr) - before)
    return min(found)


def pinned(tr: Trickle, name: str) -> Any:
    pointer = tr.store.pointers(names=[TableName.of(name)])[TableName.of(name)]
    return static_table(tr.refresher.lake.session, pointer.location, name)


def head(tr: Trickle, name: str) -> int:
    return int(pinned(tr, name).currentSnapshot().snapshotId())


def consume(frame: Any) -> None:
    frame.write.format("noop").mode("overwrite").save()


def plain(location: str) -> str:
    return re.sub(r"^file:(//)?", "", location)


def needed_bytes(paths: Sequence[str], columns: Sequence[str], *, whole_files: bool = False) -> int:
    """Compressed bytes of these columns in these files; `whole_files`: small ones count as Iceberg reads them."""
    import pyarrow.parquet as pq

    total = 0
    for path in paths:
        size = Path(plain(path)).stat().st_size
        if whole_files and size <= EAGER:
            total += size
            continue
        metadata = pq.ParquetFile(plain(path)).metadata
        for group in range(metadata.num_row_groups):
            for i in range(metadata.num_columns):
                column = metadata.row_group(group).column(i)
                if column.path_in_schema.split(".")[0] in columns:
                    total += column.total_compressed_size
    return total


def changed_files(tr: Trickle, table: Any, old: int, new: int, feed: Feed) -> list[str]:
    if feed.frame is None:
        return []
    changes = FileReader(tr.refresher.lake.session, table).changes(old, new)
    return [f.path for f in (*changes.added, *changes.removed, *(now for _, now in changes.touched))]


def measure(tr: Trickle, what: str, name: str, old: int, repeat: int, columns: Sequence[str] = COLUMNS) -> Row:
    """`old` to now, `repeat` times."""
    session, new = tr.refresher.lake.session, head(tr, name)
    planning, totals, reads, nothing = [], [], [], reading_nothing(tr)
    for _ in range(repeat):
        table = pinned(tr, name)  # the manifests of a new table object are not known yet
        begin = time.perf_counter()
        with read_changes(session, table, old, new, columns) as feed:
            planning.append(time.perf_counter() - begin)
            before = bytes_counted(tr)
            if feed.frame is not None:
                consume(feed.frame)
            totals.append(time.perf_counter() - begin)
            reads.append(bytes_counted(tr) - before if feed.frame is not None else nothing)
    files = changed_files(tr, table, old, new, feed)
    sizes = needed_bytes(files, columns), needed_bytes(files, columns, whole_files=True)
    seconds = statistics.median(planning), statistics.median(totals)
    row = Row(what, feed.kind, feed.files_read, *seconds, max(0, min(reads) - nothing), *sizes)
    progress(row.markdown())
    return row


def measure_whole(tr: Trickle, repeat: int) -> Row:
    table = pinned(tr, NAME)
    files = FileReader(tr.refresher.lake.session, table).plan(head(tr, NAME))
    totals, reads, nothing = [], [], reading_nothing(tr)
    for _ in range(repeat):
        before, begin = bytes_counted(tr), time.perf_counter()
        consume(tr.spark.table(f"lake.{NAME}").select(*COLUMNS))
        totals.append(time.perf_counter() - begin)
        reads.append(bytes_counted(tr) - before)
    paths = [f.path for f in files]
    sizes = needed_bytes(paths, COLUMNS), needed_bytes(paths, COLUMNS, whole_files=True)
    row = Row("the whole table", "a plain scan", len(files), 0, statistics.median(totals), min(reads) - nothing, *sizes)
    progress(row.markdown())
    return row


def profile(tr: Trickle, name: str, old: int, what: str) -> None:
    """Where planning spends its time, most of all in calls to the JVM."""
    session, new, table = tr.refresher.lake.session, head(tr, name), pinned(tr, name)
    watch = cProfile.Profile()
    watch.enable()
    with read_changes(session, table, old, new, COLUMNS):
        watch.disable()
    progress(f"-- {what}")
    pstats.Stats(watch, stream=sys.stderr).sort_stats("cumulative").print_stats(25)


# -- the large table -----------------------------------------------------------------------------------------------


def load(tr: Trickle, folder: Path, scale: float, files: int) -> None:
    command = Path(sys.executable).parent / "tpchgen-cli"
    wanted = ("--tables", "lineitem", "--scale-factor", str(scale), "--output-dir", str(folder), "--quiet")
    subprocess.run([str(command), "parquet", *wanted], check=True)
    tr.sql("CREATE NAMESPACE bench")
    frame = tr.spark.read.parquet(str(folder / "lineitem.parquet"))
    writer = frame.repartitionByRange(files, "l_orderkey").writeTo(f"lake.{NAME}").using("iceberg")
    writer.tableProperty("format-version", "3").tableProperty("write.distribution-mode", "none").create()
    made = tr.sql(f"SELECT count(*) FROM lake.{NAME}.files").first()[0]
    progress(f"lineitem at SF {scale:g} in {made} files")


def keys_of_one_file(tr: Trickle, place: int) -> tuple[int, int, int]:
    """(lowest order key, highest, rows) of one of the files."""
    found = tr.sql(
        f"SELECT readable_metrics.l_orderkey.lower_bound, readable_metrics.l_orderkey.upper_bound, record_count "
        f"FROM lake.{NAME}.data_files ORDER BY 1"
    ).collect()[place]
    return found[0], found[1], found[2]


def one_file(tr: Trickle, options: argparse.Namespace) -> list[Row]:
    rows, repeat = [], options.repeat
    one = options.files // 3
    low, high, count = keys_of_one_file(tr, one)
    old = head(tr, NAME)
    copied = f"SELECT /*+ COALESCE(1) */ * FROM lake.{NAME} WHERE l_orderkey BETWEEN {low + 1} AND {high - 1}"
    tr.sql(f"INSERT INTO lake.{NAME} {copied}")
    rows.append(measure(tr, f"append of one file ({count:,} rows)", NAME, old, repeat))
    if options.profile:
        profile(tr, NAME, old, "append")

    low, high, count = keys_of_one_file(tr, one + 2)
    old = head(tr, NAME)
    chosen = (
        f"SELECT l_orderkey FROM lake.{NAME} WHERE l_orderkey BETWEEN {low + 1} AND {high - 1} ORDER BY 1 LIMIT 100"
    )
    keys = [r[0] for r in tr.sql(chosen).collect()]
    tr.sql(f"DELETE FROM lake.{NAME} WHERE l_orderkey BETWEEN {keys[0]} AND {keys[-1]}")
    rows.append(measure(tr, "delete of 100 rows of one file", NAME, old, repeat))
    if options.profile:
        profile(tr, NAME, old, "delete")
    old = head(tr, NAME)
    tr.sql(f"DELETE FROM lake.{NAME} WHERE l_orderkey BETWEEN {keys[-1] + 1} AND {keys[-1] + 100}")
    rows.append(measure(tr, "another delete in that file", NAME, old, repeat))
    if options.profile:
        profile(tr, NAME, old, "second delete")

    compacted = (low, high)
    low, high, count = keys_of_one_file(tr, one + 5)
    old = head(tr, NAME)
    tr.sql(
        f"UPDATE lake.{NAME} SET l_discount = 0.09 WHERE l_orderkey BETWEEN {low + 1} AND {high - 1} "
        f"AND pmod(hash(l_orderkey, l_linenumber), 100) = 0"
    )
    rows.append(measure(tr, "update of 1 % of one file", NAME, old, repeat))
    if options.profile:
        profile(tr, NAME, old, "update")

    old = head(tr, NAME)
    low, high = compacted
    done = tr.sql(
        f"CALL lake.system.rewrite_data_files(table => '{NAME}', options => map('rewrite-all', 'true'), "
        f"where => 'l_orderkey > {low} and l_orderkey < {high}')"
    ).first()
    rows.append(measure(tr, f"compaction of {done[0]} files", NAME, old, repeat))
    if options.profile:
        profile(tr, NAME, old, "compaction")
    rows.append(measure_whole(tr, min(repeat, 3)))
    return rows


# -- many snapshots ------------------------------------------------------------------------------------------------


def many_snapshots(tr: Trickle, options: argparse.Namespace) -> list[Row]:
    """The same files in n commits and in one; and one file that is swapped n times and once."""
    n, rows = options.snapshots, []
    session = tr.refresher.lake.session
    for name, commits in (("bench.many", n), ("bench.one", 1)):
        tr.sql(f"CREATE TABLE lake.{name} (id BIGINT, v STRING)")
        tr.sql(f"INSERT INTO lake.{name} SELECT id, concat('v', id) FROM range(1000)")
        table = loaded(tr, name)
        frame = session.sql(f"SELECT id, concat('w', id) AS v FROM range({n * 10})").repartition(n)
        files = list(write_files(session, table, frame))
        old = head(tr, name)
        step = -(-len(files) // commits)
        for start in range(0, len(files), step):
            append = table.newAppend()
            for file in files[start : start + step]:
                append.appendFile(file)
            append.commit()
        rows.append(
            measure(tr, f"{len(files)} files appended in {commits} snapshots", name, old, options.repeat, ("id", "v"))
        )
    for name, commits in (("bench.swapped_often", n), ("bench.swapped_once", 1)):
        tr.sql(f"CREATE TABLE lake.{name} (id BIGINT, v STRING)")
        tr.sql(f"INSERT INTO lake.{name} SELECT id, concat('v', id) FROM range(1000)")
        table = loaded(tr, name)
        frame = session.sql(f"SELECT id, concat('w', id) AS v FROM range({(commits + 1) * 10})").repartition(
            commits + 1
        )
        files = list(write_files(session, table, frame))
        table.newAppend().appendFile(files[0]).commit()
        old = head(tr, name)
        for before, after in itertools.pairwise(files):
            table.newOverwrite().deleteFile(before).addFile(after).commit()
        rows.append(measure(tr, f"one file swapped {len(files) - 1} times", name, old, options.repeat, ("id", "v")))
    return rows


def loaded(tr: Trickle, name: str) -> Any:
    util = tr.spark._jvm.org.apache.iceberg.spark.Spark3Util
    return util.loadIcebergTable(tr.spark._jsparkSession, f"lake.{name}")


def verdicts(rows: Sequence[Row], many: Sequence[Row]) -> list[str]:
    """The targets that were missed: of one changed file, and of many snapshots against one."""
    found = []
    for row in rows:
        limit = COMPACTION if row.what.startswith("compaction") else PLANNING
        if row.planning > limit:
            found.append(f"missed: {row.what}: planning {row.planning:.3f} s, target {limit} s")
        if row.needed and row.read > BYTES * row.needed:
            found.append(f"missed: {row.what}: {row.read / row.needed:.2f} times the needed bytes, target {BYTES}")
    for often, once in zip(many[::2], many[1::2], strict=True):
        if often.total > SAME * once.total:
            found.append(f"missed: {often.what}: {often.total:.3f} s, and {once.total:.3f} s for {once.what}")
    return found


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--sf", type=float, default=1.0, help="scale factor (default 1: 6 million lineitems)")
    parser.add_argument("--files", type=int, default=200)
    parser.add_argument("--snapshots", type=int, default=500)
    parser.add_argument("--repeat", type=int, default=5)
    parser.add_argument("--memory", default="4g", help="of the Spark driver")
    parser.add_argument("--profile", action="store_true", help="say where planning spends its time")
    options = parser.parse_args()
    folder = Path(tempfile.mkdtemp(prefix="trickle-feed-"))
    try:
        with spark_trickle.connect(folder / "lake", driver_memory=options.memory) as tr:
            load(tr, folder, options.sf, options.files)
            rows = one_file(tr, options)
            many = many_snapshots(tr, options)
    finally:
        shutil.rmtree(folder, ignore_errors=True)
    columns = ", ".join(COLUMNS)
    print(f"lineitem, SF {options.sf:g}, {options.files} files, {os.cpu_count()} cores; columns {columns};")
    print(f"medians of {options.repeat} runs; bytes: the least of them\n\n{HEADER}")
    for row in (*rows, *many):
        print(row.markdown())
    print("\n" + "\n".join(verdicts(rows, many) or ["All targets are met."]), flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
