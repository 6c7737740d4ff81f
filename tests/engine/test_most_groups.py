"""Groups that are recomputed: few of them by their keys, most of them with all others."""

from __future__ import annotations

import pytest

from spark_trickle import Action, Trickle
from spark_trickle.refresh.runner import Runner
from spark_trickle.spark import order


@pytest.fixture
def chosen(monkeypatch: pytest.MonkeyPatch) -> list[bool]:
    """Whether all groups were computed, by refresh."""
    found: list[bool] = []
    decide = Runner._most

    def spy(self: Runner, affected: int | None) -> bool:
        found.append(decide(self, affected))
        return found[-1]

    monkeypatch.setattr(Runner, "_most", spy)
    return found


@pytest.mark.spark
def test_most_groups_are_computed_with_all_others(
    tr: Trickle, monkeypatch: pytest.MonkeyPatch, chosen: list[bool]
) -> None:
    monkeypatch.setattr(order, "LARGE", 10)
    tr.sql("CREATE TABLE t (id INT, g STRING, v INT)")
    tr.sql("INSERT INTO t SELECT id, if(id % 5 = 4, NULL, concat('g', id % 5)), id * 7 % 11 FROM range(60)")
    tr.create_stream_table("s.middle", "SELECT g, median(v) AS m, count(*) AS n FROM t GROUP BY g", mode="differential")
    tr.create_stream_table(
        "s.having", "SELECT g, median(v) AS m FROM t GROUP BY g HAVING count(*) > 11", mode="differential"
    )
    steps = (
        ("UPDATE t SET v = 100 WHERE id = 0", False),  # one of five groups
        ("UPDATE t SET v = -1 WHERE id < 4", True),
        ("DELETE FROM t WHERE g = 'g1' OR id IN (2, 3, 4)", True),  # one of them goes
        ("INSERT INTO t VALUES (90, 'new', 1), (91, NULL, 1), (92, 'g0', 1)", True),
    )
    for text, most in steps:
        tr.sql(text)
        for name in ("s.middle", "s.having"):
            chosen.clear()
            result = tr.refresh(name)
            assert result.action is Action.DIFFERENTIAL
            assert tr.verify(name, deep=True).equal
            if name == "s.middle":
                assert chosen == [most], text
    # A small table is read whole on the driver, whatever the groups.
    monkeypatch.setattr(order, "LARGE", 1000)
    tr.sql("UPDATE t SET v = v + 1")
    chosen.clear()
    assert tr.refresh("s.middle").action is Action.DIFFERENTIAL
    assert chosen == [False]
    assert tr.verify("s.middle").equal
