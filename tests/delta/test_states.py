"""Which parts of a tree become hidden state tables, and what is left to compare."""

from __future__ import annotations

import pytest

from spark_trickle.delta.plans.plan import Comparison
from spark_trickle.delta.states import Openness, StateTree, cut_states, must_store, openness
from spark_trickle.errors import NotIncremental
from spark_trickle.model import Column, TableName
from spark_trickle.sql.algebra import (
    Aggregate,
    Call,
    Distinct,
    Filter,
    Item,
    Join,
    Operator,
    Project,
    Scan,
    ScanColumn,
    UnionAll,
    keep,
)
from spark_trickle.sql.scalar import Scalar, call, column, equal, greater, number
from spark_trickle.sql.trees import scans

TYPES = {"k": "int", "n": "bigint", "n__arg": "int", "t": "double", "t__arg": "double", "l": "array<string>"}
COUNT = Call("n", call("count", number(1)), "count", (number(1),))
SUM = Call("t", call("sum", column("x")), "sum", (column("x"),))
LIST = Call("l", call("collect_list", column("x")), "collect_list", (column("x"),))


def table(name: str, *columns: str) -> Scan:
    return Scan(input=TableName("s", name), fields=tuple(ScanColumn(c, c) for c in columns))


def grouped(*calls: Call, child: Operator | None = None, key: str | None = "k") -> Aggregate:
    keys = (Item(key, column("g")),) if key else ()
    return Aggregate(child=child or table("a", "g", "x"), keys=keys, calls=calls)


def joined(*parts: Operator, on: Scalar | None = None) -> Join:
    return Join(inputs=(*parts, table("b", "y")), conditions=(on,) if on else ())


def typed(op: Operator) -> tuple[Column, ...]:
    return tuple(Column(c, TYPES.get(c, "string")) for c in op.columns)


def cut(tree: Operator, *, optional: bool = True) -> tuple[Operator, list[Operator]]:
    found: list[StateTree] = []

    def keep_(state: StateTree) -> TableName:
        found.append(state)
        return TableName("_trickle", f"state{len(found)}")

    return cut_states(tree, TYPES, typed, keep_, optional=optional), [s.tree for s in found]


def inputs(tree: Operator) -> list[str]:
    return [s.input.name for s in scans(tree)]


def test_an_aggregate_below_a_join() -> None:
    inner = grouped(COUNT)
    tree, found = cut(joined(inner, on=equal(column("k"), column("y"))))
    assert found == [inner]
    assert inputs(tree) == ["state1", "b"]
    assert tree.columns == ("k", "n", "y")
    assert scans(tree)[0].fields == (ScanColumn("c0", "k"), ScanColumn("c1", "n"))
    assert cut(joined(inner), optional=False) == (joined(inner), [])


def test_what_depends_on_the_order_of_rows_must_be_stored() -> None:
    for one in (SUM, LIST):
        assert must_store(grouped(one), TYPES)
        assert cut(joined(grouped(one)), optional=False)[1] == [grouped(one)]
    assert not must_store(grouped(COUNT), TYPES)
    exact = {**TYPES, "t": "decimal(20,2)"}
    assert not must_store(grouped(SUM), exact)


def test_what_the_root_handles_itself_stays() -> None:
    for one in (COUNT, SUM, LIST):
        tree = Project(child=grouped(one), items=keep("k", one.name))
        assert cut(tree) == (tree, [])
    alone = Distinct(child=table("a", "g"))
    assert cut(alone) == (alone, [])


def test_having_keeps_the_rejected_groups_elsewhere() -> None:
    tree = Filter(child=grouped(COUNT), condition=greater(column("n"), number(2)))
    assert cut(tree)[1] == [grouped(COUNT)]
    assert cut(tree, optional=False)[1] == []
    # Its groups are recomputed either way: a second table would only cost.
    recomputed = Filter(child=grouped(LIST), condition=greater(call("size", column("l")), number(2)))
    assert cut(recomputed)[1] == []


def test_only_the_outermost_is_cut_at_once() -> None:
    inner = grouped(SUM)
    middle = Aggregate(child=inner, keys=(Item("m", column("k")),), calls=(COUNT,))
    outer = Aggregate(child=middle, keys=(Item("o", column("m")),), calls=())
    assert cut(outer)[1] == [middle]
    assert cut(middle)[1] == [inner], "a state table's own tree is not cut at its root"
    assert cut(outer, optional=False)[1] == [inner], "without the optional cut the one below it must be made"


