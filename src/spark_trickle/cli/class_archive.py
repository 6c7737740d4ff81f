"""Make the archive of Spark's classes (spark/archive): do what most processes do; the JVM writes what it loaded."""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
from pathlib import Path

from spark_trickle.spark import archive
from spark_trickle.spark.session import java_version

SECONDS = 600
_TOUR = """
import sys, spark_trickle
from pyspark import SparkContext

with spark_trickle.connect(sys.argv[1]) as tr:
    tr.sql("CREATE TABLE shop.orders (id BIGINT, customer STRING, amount DECIMAL(10, 2))")
    tr.sql("INSERT INTO shop.orders SELECT id, concat('customer ', id % 3), 10 FROM range(1000)")
    tr.sql("CREATE STREAM TABLE shop.totals AS SELECT customer, count(*), sum(amount) FROM shop.orders GROUP BY 1")
    tr.sql("UPDATE shop.orders SET amount = 50 WHERE id = 3")
    tr.refresh("shop.totals")
    tr.verify("shop.totals")
jvm = SparkContext._gateway.proc
jvm.stdin.close()
sys.exit(jvm.wait())
"""


def make_archive() -> Path | None:
    """The archive, made if it is not there yet (half a minute); None where none can be made."""
    _, java = java_version()
    known, stem = archive.find(java), archive.stem_of(java)
    if known is not None or stem is None:
        return known
    stem.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=stem.parent, prefix="making-") as folder:
        written = Path(folder) / "classes.jsa"
        options = " ".join((os.environ.get("SPARK_SUBMIT_OPTS", ""), *archive.writing_options(written)))
        done = subprocess.run(
            [sys.executable, "-c", _TOUR, str(Path(folder) / "lake")],
            env=os.environ | {"SPARK_SUBMIT_OPTS": options, "TRICKLE_CLASS_ARCHIVE": "false"},
            capture_output=True,
            timeout=SECONDS,
            check=False,
        )
        return archive.keep(java, stem, written) if done.returncode == 0 and written.exists() else None
