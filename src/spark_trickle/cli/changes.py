"""`trickle changes`: the change feed of a stream table, once or without end."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from datetime import datetime
from itertools import islice
from typing import TYPE_CHECKING, Any

from spark_trickle.cli.output import Output, Rows
from spark_trickle.cli.values import put_together, taken_apart
from spark_trickle.errors import TrickleError

if TYPE_CHECKING:
    from spark_trickle.engine import Trickle
    from spark_trickle.refresh.changes import Changes

_SHOWN = 100  # rows of a table for people, unless they say otherwise
_ORDER = ("_time", "_snapshot", "_weight")


def since_of(text: str | None) -> int | datetime | str | None:
    """A snapshot id, a time, or a token."""
    if text is None:
        return None
    if text.isascii() and text.isdigit():
        return int(text)
    try:
        return datetime.fromisoformat(text)
    except ValueError:
        return text


def show_changes(out: Output, tr: Trickle, name: str, since: str | None, limit: int | None, *, follow: bool) -> None:
    """Print the feed. Rows that are left off take the token with them: who goes on from it would miss them."""
    token: str | None = None
    try:
        for found in _batches(tr, name, since_of(since), follow=follow):
            whole = _lines(found, limit) if out.is_json else _table(out, found, limit)
            token = found.token if whole else None
            if out.is_json:
                _line({"token": token, "from_snapshot": found.from_snapshot, "to_snapshot": found.to_snapshot})
    except KeyboardInterrupt:
        if not follow:
            raise
    if not out.is_json:
        last = f"token: {token}" if token else "no token: rows were left off (raise --limit)"
        out.err.print(last, markup=False, soft_wrap=True)


def _batches(tr: Trickle, name: str, since: Any, *, follow: bool) -> Iterator[Changes]:
    if follow:
        yield from tr.follow(name, since)
    else:
        with tr.changes(name, since) as found:
            yield found


def _table(out: Output, found: Changes, limit: int | None) -> bool:
    rows = Rows.of(found.frame.orderBy(*_ORDER), limit or _SHOWN)
    if rows.rows or found.from_snapshot != found.to_snapshot or found.to_snapshot is None:
        out.show(rows)
    return not rows.truncated


def _lines(found: Changes, limit: int | None) -> bool:
    rows = taken_apart(found.frame.orderBy(*_ORDER)).toLocalIterator()
    names, types = found.frame.columns, [f.dataType for f in found.frame.schema.fields]
    for row in rows if limit is None else islice(rows, limit):
        _line(dict(zip(names, put_together(row, types), strict=True)))
    return limit is None or next(rows, None) is None


def _line(values: dict[str, Any]) -> None:
    sys.stdout.write(json.dumps(values, ensure_ascii=False) + "\n")
    sys.stdout.flush()


def check_since(text: str | None) -> None:
    """Say what is wrong before Spark starts."""
    found = since_of(text)
    if isinstance(found, datetime) and found.tzinfo is None:
        raise TrickleError(
            "INVALID_SINCE", f"{text} has no time zone", hint="Write it with one: 2026-01-31T12:00:00+00:00."
        )
