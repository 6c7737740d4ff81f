"""Which statements only read, as Spark parses them."""

from __future__ import annotations

import re
from collections.abc import Iterator
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
    plan = _command(session, text)
    if plan is not None and not _reads(session, plan):
        raise TrickleError(
            "CUT_IS_READ_ONLY",
            f"{shorten(text, 80, placeholder=' …')!r} is not a read, and a cut is read-only: nothing was done",
        )


def _command(session: SparkSession, text: str) -> Any | None:
    """The parsed plan of a statement that is not a query; None also for what Spark will refuse."""
    jvm: Any = session._jvm
    try:  # Spark's own parser: the one of Iceberg's extension takes commands for queries
        jvm.org.apache.spark.sql.execution.SparkSqlParser().parseQuery(text)
        return None
    except Exception:  # no query, or nothing at all
        pass
    try:
        return session._jsparkSession.sessionState().sqlParser().parsePlan(text)
    except Exception:
        return None


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
    named = str(name.getClass().getSimpleName())
    parts = name.nameParts() if named == "UnresolvedIdentifier" else name.multipartIdentifier()
    return bool(views.isTempView(parts))


# Statements that change or drop the table they name first, by the class of their parsed plan. Comments, tags and
# statistics do no harm.
_CHANGES = re.compile(
    r"InsertIntoStatement|OverwriteByExpression|OverwritePartitionsDynamic|AppendData|UpdateTable|DeleteFromTable|"
    r"MergeIntoTable|Truncate\w+|DropTable|DropView|RenameTable|(Set|Unset)TableProperties|SetTableLocation|"
    r"SetViewProperties|AlterViewAs|(Add|Drop|Rename|Replace|Alter)Columns?|ReplaceTable\w*|CreateView|AlterTable\w*|"
    r"(Add|Drop|Replace)PartitionField|SetWriteDistributionAndOrdering|(Set|Drop)IdentifierFields|"
    r"(Add|Drop|Rename)Partitions|AddCheckConstraint|AddConstraint|DropConstraint|(Create|Drop)IcebergView"
)


# The parts of a script that hold other parts.
_SCRIPT = re.compile(r"(IfElse|While|For|SimpleCase|SearchedCase|Loop|Repeat)Statement")


def changed_tables(session: SparkSession, text: str) -> tuple[tuple[str, ...], ...]:
    """The tables that a statement would write to, alter or drop, as it names them; () for anything else."""
    plan = _command(session, text)
    return () if plan is None else tuple(_changed(session, plan))


def _changed(session: SparkSession, plan: Any) -> Iterator[tuple[str, ...]]:
    kind = str(plan.getClass().getSimpleName())
    if _CHANGES.fullmatch(kind) is None:
        for part in _parts(session, kind, plan):
            yield from _changed(session, part)
        return
    # Iceberg's own statements hold the name itself, an INSERT holds its target beside its children.
    target = plan.table() if kind.startswith(("Insert", "Overwrite", "Append")) else None
    if target is None:
        target = plan.children().head() if plan.children().nonEmpty() else plan.table()
    named = str(target.getClass().getSimpleName())
    if named == "SubqueryAlias":
        target = target.child()
        named = str(target.getClass().getSimpleName())
    if named == "UnresolvedIdentifier":
        yield tuple(map(str, _listed(target.nameParts())))
    elif named == "ResolvedIdentifier":
        yield (*map(str, target.identifier().namespace()), str(target.identifier().name()))
    elif named.startswith("Unresolved"):
        yield tuple(map(str, _listed(target.multipartIdentifier())))
    else:
        yield tuple(map(str, _listed(target)))


def _parts(session: SparkSession, kind: str, plan: Any) -> list[Any]:
    """The statements inside a statement that is no change itself."""
    if kind in ("UnresolvedWith", "Union"):  # WITH … INSERT; FROM … INSERT … INSERT
        return _listed(plan.children())
    if kind == "UnresolvedExecuteImmediate":
        text = plan.sqlStmtStr()
        if str(text.getClass().getSimpleName()) != "Literal":
            raise TrickleError(
                "STREAM_TABLE",
                "EXECUTE IMMEDIATE of a text that is computed could change a stream table",
                hint="Write the statement out, or as one literal.",
            )
        inner = _command(session, str(text.value()))
        return [] if inner is None else [inner]
    if kind == "SingleStatement":
        return [plan.parsedPlan()]
    if kind == "CompoundBody":
        return [*_listed(plan.children()), *(h.body() for h in _listed(plan.handlers()))]
    return _listed(plan.children()) if _SCRIPT.fullmatch(kind) else []


def _listed(items: Any) -> list[Any]:
    return [items.apply(n) for n in range(items.size())]
