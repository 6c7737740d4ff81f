"""A definition, compiled: what it reads, what it gives, and how it can be maintained.

Everything here is analysis; no Spark job runs. The result depends on the definition's text, the schemas of its inputs,
the texts of its views, the lake's functions that it calls and the settings of the session, and on nothing else, so it
can be cached under those.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from functools import partial
from typing import TYPE_CHECKING

from spark_trickle.delta.aggregates import decimal
from spark_trickle.delta.distinct_calls import split_distinct
from spark_trickle.delta.monotone import described, offending, set_body
from spark_trickle.delta.plans.fixpoint import fixpoint
from spark_trickle.delta.plans.plan import Comparison, Plan
from spark_trickle.delta.root import plan_root
from spark_trickle.delta.states import Openness, StateTree, cut_states, openness
from spark_trickle.delta.steps import HASH
from spark_trickle.errors import NotIncremental, Reason, TrickleError
from spark_trickle.lake.tables import Lake
from spark_trickle.model import (
    HIDDEN_NAMESPACE,
    HIDDEN_PREFIX,
    Column,
    InputKind,
    LakeFunction,
    Lineage,
    Pointer,
    StreamTable,
    TableName,
    resolve,
)
from spark_trickle.refresh.traced import lineage_at_a_moment
from spark_trickle.spark.analyze import Analyzer
from spark_trickle.spark.compile import PlainLeaves, compile_sql
from spark_trickle.spark.guard import roundtrip
from spark_trickle.spark.settings import Pins
from spark_trickle.sql.aggregate_facts import Form, facts_of
from spark_trickle.sql.algebra import Aggregate, Item, Operator, Project
from spark_trickle.sql.lineage import lineage
from spark_trickle.sql.lower import LakeTable, LakeView, Lowered, lower
from spark_trickle.sql.mentions import follows_the_clock, may_read, reads, time_of_day, volatile
from spark_trickle.sql.parse import at_offset, words
from spark_trickle.sql.prune import prune
from spark_trickle.sql.scalar import column as column_
from spark_trickle.sql.trees import scans

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_UNSTORABLE = re.compile(r"\b(void|interval)\b(?!:)")  # as a type, not as the name of a field

Inputs = dict[TableName, tuple[InputKind, tuple[str, ...]]]


@dataclass(frozen=True, slots=True)
class Definition:
    """What a user declared, with all that bears on its meaning."""

    name: TableName
    text: str
    namespace: str  # unqualified names are looked up here
    pins: Pins  # the Spark settings that it runs under


@dataclass(frozen=True, slots=True)
class Compiled:
    definition: str
    namespace: str
    columns: tuple[Column, ...]
    inputs: Inputs  # columns used, in the table's own names
    views: tuple[TableName, ...]
    root: Operator | None  # state tables cut out
    plan: Plan | None  # None: FULL only
    reason: Reason | None  # why FULL only
    compare: Mapping[str, Comparison]
    notices: tuple[str, ...]
    whole: Operator | None = None  # nothing cut out
    states: tuple[StateTable, ...] = ()  # all hidden state tables below, those that others read first
    volatile: str | None = None  # a function that is not deterministic, with its place
    settled: bool = True  # False: which rows there are depends on values that only the state tables know
    over_states: Mapping[str, Comparison] = field(default_factory=dict)  # `compare`, the state tables given
    functions: tuple[tuple[str, str], ...] = ()  # of the lake: name and version
    lineage: Lineage | None = None  # None: we may read the query otherwise than Spark does

    @property
    def incremental(self) -> bool:
        return self.plan is not None

    @property
    def time_dependent(self) -> bool:
        return self.reason is not None and self.reason.code == "TIME_DEPENDENT"

    @property
    def hidden(self) -> tuple[Column, ...]:
        return self.plan.hidden if self.plan is not None else (Column(HASH, "bigint"),)

    @property
    def all_columns(self) -> tuple[Column, ...]:
        return (*self.columns, *self.hidden)

    @property
    def reads(self) -> Inputs:
        """What the definition reads, directly or through its state tables."""
        own = {s.name for s in self.states}
        read: Inputs = {}
        for compiled in (self, *(s.compiled for s in self.states)):
            for name, (kind, columns) in compiled.inputs.items():
                if name not in own:
                    known = read[name][1] if name in read else ()
                    read[name] = (kind, tuple(dict.fromkeys((*known, *columns))))
        return read

    @property
    def layout(self) -> str:
        """The columns of the data files and what they are for: another layout needs other files."""
        identity = "rows" if self.plan is None else self.plan.kind
        keys = [] if self.plan is None else [k.stored for k in self.plan.keys]
        columns = [[c.name, c.type] for c in self.all_columns]
        return json.dumps({"identity": identity, "keys": keys, "columns": columns}, sort_keys=True)

    @property
    def fingerprint(self) -> str:
        """Of the meaning: names in the tree follow from the text alone, so equal meaning gives equal SQL."""
        body = compile_sql(self.whole, PlainLeaves()) if self.whole is not None else self.definition
        shape = json.dumps([[c.name, c.type] for c in self.columns])
        return hashlib.sha256(f"{body}\n{shape}".encode()).hexdigest()[:32]


@dataclass(frozen=True, slots=True)
class StateTable:
    """A hidden state table: a part of a definition, kept as a stream table of its own."""

    name: TableName
    compiled: Compiled


def misread_of(reason: str | None) -> str | None:
    """What a stored reason says about how a definition was misread."""
    found = None if reason is None else Reason.parse(reason)
    return found.message if found is not None and found.code == "DEFINITION_CHECK" else None


# The name that a state table with this definition and layout has, or is to have.
NameOf = Callable[[str, str], TableName]


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
            return LakeTable(name, InputKind.STREAM_TABLE, tuple(c.name for c in stream_table.columns))
        pointer = self.pointers.get(name)
        if pointer is None:
            return None
        if name.namespace == HIDDEN_NAMESPACE:
            raise TrickleError(
                "INVALID_QUERY",
                f"{name} is a hidden state table",
                hint="Read the stream table that it belongs to; SHOW STREAM TABLES lists them.",
            )
        if pointer.is_view:
            return self.lake.view(pointer)
        return LakeTable(name, InputKind.SOURCE, tuple(f.name for f in self.lake.facts(pointer.location).fields))


# Spark has accepted the definition before: when it refuses our form of it, the fault is ours, and FULL is right.
_OURS = frozenset(["SYNTAX_ERROR", "INVALID_QUERY", "UNKNOWN_COLUMN"])


def compile_definition(
    session: SparkSession,
    tables: LakeTables,
    definition: str,
    namespace: str,
    name_of: NameOf,
    *,
    use_states: bool = True,
    state_tables: bool = True,
    functions: Mapping[str, LakeFunction] | None = None,
    plain_decimals: bool = True,
    misread: str | None = None,
    cycle: tuple[TableName, ...] = (),
) -> Compiled:
    """Compile a definition in a session whose current catalog and namespace are the lake's.

    `state_tables=False` cuts out only the state tables that must be. `functions` of the lake are registered in the
    session. `plain_decimals=False`: the session's settings give decimals other types, or NULL for an overflow.
    `cycle`: the stream tables that read each other with this one.
    `misread`: how our form of this definition was found to differ from its text; then it runs as written.
    """
    analyzer = Analyzer(session, functions)
    analyzer.check_query(definition)
    _refuse_foreign(tables, definition, namespace)
    columns = analyzer.columns(definition)
    _check_columns(columns)
    whole: Operator | None = None
    how: Maintenance | None = None
    planner: Planner | None = None
    reason: Reason | None = None
    lowered: Lowered | None = None
    trusted: Operator | None = None  # the tree, once it is known to mean what the text does
    try:
        if misread is not None:
            raise NotIncremental("DEFINITION_CHECK", misread)
        lowered = lower(definition, tables, analyzer, namespace)
        differs = roundtrip(session, definition)
        if differs is not None:
            raise NotIncremental("SQL_ROUNDTRIP", differs)
        clock = _clock(analyzer, tables, definition, namespace)
        if clock is not None:
            trusted = lowered.root
            raise NotIncremental("TIME_DEPENDENT", f"{clock} moves with the time although no source changes")
        if any(ours and ours != c.name for ours, c in zip(lowered.shown, columns, strict=True)):
            raise NotIncremental("SQL_ROUNDTRIP", f"we read the columns as {', '.join(lowered.shown)}")
        whole, types = analyzer.annotate(prune(lowered.root), PlainLeaves())
        found = analyzer.columns(compile_sql(whole, PlainLeaves()))
        if [c.type for c in found] != [c.type for c in columns]:
            raise NotIncremental("SQL_ROUNDTRIP", "our form of the query has other types than the query")
        trusted = whole
        planner = Planner(
            analyzer=analyzer,
            namespace=namespace,
            kinds={i.name: i.kind for i in lowered.inputs},
            types=types,
            name_of=name_of,
            use_states=use_states,
            optional=state_tables,
            plain_decimals=plain_decimals,
        )
        kept = split_distinct(whole, types, plain_decimals=plain_decimals) if state_tables and not cycle else whole
        if kept is not whole:
            kept, planner.types = analyzer.annotate(kept, PlainLeaves())
        how = planner.plan(kept, columns) if not cycle else _in_cycle(whole, columns, cycle, definition)
        if kept is not whole:  # Spark adds floats where sums of whole numbers are kept
            floats = _approximate(whole, columns, openness(whole, {}, types))
            how = replace(how, compare=_fitting(columns, {**floats, **how.compare}))
    except NotIncremental as refusal:
        reason = refusal.why
    except (ValueError, IndexError, KeyError, AttributeError, AssertionError) as error:
        reason = Reason("SQL_ROUNDTRIP", f"our parser stumbled over the query ({error!r})")
    except TrickleError as refusal:
        if refusal.code not in _OURS:
            raise
        reason = Reason("SQL_ROUNDTRIP", refusal.message)
    if how is None and (reason is None or reason.code != "TIME_DEPENDENT"):
        clock = _clock(analyzer, tables, definition, namespace)
        if clock is not None:  # it must be recomputed even when no source changes
            reason = Reason("TIME_DEPENDENT", f"{clock} moves with the time; also {reason}")
    traced = None if trusted is None else lineage(trusted, [c.name for c in columns])
    notices = lowered.notices if lowered else ()
    answers_vary = [f.name for f in (functions or {}).values() if not f.deterministic]
    if lowered is not None and how is not None and planner is not None:
        views = tuple(v.name for v in lowered.views)
        made = planner.compiled(definition, columns, whole, how, views, notices, tuple(planner.states))
        return replace(made, lineage=traced)
    inputs, views = _mentioned_inputs(tables, definition, namespace)
    if traced is None and reason is not None and reason.code == "TIME_DEPENDENT" and misread is None:
        read = {c for _, used in inputs.values() for c in used}
        traced = lineage_at_a_moment(session, analyzer, tables, definition, namespace, [c.name for c in columns], read)
    return Compiled(
        definition=definition,
        namespace=namespace,
        columns=columns,
        inputs=inputs,
        views=views,
        root=None,
        plan=None,
        reason=reason,
        compare={},
        notices=notices,
        volatile=_first(partial(volatile, also=answers_vary), tables, definition, namespace),
        lineage=traced,
    )


def _in_cycle(
    whole: Operator, columns: tuple[Column, ...], cycle: tuple[TableName, ...], definition: str
) -> Maintenance:
    """What reads itself has the least fixpoint as its content: only monotone definitions of sets have one."""
    bad = offending(whole, cycle)
    if bad is not None:
        what, marks = described(bad)
        place = next((at_offset(definition, w.start) for w in words(definition) if w.upper in marks), "")
        raise TrickleError(
            "NOT_MONOTONE",
            f"it is in a cycle ({', '.join(map(str, cycle))}), and reads it through {what}{place and f' at {place}'}",
            hint="In a cycle only filters, projections, inner and semi joins, UNION, DISTINCT and explode may be over "
            "its members.",
        )
    collated = next((c.name for c in columns if "collate" in c.type.lower()), None)
    if collated is not None:
        raise TrickleError("NOT_MONOTONE", f"it is in a cycle, and its column {collated} has a collation")
    body = set_body(whole)
    if body is None:
        raise TrickleError(
            "NOT_MONOTONE",
            f"it is in a cycle ({', '.join(map(str, cycle))}), and may have the same row twice",
            hint="End it in UNION, or begin it with SELECT DISTINCT.",
        )
    plan = fixpoint(whole, body, columns, cycle)
    return Maintenance(whole, plan, {}, {}, settled=True)


@dataclass(frozen=True, slots=True)
class Maintenance:
    """How one tree is maintained, its state tables cut out."""

    root: Operator
    plan: Plan
    compare: Mapping[str, Comparison]
    over_states: Mapping[str, Comparison]
    settled: bool


@dataclass(slots=True)
class Planner:
    """Plans a tree and, one after the other, the state tables cut out of it. No SQL is parsed here: the trees exist."""

    analyzer: Analyzer
    namespace: str
    kinds: dict[TableName, InputKind]
    types: Mapping[str, str]
    name_of: NameOf
    use_states: bool
    optional: bool
    plain_decimals: bool = True
    states: list[StateTable] = field(default_factory=list)
    _shapes: dict[object, TableName] = field(default_factory=dict)

    def plan(self, whole: Operator, columns: tuple[Column, ...]) -> Maintenance:
        root = cut_states(whole, self.types, self._typed, self._keep, optional=self.optional)
        use_states = self.use_states and (self.plain_decimals or not _adds_decimals(root, self.types))
        plan = plan_root(root, tuple(c.name for c in columns), self.types, use_states=use_states)
        inexact = {s.name: s.compiled.compare for s in self.states if s.compiled.compare}
        found = openness(root, inexact, self.types) if inexact else Openness()
        over_states = plan.compare(self.types)
        from_states = {
            c.name: found.columns[n] for c, n in zip(columns, root.columns, strict=True) if n in found.columns
        }
        return Maintenance(
            root,
            plan,
            _fitting(columns, {**over_states, **from_states}),
            _fitting(columns, over_states),
            not found.rows and not plan.picks_by_order(self.types),
        )

    def compiled(
        self,
        definition: str,
        columns: tuple[Column, ...],
        whole: Operator | None,
        how: Maintenance,
        views: tuple[TableName, ...] = (),
        notices: tuple[str, ...] = (),
        states: tuple[StateTable, ...] = (),
    ) -> Compiled:
        return Compiled(
            definition=definition,
            namespace=self.namespace,
            columns=columns,
            inputs=_columns_read(how.root, self.kinds),
            views=views,
            root=how.root,
            plan=how.plan,
            reason=None,
            compare=how.compare,
            notices=notices,
            whole=whole,
            states=states,
            settled=how.settled,
            over_states=how.over_states,
        )

    def _typed(self, op: Operator) -> tuple[Column, ...]:
        if all(n in self.types for n in op.columns):
            return tuple(Column(n, self.types[n]) for n in op.columns)
        return self.analyzer.columns(compile_sql(op, PlainLeaves()))

    def _keep(self, state: StateTree) -> TableName:
        """The name of its table; equal parts, such as a CTE that is used twice, share one table."""
        items = tuple(Item(c.name, column_(n)) for c, n in zip(state.columns, state.tree.columns, strict=True))
        definition = compile_sql(Project(child=state.tree, items=items), PlainLeaves())
        shape = _shape(definition, state.tree)
        if shape not in self._shapes:
            how = self.plan(state.tree, state.columns)
            made = self.compiled(definition, state.columns, state.tree, how)
            name = self.name_of(definition, made.layout)
            self.kinds[name] = InputKind.STREAM_TABLE
            self.states.append(StateTable(name, made))
            self._shapes[shape] = name
        return self._shapes[shape]


def _adds_decimals(root: Operator, types: Mapping[str, str]) -> bool:
    """Whether a state would be a sum of decimals, which follows the rules that Spark's decimals have by default."""
    calls = (c for op in root.walk() if isinstance(op, Aggregate) for c in op.calls)
    return any(
        facts_of(c.function).form in (Form.SUM, Form.AVERAGE) and decimal(types.get(f"{c.name}__arg", ""))
        for c in calls
    )


