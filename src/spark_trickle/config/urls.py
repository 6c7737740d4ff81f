"""URLs of a catalog in PostgreSQL. An error does not repeat them, and what is shown of them has no password."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from sqlalchemy import URL

POSTGRES = ("postgresql://", "postgres://", "postgresql+psycopg://")


def read_url(text: str) -> URL:
    """The parts of a PostgreSQL URL; an error does not repeat the text, which may hold a password."""
    from sqlalchemy import make_url  # late: most lakes are folders, and reading settings must be fast
    from sqlalchemy.exc import ArgumentError

    # SQLAlchemy takes the first @ for the end of the password: the rest of one would be the host, which is shown.
    if re.fullmatch(r"[^:]+://([^@/?#]*@)?[^@]*", text):
        try:
            url = make_url(text)
        except (ArgumentError, ValueError):
            pass
        else:
            if 0 <= (url.port or 0) < 65536:
                return url
    raise ValueError("the URL cannot be read; percent-encode special characters in it, such as @ in the password")


def bare(url: URL, drivername: str, username: str | None = None) -> str:
    """Where a database is. Without the query: a password may be there too."""
    from sqlalchemy import URL

    return URL.create(drivername, username, host=url.host, port=url.port, database=url.database).render_as_string()
