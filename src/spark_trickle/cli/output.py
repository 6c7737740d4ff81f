"""What the command line prints: tables for people, JSON for machines, errors for both.

Results go to standard output; progress and errors go to standard error.
"""

from __future__ import annotations

import json
import math
import os
import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, fields, is_dataclass
from datetime import date, datetime
from enum import StrEnum
from typing import TYPE_CHECKING, Any

from rich.console import Console
from rich.table import Table
from rich.text import Text

from spark_trickle.cli.values import as_text, put_together, taken_apart
from spark_trickle.errors import TrickleError
from spark_trickle.model import Action
from spark_trickle.results import Description, Explanation, HistoryEntry, RefreshResult, StreamTableStatus, Verification

if TYPE_CHECKING:
    from pyspark.sql import DataFrame


class Format(StrEnum):
    TEXT = "text"
    JSON = "json"


@dataclass(frozen=True, slots=True)
class Rows:
    """The rows of a Spark statement, cut off at a limit; values as JSON has them."""

    columns: tuple[str, ...]
    types: tuple[str, ...]
    rows: tuple[tuple[Any, ...], ...]
    truncated: bool
    shown: tuple[tuple[str, ...], ...] = field(default=(), repr=False)  # the same for people

    @classmethod
    def of(cls, frame: DataFrame, limit: int) -> Rows:
        found = taken_apart(frame.limit(limit + 1)).collect() if frame.columns else []
        types = [f.dataType for f in frame.schema.fields]
        rows = tuple(put_together(r, types) for r in found[:limit])
        shown = tuple(tuple(map(as_text, r, types)) for r in rows)
        return cls(tuple(frame.columns), tuple(t.simpleString() for t in types), rows, len(found) > limit, shown)


