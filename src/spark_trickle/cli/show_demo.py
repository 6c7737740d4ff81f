"""The demo on a terminal."""

from __future__ import annotations

import shutil
import time
from collections.abc import Sequence
from pathlib import Path

from rich.table import Table
from rich.text import Text

from spark_trickle.cli.output import Output, action_text, grid
from spark_trickle.demo import Changed, Checked, Created, Event, Filled, Refreshed, run_demo
from spark_trickle.errors import TrickleError

MARKER = ".trickle-demo"  # only a folder that holds this file is ever removed


def show_demo(out: Output, folder: Path, *, rows: int, rounds: int, seed: int) -> bool:
    """Run the demo in `folder`; True if every stream table equals its definition."""
    _fresh(folder)
    from spark_trickle import connect

    began = time.perf_counter()
    events: list[Event] = []
    pending: list[Refreshed] = []
    with out.progress("Starting Spark"):
        tr = connect(folder)
    try:
        steps = run_demo(tr, rows=rows, rounds=rounds, seed=seed)
        doing = "Filling the shop"
        while True:
            with out.progress(doing):
                event = next(steps, None)
            if event is None:
                break
            events.append(event)
            if isinstance(event, Refreshed):
                pending.append(event)
                doing = f"Round {event.round}: refreshing, and recomputing for comparison"
                continue
            if pending and not out.is_json:
                out.out.print(_round(pending))
            pending = []
            doing = _next_step(event)
            if not out.is_json:
                _show(out, event)
    finally:
        tr.close()
    checked = [e.result for e in events if isinstance(e, Checked)]
    equal = bool(checked) and all(v.equal for v in checked)
    if out.is_json:
        out.show({"equal": equal, "events": [{"event": type(e).__name__.lower(), "data": e} for e in events]})
        return equal
    _summary(out, [e for e in events if isinstance(e, Refreshed)], equal, folder, time.perf_counter() - began)
    return equal


def _fresh(folder: Path) -> None:
    if folder.exists() and (not folder.is_dir() or (any(folder.iterdir()) and not (folder / MARKER).exists())):
        raise TrickleError(
            "INVALID_SETTING",
            f"{folder} exists and is not a lake of the demo.",
            hint="Choose another folder with --dir.",
        )
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    (folder / MARKER).write_text("Made by `trickle demo`; the next demo removes this folder.\n")


def _next_step(event: Event) -> str:
    if isinstance(event, (Filled, Created)):
        return "Creating stream tables"
    if isinstance(event, Changed):
        return f"Round {event.round}: refreshing, and recomputing for comparison"
    return "Verifying"


def _show(out: Output, event: Event) -> None:
    if isinstance(event, Filled):
        sizes = ", ".join(f"{count:,} {name.partition('.')[2]}" for name, count in event.rows.items())
        out.say(f"A shop: {sizes} ({event.seconds:.1f} s).")
    elif isinstance(event, Created):
        out.say(f"  stream table {event.name:<22} {event.what:<18} {event.seconds:5.1f} s")
    elif isinstance(event, Changed):
        out.out.print(Text(f"\nRound {event.round}: {event.what}", style="bold"))
    elif isinstance(event, Checked):
        verdict = Text("equal", style="green") if event.result.equal else Text("DIFFERS", style="bold red")
        line = Text.assemble(f"  verified {event.result.name:<22} ", verdict, f"  {event.result.rows:,} rows")
        out.out.print(line)
        for example in event.result.examples if not event.result.equal else ():
            out.say(f"    {example}")


def _round(results: Sequence[Refreshed]) -> Table:
    # Narrow enough for a terminal of 80 columns.
    headers = ("  stream table", "action", "+ins", "~upd", "-del", "refresh", "recompute", "faster")
    table = grid(*headers, right=(2, 3, 4, 5, 6, 7), gap=1)
    for r in results:
        table.add_row(
            Text(f"  {r.name.partition('.')[2]}"),
            action_text(r.action),
            f"{r.rows_inserted:,}",
            f"{r.rows_updated:,}",
            f"{r.rows_deleted:,}",
            f"{r.seconds:.2f} s",
            f"{r.full_seconds:.2f} s",
            faster(r.seconds, r.full_seconds),
        )
    return table


def faster(seconds: float, full: float) -> str:
    """How many times faster; past a thousand the figure says nothing more."""
    if seconds <= 0:
        return "-"
    ratio = full / seconds
    return ">1000×" if ratio > 1000 else f"{ratio:.1f}×"


def _summary(out: Output, results: Sequence[Refreshed], equal: bool, folder: Path, seconds: float) -> None:
    refresh = sum(r.seconds for r in results)
    full = sum(r.full_seconds for r in results)
    out.say("")
    out.say(f"{len(results)} refreshes took {refresh:.1f} s, recomputing took {full:.1f} s.")
    out.say(f"The whole demo took {seconds:.0f} s.")
    if equal:
        out.out.print(Text("Every stream table equals its definition.", style="bold green"))
        out.say(f"The lake stays: trickle -C {folder} status")
    else:
        out.out.print(Text("A stream table differs from its definition: this is a bug.", style="bold red"))
