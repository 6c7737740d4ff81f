"""check: what it says about queries of every kind, and that it creates nothing."""

from __future__ import annotations

from pathlib import Path

import pytest

from spark_trickle import Trickle
from spark_trickle.delta.maintained import maintained
from spark_trickle.errors import Reason, TrickleError
from spark_trickle.model import InputKind
from spark_trickle.refresh.check import obstacle
from spark_trickle.results import Check
from spark_trickle.sql import algebra
from spark_trickle.sql.reasons import REASONS

DELTA_SIDE = {"AsOf", "Changes", "Empty", "Weigh", "Restrict", "Named", "Stored", "Unary", "Operator"}


def test_every_operator_is_described() -> None:
    operators = [
        c
        for c in vars(algebra).values()
        if isinstance(c, type) and issubclass(c, algebra.Operator) and c.__name__ not in DELTA_SIDE
    ]
    default = maintained.dispatch(object)
    assert not [c.__name__ for c in operators if maintained.dispatch(c) is default], (
        "describe it in delta/maintained.py"
    )


def test_a_reason_taken_apart() -> None:
    query = "\n  SELECT rand()\n  FROM t"
    found = obstacle(query, Reason("VOLATILE", "rand() is not deterministic", "line 2, column 10"))
    assert (found.reason, found.word, found.line, found.column) == ("VOLATILE", "never", 2, 10)
    assert found.message == "rand() is not deterministic"
    assert found.shown.splitlines() == ["    SELECT rand()", "           ^^^^"]
    assert found.change == REASONS["VOLATILE"].change
    nowhere = obstacle(query, Reason("MAP_KEY", "GROUP BY or DISTINCT over a map (m) has no delta rule yet"))
    assert (nowhere.reason, nowhere.line, nowhere.shown) == ("MAP_KEY", None, "")


def test_a_place_after_the_name_of_the_catalog() -> None:
    query = "SELECT * FROM lake.s.orders o JOIN lake.s.orders p ON o.id = p.id AND rand() < 1"
    cut = query.replace("lake.", "")
    found = obstacle(query, Reason("VOLATILE", "x", f"line 1, column {cut.index('rand') + 1}"))
    assert found.column == query.index("rand") + 1


@pytest.fixture(scope="module")
def lake(module_tr: Trickle) -> Trickle:
    tr = module_tr
    tr.sql("CREATE TABLE s.orders (id BIGINT, customer BIGINT, amount DECIMAL(10, 2), price DOUBLE, made DATE)")
    tr.sql("INSERT INTO s.orders SELECT id, id % 7, id, id / 3, DATE'2024-01-01' FROM range(100)")
    tr.sql("CREATE TABLE s.customers (id BIGINT, city STRING)")
    tr.sql("INSERT INTO s.customers SELECT id, concat('c', id % 3) FROM range(7)")
    tr.sql("CREATE VIEW s.big AS SELECT * FROM s.orders WHERE amount > 50")
    return tr


def how(found: Check, label: str) -> str:
    return next(o.how for o in found.operators if o.label.startswith(label))


