"""Stream tables altered, created empty, replaced, refreshed together; views that change; the clock."""

from __future__ import annotations

from typing import Any

import pytest

from spark_trickle import Action, Trickle, connect
from spark_trickle.model import Mode, Status, TableName
from tests.engine.refused import refused


@pytest.fixture(scope="module")
def lake(module_tr: Trickle) -> Trickle:
    tr = module_tr
    tr.sql("CREATE TABLE s.base (id BIGINT, v STRING)")
    tr.sql("INSERT INTO s.base SELECT id, concat('v', id % 3) FROM range(100)")
    tr.sql("CREATE TABLE s.t (id BIGINT, v INT)")
    tr.sql("INSERT INTO s.t SELECT id, id % 5 FROM range(40)")
    return tr


def rows(tr: Trickle, query: str) -> list[tuple[Any, ...]]:
    return sorted((tuple(r) for r in tr.sql(query).collect()), key=repr)


def test_alter_the_query(lake: Trickle) -> None:
    lake.create_stream_table("s.altered", "SELECT id FROM s.base WHERE id < 10", schedule="5m")
    first = lake.refresher.lake.facts(lake.store.pointers()[TableName("s", "altered")].location)
    same = lake.alter_stream_table("s.altered", query="SELECT id FROM s.base WHERE id < 5")
    assert same is not None
    assert (same.action, same.reason.split(":")[0]) == (Action.REINITIALIZE, "ALTERED")
    assert len(rows(lake, "SELECT id FROM s.altered")) == 5
    # Other columns: another schema of the same table, whose history stays.
    lake.alter_stream_table("s.altered", query="SELECT v, count(*) AS n FROM s.base GROUP BY v")
    second = lake.refresher.lake.facts(lake.store.pointers()[TableName("s", "altered")].location)
    assert second.uuid == first.uuid
    assert rows(lake, f"SELECT * FROM s.altered VERSION AS OF {first.snapshot_id}") == [(n,) for n in range(10)]
    assert rows(lake, "SELECT * FROM s.altered") == [("v0", 34), ("v1", 33), ("v2", 33)]
    assert lake.status("s.altered")[0].schedule == "5m"
    assert lake.alter_stream_table("s.altered", query="SELECT v, count(*) AS n FROM s.base GROUP BY v") is None
    with refused(lake, "UNKNOWN_COLUMN", "nope"):
        lake.alter_stream_table("s.altered", query="SELECT nope FROM s.base")
    with refused(lake, "NOT_INCREMENTAL", "LIMIT"):
        lake.alter_stream_table("s.altered", query="SELECT id FROM s.base LIMIT 1 + 2", mode="differential")
    lake.sql("INSERT INTO s.base VALUES (1000, 'v0')")
    assert lake.refresh("s.altered").action is Action.DIFFERENTIAL
    assert lake.verify("s.altered").equal
    lake.sql("DELETE FROM s.base WHERE id = 1000")


def test_alter_while_others_read(lake: Trickle) -> None:
    lake.create_stream_table("s.below", "SELECT id, v FROM s.base WHERE id < 10")
    lake.create_stream_table("s.above", "SELECT v, count(*) AS n FROM s.below GROUP BY v")
    lake.alter_stream_table("s.below", query="SELECT id, v, id + 1 AS more FROM s.base WHERE id < 5")
    lake.refresh("s.above")
    assert rows(lake, "SELECT sum(n) FROM s.above") == [(5,)]
    assert lake.verify("s.above").equal
    lake.sql("UPDATE s.base SET v = 'changed' WHERE id = 3")
    lake.refresh("s.above")
    assert ("changed", 1) in rows(lake, "SELECT * FROM s.above")
    lake.alter_stream_table("s.below", query="SELECT id FROM s.base WHERE id < 5")
    with refused(lake, "SOURCE_CHANGED", "s.above", "`v`"):
        lake.refresh("s.above")
    lake.drop_stream_table("s.below", cascade=True)
    lake.sql("UPDATE s.base SET v = 'v0' WHERE id = 3")


