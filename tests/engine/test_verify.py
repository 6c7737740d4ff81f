"""verify sees what the engine does not: wrong hidden states, open columns, rows that are not there."""

from __future__ import annotations

import pytest

from spark_trickle import Action, Trickle
from spark_trickle.errors import TrickleError

pytestmark = pytest.mark.spark

NESTED = "SELECT n, count(*) AS c FROM (SELECT g, count(*) AS n FROM {} GROUP BY g) GROUP BY n"


@pytest.fixture(scope="module")
def lake(module_tr: Trickle) -> Trickle:
    module_tr.sql("CREATE TABLE s.t (g INT, v INT)")
    module_tr.sql("INSERT INTO s.t VALUES (1, 1), (1, 2), (2, 3), (3, 4)")
    return module_tr


def tamper(tr: Trickle, name: str, statement: str, *, state: bool = False) -> None:
    """Write to the storage of a stream table behind its back, and make its row believe that we did."""
    table = tr.refresher.store.stream_table(tr._name(name))
    assert table is not None
    part = table.states[0] if state else table
    tr.sql(statement.format(t=f"lake.{part.storage}"))
    pointer = tr.refresher.store.pointers(names=[part.storage])[part.storage]
    snapshot = tr.refresher.lake.facts(pointer.location).snapshot_id
    with tr.refresher.store.write() as tx:
        tx.update_stream_table(part.id, storage_pointer=pointer.location, storage_snapshot=snapshot)


def test_a_wrong_hidden_column(lake: Trickle) -> None:
    lake.create_stream_table("s.sums", "SELECT g, sum(v) AS s FROM s.t GROUP BY g")
    assert lake.verify("s.sums", deep=True).parts == ("hidden columns",)
    tamper(lake, "s.sums", "UPDATE {t} SET _t_count = _t_count + 1 WHERE g = 1")
    assert lake.verify("s.sums").equal
    found = lake.verify("s.sums", deep=True)
    assert (found.equal, found.missing, found.extra) == (False, 1, 1)


def test_a_wrong_hidden_state_table(lake: Trickle) -> None:
    lake.create_stream_table("s.nested", NESTED.format("s.t"))
    found = lake.verify("s.nested", deep=True)
    assert (found.equal, len(found.parts)) == (True, 2)
    tamper(lake, "s.nested", "UPDATE {t} SET c0 = 99 WHERE c0 = 1", state=True)
    assert lake.verify("s.nested").equal
    found = lake.verify("s.nested", deep=True)
    assert not found.equal
    assert any("_trickle." in e for e in found.examples), found


def test_columns_that_cannot_be_judged_are_named(lake: Trickle) -> None:
    lake.create_stream_table("s.open", "SELECT g, any_value(v) AS any, count(*) AS n FROM s.t GROUP BY g")
    assert lake.verify("s.open").unjudged == ()
    tamper(lake, "s.open", "UPDATE {t} SET any = 2 WHERE g = 1")
    found = lake.verify("s.open")
    assert (found.equal, found.unjudged) == (True, ("any",))
    assert "not judged" in str(found)
    tamper(lake, "s.open", "UPDATE {t} SET n = 7 WHERE g = 1")
    assert not lake.verify("s.open").equal


@pytest.mark.parametrize(
    ("name", "definition", "tampering"),
    [
        ("missing_group", "SELECT g, sum(v) AS s, count(*) AS n FROM s.u GROUP BY g", "DELETE FROM {t} WHERE g = 1"),
        ("low_count", "SELECT g, sum(v) AS s FROM s.u GROUP BY g", "UPDATE {t} SET _t_count = 0 WHERE g = 1"),
        ("missing_row", "SELECT sum(v) AS s FROM s.u", "DELETE FROM {t}"),
        ("missing_copy", "SELECT g, v FROM s.u", "DELETE FROM {t} WHERE g = 1"),
        ("twice", "SELECT g, sum(v) AS s FROM s.u GROUP BY g", "INSERT INTO {t} SELECT * FROM {t} WHERE g = 1"),
    ],
)
def test_a_storage_that_cannot_be_right_is_noticed(lake: Trickle, name: str, definition: str, tampering: str) -> None:
    lake.sql("CREATE TABLE IF NOT EXISTS s.u (g INT, v INT)")
    lake.sql("INSERT OVERWRITE s.u VALUES (1, 1), (1, 2), (2, 3), (3, 4)")
    lake.create_stream_table(f"s.{name}", definition)
    lake.create_stream_table(f"s.{name}_strict", definition, mode="differential")
    for each in (f"s.{name}", f"s.{name}_strict"):
        tamper(lake, each, tampering)
    lake.sql("DELETE FROM s.u WHERE v = 1")
    with pytest.raises(TrickleError, match="INTEGRITY"):
        lake.refresh(f"s.{name}_strict")
    lake.refresher.settings.__dict__["max_change_ratio"] = 1.0
    found = lake.refresh(f"s.{name}")
    assert found.action is Action.REINITIALIZE, found
    assert found.reason.startswith("INTEGRITY")
    assert lake.verify(f"s.{name}", deep=True).equal


def test_a_state_that_cannot_be_right_is_noticed(lake: Trickle) -> None:
    lake.sql("CREATE TABLE s.w (g INT, v INT)")
    lake.sql("INSERT INTO s.w SELECT id % 3, id FROM range(30)")
    lake.create_stream_table("s.two", NESTED.format("s.w"))
    tamper(lake, "s.two", "DELETE FROM {t} WHERE c0 = 1", state=True)
    lake.sql("UPDATE s.w SET g = 2 WHERE v = 1")
    found = lake.refresh("s.two")
    assert found.action is Action.REINITIALIZE, found
    assert "INTEGRITY" in found.reason
    assert lake.verify("s.two", deep=True).equal
