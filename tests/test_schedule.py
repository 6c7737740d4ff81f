"""Schedules: what is read, what is refused."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest

from spark_trickle.errors import TrickleError
from spark_trickle.schedule import Schedule, ScheduleKind, check_schedule, parse_schedule


@pytest.mark.parametrize(
    ("text", "length"),
    [
        ("30s", 30),
        ("5m", 300),
        ("1h", 3600),
        ("1h 30m", 5400),
        ("1h30m", 5400),
        ("2 days", 172800),
        ("2 hours", 7200),
        ("1 minute", 60),
        ("10 min", 600),
        ("15 sec", 15),
        ("1d", 86400),
        ("90 SECONDS", 90),
        (" 5m ", 300),
        ("0s", 0),
    ],
)
def test_durations(text: str, length: int) -> None:
    assert parse_schedule(text) == Schedule(ScheduleKind.DURATION, seconds=length)


@pytest.mark.parametrize(
    "text",
    [
        "*/5 * * * *",
        "0 9 * * MON-FRI",
        "0 9 * * sun",
        "0 0 1 jan,JUL *",
        "0 0 * * fri-mon",
        "0 0 29 2 *",
        "0 0 L * *",
        "0 9 * * mon#1",
        "0 0 ? * 7",
        "30\t6 * * 1-5",
    ],
)
def test_cron(text: str) -> None:
    assert parse_schedule(f" {text} ") == Schedule(ScheduleKind.CRON, cron=text)


@pytest.mark.parametrize(
    ("text", "kind"),
    [
        ("manual", ScheduleKind.MANUAL),
        ("Downstream", ScheduleKind.DOWNSTREAM),
        ("CALCULATED", ScheduleKind.DOWNSTREAM),
    ],
)
def test_words(text: str, kind: ScheduleKind) -> None:
    assert parse_schedule(f" {text} ") == Schedule(kind)


@pytest.mark.parametrize(
    "text", ["30s", "1h 30m", "*/5 * * * *", "0 9 * * MON-FRI", "downstream", "MANUAL", "calculated", "1s"]
)
def test_kept_as_written(text: str) -> None:
    assert check_schedule(f"  {text} ", 1.0) == text


def test_cron_with_a_time_zone() -> None:
    assert parse_schedule("0 6 * * MON  Europe/Berlin") == Schedule(
        ScheduleKind.CRON, cron="0 6 * * MON", zone="Europe/Berlin"
    )
    with pytest.raises(TrickleError, match="'Mars/Base' is not a time zone"):
        parse_schedule("0 6 * * * Mars/Base")


@pytest.mark.parametrize("text", ["100s exact", "1m 40s  EXACT", " 100s\texact "])
def test_an_exact_period_is_not_shortened(text: str) -> None:
    schedule = parse_schedule(text)
    assert schedule == Schedule(ScheduleKind.DURATION, seconds=100, exact=True)
    assert schedule.snapped() == schedule
    assert schedule.due_after(datetime(1970, 1, 1, 0, 0, 1, tzinfo=UTC)) == datetime(1970, 1, 1, 0, 1, 40, tzinfo=UTC)
    assert parse_schedule("100s").snapped().seconds == 96


def test_a_very_long_period() -> None:
    due = parse_schedule("999999999999999999s").snapped().due_after(datetime(2026, 1, 1, tzinfo=UTC))
    assert due is not None
    assert due.year > 2060


def test_none_stays_none() -> None:
    assert check_schedule(None, 1.0) is None


@pytest.mark.parametrize(
    "text",
    [
        "exact",
        "exact 5m",
        "5mexact",
        "manual exact",
        "",
        " ",
        "often",
        "5",
        "m",
        "5 fortnights",
        "5m then",
        "-5m",
        "1.5h",
        "9" * 5000 + "s",
        "'5m'",
        "5m; DROP TABLE t",
        "run it every five minutes",
        "@daily",
        "* * * *",
        "* * * * * *",
        "99 99 99 99 99",
        "60 * * * *",
        "0 24 * * *",
        "0 0 0 * *",
        "0 0 * 13 *",
        "0 0 * * 8",
        "0 0 * * MONDAY",
        "*/0 * * * *",
        "R R * * *",
        "0 R(1-5) * * *",
        "H 0 * * *",
    ],
)
def test_refused_with_the_text_and_a_hint(text: str) -> None:
    with pytest.raises(TrickleError) as caught:
        check_schedule(text, 1.0)
    assert caught.value.code == "INVALID_SCHEDULE"
    assert caught.value.message == f"{text!r} is not a valid schedule"
    assert "30s" in caught.value.hint


@pytest.mark.parametrize("text", ["0 0 31 2 *", "0 0 30,31 FEB *", "0 0 31 4,6,9,11 *"])
def test_a_cron_line_that_never_fires(text: str) -> None:
    with pytest.raises(TrickleError) as caught:
        parse_schedule(text)
    assert caught.value.message == f"{text!r} is not a valid schedule: it never fires"


def test_shortest_is_a_boundary() -> None:
    assert check_schedule("10s", 10.0) == "10s"
    with pytest.raises(TrickleError, match="min_schedule_seconds"):
        check_schedule("9s", 10.0)
