"""The columns of a source as a definition sees them: by field id, under the names it was written with.

A definition names columns; Iceberg knows them by id. So a column that was renamed keeps its old name for definitions
that use it, one that was added stays out of a pinned `*`, and one that was dropped and made again is another column.
Pure: schemas in, schema out, as Iceberg's JSON.
"""

from __future__ import annotations

import json
from collections.abc import Collection, Iterator
from typing import Any, Protocol

Schema = dict[str, Any]  # of a struct: {"type": "struct", "fields": [{"id", "name", "required", "type"}, …]}


class Seen(Protocol):
    """What the texts of a definition can see of the columns of its tables (`sql.mentions.columns_seen`)."""

    @property
    def names(self) -> Collection[str]: ...  # mentioned ones, in lower case
    @property
    def everything(self) -> bool: ...  # also columns that are not mentioned


def reshape(known: str, schema: str, seen: Seen, *, follow: bool) -> str | None:
    """The schema to read a source in that was known with another one; None: the one it has.

    With `follow` new columns are seen too, and a renamed column that no text mentions has its new name.
    """
    before, now = json.loads(known), json.loads(schema)
    shaped = _struct(before, now, seen.names if follow else None, follow=follow)
    if bare(shaped["fields"]) == bare(now["fields"]) or _only_more(shaped, now, seen):
        return None
    return json.dumps({**now, **shaped})


def same(one: str, other: str) -> bool:
    """Whether two schemas differ in nothing but their numbers."""
    return one == other or bare(json.loads(one)) == bare(json.loads(other))


def lost(used: str, now: str) -> tuple[str, ...]:
    """The fields inside a column of type `used` that its type `now` does not have, as dotted names."""
    there = {f["id"] for _, f in _fields(_type(now))}
    return tuple(path for path, f in _fields(_type(used)) if f["id"] not in there)


def made_again(used: str, now: str) -> tuple[str, ...]:
    """The fields inside a column that were dropped and made again under the same name."""
    after = {path: f["id"] for path, f in _fields(_type(now))}
    return tuple(path for path, f in _fields(_type(used)) if after.get(path, f["id"]) != f["id"])


def same_where_shared(used: str, now: str) -> bool:
    """Whether two types of one column differ in nothing but fields that only one of them has."""
    if made_again(used, now):
        return False  # old rows lost their values
    one, other = _type(used), _type(now)
    shared = {f["id"] for _, f in _fields(one)} & {f["id"] for _, f in _fields(other)}
    return bool(_cut(one, shared) == _cut(other, shared))


def shown_type(text: str) -> str:
    """A type for a message."""
    return text if not text.startswith("{") else f"{_type(text)['type']} with {len(list(_fields(_type(text))))} fields"


def _type(text: str) -> Any:
    return json.loads(text) if text.startswith("{") else text


def bare(schema: Any) -> Any:
    """Without what has no meaning for a reader: numbers of schemas, comments, defaults of later writes."""
    if isinstance(schema, dict):
        dropped = ("schema-id", "identifier-field-ids", "doc", "write-default", "required", "element-required")
        return {k: bare(v) for k, v in schema.items() if k not in (*dropped, "value-required")}
    return [bare(v) for v in schema] if isinstance(schema, list) else schema


def _struct(before: Schema, now: Schema, keep: Collection[str] | None, *, follow: bool) -> Schema:
    """The fields of `before` that are still there, with their types of today; `keep`: names that must stay."""
    by_id = {f["id"]: f for f in now["fields"]}
    by_name = {f["name"].lower(): f for f in now["fields"]}
    known = {f["id"] for f in before["fields"]}
    # Old names that stay: a column that took one of them later cannot have it here.
    taken = {f["name"].lower() for f in before["fields"] if keep is not None and f["name"].lower() in keep}
    fields: list[dict[str, Any]] = []
    for field in before["fields"]:
        found = by_id.get(field["id"])
        if found is None:
            # Dropped and made again: another column under the name that the definition uses.
            again = by_name.get(field["name"].lower())
            if again is not None and again["id"] not in known:
                fields.append(again)
            continue
        own = keep is None or field["name"].lower() in keep or found["name"].lower() in taken
        name = field["name"] if own else found["name"]
        fields.append({**found, "name": name, "type": _inner(field["type"], found["type"], keep, follow=follow)})
    if follow:
        taken, names = {f["id"] for f in fields}, {f["name"].lower() for f in fields}
        fields += [f for f in now["fields"] if f["id"] not in taken and f["name"].lower() not in names]
        order = {f["id"]: n for n, f in enumerate(now["fields"])}
        fields.sort(key=lambda f: order[f["id"]])
    return {"type": "struct", "fields": fields}


def _inner(before: Any, now: Any, keep: Collection[str] | None, *, follow: bool) -> Any:
    if not (isinstance(before, dict) and isinstance(now, dict)) or before["type"] != now["type"]:
        return now
    if now["type"] == "struct":
        return _struct(before, now, keep, follow=follow)
    parts = ("element",) if now["type"] == "list" else ("key", "value")
    return {**now, **{p: _inner(before[p], now[p], keep, follow=follow) for p in parts}}


def _only_more(shaped: Schema, now: Schema, seen: Seen) -> bool:
    """Whether the source has but further columns at its end that no text can see: then it is read as it is."""
    if seen.everything:
        return False
    first, more = now["fields"][: len(shaped["fields"])], now["fields"][len(shaped["fields"]) :]
    return bare(first) == bare(shaped["fields"]) and not any(f["name"].lower() in seen.names for f in more)


def _fields(kind: Any, path: str = "") -> Iterator[tuple[str, dict[str, Any]]]:
    """All fields inside a type, with their dotted names."""
    if not isinstance(kind, dict):
        return
    for field in kind.get("fields", ()):
        name = f"{path}{field['name']}"
        yield name, field
        yield from _fields(field["type"], f"{name}.")
    for part in ("element", "key", "value"):
        if part in kind:
            yield from _fields(kind[part], f"{path}{part}.")


def _cut(kind: Any, ids: Collection[int]) -> Any:
    """The type without the fields of other ids; names and order do not count."""
    if not isinstance(kind, dict):
        return kind
    if kind["type"] == "struct":
        return sorted((f["id"], json.dumps(_cut(f["type"], ids))) for f in kind["fields"] if f["id"] in ids)
    return [kind["type"], *(_cut(kind[p], ids) for p in ("element", "key", "value") if p in kind)]
