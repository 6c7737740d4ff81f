"""Iceberg's Java API through py4j, in few round trips.

One call costs about 0.1 ms, so nothing here loops over files or snapshots from Python: collections are filtered
and read in bulk on the JVM with method handles (`Handles`), and come back as one joined string.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import lru_cache
from typing import TYPE_CHECKING, Any

from spark_trickle.errors import TrickleError
from spark_trickle.spark import runtime

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.types import DataType

Java = Any  # a py4j proxy: nothing of it can be checked

_SEPARATOR = "\x00"  # in no path, id or number
_WEIGHT_ID = 1_000_000_000
_GUAVA = "org.apache.iceberg.relocated.com.google.common.base.Function"


@dataclass(frozen=True, slots=True)
class Field:
    """A top-level column of an Iceberg schema; `type` is Iceberg's type as JSON text (`"long"` for a primitive)."""

    id: int
    name: str
    type: str


@dataclass(frozen=True, slots=True)
class TableFacts:
    """What one metadata file says about its table. `snapshot_id` is None when the table is EMPTY."""

    uuid: str
    format_version: int
    snapshot_id: int | None
    schema_id: int
    fields: tuple[Field, ...]
    total_records: int | None
    location: str
    schema: str = ""  # Iceberg's JSON of it, with its nested fields
    total_bytes: int | None = None  # of its data files


class Names:
    """The packages and classes of the JVM, each asked for once: py4j asks again at every mention of every part."""

    def __init__(self, package: Java) -> None:
        self._package = package

    def __getattr__(self, name: str) -> Java:
        from py4j.java_gateway import JavaPackage

        found = getattr(self._package, name)
        if isinstance(found, JavaPackage):
            found = Names(found)
        setattr(self, name, found)  # the next mention does not come here
        return found


class Handles:
    """Iceberg methods as Java functions, made once per JVM. No Python callback is involved."""

    def __init__(self, jvm: Java, gateway: Java) -> None:
        self.jvm: Java = Names(jvm)
        self._gateway = gateway
        self._loader = jvm.java.lang.Thread.currentThread().getContextClassLoader()
        self._lookup = jvm.java.lang.invoke.MethodHandles.publicLookup()
        common = jvm.org.apache.iceberg.relocated.com.google.common
        self.iterables = common.collect.Iterables
        self._joiner = common.base.Joiner.on(_SEPARATOR).useForNull("")
        self._functions: dict[tuple[str, ...], Java] = {}
        self._made: dict[tuple[str, ...], Java] = {}
        manager = jvm.org.apache.iceberg.spark.ScanTaskSetManager.get()
        self.task_sets = manager
        # SparkTableCache has a static get() and an instance get(String); py4j takes one of the two by the JVM's
        # reflection order, so `SparkTableCache.get()` fails on some starts. Plain reflection is stable.
        get = self.class_of("org.apache.iceberg.spark.SparkTableCache").getMethod(
            "get", self.array(jvm.java.lang.Class)
        )
        self.tables = get.invoke(None, self.array(jvm.java.lang.Object))

    def class_of(self, name: str) -> Java:
        return self.jvm.java.lang.Long.TYPE if name == "long" else self._loader.loadClass(name)

    def array(self, kind: Java, *items: Java) -> Java:
        made = self._gateway.new_array(kind, len(items))
        for i, item in enumerate(items):
            made[i] = item
        return made

    def handle(self, owner: str, method: str, *parameters: str) -> Java:
        known = self._made.get((owner, method, *parameters))
        if known is None:
            classes = self.array(self.jvm.java.lang.Class, *(self.class_of(p) for p in parameters))
            known = self._lookup.unreflect(self.class_of(owner).getMethod(method, classes))
            self._made[owner, method, *parameters] = known
        return known

    def as_interface(self, handle: Java, interface: str) -> Java:
        return self.jvm.java.lang.invoke.MethodHandleProxies.asInterfaceInstance(self.class_of(interface), handle)

    def getter(self, *steps: tuple[str, ...]) -> Java:
        """A handle that applies the methods in order; a step is (class, method, parameter types of a static)."""
        handle = self.handle(*steps[0])
        for step in steps[1:]:
            handle = self.jvm.java.lang.invoke.MethodHandles.filterReturnValue(handle, self.handle(*step))
        return handle

    def pluck(self, items: Java, *steps: tuple[str, ...]) -> list[str]:
        """One value per item as text ("" for null), in one round trip."""
        key = tuple(part for step in steps for part in (*step, ";"))
        function = self._functions.get(key)
        if function is None:
            function = self._functions[key] = self.as_interface(self.getter(*steps), _GUAVA)
        text = self._joiner.join(self.iterables.transform(items, function))
        return text.split(_SEPARATOR) if text or not self.iterables.isEmpty(items) else []

    def text(self, items: Java) -> list[str]:
        """The items of a Java collection as text, in one round trip."""
        joined = self._joiner.join(items)
        return joined.split(_SEPARATOR) if joined else []

    def strings(self, items: Iterable[str]) -> Java:
        """A Java list of texts without line breaks, in one round trip."""
        splitter = self.jvm.org.apache.iceberg.relocated.com.google.common.base.Splitter
        return splitter.onPattern("\n").splitToList("\n".join(items))

    def lookup_function(self, table: Java) -> Java:
        """A java.util.function.Function that reads a java.util.Map; null for a missing key."""
        get = self.handle("java.util.Map", "get", "java.lang.Object").bindTo(table)
        return self.as_interface(get, "java.util.function.Function")

    def others(self, values: Iterable[str], *steps: tuple[str, ...]) -> Java:
        """A predicate for `removeIf`: the items whose getter gives none of the values."""
        wanted = self.jvm.java.util.HashSet()
        for value in values:
            wanted.add(value)
        getter = self.getter(*steps)
        contains = self.handle("java.util.Collection", "contains", "java.lang.Object").bindTo(wanted)
        contains = contains.asType(contains.type().changeParameterType(0, getter.type().returnType()))
        test = self.jvm.java.lang.invoke.MethodHandles.filterReturnValue(getter, contains)
        return self.as_interface(test, "java.util.function.Predicate").negate()

    def keep(self, items: Java, values: Iterable[str], *steps: tuple[str, ...]) -> None:
        """Keep the items of a Java collection whose getter gives one of the values."""
        items.removeIf(self.others(values, *steps))


