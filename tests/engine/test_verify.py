"""verify sees what the engine does not: wrong hidden states, open columns, rows that are not there."""

from __future__ import annotations

import json
from typing import Any

import pytest

from spark_trickle import Action, Trickle
from spark_trickle.errors import TrickleError
from spark_trickle.lake.staging import Staging
from tests.engine.refused import refused

pytestmark = pytest.mark.spark

NESTED = "SELECT n, count(*) AS c FROM (SELECT g, count(*) AS n FROM {} GROUP BY g) GROUP BY n"


@pytest.fixture(scope="module")
def lake(module_tr: Trickle) -> Trickle:
    module_tr.sql("CREATE TABLE s.t (g INT, v INT)")
    module_tr.sql("INSERT INTO s.t VALUES (1, 1), (1, 2), (2, 3), (3, 4)")
    return module_tr


def tamper(tr: Trickle, name: str, where: str, *, state: bool = False, copies: int = 1, **changes: str) -> None:
    """Change rows of a stream table, hidden columns too, behind its back, and make its row believe that we did."""
    r = tr.refresher
    table = r.store.stream_table(tr._name(name))
    assert table is not None
    part = table.states[0] if state else table
    pointer = r.store.pointers(names=[part.name])[part.name]
    with r.attempts.begin({part.name: pointer}) as attempt:
        staging = Staging.onto(attempt, part.name, part.file_schema)
        columns = [f["name"] for f in json.loads(part.file_schema)["fields"]]
        items = ", ".join(f"IF({where}, {changes.get(c, c)}, {c}) AS {c}" for c in columns)
        times = f"explode(array_repeat(1, IF({where}, {copies}, 1)))"
        select = f"SELECT {', '.join(columns)} FROM (SELECT {items}, {times} FROM {staging.target})"
        staging.show_in(select)
        staging.overwrite(attempt.session.sql(select))
        with r.store.write() as tx:
            tx.swap_pointer(part.name, pointer.location, staging.location)
            tx.update_stream_table(part.id, published_pointer=staging.location, published_snapshot=staging.head)


def test_an_average_beside_distinct_values_is_a_float_as_any(lake: Trickle) -> None:
    """It is kept by whole numbers, but Spark adds floats: past 2^53 their last digits differ."""
    lake.create_stream_table("s.both", "SELECT g, count(DISTINCT v) AS d, avg(v) AS a FROM s.t GROUP BY g")
    tamper(lake, "s.both", "g = 1", a="a * (1 + 1e-14)")
    assert lake.verify("s.both").equal
    tamper(lake, "s.both", "g = 1", a="a * 1.000001")
    assert not lake.verify("s.both").equal


def test_a_wrong_hidden_column(lake: Trickle) -> None:
    lake.create_stream_table("s.sums", "SELECT g, sum(v) AS s FROM s.t GROUP BY g")
    assert lake.verify("s.sums", deep=True).parts == ("hidden columns",)
    tamper(lake, "s.sums", "g = 1", _t_count="_t_count + 1")
    assert lake.verify("s.sums").equal
    found = lake.verify("s.sums", deep=True)
    assert (found.equal, found.missing, found.extra) == (False, 1, 1)


def test_a_wrong_hidden_state_table(lake: Trickle) -> None:
    lake.create_stream_table("s.nested", NESTED.format("s.t"))
    found = lake.verify("s.nested", deep=True)
    assert (found.equal, len(found.parts)) == (True, 2)
    tamper(lake, "s.nested", "c0 = 1", state=True, c0="99")
    assert lake.verify("s.nested").equal
    found = lake.verify("s.nested", deep=True)
    assert not found.equal
    assert any("_trickle." in e for e in found.examples), found


def test_columns_that_cannot_be_judged_are_named(lake: Trickle) -> None:
    lake.create_stream_table("s.open", "SELECT g, any_value(v) AS any, count(*) AS n FROM s.t GROUP BY g")
    assert lake.verify("s.open").unjudged == ()
    tamper(lake, "s.open", "g = 1", any="2")
    found = lake.verify("s.open")
    assert (found.equal, found.unjudged) == (True, ("any",))
    assert "not judged" in str(found)
    tamper(lake, "s.open", "g = 1", n="7")
    assert not lake.verify("s.open").equal


