"""A definition means one thing: what it was created with, whoever connects and whatever is set."""

from __future__ import annotations

import random
from collections.abc import Iterator
from contextlib import ExitStack
from typing import TYPE_CHECKING, Any

import pytest

from spark_trickle import Action, Trickle, TrickleError, connect
from spark_trickle.catalog.tables import stream_tables
from spark_trickle.spark.session import new_session
from spark_trickle.spark.settings import ANSI, PINNED, TIME_ZONE
from tests.engine.lakes import rows

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

LENIENT = {ANSI: "false"}
# name -> what it pins and its definition. `e` holds instants around midnights and clock changes of several zones.
TABLES: dict[str, tuple[dict[str, str], str]] = {
    "days": (
        {},
        "SELECT id, to_date(ts) AS d, hour(ts) AS h, CAST(ts AS STRING) AS t, size(a) AS n, try_cast(txt AS INT) AS i, "
        "'${env:HOME} ${spark.app.name}' AS v, 'a\\\\b' AS b FROM s.e WHERE ID > 0",
    ),
    "per_day": (
        {TIME_ZONE: "America/New_York"},
        "SELECT to_date(ts) AS d, count(*) AS n, sum(v) AS v, max(hour(ts)) AS h FROM s.e GROUP BY to_date(ts)",
    ),
    "by_offset": (
        {TIME_ZONE: "+05:30"},
        "SELECT date_format(ts, 'yyyy-MM-dd HH:mm XXX') AS t, count(*) AS n FROM s.e GROUP BY 1",
    ),
    "joined": (
        {TIME_ZONE: "Europe/Berlin"},
        "SELECT e.id, c.label FROM e JOIN calendar c ON to_date(e.ts) = c.d",
    ),
    "windowed": (
        {TIME_ZONE: "Europe/Berlin"},
        "SELECT id, sum(v) OVER (PARTITION BY to_date(ts) ORDER BY id) AS running FROM s.e",
    ),
    "having": (
        {TIME_ZONE: "Australia/Lord_Howe"},
        "SELECT d, n FROM (SELECT to_date(ts) AS d, count(*) AS n FROM s.e GROUP BY to_date(ts)) WHERE n > 1",
    ),
    "through_view": ({TIME_ZONE: "Asia/Tokyo"}, "SELECT d, count(*) AS n FROM s.days_view GROUP BY d"),
    "lenient": (
        LENIENT,
        "SELECT id, size(a) AS n, CAST(txt AS INT) AS i, 100 / (id % 3) AS q, element_at(array(1, 2), 5) AS x FROM s.e",
    ),
    "lenient_sums": (
        LENIENT | {"spark.sql.legacy.sizeOfNull": "false"},
        "SELECT id % 2 AS k, sum(CAST(txt AS INT)) AS s, sum(big) AS b, sum(m) AS m, avg(m) AS a, sum(size(a)) AS n "
        "FROM s.e GROUP BY 1",
    ),
    "lenient_maps": (
        {"spark.sql.mapKeyDedupPolicy": "LAST_WIN", "spark.sql.legacy.castComplexTypesToString.enabled": "true"},
        "SELECT id, map('k', id, 'k', v)['k'] AS last, CAST(array(id, NULL) AS STRING) AS t FROM s.e",
    ),
    "old_dates": (
        {"spark.sql.legacy.timeParserPolicy": "LEGACY", "spark.sql.timestampType": "TIMESTAMP_NTZ"},
        "SELECT id, date_format(ts, 'uuuu') AS u, to_date(concat(' 2026-1-', id % 9 + 1), 'yyyy-MM-dd') AS d, "
        "CAST('2026-03-29 02:30:00' AS TIMESTAMP) AS t FROM s.e",
    ),
    "decimals": (
        {"spark.sql.decimalOperations.allowPrecisionLoss": "false"},
        "SELECT id % 2 AS k, sum(m) AS s, avg(m) AS a, avg(m / 7) AS b, "
        "max(m * CAST(1.123456789 AS DECIMAL(20, 9))) AS p FROM s.e GROUP BY id % 2",
    ),
}
HOSTILE: tuple[dict[str, Any], ...] = (
    {"time_zone": "America/New_York", "spark_conf": {ANSI: "false"}},
    {
        "time_zone": "Pacific/Apia",
        "spark_conf": {
            "spark.sql.mapKeyDedupPolicy": "LAST_WIN",
            "spark.sql.caseSensitive": "true",
            "spark.sql.parser.escapedStringLiterals": "true",
            "spark.sql.legacy.castComplexTypesToString.enabled": "true",
            "spark.sql.decimalOperations.allowPrecisionLoss": "false",
            "spark.sql.crossJoin.enabled": "false",
            "spark.sql.shuffle.partitions": "3",
        },
    },
    {
        "time_zone": "UTC",
        "spark_conf": {
            TIME_ZONE: "-09:30",
            "spark.sql.legacy.timeParserPolicy": "LEGACY",
            "spark.sql.timestampType": "TIMESTAMP_NTZ",
            "spark.sql.legacy.sizeOfNull": "false",
            "spark.sql.jsonGenerator.ignoreNullFields": "false",
            "spark.sql.groupByOrdinal": "false",
            "spark.sql.optimizer.windowGroupLimitThreshold": "0",
            "spark.sql.variable.substitute": "true",
        },
    },
)
SET = (
    f"SET {TIME_ZONE} = Asia/Kathmandu",
    f"SET {ANSI} = false",
    f"SET {ANSI} = true",
    "SET spark.sql.parser.escapedStringLiterals = true",
    "SET spark.sql.ansi.enforceReservedKeywords = true",
    "SET spark.sql.legacy.timeParserPolicy = LEGACY",
    "SET spark.sql.storeAssignmentPolicy = LEGACY",
    f"SET {TIME_ZONE} = Antarctica/Troll",
)


