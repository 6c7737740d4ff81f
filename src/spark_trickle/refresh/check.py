"""Say before creation how a query would be maintained, or why it would not be. Nothing is created, no job is run."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import replace

from spark_trickle.delta.differentiate import differentiate
from spark_trickle.delta.maintained import maintained
from spark_trickle.delta.plans.plan import Comparison, Plan
from spark_trickle.errors import NotIncremental, Reason, TrickleError
from spark_trickle.lake.attempt import Attempt
from spark_trickle.model import LAKE, InputKind, Pointer, StreamTable, TableName
from spark_trickle.refresh.as_written import notices
from spark_trickle.refresh.definition import Compiled, Definition, LakeTables, StateTable
from spark_trickle.refresh.run import Refresher
from spark_trickle.refresh.step_texts import steps_sql, titled_trees
from spark_trickle.results import Check, CheckedInput, CheckedOperator, Obstacle
from spark_trickle.spark.analyze import Analyzer
from spark_trickle.sql.algebra import AsOf, Filter, Operator, Project, Scan
from spark_trickle.sql.lower import lower
from spark_trickle.sql.mentions import chains, without_catalog
from spark_trickle.sql.parse import at_offset, mark
from spark_trickle.sql.prune import prune
from spark_trickle.sql.reasons import reason_of

# The stream table that would be: no name a user can give.
_CHECKED = "checked query"

_OPEN = {
    Comparison.APPROXIMATE: "is a sum of floats, whose last bits depend on the order of rows",
    Comparison.BAG: "is an array whose order SQL leaves open (UNDETERMINED)",
    Comparison.OPEN: "has a value that SQL leaves open (UNDETERMINED)",
}


def check_query(refresher: Refresher, query: str, namespace: str) -> Check:
    """`query` with its places kept: leading blanks and comments stay."""
    known = {t.name: t for t in refresher.store.stream_tables()}
    cut = refresher.cut()
    with refresher.attempts.begin({}, namespace) as attempt:
        checked = Definition(TableName(namespace, _CHECKED), query, namespace, refresher.attempts.own_settings)
        compiled = refresher.compiler.compile(attempt, checked, cut.pointers, known)
        if compiled.plan is not None and compiled.root is not None:
            operators = tuple(_operators(compiled))
        else:
            operators = _as_far_as_read(refresher, attempt, query, namespace, known)
        inputs = _inputs(refresher, attempt, compiled, cut.pointers)
    said = [*notices(compiled, refresher.settings)]
    said += [f"column {c}: it {_OPEN[how]}" for c, how in compiled.compare.items() if how in _OPEN]
    return Check(
        query=query,
        incremental=compiled.incremental,
        obstacle=None if compiled.reason is None else obstacle(query, compiled.reason),
        columns=compiled.columns,
        identity=compiled.plan.identity if compiled.plan else "the whole row",
        operators=operators,
        inputs=inputs,
        views=tuple(map(str, compiled.views)),
        notices=tuple(said),
        delta_sql=steps_sql(compiled),
    )


# -- why not -----------------------------------------------------------------------------------------------------------


def obstacle(query: str, reason: Reason) -> Obstacle:
    """A reason, explained. Its place counts in the text without the catalog's name."""
    explained = reason_of(reason.code)
    plain = Obstacle(reason.code, explained.word, reason.message, explained.meaning, explained.change)
    if not reason.place:
        return plain
    start = _written_at(query, *_numbers(reason.place))
    line, column = _numbers(at_offset(query, start))
    word = re.match(r"\w+|.", query[start:])
    marked = mark(query, start, start + len(word[0]) if word else start + 1)
    return replace(plain, line=line, column=column, shown=marked)


def _numbers(place: str) -> tuple[int, int]:
    """Of `line 2, column 6`."""
    line, column = map(int, re.findall(r"\d+", place))
    return line, column


def _written_at(query: str, line: int, column: int) -> int:
    """The offset in the query as written of a place in the query without `lake.` before its tables."""
    cut = without_catalog(query, LAKE)
    before = cut.splitlines(keepends=True)[: line - 1]
    offset = sum(map(len, before)) + column - 1
    for parts, start, _ in chains(query):
        if len(parts) > 2 and parts[0].lower() == LAKE and start <= offset:
            offset += query.index(".", start) + 1 - start
    return min(offset, max(len(query) - 1, 0))


