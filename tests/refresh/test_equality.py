"""The one equality: multisets under Spark's grouping equality."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

import pytest

from spark_trickle.delta.plans.plan import Comparison
from spark_trickle.model import Column
from spark_trickle.refresh.equality import Difference, compare

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

NAN, ZERO, MINUS = "double('NaN')", "0.0D", "-0.0D"
BINARY, YRANIB = "map(X'01', 1, X'FF', 2)", "map(X'FF', 2, X'01', 1)"


def compared(
    spark: SparkSession, type_: str, left: list[str], right: list[str], how: Mapping[str, Comparison] | None = None
) -> Difference:
    """Compare two lists of values as relations with the one column x."""

    def relation(values: list[str]) -> str:
        if not values:
            return f"(SELECT CAST(NULL AS {type_}) AS x WHERE false)"
        rows = ", ".join(f"({v})" for v in values)
        return f"(SELECT CAST(x AS {type_}) AS x FROM VALUES {rows} AS t(x))"

    return compare(spark, relation(left), relation(right), (Column("x", type_),), how)


@pytest.mark.parametrize(
    ("type_", "left", "right"),
    [
        ("int", ["1", "2", "NULL"], ["NULL", "2", "1"]),
        ("int", ["1", "1", "NULL", "NULL"], ["NULL", "1", "NULL", "1"]),
        ("int", [], []),
        ("double", [NAN, "1.5D"], ["1.5D", NAN]),
        ("double", [ZERO], [MINUS]),
        ("array<double>", [f"array({NAN}, {ZERO})"], [f"array({NAN}, {MINUS})"]),
        ("struct<a:double>", [f"named_struct('a', {ZERO})"], [f"named_struct('a', {MINUS})"]),
        ("map<string,int>", ["map('a', 1, 'b', 2)"], ["map('b', 2, 'a', 1)"]),
        ("map<string,int>", ["CAST(NULL AS map<string,int>)"], ["CAST(NULL AS map<string,int>)"]),
        ("struct<m:map<binary,int>>", [f"named_struct('m', {BINARY})"], [f"named_struct('m', {YRANIB})"]),
        ("map<int,map<int,double>>", [f"map(0, map(1, {NAN}, 2, {ZERO}))"], [f"map(0, map(2, {MINUS}, 1, {NAN}))"]),
        ("array<map<string,int>>", ["array(map('a', 1, 'b', NULL), NULL)"], ["array(map('b', NULL, 'a', 1), NULL)"]),
        ("variant", ["parse_json('[1, \"1\"]')", "NULL"], ["NULL", "parse_json('[1, \"1\"]')"]),
        ("string", ["'a'", "''", "NULL"], ["''", "NULL", "'a'"]),
        ("binary", ["X'00FF'"], ["X'00FF'"]),
        ("decimal(10,2)", ["1.10"], ["1.1"]),
    ],
)
def test_equal(spark: SparkSession, type_: str, left: list[str], right: list[str]) -> None:
    found = compared(spark, type_, left, right)
    assert found.equal, found
    assert (found.rows, found.missing, found.extra, found.examples) == (len(left), 0, 0, ())


@pytest.mark.parametrize(
    ("type_", "left", "right", "missing", "extra"),
    [
        ("int", ["1"], ["2"], 1, 1),
        ("string", ["CAST(X'FF' AS STRING)"], ["CAST(X'FE' AS STRING)"], 1, 1),
        ("struct<m:map<binary,int>>", ["named_struct('m', map(X'FF', 1))"], ["named_struct('m', map(X'FE', 1))"], 1, 1),
        ("map<string,map<string,int>>", ["map('a', map('b', 1))"], ["map('a', map('b', 2))"], 1, 1),
        ("variant", ["parse_json('[1]')"], ["parse_json('[\"1\"]')"], 1, 1),
        ("array<variant>", ["array(parse_json('1'))"], ["array(parse_json('\"1\"'))"], 1, 1),
        ("int", ["1", "1"], ["1"], 0, 1),  # a copy too many
        ("int", ["1"], ["1", "1", "1"], 2, 0),
        ("int", ["NULL"], ["0"], 1, 1),
        ("int", [], ["1", "NULL"], 2, 0),
        ("string", ["''"], ["NULL"], 1, 1),
        ("string", ["'a'"], ["'A'"], 1, 1),
        ("string", ["'a '"], ["'a'"], 1, 1),
        ("double", [NAN], ["NULL"], 1, 1),
        ("double", ["0.1D"], ["0.1D + 1e-16D"], 1, 1),  # exact unless a column says otherwise
        ("map<string,int>", ["map('a', 1)"], ["map('a', 2)"], 1, 1),
        ("map<string,int>", ["map('a', 1)"], ["map('a', 1, 'b', 1)"], 1, 1),
        ("map<string,int>", ["map()"], ["CAST(NULL AS map<string,int>)"], 1, 1),
        ("map<string,int>", ["map('a', CAST(NULL AS INT))"], ["CAST(map() AS map<string,int>)"], 1, 1),
        ("array<int>", ["array(1, 2)"], ["array(2, 1)"], 1, 1),
        ("array<int>", ["array()"], ["array(CAST(NULL AS INT))"], 1, 1),
    ],
)
def test_different(
    spark: SparkSession, type_: str, left: list[str], right: list[str], missing: int, extra: int
) -> None:
    found = compared(spark, type_, left, right)
    assert not found.equal
    assert (found.missing, found.extra) == (missing, extra)
    assert found.examples


@pytest.mark.parametrize(
    ("left", "right", "equal"),
    [
        (["0.1D + 0.2D"], ["0.3D"], True),
        (["1e18D"], ["1e18D + 128"], True),
        (["1.0D"], ["1.00000001D"], False),
        (["1.0D", "2.0D"], ["2.0D + 1e-12D", "1.0D"], True),
        ([NAN, "NULL"], ["NULL", NAN], True),
        ([NAN], ["1.0D"], False),
        (["double('Infinity')"], ["1.0D"], False),
        (["double('Infinity')"], ["double('Infinity')"], True),
        (["double('Infinity')"], ["double('-Infinity')"], False),
        (["NULL"], ["0.0D"], False),
        (["1.0D"], ["1.0D", "1.0D"], False),
        ([ZERO], [MINUS], True),
    ],
)
def test_approximate(spark: SparkSession, left: list[str], right: list[str], equal: bool) -> None:
    assert compared(spark, "double", left, right, {"x": Comparison.APPROXIMATE}).equal is equal


def test_approximate_beside_exact_columns(spark: SparkSession) -> None:
    columns = (Column("k", "string"), Column("x", "double"))
    how = {"x": Comparison.APPROXIMATE}
    left = "(SELECT * FROM VALUES ('a', 1D), ('b', 2D), (NULL, 3D) AS t(k, x))"
    near = "(SELECT * FROM VALUES (NULL, 3D), ('b', 2D + 1e-12D), ('a', 1D) AS t(k, x))"
    swapped = "(SELECT * FROM VALUES ('a', 2D), ('b', 1D), (NULL, 3D) AS t(k, x))"
    assert compare(spark, left, near, columns, how).equal
    found = compare(spark, left, swapped, columns, how)
    assert (found.missing, found.extra) == (2, 2)


@pytest.mark.parametrize(
    ("left", "right", "equal"),
    [
        ("array(3, 1, 1)", "array(1, 3, 1)", True),
        ("array(3, 1)", "array(1, 3, 1)", False),
        ("array(1, NULL)", "array(NULL, 1)", True),
        ("array()", "CAST(NULL AS array<int>)", False),
    ],
)
def test_bag(spark: SparkSession, left: str, right: str, equal: bool) -> None:
    assert compared(spark, "array<int>", [left], [right], {"x": Comparison.BAG}).equal is equal


def test_open_columns_are_not_compared(spark: SparkSession) -> None:
    assert compared(spark, "int", ["1"], ["2"], {"x": Comparison.OPEN}).equal
    assert not compared(spark, "int", ["1"], ["2", "2"], {"x": Comparison.OPEN}).equal  # but counted


def test_names_with_quotes(spark: SparkSession) -> None:
    side = "(SELECT 1 AS `a``b.c'\"`)"
    assert compare(spark, side, side, (Column("a`b.c'\"", "int"),)).equal
