"""What tests need of Spark, once: its jars, and an archive of its classes.

Two test processes that start at the same time must not fetch the jars both; and a JVM that maps its classes from an
archive starts in half the time.
"""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
import time

from spark_trickle.spark.archive import java_options
from spark_trickle.spark.session import DELTA, DELTA_EXCLUDES, DELTA_STORAGE, ICEBERG, POSTGRES, SQLITE, java_version

PACKAGES = (ICEBERG, SQLITE, POSTGRES, DELTA, DELTA_STORAGE)
# What most processes do: the classes that it loads are in the archive.
TOUR = """
import sys, spark_trickle
with spark_trickle.connect(sys.argv[1]) as tr:
    tr.sql("CREATE TABLE shop.orders (id BIGINT, customer STRING, amount DECIMAL(10, 2))")
    tr.sql("INSERT INTO shop.orders SELECT id, concat('customer ', id % 3), 10 FROM range(1000)")
    tr.sql("CREATE STREAM TABLE shop.totals AS SELECT customer, count(*), sum(amount) FROM shop.orders GROUP BY 1")
    tr.sql("UPDATE shop.orders SET amount = 50 WHERE id = 3")
    tr.refresh("shop.totals")
    tr.verify("shop.totals")
"""
SECONDS = 300


def fetch_jars() -> None:
    from pyspark.sql import SparkSession

    builder = SparkSession.builder.master("local[1]").appName("jars").config("spark.ui.enabled", "false")
    builder = builder.config("spark.jars.packages", ",".join(PACKAGES)).config("spark.jars.excludes", DELTA_EXCLUDES)
    builder.config("spark.log.level", "ERROR").getOrCreate().stop()


def archive_classes() -> None:
    """Without it all works, slower: nothing fails here."""
    _, java = java_version()
    until = time.monotonic() + SECONDS
    if writes(java):
        with tempfile.TemporaryDirectory(prefix="trickle-tour-") as folder:
            subprocess.run([sys.executable, "-c", TOUR, folder], check=True, timeout=SECONDS, env=os.environ)
    while writes(java) and time.monotonic() < until:  # the JVM writes when it ends, after Python
        time.sleep(1)


def writes(java: str) -> bool:
    return any(option.startswith("-XX:ArchiveClassesAtExit") for option in java_options(java))


if __name__ == "__main__":
    fetch_jars()
    archive_classes()
