"""Tables that a text may mean, found without understanding it."""

from __future__ import annotations

import pytest

from spark_trickle.sql.mentions import mentioned, without_catalog


@pytest.mark.parametrize(
    ("text", "there"),
    [
        ("SELECT id FROM s.orders", ("s", "orders")),
        ("SELECT s.orders.id FROM s.orders", ("s", "orders")),
        ("SELECT * FROM `we``ird ; x`.`a b`", ("we`ird ; x", "a b")),
        ("SELECT * FROM größe.日本", ("größe", "日本")),
        ("SELECT * FROM s /* gap */ . orders", ("s", "orders")),
        ("SELECT (SELECT max(id) FROM deep.inner.t) FROM x", ("deep", "inner", "t")),
        ("SELECT EXISTS(SELECT 1 FROM only_here)", ("only_here",)),
        ("FROM orders SELECT id", ("orders",)),
        ("SELECT * FROM `order`", ("order",)),
        ("SELECT 1L, 1e5 FROM shop.2024_orders", ("shop", "2024_orders")),
    ],
)
def test_every_table_is_found(text: str, there: tuple[str, ...]) -> None:
    assert there in mentioned(text)


def test_strings_and_comments_mention_nothing() -> None:
    found = mentioned("SELECT 's.secret', \"s.secret\" FROM s.t -- s.secret\n/* s.secret */")
    assert ("s", "t") in found
    assert not any("secret" in parts for parts in found)


@pytest.mark.parametrize(
    ("text", "cut"),
    [
        ("SELECT id FROM lake.s.t", "SELECT id FROM s.t"),
        ("SELECT lake.s.t.id FROM lake.s.t", "SELECT s.t.id FROM s.t"),
        ("SELECT id FROM `lake`.`s`.`t`", "SELECT id FROM `s`.`t`"),
        ("SELECT id FROM LAKE.s.t", "SELECT id FROM s.t"),
        ("SELECT id FROM lake /* x */ . s.t", "SELECT id FROM  s.t"),
        # A namespace or table that happens to be called lake.
        ("SELECT id FROM lake.t", "SELECT id FROM lake.t"),
        ("SELECT lake.id FROM s.lake", "SELECT lake.id FROM s.lake"),
        ("SELECT 'lake.s.t' FROM s.t -- lake.s.t", "SELECT 'lake.s.t' FROM s.t -- lake.s.t"),
        ("SELECT id FROM other.s.t", "SELECT id FROM other.s.t"),
    ],
)
def test_catalog_is_cut(text: str, cut: str) -> None:
    assert without_catalog(text, "lake") == cut
