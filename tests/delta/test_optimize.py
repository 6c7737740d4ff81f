"""Passes over a delta tree."""

from __future__ import annotations

from spark_trickle.delta import differentiate
from spark_trickle.delta.facts import Facts
from spark_trickle.delta.optimize import PASSES, drop_unchanged, optimize, unify_states
from spark_trickle.model import TableName
from spark_trickle.sql.algebra import (
    WEIGHT,
    Aggregate,
    AsOf,
    Call,
    Changes,
    Distinct,
    Empty,
    Filter,
    Item,
    Join,
    Operator,
    Project,
    Scan,
    ScanColumn,
    State,
    UnionAll,
    Weigh,
    keep,
)
from spark_trickle.sql.scalar import call, column, equal, number

A, B, C = (TableName("s", n) for n in "abc")


def scan(table: TableName) -> Scan:
    return Scan(input=table, fields=(ScanColumn("id", f"{table.name}_id"),))


def joined(*tables: TableName) -> Join:
    first = column(f"{tables[0].name}_id")
    on = tuple(equal(first, column(f"{t.name}_id")) for t in tables[1:])
    return Join(inputs=tuple(map(scan, tables)), conditions=on)


def counted(child: Operator, *keys: str) -> Aggregate:
    items = tuple(Item(f"k_{k}", column(k)) for k in keys)
    return Aggregate(child=child, keys=items, calls=(Call("n", call("count", number(1)), "count", (number(1),)),))


def changes(tree: Operator) -> list[TableName]:
    return [op.scan.input for op in tree.walk() if isinstance(op, Changes)]


def states(tree: Operator) -> set[tuple[TableName, State]]:
    return {(op.scan.input, op.state) for op in tree.walk() if isinstance(op, AsOf)}


def test_a_join_keeps_the_terms_of_changed_inputs() -> None:
    delta = differentiate(joined(A, B, C))
    assert changes(delta) == [A, B, C]
    assert changes(drop_unchanged(delta, Facts({B}))) == [B]
    assert changes(drop_unchanged(delta, Facts({A, C}))) == [A, C]
    assert drop_unchanged(delta, Facts({A, B, C})) == delta


def test_a_lone_term_needs_no_union() -> None:
    alone = drop_unchanged(differentiate(joined(A, B)), Facts({A}))
    assert isinstance(alone, Project)
    assert not any(isinstance(op, UnionAll) for op in alone.walk())


def test_nothing_changed_leaves_nothing() -> None:
    for tree in (
        scan(A),
        joined(A, B),
        Filter(child=scan(A), condition=equal(column("a_id"), number(1))),
        Distinct(child=scan(A)),
        counted(scan(A), "a_id"),
        counted(scan(A)),
        UnionAll(
            inputs=tuple(Project(child=scan(t), items=(Item("u", column(f"{t.name}_id")),)) for t in (A, B)),
            names=("u",),
        ),
    ):
        found = optimize(differentiate(tree), Facts(()))
        assert isinstance(found, Empty), found.tree()
        assert found.columns == (*tree.columns, WEIGHT)


def test_an_aggregate_without_keys_has_a_row_over_nothing() -> None:
    nothing = Empty(names=("a_id",))
    kept = drop_unchanged(counted(nothing), Facts(()))
    assert isinstance(kept, Aggregate)
    assert isinstance(drop_unchanged(counted(nothing, "a_id"), Facts(())), Empty)


def test_emptiness_spreads_through_weights_and_projections() -> None:
    tree = Project(child=Weigh(child=Empty(names=("x",)), weight=-1), items=keep("x", WEIGHT))
    assert drop_unchanged(tree, Facts(())) == Empty(names=("x", WEIGHT))


def test_states_of_unchanged_inputs_are_one() -> None:
    delta = differentiate(joined(A, B, C))
    assert states(delta) == {(A, State.OLD), (B, State.OLD), (B, State.NEW), (C, State.NEW)}
    assert states(unify_states(delta, Facts({A}))) == {(A, State.OLD), (B, State.NEW), (C, State.NEW)}
    assert unify_states(delta, Facts({A, B, C})) == delta


def test_a_self_join_keeps_both_terms() -> None:
    left = Scan(input=A, fields=(ScanColumn("id", "l_id"),))
    right = Scan(input=A, fields=(ScanColumn("id", "r_id"),))
    delta = differentiate(Join(inputs=(left, right), conditions=()))
    found = optimize(delta, Facts({A}))
    assert changes(found) == [A, A]
    assert states(found) == {(A, State.NEW), (A, State.OLD)}


def test_passes_keep_columns_and_can_be_switched_off() -> None:
    delta = differentiate(counted(joined(A, B), "a_id"))
    assert optimize(delta, Facts({A}), ()) == delta
    for apply in PASSES:
        assert apply(delta, Facts({A})).columns == delta.columns
    done = optimize(delta, Facts({A}))
    assert optimize(done, Facts({A})) == done
