"""The dialect without Spark: values of literals, what the tree holds, places in the text, errors."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sqlglot import exp

from spark_trickle.errors import TrickleError
from spark_trickle.sql.clock import pin_time
from spark_trickle.sql.dialect import string_literal, string_value
from spark_trickle.sql.parse import parse_query, place, render, words


def first(text: str) -> exp.Expr:
    return parse_query(f"SELECT {text}").selects[0]


@pytest.mark.parametrize(
    ("source", "value"),
    [
        ("'it''s'", "it's"),
        ('"it\'s"', "it's"),
        ('"say ""hi"""', 'say "hi"'),
        (r"'a\nb\tc'", "a\nb\tc"),
        (r"'a\\b'", r"a\b"),
        (r"'\''", "'"),
        (r"'100\%'", r"100\%"),
        (r"'a\_b'", r"a\_b"),
        (r"'\x\q'", "xq"),
        (r"'\0\Z'", "\0\x1a"),
        (r"'\101\377'", "A377"),
        (r"'\u00e9\U0001F600'", "é😀"),
        (r"'\uD83D\uDE00'", "😀"),
        (r"'\u12'", "u12"),
        (r"r'raw\n'", r"raw\n"),
        (r'R"\d"', r"\d"),
        ("''", ""),
    ],
)
def test_string_value(source: str, value: str) -> None:
    assert string_value(source) == value
    assert first(source).name == value


@settings(deadline=None)  # a busy machine is no fault of the dialect
@given(st.text(st.characters(exclude_categories=["Cs"])))
def test_any_string_survives(value: str) -> None:
    literal = string_literal(value)
    assert string_value(literal) == value
    tree = first(literal)
    assert tree.name == value
    assert render(tree) == literal


def test_adjacent_strings_are_one() -> None:
    assert first("""'a' "b" r'c'""").name == "abc"


@pytest.mark.parametrize("number", ["1", "1L", "2S", "3Y", "1.5D", "1.5F", "2.50BD", "1e3", "1E-3BD", "12345678901"])
def test_numbers_keep_their_suffix(number: str) -> None:
    node = first(number)
    assert isinstance(node, exp.Literal)
    assert node.name == number
    assert first("1") != first("1L")


@pytest.mark.parametrize(
    "text",
    [
        "INTERVAL '90' DAY",
        "INTERVAL 1 DAY 2 HOURS",
        "INTERVAL '1-2' YEAR TO MONTH",
        "INTERVAL '1 day 2 hours'",
        "INTERVAL -3 MONTHS",
        "DATE '2024-01-01'",
        "TIMESTAMP_NTZ '2024-01-01 00:00:00'",
        "X'1F'",
        "to_date(g, 'yyyy-MM-dd')",
        "percentile_cont(0.5) WITHIN GROUP (ORDER BY x)",
        "to_char(d, 'yyyy')",
        "If(a, 1, 2)",
        "a DIV b",
        "a <=> b",
        "a RLIKE 'x'",
        "transform(a, (x, i) -> x + i)",
        "CAST(a AS VARCHAR(10))",
        "dateadd(DAY, 1, d)",
        "first(x) IGNORE NULLS",
        "v:a.b[0]",
        "`odd name`",
        "`tick``ed`",
        "array(a, b)[0]",
    ],
)
def test_written_as_read(text: str) -> None:
    assert render(first(text)) == text


def test_calls_are_anonymous() -> None:
    tree = parse_query(
        "SELECT sum(a), coalesce(b, 0), current_date, date(c), window(ts, '1 day') FROM t GROUP BY window(ts, '1 day')"
    )
    names = [node.name for node in tree.find_all(exp.Func)]
    assert sorted(names) == ["coalesce", "current_date", "date", "sum", "window", "window"]
    assert all(isinstance(node, exp.Anonymous) for node in tree.find_all(exp.Func))


def test_units_are_not_columns() -> None:
    assert [c.name for c in first("datediff(DAY, d, e)").find_all(exp.Column)] == ["d", "e"]
    assert [c.name for c in first("date_add(day, a)").find_all(exp.Column)] == ["day", "a"]


