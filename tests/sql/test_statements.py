"""STREAM TABLE statements: what is ours, what is Spark's, and what is refused."""

from __future__ import annotations

import pytest

from spark_trickle.errors import TrickleError
from spark_trickle.model import Mode
from spark_trickle.statements.data import (
    AlterStreamTable,
    CreateStreamTable,
    CreateStreamTables,
    DescribeStreamTable,
    DropStreamTable,
    ExplainStreamTable,
    RefreshStreamTable,
    ShowStreamTables,
    Statement,
)
from spark_trickle.statements.parse import parse_statement


@pytest.mark.parametrize(
    ("text", "statement"),
    [
        ("CREATE STREAM TABLE s.n AS SELECT 1", CreateStreamTable(("s", "n"), "SELECT 1")),
        (
            "create or replace stream table n schedule '5m' mode full initialize false as\n select 1 ;",
            CreateStreamTable(("n",), "select 1", "5m", Mode.FULL, or_replace=True, initialize=False),
        ),
        (
            "CREATE STREAM TABLE IF NOT EXISTS a.b.c MODE auto INITIALIZE true SCHEDULE 'it''s' "
            "AS WITH q AS (SELECT 1) SELECT * FROM q",
            CreateStreamTable(
                ("a", "b", "c"), "WITH q AS (SELECT 1) SELECT * FROM q", "it's", Mode.AUTO, if_not_exists=True
            ),
        ),
        (
            "-- why\n/* and */ CREATE STREAM TABLE `my ns`.`a``b.c` AS SELECT a AS x -- keep\n , ';' AS y FROM t;;",
            CreateStreamTable(("my ns", "a`b.c"), "SELECT a AS x -- keep\n , ';' AS y FROM t"),
        ),
        ("CREATE STREAM TABLE größe.日本 AS SELECT 'é'", CreateStreamTable(("größe", "日本"), "SELECT 'é'")),
        ("CREATE STREAM TABLE mode.schedule AS SELECT 1", CreateStreamTable(("mode", "schedule"), "SELECT 1")),
        ("CREATE STREAM TABLE `as` AS SELECT 1", CreateStreamTable(("as",), "SELECT 1")),
        ("ALTER STREAM TABLE n SET SCHEDULE '1h'", AlterStreamTable(("n",), schedule="1h")),
        ("ALTER STREAM TABLE n SET MODE differential", AlterStreamTable(("n",), mode=Mode.DIFFERENTIAL)),
        (
            "CREATE STREAM TABLE n SET ('spark.sql.session.timeZone' = 'Europe/Berlin', ansi = \"false\") AS SELECT 1",
            CreateStreamTable(
                ("n",), "SELECT 1", settings=(("spark.sql.session.timeZone", "Europe/Berlin"), ("ansi", "false"))
            ),
        ),
        (
            "ALTER STREAM TABLE n SET (spark.sql.ansi.enabled = 'false') SET MODE full AS SELECT 2",
            AlterStreamTable(("n",), "SELECT 2", mode=Mode.FULL, settings=(("spark.sql.ansi.enabled", "false"),)),
        ),
        ("ALTER STREAM TABLE n AS SELECT 2", AlterStreamTable(("n",), query="SELECT 2")),
        (
            'ALTER STREAM TABLE s.n SET MODE FULL SET SCHEDULE "manual" AS (SELECT 2)',
            AlterStreamTable(("s", "n"), "(SELECT 2)", "manual", Mode.FULL),
        ),
        ("DROP STREAM TABLE n", DropStreamTable(("n",))),
        ("DROP STREAM TABLE IF EXISTS s.n CASCADE;", DropStreamTable(("s", "n"), if_exists=True, cascade=True)),
        ("REFRESH STREAM TABLE n", RefreshStreamTable(("n",))),
        ("REFRESH STREAM TABLE n FULL", RefreshStreamTable(("n",), Mode.FULL)),
        ("REFRESH STREAM TABLE n MODE DIFFERENTIAL", RefreshStreamTable(("n",), Mode.DIFFERENTIAL)),
        ("SHOW STREAM TABLES", ShowStreamTables()),
        ("describe stream table s.n", DescribeStreamTable(("s", "n"))),
        ("DESC STREAM TABLE n", DescribeStreamTable(("n",))),
        ("EXPLAIN STREAM TABLE n", ExplainStreamTable(("n",))),
    ],
)
def test_ours(text: str, statement: Statement) -> None:
    assert parse_statement(text) == statement


@pytest.mark.parametrize(
    "text",
    [
        "",
        ";",
        "-- CREATE STREAM TABLE n AS SELECT 1",
        "SELECT 'CREATE STREAM TABLE n AS SELECT 1'",
        "CREATE TABLE stream (a INT)",
        "CREATE TABLE n AS SELECT 1 AS stream",
        "CREATE STREAMING TABLE n AS SELECT 1",
        "CREATE `STREAM` TABLE n AS SELECT 1",
        "CREATE OR REPLACE TABLE stream.table AS SELECT 1",
        "CREATE OR REPLACE TEMP VIEW v AS SELECT 1",
        "DROP TABLE stream",
        "SHOW TABLES",
        "SHOW STREAM TABLE",
        "DESCRIBE stream",
        "DESCRIBE TABLE stream.n",
        "EXPLAIN SELECT * FROM stream",
        "REFRESH TABLE n",
        "ALTER TABLE stream RENAME TO n",
        "INSERT INTO t SELECT * FROM stream",
        "SELECT 'open",
        "stream table n",
    ],
)
def test_sparks(text: str) -> None:
    assert parse_statement(text) is None


