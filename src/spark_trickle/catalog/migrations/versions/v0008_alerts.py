"""An alert is open until it is resolved, and counts its occurrences; notices of alerts wait in an outbox.

Alerts of before are closed: what is still the case is raised again.
"""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0008"
down_revision: str | None = "0007"
branch_labels: str | None = None
depends_on: str | None = None


def moment() -> sa.DateTime:
    return sa.DateTime(timezone=True).with_variant(sa.String(40), "sqlite")


def upgrade() -> None:
    op.execute("ALTER TABLE trickle_alerts RENAME COLUMN code TO kind")
    op.drop_column("trickle_alerts", "acknowledged_at")
    op.add_column("trickle_alerts", sa.Column("last_seen_at", moment()))
    op.add_column("trickle_alerts", sa.Column("occurrences", sa.Integer, nullable=False, server_default="1"))
    op.add_column("trickle_alerts", sa.Column("resolved_at", moment()))
    op.execute("UPDATE trickle_alerts SET last_seen_at = created_at, resolved_at = created_at")
    is_open = sa.text("resolved_at IS NULL")
    op.create_index(
        "trickle_alerts_open",
        "trickle_alerts",
        ["kind", "name"],
        unique=True,
        sqlite_where=is_open,
        postgresql_where=is_open,
    )
    op.create_table(
        "trickle_outbox",
        sa.Column("id", sa.Integer, primary_key=True),
        sa.Column("notice", sa.String(32), nullable=False),
        sa.Column("target", sa.String(32)),
        sa.Column("body", sa.Text, nullable=False),
        sa.Column("created_at", moment(), nullable=False),
        sa.Column("attempts", sa.Integer, nullable=False),
        sa.Column("next_at", moment(), nullable=False),
        sa.Column("last_error", sa.Text),
        sqlite_autoincrement=True,
    )
    op.create_index("trickle_outbox_target", "trickle_outbox", ["target", "id"])
