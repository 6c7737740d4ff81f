"""Rows identified by group keys: an aggregate or DISTINCT under projections and HAVING.

Where every call is algebraic, the delta is added to hidden state columns and no input is read at all; otherwise the
affected groups are recomputed from the new state.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from spark_trickle.delta.aggregates import (
    Algebraic,
    Merge,
    StateColumn,
    approximate,
    extremal,
    order_dependent,
)
from spark_trickle.delta.differentiate import differentiate
from spark_trickle.delta.facts import Facts
from spark_trickle.delta.plans.plan import Comparison, Key, Types
from spark_trickle.delta.rules.aggregate import affected_keys, limited
from spark_trickle.delta.steps import (
    AFFECTED,
    CHANGE,
    ENTERS,
    LEAVES,
    MERGED,
    NEW,
    OLD,
    Compute,
    Stage,
    Step,
    Total,
    Write,
    any_row,
    plain_call,
    prefixed,
    stored,
    unprefixed,
)
from spark_trickle.model import Column
from spark_trickle.sql.aggregate_facts import UNDETERMINED, UNORDERED_BAG
from spark_trickle.sql.algebra import (
    FILE,
    POSITION,
    WEIGHT,
    Aggregate,
    Filter,
    Item,
    Named,
    Operator,
    OuterJoin,
    Project,
    Restrict,
    Side,
    State,
    UnionAll,
    Weigh,
    Window,
    keep,
)
from spark_trickle.sql.identity import same_value
from spark_trickle.sql.scalar import (
    Scalar,
    add,
    boolean,
    call,
    case_when,
    cast,
    column,
    conjunction,
    disjunction,
    equal,
    greater,
    is_null,
    less,
    negate,
    number,
    row_number,
    same,
)
from spark_trickle.sql.trees import at

# Columns of the merged rows, beside the old and the new ones.
UPDATED, LOST, AGAIN = "_t_updated", "_t_lost", "_t_again"
_LIVES, _SAME, _FRESH, _NUMBER = "_t_lives", "_t_same", "_t_fresh", "_t_rn"
ADDED, RESCANNED = "added", "to rescan"

_EXTREMUM = {Merge.LEAST: "min", Merge.GREATEST: "max"}


@dataclass(frozen=True, slots=True)
class Keyed:
    aggregate: Aggregate
    condition: Scalar | None  # HAVING and filters above, over the aggregate's columns
    items: tuple[Item, ...]  # public columns over the aggregate's columns
    keys: tuple[Key, ...]
    algebra: tuple[Algebraic, ...] | None  # None: recompute affected groups
    count: StateColumn

    @property
    def kind(self) -> str:
        return "keys"

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
        return self._shaped(self._counted(self.aggregate.child))

    def compare(self, types: Types) -> dict[str, Comparison]:
        calls = self.aggregate.calls
        opens = {c.name for c in calls if c.function in UNDETERMINED}
        bags = {c.name for c in calls if c.function in UNORDERED_BAG}
        floats = {c.name for c in calls if approximate(c, types)}
        zeros = {c.name for c in calls if extremal(c, types)}
        result = {}
        for item in self.items:
            if item.scalar.bare in bags:
                result[item.name] = Comparison.BAG
            elif item.scalar.columns & opens:
                result[item.name] = Comparison.OPEN
            elif item.scalar.columns & floats:
                result[item.name] = Comparison.APPROXIMATE
            elif item.scalar.columns & zeros:
                result[item.name] = Comparison.ZERO
        return result

    def picks_by_order(self, types: Types) -> bool:
        by_order = {c.name for c in self.aggregate.calls if order_dependent(c, types)}
        return self.condition is not None and bool(self.condition.columns & by_order)

    # -- steps -------------------------------------------------------------------------------------------------------

    def steps(self, columns: Sequence[Column], facts: Facts) -> tuple[Step, ...]:  # noqa: ARG002
        return self._by_groups(columns) if self.algebra is None else self._by_states(columns)

    def careful(self, columns: Sequence[Column]) -> tuple[tuple[Step, ...], ...]:
        everything = (self._merge(self._all_groups(columns), columns), self._write(columns))
        # Where only a sum of changes was too large, the affected groups are enough.
        return (everything,) if self.algebra is None else (self._by_groups(columns), everything)

    def _by_states(self, columns: Sequence[Column]) -> tuple[Step, ...]:
        """Add the delta to the stored states; groups that lost their extremum are recomputed."""
        change = self.change()
        first = Compute(CHANGE, change, ends=True)
        added = self._added(Named(view=CHANGE, names=change.columns), columns)
        if not self.extrema and not self.unsafe:
            return (first, self._merge(added, columns, CHANGE), self._write(columns))
        merge = replace(self._merge(added, columns, CHANGE), name=ADDED)
        # The rescan would hide it: a group that is computed again lacks nothing.
        return (first, merge, *self._rescan(columns), self._write(columns, lost=ADDED))

    def _by_groups(self, columns: Sequence[Column]) -> tuple[Step, ...]:
        """Recompute the affected groups from the new state."""
        affected = affected_keys(self.aggregate) if self.keys else any_row(differentiate(self.aggregate.child))
        merge = self._merge(self._recomputed(AFFECTED, columns), columns, AFFECTED)
        if self.keys:
            whole = self._recomputed(AFFECTED, columns, whole=True)
            merge = replace(merge, whole=self._marked(whole, columns))
        return (Compute(AFFECTED, affected, ends=True), merge, self._write(columns))

    def change(self) -> Operator:
        """What the delta adds to the states of each group.

        With extrema in two steps: first per group and value, so that an update which leaves the value alone cancels
        out and does not look like the loss of an extremum.
        """
        delta = differentiate(self.aggregate.child)
        sums = [s for s in self.states if s.merge is Merge.ADD]
        added = tuple(plain_call(s.name, s.delta) for s in sums)
        if not self.extrema:
            return Aggregate(child=delta, keys=self.aggregate.keys, calls=added)
        values = tuple(Item(f"{s.name}_value", s.value) for s in self.extrema if s.value is not None)
        weight = plain_call(WEIGHT, call("sum", column(WEIGHT)))
        inner = Aggregate(child=delta, keys=(*self.aggregate.keys, *values), calls=(*added, weight))
        # Without keys there is a row even if nothing is left of the change.
        outer = [
            plain_call(s.name, cast(call("coalesce", call("sum", column(s.name)), number(0)), s.delta_type))
            for s in sums
        ]
        for s in self.extrema:
            best, value = _EXTREMUM[s.merge], column(f"{s.name}_value")
            come, gone = greater(column(WEIGHT), number(0)), less(column(WEIGHT), number(0))
            outer.append(plain_call(s.name, call(best, case_when(come, value))))
            outer.append(plain_call(_removed(s), call(best, case_when(gone, value))))
        keys = tuple(Item(k.name, column(k.name)) for k in self.aggregate.keys)
        return Aggregate(child=inner, keys=keys, calls=tuple(outer))

    def _added(self, change: Named, columns: Sequence[Column]) -> Operator:
        """The stored states of the changed groups with the change added, and what follows from them."""
        whole = (*columns, *self.hidden)
        olds = tuple(OLD + c.name for c in whole)
        joined = self._with_stored(change, {k.name: k for k in self.keys}, columns)
        summed = Project(
            child=joined,
            items=(
                *keep(*(k.name for k in self.keys)),
                *(Item(s.name, _merged(s)) for s in self.states),
                Item(AGAIN, disjunction(_loses_extremum(s) for s in self.extrema)),
                *keep(FILE, POSITION, *olds),
            ),
        )
        count = column(self.count.name)
        public = {i.name for i in self.items}
        finals = {a.call.name: a.final for a in self.algebra or ()}
        return Project(
            child=summed,
            items=(
                *(Item(k.affected, column(k.name)) for k in self.keys),
                *keep(FILE, POSITION),
                Item(AGAIN, disjunction((column(AGAIN), *self.unsafe))),
                Item(_LIVES, greater(count, number(0)) if self.keys else boolean(True)),
                Item(LOST, self._is_lost(count)),
                *(Item(NEW + i.name, i.scalar.substitute(finals)) for i in self.items),
                *(Item(NEW + k.stored, column(k.name)) for k in self.keys if k.stored not in public),
                *(Item(NEW + s.name, column(s.name)) for s in self.states),
                *keep(*olds),
            ),
        )

    def _is_lost(self, count: Scalar) -> Scalar:
        """Whether a group lacks a stored row that it must have had: it cannot be right."""
        missing = is_null(column(FILE))
        if not self.keys:
            return missing  # the one row of a global aggregate is always stored
        # A group that is not stored has nothing to lose.
        moved = disjunction(negate(equal(column(s.name), number(0))) for s in self.states if s.merge is Merge.ADD)
        emptied = conjunction((missing, equal(count, number(0)), moved))
        assert emptied is not None
        return disjunction((less(count, number(0)), emptied))

    def _rescan(self, columns: Sequence[Column]) -> tuple[Step, ...]:
        """Groups that lost their extremum, or whose states do not tell Spark's answer, recomputed; others as is."""
        shape = _shape((*columns, *self.hidden))
        affected = tuple(k.affected for k in self.keys)
        merged = Named(view=ADDED, names=(*affected, *shape, AGAIN))
        wanted = Filter(child=merged, condition=column(AGAIN))
        settled = Project(child=Filter(child=merged, condition=negate(column(AGAIN))), items=keep(*shape))
        fresh = Project(child=self._marked(self._recomputed(RESCANNED, columns), columns), items=keep(*shape))
        when, lost = Total(ADDED, AGAIN), "groups must be read again"
        return (
            Compute(RESCANNED, Project(child=wanted, items=keep(*affected)), Stage.RESCAN, when=when, condition=lost),
            Compute(
                MERGED,
                UnionAll(inputs=(settled, fresh), names=shape),
                Stage.RESCAN,
                when=when,
                condition=lost,
                otherwise=ADDED,
                rows=ADDED,
                totals=_TOTALS,
            ),
        )

    def _recomputed(self, affected: str, columns: Sequence[Column], *, whole: bool = False) -> Operator:
        """Per affected key: its recomputed row, if it still has one, and its stored row, if it had one.

        `whole`: all groups are computed, and those that are not affected left aside.
        """
        listed = (*columns, *self.hidden)
        keys = Named(view=affected, names=tuple(k.affected for k in self.keys))
        aggregate = self._counted(at(self.aggregate.child, State.NEW))
        fresh = Project(
            child=self._shaped(aggregate if whole else limited(aggregate, aggregate.child, keys)),
            items=(*prefixed(NEW, listed), Item(_FRESH, boolean(True))),
        )
        on = tuple(same(column(k.affected), column(NEW + k.stored)) for k in self.keys)
        now = OuterJoin(left=keys, right=fresh, conditions=on, side=Side.LEFT, single=True)
        both = self._with_stored(now, {k.affected: k for k in self.keys}, columns, by=keys)
        return Project(
            child=both,
            items=(
                *keep(FILE, POSITION),
                Item(_LIVES, call("coalesce", column(_FRESH), boolean(False))),
                Item(LOST, boolean(False)),
                *keep(*(side + c.name for side in (NEW, OLD) for c in listed)),
            ),
        )

    def _all_groups(self, columns: Sequence[Column]) -> Operator:
        """All groups from the new state beside all that are stored."""
        whole = (*columns, *self.hidden)
        fresh = Project(child=self.full, items=(*prefixed(NEW, whole), Item(_FRESH, boolean(True))))
        on = tuple(same(column(NEW + k.stored), column(OLD + k.stored)) for k in self.keys)
        # Of a key that is stored twice both rows would be taken for right.
        place = row_number([column(OLD + k.stored) for k in self.keys], (column(FILE), column(POSITION)))
        there = Window(
            child=stored(whole),
            keys=tuple(Item(k.affected, column(OLD + k.stored)) for k in self.keys),
            calls=(plain_call(_NUMBER, place),),
        )
        both = OuterJoin(left=fresh, right=there, conditions=on, side=Side.FULL)
        return Project(
            child=both,
            items=(
                *keep(FILE, POSITION),
                Item(_LIVES, negate(is_null(column(_FRESH)))),
                Item(LOST, call("coalesce", greater(column(_NUMBER), number(1)), boolean(False))),
                *keep(*(side + c.name for side in (NEW, OLD) for c in whole)),
            ),
        )

    def _with_stored(
        self, rows: Operator, keys: dict[str, Key], columns: Sequence[Column], by: Operator | None = None
    ) -> Operator:
        """Rows with a key each, and the stored row of that key; `keys` by their names there."""
        there: Operator = stored((*columns, *self.hidden))
        if keys:
            listed = by or Project(child=rows, items=keep(*keys))
            items = tuple(Item(name, column(OLD + key.stored)) for name, key in keys.items())
            there = Restrict(child=there, keys=items, by=listed)
        on = tuple(same(column(name), column(OLD + key.stored)) for name, key in keys.items())
        return OuterJoin(left=rows, right=there, conditions=on, side=Side.LEFT, single=True)

    def _marked(self, rows: Operator, columns: Sequence[Column]) -> Operator:
        """Which stored rows leave and which new rows enter: the same ones stay where they are."""
        equal_ = conjunction(same_value(NEW + c.name, OLD + c.name, c.type) for c in (*columns, *self.hidden))
        assert equal_ is not None
        told = Project(child=rows, items=(*keep(*rows.columns), Item(_SAME, equal_)))
        there, lives, stays = negate(is_null(column(FILE))), column(_LIVES), column(_SAME)
        leaves = conjunction((there, negate(_both(lives, stays))))
        enters = conjunction((lives, negate(_both(there, stays))))
        updated = conjunction((there, lives, negate(stays)))
        assert leaves is not None
        assert enters is not None
        assert updated is not None
        marks = (Item(LEAVES, leaves), Item(ENTERS, enters), Item(UPDATED, updated))
        return Project(child=told, items=(*keep(*(c for c in rows.columns if c != _LIVES)), *marks))

    def _merge(self, rows: Operator, columns: Sequence[Column], rows_of: str | None = None) -> Compute:
        return Compute(
            MERGED,
            self._marked(rows, columns),
            Stage.LOOKUP,
            rows=rows_of,
            totals=(*_TOTALS, AGAIN) if AGAIN in rows.columns else _TOTALS,
        )

    def _write(self, columns: Sequence[Column], lost: str = MERGED) -> Write:
        """`lost`: the step that tells which groups lack their stored row."""
        whole = (*columns, *self.hidden)
        merged = Named(view=MERGED, names=_shape(whole))
        leaving = Filter(child=merged, condition=column(LEAVES))
        return Write(
            enters=Project(child=Filter(child=merged, condition=column(ENTERS)), items=unprefixed(NEW, whole)),
            entering=Total(MERGED, ENTERS),
            leaves=Weigh(child=Project(child=leaving, items=unprefixed(OLD, whole)), weight=-1),
            positions=Project(child=leaving, items=keep(FILE, POSITION)),
            leaving=Total(MERGED, LEAVES),
            updated=Total(MERGED, UPDATED),
            lost=Total(lost, LOST),
        )

    # -- trees -------------------------------------------------------------------------------------------------------

    def _counted(self, child: Operator) -> Aggregate:
        states = tuple(plain_call(s.name, s.full) for s in self.states)
        return Aggregate(child=child, keys=self.aggregate.keys, calls=(*self.aggregate.calls, *states))

    def _shaped(self, aggregate: Operator) -> Operator:
        """The storage columns: public ones, hidden keys and states."""
        below = aggregate if self.condition is None else Filter(child=aggregate, condition=self.condition)
        public = {i.name for i in self.items}
        hidden = tuple(Item(k.stored, column(k.name)) for k in self.keys if k.stored not in public)
        states = tuple(Item(s.name, column(s.name)) for s in self.states)
        return Project(child=below, items=(*self.items, *hidden, *states))


_TOTALS = (LEAVES, ENTERS, UPDATED, LOST)


def _shape(whole: Sequence[Column]) -> tuple[str, ...]:
    """The columns of the merged rows that are written or checked."""
    return (FILE, POSITION, LOST, LEAVES, ENTERS, UPDATED, *(side + c.name for side in (NEW, OLD) for c in whole))


def _both(left: Scalar, right: Scalar) -> Scalar:
    found = conjunction((left, right))
    assert found is not None
    return found


def _removed(state: StateColumn) -> str:
    return f"{state.name}_removed"


def _merged(state: StateColumn) -> Scalar:
    """The stored state with the change of it."""
    old, change = column(OLD + state.name), column(state.name)
    if state.merge is Merge.ADD:
        return cast(add(call("coalesce", old, number(0)), change), state.type)
    return call(state.merge, old, change)


def _loses_extremum(state: StateColumn) -> Scalar:
    """Whether what was removed reaches the extremum, or nothing is left to compare with: it must be looked for."""
    removed, best = column(_removed(state)), _merged(state)
    reached = less(best, removed) if state.merge is Merge.LEAST else greater(best, removed)
    return _both(negate(is_null(removed)), disjunction((is_null(best), negate(reached))))
