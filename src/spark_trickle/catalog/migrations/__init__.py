"""Numbered changes of the catalog's schema, run by Alembic when a catalog is opened."""

from __future__ import annotations

VERSION_TABLE = "trickle_alembic_version"
REVISIONS = ("0001", "0002", "0003")  # oldest first; known here so that opening a current catalog does not load Alembic
HEAD = REVISIONS[-1]
