"""Lineage by column: where values come from, and what decides which rows there are."""

from __future__ import annotations

from collections.abc import Iterable

import pytest

from spark_trickle.model import Origin, TableName, Via, through
from spark_trickle.sql.lineage import lineage
from spark_trickle.sql.lower import lower
from tests.sql.test_lower import Functions, Tables


def told(origins: Iterable[Origin]) -> str:
    """`IDENTITY orders.id, FILTER orders.amount`, in the order of `Via`."""
    order = list(Via)
    found = sorted(origins, key=lambda o: (order.index(o.via), o.table, o.column))
    return ", ".join(f"{o.via} {o.table.name}" + (f".{o.column}" if o.column else "") for o in found)


CASES = {
    # query: what each column comes from, and the rows
    "SELECT id, amount * 2 AS twice, 7 AS seven FROM orders WHERE customer > 3": (
        {"id": "IDENTITY orders.id", "twice": "TRANSFORMATION orders.amount", "seven": ""},
        "FILTER orders.customer, ROWS orders",
    ),
    "SELECT count(*) AS n, sum(amount) AS total FROM orders": (
        {"n": "ROWS orders", "total": "AGGREGATION orders.amount, ROWS orders"},
        "",  # one row, whatever there is
    ),
    "SELECT customer, sum(amount) + 1 AS total, count(*) AS n FROM orders WHERE info = 'x' GROUP BY customer": (
        {"customer": "IDENTITY orders.customer", "total": "AGGREGATION orders.amount", "n": ""},
        "FILTER orders.info, GROUP_BY orders.customer, ROWS orders",
    ),
    "SELECT customer, sum(amount) FILTER (WHERE id > 3) AS total FROM orders GROUP BY customer HAVING max(id) > 9": (
        {"customer": "IDENTITY orders.customer", "total": "AGGREGATION orders.amount, FILTER orders.id"},
        "FILTER orders.id, GROUP_BY orders.customer, ROWS orders",
    ),
    "SELECT o.id, c.city FROM orders o JOIN customers c ON o.customer = c.id AND c.name <> 'x'": (
        {"id": "IDENTITY orders.id", "city": "IDENTITY customers.city"},
        "FILTER customers.name, JOIN customers.id, JOIN orders.customer, ROWS customers, ROWS orders",
    ),
    "SELECT o.id, c.city FROM orders o LEFT JOIN customers c ON o.customer = c.id": (
        {"id": "IDENTITY orders.id", "city": "IDENTITY customers.city"},
        "JOIN customers.id, JOIN orders.customer, ROWS customers, ROWS orders",
    ),
    "SELECT id FROM orders WHERE customer IN (SELECT id FROM customers WHERE city = 'Rome')": (
        {"id": "IDENTITY orders.id"},
        "FILTER customers.city, JOIN customers.id, JOIN orders.customer, ROWS customers, ROWS orders",
    ),
    "SELECT id, EXISTS (SELECT 1 FROM items i WHERE i.order_id = o.id AND i.qty > 2) AS big FROM orders o": (
        {
            "id": "IDENTITY orders.id",
            "big": "FILTER items.qty, JOIN items.order_id, JOIN orders.id, ROWS items",
        },
        "ROWS orders",
    ),
    "SELECT id, (SELECT max(qty) FROM items) AS most FROM orders": (
        {"id": "IDENTITY orders.id", "most": "AGGREGATION items.qty, ROWS items"},
        "ROWS orders",
    ),
    "SELECT id, row_number() OVER (PARTITION BY customer ORDER BY amount) AS n, "
    "max(amount) OVER (PARTITION BY customer) AS most FROM orders": (
        {
            "id": "IDENTITY orders.id",
            "n": "WINDOW orders.amount, WINDOW orders.customer",
            "most": "AGGREGATION orders.amount, WINDOW orders.customer",
        },
        "ROWS orders",
    ),
    "SELECT id FROM (SELECT id, rank() OVER (ORDER BY amount) AS r FROM orders) WHERE r = 1": (
        {"id": "IDENTITY orders.id"},
        "WINDOW orders.amount, ROWS orders",
    ),
    "SELECT id, amount AS v FROM orders UNION ALL SELECT order_id, upper(sku) FROM items WHERE qty > 1": (
        {
            "id": "IDENTITY items.order_id, IDENTITY orders.id",
            "v": "IDENTITY orders.amount, TRANSFORMATION items.sku",
        },
        "FILTER items.qty, ROWS items, ROWS orders",
    ),
    "SELECT DISTINCT customer, amount FROM orders": (
        {"customer": "IDENTITY orders.customer", "amount": "IDENTITY orders.amount"},
        "GROUP_BY orders.amount, GROUP_BY orders.customer, ROWS orders",
    ),
    "SELECT id FROM orders ORDER BY amount DESC, id LIMIT 3": (
        {"id": "IDENTITY orders.id"},
        "SORT orders.amount, SORT orders.id, ROWS orders",
    ),
    "SELECT CASE WHEN customer > 3 THEN amount ELSE 0 END AS v, if(id > 2, amount, customer) AS w FROM orders": (
        {
            "v": "TRANSFORMATION orders.amount, CONDITIONAL orders.customer",
            "w": "TRANSFORMATION orders.amount, TRANSFORMATION orders.customer, CONDITIONAL orders.id",
        },
        "ROWS orders",
    ),
    "SELECT CASE id WHEN customer THEN 1 END AS v FROM orders": (
        {"v": "CONDITIONAL orders.customer, CONDITIONAL orders.id"},
        "ROWS orders",
    ),
    "SELECT id, col FROM orders LATERAL VIEW explode(info) AS col": (
        {"id": "IDENTITY orders.id", "col": "TRANSFORMATION orders.info"},
        "EXPLODE orders.info, ROWS orders",
    ),
    "SELECT order_id, total FROM renamed WHERE total > 3": (  # a view
        {"order_id": "IDENTITY orders.id", "total": "IDENTITY orders.amount"},
        "FILTER orders.amount, ROWS orders",
    ),
    "WITH RECURSIVE up(id, parent, n) AS (SELECT id, customer, 0 FROM orders UNION ALL "
    "SELECT o.id, o.customer, up.n + o.amount FROM orders o JOIN up ON o.customer = up.id) SELECT id, n FROM up": (
        {"id": "IDENTITY orders.id", "n": "TRANSFORMATION orders.amount"},
        "JOIN orders.customer, JOIN orders.id, ROWS orders",
    ),
    "SELECT customer, amount FROM orders INTERSECT SELECT id, name FROM customers": (
        {
            "customer": "IDENTITY customers.id, IDENTITY orders.customer",
            "amount": "IDENTITY customers.name, IDENTITY orders.amount",
        },
        None,
    ),
}


@pytest.mark.parametrize("query", CASES)
def test_lineage(query: str) -> None:
    columns, rows = CASES[query]
    found = lower(query, Tables(), Functions(), "s")
    traced = lineage(found.root, found.shown)
    assert {c: told(o) for c, o in traced.columns.items()} == columns
    if rows is not None:
        assert told(traced.rows) == rows


def test_what_is_made_of_something_else_is_what_that_is_made_of() -> None:
    t = TableName("s", "t")
    below = [Origin(t, "a", Via.AGGREGATION), Origin(t, "b", Via.IDENTITY), Origin(t, "c", Via.FILTER)]
    assert told(through(Via.IDENTITY, below)) == "IDENTITY t.b, AGGREGATION t.a, FILTER t.c"
    assert told(through(Via.TRANSFORMATION, below)) == "TRANSFORMATION t.b, AGGREGATION t.a, FILTER t.c"
    assert told(through(Via.JOIN, below)) == "FILTER t.c, JOIN t.a, JOIN t.b"
