"""A stream table is the Iceberg table of its name. Before, the name was a view over a table in `_trickle`.

The table takes the view's name, and all stream tables start anew at their next refresh: their data files have hidden
columns that the schema must no longer show. Named cuts keep the views and tables that they have.
"""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0007"
down_revision: str | None = "0006"
branch_labels: str | None = None
depends_on: str | None = None

_TABLES = sa.table("trickle_stream_tables", *map(sa.column, ("namespace", "name", "storage_namespace", "storage_name")))
_POINTERS = sa.table("iceberg_tables", *map(sa.column, ("catalog_name", "table_namespace", "table_name")))
_INPUTS = sa.table("trickle_dependencies", *map(sa.column, ("input_namespace", "input_name")))


def upgrade() -> None:
    connection = op.get_bind()
    for namespace, name, old_namespace, old_name in connection.execute(sa.select(_TABLES)).all():
        if (namespace, name) == (old_namespace, old_name):
            continue
        p, i = _POINTERS.c, _INPUTS.c
        view = sa.and_(p.catalog_name == "lake", p.table_namespace == namespace, p.table_name == name)
        table = sa.and_(p.catalog_name == "lake", p.table_namespace == old_namespace, p.table_name == old_name)
        connection.execute(sa.delete(_POINTERS).where(view))
        moved = {"table_namespace": namespace, "table_name": name}
        connection.execute(sa.update(_POINTERS).where(table).values(**moved))
        read = sa.and_(i.input_namespace == old_namespace, i.input_name == old_name)
        connection.execute(sa.update(_INPUTS).where(read).values(input_namespace=namespace, input_name=name))
    for old, new in (("storage_snapshot", "published_snapshot"), ("storage_pointer", "published_pointer")):
        op.execute(f"ALTER TABLE trickle_stream_tables RENAME COLUMN {old} TO {new}")
    op.drop_column("trickle_stream_tables", "storage_namespace")
    op.drop_column("trickle_stream_tables", "storage_name")
    op.add_column("trickle_stream_tables", sa.Column("table_uuid", sa.String(64)))
    op.add_column("trickle_stream_tables", sa.Column("file_schema", sa.Text))
    op.execute(
        "UPDATE trickle_stream_tables SET status = 'INITIALIZING', published_snapshot = NULL, published_pointer = NULL"
    )
