"""What tests need of Spark, once: its jars, and an archive of its classes.

Two test processes that start at the same time must not fetch the jars both; and a JVM that maps its classes from an
archive starts in half the time.
"""

from __future__ import annotations

from pyspark.sql import SparkSession

from spark_trickle.cli.class_archive import make_archive
from spark_trickle.spark.session import DELTA, DELTA_EXCLUDES, DELTA_STORAGE, ICEBERG, POSTGRES, SQLITE

PACKAGES = (ICEBERG, SQLITE, POSTGRES, DELTA, DELTA_STORAGE)

if __name__ == "__main__":
    builder = SparkSession.builder.master("local[1]").appName("jars").config("spark.ui.enabled", "false")
    builder = builder.config("spark.jars.packages", ",".join(PACKAGES)).config("spark.jars.excludes", DELTA_EXCLUDES)
    builder.config("spark.log.level", "ERROR").getOrCreate().stop()
    make_archive()
