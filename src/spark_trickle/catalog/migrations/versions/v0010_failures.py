"""An index of the refreshes that failed: the last one of each stream table is asked for all the time."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0010"
down_revision: str | None = "0009"
branch_labels: str | None = None
depends_on: str | None = None


def upgrade() -> None:
    failed = sa.text("state = 'FAILED'")
    op.create_index(
        "trickle_refresh_history_failed",
        "trickle_refresh_history",
        ["stream_table_id", "state", "ended_at"],
        sqlite_where=failed,
        postgresql_where=failed,
    )