def test_union_branches_are_stored_only_if_they_must_be() -> None:
    def branch(one: Call) -> Operator:
        return Project(child=grouped(one), items=(Item("v", column(one.name)),))

    def union(one: Call) -> Operator:
        return UnionAll(
            inputs=(branch(one), Project(child=table("b", "y"), items=(Item("v", column("y")),))), names=("v",)
        )

    assert cut(union(COUNT))[1] == []
    assert cut(union(SUM))[1] == [grouped(SUM)]
    assert cut(joined(union(COUNT)))[1] == [grouped(COUNT)], "the join reads both states of the union"


def test_one_row_is_stored_only_if_no_refresh_reads_all_rows_for_it() -> None:
    assert cut(joined(grouped(COUNT, key=None)))[1] == [grouped(COUNT, key=None)]
    distinct = Call("n", call("count", column("x")), "count", (column("x"),), distinct=True)
    assert cut(joined(grouped(distinct, key=None)))[1] == []


def test_what_iceberg_cannot_store() -> None:
    void = {**TYPES, "k": "void"}

    def of(op: Operator) -> tuple[Column, ...]:
        return tuple(Column(c, void[c]) for c in op.columns)

    def nowhere(state: StateTree) -> TableName:
        raise AssertionError(state)

    tree = joined(grouped(COUNT))
    assert cut_states(tree, void, of, nowhere) is tree
    with pytest.raises(NotIncremental, match=r"ORDER_DEPENDENT.*void"):
        cut_states(joined(grouped(SUM)), void, of, nowhere)


def test_small_integers_are_cast_back() -> None:
    small = {**TYPES, "k": "smallint"}
    tree = cut_states(
        joined(grouped(COUNT)),
        small,
        lambda op: tuple(Column(c, small[c]) for c in op.columns),
        lambda _state: TableName("_trickle", "x"),
    )
    assert isinstance(tree, Join)
    read = tree.inputs[0]
    assert isinstance(read, Project)
    assert str(read.items[0].scalar) == "CAST(`k__stored` AS SMALLINT)"
    assert read.columns == ("k", "n")


# -- comparing ---------------------------------------------------------------------------------------------------------

STATE = Scan(
    input=TableName("_trickle", "st"), fields=(ScanColumn("c0", "k"), ScanColumn("c1", "t"), ScanColumn("c2", "l"))
)
STORED = {STATE.input: {"c1": Comparison.APPROXIMATE, "c2": Comparison.BAG}}


def found(tree: Operator) -> Openness:
    return openness(tree, STORED, TYPES)


def test_values_pass_through() -> None:
    items = (Item("a", column("t")), Item("b", column("l")), Item("c", call("abs", column("t"))), *keep("k"))
    assert found(Project(child=STATE, items=items)) == Openness(
        {"a": Comparison.APPROXIMATE, "b": Comparison.BAG, "c": Comparison.APPROXIMATE}
    )
    sized = Project(child=STATE, items=(Item("a", call("size", column("l"))),))
    assert found(sized).columns == {"a": Comparison.OPEN}


@pytest.mark.parametrize(
    ("tree", "open_"),
    [
        (Filter(child=STATE, condition=greater(column("t"), number(0))), True),
        (Filter(child=STATE, condition=greater(column("k"), number(0))), False),
        (Join(inputs=(STATE, table("b", "y")), conditions=(equal(column("t"), column("y")),)), True),
        (Join(inputs=(STATE, table("b", "y")), conditions=(equal(column("k"), column("y")),)), False),
        (Distinct(child=STATE), True),
        (Distinct(child=Project(child=STATE, items=keep("k"))), False),
        (Aggregate(child=STATE, keys=(Item("g", column("t")),), calls=()), True),
        (Aggregate(child=STATE, keys=(Item("g", column("k")),), calls=()), False),
    ],
)
def test_a_value_that_decides_opens_the_rows(tree: Operator, open_: bool) -> None:
    assert found(tree).rows is open_


def test_aggregates_over_stored_values() -> None:
    types = {"s": "double", "c": "bigint", "m": "double"}
    calls = (
        Call("s", call("sum", column("t")), "sum", (column("t"),)),
        Call("c", call("count_if", greater(column("t"), number(0))), "count_if", (greater(column("t"), number(0)),)),
        Call("m", call("median", column("t")), "median", (column("t"),)),
        COUNT,
    )
    tree = Aggregate(child=STATE, keys=(Item("g", column("k")),), calls=calls)
    assert openness(tree, STORED, types) == Openness(
        {"s": Comparison.APPROXIMATE, "c": Comparison.OPEN, "m": Comparison.OPEN}
    )
