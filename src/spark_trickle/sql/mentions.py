"""Tables that a text may read, found without understanding the query: for definitions that run FULL only.

A superset is fine: a table too many makes a refresh run that changes nothing, never one too few.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise

from sqlglot import exp

from spark_trickle.errors import TrickleError
from spark_trickle.sql.clock import MOMENTS, TIME_OF_DAY
from spark_trickle.sql.dialect import string_value
from spark_trickle.sql.functions import TIME_DEPENDENT, VOLATILE
from spark_trickle.sql.parse import Word, WordKind, at_offset, parse_query, place, words
from spark_trickle.sql.resolve import function_name


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


@dataclass(frozen=True, slots=True)
class Seen:
    """What texts can see of the columns of their tables."""

    names: frozenset[str]  # mentioned ones, in lower case
    everything: bool  # also columns that are not mentioned


# Clauses that mean columns without naming them.
_IMPLICIT = frozenset(["NATURAL", "PIVOT", "UNPIVOT", "TABLE"])
# FROM after one of these starts a query: `FROM t` alone is all of t.
_BEFORE_QUERY = frozenset(["(", "UNION", "INTERSECT", "EXCEPT", "MINUS", "ALL", "DISTINCT"])


def columns_seen(texts: Iterable[str]) -> Seen:
    names: set[str] = set()
    everything = False
    for text in texts:
        try:
            tokens = words(text)
        except TrickleError:  # not our grammar
            return Seen(frozenset(), everything=True)
        names |= {t.text.lower() for t in tokens if t.kind in (WordKind.WORD, WordKind.QUOTED)}
        # After a CTE's bracket, too; it may as well end a call, which costs a look at the schema and nothing else.
        before_query = _BEFORE_QUERY | ({")"} if any(t.upper == "WITH" for t in tokens) else set())
        everything = everything or any(
            t.upper in _IMPLICIT
            or t.text == "|>"
            or (t.text == "*" and _is_star(tokens, at))
            or (t.upper == "FROM" and (at == 0 or tokens[at - 1].upper in before_query))
            for at, t in enumerate(tokens)
        )
    return Seen(frozenset(names), everything)


def _is_star(tokens: Sequence[Word], at: int) -> bool:
    """Whether this asterisk is no multiplication and no count(*)."""
    before = tokens[at - 1] if at else None
    if before is not None and before.text == "(":
        alone = at + 1 < len(tokens) and tokens[at + 1].text == ")"
        return at < 2 or tokens[at - 2].upper != "COUNT" or not alone
    return before is None or before.text in (".", ",") or before.upper in ("SELECT", "DISTINCT", "ALL")


def without_catalog(text: str, catalog: str) -> str:
    """The text with `catalog.` cut from its dotted names, so that it reads the session's current catalog."""
    out, done = [], 0
    for parts, start, _ in chains(text):
        if len(parts) > 2 and parts[0].lower() == catalog.lower():
            out.append(text[done:start])
            done = text.index(".", start) + 1
    return "".join(out) + text[done:]


def reads(text: str) -> dict[tuple[str, ...], str]:
    """The names in the FROM clauses of a query, its CTEs left out, each with its first place in the text."""
    tree = parse_query(text)
    ctes = {c.alias.lower() for c in tree.find_all(exp.CTE)}
    found: dict[tuple[str, ...], str] = {}
    for table in tree.find_all(exp.Table):
        parts = tuple(p.name for p in table.parts) if isinstance(table.this, exp.Identifier) else ()
        if parts and not (len(parts) == 1 and parts[0].lower() in ctes):
            found.setdefault(parts, place(table, text))
    return found


def may_read(text: str) -> set[tuple[str, ...]]:
    """The tables that a text reads where we can parse it, else all it may mean."""
    try:
        return set(reads(text))
    except TrickleError:
        return mentioned(text)


def follows_the_clock(text: str) -> str | None:
    """The function or literal that makes a query's answer move with the time; None when there is none."""
    tokens = words(text)
    for at, token in enumerate(tokens):
        word = token.upper.lower()
        called = [t.text for t in tokens[at + 1 : at + 3]] == ["(", ")"]
        if word in TIME_DEPENDENT and (called or word.startswith(("current_", "localtime"))):
            return f"{word}()"
        if word == "unix_timestamp" and called:
            return "unix_timestamp()"
        if token.kind is WordKind.STRING:
            typed = at > 0 and tokens[at - 1].upper in ("TIMESTAMP", "TIMESTAMP_LTZ")
            written = string_value(token.text)
            if written.strip().lower() in MOMENTS or (typed and TIME_OF_DAY.fullmatch(written)):
                return f"the literal {token.text}"
    return None


def time_of_day(text: str) -> str | None:
    """A literal that moves with the date if it is cast to a timestamp; whether it is, only types tell."""
    tokens = words(text)
    for before, token in pairwise([tokens[0], *tokens] if tokens else []):
        if token.kind is WordKind.STRING and before.upper != "TIME" and TIME_OF_DAY.fullmatch(string_value(token.text)):
            return f"the literal {token.text}"
    return None


def called(text: str) -> set[str]:
    """The names, in lower case, of all that looks like a call of a function with a name of one part."""
    try:
        tokens = words(text)
    except TrickleError:  # not our grammar
        return {name.lower() for name in re.findall(r"\w+(?=`?\s*\()", text)}
    return {
        token.text.lower()
        for at, (token, after) in enumerate(pairwise(tokens))
        if after.text == "(" and token.kind in (WordKind.WORD, WordKind.QUOTED)
        if at == 0 or tokens[at - 1].text != "."
    }


def volatile(text: str, also: Collection[str] = ()) -> str | None:
    """The first function that is not deterministic, with its place; None when there is none.

    `also` are names of volatile functions that the lake knows.
    """
    names = VOLATILE.union(also)
    try:
        calls = [n for n in parse_query(text).walk() if function_name(n) in names]
    except TrickleError:  # not our grammar: whatever looks like a call
        tokens = words(text)
        for token, after in pairwise(tokens):
            if token.upper.lower() in names and after.text == "(":
                return f"{token.text.lower()}() at {at_offset(text, token.start)}"
        return None
    found = sorted((n.meta.get("start", len(text)), f"{function_name(n)}() at {place(n, text)}") for n in calls)
    return found[0][1] if found else None
