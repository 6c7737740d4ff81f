"""Statements over rows on the driver: the same rows as Spark's, whatever was under the same plan before."""

from __future__ import annotations

import threading
from collections import Counter
from typing import TYPE_CHECKING

import pytest

from spark_trickle.spark.analyze import type_text
from spark_trickle.spark.runtime import Local, collect_local, forget_prepared, register_functions, run_prepared
from spark_trickle.sql.identity import identity
from spark_trickle.sql.scalar import column
from tests.spark.test_identity import HELD

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

LEFT = [
    "SELECT id AS k, id % 3 AS g, CAST(id AS DECIMAL(38, 2)) AS v FROM range(9)",
    "SELECT id + 4 AS k, 1L AS g, CAST(NULL AS DECIMAL(38, 2)) AS v FROM range(3)",
    "SELECT id AS k, id AS g, CAST(id AS DECIMAL(38, 2)) AS v FROM range(0)",
]
RIGHT = [
    "SELECT id * 2 AS k, concat('r', id) AS s FROM range(6)",
    "SELECT CAST(NULL AS BIGINT) AS k, 'none' AS s",
    "SELECT id AS k, '' AS s FROM range(0)",
]
STATEMENTS = [
    "SELECT * FROM `l` WHERE v > 2",
    "SELECT l.k, s FROM `l` AS l JOIN `r` AS r ON l.k = r.k",
    "SELECT l.k, s FROM `l` AS l LEFT JOIN `r` AS r ON l.k <=> r.k",
    "SELECT l.k, s FROM `l` AS l FULL JOIN `r` AS r ON l.k = r.k AND l.g > 0",
    "SELECT * FROM `l` AS l LEFT SEMI JOIN `r` AS r ON l.k = r.k",
    "SELECT * FROM `l` AS l LEFT ANTI JOIN `r` AS r ON l.k <=> r.k",
    "SELECT l.k, s FROM `l` AS l JOIN `r` AS r ON l.k < r.k",
    "SELECT g, count(*), sum(v), avg(v), max(k), count(DISTINCT k) FROM `l` GROUP BY g",
    "SELECT count(*), sum(v) FROM `l`",
    "SELECT g, array_join(array_sort(collect_list(k)), ',') FROM `l` GROUP BY g",
    "SELECT DISTINCT g FROM `l`",
    "SELECT k, row_number() OVER (PARTITION BY g ORDER BY k) FROM `l`",
    "SELECT k, g FROM `l` ORDER BY k DESC LIMIT 3",
    "SELECT k, c FROM `l` LATERAL VIEW explode(array_repeat(g, 2)) AS c",
    "WITH u AS (SELECT k FROM `l` UNION ALL SELECT k FROM `r`) "
    "SELECT a.k, count(*) FROM u AS a JOIN u AS b ON a.k = b.k GROUP BY a.k",
    "SELECT /* constants */ k, n FROM `l` JOIN (SELECT * FROM VALUES (0), (1) AS t(n)) ON g = n",
]


def local(spark: SparkSession, sql: str) -> Local:
    found = collect_local(spark.sql(sql), 100)
    assert found is not None
    return found


def counted(relation: Local) -> Counter[tuple[object, ...]]:
    return Counter(tuple(r) for r in relation.frame.collect())


@pytest.mark.parametrize("sql", STATEMENTS)
def test_a_plan_is_used_again_for_other_rows(spark: SparkSession, sql: str) -> None:
    sides = [(local(spark, a), local(spark, b)) for a in LEFT for b in RIGHT]
    for n, (left, right) in enumerate([*sides, sides[0]]):
        inputs = {"l": left, "r": right} if "`r`" in sql else {"l": left}
        names = {f"left_{n}": left, f"right_{n}": right}  # the names differ, the plan does not
        renamed = sql.replace("`l`", f"`left_{n}`").replace("`r`", f"`right_{n}`")
        found = run_prepared(spark, renamed, {k: v for k, v in names.items() if f"`{k}`" in renamed}, 1000)
        for name, relation in inputs.items():
            relation.frame.createOrReplaceTempView(name)
        expected = Counter(tuple(r) for r in spark.sql(sql).collect())
        if found is None:
            assert "VALUES" in sql, "only a constant may be left to Spark"
            continue
        assert found.frame.schema == spark.sql(sql).schema
        assert counted(found) == expected


