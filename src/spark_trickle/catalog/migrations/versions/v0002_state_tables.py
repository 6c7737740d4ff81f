"""A stream table may belong to another one, as its hidden state table."""

from __future__ import annotations

from alembic import op

revision = "0002"
down_revision: str | None = "0001"
branch_labels: str | None = None
depends_on: str | None = None


def upgrade() -> None:
    # As text, because Alembic adds no foreign key to a table of SQLite; both databases understand this.
    op.execute("ALTER TABLE trickle_stream_tables ADD COLUMN owner_id INTEGER REFERENCES trickle_stream_tables (id)")
