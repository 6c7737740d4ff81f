"""The types that generated columns have, and small pools of values: duplicates, NULL, NaN and both zeros meet often.

HOSTILE are the values that are easily altered on the way: long and nested maps, bytes that are no UTF-8, numbers near
the end of their type, both zeros. Tables have them, constants in queries do not.
"""

from __future__ import annotations

import random
from dataclasses import dataclass
from enum import StrEnum


class T(StrEnum):
    """A type by its DDL; spaces tell apart what is one type for Spark.

    INEXACT is a double whose sum depends on the order of addition: it is never added up.
    The zeros of SIGNED and FLT have a sign that the query determines: they are copied, compared and shown as text, but
    no order, minimum or maximum is taken of them. FAR, WIDE and TOP are near the ends of their types: they are copied,
    compared and added up. LOOSE is a text of which several are right: it is only copied.
    """

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
    SIGNED = "DOUBLE  "
    FLT = "FLOAT"
    FAR = "BIGINT "
    WIDE = "DECIMAL(38,2)"
    TOP = "DECIMAL(38,0)"
    LOOSE = "STRING "
    SMAP = "STRUCT<m: MAP<STRING, INT>, n: INT>"
    MAPS = "ARRAY<MAP<STRING, INT>>"
    MMAP = "MAP<STRING, MAP<STRING, INT>>"
    BMAP = "STRUCT<m: MAP<BINARY, INT>>"
    VAR = "VARIANT"
    DBLS = "ARRAY<DOUBLE>"
    DPAIR = "STRUCT<d: DOUBLE, f: FLOAT>"
    DMAP = "MAP<STRING, DOUBLE>"
    DKEYS = "MAP<DOUBLE, INT>"


SCALARS = (T.INT, T.BIGINT, T.DEC, T.FINE, T.STR, T.DATE, T.TS, T.BOOL, T.DBL)
NESTED = (T.INTS, T.STRS, T.STRUCT, T.STRUCTS, T.MAP)
ZEROS = (T.SIGNED, T.FLT)
ENDS = (T.FAR, T.WIDE, T.TOP)
ODD = (T.SMAP, T.MAPS, T.MMAP, T.BMAP, T.VAR, T.DBLS, T.DPAIR, T.DMAP, T.DKEYS)
# What may be a key of a group or a partition, a member of a set operation, or an operand of a comparison.
COMPARABLE = tuple(t for t in T if t not in (T.MAP, T.LOOSE, *ODD, *ZEROS))
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
    T.LOOSE: ("NULL", "'a'"),
    T.MAP: ("NULL", "map()", "map('a', 1)", "map('a', 2, 'b', NULL)", "map('b', 3)"),
}


def _map(*entries: int) -> str:
    listed = ", ".join(f"'k{n}', {n}" for n in entries)
    return f"map({listed})"


# Equal as maps, in another order of their entries.
_UP, _DOWN = _map(*range(1, 21)), _map(*range(20, 0, -1))
_MIXED = _map(7, 3, 11, 1, 19, 5)

HOSTILE: dict[T, tuple[str, ...]] = {
    T.STR: (
        "CAST(X'FF' AS STRING)",
        "CAST(X'C328' AS STRING)",
        "CAST(X'61FF62' AS STRING)",
        "'\\uFFFD'",
        "'a\\u0000b'",
        "'A'",
    ),
    T.STRS: ("array(CAST(X'FF' AS STRING), 'a')", "array('\\uFFFD', CAST(X'C328' AS STRING))"),
    T.STRUCT: ("named_struct('a', 1, 'b', CAST(X'FF' AS STRING))",),
    T.MAP: (_UP, _DOWN, _MIXED, "map('b', NULL, 'a', 2)", "map(CAST(X'FF' AS STRING), 1, '\\uFFFD', 2, 'z', 3)"),
}

