"""A little Java beside the Python: what needs Spark's internal rows, without a jar and without a build.

`Runtime.java` is compiled once per JVM, in half a second, by the compiler that Spark ships for its own code generation.
"""

from __future__ import annotations

from functools import lru_cache
from importlib.resources import files
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

VARIANT_VALUE, VARIANT_METADATA = "_t_variant_value", "_t_variant_metadata"


@lru_cache(maxsize=4)
def _runtime(context: Any) -> Any:
    jvm = context._jvm
    compiler = jvm.org.codehaus.janino.SimpleCompiler()
    compiler.setParentClassLoader(jvm.java.lang.Thread.currentThread().getContextClassLoader())
    compiler.cook(files("spark_trickle.spark").joinpath("Runtime.java").read_text(encoding="utf-8"))
    made = compiler.getClassLoader().loadClass("trickle.runtime.Runtime")
    return made.getDeclaredConstructor(context._gateway.new_array(jvm.java.lang.Class, 0)).newInstance(
        context._gateway.new_array(jvm.java.lang.Object, 0)
    )


def collect_local(frame: DataFrame, limit: int, into: SparkSession | None = None) -> tuple[DataFrame | None, int]:
    """(the rows as a local relation of `into`, how many), with their exact values; (None, 0) if more than `limit`."""
    from pyspark.sql import DataFrame as Frame

    session = into or frame.sparkSession
    found = _runtime(session.sparkContext).local(frame._jdf, session._jsparkSession, limit)
    return (None, 0) if found is None else (Frame(found[0], session), int(found[1]))


def register_functions(session: SparkSession) -> None:
    """Let the SQL of a session see the bytes of a VARIANT."""
    _runtime(session.sparkContext).variantFunctions(session._jsparkSession, VARIANT_VALUE, VARIANT_METADATA)
