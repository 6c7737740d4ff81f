"""Tokens, and where a history is cut into publishes."""

from __future__ import annotations

import base64
import json
from datetime import UTC, datetime

import pytest

from spark_trickle.errors import TrickleError
from spark_trickle.model import TableName
from spark_trickle.refresh.changes import Token, publishes

A, W, R = "append", "overwrite", "replace"
AT = {n: datetime(2026, 1, n, tzinfo=UTC) for n in range(1, 20)}


def only(*snapshots: int) -> dict[int, datetime]:
    return {n: AT[n] for n in snapshots}


@pytest.mark.parametrize(
    ("line", "published", "expected"),
    [
        ([(2, A), (3, W)], (2, 3), [(1, 2, 2), (2, 3, 3)]),
        ([(2, R), (3, R)], (), []),
        ([(2, R), (3, W), (4, R)], (3,), [(2, 3, 3)]),
        ([(2, W), (3, A), (4, A)], (3, 4), [(1, 3, 3), (3, 4, 4)]),  # one refresh, two commits
        ([(2, W), (3, A)], (2,), [(1, 2, 2), (2, 3, None)]),  # somebody else wrote last
        ([(2, W), (3, A), (4, R)], (2,), [(1, 2, 2), (2, 4, None)]),
        ([], (), []),
    ],
)
def test_publishes(
    line: list[tuple[int, str]], published: tuple[int, ...], expected: list[tuple[int, int, int | None]]
) -> None:
    found = [(p.start, p.end, p.time) for p in publishes(1, line, only(*published))]
    assert found == [(start, end, None if at is None else AT[at]) for start, end, at in expected]


@pytest.mark.parametrize("snapshot", [None, 2**62 + 1])
def test_a_token_says_where_it_is_from(snapshot: int | None) -> None:
    token = Token(TableName("a.b", "ü"), 7, "uuid", snapshot)
    assert Token.parse(token.text()) == token
    assert token.text().isascii()


@pytest.mark.parametrize(
    "text",
    ["", "yesterday", "é", "W10", base64.urlsafe_b64encode(json.dumps([2, "s", "a", 1, "u", 1]).encode()).decode()],
)
def test_what_is_no_token(text: str) -> None:
    with pytest.raises(TrickleError) as error:
        Token.parse(text)
    assert error.value.code == "INVALID_SINCE"
