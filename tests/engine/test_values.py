"""Values that conversions used to change: a stream table holds the very values that its definition gives.

Each case is a table, its first rows, a definition, and changes; after each change the content must be the same, value
by value, as what plain Spark computes.
"""

from __future__ import annotations

from dataclasses import dataclass

import pytest

from spark_trickle import Action, Trickle
from tests.fuzz.exact import compare

pytestmark = pytest.mark.spark

LONG = "map('k', {0}, 'j', 2, 'i', 3, 'h', 4, 'g', 5, 'f', 6, 'e', 7)"
TURNED = "map('e', 7, 'f', 6, 'g', 5, 'h', 4, 'i', 3, 'j', 2, 'k', {0})"


@dataclass(frozen=True)
class Case:
    name: str
    columns: str
    rows: str
    definition: str  # over {t}
    changes: tuple[str, ...]
    states: int = 0  # hidden state tables it must have


CASES = (
    Case(
        "invalid_utf8_group",
        "k STRING, v INT",
        "(CAST(X'FF' AS STRING), 1), (CAST(X'FE' AS STRING), 2), ('a', 3), ('\ufffd', 4)",
        "SELECT k, count(*) AS n, sum(v) AS s, max(k) AS m FROM {t} GROUP BY k",
        (
            "INSERT INTO {t} VALUES (CAST(X'FF' AS STRING), 10), (CAST(X'FD' AS STRING), 5)",
            "UPDATE {t} SET v = v + 1 WHERE k = CAST(X'FF' AS STRING)",
            "DELETE FROM {t} WHERE k = CAST(X'FE' AS STRING)",
        ),
    ),
    Case(
        "invalid_utf8_partition",
        "k STRING, v INT",
        "(CAST(X'FF' AS STRING), 1), (CAST(X'FF' AS STRING), 2), (CAST(X'FE' AS STRING), 3)",
        "SELECT k, v, row_number() OVER (PARTITION BY k ORDER BY v) AS n FROM {t}",
        ("INSERT INTO {t} VALUES (CAST(X'FF' AS STRING), 0)", "DELETE FROM {t} WHERE v = 3"),
    ),
    Case(
        "map_order",
        "id INT, m MAP<STRING, INT>",
        f"(1, {LONG.format(1)}), (2, {TURNED.format(1)}), (3, NULL), (4, map())",
        "SELECT id, m, get(map_keys(m), 0) AS first_key, to_json(m) AS j FROM {t}",
        (
            f"INSERT INTO {{t}} VALUES (5, {LONG.format(9)}), (6, {TURNED.format(9)})",
            f"UPDATE {{t}} SET m = {TURNED.format(1)} WHERE id = 1",  # only the order changes
            "DELETE FROM {t} WHERE id = 2",
        ),
    ),
    Case(
        "map_group",
        "id INT, m MAP<STRING, INT>",
        f"(1, {LONG.format(1)}), (2, {TURNED.format(1)}), (3, NULL)",
        "SELECT get(map_keys(m), 0) AS k, count(*) AS n, min(to_json(m)) AS j FROM {t} GROUP BY get(map_keys(m), 0)",
        (f"INSERT INTO {{t}} VALUES (4, {LONG.format(2)})", "DELETE FROM {t} WHERE id = 1"),
    ),
    Case(
        "nested_maps",
        "id INT, s STRUCT<m: MAP<BINARY, INT>>, a ARRAY<MAP<STRING, INT>>, n MAP<STRING, MAP<STRING, INT>>",
        f"(1, named_struct('m', map(X'FF', 1, X'FE', 2)), array({LONG.format(1)}, NULL), map('x', {LONG.format(1)})), "
        "(2, NULL, NULL, NULL)",
        "SELECT id, s, a, n FROM {t}",
        (
            "INSERT INTO {t} SELECT id + 10, s, a, n FROM {t}",
            "UPDATE {t} SET s = named_struct('m', map(X'FE', 1, X'FF', 2)) WHERE id = 1",
            f"UPDATE {{t}} SET a = array({TURNED.format(1)}, NULL), n = map('x', {TURNED.format(1)}) WHERE id = 11",
            "DELETE FROM {t} WHERE id = 1",
        ),
    ),
    Case(
        "variant",
        "id INT, v VARIANT",
        """(1, parse_json('[1, "1", 1.0]')), (2, to_variant_object(array(DATE'2024-01-01'))), (3, NULL)""",
        "SELECT id, v, to_json(v) AS j FROM {t}",
        (
            """UPDATE {t} SET v = parse_json('["2024-01-01"]') WHERE id = 2""",  # the same JSON, another type inside
            """INSERT INTO {t} SELECT 4, parse_json('{"b": {"a": [null]}}') FROM range(2)""",
            "DELETE FROM {t} WHERE id = 1",
        ),
    ),
    Case(
        "signed_zeros",
        "id INT, d DOUBLE, f FLOAT",
        "(1, 0.0D, 0.0F), (2, -0.0D, -0.0F), (3, double('NaN'), float('NaN')), (4, 1.5D, NULL)",
        "SELECT id, d, f, array(d) AS a, CAST(d AS STRING) AS t FROM {t}",
        ("UPDATE {t} SET d = -d, f = -f", "INSERT INTO {t} VALUES (5, -0.0D, 0.0F)", "DELETE FROM {t} WHERE d = 0"),
    ),
    Case(
        "extrema_of_zeros",
        "g STRING, d DOUBLE",
        "('a', 0.0D), ('b', -0.0D), ('c', 1.0D)",
        "SELECT g, max(d) AS high, min(d) AS low FROM {t} GROUP BY g",
        ("UPDATE {t} SET d = -d WHERE g IN ('a', 'b')",),
    ),
    Case(
        "extrema_of_zeros_below",
        "g STRING, d DOUBLE",
        "('a', 0.0D), ('b', -0.0D), ('c', 1.0D)",
        "SELECT high, CAST(high AS STRING) AS t, count(*) AS n FROM (SELECT g, max(d) AS high FROM {t} GROUP BY g) "
        "GROUP BY high, CAST(high AS STRING)",
        ("UPDATE {t} SET d = -d WHERE g = 'a'", "INSERT INTO {t} VALUES ('d', -0.0D)", "DELETE FROM {t} WHERE g = 'b'"),
        states=1,
    ),
    Case(
        "collated",
        "id INT, c STRING",
        "(1, 'a'), (2, 'B')",
        "SELECT id, c COLLATE UTF8_LCASE AS c, max(c COLLATE UTF8_LCASE) OVER (PARTITION BY id) AS m FROM {t}",
        ("UPDATE {t} SET c = upper(c) WHERE id = 1", "INSERT INTO {t} VALUES (3, 'A')"),
    ),
    Case(
        "engine_names",
        "__w INT, _t_w INT, `_t_w_` INT, __file STRING, __key INT, n INT",
        "(1, 2, 3, 'f', 4, 0), (5, 6, 7, 'g', 8, 1)",
        "SELECT __w, _t_w AS t, `_t_w_` AS u, __file, __key FROM {t} WHERE n < 9",
        ("INSERT INTO {t} VALUES (9, 9, 9, 'h', 9, 2)", "UPDATE {t} SET _t_w = 0", "DELETE FROM {t} WHERE __w = 1"),
    ),
    Case(
        "engine_names_grouped",
        "__w INT, _t_w INT",
        "(1, 2), (1, 3), (5, 6)",
        "SELECT __w, sum(_t_w) AS __rn, max(_t_w) AS __pos FROM {t} GROUP BY __w",
        ("INSERT INTO {t} VALUES (9, 9)", "UPDATE {t} SET _t_w = 0 WHERE _t_w = 3", "DELETE FROM {t} WHERE __w = 5"),
    ),
    Case(
        "wide_sums",
        "g INT, d DECIMAL(38, 2), w DECIMAL(38, 0), b BIGINT",
        f"(1, -9{'0' * 35}.00, -8{'0' * 37}, -9223372036854775808), (2, 1.00, 1, 1)",
        "SELECT g, sum(d) AS d, sum(w) AS w, sum(b) AS b, count(*) AS n FROM {t} GROUP BY g",
        (
            f"UPDATE {{t}} SET d = 9{'0' * 35}.00, w = 8{'0' * 37}, b = 9223372036854775807 WHERE g = 1",
            "INSERT INTO {t} VALUES (2, 1.50, 2, 2)",
        ),
    ),
    Case(
        "large_averages",  # Spark adds doubles: these two are 0, and -1 in whole numbers
        "g INT, b BIGINT",
        "(1, 9223372036854775807), (2, 3)",
        "SELECT g, avg(b) AS a FROM {t} GROUP BY g",
        ("INSERT INTO {t} VALUES (1, -9223372036854775808), (2, 4)", "DELETE FROM {t} WHERE b < 0"),
    ),
    Case(
        "wide_averages",
        "g INT, d DECIMAL(28, 2)",
        f"(1, -9{'0' * 25}.00), (2, 1.00)",
        "SELECT g, avg(d) AS d FROM {t} GROUP BY g",
        (f"UPDATE {{t}} SET d = 9{'0' * 25}.00 WHERE g = 1", "INSERT INTO {t} VALUES (2, 1.55)"),
    ),
)


