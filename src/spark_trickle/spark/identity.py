"""When two values are the same value: when nothing Spark can do tells them apart.

Finer than Spark's grouping equality, which takes 0.0 for -0.0, 'a' for 'A' under a collation, and cannot compare maps
and variants at all. What a delta removes is what was stored, so the engine identifies rows by this equality: a value
that only *compares* equal is replaced. What Spark groups by stays Spark's business.
"""

from __future__ import annotations

from collections.abc import Iterable

from spark_trickle.model import Column
from spark_trickle.spark.compile import quote
from spark_trickle.spark.runtime import VARIANT_METADATA, VARIANT_VALUE
from spark_trickle.spark.types import Type, parse_type


def identity(expression: str, type_: str) -> str:
    """An expression that Spark can group, compare and join by, equal exactly when the values are the same."""
    return _form(expression, parse_type(type_), 0, zeros=True)


def row_hash(columns: Iterable[Column]) -> str:
    """A hash that rows of the same values share. Never an identity by itself: the columns are compared as well."""
    return f"xxhash64({', '.join(_form(quote(c.name), parse_type(c.type), 0, zeros=False) for c in columns)})"


def _form(value: str, type_: Type, depth: int, *, zeros: bool) -> str:
    """`zeros`: tell 0.0 from -0.0, which a hash need not."""

    def inner(part: str, kind: Type) -> str:
        return _form(part, kind, depth + 1, zeros=zeros)

    if _plain(type_, zeros=zeros):
        return value
    if type_.floating:
        return f"named_struct('v', {value}, 'zero', CASE WHEN {value} = 0 THEN CAST({value} AS STRING) END)"
    if type_.collated:
        return f"CAST({value} AS BINARY)"
    if type_.name == "variant":
        return f"named_struct('v', {VARIANT_VALUE}({value}), 'm', {VARIANT_METADATA}({value}))"
    each = f"e{depth}"
    if type_.name == "array":
        return f"transform({value}, {each} -> {inner(each, type_.parts[0])})"
    if type_.name == "map":
        entries = f"map_entries({value})"  # in the order they have: map_keys(m)[0] shows it
        if all(_plain(p, zeros=zeros) for p in type_.parts):
            return entries
        key, held = (inner(f"{each}.{name}", p) for name, p in zip(("key", "value"), type_.parts, strict=True))
        return f"transform({entries}, {each} -> named_struct('k', {key}, 'v', {held}))"
    fields = ", ".join(
        f"'f{n}', {inner(f'{value}.{quote(name)}', part)}"
        for n, (name, part) in enumerate(zip(type_.fields, type_.parts, strict=True))
    )
    return f"CASE WHEN {value} IS NOT NULL THEN named_struct({fields}) END"


def _plain(type_: Type, *, zeros: bool) -> bool:
    """Whether Spark's own equality is the one we want."""
    floats = ("float", "double") if zeros else ()
    return not type_.holds("map", "variant", "collated", *floats)
