"""Alembic's entry point. `database` gives it a connection in the transaction that holds the lock."""

from __future__ import annotations

from alembic import context

from spark_trickle.catalog.migrations import VERSION_TABLE
from spark_trickle.catalog.tables import metadata

context.configure(
    connection=context.config.attributes["connection"], target_metadata=metadata, version_table=VERSION_TABLE
)
with context.begin_transaction():
    context.run_migrations()
