"""Names of tables as users write them: `shop.revenue`, with backticks where a part needs them, or as parts."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence

from spark_trickle.errors import TrickleError
from spark_trickle.model import LAKE, TableName, resolve

_PLAIN = re.compile(r"[A-Za-z_]\w*(?:\.[A-Za-z_]\w*)*", re.ASCII)


def parse_name(name: str | Sequence[str], namespace: Callable[[], str]) -> TableName:
    """`namespace` is asked for the current one, where a name has one part."""
    parts = tuple(name) if not isinstance(name, str) else _parts(name)
    if not parts:
        raise TrickleError("INVALID_NAME", "a name without parts is not a valid table name")
    for part in parts:
        if "." in part:
            raise TrickleError(
                "INVALID_NAME", f"{part!r} has a dot in it, which the catalog cannot tell from a namespace"
            )
    one = len(parts) == 1 or (len(parts) == 2 and parts[0].lower() == LAKE)
    return resolve(parts, namespace() if one else "")


def _parts(name: str) -> tuple[str, ...]:
    if _PLAIN.fullmatch(name):
        return tuple(name.split("."))
    # Late: the command line must start fast, and most names are plain.
    from spark_trickle.sql.parse import WordKind, words

    parts: list[str] = []
    expected_name = True
    for word in words(name):
        is_name = word.kind in (WordKind.WORD, WordKind.QUOTED)
        if is_name is not expected_name or (not is_name and word.text != "."):
            raise TrickleError(
                "INVALID_NAME",
                f"{name!r} is not a valid table name",
                hint="Put backticks around a part with special characters.",
            )
        if is_name:
            parts.append(word.text)
        expected_name = not expected_name
    if expected_name:
        raise TrickleError("INVALID_NAME", f"{name!r} is not a valid table name")
    return tuple(parts)
