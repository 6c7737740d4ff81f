"""The data timestamp that each refresh gave its stream table, and where the columns of a stream table come from."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0009"
down_revision: str | None = "0008"
branch_labels: str | None = None
depends_on: str | None = None


def upgrade() -> None:
    instant = sa.DateTime(timezone=True).with_variant(sa.String(40), "sqlite")
    op.add_column("trickle_refresh_history", sa.Column("data_timestamp", instant))
    # Of NO_DATA it is that instant; of others it lies some milliseconds to seconds before.
    op.execute(
        "UPDATE trickle_refresh_history SET data_timestamp = started_at WHERE state = 'COMPLETED' AND action <> 'SKIP'"
    )
    op.create_index("trickle_refresh_history_started", "trickle_refresh_history", ["started_at"])
    op.create_table(
        "trickle_lineage",
        sa.Column("stream_table_id", sa.Integer, sa.ForeignKey("trickle_stream_tables.id"), primary_key=True),
        sa.Column("lineage", sa.Text, nullable=False),
    )
