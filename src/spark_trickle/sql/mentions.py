"""Tables that a text may read, found without understanding the query: for definitions that run FULL only.

A superset is fine: a table too many makes a refresh run that changes nothing, never one too few.
"""

from __future__ import annotations

from collections.abc import Iterator

from spark_trickle.sql.parse import WordKind, words


def chains(text: str) -> Iterator[tuple[tuple[str, ...], int, int]]:
    """Dotted names: their parts, and where they start and end."""
    tokens = words(text)
    at = 0
    while at < len(tokens):
        if tokens[at].kind not in (WordKind.WORD, WordKind.QUOTED):
            at += 1
            continue
        first, parts = at, [tokens[at].text]
        while (
            at + 2 < len(tokens)
            and tokens[at + 1].text == "."
            and tokens[at + 2].kind
            in (
                WordKind.WORD,
                WordKind.QUOTED,
            )
        ):
            at += 2
            parts.append(tokens[at].text)
        yield tuple(parts), tokens[first].start, tokens[at].end
        at += 1


def mentioned(text: str) -> set[tuple[str, ...]]:
    """Every prefix of every dotted name: `shop.orders.id` may mean table `shop.orders`."""
    return {parts[:n] for parts, _, _ in chains(text) for n in range(1, len(parts) + 1)}


def without_catalog(text: str, catalog: str) -> str:
    """The text with `catalog.` cut from its dotted names, so that it reads the session's current catalog."""
    out, done = [], 0
    for parts, start, _ in chains(text):
        if len(parts) > 2 and parts[0].lower() == catalog.lower():
            out.append(text[done:start])
            done = text.index(".", start) + 1
    return "".join(out) + text[done:]
