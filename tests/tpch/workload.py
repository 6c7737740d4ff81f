"""TPC-H as a workload of a lake: its data, its 22 queries, and rounds of changes that matter to them.

Data comes from tpchgen-cli. The refresh functions of the specification insert new orders and delete old ones: here a
range of order keys is held back at load and inserted in the rounds, and another range is deleted. Both ranges hold an
order that is large enough for Q18. Each round also updates customers, parts and suppliers, into the values that the
queries select.
"""

from __future__ import annotations

import shutil
import subprocess
import sys
from dataclasses import dataclass, field
from pathlib import Path

from spark_trickle import Trickle

NAMESPACE = "tpch"
TABLES = ("region", "nation", "supplier", "customer", "part", "partsupp", "orders", "lineitem")
ROUNDS = 3
_FOLDER = Path(__file__).parent / "queries"
QUERIES = tuple(sorted(f.stem for f in _FOLDER.glob("q*.sql")))

# Per round, what happens to every so many-th row. Nations: 2 BRAZIL, 3 CANADA, 6 FRANCE, 7 GERMANY, 8 INDIA,
# 20 SAUDI ARABIA, 23 UNITED KINGDOM.
_CUSTOMERS = (
    "c_mktsegment = 'BUILDING', c_acctbal = c_acctbal + 3000",
    "c_mktsegment = 'MACHINERY', c_nationkey = CASE pmod(c_custkey, 4) WHEN 0 THEN 7 WHEN 1 THEN 6 WHEN 2 THEN 8 "
    "ELSE 2 END, c_phone = concat('13', substring(c_phone, 3))",
    "c_mktsegment = 'BUILDING', c_acctbal = -c_acctbal, c_phone = concat('31', substring(c_phone, 3))",
)
_PARTS = (
    "p_size = 15, p_type = 'ECONOMY ANODIZED BRASS', p_brand = 'Brand#23', p_container = 'MED BOX'",
    "p_size = 3, p_type = 'PROMO BURNISHED COPPER', p_name = concat('forest ', p_name), p_brand = 'Brand#12', "
    "p_container = 'SM BOX'",
    "p_size = 9, p_type = 'ECONOMY ANODIZED STEEL', p_name = concat('green ', p_name), p_brand = 'Brand#34', "
    "p_container = 'LG CASE'",
)
_SUPPLIERS = (
    "s_nationkey = CASE pmod(s_suppkey, 3) WHEN 0 THEN 7 WHEN 1 THEN 20 ELSE 3 END, s_acctbal = s_acctbal + 500",
    "s_comment = concat('Customer wrote Complaints ', s_comment), s_nationkey = CASE pmod(s_suppkey, 3) WHEN 0 THEN 6 "
    "WHEN 1 THEN 23 ELSE 8 END",
    "s_comment = replace(s_comment, 'Complaints', 'letters'), s_nationkey = CASE pmod(s_suppkey, 3) WHEN 0 THEN 20 "
    "WHEN 1 THEN 2 ELSE 3 END, s_phone = concat('30', substring(s_phone, 3))",
)


def definition(query: str, scale: float) -> str:
    """The text of a query with the validation parameters of the specification, which scales one of them itself."""
    text = (_FOLDER / f"{query}.sql").read_text(encoding="utf-8")
    if query == "q11":  # FRACTION is 0.0001 / SF
        text = text.replace("0.0001", f"{0.0001 / scale:.10f}".rstrip("0"))
    return text


def generate(folder: Path, scale: float) -> None:
    """One Parquet file per table."""
    beside = Path(sys.executable).parent / "tpchgen-cli"
    command = str(beside) if beside.exists() else shutil.which("tpchgen-cli")
    if command is None:
        raise RuntimeError("tpchgen-cli is missing: make setup")
    subprocess.run(
        [command, "parquet", "--scale-factor", str(scale), "--output-dir", str(folder), "--quiet"], check=True
    )


@dataclass(slots=True)
class Workload:
    """TPC-H in a lake. `share` of the orders, customers and parts, and at least ten suppliers, change per round."""

    tr: Trickle
    data: Path
    share: float
    counts: dict[str, int] = field(default_factory=dict)
    _step: int = 0  # order keys per round
    _inserted: int = 0  # the held back range starts after this order key
    _deleted: int = 0

    def load(self) -> None:
        """Every table but for the orders that the rounds insert."""
        spark = self.tr.spark
        self.tr.sql(f"CREATE NAMESPACE {NAMESPACE}")
        self.tr.sql(f"USE {NAMESPACE}")
        for table in TABLES:
            spark.read.parquet(str(self.data / f"{table}.parquet")).createOrReplaceTempView(f"generated_{table}")
            self.counts[table] = spark.table(f"generated_{table}").count()
        self._lay_ranges()
        for table in TABLES:
            held_back = _between(table, self._inserted, self._inserted + ROUNDS * self._step)
            where = f" WHERE NOT ({held_back})" if table in ("orders", "lineitem") else ""
            self.tr.sql(f"CREATE TABLE {NAMESPACE}.{table} AS SELECT * FROM generated_{table}{where}")

    def _lay_ranges(self) -> None:
        highest = self.tr.spark.sql("SELECT max(o_orderkey) FROM generated_orders").first()[0]
        large = self.tr.spark.sql(
            "SELECT l_orderkey FROM generated_lineitem GROUP BY l_orderkey HAVING sum(l_quantity) > 300 ORDER BY 1"
        ).collect()
        self._step = int(highest * self.share)
        width = ROUNDS * self._step
        # The lowest large order goes in the second round, the highest comes in the first.
        self._deleted = min(max(0, large[0][0] - self._step - 1), highest - 2 * width)
        self._inserted = min(max(self._deleted + width, large[-1][0] - 1), highest - width)

    def change(self, number: int) -> None:
        """Round `number`, from 1."""
        before = (number - 1) * self._step
        for table in ("orders", "lineitem"):
            arrives = _between(table, self._inserted + before, self._inserted + before + self._step)
            self.tr.sql(f"INSERT INTO {NAMESPACE}.{table} SELECT * FROM generated_{table} WHERE {arrives}")
        for table in ("lineitem", "orders"):
            leaves = _between(table, self._deleted + before, self._deleted + before + self._step)
            self.tr.sql(f"DELETE FROM {NAMESPACE}.{table} WHERE {leaves}")
        for table, key, assignments in (
            ("customer", "c_custkey", _CUSTOMERS),
            ("part", "p_partkey", _PARTS),
            ("supplier", "s_suppkey", _SUPPLIERS),
        ):
            rows = self.counts[table]
            every = max(1, round(rows / max(10, rows * self.share)))
            # From round to round another residue, so that the third of the customers without orders has its turn.
            self.tr.sql(
                f"UPDATE {NAMESPACE}.{table} SET {assignments[number - 1]} "
                f"WHERE pmod({key}, {every}) = {number % every}"
            )


def _between(table: str, after: int, until: int) -> str:
    key = f"{table[0]}_orderkey"
    return f"{key} > {after} AND {key} <= {until}"
