"""The guard against real Spark: passes what means the same, catches what does not."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import pytest
import sqlglot

from spark_trickle.spark.guard import roundtrip, same_plan
from spark_trickle.sql.parse import parse_query, render
from tests.spark.tables import make_tables

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.spark

TESTS = Path(__file__).parents[1]
TPCH = sorted((TESTS / "tpch" / "queries").glob("q*.sql"))
LINES = [
    line
    for line in (TESTS / "sql" / "expressions.txt").read_text(encoding="utf-8").splitlines()
    if line and not line.startswith("#")
]
QUERY_STARTS = ("SELECT ", "WITH ", "FROM ", "(")

# What Spark takes and we refuse, with a part of the reason: such a definition is refreshed in full.
REFUSED = {
    # Spark draws a seed at every analysis: no text is equal to itself.
    "SELECT rand() AS r FROM t": "rand(",
    "SELECT uuid() AS r FROM t": "uuid(",
    "SELECT a FROM t ORDER BY rand()": "rand(",
    "SELECT a FROM t TABLESAMPLE (BUCKET 4 OUT OF 10)": "Spark reads",
    # Not in our grammar.
    "SELECT TRANSFORM(a) USING 'cat' AS (x) FROM t": "not expected here",
    # All but the first block of hints are lost; this one is a step of the plan.
    "SELECT /*+ BROADCAST(u) */ /*+ COALESCE(2) */ t.a FROM t JOIN u ON t.a = u.a": "Repartition",
}

DIFFERENT = [
    ("SELECT to_date(g, 'yyyy/MM') FROM t", "SELECT to_date(g) FROM t"),
    ("SELECT a + 1 FROM t", "SELECT a + 1L FROM t"),
    ("SELECT xxhash64(a, 1) FROM t", "SELECT xxhash64(a, 1L) FROM t"),
    ("SELECT a FROM t WHERE s = 'a'", "SELECT a FROM t WHERE s = 'A'"),
    ("SELECT a FROM t WHERE d > DATE '2020-01-01'", "SELECT a FROM t WHERE d > DATE '2020-01-02'"),
    ("SELECT cast(s AS INT) FROM t", "SELECT try_cast(s AS INT) FROM t"),
    ("SELECT a + b FROM t", "SELECT try_add(a, b) FROM t"),
    ("SELECT count(a) FROM t", "SELECT count(DISTINCT a) FROM t"),
    ("SELECT a FROM t UNION SELECT a FROM u", "SELECT a FROM t UNION ALL SELECT a FROM u"),
    ("SELECT t.a FROM t JOIN u ON t.a = u.a", "SELECT t.a FROM t LEFT JOIN u ON t.a = u.a"),
    ("SELECT a FROM t ORDER BY a LIMIT 1", "SELECT a FROM t ORDER BY a LIMIT 2"),
    ("SELECT a FROM t ORDER BY a LIMIT 1", "SELECT a FROM t ORDER BY a NULLS LAST LIMIT 1"),
    ("SELECT a, b FROM t", "SELECT b, a FROM t"),
    ("SELECT a FROM t", "SELECT a FROM u"),
    ("SELECT x FROM VALUES (1) AS v (x)", "SELECT x FROM VALUES (2) AS v (x)"),
    ("SELECT a | b & c FROM t", "SELECT (a | b) & c FROM t"),
    (
        "SELECT sum(a) OVER (ORDER BY b ROWS 1 PRECEDING) FROM t",
        "SELECT sum(a) OVER (ORDER BY b RANGE 1 PRECEDING) FROM t",
    ),
    ("SELECT cast(st.q AS STRUCT<r: STRING, w: ARRAY<INT>>) FROM t", "SELECT st.q.w FROM t"),
    ("SELECT now() FROM t", "SELECT current_date FROM t"),
    ("SELECT now() FROM t", "SELECT now() - INTERVAL 1 SECOND FROM t"),
]

# Through a CTE read twice no plan is canonically equal to itself: the second comparison has to decide.
TWICE = "WITH q AS (SELECT * FROM {}) SELECT l.k FROM q AS l JOIN q AS r ON l.k = r.k AND l.p = r.p"
DIFFERENT_IN_CTE = [
    ("parted WHERE p = 1", "parted WHERE p = 2"),
    ("parted WHERE p = 1", "parted WHERE p IN (1, 2)"),
    ("VALUES (1, 1) AS v (p, k)", "VALUES (1, 2) AS v (p, k)"),
    ("(SELECT p, '#12' AS k FROM parted)", "(SELECT p, '#13' AS k FROM parted)"),
    ("(SELECT p, 1 AS k FROM parted)", "(SELECT p, 1L AS k FROM parted)"),
    ("(SELECT p, xxhash64(1) + k AS k FROM parted)", "(SELECT p, xxhash64(1L) + k AS k FROM parted)"),
    (
        "(SELECT p, k FROM parted WHERE k IN (SELECT x FROM VALUES (1) AS v (x)))",
        "(SELECT p, k FROM parted WHERE k IN (SELECT x FROM VALUES (2) AS v (x)))",
    ),
]

SAME = [
    (TWICE.format("parted"), TWICE.format("parted")),
    ("SELECT current_timestamp, current_date FROM t", "SELECT now(), curdate() FROM t"),
    ("SELECT t.a FROM t, u WHERE t.a = u.a", "SELECT t.a FROM t CROSS JOIN u WHERE t.a = u.a"),
    ("SELECT a + (1 + 1) AS x FROM t", "SELECT a + 2 AS y FROM t"),
    ("SELECT a FROM t WHERE a IS NOT NULL", "SELECT a FROM t WHERE NOT a IS NULL"),
    ("SELECT a::string FROM t", "SELECT cast(a AS STRING) FROM t"),
]


@pytest.fixture(scope="module")
def session(plain_spark: SparkSession) -> SparkSession:
    make_tables(plain_spark)
    return plain_spark


@pytest.mark.parametrize("path", TPCH, ids=lambda p: p.stem)
def test_tpch(session: SparkSession, path: Path) -> None:
    assert roundtrip(session, path.read_text(encoding="utf-8")) is None


def test_counts() -> None:
    assert len(TPCH) == 22
    assert len(LINES) >= 200


@pytest.mark.parametrize("line", LINES)
def test_expressions(session: SparkSession, line: str) -> None:
    text = line if line.startswith(QUERY_STARTS) else f"SELECT {line} FROM t"
    assert roundtrip(session, text) is None


@pytest.mark.parametrize(("text", "reason"), REFUSED.items())
def test_refused(session: SparkSession, text: str, reason: str) -> None:
    session.sql(text)  # Spark takes it
    found = roundtrip(session, text)
    assert found is not None
    assert reason in found


@pytest.mark.parametrize(("one", "other"), DIFFERENT)
def test_different(session: SparkSession, one: str, other: str) -> None:
    assert not same_plan(session, one, other)


@pytest.mark.parametrize(("one", "other"), DIFFERENT_IN_CTE)
def test_different_in_cte(session: SparkSession, one: str, other: str) -> None:
    assert same_plan(session, TWICE.format(one), TWICE.format(one))
    assert not same_plan(session, TWICE.format(one), TWICE.format(other))


@pytest.mark.parametrize(("one", "other"), SAME)
def test_same(session: SparkSession, one: str, other: str) -> None:
    assert same_plan(session, one, other)


@pytest.mark.parametrize(
    "text",
    [
        "SELECT to_date(g, 'yyyy-MM-dd') AS x FROM t",
        "SELECT percentile_cont(0.5) WITHIN GROUP (ORDER BY a) AS x FROM t",
        "SELECT 'it''s' AS x FROM t",
        "SELECT to_char(d, 'yyyy') AS x FROM t",
    ],
)
def test_stock_dialect_changes_meaning(session: SparkSession, text: str) -> None:
    """Why there is a dialect of our own, and that the guard would notice without it."""
    stock = sqlglot.parse_one(text, dialect="spark").sql(dialect="spark")
    assert not _accepted_as_same(session, text, stock)
    assert _accepted_as_same(session, text, render(parse_query(text)))


def _accepted_as_same(session: SparkSession, text: str, other: str) -> bool:
    from pyspark.errors import AnalysisException

    try:
        return same_plan(session, text, other)
    except AnalysisException:
        return False


def test_tree_shape_is_guarded(session: SparkSession, monkeypatch: pytest.MonkeyPatch) -> None:
    """A reading with wrong precedence is written back letter for letter, and still refused."""
    from sqlglot import exp

    from spark_trickle.spark import guard

    text = "SELECT a | b & a AS x FROM t"

    def wrong(_: str) -> exp.Query:
        tree = parse_query(text)
        outer = tree.find(exp.BitwiseOr)
        assert outer is not None
        a, b, c = (exp.column(name) for name in "aba")
        outer.replace(exp.BitwiseAnd(this=exp.BitwiseOr(this=a, expression=b), expression=c))
        assert render(tree) == text
        return tree

    monkeypatch.setattr(guard, "parse_query", wrong)
    reason = roundtrip(session, text)
    assert reason is not None
    assert "(a | (b & a))" in reason
    assert "((a | b) & a)" in reason


def test_reason_names_the_expression(session: SparkSession, monkeypatch: pytest.MonkeyPatch) -> None:
    from spark_trickle.spark import guard

    other = "SELECT a, to_date(g), b FROM t"
    monkeypatch.setattr(guard, "render", lambda *_, **__: other)
    reason = roundtrip(session, "SELECT a, to_date(g, 'yyyy'), b FROM t")
    assert reason is not None
    assert "to_date(g, Some(yyyy)" in reason
    assert reason.count("to_date") >= 2
    assert "AS b" not in reason


def test_joins_after_a_comma(session: SparkSession) -> None:
    """Our tree lists joins flat, as Spark does by default; with the standard's precedence it is refused."""
    text = "SELECT t.a, w.q FROM t, u FULL JOIN w ON u.a = w.a"
    assert roundtrip(session, text) is None
    session.conf.set("spark.sql.ansi.relationPrecedence", "true")
    try:
        assert roundtrip(session, text) is not None
        assert roundtrip(session, "SELECT t.a FROM t, u, w WHERE t.a = u.a") is None
    finally:
        session.conf.unset("spark.sql.ansi.relationPrecedence")


def test_original_refused_by_spark(session: SparkSession) -> None:
    from pyspark.errors import AnalysisException

    with pytest.raises(AnalysisException, match="no_such_column"):
        roundtrip(session, "SELECT no_such_column FROM t")
