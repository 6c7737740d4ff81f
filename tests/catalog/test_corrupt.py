"""A value that cannot be read names its table, row and column."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from sqlalchemy import text

from spark_trickle.catalog.database import open_catalog
from spark_trickle.catalog.leases import acquire
from spark_trickle.catalog.store import CatalogStore
from spark_trickle.errors import TrickleError
from tests.catalog.records import ORDERS, REVENUE, add_revenue, code_of, orders_dependency, table_pointer


def fill(store: CatalogStore) -> None:
    with store.write() as tx:
        id = add_revenue(tx)
        tx.set_dependencies(id, [orders_dependency()])
        tx.start_refresh("r1", id, str(REVENUE), "manual")
        tx.insert_pointer(table_pointer(ORDERS))


def damage(store: CatalogStore, table: str, column: str, value: str) -> None:
    with store.write() as tx:
        tx.connection.execute(text(f"UPDATE {table} SET {column} = :value"), {"value": value})


BAD_TEXT = [
    ("trickle_stream_tables", "mode", "SOMETIMES"),
    ("trickle_stream_tables", "status", ""),
    ("trickle_stream_tables", "columns", "[{"),
    ("trickle_stream_tables", "columns", '{"name": 1}'),
    ("trickle_stream_tables", "columns", '[{"name": "a"}]'),
    ("trickle_stream_tables", "columns", '[{"name": "a", "type": 7}]'),
    ("trickle_stream_tables", "layout", "not json"),
    ("trickle_stream_tables", "functions_used", '["net"]'),
    ("trickle_stream_tables", "functions_used", '{"net": 1}'),
    ("trickle_stream_tables", "settings", '{"spark.sql.x": 1}'),
    ("trickle_stream_tables", "shapes", '[{"namespace": "a", "name": "b", "uuid": "u"}]'),
    ("trickle_stream_tables", "shapes", '{"namespace": "a"}'),
    ("trickle_stream_tables", "file_schema", "[]"),
    ("trickle_dependencies", "kind", "TABLE"),
    ("trickle_dependencies", "columns", '[{"name": "a", "type": "int", "field_id": true}]'),
    ("trickle_dependencies", "columns", '[{"name": "a", "type": "int", "field_id": 1.0}]'),
    ("trickle_dependencies", "columns", '[{"name": "a", "type": "int", "field_id": "1"}]'),
    ("trickle_dependencies", "columns", "null"),
    ("trickle_refresh_history", "action", "GUESS"),
    ("trickle_refresh_history", "state", "running"),
    ("trickle_refresh_history", "stages", '{"feed": "long"}'),
    ("trickle_refresh_history", "stages", '{"feed": true}'),
    ("trickle_refresh_history", "rows_changed", "[1]"),
]

# SQLite stores any text in any column.
BAD_TYPE = [
    ("trickle_stream_tables", "created_at", "yesterday"),
    ("trickle_stream_tables", "created_at", "2026-01-01T00:00:00"),
    ("trickle_stream_tables", "data_timestamp", ""),
    ("trickle_stream_tables", "published_snapshot", "12x"),
    ("trickle_stream_tables", "consecutive_errors", "many"),
    ("trickle_stream_tables", "incremental", "perhaps"),
    ("trickle_dependencies", "snapshot_id", "x"),
    ("trickle_refresh_history", "seconds", "long"),
    ("trickle_refresh_history", "rows_inserted", "1.5"),
    ("trickle_refresh_history", "started_at", "x"),
]


def readers(store: CatalogStore, table: str) -> list[Callable[[], object]]:
    if table == "trickle_refresh_history":
        return [store.history, lambda: store.refresh_entry("r1")]
    return [
        store.stream_tables,
        lambda: store.stream_table(REVENUE),
        lambda: store.snapshot_for_check(REVENUE),
    ]


def check(store: CatalogStore, table: str, column: str, value: str) -> None:
    fill(store)
    for read in readers(store, table):
        read()  # readable before
    damage(store, table, column, value)
    for read in readers(store, table):
        with pytest.raises(TrickleError) as error:
            read()
        assert code_of(error) == "CATALOG_CORRUPT"
        assert error.value.message.startswith(f"table {table}, row 1, column {column}: ")


@pytest.mark.parametrize(("table", "column", "value"), BAD_TEXT)
def test_bad_text(store: CatalogStore, table: str, column: str, value: str) -> None:
    check(store, table, column, value)


@pytest.mark.parametrize(("table", "column", "value"), BAD_TYPE)
def test_bad_type(sqlite_url: str, table: str, column: str, value: str) -> None:
    store = open_catalog(sqlite_url)
    check(store, table, column, value)
    store.close()


def test_bytes_are_no_text(sqlite_url: str) -> None:
    store = open_catalog(sqlite_url)
    fill(store)
    with store.write() as tx:
        tx.connection.execute(text("UPDATE trickle_stream_tables SET columns = CAST(columns AS BLOB)"))
    with pytest.raises(TrickleError, match="row 1, column columns: b'"):
        store.stream_tables()
    store.close()


def test_the_place_inside_a_json_column_is_named(store: CatalogStore) -> None:
    fill(store)
    damage(store, "trickle_stream_tables", "columns", '[{"name": "a", "type": "int"}, {"name": "b", "type": 7}]')
    with pytest.raises(TrickleError) as error:
        store.stream_tables()
    assert "column columns: " in error.value.message
    assert "(1.type: " in error.value.message
    assert len(error.value.message) < 200, "a long value is shortened"


def test_a_pointer_to_nothing(store: CatalogStore) -> None:
    fill(store)
    with store.write() as tx:
        tx.connection.execute(text("UPDATE iceberg_tables SET metadata_location = NULL"))
    for read in (store.pointers, lambda: store.snapshot_for_check(REVENUE)):
        with pytest.raises(TrickleError) as error:
            read()
        assert code_of(error) == "CATALOG_CORRUPT"
        assert "iceberg_tables, row shop.eu.orders, column metadata_location" in error.value.message


def test_a_lease_without_a_host(store: CatalogStore) -> None:
    acquire(store, ["a"], store.owner, 60, 0)
    with store.write() as tx:
        tx.connection.execute(text("UPDATE trickle_leases SET host = NULL"))
    with pytest.raises(TrickleError) as error:
        acquire(store, ["a"], store.owner, 60, 0)
    assert code_of(error) == "CATALOG_CORRUPT"
    assert "table trickle_leases, row a, column host" in error.value.message