def test_alter_mode_and_schedule(lake: Trickle) -> None:
    lake.create_stream_table("s.moded", "SELECT id FROM s.base")
    assert lake.sql("ALTER STREAM TABLE s.moded SET MODE FULL SET SCHEDULE '1h'") is None
    (shown,) = lake.status("s.moded")
    assert (shown.mode, shown.schedule) == (Mode.FULL, "1h")
    lake.sql("INSERT INTO s.base VALUES (2000, 'v0')")
    result = lake.refresh("s.moded")
    assert (result.action, result.reason.split(":")[0]) == (Action.FULL, "MODE")
    lake.alter_stream_table("s.moded", mode="differential")
    assert lake.status("s.moded")[0].schedule == "1h"
    lake.sql("DELETE FROM s.base WHERE id = 2000")
    assert lake.refresh("s.moded").action is Action.DIFFERENTIAL
    with refused(lake, "INVALID_SCHEDULE", "sometimes"):
        lake.alter_stream_table("s.moded", schedule="sometimes")
    with refused(lake, "INVALID_STATEMENT", "SET MODE"):
        lake.sql("ALTER STREAM TABLE s.moded")


def test_created_empty(lake: Trickle) -> None:
    result = lake.create_stream_table("s.later", "SELECT v, count(*) AS n FROM s.base GROUP BY v", initialize=False)
    assert (result.action, result.rows_inserted) == (Action.SKIP, 0)
    assert rows(lake, "SELECT * FROM s.later") == []
    assert lake.status("s.later")[0].status is Status.INITIALIZING
    assert lake.explain("s.later").next_action is Action.FULL
    with refused(lake, "INVALID_QUERY", "s.later", "no content"):
        lake.verify("s.later")
    first = lake.refresh("s.later")
    assert (first.action, first.reason.split(":")[0], first.rows_inserted) == (Action.FULL, "INITIAL", 3)
    assert lake.status("s.later")[0].status is Status.ACTIVE
    assert lake.refresh("s.later").action is Action.NO_DATA
    assert lake.verify("s.later").equal


def test_statements(lake: Trickle) -> None:
    assert (
        lake.sql("CREATE OR REPLACE STREAM TABLE s.said SCHEDULE '5m' AS SELECT id FROM s.base").action is Action.FULL
    )
    replaced = lake.sql("CREATE OR REPLACE STREAM TABLE s.said AS SELECT id, v FROM s.base")
    assert (replaced.action, replaced.rows_inserted) == (Action.REINITIALIZE, 100)
    before = lake.store.stream_tables()
    kept = lake.sql("CREATE STREAM TABLE IF NOT EXISTS s.said AS SELECT something_else FROM nowhere")
    assert kept[0].name == "s.said"
    assert lake.store.stream_tables() == before
    for form in ("OR REPLACE STREAM TABLE", "STREAM TABLE IF NOT EXISTS", "STREAM TABLE"):
        with refused(lake, "NAME_TAKEN", "table s.base"):
            lake.sql(f"CREATE {form} s.base AS SELECT id FROM s.base")
    with refused(lake, "NAME_TAKEN", "stream table s.said"):
        lake.sql("CREATE STREAM TABLE s.said AS SELECT id FROM s.base")
    with refused(lake, "INVALID_STATEMENT", "line 1, column 34"):
        lake.sql("CREATE STREAM TABLE s.other WITH (x = 1) AS SELECT id FROM s.base".replace(" WITH", "      WITH"))
    assert "s.said" in {s.name for s in lake.sql("SHOW STREAM TABLES")}
    described = lake.sql("DESCRIBE STREAM TABLE said")
    assert (described.name, described.inputs, described.namespace) == ("s.said", (("s.base", "SOURCE"),), "s")
    lake.sql("INSERT INTO s.base VALUES (3000, 'v0')")
    assert lake.status("s.said")[0].pending
    explained = lake.sql("EXPLAIN STREAM TABLE s.said")
    assert explained.next_action is Action.DIFFERENTIAL
    assert "Scan s.base" in explained.operators
    assert "changes of s.base" in str(explained)
    assert lake.sql("REFRESH STREAM TABLE s.said").rows_inserted == 1
    assert lake.sql("REFRESH STREAM TABLE s.said FULL").action is Action.FULL
    assert lake.sql("SELECT count(*) FROM s.said").collect()[0][0] == 101  # anything else is Spark's
    assert lake.sql("DROP STREAM TABLE s.said") == ("s.said",)
    assert lake.sql("DROP STREAM TABLE IF EXISTS s.said") == ()
    with refused(lake, "UNKNOWN_STREAM_TABLE", "s.said"):
        lake.sql("DROP STREAM TABLE s.said")
    lake.sql("DELETE FROM s.base WHERE id = 3000")


