"""The types that generated columns have, and small pools of values: duplicates, NULL, NaN and both zeros meet often."""

from __future__ import annotations

import random
from dataclasses import dataclass
from enum import StrEnum


class T(StrEnum):
    """A type by its DDL. INEXACT is a double whose sum depends on the order of addition: it is never added up."""

    INT = "INT"
    BIGINT = "BIGINT"
    DEC = "DECIMAL(10,2)"
    FINE = "DECIMAL(20,9)"
    STR = "STRING"
    DATE = "DATE"
    TS = "TIMESTAMP"
    BOOL = "BOOLEAN"
    DBL = "DOUBLE"
    INEXACT = "DOUBLE "
    INTS = "ARRAY<INT>"
    STRS = "ARRAY<STRING>"
    STRUCT = "STRUCT<a: INT, b: STRING>"
    STRUCTS = "ARRAY<STRUCT<x: INT, y: STRING>>"
    MAP = "MAP<STRING, INT>"


SCALARS = (T.INT, T.BIGINT, T.DEC, T.FINE, T.STR, T.DATE, T.TS, T.BOOL, T.DBL)
NESTED = (T.INTS, T.STRS, T.STRUCT, T.STRUCTS, T.MAP)
# What may be a key of a group or a partition, a member of a set operation, or an operand of a comparison.
COMPARABLE = tuple(t for t in T if t is not T.MAP)
# What is good for joins and groups: few values, no doubt about equality.
KEYS = (T.INT, T.STR, T.DATE, T.BOOL)

# Types that Spark compares after casting one or both of them.
ACROSS = (
    (T.INT, T.BIGINT), (T.INT, T.DEC), (T.INT, T.FINE), (T.INT, T.DBL), (T.BIGINT, T.DEC), (T.BIGINT, T.DBL),
    (T.DEC, T.FINE), (T.DEC, T.DBL), (T.DATE, T.TS),
)  # fmt: skip

# In ascending order, but for NULL. All doubles are multiples of a quarter: their sums are exact, so that no order of
# addition shows in a result.
POOLS: dict[T, tuple[str, ...]] = {
    T.INT: ("NULL", "0", "1", "2", "3", "4", "7"),
    T.BIGINT: ("NULL", "-3", "0", "1", "2", "5", "10000000000"),
    T.DEC: ("NULL", "-3.33", "0.00", "0.10", "2.50", "100.00"),
    T.FINE: ("NULL", "-1.000000001", "0.000000000", "0.000000007", "1.000000000", "12345678901.123456789"),
    T.STR: ("NULL", "''", "'7'", "'a'", "'ab'", "'b'", "'c x'", "'it''s'"),
    T.DATE: ("NULL", "DATE'1970-01-01'", "DATE'2023-12-31'", "DATE'2024-01-01'", "DATE'2024-02-29'"),
    T.TS: (
        "NULL",
        "TIMESTAMP'1969-12-31 12:00:00'",
        "TIMESTAMP'2024-01-01 00:00:00'",
        "TIMESTAMP'2024-02-29 23:59:59.5'",
    ),
    T.BOOL: ("NULL", "false", "true"),
    T.DBL: ("NULL", "-2.25D", "-0.0D", "0.0D", "0.25D", "1.5D", "double('NaN')"),
    T.INEXACT: ("NULL", "0.5D"),
    T.INTS: ("NULL", "array()", "array(1)", "array(1, 2, NULL)", "array(3, 3)", "array(0, 7)"),
    T.STRS: ("NULL", "array()", "array('a')", "array('b', NULL)", "array('a', 'ab', 'a')"),
    T.STRUCT: (
        "NULL",
        "named_struct('a', 1, 'b', 'a')",
        "named_struct('a', 2, 'b', CAST(NULL AS STRING))",
        "named_struct('a', CAST(NULL AS INT), 'b', 'b')",
    ),
    T.STRUCTS: (
        "NULL",
        "array()",
        "array(named_struct('x', 1, 'y', 'a'))",
        "array(named_struct('x', 2, 'y', 'b'), named_struct('x', CAST(NULL AS INT), 'y', 'b'))",
    ),
    T.MAP: ("NULL", "map()", "map('a', 1)", "map('a', 2, 'b', NULL)", "map('b', 3)"),
}


@dataclass(frozen=True)
class Column:
    name: str
    type: T


@dataclass(frozen=True)
class Ref:
    """A column as an expression can name it."""

    sql: str
    type: T


def literal(rnd: random.Random, type_: T, *, null: bool = False) -> str:
    """A constant of a type. NULL only when asked for, with its type."""
    if null and rnd.random() < 0.15:
        return f"CAST(NULL AS {type_.strip()})"
    value = rnd.choice([v for v in POOLS[type_] if v != "NULL"])
    if type_ in (T.BIGINT, *NESTED):
        return f"CAST({value} AS {type_.strip()})"
    return value
