"""TPC-H as stream tables: the 22 queries kept in mode DIFFERENTIAL through three rounds of changes, against FULL.

Each query has two stream tables, one DIFFERENTIAL and one FULL. After every round both are refreshed, one after the
other in one warm process (who goes first alternates), and the DIFFERENTIAL one is compared with its definition. The
rounds insert and delete 0.1 % of the orders each, as the refresh functions of the specification do, and update as
many customers, parts and suppliers. Reported are medians of the rounds. A refused query is a row with its reason.

    python benchmarks/tpch.py [--sf 1] [--queries q01,q05] [--share 0.001] [--memory 6g] [--json FILE]
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import shutil
import statistics
import sys
import tempfile
import time
from dataclasses import asdict, dataclass, field
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))  # the workload is shared with the tests

from tests.tpch.workload import NAMESPACE, QUERIES, ROUNDS, Workload, definition, generate

import spark_trickle
from spark_trickle import Action, Mode, RefreshResult, Trickle, TrickleError


@dataclass(slots=True)
class Row:
    """One query: a list per figure, with one entry per round."""

    query: str
    refused: str | None = None
    failed: str | None = None  # an error of a refresh; the query is left alone afterwards
    actions: list[str] = field(default_factory=list)
    changed: list[int] = field(default_factory=list)  # rows of the inputs
    result_changed: list[int] = field(default_factory=list)
    seconds: list[float] = field(default_factory=list)
    full_seconds: list[float] = field(default_factory=list)
    rows: list[int] = field(default_factory=list)
    equal: list[bool] = field(default_factory=list)
    stages: list[dict[str, float]] = field(default_factory=list)

    @property
    def right(self) -> bool:
        return self.refused is None and self.failed is None and bool(self.equal) and all(self.equal)

    def markdown(self) -> str:
        if self.refused is not None:
            return f"| {self.query} | refused: {self.refused.replace('|', ' ')} | | | | | | |"
        if self.failed is not None:
            return f"| {self.query} | failed: {self.failed.replace('|', ' ')} | | | | | | NO |"
        fast, full = statistics.median(self.seconds), statistics.median(self.full_seconds)
        return (
            f"| {self.query} | {', '.join(dict.fromkeys(self.actions))} | {round(statistics.median(self.changed)):,} "
            f"| {fast:.2f} | {full:.2f} | {full / fast:.1f} | {self.rows[-1]:,} | {'yes' if self.right else 'NO'} |"
        )


HEADER = (
    "| query | action | changed rows | seconds | seconds of FULL | times faster | result rows | equal? |\n"
    "|---|---|---|---|---|---|---|---|"
)


def names(query: str) -> tuple[str, str]:
    return f"{NAMESPACE}.{query}", f"{NAMESPACE}.{query}_full"


def create(tr: Trickle, row: Row, scale: float) -> None:
    differential, full = names(row.query)
    text = definition(row.query, scale)
    try:
        first = tr.create_stream_table(differential, text, mode=Mode.DIFFERENTIAL, schedule="manual")
    except TrickleError as refusal:
        row.refused = refusal.message.splitlines()[0]
        progress(f"{row.query} is refused: {row.refused}")
        return
    tr.create_stream_table(full, text, mode=Mode.FULL, schedule="manual")
    progress(f"{row.query} created, {first.rows_inserted} rows in {first.seconds:.1f} s")


def measure(tr: Trickle, row: Row, number: int) -> None:
    differential, full = names(row.query)
    order = (differential, full) if number % 2 else (full, differential)
    results = {name: timed(tr, name) for name in order}
    result, seconds = results[differential]
    if (action := results[full][0].action) is not Action.FULL:
        raise SystemExit(f"{full}: {action} instead of FULL")
    found = tr.verify(differential)
    row.actions.append(str(result.action))
    row.changed.append(sum(result.rows_changed.values()))
    row.result_changed.append(result.rows_inserted + result.rows_updated + result.rows_deleted)
    row.seconds.append(seconds)
    row.full_seconds.append(results[full][1])
    row.rows.append(found.rows)
    row.equal.append(found.equal)
    row.stages.append(result.stages)
    verdict = "equal" if found.equal else str(found)
    progress(f"round {number} {row.query}: {result.action} {seconds:.2f} s, FULL {results[full][1]:.2f} s, {verdict}")


def timed(tr: Trickle, name: str) -> tuple[RefreshResult, float]:
    started = time.perf_counter()
    result = tr.refresh(name, mode=Mode.FULL if name.endswith("_full") else Mode.DIFFERENTIAL)
    return result, time.perf_counter() - started


def progress(text: str) -> None:
    print(text, file=sys.stderr, flush=True)


def save(report: list[Row], options: argparse.Namespace) -> None:
    """After every round: hours of measuring are not lost to an interruption."""
    if options.json:
        machine = {"machine": platform.machine(), "cores": os.cpu_count(), "sf": options.sf, "share": options.share}
        options.json.write_text(json.dumps({**machine, "queries": [asdict(r) for r in report]}, indent=1) + "\n")


def run(tr: Trickle, data: Path, options: argparse.Namespace) -> list[Row]:
    workload = Workload(tr, data, options.share)
    workload.load()
    progress(f"loaded {workload.counts['lineitem']:,} lineitems")
    report = [Row(query) for query in options.queries]
    for row in report:
        create(tr, row, options.sf)
    for number in range(1, ROUNDS + 1):
        workload.change(number)
        for row in report:
            if row.refused is None and row.failed is None:
                try:
                    measure(tr, row, number)
                except TrickleError as error:
                    row.failed = error.message.splitlines()[0]
                    progress(f"round {number} {row.query} failed: {row.failed}")
        save(report, options)
    return report


def chosen(text: str) -> tuple[str, ...]:
    wanted = tuple(q.strip() for q in text.split(","))
    if unknown := set(wanted) - set(QUERIES):
        raise argparse.ArgumentTypeError(f"no such query: {', '.join(sorted(unknown))}")
    return wanted


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--sf", type=float, default=1.0, help="scale factor (default 1: 6 million lineitems)")
    parser.add_argument("--queries", type=chosen, default=QUERIES, help="some of them, such as q01,q05")
    parser.add_argument("--share", type=float, default=0.001, help="of the orders that come and go per round")
    parser.add_argument("--memory", default="6g", help="of the Spark driver")
    parser.add_argument("--json", type=Path, help="write the figures of every round to this file as well")
    options = parser.parse_args()
    folder = Path(tempfile.mkdtemp(prefix="trickle-tpch-"))
    started = time.perf_counter()
    try:
        generate(folder / "data", options.sf)
        with spark_trickle.connect(folder / "lake", driver_memory=options.memory) as tr:
            report = run(tr, folder / "data", options)
    finally:
        shutil.rmtree(folder, ignore_errors=True)
    print(f"TPC-H SF {options.sf:g}, {os.cpu_count()} cores; medians of {ROUNDS} rounds\n\n{HEADER}")
    for row in report:
        print(row.markdown())
    right, refused = sum(r.right for r in report), sum(r.refused is not None for r in report)
    seconds = time.perf_counter() - started
    print(f"\n{right} of {len(report)} equal after every round, {refused} refused; {seconds:.0f} s", flush=True)
    return 0 if right == len(report) else 1


if __name__ == "__main__":
    sys.exit(main())
