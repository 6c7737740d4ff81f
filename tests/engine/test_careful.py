"""No expression is evaluated on rows that never existed.

In each case the plain query is fine before and after a change, but a delta pairs an old row of one table with a new row
of another, and for such a pair the definition fails. The refresh must succeed and be exact; an error that the new state
itself has stays the user's.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import pytest

from spark_trickle import Action, Trickle
from spark_trickle.errors import Kind, TrickleError

pytestmark = pytest.mark.spark

# o: a code and where it points; k: whether its codes are numbers, and a divisor. One changes with the other.
TABLES = {
    "o": ("id INT, kid INT, code STRING, v INT", "(1, 1, 'x', 1), (2, 2, '20', 2), (3, 2, '30', 3)"),
    "k": ("kid INT, kind STRING, y INT", "(1, 'text', 0), (2, 'num', 2)"),
    "zero": ("v INT", "(0), (0)"),
}
# The code of order 1 is repaired, and its kind is switched on.
REPAIR = ("UPDATE s.o SET code = '10' WHERE id = 1", "UPDATE s.k SET kind = 'num', y = 5 WHERE kid = 1")
BREAK = ("UPDATE s.k SET kind = 'text', y = 0 WHERE kid = 1", "UPDATE s.o SET code = 'x' WHERE id = 1")


# Those whose delta meets a pair that never existed when the code is repaired; the others recompute what is affected.
MEETS_NEVER = {"aggregate", "case_cast", "exists", "global", "left_join", "python", "raised", "top", "where"}


@dataclass(frozen=True)
class Case:
    name: str
    definition: str


CASES = (
    Case(
        "case_cast",
        "SELECT o.id, CASE WHEN k.kind = 'num' THEN CAST(o.code AS INT) END AS n FROM s.o JOIN s.k USING (kid)",
    ),
    Case(
        "left_join",
        "SELECT o.id, CASE WHEN k.kind = 'num' THEN CAST(o.code AS INT) END AS n "
        "FROM s.o LEFT JOIN s.k ON o.kid = k.kid",
    ),
    Case(
        "aggregate",
        "SELECT k.kid, sum(CASE WHEN k.kind = 'num' THEN CAST(o.code AS INT) END) AS n, count(*) AS c "
        "FROM s.o JOIN s.k ON o.kid = k.kid GROUP BY k.kid",
    ),
    Case(
        "groups",
        "SELECT k.kid, collect_set(CASE WHEN k.kind = 'num' THEN CAST(o.code AS INT) END) AS n "
        "FROM s.o JOIN s.k ON o.kid = k.kid GROUP BY k.kid",
    ),
    Case(
        "global",
        "SELECT sum(CASE WHEN k.kind = 'num' THEN CAST(o.code AS INT) END) AS n FROM s.o JOIN s.k ON o.kid = k.kid",
    ),
    Case(
        "window",
        "SELECT o.id, k.kid, sum(CASE WHEN k.kind = 'num' THEN CAST(o.code AS INT) END) OVER (PARTITION BY k.kid) AS n "
        "FROM s.o JOIN s.k ON o.kid = k.kid",
    ),
    Case(
        "where",
        "SELECT o.id FROM s.o JOIN s.k ON o.kid = k.kid "
        "WHERE CASE WHEN k.kind = 'num' THEN CAST(o.code AS INT) > 5 END",
    ),
    Case(
        "raised",
        "SELECT o.id, CASE WHEN o.code = 'x' AND k.kind = 'num' THEN raise_error('never') ELSE o.code END AS c "
        "FROM s.o JOIN s.k ON o.kid = k.kid",
    ),
    Case(
        "python",
        "SELECT o.id, zero_fails(CASE WHEN k.kind = 'num' THEN length(o.code) - 1 ELSE 1 END) AS c "
        "FROM s.o JOIN s.k ON o.kid = k.kid",
    ),
    Case(
        "top",
        "SELECT o.id, CASE WHEN k.kind = 'num' THEN CAST(o.code AS INT) END AS n FROM s.o JOIN s.k ON o.kid = k.kid "
        "ORDER BY n DESC NULLS LAST, id LIMIT 2",
    ),
    Case(
        "below_an_aggregate",
        "SELECT n, count(*) AS c FROM (SELECT k.kid, max(CASE WHEN k.kind = 'num' THEN CAST(o.code AS INT) END) AS n "
        "FROM s.o JOIN s.k ON o.kid = k.kid GROUP BY k.kid) GROUP BY n",
    ),
    Case(
        "exists",
        "SELECT o.id FROM s.o WHERE EXISTS (SELECT 1 FROM s.k WHERE k.kid = o.kid AND "
        "CASE WHEN k.kind = 'num' THEN CAST(o.code AS INT) > 5 END)",
    ),
    Case(
        "scalar_subquery",
        "SELECT o.id, o.v / (SELECT max(CASE WHEN kind = 'num' THEN y ELSE 1 END) FROM s.k WHERE k.kid = o.kid) AS q "
        "FROM s.o",
    ),
)


@pytest.fixture(scope="module")
def lake(module_tr: Trickle) -> Trickle:
    for name, (columns, rows) in TABLES.items():
        module_tr.sql(f"CREATE TABLE s.{name} ({columns})")
        module_tr.sql(f"INSERT INTO s.{name} VALUES {rows}")
    module_tr.create_function("zero_fails", "tests.engine.shop_functions:zero_fails", "int")
    for case in CASES:
        module_tr.create_stream_table(f"s.{case.name}", case.definition, mode="differential")
    module_tr.create_stream_table("s.in_auto", CASES[0].definition)
    return module_tr


@pytest.mark.parametrize("changes", [REPAIR, BREAK], ids=["repair", "break"])
def test_pairs_that_never_existed_do_no_harm(lake: Trickle, changes: tuple[str, ...]) -> None:
    for change in changes:
        lake.sql(change)
    careful = set()
    for name in ("s.in_auto", *(f"s.{case.name}" for case in CASES)):
        found = lake.refresh(name)
        assert found.action in (Action.DIFFERENTIAL, Action.FULL), found
        assert lake.verify(name, deep=True).equal, name
        if "DELTA_FAILED" in found.reason:
            careful.add(name.removeprefix("s."))
    if changes is REPAIR:
        assert careful >= MEETS_NEVER


def test_an_error_of_the_new_state_is_the_users(lake: Trickle) -> None:
    lake.sql("CREATE TABLE s.plain (id INT, code STRING)")
    lake.sql("INSERT INTO s.plain VALUES (1, '1')")
    lake.create_stream_table("s.numbers", "SELECT id, CAST(code AS INT) AS n FROM s.plain")
    lake.sql("INSERT INTO s.plain VALUES (2, 'two')")
    with pytest.raises(TrickleError, match="CAST_INVALID_INPUT") as caught:
        lake.refresh("s.numbers")
    assert (caught.value.code, caught.value.kind) == ("EVALUATION_FAILED", Kind.USER)
    assert caught.value.message.startswith("s.numbers: ")
    assert "'two'" in caught.value.message  # the value of the row
    assert "CAST" in caught.value.message  # the expression
    assert lake.history("s.numbers", limit=1)[0].state == "FAILED"
    lake.sql("DELETE FROM s.plain WHERE id = 2")
    assert lake.refresh("s.numbers").action in (Action.DIFFERENTIAL, Action.NO_DATA)
    assert lake.verify("s.numbers").equal


@pytest.mark.parametrize(
    ("expression", "condition"),
    [
        ("100 DIV v", "DIVIDE_BY_ZERO"),
        ("v + 9223372036854775807L + 1L", "ARITHMETIC_OVERFLOW"),
        ("CAST(v + 200 AS TINYINT)", "CAST_OVERFLOW"),
        ("CASE WHEN v = 0 THEN raise_error('no zero') ELSE v END", "no zero"),
        ("array(1, 2)[v + 5]", "INVALID_ARRAY_INDEX"),
        ("map(v, 1, v + 0, 2)", "DUPLICATED_MAP_KEY"),
        ("to_date(concat('x', v), 'yyyy')", "CANNOT_PARSE_TIMESTAMP"),
        ("(SELECT z.v FROM s.zero z)", "SCALAR_SUBQUERY_TOO_MANY_ROWS"),
        ("zero_fails(v)", "zero!"),
    ],
)
def test_bad_data_is_not_transient(lake: Trickle, expression: str, condition: str) -> None:
    """Whoever retries it without a change of the data gets the same error: the kind says so."""
    with pytest.raises(TrickleError, match=condition) as caught:
        lake.create_stream_table("s.bad", f"SELECT {expression} AS x FROM s.zero", mode="full")
    assert (caught.value.code, caught.value.retryable) == ("EVALUATION_FAILED", False), caught.value


def test_a_lost_file_may_come_back(lake: Trickle) -> None:
    lake.sql("CREATE TABLE s.lost (v INT)")
    lake.sql("INSERT INTO s.lost VALUES (1)")
    file = Path(lake.spark.sql("SELECT input_file_name() FROM s.lost").head()[0].removeprefix("file:"))
    aside = file.rename(file.with_suffix(".aside"))
    with pytest.raises(TrickleError) as caught:
        lake.create_stream_table("s.regained", "SELECT v + 1 AS v FROM s.lost", mode="full")
    assert (caught.value.code, caught.value.retryable) == ("SPARK_FAILED", True), caught.value
    assert caught.value.message.startswith(f"FileNotFoundException: File file:{file} does not exist"), caught.value
    aside.rename(file)
    lake.create_stream_table("s.regained", "SELECT v + 1 AS v FROM s.lost", mode="full")
    assert lake.verify("s.regained").equal


def test_divisions_guarded_by_another_table(lake: Trickle) -> None:
    lake.sql("CREATE TABLE s.a (id INT, v INT)")
    lake.sql("CREATE TABLE s.b (id INT, w INT)")
    lake.sql("INSERT INTO s.a VALUES (1, 1), (2, 2)")
    lake.sql("INSERT INTO s.b VALUES (1, 10), (2, 0), (3, 0)")
    definitions = {
        "divided": "SELECT a.id, 100 DIV b.w AS q FROM s.a JOIN s.b ON a.id = b.id WHERE b.w <> 0 OR a.v > 5",
        "guarded": "SELECT a.id FROM s.a JOIN s.b ON a.id = b.id "
        "WHERE CASE WHEN a.v = 2 THEN true ELSE 100 / b.w > a.v END",
        "padded": "SELECT a.id, b.w FROM s.a LEFT JOIN s.b ON a.id = b.id "
        "AND CASE WHEN a.v = 2 THEN true ELSE 100 / b.w > 1 END",
    }
    for name, text in definitions.items():
        lake.create_stream_table(f"s.{name}", text, mode="differential")
    for change in ("UPDATE s.b SET w = 7 WHERE id = 2", "UPDATE s.a SET v = 9 WHERE id = 2"):
        lake.sql(change)
    for name in definitions:
        lake.refresh(f"s.{name}")
        assert lake.verify(f"s.{name}").equal, name
    for change in ("UPDATE s.a SET v = 2 WHERE id = 2", "UPDATE s.b SET w = 0 WHERE id = 2"):
        lake.sql(change)
    for name in definitions:
        lake.refresh(f"s.{name}")
        assert lake.verify(f"s.{name}").equal, name


def test_errors_without_a_sqlstate_of_data(lake: Trickle) -> None:
    lake.sql("CREATE TABLE s.p (id INT, x STRING, lo INT)")
    lake.sql("CREATE TABLE s.q (id INT, y STRING, hi INT)")
    lake.sql("INSERT INTO s.p VALUES (1, 'p', 1), (2, 'a', 10)")
    lake.sql("INSERT INTO s.q VALUES (1, 'q', 5), (2, 'b', 15)")
    definitions = {
        "keys_twice": "SELECT p.id, map(p.x, 1, q.y, 2) AS m FROM s.p JOIN s.q ON p.id = q.id",
        "no_sequence": "SELECT p.id, sequence(p.lo, q.hi, 1) AS n FROM s.p JOIN s.q ON p.id = q.id",
    }
    for name, text in definitions.items():
        lake.create_stream_table(f"s.{name}", text, mode="differential")
    # In either order of the join one old row meets a new one.
    lake.sql("UPDATE s.p SET x = IF(id = 1, 'q', x), lo = IF(id = 1, 10, 1)")
    lake.sql("UPDATE s.q SET y = IF(id = 1, 'p', y), hi = IF(id = 1, 15, 5)")
    for name in definitions:
        found = lake.refresh(f"s.{name}")
        assert "DELTA_FAILED" in found.reason, found
        assert lake.verify(f"s.{name}").equal


def test_a_scalar_subquery_with_more_rows_for_keys_that_nobody_asks_for(lake: Trickle) -> None:
    """Spark may look at the value before the join: there it must not raise for keys that no outer row has."""
    lake.sql("CREATE TABLE s.asked (k INT, ask BOOLEAN)")
    lake.sql("INSERT INTO s.asked VALUES (1, true), (2, false), (3, true)")
    lake.sql("CREATE TABLE s.limits (k INT, lim INT)")
    lake.sql("INSERT INTO s.limits VALUES (1, 8), (2, 9), (2, 10), (3, 7)")
    lake.sql("CREATE TABLE s.found (k INT, v INT)")
    lake.sql("INSERT INTO s.found VALUES (8, 1), (7, 2)")
    lake.create_stream_table(
        "s.single",
        "SELECT f.v, q.k FROM (SELECT a.k, (SELECT l.lim FROM s.limits l WHERE l.k = a.k) AS lim "
        "FROM s.asked a WHERE a.ask) q JOIN s.found f ON q.lim = f.k AND q.lim >= 7",
        mode="differential",
    )
    for change in ("INSERT INTO s.limits VALUES (2, 11)", "INSERT INTO s.asked VALUES (1, true)"):
        lake.sql(change)
        assert lake.refresh("s.single").action is Action.DIFFERENTIAL
        assert lake.verify("s.single").equal
    lake.sql("UPDATE s.asked SET ask = true WHERE k = 2")
    with pytest.raises(TrickleError, match="SCALAR_SUBQUERY_TOO_MANY_ROWS"):
        lake.refresh("s.single")
