"""The catalog's tables as SQLAlchemy Core metadata: two of Iceberg's, the rest ours.

All live in one database, so a publish (pointers, frontier, history) is one transaction. Columns that hold
JSON are plain text and are decoded in `rows`, where a bad value can be named.
"""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

from sqlalchemy import (
    BigInteger,
    Boolean,
    Column,
    DateTime,
    Dialect,
    Double,
    ForeignKey,
    Index,
    Integer,
    MetaData,
    String,
    Table,
    Text,
    TypeDecorator,
    UniqueConstraint,
    literal,
)
from sqlalchemy.types import TypeEngine

metadata = MetaData()


class Moment(TypeDecorator[datetime]):
    """An instant in UTC: timestamptz on PostgreSQL, ISO text on SQLite.

    A text that is no instant is passed on as it is: the reader, which knows row and column, reports it.
    """

    impl = DateTime(timezone=True)
    cache_ok = True

    def load_dialect_impl(self, dialect: Dialect) -> TypeEngine[Any]:
        if dialect.name == "sqlite":
            return dialect.type_descriptor(String(40))
        return dialect.type_descriptor(DateTime(timezone=True))

    def process_bind_param(self, value: datetime | None, dialect: Dialect) -> Any:
        if value is None:
            return None
        if value.tzinfo is None:
            raise ValueError(f"a time without a zone: {value!r}")
        value = value.astimezone(UTC)
        # Fixed width, so that text order is time order.
        return value.isoformat(timespec="microseconds") if dialect.name == "sqlite" else value

    def process_result_value(self, value: Any, dialect: Dialect) -> Any:  # noqa: ARG002
        if isinstance(value, str):
            try:
                value = datetime.fromisoformat(value)
            except ValueError:
                return value
        if isinstance(value, datetime) and value.tzinfo not in (None, UTC):
            return value.astimezone(UTC)
        return value


class Flag(TypeDecorator[bool]):
    """True or false; on SQLite 1 or 0, and anything else is passed on for the reader to report."""

    impl = Boolean
    cache_ok = True

    def load_dialect_impl(self, dialect: Dialect) -> TypeEngine[Any]:
        return dialect.type_descriptor(Integer() if dialect.name == "sqlite" else Boolean())

    def process_result_value(self, value: Any, dialect: Dialect) -> Any:  # noqa: ARG002
        return bool(value) if value in (0, 1) else value


# Iceberg's JDBC catalog, schema V1. Iceberg makes these itself when they are missing.
iceberg_tables = Table(
    "iceberg_tables",
    metadata,
    Column("catalog_name", String(255), primary_key=True),
    Column("table_namespace", String(255), primary_key=True),
    Column("table_name", String(255), primary_key=True),
    Column("metadata_location", String(1000)),
    Column("previous_metadata_location", String(1000)),
    Column("iceberg_type", String(5)),
)

iceberg_namespaces = Table(
    "iceberg_namespace_properties",
    metadata,
    Column("catalog_name", String(255), primary_key=True),
    Column("namespace", String(255), primary_key=True),
    Column("property_key", String(255), primary_key=True),
    Column("property_value", String(1000)),
)

stream_tables = Table(
    "trickle_stream_tables",
    metadata,
    Column("id", Integer, primary_key=True),
    Column("namespace", String(255), nullable=False),
    Column("name", String(255), nullable=False),
    Column("definition", Text, nullable=False),
    Column("default_namespace", String(255), nullable=False),
    Column("mode", String(20), nullable=False),
    Column("schedule", String(255)),
    Column("status", String(20), nullable=False),
    Column("columns", Text, nullable=False),
    Column("incremental", Flag, nullable=False),
    Column("reason", Text),
    Column("fingerprint", String(255), nullable=False),
    Column("layout", Text, nullable=False),
    Column("published_snapshot", BigInteger),
    Column("published_pointer", Text),
    Column("data_timestamp", Moment),
    Column("consecutive_errors", Integer, nullable=False),
    Column("last_error", Text),
    Column("created_at", Moment, nullable=False),
    Column("scc_id", Integer),
    Column("diamond_consistency", String(20)),  # NULL: the lake's
    Column("diamond_schedule_policy", String(20)),  # NULL: the lake's
    Column("freshness_deadline", Moment),
    Column("compiled", Text),
    Column("functions_used", Text),
    Column("star", String(20), nullable=False, server_default="PIN"),
    Column("shapes", Text),
    Column("settings", Text),
    Column("table_uuid", String(64)),
    Column("file_schema", Text),
    # A hidden state table belongs to the stream table whose definition it is a part of.
    Column("owner_id", Integer, ForeignKey("trickle_stream_tables.id")),
    UniqueConstraint("namespace", "name", name="trickle_stream_tables_name"),
    sqlite_autoincrement=True,  # an id is never given twice: lease names and history refer to it
)

