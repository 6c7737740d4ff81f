"""The time stopped in the text of a query."""

from __future__ import annotations

from datetime import datetime
from zoneinfo import ZoneInfo

import pytest

from spark_trickle.sql.clock import pin_time
from spark_trickle.sql.mentions import time_of_day, volatile

MOMENT = datetime(2024, 5, 1, 0, 30, 15, 250_000, tzinfo=ZoneInfo("Europe/Berlin"))
STAMP = "TIMESTAMP_LTZ '2024-05-01 00:30:15.250000+02:00'"


@pytest.mark.parametrize(
    ("text", "pinned"),
    [
        ("now()", STAMP),
        ("current_timestamp", STAMP),
        ("Current_Timestamp ( )", STAMP),
        ("localtimestamp", "TIMESTAMP_NTZ '2024-05-01 00:30:15.250000'"),
        ("curdate()", "DATE '2024-05-01'"),
        ("current_time()", "TIME '00:30:15.250000'"),
        ("current_time(3)", "CAST(TIME '00:30:15.250000' AS TIME(3))"),
        ("unix_timestamp()", "1714516215L"),
        ("unix_timestamp(ts)", "unix_timestamp(ts)"),
        ("DATE 'today'", "DATE '2024-05-01'"),
        ("DATE ' Now '", "DATE '2024-05-01'"),
        ("TIMESTAMP 'yesterday'", "TIMESTAMP '2024-04-30'"),
        ("TIMESTAMP_NTZ 'now'", "TIMESTAMP_NTZ '2024-05-01 00:30:15.250000'"),
        ("CAST('now' AS TIMESTAMP)", "CAST('2024-05-01 00:30:15.250000+02:00' AS TIMESTAMP)"),
        ("date('tomorrow')", "date('2024-05-02')"),
        # Spark adds today's date to a time of day.
        ("TIMESTAMP '12:30'", "TIMESTAMP '2024-05-01 12:30'"),
        ("CAST('T1:2:3.5' AS TIMESTAMP)", "CAST('2024-05-01T1:2:3.5' AS TIMESTAMP)"),
        ("CAST('12:30' AS TIMESTAMP_NTZ)", "CAST('12:30' AS TIMESTAMP_NTZ)"),
        ("TIME '12:30'", "TIME '12:30'"),
        ("x > '12:30'", "x > '12:30'"),
        # Words, columns and strings that are none.
        ("now", "now"),
        ("`now`()", "`now`()"),
        ("t.current_date", "t.current_date"),
        ("'today'", "'today'"),
        ("x AS current_date", "x AS current_date"),
        ("'current_date'", "'current_date'"),
        ("a_column_of_ours", "a_column_of_ours"),
    ],
)
def test_pinned(text: str, pinned: str) -> None:
    assert pin_time(f"SELECT {text} FROM t", MOMENT) == f"SELECT {pinned} FROM t"


def test_columns_go_before_the_clock() -> None:
    text = "SELECT current_date, current_date() FROM t"
    assert pin_time(text, MOMENT, {"Current_Date"}) == "SELECT current_date, DATE '2024-05-01' FROM t"


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("SELECT a, RAND() FROM t", "rand() at line 1, column 11"),
        ("SELECT a FROM t WHERE b IN (SELECT c\nFROM u WHERE uuid() = d)", "uuid() at line 2, column 14"),
        ("SELECT shuffle(a), rand(3) FROM t", "shuffle() at line 1, column 8"),
        ("SELECT uuid, 'rand()', `rand` FROM rand", None),
        ("WITH uuid (a) AS (SELECT 1) SELECT a FROM uuid", None),
        ("MERGE INTO t USING rand() ON 1", "rand() at line 1, column 20"),  # not a query of ours
    ],
)
def test_volatile(text: str, found: str | None) -> None:
    assert volatile(text) == found


@pytest.mark.parametrize("text", ["12:30", " T12 ", "1:2:3.", "12:30:15+01:00", "1:2:3.25 Europe/Berlin", "t1:2"])
def test_a_time_of_day(text: str) -> None:
    assert time_of_day(f"SELECT a > '{text}' FROM t") == f"the literal '{text}'"


@pytest.mark.parametrize("text", ["12", "T", "1:", "12:30 UTC", "2024-05-01 12:30", "12:30xyz", "Tier 1"])
def test_no_time_of_day(text: str) -> None:
    assert time_of_day(f"SELECT a > '{text}' FROM t") is None