def same(tr: Trickle, name: str, query: str) -> None:
    """Value by value, by a comparison that shares nothing with the engine's."""
    found = compare(tr.spark, name, f"({query})", tr.spark.table(name).schema, {})
    assert found.equal, f"{name}: {found}"


@pytest.mark.parametrize("case", CASES, ids=lambda c: c.name)
def test_the_very_values(module_tr: Trickle, case: Case) -> None:
    tr, table, name = module_tr, f"s.t_{case.name}", f"s.{case.name}"
    tr.sql(f"CREATE TABLE {table} ({case.columns})")
    tr.sql(f"INSERT INTO {table} VALUES {case.rows}")
    query = case.definition.replace("{t}", table)
    tr.create_stream_table(name, query, mode="differential")
    assert len(tr.status(name)[0].states) >= case.states
    copied = ", ".join(f"`{c}`" for c in tr.spark.table(name).columns)
    copy = f"{name}_copy"
    tr.create_stream_table(copy, f"SELECT {copied} FROM {name}", mode="differential")
    for n, change in enumerate(case.changes):
        tr.sql(change.replace("{t}", table))
        if n % 3 == 0:  # in one call: the consumer takes what was written from memory
            tr.refresh(copy)
            found = tr.history(name, limit=1)[0]
        else:  # later on it reads the change log, that of two refreshes at last
            found = tr.refresh(name)
        assert found.action is Action.DIFFERENTIAL, found
        same(tr, name, query)
        assert tr.verify(name, deep=True).equal
        if n % 3 != 1:
            tr.refresh(copy)
            same(tr, copy, query)
    tr.refresh(copy)
    same(tr, copy, query)


