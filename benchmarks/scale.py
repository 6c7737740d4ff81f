"""A refresh against running the query, on a large TPC-H lake: seven definitions, three kinds of change.

    tail     0.1 % new orders with their lines, keys after the existing ones
    point    the lines of 10 orders, scattered over the table, updated
    scatter  0.1 % of all lines updated, scattered over the table

After each round of a change every stream table is refreshed, one after the other in one warm process, and timed as a
caller sees it. After the rounds of a kind each definition is run as a plain query into a sink that drops the rows,
twice; the second run counts. The factor is plain / refresh, of medians. At the end every stream table is compared with
its definition.

With --growth also the same tail of 1,000 lines on tables of growing size: what a refresh costs should follow the
change, not the table.

The lake of --lake is kept: a further run reuses its tables and stream tables and goes on changing them.

    python benchmarks/scale.py [--sf 1] [--lake FOLDER] [--changes tail,point] [--only filtered,top_100] [--growth]
        [--mode auto|differential] [--repeat 3] [--memory 8g] [--json FILE] [--verify | --no-verify]
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import psutil

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))  # the workload is shared with the tests

from benchmarks.scale_queries import (
    DEFINITIONS,
    GROWING,
    KINDS,
    LINES,
    POINTS,
    SHARE,
    Changes,
    Created,
    Loaded,
    Notes,
    create,
    definition,
    growing,
    load,
    load_growing,
    told,
)
from tests.tpch.workload import NAMESPACE

import spark_trickle
from spark_trickle import Trickle

ROOT = Path(__file__).resolve().parent.parent
STREAM = "scale"  # the namespace of the stream tables
SIZES = (1_000_000, 4_000_000, 16_000_000)
GROWTH_ORDERS = 250  # with about 1,000 lines
_started = time.perf_counter()


@dataclass(slots=True)
class Cell:
    """One definition under one kind of change: a list per figure, with one entry per round."""

    definition: str
    change: str
    lines: int = 0  # of lineitem when it was loaded
    actions: list[str] = field(default_factory=list)
    reasons: list[str] = field(default_factory=list)
    changed: list[int] = field(default_factory=list)  # rows of the inputs
    result_changed: list[int] = field(default_factory=list)
    seconds: list[float] = field(default_factory=list)
    stages: list[dict[str, float]] = field(default_factory=list)
    plain: list[float] = field(default_factory=list)  # two runs
    failed: str | None = None  # an error of a refresh or of the query

    @property
    def refresh(self) -> float | None:
        return statistics.median(self.seconds) if self.seconds else None

    @property
    def factor(self) -> float | None:
        return None if self.refresh is None or len(self.plain) < 2 else self.plain[-1] / self.refresh

    def stage_medians(self) -> dict[str, float]:
        names = dict.fromkeys(name for stages in self.stages for name in stages)
        return {n: round(statistics.median(s.get(n, 0.0) for s in self.stages), 3) for n in names}

    def figures(self) -> dict[str, Any]:
        summary = {"refresh": self.refresh, "factor": self.factor, "stage_medians": self.stage_medians()}
        return asdict(self) | summary

    def markdown(self) -> str:
        action = ", ".join(dict.fromkeys(self.actions))
        reason = ", ".join(dict.fromkeys(r.partition(":")[0] for r in self.reasons))
        changed = f"{round(statistics.median(self.changed)):,}" if self.changed else ""
        # What Spark is quick at is not shown.
        stages = " ".join(f"{k} {v:.2f}" for k, v in self.stage_medians().items() if v >= 0.005)
        if self.failed is not None:
            stages = f"FAILED: {self.failed.replace('|', ' ')}"
        return (
            f"| {self.definition} | {self.change} | {action} | {reason} | {changed} | {_number(self.refresh)} "
            f"| {_number(self.plain[-1] if self.plain else None)} | {_number(self.factor)} | {stages} |"
        )


HEADER = (
    "| definition | change | action | reason | changed rows | refresh s | plain s | factor | stages |\n"
    "|---|---|---|---|---|---|---|---|---|"
)


@dataclass(slots=True)
class Verified:
    name: str
    after: str
    equal: bool
    rows: int
    seconds: float
    found: str


@dataclass(slots=True)
class Report:
    """Everything that one run found: the file of --json."""

    about: dict[str, Any]
    tables: list[Loaded] = field(default_factory=list)
    created: list[Created] = field(default_factory=list)
    cells: list[Cell] = field(default_factory=list)
    growth: list[Cell] = field(default_factory=list)
    verified: list[Verified] = field(default_factory=list)

    @property
    def wrong(self) -> list[str]:
        differing = [f"{v.name} after {v.after}" for v in self.verified if not v.equal]
        failed = [f"{c.name} was not created" for c in self.created if c.failed]
        failed += [f"{c.definition}, {c.change}, {c.lines:,} lines" for c in (*self.cells, *self.growth) if c.failed]
        return differing + failed

    def save(self, path: Path | None) -> None:
        """After every round and query: hours of measuring are not lost to an interruption."""
        if path is None:
            return
        self.about["seconds"] = round(time.perf_counter() - _started, 1)
        self.about["load_now"] = os.getloadavg()
        parts = {
            "tables": [asdict(t) for t in self.tables],
            "created": [asdict(c) for c in self.created],
            "cells": [c.figures() for c in self.cells],
            "summary": summary(self.cells),
            "growth": [c.figures() for c in self.growth],
            "verified": [asdict(v) for v in self.verified],
            "wrong": self.wrong,
        }
        path.write_text(json.dumps(self.about | parts, indent=1) + "\n", encoding="utf-8")


def progress(text: str) -> None:
    print(f"[{time.perf_counter() - _started:7.1f} s] {text}", file=sys.stderr, flush=True)


def about(tr: Trickle, options: argparse.Namespace) -> dict[str, Any]:
    jvm: Any = tr.spark._jvm
    commit = subprocess.run(
        ["git", "-C", str(ROOT), "describe", "--always", "--dirty", "--abbrev=12"],
        capture_output=True,
        text=True,
        check=False,
    )
    return {
        "started": datetime.now(UTC).isoformat(timespec="seconds"),
        "machine": {
            "architecture": platform.machine(),
            "cores": os.cpu_count(),
            "memory_gib": round(psutil.virtual_memory().total / 2**30, 1),
            "load": os.getloadavg(),  # whether others were using it
        },
        "versions": {
            "python": platform.python_version(),
            "java": jvm.java.lang.System.getProperty("java.version"),
            "spark": tr.spark.version,
            "iceberg": jvm.org.apache.iceberg.IcebergBuild.version(),
            "spark_trickle": spark_trickle.__version__,
            "commit": commit.stdout.strip() or None,
        },
        "settings": {k: str(v) if isinstance(v, Path) else v for k, v in vars(options).items()}
        | {
            "share": SHARE,
            "points": POINTS,
            "shuffle_partitions": tr.settings.shuffle_partitions,
            "master": tr.settings.master,
        },
    }


# -- one at a time -----------------------------------------------------------------------------------------------------


def refresh(tr: Trickle, name: str, cell: Cell, mode: str | None, number: int) -> None:
    """One refresh, into the cell; an error ends the cell."""
    if cell.failed is not None:
        return
    started = time.perf_counter()
    try:
        result = tr.refresh(name, mode=mode)
    except Exception as error:  # a bug must not end hours of measuring
        cell.failed = told(error)
        progress(f"{cell.change} {number} {name} FAILED after {time.perf_counter() - started:.2f} s: {cell.failed}")
        return
    cell.seconds.append(round(time.perf_counter() - started, 4))
    cell.actions.append(str(result.action))
    cell.reasons.append(result.reason)
    cell.changed.append(sum(result.rows_changed.values()))
    cell.result_changed.append(result.rows_inserted + result.rows_updated + result.rows_deleted)
    cell.stages.append(result.stages)
    progress(f"{cell.change} {number} {name}: {result.action} {cell.seconds[-1]:.2f} s ({result.reason})")


def warm_up(tr: Trickle, name: str, cell: Cell, mode: str | None, number: int, report: Report) -> None:
    """Not measured; an error counts."""
    refresh(tr, name, cell, mode, number)
    if cell.failed is not None:
        report.cells.append(cell)


def plain(tr: Trickle, cell: Cell, text: str) -> None:
    """The query itself, every row computed and none kept: twice."""
    try:
        for _ in range(2):
            started = time.perf_counter()
            tr.sql(text).write.format("noop").mode("overwrite").save()
            cell.plain.append(round(time.perf_counter() - started, 4))
    except Exception as error:
        cell.failed = cell.failed or f"plain query: {told(error)}"
        progress(f"{cell.change} {cell.definition}: the plain query FAILED: {told(error)}")
        return
    factor = "-" if cell.factor is None else f"{cell.factor:.1f}"
    progress(f"{cell.change} {cell.definition}: plain {cell.plain[-1]:.2f} s, factor {factor}")


def verify(tr: Trickle, names: Iterable[str], after: str, report: Report) -> None:
    for name in names:
        started = time.perf_counter()
        try:
            found = tr.verify(name)
            equal, rows, text = found.equal, found.rows, str(found)
        except Exception as error:
            equal, rows, text = False, 0, f"{name}: {told(error)}"
        seconds = round(time.perf_counter() - started, 2)
        report.verified.append(Verified(name, after, equal, rows, seconds, text))
        progress(f"verify after {after}: {text}")


# -- the two parts -----------------------------------------------------------------------------------------------------


def measure(tr: Trickle, report: Report, notes: Notes, options: argparse.Namespace) -> None:
    """All kinds of change, one after the other."""
    lines = round(options.sf * LINES)
    tr.sql(f"CREATE NAMESPACE IF NOT EXISTS {STREAM}")
    report.created += [create(tr, f"{STREAM}.{n}", definition(n), notes, progress) for n in options.only]
    report.save(options.json)
    usable = [c.name for c in report.created if c.failed is None]
    kept = [n for n in options.only if f"{STREAM}.{n}" in usable]
    changes = Changes(tr, NAMESPACE, lines)
    mode = None if options.mode == "auto" else options.mode
    for number in range(1, options.warm_up + 1):  # the first plans of a process are slow
        changes.tail(POINTS, changes.step(), lines)
        changes.point(changes.step())
        for name in kept:
            warm_up(tr, f"{STREAM}.{name}", Cell(name, "warm-up", lines), mode, number, report)
    for kind in options.changes:
        cells = [Cell(name, kind, lines) for name in kept]
        report.cells += cells
        for number in range(1, options.repeat + 1):
            started = time.perf_counter()
            changes.apply(kind)
            progress(f"{kind} {number}: changed in {time.perf_counter() - started:.1f} s")
            for cell in cells:
                refresh(tr, f"{STREAM}.{cell.definition}", cell, mode, number)
            report.save(options.json)
        for cell in cells:
            plain(tr, cell, definition(cell.definition))
            report.save(options.json)
        if options.verify:
            verify(tr, usable, kind, report)
    if options.verify is None:
        verify(tr, usable, "all changes", report)
    report.save(options.json)


def measure_growth(tr: Trickle, report: Report, notes: Notes, options: argparse.Namespace) -> None:
    """The same tail on tables of growing size, the sizes by turns."""
    whole = round(options.sf * LINES)
    sizes = [*sorted(s for s in options.sizes if s < whole), whole]
    mode = None if options.mode == "auto" else options.mode
    cells = []
    for rows in sizes:
        report.tables += load_growing(tr, rows, notes, progress)
        for name in GROWING:
            text = definition(name, growing(rows))
            report.created.append(create(tr, f"{growing(rows)}.{name}", text, notes, progress))
            failed = report.created[-1].failed
            cells.append(Cell(name, "growth", rows, failed=failed))
    report.growth += cells
    for number in range(1 - options.warm_up, options.repeat + 1):
        for rows in sizes:
            changes = Changes(tr, growing(rows), rows)
            changes.tail(GROWTH_ORDERS, number + options.warm_up, sizes[0])
            for cell in cells:
                name = f"{growing(rows)}.{cell.definition}"
                if cell.lines == rows and number > 0:
                    refresh(tr, name, cell, mode, number)
                elif cell.lines == rows and cell.failed is None:
                    warm_up(tr, name, Cell(cell.definition, "warm-up", rows), mode, number, report)
        report.save(options.json)
    if options.verify is not False:
        made = [c.name for c in report.created if c.name.startswith("growth_") and c.failed is None]
        verify(tr, made, "growth", report)
    report.save(options.json)


# -- the report --------------------------------------------------------------------------------------------------------


def summary(cells: Sequence[Cell]) -> list[dict[str, Any]]:
    """Per kind of change and of all: geometric mean, worst and best."""
    found = []
    kinds = dict.fromkeys(c.change for c in cells if c.factor is not None)
    for kind in [*kinds, "all"]:
        factors = {
            c.definition if kind != "all" else f"{c.definition}, {c.change}": c.factor
            for c in cells
            if c.factor is not None and kind in (c.change, "all")
        }
        if factors:
            worst, best = min(factors, key=factors.__getitem__), max(factors, key=factors.__getitem__)
            found.append(
                {
                    "change": kind,
                    "geometric_mean": round(statistics.geometric_mean(factors.values()), 2),
                    "worst": round(factors[worst], 2),
                    "worst_definition": worst,
                    "best": round(factors[best], 2),
                    "best_definition": best,
                }
            )
    return found


def show(report: Report, options: argparse.Namespace) -> None:
    versions, machine = report.about["versions"], report.about["machine"]
    print(
        f"TPC-H SF {options.sf:g}, {machine['cores']} cores, {machine['memory_gib']} GiB ({options.memory} for Spark), "
        f"Spark {versions['spark']}, Iceberg {versions['iceberg']}, commit {versions['commit']}; "
        f"mode {options.mode}, medians of {options.repeat} rounds"
    )
    print("\n| table | rows | files | MB | seconds to load |\n|---|---|---|---|---|")
    for t in report.tables:
        print(f"| {t.name} | {t.rows:,} | {t.files} | {t.megabytes:,.1f} | {_number(t.seconds, t.reused)} |")
    print("\n| stream table | rows | kept | hidden states | seconds to create |\n|---|---|---|---|---|")
    for c in report.created:
        kept = f"FAILED: {c.failed}" if c.failed else "incrementally" if c.incremental else "FULL only"
        print(f"| {c.name} | {c.rows:,} | {kept} | {c.states} | {_number(c.seconds, c.reused)} |")
    if report.cells:
        print(f"\n{HEADER}")
        for cell in report.cells:
            print(cell.markdown())
        print("\n| change | geometric mean | worst | best |\n|---|---|---|---|")
        for row in summary(report.cells):
            worst, best = f"{row['worst']} ({row['worst_definition']})", f"{row['best']} ({row['best_definition']})"
            print(f"| {row['change']} | {row['geometric_mean']} | {worst} | {best} |")
    if report.growth:
        show_growth(report.growth)


def show_growth(cells: Sequence[Cell]) -> None:
    sizes = sorted({c.lines for c in cells})
    print("\nSeconds after a tail of about 1,000 lines, by lines of the table:\n")
    print(f"| definition | action | changed rows | {' | '.join(f'{n:,}' for n in sizes)} | largest / smallest |")
    print("|---" * (len(sizes) + 4) + "|")
    for name in GROWING:
        own = sorted((c for c in cells if c.definition == name), key=lambda c: c.lines)
        taken = [c.refresh for c in own]
        first, last = taken[0], taken[-1]
        ratio = None if first is None or last is None else last / first
        actions = ", ".join(dict.fromkeys(a for c in own for a in c.actions))
        changed = [n for c in own for n in c.changed]
        rows = f"{round(statistics.median(changed)):,}" if changed else ""
        print(f"| {name} | {actions} | {rows} | {' | '.join(map(_number, taken))} | {_number(ratio)} |")
    for cell in cells:
        if cell.failed is not None:
            print(f"{cell.definition}, {cell.lines:,} lines, FAILED: {cell.failed}")


def _number(value: float | None, reused: bool = False) -> str:
    text = "–" if value is None else f"{value:.2f}"
    return f"{text} (reused)" if reused else text


# -- the command line --------------------------------------------------------------------------------------------------


def some_of(known: Iterable[str]) -> Any:
    """An argument of some of these, separated by commas; `none` is none of them."""

    def parse(text: str) -> tuple[str, ...]:
        wanted = () if text == "none" else tuple(w.strip() for w in text.split(","))
        if unknown := set(wanted) - set(known):
            raise argparse.ArgumentTypeError(f"unknown: {', '.join(sorted(unknown))}; there are {', '.join(known)}")
        return wanted

    return parse


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--sf", type=float, default=1.0, help="scale factor (default 1: 6 million lines)")
    parser.add_argument("--lake", type=Path, help="folder of the lake, kept and reused (default: a temporary one)")
    parser.add_argument("--changes", type=some_of(KINDS), default=KINDS, help="such as tail,point; or none")
    parser.add_argument("--only", type=some_of(DEFINITIONS), default=tuple(DEFINITIONS), help="some definitions")
    parser.add_argument("--growth", action="store_true", help="also the same tail on tables of growing size")
    parser.add_argument(
        "--sizes",
        type=lambda text: tuple(int(n) for n in text.split(",")),
        default=SIZES,
        help="lines of the tables of --growth, besides the largest that the scale factor gives",
    )
    parser.add_argument(
        "--mode",
        choices=("auto", "differential"),
        default="auto",
        help="of the refreshes; differential: also where auto would recompute",
    )
    parser.add_argument("--repeat", type=int, default=3, help="rounds of each kind of change")
    parser.add_argument("--warm-up", type=int, default=1, help="rounds of small changes before anything is measured")
    parser.add_argument("--memory", default="8g", help="of the Spark driver")
    parser.add_argument("--json", type=Path, help="write all figures to this file as well")
    parser.add_argument(
        "--verify",
        action=argparse.BooleanOptionalAction,
        help="compare with the definitions after each kind of change, or never (default: at the end)",
    )
    return parser.parse_args()


def main() -> int:
    options = arguments()
    folder = options.lake or Path(tempfile.mkdtemp(prefix="trickle-scale-"))
    folder.mkdir(parents=True, exist_ok=True)
    notes = Notes.of(folder, options.sf)
    try:
        with spark_trickle.connect(folder, driver_memory=options.memory) as tr:
            report = Report(about(tr, options))
            report.tables += load(tr, folder, notes, progress)
            if options.changes:
                measure(tr, report, notes, options)
            if options.growth:
                measure_growth(tr, report, notes, options)
    finally:
        if options.lake is None:
            shutil.rmtree(folder, ignore_errors=True)
    report.save(options.json)
    show(report, options)
    checked = len(report.verified)
    right = f"{checked} comparisons with definitions, all equal" if checked else "nothing was compared"
    verdict = f"WRONG: {'; '.join(report.wrong)}" if report.wrong else right
    print(f"\n{verdict}; {time.perf_counter() - _started:.0f} s", flush=True)
    return 1 if report.wrong else 0


if __name__ == "__main__":
    sys.exit(main())
