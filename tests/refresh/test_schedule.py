"""Schedules: what is read, what is refused."""

from __future__ import annotations

import pytest

from spark_trickle.errors import TrickleError
from spark_trickle.refresh.schedule import check_schedule, seconds


@pytest.mark.parametrize(
    ("text", "length"),
    [
        ("30s", 30),
        ("5m", 300),
        ("1h", 3600),
        ("1h 30m", 5400),
        ("1h30m", 5400),
        ("2 days", 172800),
        ("1 minute", 60),
        ("90 SECONDS", 90),
        ("0s", 0),
        ("", None),
        ("5", None),
        ("m", None),
        ("5 fortnights", None),
        ("-5m", None),
        ("1.5h", None),
        ("5m then", None),
        ("manual", None),
        ("run this every five minutes", None),
    ],
)
def test_durations(text: str, length: int | None) -> None:
    assert seconds(text) == length


@pytest.mark.parametrize(
    "text", ["30s", "1h 30m", "*/5 * * * *", "0 9 * * MON-FRI", "downstream", "MANUAL", "calculated", "1s"]
)
def test_kept_as_written(text: str) -> None:
    assert check_schedule(f"  {text} ", 1.0) == text


def test_none_stays_none() -> None:
    assert check_schedule(None, 1.0) is None


@pytest.mark.parametrize(
    "text",
    [
        "",
        " ",
        "often",
        "5 fortnights",
        "* * * *",
        "* * * * * *",
        "-5m",
        "5m; DROP TABLE t",
        "'5m'",
        "1s",
        "run it every five minutes",
    ],
)
def test_refused_with_the_text_and_a_hint(text: str) -> None:
    with pytest.raises(TrickleError) as caught:
        check_schedule(text, 2.0)
    assert caught.value.code == "INVALID_SCHEDULE"
    assert repr(text) in caught.value.message
    assert "30s" in caught.value.hint or "min_schedule_seconds" in caught.value.message


def test_shortest_is_a_boundary() -> None:
    assert check_schedule("10s", 10.0) == "10s"
    with pytest.raises(TrickleError, match="min_schedule_seconds"):
        check_schedule("9s", 10.0)
