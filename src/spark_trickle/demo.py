"""A small shop under five stream tables, four rounds of changes, and a verification at the end.

Uses the public interface only. Data and changes follow from the seed: hashes of row numbers, no random
source. What happens is yielded as values; the command line shows them.

Each stream table is refreshed and then computed from scratch (`CREATE OR REPLACE TABLE … AS definition`) in
the same process, one after the other, so that both figures come from the same machine in the same state. Both
are wall time as a caller sees it.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING

from spark_trickle.model import Action
from spark_trickle.results import Verification

if TYPE_CHECKING:
    from spark_trickle.engine import Trickle

PRODUCTS = 2_000
ROWS = 3_000_000


@dataclass(frozen=True, slots=True)
class DemoTable:
    name: str
    what: str
    definition: str


TABLES = (
    DemoTable(
        "shop.open_orders",
        "filter",
        "SELECT order_id, customer_id, ordered_on, status FROM shop.orders WHERE status IN ('new', 'paid')",
    ),
    DemoTable(
        "shop.order_lines",
        "join",
        "SELECT o.order_id, i.line, o.customer_id, o.ordered_on, i.product_id, "
        "i.quantity * i.price AS amount "
        "FROM shop.orders o JOIN shop.items i ON i.order_id = o.order_id WHERE o.status <> 'returned'",
    ),
    DemoTable(
        "shop.product_sales",
        "aggregate",
        "SELECT product_id, count(*) AS sold, sum(quantity) AS pieces, sum(quantity * price) AS revenue, "
        "max(price) AS top_price FROM shop.items GROUP BY product_id",
    ),
    DemoTable(
        "shop.city_revenue",
        "join + aggregate",
        "SELECT c.city, month(o.ordered_on) AS month, count(*) AS lines, "
        "sum(i.quantity * i.price) AS revenue "
        "FROM shop.customers c JOIN shop.orders o ON o.customer_id = c.customer_id "
        "JOIN shop.items i ON i.order_id = o.order_id GROUP BY c.city, month(o.ordered_on)",
    ),
    DemoTable(
        "shop.customer_totals",
        "over order_lines",
        "SELECT customer_id, count(*) AS lines, sum(amount) AS spent, max(ordered_on) AS last_order "
        "FROM shop.order_lines GROUP BY customer_id",
    ),
)


@dataclass(frozen=True, slots=True)
class Filled:
    """The sources are there."""

    rows: dict[str, int]
    seconds: float


@dataclass(frozen=True, slots=True)
class Created:
    name: str
    what: str
    seconds: float


@dataclass(frozen=True, slots=True)
class Changed:
    """A round of changes to the sources."""

    round: int
    what: str
    seconds: float


@dataclass(frozen=True, slots=True)
class Refreshed:
    round: int
    name: str
    what: str
    action: Action
    reason: str
    rows_inserted: int
    rows_updated: int
    rows_deleted: int
    seconds: float
    full_seconds: float


@dataclass(frozen=True, slots=True)
class Checked:
    result: Verification


Event = Filled | Created | Changed | Refreshed | Checked


def run_demo(tr: Trickle, *, rows: int = ROWS, rounds: int = 4, seed: int = 1) -> Iterator[Event]:
    """Run the demo on an empty lake; `rows` is the number of order items."""
    shop = _Shop(tr, rows, seed)
    began = time.perf_counter()
    sizes = shop.fill()
    yield Filled(sizes, time.perf_counter() - began)
    for table in TABLES:
        began = time.perf_counter()
        tr.create_stream_table(table.name, table.definition)
        yield Created(table.name, table.what, time.perf_counter() - began)
    for number in range(1, rounds + 1):
        began = time.perf_counter()
        what = shop.change(number)
        yield Changed(number, what, time.perf_counter() - began)
        for table in TABLES:
            # The table over another one comes last, so each is brought up alone and its time is its own.
            began = time.perf_counter()
            found = tr.refresh(table.name, upstream=False)
            seconds = time.perf_counter() - began
            result = found[-1] if isinstance(found, tuple) else found
            began = time.perf_counter()
            shop.run(f"CREATE OR REPLACE TABLE scratch.{table.name.partition('.')[2]} AS {table.definition}")
            yield Refreshed(
                number,
                table.name,
                table.what,
                result.action,
                result.reason,
                result.rows_inserted,
                result.rows_updated,
                result.rows_deleted,
                seconds,
                time.perf_counter() - began,
            )
    for table in TABLES:
        yield Checked(tr.verify(table.name))


class _Shop:
    """The sources and what happens to them."""

    def __init__(self, tr: Trickle, rows: int, seed: int) -> None:
        self._tr = tr
        self._seed = seed
        self._orders = max(rows // 3, 10)
        self._customers = max(rows // 15, 10)
        self._next_order = self._orders
        # What comes in between two refreshes does not grow with the shop; in a small one it is a quarter of a percent.
        self._step = min(max(self._orders // 400, 2), 250)
        self._sides = max(self._orders // self._step, 400)

    def run(self, statement: str) -> None:
        self._tr.sql(statement)

    def fill(self) -> dict[str, int]:
        self.run("CREATE NAMESPACE IF NOT EXISTS shop")
        self.run("CREATE NAMESPACE IF NOT EXISTS scratch")
        self.run("CREATE TABLE shop.customers (customer_id BIGINT, name STRING, city STRING)")
        self.run("CREATE TABLE shop.orders (order_id BIGINT, customer_id BIGINT, ordered_on DATE, status STRING)")
        self.run(
            "CREATE TABLE shop.items (order_id BIGINT, line INT, product_id INT, quantity INT, price DECIMAL(10, 2))"
        )
        self.run(
            "INSERT INTO shop.customers SELECT id, concat('customer ', id), "
            f"concat('city ', {self._dice('id', 'city', 40)}) FROM range({self._customers})"
        )
        self._add_orders(0, self._orders)
        return {name: self._count(name) for name in ("shop.customers", "shop.orders", "shop.items")}

    def change(self, number: int) -> str:
        """One round: what it does depends on its number."""
        kinds = (
            (self._new_orders,),
            (self._status_updates, self._price_updates),
            (self._deletions,),
            (self._new_orders, self._status_updates, self._price_updates, self._deletions, self._moves),
        )
        return "; ".join(kind(number) for kind in kinds[(number - 1) % len(kinds)])

    def _new_orders(self, number: int) -> str:
        del number
        first = self._next_order
        self._add_orders(first, first + self._step)
        self._next_order += self._step
        return f"{self._step:,} new orders with their items"

    def _status_updates(self, number: int) -> str:
        chosen = self._chosen("order_id", f"status {number}")
        self.run(
            "UPDATE shop.orders SET status = CASE status WHEN 'new' THEN 'paid' WHEN 'paid' THEN 'sent' "
            f"ELSE 'returned' END WHERE {chosen}"
        )
        return "orders change their status"

    def _price_updates(self, number: int) -> str:
        self.run(f"UPDATE shop.items SET price = price + 1 WHERE {self._chosen('order_id', f'price {number}')}")
        return "items change their price"

    def _deletions(self, number: int) -> str:
        chosen = self._chosen("order_id", f"delete {number}")
        self.run(f"DELETE FROM shop.items WHERE {chosen}")
        self.run(f"DELETE FROM shop.orders WHERE {chosen}")
        return "orders are deleted with their items"

    def _moves(self, number: int) -> str:
        self.run(
            "MERGE INTO shop.customers t USING (SELECT customer_id, "
            f"concat('city ', {self._dice('customer_id', 'move', 40)}) AS city "
            f"FROM shop.customers WHERE {self._chosen('customer_id', f'move {number}')}) s "
            "ON t.customer_id = s.customer_id WHEN MATCHED THEN UPDATE SET t.city = s.city"
        )
        return "customers move"

    def _add_orders(self, first: int, last: int) -> None:
        customer = f"{self._dice('id', 'customer', self._customers)}"
        day = self._dice("id", "day", 365)
        status = f"element_at(array('new', 'paid', 'sent', 'sent'), 1 + {self._dice('id', 'status', 4)})"
        self.run(
            f"INSERT INTO shop.orders SELECT id, {customer}, date_add(DATE'2025-01-01', {day}), {status} "
            f"FROM range({first}, {last})"
        )
        lines = f"sequence(1, 1 + {self._dice('id', 'lines', 5)})"  # 1 to 5, 3 on average
        self.run(
            "INSERT INTO shop.items SELECT id, line, "
            f"{self._dice('id * 8 + line', 'product', PRODUCTS)}, "
            f"1 + {self._dice('id * 8 + line', 'quantity', 4)}, "
            f"CAST({self._dice('id * 8 + line', 'price', 20_000)} / 100 + 1 AS DECIMAL(10, 2)) "
            f"FROM range({first}, {last}) LATERAL VIEW explode({lines}) AS line"
        )

    def _dice(self, key: str, what: str, sides: int) -> str:
        """A number from 0 to sides - 1 that looks random and is not."""
        return f"CAST(pmod(xxhash64({key}, '{what}', {self._seed}), {sides}) AS INT)"

    def _chosen(self, key: str, what: str) -> str:
        return f"{self._dice(key, what, self._sides)} = 0"

    def _count(self, name: str) -> int:
        frame = self._tr.spark.table(name)
        return int(frame.count())
