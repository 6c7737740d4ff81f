"""DIFFERENTIAL against FULL on a million rows, alternating in one warm process.

For each operator there are two stream tables with the same definition, one DIFFERENTIAL and one FULL, over the same
sources. After each change both are refreshed, one after the other, and the one who goes first alternates. Reported are
medians, the ratio, and where the time of the DIFFERENTIAL went, from the engine's own history.

    python benchmarks/bench.py [--rows 1000000] [--repeat 2] [--sizes 10,1000,10000] [--warm-up 2] [--no-full] [--more]

With --no-full only the DIFFERENTIAL ones are there: for comparing two versions of the engine.
"""

from __future__ import annotations

import argparse
import json
import platform
import shutil
import statistics
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import spark_trickle
from spark_trickle import Action, Trickle

DEFINITIONS = {
    "filter": "SELECT order_id, customer_id, amount, status FROM shop.orders WHERE status = 3",
    "join": "SELECT o.order_id, o.amount, c.city, c.segment FROM shop.orders o "
    "JOIN shop.customers c ON o.customer_id = c.customer_id",
    "aggregate": "SELECT customer_id, count(*) AS n, sum(amount) AS total, max(ordered_on) AS last_order "
    "FROM shop.orders GROUP BY customer_id",
    "join + aggregate": "SELECT c.city, c.segment, count(*) AS n, sum(o.amount) AS total FROM shop.orders o "
    "JOIN shop.customers c ON o.customer_id = c.customer_id GROUP BY c.city, c.segment",
}
CUSTOMERS = 50_000


SIDES = ("differential", "full")


def names(operator: str, sides: Sequence[str] = SIDES) -> tuple[str, ...]:
    base = operator.replace(" + ", "_")
    return tuple(f"shop.{base}_{side}" for side in sides)


def fill(tr: Trickle, rows: int) -> None:
    tr.sql("CREATE NAMESPACE shop")
    tr.sql("CREATE TABLE shop.customers (customer_id BIGINT, city STRING, segment INT)")
    tr.sql(
        f"INSERT INTO shop.customers SELECT id, concat('city ', pmod(hash(id), 500)), pmod(hash(id, 7), 5) "
        f"FROM range({CUSTOMERS})"
    )
    tr.sql(
        "CREATE TABLE shop.orders (order_id BIGINT, customer_id BIGINT, amount DECIMAL(12,2), status INT, "
        "ordered_on DATE)"
    )
    tr.sql(f"INSERT INTO shop.orders {_orders(0, rows)}")


def _orders(start: int, count: int) -> str:
    return (
        f"SELECT id, pmod(hash(id, 1), {CUSTOMERS}), CAST(pmod(hash(id, 2), 100000) / 100 AS DECIMAL(12,2)), "
        f"pmod(hash(id, 3), 10), date_add(DATE'2020-01-01', pmod(hash(id, 4), 1500)) "
        f"FROM range({start}, {start + count})"
    )


