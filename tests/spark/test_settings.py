"""Every SQL setting of the installed Spark is known to be pinned, fixed or free."""

from __future__ import annotations

from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Any

import pytest

from spark_trickle import TrickleError
from spark_trickle.spark.settings import (
    ALIASES,
    ENGINE,
    FIXED,
    FREE,
    PINNED,
    TIME_ZONE,
    Class,
    changed,
    classify,
    differences,
    given,
    normal,
    unusual_first,
    zone,
)

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

UNREGISTERED = ("spark.sql.iceberg.", "spark.wap.", "spark.databricks.delta.")  # not Spark's own


@pytest.fixture(scope="module")
def entries(spark: SparkSession) -> dict[str, str | None]:
    """All that Spark registers, internal and legacy ones included, with their defaults."""
    spark.sql("SELECT hash('a' COLLATE UTF8_LCASE)").collect()  # those of collations are registered at their first use
    jvm: Any = spark._jvm
    conf = getattr(getattr(jvm.org.apache.spark.sql.internal, "SQLConf$"), "MODULE$")
    found = {e.key(): e.defaultValueString() for e in conf.getConfigEntries().toArray()}
    return {k: None if v == "<undefined>" else v for k, v in found.items()}


def test_every_setting_has_a_class(entries: dict[str, str | None]) -> None:
    assert len(entries) > 600
    unknown = sorted(k for k in entries if classify(k) is None)
    assert not unknown, f"say in spark/settings.py whether these can change a result: {', '.join(unknown)}"


def test_every_name_is_a_setting(entries: dict[str, str | None]) -> None:
    """A setting that a later Spark drops, or a misspelt one, would be in the way of nobody and of no use."""
    named = [*PINNED, *FIXED, *(s.key for s in FREE)]
    assert len(named) == len(set(named))
    for key in named:
        start = key[:-1] if key.endswith("*") else None
        there = key in entries or (start is not None and any(k.startswith(start) for k in entries))
        assert there or key.startswith(UNREGISTERED), key


def test_defaults_are_those_of_spark(entries: dict[str, str | None]) -> None:
    for key, one in PINNED.items():
        if key != TIME_ZONE:  # that of the machine
            assert entries[key] == one.value, key
            assert one.value is None or normal(key, one.value) == one.value, key
    for key, one in FIXED.items():
        if key in entries and one.value is not None and key not in ENGINE:
            assert entries[key] == one.value, key  # it is fixed by unsetting it
    own = {key: value for key, value in ENGINE.items() if not key.startswith(UNREGISTERED)}
    assert all(entries[key] != value for key, value in own.items())


def test_names_go_before_beginnings() -> None:
    def kind(key: str) -> Class:
        found = classify(key)
        assert found is not None
        return found[0]

    assert kind("spark.sql.optimizer.decorrelateLimit.enabled") is Class.FIXED
    assert kind("spark.sql.optimizer.runtime.bloomFilter.enabled") is Class.FREE
    assert kind("spark.sql.parquet.filterPushdown") is Class.FREE
    assert kind("spark.sql.parquet.int96RebaseModeInRead") is Class.PINNED
    assert kind("spark.sql.execution.pythonUDF.arrow.enabled") is Class.FIXED
    assert kind("spark.wap.branch") is Class.FIXED
    assert classify("spark.sql.legacy.somethingNew") is None


def test_what_a_user_may_pin() -> None:
    asked = {"time_zone": "Europe/Berlin", "ansi": False, "spark.sql.legacy.timeParserPolicy": "legacy"}
    assert given(asked) == {
        TIME_ZONE: "Europe/Berlin",
        "spark.sql.ansi.enabled": "false",
        "spark.sql.legacy.timeParserPolicy": "LEGACY",
    }
    assert given({"spark.sql.caseSensitive": "FALSE"}) == {}  # as it is anyway
    for key, value, message in (
        ("spark.sql.sesion.timeZone", "UTC", "is not a setting"),
        ("spark.sql.caseSensitive", "true", "always false"),
        ("spark.sql.optimizer.decorrelateLimit.enabled", "false", "always Spark's default"),
        ("spark.sql.shuffle.partitions", "8", "cannot change a result"),
        ("time_zone", "Europe/Atlantis", "no time zone"),
    ):
        with pytest.raises(TrickleError, match=message) as refused:
            given({key: value})
        assert refused.value.code == "INVALID_SETTING"
    with pytest.raises(TrickleError) as refused:
        given({"spark.sql.sesion.timeZone": "UTC"})
    assert TIME_ZONE in refused.value.hint
    with pytest.raises(TrickleError, match="given twice"):
        given({"time_zone": "UTC", TIME_ZONE: "UTC"})
    assert all(key in PINNED for key in ALIASES.values())


def test_zones() -> None:
    winter = datetime(2026, 1, 1)
    for text, hours in (("UTC", 0), ("Z", 0), ("+02:00", 2), ("-05:30", -5.5), ("GMT+1", 1), ("Europe/Berlin", 1)):
        assert zone(text).utcoffset(winter) == timedelta(hours=hours), text


def test_differences_are_said() -> None:
    pins = {TIME_ZONE: "UTC", "spark.sql.ansi.enabled": "true"}
    session = {TIME_ZONE: "Asia/Tokyo", "spark.sql.ansi.enabled": "true", "spark.sql.caseSensitive": "true"}
    assert differences("shop.totals", session, pins) == (
        "spark.sql.session.timeZone is Asia/Tokyo in your session and UTC in shop.totals",
        "spark.sql.caseSensitive is true in your session and false in shop.totals",
    )
    assert changed(pins, pins | {TIME_ZONE: "Asia/Tokyo"}) == ("spark.sql.session.timeZone is Asia/Tokyo, was UTC",)
    first = unusual_first({"spark.sql.ansi.enabled": "true", "spark.sql.mapKeyDedupPolicy": "LAST_WIN"})
    assert [key for key, _ in first] == ["spark.sql.mapKeyDedupPolicy", "spark.sql.ansi.enabled"]
