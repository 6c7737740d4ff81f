"""The commands that say how the lake does: figures, what waits, where data come from, what is wrong."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Annotated

import typer
from rich.text import Text

from spark_trickle.cli.common import open_store, output
from spark_trickle.cli.output import grid
from spark_trickle.cli.stream_tables import Since

OneOrAll = Annotated[str | None, typer.Argument(metavar="NAME", help="A stream table; all of them if left out.")]


def statistics(name: OneOrAll = None, since: Since = None) -> None:
    """Show refreshes in figures: how many, how long, rows, actions, why they recomputed, skipped or failed.

    [dim]trickle statistics
    trickle statistics shop.revenue --since 24h[/dim]
    """
    from spark_trickle.monitor.filters import history_filter
    from spark_trickle.monitor.statistics import statistics

    out = output()
    with open_store() as lake:
        chosen = history_filter(None if name is None else str(lake.store.find(lake.name(name)).name), since=since)
        found = statistics(lake.store, chosen)
    if out.is_json or not found:
        out.show(found)
        return
    table = grid(
        "stream table",
        "refreshes",
        "failed",
        "skipped",
        "p50",
        "p95",
        "rows",
        "actions",
        "why",
        right=(1, 2, 3, 4, 5, 6),
    )
    for s in found:
        why = [("recomputed", s.full_reasons), ("skipped", s.skip_reasons), ("failed", s.failure_codes)]
        table.add_row(
            Text(s.name),
            f"{s.refreshes:,}",
            Text(f"{s.failures:,}", style="red" if s.failures else ""),
            f"{s.skips:,}",
            "-" if s.p50_seconds is None else f"{s.p50_seconds:.2f} s",
            "-" if s.p95_seconds is None else f"{s.p95_seconds:.2f} s",
            f"{s.rows_changed:,}",
            Text(_counts(s.actions)),
            Text("; ".join(f"{what}: {_counts(counts)}" for what, counts in why if counts)),
        )
    out.out.print(table)


def _counts(counts: Mapping[str, int]) -> str:
    return ", ".join(f"{key} {n:,}" for key, n in counts.items())


# In the order of the help text.
COMMANDS: tuple[Callable[..., None], ...] = (statistics,)
