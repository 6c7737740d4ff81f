"""How a stream table is kept: its identity, the columns of its storage, and what a refresh computes.

At the root the old output is the stream table's own storage, so an aggregate there needs no old input state:
- *Keyed* (an aggregate or DISTINCT under projections and HAVING): rows are identified by their group keys. Where every
  call is algebraic, the delta is added to hidden state columns and no input is read at all; otherwise the affected
  groups are recomputed from the new state.
- *Partitioned* (window functions, ORDER BY … LIMIT, a recursion under projections and filters): the stored rows of the
  affected partitions are compared with their rows recomputed from the new state. Nothing has to be known of the
  old state, so it does not matter how ties fell.
- *Rows* (everything else): a row is identified by all of its columns; the delta's weights say how many copies come
  and go.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from enum import StrEnum

from spark_trickle.delta.aggregates import (
    Algebraic,
    Merge,
    StateColumn,
    algebraic,
    approximate,
    extremal,
    group_count,
    order_dependent,
)
from spark_trickle.delta.differentiate import differentiate
from spark_trickle.delta.levels import Levels, is_linear
from spark_trickle.delta.rules.aggregate import affected_keys, key_items, limited
from spark_trickle.delta.rules.distinct import as_aggregate
from spark_trickle.delta.rules.recursion import any_change
from spark_trickle.errors import NotIncremental
from spark_trickle.model import HIDDEN_PREFIX, Column
from spark_trickle.sql.aggregate_facts import UNDETERMINED, UNORDERED_BAG
from spark_trickle.sql.algebra import (
    WEIGHT,
    Aggregate,
    Call,
    Distinct,
    Filter,
    Item,
    Named,
    Operator,
    Project,
    Recursion,
    Restrict,
    State,
    TopK,
    Window,
    at,
    keep,
)
from spark_trickle.sql.scalar import Scalar, call, case_when, cast, column, conjunction, greater, less, number
from spark_trickle.sql.ties import open_calls, open_top, order_columns

HASH = f"{HIDDEN_PREFIX}hash"
COUNT = f"{HIDDEN_PREFIX}count"


class Comparison(StrEnum):
    """How a column is compared with its definition."""

    EXACT = "exact"
    APPROXIMATE = "approximate"  # order-dependent floats: relative error 1e-9
    ZERO = "zero"  # exact, but a zero may have either sign
    BAG = "bag"  # an array whose order SQL leaves open
    OPEN = "open"  # SQL leaves the value open


@dataclass(frozen=True, slots=True)
class Rows:
    """Whole-row identity."""

    full: Operator  # columns = public names
    delta: Operator  # the same, weighted

    @property
    def identity(self) -> str:
        return "the whole row"

    @property
    def hidden(self) -> tuple[Column, ...]:
        return (Column(HASH, "bigint"),)


@dataclass(frozen=True, slots=True)
class Key:
    name: str  # in the tree
    stored: str  # in storage
    type: str


@dataclass(frozen=True, slots=True)
class Keyed:
    """Identity by group keys."""

    aggregate: Aggregate
    condition: Scalar | None  # HAVING and filters above, over the aggregate's columns
    items: tuple[Item, ...]  # public columns over the aggregate's columns
    keys: tuple[Key, ...]
    algebra: tuple[Algebraic, ...] | None  # None: recompute affected groups
    count: StateColumn

    @property
    def identity(self) -> str:
        return "group keys " + ", ".join(k.stored for k in self.keys) if self.keys else "one row"

    @property
    def states(self) -> tuple[StateColumn, ...]:
        if self.algebra is None:
            return ()
        return (self.count, *(s for a in self.algebra for s in a.states))

    @property
    def extrema(self) -> tuple[StateColumn, ...]:
        return tuple(s for s in self.states if s.merge is not Merge.ADD)

    @property
    def unsafe(self) -> tuple[Scalar, ...]:
        """Conditions over the states under which a group is recomputed."""
        return tuple(a.unsafe for a in self.algebra or () if a.unsafe is not None)

    @property
    def hidden(self) -> tuple[Column, ...]:
        public = {i.name for i in self.items}
        keys = tuple(Column(k.stored, k.type) for k in self.keys if k.stored not in public)
        return (*keys, *(Column(s.name, s.type) for s in self.states))

    @property
    def full(self) -> Operator:
        return self.content(self.aggregate.child)

    def content(self, child: Operator) -> Operator:
        """The storage columns of the groups of `child`: public ones, hidden keys and states."""
        return self._shaped(self._counted(child))

    def affected(self) -> Operator:
        """The keys of the groups that changed; without keys, the change itself."""
        return affected_keys(self.aggregate) if self.keys else differentiate(self.aggregate.child)

    def recomputed(self, affected: Named) -> Operator:
        """The storage columns of the affected groups, from the new state."""
        aggregate = self._counted(at(self.aggregate.child, State.NEW))
        return self._shaped(limited(aggregate, aggregate.child, affected))

    def change(self) -> Operator:
        """What the delta adds to the states of each group.

        With extrema in two steps: first per group and value, so that an update which leaves the value alone cancels
        out and does not look like the loss of an extremum.
        """
        delta = differentiate(self.aggregate.child)
        sums = [s for s in self.states if s.merge is Merge.ADD]
        added = tuple(_state_call(s.name, s.delta) for s in sums)
        if not self.extrema:
            return Aggregate(child=delta, keys=self.aggregate.keys, calls=added)
        values = tuple(Item(f"{s.name}_value", s.value) for s in self.extrema if s.value is not None)
        weight = _state_call(WEIGHT, call("sum", column(WEIGHT)))
        inner = Aggregate(child=delta, keys=(*self.aggregate.keys, *values), calls=(*added, weight))
        # Without keys there is a row even if nothing is left of the change.
        outer = [
            _state_call(s.name, cast(call("coalesce", call("sum", column(s.name)), number(0)), s.delta_type))
            for s in sums
        ]
        for s in self.extrema:
            best, value = _EXTREMUM[s.merge], column(f"{s.name}_value")
            come, gone = greater(column(WEIGHT), number(0)), less(column(WEIGHT), number(0))
            outer.append(_state_call(s.name, call(best, case_when(come, value))))
            outer.append(_state_call(f"{s.name}_removed", call(best, case_when(gone, value))))
        keys = tuple(Item(k.name, column(k.name)) for k in self.aggregate.keys)
        return Aggregate(child=inner, keys=keys, calls=tuple(outer))

    def finals(self) -> tuple[Item, ...]:
        """The public columns over keys and states."""
        by = {a.call.name: a.final for a in self.algebra or ()}
        return tuple(Item(i.name, i.scalar.substitute(by)) for i in self.items)

    def _counted(self, child: Operator) -> Aggregate:
        states = tuple(_state_call(s.name, s.full) for s in self.states)
        return Aggregate(child=child, keys=self.aggregate.keys, calls=(*self.aggregate.calls, *states))

    def _shaped(self, aggregate: Operator) -> Operator:
        below = aggregate if self.condition is None else Filter(child=aggregate, condition=self.condition)
        public = {i.name for i in self.items}
        hidden = tuple(Item(k.stored, column(k.name)) for k in self.keys if k.stored not in public)
        states = tuple(Item(s.name, column(s.name)) for s in self.states)
        return Project(child=below, items=(*self.items, *hidden, *states))


@dataclass(frozen=True, slots=True)
class Partitioned:
    """Rows kept by the partition they are in; without keys all rows are one partition."""

    node: Window | TopK | Recursion
    condition: Scalar | None  # filters above, over the node's columns
    items: tuple[Item, ...]  # public columns over the node's columns
    keys: tuple[Key, ...]
    order: tuple[Key, ...] = ()  # of the top rows, where storage can tell whether a change reaches them

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

    def ordered(self) -> tuple[Scalar, ...]:
        """The order of the top rows over the stored columns."""
        assert isinstance(self.node, TopK)
        by = {k.name: column(k.stored) for k in self.order}
        return tuple(s.substitute(by) for s in self.node.order)

    def order_of_change(self) -> Operator:
        """Where the changed rows stand in the order."""
        assert isinstance(self.node, TopK)
        items = tuple(Item(k.stored, column(k.name)) for k in self.order)
        return Distinct(child=Project(child=differentiate(self.node.child), items=items))

    @property
    def full(self) -> Operator:
        return self._shaped(self.node)

    def affected(self) -> Operator:
        """The keys of the partitions that changed; without keys, a relation that has rows if anything did."""
        if isinstance(self.node, Recursion):
            return any_change(self.node)
        return affected_keys(self.node) if isinstance(self.node, Window) and self.keys else self._changed()

    def _changed(self) -> Operator:
        assert not isinstance(self.node, Recursion)
        return differentiate(self.node.child)

    def recomputed(self, affected: Named) -> Operator:
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


_EXTREMUM = {Merge.LEAST: "min", Merge.GREATEST: "max"}

Plan = Rows | Keyed | Partitioned | Levels


def _state_call(name: str, scalar: Scalar) -> Call:
    return Call(name=name, whole=scalar, function="", args=())


def plan_root(root: Operator, public: tuple[str, ...], types: Mapping[str, str], *, use_states: bool = True) -> Plan:
    """How the tree is maintained. Raises NotIncremental where no rule applies.

    `types` gives the type of every aggregate key and call (see `aggregates.algebraic`).
    """
    items = tuple(Item(p, column(c)) for p, c in zip(public, root.columns, strict=True))
    for op in root.walk():
        for key in op.keys if isinstance(op, Aggregate | Window) else ():
            _refuse_map(key, types)
        for key in op.keys if isinstance(op, Aggregate) else keep(*op.columns) if isinstance(op, Distinct) else ():
            _refuse_collated(key, types)
    conditions: list[Scalar] = []
    below = root
    while isinstance(below, Project | Filter):
        if isinstance(below, Project):
            by = {i.name: i.scalar for i in below.items}
            items = tuple(Item(i.name, i.scalar.substitute(by)) for i in items)
            conditions = [c.substitute(by) for c in conditions]
        else:
            conditions.append(below.condition)
        below = below.child
    if isinstance(below, Distinct):
        below = as_aggregate(below)
    if isinstance(below, Recursion) and not conditions and is_linear(below):
        shown_ = {i.scalar.bare for i in items}
        if len(items) == len(below.columns) and shown_ == set(below.columns):
            for child in below.children:
                _refuse_order_dependent(child, types)
            differentiate(below)  # refuse now, not at the first refresh
            return Levels(below, items, HASH)
    if isinstance(below, Window | TopK | Recursion):
        for child in below.children:
            _refuse_order_dependent(child, types)
        shown = below.keys if isinstance(below, Window) else ()
        keys = tuple(_key(k, n, items, types) for n, k in enumerate(shown))
        differentiate(below)  # refuse now, not at the first refresh
        order = _order(below, items, types) if isinstance(below, TopK) and not conditions else ()
        return Partitioned(below, conjunction(conditions), items, keys, order)
    if not isinstance(below, Aggregate):
        _refuse_order_dependent(root, types)
        tree = Project(child=root, items=tuple(Item(p, column(c)) for p, c in zip(public, root.columns, strict=True)))
        return Rows(full=tree, delta=differentiate(tree))
    _refuse_order_dependent(below.child, types)
    differentiate(below.child)  # refuse now, not at the first refresh
    return _keyed(below, conjunction(conditions), items, types, use_states=use_states)


def _keyed(
    aggregate: Aggregate,
    condition: Scalar | None,
    items: tuple[Item, ...],
    types: Mapping[str, str],
    *,
    use_states: bool,
) -> Keyed:
    keys = [_key(key, n, items, types, column(key.name)) for n, key in enumerate(aggregate.keys)]
    algebra: list[Algebraic] | None = []
    # Groups that HAVING rejects are not in storage, so there is no state to add to.
    if condition is not None or not use_states:
        algebra = None
    for n, one in enumerate(aggregate.calls):
        form = algebraic(one, types, f"{HIDDEN_PREFIX}{n}")
        if form is None or algebra is None:
            algebra = None
            break
        algebra.append(form)
    return Keyed(
        aggregate=aggregate,
        condition=condition,
        items=items,
        keys=tuple(keys),
        algebra=None if algebra is None else tuple(algebra),
        count=group_count(COUNT),
    )


def _refuse_map(key: Item, types: Mapping[str, str]) -> None:
    """Spark groups by a map, but neither joins by one nor makes it DISTINCT."""
    if "map<" in types.get(key.name, ""):
        raise NotIncremental("MAP_KEY", f"a map as a key ({key.scalar}) has no delta rule yet")


def _refuse_collated(key: Item, types: Mapping[str, str]) -> None:
    """Which of the values that a collation takes for equal stands for their group depends on the order of rows."""
    if "collate" in types.get(key.name, "").lower():
        raise NotIncremental("COLLATED_KEY", f"the collated key {key.scalar} has no delta rule yet")


def _key(key: Item, n: int, items: tuple[Item, ...], types: Mapping[str, str], value: Scalar | None = None) -> Key:
    """Where a key is stored: in the public column that shows it, else in a hidden one."""
    type_ = types[key.name]
    _refuse_map(key, types)
    _refuse_collated(key, types)
    wanted = value or key.scalar
    shown = next((i.name for i in items if i.scalar == wanted), None)
    if shown is None and type_.startswith(("interval", "void")):
        raise NotIncremental(
            "KEY_TYPE", f"the key {key.scalar} is {type_}, which cannot be stored, and is not selected"
        )
    return Key(key.name, shown or f"{HIDDEN_PREFIX}k{n}", type_)


def _order(top: TopK, items: tuple[Item, ...], types: Mapping[str, str]) -> tuple[Key, ...]:
    """The columns that the top rows are ordered by, if each is a column that can be stored and compared."""
    names = [next(iter(s.columns)) if len(s.columns) == 1 else "" for s in top.order]
    if top.limit is None or not names or any(not n or any(t in types[n] for t in _UNORDERED) for n in names):
        return ()
    found = {}
    for n, name in enumerate(dict.fromkeys(names)):
        shown = next((i.name for i in items if i.scalar.bare == name), None)
        found[name] = Key(name, shown or f"{HIDDEN_PREFIX}o{n}", types[name])
    return tuple(found.values())


_UNORDERED = ("map<", "collate", "variant", "void", "interval")


def _refuse_order_dependent(tree: Operator, types: Mapping[str, str]) -> None:
    """Below the root, what is retracted must be what was emitted."""
    for op in tree.walk():
        if (isinstance(op, Window) and open_calls(op)) or (isinstance(op, TopK) and open_top(op)):
            raise NotIncremental(
                "ORDER_DEPENDENT",
                f"{op.label} below the top of the query leaves open how ties fall, and needs a stored state",
            )
        if isinstance(op, Aggregate):
            for one in op.calls:
                if order_dependent(one, types):
                    raise NotIncremental(
                        "ORDER_DEPENDENT",
                        f"{one.whole} below the top of the query depends on the order of rows; it needs a stored "
                        "state, which is not there yet",
                    )


def picks_by_order(plan: Plan, types: Mapping[str, str]) -> bool:
    """Whether a value that depends on the order of rows decides which rows there are: HAVING sum(d) > 0.3."""
    if not isinstance(plan, Keyed | Partitioned) or plan.condition is None:
        return False
    node = plan.aggregate if isinstance(plan, Keyed) else plan.node
    calls = node.calls if isinstance(node, Aggregate | Window) else ()
    return bool(plan.condition.columns & {c.name for c in calls if order_dependent(c, types)})


def comparisons(plan: Plan, types: Mapping[str, str]) -> dict[str, Comparison]:
    """How each public column is compared; columns not listed are compared exactly."""
    if isinstance(plan, Rows | Levels):
        return {}
    if isinstance(plan, Partitioned):
        return _partitioned_comparisons(plan, types)
    opens = {c.name for c in plan.aggregate.calls if c.function in UNDETERMINED}
    bags = {c.name for c in plan.aggregate.calls if c.function in UNORDERED_BAG}
    floats = {c.name for c in plan.aggregate.calls if approximate(c, types)}
    zeros = {c.name for c in plan.aggregate.calls if extremal(c, types)}
    result = {}
    for item in plan.items:
        if item.scalar.bare in bags:
            result[item.name] = Comparison.BAG
        elif item.scalar.columns & opens:
            result[item.name] = Comparison.OPEN
        elif item.scalar.columns & floats:
            result[item.name] = Comparison.APPROXIMATE
        elif item.scalar.columns & zeros:
            result[item.name] = Comparison.ZERO
    return result


def _partitioned_comparisons(plan: Partitioned, types: Mapping[str, str]) -> dict[str, Comparison]:
    """Columns that depend on how ties fell are open; if a filter does, so is all but what is ordered by."""
    node = plan.node
    if isinstance(node, Recursion):
        return {}
    opens: frozenset[str] = frozenset()
    if isinstance(node, Window):
        opens = open_calls(node)
        picked = plan.condition is not None and bool(plan.condition.columns & opens)
    else:
        picked = open_top(node)
    settled = order_columns(node)
    calls = node.calls if isinstance(node, Window) else ()
    floats = {c.name for c in calls if approximate(c, types)}
    zeros = {c.name for c in calls if extremal(c, types)}
    result = {}
    for item in plan.items:
        used = item.scalar.columns
        if used & opens or (picked and not used <= settled):
            result[item.name] = Comparison.OPEN
        elif used & floats:
            result[item.name] = Comparison.APPROXIMATE
        elif used & zeros:
            result[item.name] = Comparison.ZERO
    return result
