"""One database, SQLite or PostgreSQL, behind two context managers: `read` and `write`.

SQLite: a deferred transaction that upgrades to a write fails with "database is locked" whatever the timeout,
so every write transaction starts with BEGIN IMMEDIATE, and reads, each a single SELECT, need none at all.
PostgreSQL: plain transactions; what must not move is locked by row.
"""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from typing import Any

from sqlalchemy import URL, Connection, Engine, Table, create_engine, event, func, make_url, select
from sqlalchemy.dialects import postgresql, sqlite
from sqlalchemy.exc import ArgumentError, DBAPIError, SQLAlchemyError

from spark_trickle.errors import TrickleError

_WRITE = "trickle_write"


class OutcomeUnknown(TrickleError):
    """The connection broke during COMMIT: the transaction may or may not have happened.

    Nothing that it would have published may be deleted before `CatalogReader.refresh_entry` was asked.
    """

    def __init__(self, message: str) -> None:
        super().__init__("CATALOG_UNAVAILABLE", message, hint="Look at the history before doing it again.")


class Database:
    """An engine with its locking discipline. Used from any number of threads."""

    def __init__(self, url: str | URL, *, busy_seconds: float = 60.0) -> None:
        self.url = parse_url(url)
        self.shown_url = _shown(self.url)
        self.is_sqlite = self.url.get_backend_name() == "sqlite"
        self._busy_seconds = busy_seconds
        # Threads of one process queue here, not in SQLite's busy handler, which sleeps up to 0.1 s a turn.
        self._gate = threading.Lock() if self.is_sqlite else None
        self._engine = self._create_sqlite() if self.is_sqlite else self._create_postgres()
        self._reads = self._engine if self.is_sqlite else self._engine.execution_options(isolation_level="AUTOCOMMIT")
        self._writes = self._engine.execution_options(**{_WRITE: True})

    def _create_sqlite(self) -> Engine:
        arguments = {"timeout": self._busy_seconds, "check_same_thread": False}
        engine = create_engine(self.url, connect_args=arguments, pool_size=16, max_overflow=-1)

        @event.listens_for(engine, "connect")
        def connect(dbapi_connection: Any, _record: Any) -> None:
            dbapi_connection.isolation_level = None  # the driver starts no transaction of its own
            dbapi_connection.execute("PRAGMA synchronous=NORMAL")

        @event.listens_for(engine, "begin")
        def begin(connection: Connection) -> None:
            if connection.get_execution_options().get(_WRITE):
                connection.exec_driver_sql("BEGIN IMMEDIATE")

        return engine

    def _create_postgres(self) -> Engine:
        arguments = {"connect_timeout": 10, "application_name": "spark-trickle"}
        try:
            engine = create_engine(self.url, connect_args=arguments, pool_size=4, max_overflow=28, pool_pre_ping=True)
        except ImportError as error:
            raise TrickleError(
                "INVALID_SETTING",
                "a PostgreSQL catalog needs the package psycopg",
                hint="Install spark-trickle[postgres].",
            ) from error

        @event.listens_for(engine, "connect")
        def connect(dbapi_connection: Any, _record: Any) -> None:
            # A process that is paused in a transaction would keep its locks, and nobody could take over.
            # By a statement: poolers in front of PostgreSQL refuse it as a parameter of the connection.
            dbapi_connection.autocommit = True
            milliseconds = int(self._busy_seconds * 1000)
            dbapi_connection.execute(f"SET idle_in_transaction_session_timeout = {milliseconds}")
            dbapi_connection.autocommit = False

        return engine

    @contextmanager
    def read(self) -> Iterator[Connection]:
        """A connection for one SELECT: each statement sees the newest committed state."""
        try:
            with self._reads.connect() as connection:
                yield connection
        except SQLAlchemyError as error:
            raise self.translate(error) from error

    @contextmanager
    def write(self) -> Iterator[Connection]:
        """A write transaction: committed at the end of the block, rolled back by any exception."""
        if self._gate is not None and not self._gate.acquire(timeout=self._busy_seconds):
            raise TrickleError(
                "CATALOG_UNAVAILABLE",
                f"the catalog {self.shown_url} was locked by this process for {self._busy_seconds:g} s",
            )
        try:
            with self._writes.connect() as connection:
                transaction = connection.begin()
                try:
                    yield connection
                except BaseException:
                    transaction.rollback()
                    raise
                self._commit(transaction.commit)
        except SQLAlchemyError as error:
            raise self.translate(error) from error
        finally:
            if self._gate is not None:
                self._gate.release()

    def _commit(self, commit: Any) -> None:
        try:
            commit()
        except DBAPIError as error:
            if error.connection_invalidated:
                raise OutcomeUnknown(
                    f"the connection to {self.shown_url} broke during a commit: it may have happened or not"
                ) from error
            raise

    @contextmanager
    def autocommit(self) -> Iterator[Connection]:
        """A connection outside any transaction, for statements that must run so."""
        try:
            with self._engine.connect().execution_options(isolation_level="AUTOCOMMIT") as connection:
                yield connection
        except SQLAlchemyError as error:
            raise self.translate(error) from error

    def insert(self, table: Table) -> Any:
        """INSERT that knows ON CONFLICT, in the dialect of this database."""
        return sqlite.insert(table) if self.is_sqlite else postgresql.insert(table)

    def now(self, connection: Connection) -> datetime:
        """The clock that leases go by: the server's where several hosts share the catalog."""
        if self.is_sqlite:
            return datetime.now(UTC)
        moment: datetime = connection.execute(select(func.clock_timestamp())).scalar_one()
        return moment.astimezone(UTC)

    def translate(self, error: SQLAlchemyError) -> TrickleError:
        cause = getattr(error, "orig", None) or error
        text = str(cause).strip().replace("\n", " ")
        for secret in _secrets(self.url):  # a driver may repeat the connection string
            text = text.replace(secret, "***")
        lower = text.lower()
        where = f"the catalog {self.shown_url}"
        if "disk is full" in lower or getattr(cause, "sqlstate", None) == "53100":
            return TrickleError("STORAGE_FULL", f"{where} has no space left: {text}")
        if "no such table" in lower or "no such column" in lower or "malformed" in lower:
            return TrickleError("CATALOG_CORRUPT", f"{where}: {text}")
        if getattr(cause, "sqlstate", None) in ("42P01", "42703"):
            return TrickleError("CATALOG_CORRUPT", f"{where}: {text}")
        if _unreachable(error, lower):
            return TrickleError("CATALOG_UNAVAILABLE", f"{where} cannot be used: {text}")
        return TrickleError("INTERNAL", f"{where} refuses a statement: {text}")

    def close(self) -> None:
        self._engine.dispose()


