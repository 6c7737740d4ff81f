"""Does the ten-thousandth refresh cost what the tenth did? Tiny refreshes, many of them, with and without maintenance.

Two lakes in one warm process get the same changes, in turns: one is maintained between refreshes as `trickle up` does
it, the other one is not. Printed for each window of refreshes: the median time of a refresh, the time of maintenance
per refresh, and what is there at its end. Sources are kept small in both lakes: what is measured is what refreshes
leave behind.

    python benchmarks/long_run.py [--refreshes 2000] [--window 100] [--rows 20000] [--only on|off]
"""

from __future__ import annotations

import argparse
import shutil
import statistics
import sys
import tempfile
import time
from dataclasses import dataclass, field
from pathlib import Path

import spark_trickle
from spark_trickle import Action, Trickle
from spark_trickle.lake.jvm import file_io
from spark_trickle.model import TableName

DEFINITIONS = {
    "shop.large": "SELECT order_id, customer_id, amount FROM shop.orders WHERE amount > 20",
    "shop.totals": "SELECT customer_id, count(*) AS n, sum(amount) AS total, max(order_id) AS latest FROM shop.orders "
    "GROUP BY customer_id",
    # The average of floats below a join is a hidden state table.
    "shop.beside": "SELECT c.customer_id, c.city, a.mean FROM shop.customers c "
    "JOIN (SELECT customer_id, avg(weight) AS mean FROM shop.orders GROUP BY customer_id) a "
    "ON c.customer_id = a.customer_id",
}
CUSTOMERS = 2_000


@dataclass
class Side:
    """One lake."""

    label: str
    tr: Trickle
    maintained: bool
    seconds: dict[str, list[float]] = field(default_factory=lambda: {name: [] for name in DEFINITIONS})
    upkeep: list[float] = field(default_factory=list)
    passes: int = 0

    def fill(self, rows: int) -> None:
        tr = self.tr
        tr.sql("CREATE NAMESPACE shop")
        tr.sql("CREATE TABLE shop.customers (customer_id BIGINT, city STRING)")
        tr.sql(f"INSERT INTO shop.customers SELECT id, concat('city ', id % 50) FROM range({CUSTOMERS})")
        tr.sql(
            "CREATE TABLE shop.orders (order_id BIGINT, customer_id BIGINT, amount INT, weight DOUBLE) "
            "TBLPROPERTIES ('format-version' = '3', 'write.delete.mode' = 'merge-on-read')"
        )
        tr.sql(f"INSERT INTO shop.orders SELECT id, id % {CUSTOMERS}, CAST(id % 100 AS INT), id / 7 FROM range({rows})")
        for name, query in DEFINITIONS.items():
            tr.create_stream_table(name, query, mode="differential")

    def change(self, n: int, rows: int) -> None:
        values = ", ".join(f"({rows + 3 * n + i}, {(n * 7 + i) % CUSTOMERS}, {50 + i}, {n}.5)" for i in range(3))
        self.tr.sql(f"INSERT INTO shop.orders VALUES {values}")
        if n % 4 == 0:
            self.tr.sql(f"DELETE FROM shop.orders WHERE order_id = {n}")
        if n % 20 == 19:  # the source is somebody else's, who looks after it
            self.tr.sql("CALL lake.system.rewrite_data_files(table => 'shop.orders')").collect()
            self.tr.sql(
                "CALL lake.system.expire_snapshots(table => 'shop.orders', "
                "older_than => TIMESTAMP '2100-01-01', retain_last => 5)"
            ).collect()

    def step(self) -> None:
        for name, seconds in self.seconds.items():
            started = time.perf_counter()
            result = self.tr.refresh(name)
            seconds.append(time.perf_counter() - started)
            if result.action is not Action.DIFFERENTIAL:
                raise RuntimeError(f"{result}")
        if self.maintained:
            started = time.perf_counter()
            while found := self.tr.maintainer.next("benchmark"):
                self.passes += sum(u.done for u in found)
            self.upkeep.append(time.perf_counter() - started)

    def verify(self) -> None:
        for name in DEFINITIONS:
            found = self.tr.verify(name, deep=True)
            if not found.equal:
                raise RuntimeError(str(found))

    def told(self, window: int) -> str:
        """The last refreshes, and what is there after them."""
        medians = [statistics.median(seconds[-window:]) for seconds in self.seconds.values()]
        tr, files, deletes, snapshots, metadata = self.tr, 0, 0, 0, 0
        io = file_io(tr.refresher.lake.session)
        folders = []
        for table in tr.store.stream_tables():
            for name in (table.name, *(s.name for s in table.states)):
                location = tr.store.pointers()[TableName.of(str(name))].location
                found = tr.refresher.lake.metadata(location)
                summary = dict(found.currentSnapshot().summary())
                files += int(summary.get("total-data-files", 0))
                deletes += int(summary.get("total-delete-files", 0))
                snapshots += int(found.snapshots().size())
                metadata += int(io.newInputFile(location).getLength())
                folders.append(Path(location.removeprefix("file:")).parent.parent)
        on_disk = [f for folder in folders for f in folder.rglob("*") if f.is_file()]
        catalog = sum(f.stat().st_size for f in Path(tr.settings.location).glob("catalog.db*"))
        upkeep = f"{1000 * sum(self.upkeep[-window:]) / window:5.0f}" if self.maintained else "    -"
        return (
            f"{self.label:4} {' '.join(f'{1000 * m:7.0f}' for m in medians)} {1000 * sum(medians):8.0f} {upkeep} "
            f"{files:6} {deletes:7} {snapshots:6} {metadata / 1000:8.0f} {len(on_disk):8} "
            f"{sum(f.stat().st_size for f in on_disk) / 1e6:7.1f} {catalog / 1e6:7.1f}"
        )


