"""Which plan keeps a tree."""

from __future__ import annotations

from collections.abc import Mapping

from spark_trickle.delta.aggregates import Algebraic, algebraic, group_count, order_dependent
from spark_trickle.delta.differentiate import differentiate
from spark_trickle.delta.plans.keyed import Keyed
from spark_trickle.delta.plans.levels import Levels, is_linear
from spark_trickle.delta.plans.partitioned import Partitioned
from spark_trickle.delta.plans.plan import Key, Plan
from spark_trickle.delta.plans.rows import Rows
from spark_trickle.delta.rules.distinct import as_aggregate
from spark_trickle.errors import NotIncremental
from spark_trickle.model import HIDDEN_PREFIX
from spark_trickle.sql.algebra import (
    Aggregate,
    Distinct,
    Filter,
    Item,
    Operator,
    Project,
    Recursion,
    TopK,
    Window,
    keep,
)
from spark_trickle.sql.scalar import Scalar, column, conjunction
from spark_trickle.sql.ties import open_calls, open_top

COUNT = f"{HIDDEN_PREFIX}count"


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
            return Levels(below, items)
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