def test_a_view_that_changes_its_text(lake: Trickle) -> None:
    lake.sql("CREATE VIEW s.few AS SELECT id, v FROM s.base WHERE id < 5")
    lake.create_stream_table("s.auto_few", "SELECT * FROM s.few")
    lake.create_stream_table("s.strict_few", "SELECT id FROM s.few", mode="differential")
    lake.create_stream_table("s.ranked_few", "SELECT id, id AS top FROM s.few TABLESAMPLE (100 PERCENT)")
    lake.sql("CREATE OR REPLACE VIEW s.few AS SELECT id, v FROM s.base WHERE id < 7")
    with refused(lake, "DEPENDENCY_CHANGED", "s.strict_few", "view"):
        lake.refresh("s.strict_few")
    result = lake.refresh("s.auto_few")
    assert (result.action, result.reason.split(":")[0]) == (Action.REINITIALIZE, "DEPENDENCY_CHANGED")
    lake.refresh("s.ranked_few")
    lake.refresh("s.strict_few", mode="full")
    for name in ("s.auto_few", "s.strict_few", "s.ranked_few"):
        assert len(rows(lake, f"SELECT id FROM {name}")) == 7, name
        assert lake.verify(name).equal
    # Another text of the same meaning costs nothing; a column more gives SELECT * a column more.
    lake.sql("CREATE OR REPLACE VIEW s.few AS SELECT id,   v FROM s.base WHERE id < 7 -- the same")
    assert lake.refresh("s.strict_few").action is Action.NO_DATA
    lake.sql("CREATE OR REPLACE VIEW s.few AS SELECT id, v, id * 2 AS twice FROM s.base WHERE id < 7")
    assert lake.refresh("s.auto_few").action is Action.REINITIALIZE
    assert lake.sql("SELECT * FROM s.auto_few").columns == ["id", "v", "twice"]
    lake.sql("DROP VIEW s.few")
    for name in ("s.auto_few", "s.strict_few", "s.ranked_few"):
        with refused(lake, "SOURCE_DROPPED", name, "few"):
            lake.refresh(name)


def test_a_definition_that_follows_the_clock(lake: Trickle) -> None:
    query = "SELECT id, current_date() AS on_day FROM s.base WHERE id < 3"
    with refused(lake, "NOT_INCREMENTAL", "TIME_DEPENDENT", "current_date", "line 1"):
        lake.create_stream_table("s.today", query, mode="differential")
    lake.create_stream_table("s.today", query)
    for _ in range(2):  # nothing changed but the time
        result = lake.refresh("s.today")
        assert (result.action, result.reason.split(" ")[0]) == (Action.FULL, "TIME_DEPENDENT")
    assert lake.history("s.today")[0].reason == result.reason


def test_an_alias_like_a_stream_table_is_no_input(lake: Trickle) -> None:
    lake.create_stream_table("s.top", "SELECT id, id AS top FROM s.base TABLESAMPLE (100 PERCENT) WHERE id < 3")
    for _ in range(2):
        lake.refresh("s.top", mode="full")
    assert lake.status("s.top")[0].inputs == ("s.base",)


def test_a_definition_reads_other_namespaces_than_its_own(lake: Trickle) -> None:
    lake.sql("CREATE NAMESPACE far")
    lake.sql("CREATE TABLE far.away (id INT)")
    lake.sql("INSERT INTO far.away VALUES (1)")
    lake.create_stream_table("far.copy", "SELECT id FROM far.away")  # while the current namespace is s
    lake.sql("INSERT INTO far.away VALUES (2)")
    with connect(lake.settings.location, shuffle_partitions=2) as again:  # nothing remembered
        assert again.refresh("far.copy", mode="differential").rows_inserted == 1
        assert again.refresh("far.copy", mode="full").action is Action.FULL
        assert again.verify("far.copy").equal


