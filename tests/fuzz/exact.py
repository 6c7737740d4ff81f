"""A comparison that shares nothing with the engine's: every value as it is stored, by type, in one statement.

Strings are told apart by their bytes, maps by their entries in stored order, decimals and intervals by their text,
timestamps by their microseconds, variants by the types of their elements, structs and arrays by their parts. Doubles
are told apart by their text, so that -0.0 differs from 0.0 where the query determines the sign; elsewhere both are 0.0.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from enum import Enum, auto
from typing import TYPE_CHECKING

from spark_trickle.spark.names import quote

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.types import DataType, StructType

_DEPTH = 3  # to which the elements of variants are looked at; the pools have none deeper


class How(Enum):
    """What is compared less strictly than by the exact value."""

    UNSIGNED = auto()  # a double whose zero may have either sign
    ROUGH = auto()  # a double whose last digits depend on the order of rows
    LOOSE = auto()  # a text of which several are right: they differ in case, or in the sign of a zero


@dataclass(frozen=True)
class Difference:
    rows: int  # of the left side
    missing: int  # in the right side only
    extra: int  # in the left side only
    examples: tuple[str, ...]

    @property
    def equal(self) -> bool:
        return not self.missing and not self.extra


def exact(x: str, type_: DataType, how: How | None = None, depth: int = 0) -> str:
    """An expression that Spark can group by, and that is equal exactly when two values are the same."""
    from pyspark.sql import types as t

    if isinstance(type_, t.StringType):
        text = f"CAST({x} AS STRING)"
        if how is How.LOOSE:
            return f"replace(lower(make_valid_utf8({text})), '-0.0', '0.0')"
        return f"CASE WHEN is_valid_utf8({text}) THEN {text} ELSE concat('bytes ', hex({text})) END"
    if isinstance(type_, t.DoubleType | t.FloatType):
        if how is How.ROUGH:
            return f"round({x} * 1.2345678901D, 8)"  # no value of a query lies on the border of two rounded ones
        return (
            f"CAST({x} + CAST(0 AS {type_.simpleString()}) AS STRING)"
            if how is How.UNSIGNED
            else f"CAST({x} AS STRING)"
        )
    if isinstance(type_, t.TimestampType):
        return f"unix_micros({x})"
    if isinstance(type_, t.VariantType):
        return _variant(x, _DEPTH)
    element = f"e{depth}"
    if isinstance(type_, t.ArrayType):
        return f"transform({x}, {element} -> {exact(element, type_.elementType, how, depth + 1)})"
    if isinstance(type_, t.MapType):
        key = exact(f"{element}.key", type_.keyType, how, depth + 1)
        value = exact(f"{element}.value", type_.valueType, how, depth + 1)
        return f"transform(map_entries({x}), {element} -> named_struct('k', {key}, 'v', {value}))"
    if isinstance(type_, t.StructType):
        parts = ", ".join(
            f"'f{n}', {exact(f'{x}.{quote(f.name)}', f.dataType, how, depth)}" for n, f in enumerate(type_.fields)
        )
        return f"CASE WHEN {x} IS NOT NULL THEN named_struct({parts}) END"
    if isinstance(type_, t.BooleanType | t.ByteType | t.ShortType | t.IntegerType | t.LongType | t.DateType):
        return x
    return f"hex({x})" if isinstance(type_, t.BinaryType) else f"CAST({x} AS STRING)"


def _variant(x: str, depth: int) -> str:
    """JSON does not tell a date from a text, and the schema not which element of a mixed array is which."""
    parts = f"'s', schema_of_variant({x}), 'j', to_json({x})"
    if depth:
        of_array = f"try_variant_get({x}, '$', 'array<variant>')"
        of_object = f"map_entries(try_variant_get({x}, '$', 'map<string, variant>'))"
        v = f"v{depth}"
        of_value = _variant(f"{v}.value", depth - 1)
        parts += f", 'a', transform({of_array}, {v} -> {_variant(v, depth - 1)})"
        parts += f", 'o', transform({of_object}, {v} -> named_struct('k', {v}.key, 'v', {of_value}))"
    return f"named_struct({parts})"


def listed(schema: StructType, how: Mapping[str, How], names: list[str] | None = None) -> tuple[str, str]:
    """The columns as a select list of exact values, and the names they have there."""
    columns = names or [f.name for f in schema.fields]
    items = [
        f"{exact(quote(c), f.dataType, how.get(f.name))} AS x{n}"
        for n, (c, f) in enumerate(zip(columns, schema.fields, strict=True))
    ]
    return ", ".join(items), ", ".join(f"x{n}" for n in range(len(items)))


def compare(session: SparkSession, left: str, right: str, schema: StructType, how: Mapping[str, How]) -> Difference:
    """Compare two relations (SQL that can stand in FROM) as multisets."""
    keys, names = listed(schema, how)
    groups = (
        f"SELECT {names}, sum(l) AS l, sum(r) AS r FROM (SELECT {keys}, 1L AS l, 0L AS r FROM {left} "
        f"UNION ALL SELECT {keys}, 0L AS l, 1L AS r FROM {right}) GROUP BY {names}"
    )
    row = session.sql(
        "SELECT coalesce(sum(l), 0), coalesce(sum(greatest(r - l, 0)), 0), coalesce(sum(greatest(l - r, 0)), 0), "
        f"slice(collect_list(CASE WHEN l <> r THEN to_json(struct(l - r AS times, {names})) END), 1, 5) FROM ({groups})"
    ).first()
    assert row is not None
    return Difference(row[0], row[1], row[2], tuple(_shown(e) for e in row[3]))


def _shown(example: str) -> str:
    found = json.loads(example)
    times = found.pop("times")
    return f"{'extra' if times > 0 else 'missing'} x{abs(times)}: {json.dumps(found, ensure_ascii=False)}"


def local(frame: DataFrame) -> DataFrame:
    """The rows of a small relation, exactly as they are: internal rows, which never become objects of another kind."""
    from pyspark.sql import DataFrame as Frame

    session = frame.sparkSession
    jvm = session._jvm
    assert jvm is not None
    execution = frame._jdf.queryExecution()
    rows = jvm.scala.collection.immutable.ArraySeq.unsafeWrapArray(execution.executedPlan().executeCollect())
    plans = jvm.org.apache.spark.sql.catalyst.plans.logical
    relation = plans.LocalRelation(execution.analyzed().output(), rows, False, jvm.scala.Option.empty())
    return Frame(jvm.org.apache.spark.sql.classic.Dataset.ofRows(session._jsparkSession, relation), session)
