"""Sums and averages by state are Spark's own, to the last digit."""

from __future__ import annotations

import random

import pytest

from spark_trickle import Action, Trickle
from spark_trickle.spark import order

WIDE = "40000000000000000000000000000000.000001"
DEFINITION = """SELECT g, count(*) AS n, avg(i) AS ai, mean(b) AS ab, avg(d) AS ad, avg(f) AS af, sum(b) AS sb,
    sum(d * (1 - d) * (1 + f)) AS sw, sum(w) AS ws, max(i) AS mi, avg(d) FILTER (WHERE i > 0) AS afd
    FROM s.numbers GROUP BY g"""
ENDS = (9223372036854775807, -9223372036854775808, 1, -1, 0)


def rows(rnd: random.Random, number: int) -> str:
    """Sums that end in a half are frequent, and so are both ends of BIGINT."""
    made = []
    for _ in range(number):
        d = rnd.choice((f"{rnd.randrange(-9999, 9999)}.{rnd.randrange(100):02}", "0.01", "-0.01", "NULL"))
        f = rnd.choice((f"{rnd.randrange(-9, 9)}.{rnd.randrange(10**6):06}", "NULL"))
        i = rnd.choice((str(rnd.randrange(-50, 50)), "2147483647", "NULL"))
        values = (rnd.choice("abc"), i, "NULL", d, f, rnd.choice(("1.000001", "-1.000001", "NULL")))
        made.append(f"('{values[0]}', {', '.join(values[1:])})")
    return ", ".join(made)


@pytest.fixture
def lake(tr: Trickle) -> Trickle:
    tr.sql(
        "CREATE TABLE s.numbers (g STRING, i INT, b BIGINT, d DECIMAL(15, 2), f DECIMAL(16, 6), w DECIMAL(38, 6)) "
        "USING iceberg TBLPROPERTIES ('write.delete.mode' = 'merge-on-read', 'write.update.mode' = 'merge-on-read')"
    )
    return tr


def keep_equal(tr: Trickle, *statements: str) -> None:
    for statement in statements:
        tr.sql(statement)
    result = tr.refresh("s.numbers_of_g")
    assert result.action is Action.DIFFERENTIAL, result.reason
    stored = tr.sql("SELECT * FROM s.numbers_of_g ORDER BY g").collect()
    assert stored == tr.sql(f"{DEFINITION} ORDER BY g").collect()


def test_to_the_last_digit(lake: Trickle) -> None:
    rnd = random.Random(5)
    lake.sql(f"INSERT INTO s.numbers VALUES {rows(rnd, 60)}")
    lake.create_stream_table("s.numbers_of_g", DEFINITION, mode="DIFFERENTIAL")
    plan = lake.explain("s.numbers_of_g").delta_sql
    assert "_t_3_s" in plan, "the averages are not kept by state"
    for _ in range(4):
        more = f"{rnd.randrange(100)}.{rnd.randrange(100):02}"
        keep_equal(
            lake,
            f"INSERT INTO s.numbers VALUES {rows(rnd, 7)}",
            f"UPDATE s.numbers SET d = d + {more} WHERE i < {rnd.randrange(-50, 50)}",
            f"DELETE FROM s.numbers WHERE i > {rnd.randrange(30, 50)} AND i < 100",
        )
    keep_equal(lake, "DELETE FROM s.numbers WHERE g = 'a'", "UPDATE s.numbers SET d = NULL, f = NULL WHERE g = 'b'")


def test_from_one_end_of_bigint_to_the_other(lake: Trickle) -> None:
    """What one refresh takes away and adds is larger than any BIGINT; the sums before and after are not."""
    lake.sql(f"INSERT INTO s.numbers VALUES ('a', 1, {ENDS[0]}, 1, 1, {WIDE}), ('b', 1, {ENDS[1]}, 0, 0, -{WIDE})")
    lake.create_stream_table("s.numbers_of_g", DEFINITION, mode="DIFFERENTIAL")
    keep_equal(lake, f"UPDATE s.numbers SET b = {ENDS[1]}, w = -{WIDE} WHERE g = 'a'")
    keep_equal(lake, f"UPDATE s.numbers SET b = {ENDS[0]} WHERE g = 'b'", f"UPDATE s.numbers SET b = {ENDS[0]}")


def test_a_join_in_steps_gives_the_same(tr: Trickle, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("a", "b", "c"):
        tr.sql(f"CREATE TABLE s.{name} (id INT, k INT, v INT)")
        tr.sql(f"INSERT INTO s.{name} SELECT CAST(id AS INT), CAST(id % 7 AS INT), CAST(id % 3 AS INT) FROM range(40)")
    query = """SELECT a.id, b.v, c.k FROM s.a a JOIN s.b b ON a.k = b.k JOIN s.c c ON b.id = c.id AND c.v <> a.v
        WHERE EXISTS (SELECT 1 FROM s.c d JOIN s.b e ON d.id = e.id WHERE d.k = a.k AND e.v > 0)"""
    tr.create_stream_table("s.steps", query, mode="DIFFERENTIAL")
    for large in (0, 10**9):
        monkeypatch.setattr(order, "LARGE", large)
        tr.sql(f"DELETE FROM s.a WHERE id % 11 = {min(large, 1)}")
        tr.sql("UPDATE s.b SET k = k + 1 WHERE id % 5 = 2")
        tr.sql("INSERT INTO s.c VALUES (3, 3, NULL), (4, NULL, 9), (NULL, 1, 1)")
        assert tr.refresh("s.steps").action is Action.DIFFERENTIAL
        assert tr.verify("s.steps").equal
