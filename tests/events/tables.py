"""The tables of the event tests: one source of every kind, a small second one, and four stream tables over them.

Values come from small pools, so that duplicates and NULLs meet all the time. Rows are made for the columns that the
source has now: its columns come, go and are renamed.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from pyspark.sql.types import DataType, StructType

NAMESPACE = "ev"
SOURCE = "ev.t"
OTHER = "ev.d"

PARTITIONINGS = {
    "none": "",
    "identity": "PARTITIONED BY (k)",
    "bucket": "PARTITIONED BY (bucket(3, id))",
    "truncate": "PARTITIONED BY (truncate(1, txt))",
    "days": "PARTITIONED BY (days(ts))",
}
COPY, MERGE = "copy-on-write", "merge-on-read"


@dataclass(frozen=True, slots=True)
class Kind:
    """How the source is written."""

    version: int
    mode: str
    partitioning: str = "none"

    def __str__(self) -> str:
        return f"v{self.version} {self.mode} {self.partitioning}"

    @property
    def layout(self) -> str:
        modes = ", ".join(f"'write.{w}.mode' = '{self.mode}'" for w in ("delete", "update", "merge"))
        properties = f"TBLPROPERTIES ('format-version' = '{self.version}', {modes})"
        return f"USING iceberg {PARTITIONINGS[self.partitioning]} {properties}"


WRITTEN = ((1, COPY), (2, COPY), (2, MERGE), (3, COPY), (3, MERGE))
KINDS = tuple(Kind(v, m, p) for v, m in WRITTEN for p in PARTITIONINGS)
IN_CI = (Kind(3, MERGE), Kind(2, COPY, "identity"))

COLUMNS = (
    "id BIGINT, k INT, v DECIMAL(10,2), w INT, txt STRING, ts TIMESTAMP, s STRUCT<a: INT, b: STRING>, "
    "spare STRUCT<x: INT, y: STRING>"
)

# Filter with whole-row identity, aggregate with keys, join of the source with another table, and one over that.
DEFINITIONS = {
    "ev.kept": "SELECT id, k, v, w, txt, ts, s FROM ev.t WHERE k IS NULL OR k >= 1",
    "ev.totals": "SELECT k, count(*) AS n, sum(v) AS total, min(w) AS low, max(s.a) AS high FROM ev.t GROUP BY k",
    "ev.joined": "SELECT t.id, t.txt, t.v, t.s.b AS b, d.name FROM ev.t AS t JOIN ev.d AS d ON t.k = d.k",
    "ev.above": "SELECT name, count(*) AS n, sum(v) AS total FROM ev.joined GROUP BY name",
}
DIRECT = ("ev.kept", "ev.totals", "ev.joined")

# One expression per column over a number i, by every name that the column may have.
_VALUES = {
    "id": "i % 40",
    "k": "IF(i % 7 = 6, NULL, i % 3)",
    "v": "IF(i % 6 = 5, NULL, i % 11)",
    "w": "i % 3",
    "txt": "IF(i % 9 = 8, NULL, concat('t', i % 4))",
    "ts": "IF(i % 8 = 7, NULL, TIMESTAMP'2024-03-01 12:00:00' + make_dt_interval(i % 4))",
    "s": "i % 10 < 9",
    "spare": "i % 4 < 3",
    "s.a": "i % 4",
    "s.b": "concat('b', i % 2)",
    "spare.x": "i",
    "spare.y": "concat('y', i)",
}
RENAMED = {"label": "txt", "s.bb": "s.b", "spare.yy": "spare.y"}


def rows(schema: StructType, first: int, last: int, **fixed: str) -> str:
    """A query for the rows [first, last) and the first three of them once more; `fixed` columns have one value."""
    # In two tasks, so that an INSERT makes two files.
    numbers = (
        f"SELECT id AS i FROM range({first}, {last}, 1, 1) UNION ALL SELECT id FROM range({first}, {first + 3}, 1, 1)"
    )
    items = ", ".join(f"{fixed.get(f.name) or _value(f.name, f.dataType)} AS `{f.name}`" for f in schema.fields)
    return f"SELECT {items} FROM ({numbers})"


def _value(path: str, kind: DataType) -> str:
    from pyspark.sql.types import StructType

    known = _VALUES.get(RENAMED.get(path, path), "NULL")
    if not isinstance(kind, StructType):
        return f"CAST({known} AS {kind.simpleString()})"
    parts = ", ".join(f"'{f.name}', {_value(f'{path}.{f.name}', f.dataType)}" for f in kind.fields)
    return f"IF({known}, named_struct({parts}), NULL)"


def python_rows(first: int, last: int) -> list[dict[str, Any]]:
    """The same rows for a writer in Python; the source must have its first columns."""
    from datetime import UTC, datetime, timedelta
    from decimal import Decimal

    noon = datetime(2024, 3, 1, 12, tzinfo=UTC)
    return [
        {
            "id": i % 40,
            "k": None if i % 7 == 6 else i % 3,
            "v": None if i % 6 == 5 else Decimal(i % 11).quantize(Decimal("0.01")),
            "w": i % 3,
            "txt": None if i % 9 == 8 else f"t{i % 4}",
            "ts": None if i % 8 == 7 else noon + timedelta(days=i % 4),
            "s": None if i % 10 == 9 else {"a": i % 4, "b": f"b{i % 2}"},
            "spare": None if i % 4 == 3 else {"x": i, "y": f"y{i}"},
        }
        for i in (*range(first, last), *range(first, first + 3))
    ]
