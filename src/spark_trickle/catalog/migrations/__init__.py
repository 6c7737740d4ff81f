"""Numbered changes of the catalog's schema, run by Alembic when a catalog is opened."""

from __future__ import annotations

VERSION_TABLE = "trickle_alembic_version"
# Oldest first; known here so that opening a current catalog does not load Alembic.
REVISIONS = ("0001", "0002", "0003", "0004", "0005", "0006", "0007", "0008", "0009", "0010", "0011")
HEAD = REVISIONS[-1]
