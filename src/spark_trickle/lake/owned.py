"""The Iceberg tables that are stream tables: making one, giving it other columns, reading and writing its hidden ones.

Such a table shows the definition's columns and holds more in its files (`file_schema.py`). Data files are written
through a stand-in that has the full schema, and committed to the table itself, so that its snapshots carry the public
schema.
"""

from __future__ import annotations

import json
import uuid
from collections.abc import Sequence
from itertools import count
from typing import TYPE_CHECKING

from spark_trickle.errors import TrickleError
from spark_trickle.lake import jvm
from spark_trickle.lake.attempt import Attempt
from spark_trickle.lake.file_schema import documented, last_id, numbered, public, shows
from spark_trickle.lake.jvm import Java
from spark_trickle.lake.shape import Schema
from spark_trickle.lake.tables import Lake
from spark_trickle.model import (
    STREAM_TABLE_MARK,
    Column,
    PartitionField,
    Pointer,
    SortField,
    TableName,
    TableOptions,
)
from spark_trickle.spark.names import quote
from spark_trickle.sql.scalar import in_ddl

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

# Pages of few rows: looking a row up reads the pages that hold it (DriverReads.java). Iceberg's default is 20,000.
PROPERTIES = {
    STREAM_TABLE_MARK: "true",
    "write.metadata.compression-codec": "none",
    "write.parquet.page-row-limit": "2000",
}


def create(attempt: Attempt, name: TableName, columns: Sequence[Column], options: TableOptions) -> str:
    """A table of this attempt, without a snapshot; gives its full schema."""
    session = attempt.session
    iceberg = jvm.handles(session).jvm.org.apache.iceberg
    full = numbered(iceberg_fields(session, columns), (), 0)
    full = documented(full, dict(options.column_comments))
    schema = iceberg.SchemaParser.fromJson(public(full))
    # A place of its own: a dropped table of this name may still be read by a cut.
    folder = f"{attempt.lake.warehouse}/{'/'.join(name.parts)}-{uuid.uuid4().hex[:8]}"
    metadata = (
        iceberg.TableMetadata.buildFromEmpty(3)
        .assignUUID()
        .setLocation(folder)
        .setCurrentSchema(schema, last_id(full))
        .setDefaultPartitionSpec(_spec(session, schema, options.partitioned_by or (), name))
        .setDefaultSortOrder(_order(session, schema, options.clustered_by or (), name))
        .setProperties(_properties(session, options))
        .discardChanges()
        .build()
    )
    location = f"{folder}/metadata/00000-{uuid.uuid4()}.metadata.json"
    iceberg.TableMetadataParser.write(metadata, jvm.file_io(attempt.lake.session).newOutputFile(location))
    attempt.register([Pointer(name, location, is_view=False)])
    return full


def reshape(
    attempt: Attempt, name: TableName, columns: Sequence[Column] | None, known: str, options: TableOptions
) -> str:
    """Give a table of the attempt these columns (None: those it should have), and what the options say.

    `known` is its full schema so far. Partitions and order stay where the columns they need do. Gives the full schema.
    """
    session = attempt.session
    iceberg = jvm.handles(session).jvm.org.apache.iceberg
    operations = attempt.load(name).operations()
    base = operations.current()
    full = known
    if columns is not None:
        shown = json.loads(public(known) if known else iceberg.SchemaParser.toJson(base.schema()))["fields"]
        full = numbered(iceberg_fields(session, columns), shown, base.lastColumnId())
        full = documented(full, dict(options.column_comments))
    given = (options.partitioned_by, options.clustered_by, options.comment, options.properties)
    if shows(iceberg.SchemaParser.toJson(base.schema()), full) and given == (None, None, None, ()):
        return full
    schema = iceberg.SchemaParser.fromJson(public(full))
    partitions = options.partitioned_by if options.partitioned_by is not None else _partitions(base, schema)
    order = options.clustered_by if options.clustered_by is not None else _sorting(base, schema)
    changed = (
        iceberg.TableMetadata.buildFrom(base)
        .setCurrentSchema(schema, max(last_id(full), base.lastColumnId()))
        .setDefaultPartitionSpec(_renumbered(session, _spec(session, schema, partitions, name), schema, base))
        .setDefaultSortOrder(_order(session, schema, order, name))
        .setProperties(_properties(session, options))
        .build()
    )
    operations.commit(base, changed)
    attempt.pointers[name] = Pointer(name, attempt.location(name), is_view=False)
    return full


def layout_of(metadata: Java) -> TableOptions:
    """How a table is partitioned and ordered."""
    return TableOptions(_partitions(metadata, metadata.schema()), _sorting(metadata, metadata.schema()))


def set_properties(lake: Lake, name: TableName, options: TableOptions) -> None:
    """A comment and properties, as a commit of their own: they change no row."""
    update = lake.load(name).updateProperties()
    for key, value in _said(options).items():
        update = update.set(key, value)
    update.commit()


def stand_in(session: SparkSession, table: Java, full: str) -> Java:
    """The table with its hidden columns, to write data files through: nothing can be committed to it."""
    iceberg = jvm.handles(session).jvm.org.apache.iceberg
    base = table.operations().current()
    schema = iceberg.SchemaParser.fromJson(full)
    metadata = iceberg.TableMetadata.buildFrom(base).setCurrentSchema(schema, base.lastColumnId())
    return jvm.static_table(session, metadata.discardChanges().build(), table.name())


