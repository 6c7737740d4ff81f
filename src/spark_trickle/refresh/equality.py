"""When a stream table equals its definition: multisets under Spark's grouping equality.

NULL = NULL, NaN = NaN, -0.0 = 0.0, maps by their sorted entries, variants by their bytes. Columns that SQL leaves open
or that depend on the order of float additions are compared as `Comparison` says. verify, tests and benchmarks use it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from spark_trickle.delta.plans.plan import Comparison
from spark_trickle.model import Column
from spark_trickle.spark.names import quote
from spark_trickle.spark.runtime import register_functions
from spark_trickle.sql.identity import VARIANT_METADATA, VARIANT_VALUE
from spark_trickle.sql.types import Type, parse_type

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

RELATIVE_ERROR = 1e-9
_ENTRY = ("key", "value")


def comparable(value: str, type_: Type, depth: int = 0) -> str:
    """An expression that Spark can group and sort by, equal exactly when the values count as equal.

    The engine identifies rows by a finer equality and with code of its own (`sql/identity.py`): a fault there must
    show here.
    """
    if not type_.holds("map", "variant", "collated"):
        return value  # Spark's own: NULL = NULL, NaN = NaN, -0.0 = 0.0, strings byte by byte
    if type_.collated:
        return f"encode({value} COLLATE UTF8_BINARY, 'UTF-8')"
    if type_.name == "variant":  # JSON hides the types inside
        return f"array({VARIANT_METADATA}({value}), {VARIANT_VALUE}({value}))"
    each = f"x{depth}"
    if type_.name == "array":
        return f"transform({value}, {each} -> {comparable(each, type_.parts[0], depth + 1)})"
    if type_.name == "map":  # a map has no order
        key, held = (comparable(f"{each}.{n}", p, depth + 1) for n, p in zip(_ENTRY, type_.parts, strict=True))
        return f"array_sort(transform(map_entries({value}), {each} -> struct({key} AS k, {held} AS v)))"
    fields = (comparable(f"{value}.{quote(f)}", p, depth) for f, p in zip(type_.fields, type_.parts, strict=True))
    return f"if({value} IS NULL, NULL, struct({', '.join(f'{f} AS f{n}' for n, f in enumerate(fields))}))"


@dataclass(frozen=True, slots=True)
class Difference:
    rows: int  # of the left side
    missing: int  # in the right side only
    extra: int  # in the left side only
    examples: tuple[str, ...]
    unjudged: tuple[str, ...] = ()  # columns that differ, and whose value SQL leaves open

    @property
    def equal(self) -> bool:
        return not self.missing and not self.extra


def compare(
    session: SparkSession,
    left: str,
    right: str,
    columns: Sequence[Column],
    how: Mapping[str, Comparison] | None = None,
) -> Difference:
    """Compare two relations (SQL that can stand in FROM) as multisets.

    What SQL leaves open is compared too, and only if that differs left out: mostly no ties happened.
    """
    how = how or {}
    if any("variant" in c.type for c in columns):
        register_functions(session)
    if Comparison.OPEN in how.values():
        strict = {name: one for name, one in how.items() if one is not Comparison.OPEN}
        found = _compare(session, left, right, columns, strict)
        if found.equal:
            return found
    found = _compare(session, left, right, columns, how)
    return replace(found, unjudged=tuple(c.name for c in columns if how.get(c.name) is Comparison.OPEN))


def _compare(
    session: SparkSession, left: str, right: str, columns: Sequence[Column], how: Mapping[str, Comparison]
) -> Difference:
    exact = [c for c in columns if how.get(c.name) not in (Comparison.APPROXIMATE, Comparison.OPEN)]
    floats = [c for c in columns if how.get(c.name) is Comparison.APPROXIMATE]
    keys = ", ".join(f"{key_of(c, how)} AS {quote(f'k{n}')}" for n, c in enumerate(exact))
    names = ", ".join(quote(f"k{n}") for n in range(len(exact)))
    shown = ", ".join(
        f"CAST({quote(c.name)} AS STRING)" if _castable(c) else f"to_json(named_struct('v', {quote(c.name)}))"
        for c in columns
    )
    rows = session.sql(f"SELECT count(*) FROM {left}").first()[0]
    if floats:
        return _approximately(session, left, right, keys, names, floats, rows)
    keys = keys or "1 AS k0"
    names = names or "k0"
    sides = " UNION ALL ".join(
        f"SELECT {keys}, {w} AS w, concat_ws(', ', {_shown(shown)}) AS shown FROM {side}"
        for side, w in ((left, 1), (right, -1))
    )
    # Not persisted: Spark cannot canonicalize every plan, and a second run is needed only when something differs.
    odd = session.sql(f"SELECT any_value(shown), sum(w) AS w FROM ({sides}) GROUP BY {names} HAVING sum(w) <> 0")
    extra, missing = odd.selectExpr("coalesce(sum(greatest(w, 0)), 0)", "coalesce(sum(greatest(-w, 0)), 0)").first()
    found = odd.limit(5).collect() if extra or missing else ()
    examples = tuple(f"{'extra' if w > 0 else 'missing'} x{abs(w)}: ({text})" for text, w in found)
    return Difference(rows, missing, extra, examples)


def _castable(column: Column) -> bool:
    return "variant" not in column.type


def _shown(shown: str) -> str:
    return shown or "''"


def key_of(column: Column, how: Mapping[str, Comparison]) -> str:
    """What a column is grouped by to be compared."""
    key = comparable(quote(column.name), parse_type(column.type))
    return f"array_sort({key})" if how.get(column.name) is Comparison.BAG else key


def _approximately(
    session: SparkSession, left: str, right: str, keys: str, names: str, floats: Sequence[Column], rows: int
) -> Difference:
    """Rows equal in the exact columns are paired in the order of the float ones, which must be close."""
    values = [f"v{n}" for n in range(len(floats))]
    listed = ", ".join(f"CAST({quote(c.name)} AS DOUBLE) AS {v}" for c, v in zip(floats, values, strict=True))
    keys = keys or "1 AS k0"
    names = names or "k0"
    order = ", ".join(values)

    def side(relation: str) -> str:
        return (
            f"SELECT *, row_number() OVER (PARTITION BY {names} ORDER BY {order}) AS n "
            f"FROM (SELECT {keys}, {listed} FROM {relation})"
        )

    on = " AND ".join(f"l.{k} <=> r.{k}" for k in (*names.split(", "), "n"))
    close = " AND ".join(
        # NaN and infinity are close to nothing but themselves; in Spark NaN <= NaN is true.
        f"(l.{v} <=> r.{v} OR (abs(l.{v} - r.{v}) < double('Infinity') "
        f"AND abs(l.{v} - r.{v}) <= {RELATIVE_ERROR} * greatest(abs(l.{v}), abs(r.{v}))))"
        for v in values
    )
    odd = session.sql(
        f"SELECT l.n IS NULL AS missing, r.n IS NULL AS extra, to_json(struct(l.*)), to_json(struct(r.*)) "
        f"FROM ({side(left)}) l FULL OUTER JOIN ({side(right)}) r ON {on} "
        f"WHERE l.n IS NULL OR r.n IS NULL OR NOT coalesce({close}, false)"
    ).collect()
    missing = sum(1 for r in odd if not r[1])
    extra = sum(1 for r in odd if not r[0])
    return Difference(rows, missing, extra, tuple(f"{r[2]} against {r[3]}" for r in odd[:5]))
