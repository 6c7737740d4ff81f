"""One Spark session with Iceberg on SQLite for the whole run."""

from __future__ import annotations

import logging
import os
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from spark_trickle import Trickle, connect
from spark_trickle.spark.archive import java_options
from spark_trickle.spark.runtime import quicken_local_files, remember_classes
from spark_trickle.spark.session import ICEBERG, POSTGRES, SQLITE, java_version
from tests.jvm import PLANNING_JAVA, QUICK_JAVA

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

collect_ignore = ["engine/shop_functions.py"]  # a module of functions for the lake: it needs a Spark session
PACKAGES = ",".join((ICEBERG, SQLITE, POSTGRES))
# These tests compare every result themselves; tests/engine/test_definition_check.py and the fuzzer have the check on.
QUICK: dict[str, Any] = {"shuffle_partitions": 2, "check_definition": "off"}
os.environ["SPARK_SUBMIT_OPTS"] = QUICK_JAVA  # of the processes that tests start


class _Fails(logging.Handler):
    def emit(self, record: logging.LogRecord) -> None:
        pytest.fail(record.getMessage())


# The engine would go on, by Spark; here it is a fault.
logging.getLogger("spark_trickle.lake.driver_reads").addHandler(_Fails())


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--update-golden", action="store_true", help="write tests/golden anew instead of comparing")


ALL = os.environ.get("TRICKLE_TEST_ALL") == "1"  # `make test-all`: the slow crosses, too
MASTER = os.environ.get("TEST_MASTER", "local[2]")  # `make cluster`: tasks run in other processes
# Files that take longest, the longest first: two processes then end at about the same time.
LONG = (
    "tpch/test_tpch.py",
    "engine/test_delta_lake.py",
    "events/test_events.py",
    "engine/test_values.py",
    "engine/test_invariant.py",
    "fuzz/test_fuzz.py",
    "engine/test_states.py",
    "lake/test_feed.py",
    "engine/test_table.py",
    "engine/test_constructs.py",
    "delta/test_golden.py",
    "engine/test_publish.py",
    "engine/test_changes.py",
)


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    def rank(item: pytest.Item) -> int:
        return next((n for n, name in enumerate(LONG) if item.path.as_posix().endswith(f"/tests/{name}")), len(LONG))

    items.sort(key=rank)


@pytest.fixture(scope="session")
def spark(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SparkSession]:
    from pyspark.sql import SparkSession

    root: Path = tmp_path_factory.mktemp("lake")
    settings = {
        "spark.jars.packages": PACKAGES,
        "spark.driver.memory": "2g",
        "spark.driver.extraJavaOptions": " ".join((PLANNING_JAVA, *java_options(java_version()[1]))),
        "spark.sql.extensions": "org.apache.iceberg.spark.extensions.IcebergSparkSessionExtensions",
        "spark.sql.catalog.lake": "org.apache.iceberg.spark.SparkCatalog",
        "spark.sql.catalog.lake.type": "jdbc",
        "spark.sql.catalog.lake.uri": f"jdbc:sqlite:{root}/catalog.db",
        "spark.sql.catalog.lake.jdbc.schema-version": "V1",
        "spark.sql.catalog.lake.warehouse": f"file://{root}/warehouse",
        "spark.sql.catalog.lake.cache-enabled": "false",
        "spark.sql.defaultCatalog": "lake",
        "spark.sql.shuffle.partitions": "2",
        "spark.ui.enabled": "false",
        # Every query here is new and runs over few rows: compiling it takes longer than running it. The demo, the
        # command line and the processes that tests start run compiled code.
        "spark.sql.codegen.wholeStage": "false",
        "spark.sql.codegen.factoryMode": "NO_CODEGEN",
        "spark.buffer.pageSize": "1m",  # not 32 MB for every sort of three rows
        "spark.ui.showConsoleProgress": "false",
        "spark.log.level": "ERROR",
    }
    builder = SparkSession.builder.master(MASTER).appName("spark-trickle tests")
    for key, value in settings.items():
        builder = builder.config(key, value)
    session = builder.getOrCreate()
    remember_classes(session.sparkContext)
    quicken_local_files(session.sparkContext)
    yield session
    session.stop()


@pytest.fixture
def tr(spark: SparkSession, tmp_path: Path) -> Iterator[Trickle]:
    """A new, empty lake on the shared Spark."""
    with connect(tmp_path / "lake", **QUICK) as trickle:
        trickle.sql("CREATE NAMESPACE s")
        trickle.sql("USE s")
        yield trickle


@pytest.fixture(scope="module")
def module_tr(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Trickle]:
    """A lake that the tests of one module share: use names of your own in it."""
    with connect(tmp_path_factory.mktemp("module") / "lake", **QUICK) as trickle:
        trickle.sql("CREATE NAMESPACE s")
        trickle.sql("USE s")
        yield trickle
