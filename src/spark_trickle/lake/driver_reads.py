"""Few rows of an Iceberg table, read on the driver and without a Spark job (DriverReads.java).

A Parquet file has an index of its pages. So the rows at some positions, or with some keys, cost a page of each column
each, however large the table is: reading them is proportional to the change. Both functions give None where Spark must
read: other formats, deletes by value, values that are in metadata only, and wherever more would be read than a Spark
job takes time for.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

from spark_trickle.lake.files import FileState
from spark_trickle.lake.jvm import Java, driver_reads, why
from spark_trickle.spark.runtime import Local
from spark_trickle.thresholds import DRIVER_BYTES, DRIVER_CELLS, DRIVER_FILES, LOCAL

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_log = logging.getLogger(__name__)
Side = tuple[FileState, int]  # a file that is on one side only, and the weight of its rows
Touched = tuple[FileState, FileState]  # a file as it was and as it is


def read_changed(
    session: SparkSession,
    table: Java,
    columns: Sequence[str],
    weight: str,
    sides: Sequence[Side],
    touched: Sequence[Touched],
) -> Local | None:
    """The rows by which these files differ, with a column `weight`."""
    if not DRIVER_FILES:
        return None
    states = [*(s for s, _ in sides), *(now for _, now in touched)]
    before: list[FileState | None] = [*(None for _ in sides), *(was for was, _ in touched)]
    weights = [*(w for _, w in sides), *(0 for _ in touched)]
    deletes = [[d.file for d in s.deletes] for s in states]
    deleted_before = [[] if s is None else [d.file for d in s.deletes] for s in before]
    found = _tried(
        driver_reads(session).changes,
        table,
        list(columns),
        weight,
        [s.file for s in states],
        deleted_before,
        deletes,
        weights,
        LOCAL,
        DRIVER_CELLS,
        DRIVER_FILES,
    )
    return None if found is None else Local.of(session, found)


def look_up(
    session: SparkSession,
    table: Java,
    schema: Java,
    snapshot: int,
    columns: Sequence[str],
    keys: Sequence[str],
    by: Local | None,
    places: Sequence[str] = (),
) -> Local | None:
    """The rows of a snapshot whose `keys` are among those of `by`, in the order of its columns; None: all rows.

    There may be more: the keys are compared one by one. The columns are those of `schema`. `places` names two more
    columns, for file and position.
    """
    if not DRIVER_FILES:
        return None
    found = _tried(
        driver_reads(session).lookup,
        table,
        schema,
        snapshot,
        list(columns),
        list(keys),
        None if by is None else by.relation,
        list(places),
        LOCAL,
        DRIVER_CELLS,
        DRIVER_FILES,
        DRIVER_BYTES,
    )
    return None if found is None else Local.of(session, found)


def _tried(read: Callable[..., Java], *arguments: object) -> Java:
    """A file that cannot be read here is read by Spark, which tells what is wrong with it."""
    from py4j.protocol import Py4JJavaError

    try:
        return read(*arguments)
    except Py4JJavaError as error:
        if "ReadFailed" not in error.java_exception.getClass().getName():
            raise  # for the values of the keys
        _log.warning("rows could not be read on the driver: %s", why(error))
        return None
