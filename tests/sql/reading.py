"""A query as Spark reads it and as we do: its text and its lowered form, run over the same few rows."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, Any

from spark_trickle.model import InputKind, TableName
from spark_trickle.spark.analyze import Analyzer, type_text
from spark_trickle.spark.compile import PlainLeaves, compile_sql
from spark_trickle.spark.guard import roundtrip
from spark_trickle.sql.context import LakeTable
from spark_trickle.sql.lower import lower
from spark_trickle.sql.prune import prune

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession


class Reading:
    """A namespace of the test lake with tables made from VALUES: {"t": "(1, 'a'), (2, 'b') AS v(id, k)"}."""

    def __init__(self, session: SparkSession, namespace: str, tables: dict[str, str]) -> None:
        self.session = session
        self.namespace = namespace
        self.analyzer = Analyzer(session)
        self.columns: dict[str, tuple[str, ...]] = {}
        session.sql(f"CREATE NAMESPACE lake.{namespace}")
        session.sql(f"USE lake.{namespace}")
        for name, values in tables.items():
            session.sql(f"CREATE TABLE `{name}` USING iceberg AS SELECT * FROM VALUES {values}")
            self.columns[name] = tuple(session.table(f"`{name}`").columns)

    def find(self, parts: tuple[str, ...], namespace: str) -> LakeTable | None:
        if (len(parts) > 1 and parts[-2] != self.namespace) or parts[-1] not in self.columns:
            return None
        return LakeTable(TableName(namespace, parts[-1]), InputKind.SOURCE, self.columns[parts[-1]])

    def lowered(self, text: str) -> DataFrame:
        """Our form of the query, under the names that Spark gives its columns."""
        low = lower(text, self, self.analyzer, self.namespace)
        assert roundtrip(self.session, text) is None
        shown = self.session.sql(text).columns
        assert [ours or theirs for ours, theirs in zip(low.shown, shown, strict=True)] == shown
        root, _ = self.analyzer.annotate(prune(low.root), PlainLeaves())
        return self.session.sql(compile_sql(root, PlainLeaves())).toDF(*shown)

    def agree(self, text: str) -> list[str]:
        """Asserts that both give the same types and rows; returns the rows."""
        theirs, ours = self.session.sql(text), self.lowered(text)
        assert _types(ours) == _types(theirs), text
        wanted = rows_of(theirs)
        assert Counter(rows_of(ours)) == Counter(wanted), f"{text}\n  Spark: {wanted}\n  ours:  {rows_of(ours)}"
        return wanted


def _types(frame: DataFrame) -> list[str]:
    return [type_text(f.dataType) for f in frame.schema.fields]


def rows_of(frame: DataFrame) -> list[str]:
    return [repr(list[Any](row)) for row in frame.collect()]