def _unreachable(error: SQLAlchemyError, text: str) -> bool:
    from sqlalchemy.exc import InterfaceError, OperationalError
    from sqlalchemy.exc import TimeoutError as PoolTimeout

    if isinstance(error, (OperationalError, InterfaceError, PoolTimeout)) or "not a database" in text:
        return True
    return isinstance(error, DBAPIError) and error.connection_invalidated


def _shown(url: URL) -> str:
    """For messages: SQLAlchemy hides the password, but not one that is in the query."""
    return url.set(query={}).render_as_string(hide_password=True)


def _secrets(url: URL) -> list[str]:
    in_query = [v for key, values in url.normalized_query.items() if "password" in key.lower() for v in values]
    return [str(secret) for secret in (url.password, *in_query) if secret]


def parse_url(text: str | URL) -> URL:
    """The URL with its driver; only what Spark's JDBC catalog can open as well is accepted."""
    try:
        url = make_url(text)
    except (ArgumentError, ValueError) as error:
        # The text may hold a password: it is not repeated.
        raise TrickleError(
            "INVALID_SETTING",
            "the catalog URL cannot be read",
            hint="Write sqlite:///path or postgresql://host/db.",
        ) from error
    backend = url.get_backend_name()
    if backend in ("postgresql", "postgres"):
        return url.set(drivername="postgresql+psycopg")
    if backend == "sqlite" and url.database and url.database != ":memory:":
        return url.set(drivername="sqlite")
    raise TrickleError(
        "INVALID_SETTING",
        f"the catalog URL {_shown(url)} is neither a SQLite file nor PostgreSQL",
        hint="Write sqlite:///path or postgresql://host/db.",
    )
