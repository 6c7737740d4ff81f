"""A definition, compiled: what it reads, what it gives, and how it can be maintained.

Everything here is analysis; no Spark job runs. The result depends on the definition's text, the schemas of its inputs
and the texts of its views, and on nothing else, so it can be cached under those.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

from spark_trickle.delta.root import HASH, Comparison, Plan, Rows, comparisons, plan_root
from spark_trickle.errors import NotIncremental, TrickleError
from spark_trickle.lake.tables import Lake
from spark_trickle.model import (
    HIDDEN_NAMESPACE,
    HIDDEN_PREFIX,
    LAKE,
    Column,
    InputKind,
    Pointer,
    StreamTable,
    TableName,
)
from spark_trickle.spark.analyze import Analyzer
from spark_trickle.spark.compile import PlainLeaves, compile_sql
from spark_trickle.spark.guard import roundtrip
from spark_trickle.sql.algebra import Operator, scans
from spark_trickle.sql.lower import LakeTable, LakeView, Lowered, lower
from spark_trickle.sql.mentions import follows_the_clock, may_read, reads
from spark_trickle.sql.prune import prune

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_UNSTORABLE = re.compile(r"\b(void|interval)\b(?!:)")  # as a type, not as the name of a field

Inputs = dict[TableName, tuple[InputKind, tuple[str, ...]]]


@dataclass(frozen=True, slots=True)
class Compiled:
    definition: str
    namespace: str
    columns: tuple[Column, ...]
    inputs: Inputs  # columns used, in the table's own names
    views: tuple[TableName, ...]
    root: Operator | None
    plan: Plan | None  # None: FULL only
    reason: str | None  # why FULL only
    compare: Mapping[str, Comparison]
    notices: tuple[str, ...]

    @property
    def incremental(self) -> bool:
        return self.plan is not None

    @property
    def time_dependent(self) -> bool:
        return bool(self.reason) and str(self.reason).startswith("TIME_DEPENDENT")

    @property
    def hidden(self) -> tuple[Column, ...]:
        return self.plan.hidden if self.plan is not None else (Column(HASH, "bigint"),)

    @property
    def storage_columns(self) -> tuple[Column, ...]:
        return (*self.columns, *self.hidden)

    @property
    def layout(self) -> str:
        """The shape of the storage: another one needs another storage table."""
        identity = "rows" if self.plan is None or isinstance(self.plan, Rows) else "keys"
        keys = [] if identity == "rows" else [k.stored for k in self.plan.keys]  # type: ignore[union-attr]
        columns = [[c.name, c.type] for c in self.storage_columns]
        return json.dumps({"identity": identity, "keys": keys, "columns": columns}, sort_keys=True)

    @property
    def fingerprint(self) -> str:
        """Of the meaning: names in the tree follow from the text alone, so equal meaning gives equal SQL."""
        body = compile_sql(self.root, PlainLeaves()) if self.root is not None else self.definition
        shape = json.dumps([[c.name, c.type] for c in self.columns])
        return hashlib.sha256(f"{body}\n{shape}".encode()).hexdigest()[:32]


class LakeTables:
    """Names of a definition, looked up in one set of pointers."""

    def __init__(
        self, lake: Lake, pointers: Mapping[TableName, Pointer], stream_tables: Mapping[TableName, StreamTable]
    ):
        self.lake = lake
        self.pointers = pointers
        self.stream_tables = stream_tables

    def find(self, parts: tuple[str, ...], namespace: str) -> LakeTable | LakeView | None:
        name = resolve(parts, namespace)
        stream_table = self.stream_tables.get(name)
        if stream_table is not None:
            columns = tuple(c.name for c in stream_table.columns)
            return LakeTable(stream_table.storage, InputKind.STREAM_TABLE, columns)
        pointer = self.pointers.get(name)
        if pointer is None:
            return None
        if name.namespace == HIDDEN_NAMESPACE:
            raise TrickleError(
                "INVALID_QUERY",
                f"{name} is the storage of a stream table",
                hint="Read the stream table by its own name; SHOW STREAM TABLES lists them.",
            )
        if pointer.is_view:
            return self.lake.view(pointer)
        return LakeTable(name, InputKind.SOURCE, tuple(f.name for f in self.lake.facts(pointer.location).fields))


def resolve(parts: tuple[str, ...], namespace: str) -> TableName:
    if len(parts) > 1 and parts[0].lower() == LAKE:
        parts = parts[1:]
    if len(parts) == 1:
        return TableName(namespace, parts[0])
    return TableName(".".join(parts[:-1]), parts[-1])


def compile_definition(
    session: SparkSession,
    tables: LakeTables,
    definition: str,
    namespace: str,
    *,
    use_states: bool = True,
) -> Compiled:
    """Compile a definition in a session whose current catalog and namespace are the lake's."""
    analyzer = Analyzer(session)
    analyzer.check_query(definition)
    _refuse_foreign(tables, definition, namespace)
    columns = analyzer.columns(definition)
    _check_columns(columns)
    root: Operator | None = None
    plan: Plan | None = None
    reason: str | None = None
    compare: dict[str, Comparison] = {}
    lowered: Lowered | None = None
    try:
        lowered = lower(definition, tables, analyzer, namespace)
        differs = roundtrip(session, definition)
        if differs is not None:
            raise NotIncremental("SQL_ROUNDTRIP", differs)
        clock = _clock(tables, definition, namespace)
        if clock is not None:
            raise NotIncremental("TIME_DEPENDENT", f"{clock} moves with the time although no source changes")
        if any(ours and ours != c.name for ours, c in zip(lowered.shown, columns, strict=True)):
            raise NotIncremental("SQL_ROUNDTRIP", f"we read the columns as {', '.join(lowered.shown)}")
        root, types = analyzer.annotate(prune(lowered.root), PlainLeaves())
        found = analyzer.columns(compile_sql(root, PlainLeaves()))
        if [c.type for c in found] != [c.type for c in columns]:
            raise NotIncremental("SQL_ROUNDTRIP", "our form of the query has other types than the query")
        plan = plan_root(root, tuple(c.name for c in columns), types, use_states=use_states)
        compare = comparisons(plan, types)
    except NotIncremental as refusal:
        reason = refusal.message
    except (ValueError, IndexError, KeyError, AttributeError, AssertionError) as error:
        reason = f"SQL_ROUNDTRIP: our parser stumbled over the query ({error!r})"
    except TrickleError as refusal:
        if refusal.code != "SYNTAX_ERROR":  # Spark has accepted the text: the fault is our parser's
            raise
        reason = f"SQL_ROUNDTRIP: {refusal.message}"
    if plan is None and not str(reason).startswith("TIME_DEPENDENT"):
        clock = _clock(tables, definition, namespace)
        if clock is not None:  # it must be recomputed even when no source changes
            reason = f"TIME_DEPENDENT: {clock} moves with the time; also {reason}"
    if lowered is not None and plan is not None and root is not None:
        kinds = {i.name: i.kind for i in lowered.inputs}
        inputs = _columns_read(root, kinds)
        views = tuple(v.name for v in lowered.views)
    else:
        root = None
        inputs, views = _mentioned_inputs(tables, definition, namespace)
    return Compiled(
        definition=definition,
        namespace=namespace,
        columns=columns,
        inputs=inputs,
        views=views,
        root=root,
        plan=plan,
        reason=reason,
        compare=compare,
        notices=lowered.notices if lowered else (),
    )


