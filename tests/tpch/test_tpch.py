"""TPC-H at SF 0.01: all 22 queries as stream tables in mode DIFFERENTIAL, equal to their definitions after each round.

A query that is refused fails in `test_created` under its name, with the engine's reason; its rounds are skipped.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import pytest

from spark_trickle import Action, Mode, RefreshResult, Trickle, connect
from spark_trickle.errors import TrickleError
from tests.conftest import ALL
from tests.tpch.workload import NAMESPACE, QUERIES, ROUNDS, Workload, definition, generate

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = [pytest.mark.spark, pytest.mark.slow]

SCALE = 0.01
# A plan runs once or twice here, over few rows: compiling it to bytecode costs more than it saves.
INTERPRETED = {"spark.sql.codegen.wholeStage": "false", "spark.sql.codegen.factoryMode": "NO_CODEGEN"}
SHARE = 0.02  # of the orders per round: 300, so that every query has something to do


@dataclass(slots=True)
class Lake:
    """The lake of this module, brought to a round on demand: tests may be selected one by one."""

    tr: Trickle
    workload: Workload
    round: int = 0
    created: dict[str, RefreshResult | TrickleError] = field(default_factory=dict)
    changed: dict[str, int] = field(default_factory=dict)  # rows of a result that the rounds changed

    def create(self, query: str) -> RefreshResult | TrickleError:
        if query not in self.created:
            try:
                self.created[query] = self.tr.create_stream_table(
                    f"{NAMESPACE}.{query}", definition(query, SCALE), mode=Mode.DIFFERENTIAL, schedule="manual"
                )
            except TrickleError as refusal:
                self.created[query] = refusal
        return self.created[query]

    def refresh(self, query: str, number: int) -> RefreshResult:
        if isinstance(self.create(query), TrickleError):
            pytest.skip("refused: see test_created")
        while self.round < number:
            self.round += 1
            self.workload.change(self.round)
        result = self.tr.refresh(f"{NAMESPACE}.{query}", mode=Mode.DIFFERENTIAL)
        rows = result.rows_inserted + result.rows_updated + result.rows_deleted
        self.changed[query] = self.changed.get(query, 0) + rows
        return result


@pytest.fixture(scope="module")
def lake(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Lake]:
    data = tmp_path_factory.mktemp("tpch")
    generate(data, SCALE)
    folder = tmp_path_factory.mktemp("tpch_lake") / "lake"
    # Every result is verified after the changes: the check of the definition would run each query twice more.
    with connect(folder, shuffle_partitions=2, spark_conf=INTERPRETED, check_definition="off") as tr:
        workload = Workload(tr, data, SHARE)
        workload.load()
        yield Lake(tr, workload)


def test_there_are_22() -> None:
    assert tuple(f"q{n:02}" for n in range(1, 23)) == QUERIES


@pytest.mark.parametrize("query", QUERIES)
def test_created(lake: Lake, query: str, record_property: Callable[[str, object], None]) -> None:
    created = lake.create(query)
    if isinstance(created, TrickleError):
        pytest.fail(f"{query} is refused: {created.message}", pytrace=False)
    record_property("rows", created.rows_inserted)
    assert created.rows_inserted > 0
    if ALL:  # else what was wrong from the start is still wrong after the changes
        found = lake.tr.verify(f"{NAMESPACE}.{query}")
        assert found.equal, str(found)


@pytest.mark.parametrize("query", QUERIES)
@pytest.mark.parametrize("number", range(1, ROUNDS + 1) if ALL else [ROUNDS])  # else all changes at once
def test_round(lake: Lake, number: int, query: str, record_property: Callable[[str, object], None]) -> None:
    result = lake.refresh(query, number)
    assert result.action is Action.DIFFERENTIAL, str(result)
    found = lake.tr.verify(f"{NAMESPACE}.{query}")
    record_property("rows", found.rows)
    assert found.equal, f"{query} after round {number}: {found}"


@pytest.mark.parametrize("query", QUERIES)
def test_the_rounds_change_the_result(lake: Lake, query: str) -> None:
    """Else the rounds above would show nothing."""
    lake.refresh(query, ROUNDS)
    assert lake.changed[query] > 0
