"""The same three tables kept in four ways, over the same changes to a million rows.

- trickle: a stream table, refreshed.
- recompute: INSERT OVERWRITE with the plain query.
- merge: what an expert writes by hand. Iceberg's changelog view gives the changed rows, of tables that are written
  copy-on-write, so the source is; one MERGE for each table applies them. Each MERGE is its own program: it knows the
  keys of the source, and which values can be added up.
- pipelines: a materialized view of Spark Declarative Pipelines, which Spark 4.1 computes anew at each run. A run is a
  process of its own (`spark-pipelines run`); the seconds are those of its flow, as it tells them, without the start.

    python benchmarks/other_ways.py [--rows 1000000] [--changed 10 1000 10000] [--repeat 3] [--no-pipelines]

Pipelines need packages that Trickle does not: pip install 'pyspark[pipelines]'. At the end every table is compared with
its query.
"""

from __future__ import annotations

import argparse
import importlib.util
import json
import os
import platform
import re
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import spark_trickle
from spark_trickle import Trickle

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))
from benchmarks.bench import CUSTOMERS, DEFINITIONS, Changes, fill

KINDS = ("filter", "aggregate", "join + aggregate")

# The row as it is now, and that it is gone, for every key that changed.
_LAST = """SELECT * FROM (SELECT *, row_number() OVER (PARTITION BY order_id
  ORDER BY _change_ordinal DESC, CASE _change_type WHEN 'DELETE' THEN 1 ELSE 0 END) AS place FROM changes)
  WHERE place = 1"""
MERGES = {
    "filter": f"""
MERGE INTO shop.filter_merge t USING ({_LAST}) s ON t.order_id = s.order_id
WHEN MATCHED AND (s._change_type = 'DELETE' OR s.status <> 3) THEN DELETE
WHEN MATCHED THEN UPDATE SET customer_id = s.customer_id, amount = s.amount, status = s.status
WHEN NOT MATCHED AND s._change_type <> 'DELETE' AND s.status = 3
  THEN INSERT (order_id, customer_id, amount, status) VALUES (s.order_id, s.customer_id, s.amount, s.status)""",
    # A maximum may be lost: the affected groups are read again.
    "aggregate": """
MERGE INTO shop.aggregate_merge t USING (
  SELECT k.customer_id, a.n, a.total, a.last_order FROM (SELECT DISTINCT customer_id FROM changes) k
  LEFT JOIN (SELECT customer_id, count(*) AS n, sum(amount) AS total, max(ordered_on) AS last_order FROM shop.orders
             WHERE customer_id IN (SELECT customer_id FROM changes) GROUP BY customer_id) a
  ON a.customer_id = k.customer_id) s ON t.customer_id = s.customer_id
WHEN MATCHED AND s.n IS NULL THEN DELETE
WHEN MATCHED THEN UPDATE SET n = s.n, total = s.total, last_order = s.last_order
WHEN NOT MATCHED AND s.n IS NOT NULL THEN INSERT *""",
    # Counts and sums can be added up, as long as only orders change.
    "join + aggregate": """
MERGE INTO shop.join_aggregate_merge t USING (
  SELECT c.city, c.segment, sum(w) AS n, CAST(sum(w * o.amount) AS DECIMAL(22, 2)) AS total FROM
  (SELECT *, CASE _change_type WHEN 'INSERT' THEN 1 WHEN 'UPDATE_AFTER' THEN 1 ELSE -1 END AS w FROM changes) o
  JOIN shop.customers c ON c.customer_id = o.customer_id GROUP BY c.city, c.segment) s
ON t.city = s.city AND t.segment = s.segment
WHEN MATCHED AND t.n + s.n = 0 THEN DELETE
WHEN MATCHED THEN UPDATE SET n = t.n + s.n, total = t.total + s.total
WHEN NOT MATCHED THEN INSERT *""",
}


def table(kind: str, way: str) -> str:
    return f"shop.{kind.replace(' + ', '_')}_{way}"


