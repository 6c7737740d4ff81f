"""What Spark's analyzer knows: types of columns, kinds of functions. No job is run."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from spark_trickle.errors import ErrorCode, TrickleError
from spark_trickle.model import Column, LakeFunction
from spark_trickle.spark.compile import Leaves, PlainLeaves, compile_sql
from spark_trickle.spark.names import quote
from spark_trickle.sql.algebra import Aggregate, Distinct, Item, Operator, Project, Recursion, TopK, UnionAll, Window
from spark_trickle.sql.clock import TIME_OF_DAY
from spark_trickle.sql.functions import FunctionKind
from spark_trickle.sql.scalar import Scalar, cast, column
from spark_trickle.sql.trees import open_levels

if TYPE_CHECKING:
    from pyspark.sql import SparkSession
    from pyspark.sql.types import DataType

_GROUPS = {
    "agg_funcs": FunctionKind.AGGREGATE,
    "window_funcs": FunctionKind.WINDOW,
    "generator_funcs": FunctionKind.GENERATOR,
}


# A cast of a time of day in the text of an analyzed plan, or a function in a subquery that Spark makes one of later.
_DATE_IS_ADDED = re.compile(
    rf"cast\({TIME_OF_DAY.pattern} as timestamp\)"
    rf"|(?:between|nvl2?|ifnull|nullif|equal_null|to_timestamp\w*)\((?:[^\n]*, )?{TIME_OF_DAY.pattern}[,)]",
    re.IGNORECASE,
)
_PLAIN = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")

# Functions that Spark lists under another heading than what they are.
_MISPLACED = {"schema_of_variant_agg": FunctionKind.AGGREGATE, "json_tuple": FunctionKind.GENERATOR}


def type_text(kind: DataType) -> str:
    """A type as SQL reads it. Spark's own text leaves the names of fields bare, whatever is in them.

    >>> from pyspark.sql.types import IntegerType, StructType
    >>> type_text(StructType().add("user-id", IntegerType()).add("n", IntegerType()))
    'struct<`user-id`:int,n:int>'
    """
    match kind.typeName():
        case "struct":
            parts: Any = kind
            fields = [(f.name, type_text(f.dataType)) for f in parts.fields]
            return f"struct<{','.join(f'{n if _PLAIN.fullmatch(n) else quote(n)}:{t}' for n, t in fields)}>"
        case "array":
            return f"array<{type_text(kind.elementType)}>"
        case "map":
            return f"map<{type_text(kind.keyType)},{type_text(kind.valueType)}>"
        case _:
            return str(kind.simpleString())


class Analyzer:
    def __init__(self, session: SparkSession, functions: Mapping[str, LakeFunction] | None = None) -> None:
        self.session = session
        self.functions = functions or {}  # of the lake, registered in the session
        self._kinds: dict[str, FunctionKind] = {}

    def check_query(self, text: str) -> None:
        """Refuse anything but a query: Spark runs a command as soon as it is asked for the command's schema."""
        jvm: Any = self.session._jvm
        try:  # Spark's own parser: the one of Iceberg's extension takes commands for queries
            jvm.org.apache.spark.sql.execution.SparkSqlParser().parseQuery(text)
        except Exception as error:
            raise spark_error(error) from error

    def columns(self, sql: str) -> tuple[Column, ...]:
        """Names and types of a query's output. Spark's refusal becomes ours."""
        try:
            schema = self.session.sql(sql).schema
        except Exception as error:
            raise spark_error(error) from error
        return tuple(Column(f.name, type_text(f.dataType)) for f in schema.fields)

    def date_is_added(self, sql: str) -> bool:
        """Whether a query makes a timestamp of a string that is only a time of day: Spark adds today's date."""
        rules: Any = self.session._jvm.org.apache.spark.sql.catalyst.optimizer
        try:
            plan: Any = self.session.sql(sql)._jdf.queryExecution().analyzed()
            text = rules.ReplaceExpressions.apply(plan).treeString(True, False, 2**31 - 1, False, False)
        except Exception as error:
            raise spark_error(error) from error
        return _DATE_IS_ADDED.search(text) is not None

    def kind(self, name: str) -> FunctionKind:
        known = self._kinds.get(name)
        if known is None:
            known = self._kinds[name] = self._look_up(name)
        return known

    def _look_up(self, name: str) -> FunctionKind:
        if name in _MISPLACED:
            return _MISPLACED[name]
        jvm: Any = self.session._jvm
        registry = self.session._jsparkSession.sessionState().functionRegistry()
        found = registry.lookupFunction(jvm.org.apache.spark.sql.catalyst.FunctionIdentifier(name))
        if not found.isDefined():
            return FunctionKind.UNKNOWN
        info = found.get()
        if info.getSource() != "built-in":
            if name in self.functions:
                return FunctionKind.SCALAR if self.functions[name].deterministic else FunctionKind.VOLATILE
            return FunctionKind.SESSION
        return _GROUPS.get(info.getGroup(), FunctionKind.SCALAR)

    def generated(self, child: Operator, generator: Scalar) -> tuple[str, ...]:
        """The names of the columns that a generator makes over the rows of `child`."""
        rows = compile_sql(child, PlainLeaves())
        return tuple(c.name for c in self.columns(f"SELECT `e`.* FROM ({rows}) LATERAL VIEW {generator.sql()} `e`"))

    def types(self, child: Operator, scalars: Sequence[Scalar]) -> tuple[str, ...] | None:
        """The types of expressions, also of aggregates, over the rows of `child`; None where nobody can tell."""
        listed = ", ".join(f"{s.sql()} AS `t{n}`" for n, s in enumerate(scalars))
        try:
            rows = compile_sql(child, PlainLeaves())
            return tuple(c.type for c in self.columns(f"SELECT {listed} FROM ({rows})"))
        except TrickleError:  # it uses columns of a query further out
            return None

    def same(self, child: Operator, scalars: Sequence[Scalar]) -> tuple[int, ...] | None:
        """For each expression over `child` the position of the first that is the same to Spark; None as above.

        `a + b` and `b + a` are the same, `a > b` and `b < a` are, `int(a)` and `CAST(a AS INT)` are.
        """
        listed = ", ".join(f"{s.sql()} AS `t{n}`" for n, s in enumerate(scalars))
        try:
            rows = compile_sql(child, PlainLeaves())
            plan: Any = self.session.sql(f"SELECT {listed} FROM ({rows})")._jdf.queryExecution().analyzed()
        except Exception as error:
            problem = spark_error(error)
            if problem.code in ("SPARK_FAILED", "EVALUATION_FAILED"):
                raise problem from error
            return None
        columns = plan.projectList()
        found = [columns.apply(n).child() for n in range(len(scalars))]
        return tuple(
            next(n for n, b in enumerate(found) if n == at or a.semanticEquals(b)) for at, a in enumerate(found)
        )

    def annotate(self, tree: Operator, leaves: Leaves) -> tuple[Operator, dict[str, str]]:
        """The tree with union branches cast to their common types, and the types of all aggregates.

        Types are under the names of keys and calls; the type of a call's argument under `<call>__arg`.
        """
        types: dict[str, str] = {}

        def types_of(op: Operator) -> dict[str, str]:
            return {c.name: c.type for c in self.columns(compile_sql(op, leaves))}

        def rule(op: Operator) -> Operator:
            if isinstance(op, Recursion):
                # The step has the types of the base, whatever its expressions alone would give.
                want = types_of(op)
                items = (Item(n, column(n) if "<" in want[n] else cast(column(n), want[n])) for n in op.names)
                return replace(op, step=Project(child=op.step, items=tuple(items)))
            if open_levels(op):
                return op
            if isinstance(op, Window):
                keys = Project(child=op.child, items=op.keys)
                types.update(types_of(keys) if op.keys else {})
                types.update(types_of(op))
            if isinstance(op, UnionAll):
                # A branch alone must have the type it has beside the others: its delta may run alone.
                want = types_of(op)
                return UnionAll(inputs=tuple(_typed(b, types_of(b), want) for b in op.inputs), names=op.names)
            if isinstance(op, Aggregate | Distinct | TopK):
                types.update(types_of(op))
            if isinstance(op, Aggregate):
                args = tuple(Item(f"{c.name}__arg", c.args[0]) for c in op.calls if len(c.args) == 1)
                if args:
                    types.update(types_of(Project(child=op.child, items=args)))
            return op

        return tree.transform(rule), types


