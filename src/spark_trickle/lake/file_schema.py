"""The columns in the data files of a stream table: those of its schema, and hidden ones that the schema does not show.

A data file knows its columns by field id. Hidden columns have ids that no column of the schema has, and that none will
get: the table's last column id is past them. So every reader that goes by field id sees the definition's columns and
nothing else, in old snapshots too, and we read the same files with the full schema. Pure: schemas are Iceberg's JSON.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from itertools import count
from typing import Any

from spark_trickle.lake.shape import Schema, bare
from spark_trickle.model import HIDDEN_PREFIX


def numbered(wanted: Sequence[Schema], known: Iterable[Schema], last: int) -> str:
    """The full schema for these columns; those that are known by the same name and type keep their field ids.

    >>> known = [{"id": 1, "name": "a", "required": False, "type": "long"}]
    >>> again, other = {**known[0], "id": 0}, {"id": 1, "name": "b", "required": False, "type": "int"}
    >>> [(f["id"], f["name"]) for f in json.loads(numbered([again, other], known, 7))["fields"]]
    [(1, 'a'), (8, 'b')]
    """
    ids = count(last + 1)
    there = {f["name"]: f for f in known}
    fields = []
    for field in wanted:
        kept = there.get(field["name"])
        if kept is not None and _unnumbered(kept["type"]) == _unnumbered(field["type"]):
            fields.append({**field, "id": kept["id"], "type": kept["type"]})
        else:
            fields.append({**field, "id": next(ids), "type": _numbered(field["type"], ids)})
    return json.dumps({"type": "struct", "schema-id": 0, "fields": fields})


def public(full: str) -> str:
    """The schema that everybody sees."""
    schema = json.loads(full)
    return json.dumps({**schema, "fields": [f for f in schema["fields"] if not f["name"].startswith(HIDDEN_PREFIX)]})


def documented(full: str, comments: Mapping[str, str]) -> str:
    """The schema with these comments of columns."""
    schema = json.loads(full)
    for field in schema["fields"]:
        if field["name"] in comments:
            field["doc"] = comments[field["name"]]
    return json.dumps(schema)


def last_id(full: str) -> int:
    """The highest field id, nested ones included."""
    return max(_ids(json.loads(full)), default=0)


def shows(schema: str, full: str) -> bool:
    """Whether a table's schema has exactly the columns that it should show; comments do not count."""
    fields = [[bare(f) for f in json.loads(text)["fields"]] for text in (schema, public(full))]
    return fields[0] == fields[1]


def _numbered(kind: Any, ids: Iterable[int]) -> Any:
    """A type with fresh ids in it."""
    given = iter(ids)
    if not isinstance(kind, dict):
        return kind
    if kind["type"] == "struct":
        fields = [{**f, "id": next(given)} for f in kind["fields"]]
        return {**kind, "fields": [{**f, "type": _numbered(f["type"], given)} for f in fields]}
    parts = {"list": ("element",), "map": ("key", "value")}[kind["type"]]
    fresh = {f"{part}-id": next(given) for part in parts}
    return {**kind, **fresh, **{part: _numbered(kind[part], given) for part in parts}}


def _unnumbered(kind: Any) -> Any:
    if isinstance(kind, dict):
        return {k: _unnumbered(v) for k, v in bare(kind).items() if k != "id" and not k.endswith("-id")}
    return [_unnumbered(v) for v in kind] if isinstance(kind, list) else kind


def _ids(kind: Any) -> Iterable[int]:
    if isinstance(kind, dict):
        for key, value in kind.items():
            if key == "id" or (key.endswith("-id") and key != "schema-id"):
                yield value
            else:
                yield from _ids(value)
    elif isinstance(kind, list):
        for value in kind:
            yield from _ids(value)
