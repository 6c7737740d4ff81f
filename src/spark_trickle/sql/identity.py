"""When two values are the same value: when nothing Spark can do tells them apart.

Finer than Spark's grouping equality, which takes 0.0 for -0.0, 'a' for 'A' under a collation, and cannot compare maps
and variants at all. What a delta removes is what was stored, so the engine identifies rows by this equality: a value
that only *compares* equal is replaced. What Spark groups by stays Spark's business.
"""

from __future__ import annotations

from collections.abc import Iterable

from spark_trickle.model import Column
from spark_trickle.sql.scalar import (
    Scalar,
    call,
    case_when,
    cast,
    column,
    equal,
    field,
    for_each,
    is_null,
    negate,
    number,
    parameter,
    same,
    text,
)
from spark_trickle.sql.types import Type, parse_type

# Functions that every session of the engine has: the two binary parts of a VARIANT.
VARIANT_VALUE, VARIANT_METADATA = "_t_variant_value", "_t_variant_metadata"


def identity(value: Scalar, type_: str) -> Scalar:
    """An expression that Spark can group, compare and join by, equal exactly when the values are the same."""
    return _form(value, parse_type(type_), 0, zeros=True)


def same_value(left: str, right: str, type_: str) -> Scalar:
    """Whether two columns of a type hold the same value."""
    return same(identity(column(left), type_), identity(column(right), type_))


def row_hash(columns: Iterable[Column]) -> Scalar:
    """A hash that rows of the same values share. Never an identity by itself: the columns are compared as well."""
    return call("xxhash64", *(_form(column(c.name), parse_type(c.type), 0, zeros=False) for c in columns))


def _form(value: Scalar, type_: Type, depth: int, *, zeros: bool) -> Scalar:
    """`zeros`: tell 0.0 from -0.0, which a hash need not."""

    def inner(part: Scalar, kind: Type) -> Scalar:
        return _form(part, kind, depth + 1, zeros=zeros)

    if _plain(type_, zeros=zeros):
        return value
    if type_.floating:
        return _struct(v=value, zero=case_when(equal(value, number(0)), cast(value, "string")))
    if type_.collated:
        return cast(value, "binary")
    if type_.name == "variant":
        return _struct(v=call(VARIANT_VALUE, value), m=call(VARIANT_METADATA, value))
    each = f"e{depth}"
    if type_.name == "array":
        return for_each(value, each, inner(parameter(each), type_.parts[0]))
    if type_.name == "map":
        entries = call("map_entries", value)  # in the order they have: map_keys(m)[0] shows it
        if all(_plain(p, zeros=zeros) for p in type_.parts):
            return entries
        key, held = (inner(field(parameter(each), n), p) for n, p in zip(("key", "value"), type_.parts, strict=True))
        return for_each(entries, each, _struct(k=key, v=held))
    fields = {
        f"f{n}": inner(field(value, name), part)
        for n, (name, part) in enumerate(zip(type_.fields, type_.parts, strict=True))
    }
    return case_when(negate(is_null(value)), _struct(**fields))


def _struct(**fields: Scalar) -> Scalar:
    return call("named_struct", *(part for name, value in fields.items() for part in (text(name), value)))


def _plain(type_: Type, *, zeros: bool) -> bool:
    """Whether Spark's own equality is the one we want."""
    floats = ("float", "double") if zeros else ()
    return not type_.holds("map", "variant", "collated", *floats)
