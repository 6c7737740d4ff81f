"""The columns of its sources as a stream table sees them, and what `*` means to it."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0004"
down_revision: str | None = "0003"
branch_labels: str | None = None
depends_on: str | None = None


def upgrade() -> None:
    op.add_column("trickle_stream_tables", sa.Column("star", sa.String(20), nullable=False, server_default="PIN"))
    op.add_column("trickle_stream_tables", sa.Column("shapes", sa.Text))