def test_auto_goes_by_the_size_of_the_change(lake: Trickle) -> None:
    lake.create_stream_table("s.sized", "SELECT v, count(*) AS n FROM s.base GROUP BY v")
    lake.sql("INSERT INTO s.base SELECT id, 'new' FROM range(5000, 5010)")
    small = lake.refresh("s.sized")
    assert (small.action, small.rows_changed) == (Action.DIFFERENTIAL, {"s.base": 10})
    assert small.reason.startswith("CHANGE_RATIO: 10 of 1")
    assert "rows of s.base changed" in small.reason
    lake.sql("INSERT INTO s.base SELECT id, 'new' FROM range(6000, 6050)")
    large = lake.refresh("s.sized")
    assert (large.action, large.reason.split(":")[0]) == (Action.FULL, "CHANGE_RATIO")
    assert "50 of" in large.reason
    assert "more than 15 %" in large.reason
    assert lake.history("s.sized")[0].reason == large.reason
    assert lake.verify("s.sized").equal
    lake.sql("DELETE FROM s.base WHERE id >= 5000")


def test_a_name_twice_and_the_consumer_first(lake: Trickle) -> None:
    lake.create_stream_table("s.twice", "SELECT id, v FROM s.t", mode="differential")
    lake.create_stream_table("s.over_twice", "SELECT v, count(*) AS n FROM s.twice GROUP BY v", mode="differential")
    lake.sql("INSERT INTO s.t VALUES (100, 1)")
    found = lake.refresh(["s.over_twice", "s.twice", "s.twice"], upstream=False)
    assert [r.action for r in found] == [Action.DIFFERENTIAL] * 3
    for name in ("s.twice", "s.over_twice"):
        assert lake.verify(name).equal
        assert not lake.status(name)[0].pending


def test_a_view_that_closes_a_circle(lake: Trickle) -> None:
    lake.sql("CREATE VIEW s.v AS SELECT id FROM s.t")
    lake.create_stream_table("s.first", "SELECT id FROM s.v")
    lake.create_stream_table("s.second", "SELECT id FROM s.first")
    lake.sql("CREATE OR REPLACE VIEW s.v AS SELECT id FROM s.second")
    with refused(lake, "CYCLE"):
        lake.refresh("s.first")
    assert lake.drop_stream_table("s.first", cascade=True) == ("s.second", "s.first")


def test_one_that_fails_does_not_blame_the_others(lake: Trickle) -> None:
    lake.sql("CREATE TABLE s.doomed (id INT)")
    lake.create_stream_table("s.healthy", "SELECT id, v FROM s.t WHERE v = 2")
    lake.create_stream_table("s.ill", "SELECT id FROM s.doomed")
    lake.sql("INSERT INTO s.t VALUES (101, 2)")
    lake.sql("DROP TABLE s.doomed")
    with refused(lake, "SOURCE_DROPPED"):
        lake.refresh(["s.healthy", "s.ill"])
    status = {s.name: s for s in lake.status()}
    assert status["s.healthy"].status is Status.ACTIVE
    assert status["s.healthy"].last_error is None
    assert status["s.ill"].status is Status.ERROR
    group, own = lake.alerts(name="s.ill", open_only=True)
    assert (group.kind, own.kind) == ("GROUP_FAILED", "REFRESH_FAILED")
    assert group.message.startswith("nothing of s.healthy, s.ill was published, since s.ill failed: ")
    assert not lake.alerts(name="s.healthy")
    assert lake.refresh("s.healthy").action is Action.DIFFERENTIAL
    assert lake.verify("s.healthy").equal
    lake.drop_stream_table("s.ill")
    assert {a.state for a in lake.alerts(name="s.ill")} == {"resolved"}


def test_asked_for_differential_it_never_recomputes(lake: Trickle) -> None:
    lake.sql("CREATE VIEW s.meaning AS SELECT id, v FROM s.t WHERE v > 2")
    lake.create_stream_table("s.strict", "SELECT id FROM s.meaning")
    lake.sql("CREATE OR REPLACE VIEW s.meaning AS SELECT id, v FROM s.t WHERE v > 3")
    with refused(lake, "DEPENDENCY_CHANGED"):
        lake.refresh("s.strict", mode="differential")
    assert lake.refresh("s.strict").action is Action.REINITIALIZE
    lake.create_stream_table("s.this_day", "SELECT id FROM s.t WHERE current_date() > DATE'2000-01-01'")
    with refused(lake, "NOT_INCREMENTAL"):
        lake.refresh("s.this_day", mode="differential")
    lake.drop_stream_table("s.this_day")
