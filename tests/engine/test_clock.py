"""Volatile functions by policy, and the time: a refresh has one instant, and verify goes back to it."""

from __future__ import annotations

import time
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from spark_trickle import Action, Trickle, connect
from spark_trickle.errors import TrickleError
from tests.engine.refused import refused

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.spark


@pytest.fixture(scope="module")
def lake(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Trickle]:
    # Far from UTC, where the date is another one for most of the day.
    folder: Path = tmp_path_factory.mktemp("clock") / "lake"
    with connect(folder, shuffle_partitions=2, time_zone="Pacific/Kiritimati") as tr:
        tr.sql("CREATE NAMESPACE s")
        tr.sql("USE s")
        tr.sql("CREATE TABLE s.t (id BIGINT, current_date STRING)")
        tr.sql("INSERT INTO s.t VALUES (1, 'a'), (2, 'b')")
        tr.sql("CREATE VIEW s.clock AS SELECT id, now() FROM s.t")
        tr.sql("CREATE VIEW s.above AS SELECT id, `now()` AS seen, current_timestamp() AS own FROM s.clock")
        yield tr


def instant(tr: Trickle, name: str) -> datetime:
    stamp = tr.status(name)[0].data_timestamp
    assert stamp is not None
    return stamp.astimezone(UTC)


def first(tr: Trickle, query: str) -> tuple[Any, ...]:
    row = tr.sql(query).first()
    assert row is not None
    return tuple(row)


EVERY = """
SELECT id, current_timestamp() AS a, now() AS b, localtimestamp() AS c, curdate() AS d, current_date() AS e,
  unix_timestamp() AS f, TIMESTAMP 'now' AS g, CAST('today' AS DATE) AS h, date('yesterday') AS i,
  CAST('tomorrow' AS TIMESTAMP) AS j, TIMESTAMP_NTZ 'now' AS k, t.current_date AS l, 'today' AS m
FROM s.t
"""


