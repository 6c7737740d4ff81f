"""Which parts of a definition are kept as hidden state tables, and what that means for comparing the result.

A stateful operator below the root can be cut out of the tree: it becomes a stream table of its own (hidden, owned by
the public one), and the tree reads that table's storage instead. Two kinds of cuts:
- *must*: two correct evaluations of the operator may differ (float sums, first, collect_list, ties). Below the root
  what is retracted must be what was emitted, so the emitted values are stored.
- *optional*: an aggregate or DISTINCT whose old and new state an operator above would otherwise compute from the
  sources again and again. The result is the same without them.

Only the outermost cuts are made here; a state table's own tree goes through the same function.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import singledispatch

from spark_trickle.delta.aggregates import algebraic, approximate, extremal, order_dependent
from spark_trickle.delta.plans.levels import is_linear
from spark_trickle.delta.plans.plan import Comparison
from spark_trickle.errors import NotIncremental
from spark_trickle.model import Column, TableName
from spark_trickle.sql.aggregate_facts import facts_of
from spark_trickle.sql.algebra import (
    Aggregate,
    Call,
    Distinct,
    Explode,
    Filter,
    Item,
    Join,
    Match,
    Matched,
    Operator,
    OuterJoin,
    Project,
    Recursion,
    Scan,
    ScanColumn,
    TopK,
    UnionAll,
    Window,
)
from spark_trickle.sql.scalar import Scalar, cast, column
from spark_trickle.sql.ties import open_calls, open_top

Types = Mapping[str, str]

# What `plan_root` maintains by keys when only projections and filters stand above it.
HEADS: tuple[type[Operator], ...] = (Aggregate, Distinct, Window, TopK, Recursion)

_UNSTORABLE = re.compile(r"\b(void|interval|collate)\b(?!:)", re.IGNORECASE)
# Iceberg has no such integers: they are stored as int and cast back when they are read.
_WIDENED = re.compile(r"\b(tinyint|smallint)\b(?!:)", re.IGNORECASE)


@dataclass(frozen=True, slots=True)
class StateTree:
    """A subtree to be kept; its columns are stored as c0, c1, …, in the order of the tree's."""

    tree: Operator
    columns: tuple[Column, ...]


Keep = Callable[[StateTree], TableName]
Typed = Callable[[Operator], tuple[Column, ...]]


def cut_states(root: Operator, types: Types, typed: Typed, keep: Keep, *, optional: bool = True) -> Operator:
    """The tree with its outermost stateful parts replaced by scans of state tables.

    `typed` gives the columns of an operator with their types; `keep` is called for every part that is cut and tells
    where it is stored. `optional=False` makes only the cuts that must be.
    """
    return _Cutter(types, typed, keep, optional).below(root, _Above())


@dataclass(frozen=True, slots=True)
class _Above:
    """What stands above an operator."""

    only_shape: bool = True  # nothing but projections and filters: the root plan may handle the operator itself
    filtered: bool = False
    stateful: bool = False  # something that reads the operator's old and new state

    def then(self, op: Operator) -> _Above:
        return _Above(
            only_shape=self.only_shape and isinstance(op, Project | Filter),
            filtered=self.filtered or isinstance(op, Filter),
            stateful=self.stateful or op.stateful,
        )


@dataclass(frozen=True, slots=True)
class _Cutter:
    types: Types
    typed: Typed
    keep: Keep
    optional: bool

    def cut(self, op: Operator, above: _Above) -> Operator:
        if self._stored(op, above):
            return stored_scan(op, columns := self._columns(op), self.keep(StateTree(op, columns)))
        return self.below(op, above)

    def below(self, op: Operator, above: _Above) -> Operator:
        """The operator itself stays, whatever it is: a state table's tree is not cut at its own root."""
        children = tuple(self.cut(c, above.then(op)) for c in op.children)
        same = all(a is b for a, b in zip(children, op.children, strict=True))
        return op if same else op.with_children(children)

    def _stored(self, op: Operator, above: _Above) -> bool:
        if not op.columns or not _closed(op):
            return False
        if isinstance(op, Recursion) and is_linear(op):
            wanted = True  # kept level by level, which only a table of its own can
        elif above.only_shape and isinstance(op, HEADS):
            # Groups that HAVING rejects have no place in the public storage; in a state table they have.
            wanted = self.optional and above.filtered and isinstance(op, Aggregate) and _algebraic(op, self.types)
        else:
            if must_store(op, self.types):
                unfit = [c for c in self._columns(op) if _UNSTORABLE.search(c.type)]
                if unfit:
                    raise NotIncremental(
                        "ORDER_DEPENDENT",
                        f"{op.label} below the top of the query depends on the order of rows and needs a stored "
                        f"state, but a value of type {unfit[0].type} cannot be stored",
                    )
                return True
            wanted = self.optional and above.stateful and worth_storing(op, self.types)
        return wanted and not any(_UNSTORABLE.search(c.type) for c in self._columns(op))

    def _columns(self, op: Operator) -> tuple[Column, ...]:
        return tuple(Column(f"c{n}", c.type) for n, c in enumerate(self.typed(op)))