def laid_out(attempt: Attempt, name: TableName, rows: DataFrame, tasks: int | None = None) -> DataFrame:
    """Rows of one partition, and neighbours in the table's order, beside each other: few files, each for a range.

    `tasks`: how many write them; None: Spark decides.
    """
    from pyspark.sql import functions as F

    had = layout_of(attempt.lake.metadata(attempt.pointers[name].location))
    terms = []
    for part in had.partitioned_by or ():
        if part.transform == "identity":
            terms.append(F.col(quote(part.column)))
        else:
            function = f"{quote(attempt.slot.catalog)}.system.{_FUNCTIONS[part.transform]}"
            argument = "" if part.argument is None else f"{part.argument}, "
            terms.append(F.expr(f"{function}({argument}{quote(part.column)})"))
    for by in had.clustered_by or ():
        terms.append(F.col(quote(by.column)).desc() if by.descending else F.col(quote(by.column)))
    if not terms:
        return rows if tasks is None else rows.coalesce(tasks)
    spread = rows.repartitionByRange(*terms) if tasks is None else rows.repartitionByRange(tasks, *terms)
    return spread.sortWithinPartitions(*terms)


_FUNCTIONS = {
    "year": "years",
    "month": "months",
    "day": "days",
    "hour": "hours",
    "bucket": "bucket",
    "truncate": "truncate",
}


def iceberg_fields(session: SparkSession, columns: Sequence[Column]) -> list[Schema]:
    """Columns as Iceberg's JSON; their ids mean nothing yet."""
    held = jvm.handles(session).jvm
    ddl = ", ".join(f"{quote(c.name)} {in_ddl(c.type)}" for c in columns)
    schema = held.org.apache.iceberg.spark.SparkSchemaUtil.convert(
        held.org.apache.spark.sql.types.StructType.fromDDL(ddl)
    )
    fields: list[Schema] = json.loads(held.org.apache.iceberg.SchemaParser.toJson(schema))["fields"]
    return fields


def _properties(session: SparkSession, options: TableOptions) -> Java:
    given = jvm.handles(session).jvm.java.util.HashMap()
    for key, value in {**PROPERTIES, **_said(options)}.items():
        given.put(key, value)
    return given


def _said(options: TableOptions) -> dict[str, str]:
    """Properties and comment, which is a property to Iceberg."""
    comment = {} if options.comment is None else {"comment": options.comment}
    return {**dict(options.properties), **comment}


def _spec(session: SparkSession, schema: Java, fields: Sequence[PartitionField], name: TableName) -> Java:
    builder = jvm.handles(session).jvm.org.apache.iceberg.PartitionSpec.builderFor(schema)
    try:
        for field in fields:
            arguments = () if field.argument is None else (field.argument,)
            builder = getattr(builder, field.transform)(field.column, *arguments)
        return builder.build()
    except Exception as error:
        raise TrickleError("INVALID_OPTION", f"{name} cannot be partitioned so: {jvm.why(error)}") from error


def _renumbered(session: SparkSession, spec: Java, schema: Java, base: Java) -> Java:
    """The spec with ids that no other partition field of the table has; the same field keeps its id."""
    parser = jvm.handles(session).jvm.org.apache.iceberg.PartitionSpecParser
    known: dict[tuple[int, str], Schema] = {}
    for each in base.specs():
        for field in json.loads(parser.toJson(each))["fields"]:
            known[field["source-id"], field["transform"]] = field
    ids = count(base.lastAssignedPartitionId() + 1)
    body = json.loads(parser.toJson(spec))
    body["fields"] = [
        known.get((f["source-id"], f["transform"])) or {**f, "field-id": next(ids)} for f in body["fields"]
    ]
    return parser.fromJson(schema, json.dumps(body))


def _order(session: SparkSession, schema: Java, fields: Sequence[SortField], name: TableName) -> Java:
    if not fields:
        return jvm.handles(session).jvm.org.apache.iceberg.SortOrder.unsorted()
    builder = jvm.handles(session).jvm.org.apache.iceberg.SortOrder.builderFor(schema)
    try:
        for field in fields:
            builder = builder.desc(field.column) if field.descending else builder.asc(field.column)
        return builder.build()
    except Exception as error:
        raise TrickleError("INVALID_OPTION", f"{name} cannot be clustered so: {jvm.why(error)}") from error


def _partitions(metadata: Java, schema: Java) -> tuple[PartitionField, ...]:
    """How a table is partitioned, as far as the columns for it are in the schema."""
    found = []
    for field in metadata.spec().fields():
        column = metadata.schema().findColumnName(field.sourceId())
        transform, _, argument = str(field.transform().toString()).rstrip("]").partition("[")
        if transform != "void" and column is not None and schema.findField(column) is not None:
            found.append(PartitionField(column, transform, int(argument) if argument else None))
    return tuple(found)


def _sorting(metadata: Java, schema: Java) -> tuple[SortField, ...]:
    found = []
    for field in metadata.sortOrder().fields():
        column = metadata.schema().findColumnName(field.sourceId())
        if column is not None and schema.findField(column) is not None and field.transform().isIdentity():
            found.append(SortField(column, str(field.direction()).upper().startswith("DESC")))
    return tuple(found)
