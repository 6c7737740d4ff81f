"""The commands that say how the lake does: figures, what waits, where data come from, what is wrong."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Annotated, TypeVar

import typer
from rich.text import Text

from spark_trickle.cli.common import DIFFERS, CatalogOnly, check_names, open_lake, open_store, output
from spark_trickle.cli.output import grid, plain
from spark_trickle.cli.stream_tables import Since

if TYPE_CHECKING:
    from spark_trickle.engine import Trickle
    from spark_trickle.monitor.pending import Histories

T = TypeVar("T")
OneOrAll = Annotated[str | None, typer.Argument(metavar="NAME", help="A stream table; all of them if left out.")]

Window = Annotated[str, typer.Option("--since", metavar="TIME", help="A time with its zone, or how long ago.")]


def health() -> None:
    """Say what is wrong with the lake, the worst first, and what to do; exit code 1 if there is an error or a warning.

    [dim]trickle health
    trickle health --output json[/dim]
    """
    from spark_trickle.lake.metadata_files import MetadataFiles
    from spark_trickle.lake.table_history import TableHistories
    from spark_trickle.monitor.health import Severity, health

    out = output()
    with open_store() as lake:
        found = health(lake.store, lake.settings, TableHistories(MetadataFiles()).of)
    if out.is_json:
        out.show({"is_well": found.is_well, "summary": found.summary, **plain(found)})
    else:
        styles = {Severity.ERROR: "bold red", Severity.WARNING: "yellow", Severity.INFO: "dim"}
        out.out.print(Text(found.summary, style="green" if found.is_well else "bold"))
        table = grid("", "", "")
        table.show_header = False
        for f in found.findings:
            text = Text(f.message)
            text.append(f"\n→ {f.remedy}", style="cyan")
            table.add_row(Text(f.severity, style=styles[f.severity]), f.code, text)
        if found.findings:
            out.out.print(table)
    if not found.is_well:
        raise typer.Exit(DIFFERS)


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


def groups(name: OneOrAll = None) -> None:
    """Show which stream tables are published together, why, how often they were, and how the last time ended.

    [dim]trickle groups
    trickle groups shop.revenue --output json[/dim]
    """
    from spark_trickle.monitor.groups import groups

    out = output()
    with open_store() as lake:
        found = groups(lake.store, lake.settings, None if name is None else lake.store.find(lake.name(name)).name)
    if out.is_json or not found:
        out.show(found)
        return
    table = grid("members", "epoch", "last", "policy", "why", right=(1,))
    for g in found:
        last = Text("-") if g.last_at is None else Text(f"{g.last_state} {g.last_at:%Y-%m-%d %H:%M:%S}")
        if g.last_error:
            last.append(f"\n{g.last_error}", style="red")
        table.add_row(
            Text("\n".join(g.members)), f"{g.epoch:,}", last, g.schedule_policy.lower(), Text("\n".join(g.paths))
        )
    out.out.print(table)


def cycles(name: OneOrAll = None) -> None:
    """Show stream tables that read each other, by which path, and in how many rounds their fixpoint was reached.

    [dim]trickle cycles
    trickle cycles graph.reach --output json[/dim]
    """
    from spark_trickle.monitor.cycles import cycles

    out = output()
    with open_store() as lake:
        found = cycles(lake.store, lake.settings, None if name is None else lake.store.find(lake.name(name)).name)
    if out.is_json or not found:
        out.show(found)
        return
    table = grid("path", "rounds", "last", "converged", "how", right=(1,))
    for c in found:
        table.add_row(
            Text(c.path),
            "-" if c.last_iterations is None else f"{c.last_iterations:,}",
            "-" if c.last_at is None else f"{c.last_at:%Y-%m-%d %H:%M:%S}",
            Text("yes", style="green") if c.converged else Text("NO", style="bold red"),
            Text(c.last_error or c.last_reason or ""),
        )
    out.out.print(table)


def compliance(
    name: OneOrAll = None,
    since: Window = "24h",
) -> None:
    """Show how much of the time stream tables were as fresh as their schedules ask, plus one refresh.

    [dim]trickle compliance
    trickle compliance shop.revenue --since 7d[/dim]
    """
    from datetime import UTC, datetime

    from spark_trickle.monitor.compliance import compliance
    from spark_trickle.monitor.filters import moment

    out = output()
    now = datetime.now(UTC)
    start = moment("since", since, now)
    assert start is not None
    with open_store() as lake:
        found = compliance(lake.store, lake.settings, start, None if name is None else lake.name(name), now)
    if out.is_json or not found:
        out.show(found)
        return
    headers = ("stream table", "schedule", "on time", "late", "times", "longest", "oldest data", "target", "+ refresh")
    table = grid(*headers, right=range(2, 9))
    for c in found:
        style = "" if c.share is None else "green" if c.share >= 0.99 else "yellow" if c.share >= 0.95 else "red"
        table.add_row(
            Text(c.name),
            Text(c.schedule or "-"),
            Text("-" if c.share is None else f"{100 * c.share:.2f} %", style=style),
            _ago(c.late_seconds),
            f"{c.late_spans:,}",
            _ago(c.longest_late_seconds),
            _ago(c.worst_age_seconds),
            "-" if c.target_seconds is None else _ago(c.target_seconds),
            f"{c.refresh_seconds:.1f} s",
        )
    out.out.print(table)
    measured = sum(c.measured_seconds for c in found)
    if measured:
        out.say(f"{100 * (1 - sum(c.late_seconds for c in found) / measured):.2f} % of all of it on time")


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


def lineage(
    name: Annotated[str, typer.Argument(metavar="NAME[.COLUMN]", help="A stream table, or a column of it.")],
    down: Annotated[
        bool, typer.Option("--down", help="What depends on a stream table or source, or on its column.")
    ] = False,
    depth: Annotated[
        int | None,
        typer.Option("--depth", help="How many definitions to look through; otherwise all.", show_default=False),
    ] = None,
) -> None:
    """Show where columns come from: directly, what values are made of, and what decides which rows there are.

    [dim]trickle lineage shop.revenue
    trickle lineage shop.revenue.total --depth 1
    trickle lineage shop.orders.amount --down[/dim]
    """
    from spark_trickle.monitor.lineage import NotStored, lineage

    out = output()
    try:
        with open_store() as lake:
            found = lineage(lake.store, lake.name(name), depth=depth, down=down)
    except NotStored:
        with open_lake(out) as tr:
            found = tr.lineage(name, depth=depth, down=down)
    if out.is_json or not found:
        out.show(found)
        return
    table = grid("column", "", "how", "of" if down else "from")
    before = ""
    for entry in found:
        own = f"{entry.table}.{entry.column or '*'}"
        other = f"{entry.from_table}.{entry.from_column or '*'}"
        shown = Text("" if own == before else own)
        table.add_row(shown, "<-", Text(entry.via, style="" if entry.direct else "dim"), Text(other))
        before = own
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
COMMANDS: tuple[Callable[..., None], ...] = (health, statistics, groups, cycles, compliance, pending, sources, lineage)
