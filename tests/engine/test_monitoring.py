"""What is told about a lake that Spark refreshes: lineage that holds, changes that wait, sources, time."""

from __future__ import annotations

from collections import Counter
from datetime import UTC, datetime
from typing import Any

import pytest

from spark_trickle import Trickle
from spark_trickle.model import Action, TableName
from spark_trickle.monitor.pending import Behind

# Values of `o(id, customer, amount, kind)` and `c(id, city)`.
ORDERS = [(1, 1, 10, "x"), (2, 1, 20, "y"), (3, 2, 30, "x"), (4, 2, 40, "y"), (5, 3, 50, "x"), (6, None, 60, "y")]
CUSTOMERS = [(1, "Rome"), (2, "Oslo"), (4, "Rome")]
# Every column with other values: what does not depend on it stays as it is.
OTHERWISE = {
    "id": "id * 7 % 5 + 1",
    "customer": "4 - customer",
    "amount": "97 - amount",
    "kind": "'z'",
    "city": "concat('X', id)",
}
QUERIES = {
    "filtered": "SELECT id, amount * 2 AS twice, kind FROM o WHERE amount > 25",
    "grouped": "SELECT customer, sum(amount) AS total, count(*) AS n FROM o WHERE kind = 'x' GROUP BY customer",
    "one_row": "SELECT count(*) AS n, max(amount) AS most, count(kind) AS kinds FROM o",
    "joined": "SELECT o.id, c.city, o.kind FROM o LEFT JOIN c ON o.customer = c.id",
    "scalar": "SELECT o.id, o.kind, (SELECT max(c.city) FROM c WHERE c.id = o.customer) AS city FROM o",
    "exists_": "SELECT id, kind, EXISTS (SELECT 1 FROM c WHERE c.id = o.customer AND c.city = 'Rome') AS known FROM o",
    "semi": "SELECT id, kind FROM o WHERE customer NOT IN (SELECT id FROM c WHERE city = 'Oslo')",
    "windowed": "SELECT id, kind, row_number() OVER (PARTITION BY kind ORDER BY amount) AS n, "
    "lag(customer) OVER (ORDER BY id) AS before FROM o",
    "united": "SELECT id, kind AS v FROM o UNION ALL SELECT id, city FROM c WHERE city <> 'Oslo'",
    "cased": "SELECT id, CASE WHEN amount > 25 THEN kind ELSE 'none' END AS v, customer FROM o",
    "pivoted": "SELECT * FROM (SELECT customer, kind, amount FROM o) PIVOT (sum(amount) FOR kind IN ('x', 'y'))",
}


@pytest.fixture(scope="module")
def lake(module_tr: Trickle) -> Trickle:
    tr = module_tr
    tr.sql("CREATE TABLE s.o (id INT, customer INT, amount INT, kind STRING)")
    tr.sql("CREATE TABLE s.c (id INT, city STRING)")
    session = tr.spark
    session.createDataFrame(ORDERS, "id INT, customer INT, amount INT, kind STRING").writeTo("lake.s.o").append()
    session.createDataFrame(CUSTOMERS, "id INT, city STRING").writeTo("lake.s.c").append()
    return tr


@pytest.mark.parametrize("name", QUERIES)
def test_a_column_that_is_not_in_the_lineage_does_not_matter(lake: Trickle, name: str) -> None:
    """Each source column gets other values, one at a time: what changes is in the lineage."""
    query = QUERIES[name]
    lake.create_stream_table(f"s.{name}", query, "manual", initialize=False)
    found = lake.lineage(f"s.{name}")
    columns = [c.name for c in lake.describe(f"s.{name}").columns]
    before = _rows(lake, query, columns)
    told = 0
    for table, names in (("o", ("id", "customer", "amount", "kind")), ("c", ("id", "city"))):
        if f" {table}" not in query:
            continue
        for changed in names:
            on = {e.column for e in found if (e.from_table, e.from_column) == (f"s.{table}", changed)}
            free = [] if "" in on else [c for c in columns if c not in on]
            if not free:
                continue
            told += 1
            items = ", ".join(f"{OTHERWISE[c]} AS {c}" if c == changed else c for c in names)
            after = _rows(lake, f"WITH {table} AS (SELECT {items} FROM s.{table}) {query}", columns)
            at = [columns.index(c) for c in free]
            assert _only(before, at) == _only(after, at), f"{free} follow {table}.{changed}"
    assert told, "each column depends on all: nothing was tested"


