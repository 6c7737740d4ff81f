"""The change log of stream tables, and which snapshot of its storage a refresh published."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

from spark_trickle.catalog.migrations.versions.v0001_foundation import moment

revision = "0005"
down_revision: str | None = "0004"
branch_labels: str | None = None
depends_on: str | None = None


def upgrade() -> None:
    op.create_table(
        "trickle_change_log",
        sa.Column("id", sa.Integer, primary_key=True),
        sa.Column("stream_table_id", sa.Integer, sa.ForeignKey("trickle_stream_tables.id"), nullable=False),
        sa.Column("from_snapshot", sa.BigInteger, nullable=False),
        sa.Column("to_snapshot", sa.BigInteger, nullable=False),
        sa.Column("rows", sa.BigInteger, nullable=False),
        sa.Column("files", sa.Text, nullable=False),
        sa.Column("created_at", moment(), nullable=False),
        sqlite_autoincrement=True,
    )
    op.create_index("trickle_change_log_table", "trickle_change_log", ["stream_table_id", "id"])
    op.add_column("trickle_refresh_history", sa.Column("snapshot_id", sa.BigInteger))
    op.create_index("trickle_refresh_history_table", "trickle_refresh_history", ["stream_table_id", "id"])