@pytest.fixture(scope="module")
def lakes(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Trickle, ...]]:
    """Four connections to one lake; the first one creates."""
    folder = tmp_path_factory.mktemp("settings") / "lake"
    with ExitStack() as opened:
        first = opened.enter_context(connect(folder, shuffle_partitions=2, check_definition="off"))
        first.sql("CREATE NAMESPACE s")
        first.sql("USE s")
        yield first, *(opened.enter_context(connect(folder, **options)) for options in HOSTILE)


def plain(tr: Trickle, pins: dict[str, str] | None = None) -> SparkSession:
    """Plain Spark under settings, in the namespace that definitions were written in."""
    session = new_session(tr.spark, tr.settings)
    session.sql("USE s")
    few = {"spark.sql.adaptive.enabled": "false", "spark.sql.shuffle.partitions": "1"}
    for key, value in {"spark.sql.variable.substitute": "false", TIME_ZONE: "UTC", **few, **(pins or {})}.items():
        session.conf.set(key, value)
    return session


def differs(session: SparkSession, name: str, definition: str) -> Any:
    """The rows of a stream table and those of its definition in plain Spark, if they are not the same."""
    kept, defined = rows(session, f"SELECT * FROM lake.s.{name}"), rows(session, definition)
    return None if kept == defined else (kept, defined)


def add(tr: Trickle, numbers: range) -> None:
    session = plain(tr)
    moments = ("2026-03-29 00:30:00", "2026-03-29 01:00:00", "2026-10-24 23:59:59.999999", "2026-11-01 05:30:00")
    listed = ", ".join(
        f"({n}, TIMESTAMP '{moments[n % 4]}' + INTERVAL {n % 5 * 7} HOUR, {n * 10}, "
        f"{'NULL' if n % 3 else 'array(1)'}, '{n if n % 2 else 'x'}', {2**62 + n}, {n}.{n:02d})"
        for n in numbers
    )
    session.sql(f"INSERT INTO lake.s.e VALUES {listed}")


def test_refreshed_from_hostile_connections(lakes: tuple[Trickle, ...]) -> None:
    first = lakes[0]
    first.sql(
        "CREATE TABLE e (id BIGINT, ts TIMESTAMP, v BIGINT, a ARRAY<INT>, txt STRING, big BIGINT, m DECIMAL(12, 2))"
    )
    first.sql("CREATE TABLE calendar (d DATE, label STRING)")
    first.sql("INSERT INTO calendar SELECT DATE'2026-01-01' + CAST(id AS INT), concat('day ', id) FROM range(400)")
    first.sql("CREATE VIEW days_view AS SELECT id, to_date(ts) AS d FROM s.e")
    add(first, range(1, 9))
    for name, (pins, definition) in TABLES.items():
        first.create_stream_table(f"s.{name}", definition, mode="differential", settings=pins)
    everything = [f"s.{name}" for name in TABLES]
    sessions = {name: plain(first, pins) for name, (pins, _) in TABLES.items()}
    writer, seen, choose = plain(first), set(), random.Random(12)
    for step, tr in enumerate((*lakes[1:], first)):
        if step % 2:
            add(first, range(9 + 4 * step, 11 + 4 * step))
        else:
            writer.sql("UPDATE s.e SET ts = ts + INTERVAL 3 HOUR, v = v + 1, txt = '7' WHERE id % 5 = 3")
            writer.sql(f"DELETE FROM s.e WHERE id = {step + 1}")
        tr.spark.sql(choose.choice(SET))
        seen |= {result.action for result in tr.refresh(everything)}
        for name, (_, definition) in TABLES.items():
            assert (found := differs(sessions[name], name, definition)) is None, (step, name, found)
    assert seen == {Action.DIFFERENTIAL}
    for name in everything:
        lakes[2].spark.sql(choose.choice(SET))
        assert lakes[2].verify(name).equal, name
        assert lakes[2].explain(name).next_action is Action.NO_DATA


