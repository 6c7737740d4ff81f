"""How fresh a stream table must be, as text: checked when it is given, kept as it was written."""

from __future__ import annotations

import re
from dataclasses import dataclass
from datetime import UTC, datetime
from enum import StrEnum

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
_PART = re.compile(r"\s*(\d{1,18})\s*([a-z]+)")
_START = datetime(2024, 1, 1, tzinfo=UTC)  # a fixed one: a cron line is valid or not, whenever it is looked at


class ScheduleKind(StrEnum):
    DURATION = "DURATION"  # at most this old
    CRON = "CRON"  # at these times
    DOWNSTREAM = "DOWNSTREAM"  # when a stream table that reads it needs it
    MANUAL = "MANUAL"  # when somebody asks


_WORDS = {
    "manual": ScheduleKind.MANUAL,
    "downstream": ScheduleKind.DOWNSTREAM,
    "calculated": ScheduleKind.DOWNSTREAM,
}


@dataclass(frozen=True, slots=True)
class Schedule:
    kind: ScheduleKind
    seconds: int | None = None  # of a DURATION
    cron: str | None = None  # of a CRON


def parse_schedule(text: str) -> Schedule:
    """What a schedule means; INVALID_SCHEDULE when it means nothing. The hint says what is valid."""
    stripped = text.strip()
    word = _WORDS.get(stripped.lower())
    if word is not None:
        return Schedule(word)
    seconds = _seconds(stripped.lower())
    if seconds is not None:
        return Schedule(ScheduleKind.DURATION, seconds=seconds)
    if len(stripped.split()) == 5:
        _check_cron(text, stripped)
        return Schedule(ScheduleKind.CRON, cron=stripped)
    raise _invalid(text)


def check_schedule(text: str | None, shortest: float) -> str | None:
    """The schedule as it was written, stripped; refused when it means nothing or is too short."""
    if text is None:
        return None
    schedule = parse_schedule(text)
    if schedule.seconds is not None and schedule.seconds < shortest:
        raise TrickleError("INVALID_SCHEDULE", f"{text!r} is shorter than min_schedule_seconds ({shortest:g} s)")
    return text.strip()


def _seconds(text: str) -> int | None:
    """The length of a duration such as '1h 30m'; None for anything else."""
    total, at = 0, 0
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


def _check_cron(text: str, cron: str) -> None:
    # Late: the command line must start fast, and few schedules are cron lines.
    from croniter import CroniterBadCronError, CroniterBadDateError, croniter

    # croniter's R is another time at every reading, so it is no schedule that can be stored.
    if any(re.match(r"r\b", field, re.IGNORECASE) for field in cron.split()):
        raise _invalid(text)
    try:
        croniter(cron, _START).get_next()
    except CroniterBadDateError:
        raise _invalid(text, ": it never fires") from None
    except CroniterBadCronError as error:
        raise _invalid(text) from error


def _invalid(text: str, why: str = "") -> TrickleError:
    return TrickleError("INVALID_SCHEDULE", f"{text!r} is not a valid schedule{why}")
