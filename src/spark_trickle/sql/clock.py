"""The text of a query with the time stopped: calls that ask the clock become literals of one moment.

Spark takes the time once per query. A refresh and its verification must see the same moment, and so must two
plans that are to be compared.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Sequence
from datetime import UTC, datetime, timedelta
from itertools import pairwise

from spark_trickle.sql.dialect import string_value
from spark_trickle.sql.parse import Word, WordKind, words

SOME_MOMENT = datetime(2001, 2, 3, 4, 5, 6, tzinfo=UTC)
# Strings that Spark reads as moments where it casts them.
MOMENTS = {"now": 0, "today": 0, "tomorrow": 1, "yesterday": -1}
# Strings to which Spark adds today's date where it casts them to TIMESTAMP: '12:30', 'T12', '1:2:3.5+01:00'.
TIME_OF_DAY = re.compile(
    r"\s*(?:T\d{1,2}(?::\d{1,2})?|\d{1,2}:\d{1,2})(?::\d{1,2}(?:\.\d*)?(?: ?[A-Za-z+-][\w+:/-]*)?)?\s*",
    re.IGNORECASE,
)
_NEEDS_PARENTHESES = frozenset(["NOW", "CURDATE", "UNIX_TIMESTAMP"])
_TIMES = frozenset(["DATE", "TIMESTAMP", "TIMESTAMP_LTZ", "TIMESTAMP_NTZ"])


def pin_time(text: str, moment: datetime = SOME_MOMENT, columns: Collection[str] = ()) -> str:
    """`moment` is in the session's time zone. `columns`: names of the inputs, which go before bare CURRENT_DATE.

    The strings 'now', 'today' and their like, and times of day, are replaced in typed literals and in a CAST or date()
    around them. Where a cast is only implied the text does not tell a moment from a word, and it stays.
    """
    tokens = words(text)
    taken = {c.upper() for c in columns} | {b.upper for a, b in pairwise(tokens) if a.upper == "AS"}
    out, done = [], 0
    for at, token in enumerate(tokens):
        if at and tokens[at - 1].text == ".":
            continue
        found = _moment(tokens, at, moment) if token.kind is WordKind.STRING else _call(tokens, at, moment, taken)
        if found is not None:
            constant, last = found
            out.append(text[done : token.start] + constant)
            done = tokens[last].end
    return "".join(out) + text[done:]


def _call(tokens: Sequence[Word], at: int, moment: datetime, taken: Collection[str]) -> tuple[str, int] | None:
    """The literal for a call, and its last token."""
    name, after = tokens[at].upper, [t.text for t in tokens[at + 1 : at + 4]]
    local = moment.replace(tzinfo=None).isoformat(sep=" ", timespec="microseconds")
    constants = {
        "CURRENT_TIMESTAMP": f"TIMESTAMP_LTZ '{_stamp(moment)}'",
        "NOW": f"TIMESTAMP_LTZ '{_stamp(moment)}'",
        "LOCALTIMESTAMP": f"TIMESTAMP_NTZ '{local}'",
        "CURRENT_DATE": f"DATE '{moment.date()}'",
        "CURDATE": f"DATE '{moment.date()}'",
        "CURRENT_TIME": f"TIME '{local.split()[1]}'",
        "UNIX_TIMESTAMP": f"{int(moment.timestamp())}L",
    }
    if name not in constants:
        return None
    if after[:2] == ["(", ")"]:
        return constants[name], at + 2
    if name == "CURRENT_TIME" and len(after) == 3 and after[0] == "(" and after[1].isdigit() and after[2] == ")":
        return f"CAST({constants[name]} AS TIME({after[1]}))", at + 3
    if after[:1] == ["("] or name in _NEEDS_PARENTHESES or name in taken:
        return None
    return constants[name], at


def _moment(tokens: Sequence[Word], at: int, moment: datetime) -> tuple[str, int] | None:
    written = string_value(tokens[at].text).strip()
    word = written.lower()
    if word not in MOMENTS and not TIME_OF_DAY.fullmatch(word):
        return None
    before = [""] * 2 + [t.upper for t in tokens[:at]]
    after = [t.upper for t in tokens[at + 1 : at + 3]]
    if before[-1] in _TIMES:
        kind = before[-1]
    elif before[-2:] == ["CAST", "("] and after[:1] == ["AS"] and after[1] in _TIMES:
        kind = after[1]
    elif before[-1] == "(" and before[-2] in ("DATE", "TIMESTAMP") and after[:1] == [")"]:
        kind = before[-2]
    else:
        return None
    if word not in MOMENTS:
        if kind in ("DATE", "TIMESTAMP_NTZ"):  # Spark adds no date
            return None
        return f"'{moment.date()}{'' if word.startswith('t') else ' '}{written}'", at
    if kind == "DATE" or word != "now":
        return f"'{moment.date() + timedelta(days=MOMENTS[word])}'", at
    return f"'{_stamp(moment.replace(tzinfo=None) if kind == 'TIMESTAMP_NTZ' else moment)}'", at


def _stamp(moment: datetime) -> str:
    return moment.isoformat(sep=" ", timespec="microseconds")
