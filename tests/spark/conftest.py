from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


@pytest.fixture(scope="session")
def plain_spark(spark: SparkSession) -> SparkSession:
    """A session of its own for tests that change the current database: no other test sees that."""
    return spark.newSession()
