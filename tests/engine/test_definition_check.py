"""The net below the parser: a definition that we misread is noticed when it is created, and runs as written."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from spark_trickle import Action, Trickle, connect
from spark_trickle.errors import TrickleError
from spark_trickle.refresh import definition
from spark_trickle.sql.algebra import Filter, Operator
from spark_trickle.sql.lower import Lowered
from spark_trickle.sql.scalar import column, greater, number

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.spark


@pytest.fixture(scope="module")
def lake(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Trickle]:
    with connect(tmp_path_factory.mktemp("checked") / "lake", shuffle_partitions=2) as tr:
        tr.sql("CREATE NAMESPACE s")
        tr.sql("USE s")
        tr.sql("CREATE TABLE s.t (g INT, v INT, d DOUBLE, m MAP<STRING, INT>)")
        tr.sql("INSERT INTO s.t VALUES (1, 1, 0.1D, map('a', 1)), (1, 2, 0.2D, NULL), (2, 3, -0.0D, map())")
        yield tr


class Misreading:
    """`lower` with a fault of its own: it adds a condition that is not in the text."""

    def __init__(self, lower: Any, condition: str) -> None:
        self.lower, self.condition = lower, condition

    def __call__(self, *arguments: Any) -> Lowered:
        found = self.lower(*arguments)
        (named,) = [c for c in found.root.columns if c.startswith(self.condition)]
        root: Operator = Filter(child=found.root, condition=greater(column(named), number(1)))
        return Lowered(root, found.shown, found.inputs, found.views, found.notices)


@pytest.fixture
def misreading(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(definition, "lower", Misreading(definition.lower, "v"))


TEXT = "SELECT g, v FROM s.t"


def test_a_misread_definition_runs_as_written(lake: Trickle, misreading: None) -> None:
    created = lake.create_stream_table("s.misread", TEXT)
    assert any("please report" in n for n in created.notices)
    assert lake.explain("s.misread").notices == created.notices
    status = lake.status("s.misread")[0]
    assert not status.incremental
    assert status.reason == "DEFINITION_CHECK: our form of the query gives 2 rows, and its text 3"
    assert lake.spark.table("s.misread").count() == 3
    lake.sql("INSERT INTO s.t VALUES (7, 7, 7D, NULL)")
    found = lake.refresh("s.misread")
    assert (found.action, lake.verify("s.misread").equal) == (Action.FULL, True)
    assert found.reason.startswith("DEFINITION_CHECK")
    assert "DEFINITION_CHECK" in str(lake.explain("s.misread"))


def test_mode_differential_refuses_what_was_misread(lake: Trickle, misreading: None) -> None:
    with pytest.raises(TrickleError, match="DEFINITION_CHECK"):
        lake.create_stream_table("s.strict", TEXT, mode="differential")
    assert not lake.spark.catalog.tableExists("s.strict")


def test_another_text_is_judged_anew(lake: Trickle, monkeypatch: pytest.MonkeyPatch) -> None:
    with monkeypatch.context() as patched:
        patched.setattr(definition, "lower", Misreading(definition.lower, "v"))
        lake.create_stream_table("s.altered", TEXT)
    lake.alter_stream_table("s.altered", "SELECT g AS h, v FROM s.t")
    status = lake.status("s.altered")[0]
    assert (status.incremental, status.reason) == (True, None)
    with monkeypatch.context() as patched:
        patched.setattr(definition, "lower", Misreading(definition.lower, "v"))
        lake.alter_stream_table("s.altered", TEXT)
    assert str(lake.status("s.altered")[0].reason).startswith("DEFINITION_CHECK")
    assert lake.verify("s.altered").equal


def test_what_sql_leaves_open_is_left_out(lake: Trickle) -> None:
    for name, text in {
        "floats": "SELECT g, sum(d) AS s, avg(d) AS a, stddev(d) AS t FROM s.t GROUP BY g",
        "open": "SELECT g, first(v) AS f, collect_list(v) AS l, max_by(m, g) AS b FROM s.t GROUP BY g",
        "ties": "SELECT v, m, row_number() OVER (PARTITION BY g ORDER BY g) AS n FROM s.t",
        "maps": "SELECT m, d, to_json(m) AS j FROM s.t",
        "nested": "SELECT s > 0.25 AS m, count(*) AS n FROM (SELECT g, sum(d) AS s FROM s.t GROUP BY g) GROUP BY 1",
        "having": "SELECT g, count(*) AS n FROM s.t GROUP BY g HAVING sum(d) > 0.29",
        "none": "SELECT g FROM s.t WHERE false",
    }.items():
        lake.create_stream_table(f"s.{name}", text, mode="differential")


def test_an_error_of_the_text_is_the_users(lake: Trickle) -> None:
    with pytest.raises(TrickleError, match="DIVIDE_BY_ZERO"):
        lake.create_stream_table("s.divided", "SELECT 1 / (v - v) AS q FROM s.t")


@pytest.mark.parametrize(
    ("setting", "most", "noticed"), [("off", 9, False), ("always", 0, True), ("auto", 0, False), ("auto", 1, True)]
)
def test_setting(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, setting: str, most: int, noticed: bool
) -> None:
    """`auto` looks at definitions over so many rows at most; the source has one."""
    monkeypatch.setattr("spark_trickle.refresh.definition_check.CHECKED_ROWS", most)
    with connect(tmp_path / "lake", shuffle_partitions=2, check_definition=setting) as tr:
        tr.sql("CREATE NAMESPACE s")
        tr.sql("CREATE TABLE s.t AS SELECT 1 AS g, 1 AS v")
        monkeypatch.setattr(definition, "lower", Misreading(definition.lower, "v"))
        tr.create_stream_table("s.st", TEXT)
        assert tr.status("s.st")[0].incremental is not noticed


def test_a_table_that_is_created_empty_is_checked_when_it_is_filled(lake: Trickle, misreading: None) -> None:
    lake.create_stream_table("s.later", TEXT, initialize=False)
    assert lake.status("s.later")[0].incremental
    assert lake.refresh("s.later").action is Action.FULL
    assert str(lake.status("s.later")[0].reason).startswith("DEFINITION_CHECK")
    assert lake.verify("s.later").equal
    lake.create_stream_table("s.failing", "SELECT 1 / (v - v) AS v FROM s.t", initialize=False)
