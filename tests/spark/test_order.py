"""The order in which inputs follow a change."""

from __future__ import annotations

from spark_trickle.model import TableName
from spark_trickle.spark.order import join_order
from spark_trickle.sql.algebra import Filter, Operator, Scan, ScanColumn
from spark_trickle.sql.scalar import Scalar, column, equal, greater, number

ROWS = {"customer": 150_000, "orders": 1_500_000, "lineitem": 6_000_000, "supplier": 10_000, "nation": 25, "region": 5}
CONDITIONS = (
    ("c_custkey", "o_custkey"),
    ("l_orderkey", "o_orderkey"),
    ("l_suppkey", "s_suppkey"),
    ("c_nationkey", "s_nationkey"),
    ("s_nationkey", "n_nationkey"),
    ("n_regionkey", "r_regionkey"),
)


def table(name: str) -> Scan:
    columns = {c for pair in CONDITIONS for c in pair if c[0] == name[0]} | {f"{name[0]}_name"}
    return Scan(input=TableName("s", name), fields=tuple(ScanColumn(c, c) for c in sorted(columns)))


def ordered(*names: str, more: tuple[Scalar, ...] = ()) -> list[str]:
    inputs = tuple(map(table, names))
    there = {c for i in inputs for c in i.columns}
    on = tuple(equal(column(a), column(b)) for a, b in CONDITIONS if {a, b} <= there)
    return [names[i] for i in join_order(inputs, (*on, *more), [ROWS[n] for n in names])]


def test_a_supplier_does_not_meet_all_customers_of_its_nation() -> None:
    found = ordered("supplier", "customer", "orders", "lineitem", "nation", "region")
    assert found == ["supplier", "nation", "region", "lineitem", "orders", "customer"]


def test_a_customer_meets_its_orders_before_the_suppliers_of_its_nation() -> None:
    found = ordered("customer", "orders", "lineitem", "supplier", "nation", "region")
    assert found == ["customer", "orders", "lineitem", "supplier", "nation", "region"]


def test_the_first_stays_the_first_and_nothing_is_lost() -> None:
    for first in ROWS:
        names = (first, *(n for n in ROWS if n != first))
        found = ordered(*names)
        assert found[0] == first
        assert sorted(found) == sorted(names)


def test_what_is_not_connected_comes_last() -> None:
    assert ordered("region", "lineitem", "nation") == ["region", "nation", "lineitem"]


def test_conditions_that_are_no_equality_connect_too() -> None:
    less = greater(column("l_orderkey"), column("r_regionkey"))
    assert ordered("region", "supplier", "lineitem", more=(less,)) == ["region", "lineitem", "supplier"]


def test_of_equal_inputs_the_filtered_one_comes_first() -> None:
    def scan(name: str) -> Scan:
        return Scan(input=TableName("s", name), fields=(ScanColumn("id", f"{name}_id"),))

    inputs: list[Operator] = [
        scan("a"),
        scan("b"),
        Filter(child=scan("c"), condition=greater(column("c_id"), number(1))),
    ]
    on = (equal(column("a_id"), column("b_id")), equal(column("a_id"), column("c_id")))
    assert join_order(inputs, on, [9, 9, 9]) == (0, 2, 1)
    condition = greater(column("b_id"), number(7))
    assert join_order([*inputs[:2], scan("c")], (*on, condition), [9, 9, 9]) == (0, 1, 2)
