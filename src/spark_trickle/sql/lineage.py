"""Where the columns of a tree come from.

`origin` follows a column that is passed on unchanged. `lineage` follows all of them through every operator: directly,
to the columns that values are made of, and indirectly, to those that decide which rows there are (FILTER, JOIN,
GROUP_BY) or which value is taken (CONDITIONAL, WINDOW).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from sqlglot import exp

from spark_trickle.model import Lineage, Origin, Origins, TableName, Via, through
from spark_trickle.sql.aggregate_facts import AGGREGATES
from spark_trickle.sql.algebra import (
    Aggregate,
    Call,
    Constant,
    Distinct,
    Explode,
    Filter,
    Join,
    Level,
    Match,
    Matched,
    Operator,
    OuterJoin,
    Project,
    Recursion,
    Scan,
    Side,
    TopK,
    UnionAll,
    Window,
)
from spark_trickle.sql.scalar import Scalar


def origin(op: Operator, name: str) -> tuple[TableName, str] | None:
    """The table and its column that column `name` of a tree is, unchanged; None if it is computed."""
    if isinstance(op, Scan):
        return next(((op.input, f.source) for f in op.fields if f.name == name), None)
    if isinstance(op, Project | Aggregate):
        items = op.items if isinstance(op, Project) else op.keys
        below = next((i.scalar.bare for i in items if i.name == name), None)
        return None if below is None else origin(op.child, below)
    # A column keeps its name, which is unique in the tree, through all operators that pass it on.
    return next((origin(child, name) for child in op.children if name in child.columns), None)


def lineage(tree: Operator, names: Sequence[str]) -> Lineage:
    """Of a definition, whose columns are called `names`."""
    flow = _Flows().of(tree)
    return Lineage({n: flow.columns[c] for n, c in zip(names, tree.columns, strict=True)}, flow.rows)


_NONE: Origins = frozenset()
# Window functions that give a value of another row as it is; ranks have no arguments.
_PICKING = frozenset(["lag", "lead", "first_value", "last_value", "nth_value", "first", "last", "any_value"])


@dataclass(frozen=True, slots=True)
class _Flow:
    """Where the columns of a relation come from, and what decides which rows it has."""

    columns: Mapping[str, Origins]
    rows: Origins

    def all(self, names: Iterable[str], via: Via) -> Origins:
        return frozenset().union(*(through(via, self.columns[n]) for n in names))

    def value(self, scalar: Scalar) -> Origins:
        if scalar.bare is not None:
            return self.columns[scalar.bare]
        conditions = _conditions(scalar)
        return self.all(_values(scalar), Via.TRANSFORMATION) | self.all(conditions, Via.CONDITIONAL)


@dataclass(slots=True)
class _Flows:
    """One run: subtrees that are held in several places are followed once."""

    levels: dict[str, _Flow] = field(default_factory=dict)
    _known: dict[int, tuple[Operator, _Flow]] = field(default_factory=dict)

    def of(self, op: Operator) -> _Flow:
        if id(op) not in self._known:
            self._known[id(op)] = (op, self._of(op))
        return self._known[id(op)][1]

    def _of(self, op: Operator) -> _Flow:
        match op:
            case Scan():
                columns = {f.name: frozenset([Origin(op.input, f.source, Via.IDENTITY)]) for f in op.fields}
                return _Flow(columns, frozenset([Origin(op.input, "", Via.ROWS)]))
            case Constant():
                return _Flow(dict.fromkeys(op.names, _NONE), _NONE)
            case Level():
                flow = self.levels[op.level]
                return _Flow({f.name: flow.columns[f.source] for f in op.fields}, flow.rows)
            case Recursion():
                return self._recursion(op)
            case Filter():
                below = self.of(op.child)
                return _Flow(below.columns, below.rows | below.all(op.condition.columns, Via.FILTER))
            case Project():
                below = self.of(op.child)
                return _Flow({i.name: below.value(i.scalar) for i in op.items}, below.rows)
            case Distinct():
                below = self.of(op.child)
                return _Flow(below.columns, below.rows | below.all(op.columns, Via.GROUP_BY))
            case TopK():
                below = self.of(op.child)
                return _Flow(below.columns, below.rows | _all(below, op.order, Via.SORT))
            case Explode():
                below = self.of(op.child)
                made = dict.fromkeys(op.names, below.value(op.generator))
                rows = below.rows | below.all(op.generator.columns, Via.EXPLODE)
                return _Flow({**below.columns, **made}, rows)
            case Aggregate():
                return self._aggregate(op)
            case Window():
                below = self.of(op.child)
                keys = _all(below, (k.scalar for k in op.keys), Via.WINDOW)
                return _Flow({**below.columns, **{c.name: _window_call(below, c) | keys for c in op.calls}}, below.rows)
            case UnionAll():
                return _union([self.of(i) for i in op.inputs], op.names)
            case Join() | OuterJoin() | Matched():
                return self._joined(op)
        raise TypeError(f"{type(op).__name__} is not a part of a definition")

    def _recursion(self, op: Recursion) -> _Flow:
        """The least one that the step leaves as it is."""
        flow = self.of(op.base)
        inside = _Flows(self.levels | {op.level: flow})
        while True:
            grown = _union([flow, inside.of(op.step)], op.names)
            if grown == flow:
                return flow
            flow = grown
            inside = _Flows(self.levels | {op.level: flow})

    def _aggregate(self, op: Aggregate) -> _Flow:
        below = self.of(op.child)
        keys = {k.name: below.value(k.scalar) for k in op.keys}
        calls = {c.name: _aggregate_call(below, c) for c in op.calls}
        if not op.keys:  # one row, whatever there is below
            return _Flow({name: found | below.rows for name, found in calls.items()}, _NONE)
        rows = below.rows | _all(below, (k.scalar for k in op.keys), Via.GROUP_BY)
        return _Flow(keys | calls, rows)

    def _joined(self, op: Join | OuterJoin | Matched) -> _Flow:
        flows = [self.of(child) for child in op.children]
        both = _Flow({n: o for f in flows for n, o in f.columns.items()}, _NONE.union(*(f.rows for f in flows)))
        met = _NONE.union(*(both.all(c.columns, _met(op, c)) for c in op.conditions))
        left, right = flows[0], flows[-1]
        if isinstance(op, Matched):
            if op.kind is not Match.MARK:
                return _Flow(left.columns, both.rows | met)
            return _Flow({**left.columns, op.mark: right.rows | met}, left.rows)
        if isinstance(op, OuterJoin) and op.single and op.side is Side.LEFT:
            # The left rows stay as they are; what is beside them depends on the right.
            beside = {n: o | right.rows | met for n, o in right.columns.items()}
            return _Flow({**left.columns, **beside}, left.rows)
        return _Flow(both.columns, both.rows | met)


def _met(op: Join | OuterJoin | Matched, condition: Scalar) -> Via:
    """A condition on one input of an inner join is a filter, wherever it was written."""
    one = isinstance(op, Join) and any(condition.columns <= set(i.columns) for i in op.inputs)
    return Via.FILTER if one else Via.JOIN


def _union(flows: Sequence[_Flow], names: Sequence[str]) -> _Flow:
    columns = {n: _NONE.union(*(f.columns[n] for f in flows)) for n in names}
    return _Flow(columns, _NONE.union(*(f.rows for f in flows)))


def _all(flow: _Flow, scalars: Iterable[Scalar], via: Via) -> Origins:
    return _NONE.union(*(flow.all(s.columns, via) for s in scalars))


def _aggregate_call(below: _Flow, call: Call) -> Origins:
    filtered = _NONE if call.filter is None else below.all(call.filter.columns, Via.FILTER)
    heart = call.whole.tree.this if isinstance(call.whole.tree, exp.Filter) else call.whole.tree
    return below.all(_columns(heart), Via.AGGREGATION) | filtered


def _window_call(below: _Flow, call: Call) -> Origins:
    """The arguments give the value; the order, and a filter, say of which rows."""
    via = Via.TRANSFORMATION if call.function in _PICKING or call.function not in AGGREGATES else Via.AGGREGATION
    window = call.whole.tree
    values = frozenset[str]().union(*(a.columns for a in call.args))
    rest = frozenset[str]()
    if isinstance(window, exp.Window):
        beside = [window.args.get("order"), *(w.args.get("expression") for w in window.find_all(exp.Filter))]
        rest = frozenset().union(*(_columns(tree) for tree in beside if tree is not None))
    return below.all(values, via) | below.all(rest, Via.WINDOW)


def _columns(tree: exp.Expr) -> frozenset[str]:
    return Scalar(tree).columns


def _conditions(scalar: Scalar) -> frozenset[str]:
    """The columns in conditions of CASE and if()."""
    return frozenset().union(*(_columns(c) for c in _condition_trees(scalar.tree)))


def _values(scalar: Scalar) -> frozenset[str]:
    """The columns outside of them."""
    inside = {id(n) for c in _condition_trees(scalar.tree) for n in c.walk()}
    return frozenset(c.name for c in scalar.tree.find_all(exp.Column) if id(c) not in inside)


def _condition_trees(tree: exp.Expr) -> list[exp.Expr]:
    found = [part.this for part in tree.find_all(exp.If)]
    for call in tree.find_all(exp.Anonymous):
        if str(call.this).lower() in ("if", "iff", "nvl2") and call.expressions:
            found.append(call.expressions[0])
    found += [c.this for c in tree.find_all(exp.Case) if c.this is not None]
    return found
