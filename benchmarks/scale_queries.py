"""What `scale.py` measures: a TPC-H lake that is kept, seven definitions over it, and three kinds of change to it.

Order keys of TPC-H are sparse: of each 32, the first 8 are orders. An order has four lines on average, so there are
about as many lines up to an order key as the key says.
"""

from __future__ import annotations

import json
import shutil
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from tests.tpch.workload import NAMESPACE, TABLES, generate

from spark_trickle import Trickle, TrickleError

# `{lake}` is the namespace of the tables. Every definition reads lineitem, which all kinds of change reach, and orders
# rows so that its result is determined.
DEFINITIONS = {
    "aggregate": """
        SELECT l_suppkey, count(*) AS line_count, sum(l_quantity) AS quantity,
          sum(l_extendedprice * (1 - l_discount)) AS revenue, max(l_receiptdate) AS last_receipt
        FROM {lake}.lineitem
        GROUP BY l_suppkey""",
    "join_aggregate": """
        SELECT o_orderdate, o_orderpriority, count(*) AS line_count, sum(l_quantity) AS quantity,
          sum(l_extendedprice * (1 - l_discount)) AS revenue
        FROM {lake}.orders JOIN {lake}.lineitem ON l_orderkey = o_orderkey
        GROUP BY o_orderdate, o_orderpriority""",
    "count_distinct": """
        SELECT n_name, year(o_orderdate) AS order_year, month(o_orderdate) AS order_month,
          count(DISTINCT c_custkey) AS customers, sum(l_extendedprice * (1 - l_discount)) AS revenue
        FROM {lake}.nation
        JOIN {lake}.customer ON c_nationkey = n_nationkey
        JOIN {lake}.orders ON o_custkey = c_custkey
        JOIN {lake}.lineitem ON l_orderkey = o_orderkey
        GROUP BY n_name, year(o_orderdate), month(o_orderdate)""",
    "filtered": """
        SELECT l_orderkey, l_linenumber, l_partkey, l_suppkey, l_quantity, l_extendedprice, l_discount, l_shipmode
        FROM {lake}.lineitem
        WHERE l_quantity > 45 AND l_shipmode IN ('AIR', 'REG AIR')""",
    "exists_aggregate": """
        SELECT o_orderpriority, count(*) AS late_orders, sum(o_totalprice) AS total
        FROM {lake}.orders
        WHERE EXISTS (
          SELECT * FROM {lake}.lineitem WHERE l_orderkey = o_orderkey AND l_commitdate < l_receiptdate
        )
        GROUP BY o_orderpriority""",
    "top_100": """
        SELECT c_custkey, c_name, count(*) AS line_count, sum(l_extendedprice * (1 - l_discount)) AS revenue
        FROM {lake}.customer
        JOIN {lake}.orders ON o_custkey = c_custkey
        JOIN {lake}.lineitem ON l_orderkey = o_orderkey
        GROUP BY c_custkey, c_name
        ORDER BY revenue DESC, c_custkey
        LIMIT 100""",
    "first_rows": """
        SELECT l_partkey, place, l_orderkey, l_linenumber, l_quantity, l_extendedprice
        FROM (
          SELECT l_partkey, l_orderkey, l_linenumber, l_quantity, l_extendedprice,
            row_number() OVER (PARTITION BY l_partkey ORDER BY l_quantity DESC, l_orderkey, l_linenumber) AS place
          FROM {lake}.lineitem
        )
        WHERE place <= 3""",
}
GROWING = ("aggregate", "join_aggregate", "filtered")  # read orders and lineitem alone
KINDS = ("tail", "point", "scatter")

SHARE = 0.001  # of the orders that a tail adds, of the lines that a scatter updates
POINTS = 10  # orders whose lines a point updates
SPARSE, USED = 32, 8
LINES = 6_000_000  # of scale factor 1, and the highest order key
FILE_BYTES = 128 << 20

# The quantity stays between 1 and 50 and always changes, the discount stays between 0 and 0.10, a line that is late
# comes in time and the other way round.
_UPDATE = (
    "l_quantity = pmod(l_quantity, 50) + 1, l_discount = 0.10 - l_discount, "
    "l_receiptdate = date_add(l_commitdate, CASE WHEN l_receiptdate > l_commitdate THEN -1 ELSE 1 END)"
)

Say = Callable[[str], None]


