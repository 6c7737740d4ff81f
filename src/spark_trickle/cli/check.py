"""`trickle check`: whether a query would be incremental, before it becomes a stream table."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING

from rich.text import Text

from spark_trickle.cli.output import Output, grid
from spark_trickle.errors import TrickleError

if TYPE_CHECKING:
    from spark_trickle.results import Check

NOT_INCREMENTAL = 2


def read_query(file: str) -> str:
    if file == "-":
        return sys.stdin.read()
    try:
        return Path(file).read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as e:
        raise TrickleError("INVALID_STATEMENT", f"{file} cannot be read: {e}", hint="Check the path.") from None


def show_check(out: Output, found: Check, *, sql: bool) -> int:
    """Print it and give the exit code."""
    if out.is_json:
        out.show(found)
    else:
        _text(out, found, sql=sql)
    return 0 if found.incremental else NOT_INCREMENTAL


def _text(out: Output, found: Check, *, sql: bool) -> None:
    say = out.out.print
    if found.incremental:
        say(Text.assemble(("incremental", "bold green"), f", identity: {found.identity}"))
    else:
        say(Text.assemble(("not incremental", "bold yellow"), ": every refresh would be FULL"))
    if found.obstacle is not None:
        o = found.obstacle
        at = f" at line {o.line}, column {o.column}" if o.line else ""
        say(Text.assemble((o.reason, "bold"), f"{at} ({o.word}): {o.message}"), soft_wrap=True)
        if o.shown:
            say(Text(o.shown), soft_wrap=True)
        say(Text(o.meaning), soft_wrap=True)
        say(Text.assemble(("→ ", "cyan"), (o.change, "cyan")), soft_wrap=True)
    for notice in found.notices:
        say(Text.assemble(("notice: ", "yellow"), notice), soft_wrap=True)
    if found.operators:
        table = grid("operator", "maintained", "cost")
        for op in found.operators:
            table.add_row(Text("  " * op.depth + op.label), Text(op.how), Text(op.cost))
        say("", table)
    inputs = grid("input", "kind", "rows", "columns", "when it changes, also read", right=(2,))
    for i in found.inputs:
        rows = "?" if i.rows is None else f"{i.rows:,}"
        inputs.add_row(
            Text(i.name), i.kind, rows, Text(", ".join(i.columns)), Text(", ".join(i.also_read) or "nothing")
        )
    for view in found.views:
        inputs.add_row(Text(view), "VIEW", "", "", "")
    say("", inputs)
    if sql and found.delta_sql:
        say(Text(f"\n{found.delta_sql}"), soft_wrap=True)
