"""Small merge-on-read commits without a MERGE: delete rows by position, and append rows, in one snapshot.

Deletion vectors are written on the driver through Iceberg's own writer: no Spark job. So are few rows of a table that
has no partitions (DriverCommits.java). Other rows are written by Spark the way Iceberg's compaction writes (data files
without a commit), then committed together with the vectors.
"""

from __future__ import annotations

import uuid
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING

from spark_trickle.errors import TrickleError
from spark_trickle.lake.files import FileReader, FileState
from spark_trickle.lake.jvm import Handles, Java, active, driver_commits, handles, manifests
from spark_trickle.spark.names import quote
from spark_trickle.spark.runtime import Local

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame, SparkSession

Positions = Mapping[str, Sequence[int]]  # data file (`_file`) -> row positions (`_pos`)
_NEXT, _THEN = "\x01", "\x00"  # in no path
VERSION = ("_row_id", "_last_updated_sequence_number")  # of a row: columns of a staged scan of a v3 table


@dataclass(frozen=True, slots=True)
class Committed:
    """The snapshot that a commit made."""

    snapshot: int
    parent: int | None
    location: str  # of the metadata file
    summary: Mapping[str, int]  # its numbers

    @classmethod
    def of(cls, told: str) -> Committed:
        """
        >>> Committed.of("7\\n\\nfile:/m.json\\nadded-records=3\\nengine-name=spark")
        Committed(snapshot=7, parent=None, location='file:/m.json', summary={'added-records': 3})
        """
        snapshot, parent, location, *summary = told.split("\n")
        entries = (line.partition("=") for line in summary)
        numbers = {key: int(value) for key, _, value in entries if value.isdigit()}
        return cls(int(snapshot), int(parent) if parent else None, location, numbers)


def append_and_delete(
    session: SparkSession,
    table: Java,
    rows: DataFrame | Local | None,
    positions: Positions,
    *,
    through: Java | None = None,
    deletes_of: Java | None = None,
) -> Committed:
    """Append rows and delete rows by (`_file`, `_pos`), in one commit.

    `table` comes from a catalog, which receives the commit. Fails when the table changed since it was loaded in a way
    that touches the same data files. The rows are written `through` a stand-in that has more columns, if there is one.
    `deletes_of` is a snapshot of a copy of the table whose deletes are taken over. Rows on the driver are
    written there, where that can be done.
    """
    if table.operations().current().formatVersion() < 3:
        raise TrickleError("INTERNAL", f"{table.name()} is not a v3 table: it has no deletion vectors.")
    java, target = driver_commits(session), through or table
    local = rows if isinstance(rows, Local) else None
    if _plain(table) and deletes_of is None and (rows is None or (local and java.fits(local.relation, target))):
        return _on_the_driver(session, table, target, local, positions)
    frame = rows.frame if isinstance(rows, Local) else rows
    base = table.currentSnapshot()
    commit = table.newRowDelta()
    written: list[str] = []
    try:
        if positions:
            written += _delete(session, table, base.snapshotId(), positions, commit)
        if deletes_of is not None:
            io = table.io()
            for file in deletes_of.addedDeleteFiles(io):
                written.append(file.location())
                commit.addDeletes(file)
            for file in deletes_of.removedDeleteFiles(io):
                commit.removeDeletes(file)
        if frame is not None:
            for file in write_files(session, target, frame):
                written.append(file.location())
                commit.addRows(file)
        if base is not None:
            commit.validateFromSnapshot(base.snapshotId())
        commit.commit()
    except Exception:
        _forget(table, written)
        raise
    return Committed.of(java.told(table))


