"""A state follows the keys of a change."""

from __future__ import annotations

from spark_trickle.delta import differentiate
from spark_trickle.delta.facts import Facts
from spark_trickle.delta.restrict import push_restrictions, restrict_partners
from spark_trickle.model import TableName
from spark_trickle.sql.algebra import (
    Aggregate,
    AsOf,
    Call,
    Distinct,
    Filter,
    Item,
    Join,
    Match,
    Matched,
    Named,
    Operator,
    OuterJoin,
    Project,
    Restrict,
    Scan,
    ScanColumn,
    Side,
    State,
    UnionAll,
    keep,
)
from spark_trickle.sql.scalar import add, call, column, equal, greater, number
from spark_trickle.sql.trees import at

A, B = (TableName("s", n) for n in "ab")


def scan(table: TableName) -> Scan:
    return Scan(input=table, fields=tuple(ScanColumn(c, f"{table.name}_{c}") for c in ("id", "v")))


def state(table: TableName) -> Operator:
    return at(scan(table), State.NEW)


def change(table: TableName) -> Operator:
    return differentiate(scan(table))


ON = equal(column("a_id"), column("b_id"))
KEYS = Named(view="keys", names=("k",))


def restricted(tree: Operator) -> list[Operator]:
    return [op.child for op in tree.walk() if isinstance(op, Restrict)]


def pushed(child: Operator, key: str = "a_id") -> Operator:
    tree = Restrict(child=child, keys=(Item("k", column(key)),), by=KEYS)
    found = push_restrictions(tree, Facts(()))
    assert found.columns == tree.columns
    return found


def test_partners_of_a_change_are_looked_for_by_its_keys() -> None:
    for kind in (Match.SEMI, Match.ANTI, Match.MARK):
        tree = Matched(child=change(A), by=state(B), conditions=(ON,), kind=kind, mark="m")
        found = restrict_partners(tree, Facts(()))
        assert isinstance(found, Matched)
        assert isinstance(found.by, Restrict)
        assert found.by.child == state(B)
        assert isinstance(found.by.by, Distinct)
        assert found.columns == tree.columns
    outer = OuterJoin(left=change(A), right=state(B), conditions=(ON,), side=Side.LEFT)
    assert restricted(restrict_partners(outer, Facts(()))) == [state(B)]


def test_only_rows_without_a_partner_may_be_left_out() -> None:
    semi = Matched(child=state(A), by=change(B), conditions=(ON,), kind=Match.SEMI)
    assert restricted(restrict_partners(semi, Facts(()))) == [state(A)]
    for kind in (Match.ANTI, Match.MARK):
        tree = Matched(child=state(A), by=change(B), conditions=(ON,), kind=kind, mark="m")
        assert restrict_partners(tree, Facts(())) == tree
    right = OuterJoin(left=state(A), right=change(B), conditions=(ON,), side=Side.LEFT)
    assert restrict_partners(right, Facts(())) == right


def test_without_an_equality_nothing_is_known() -> None:
    less = greater(column("a_id"), column("b_id"))
    for condition in (less, equal(column("a_id"), number(1)), equal(add(column("a_id"), column("b_id")), number(1))):
        tree = Matched(child=change(A), by=state(B), conditions=(condition,), kind=Match.SEMI)
        assert restrict_partners(tree, Facts(())) == tree


def test_a_small_table_is_read_whole() -> None:
    tree = Matched(child=change(A), by=state(B), conditions=(ON,), kind=Match.SEMI)
    assert restrict_partners(tree, Facts((), little={B})) == tree
    assert restrict_partners(tree, Facts((), little={A})) != tree


def test_states_alone_stay() -> None:
    tree = Matched(child=state(A), by=state(B), conditions=(ON,), kind=Match.SEMI)
    assert restrict_partners(tree, Facts(())) == tree


def test_down_to_the_table() -> None:
    below = Filter(child=state(A), condition=greater(column("a_v"), number(0)))
    renamed = Project(child=below, items=(Item("x", column("a_id")), *keep("a_v")))
    found = pushed(Distinct(child=renamed), "x")
    assert isinstance(found, Distinct)
    (op,) = (o for o in found.walk() if isinstance(o, Restrict))
    assert isinstance(op.child, AsOf)
    assert op.keys[0].scalar == column("a_id")


def test_an_expression_is_not_asked_of_rows_that_a_filter_takes_out() -> None:
    below = Filter(child=state(A), condition=greater(column("a_v"), number(0)))
    more = Project(child=below, items=(Item("x", add(column("a_id"), number(1))),))
    assert restricted(pushed(more, "x")) == [below]


def test_into_every_branch() -> None:
    branches = tuple(Project(child=state(t), items=(Item("u", column(f"{t.name}_id")),)) for t in (A, B))
    assert restricted(pushed(UnionAll(inputs=branches, names=("u",)), "u")) == [state(A), state(B)]


def test_a_join_starts_from_the_input_that_has_the_keys() -> None:
    join = Join(inputs=(state(A), state(B)), conditions=(ON,))
    found = pushed(join, "b_v")
    assert restricted(found) == [state(B)]
    (inner,) = (o for o in found.walk() if isinstance(o, Join))
    assert isinstance(inner.inputs[0], Restrict)
    assert inner.conditions == join.conditions


def test_keys_of_two_inputs_are_still_compared_together() -> None:
    join = Join(inputs=(state(A), state(B)), conditions=(ON,))
    by = Named(view="keys", names=("k", "l"))
    tree = Restrict(child=join, keys=(Item("k", column("a_v")), Item("l", column("b_v"))), by=by)
    found = push_restrictions(tree, Facts(()))
    assert isinstance(found, Restrict)
    assert found.keys == tree.keys
    assert state(A) in restricted(found)


def test_groups_by_their_keys_only() -> None:
    n = Call("n", call("count", number(1)), "count", (number(1),))
    groups = Aggregate(child=state(A), keys=(Item("g", column("a_v")),), calls=(n,))
    assert restricted(pushed(groups, "g")) == [state(A)]
    assert restricted(pushed(groups, "n")) == [groups]


def test_the_side_that_is_kept_whole() -> None:
    outer = OuterJoin(left=state(A), right=state(B), conditions=(ON,), side=Side.LEFT)
    assert restricted(pushed(outer, "a_v")) == [state(A)]
    assert restricted(pushed(outer, "b_v")) == [outer]
    full = OuterJoin(left=state(A), right=state(B), conditions=(ON,), side=Side.FULL)
    assert restricted(pushed(full, "a_v")) == [full]
    mark = Matched(child=state(A), by=state(B), conditions=(ON,), kind=Match.MARK, mark="m")
    assert restricted(pushed(mark, "a_id")) == [state(A)]
    assert restricted(pushed(mark, "m")) == [mark]


def test_all_or_nothing_is_not_moved() -> None:
    tree = Restrict(child=Filter(child=state(A), condition=greater(column("a_v"), number(0))), keys=(), by=KEYS)
    assert push_restrictions(tree, Facts(())) == tree
