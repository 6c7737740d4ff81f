"""Make Iceberg's two catalog tables where they are missing, and all of Trickle's."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0001"
down_revision: str | None = None
branch_labels: str | None = None
depends_on: str | None = None


def moment() -> sa.DateTime:
    return sa.DateTime(timezone=True).with_variant(sa.String(40), "sqlite")


def upgrade() -> None:
    _iceberg()
    op.create_table(
        "trickle_stream_tables",
        sa.Column("id", sa.Integer, primary_key=True),
        sa.Column("namespace", sa.String(255), nullable=False),
        sa.Column("name", sa.String(255), nullable=False),
        sa.Column("definition", sa.Text, nullable=False),
        sa.Column("default_namespace", sa.String(255), nullable=False),
        sa.Column("mode", sa.String(20), nullable=False),
        sa.Column("schedule", sa.String(255)),
        sa.Column("status", sa.String(20), nullable=False),
        sa.Column("storage_namespace", sa.String(255), nullable=False),
        sa.Column("storage_name", sa.String(255), nullable=False),
        sa.Column("columns", sa.Text, nullable=False),
        sa.Column("incremental", sa.Boolean, nullable=False),
        sa.Column("reason", sa.Text),
        sa.Column("fingerprint", sa.String(255), nullable=False),
        sa.Column("layout", sa.Text, nullable=False),
        sa.Column("storage_snapshot", sa.BigInteger),
        sa.Column("storage_pointer", sa.Text),
        sa.Column("data_timestamp", moment()),
        sa.Column("consecutive_errors", sa.Integer, nullable=False),
        sa.Column("last_error", sa.Text),
        sa.Column("created_at", moment(), nullable=False),
        sa.Column("scc_id", sa.Integer),
        sa.Column("group_policy", sa.String(20)),
        sa.Column("freshness_deadline", moment()),
        sa.Column("compiled", sa.Text),
        sa.Column("functions_used", sa.Text),
        sa.UniqueConstraint("namespace", "name", name="trickle_stream_tables_name"),
        sqlite_autoincrement=True,
    )
    op.create_table(
        "trickle_dependencies",
        sa.Column("id", sa.Integer, primary_key=True),
        sa.Column("stream_table_id", sa.Integer, sa.ForeignKey("trickle_stream_tables.id"), nullable=False),
        sa.Column("position", sa.Integer, nullable=False),
        sa.Column("input_namespace", sa.String(255), nullable=False),
        sa.Column("input_name", sa.String(255), nullable=False),
        sa.Column("kind", sa.String(20), nullable=False),
        sa.Column("columns", sa.Text, nullable=False),
        sa.Column("table_uuid", sa.String(64)),
        sa.Column("snapshot_id", sa.BigInteger),
        sa.Column("schema_id", sa.Integer),
        sa.Column("pointer", sa.String(1000)),
        sa.UniqueConstraint("stream_table_id", "input_namespace", "input_name", name="trickle_dependencies_input"),
    )
    op.create_table(
        "trickle_refresh_history",
        sa.Column("id", sa.Integer, primary_key=True),
        sa.Column("refresh_id", sa.String(64), nullable=False, unique=True),
        sa.Column("stream_table_id", sa.Integer),
        sa.Column("name", sa.String(511), nullable=False),
        sa.Column("state", sa.String(20), nullable=False),
        sa.Column("action", sa.String(20)),
        sa.Column("reason", sa.Text),
        sa.Column("initiated_by", sa.String(255), nullable=False),
        sa.Column("process", sa.String(8)),
        sa.Column("started_at", moment(), nullable=False),
        sa.Column("ended_at", moment()),
        sa.Column("seconds", sa.Double),
        sa.Column("rows_inserted", sa.BigInteger, nullable=False),
        sa.Column("rows_updated", sa.BigInteger, nullable=False),
        sa.Column("rows_deleted", sa.BigInteger, nullable=False),
        sa.Column("rows_changed", sa.Text, nullable=False),
        sa.Column("stages", sa.Text, nullable=False),
        sa.Column("error_code", sa.String(64)),
        sa.Column("error", sa.Text),
        sa.Column("bytes_read", sa.BigInteger),
        sa.Column("bytes_written", sa.BigInteger),
        sa.Column("fixpoint_iteration", sa.Integer),
        sa.Column("freshness_deadline", moment()),
    )
    op.create_index("trickle_refresh_history_name", "trickle_refresh_history", ["name", "id"])
    op.create_index("trickle_refresh_history_state", "trickle_refresh_history", ["state"])
    op.create_table(
        "trickle_sources",
        sa.Column("id", sa.Integer, primary_key=True),
        sa.Column("namespace", sa.String(255), nullable=False),
        sa.Column("name", sa.String(255), nullable=False),
        sa.Column("kind", sa.String(20), nullable=False),
        sa.Column("state", sa.Text),
        sa.Column("created_at", moment(), nullable=False),
        sa.UniqueConstraint("namespace", "name", name="trickle_sources_name"),
    )
    op.create_table(
        "trickle_leases",
        sa.Column("name", sa.String(255), primary_key=True),
        sa.Column("token", sa.BigInteger, nullable=False),
        sa.Column("owner_id", sa.String(8)),
        sa.Column("host", sa.String(255)),
        sa.Column("machine", sa.String(255)),
        sa.Column("pid", sa.Integer),
        sa.Column("start_mark", sa.String(64)),
        sa.Column("acquired_at", moment()),
        sa.Column("expires_at", moment()),
    )
    op.create_table(
        "trickle_settings",
        sa.Column("key", sa.String(255), primary_key=True),
        sa.Column("value", sa.Text, nullable=False),
    )
    op.create_table(
        "trickle_alerts",
        sa.Column("id", sa.Integer, primary_key=True),
        sa.Column("created_at", moment(), nullable=False),
        sa.Column("severity", sa.String(20), nullable=False),
        sa.Column("code", sa.String(64), nullable=False),
        sa.Column("name", sa.String(511)),
        sa.Column("message", sa.Text, nullable=False),
        sa.Column("acknowledged_at", moment()),
    )
    op.create_table(
        "trickle_cuts",
        sa.Column("name", sa.String(255), primary_key=True),
        sa.Column("catalog_name", sa.String(255), nullable=False, unique=True),
        sa.Column("created_at", moment(), nullable=False),
        sa.Column("comment", sa.Text),
    )
    op.create_table(
        "trickle_garbage",
        sa.Column("id", sa.Integer, primary_key=True),
        sa.Column("kind", sa.String(20), nullable=False),
        sa.Column("location", sa.Text, nullable=False),
        sa.Column("created_at", moment(), nullable=False),
        sa.Column("not_before", moment()),
        sa.Column("reason", sa.Text),
    )


def _iceberg() -> None:
    inspector = sa.inspect(op.get_bind())
    if not inspector.has_table("iceberg_tables"):
        op.create_table(
            "iceberg_tables",
            sa.Column("catalog_name", sa.String(255), primary_key=True),
            sa.Column("table_namespace", sa.String(255), primary_key=True),
            sa.Column("table_name", sa.String(255), primary_key=True),
            sa.Column("metadata_location", sa.String(1000)),
            sa.Column("previous_metadata_location", sa.String(1000)),
            sa.Column("iceberg_type", sa.String(5)),
        )
    elif "iceberg_type" not in {c["name"] for c in inspector.get_columns("iceberg_tables")}:
        # Iceberg's schema V0 knows no views; Iceberg itself upgrades it with this same column.
        op.add_column("iceberg_tables", sa.Column("iceberg_type", sa.String(5)))
    if not inspector.has_table("iceberg_namespace_properties"):
        op.create_table(
            "iceberg_namespace_properties",
            sa.Column("catalog_name", sa.String(255), primary_key=True),
            sa.Column("namespace", sa.String(255), primary_key=True),
            sa.Column("property_key", sa.String(255), primary_key=True),
            sa.Column("property_value", sa.String(1000)),
        )


def downgrade() -> None:
    raise NotImplementedError("a catalog is not taken back to an older version; restore a backup instead")