@pytest.mark.parametrize("mode", ["auto", "full"])
def test_a_refresh_has_the_instant_of_its_cut(lake: Trickle, mode: str) -> None:
    name = f"s.every_{mode}"
    lake.create_stream_table(name, EVERY, mode=mode)
    for _ in range(2):
        moment = instant(lake, name)
        local = moment.astimezone(lake_zone())
        listed = "unix_micros(a), unix_micros(b), CAST(c AS STRING), d, e, f, unix_micros(g), h, i, j, k, l, m"
        shown = first(lake, f"SELECT {listed} FROM {name} ORDER BY id")
        micros = round((moment - datetime(1970, 1, 1, tzinfo=UTC)) / timedelta(microseconds=1))
        assert shown[:2] == (micros, micros)
        assert datetime.fromisoformat(shown[2]) == local.replace(tzinfo=None)
        assert shown[3:5] == (local.date(), local.date())
        assert shown[5:8] == (micros // 1_000_000, micros, local.date())
        assert shown[8] == local.date() - timedelta(days=1)
        assert shown[10] == local.replace(tzinfo=None)
        assert shown[11:] == ("a", "today")
        time.sleep(1.1)
        assert lake.verify(name).equal
        result = lake.refresh(name)  # no source changed, the time did
        assert (result.action, result.reason.split(" ")[0]) == (Action.FULL, "TIME_DEPENDENT")
        assert instant(lake, name) > moment


def lake_zone() -> Any:
    from zoneinfo import ZoneInfo

    return ZoneInfo("Pacific/Kiritimati")


def test_names_that_spark_makes_up_stay(lake: Trickle) -> None:
    lake.create_stream_table("s.unnamed", "SELECT id, current_timestamp(), date_add(current_date(), 1) FROM s.t")
    assert [c.name for c in lake.sql("SELECT * FROM s.unnamed").schema.fields][1] == "current_timestamp()"
    time.sleep(0.1)
    assert lake.verify("s.unnamed").equal
    # A made-up name that is used further out cannot be pinned; the table is filled all the same.
    lake.create_stream_table("s.inner", "SELECT `now()` AS n FROM (SELECT now() FROM s.t)")
    assert first(lake, "SELECT count(*) FROM s.inner") == (2,)


def test_a_column_goes_before_the_clock(lake: Trickle) -> None:
    lake.create_stream_table("s.column", "SELECT id, current_date, now() AS n FROM s.t WHERE current_date = 'a'")
    assert first(lake, "SELECT id, current_date FROM s.column") == (1, "a")
    time.sleep(0.1)
    assert lake.verify("s.column").equal


def test_views_that_ask_the_clock(lake: Trickle) -> None:
    lake.create_stream_table("s.over_view", "SELECT id, seen, own, now() AS mine FROM s.above")
    moment = instant(lake, "s.over_view")
    assert first(lake, "SELECT count(DISTINCT seen), count(DISTINCT own, mine), max(seen = mine) FROM s.over_view") == (
        1,
        1,
        True,
    )
    assert first(lake, "SELECT max(seen) FROM s.over_view")[0] == first(lake, "SELECT max(mine) FROM s.over_view")[0]
    time.sleep(0.1)
    assert lake.verify("s.over_view").equal
    # The views themselves are as they were.
    assert first(lake, "SELECT max(`now()`) FROM s.clock")[0].astimezone(UTC) > moment
    folder = lake.settings.warehouse_path
    assert folder is not None
    assert not list(folder.rglob("trickle-pin-*"))


def test_consumers_of_one_tick_see_one_instant(lake: Trickle) -> None:
    lake.create_stream_table("s.first", "SELECT id, now() AS n FROM s.t")
    lake.create_stream_table("s.second", "SELECT f.id, f.n AS theirs, now() AS mine FROM s.first f")
    lake.refresh(["s.first", "s.second"])
    assert first(lake, "SELECT max(theirs = mine), min(theirs = mine) FROM s.second") == (True, True)
    time.sleep(0.1)
    assert lake.verify("s.second").equal


@pytest.mark.parametrize(
    "query",
    [
        "SELECT id FROM s.t WHERE CAST('12:30' AS TIMESTAMP) > TIMESTAMP '2000-01-01'",
        "SELECT id, TIMESTAMP 'T1:2' AS at FROM s.t",
        "SELECT id FROM s.t WHERE now < '23:59:59'",
        "SELECT id FROM s.t WHERE now BETWEEN '00:00' AND '23:59:59'",
        "SELECT id FROM s.t WHERE id IN (SELECT id FROM s.t WHERE nvl(now, '12:30') IS NOT NULL)",
        "SELECT * FROM s.timed",
    ],
)
def test_a_time_of_day_gets_the_date_of_the_cut(lake: Trickle, query: str) -> None:
    from spark_trickle.model import TableName

    lake.sql("DROP TABLE IF EXISTS s.times")
    lake.sql("CREATE TABLE s.times AS SELECT id, TIMESTAMP '2000-01-01' AS now FROM s.t")
    lake.sql("CREATE OR REPLACE VIEW s.timed AS SELECT id FROM s.times WHERE now > '12:30'")
    name = TableName("s", "of_day")
    lake.create_stream_table(str(name), query.replace("s.t ", "s.times "))
    try:
        assert lake.refresh(str(name)).reason.startswith("TIME_DEPENDENT")
        assert lake.verify(str(name)).equal
    finally:
        lake.drop_stream_table(str(name))


@pytest.mark.parametrize(
    "query",
    [
        "SELECT id FROM s.t WHERE CAST(id AS STRING) > '12:30'",
        "SELECT id, concat('T1', id) AS tier, TIME '12:30' < TIME '13:00' AS at FROM s.t",
        "SELECT id, to_timestamp('12:30', 'HH:mm') AS at FROM s.t",
    ],
)
def test_a_text_is_no_time_of_day(lake: Trickle, query: str) -> None:
    lake.create_stream_table("s.no_time", query, mode="differential")
    lake.drop_stream_table("s.no_time")


# -- volatile functions ------------------------------------------------------------------------------------------------


def test_volatile_functions_are_refused(lake: Trickle) -> None:
    lake.sql("CREATE VIEW s.dice AS SELECT id, rand() AS r FROM s.t")
    for mode in ("auto", "full", "differential"):
        with refused(lake, "VOLATILE_FUNCTION", "uuid() at line 2, column 3"):
            lake.create_stream_table("s.v", "SELECT id,\n  UUID() AS u FROM s.t", mode=mode)
    with refused(lake, "VOLATILE_FUNCTION", "rand()", "view s.dice"):
        lake.create_stream_table("s.v", "SELECT * FROM s.dice")
    lake.create_stream_table("s.tame", "SELECT id FROM s.t")
    with refused(lake, "VOLATILE_FUNCTION", "randn()"):
        lake.alter_stream_table("s.tame", query="SELECT id, randn() AS r FROM s.t")
    # Words that only look like it.
    lake.create_stream_table("s.words", "WITH uuid (rand) AS (SELECT 'uuid()' FROM s.t) SELECT rand FROM uuid")
    assert lake.verify("s.words").equal


@pytest.mark.parametrize("policy", ["warn", "allow"])
def test_volatile_functions_by_policy(spark: SparkSession, tmp_path: Path, policy: str) -> None:
    with connect(tmp_path / "lake", shuffle_partitions=2, volatile_functions=policy) as tr:
        tr.sql("CREATE NAMESPACE s")
        tr.sql("CREATE TABLE s.t (id BIGINT)")
        tr.sql("INSERT INTO s.t VALUES (1)")
        created = tr.create_stream_table("s.v", "SELECT id, uuid() AS u FROM s.t")
        noticed = [n for n in created.notices if n.startswith("uuid()")]
        assert bool(noticed) is (policy == "warn")
        assert bool([n for n in tr.explain("s.v").notices if n.startswith("uuid()")]) is (policy == "warn")
        tr.sql("INSERT INTO s.t VALUES (2)")
        result = tr.refresh("s.v")
        assert (result.action, result.reason.split(" ")[0]) == (Action.FULL, "VOLATILE")
        assert first(tr, "SELECT count(DISTINCT u) FROM s.v") == (2,)
        with pytest.raises(TrickleError, match="cannot be verified") as error:
            tr.verify("s.v")
        assert error.value.code == "VOLATILE_FUNCTION"
        with refused(tr, "NOT_INCREMENTAL", "VOLATILE"):
            tr.create_stream_table("s.w", "SELECT id, uuid() AS u FROM s.t", mode="differential")


def test_check_says_it(lake: Trickle) -> None:
    found = lake.check("SELECT id, rand() AS r FROM s.t")
    assert found.obstacle is not None
    assert found.obstacle.reason == "VOLATILE"
    assert any("volatile_functions is reject" in n for n in found.notices)


def test_order_by_is_noticed_at_creation(lake: Trickle) -> None:
    created = lake.create_stream_table("s.ordered", "SELECT id FROM s.t ORDER BY id")
    assert any("ORDER BY" in n for n in created.notices)
    assert "notice: " in str(created)


@pytest.mark.parametrize(
    "definition",
    [
        "SELECT a.id, current_timestamp() AS c FROM s.t a LEFT JOIN s.t b ON a.id = b.id",
        "SELECT id, CAST('now' AS TIMESTAMP) AS c FROM s.t",
        "SELECT id FROM s.t WHERE DATE'2020-01-01' < 'today'",
    ],
)
def test_the_clock_is_seen_through_other_refusals(lake: Trickle, definition: str) -> None:
    lake.create_stream_table("s.follows", definition)
    try:
        result = lake.refresh("s.follows")
        assert result.action is Action.FULL
        assert "TIME_DEPENDENT" in result.reason
    finally:
        lake.drop_stream_table("s.follows")