def _on_the_driver(
    session: SparkSession, table: Java, through: Java, rows: Local | None, positions: Positions
) -> Committed:
    """One call, no Spark job."""
    earlier = manifests(session).deleted(table, list(positions)) if positions else {}
    if earlier is None:
        raise TrickleError("INTEGRITY", f"{table.name()} has deletes that name no data file.")
    listed = _NEXT.join(f"{path}{_THEN}{','.join(map(str, sorted(at)))}" for path, at in positions.items())
    relation = None if rows is None else rows.relation
    return Committed.of(driver_commits(session).change(table, through, relation, listed, earlier))


def _plain(table: Java) -> bool:
    """Whether its rows have one place to be written to."""
    return bool(table.specs().size() == 1 and table.spec().isUnpartitioned())


def replace_all(
    session: SparkSession, table: Java, rows: DataFrame | Local, *, through: Java | None = None
) -> Committed:
    """Put these rows in the place of all rows, in one commit."""
    java, target = driver_commits(session), through or table
    if isinstance(rows, Local) and _plain(table) and java.fits(rows.relation, target):
        return Committed.of(java.replace(table, target, rows.relation))
    frame = rows.frame if isinstance(rows, Local) else rows
    everything = handles(session).jvm.org.apache.iceberg.expressions.Expressions.alwaysTrue()
    commit = table.newOverwrite().overwriteByRowFilter(everything)
    written: list[str] = []
    try:
        for file in write_files(session, target, frame):
            written.append(file.location())
            commit.addFile(file)
        commit.commit()
    except Exception:
        _forget(table, written)
        raise
    return Committed.of(java.told(table))


def rewrite(
    session: SparkSession, table: Java, rows: DataFrame | None, replaced: Sequence[FileState], *, through: Java
) -> Committed:
    """Put new files in the place of data files and of what is deleted in them: no row changes.

    `rows` are the live ones with their row ids and versions, which stay; None: there are none.
    """
    commit = table.newRewrite().validateFromSnapshot(table.currentSnapshot().snapshotId())
    written: list[str] = []
    try:
        for state in replaced:
            commit.deleteFile(state.file)
            for vector in state.deletes:
                commit.deleteFile(vector.file)
        if rows is not None:
            for file in write_files(session, through, rows, moved=True):
                written.append(file.location())
                commit.addFile(file)
        commit.commit()
    except Exception:
        _forget(table, written)
        raise
    return Committed.of(driver_commits(session).told(table))


def _forget(table: Java, written: Sequence[str]) -> None:
    from py4j.protocol import Py4JJavaError

    for path in written:  # no snapshot names them
        with suppress(Py4JJavaError):  # what failed before is what should be told
            table.io().deleteFile(path)


def write_files(session: SparkSession, table: Java, frame: DataFrame, *, moved: bool = False) -> Java:
    """Write rows as data files of the table without a commit; gives the set of Iceberg's DataFile.

    `frame` has the table's columns, in any order. Rows that are `moved` bring their row ids and versions, and their
    partitions and order; others take these from the commit and the table.
    """
    from pyspark.sql import functions as F

    held = handles(session)
    name = f"trickle_{uuid.uuid4().hex}"
    coordinator = held.jvm.org.apache.iceberg.spark.FileRewriteCoordinator.get()
    texts = _partition_texts(table)
    fields = [(f.name(), f.fieldId() in texts) for f in table.schema().columns()]
    rows = frame.select(
        *(_as_text(frame[quote(name)], name) if is_text else frame[quote(name)] for name, is_text in fields),
        # null: these rows take their row id and version from the commit, like any appended row
        *(frame[c] if moved else F.lit(None).cast("bigint").alias(c) for c in VERSION),
    )
    held.tables.add(name, table)
    try:
        options = {"rewritten-file-scan-task-set-id": name, "fanout-enabled": "true"}
        if moved:
            options["use-table-distribution-and-ordering"] = "false"
        with active(session):  # Iceberg's source looks its catalog up in the thread's active session
            rows.write.format("iceberg").options(**options).mode("append").save(name)
    except Exception as error:
        for column in (name for name, is_text in fields if is_text):
            if _NO_TEXT.format(column) in str(error):
                raise TrickleError(
                    "PARTITION_VALUE",
                    f"a value of {column}, by which {table.name()} is partitioned, is not valid UTF-8",
                ) from None
        raise
    else:
        return coordinator.fetchNewFiles(table, name)
    finally:
        coordinator.clearRewrite(table, name)
        held.tables.remove(name)