class Changes:
    """Deterministic changes: appends, or a mix of 70 % updates, 15 % deletes and 15 % inserts in one place each."""

    def __init__(self, tr: Trickle, rows: int) -> None:
        self.tr, self.rows, self.next, self.step = tr, rows, rows, 0

    def apply(self, kind: str, count: int) -> None:
        if not count:
            return
        self.step += 1
        if kind == "append":
            self._insert(count)
            return
        updates, deletes = max(1, round(count * 0.7)), max(1, round(count * 0.15))
        # Scattered over the whole table: every so many-th row, another residue each time.
        for verb, number, salt in (("UPDATE", updates, 0), ("DELETE", deletes, 1)):
            every = max(2, self.rows // number)
            where = f"pmod(order_id, {every}) = {(self.step * 7 + salt) % every} AND order_id < {self.rows}"
            if verb == "UPDATE":
                self.tr.sql(f"UPDATE shop.orders SET amount = amount + 1, status = pmod(status + 1, 10) WHERE {where}")
            else:
                self.tr.sql(f"DELETE FROM shop.orders WHERE {where}")
        self._insert(max(1, count - updates - deletes))

    def _insert(self, count: int) -> None:
        self.tr.sql(f"INSERT INTO shop.orders {_orders(self.next, count)}")
        self.next += count


def measure(
    tr: Trickle, rows: int, repeat: int, sizes: Sequence[int], warm_up: int, sides: Sequence[str]
) -> list[dict[str, Any]]:
    changes, report = Changes(tr, rows), []
    cells = [("none", 0)] + [(k, n) for k in ("append", "mix") for n in sizes]
    for kind, count in [("append", 10), ("mix", 10)] * warm_up:  # the first plans of a process are slow
        changes.apply(kind, count)
        for operator in DEFINITIONS:
            for name in names(operator, sides):
                tr.refresh(name)
    for kind, count in cells:
        taken: dict[str, dict[str, list[Any]]] = {
            o: {"differential": [], "full": [], "stages": []} for o in DEFINITIONS
        }
        for turn in range(repeat if count else 20):
            changes.apply(kind, count)
            for operator in DEFINITIONS:
                for side in sides if turn % 2 else sides[::-1]:
                    (name,) = names(operator, [side])
                    start = time.perf_counter()
                    result = tr.refresh(name)
                    seconds = time.perf_counter() - start
                    expected = Action[side.upper()] if count else Action.NO_DATA
                    if result.action is not expected:
                        raise SystemExit(f"{name}: {result.action} instead of {expected} ({result.reason})")
                    taken[operator][side].append(seconds)
                    if side == "differential":
                        taken[operator]["stages"].append(result.stages)
        for operator, cell in taken.items():
            row = _summary(operator, kind, count, cell)
            report.append(row)
            _print(row)
    return report


def _summary(operator: str, kind: str, count: int, cell: dict[str, list[Any]]) -> dict[str, Any]:
    differential = statistics.median(cell["differential"])
    full = statistics.median(cell["full"] or [0.0])
    stages: dict[str, float] = {}
    for name in dict.fromkeys(s for stage in cell["stages"] for s in stage):
        stages[name] = round(statistics.median(stage.get(name, 0.0) for stage in cell["stages"]), 3)
    return {
        "operator": operator,
        "change": kind,
        "rows": count,
        "differential": round(differential, 4),
        "full": round(full, 4),
        "ratio": round(full / differential, 2),
        "spread": round(max(cell["differential"]) - min(cell["differential"]), 3),
        "stages": stages,
    }


MANY = 60
WIDE = 300


def many(tr: Trickle, rows: int, rounds: int) -> dict[str, Any]:
    """Many stream tables over one source, ten changed rows: seconds of one call that refreshes all, per table."""
    kinds = (
        "SELECT order_id, customer_id, amount + {i} AS amount FROM shop.orders WHERE status = {s}",
        "SELECT customer_id, count(*) AS n, sum(amount) AS total{i} FROM shop.orders GROUP BY customer_id",
        "SELECT o.order_id, o.amount, c.city, {i} AS i FROM shop.orders o JOIN shop.customers c "
        "ON o.customer_id = c.customer_id WHERE o.status = {s}",
    )
    made = [f"shop.many_{i}" for i in range(MANY)]
    for i, name in enumerate(made):
        tr.create_stream_table(name, kinds[i % len(kinds)].format(i=i, s=i % 10), mode="differential")
    changes, taken = Changes(tr, rows), []
    changes.next, changes.step = 2 * rows, 1000
    for _ in range(rounds + 2):
        changes.apply("mix", 10)
        started = time.perf_counter()
        results = tr.refresh(made)
        taken.append((time.perf_counter() - started) / MANY)
        assert all(r.action is Action.DIFFERENTIAL for r in results)
    found = statistics.median(taken[2:])
    wrong = [n for n in made[::7] if not tr.verify(n).equal]
    for name in made:
        tr.drop_stream_table(name)
    print(f"\n{MANY} stream tables over one source, 10 changed rows: {found:.3f} s each", flush=True)
    return {"operator": f"{MANY} stream tables", "rows": 10, "differential": round(found, 4), "wrong": wrong}


def wide(tr: Trickle, rounds: int) -> dict[str, Any]:
    """A filter over a table of 300 columns and 20,000 rows, ten changed rows."""
    columns = ", ".join(f"CAST(pmod(hash(id, {n}), 1000) AS INT) AS c{n}" for n in range(WIDE - 1))
    tr.sql(f"CREATE TABLE shop.wide AS SELECT id, {columns} FROM range(20000)")
    for side in SIDES:
        tr.create_stream_table(f"shop.wide_{side}", "SELECT * FROM shop.wide WHERE c1 < 500", mode=side)
    taken: dict[str, list[float]] = {side: [] for side in SIDES}
    for n in range(rounds + 2):
        tr.sql(f"UPDATE shop.wide SET c1 = pmod(c1 + 250, 1000) WHERE pmod(id, 2000) = {n}")
        for side in SIDES if n % 2 else SIDES[::-1]:
            started = time.perf_counter()
            tr.refresh(f"shop.wide_{side}")
            taken[side].append(time.perf_counter() - started)
    differential, full = (statistics.median(taken[side][2:]) for side in SIDES)
    wrong = [s for s in SIDES if not tr.verify(f"shop.wide_{s}").equal]
    print(f"{WIDE} columns, filter, 10 changed rows: {differential:.2f} s, FULL {full:.2f} s", flush=True)
    cell = {"differential": round(differential, 4), "full": round(full, 4), "wrong": wrong}
    return {"operator": f"{WIDE} columns", "rows": 10, **cell}


def _print(row: dict[str, Any]) -> None:
    stages = " ".join(f"{k} {v:.2f}" for k, v in row["stages"].items())
    if row["rows"] == 0:
        print(f"| {row['operator']} | none | 0 | {1000 * row['differential']:.1f} ms | – | – | |", flush=True)
        return
    print(
        f"| {row['operator']} | {row['change']} | {row['rows']:,} | {row['differential']:.2f} s "
        f"| {row['full']:.2f} s | {row['ratio']:.1f} | {stages} |",
        flush=True,
    )


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rows", type=int, default=1_000_000)
    parser.add_argument("--repeat", type=int, default=2)
    parser.add_argument("--sizes", help="changed rows, separated by commas (10, a thousandth and a hundredth)")
    parser.add_argument("--warm-up", type=int, default=1, help="rounds of changes before anything is measured")
    parser.add_argument("--no-full", action="store_true", help="only the DIFFERENTIAL stream tables")
    parser.add_argument("--more", action="store_true", help=f"also {MANY} stream tables, and {WIDE} columns")
    parser.add_argument("--json", type=Path, help="write the figures to this file as well")
    options = parser.parse_args()
    sizes = [10, options.rows // 1000, options.rows // 100]
    if options.sizes:
        sizes = [int(n) for n in options.sizes.split(",")]
    sides = SIDES[:1] if options.no_full else SIDES
    folder = Path(tempfile.mkdtemp(prefix="trickle-bench-"))
    started = time.perf_counter()
    try:
        with spark_trickle.connect(folder, driver_memory="4g") as tr:
            fill(tr, options.rows)
            for operator, definition in DEFINITIONS.items():
                for name, mode in zip(names(operator, sides), sides, strict=True):
                    tr.create_stream_table(name, definition, mode=mode)
            print(f"{options.rows:,} orders, {CUSTOMERS:,} customers; medians of {options.repeat}\n")
            print("| operator | change | rows | DIFFERENTIAL | FULL | times faster | stages of DIFFERENTIAL |")
            print("|---|---|---|---|---|---|---|")
            report = measure(tr, options.rows, options.repeat, sizes, options.warm_up, sides)
            wrong = [n for o in DEFINITIONS for n in names(o, sides) if not tr.verify(n).equal]
            if options.more:
                report += [many(tr, options.rows, options.repeat), wide(tr, options.repeat)]
                wrong += [n for cell in report for n in cell.get("wrong", ())]
    finally:
        shutil.rmtree(folder, ignore_errors=True)
    seconds = time.perf_counter() - started
    verdict = f"DIFFERS: {', '.join(wrong)}" if wrong else "all tables equal their definitions"
    print(f"\n{verdict}; {seconds:.0f} s")
    if options.json:
        machine = {"machine": platform.machine(), "python": platform.python_version()}
        options.json.write_text(json.dumps({"rows": options.rows, **machine, "cells": report}, indent=1) + "\n")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
