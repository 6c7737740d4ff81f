"""The columns of a Delta table by ids that stay, as Iceberg has them. Pure: schemas in, schema or SQL out.

An id is a number of the physical name, which a column keeps when it is renamed (column mapping), and which is its name
where there is no column mapping.
"""

from __future__ import annotations

import json
import zlib
from typing import Any

from spark_trickle.spark.names import quote

Struct = dict[str, Any]  # {"type": "struct", "fields": […]}

_PHYSICAL = "delta.columnMapping.physicalName"


def with_ids(schema: Struct, own: Struct) -> str:
    """Iceberg's schema of a table with ids that stay: Iceberg numbers the columns as they come."""
    taken: set[int] = set()

    def number(path: str) -> int:
        found = zlib.crc32(path.encode()) & 0x3FFFFFFF  # Iceberg keeps the highest ids for itself
        while found in taken:
            found += 1
        taken.add(found)
        return found

    def struct(shown: Any, kind: Any, path: str) -> Any:
        fields = []
        for f, real in zip(shown["fields"], kind["fields"], strict=True):
            name = str(real.get("metadata", {}).get(_PHYSICAL, real["name"])).lower()
            inner = f"{path}.{name}"
            fields.append({**f, "id": number(inner), "type": nested(f["type"], real["type"], inner)})
        return {**shown, "fields": fields}

    def nested(shown: Any, kind: Any, path: str) -> Any:
        if not isinstance(shown, dict):
            return shown
        if shown["type"] == "struct":
            return struct(shown, kind, path)
        parts = {"element": "elementType"} if shown["type"] == "list" else {"key": "keyType", "value": "valueType"}
        made = dict(shown)
        for part, theirs in parts.items():
            made[f"{part}-id"] = number(f"{path}.{part}")
            made[part] = nested(shown[part], kind[theirs], f"{path}.{part}")
        return made

    return json.dumps({**struct(schema, own, ""), "schema-id": 0})


def as_seen(value: str, have: Any, want: Any, depth: int = 0) -> str:
    """A value of one type in another one of the same column: fields of structs are found by id."""
    if not (isinstance(have, dict) and isinstance(want, dict)) or have == want or have["type"] != want["type"]:
        return value
    item = f"e{depth}"
    if want["type"] == "list":
        return f"transform({value}, {item} -> {as_seen(item, have['element'], want['element'], depth + 1)})"
    if want["type"] == "map":
        inner = as_seen(item, have["value"], want["value"], depth + 1)
        return f"transform_values({value}, (k{depth}, {item}) -> {inner})"
    there = {f["id"]: f for f in have["fields"]}
    parts = []
    for field in want["fields"]:
        found = there.get(field["id"])
        inner = "NULL" if found is None else f"{value}.{quote(found['name'])}"
        if found is not None:
            inner = as_seen(inner, found["type"], field["type"], depth)
        parts.append(f"{inner} AS {quote(field['name'])}")
    return f"CASE WHEN {value} IS NOT NULL THEN struct({', '.join(parts)}) END"
