"""Python functions that the lake knows by module path."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

from spark_trickle.catalog.migrations.versions.v0001_foundation import moment

revision = "0003"
down_revision: str | None = "0002"
branch_labels: str | None = None
depends_on: str | None = None


def upgrade() -> None:
    op.create_table(
        "trickle_functions",
        sa.Column("name", sa.String(255), primary_key=True),
        sa.Column("path", sa.Text, nullable=False),
        sa.Column("returns", sa.Text, nullable=False),
        sa.Column("deterministic", sa.Boolean, nullable=False),
        sa.Column("created_at", moment(), nullable=False),
    )
