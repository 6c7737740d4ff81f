"""The domain of a correlated subquery: the subquery for every value of the outer columns it uses.

`decorrelate` says when it is needed. Here every operator of a subquery is given the domain's columns: a join with
them at the bottom, a group key more, a partition key more.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from functools import singledispatchmethod

from sqlglot import exp

from spark_trickle.errors import NotIncremental
from spark_trickle.sql.algebra import (
    Aggregate,
    Call,
    Constant,
    Distinct,
    Explode,
    Filter,
    Fresh,
    Item,
    Join,
    Matched,
    Operator,
    OuterJoin,
    Project,
    Side,
    TopK,
    UnionAll,
    Window,
    keep,
)
from spark_trickle.sql.scalar import (
    Scalar,
    call,
    column,
    conjunction,
    conjuncts,
    greater,
    identifier,
    less,
    null,
    number,
    same,
    true,
)
from spark_trickle.sql.trees import correlated


def joined(left: Operator, right: Operator, conditions: tuple[Scalar, ...]) -> Operator:
    """An inner join, flattened into one of n inputs: the delta then orders them freely."""
    inputs: list[Operator] = []
    gathered: list[Scalar] = []
    for side in (left, right):
        if isinstance(side, Constant) and side.body is None:
            continue  # one row without columns
        if isinstance(side, Join):
            inputs += side.inputs
            gathered += side.conditions
        else:
            inputs.append(side)
    gathered += conditions
    if len(inputs) < 2:
        only = inputs[0] if inputs else left
        condition = conjunction(gathered)
        return only if condition is None else Filter(child=only, condition=condition)
    return Join(inputs=tuple(inputs), conditions=tuple(gathered))


def with_domain(child: Operator, sub: Operator, fresh: Fresh) -> tuple[Operator, tuple[Scalar, ...]]:
    """The subquery for every value of the outer columns, and the conditions that join it back."""
    domain = Domain(child, tuple(sorted(correlated(sub))), fresh)
    result, names = domain.push(sub)
    return result, tuple(same(column(outer), column(names[outer])) for outer in domain.outer)


Names = Mapping[str, str]  # outer column -> the column that carries it


class Domain:
    def __init__(self, child: Operator, outer: tuple[str, ...], fresh: Fresh) -> None:
        missing = set(outer) - set(child.columns)
        if missing:
            raise NotIncremental("CORRELATION", f"a subquery uses {sorted(missing)} from further out")
        self.outer = outer
        self.fresh = fresh
        self._values = Distinct(child=Project(child=child, items=keep(*outer)))

    def copy(self) -> tuple[Operator, Names]:
        names = {o: self.fresh(f"d_{o}") for o in self.outer}
        return Project(child=self._values, items=tuple(Item(n, column(o)) for o, n in names.items())), names

    def push(self, op: Operator) -> tuple[Operator, Names]:
        """The operator with the domain's columns added: for each value of them, its rows."""
        if correlated(op):
            return self._push(op)
        domain, names = self.copy()
        return joined(domain, op, ()), names

    def _in(self, scalar: Scalar, names: Names) -> Scalar:
        return scalar.inward({o: column(n) for o, n in names.items()})

    def _same(self, a: Names, b: Names) -> tuple[Scalar, ...]:
        return tuple(same(column(a[o]), column(b[o])) for o in self.outer)

    def _call(self, one: Call, names: Names) -> Call:
        return replace(
            one,
            whole=self._in(one.whole, names),
            args=tuple(self._in(a, names) for a in one.args),
            filter=None if one.filter is None else self._in(one.filter, names),
        )

    @singledispatchmethod
    def _push(self, op: Operator) -> tuple[Operator, Names]:
        raise NotIncremental("CORRELATION", f"a correlated {type(op).__name__} has no delta rule yet")

    @_push.register
    def _filter(self, op: Filter) -> tuple[Operator, Names]:
        child, names = self.push(op.child)
        condition = self._in(op.condition, names)
        if isinstance(child, Join):
            return Join(inputs=child.inputs, conditions=(*child.conditions, *conjuncts(condition))), names
        return Filter(child=child, condition=condition), names

    @_push.register
    def _project(self, op: Project) -> tuple[Operator, Names]:
        child, names = self.push(op.child)
        items = tuple(Item(i.name, self._in(i.scalar, names)) for i in op.items)
        return Project(child=child, items=(*items, *keep(*names.values()))), names

    @_push.register
    def _join(self, op: Join) -> tuple[Operator, Names]:
        inputs: list[Operator] = []
        conditions: list[Scalar] = []
        first: Names | None = None
        for each in op.inputs:
            if not correlated(each):
                inputs.append(each)
                continue
            pushed, names = self.push(each)
            inputs.append(pushed)
            if first is None:
                first = names
            else:
                conditions += self._same(first, names)
        if first is None:
            domain, first = self.copy()
            inputs.append(domain)
        conditions += [self._in(c, first) for c in op.conditions]
        result = Join(inputs=tuple(inputs), conditions=tuple(conditions))
        return Project(child=result, items=keep(*op.columns, *first.values())), first

    @_push.register
    def _outer_join(self, op: OuterJoin) -> tuple[Operator, Names]:
        left, names = self.push(op.left)
        right, conditions = op.right, tuple(self._in(c, names) for c in op.conditions)
        if op.side is Side.LEFT and not correlated(right):
            return Project(
                child=replace(op, left=left, right=right, conditions=conditions),
                items=keep(*op.columns, *names.values()),
            ), names
        right, others = self.push(op.right)
        result = replace(op, left=left, right=right, conditions=(*self._same(names, others), *conditions))
        if op.side is Side.LEFT:
            return Project(child=result, items=keep(*op.columns, *names.values())), names
        both = {o: self.fresh(f"d_{o}") for o in self.outer}
        merged = tuple(Item(both[o], call("coalesce", column(names[o]), column(others[o]))) for o in self.outer)
        return Project(child=result, items=(*keep(*op.columns), *merged)), both

    @_push.register
    def _matched(self, op: Matched) -> tuple[Operator, Names]:
        child, names = self.push(op.child)
        by, conditions = op.by, tuple(self._in(c, names) for c in op.conditions)
        if correlated(by):
            by, others = self.push(by)
            conditions = (*self._same(names, others), *conditions)
        result = replace(op, child=child, by=by, conditions=conditions)
        return Project(child=result, items=keep(*op.columns, *names.values())), names

    @_push.register
    def _union_all(self, op: UnionAll) -> tuple[Operator, Names]:
        target = {o: self.fresh(f"d_{o}") for o in self.outer}
        branches = []
        for each in op.inputs:
            pushed, names = self.push(each)
            carried = tuple(Item(target[o], column(names[o])) for o in self.outer)
            branches.append(Project(child=pushed, items=(*keep(*op.names), *carried)))
        return UnionAll(inputs=tuple(branches), names=(*op.names, *target.values())), target

    @_push.register
    def _distinct(self, op: Distinct) -> tuple[Operator, Names]:
        child, names = self.push(op.child)
        return Distinct(child=child), names

    @_push.register
    def _aggregate(self, op: Aggregate) -> tuple[Operator, Names]:
        child, names = self.push(op.child)
        keys = tuple(Item(k.name, self._in(k.scalar, names)) for k in op.keys)
        calls = tuple(self._call(c, names) for c in op.calls)
        if not keys:
            domain, values = self.copy()
            present = self.fresh("present")
            rows = Project(child=child, items=(*keep(*child.columns), Item(present, true())))
            child = OuterJoin(left=domain, right=rows, conditions=self._same(values, names), side=Side.LEFT)
            calls = tuple(_only_where(c, column(present)) for c in calls)
            names = values
        carried = {o: self.fresh(f"d_{o}") for o in self.outer}
        more = tuple(Item(carried[o], column(names[o])) for o in self.outer)
        result = Aggregate(child=child, keys=(*keys, *more), calls=calls)
        return Project(child=result, items=keep(*op.columns, *carried.values())), carried

    @_push.register
    def _window(self, op: Window) -> tuple[Operator, Names]:
        child, names = self.push(op.child)
        more = tuple(Item(self.fresh("p"), column(n)) for n in names.values())
        calls = tuple(_partitioned(self._call(c, names), tuple(names.values())) for c in op.calls)
        keys = tuple(Item(k.name, self._in(k.scalar, names)) for k in op.keys)
        return Window(child=child, keys=(*keys, *more), calls=calls), names

    @_push.register
    def _top(self, op: TopK) -> tuple[Operator, Names]:
        """The first rows of each value: numbered within it."""
        child, names = self.push(op.child)
        order = exp.Order(expressions=[self._in(s, names).tree.copy() for s in op.order]) if op.order else None
        if order is None:  # Spark wants an order; any will do
            order = exp.Order(expressions=[exp.Ordered(this=null().tree, nulls_first=True)])
        numbered = exp.Window(this=exp.Anonymous(this="row_number", expressions=[]), order=order, over="OVER")
        number_ = Call(name=self.fresh("rank"), whole=Scalar(numbered), function="row_number", args=())
        keys = tuple(Item(self.fresh("p"), column(n)) for n in names.values())
        rows = Window(child=child, keys=keys, calls=(_partitioned(number_, tuple(names.values())),))
        within = [greater(column(number_.name), number(op.offset))]
        if op.limit is not None:
            within.append(less(column(number_.name), number(op.offset + op.limit + 1)))
        condition = conjunction(within)
        assert condition is not None
        kept = Filter(child=rows, condition=condition)
        return Project(child=kept, items=keep(*op.columns, *names.values())), names

    @_push.register
    def _explode(self, op: Explode) -> tuple[Operator, Names]:
        child, names = self.push(op.child)
        result = replace(op, child=child, generator=self._in(op.generator, names))
        return Project(child=result, items=keep(*op.columns, *names.values())), names


def _only_where(one: Call, condition: Scalar) -> Call:
    """The call over the rows that meet a condition only."""
    tree = one.whole.tree.copy()
    both = condition
    if isinstance(tree, exp.Filter):
        inner = Scalar(tree.expression.this)
        found = conjunction((inner, condition))
        assert found is not None
        both, tree = found, tree.this
    whole = exp.Filter(this=tree.copy(), expression=exp.Where(this=both.tree.copy()))
    return replace(one, whole=Scalar(whole), filter=both)


def _partitioned(one: Call, names: tuple[str, ...]) -> Call:
    tree = one.whole.tree.copy()
    window = tree if isinstance(tree, exp.Window) else tree.find(exp.Window)
    assert isinstance(window, exp.Window)
    known = list(window.args.get("partition_by") or ())
    window.set("partition_by", [*known, *(exp.Column(this=identifier(n)) for n in names)])
    return replace(one, whole=Scalar(tree))
