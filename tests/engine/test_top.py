"""ORDER BY … LIMIT: recomputed only when a change reaches the top."""

from __future__ import annotations

import pytest

from spark_trickle import Action, Trickle

TOP = "SELECT id, v FROM s.t ORDER BY v DESC, id LIMIT 3"


@pytest.fixture
def lake(tr: Trickle) -> Trickle:
    tr.sql("CREATE TABLE s.t (id INT, v INT, w STRING)")
    tr.sql("INSERT INTO s.t SELECT id, id % 10, 'x' FROM range(40)")
    return tr


def steps(tr: Trickle, name: str, *statements: str) -> list[str]:
    """The stages of the refresh after the statements; the result is compared."""
    for statement in statements:
        tr.sql(statement)
    result = tr.refresh(name, mode="differential")
    assert result.action is Action.DIFFERENTIAL
    verified = tr.verify(name)
    assert verified.equal, str(verified)
    return list(result.stages)


def test_changes_below_the_top_write_nothing(lake: Trickle) -> None:
    lake.create_stream_table("s.top", TOP, mode="differential")
    before = lake.spark.sql("SELECT * FROM s.top").collect()
    assert "apply" not in steps(lake, "s.top", "INSERT INTO s.t VALUES (90, 8, 'y')", "DELETE FROM s.t WHERE v < 3")
    assert lake.spark.sql("SELECT * FROM s.top").collect() == before


def test_changes_that_reach_the_top(lake: Trickle) -> None:
    lake.create_stream_table("s.top", TOP, mode="differential")
    assert "apply" in steps(lake, "s.top", "INSERT INTO s.t VALUES (91, 12, 'y')")
    assert "apply" in steps(lake, "s.top", "DELETE FROM s.t WHERE id = 91")
    assert "apply" in steps(lake, "s.top", "UPDATE s.t SET v = NULL WHERE v = 9")
    steps(lake, "s.top", "INSERT INTO s.t VALUES (0, 8, 'tie'), (-1, 8, 'tie')")
    steps(lake, "s.top", "DELETE FROM s.t WHERE id > 1")
    steps(lake, "s.top", "INSERT INTO s.t VALUES (5, -1, NULL)")  # fewer rows than the limit


def test_offset_and_hidden_order(lake: Trickle) -> None:
    """The order is by a column that is not shown; rows before the offset are not stored."""
    lake.create_stream_table("s.top", "SELECT id FROM s.t ORDER BY v, w, id LIMIT 4 OFFSET 2", mode="differential")
    steps(lake, "s.top", "INSERT INTO s.t VALUES (70, -1, 'a')")
    steps(lake, "s.top", "DELETE FROM s.t WHERE id = 70")
    steps(lake, "s.top", "UPDATE s.t SET w = NULL WHERE id IN (10, 20)")
    assert "apply" not in steps(lake, "s.top", "INSERT INTO s.t VALUES (71, 99, 'a')")
