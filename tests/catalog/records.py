"""Records that the catalog tests write."""

from __future__ import annotations

import json
from dataclasses import replace
from datetime import UTC, datetime
from typing import Any

from spark_trickle.catalog.store import CatalogStore, Transaction
from spark_trickle.errors import TrickleError
from spark_trickle.model import Column, Dependency, InputKind, Mode, Pointer, StreamTable, TableName, UsedColumn

REVENUE = TableName("sales", "revenue")
ORDERS = TableName("shop.eu", "orders")


def add_revenue(tx: Transaction, **changes: Any) -> int:
    values: dict[str, Any] = {
        "name": REVENUE,
        "definition": "SELECT 'it''s' AS ü FROM orders",
        "namespace": "shop.eu",
        "mode": Mode.AUTO,
        "schedule": "1m",
        "columns": (Column("ü", "string"), Column("total", "decimal(12,2)")),
        "incremental": True,
        "reason": None,
        "fingerprint": "f1",
        "layout": json.dumps({"identity": ["ü"]}),
    }
    values |= changes
    owner_id = values.pop("owner_id", None)
    draft = StreamTable.draft(
        values["name"], values["definition"], values["namespace"], values["mode"], datetime.now(UTC)
    )
    return tx.save_stream_table(replace(draft, **values), owner_id)


def orders_dependency(**changes: Any) -> Dependency:
    values: dict[str, Any] = {
        "input": ORDERS,
        "kind": InputKind.SOURCE,
        "columns": (UsedColumn("o_total", "decimal(12,2)", 3),),
        "table_uuid": "0f5c7c1e-0000-4000-8000-000000000000",
        "snapshot_id": 2**62 + 1,
        "schema_id": 0,
        "pointer": "file:/w/orders/metadata/00001.json",
    }
    return Dependency(**(values | changes))


def table_pointer(name: TableName, version: int = 1, *, is_view: bool = False) -> Pointer:
    return Pointer(name, f"file:/w/{name}/metadata/{version:05d}.json", is_view)


def all_rows(store: CatalogStore) -> dict[str, list[tuple[Any, ...]]]:
    """The whole content of the database, to compare before and after."""
    from sqlalchemy import select

    from spark_trickle.catalog.tables import metadata

    content = {}
    with store.database.read() as connection:
        for table in metadata.sorted_tables:
            content[table.name] = [tuple(row) for row in connection.execute(select(table).order_by(*table.primary_key))]
    return content


def code_of(error: Any) -> str:
    assert isinstance(error.value, TrickleError)
    return error.value.code
