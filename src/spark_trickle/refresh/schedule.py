"""How fresh a stream table must be, as text: checked when it is given, kept as it was written."""

from __future__ import annotations

import re

from spark_trickle.errors import TrickleError

_UNITS = {
    "s": 1,
    "sec": 1,
    "second": 1,
    "m": 60,
    "min": 60,
    "minute": 60,
    "h": 3600,
    "hour": 3600,
    "d": 86400,
    "day": 86400,
}
_PART = re.compile(r"\s*(\d+)\s*([a-z]+)")
_CRON_NAMES = "jan|feb|mar|apr|may|jun|jul|aug|sep|oct|nov|dec|sun|mon|tue|wed|thu|fri|sat"
_CRON_VALUE = rf"(\d+|{_CRON_NAMES})"
_CRON_PART = rf"(\*|\?|L|{_CRON_VALUE}(-{_CRON_VALUE}|#\d|L|W)?)(/\d+)?"
_CRON_FIELD = re.compile(rf"{_CRON_PART}(,{_CRON_PART})*", re.IGNORECASE)
_WORDS = ("manual", "downstream", "calculated")


def seconds(schedule: str) -> int | None:
    """The length of a duration such as '1h 30m'; None for anything else."""
    text, total, at = schedule.strip().lower(), 0, 0
    while at < len(text):
        match = _PART.match(text, at)
        if match is None:
            return None
        unit = match[2] if match[2] in _UNITS else match[2].removesuffix("s")
        if unit not in _UNITS:
            return None
        total += int(match[1]) * _UNITS[unit]
        at = match.end()
    return total if text else None


def check_schedule(schedule: str | None, shortest: float) -> str | None:
    """The schedule, stripped; refused when it means nothing."""
    if schedule is None:
        return None
    text = schedule.strip()
    length = seconds(text)
    if length is not None:
        if length < shortest:
            raise TrickleError(
                "INVALID_SCHEDULE", f"{schedule!r} is shorter than min_schedule_seconds ({shortest:g} s)"
            )
        return text
    fields = text.split()
    if text.lower() in _WORDS or (len(fields) == 5 and all(_CRON_FIELD.fullmatch(f) for f in fields)):
        return text
    raise TrickleError("INVALID_SCHEDULE", f"{schedule!r} is no schedule")
