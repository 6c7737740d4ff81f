"""Values of tables as the command line prints them: exactly as they are stored, whatever their type.

Through PySpark's own rows a map loses its order, a text that is not valid UTF-8 its bytes, a struct one of two fields
of one name, and a TIMESTAMP its zone. So Spark takes the values apart by their types, and Python only puts them
together: strings travel as bytes, maps as lists of entries, times as text with their zone. docs/changes.md has the
forms in JSON.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame
    from pyspark.sql.types import DataType


def taken_apart(frame: DataFrame) -> DataFrame:
    """The same rows in the same order; `put_together` makes the values of each from it."""
    from pyspark.sql import functions as F

    # Two columns may have one name.
    named = frame.toDF(*(f"c{n}" for n in range(len(frame.columns))))
    return named.select(*(_apart(F.col(f"c{n}"), f.dataType) for n, f in enumerate(frame.schema.fields)))


def _apart(value: Column, type_: DataType) -> Column:
    from pyspark.sql import functions as F
    from pyspark.sql import types as t

    if isinstance(type_, t.StringType):
        return value.cast(t.StringType()).cast("binary")
    if isinstance(type_, t.TimestampType):
        # Not date_format alone: it has no years below 1. Offsets of before there were zones have seconds.
        local = F.replace(value.cast("string"), F.lit(" "), F.lit("T"))
        return F.concat(local, F.date_format(value, "xxxxx"))
    if isinstance(type_, t.TimestampNTZType):
        return F.replace(value.cast("string"), F.lit(" "), F.lit("T"))
    if isinstance(type_, t.VariantType):
        return F.to_json(value)
    if isinstance(type_, t.ArrayType):
        element = type_.elementType
        return F.transform(value, lambda e: _apart(e, element))
    if isinstance(type_, t.MapType):
        key, held = type_.keyType, type_.valueType
        return F.transform(
            F.map_entries(value),
            lambda e: F.struct(_apart(e["key"], key).alias("k"), _apart(e["value"], held).alias("v")),
        )
    if isinstance(type_, t.StructType):
        fields = [t.StructField(f"f{n}", f.dataType) for n, f in enumerate(type_.fields)]
        renamed = value.cast(t.StructType(fields))  # two fields may have one name
        parts = [_apart(renamed[f.name], f.dataType).alias(f.name) for f in fields]
        return F.when(value.isNotNull(), F.struct(*parts)) if parts else value.isNotNull()
    plain = (t.BooleanType, t.ByteType, t.ShortType, t.IntegerType, t.LongType, t.FloatType, t.DoubleType, t.BinaryType)
    return value if isinstance(type_, plain) else value.cast("string")


def put_together(row: Sequence[Any], types: Sequence[DataType]) -> tuple[Any, ...]:
    """A row of `taken_apart` as JSON's own types."""
    return tuple(_together(v, t) for v, t in zip(row, types, strict=True))


def _together(value: Any, type_: DataType) -> Any:
    from pyspark.sql import types as t

    if value is None:
        return None
    if isinstance(type_, t.StringType):
        try:
            return bytes(value).decode()
        except UnicodeDecodeError:
            return {"bytes": bytes(value).hex()}
    if isinstance(type_, t.BinaryType):
        return f"X'{bytes(value).hex()}'"
    if isinstance(type_, t.FloatType | t.DoubleType):
        return value if math.isfinite(value) else str(value)
    if isinstance(type_, t.ArrayType):
        return [_together(v, type_.elementType) for v in value]
    if isinstance(type_, t.MapType):
        return [[_together(k, type_.keyType), _together(v, type_.valueType)] for k, v in value]
    if isinstance(type_, t.StructType):
        names, parts = [f.name for f in type_.fields], list(value) if type_.fields else []
        values = [_together(v, f.dataType) for v, f in zip(parts, type_.fields, strict=True)]
        if len(set(names)) < len(names):
            return [list(pair) for pair in zip(names, values, strict=True)]
        return dict(zip(names, values, strict=True))
    return value


def as_text(value: Any, type_: DataType) -> str:
    """A value of `put_together` as people read it in a table: as Spark shows it, but for bytes."""
    from pyspark.sql import types as t

    if value is None:
        return "NULL"
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(type_, t.StringType):
        return f"X'{value['bytes']}'" if isinstance(value, dict) else str(value)
    if isinstance(type_, t.TimestampType | t.TimestampNTZType):
        return str(value).replace("T", " ", 1)
    if isinstance(type_, t.ArrayType):
        return f"[{', '.join(as_text(v, type_.elementType) for v in value)}]"
    if isinstance(type_, t.MapType):
        entries = (f"{as_text(k, type_.keyType)} -> {as_text(v, type_.valueType)}" for k, v in value)
        return f"{{{', '.join(entries)}}}"
    if isinstance(type_, t.StructType):
        values = value.values() if isinstance(value, dict) else (v for _, v in value)
        parts = (f"{f.name}: {as_text(v, f.dataType)}" for v, f in zip(values, type_.fields, strict=True))
        return f"{{{', '.join(parts)}}}"
    return str(value)
