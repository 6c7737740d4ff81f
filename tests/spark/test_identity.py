"""When two values are the same value, and that collecting rows on the driver keeps them."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from spark_trickle.model import Column
from spark_trickle.spark.analyze import type_text
from spark_trickle.spark.runtime import collect_local, register_functions
from spark_trickle.sql.identity import identity, row_hash
from spark_trickle.sql.scalar import column
from spark_trickle.sql.types import parse_type

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

LONG_MAP = "map('k', 1, 'j', 2, 'i', 3, 'h', 4, 'g', 5, 'f', 6, 'e', 7)"

# A value, and one that differs from it although Spark groups, compares or prints both alike.
PAIRS = [
    ("0.0D", "-0.0D"),
    ("array(0.0D)", "array(-0.0D)"),
    ("named_struct('d', 0.0F)", "named_struct('d', -0.0F)"),
    ("'a' COLLATE UTF8_LCASE", "'A' COLLATE UTF8_LCASE"),
    ("CAST(X'FF' AS STRING)", "CAST(X'FE' AS STRING)"),
    ("map('a', 1, 'b', 2)", "map('b', 2, 'a', 1)"),
    ("map('a', 1, 'b', NULL)", "map('a', 1)"),
    ("named_struct('m', map(X'01', 1))", "named_struct('m', map(X'02', 1))"),
    ("named_struct('m', map(X'01', 1))", "CAST(NULL AS STRUCT<m: MAP<BINARY, INT>>)"),
    ("array(map('a', 0.0D))", "array(map('a', -0.0D))"),
    ("map('a', map('b', 1, 'c', 2))", "map('a', map('c', 2, 'b', 1))"),
    ("parse_json('[1, \"1\"]')", "parse_json('[1, 1]')"),
    ("to_variant_object(array(DATE'2024-01-01'))", "parse_json('[\"2024-01-01\"]')"),
    ("named_struct('v', parse_json('1'))", "named_struct('v', parse_json('\"1\"'))"),
]


@pytest.mark.parametrize(("one", "other"), PAIRS)
def test_values_that_can_be_told_apart_are_not_the_same(spark: SparkSession, one: str, other: str) -> None:
    register_functions(spark)
    frame = spark.sql(f"SELECT {one} AS x, 1 AS n UNION ALL SELECT {one}, 2 UNION ALL SELECT {other}, 3")
    frame.createOrReplaceTempView("pairs")
    form = identity(column("x"), type_text(frame.schema["x"].dataType)).sql()
    groups = spark.sql(f"SELECT array_sort(collect_list(n)) AS ns FROM pairs GROUP BY {form} ORDER BY ns").collect()
    assert [r.ns for r in groups] == [[1, 2], [3]]
    left, right = (identity(column("x", side), type_text(frame.schema["x"].dataType)).sql() for side in "lr")
    joined = spark.sql(f"SELECT count(*) FROM pairs l JOIN pairs r ON {left} <=> {right}").first()
    assert joined is not None
    assert joined[0] == 5
    hashed = row_hash([Column("x", type_text(frame.schema["x"].dataType))]).sql()
    hashes = spark.sql(f"SELECT n, {hashed} AS h FROM pairs")
    found = {r.n: r.h for r in hashes.collect()}
    assert found[1] == found[2]


HELD = [
    LONG_MAP,
    f"named_struct('m', {LONG_MAP})",
    f"array({LONG_MAP}, NULL)",
    f"map('x', {LONG_MAP})",
    "CAST(X'FF00C328' AS STRING)",
    "array(CAST(X'FF' AS STRING), 'ü', NULL)",
    "map(CAST(X'FF' AS STRING), X'00')",
    'parse_json(\'{"b": [1, "1", 1.0, null], "a": {}}\')',
    "to_variant_object(named_struct('d', DATE'2024-01-01', 't', TIMESTAMP'1500-01-01 00:00:00'))",
    "-0.0D",
    "float('NaN')",
    "DATE'0001-01-01'",
    "TIMESTAMP'1582-10-10 00:00:00.123456'",
    "TIMESTAMP_NTZ'9999-12-31 23:59:59.999999'",
    "99999999999999999999999999999999999999BD",
    "-0.0000000001BD",
    "INTERVAL '-1-2' YEAR TO MONTH",
]


def test_rows_collected_on_the_driver_keep_their_values(spark: SparkSession) -> None:
    register_functions(spark)
    listed = ", ".join(f"{v} AS c{n}" for n, v in enumerate(HELD))
    frame = spark.sql(f"SELECT {listed} UNION ALL SELECT {', '.join(['NULL'] * len(HELD))}")
    local = collect_local(frame, 2)
    assert local is not None
    assert (local.rows, local.frame.schema) == (2, frame.schema)
    frame.createOrReplaceTempView("before")
    local.frame.createOrReplaceTempView("after")
    forms = ", ".join(identity(column(f.name), type_text(f.dataType)).sql() for f in frame.schema)
    for one, other in (("before", "after"), ("after", "before")):
        odd = spark.sql(f"SELECT {forms} FROM {one} EXCEPT ALL SELECT {forms} FROM {other}")
        assert odd.collect() == []
    assert collect_local(frame, 1) is None


def test_sums_of_rows_collected_on_the_driver(spark: SparkSession) -> None:
    frame = spark.sql("SELECT * FROM VALUES (2L, true), (-5L, false), (NULL, NULL), (3L, true) AS t(w, b)")
    local = collect_local(frame, 10, summed=("w", "b"))
    assert local is not None
    assert local.sums == ((5, 5), (2, 0))


def test_a_local_relation_belongs_to_the_session_it_was_made_for(spark: SparkSession) -> None:
    other = spark.newSession()
    local = collect_local(spark.range(3).toDF("n"), 10, other)
    assert local is not None
    local.frame.createOrReplaceTempView("of_the_other")
    assert other.sql("SELECT sum(n) FROM of_the_other").first()[0] == 3  # type: ignore[index]
    assert not spark.catalog.tableExists("of_the_other")


@pytest.mark.parametrize(
    ("text", "parts"),
    [
        ("int", 0),
        ("decimal(38,2)", 0),
        ("string collate UTF8_LCASE", 0),
        ("interval day to second", 0),
        ("array<map<string,array<int>>>", 1),
        ("struct<`a:b<,>``c`:int,d:struct<>,e:decimal(3,1)>", 3),
    ],
)
def test_types_are_taken_apart(text: str, parts: int) -> None:
    assert len(parse_type(text).parts) == parts


def test_type_of_every_depth(spark: SparkSession) -> None:
    frame = spark.sql("SELECT named_struct('x y', array(map('a', 1.5BD)), 'ü`', NULL) AS x")
    found = parse_type(type_text(frame.schema["x"].dataType))
    assert found.fields == ("x y", "ü`")
    assert found.holds("map")
    assert found.parts[0].parts[0].parts[1].name == "decimal(2,1)"
