"""Groups: how each stream table takes part in them, and what became of each group's refreshes."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0011"
down_revision: str | None = "0010"
branch_labels: str | None = None
depends_on: str | None = None


def moment() -> sa.DateTime:
    return sa.DateTime(timezone=True).with_variant(sa.String(40), "sqlite")


def upgrade() -> None:
    op.execute("ALTER TABLE trickle_stream_tables RENAME COLUMN group_policy TO diamond_consistency")
    op.add_column("trickle_stream_tables", sa.Column("diamond_schedule_policy", sa.String(20)))
    op.add_column("trickle_refresh_history", sa.Column("group_epoch", sa.BigInteger))
    op.create_table(
        "trickle_groups",
        sa.Column("id", sa.Integer, primary_key=True),
        sa.Column("members", sa.Text, nullable=False),
        sa.Column("epoch", sa.BigInteger, nullable=False),
        sa.Column("state", sa.String(20), nullable=False),
        sa.Column("at", moment(), nullable=False),
        sa.Column("error", sa.Text),
    )
