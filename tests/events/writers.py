"""Writers other than Spark SQL: PyIceberg on the same catalog, and Iceberg's Java API for equality deletes.

PyIceberg 0.12 reads format v3 and cannot write it ("Cannot write manifest for table version: 3"), writes no
merge-on-read deletes (it falls back to copy-on-write) and no equality deletes.
"""

from __future__ import annotations

import os
import re
import uuid
import warnings
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tests.events.tables import RENAMED, python_rows

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from spark_trickle import Trickle


# Tables that PyIceberg 0.12 does not touch: with equality deletes, with two fields of one transform over one column.
PYICEBERG_CANNOT = (
    "PyIceberg does not yet support equality deletes",
    "Cannot have redundant partitions",
    "Cannot write manifest for table version",  # a table that was upgraded to v3 meanwhile
)


def pyiceberg_table(tr: Trickle, name: str) -> Any:
    from pyiceberg.catalog.sql import SqlCatalog

    settings = tr.settings
    catalog = SqlCatalog("lake", uri=f"sqlite:///{settings.location}/catalog.db", warehouse=settings.warehouse_uri)
    return catalog.load_table(name)


def _arrow(table: Any, first: int, last: int) -> Any:
    import pyarrow as pa

    schema = table.schema().as_arrow()
    back = {old: new for new, old in RENAMED.items() if new in schema.names}
    found = [{back.get(name, name): value for name, value in row.items()} for row in python_rows(first, last)]
    return pa.Table.from_pylist(found, schema=schema)


def pyiceberg_append(tr: Trickle, name: str, first: int, last: int) -> None:
    table = pyiceberg_table(tr, name)
    table.append(_arrow(table, first, last))


def pyiceberg_delete(tr: Trickle, name: str, condition: str) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # "Merge on read is not yet supported, falling back to copy-on-write"
        pyiceberg_table(tr, name).delete(condition)


def pyiceberg_overwrite(tr: Trickle, name: str, first: int, last: int, condition: str) -> None:
    table = pyiceberg_table(tr, name)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        table.overwrite(_arrow(table, first, last), overwrite_filter=condition)


def equality_delete(spark: SparkSession, name: str, value: int, column: str = "id") -> None:
    """Delete the rows with a value in one partition that has it, as Flink writes it."""
    jvm = spark._jvm
    iceberg = jvm.org.apache.iceberg
    table = iceberg.spark.Spark3Util.loadIcebergTable(spark._jsparkSession, f"lake.{name}")
    file = spark.sql(f"SELECT min(_file) FROM lake.{name} WHERE {column} = {value}").first()[0]
    spec, partition = table.spec(), None
    planned = table.newScan().planFiles()
    tasks = planned.iterator()
    while tasks.hasNext():
        task = tasks.next()
        if task.file().location() == file:
            spec, partition = task.spec(), task.file().partition()
    planned.close()
    columns = jvm.java.util.ArrayList()
    columns.add(column)
    schema = table.schema().select(columns)
    # py4j makes an Integer of every small number, and the column wants a Long: the record comes from the table.
    names = spark.sparkContext._gateway.new_array(jvm.String, 1)
    names[0] = column
    chosen = iceberg.expressions.Expressions.equal(column, value)
    found = iceberg.data.IcebergGenerics.read(table).select(names).where(chosen).build()
    record = found.iterator().next().copy()
    found.close()
    ids = spark.sparkContext._gateway.new_array(jvm.int, 1)
    ids[0] = schema.findField(column).fieldId()
    builder = getattr(iceberg.data, "GenericFileWriterFactory$Builder")(table)
    factory = builder.equalityFieldIds(ids).equalityDeleteRowSchema(schema).build()
    output = table.io().newOutputFile(f"{table.location()}/data/eq-{uuid.uuid4().hex}.parquet")
    encrypted = iceberg.encryption.EncryptedFiles.plainAsEncryptedOutput(output)
    writer = factory.newEqualityDeleteWriter(encrypted, spec, None if spec.isUnpartitioned() else partition)
    writer.write(record)
    writer.close()
    table.newRowDelta().addDeletes(writer.toDeleteFile()).commit()


def add_default(spark: SparkSession, name: str, column: str) -> None:
    iceberg = spark._jvm.org.apache.iceberg
    table = iceberg.spark.Spark3Util.loadIcebergTable(spark._jsparkSession, f"lake.{name}")
    seven = iceberg.expressions.Literal.of(7)
    table.updateSchema().addColumn(column, iceberg.types.Types.IntegerType.get(), seven).commit()


def _data_folder(spark: SparkSession, name: str) -> Path:
    iceberg = spark._jvm.org.apache.iceberg
    table = iceberg.spark.Spark3Util.loadIcebergTable(spark._jsparkSession, f"lake.{name}")
    return Path(re.sub(r"^file:(//)?", "", table.location())) / "data"


def old_orphan(spark: SparkSession, name: str) -> None:
    """A file in the table's folder that nothing refers to, written long ago."""
    path = _data_folder(spark, name) / f"orphan-{uuid.uuid4().hex}.parquet"
    path.write_bytes(b"nobody refers to this")
    os.utime(path, (1_600_000_000, 1_600_000_000))


def no_orphan(spark: SparkSession, name: str) -> None:
    left = list(_data_folder(spark, name).glob("orphan-*"))
    assert not left, left