def _refuse_foreign(tables: LakeTables, definition: str, namespace: str) -> None:
    """What is not in the lake has no snapshots that could be followed."""
    try:
        names = reads(definition)
    except TrickleError:
        return  # not our grammar: Spark runs it, over the attempt's catalog
    for parts, where in names.items():
        if tables.find(parts, namespace) is None:
            raise TrickleError(
                "UNKNOWN_TABLE",
                f"{'.'.join(parts)}, at {where}, is not a table or view of the lake",
                hint="A definition reads Iceberg tables, views and stream tables of the lake, nothing else.",
            )


def _clock(tables: LakeTables, text: str, namespace: str) -> str | None:
    """What makes the definition, or a view it may read, move with the time."""
    _, views = _mentioned_inputs(tables, text, namespace)
    bodies = [text]
    for name in views:
        view = tables.find(name.parts, namespace)
        if isinstance(view, LakeView):
            bodies.append(view.text)
    return next((c for c in map(follows_the_clock, bodies) if c is not None), None)


_RESERVED = frozenset(
    ["_file", "_pos", "_deleted", "_spec_id", "_partition", "_row_id", "_last_updated_sequence_number"]
)


def _check_columns(columns: tuple[Column, ...]) -> None:
    seen: set[str] = set()
    for column in columns:
        if column.name.lower() in seen:
            raise TrickleError("DUPLICATE_COLUMN", f"two output columns are called {column.name}")
        if column.name.lower() in _RESERVED or column.name.lower().startswith((HIDDEN_PREFIX, "__")):
            raise TrickleError(
                "INVALID_NAME",
                f"output column {column.name}: this name is kept for hidden columns, like all that start with "
                f"{HIDDEN_PREFIX} or __",
                hint="Give the column an alias.",
            )
        if _UNSTORABLE.search(column.type):
            raise TrickleError("UNSTORABLE_TYPE", f"output column {column.name} has type {column.type}")
        seen.add(column.name.lower())


def _columns_read(root: Operator, kinds: Mapping[TableName, InputKind]) -> Inputs:
    read: dict[TableName, dict[str, None]] = {}
    for scan in scans(root):
        read.setdefault(scan.input, {}).update(dict.fromkeys(f.source for f in scan.fields))
    return {name: (kinds[name], tuple(columns)) for name, columns in read.items()}


def _mentioned_inputs(tables: LakeTables, text: str, namespace: str) -> tuple[Inputs, tuple[TableName, ...]]:
    """All columns of all tables that the text or its views may mean."""
    inputs: Inputs = {}
    views: dict[TableName, None] = {}
    waiting = [(text, namespace)]
    while waiting:
        body, home = waiting.pop()
        for parts in sorted(may_read(body)):
            found = tables.find(parts, home)
            if isinstance(found, LakeTable):
                inputs[found.name] = (found.kind, found.columns)
            elif isinstance(found, LakeView) and found.name not in views:
                views[found.name] = None
                waiting.append((found.text, found.namespace))
    return inputs, tuple(views)
