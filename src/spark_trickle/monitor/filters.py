"""What a user says about the part of the history to look at, checked."""

from __future__ import annotations

import math
from datetime import UTC, datetime, timedelta

from spark_trickle.catalog.history import HistoryFilter
from spark_trickle.errors import TrickleError
from spark_trickle.model import Action
from spark_trickle.schedule import duration_seconds

Moment = datetime | timedelta | str | None  # a time with its zone, or how long ago
STATES = ("RUNNING", "COMPLETED", "FAILED")
MOST = 1_000_000  # rows that are shown at once


def history_filter(
    name: str | None = None,
    *,
    limit: int | None = None,
    since: Moment = None,
    until: Moment = None,
    action: str | Action | None = None,
    status: str | None = None,
    failed_only: bool = False,
    min_seconds: float | None = None,
    now: datetime | None = None,
) -> HistoryFilter:
    """Which refreshes are meant. What cannot be understood is refused: INVALID_FILTER."""
    check_limit(limit)
    if failed_only and status is not None and status.upper() != "FAILED":
        raise TrickleError("INVALID_FILTER", f"failed_only and status {status!r} exclude each other")
    if min_seconds is not None and not (min_seconds >= 0 and math.isfinite(min_seconds)):
        raise TrickleError("INVALID_FILTER", f"min_seconds is {min_seconds}; it must be 0 or more")
    now = now or datetime.now(UTC)
    start, end = moment("since", since, now), moment("until", until, now)
    if start is not None and end is not None and start >= end:
        raise TrickleError("INVALID_FILTER", f"since ({start.isoformat()}) is not before until ({end.isoformat()})")
    return HistoryFilter(
        name=name,
        since=start,
        until=end,
        action=None if action is None else Action(_one_of("action", str(action), tuple(Action))),
        state="FAILED" if failed_only else None if status is None else _one_of("status", status, STATES),
        min_seconds=min_seconds,
    )


def check_limit(limit: int | None) -> None:
    if limit is not None and not 1 <= limit <= MOST:
        raise TrickleError("INVALID_FILTER", f"limit is {limit}; it must be between 1 and {MOST:,}")


def moment(what: str, given: Moment, now: datetime) -> datetime | None:
    """A time, or how long before now.

    >>> moment("since", "1h 30m", datetime(2026, 1, 31, 12, tzinfo=UTC)).isoformat()
    '2026-01-31T10:30:00+00:00'
    """
    if given is None:
        return None
    try:
        if isinstance(given, timedelta):
            return now - given
        if isinstance(given, str):
            seconds = duration_seconds(given.strip())
            if seconds is not None:
                return now - timedelta(seconds=seconds)
            given = datetime.fromisoformat(given.strip())
    except (ValueError, OverflowError):
        raise TrickleError("INVALID_FILTER", f"{what} is {given!r}, which is no time and no duration") from None
    if given.tzinfo is None:
        raise TrickleError("INVALID_FILTER", f"{what} is {given.isoformat()}, a time without a zone")
    return given.astimezone(UTC)


def _one_of(what: str, given: str, known: tuple[str, ...]) -> str:
    if given.upper() not in known:
        raise TrickleError("INVALID_FILTER", f"{what} is {given!r}, not one of {', '.join(known)}")
    return given.upper()