def _typed(branch: Operator, have: dict[str, str], want: dict[str, str]) -> Operator:
    if have == want:
        return branch
    items = tuple(Item(n, column(n) if have[n] == want[n] else cast(column(n), want[n])) for n in branch.columns)
    return Project(child=branch, items=items)


_DISK_FULL = ("No space left on device", "Disk quota exceeded", "ENOSPC")
_ANALYSIS: dict[str, ErrorCode] = {
    "PARSE_SYNTAX_ERROR": "SYNTAX_ERROR",
    "TABLE_OR_VIEW_NOT_FOUND": "UNKNOWN_TABLE",
    "UNRESOLVED_COLUMN": "UNKNOWN_COLUMN",
    "COLUMN_ALREADY_EXISTS": "DUPLICATE_COLUMN",
    "UNRESOLVED_ROUTINE": "INVALID_QUERY",
}


def spark_error(error: BaseException) -> TrickleError:
    """Spark's exception as ours: what happened without the Java stack, and what kind of failure it is."""
    if isinstance(error, TrickleError):
        return error
    text = str(error)
    if any(sign in text for sign in _DISK_FULL):
        return TrickleError("STORAGE_FULL", _first_lines(text))
    condition = _condition(error)
    for prefix, code in _ANALYSIS.items():
        if condition.startswith(prefix):
            return TrickleError(code, _first_lines(text))
    if type(error).__name__ in ("AnalysisException", "ParseException"):
        return TrickleError("SYNTAX_ERROR" if "Parse" in type(error).__name__ else "INVALID_QUERY", _first_lines(text))
    if getattr(error, "java_exception", None) is not None:  # its text begins with the call and the task that failed
        innermost = list(_causes(error))[-1]
        text = f"{innermost.getClass().getSimpleName()}: {innermost.getMessage()}"
    return TrickleError("EVALUATION_FAILED" if _is_for_a_row(error) else "SPARK_FAILED", _first_lines(text))