@pytest.mark.parametrize(
    ("name", "definition", "tampering"),
    [
        ("missing_group", "SELECT g, sum(v) AS s, count(*) AS n FROM s.u GROUP BY g", {"copies": 0}),
        ("low_count", "SELECT g, sum(v) AS s FROM s.u GROUP BY g", {"_t_count": "0"}),
        ("missing_row", "SELECT sum(v) AS s FROM s.u", {"where": "true", "copies": 0}),
        ("missing_copy", "SELECT g, v FROM s.u", {"copies": 0}),
        ("twice", "SELECT g, sum(v) AS s FROM s.u GROUP BY g", {"copies": 2}),
        # A group that loses its extremum is computed again, which would hide what is wrong with it.
        ("missing_extremum", "SELECT g, min(v) AS m, sum(v) AS s FROM s.u GROUP BY g", {"copies": 0}),
        ("low_count_extremum", "SELECT g, min(v) AS m, sum(v) AS s FROM s.u GROUP BY g", {"_t_count": "0"}),
    ],
)
def test_rows_that_cannot_be_right_are_noticed(
    lake: Trickle, name: str, definition: str, tampering: dict[str, Any]
) -> None:
    lake.sql("CREATE TABLE IF NOT EXISTS s.u (g INT, v INT)")
    lake.sql("INSERT OVERWRITE s.u VALUES (1, 1), (1, 2), (2, 3), (3, 4)")
    lake.create_stream_table(f"s.{name}", definition)
    lake.create_stream_table(f"s.{name}_strict", definition, mode="differential")
    for each in (f"s.{name}", f"s.{name}_strict"):
        tamper(lake, each, **{"where": "g = 1", **tampering})
    lake.sql("DELETE FROM s.u WHERE v = 1")
    with pytest.raises(TrickleError, match="INTEGRITY"):
        lake.refresh(f"s.{name}_strict")
    lake.refresher.settings.__dict__["max_change_ratio"] = 1.0
    found = lake.refresh(f"s.{name}")
    assert found.action is Action.REINITIALIZE, found
    assert found.reason.startswith("INTEGRITY")
    assert lake.verify(f"s.{name}", deep=True).equal


def test_a_key_stored_twice_is_noticed_where_all_groups_are_compared(lake: Trickle) -> None:
    """Not even the keys of the change can be evaluated, for a pair that never existed."""
    lake.sql("CREATE TABLE s.coded (id INT, g INT, kid INT, code STRING)")
    lake.sql("INSERT INTO s.coded VALUES (1, 1, 1, 'x'), (2, 2, 2, '20'), (3, 3, 2, '30')")
    lake.sql("CREATE TABLE s.kinds (kid INT, kind STRING)")
    lake.sql("INSERT INTO s.kinds VALUES (1, 'text'), (2, 'num')")
    key = "CASE WHEN k.kind = 'num' THEN CAST(c.code AS INT) END"
    query = f"SELECT {key} AS n, count(*) AS rows FROM s.coded c JOIN s.kinds k ON c.kid = k.kid GROUP BY {key}"
    lake.create_stream_table("s.by_kind", query, mode="differential")
    tamper(lake, "s.by_kind", "n = 30", copies=2)
    lake.sql("UPDATE s.coded SET code = '10' WHERE id = 1")
    lake.sql("UPDATE s.kinds SET kind = 'num' WHERE kid = 1")
    with pytest.raises(TrickleError, match="INTEGRITY"):
        lake.refresh("s.by_kind")


@pytest.mark.parametrize(("name", "tampering"), [("lacking", {"copies": 0}), ("low", {"_t_count": "0"})])
def test_a_state_that_cannot_be_right_is_noticed(lake: Trickle, name: str, tampering: dict[str, Any]) -> None:
    source, table = f"s.{name}_src", f"s.{name}"
    lake.sql(f"CREATE TABLE {source} (g INT, v INT)")
    lake.sql(f"INSERT INTO {source} SELECT id % 3, id FROM range(30)")
    lake.create_stream_table(table, NESTED.format(source))
    tamper(lake, table, "c0 = 1", state=True, **tampering)
    lake.sql(f"UPDATE {source} SET g = 2 WHERE v = 1")
    found = lake.refresh(table)
    assert found.action is Action.REINITIALIZE, found
    assert "INTEGRITY" in found.reason
    assert lake.verify(table, deep=True).equal


def test_verify_says_what_is_gone(lake: Trickle) -> None:
    lake.sql("CREATE TABLE s.short (id INT)")
    lake.sql("INSERT INTO s.short VALUES (1)")
    lake.create_stream_table("s.of_short", "SELECT id FROM s.short")
    lake.sql("INSERT INTO s.short VALUES (2)")
    lake.sql(
        "CALL lake.system.expire_snapshots(table => 's.short', older_than => TIMESTAMP '2999-01-01', retain_last => 1)"
    )
    with refused(lake, "SNAPSHOT_EXPIRED"):
        lake.verify("s.of_short")
    lake.sql("DROP TABLE s.short")
    lake.sql("CREATE TABLE s.short (id INT)")
    with refused(lake, "TABLE_REPLACED"):
        lake.verify("s.of_short")
