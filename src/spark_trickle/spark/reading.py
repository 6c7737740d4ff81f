"""Which statements only read, as Spark parses them."""

from __future__ import annotations

import re
from textwrap import shorten
from typing import TYPE_CHECKING, Any

from spark_trickle.errors import TrickleError

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

# Commands that leave every table as it is, by the class of their parsed plan. The rest is refused: it writes, or it
# hides what it does (a script, EXECUTE IMMEDIATE). A query is none of these, and is asked for first.
_READS = re.compile(
    r"Show\w+|Describe\w+|ExplainCommand|StreamingExplainCommand|SetCommand|ResetCommand|SetCatalogCommand|"
    r"SetNamespaceCommand|SetCatalogAndNamespace|CacheTable|CacheTableAsSelect|UncacheTable|ClearCacheCommand\$|"
    r"RefreshTable|RefreshResource|RefreshFunction|CreateVariable|SetVariable|DropVariable|List\w+Command|"
    r"Add(Jars|Files|Archives)Command|CreateTempViewUsing"
)


def refuse_write(session: SparkSession, text: str) -> None:
    """Refuse a statement that is neither a query nor harmless; what cannot be parsed is left to Spark to refuse."""
    jvm: Any = session._jvm
    try:  # Spark's own parser: the one of Iceberg's extension takes commands for queries
        jvm.org.apache.spark.sql.execution.SparkSqlParser().parseQuery(text)
        return
    except Exception:  # no query, or nothing at all
        pass
    try:
        plan = session._jsparkSession.sessionState().sqlParser().parsePlan(text)
    except Exception:
        return  # Spark says what is wrong with it
    if not _reads(session, plan):
        raise TrickleError(
            "CUT_IS_READ_ONLY",
            f"{shorten(text, 80, placeholder=' …')!r} is not a read, and a cut is read-only: nothing was done",
        )


def _reads(session: SparkSession, plan: Any) -> bool:
    kind = str(plan.getClass().getSimpleName())
    if kind == "CreateViewCommand":
        return str(plan.viewType()) in ("LocalTempView", "GlobalTempView")
    if kind in ("CreateFunctionCommand", "DropFunctionCommand"):
        return bool(plan.isTemp())
    if kind in ("DropView", "AlterViewAs", "DropTempViewCommand"):
        return _is_temporary(session, plan.children().head())
    return _READS.fullmatch(kind) is not None


def _is_temporary(session: SparkSession, name: Any) -> bool:
    views = session._jsparkSession.sessionState().catalog()
    parts = name.nameParts() if hasattr(name, "nameParts") else name.multipartIdentifier()
    return bool(views.isTempView(parts))