NAMES = " ".join(f"{name.partition('.')[2]:>7}" for name in DEFINITIONS)
HEAD = (
    f"{'at':>6} {'':4} {NAMES} {'sum ms':>8} {'+ms':>5} {'files':>6} {'deletes':>7} {'snaps':>6} {'meta kB':>8} "
    f"{'on disk':>8} {'MB':>7} {'cat. MB':>7}"
)


def main(arguments: list[str]) -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--refreshes", type=int, default=2000)
    parser.add_argument("--window", type=int, default=100)
    parser.add_argument("--rows", type=int, default=20_000)
    parser.add_argument("--only", choices=("on", "off"))
    a = parser.parse_args(arguments)
    folder = Path(tempfile.mkdtemp(prefix="trickle-long-run-"))
    sides = []
    try:
        for label in ("on", "off"):
            if a.only in (None, label):
                tr = spark_trickle.connect(folder / label, shuffle_partitions=2, reader_grace="1m")
                sides.append(Side(label, tr, label == "on"))
        for side in sides:
            side.fill(a.rows)
        print(HEAD, flush=True)
        for n in range(a.refreshes):
            for side in sides if n % 2 else sides[::-1]:
                side.change(n, a.rows)
                side.step()
            if n + 1 in (20, *range(a.window, a.refreshes + 1, a.window)):
                for side in sides:
                    print(f"{n + 1:6} {side.told(min(a.window, n + 1) if n >= 20 else 10)}", flush=True)
        for side in sides:
            side.verify()
            first, last = (
                sum(statistics.median(s[part]) for s in side.seconds.values())
                for part in (slice(10, 10 + a.window), slice(-a.window, None))
            )
            print(f"{side.label}: {last / first:.2f} times the refreshes 11 to {10 + a.window}; {side.passes} passes")
    finally:
        for side in sides[::-1]:
            side.tr.close()
        shutil.rmtree(folder, ignore_errors=True)


if __name__ == "__main__":
    main(sys.argv[1:])
