"""The thin path: define, change, refresh, verify."""

from __future__ import annotations

from spark_trickle import Action, Trickle


def test_define_change_refresh(tr: Trickle) -> None:
    tr.sql("CREATE TABLE s.t (id BIGINT, v STRING)")
    tr.sql("INSERT INTO s.t SELECT id, concat('v', id % 3) FROM range(100)")
    first = tr.create_stream_table("s.counts", "SELECT v, count(*) AS n FROM s.t GROUP BY v")
    assert (first.action, first.rows_inserted) == (Action.FULL, 3)
    assert tr.refresh("s.counts").action is Action.NO_DATA
    tr.sql("INSERT INTO s.t VALUES (100, 'v0'), (101, 'new')")
    second = tr.refresh("s.counts")
    assert second.action is Action.DIFFERENTIAL, second.reason
    assert (second.rows_inserted, second.rows_updated, second.rows_deleted) == (1, 1, 0)
    assert sorted(map(tuple, tr.sql("SELECT * FROM s.counts").collect())) == [
        ("new", 1),
        ("v0", 35),
        ("v1", 33),
        ("v2", 33),
    ]
    assert tr.verify("s.counts").equal