@singledispatch
def must_store(op: Operator, types: Types) -> bool:  # noqa: ARG001
    """Whether two correct evaluations of the operator, over equal inputs, may differ."""
    return False


@must_store.register
def _(op: Aggregate, types: Types) -> bool:
    return any(order_dependent(c, types) for c in op.calls)


@must_store.register
def _(op: Window, types: Types) -> bool:
    return bool(open_calls(op)) or any(order_dependent(c, types) for c in op.calls)


@must_store.register
def _(op: TopK, types: Types) -> bool:  # noqa: ARG001
    return open_top(op)


@singledispatch
def worth_storing(op: Operator, types: Types) -> bool:  # noqa: ARG001
    """Whether an operator below another stateful one is cheaper to keep than to compute from its inputs."""
    return False


@worth_storing.register
def _(op: Distinct, types: Types) -> bool:  # noqa: ARG001
    return True


@worth_storing.register
def _(op: Aggregate, types: Types) -> bool:
    # Without keys there is one row: it pays only if no refresh has to look at all rows for it.
    return bool(op.keys) or _algebraic(op, types)


def _algebraic(op: Operator, types: Types) -> bool:
    return not isinstance(op, Aggregate) or all(algebraic(c, types, "") is not None for c in op.calls)


def _closed(op: Operator) -> bool:
    """Whether the subtree stands alone: it reads tables, and no leaf whose meaning is given further up."""
    leaves = [x for x in op.walk() if not x.children]
    # A recursion and the leaves of its own step carry the same `level`.
    given = {getattr(x, "level", None) for x in op.walk() if x.children}
    return any(isinstance(x, Scan) for x in leaves) and all(getattr(x, "level", None) in {None, *given} for x in leaves)


def stored_scan(op: Operator, columns: tuple[Column, ...], storage: TableName) -> Operator:
    """The operator's columns, read from where they are stored."""
    fields, items, exact = [], [], True
    for name, stored in zip(op.columns, columns, strict=True):
        if _WIDENED.search(stored.type):
            exact = False
            fields.append(ScanColumn(stored.name, f"{name}__stored"))
            items.append(Item(name, cast(column(f"{name}__stored"), stored.type)))
        else:
            fields.append(ScanColumn(stored.name, name))
            items.append(Item(name, column(name)))
    scan = Scan(input=storage, fields=tuple(fields))
    return scan if exact else Project(child=scan, items=tuple(items))


# -- comparing a result that depends on stored values ------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Openness:
    """How far a definition alone decides its result.

    `columns` lists the columns that are not exact. `rows`: whether an inexact value decides which rows there are (a
    filter, a join condition, a group key over it); then only the stored states can tell.
    """

    columns: Mapping[str, Comparison] = field(default_factory=dict)
    rows: bool = False

    def of(self, scalar: Scalar) -> Comparison:
        """How a value computed from these columns is compared."""
        if scalar.bare is not None:
            return self.columns.get(scalar.bare, Comparison.EXACT)
        used = {self.columns[c] for c in scalar.columns if c in self.columns}
        if not used:
            return Comparison.EXACT
        if used == {Comparison.ZERO}:
            return Comparison.ZERO
        return Comparison.APPROXIMATE if used <= {Comparison.APPROXIMATE, Comparison.ZERO} else Comparison.OPEN

    def touches(self, *scalars: Scalar) -> bool:
        return any(s.columns & self.columns.keys() for s in scalars)


Stored = Mapping[TableName, Mapping[str, Comparison]]  # of state tables: stored column -> how it is compared


@singledispatch
def openness(op: Operator, stored: Stored, types: Types) -> Openness:
    """What inexact stored values do to the result of a tree.

    An operator without a rule of its own may do anything with a value: if one of its inputs has an inexact column,
    its rows are open.
    """
    below = [openness(c, stored, types) for c in op.children]
    columns = {n: c for b in below for n, c in b.columns.items() if n in op.columns}
    return Openness(columns, any(b.rows or b.columns for b in below))