dependencies = Table(
    "trickle_dependencies",
    metadata,
    Column("id", Integer, primary_key=True),
    Column("stream_table_id", Integer, ForeignKey("trickle_stream_tables.id"), nullable=False),
    Column("position", Integer, nullable=False),
    Column("input_namespace", String(255), nullable=False),
    Column("input_name", String(255), nullable=False),
    Column("kind", String(20), nullable=False),
    Column("columns", Text, nullable=False),
    Column("table_uuid", String(64)),
    Column("snapshot_id", BigInteger),
    Column("schema_id", Integer),
    Column("pointer", String(1000)),
    UniqueConstraint("stream_table_id", "input_namespace", "input_name", name="trickle_dependencies_input"),
)

refresh_history = Table(
    "trickle_refresh_history",
    metadata,
    Column("id", Integer, primary_key=True),
    Column("refresh_id", String(64), nullable=False, unique=True),
    # Not a foreign key: history outlives the stream table.
    Column("stream_table_id", Integer),
    Column("name", String(511), nullable=False),
    Column("state", String(20), nullable=False),
    Column("action", String(20)),
    Column("reason", Text),
    Column("initiated_by", String(255), nullable=False),
    Column("process", String(8)),
    Column("started_at", Moment, nullable=False),
    Column("ended_at", Moment),
    Column("seconds", Double),
    Column("rows_inserted", BigInteger, nullable=False),
    Column("rows_updated", BigInteger, nullable=False),
    Column("rows_deleted", BigInteger, nullable=False),
    Column("rows_changed", Text, nullable=False),
    Column("stages", Text, nullable=False),
    Column("error_code", String(64)),
    Column("error", Text),
    Column("bytes_read", BigInteger),
    Column("bytes_written", BigInteger),
    Column("fixpoint_iteration", Integer),
    Column("freshness_deadline", Moment),
    Column("snapshot_id", BigInteger),  # of the stream table: what this refresh published
    Column("data_timestamp", Moment),  # that the stream table got; NULL: it kept the one it had
    Column("group_epoch", BigInteger),  # of the group that was published together
    Index("trickle_refresh_history_name", "name", "id"),
    Index("trickle_refresh_history_started", "started_at"),
    Index("trickle_refresh_history_state", "state"),
    Index("trickle_refresh_history_table", "stream_table_id", "id"),
)

# The last failure of those that fail is asked for at every step of the scheduler.
failed = refresh_history.c.state == literal("FAILED", literal_execute=True)
Index(
    "trickle_refresh_history_failed",
    refresh_history.c.stream_table_id,
    refresh_history.c.state,  # always the same; SQLite does not see that the index has all that is asked for else
    refresh_history.c.ended_at,
    sqlite_where=failed,
    postgresql_where=failed,
)

# Where the columns of a stream table come from; beside the stream tables, which are read once a second.
lineage = Table(
    "trickle_lineage",
    metadata,
    Column("stream_table_id", Integer, ForeignKey("trickle_stream_tables.id"), primary_key=True),
    Column("lineage", Text, nullable=False),
)