@pytest.mark.parametrize("source", ["files", "log"])
def test_the_change_feed_gives_the_very_values(module_tr: Trickle, source: str) -> None:
    """From the files that differ, or from the change log, which is there because a consumer has not read it yet."""
    tr, table, name = module_tr, f"s.fed_{source}", f"s.feeding_{source}"
    tr.sql(f"CREATE TABLE {table} (id INT, m MAP<STRING, INT>, s STRING)")
    tr.sql(f"INSERT INTO {table} VALUES (1, {LONG.format(1)}, CAST(X'FF' AS STRING)), (2, {LONG.format(1)}, 'x')")
    tr.create_stream_table(name, f"SELECT id, m, s FROM {table}")
    if source == "log":
        tr.create_stream_table(f"{name}_reader", f"SELECT id FROM {name}")
    token = tr.changes(name).token
    tr.sql(f"UPDATE {table} SET m = {TURNED.format(1)} WHERE id = 1")
    tr.refresh(name)
    with tr.changes(name, token) as found:
        rows = found.frame.selectExpr("_weight", "id", "get(map_keys(m), 0)", "hex(s)").collect()
    assert sorted(tuple(r) for r in rows) == [(-1, 1, "k", "FF"), (1, 1, "e", "FF")]


def test_recursion_keeps_the_bytes_of_strings(tr: Trickle) -> None:
    """Spark turns the rows of a small anchor into external rows, unless it is told not to."""
    tr.sql("CREATE TABLE s.walk (k INT, g STRING, m MAP<STRING, INT>)")
    tr.sql("INSERT INTO s.walk VALUES (1, CAST(X'C328' AS STRING), map('k3', 3, 'k1', 1, 'k5', 5, 'k2', 2, 'k4', 4))")
    tr.create_stream_table(
        "s.walked",
        "WITH RECURSIVE w (c, k, g, m) AS (SELECT 0, k, g, map_keys(m) FROM s.walk UNION ALL "
        "SELECT c + 1, t.k, w.g, w.m FROM w JOIN s.walk t ON t.k = w.k WHERE c < 1) SELECT c, g, m FROM w",
        mode="differential",
    )
    for change in (
        "INSERT INTO s.walk VALUES (1, CAST(X'FF' AS STRING), NULL), (2, 'x', map('a', 1))",
        "DELETE FROM s.walk WHERE k = 1",
    ):
        tr.sql(change)
        assert tr.refresh("s.walked").action is Action.DIFFERENTIAL
        assert tr.verify("s.walked", deep=True).equal


