"""Values are printed as they are stored, whatever the command line passes them through."""

from __future__ import annotations

import io
import json
import math
import os
import time
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import pytest

from spark_trickle.cli.output import Format, Output, Rows

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.spark

_LONG = ", ".join(f"'k{n}', {n}" for n in range(20, 0, -1))
# SQL, what JSON has, what people see.
FORMS: list[tuple[str, Any, str]] = [
    ("'it''s ü'", "it's ü", "it's ü"),
    ("CAST(X'61FF62' AS STRING)", {"bytes": "61ff62"}, "X'61ff62'"),
    ("CAST('A' AS STRING) COLLATE UTF8_LCASE", "A", "A"),
    ("X'00ff'", "X'00ff'", "X'00ff'"),
    ("9007199254740993L", 9007199254740993, "9007199254740993"),
    ("12345678901234567890123456789012345.678BD", *["12345678901234567890123456789012345.678"] * 2),
    ("-0.0D", -0.0, "-0.0"),
    ("double('-infinity')", "-inf", "-inf"),
    ("true", True, "true"),
    ("DATE'0001-01-01'", "0001-01-01", "0001-01-01"),
    ("CAST('+12345-06-07' AS DATE)", "+12345-06-07", "+12345-06-07"),
    ("TIMESTAMP'2026-10-25 00:30:00Z'", "2026-10-25T02:30:00+02:00", "2026-10-25 02:30:00+02:00"),
    ("TIMESTAMP'2026-10-25 01:30:00Z'", "2026-10-25T02:30:00+01:00", "2026-10-25 02:30:00+01:00"),
    (
        "timestamp_micros(-62135596800000001)",
        "0001-01-01T00:53:27.999999+00:53:28",
        "0001-01-01 00:53:27.999999+00:53:28",
    ),
    ("TIMESTAMP_NTZ'2026-10-25 02:30:00.5'", "2026-10-25T02:30:00.5", "2026-10-25 02:30:00.5"),
    ("INTERVAL '-1-2' YEAR TO MONTH", *["INTERVAL '-1-2' YEAR TO MONTH"] * 2),
    (
        f"map({_LONG})",
        [[f"k{n}", n] for n in range(20, 0, -1)],
        "{" + ", ".join(f"k{n} -> {n}" for n in range(20, 0, -1)) + "}",
    ),
    ("map(X'ff', 1, X'00', NULL)", [["X'ff'", 1], ["X'00'", None]], "{X'ff' -> 1, X'00' -> NULL}"),
    ("map(named_struct('a', 1), 'x')", [[{"a": 1}, "x"]], "{{a: 1} -> x}"),
    ("array(1, NULL, 3)", [1, None, 3], "[1, NULL, 3]"),
    ("struct(1 AS x, 2 AS x)", [["x", 1], ["x", 2]], "{x: 1, x: 2}"),
    (
        "named_struct('a', CAST(NULL AS INT), 'b', array(map('k', true)))",
        {"a": None, "b": [[["k", True]]]},
        "{a: NULL, b: [{k -> true}]}",
    ),
    ("CAST(NULL AS STRUCT<a: INT>)", None, "NULL"),
    ("parse_json('[1, \"1\"]')", '[1,"1"]', '[1,"1"]'),
]


@pytest.fixture
def berlin(spark: SparkSession, monkeypatch: pytest.MonkeyPatch) -> Iterator[SparkSession]:
    """A session in Berlin's zone, on a machine elsewhere."""
    monkeypatch.setitem(os.environ, "TZ", "America/New_York")
    time.tzset()
    session = spark.newSession()
    session.conf.set("spark.sql.session.timeZone", "Europe/Berlin")
    yield session
    monkeypatch.undo()
    time.tzset()


def test_each_type(berlin: SparkSession) -> None:
    listed = ", ".join(f"{sql} AS `c {n}`" for n, (sql, _, _) in enumerate(FORMS))
    found = Rows.of(berlin.sql(f"SELECT {listed}"), 5)
    for (sql, value, text), seen, shown in zip(FORMS, found.rows[0], found.shown[0], strict=True):
        assert json.loads(json.dumps(seen)) == json.loads(json.dumps(value)), sql
        assert shown == text, sql
    (zero,) = (v for v, (sql, _, _) in zip(found.rows[0], FORMS, strict=True) if sql == "-0.0D")
    assert math.copysign(1, zero) == -1


def test_columns_of_one_name(berlin: SparkSession, capsys: pytest.CaptureFixture[str]) -> None:
    found = Rows.of(berlin.sql("SELECT 1 AS a, 'x' AS a, 3 AS `a.b`"), 5)
    assert (found.columns, found.rows) == (("a", "a", "a.b"), ((1, "x", 3),))
    Output(Format.JSON).show(found)
    shown = json.load(io.StringIO(capsys.readouterr().out))
    assert shown == {
        "columns": ["a", "a", "a.b"],
        "types": ["int", "string", "int"],
        "rows": [[1, "x", 3]],
        "truncated": False,
    }


def test_order_and_limit(berlin: SparkSession) -> None:
    found = Rows.of(berlin.sql("SELECT id FROM range(10) ORDER BY id DESC"), 3)
    assert (found.rows, found.truncated) == (((9,), (8,), (7,)), True)
    assert Rows.of(berlin.sql("CREATE OR REPLACE TEMPORARY VIEW v AS SELECT 1 AS a"), 3).columns == ()