def _approximate(whole: Operator, columns: tuple[Column, ...], found: Openness) -> dict[str, Comparison]:
    inexact = ((c.name, found.columns.get(n)) for c, n in zip(columns, whole.columns, strict=True))
    return {name: how for name, how in inexact if how is Comparison.APPROXIMATE}


_INEXACT = (Comparison.APPROXIMATE, Comparison.ZERO)


def _fitting(columns: tuple[Column, ...], compare: Mapping[str, Comparison]) -> dict[str, Comparison]:
    """A text, an array or a truth value that was made of an inexact float is open: it has no relative error."""
    types = {c.name: c.type for c in columns}
    return {
        name: Comparison.OPEN if how in _INEXACT and types[name] not in ("double", "float") else how
        for name, how in compare.items()
    }


_QUOTED = re.compile(r"('(?:\\.|''|[^'\\])*')|(\.?)`((?:[^`]|``)*)`", re.DOTALL)


def _shape(definition: str, tree: Operator) -> object:
    """Equal for parts that differ only in the names `lower` gave to their columns."""
    given = {c for op in tree.walk() for c in op.columns}
    numbers: dict[str, int] = {}

    def rename(match: re.Match[str]) -> str:
        literal, dot, name = match[1], match[2], match[3]
        # After a dot comes a table or the field of a struct.
        if literal is not None or dot or name not in given:
            return match[0]
        return f"`\0{numbers.setdefault(name, len(numbers))}`"

    read = tuple((s.input, tuple(f.source for f in s.fields)) for s in scans(tree))
    return _QUOTED.sub(rename, definition), read


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


