"""The steps of a refresh for people: what the runner executes, as SQL.

Of a stream table that has a frontier the text is a script for any Spark session on the same catalog: the changes of the
inputs by comparing their snapshots, the stored rows from the definition at the frontier, a temporary view per step, and
at last the rows that enter and leave. It shows what a refresh does; it is not how it reads.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

from spark_trickle.delta.facts import Facts
from spark_trickle.delta.optimize import optimize
from spark_trickle.delta.steps import HASH, Compute, Repeat, Step, Write, copies, folded, hashed, names
from spark_trickle.model import Column, StreamTable, TableName
from spark_trickle.refresh.definition import Compiled
from spark_trickle.spark.compile import PlainLeaves, compile_sql
from spark_trickle.spark.names import quote, quote_table
from spark_trickle.spark.statement import PLACES
from spark_trickle.sql.algebra import (
    WEIGHT,
    AsOf,
    Changes,
    Empty,
    Item,
    Named,
    Operator,
    Project,
    Scan,
    ScanColumn,
    State,
    Stored,
    UnionAll,
    Weigh,
    keep,
)
from spark_trickle.sql.scalar import call, text
from spark_trickle.sql.trees import at

_LEVELS = 3


@dataclass(frozen=True, slots=True)
class Frontier:
    """An input as a script needs it."""

    columns: tuple[Column, ...]  # those that are read
    old: str  # how to read it at the frontier


Frontiers = Mapping[TableName, Frontier]


def steps_sql(compiled: Compiled, table: StreamTable | None = None, frontiers: Frontiers | None = None) -> str | None:
    """What a DIFFERENTIAL refresh does when every input changed, hidden state tables first.

    A script, if the table and the frontiers of all that it reads are given.
    """
    if compiled.plan is None:
        return None
    rows = {} if table is None else {t.name: t for t in table.states}
    hidden = {s.name for s in compiled.states}
    texts = []
    for name, part in (*((s.name, s.compiled) for s in compiled.states), (None, compiled)):
        row = table if name is None else rows.get(name)
        if row is None or frontiers is None:
            texts.append((name, [(t, compile_sql(tree, PlainLeaves())) for t, _, tree in _all_trees(part)]))
        else:
            leaves = ScriptLeaves(frontiers, hidden, row.name)
            texts.append((name, [*_inputs(part, leaves), *_script(part, row, leaves)]))
    return ";\n\n".join(
        ("" if name is None else f"-- hidden {name}\n\n") + ";\n\n".join(f"-- {title}\n{sql}" for title, sql in views)
        for name, views in texts
    )


def titled_trees(compiled: Compiled, changed: Collection[TableName]) -> Iterator[tuple[str, str, Operator]]:
    """(title, name, tree) of what a refresh computes when these inputs changed, as it is executed."""
    assert compiled.plan is not None
    facts = Facts(changed)
    for step in compiled.plan.steps(compiled.columns, facts):
        for title, name, tree in titled(step):
            slim = optimize(tree, facts)
            if not isinstance(slim, Empty):
                yield title, name, slim
            elif isinstance(step, Compute) and step.ends:
                return


def titled(step: Step) -> Iterator[tuple[str, str, Operator]]:
    """(title, name, tree) of what one step computes."""
    if isinstance(step, Compute):
        yield step.name + _condition(step), step.name, step.tree
    elif isinstance(step, Repeat):
        yield from _levels(step)
    elif isinstance(step, Write):
        yield "rows that enter and leave", "", step.change(removes=True)


def _levels(step: Repeat) -> Iterator[tuple[str, str, Operator]]:
    """The first levels: how many there are, depends on the data."""
    previous: str | None = None
    shown: list[Operator] = []
    for depth in range(_LEVELS):
        name = f"{step.name} {depth}"
        yield name, name, step.levels.level(depth, previous)
        shown.append(step.levels.shown(depth, name))
        previous = name
    union = UnionAll(inputs=tuple(shown), names=shown[0].columns)
    yield f"{step.name}, all of them; here the first {_LEVELS}", step.name, union


def _condition(step: Compute) -> str:
    if step.when is None:
        return "" if step.whole is None else " (where most groups are affected, all are computed)"
    return f", if {step.condition}" + (f"; else {step.otherwise}" if step.otherwise else "")


def _all_trees(compiled: Compiled) -> Iterator[tuple[str, str, Operator]]:
    return titled_trees(compiled, frozenset(compiled.inputs))


# -- scripts -----------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class ScriptLeaves(PlainLeaves):
    frontiers: Frontiers
    hidden: Collection[TableName]
    table: TableName

    def state(self, table: TableName, state: State) -> str:
        if state is State.OLD:
            return self.frontiers[table].old
        return quote(_now(table)) if table in self.hidden else quote_table(table)

    def stored(self) -> str:
        return quote(f"stored rows of {self.table}")


def _inputs(compiled: Compiled, leaves: ScriptLeaves) -> Iterator[tuple[str, str]]:
    """Views of the changes of what is read, and of what is stored."""
    assert compiled.plan is not None
    for name in compiled.inputs:
        if name not in leaves.hidden:  # what changed in a hidden state table is known from its own steps
            sql = compile_sql(_difference(name, leaves.frontiers[name].columns), leaves)
            yield f"changes of {name}", _view(leaves.changes(name), sql)
    listed = tuple(c for c in compiled.all_columns if c.name != HASH)
    rows = at(compiled.plan.full, State.OLD)
    if HASH in names(compiled.hidden):
        rows = hashed(rows, listed)
    place = (Item(PLACES[0], text("storage")), Item(PLACES[1], call("monotonically_increasing_id")))
    sql = compile_sql(Project(child=rows, items=(*keep(*rows.columns), *place)), leaves)
    yield f"stored rows of {leaves.table}", _view(leaves.stored(), sql)


def _script(compiled: Compiled, table: StreamTable, leaves: ScriptLeaves) -> Iterator[tuple[str, str]]:
    """A view per step."""
    for title, name, tree in _all_trees(compiled):
        sql = compile_sql(tree.transform(lambda op: _of_table(op, table)), leaves)
        yield title, _view(quote(_step(table, name)) if name else leaves.changes(table.name), sql)
    if table.owner_id is not None:  # whoever reads a hidden state table needs its new rows
        yield "its new rows", _view(quote(_now(table.name)), compile_sql(_new_rows(table), leaves))


def _of_table(op: Operator, table: StreamTable) -> Operator:
    return replace(op, view=_step(table, op.view)) if isinstance(op, Named) else op


def _step(table: StreamTable, name: str) -> str:
    """The steps of hidden state tables are views beside those of their owner."""
    return name if table.owner_id is None else f"{table.name.name} {name}"


def _view(name: str, sql: str) -> str:
    return f"CREATE OR REPLACE TEMPORARY VIEW {name} AS\n{sql}"


def _difference(name: TableName, columns: Sequence[Column]) -> Operator:
    """What changed in a table, by comparing all of its rows."""
    scan = Scan(input=name, fields=tuple(ScanColumn(c.name, c.name) for c in columns))
    new, old = (Weigh(child=AsOf(scan=scan, state=s), weight=w) for s, w in ((State.NEW, 1), (State.OLD, -1)))
    return _folded((new, old), columns)


def _now(table: TableName) -> str:
    return f"new rows of {table}"


def _new_rows(table: StreamTable) -> Operator:
    """What was stored, with its changes."""
    fields = tuple(ScanColumn(c.name, c.name) for c in table.columns)
    changes = Changes(scan=Scan(input=table.name, fields=fields))
    return copies(_folded((Weigh(child=Stored(fields=fields), weight=1), changes), table.columns), names(table.columns))


def _folded(parts: tuple[Operator, ...], columns: Sequence[Column]) -> Operator:
    listed = (*names(columns), WEIGHT)
    return Project(child=folded(UnionAll(inputs=parts, names=listed), columns), items=keep(*listed))
