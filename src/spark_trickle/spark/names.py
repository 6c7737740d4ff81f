"""Names in SQL text."""

from __future__ import annotations

from spark_trickle.model import TableName


def quote(name: str) -> str:
    return "`" + name.replace("`", "``") + "`"


def quote_table(name: TableName) -> str:
    return ".".join(map(quote, name.parts))