# What a refresh removed and added, in files of its own, for consumers that have not seen it yet.
change_log = Table(
    "trickle_change_log",
    metadata,
    Column("id", Integer, primary_key=True),
    Column("stream_table_id", Integer, ForeignKey("trickle_stream_tables.id"), nullable=False),
    Column("from_snapshot", BigInteger, nullable=False),
    Column("to_snapshot", BigInteger, nullable=False),
    Column("rows", BigInteger, nullable=False),
    Column("files", Text, nullable=False),
    Column("created_at", Moment, nullable=False),
    Index("trickle_change_log_table", "stream_table_id", "id"),
    sqlite_autoincrement=True,  # ids are the order of publishing
)

sources = Table(
    "trickle_sources",
    metadata,
    Column("id", Integer, primary_key=True),
    Column("namespace", String(255), nullable=False),
    Column("name", String(255), nullable=False),
    Column("kind", String(20), nullable=False),
    Column("state", Text),
    Column("created_at", Moment, nullable=False),
    UniqueConstraint("namespace", "name", name="trickle_sources_name"),
)

# A free lease keeps its row: the token must never go back.
leases = Table(
    "trickle_leases",
    metadata,
    Column("name", String(255), primary_key=True),
    Column("token", BigInteger, nullable=False),
    Column("owner_id", String(8)),
    Column("host", String(255)),
    Column("machine", String(255)),
    Column("pid", Integer),
    Column("start_mark", String(64)),
    Column("acquired_at", Moment),
    Column("expires_at", Moment),
)

settings = Table(
    "trickle_settings",
    metadata,
    Column("key", String(255), primary_key=True),
    Column("value", Text, nullable=False),
)

alerts = Table(
    "trickle_alerts",
    metadata,
    Column("id", Integer, primary_key=True),
    Column("created_at", Moment, nullable=False),
    Column("severity", String(20), nullable=False),
    Column("kind", String(64), nullable=False),
    Column("name", String(511)),
    Column("message", Text, nullable=False),
    Column("last_seen_at", Moment),
    Column("occurrences", Integer, nullable=False, server_default="1"),
    Column("resolved_at", Moment),
)
Index(
    "trickle_alerts_open",
    alerts.c.kind,
    alerts.c.name,
    unique=True,
    sqlite_where=alerts.c.resolved_at.is_(None),
    postgresql_where=alerts.c.resolved_at.is_(None),
)

# What is to be told about alerts. A row without a target waits for the scheduler that leads, which logs it and makes
# one row for each webhook of it.
outbox = Table(
    "trickle_outbox",
    metadata,
    Column("id", Integer, primary_key=True),
    Column("notice", String(32), nullable=False),
    Column("target", String(32)),
    Column("body", Text, nullable=False),
    Column("created_at", Moment, nullable=False),
    Column("attempts", Integer, nullable=False),
    Column("next_at", Moment, nullable=False),
    Column("last_error", Text),
    Index("trickle_outbox_target", "target", "id"),
    sqlite_autoincrement=True,  # ids are the order of telling
)

cuts = Table(
    "trickle_cuts",
    metadata,
    Column("name", String(255), primary_key=True),
    Column("catalog_name", String(255), nullable=False, unique=True),
    Column("created_at", Moment, nullable=False),
    Column("comment", Text),
)

# What became of the refreshes of groups. Which groups there are follows from definitions and settings.
groups = Table(
    "trickle_groups",
    metadata,
    Column("id", Integer, primary_key=True),
    Column("members", Text, nullable=False),  # ids of stream tables
    Column("epoch", BigInteger, nullable=False),  # how often they were published together
    Column("state", String(20), nullable=False),
    Column("at", Moment, nullable=False),
    Column("error", Text),
)

functions = Table(
    "trickle_functions",
    metadata,
    Column("name", String(255), primary_key=True),  # in lower case: Spark's function names have no case
    Column("path", Text, nullable=False),
    Column("returns", Text, nullable=False),
    Column("deterministic", Flag, nullable=False),
    Column("created_at", Moment, nullable=False),
)

garbage = Table(
    "trickle_garbage",
    metadata,
    Column("id", Integer, primary_key=True),
    Column("kind", String(20), nullable=False),
    Column("location", Text, nullable=False),
    Column("created_at", Moment, nullable=False),
    Column("not_before", Moment),
    Column("reason", Text),
)
