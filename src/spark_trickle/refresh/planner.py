"""How the tree of a definition is maintained, and which parts of it become state tables."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

from spark_trickle.delta.aggregates import decimal
from spark_trickle.delta.plans.plan import Comparison, Plan
from spark_trickle.delta.root import plan_root
from spark_trickle.delta.states import Openness, StateTree, cut_states, openness
from spark_trickle.model import Column, InputKind, TableName
from spark_trickle.refresh.compiled import Compiled, Inputs, StateTable
from spark_trickle.spark.analyze import Analyzer
from spark_trickle.spark.compile import PlainLeaves, compile_sql
from spark_trickle.sql.aggregate_facts import Form, facts_of
from spark_trickle.sql.algebra import Aggregate, Item, Operator, Project
from spark_trickle.sql.scalar import column as column_
from spark_trickle.sql.trees import scans

# The name that a state table with this definition and layout has, or is to have.
NameOf = Callable[[str, str], TableName]


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
            fitting(columns, {**over_states, **from_states}),
            fitting(columns, over_states),
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


def approximate(whole: Operator, columns: tuple[Column, ...], found: Openness) -> dict[str, Comparison]:
    inexact = ((c.name, found.columns.get(n)) for c, n in zip(columns, whole.columns, strict=True))
    return {name: how for name, how in inexact if how is Comparison.APPROXIMATE}


_INEXACT = (Comparison.APPROXIMATE, Comparison.ZERO)


def fitting(columns: tuple[Column, ...], compare: Mapping[str, Comparison]) -> dict[str, Comparison]:
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


def _columns_read(root: Operator, kinds: Mapping[TableName, InputKind]) -> Inputs:
    read: dict[TableName, dict[str, None]] = {}
    for scan in scans(root):
        read.setdefault(scan.input, {}).update(dict.fromkeys(f.source for f in scan.fields))
    return {name: (kinds[name], tuple(columns)) for name, columns in read.items()}