_NO_TEXT = "spark_trickle: the partition value {} is not valid UTF-8"


def _partition_texts(table: Java) -> set[int]:
    """The ids of string columns that are partitions as they are: readers take their values from metadata.

    Iceberg keeps them there as Java strings, which have another value for bytes that are not valid UTF-8.
    """
    fields = [f for f in table.spec().fields() if f.transform().isIdentity()]
    return {f.sourceId() for f in fields if str(table.schema().findType(f.sourceId())) == "string"}


def _as_text(column: Column, name: str) -> Column:
    """The same value, or an error."""
    from pyspark.sql import functions as F

    valid = column.isNull() | F.is_valid_utf8(column)
    return F.when(valid, column).otherwise(F.raise_error(F.lit(_NO_TEXT.format(name)))).alias(name)


def _delete(session: SparkSession, table: Java, snapshot: int, positions: Positions, commit: Java) -> set[str]:
    """Adds the vectors to the commit; gives the files that hold them."""
    held = handles(session)
    iceberg = held.jvm.org.apache.iceberg
    places, earlier = _targets(session, table, snapshot, set(positions))
    format_ = iceberg.FileFormat.PUFFIN
    factory = (
        iceberg.io.OutputFileFactory.builderFor(table, 1, 1).format(format_).operationId(str(uuid.uuid4())).build()
    )
    writer = iceberg.deletes.BaseDVFileWriter(factory, held.lookup_function(earlier))
    paths = held.jvm.java.util.ArrayList()
    for path, (spec, partition) in places.items():
        writer.delete(path, _index(held, positions[path]), spec, partition)
        paths.add(path)
    writer.close()
    result = writer.result()
    for vector in result.deleteFiles():
        commit.addDeletes(vector)
    for replaced in result.rewrittenDeleteFiles():
        commit.removeDeletes(replaced)
    commit.validateDataFilesExist(paths).validateDeletedFiles()
    return {vector.location() for vector in result.deleteFiles()}


def _targets(
    session: SparkSession, table: Java, snapshot: int, paths: set[str]
) -> tuple[dict[str, tuple[Java, Java]], Java]:
    """(spec, partition) of each data file, and a Java map of what is deleted in it already."""
    held, files = handles(session), FileReader(session, table)
    earlier = held.jvm.java.util.HashMap()
    states = files.lookup(snapshot, paths)
    if states is None:
        raise TrickleError("INTEGRITY", f"{table.name()} has deletes that name no data file.")
    missing = paths - {s.path for s in states}
    if missing:
        raise TrickleError("INTEGRITY", f"{table.name()} has no data file {min(missing)}.")
    specs = table.specs()
    for state in states:
        if state.deletes:
            earlier.put(state.path, files.position_index(state))
    return {s.path: (specs.get(s.spec_id), s.file.partition()) for s in states}, earlier


def _index(held: Handles, positions: Sequence[int]) -> Java:
    """A PositionDeleteIndex in few calls: the numbers cross as one JSON text."""
    iceberg = held.jvm.org.apache.iceberg
    mapper = iceberg.shaded.com.fasterxml.jackson.databind.ObjectMapper()
    longs = mapper.getTypeFactory().constructCollectionType(
        held.class_of("java.util.ArrayList"), held.class_of("java.lang.Long")
    )
    values = mapper.readValue("[" + ",".join(map(str, sorted(positions))) + "]", longs)
    closeable = iceberg.io.CloseableIterable
    return iceberg.deletes.Deletes.toPositionIndex(closeable.combine(values, closeable.empty()))