def test_settings_are_stored_shown_and_altered(tr: Trickle) -> None:
    tr.sql("CREATE TABLE s.e (id BIGINT, ts TIMESTAMP)")
    tr.sql("INSERT INTO s.e VALUES (1, TIMESTAMP'2026-01-01 23:30:00'), (2, TIMESTAMP'2026-01-02 12:00:00')")
    tr.spark.sql(f"SET {TIME_ZONE} = Asia/Tokyo")
    tr.spark.sql("SET spark.sql.caseSensitive = true")
    made = tr.create_stream_table(
        "s.days", "SELECT to_date(ts) AS d, count(*) AS n FROM s.e GROUP BY to_date(ts)", mode="differential"
    )
    assert f"{TIME_ZONE} is Asia/Tokyo in your session and UTC in s.days" in made.notices
    assert "spark.sql.caseSensitive is true in your session and false in s.days" in made.notices
    tr.spark.sql(f"SET {TIME_ZONE} = UTC")
    tr.spark.sql("RESET spark.sql.caseSensitive")
    quiet = tr.create_stream_table("s.again", "SELECT id FROM s.e", settings={"ansi": False})
    assert quiet.notices == (f"{ANSI} is true in your session and false in s.again",)

    shown = tr.describe("s.days")
    assert dict(shown.settings).keys() == PINNED.keys()
    assert shown.settings[0] == (TIME_ZONE, "UTC")
    assert [str(c.type) for c in shown.columns] == ["date", "bigint"]
    assert shown.inputs == (("s.e", "SOURCE"),)
    assert f"{TIME_ZONE} = UTC" in str(shown)
    assert tr.sql("DESCRIBE STREAM TABLE s.again").settings[:2] == ((ANSI, "false"), (TIME_ZONE, "UTC"))

    query = "SELECT CAST(d AS STRING), n FROM s.days"
    assert rows(tr.spark, query) == [("2026-01-01", 1), ("2026-01-02", 1)]
    altered = tr.sql("ALTER STREAM TABLE s.days SET ('spark.sql.session.timeZone' = 'Asia/Tokyo')")
    assert altered.action is Action.REINITIALIZE
    assert altered.reason == f"ALTERED: {TIME_ZONE} is Asia/Tokyo, was UTC"
    assert rows(tr.spark, query) == [("2026-01-02", 2)]
    assert tr.verify("s.days").equal
    assert tr.sql("ALTER STREAM TABLE s.days SET (time_zone = 'Asia/Tokyo')") is None  # as it was
    tr.sql("INSERT INTO s.e VALUES (3, TIMESTAMP'2026-01-02 16:00:00')")
    assert tr.refresh("s.days").action is Action.DIFFERENTIAL
    assert rows(tr.spark, query) == [("2026-01-02", 2), ("2026-01-03", 1)]

    other = "SELECT to_date(ts) AS d, count(*) AS n, max(id) AS m FROM s.e GROUP BY 1"
    both = tr.sql(f"ALTER STREAM TABLE s.days SET (time_zone = 'UTC') AS {other}")
    assert both.reason == f"ALTERED: the definition was changed; {TIME_ZONE} is UTC, was Asia/Tokyo"
    for statement in (
        "ALTER STREAM TABLE s.days SET ('spark.sql.shuffle.partitions' = '3')",
        "ALTER STREAM TABLE s.days SET ('spark.sql.mapKeyDedupPolicy' = 'SOMETIMES')",
        "CREATE STREAM TABLE s.no SET (time_zone = 'Nowhere/Land') AS SELECT 1 AS one",
    ):
        with pytest.raises(TrickleError) as refused:
            tr.sql(statement)
        assert refused.value.code == "INVALID_SETTING", statement
    assert dict(tr.describe("s.days").settings)[TIME_ZONE] == "UTC"