def _as_far_as_read(
    refresher: Refresher, attempt: Attempt, query: str, namespace: str, known: Mapping[TableName, StreamTable]
) -> tuple[CheckedOperator, ...]:
    """The operators of a refused query where it has a tree, those without a rule named."""
    tables = LakeTables(refresher.lake, attempt.pointers, known)
    try:
        analyzer = Analyzer(attempt.session, attempt.functions.known())
        root = prune(lower(without_catalog(query, LAKE), tables, analyzer, namespace).root)
    except (TrickleError, ValueError, IndexError, KeyError, AttributeError, AssertionError):
        return ()  # refused before there was a tree

    def visit(op: Operator, depth: int) -> Iterator[CheckedOperator]:
        try:
            differentiate(op)
            found = maintained(op, None)
            yield CheckedOperator(depth, op.label, found.how, found.cost)
        except NotIncremental as refusal:
            here = not any(_refused(c) for c in op.children)
            yield CheckedOperator(depth, op.label, refusal.message if here else "above a part without a rule", "")
        for child in op.children:
            yield from visit(child, depth + 1)

    return tuple(visit(root, 0))


def _refused(op: Operator) -> bool:
    try:
        differentiate(op)
    except NotIncremental:
        return True
    return False


# -- how ---------------------------------------------------------------------------------------------------------------


def _operators(compiled: Compiled) -> Iterator[CheckedOperator]:
    """The tree, with the tree of each hidden state table below the place that reads it first."""
    assert compiled.root is not None
    numbers: dict[TableName, int] = {}
    states = {s.name: s for s in compiled.states}
    yield from _visit(compiled.root, 0, compiled.plan, states, numbers)


def _visit(
    op: Operator, depth: int, plan: Plan | None, states: Mapping[TableName, StateTable], numbers: dict[TableName, int]
) -> Iterator[CheckedOperator]:
    state = states.get(op.input) if isinstance(op, Scan) else None
    if state is not None:
        seen = state.name in numbers
        number = numbers.setdefault(state.name, len(numbers) + 1)
        how = "computed once, read again here" if seen else "kept as a hidden table: what is below is its content"
        yield CheckedOperator(depth, f"State table {number}", how, "follows its own changes")
        if not seen and state.compiled.root is not None:
            yield from _visit(state.compiled.root, depth + 1, state.compiled.plan, states, numbers)
        return
    found = maintained(op, plan)
    yield CheckedOperator(depth, op.label, found.how, found.cost)
    for child in op.children:
        yield from _visit(child, depth + 1, plan if isinstance(op, Project | Filter) else None, states, numbers)


# -- what is read ------------------------------------------------------------------------------------------------------


def _inputs(
    refresher: Refresher,
    attempt: Attempt,
    compiled: Compiled,
    pointers: Mapping[TableName, Pointer],
) -> tuple[CheckedInput, ...]:
    hidden = {s.name for s in compiled.states}
    found = []
    for name, (kind, columns) in compiled.reads.items():
        also = tuple(sorted(str(t) for t in _also_read(compiled, name) - hidden))
        rows = _rows(refresher, attempt, pointers[name]) if name in pointers else None
        found.append(CheckedInput(str(name), kind, columns, rows, also))
    return tuple(sorted(found, key=lambda i: (i.kind is not InputKind.SOURCE, i.name)))


def _rows(refresher: Refresher, attempt: Attempt, pointer: Pointer) -> int | None:
    snapshot = refresher.lake.facts(pointer.location).snapshot_id
    return 0 if snapshot is None else refresher.lake.rows(attempt.session, pointer.location, snapshot)


def _also_read(compiled: Compiled, changed: TableName) -> set[TableName]:
    """The tables whose content a refresh looks at when `changed` alone changed."""
    moved, read = {changed}, set()
    for state, one in (*((s.name, s.compiled) for s in compiled.states), (None, compiled)):
        touched = False
        for tree in _delta_trees(one, moved):
            touched = True
            read |= {op.scan.input for op in tree.walk() if isinstance(op, AsOf)}
        if touched and state is not None:
            moved.add(state)
    return read


def _delta_trees(compiled: Compiled, changed: set[TableName]) -> Iterator[Operator]:
    """What a refresh computes; nothing when no input changed."""
    if compiled.plan is not None and not changed.isdisjoint(compiled.inputs):
        for _, _, tree in titled_trees(compiled, changed):
            yield tree