# What an expression met in a row, by the beginning of Spark's SQLSTATE. docs/errors.md prints it.
EVALUATION_STATES = {
    "21000": "a scalar subquery has more than one row",
    "22": "a value cannot be cast, divided, indexed, parsed or held by its type",
    "23505": "the same key twice in a map",
    "38000": "a Python function raises an exception",
    "39000": "a Python function fails or returns what it did not declare",
    "42836": "a recursion does not end",
    "54000": "a value or a plan is larger than Spark's limit",
    "P0001": "`raise_error`, `assert_true`",
}
# Some errors have no SQLSTATE, only a class.
_EVALUATION_CLASSES = ("ArithmeticException", "DateTimeException", "NumberFormatException", "PythonException")


def _is_for_a_row(error: BaseException) -> bool:
    """Whether an evaluation failed for a row that it met: the data or the definition must change, not the time."""
    if data_error(error) is None:  # the environment
        return False
    for java in _causes(error):
        name = str(java.getClass().getName())
        state = _sql_state(java)
        if state.startswith(tuple(EVALUATION_STATES)) or name.endswith(_EVALUATION_CLASSES):
            return True
    return False


def _causes(error: BaseException) -> Iterator[Any]:
    """The Java exceptions of an error, the outermost first."""
    from pyspark.errors import PySparkException

    java = getattr(error, "_origin", None) or getattr(error, "java_exception", None)
    if java is None and isinstance(error, PySparkException):
        # It keeps none of an error in a Python function, except as what was handled meanwhile.
        java = getattr(error.__context__, "java_exception", None)
    for _ in range(20):
        if java is None:
            return
        yield java
        java = java.getCause()


def _sql_state(java: Any) -> str:
    from py4j.protocol import Py4JError

    try:
        return str(java.getSqlState() or "")
    except Py4JError:  # not an exception of Spark
        return ""


# What has nothing to do with the values: by class, or in the first line of a message.
_ENVIRONMENT = (
    *("java.io.", "java.net.", "java.sql.", "org.apache.iceberg.exceptions.", "OutOfMemoryError", "AnalysisException"),
    *("ExecutorLostFailure", "cancelled", "SparkContext", "InterruptedException", "ParseException"),
)


def data_error(error: BaseException) -> str | None:
    """What an evaluation failed for, if it may have failed for the values it met; None for any other error.

    Spark's errors of this kind have many conditions and SQLSTATEs, and some none: so those are named that are not.
    """
    said = [f"{java.getClass().getName()}: {_headline(str(java.getMessage()))}" for java in _causes(error)]
    if not said or any(sign in text for text in said for sign in _ENVIRONMENT):
        return None
    return said[-1].partition(": ")[2]


def _headline(message: str) -> str:
    """One line that says what happened.

    >>> _headline("Traceback (most recent call last):\\n  File 'a.py', line 1, in f\\nValueError: zero!\\n")
    'ValueError: zero!'
    """
    lines = message.strip().splitlines() or [""]
    return lines[-1 if lines[0].startswith("Traceback ") else 0]


def _condition(error: BaseException) -> str:
    getter = getattr(error, "getCondition", None) or getattr(error, "getErrorClass", None)
    try:
        return str(getter() or "") if getter else ""
    except Exception:
        return ""


def _first_lines(text: str) -> str:
    """Up to the plan or the Java stack, whichever comes first."""
    lines: list[str] = []
    for line in text.strip().splitlines():
        if line.startswith(("'", "+- ", "\tat ", "JVM stacktrace", "Driver stacktrace")) or line.strip().startswith(
            "at org."
        ):
            break
        lines.append(line)
    return "\n".join(lines[:12]).strip() or text[:300]