def test_altered_settings_start_hidden_states_anew(tr: Trickle) -> None:
    """A state table has the same text and layout under other settings, and other rows."""
    tr.sql("CREATE TABLE s.e (id BIGINT, ts TIMESTAMP)")
    tr.sql("INSERT INTO s.e SELECT id, TIMESTAMP'2026-01-01 20:00:00' + make_dt_interval(0, id) FROM range(8)")
    definition = "SELECT d, n FROM (SELECT to_date(ts) AS d, count(*) AS n FROM s.e GROUP BY to_date(ts)) WHERE n > 1"
    tr.create_stream_table("s.busy", definition, mode="differential")
    assert tr.describe("s.busy").states
    tr.alter_stream_table("s.busy", settings={"time_zone": "Asia/Tokyo"})
    found = "SELECT CAST(d AS STRING), n FROM s.busy"
    assert rows(tr.spark, found) == [("2026-01-02", 8)]
    tr.sql("INSERT INTO s.e VALUES (9, TIMESTAMP'2026-01-01 15:30:00')")
    assert tr.refresh("s.busy").action is Action.DIFFERENTIAL
    assert rows(tr.spark, found) == [("2026-01-02", 9)]
    assert tr.verify("s.busy").equal


def test_rows_from_before_are_pinned_at_the_next_refresh(tr: Trickle) -> None:
    tr.sql("CREATE TABLE s.e (id BIGINT, ts TIMESTAMP)")
    tr.create_stream_table("s.days", "SELECT to_date(ts) AS d FROM s.e")
    with tr.store.write() as tx:
        tx.connection.execute(stream_tables.update().values(settings=None))
    assert tr.describe("s.days").settings == ()
    assert "pinned at the next refresh" in str(tr.describe("s.days"))
    with connect(tr.settings.location, time_zone="Asia/Tokyo") as other:
        assert other.refresh("s.days").action is Action.NO_DATA
    assert dict(tr.describe("s.days").settings)[TIME_ZONE] == "Asia/Tokyo"


def test_lenient_decimal_overflow_stays_null(tr: Trickle) -> None:
    """Without ANSI a sum that does not fit is NULL, and another one that fits again is not."""
    tr.sql("CREATE TABLE s.e (k INT, m DECIMAL(38, 0), b BIGINT)")
    nines = "9" * 38
    tr.sql(f"INSERT INTO s.e VALUES (1, {nines}BD, 9223372036854775807), (1, 1BD, 1), (2, 5BD, 5)")
    definition = "SELECT k, sum(m) AS m, avg(m) AS a, sum(b) AS b FROM s.e GROUP BY k"
    tr.create_stream_table("s.sums", definition, mode="differential", settings={"ansi": "false"})
    session = plain(tr, LENIENT)
    for change in (
        "INSERT INTO s.e VALUES (2, 2BD, -7)",
        f"DELETE FROM s.e WHERE m = {nines}BD",
        f"INSERT INTO s.e VALUES (2, {nines}BD, 9223372036854775807)",
    ):
        found = differs(session, "sums", definition)
        assert found is None, (change, found)
        tr.sql(change)
        assert tr.refresh("s.sums").action is Action.DIFFERENTIAL
    assert differs(session, "sums", definition) is None
    assert tr.verify("s.sums").equal


def test_instants_stay_instants_whatever_timestamp_means(tr: Trickle) -> None:
    pins = {"spark.sql.timestampType": "TIMESTAMP_NTZ", TIME_ZONE: "Europe/Berlin"}
    tr.sql("CREATE TABLE i (id INT, ts TIMESTAMP, d DATE)")
    for hour in (0, 1):  # the same time on the clock, twice
        tr.sql(f"INSERT INTO i VALUES ({hour}, TIMESTAMP'2025-10-26 0{hour}:30:00Z', DATE'2025-10-26')")
    tr.create_stream_table("s.instants", "SELECT ts FROM s.i", mode="differential", settings=pins)
    both = "SELECT ts FROM s.i UNION ALL SELECT d FROM s.i"
    tr.create_stream_table("s.both", both, mode="differential", settings=pins)
    assert tr.spark.table("s.instants").schema["ts"].dataType.typeName() == "timestamp"
    tr.sql("DELETE FROM i WHERE id = 1")
    for name in ("s.instants", "s.both"):
        assert tr.refresh(name).action is Action.DIFFERENTIAL
        assert tr.verify(name).equal
    assert [str(r[0]) for r in tr.sql("SELECT CAST(ts AS STRING) FROM s.instants").collect()] == ["2025-10-26 00:30:00"]
