"""A text of several statements."""

from __future__ import annotations

from spark_trickle.sql.parse import WordKind, words


def split_statements(text: str) -> tuple[str, ...]:
    """Statements of a text, split at semicolons that are not inside strings, names or comments.

    >>> split_statements("SELECT ';' ; -- one; two\\nSELECT 2;")
    ("SELECT ';'", 'SELECT 2')
    """
    found: list[str] = []
    start: int | None = None
    end = 0
    for word in words(text):
        if word.kind is WordKind.OTHER and word.text == ";":
            if start is not None:
                found.append(text[start:end])
            start = None
        else:
            start = word.start if start is None else start
            end = word.end
    if start is not None:
        found.append(text[start:end])
    return tuple(found)