@openness.register
def _(op: Scan, stored: Stored, types: Types) -> Openness:  # noqa: ARG001
    known = stored.get(op.input, {})
    return Openness({f.name: known[f.source] for f in op.fields if f.source in known})


@openness.register
def _(op: Filter, stored: Stored, types: Types) -> Openness:
    below = openness(op.child, stored, types)
    return Openness(below.columns, below.rows or below.touches(op.condition))


@openness.register
def _(op: Project, stored: Stored, types: Types) -> Openness:
    below = openness(op.child, stored, types)
    found = {i.name: below.of(i.scalar) for i in op.items}
    return Openness({n: c for n, c in found.items() if c is not Comparison.EXACT}, below.rows)


@openness.register
def _(op: Join, stored: Stored, types: Types) -> Openness:
    below = [openness(i, stored, types) for i in op.inputs]
    all_ = Openness({n: c for b in below for n, c in b.columns.items()}, any(b.rows for b in below))
    return Openness(all_.columns, all_.rows or all_.touches(*op.conditions))


@openness.register
def _(op: OuterJoin, stored: Stored, types: Types) -> Openness:
    left, right = openness(op.left, stored, types), openness(op.right, stored, types)
    both = Openness({**left.columns, **right.columns}, left.rows or right.rows)
    return Openness(both.columns, both.rows or both.touches(*op.conditions))


@openness.register
def _(op: Matched, stored: Stored, types: Types) -> Openness:
    child, by = openness(op.child, stored, types), openness(op.by, stored, types)
    decides = Openness({**child.columns, **by.columns}).touches(*op.conditions) or by.rows
    if op.kind is Match.MARK and decides:
        return Openness({**child.columns, op.mark: Comparison.OPEN}, child.rows)
    return Openness(child.columns, child.rows or decides)


@openness.register
def _(op: Explode, stored: Stored, types: Types) -> Openness:
    below = openness(op.child, stored, types)
    return Openness(below.columns, below.rows or below.touches(op.generator))


@openness.register
def _(op: Window, stored: Stored, types: Types) -> Openness:
    below = openness(op.child, stored, types)
    moved = below.touches(*(k.scalar for k in op.keys))
    calls = {c.name: Comparison.OPEN for c in op.calls if moved or below.touches(c.whole)}
    return Openness({**below.columns, **calls}, below.rows)


@openness.register
def _(op: UnionAll, stored: Stored, types: Types) -> Openness:
    below = [openness(i, stored, types) for i in op.inputs]
    columns: dict[str, Comparison] = {}
    for name in op.names:
        found = {b.columns.get(name, Comparison.EXACT) for b in below} - {Comparison.EXACT}
        if found:
            columns[name] = found.pop() if len(found) == 1 else Comparison.OPEN
    return Openness(columns, any(b.rows for b in below))


@openness.register
def _(op: Distinct, stored: Stored, types: Types) -> Openness:
    below = openness(op.child, stored, types)
    return Openness(below.columns, below.rows or bool(below.columns))


@openness.register
def _(op: Aggregate, stored: Stored, types: Types) -> Openness:
    below = openness(op.child, stored, types)
    columns = {k.name: below.of(k.scalar) for k in op.keys} | {c.name: _result(c, below, types) for c in op.calls}
    rows = below.rows or below.touches(*(k.scalar for k in op.keys))
    return Openness({n: c for n, c in columns.items() if c is not Comparison.EXACT}, rows)


def _result(one: Call, below: Openness, types: Types) -> Comparison:
    inputs = below.of(one.whole) if below.touches(one.whole) else Comparison.EXACT
    if inputs is Comparison.EXACT:
        return own_comparison(one, types)
    if one.filter is not None and below.touches(one.filter):
        return Comparison.OPEN
    smooth = inputs in (Comparison.APPROXIMATE, Comparison.ZERO) and facts_of(one.function).smooth
    if smooth and not one.distinct and types.get(one.name) in ("double", "float"):
        return Comparison.APPROXIMATE
    return Comparison.OPEN


def own_comparison(one: Call, types: Types) -> Comparison:
    """How an aggregate call over exact values is compared."""
    facts = facts_of(one.function)
    if facts.bag:
        return Comparison.BAG
    if facts.undetermined:
        return Comparison.OPEN
    if extremal(one, types):
        return Comparison.ZERO
    return Comparison.APPROXIMATE if approximate(one, types) else Comparison.EXACT
