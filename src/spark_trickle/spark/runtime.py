"""A little Java beside the Python: what needs Spark's internal rows, without a jar and without a build.

A class is compiled once per JVM, in half a second, by the compiler that Spark ships for its own code generation.
"""

from __future__ import annotations

import threading
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from importlib.resources import files
from typing import TYPE_CHECKING, Any, cast

from spark_trickle.sql.identity import VARIANT_METADATA, VARIANT_VALUE
from spark_trickle.thresholds import LISTED_KEYS, LOCAL

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession


_compiling = threading.Lock()


def java(context: Any, package: str, file: str, name: str) -> Any:
    """An object of a class whose source is a file of a Python package.

    py4j tells classes apart by their names alone, so a class must not be compiled twice in one JVM: neither by two
    threads nor for another SparkContext.
    """
    with _compiling:
        return _compiled(context._gateway, package, file, name)


@lru_cache(maxsize=8)
def _compiled(gateway: Any, package: str, file: str, name: str) -> Any:
    jvm = gateway.jvm
    compiler = jvm.org.codehaus.janino.SimpleCompiler()
    compiler.setSourceVersion(8)  # static methods of interfaces
    compiler.setTargetVersion(8)
    compiler.setParentClassLoader(jvm.java.lang.Thread.currentThread().getContextClassLoader())
    compiler.cook(files(package).joinpath(file).read_text(encoding="utf-8"))
    made = compiler.getClassLoader().loadClass(name)
    return made.getDeclaredConstructor(gateway.new_array(jvm.java.lang.Class, 0)).newInstance(
        gateway.new_array(jvm.java.lang.Object, 0)
    )


@dataclass(frozen=True, slots=True)
class Local:
    """A relation on the driver."""

    frame: DataFrame
    rows: int
    sums: tuple[tuple[int, int], ...]  # of each column asked for: the positive values, the negative ones


def collect_local(
    frame: DataFrame, limit: int, into: SparkSession | None = None, summed: Sequence[str] = ()
) -> Local | None:
    """The rows as a local relation of `into`, with their exact values; None if there are more than `limit`.

    `summed` are columns of BIGINT or BOOLEAN.
    """
    from pyspark.sql import DataFrame as Frame

    session = into or frame.sparkSession
    found = _runtime(session.sparkContext).local(frame._jdf, session._jsparkSession, limit, ",".join(summed))
    if found is None:
        return None
    sums = [int(n) for n in found[2].split(",")] if summed else []
    return Local(Frame(found[0], session), int(found[1]), tuple(zip(sums[::2], sums[1::2], strict=True)))


def condition_within(by: DataFrame, there: DataFrame) -> str | None:
    """A condition that no row of `there` fails whose columns have values of those of `by`, which Iceberg can use to
    leave out files and row groups; None: nothing can be said."""
    return cast("str | None", _runtime(by.sparkSession.sparkContext).within(by._jdf, there._jdf, LISTED_KEYS, LOCAL))


def _runtime(context: Any) -> Any:
    return java(context, "spark_trickle.spark", "Runtime.java", "trickle.runtime.Runtime")


def register_functions(session: SparkSession) -> None:
    """Let the SQL of a session see the bytes of a VARIANT."""
    _runtime(session.sparkContext).variantFunctions(session._jsparkSession, VARIANT_VALUE, VARIANT_METADATA)
