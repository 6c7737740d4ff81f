"""How fresh a stream table must be: the one grammar of schedules, and when a schedule is due next.

A schedule is checked when it is given and kept as it was written.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from enum import StrEnum
from functools import lru_cache
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

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
_EXACT = re.compile(r"\s+exact$", re.IGNORECASE)
_FIRST_PERIOD = 48  # seconds; longer periods are this times a power of two
_LONGEST_PERIOD = 100 * 365 * 86400  # datetime ends at year 9999
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
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
    zone: str | None = None  # of a CRON: its time zone; None: that of the lake
    exact: bool = False  # of a DURATION: it has no canonical period

    def snapped(self) -> Schedule:
        """With the canonical period that is at most as long: periods of a DAG then fall on the same instants.

        >>> [Schedule(ScheduleKind.DURATION, n).snapped().seconds for n in (30, 60, 300, 3600)]
        [30, 48, 192, 3072]
        """
        if self.seconds is None or self.exact or self.seconds < _FIRST_PERIOD:
            return self
        power = (self.seconds // _FIRST_PERIOD).bit_length() - 1
        return Schedule(self.kind, seconds=_FIRST_PERIOD * 2**power)

    def due_after(self, moment: datetime, zone: str = "UTC") -> datetime | None:
        """The first time after a moment at which the schedule asks for a refresh; None: it never does by itself.

        Durations are counted from one fixed instant, so that equal periods are due together. A cron line is read in
        its own time zone, or in `zone`.
        """
        if self.seconds is not None:
            period = timedelta(seconds=min(self.seconds, _LONGEST_PERIOD))
            return _EPOCH + ((moment - _EPOCH) // period + 1) * period
        return None if self.cron is None else _cron_after(self.cron, self.zone or zone, moment)

    def target_seconds(self, now: datetime, zone: str = "UTC") -> float | None:
        """How old the content may get: the period, or the time between two fires of a cron line around now."""
        if self.cron is None:
            return self.seconds
        first = _cron_after(self.cron, self.zone or zone, now)
        return (_cron_after(self.cron, self.zone or zone, first) - first).total_seconds()


def parse_schedule(text: str) -> Schedule:
    """What a schedule means; INVALID_SCHEDULE when it means nothing. The hint says what is valid."""
    stripped = text.strip()
    word = _WORDS.get(stripped.lower())
    if word is not None:
        return Schedule(word)
    duration = _EXACT.sub("", stripped)
    seconds = duration_seconds(duration)
    if seconds is not None:
        return Schedule(ScheduleKind.DURATION, seconds=seconds, exact=duration != stripped)
    fields = stripped.split()
    if len(fields) == 5:
        _check_cron(text, stripped)
        return Schedule(ScheduleKind.CRON, cron=stripped)
    if len(fields) == 6 and fields[5][0].isalpha():
        cron, zone = " ".join(fields[:5]), fields[5]
        _check_cron(text, cron)
        if not _is_zone(zone):
            raise _invalid(text, f": {zone!r} is not a time zone")
        return Schedule(ScheduleKind.CRON, cron=cron, zone=zone)
    raise _invalid(text)


def check_schedule(text: str | None, shortest: float) -> str | None:
    """The schedule as it was written, stripped; refused when it means nothing or is too short."""
    if text is None:
        return None
    schedule = parse_schedule(text)
    if schedule.seconds is not None and schedule.seconds < shortest:
        raise TrickleError("INVALID_SCHEDULE", f"{text!r} is shorter than min_schedule_seconds ({shortest:g} s)")
    return text.strip()


def parse_duration(text: str) -> int:
    """Seconds of a duration.

    >>> parse_duration("1h 30m")
    5400
    """
    seconds = duration_seconds(text.strip())
    if seconds is None:
        raise TrickleError(
            "INVALID_SETTING", f"{text!r} is not a valid duration", hint="Write it as '30m', '1h 30m' or '7d'."
        )
    return seconds


def duration_seconds(text: str) -> int | None:
    """The length of a duration such as '1h 30m'; None for anything else."""
    text = text.lower()
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


def _is_zone(name: str) -> bool:
    try:
        ZoneInfo(name)
    except (ZoneInfoNotFoundError, ValueError, OSError):
        return False
    return True


def _cron_after(cron: str, zone: str, moment: datetime) -> datetime:
    """croniter takes milliseconds: the last answers for a line are kept."""
    known = _last_answers(cron, zone)
    for asked, fire in tuple(known):
        if asked <= moment < fire:
            return fire
    fire = _next_fire(cron, zone, moment)
    known[:] = [(moment, fire), *known[:3]]
    return fire


@lru_cache(maxsize=4096)
def _last_answers(_cron: str, _zone: str) -> list[tuple[datetime, datetime]]:
    return []


def _next_fire(cron: str, zone: str, moment: datetime) -> datetime:
    """Daylight saving: a time that is left out fires at the end of the gap; a repeated hour that the line names fires
    once, the first time. A line for every hour fires in both."""
    from croniter import croniter

    hourly = cron.split()[1].startswith("*")
    times = croniter(cron, moment.astimezone(ZoneInfo(zone)))
    while True:
        found = times.get_next(datetime)
        if hourly or not found.fold or found.replace(fold=0).utcoffset() == found.utcoffset():
            return found.astimezone(UTC)


def _invalid(text: str, why: str = "") -> TrickleError:
    return TrickleError("INVALID_SCHEDULE", f"{text!r} is not a valid schedule{why}")
