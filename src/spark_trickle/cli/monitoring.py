"""The commands that say how the lake does: figures, what waits, where data come from, what is wrong."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Annotated, TypeVar

import typer
from rich.text import Text

from spark_trickle.cli.common import CatalogOnly, check_names, open_lake, open_store, output
from spark_trickle.cli.output import grid
from spark_trickle.cli.stream_tables import Since

if TYPE_CHECKING:
    from spark_trickle.engine import Trickle
    from spark_trickle.monitor.pending import Histories

T = TypeVar("T")
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


def pending(name: OneOrAll = None) -> None:
    """Show the changes of inputs that stream tables do not show yet: commits, rows and files, from metadata alone.

    [dim]trickle pending
    trickle pending shop.revenue[/dim]
    """
    from spark_trickle.monitor.pending import Behind, pending

    out = output()
    found = _told(
        lambda lake, histories: pending(lake.store, histories, None if name is None else lake.name(name)),
        lambda tr: tr.pending(name),
        None if name is None else [name],
    )
    if out.is_json or not found:
        out.show(found)
        return
    headers = ("stream table", "input", "state", "commits", "+rows", "-rows", "+files", "-files", "oldest")
    table = grid(*headers, right=range(3, 9))
    for p in found:
        style = {Behind.NOTHING: "green", Behind.CHANGES: "yellow", Behind.NEVER_READ: "yellow"}.get(p.state, "red")
        table.add_row(
            Text(p.name),
            Text(p.input),
            Text(p.state, style=style),
            *map(_number, (p.commits, p.rows_added, p.rows_deleted, p.files_added, p.files_removed)),
            "-" if p.age_seconds is None else _ago(p.age_seconds),
        )
    out.out.print(table)


def sources() -> None:
    """Show the tables that stream tables read: who reads them, how far behind, what is protected from expiry.

    [dim]trickle sources
    trickle sources --output json[/dim]
    """
    from spark_trickle.monitor.pending import source_states

    out = output()
    found = _told(lambda lake, histories: source_states(lake.store, histories), lambda tr: tr.source_states())
    if out.is_json or not found:
        out.show(found)
        return
    headers = ("source", "format", "rows", "changed", "behind", "furthest reader", "protected", "readers")
    table = grid(*headers, right=(2, 4, 6))
    for s in found:
        source = Text(s.name)
        if s.problem:
            source.append(f"\n  {s.problem}", style="red")
        table.add_row(
            source,
            s.format or "-",
            _number(s.rows),
            f"{s.changed_at:%Y-%m-%d %H:%M:%S}" if s.changed_at else "-",
            _number(s.behind),
            Text(s.oldest_reader or "-"),
            f"{s.protected} of {s.frontiers}",
            Text(", ".join(s.readers)),
        )
    out.out.print(table)


def _told(
    without: Callable[[CatalogOnly, Histories], T], session: Callable[[Trickle], T], names: Sequence[str] | None = None
) -> T:
    """Answered without Spark where metadata files are local and no source is outside the lake."""
    from spark_trickle.lake.metadata_files import MetadataFiles, NotLocal
    from spark_trickle.lake.table_history import TableHistories

    check_names(names or ())
    with open_store() as lake:
        if not lake.has_outside_sources:
            try:
                return without(lake, TableHistories(MetadataFiles()).of)
            except NotLocal:
                pass
    with open_lake(output()) as tr:
        return session(tr)


def _number(value: int | None) -> str:
    return "-" if value is None else f"{value:,}"


def _ago(seconds: float) -> str:
    """
    >>> [_ago(s) for s in (5, 600, 9000, 999999)]
    ['5 s', '10 min', '2.5 h', '11.6 d']
    """
    for size, unit in ((86400, "d"), (3600, "h")):
        if seconds >= 2 * size:
            return f"{seconds / size:.1f} {unit}"
    return f"{seconds / 60:.0f} min" if seconds >= 120 else f"{seconds:.0f} s"


def _counts(counts: Mapping[str, int]) -> str:
    return ", ".join(f"{key} {n:,}" for key, n in counts.items())


# In the order of the help text.
COMMANDS: tuple[Callable[..., None], ...] = (statistics, pending, sources)
