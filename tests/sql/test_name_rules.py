"""Every rule of docs/names.md: Spark's reading, ours, and that the other reading would be noticed."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING

import pytest

from tests.sql.name_rules import RULES, TABLES
from tests.sql.reading import Reading, rows_of

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.spark


@pytest.fixture(scope="module")
def reading(spark: SparkSession) -> Reading:
    return Reading(spark.newSession(), "name_rules", TABLES)


@pytest.mark.parametrize("clause", dict.fromkeys(r.clause for r in RULES))
def test_a_name_means_what_it_means_to_spark(reading: Reading, clause: str) -> None:
    for rule in (r for r in RULES if r.clause == clause):
        found = Counter(reading.agree(rule.text))
        assert found == Counter(rows_of(reading.session.sql(rule.means))), rule.rule
        assert found != Counter(rows_of(reading.session.sql(rule.other))), f"tells nothing: {rule.rule}"