def why(error: BaseException) -> str:
    """The line of an error that says what happened: py4j begins with the call that failed."""
    lines = [line.strip().removeprefix(": ") for line in str(error).splitlines()]
    said = (line for line in lines if line not in ("", ":") and not line.startswith("An error occurred while calling"))
    return next(said, type(error).__name__)


@lru_cache(maxsize=4)
def _handles(context: Java) -> Handles:
    return Handles(context._jvm, context._gateway)


def handles(session: SparkSession) -> Handles:
    return _handles(session.sparkContext)


def driver_reads(session: SparkSession) -> Java:
    """What reads few rows in one call."""
    return runtime.java(session.sparkContext, "spark_trickle.lake", "java", "trickle.lake.DriverReads")


def manifests(session: SparkSession) -> Java:
    """What reads manifests in one call."""
    return runtime.java(session.sparkContext, "spark_trickle.lake", "java", "trickle.lake.Manifests")


def driver_commits(session: SparkSession) -> Java:
    """What makes small commits in one call."""
    return runtime.java(session.sparkContext, "spark_trickle.lake", "java", "trickle.lake.DriverCommits")


@contextmanager
def active(session: SparkSession) -> Iterator[None]:
    """Iceberg and Delta work in the thread's active session, perhaps another one, or none: this one, for a while."""
    sessions = getattr(handles(session).jvm, "org.apache.spark.sql.classic.SparkSession")
    before = sessions.getActiveSession()
    sessions.setActiveSession(session._jsparkSession)
    try:
        yield
    finally:
        if before.isDefined():
            sessions.setActiveSession(before.get())
        else:
            sessions.clearActiveSession()


def let_go(checkpoint: DataFrame) -> None:
    """Free the blocks of a local checkpoint; `checkpoint.rdd` would be another RDD, created at every mention."""
    checkpoint._jdf.queryExecution().analyzed().rdd().unpersist(False)


def table_cache(session: SparkSession) -> Java:
    """Iceberg's SparkTableCache: the tables that staged scans read."""
    return handles(session).tables


@lru_cache(maxsize=16)
def _file_io(context: Java, implementation: str, properties: tuple[tuple[str, str], ...]) -> Java:
    jvm = context._jvm
    given = jvm.java.util.HashMap()
    for key, value in properties:
        given.put(key, value)
    return jvm.org.apache.iceberg.CatalogUtil.loadFileIO(implementation, given, context._jsc.hadoopConfiguration())


@lru_cache(maxsize=64)
def file_io(session: SparkSession, catalog: str = "lake") -> Java:
    """The FileIO that the session's catalog of that name would use; shared by all sessions of one context."""
    prefix = f"spark.sql.catalog.{catalog}."
    found = {str(k)[len(prefix) :]: str(v) for k, v in session.conf.getAll.items() if str(k).startswith(prefix)}
    implementation = found.pop("io-impl", "org.apache.iceberg.hadoop.HadoopFileIO")
    return _file_io(session.sparkContext, implementation, tuple(sorted(found.items())))


def load_metadata(session: SparkSession, pointer_location: str, catalog: str = "lake") -> Java:
    """The TableMetadata in a metadata file (plain or gzipped)."""
    parser = handles(session).jvm.org.apache.iceberg.TableMetadataParser
    return parser.read(file_io(session, catalog), pointer_location)


def read_file(session: SparkSession, location: str) -> bytes:
    """A small file, such as a metadata file, through the lake's FileIO; FileNotFoundError: there is none."""
    from py4j.protocol import Py4JJavaError

    try:
        stream = file_io(session).newInputFile(location).newStream()
        try:
            return bytes(stream.readAllBytes())
        finally:
            stream.close()
    except Py4JJavaError as error:
        if error.java_exception.getClass().getSimpleName() in ("NotFoundException", "FileNotFoundException"):
            raise FileNotFoundError(location) from error
        raise TrickleError("SPARK_FAILED", f"{location} cannot be read: {why(error)}") from error