@dataclass
class Ways:
    tr: Trickle
    folder: Path
    before: int = 0  # the snapshot of shop.orders that the merged tables reflect

    def create(self, pipelines: bool) -> None:
        for kind in KINDS:
            self.tr.create_stream_table(table(kind, "trickle"), DEFINITIONS[kind], mode="differential")
            for way in ("recompute", "merge"):
                self.tr.sql(f"CREATE TABLE {table(kind, way)} AS {DEFINITIONS[kind]}")
        self.before = self._snapshot()
        if pipelines:
            self._write_pipeline()

    def trickle(self, kind: str) -> None:
        self.tr.refresh(table(kind, "trickle"))

    def recompute(self, kind: str) -> None:
        self.tr.sql(f"INSERT OVERWRITE {table(kind, 'recompute')} {DEFINITIONS[kind]}")

    def merge(self, kind: str) -> None:
        """The view of changes is made for each table: whoever keeps one alone pays for it."""
        options = f"map('start-snapshot-id', '{self.before}', 'end-snapshot-id', '{self._snapshot()}')"
        self.tr.sql(
            "CALL lake.system.create_changelog_view(table => 'shop.orders', changelog_view => 'changes', "
            f"options => {options})"
        )
        self.tr.sql(MERGES[kind])

    def merged(self) -> None:
        self.before = self._snapshot()

    def _snapshot(self) -> int:
        rows = self.tr.sql("SELECT snapshot_id FROM lake.shop.orders.snapshots ORDER BY committed_at DESC LIMIT 1")
        return int(rows.collect()[0][0])

    # -- pipelines -------------------------------------------------------------------------------------------------

    def _write_pipeline(self) -> None:
        conf = {k: v for k, v in self.tr.spark.sparkContext.getConf().getAll() if k.startswith("spark.sql.")}
        conf["spark.sql.defaultCatalog"] = "lake"
        listed = "\n".join(f"  {k}: {json.dumps(v)}" for k, v in sorted(conf.items()))
        there = self.folder / "pipeline"
        there.mkdir()
        (there / "spark-pipeline.yml").write_text(
            f"name: shop\nstorage: file://{self.folder}/storage\ncatalog: lake\ndatabase: shop\n"
            f"libraries:\n  - glob:\n      include: views/**\nconfiguration:\n{listed}\n"
        )
        (there / "views").mkdir()
        for kind in KINDS:
            name = table(kind, "pipelines").partition(".")[2]
            text = f"CREATE MATERIALIZED VIEW {name} USING iceberg AS {DEFINITIONS[kind]};\n"
            (there / "views" / f"{name}.sql").write_text(text)

    def pipelines(self) -> dict[str, float]:
        """One run; seconds of each flow between what it says at its begin and at its end."""
        context = self.tr.spark.sparkContext
        jars = context.getConf().get("spark.jars", "") or ",".join(_jars(self.tr))
        command = [
            str(Path(sys.executable).parent / "spark-pipelines"),
            "run",
            "--spec",
            str(self.folder / "pipeline" / "spark-pipeline.yml"),
            "--jars",
            jars,
        ]
        environment = {**os.environ, "SPARK_LOCAL_IP": "127.0.0.1", "PYSPARK_PYTHON": sys.executable}
        process = subprocess.Popen(
            command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, env=environment, cwd=self.folder
        )
        began: dict[str, float] = {}
        took: dict[str, float] = {}
        said = []
        assert process.stdout is not None
        for line in process.stdout:
            said.append(line)
            found = re.search(r"Flow '?`?(?:lake`?\.)?`?(?:shop`?\.)?`?(\w+)`?'? (?:is|has) (RUNNING|COMPLETED)", line)
            if found and found[2] == "RUNNING":
                began[found[1]] = time.perf_counter()
            elif found and found[1] in began:
                took[found[1]] = time.perf_counter() - began[found[1]]
        if process.wait() or len(took) < len(KINDS):
            raise SystemExit("spark-pipelines failed:\n" + "".join(said[-40:]))
        return {kind: took[table(kind, "pipelines").partition(".")[2]] for kind in KINDS}


