"""A little Java beside the Python: what needs Spark's internal rows, without a jar and without a build.

A class is compiled once per JVM, in half a second, by the compiler that Spark ships for its own code generation.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from importlib.resources import files
from typing import TYPE_CHECKING, Any, cast

from spark_trickle.sql.identity import VARIANT_METADATA, VARIANT_VALUE
from spark_trickle.thresholds import LISTED_KEYS

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

_log = logging.getLogger(__name__)
_compiling = threading.Lock()
_INPUT = "_t_input_"  # what the relations of a prepared statement are called


def java(context: Any, package: str, folder: str, name: str) -> Any:
    """An object of a Java class whose sources are a folder of a Python package.

    py4j tells classes apart by their names alone, so a class must not be compiled twice in one JVM: neither by two
    threads nor for another SparkContext.
    """
    with _compiling:
        return _made(context._gateway, package, folder, name)


@cache
def _made(gateway: Any, package: str, folder: str, name: str) -> Any:
    nothing = gateway.new_array(gateway.jvm.java.lang.Object, 0)
    found = _compiled(gateway, package, folder).loadClass(name)
    return found.getDeclaredConstructor(gateway.new_array(gateway.jvm.java.lang.Class, 0)).newInstance(nothing)


@cache  # evicted, it would be compiled twice
def _compiled(gateway: Any, package: str, folder: str) -> Any:
    """The loader of the classes of a folder, which know each other."""
    jvm = gateway.jvm
    util = jvm.org.codehaus.commons.compiler.util
    sources = [f for f in files(package).joinpath(folder).iterdir() if f.name.endswith(".java")]
    given = gateway.new_array(util.resource.Resource, len(sources))
    for at, source in enumerate(sources):
        given[at] = util.resource.StringResource(source.name, source.read_text(encoding="utf-8"))
    parent = jvm.java.lang.Thread.currentThread().getContextClassLoader()
    made = jvm.java.util.HashMap()
    compiler = jvm.org.codehaus.janino.Compiler()
    compiler.setSourceVersion(8)  # static methods of interfaces
    compiler.setTargetVersion(8)
    compiler.setIClassLoader(jvm.org.codehaus.janino.ClassLoaderIClassLoader(parent))
    compiler.setClassFileCreator(util.resource.MapResourceCreator(made))
    compiler.compile(given)
    return util.reflect.ByteArrayClassLoader(made, parent)


@dataclass(frozen=True, slots=True)
class Local:
    """A relation on the driver, of Spark's internal rows."""

    session: SparkSession
    relation: Any  # Spark's LocalRelation
    rows: int
    sums: tuple[tuple[int, int], ...] = ()  # of each column asked for: the positive values, the negative ones

    @classmethod
    def of(cls, session: SparkSession, relation: Any, summed: Sequence[str] = ()) -> Local:
        """`summed` are columns of BIGINT or BOOLEAN."""
        told = _runtime(session.sparkContext).measured(relation, ",".join(summed))
        rows, *sums = map(int, told.split(","))
        return cls(session, relation, rows, tuple(zip(sums[::2], sums[1::2], strict=True)))

    @property
    def frame(self) -> DataFrame:
        from pyspark.sql import DataFrame as Frame

        made = _runtime(self.session.sparkContext).frame(self.relation, self.session._jsparkSession)
        return Frame(made, self.session)

    def pairs(self) -> list[tuple[str, int]]:
        """The rows of a relation of a path and a BIGINT."""
        told = _runtime(self.session.sparkContext).pairs(self.relation)
        found = (line.partition("\0") for line in told.split("\1") if line)
        return [(text, int(number)) for text, _, number in found]


def collect_local(
    frame: DataFrame, limit: int, into: SparkSession | None = None, summed: Sequence[str] = ()
) -> Local | None:
    """The rows as a local relation of `into`, with their exact values; None if there are more than `limit`."""
    session = into or frame.sparkSession
    found = _runtime(session.sparkContext).local(frame._jdf, limit)
    return None if found is None else Local.of(session, found, summed)