class Output:
    """One per command. `show` takes any result of the engine."""

    def __init__(self, form: Format) -> None:
        self.form = form
        # In a pipe or a file there is no width to fit into, unless COLUMNS says so.
        wide = None if sys.stdout.isatty() or "COLUMNS" in os.environ else 200
        self.out = Console(highlight=False, width=wide)
        self.err = Console(stderr=True, highlight=False)

    @property
    def is_json(self) -> bool:
        return self.form is Format.JSON

    def show(self, result: Any) -> None:
        if self.is_json:
            sys.stdout.write(json.dumps(plain(result), ensure_ascii=False, indent=2) + "\n")
        else:
            self._text(result)

    def say(self, text: str) -> None:
        """A remark for people; JSON output has none."""
        if not self.is_json:
            self.out.print(Text(text))

    def error(self, error: TrickleError) -> None:
        if self.is_json:
            shown = {"code": error.code, "kind": error.kind, "message": error.message, "hint": error.hint}
            sys.stderr.write(json.dumps({"error": shown}, ensure_ascii=False) + "\n")
            return
        self.err.print(Text.assemble(("error ", "bold red"), (error.code, "bold"), ": ", error.message), soft_wrap=True)
        if error.hint:
            self.err.print(Text.assemble(("hint: ", "cyan"), error.hint), soft_wrap=True)

    @contextmanager
    def progress(self, text: str) -> Iterator[None]:
        """A spinner on standard error while something takes long; nothing where nobody looks."""
        if self.is_json or not self.err.is_terminal:
            yield
            return
        with self.err.status(Text(text)):
            yield

    # --- text --------------------------------------------------------------------------------------------

    def _text(self, result: Any) -> None:
        if isinstance(result, Rows):
            self._rows(result)
        elif isinstance(result, (tuple, list)):
            self._many(result)
        elif isinstance(result, Description | Explanation):
            self.out.print(Text(str(result)), soft_wrap=True)
        elif isinstance(result, RefreshResult | StreamTableStatus | HistoryEntry | Verification):
            self._many((result,))
        elif result is not None:
            self.out.print(Text(str(result)), soft_wrap=True)

    def _many(self, results: Sequence[Any]) -> None:
        if not results:
            self.out.print("(none)")
            return
        kinds: dict[type, Any] = {
            RefreshResult: self._refreshes,
            StreamTableStatus: self._statuses,
            HistoryEntry: self._history,
            Verification: self._verifications,
        }
        draw = kinds.get(type(results[0]))
        if draw is not None and all(type(r) is type(results[0]) for r in results):
            self.out.print(draw(results))
            return
        for result in results:
            self._text(result)

    def _rows(self, result: Rows) -> None:
        if not result.columns:
            self.out.print("ok")
            return
        table = grid(*result.columns)
        for name, kind in zip(table.columns, result.types, strict=True):
            numeric = kind.startswith(("int", "bigint", "small", "tiny", "double", "float", "decimal"))
            name.justify = "right" if numeric else "left"
        for row, shown in zip(result.rows, result.shown, strict=True):
            table.add_row(*(Text(s, style="dim" if v is None else "") for v, s in zip(row, shown, strict=True)))
        self.out.print(table)
        count = f"{len(result.rows)} row{'' if len(result.rows) == 1 else 's'}"
        self.out.print(Text(f"{count}, more left off (raise --limit)" if result.truncated else count, style="dim"))

    @staticmethod
    def _refreshes(results: Iterable[RefreshResult]) -> Table:
        table = grid(
            "stream table",
            "action",
            "+inserted",
            "~updated",
            "-deleted",
            "seconds",
            "reason",
            right=(2, 3, 4, 5),
        )
        for r in results:
            name = Text(r.name)
            for notice in r.notices:
                name.append(f"\n  notice: {notice}", style="yellow")
            table.add_row(
                name,
                action_text(r.action),
                f"{r.rows_inserted:,}",
                f"{r.rows_updated:,}",
                f"{r.rows_deleted:,}",
                f"{r.seconds:.2f}",
                Text(r.reason),
            )
        return table

    @staticmethod
    def _statuses(results: Iterable[StreamTableStatus]) -> Table:
        table = grid(
            "stream table",
            "status",
            "mode",
            "schedule",
            "fresh",
            "lag",
            "target",
            "data of",
            "last",
            "seconds",
            "inputs",
            right=(5, 6, 9),
        )
        for s in results:
            style = "green" if s.status == "ACTIVE" else "red"
            notes = [s.reason] if s.reason and not s.incremental else []
            notes += [f"UPSTREAM_FAILED: {s.failed_upstream}"] if s.failed_upstream else []
            notes += [s.last_error] if s.last_error else []
            name = Text(s.name)
            for note in notes:
                name.append(f"\n  {note}", style="dim")
            table.add_row(
                name,
                Text(s.status, style=style),
                s.mode,
                Text(s.schedule or "-"),
                Text("behind", style="yellow") if s.pending else Text("fresh", style="green"),
                "-" if s.lag_seconds is None else f"{s.lag_seconds:.0f} s",
                "-" if s.target_seconds is None else f"{s.target_seconds:.0f} s",
                f"{s.data_timestamp:%Y-%m-%d %H:%M:%S}" if s.data_timestamp else "-",
                action_text(s.last_action),
                "-" if s.last_seconds is None else f"{s.last_seconds:.2f}",
                Text(", ".join(s.inputs)),
            )
        return table

    @staticmethod
    def _history(results: Iterable[HistoryEntry]) -> Table:
        table = grid(
            "started",
            "stream table",
            "state",
            "action",
            "+",
            "~",
            "-",
            "seconds",
            "by",
            "why",
            right=(4, 5, 6, 7),
        )
        for h in results:
            style = {"COMPLETED": "green", "FAILED": "red"}.get(h.state, "yellow")
            why = f"{h.error_code}: {h.error}" if h.error_code else h.error or h.reason or ""
            table.add_row(
                f"{h.started_at:%Y-%m-%d %H:%M:%S}",
                Text(h.name),
                Text(h.state, style=style),
                action_text(h.action),
                f"{h.rows_inserted:,}",
                f"{h.rows_updated:,}",
                f"{h.rows_deleted:,}",
                "-" if h.seconds is None else f"{h.seconds:.2f}",
                Text(h.initiated_by),
                Text(why),
            )
        return table

    @staticmethod
    def _verifications(results: Iterable[Verification]) -> Table:
        table = grid("stream table", "equal", "rows", "missing", "extra", "seconds", right=(2, 3, 4, 5))
        for v in results:
            name = Text(v.name)
            for note in (*v.examples, *v.remarks):
                name.append(f"\n  {note}", style="dim")
            equal = Text("yes", style="green") if v.equal else Text("NO", style="bold red")
            table.add_row(name, equal, f"{v.rows:,}", f"{v.missing:,}", f"{v.extra:,}", f"{v.seconds:.2f}")
        return table


def grid(*headers: str, right: Sequence[int] = (), gap: int = 2) -> Table:
    """A plain table. Headers are data: no markup in them."""
    table = Table(box=None, pad_edge=False, header_style="bold", padding=(0, gap, 0, 0))
    for at, header in enumerate(headers):
        table.add_column(Text(header), justify="right" if at in right else "left", overflow="fold")
    return table


def action_text(action: Action | None) -> Text:
    if action is None:
        return Text("-")
    styles = {Action.DIFFERENTIAL: "green", Action.NO_DATA: "dim", Action.SKIP: "yellow"}
    return Text(action, style=styles.get(action, "cyan"))


def plain(value: Any) -> Any:
    """Any result as JSON's own types. NaN and the infinities have no JSON: they become strings."""
    if value is None or isinstance(value, (bool, int)):
        return value
    if isinstance(value, str):
        return str(value)
    if isinstance(value, float):
        return value if math.isfinite(value) else str(value)
    if isinstance(value, (datetime, date)):
        return value.isoformat()
    if is_dataclass(value) and not isinstance(value, type):
        return {f.name: plain(getattr(value, f.name)) for f in fields(value) if f.repr}
    if isinstance(value, Mapping):
        return {str(k): plain(v) for k, v in value.items()}
    if isinstance(value, (list, tuple, set, frozenset)):
        return [plain(v) for v in value]
    return str(value)
