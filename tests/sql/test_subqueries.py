"""Subqueries, windows, sets and generators in the algebra, without Spark: which operators they become."""

from __future__ import annotations

import pytest

from spark_trickle.sql.algebra import (
    Aggregate,
    Explode,
    Filter,
    Join,
    Match,
    Matched,
    Operator,
    OuterJoin,
    Side,
    TopK,
    Window,
)
from spark_trickle.sql.trees import correlated
from tests.sql.test_lower import only, tree


def kinds(op: Operator) -> list[str]:
    return [type(o).__name__ for o in op.walk()]


@pytest.mark.parametrize(
    ("condition", "kind"),
    [
        ("EXISTS (SELECT 1 FROM items WHERE order_id = orders.id)", Match.SEMI),
        ("NOT EXISTS (SELECT 1 FROM items WHERE order_id = orders.id)", Match.ANTI),
        ("id IN (SELECT order_id FROM items)", Match.SEMI),
        ("id NOT IN (SELECT order_id FROM items)", Match.ANTI),
        ("NOT (NOT (id IN (SELECT order_id FROM items)))", Match.SEMI),
        ("id IN (SELECT order_id FROM items) OR amount > 3", Match.MARK),
        ("CASE WHEN id IN (SELECT order_id FROM items) THEN true ELSE amount > 3 END", Match.MARK),
    ],
)
def test_predicates_become_matches(condition: str, kind: Match) -> None:
    found = only(tree(f"SELECT id FROM orders WHERE {condition}"), Matched)
    assert found.kind is kind
    assert not correlated(found)


def test_not_in_is_met_by_null_too() -> None:
    found = only(tree("SELECT id FROM orders WHERE id NOT IN (SELECT order_id FROM items)"), Matched)
    (condition,) = found.conditions
    assert condition.sql() == "(`orders_id` = `order_id`) OR isnull(`orders_id` = `order_id`)"


def test_not_moves_inwards_to_a_subquery() -> None:
    found = only(tree("SELECT id FROM orders WHERE NOT (id IN (SELECT order_id FROM items) OR amount > 3)"), Matched)
    assert found.kind is Match.ANTI
    assert "isnull" in found.conditions[0].sql()


def test_equal_subqueries_are_attached_once() -> None:
    root = tree("SELECT (SELECT max(qty) FROM items) AS a, 1 + (SELECT max(qty) FROM items) AS b FROM orders")
    assert kinds(root).count("Aggregate") == 1


def test_a_correlated_aggregate_is_grouped_by_its_equality() -> None:
    root = tree("SELECT id, (SELECT sum(qty) FROM items WHERE order_id = orders.id) AS q FROM orders")
    join = only(root, OuterJoin)
    assert join.side is Side.LEFT
    (key,) = only(join.right, Aggregate).keys
    assert key.scalar.sql() == "`items_order_id`"


def test_a_count_over_no_rows_is_zero() -> None:
    root = tree("SELECT id, (SELECT count(*) FROM items WHERE order_id = orders.id) AS q FROM orders")
    assert "coalesce(`a_count`, 0)" in root.tree()


def test_a_comparison_that_rejects_null_needs_no_outer_join() -> None:
    root = tree("SELECT id FROM orders WHERE amount > (SELECT max(qty) FROM items WHERE order_id = orders.id)")
    assert "OuterJoin" not in kinds(root)
    assert only(root, Join)


def test_a_range_correlation_goes_by_domain() -> None:
    root = tree("SELECT id, (SELECT count(*) FROM items WHERE order_id < orders.id) AS q FROM orders")
    assert "Distinct" in kinds(root)  # the values of orders.id
    assert not correlated(root)
    calls = [c for op in root.walk() if isinstance(op, Aggregate) for c in op.calls]
    assert any("FILTER" in c.whole.sql() for c in calls)


def test_lateral_becomes_a_join_and_late_columns_are_null_without_a_partner() -> None:
    text = "SELECT id, q.x FROM orders LEFT JOIN LATERAL (SELECT qty + orders.id AS x FROM items WHERE sku = {}) q"
    root = tree(text.format("orders.info") + " ON true")
    assert only(root, OuterJoin).side is Side.LEFT
    assert any("CASE WHEN `present`" in op.label for op in root.walk())


def test_right_joins_are_left_joins() -> None:
    join = only(tree("SELECT o.id FROM orders o RIGHT JOIN items i ON o.id = i.order_id"), OuterJoin)
    assert (join.side, join.left.columns[0]) == (Side.LEFT, "i_order_id")


def test_windows_chain_by_partition() -> None:
    root = tree(
        "SELECT sum(amount) OVER (PARTITION BY customer) AS a, max(amount) OVER (PARTITION BY customer) AS b, "
        "rank() OVER w AS c FROM orders WINDOW w AS (PARTITION BY info ORDER BY amount)"
    )
    windows = [op for op in root.walk() if isinstance(op, Window)]
    assert [len(w.calls) for w in windows] == [1, 2]


def test_windows_over_groups() -> None:
    root = tree("SELECT customer, rank() OVER (ORDER BY sum(amount)) AS r FROM orders GROUP BY customer")
    window = only(root, Window)
    assert isinstance(window.child, Aggregate)
    assert [c.function for c in window.child.calls] == ["sum"]


def test_grouping_sets_spread_the_rows() -> None:
    root = tree("SELECT customer, grouping_id() AS g, sum(amount) AS s FROM orders GROUP BY CUBE (customer, info)")
    assert only(root, Explode).generator.sql().count("CAST") == 4
    assert len(only(root, Aggregate).keys) == 3  # two keys and the set


def test_set_operations_count_both_sides() -> None:
    root = tree("SELECT id FROM orders EXCEPT ALL SELECT order_id FROM items")
    assert only(root, Explode)
    assert len(only(root, Aggregate).calls) == 2
    assert only(tree("SELECT id FROM orders INTERSECT SELECT order_id FROM items"), Filter)


def test_limits() -> None:
    top = only(tree("SELECT id FROM orders ORDER BY amount DESC, id LIMIT 3 OFFSET 1"), TopK)
    assert (top.limit, top.offset, len(top.order)) == (3, 1, 2)


def test_a_cte_is_lowered_once() -> None:
    root = tree(
        "WITH c AS (SELECT customer, count(*) AS n FROM orders GROUP BY customer) "
        "SELECT a.n, b.n AS m FROM c a JOIN c b ON a.n = b.n"
    )
    assert only(root, Aggregate)  # held in two places, and one object