@pytest.mark.parametrize(
    ("text", "explicit"),
    [
        ("a | b & c << 1", "a | (b & (c << 1))"),
        ("a || b + c", "(a || b) + c"),
        ("NOT a = b", "NOT (a = b)"),
        ("a + b BETWEEN 1 AND 2", "(a + b) BETWEEN 1 AND 2"),
    ],
)
def test_explicit_shape(text: str, explicit: str) -> None:
    tree = first(text)
    assert render(tree) == text
    assert render(tree, explicit=True) == explicit


PLACED = (
    "SELECT 'ü日🎉',\n\t/* ñ */ sum(ä.x + 1) OVER (PARTITION BY y),\r\n  CAST(z AS INT), now(), `größe` || 'q'\nFROM t"
)


def test_places() -> None:
    tree = parse_query(PLACED)
    assert [place(item, PLACED) for item in tree.selects] == [
        "line 1, column 8",
        "line 2, column 10",
        "line 3, column 3",
        "line 3, column 19",
        "line 3, column 26",
    ]
    assert place(tree.find(exp.Table) or tree, PLACED) == "line 4, column 6"
    assert place(tree.selects[1].copy(), PLACED) == "line 2, column 10"
    assert place(exp.column("made_up"), PLACED) == ""


def test_columns_inside_calls_have_places() -> None:
    text = "SELECT f(a, g(b))"
    assert {c.name: place(c, text) for c in parse_query(text).find_all(exp.Column)} == {
        "a": "line 1, column 10",
        "b": "line 1, column 15",
    }


@pytest.mark.parametrize(
    ("text", "message", "at", "underlined"),
    [
        ("SELECT a\nFROM t WHERE", "missing", "line 2, column 8", "WHERE"),
        ("SELECT 'é' AS x,\n  (a FROM t", "Expecting )", "line 2, column 6", "FROM"),
        ("SELECT a b c", "not expected", "line 1, column 12", "c"),
        ("SELECT 'ü', 'open", "closing '", "line 1, column 13", "'"),
        ("SELECT `open", "closing `", "line 1, column 8", "`"),
        ("SELECT 1; DROP TABLE t", "another statement", "line 1, column 11", "DROP"),
        ("INSERT INTO t SELECT 1", "query is expected", "line 1, column 1", "INSERT"),
        ("WITH q AS (SELECT 1) INSERT INTO t SELECT * FROM q", "query is expected", "line 1, column 1", "WITH"),
        ("SHOW TABLES", "query is expected", "line 1, column 1", "SHOW"),
    ],
)
def test_syntax_errors(text: str, message: str, at: str, underlined: str) -> None:
    with pytest.raises(TrickleError) as caught:
        parse_query(text)
    assert caught.value.code == "SYNTAX_ERROR"
    head, line, marks = caught.value.message.splitlines()
    assert message in head
    assert at in head
    start = marks.index("^")
    assert line[start : start + marks.count("^")] == underlined


@pytest.mark.parametrize("text", ["", "  \n", "-- only a comment", ";"])
def test_empty(text: str) -> None:
    with pytest.raises(TrickleError) as caught:
        parse_query(text)
    assert caught.value.code == "SYNTAX_ERROR"


def test_unclosed_comment_and_deep_nesting() -> None:
    for text in ("SELECT a /* open", "SELECT " + "(" * 3000 + "1" + ")" * 3000):
        with pytest.raises(TrickleError) as caught:
            parse_query(text)
        assert caught.value.code == "SYNTAX_ERROR"


@pytest.mark.parametrize(
    "text", ["SELECT 1;", "SELECT 1 ; ;", "SELECT ';' AS x", "/* ; */ SELECT 1 -- ;", "(SELECT 1)"]
)
def test_semicolons(text: str) -> None:
    assert isinstance(parse_query(text), exp.Query)


def test_pin_time() -> None:
    text = "SELECT now(), current_date, t.current_date, `now`, now, 'now()', current_timestamp ( ) FROM t"
    pinned = pin_time(text)
    assert pinned.count("2001-02-03") == 3
    assert "t.current_date, `now`, now, 'now()'" in pinned


def test_words() -> None:
    found = [(w.kind.value, w.text) for w in words("Group  By `a``b` -- x\n'c' 1.5")]
    assert found == [("word", "Group"), ("word", "By"), ("quoted", "a`b"), ("string", "'c'"), ("other", "1.5")]
