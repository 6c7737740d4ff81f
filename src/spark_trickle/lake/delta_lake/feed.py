"""The change feed of a Delta Lake table: exact row changes between two versions, as a Z-set.

Three ways, in this order:

- the table's own change data feed, where it was on all the way and the schema stayed: only changed rows are read;
- the files that commits added and removed, each with its deletion vector; rows that were only carried over are
  cancelled as multisets. Files that OPTIMIZE wrote change nothing and are not read;
- the two versions as wholes, where the files cannot be read side by side.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import TYPE_CHECKING

from spark_trickle.errors import TrickleError
from spark_trickle.lake.delta_lake.commits import Actions, Commits, Net, live_rows
from spark_trickle.lake.delta_lake.log import Description, Logs, Version
from spark_trickle.lake.feed import Feed, cancel, weight_name
from spark_trickle.lake.jvm import active, handles
from spark_trickle.spark.names import quote

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame, SparkSession

_KINDS = {"insert": 1, "update_postimage": 1, "delete": -1, "update_preimage": -1}
_FILE = ("path", "partitionValues", "size", "deletionVector", "baseRowId", "defaultRowCommitVersion", "tags")


def read_changes(session: SparkSession, logs: Logs, new: Version, number: int | None, columns: Sequence[str]) -> Feed:
    """The Z-set that turns the table at version `number` (None: EMPTY) into the table at version `new`."""
    reader = _Reader(session, logs, new, tuple(columns))
    if number is None:
        return Feed(reader.whole(new, 1), None, True, "whole table")
    if number == new.number:
        return Feed(None, 0, True, "same version")
    return reader.between(new.at(number))


class _Reader:
    def __init__(self, session: SparkSession, logs: Logs, new: Version, columns: tuple[str, ...]) -> None:
        self._session = session
        self._logs = logs
        self._new = new
        self._columns = columns
        self._weight = weight_name(columns)

    def between(self, old: Version) -> Feed:
        commits = self._logs.commits(old, self._new)
        if not commits.changed:
            return Feed(None, 0, True, "no row changed")
        try:
            before = self._logs.describe(old)
        except TrickleError as error:
            raise TrickleError("SNAPSHOT_EXPIRED", error.message) from error
        aligned = all(tuple(m["partitionColumns"]) == before.partitioned_by for m in commits.metadata)
        files = (*commits.by_change.files, *commits.by_files.files)
        if not aligned or any(f.get("partitionValues") is None for f in files):
            both = self.whole(self._new, 1).unionAll(self.whole(old, -1))
            return Feed(cancel(both, self._columns), None, False, "comparison of two versions")
        net, passed = commits.by_change, self._gone(commits.passing)
        if passed or commits.by_files.bytes < net.bytes:
            net = commits.by_files
        if net.removed and self._follows(before, commits) and not passed and not self._gone(commits.change_files):
            # An overwrite is there as all rows deleted and all inserted, a row changed twice as two changes.
            frame = cancel(self._change_feed(old), self._columns)
            return Feed(frame, None, False, "change data feed", len(net.files), net.bytes)
        return self._by_files(net)

    def _follows(self, before: Description, commits: Commits) -> bool:
        """Whether the table's own change data feed was on all the way, in one schema."""
        on = before.change_feed and all(_feeds(m) for m in commits.metadata)
        return on and all(m["schemaString"] == before.schema for m in commits.metadata)

    def whole(self, version: Version, weight: int) -> DataFrame:
        from pyspark.sql import functions as F

        frame = self._session.sql(self._logs.select(version, self._new, self._columns))
        return frame.select(*map(quote, self._columns), F.lit(weight).cast("bigint").alias(self._weight))

    def _by_files(self, net: Net) -> Feed:
        files, size = len(net.files), net.bytes
        if not net.removed:
            counts = [live_rows(f) for f in net.added]
            rows = None if None in counts else sum(n for n in counts if n is not None)
            return Feed(self._read(net.added, 1), rows, True, "added files", files, size)
        if not net.added:
            return Feed(self._read(net.removed, -1), None, False, "removed files", files, size)
        both = self._read(net.added, 1).unionAll(self._read(net.removed, -1))
        return Feed(cancel(both, self._columns), None, False, "multisets", files, size)

    def _read(self, files: Sequence[Actions], weight: int) -> DataFrame:
        """The rows of files, in the schema of the cut."""
        from pyspark.sql import DataFrame

        jvm = handles(self._session).jvm
        listed = jvm.java.util.ArrayList()
        for file in files:
            kept = {k: file[k] for k in _FILE if file.get(k) is not None}
            action = {"add": {**kept, "modificationTime": 0, "dataChange": True}}
            listed.add(jvm.org.apache.spark.sql.delta.actions.Action.fromJson(json.dumps(action)))
        chosen = jvm.scala.jdk.javaapi.CollectionConverters.asScala(listed).toSeq()
        with active(self._session):
            snapshot = self._logs.snapshot(self._new)
            log = self._logs.log(self._new)
            frame = log.createDataFrame(snapshot, chosen, False, jvm.scala.Option.empty())
        return self._weigh(DataFrame(frame, self._session), weight)

    def _change_feed(self, old: Version) -> DataFrame:
        """As Delta plans it. Its relation for `readChangeFeed` would turn rows into external ones and back, which
        alters text that is not valid UTF-8 and the order of maps."""
        from pyspark.sql import DataFrame
        from pyspark.sql import functions as F

        jvm = handles(self._session).jvm
        none, some = jvm.scala.Option.empty(), jvm.scala.Option.apply
        with active(self._session):
            frame = jvm.org.apache.spark.sql.delta.commands.cdc.CDCReader.changesToBatchDF(
                self._logs.log(self._new),
                old.number + 1,
                self._new.number,
                self._session._jsparkSession,
                none,
                some(self._logs.snapshot(self._new)),
                False,
                none,
            )
        weight = F.lit(None)
        for kind, value in _KINDS.items():
            weight = F.when(F.col("_change_type") == kind, F.lit(value)).otherwise(weight)
        return DataFrame(frame, self._session).select(*self._typed(), weight.cast("bigint").alias(self._weight))

    def _weigh(self, frame: DataFrame, weight: int) -> DataFrame:
        from pyspark.sql import functions as F

        return frame.select(*self._typed(), F.lit(weight).cast("bigint").alias(self._weight))

    def _typed(self) -> list[Column]:
        """The columns with the types that a view in the lake shows: Iceberg has no SMALLINT."""
        from pyspark.sql import functions as F

        found = self._logs.expressions(self._new, self._new, self._columns)
        return [F.expr(e).alias(c) for c, e in zip(self._columns, found, strict=True)]

    def _gone(self, paths: Sequence[str]) -> bool:
        return bool(self._logs.missing(self._new, paths))


def _feeds(metadata: Actions) -> bool:
    return str(metadata.get("configuration", {}).get("delta.enableChangeDataFeed", "")).lower() == "true"