def test_values_keep_their_bits(spark: SparkSession) -> None:
    register_functions(spark)
    listed = ", ".join(f"{v} AS c{n}" for n, v in enumerate(HELD))
    given = local(spark, f"SELECT {listed} UNION ALL SELECT {', '.join(['NULL'] * len(HELD))}")
    found = run_prepared(spark, "SELECT * FROM `given`", {"given": given}, 10)
    assert found is not None
    found.frame.createOrReplaceTempView("after")
    given.frame.createOrReplaceTempView("before")
    forms = ", ".join(identity(column(f.name), type_text(f.dataType)).sql() for f in given.frame.schema)
    for one, other in (("before", "after"), ("after", "before")):
        assert spark.sql(f"SELECT {forms} FROM {one} EXCEPT ALL SELECT {forms} FROM {other}").collect() == []


def test_settings_are_part_of_a_plan(spark: SparkSession) -> None:
    other = spark.newSession()
    given = local(spark, "SELECT TIMESTAMP_SECONDS(0) AS t, 'x' AS s")
    seen = []
    for zone, ansi in (("Asia/Tokyo", "true"), ("America/New_York", "false"), ("Asia/Tokyo", "true")):
        other.conf.set("spark.sql.session.timeZone", zone)
        other.conf.set("spark.sql.ansi.enabled", ansi)
        found = run_prepared(other, "SELECT hour(t), try_cast(s AS INT), size(CAST(NULL AS ARRAY<INT>)) FROM `g`",
                             {"g": given}, 10)  # fmt: skip
        assert found is not None
        seen += list(counted(found))
    assert seen == [(9, None, None), (19, None, -1), (9, None, None)]
    forget_prepared(other)


def test_a_failing_expression_is_left_to_spark(spark: SparkSession) -> None:
    sql = "SELECT 10 DIV k AS x FROM `g`"
    assert run_prepared(spark, sql, {"g": local(spark, "SELECT 0L AS k")}, 10) is None
    found = run_prepared(spark, sql, {"g": local(spark, "SELECT 5L AS k")}, 10)
    assert found is not None
    assert counted(found) == {(2,): 1}, "the plan works for other rows"


def test_a_failure_leaves_nothing_behind(spark: SparkSession) -> None:
    """The writer of to_json is inside an object when a value fails; the next one would be written into it."""
    sql = "SELECT to_json(named_struct('a', k, 'd', d), map('dateFormat', 'HH')) AS j FROM `g`"
    # DATE has no hour; NULL is not formatted.
    bad, good = (f"SELECT 1L AS k, CAST({d} AS DATE) AS d" for d in ("'2024-01-01'", "NULL"))
    assert run_prepared(spark, sql, {"g": local(spark, bad)}, 10) is None
    found = run_prepared(spark, sql, {"g": local(spark, good)}, 10)
    assert found is not None
    assert counted(found) == {('{"a":1}',): 1}


@pytest.mark.parametrize(
    "sql",
    [
        "SELECT rand() FROM `g`",
        "SELECT monotonically_increasing_id() FROM `g`",
        "SELECT (SELECT max(id) FROM range(3)) FROM `g`",
        "SELECT g.k FROM `g` AS g LEFT JOIN range(3) AS r ON g.k < r.id",
        "SELECT id FROM range(3) JOIN `g` ON id = k",
        "SELECT twice(k) FROM `g`",
    ],
)
def test_what_need_not_be_the_same_the_next_time_is_left_to_spark(spark: SparkSession, sql: str) -> None:
    spark.udf.register("twice", lambda k: k * 2, "bigint")
    assert run_prepared(spark, sql, {"g": local(spark, "SELECT 1L AS k")}, 10) is None


def test_more_rows_than_asked_for(spark: SparkSession) -> None:
    given = {"g": local(spark, "SELECT id AS k FROM range(5)")}
    assert run_prepared(spark, "SELECT * FROM `g`", given, 4) is None
    found = run_prepared(spark, "SELECT * FROM `g`", given, 5, ("k",))
    assert found is not None
    assert (found.rows, found.sums) == (5, ((10, 0),))


def test_threads_take_turns(spark: SparkSession) -> None:
    given = [local(spark, f"SELECT id + {n} AS k FROM range(20)") for n in range(4)]
    wrong: list[object] = []

    def work(n: int) -> None:
        for _ in range(20):
            found = run_prepared(spark, "SELECT sum(k), count(*) FROM `g` AS a JOIN (SELECT DISTINCT k AS j FROM `g`) "
                                 "ON k = j", {"g": given[n]}, 10)  # fmt: skip
            if found is None or counted(found) != {(190 + 20 * n, 20): 1}:
                wrong.append(found)

    threads = [threading.Thread(target=work, args=(n,)) for n in range(4)]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    assert wrong == []
