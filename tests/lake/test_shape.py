"""What a definition sees of a source whose columns changed."""

from __future__ import annotations

import json
from typing import Any

import pytest

from spark_trickle.lake.shape import lost, reshape, same, same_where_shared
from spark_trickle.sql.mentions import columns_seen


def field(id: int, name: str, type: Any = "long", **more: Any) -> dict[str, Any]:
    return {"id": id, "name": name, "required": False, "type": type, **more}


def struct(*fields: dict[str, Any]) -> dict[str, Any]:
    return {"type": "struct", "fields": list(fields)}


def schema(*fields: dict[str, Any], id: int = 0) -> str:
    return json.dumps({**struct(*fields), "schema-id": id})


def shaped(before: str, now: str, query: str, *, follow: bool = False) -> list[tuple[int, str]] | None:
    found = reshape(before, now, columns_seen([query]), follow=follow)
    return None if found is None else [(f["id"], f["name"]) for f in json.loads(found)["fields"]]


BEFORE = schema(field(1, "id"), field(2, "amount"))


@pytest.mark.parametrize(
    ("query", "everything"),
    [
        ("SELECT id, amount FROM t", False),
        ("SELECT count(*), sum(a * b), 2 * c FROM t", False),
        ("SELECT * FROM t", True),
        ("SELECT DISTINCT * FROM t", True),
        ("SELECT t.* FROM t", True),
        ("SELECT a, * FROM t", True),
        ("SELECT struct(*) FROM t", True),
        ("SELECT a FROM t NATURAL JOIN u", True),
        ("SELECT * EXCEPT (a) FROM t", True),
        ("SELECT x FROM t PIVOT (sum(v) FOR k IN (1, 2))", True),
        ("FROM t |> WHERE a > 1", True),
        ("FROM t", True),
        ("SELECT a FROM t UNION ALL FROM u", True),
        ("SELECT a FROM t WHERE b IN (FROM u)", True),
        ("SELECT count(* EXCEPT (a)) FROM t", True),
        ("SELECT a FROM t WHERE 1 IN (*)", True),
        ("SELECT '*', extract(DAY FROM d) FROM t", False),
    ],
)
def test_who_sees_everything(query: str, everything: bool) -> None:
    assert columns_seen([query]).everything is everything


def test_numbers_comments_and_defaults_are_no_change() -> None:
    assert same(BEFORE, schema(field(1, "id", doc="the key"), field(2, "amount", **{"write-default": 1}), id=7))
    assert not same(BEFORE, schema(field(1, "id"), field(2, "total")))


def test_an_added_column_that_nobody_can_see() -> None:
    now = schema(field(1, "id"), field(2, "amount"), field(3, "note"))
    assert shaped(BEFORE, now, "SELECT id, amount FROM t") is None
    # Mentioned: it could make another name ambiguous.
    assert shaped(BEFORE, now, "SELECT id, u.note FROM t JOIN u USING (id)") == [(1, "id"), (2, "amount")]
    assert shaped(BEFORE, now, "SELECT * FROM t") == [(1, "id"), (2, "amount")]
    assert shaped(BEFORE, now, "SELECT * FROM t", follow=True) is None


def test_a_renamed_column_keeps_its_name() -> None:
    now = schema(field(1, "id"), field(2, "total"))
    assert shaped(BEFORE, now, "SELECT amount FROM t") == [(1, "id"), (2, "amount")]
    assert shaped(BEFORE, now, "SELECT * FROM t") == [(1, "id"), (2, "amount")]
    assert shaped(BEFORE, now, "SELECT * FROM t", follow=True) is None
    assert shaped(BEFORE, now, "SELECT *, amount + 1 AS x FROM t", follow=True) == [(1, "id"), (2, "amount")]


def test_names_change_places() -> None:
    now = schema(field(1, "amount"), field(2, "id"))
    assert shaped(BEFORE, now, "SELECT id FROM t") == [(1, "id"), (2, "amount")]
    renamed_and_again = schema(field(1, "id"), field(2, "total"), field(3, "amount"))
    assert shaped(BEFORE, renamed_and_again, "SELECT amount FROM t") == [(1, "id"), (2, "amount")]
    assert shaped(BEFORE, renamed_and_again, "SELECT *, amount AS x FROM t", follow=True) == [(1, "id"), (2, "amount")]


def test_reordered_dropped_made_again() -> None:
    assert shaped(BEFORE, schema(field(2, "amount"), field(1, "id")), "SELECT * FROM t") == [(1, "id"), (2, "amount")]
    assert shaped(BEFORE, schema(field(1, "id")), "SELECT id FROM t") is None
    assert shaped(BEFORE, schema(field(1, "id"), field(9, "amount")), "SELECT * FROM t") is None  # another amount


def test_fields_inside_a_struct() -> None:
    before = schema(field(1, "s", struct(field(2, "a"), field(3, "b"))))
    now = schema(field(1, "s", struct(field(2, "x"), field(3, "b"), field(4, "c"))))
    found = json.loads(reshape(before, now, columns_seen(["SELECT s.a FROM t"]), follow=False) or "")
    assert [(f["id"], f["name"]) for f in found["fields"][0]["type"]["fields"]] == [(2, "a"), (3, "b")]
    listed = {"type": "list", "element-id": 5, "element": struct(field(2, "a")), "element-required": False}
    other = {**listed, "element": struct(field(2, "x"), field(6, "new"))}
    found = json.loads(
        reshape(schema(field(1, "l", listed)), schema(field(1, "l", other)), columns_seen(["SELECT l"]), follow=False)
        or ""
    )
    assert [f["name"] for f in found["fields"][0]["type"]["element"]["fields"]] == ["a"]


def test_types_that_differ_in_unused_fields_only() -> None:
    one, other = json.dumps(struct(field(2, "a"), field(3, "b"))), json.dumps(struct(field(2, "a")))
    assert same_where_shared(one, other)
    assert lost(one, other) == ("b",)
    assert not same_where_shared(one, json.dumps(struct(field(2, "a"), field(9, "b"))))  # made again
    assert not same_where_shared(one, json.dumps(struct(field(2, "a", "string"), field(3, "b"))))
    assert not same_where_shared("int", "long")