def definition(name: str, lake: str = NAMESPACE) -> str:
    text = DEFINITIONS[name].format(lake=lake).strip()
    return "\n".join(line.removeprefix(" " * 8) for line in text.splitlines())


# -- the lake ----------------------------------------------------------------------------------------------------------


@dataclass(slots=True)
class Notes:
    """`scale.json` in the folder of the lake: its scale factor, and how many seconds things in it once took."""

    path: Path
    scale: float
    seconds: dict[str, float]

    @staticmethod
    def of(folder: Path, scale: float) -> Notes:
        path = folder / "scale.json"
        if not path.exists():
            notes = Notes(path, scale, {})
            notes._write()
            return notes
        found = json.loads(path.read_text(encoding="utf-8"))
        if found["sf"] != scale:
            raise SystemExit(f"{folder} has scale factor {found['sf']:g}, not {scale:g}: name another folder")
        return Notes(path, scale, found["seconds"])

    def took(self, name: str, seconds: float) -> None:
        self.seconds[name] = round(seconds, 2)
        self._write()

    def _write(self) -> None:
        beside = self.path.with_suffix(".new")
        beside.write_text(json.dumps({"sf": self.scale, "seconds": self.seconds}, indent=1) + "\n", encoding="utf-8")
        beside.replace(self.path)


@dataclass(frozen=True, slots=True)
class Loaded:
    """A source."""

    name: str
    rows: int
    files: int
    megabytes: float
    seconds: float | None  # None: not known, it was loaded by a run that was interrupted
    reused: bool


def load(tr: Trickle, folder: Path, notes: Notes, say: Say) -> list[Loaded]:
    """All tables of TPC-H, those that are not there yet. A table appears at once or not at all."""
    tr.sql(f"CREATE NAMESPACE IF NOT EXISTS {NAMESPACE}")
    there = tables(tr, NAMESPACE)
    generated = folder / "generated"
    if set(TABLES) - there and not generated.exists():
        _generate(generated, notes, say)
    made = []
    for table in TABLES:
        if table not in there:
            # One file from tpchgen-cli, by order key. Spark reads it in stretches of up to 128 MB, and writes one
            # file of each.
            tr.spark.read.parquet(str(generated / f"{table}.parquet")).createOrReplaceTempView(f"generated_{table}")
        made.append(_made(tr, f"{NAMESPACE}.{table}", f"SELECT * FROM generated_{table}", table in there, notes, say))
    shutil.rmtree(generated, ignore_errors=True)
    return made


def load_growing(tr: Trickle, rows: int, notes: Notes, say: Say) -> list[Loaded]:
    """orders and lineitem as they were loaded, up to the order key that gives that many lines."""
    namespace = growing(rows)
    tr.sql(f"CREATE NAMESPACE IF NOT EXISTS {namespace}")
    there, made = tables(tr, namespace), []
    for table in ("orders", "lineitem"):
        first = f"SELECT snapshot_id FROM {NAMESPACE}.{table}.snapshots ORDER BY committed_at LIMIT 1"
        source = f"{NAMESPACE}.{table} VERSION AS OF {tr.sql(first).first()[0]}"
        query = f"SELECT * FROM {source} WHERE {table[0]}_orderkey <= {rows}"
        made.append(_made(tr, f"{namespace}.{table}", query, table in there, notes, say))
    return made


def growing(rows: int) -> str:
    return f"growth_{rows}"


def tables(tr: Trickle, namespace: str) -> set[str]:
    return {row["tableName"] for row in tr.sql(f"SHOW TABLES IN {namespace}").collect()}


def _generate(folder: Path, notes: Notes, say: Say) -> None:
    say(f"generating TPC-H at SF {notes.scale:g}")
    started, beside = time.perf_counter(), folder.with_suffix(".part")
    shutil.rmtree(beside, ignore_errors=True)
    generate(beside, notes.scale)
    beside.rename(folder)
    notes.took("generated", time.perf_counter() - started)


def _made(tr: Trickle, name: str, query: str, reused: bool, notes: Notes, say: Say) -> Loaded:
    if not reused:
        started = time.perf_counter()
        tr.sql(f"CREATE TABLE {name} TBLPROPERTIES ('write.target-file-size-bytes' = '{FILE_BYTES}') AS {query}")
        notes.took(name, time.perf_counter() - started)
    sizes = f"SELECT sum(record_count), count(*), sum(file_size_in_bytes) FROM {name}.data_files"
    rows, files, size = tr.sql(sizes).first()
    gone = tr.sql(f"SELECT coalesce(sum(record_count), 0) FROM {name}.delete_files").first()[0]
    made = Loaded(name, rows - gone, files, round(size / 1e6, 1), notes.seconds.get(name), reused)
    how = "reused" if reused else f"loaded in {made.seconds:.1f} s"
    say(f"{name}: {how}, {made.rows:,} rows in {files} files, {made.megabytes:,.1f} MB")
    return made


