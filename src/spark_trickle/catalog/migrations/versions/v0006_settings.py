"""The Spark settings that a definition runs under. NULL: of an older version; pinned at the next refresh."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0006"
down_revision: str | None = "0005"
branch_labels: str | None = None
depends_on: str | None = None


def upgrade() -> None:
    op.add_column("trickle_stream_tables", sa.Column("settings", sa.Text))
