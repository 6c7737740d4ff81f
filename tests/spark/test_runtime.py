"""Java beside the Python, compiled at run time."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING

import pytest

from spark_trickle.spark.runtime import java

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


@pytest.mark.spark
def test_threads_compile_a_class_once(spark: SparkSession) -> None:
    """py4j calls methods by the class's name: with two classes of one name a call fails in some threads."""

    def count(_: int) -> int:
        counter = java(spark.sparkContext, "tests.spark", "Counter.java", "tests.spark.Counter")
        return int(counter.next())

    with ThreadPoolExecutor(8) as pool:
        assert sorted(pool.map(count, range(16))) == list(range(1, 17))
