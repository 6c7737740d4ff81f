"""From text to algebra, without Spark: names, stars, joins, CTEs, views, grouping, and refusals with their place."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, TypeVar

import pytest

from spark_trickle.errors import NotIncremental, TrickleError
from spark_trickle.model import InputKind, TableName
from spark_trickle.sql.algebra import Aggregate, Distinct, Filter, Join, Operator, Project, Scan, UnionAll
from spark_trickle.sql.functions import FunctionKind
from spark_trickle.sql.lower import LakeTable, LakeView, Lowered, lower
from spark_trickle.sql.scalar import Scalar
from spark_trickle.sql.sources import MAX_VIEW_DEPTH
from spark_trickle.sql.trees import scans

SOURCES = {
    "orders": ("id", "customer", "amount", "info"),
    "customers": ("id", "name", "city"),
    "items": ("order_id", "sku", "qty"),
    "weird": ("a.b", "order", "Ünïcode", "x`y"),
}
VIEWS = {
    "big": ("SELECT id, amount FROM orders WHERE amount > 10", ("id", "amount")),
    "renamed": ("SELECT id, amount FROM orders", ("order_id", "total")),
    "deep": ("SELECT * FROM big", ("id", "amount")),
    "volatile": ("SELECT id,\n  rand() AS r FROM orders", ("id", "r")),
    "endless": ("SELECT * FROM s.endless", ("id",)),
}
KINDS = {
    "count": FunctionKind.AGGREGATE,
    "sum": FunctionKind.AGGREGATE,
    "max": FunctionKind.AGGREGATE,
    "percentile_cont": FunctionKind.AGGREGATE,
    "rank": FunctionKind.WINDOW,
    "row_number": FunctionKind.WINDOW,
    "explode": FunctionKind.GENERATOR,
    "upper": FunctionKind.SCALAR,
    "coalesce": FunctionKind.SCALAR,
    "my_udf": FunctionKind.SESSION,
}


class Tables:
    """A lake with one namespace `s`."""

    def find(self, parts: tuple[str, ...], namespace: str) -> LakeTable | LakeView | None:
        where, name = (".".join(parts[:-1]) or namespace), parts[-1]
        if where != "s":
            return None
        if name in SOURCES:
            return LakeTable(TableName("s", name), InputKind.SOURCE, SOURCES[name])
        if name in VIEWS:
            text, columns = VIEWS[name]
            return LakeView(TableName("s", name), text, "s", columns)
        return None


class Functions:
    def kind(self, name: str) -> FunctionKind:
        return KINDS.get(name, FunctionKind.SCALAR)

    def generated(self, child: Operator, generator: Scalar) -> tuple[str, ...]:
        assert generator.columns <= set(child.columns)
        return ("col",)

    def types(self, child: Operator, scalars: Sequence[Scalar]) -> tuple[str, ...] | None:
        return ("int",) * len(scalars)

    def same(self, child: Operator, scalars: Sequence[Scalar]) -> tuple[int, ...] | None:
        return tuple(scalars.index(s) for s in scalars)


def lowered(text: str) -> Lowered:
    return lower(text, Tables(), Functions(), "s")


def tree(text: str) -> Operator:
    return lowered(text).root


Kind = TypeVar("Kind", bound=Operator)


def only(root: Operator, kind: type[Kind]) -> Kind:
    found = [op for op in root.walk() if isinstance(op, kind)]
    assert len(found) == 1, root.tree()
    return found[0]


def scalars(root: Operator) -> list[str]:
    assert isinstance(root, Project)
    return [i.scalar.sql() for i in root.items]


# -- names -------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "scalar"),
    [
        ("SELECT id FROM orders", "`orders_id`"),
        ("SELECT orders.id FROM orders", "`orders_id`"),
        ("SELECT s.orders.id FROM s.orders", "`orders_id`"),
        ("SELECT o.id FROM orders AS o", "`o_id`"),
        ("SELECT ID FROM ORDERS_ALIAS", "`ORDERS_ALIAS_id`"),
        ("SELECT info.a.b FROM orders", "`orders_info`.`a`.`b`"),
        ("SELECT o.info.a FROM orders o", "`o_info`.`a`"),
        ("SELECT upper(Info) FROM orders", "upper(`orders_info`)"),
        ("SELECT `a.b` FROM weird", "`weird_a.b`"),
        ("SELECT `order` FROM weird", "`weird_order`"),
        ("SELECT `x``y` FROM weird", "`weird_x``y`"),
        ("SELECT `Ünïcode` FROM weird", "`weird_Ünïcode`"),
    ],
)
def test_columns_resolve(text: str, scalar: str) -> None:
    text = text.replace("ORDERS_ALIAS", "orders AS ORDERS_ALIAS")
    assert scalars(tree(text)) == [scalar]


def test_alias_hides_the_table_name() -> None:
    with pytest.raises(NotIncremental, match="NAME_RESOLUTION"):
        tree("SELECT orders.id FROM orders AS o")


def test_names_are_unique_in_a_self_join() -> None:
    join = only(tree("SELECT a.id, b.id AS other FROM orders a JOIN orders b ON a.customer = b.id"), Join)
    assert len(set(join.columns)) == len(join.columns) == 8
    (condition,) = join.conditions
    assert condition.sql() == "`a_customer` = `b_id`"
    same = only(tree("SELECT orders.id FROM orders, orders AS o2 JOIN items AS orders_id"), Join)
    assert len({n.lower() for n in same.columns}) == len(same.columns)


# -- stars -------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "columns"),
    [
        ("SELECT * FROM customers", ["`customers_id`", "`customers_name`", "`customers_city`"]),
        ("SELECT c.*, c.id AS again FROM customers c", ["`c_id`", "`c_name`", "`c_city`", "`c_id`"]),
        ("SELECT * EXCEPT (name, CITY) FROM customers", ["`customers_id`"]),
        (
            "SELECT i.*, c.name FROM customers c JOIN items i ON c.id = i.order_id",
            ["`i_order_id`", "`i_sku`", "`i_qty`", "`c_name`"],
        ),
        ("SELECT * FROM customers AS c (a, b, d)", ["`c_id`", "`c_name`", "`c_city`"]),
    ],
)
def test_stars_expand(text: str, columns: list[str]) -> None:
    assert scalars(tree(text)) == columns


# -- joins -------------------------------------------------------------------------------------------------------------


def test_using_shows_its_column_once_and_first() -> None:
    root = tree("SELECT * FROM customers JOIN orders USING (id)")
    assert scalars(root) == [
        "`customers_id`",
        "`customers_name`",
        "`customers_city`",
        "`orders_customer`",
        "`orders_amount`",
        "`orders_info`",
    ]
    assert [c.sql() for c in only(root, Join).conditions] == ["`customers_id` = `orders_id`"]


def test_natural_join_is_using_all_common_names() -> None:
    natural, using = "SELECT * FROM customers NATURAL JOIN orders", "SELECT * FROM customers JOIN orders USING (id)"
    assert scalars(tree(natural)) == scalars(tree(using))
    assert only(tree(natural), Join).conditions == only(tree(using), Join).conditions


@pytest.mark.parametrize(
    "text",
    [
        "SELECT o.id FROM orders o, customers c, items i WHERE o.customer = c.id AND i.order_id = o.id",
        "SELECT o.id FROM orders o JOIN customers c ON o.customer = c.id JOIN items i ON i.order_id = o.id",
        "SELECT o.id FROM orders o CROSS JOIN customers c JOIN items i ON o.customer = c.id AND (i.order_id = o.id)",
        "SELECT o.id FROM orders o JOIN (customers c CROSS JOIN items i) ON o.customer = c.id AND i.order_id = o.id",
    ],
)
def test_inner_joins_flatten_into_one(text: str) -> None:
    join = only(tree(text), Join)
    assert [type(i) for i in join.inputs] == [Scan] * 3
    assert {c.sql() for c in join.conditions} == {"`o_customer` = `c_id`", "`i_order_id` = `o_id`"}


def test_where_over_one_table_is_a_filter() -> None:
    assert only(tree("SELECT id FROM orders WHERE amount > 1 AND id > 2"), Filter).condition.sql() == (
        "`orders_amount` > 1 AND `orders_id` > 2"
    )


# -- CTEs, subqueries, views -----------------------------------------------------------------------------------------


def test_cte_hides_a_table_and_sees_only_those_before_it() -> None:
    root = tree("WITH orders AS (SELECT id FROM customers), two AS (SELECT id FROM orders) SELECT * FROM two")
    assert [s.input for s in scans(root)] == [TableName("s", "customers")]
    qualified = tree("WITH orders AS (SELECT id FROM customers) SELECT id FROM s.orders")
    assert [s.input for s in scans(qualified)] == [TableName("s", "orders")]


def test_cte_with_column_names_used_twice() -> None:
    root = tree("WITH q (a, b) AS (SELECT id, name FROM customers) SELECT x.a, y.b FROM q x JOIN q y ON x.a = y.a")
    assert len(scans(root)) == 1  # read in two places, one scan
    assert len(set(only(root, Join).columns)) == 4


def test_inner_cte_does_not_leak() -> None:
    with pytest.raises(NotIncremental, match="UNKNOWN_INPUT"):
        tree("SELECT * FROM (WITH q AS (SELECT id FROM orders) SELECT id FROM q) x JOIN q")


def test_views_are_inlined_and_remembered() -> None:
    found = lowered("SELECT d.id FROM deep d")
    assert [i.name.name for i in found.inputs] == ["orders"]
    assert [v.name.name for v in found.views] == ["deep", "big"]
    assert only(found.root, Filter).condition.sql() == "`orders_amount` > 10"


def test_a_view_does_not_see_the_ctes_of_its_reader() -> None:
    found = lowered("WITH orders AS (SELECT id FROM customers) SELECT big.id FROM big JOIN orders USING (id)")
    assert {i.name.name for i in found.inputs} == {"orders", "customers"}


def test_columns_of_a_view_go_by_its_own_names() -> None:
    assert scalars(tree("SELECT total FROM renamed")) == ["`amount`"]
    with pytest.raises(NotIncremental, match="amount is not a column"):
        tree("SELECT amount FROM renamed")


# -- lateral aliases and grouping ------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "last"),
    [
        ("SELECT amount * 2 AS x, x + 1 AS y FROM orders", "(`orders_amount` * 2) + 1"),
        ("SELECT amount AS id, id + 1 AS y FROM orders", "`orders_id` + 1"),  # the input column wins
        ("SELECT id + 1 AS a, a + 1 AS b, b * a AS c FROM orders", "((`orders_id` + 1) + 1) * (`orders_id` + 1)"),
    ],
)
def test_lateral_aliases(text: str, last: str) -> None:
    assert scalars(tree(text))[-1] == last


@pytest.mark.parametrize(
    "text",
    [
        "SELECT customer, sum(amount) AS total FROM orders GROUP BY customer",
        "SELECT customer, sum(amount) AS total FROM orders GROUP BY 1",
        "SELECT customer, sum(amount) AS total FROM orders GROUP BY ALL",
        "SELECT customer, sum(amount) AS total FROM orders GROUP BY orders.customer",
        "SELECT customer, sum(amount) AS total FROM orders GROUP BY customer, orders.customer",
        "SELECT customer, SUM(amount) AS total FROM orders GROUP BY customer",
        "FROM orders SELECT customer, sum(amount) AS total GROUP BY customer",
    ],
)
def test_forms_of_group_by(text: str) -> None:
    aggregate = only(tree(text), Aggregate)
    assert [k.scalar.sql() for k in aggregate.keys] == ["`orders_customer`"]
    assert [c.whole.sql() for c in aggregate.calls] == ["sum(`orders_amount`)"]


@pytest.mark.parametrize(
    ("text", "keys"),
    [
        ("SELECT amount % 10 AS d, count(*) AS n FROM orders GROUP BY amount % 10", ["`orders_amount` % 10"]),
        ("SELECT amount % 10 AS d, count(*) AS n FROM orders GROUP BY d", ["`orders_amount` % 10"]),
        ("SELECT count(*) AS n FROM orders GROUP BY customer", ["`orders_customer`"]),
        ("SELECT count(*) AS n FROM orders", []),
        (
            "SELECT upper(city) AS c, id + 1 AS i, count(*) AS n FROM customers GROUP BY 1, 2",
            ["upper(`customers_city`)", "`customers_id` + 1"],
        ),
    ],
)
def test_group_keys(text: str, keys: list[str]) -> None:
    assert [k.scalar.sql() for k in only(tree(text), Aggregate).keys] == keys


def test_expressions_over_aggregates_share_their_calls() -> None:
    root = tree(
        "SELECT customer, sum(amount) / count(*) AS mean, count(*) AS n FROM orders GROUP BY customer "
        "HAVING count(*) > 1 AND n < 9 AND max(amount) > 5"
    )
    assert [c.whole.sql() for c in only(root, Aggregate).calls] == [
        "sum(`orders_amount`)",
        "count(*)",
        "max(`orders_amount`)",
    ]
    assert only(root, Filter).condition.sql() == "`a_count` > 1 AND `a_count` < 9 AND `a_max` > 5"


def test_parts_of_a_call() -> None:
    root = tree(
        "SELECT count(DISTINCT id, customer) AS a, sum(amount) FILTER (WHERE id > 3) AS b, "
        "percentile_cont(0.5) WITHIN GROUP (ORDER BY amount) AS c, count(*) AS d FROM orders"
    )
    a, b, c, d = only(root, Aggregate).calls
    assert (a.distinct, len(a.args), a.plain) == (True, 2, True)
    assert b.filter is not None
    assert (b.filter.sql(), b.plain) == ("`orders_id` > 3", True)
    assert (c.function, c.plain) == ("percentile_cont", False)
    assert (d.args, d.distinct, d.filter) == ((), False, None)


def test_distinct_and_unions() -> None:
    assert isinstance(tree("SELECT DISTINCT city FROM customers"), Distinct)
    both = "SELECT id FROM orders UNION {} SELECT order_id FROM items"
    union = tree(both.format("ALL"))
    assert isinstance(union, UnionAll)
    assert union.columns == ("u_id",)
    assert isinstance(tree(both.format("")), Distinct)


def test_order_is_noticed_and_ignored() -> None:
    found = lowered("SELECT id FROM orders ORDER BY id")
    assert found.notices == ("ORDER BY is ignored: a table has no order",)


# -- refusals ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "reason", "place"),
    [
        ("SELECT id, rand() AS r FROM orders", "VOLATILE", "line 1, column 12"),
        ("SELECT id, uuid() AS r FROM orders", "VOLATILE", "line 1, column 12"),
        ("SELECT id,\n\n now() AS r FROM orders", "TIME_DEPENDENT", "line 3, column 2"),
        ("SELECT id FROM orders WHERE amount > current_date", "TIME_DEPENDENT", ""),
        ("SELECT id, unix_timestamp() AS r FROM orders", "TIME_DEPENDENT", "line 1, column 12"),
        ("SELECT id, current_user() AS r FROM orders", "SESSION_DEPENDENT", "line 1, column 12"),
        ("SELECT my_udf(id) AS e FROM orders", "SESSION_OBJECT", "line 1, column 8"),
        ("SELECT id FROM orders TABLESAMPLE (10 PERCENT)", "SAMPLE", "line 1, column"),
        ("SELECT id FROM orders VERSION AS OF 5", "TIME_TRAVEL", "line 1, column"),
        ("SELECT id FROM orders TIMESTAMP AS OF '2024-01-01'", "TIME_TRAVEL", "line 1, column"),
        ("SELECT id FROM elsewhere.t", "UNKNOWN_INPUT", "line 1, column"),
        ("SELECT nope FROM orders", "NAME_RESOLUTION", "line 1, column 8"),
        ("SELECT id FROM orders JOIN customers ON true", "NAME_RESOLUTION", "line 1, column 8"),
        ("SELECT id FROM orders\nLIMIT 2 + 3", "LIMIT", "line 2, column"),
        ("SELECT id + explode(info) AS e FROM orders", "GENERATOR", "line 1, column 13"),
        ("SELECT id FROM orders WHERE rank() OVER (ORDER BY id) = 1", "WINDOW", ""),
        ("SELECT id FROM orders UNION ALL BY NAME SELECT id AS x FROM customers", "UNION_BY_NAME", "line 1, column"),
        (
            "SELECT o.id FROM orders o LEFT JOIN customers c ON EXISTS (SELECT 1 FROM items i "
            "WHERE i.order_id = o.id AND i.sku = c.city)",
            "SUBQUERY",
            "line 1, column",
        ),
    ],
)
def test_refused_with_reason_and_place(text: str, reason: str, place: str) -> None:
    with pytest.raises(NotIncremental) as caught:
        lowered(text)
    assert caught.value.reason == reason
    assert caught.value.place.startswith(place)
    assert caught.value.message.startswith(reason)
    assert caught.value.hint


def test_refusal_inside_a_view_names_the_view_and_the_place_outside() -> None:
    with pytest.raises(NotIncremental) as caught:
        lowered("SELECT id\nFROM volatile")
    assert (caught.value.reason, caught.value.place) == ("VOLATILE", "line 2, column 6")
    assert "in view s.volatile" in caught.value.message
    assert "line 2, column 3" in caught.value.message


def test_views_do_not_nest_forever() -> None:
    with pytest.raises(NotIncremental, match=f"VIEW_DEPTH.*{MAX_VIEW_DEPTH}"):
        lowered("SELECT id FROM endless")


@pytest.mark.parametrize("text", ["SELECT id FROM", "SELECT id FROM orders WHERE", "SELECT 'x", "DELETE FROM orders"])
def test_syntax_errors_are_no_refusals(text: str) -> None:
    with pytest.raises(TrickleError) as caught:
        lowered(text)
    assert caught.value.code == "SYNTAX_ERROR"
    assert "line 1" in caught.value.message


def test_lowering_is_deterministic() -> None:
    text: Any = "WITH q AS (SELECT * FROM orders) SELECT a.id, count(*) AS n FROM q a JOIN q b USING (id) GROUP BY a.id"
    assert tree(text).tree() == tree(text).tree()