def test_small_differences_are_differences(module_tr: Trickle) -> None:
    tr = module_tr
    tr.sql("CREATE TABLE s.maps (id INT, m MAP<STRING, TIMESTAMP>)")
    tr.sql("INSERT INTO s.maps VALUES (1, map('a', TIMESTAMP'2020-01-01 00:00:00.000001'))")
    tr.create_stream_table("s.m", "SELECT id, m FROM s.maps")
    tr.sql("UPDATE s.maps SET m = map('a', TIMESTAMP'2020-01-01 00:00:00.000002')")
    tr.refresh("s.m")
    assert tr.verify("s.m").equal
    assert tr.sql("SELECT date_format(m['a'], 'SSSSSS') FROM s.m").first()[0] == "000002"
    tr.sql("CREATE TABLE s.days (id INT, d DATE, ts TIMESTAMP)")
    tr.sql("INSERT INTO s.days VALUES (1, DATE'1582-10-10', TIMESTAMP'2020-01-01 00:00:01')")
    tr.create_stream_table("s.d", "SELECT id, d, ts FROM s.days")
    tr.sql("INSERT INTO s.days VALUES (2, DATE'1582-10-11', NULL)")
    tr.sql("DELETE FROM s.days WHERE id = 1")
    tr.refresh("s.d")
    assert tr.verify("s.d").equal


def test_distinct_constants_are_counted_once(tr: Trickle) -> None:
    """Iceberg answers count(DISTINCT 'a') from its metadata, and counts rows then, unless it is told not to."""
    tr.sql("CREATE TABLE s.few (k INT, d DOUBLE)")
    queries = {
        "alone": "SELECT count(DISTINCT 'a') AS n FROM s.few",
        "compared": "SELECT k FROM s.few WHERE k = (SELECT count(DISTINCT 'a') FROM s.few)",
        "sums": "SELECT count(DISTINCT 1, 'a') AS n, sum(DISTINCT 5) AS s FROM s.few",
        "signs": "SELECT CAST(min(d) AS STRING) AS low, CAST(max(d) AS STRING) AS high FROM s.few",
    }
    tr.sql("INSERT INTO s.few VALUES (1, 0.0D)")
    for name, query in queries.items():
        tr.create_stream_table(f"s.{name}", query, mode="differential")
        tr.create_stream_table(f"s.{name}_full", query, mode="full")
    tr.sql("INSERT INTO s.few VALUES (1, 0.0D)")
    for name, query in queries.items():
        for table in (f"s.{name}", f"s.{name}_full"):
            tr.refresh(table)
            same(tr, table, query)
            assert tr.verify(table, deep=True).equal
    assert [tuple(r) for r in tr.sql(queries["alone"]).collect()] == [(1,)]
    assert [tuple(r) for r in tr.sql(queries["signs"]).collect()] == [("0.0", "0.0")]
