"""Writing Iceberg's own tables of the catalog: which metadata file a table or view of a catalog is at."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from sqlalchemy import Connection, and_, delete, insert, literal, select, update

from spark_trickle.catalog import tables
from spark_trickle.catalog.connection import Database
from spark_trickle.errors import TrickleError
from spark_trickle.model import LAKE, Pointer, TableName

NAME_LENGTH = 255  # of Iceberg's columns
_LOCATION_LENGTH = 1000


class PointerWriter:
    """The part of a transaction that moves pointers."""

    def __init__(self, database: Database, connection: Connection) -> None:
        self.connection = connection
        self._database = database

    def swap_pointer(self, name: TableName, old: str, new: str) -> None:
        """Move a table of the lake to its next metadata; moved by somebody else: PUBLISH_CONFLICT."""
        p = tables.iceberg_tables
        statement = update(p).where(and_(at(LAKE, name), p.c.metadata_location == old))
        changed = self.connection.execute(
            statement.values(metadata_location=_location(new), previous_metadata_location=old)
        )
        if changed.rowcount != 1:
            raise conflict(name)

    def insert_pointer(self, pointer: Pointer) -> None:
        """A new table or view of the lake, with its namespace; something has the name: NAME_TAKEN."""
        p = tables.iceberg_tables
        statement = self._database.insert(p).values(**_pointer_values(LAKE, pointer))
        added = self.connection.execute(statement.on_conflict_do_nothing().returning(p.c.table_name)).scalar()
        if added is None:
            raise TrickleError("NAME_TAKEN", f"there is a table or view {pointer.name} already")
        self.ensure_namespace(pointer.name.namespace)

    def delete_pointer(self, name: TableName) -> bool:
        """Whether there was one. The files stay."""
        return self.connection.execute(delete(tables.iceberg_tables).where(at(LAKE, name))).rowcount == 1

    def ensure_namespace(self, namespace: str, catalog: str = LAKE) -> None:
        self._ensure_namespaces(catalog, [namespace])

    def copy_pointers(self, catalog: str, pointers: Iterable[Pointer], namespaces: Iterable[str]) -> None:
        """Make a private catalog of these tables and views."""
        _not_the_lake(catalog)
        values = [_pointer_values(catalog, pointer) for pointer in pointers]
        if values:
            self.connection.execute(insert(tables.iceberg_tables), values)
        self._ensure_namespaces(catalog, namespaces)

    def move_private_pointer(self, catalog: str, name: TableName, location: str) -> None:
        """Set a table of a private catalog back to a metadata file."""
        _not_the_lake(catalog)
        p = tables.iceberg_tables
        self.connection.execute(update(p).where(at(catalog, name)).values(metadata_location=_location(location)))

    def copy_lake(self, catalog: str) -> None:
        """Make a catalog of every table, view and namespace of the lake: a cut."""
        _not_the_lake(catalog)
        for table in (tables.iceberg_tables, tables.iceberg_namespaces):
            columns = [c for c in table.c if c.name != "catalog_name"]
            chosen = select(literal(catalog), *columns).where(table.c.catalog_name == LAKE)
            copied = insert(table).from_select(["catalog_name", *(c.name for c in columns)], chosen)
            self.connection.execute(copied)

    def drop_catalog(self, catalog: str) -> None:
        """Remove a private catalog or cut. The files stay."""
        _not_the_lake(catalog)
        for table in (tables.iceberg_tables, tables.iceberg_namespaces):
            self.connection.execute(delete(table).where(table.c.catalog_name == catalog))

    def _ensure_namespaces(self, catalog: str, namespaces: Iterable[str]) -> None:
        # Iceberg marks a namespace without properties by this one.
        values = [
            {"catalog_name": catalog, "namespace": n, "property_key": "exists", "property_value": "true"}
            for n in sorted(set(namespaces))
        ]
        if values:
            statement = self._database.insert(tables.iceberg_namespaces).on_conflict_do_nothing()
            self.connection.execute(statement, values)


def checked(name: TableName) -> TableName:
    for part in (name.namespace, name.name):
        if not part or len(part) > NAME_LENGTH:
            raise TrickleError("INVALID_NAME", f"a part of {str(name)[:80]!r} is empty or over {NAME_LENGTH} long")
    return name


def conflict(name: TableName) -> TrickleError:
    return TrickleError("PUBLISH_CONFLICT", f"{name} was changed or dropped by somebody else")


def at(catalog: str, name: TableName) -> Any:
    p = tables.iceberg_tables
    return and_(p.c.catalog_name == catalog, p.c.table_namespace == name.namespace, p.c.table_name == name.name)


def _not_the_lake(catalog: str) -> None:
    if catalog == LAKE:
        raise TrickleError("INTERNAL", f"the catalog {LAKE} is not a private catalog")


def _location(text: str) -> str:
    # SQLite would store it, PostgreSQL refuse it; Iceberg could not commit the next version either way.
    if len(text) > _LOCATION_LENGTH:
        raise TrickleError(
            "INVALID_SETTING",
            f"a metadata location has {len(text)} characters, over {_LOCATION_LENGTH}: {text[:80]}...",
            hint="Use a shorter warehouse location or table name.",
        )
    return text


def _pointer_values(catalog: str, pointer: Pointer) -> dict[str, Any]:
    return {
        "catalog_name": catalog,
        "table_namespace": checked(pointer.name).namespace,
        "table_name": pointer.name.name,
        "metadata_location": _location(pointer.location),
        "iceberg_type": "VIEW" if pointer.is_view else "TABLE",
    }