def _rows(lake: Trickle, query: str, columns: list[str]) -> list[tuple[Any, ...]]:
    frame = lake.spark.sql(query)
    assert frame.columns == columns
    return [tuple(row) for row in frame.collect()]


def _only(rows: list[tuple[Any, ...]], at: list[int]) -> Counter[Any]:
    return Counter(tuple(row[n] for n in at) for row in rows)


def test_a_chain(tr: Trickle) -> None:
    """Lineage, what waits, sources, the time that tables were on time, and health, of one lake."""
    tr.sql("CREATE TABLE s.t (id INT, v INT) TBLPROPERTIES ('format-version' = '3')")
    tr.sql("INSERT INTO s.t VALUES (1, 10), (2, 20)")
    tr.create_stream_table("s.a", "SELECT id % 2 AS k, v FROM s.t", "50s exact")
    tr.create_stream_table("s.b", "SELECT k, sum(v) AS total FROM s.a GROUP BY k", "downstream")
    assert str(tr.lineage("s.b", "total")[0]) == "s.b.total <- AGGREGATION s.t.v"
    assert [str(e) for e in tr.lineage("s.t.v", down=True)] == [
        "s.a.v <- IDENTITY s.t.v",
        "s.b.total <- AGGREGATION s.t.v",
    ]
    assert {s.name: s.target_seconds for s in tr.status()}["s.a"] == 50

    tr.sql("INSERT INTO s.t VALUES (3, 30)")
    tr.sql("DELETE FROM s.t WHERE id = 1")
    a, b = tr.pending()
    assert (a.state, a.commits, a.rows_added, a.rows_deleted) == (Behind.CHANGES, 2, 1, 1)
    assert (b.input, b.state) == ("s.a", Behind.NOTHING)
    (source,) = tr.source_states()
    assert (source.name, source.format, source.rows, source.behind, source.readers) == (
        "s.t",
        "iceberg v3",
        2,
        2,
        ("s.a",),
    )
    assert [f.code for f in tr.health().findings] == ["NO_SCHEDULER"]
    tr.refresh("s.b")
    assert {p.state for p in tr.pending()} == {Behind.NOTHING}
    done = tr.history("s.a", 1, status="completed", since="10m")[0]
    assert done.data_timestamp == tr.status("s.a")[0].data_timestamp
    assert tr.refresh("s.b").action is Action.NO_DATA
    assert tr.history("s.b", 1)[0].data_timestamp == tr.status("s.b")[0].data_timestamp
    on_time = {c.name: c for c in tr.compliance(since="1h")}
    assert (on_time["s.a"].target_seconds, on_time["s.a"].late_spans) == (50, 0)
    assert 0 < on_time["s.a"].measured_seconds < 60

    # From before lineage was stored: it is compiled, and then known.
    with tr.store.write() as tx:
        tx.put_lineage(tr.store.find(TableName("s", "a")).id, None)
    assert str(tr.lineage("s.b", "k")[0]) == "s.b.k <- TRANSFORMATION s.t.id"
    assert TableName("s", "a") in tr.store.lineages()

    # Another query has another lineage, and one that follows the clock has one, too.
    tr.alter_stream_table("s.b", query="SELECT v AS total, current_date() AS day FROM s.a WHERE k = 0")
    assert [str(e) for e in tr.lineage("s.b")][:2] == ["s.b.total <- IDENTITY s.t.v", "s.b.* <- FILTER s.t.id"]
    assert tr.statistics(since=datetime.now(UTC)) == ()
    assert tr.statistics("s.b")[0].full_reasons