def _jars(tr: Trickle) -> list[str]:
    """Those that the session fetched."""
    listed = tr.spark.sparkContext._jsc.sc().listJars()
    return [str(listed.apply(i)) for i in range(listed.size())]


def measure(ways: Ways, changes: Changes, changed: list[int], repeat: int, pipelines: bool) -> list[dict[str, Any]]:
    alone: dict[str, Callable[[str], None]] = {w: getattr(ways, w) for w in ("trickle", "recompute", "merge")}
    report = []
    for number, count in enumerate([10, *changed]):  # the first round plans everything for the first time
        taken: dict[tuple[str, str], list[float]] = {}
        for turn in range(repeat):
            changes.apply("mix", count)
            order = list(alone) if turn % 2 else list(alone)[::-1]
            for kind in KINDS:
                for way in order:
                    started = time.perf_counter()
                    alone[way](kind)
                    taken.setdefault((kind, way), []).append(time.perf_counter() - started)
            ways.merged()
            if pipelines and number and turn == 0:
                for kind, seconds in ways.pipelines().items():
                    taken[kind, "pipelines"] = [seconds]
        for kind in KINDS if number else ():
            medians = {way: round(statistics.median(t), 3) for (k, way), t in taken.items() if k == kind}
            report.append({"definition": kind, "changed": count, **medians})
            shown = " | ".join(f"{medians[w]:.2f} s" if w in medians else "–" for w in WAYS)
            print(f"| {kind} | {count:,} | {shown} |", flush=True)
    return report


WAYS = ("trickle", "merge", "recompute", "pipelines")


def compare(ways: Ways, pipelines: bool) -> list[str]:
    """The tables that are not what their query says."""
    if pipelines:
        ways.pipelines()
    wrong = []
    for kind in KINDS:
        for way in WAYS if pipelines else WAYS[:-1]:
            query, there = DEFINITIONS[kind], f"SELECT * FROM {table(kind, way)}"
            both = f"(({query}) EXCEPT ALL ({there})) UNION ALL (({there}) EXCEPT ALL ({query}))"
            if ways.tr.sql(f"SELECT count(*) FROM ({both})").collect()[0][0]:
                wrong.append(table(kind, way))
    return wrong


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rows", type=int, default=1_000_000)
    parser.add_argument("--changed", type=int, nargs="+", default=[10, 1_000, 10_000])
    parser.add_argument("--repeat", type=int, default=3)
    parser.add_argument("--no-pipelines", action="store_true")
    parser.add_argument("--json", type=Path, help="write the figures to this file as well")
    options = parser.parse_args()
    pipelines = not options.no_pipelines
    if pipelines and importlib.util.find_spec("grpc") is None:
        print("Without pipelines: they need pip install 'pyspark[pipelines]'.", file=sys.stderr)
        pipelines = False
    folder = Path(tempfile.mkdtemp(prefix="trickle-ways-"))
    try:
        with spark_trickle.connect(folder / "lake", driver_memory="4g") as tr:
            fill(tr, options.rows)
            modes = ", ".join(f"'write.{what}.mode' = 'copy-on-write'" for what in ("delete", "update", "merge"))
            tr.sql(f"ALTER TABLE shop.orders SET TBLPROPERTIES ({modes})")
            ways = Ways(tr, folder)
            ways.create(pipelines)
            print(f"{options.rows:,} orders, {CUSTOMERS:,} customers; medians of {options.repeat}\n")
            print(f"| definition | changed rows | {' | '.join(WAYS)} |")
            print("|---|---|" + "---|" * len(WAYS))
            report = measure(ways, Changes(tr, options.rows), options.changed, options.repeat, pipelines)
            wrong = compare(ways, pipelines)
    finally:
        shutil.rmtree(folder, ignore_errors=True)
    print(f"\nDIFFERS: {', '.join(wrong)}" if wrong else "\nall tables equal their queries")
    if options.json:
        machine = {"machine": platform.machine(), "python": platform.python_version()}
        options.json.write_text(json.dumps({"rows": options.rows, **machine, "cells": report}, indent=1) + "\n")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
