"""`trickle alerts`: what somebody should know."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import TYPE_CHECKING, Annotated

import typer
from rich.text import Text

from spark_trickle.cli.common import open_store, output
from spark_trickle.cli.output import Output, grid

if TYPE_CHECKING:
    from spark_trickle.catalog.rows import Alert

_STYLES = {"error": "bold red", "warning": "yellow"}


def alerts(
    limit: Annotated[int, typer.Option("--limit", "-n", min=1, help="How many are shown, those seen last first.")] = 20,
    only_open: Annotated[bool, typer.Option("--open", help="Those that are not over.")] = False,
    name: Annotated[str | None, typer.Option("--name", help="Of one stream table or source.")] = None,
    kind: Annotated[str | None, typer.Option("--kind", help="Of one kind, such as STALE.")] = None,
    since: Annotated[
        str | None, typer.Option("--since", help="Last seen since a time, or within a duration such as '2h'.")
    ] = None,
) -> None:
    """Show what somebody should know: failed, late and suspended stream tables, foreign writes.

    [dim]trickle alerts --open
    trickle alerts --name shop.revenue --since 1d
    trickle alerts --kind stale -n 5[/dim]
    """
    from spark_trickle.catalog.alerts import alert_kind
    from spark_trickle.monitor.filters import moment

    out = output()
    asked = None if kind is None else alert_kind(kind)
    after = moment("since", since, datetime.now(UTC))
    with open_store() as lake:
        chosen = None if name is None else str(lake.name(name))
        found = lake.store.alerts(limit, open_only=only_open, name=chosen, kind=asked, since=after)
    if out.is_json:
        out.show(found)
    elif not found:
        filtered = only_open or any(f is not None for f in (name, kind, since))
        out.say("No alert is like that." if filtered else "There are no alerts.")
    else:
        _table(out, found)


def _table(out: Output, found: tuple[Alert, ...]) -> None:
    table = grid("last seen", "state", "severity", "kind", "message")
    for a in found:
        style = _STYLES.get(a.severity, "") if a.state == "open" else "dim"
        table.add_row(
            f"{a.last_seen_at or a.created_at:%Y-%m-%d %H:%M:%S}",
            a.state,
            Text(a.severity, style=style),
            a.kind if a.occurrences == 1 else f"{a.kind} ×{a.occurrences}",
            # Most messages name it.
            Text(a.message if a.name is None or a.name in a.message else f"{a.name}: {a.message}"),
        )
    out.out.print(table)
