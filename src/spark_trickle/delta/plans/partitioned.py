"""Rows kept by their partition: window functions, ORDER BY … LIMIT, a recursion, under projections and filters.

The stored rows of the affected partitions are compared with their rows recomputed from the new state. Nothing has to
be known of the old state, so it does not matter how ties fell. Without keys all rows are one partition.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from spark_trickle.delta.aggregates import approximate, extremal, order_dependent
from spark_trickle.delta.differentiate import differentiate
from spark_trickle.delta.facts import Facts
from spark_trickle.delta.plans.plan import Comparison, Key, Types
from spark_trickle.delta.plans.rows import against_stored, compare_all
from spark_trickle.delta.rules.aggregate import affected_keys, key_items
from spark_trickle.delta.rules.recursion import any_change
from spark_trickle.delta.steps import AFFECTED, HASH, Compute, Step, any_row, change_rows, plain_call
from spark_trickle.model import Column
from spark_trickle.sql.algebra import (
    Aggregate,
    Distinct,
    Filter,
    Item,
    Named,
    Operator,
    Project,
    Recursion,
    Restrict,
    ScanColumn,
    State,
    Stored,
    TopK,
    UnionAll,
    Window,
    keep,
)
from spark_trickle.sql.scalar import (
    Scalar,
    boolean,
    call,
    column,
    conjunction,
    either,
    greater,
    less,
    negate,
    number,
    rank,
)
from spark_trickle.sql.ties import open_calls, open_top, order_columns
from spark_trickle.sql.trees import at

ORDER = "order of the change"
_STORED, _RANK, _THERE, _REACHED = "_t_stored", "_t_rank", "_t_there", "_t_reached"


@dataclass(frozen=True, slots=True)
class Partitioned:
    node: Window | TopK | Recursion
    condition: Scalar | None  # filters above, over the node's columns
    items: tuple[Item, ...]  # public columns over the node's columns
    keys: tuple[Key, ...]
    order: tuple[Key, ...] = ()  # of the top rows, where storage can tell whether a change reaches them

    @property
    def kind(self) -> str:
        return "partitions"

    @property
    def identity(self) -> str:
        if not self.keys:
            return "the whole row, all rows compared"
        return "the whole row within partition " + ", ".join(k.stored for k in self.keys)

    @property
    def hidden_keys(self) -> tuple[Column, ...]:
        public = {i.name for i in self.items}
        return tuple(Column(k.stored, k.type) for k in (*self.keys, *self.order) if k.stored not in public)

    @property
    def hidden(self) -> tuple[Column, ...]:
        return (*self.hidden_keys, Column(HASH, "bigint"))

    @property
    def full(self) -> Operator:
        return self._shaped(self.node)

    def compare(self, types: Types) -> dict[str, Comparison]:
        """Columns that depend on how ties fell are open; if a filter does, so is all but what is ordered by."""
        node = self.node
        if isinstance(node, Recursion):
            return {}
        opens: frozenset[str] = frozenset()
        if isinstance(node, Window):
            opens = open_calls(node)
            picked = self.condition is not None and bool(self.condition.columns & opens)
        else:
            picked = open_top(node)
        settled = order_columns(node)
        calls = node.calls if isinstance(node, Window) else ()
        floats = {c.name for c in calls if approximate(c, types)}
        zeros = {c.name for c in calls if extremal(c, types)}
        result = {}
        for item in self.items:
            used = item.scalar.columns
            if used & opens or (picked and not used <= settled):
                result[item.name] = Comparison.OPEN
            elif used & floats:
                result[item.name] = Comparison.APPROXIMATE
            elif used & zeros:
                result[item.name] = Comparison.ZERO
        return result

    def picks_by_order(self, types: Types) -> bool:
        calls = self.node.calls if isinstance(self.node, Window) else ()
        by_order = {c.name for c in calls if order_dependent(c, types)}
        return self.condition is not None and bool(self.condition.columns & by_order)

    # -- steps -------------------------------------------------------------------------------------------------------

    def steps(self, columns: Sequence[Column], facts: Facts) -> tuple[Step, ...]:  # noqa: ARG002
        whole = (*columns, *self.hidden_keys)
        affected = Named(view=AFFECTED, names=tuple(k.affected for k in self.keys))
        there: Operator = Stored(fields=tuple(ScanColumn(c.name, c.name) for c in whole))
        if self.keys:
            items = tuple(Item(k.affected, column(k.stored)) for k in self.keys)
            there = Restrict(child=there, keys=items, by=affected)
        delta = against_stored(self._recomputed(affected), there, whole)
        return (*self._affected(), *change_rows(delta, whole))

    def careful(self, columns: Sequence[Column]) -> tuple[tuple[Step, ...], ...]:
        return (compare_all(self.full, (*columns, *self.hidden_keys)),)

    def _affected(self) -> tuple[Step, ...]:
        """The keys of the affected partitions; where all rows are one partition, a row if it is affected."""
        if isinstance(self.node, Recursion):
            return (Compute(AFFECTED, any_row(any_change(self.node)), ends=True),)
        if isinstance(self.node, Window) and self.keys:
            return (Compute(AFFECTED, affected_keys(self.node), ends=True),)
        change = differentiate(self.node.child)
        if not self.order:
            return (Compute(AFFECTED, any_row(change), ends=True),)
        placed = Project(child=change, items=tuple(Item(k.stored, column(k.name)) for k in self.order))
        return (
            Compute(ORDER, Distinct(child=placed), ends=True),
            Compute(AFFECTED, self._top_reached(), ends=True),
        )

    def _top_reached(self) -> Operator:
        """A row unless every changed row stands after the last of the stored top rows: then the top stays."""
        assert isinstance(self.node, TopK)
        assert self.node.limit is not None
        listed = tuple(k.stored for k in self.order)
        kept = Stored(fields=tuple(ScanColumn(n, n) for n in listed))
        sides = ((kept, True), (Named(view=ORDER, names=listed), False))
        told = tuple(Project(child=op, items=(*keep(*listed), Item(_STORED, boolean(is_it)))) for op, is_it in sides)
        both = UnionAll(inputs=told, names=(*listed, _STORED))
        by = {k.name: column(k.stored) for k in self.order}
        order = tuple(s.substitute(by) for s in self.node.order)
        ranked = Window(child=both, keys=(), calls=(plain_call(_RANK, rank(order)),))
        limit = number(self.node.limit)
        within = conjunction((negate(column(_STORED)), negate(greater(column(_RANK), limit))))
        assert within is not None
        counted = Aggregate(
            child=ranked,
            keys=(),
            calls=(
                plain_call(_THERE, call("count_if", column(_STORED))),
                plain_call(_REACHED, call("count_if", within)),
            ),
        )
        reached = either(less(column(_THERE), limit), greater(column(_REACHED), number(0)))
        return Project(child=Filter(child=counted, condition=reached), items=())

    def _recomputed(self, affected: Named) -> Operator:
        """The storage columns of the affected partitions, from the new state."""
        if isinstance(self.node, Window) and self.keys:
            child = Restrict(child=at(self.node.child, State.NEW), keys=key_items(self.node), by=affected)
            return self._shaped(replace(self.node, child=child))
        return self._shaped(at(self.node, State.NEW))

    def _shaped(self, node: Operator) -> Operator:
        below = node if self.condition is None else Filter(child=node, condition=self.condition)
        public = {i.name for i in self.items}
        scalars = {k.name: k.scalar for k in self.node.keys} if isinstance(self.node, Window) else {}
        kept = (*self.keys, *self.order)
        hidden = tuple(Item(k.stored, scalars.get(k.name, column(k.name))) for k in kept if k.stored not in public)
        return Project(child=below, items=(*self.items, *hidden))
