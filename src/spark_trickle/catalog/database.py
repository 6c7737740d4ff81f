"""Opening a catalog: connect, bring the schema up to date, refuse what is newer."""

from __future__ import annotations

import threading
import time
from pathlib import Path

from sqlalchemy import URL, Connection, String, column, select, table, text
from sqlalchemy.exc import OperationalError, ProgrammingError

from spark_trickle.catalog.connection import Database
from spark_trickle.catalog.migrations import HEAD, REVISIONS, VERSION_TABLE
from spark_trickle.catalog.store import CatalogStore
from spark_trickle.errors import TrickleError

_VERSION = select(column("version_num", String)).select_from(table(VERSION_TABLE))
_LOCK_KEY = 0x747269636B6C65  # "trickle", for PostgreSQL's advisory lock
_ONE_AT_A_TIME = threading.Lock()  # Alembic's context belongs to the process, not to the database


def open_catalog(url: str | URL, *, busy_seconds: float = 60.0) -> CatalogStore:
    """Open the catalog at `url` (sqlite:///path, postgresql://…); tables are made or upgraded where needed.

    `busy_seconds` is how long a writer waits for another one on SQLite, and after how long PostgreSQL ends a
    transaction of a process that does nothing.
    """
    database = Database(url, busy_seconds=busy_seconds)
    try:
        if database.is_sqlite:
            _use_wal(database, busy_seconds)
        with database.read() as connection:
            version = _version(database, connection)
        if version != HEAD:
            _migrate(database)
    except BaseException:
        database.close()
        raise
    return CatalogStore(database)


def _use_wal(database: Database, busy_seconds: float) -> None:
    """WAL is a property of the file: set when it is made, only looked at afterwards."""
    deadline = time.monotonic() + busy_seconds
    while True:
        try:
            with database.autocommit() as connection:
                if connection.exec_driver_sql("PRAGMA journal_mode").scalar() == "wal":
                    return
                if connection.exec_driver_sql("PRAGMA journal_mode=WAL").scalar() == "wal":
                    return
            raise TrickleError("CATALOG_UNAVAILABLE", f"{database.shown_url} cannot use WAL on this file system")
        except TrickleError as error:
            # SQLite does not wait for another process here, whatever the timeout.
            if "locked" not in error.message or time.monotonic() > deadline:
                raise
            time.sleep(0.02)


def _version(database: Database, connection: Connection) -> str | None:
    """The schema's revision; None for a database without our tables."""
    try:
        found = connection.execute(_VERSION).scalars().all()
    except (OperationalError, ProgrammingError) as error:
        # SQLite and PostgreSQL say the same thing in different classes.
        if "no such table" in str(error.orig) or getattr(error.orig, "sqlstate", None) == "42P01":
            return None
        raise
    if len(found) != 1:
        raise TrickleError(
            "CATALOG_CORRUPT", f"table {VERSION_TABLE} of {database.shown_url} has {len(found)} rows, not one"
        )
    version = str(found[0])
    if version not in REVISIONS:
        raise TrickleError(
            "CATALOG_NEWER",
            f"the catalog {database.shown_url} has schema {version}; this Trickle knows {HEAD} at most",
        )
    return version


def _migrate(database: Database) -> None:
    from alembic import command
    from alembic.config import Config

    config = Config()
    location = str(Path(__file__).parent / "migrations")
    config.set_main_option("script_location", location.replace("%", "%%"))
    config.set_main_option("path_separator", "os")
    # The write transaction is the lock on SQLite; who comes second finds the work done.
    with _ONE_AT_A_TIME, database.write() as connection:
        if not database.is_sqlite:
            connection.execute(text("SELECT pg_advisory_xact_lock(:key)"), {"key": _LOCK_KEY})
        if _exists(database, connection) and _version(database, connection) == HEAD:
            return
        config.attributes["connection"] = connection
        command.upgrade(config, "head")


def _exists(database: Database, connection: Connection) -> bool:
    """Asked without an error, which would end a transaction on PostgreSQL."""
    if database.is_sqlite:
        found = "SELECT 1 FROM sqlite_master WHERE name = :name"
    else:
        found = "SELECT 1 WHERE to_regclass(:name) IS NOT NULL"
    return connection.execute(text(found), {"name": VERSION_TABLE}).scalar() is not None