def run_prepared(
    session: SparkSession, sql: str, inputs: Mapping[str, Local], limit: int, summed: Sequence[str] = ()
) -> Local | None:
    """The rows of a statement that reads these relations, by their quoted names, and nothing else (Prepared.java).

    None: Spark must run it. The plan is kept for the next statement of the same text, whatever the relations are
    called. An error is Spark's to tell, too: it runs the statement with all that it knows about errors.
    """
    from py4j.protocol import Py4JJavaError
    from pyspark.errors import PySparkException

    names: list[str] = []
    relations = []
    for name, local in inputs.items():
        stable = f"{_INPUT}{len(names)}"
        sql = sql.replace(f"`{name}`", f"`{stable}`")
        names.append(stable)
        relations.append(local.relation)
    try:
        found = _prepared(session.sparkContext).run(session._jsparkSession, sql, names, relations, limit)
    except PySparkException as error:
        _log.debug("a statement is left to Spark: %s", error)
        return None
    except Py4JJavaError as error:
        if error.java_exception.getClass().getName().startswith("java.lang.") and "Error" in str(error).splitlines()[1]:
            raise  # a fault of ours
        _log.debug("a statement is left to Spark: %s", error)
        return None
    return None if found is None else Local.of(session, found, summed)


def forget_prepared(session: SparkSession) -> None:
    """The plans of a session that is used no more."""
    try:
        _prepared(session.sparkContext).forget(session._jsparkSession)
    except Exception as error:  # Spark may be gone already, and that is what should be told
        _log.debug("the plans of a session stay: %s", error)


def condition_within(by: Local, there: DataFrame) -> str | None:
    """A condition that no row of `there` fails whose columns have values of those of `by`, which Iceberg can use to
    leave out files and row groups; None: nothing can be said."""
    return cast("str | None", _runtime(by.session.sparkContext).within(by.relation, there._jdf, LISTED_KEYS))


def quicken_local_files(context: Any) -> bool:
    """Create local files without a process for each (LocalFiles.java); False where Hadoop's own way is left."""
    from py4j.protocol import Py4JError

    try:
        made = java(context, "spark_trickle.spark", "hadoop", "trickle.runtime.LocalFiles")
        return bool(made.install(context._jsc.hadoopConfiguration()))
    except Py4JError as error:  # another Hadoop: slower, not wrong
        _log.info("local files are made as Hadoop does: %s", error)
        return False


def remember_classes(context: Any) -> None:
    """Let PySpark ask the JVM once for each class that it names. It asks at every mention, and the JVM then searches
    all jars for each package that might have it: several milliseconds for a statement."""
    from py4j.java_gateway import JavaPackage, JVMView

    class Package(JavaPackage):  # type: ignore[misc]
        def __getattr__(self, name: str) -> Any:
            return _remembered(self, name, super().__getattr__(name))

    class View(JVMView):  # type: ignore[misc]
        def __getattr__(self, name: str) -> Any:
            return _remembered(self, name, super().__getattr__(name))

    def _remembered(place: Any, name: str, found: Any) -> Any:
        if type(found) is JavaPackage:
            if name[:1].isupper():  # a class that is not there, perhaps not yet: the user may add its jar
                return found
            found.__class__ = Package
        place.__dict__[name] = found
        return found

    if type(context._jvm) is JVMView:
        context._jvm.__class__ = View


def _prepared(context: Any) -> Any:
    return java(context, "spark_trickle.spark", "java", "trickle.runtime.Prepared")


def _runtime(context: Any) -> Any:
    return java(context, "spark_trickle.spark", "java", "trickle.runtime.Runtime")


def register_functions(session: SparkSession) -> None:
    """Let the SQL of a session see the bytes of a VARIANT."""
    _runtime(session.sparkContext).variantFunctions(session._jsparkSession, VARIANT_VALUE, VARIANT_METADATA)