# -- stream tables -----------------------------------------------------------------------------------------------------


@dataclass(slots=True)
class Created:
    """A stream table."""

    name: str
    seconds: float | None = None
    rows: int = 0
    incremental: bool = False
    states: int = 0  # hidden state tables
    reused: bool = False
    failed: str | None = None


def create(tr: Trickle, name: str, text: str, notes: Notes, say: Say) -> Created:
    """It is reused if it is there with this very definition."""
    made, how = Created(name), ""
    there = {s.name for s in tr.status()}
    if name in there and tr.describe(name).definition != text:
        say(f"{name}: has another definition, dropped")
        tr.drop_stream_table(name)
        there.remove(name)
    try:
        if name in there:
            made.reused = True
            left = tr.refresh(name)  # by a run that was interrupted, or that was not about it
            how = f"reused, {left.action} first"
        else:
            started = time.perf_counter()
            tr.create_stream_table(name, text, schedule="manual")
            notes.took(name, time.perf_counter() - started)
            how = f"created in {notes.seconds[name]:.1f} s"
        made.seconds = notes.seconds.get(name)
        made.rows = tr.sql(f"SELECT count(*) FROM {name}").first()[0]
        (status,) = tr.status(name)
        made.incremental, made.states = status.incremental, len(status.states)
        kept = "incremental" if status.incremental else f"NOT incremental: {status.reason}"
        say(f"{name}: {how}, {made.rows:,} rows, {kept}")
    except Exception as error:  # a bug must not end hours of measuring
        made.failed = told(error)
        say(f"{name} FAILED to be created: {made.failed}")
    return made


def told(error: Exception) -> str:
    text = f"{error.code}: {error.message}" if isinstance(error, TrickleError) else str(error)
    return (text.strip() or type(error).__name__).splitlines()[0]


# -- changes -----------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Changes:
    """To orders and lineitem of one namespace. They go on where an earlier run ended: the step counts snapshots."""

    tr: Trickle
    namespace: str
    loaded: int  # the highest order key at load

    def step(self) -> int:
        return int(self.tr.sql(f"SELECT count(*) FROM {self.namespace}.lineitem.snapshots").first()[0])

    def apply(self, kind: str) -> None:
        if kind == "tail":
            orders = max(POINTS, round(self.loaded * USED / SPARSE * SHARE))
            self.tail(orders, self.step(), self.loaded)
        elif kind == "point":
            self.point(self.step())
        else:
            self.scatter(self.step())

    def tail(self, orders: int, step: int, below: int) -> None:
        """New orders with their lines, after all others: copies of a stretch of those with keys up to `below`."""
        width = orders * SPARSE // USED
        start = step * SPARSE * 104_729 % max(SPARSE, below - width)
        highest = self.tr.sql(f"SELECT max(o_orderkey) FROM {self.namespace}.orders").first()[0]
        for table in ("orders", "lineitem"):
            key, name = f"{table[0]}_orderkey", f"{self.namespace}.{table}"
            self.tr.sql(
                f"INSERT INTO {name} SELECT {key} - {start} + {highest} AS {key}, * EXCEPT ({key}) FROM {name} "
                f"WHERE {key} > {start} AND {key} <= {start + width}"
            )

    def point(self, step: int) -> None:
        """All lines of ten orders, evenly apart, other ones each time."""
        stretches = self.loaded // SPARSE
        keys = [
            SPARSE * ((n * stretches // POINTS + 97 * step) % stretches) + 1 + (n + step) % (USED - 1)
            for n in range(POINTS)
        ]
        self._update(f"l_orderkey IN ({', '.join(map(str, keys))})")

    def scatter(self, step: int) -> None:
        every = round(1 / SHARE)
        self._update(f"pmod(hash(l_orderkey, l_linenumber), {every}) = {step % every}")

    def _update(self, where: str) -> None:
        self.tr.sql(f"UPDATE {self.namespace}.lineitem SET {_UPDATE} WHERE {where}")