def _clock(analyzer: Analyzer, tables: LakeTables, text: str, namespace: str) -> str | None:
    """What makes the definition, or a view it may read, move with the time."""
    found = _first(follows_the_clock, tables, text, namespace)
    if found is not None:
        return found
    found = _first(time_of_day, tables, text, namespace)
    if found is None or not analyzer.date_is_added(text):
        return None
    return f"{found}, which gets the current date,"


def _first(look: Callable[[str], str | None], tables: LakeTables, text: str, namespace: str) -> str | None:
    """What `look` finds in the definition, or in a view it may read."""
    found = look(text)
    if found is not None:
        return found
    _, views = _mentioned_inputs(tables, text, namespace)
    for name in views:
        view = tables.find(name.parts, namespace)
        found = look(view.text) if isinstance(view, LakeView) else None
        if found is not None:
            return f"{found} in view {name}"
    return None


_RESERVED = frozenset(
    ["_file", "_pos", "_deleted", "_spec_id", "_partition", "_row_id", "_last_updated_sequence_number"]
)


def _check_columns(columns: tuple[Column, ...]) -> None:
    seen: set[str] = set()
    for column in columns:
        if column.name.lower() in seen:
            raise TrickleError("DUPLICATE_COLUMN", f"two output columns are called {column.name}")
        if column.name.lower() in _RESERVED or column.name.lower().startswith(HIDDEN_PREFIX):
            raise TrickleError(
                "INVALID_NAME",
                f"output column {column.name}: this name is kept for hidden columns, like all that start with "
                f"{HIDDEN_PREFIX}",
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
