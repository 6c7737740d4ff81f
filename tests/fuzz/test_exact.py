"""The comparison of the fuzzer tells apart what looks alike, and rows pass the driver unaltered."""

from __future__ import annotations

import random
from typing import TYPE_CHECKING

import pytest

from tests.fuzz import guarded
from tests.fuzz.exact import How, compare, local
from tests.fuzz.types import HOSTILE, ODD, POOLS, ZEROS, T

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

# Values that Spark, JSON or Java take for equal, or print alike.
ALIKE = (
    ("CAST(X'FF' AS STRING)", "'\\uFFFD'"),
    ("CAST(X'FF' AS STRING)", "CAST(X'FE' AS STRING)"),
    ("array(CAST(X'FF' AS STRING))", "array('\\uFFFD')"),
    ("0.0D", "-0.0D"),
    ("CAST(0.0D AS FLOAT)", "CAST(-0.0D AS FLOAT)"),
    ("named_struct('a', array(0.0D))", "named_struct('a', array(-0.0D))"),
    ("map('a', 1, 'b', 2)", "map('b', 2, 'a', 1)"),
    ("named_struct('m', map(X'00', 1))", "named_struct('m', map(X'01', 1))"),
    ("map('p', map('a', 1))", "map('p', map('a', CAST(NULL AS INT)))"),
    ("named_struct('a', CAST(NULL AS INT))", "CAST(NULL AS STRUCT<a: INT>)"),
    ("array(CAST(NULL AS INT))", "CAST(array() AS ARRAY<INT>)"),
    ("parse_json('[1,\"1\",2]')", "parse_json('[\"1\",1,2]')"),
    (
        "to_variant_object(array(CAST(DATE'2024-01-01' AS VARIANT), CAST(1 AS VARIANT)))",
        "to_variant_object(array(CAST('2024-01-01' AS VARIANT), CAST(1 AS VARIANT)))",
    ),
    (
        "to_variant_object(named_struct('a', array(CAST(DATE'2024-01-01' AS VARIANT), CAST(1 AS VARIANT))))",
        "to_variant_object(named_struct('a', array(CAST('2024-01-01' AS VARIANT), CAST(1 AS VARIANT))))",
    ),
    ("TIMESTAMP'2024-01-01 00:00:00.000001'", "TIMESTAMP'2024-01-01 00:00:00.000002'"),
)


@pytest.mark.spark
def test_tells_apart_what_looks_alike(spark: SparkSession) -> None:
    one = ", ".join(f"{a} AS c{n}" for n, (a, _) in enumerate(ALIKE))
    two = ", ".join(f"{b} AS c{n}" for n, (_, b) in enumerate(ALIKE))
    schema = spark.sql(f"SELECT {one}").schema
    assert compare(spark, f"(SELECT {one})", f"(SELECT {one})", schema, {}).equal
    for n, field in enumerate(schema.fields):
        alone = type(schema)([field])
        found = compare(spark, f"(SELECT {one})", f"(SELECT {two})", alone, {})
        assert (found.rows, found.missing, found.extra) == (1, 1, 1), ALIKE[n]
    loose = {"c3": How.UNSIGNED}
    assert compare(spark, f"(SELECT {one})", f"(SELECT {two})", type(schema)([schema.fields[3]]), loose).equal
    # As multisets.
    twice = f"(SELECT {one} UNION ALL SELECT {one})"
    assert compare(spark, twice, f"(SELECT {one})", schema, {}).extra == 1


@pytest.mark.spark
def test_rows_pass_the_driver_unaltered(spark: SparkSession) -> None:
    for type_ in (*HOSTILE, *ODD, *ZEROS, T.WIDE):
        values = ", ".join(f"({v})" for v in (*POOLS[type_], *HOSTILE.get(type_, ())))
        frame = spark.sql(f"SELECT CAST(c AS {type_.value}) AS c FROM VALUES {values} AS v(c)")
        frame.createOrReplaceTempView("before")
        local(frame).createOrReplaceTempView("after")
        found = compare(spark, "before", "after", frame.schema, {})
        assert found.equal, (type_, found.examples)
        assert found.rows >= 4, type_


def test_no_row_of_either_state_can_fail() -> None:
    """What guarded.py promises of its rows, whatever keys are open."""
    rnd = random.Random(1)
    pairs = several = 0
    for _ in range(200):
        open_ = guarded.some_open(rnd)
        codes, kinds = guarded.rows(rnd, open_)
        by_key = {k: [r for r in kinds if r[0] == str(k)] for k in guarded.KEYS}
        for k, code, den, day, arr, ask in codes:
            if any(r[1] == "'num'" for r in by_key[int(k)]):
                pairs += 1
                assert code.strip("' ").isdigit()
                assert den not in ("0", "NULL")
                assert day.startswith("'2024-0")
                assert "," in arr
            if ask == "true":
                assert len(by_key[int(k)]) <= 1
        several += sum(len(found) > 1 for found in by_key.values())
    assert pairs
    assert several