def static_table(session: SparkSession, location_or_metadata: Java, name: str, catalog: str = "lake") -> Java:
    """A read-only table pinned to one metadata file: no catalog is asked, no later commit is seen."""
    jvm = handles(session).jvm
    metadata = location_or_metadata
    if isinstance(metadata, str):
        metadata = load_metadata(session, metadata, catalog)
    return _pinned(jvm, metadata, file_io(session, catalog), name)


def _pinned(jvm: Java, metadata: Java, io: Java, name: str) -> Java:
    iceberg = jvm.org.apache.iceberg
    places = iceberg.LocationProviders.locationsFor(metadata.location(), metadata.properties())
    return iceberg.BaseTable(iceberg.StaticTableOperations(metadata, io, places), name)


def table_facts(session: SparkSession, metadata: Java) -> TableFacts:
    """The small facts of a TableMetadata."""
    iceberg = handles(session).jvm.org.apache.iceberg
    schema = metadata.schema()
    text = iceberg.SchemaParser.toJson(schema)
    snapshot = metadata.currentSnapshot()
    summary = None if snapshot is None else snapshot.summary()
    total, size = (None, None) if summary is None else (summary.get("total-records"), summary.get("total-files-size"))
    return TableFacts(
        uuid=metadata.uuid(),
        format_version=metadata.formatVersion(),
        snapshot_id=None if snapshot is None else snapshot.snapshotId(),
        schema_id=schema.schemaId(),
        fields=fields_of(text),
        total_records=0 if snapshot is None else None if total is None else int(total),
        location=metadata.location(),
        schema=text,
        total_bytes=0 if snapshot is None else None if size is None else int(size),
    )


def fields_of(schema_json: str) -> tuple[Field, ...]:
    """The columns of a schema in Iceberg's JSON."""
    return tuple(
        Field(f["id"], f["name"], f["type"] if isinstance(f["type"], str) else json.dumps(f["type"]))
        for f in json.loads(schema_json)["fields"]
    )


def spark_types(session: SparkSession, schema: Java) -> dict[str, DataType]:
    """What Spark reads the columns of an Iceberg schema as."""
    from pyspark.sql.types import StructType

    found = handles(session).jvm.org.apache.iceberg.spark.SparkSchemaUtil.convert(schema)
    return {f.name: f.dataType for f in StructType.fromJson(json.loads(found.json())).fields}


def with_weight(session: SparkSession, table: Java, weight: str, location: str) -> Java:
    """A stand-in for the table with one more column, whose data files belong to nobody: a change log is made of them.

    The columns keep their field ids, so that files written before a rename or widening are read as the table is. The
    id of the weight is out of reach for any column and below Iceberg's own.
    """
    jvm = handles(session).jvm
    iceberg = jvm.org.apache.iceberg
    base = table.operations().current()
    columns = jvm.java.util.ArrayList(base.schema().columns())
    columns.add(iceberg.types.Types.NestedField.optional(_WEIGHT_ID, weight, iceberg.types.Types.LongType.get()))
    properties = jvm.java.util.HashMap()
    properties.put("write.distribution-mode", "none")
    metadata = (
        iceberg.TableMetadata.buildFromEmpty(base.formatVersion())
        .assignUUID()
        .setLocation(location)
        .setCurrentSchema(iceberg.Schema(columns), _WEIGHT_ID)
        .setDefaultPartitionSpec(iceberg.PartitionSpec.unpartitioned())
        .setDefaultSortOrder(iceberg.SortOrder.unsorted())
        .setProperties(properties)
        .discardChanges()
        .build()
    )
    return _pinned(jvm, metadata, table.io(), table.name())


def with_positions(session: SparkSession, table: Java, columns: Sequence[str]) -> Java:
    """A stand-in for the table whose staged scans have the metadata columns `_file` and `_pos`.

    Spark hides all metadata columns of a relation when one of them clashes with a column, and Iceberg's staged scan
    of a v3 table has `_row_id` as a column. So the stand-in says it is v2: it carries the schema, cut down to
    `columns`, and the FileIO; files, partition specs and deletes (deletion vectors too) come with the scan tasks.
    """
    jvm = handles(session).jvm
    iceberg = jvm.org.apache.iceberg
    base = table.operations().current()
    if base.formatVersion() < 3:
        return table
    names = jvm.java.util.ArrayList()
    for column in columns:
        names.add(column)
    metadata = (
        iceberg.TableMetadata.buildFromEmpty(2)
        .assignUUID()
        .setLocation(base.location())
        .setCurrentSchema(base.schema().select(names), base.lastColumnId())
        .setDefaultPartitionSpec(iceberg.PartitionSpec.unpartitioned())
        .setDefaultSortOrder(iceberg.SortOrder.unsorted())
        .setProperties(base.properties())
        .discardChanges()
        .build()
    )
    return _pinned(jvm, metadata, table.io(), table.name())