@pytest.mark.spark
class TestLake:
    def test_incremental(self, lake: Trickle) -> None:
        found = lake.check(
            "SELECT c.city, count(*) AS n, sum(o.amount) AS total FROM s.orders o "
            "JOIN s.customers c ON o.customer = c.id WHERE o.amount > 3 GROUP BY c.city ORDER BY city;"
        )
        assert found.incremental
        assert found.obstacle is None
        assert [c.name for c in found.columns] == ["city", "n", "total"]
        assert "added to hidden states" in how(found, "Aggregate")
        assert "meet the others" in how(found, "Join")
        assert "change feed" in how(found, "Scan s.orders")
        customers, orders = found.inputs
        assert (customers.name, customers.kind, customers.rows) == ("s.customers", InputKind.SOURCE, 7)
        assert (orders.name, orders.columns, orders.rows) == ("s.orders", ("customer", "amount"), 100)
        # A changed order looks for its customer, a changed customer for its orders.
        assert (customers.also_read, orders.also_read) == (("s.orders",), ("s.customers",))
        assert any("ORDER BY is ignored" in n for n in found.notices)
        assert found.delta_sql is not None
        assert "incremental" in str(found).splitlines()[0]

    def test_recomputed_groups_read_the_input(self, lake: Trickle) -> None:
        found = lake.check("SELECT customer, avg(price) AS a, collect_list(id) AS ids FROM s.orders GROUP BY customer")
        assert "recomputed" in how(found, "Aggregate")
        assert found.inputs[0].also_read == ("s.orders",)
        assert any(n.startswith("column a:") and "floats" in n for n in found.notices)
        assert any(n.startswith("column ids:") and "UNDETERMINED" in n for n in found.notices)

    def test_state_tables(self, lake: Trickle) -> None:
        counts = "SELECT customer, count(*) AS n FROM s.orders GROUP BY customer"
        query = f"SELECT n, count(*) AS many FROM ({counts}) GROUP BY n"
        found = lake.check(query)
        assert found.incremental
        assert "hidden table" in how(found, "State table 1")
        assert sum(o.label.startswith("Aggregate") for o in found.operators) == 2
        assert [i.name for i in found.inputs] == ["s.orders"]

    def test_views_are_named(self, lake: Trickle) -> None:
        found = lake.check("SELECT id FROM s.big")
        assert (found.incremental, found.views) == (True, ("s.big",))
        assert [i.name for i in found.inputs] == ["s.orders"]

    def test_not_incremental(self, lake: Trickle) -> None:
        found = lake.check("SELECT id,\n       rand() AS r\nFROM s.orders")
        assert not found.incremental
        assert found.obstacle is not None
        assert (found.obstacle.reason, found.obstacle.word) == ("VOLATILE", "never")
        assert (found.obstacle.line, found.obstacle.column) == (2, 8)
        assert "^^^^" in found.obstacle.shown
        assert found.delta_sql is None
        assert [i.name for i in found.inputs] == ["s.orders"]
        shown = str(found)
        assert "not incremental" in shown
        assert found.obstacle.change in shown

    def test_refused_above_a_tree(self, lake: Trickle) -> None:
        found = lake.check("SELECT map('a', id) AS m, count(*) AS n FROM s.orders GROUP BY map('a', id)")
        assert not found.incremental
        assert found.obstacle is not None
        assert found.obstacle.reason == "MAP_KEY"
        assert found.operators

    def test_a_create_statement_keeps_its_places(self, lake: Trickle) -> None:
        found = lake.check(
            "CREATE STREAM TABLE s.x SCHEDULE '1m' AS\n  SELECT uuid() AS u FROM s.orders; -- that is all"
        )
        assert found.obstacle is not None
        assert (found.obstacle.line, found.obstacle.column) == (2, 10)
        with pytest.raises(TrickleError, match="no query"):
            lake.check("DROP STREAM TABLE s.x")

    def test_errors_are_those_of_creation(self, lake: Trickle) -> None:
        for query, code in (
            ("SELECT nope FROM s.orders", "UNKNOWN_COLUMN"),
            ("SELECT id FROM s.nowhere", "UNKNOWN_TABLE"),
            ("SELECT id, id FROM s.orders", "DUPLICATE_COLUMN"),
            ("SELEC 1", "SYNTAX_ERROR"),
            ("DROP TABLE s.orders", "SYNTAX_ERROR"),
        ):
            with pytest.raises(TrickleError) as error:
                lake.check(query)
            assert error.value.code == code
        assert lake.sql("SELECT count(*) FROM s.orders").first()[0] == 100

    def test_nothing_is_created(self, lake: Trickle) -> None:
        def everything() -> tuple[object, ...]:
            folder = lake.settings.warehouse_path or Path()
            files = {str(f.relative_to(folder)) for f in folder.rglob("*") if f.is_file()}
            return lake.status(), lake.history(), lake.store.pointers(), files

        before = everything()
        lake.check(
            "SELECT n, count(*) AS m FROM (SELECT customer, sum(price) AS n FROM s.orders GROUP BY 1) GROUP BY n"
        )
        lake.check("SELECT rand() AS r FROM s.orders")
        assert everything() == before