# Sums of a few of these fit, and the change from one sum to another may not.
_E = "3" + "0" * 35
POOLS |= {
    T.SIGNED: ("NULL", "-1.5D", "-0.0D", "0.0D", "-0.0D", "0.0D", "2.5D", "double('NaN')"),
    T.FLT: ("NULL", "float('-1.5')", "float('-0.0')", "float('0.0')", "float('-0.0')", "float('NaN')"),
    T.FAR: ("NULL", "-3000000000000000001", "-5", "0", "1", "7", "3000000000000000001"),
    T.WIDE: ("NULL", f"-{_E}.25", "-1.00", "0.00", "0.01", "12.34", f"{_E}.25"),
    T.TOP: ("NULL", f"-{_E}01", "-1", "0", "2", "5", f"{_E}03"),
    T.SMAP: (
        "NULL",
        f"named_struct('m', {_UP}, 'n', 1)",
        f"named_struct('m', {_DOWN}, 'n', 1)",
        "named_struct('m', map('a', NULL), 'n', 2)",
        f"named_struct('m', {_MIXED}, 'n', CAST(NULL AS INT))",
        "named_struct('m', CAST(NULL AS MAP<STRING, INT>), 'n', 3)",
    ),
    T.MAPS: ("NULL", "array()", f"array({_UP}, map('a', 1))", f"array({_MIXED}, NULL, {_DOWN})", "array(map('b', 2))"),
    T.MMAP: (
        "NULL",
        f"map('p', {_UP}, 'q', {_MIXED})",
        f"map('q', {_MIXED}, 'p', {_DOWN})",
        "map('p', map('a', 1), 'q', CAST(NULL AS MAP<STRING, INT>))",
        "map('r', CAST(map() AS MAP<STRING, INT>), 's', map('b', 2), 't', map('a', 3), 'u', map('c', 4), "
        "'v', map('d', 5), 'w', map('e', 6))",
    ),
    T.BMAP: (
        "NULL",
        "named_struct('m', map(X'00', 1, X'FF', 2))",
        "named_struct('m', map(X'FF', 2, X'00', 1))",
        "named_struct('m', map(X'', NULL))",
        "named_struct('m', map(X'01', 1, X'02', 2, X'03', 3, X'04', 4, X'05', 5, X'C328', 6))",
    ),
    T.VAR: (
        "NULL",
        'parse_json(\'{"a":1,"b":"x"}\')',
        'parse_json(\'{"a":"1","b":[true,null]}\')',
        'parse_json(\'[1,"1",1.0,"2024-01-01"]\')',
        'parse_json(\'["1",1,1,"2024-01-01"]\')',
        # The same JSON and the same schema: only the first elements differ, by their types.
        "to_variant_object(array(CAST(DATE'2024-01-01' AS VARIANT), CAST(1 AS VARIANT)))",
        "to_variant_object(array(CAST('2024-01-01' AS VARIANT), CAST(1 AS VARIANT)))",
        "to_variant_object(named_struct('a', DATE'2024-01-01'))",
        'parse_json(\'{"a":"2024-01-01"}\')',
        "parse_json('null')",
    ),
    # The signs of zeros, NaN and the infinities inside of other values.
    T.DBLS: (
        "NULL",
        "array(-0.0D)",
        "array(0.0D)",
        "array(double('NaN'), -0.0D, NULL)",
        "array(double('NaN'), 0.0D, NULL)",
        "array(double('-Infinity'), 0.25D, double('Infinity'))",
    ),
    T.DPAIR: (
        "NULL",
        "named_struct('d', -0.0D, 'f', float('0.0'))",
        "named_struct('d', 0.0D, 'f', float('-0.0'))",
        "named_struct('d', double('NaN'), 'f', float('NaN'))",
        "named_struct('d', double('Infinity'), 'f', CAST(NULL AS FLOAT))",
    ),
    T.DMAP: (
        "NULL",
        "map('a', -0.0D, 'b', 0.0D)",
        "map('a', 0.0D, 'b', -0.0D)",
        "map('b', -0.0D, 'a', 0.0D)",
        "map('a', double('NaN'), 'b', double('-Infinity'))",
    ),
    # Spark itself makes the keys of a map that is built 0.0; the order of entries stays.
    T.DKEYS: (
        "NULL",
        "map(0.0D, 1, double('NaN'), 2)",
        "map(double('NaN'), 2, 0.0D, 1)",
        "map(-0.0D, 3, double('Infinity'), NULL)",
    ),
}


def values(type_: T) -> tuple[str, ...]:
    """What a column of a table may have."""
    return (*POOLS[type_], *HOSTILE.get(type_, ()))


@dataclass(frozen=True)
class Column:
    name: str
    type: T


@dataclass(frozen=True)
class Ref:
    """A column as an expression can name it."""

    sql: str
    type: T


_FLOATING_ZEROS = ("0.0D", "-0.0D", "float('0.0')", "float('-0.0')")


def constants(type_: T) -> tuple[str, ...]:
    """What a query may compare with.

    Iceberg leaves out files by an order in which -0.0 < 0.0, and Spark calls the two equal: what `x = 0.0` finds
    depends on how the rows lie in files. So floating zeros come from columns only.
    """
    return tuple(v for v in POOLS[type_] if v != "NULL" and v not in _FLOATING_ZEROS)


def literal(rnd: random.Random, type_: T, *, null: bool = False) -> str:
    """A constant of a type. NULL only when asked for, with its type."""
    if null and rnd.random() < 0.15:
        return f"CAST(NULL AS {type_.strip()})"
    value = rnd.choice(constants(type_))
    if type_ in (T.BIGINT, *ENDS, *ODD, *NESTED):
        return f"CAST({value} AS {type_.strip()})"
    return value