@pytest.mark.parametrize(
    ("text", "message", "at"),
    [
        ("CREATE STREAM TABLE", "Expected a name", "line 1, column 20"),
        ("CREATE STREAM TABLE 'n' AS SELECT 1", "Expected a name", "line 1, column 21"),
        ("CREATE STREAM TABLE a. AS SELECT 1", "Expected SCHEDULE", "line 1, column 27"),
        ("CREATE STREAM TABLE `` AS SELECT 1", "Expected a name", "line 1, column 21"),
        ("CREATE STREAM TABLE n", "AS and a query", "line 1, column 22"),
        ("CREATE STREAM TABLE n AS", "query after AS", "line 1, column 25"),
        ("CREATE STREAM TABLE n AS ;", "query after AS", "line 1, column 25"),
        ("CREATE STREAM TABLE n\n  SCHEDULE 5 AS SELECT 1", "string in quotes", "line 2, column 12"),
        ("CREATE STREAM TABLE n SCHEDULE '1m' SCHEDULE '2m' AS SELECT 1", "each once", "line 1, column 37"),
        ("CREATE STREAM TABLE n MODE quick AS SELECT 1", "DIFFERENTIAL", "line 1, column 28"),
        ("CREATE STREAM TABLE n INITIALIZE maybe AS SELECT 1", "TRUE or FALSE", "line 1, column 34"),
        ("CREATE OR REPLACE STREAM TABLE IF NOT EXISTS n AS SELECT 1", "exclude", "line 1, column 32"),
        ("CREATE STREAM TABLE n (a INT) AS SELECT 1", "Expected SCHEDULE", "line 1, column 23"),
        ("CREATE STREAM TABLE n SET a = 'b' AS SELECT 1", "in parentheses", "line 1, column 27"),
        ("CREATE STREAM TABLE n SET ('a' 'b') AS SELECT 1", "Expected =", "line 1, column 32"),
        ("CREATE STREAM TABLE n SET (a = b) AS SELECT 1", "string in quotes", "line 1, column 32"),
        ("CREATE STREAM TABLE n SET (a = 'b' AS SELECT 1", "Expected , or )", "line 1, column 36"),
        ("CREATE STREAM TABLE n SET (a = 'b', 'a' = 'c') AS SELECT 1", "a is set twice", "line 1, column 48"),
        ("ALTER STREAM TABLE n SET ()", "Expected a name", "line 1, column 27"),
        ("ALTER STREAM TABLE n SET", "Expected SET", "line 1, column 22"),
        ("ALTER STREAM TABLE n", "Nothing to alter", "line 1, column 21"),
        ("ALTER STREAM TABLE n RENAME TO m", "Expected SET", "line 1, column 22"),
        ("DROP STREAM TABLE n, m", "not expected", "line 1, column 20"),
        ("DROP STREAM TABLE IF n", "not expected", "line 1, column 22"),
        ("REFRESH STREAM TABLE n MODE", "DIFFERENTIAL", "line 1, column 28"),
        ("REFRESH STREAM TABLE n NOW", "not expected", "line 1, column 24"),
        ("SHOW STREAM TABLES LIKE 'a'", "not expected", "line 1, column 20"),
        ("EXPLAIN STREAM TABLE größe x", "not expected", "line 1, column 28"),
    ],
)
def test_malformed(text: str, message: str, at: str) -> None:
    with pytest.raises(TrickleError) as caught:
        parse_statement(text)
    error = caught.value
    assert error.code == "INVALID_STATEMENT"
    assert message in error.message
    assert f"{at}:" in error.message
    assert "^" in error.message
    assert "STREAM TABLE" in error.hint


def test_unclosed_string_in_ours() -> None:
    with pytest.raises(TrickleError) as caught:
        parse_statement("CREATE STREAM TABLE n AS SELECT 'open")
    assert caught.value.code == "SYNTAX_ERROR"
    assert "line 1, column 33" in caught.value.message


def test_a_list_is_created_together() -> None:
    first = "CREATE STREAM TABLE s.a AS SELECT ';' AS x FROM s.b; -- the first\n"
    found = parse_statement(f"{first}CREATE STREAM TABLE s.b SCHEDULE '5m' AS SELECT 1;")
    assert isinstance(found, CreateStreamTables)
    assert [(t.name, t.query, t.schedule) for t in found.tables] == [
        (("s", "a"), "SELECT ';' AS x FROM s.b", None),
        (("s", "b"), "SELECT 1", "5m"),
    ]
    with pytest.raises(TrickleError, match="for one statement, not for a list"):
        parse_statement("CREATE STREAM TABLE s.a AS SELECT 1; CREATE OR REPLACE STREAM TABLE s.b AS SELECT 1")
