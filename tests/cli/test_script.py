from __future__ import annotations

import pytest

from spark_trickle.cli.script import split_statements
from spark_trickle.errors import TrickleError


@pytest.mark.parametrize(
    ("text", "parts"),
    [
        ("SELECT 1", ("SELECT 1",)),
        ("SELECT 1;", ("SELECT 1",)),
        ("SELECT 1;;\n ; SELECT 2", ("SELECT 1", "SELECT 2")),
        ("SELECT ';' AS `a;b`; SELECT 2", ("SELECT ';' AS `a;b`", "SELECT 2")),
        ("-- a; b\nSELECT 1 /* ; */ + 2; -- end;", ("SELECT 1 /* ; */ + 2",)),
        ("SELECT 'it''s; ok'; SELECT \"x;\"", ("SELECT 'it''s; ok'", 'SELECT "x;"')),
        ("SELECT 'a\\';b'; SELECT 2", ("SELECT 'a\\';b'", "SELECT 2")),
        ("  \n -- nothing\n", ()),
        ("SHOW TABLES IN shop; DROP TABLE x", ("SHOW TABLES IN shop", "DROP TABLE x")),
    ],
)
def test_split(text: str, parts: tuple[str, ...]) -> None:
    assert split_statements(text) == parts


def test_an_open_string_is_an_error() -> None:
    with pytest.raises(TrickleError) as caught:
        split_statements("SELECT 'open")
    assert caught.value.code == "SYNTAX_ERROR"
