"""Which aggregates of distinct values become aggregates over groups, and what of."""

from __future__ import annotations

import pytest

from spark_trickle.delta.distinct_calls import split_distinct
from spark_trickle.model import TableName
from spark_trickle.sql.algebra import Aggregate, Call, Item, Operator, Project, Scan, ScanColumn
from spark_trickle.sql.scalar import call, column, greater, number

TABLE = Scan(input=TableName("s", "a"), fields=tuple(ScanColumn(c, c) for c in ("g", "x", "y")))
TYPES = {"k": "int", "d": "bigint", "d__arg": "string", "a": "bigint", "a__arg": "int"}


def plain(function: str, name: str = "a", argument: str = "y") -> Call:
    return Call(name, call(function, column(argument)), function, (column(argument),))


def distinct(name: str = "d", argument: str = "x") -> Call:
    return Call(name, call("count", column(argument)), "count", (column(argument),), distinct=True)


def aggregate(*calls: Call) -> Aggregate:
    return Aggregate(child=TABLE, keys=(Item("k", column("g")),), calls=calls)


def split(tree: Operator, **types: str) -> tuple[Project, Aggregate, Aggregate]:
    """The projection, the outer aggregate and the inner one."""
    found = split_distinct(tree, TYPES | types)
    assert isinstance(found, Project)
    outer = found.child
    assert isinstance(outer, Aggregate)
    inner = outer.child
    assert isinstance(inner, Aggregate)
    assert found.columns == tree.columns
    return found, outer, inner


def test_values_become_keys() -> None:
    shown, outer, inner = split(aggregate(distinct(), plain("sum")))
    assert [str(k) for k in inner.keys] == ["`g` AS k", "`x` AS d__d"]
    assert [str(c) for c in inner.calls] == ["sum(`y`) AS a__p"]
    assert [str(k) for k in outer.keys] == ["k"]
    assert [str(c) for c in outer.calls] == ["count(`d__d`) AS d", "sum(`a__p`) AS a__w"]
    assert str(shown.items[-1].scalar) == "CAST(`a__w` AS BIGINT)"


def test_distinct_values_of_a_key() -> None:
    _, outer, inner = split(aggregate(distinct(argument="g")))
    assert [str(k) for k in inner.keys] == ["`g` AS k"]
    assert str(outer.calls[0]) == "count(`k`) AS d"


def test_a_count_over_no_rows_is_zero() -> None:
    tree = Aggregate(child=TABLE, keys=(), calls=(distinct(), plain("count")))
    shown, outer, _ = split(tree)
    assert outer.keys == ()
    assert str(shown.items[-1].scalar) == "coalesce(`a__w`, 0)"


def test_filters_stay_with_the_rows() -> None:
    only = Call("a", call("sum", column("y")), "sum", (column("y"),), filter=greater(column("y"), number(0)))
    _, outer, inner = split(aggregate(distinct(), only))
    assert inner.calls[0].filter == only.filter
    assert outer.calls[1].filter is None


def test_average_by_sum_and_count() -> None:
    shown, outer, inner = split(aggregate(distinct(), plain("avg")), a="double")
    assert [str(c) for c in inner.calls] == ["sum(CAST(`y` AS BIGINT)) AS a__sp", "count(`y`) AS a__np"]
    assert [str(c) for c in outer.calls[1:]] == ["sum(`a__sp`) AS a__sw", "sum(`a__np`) AS a__nw"]
    assert "`a__nw` > 0" in str(shown.items[-1].scalar)


def test_wide_decimals_where_a_sum_that_is_too_large_is_an_error() -> None:
    tree, types = aggregate(distinct(), plain("sum")), {"a": "decimal(38,4)", "a__arg": "decimal(32,4)"}
    shown, _, _ = split(tree, **types)
    assert str(shown.items[-1].scalar) == "CAST(`a__w` AS DECIMAL(38, 4))"
    assert split_distinct(tree, TYPES | types, plain_decimals=False) is tree, "NULL is no part of a sum"


@pytest.mark.parametrize(
    ("calls", "types"),
    [
        ((plain("sum"),), {}),
        ((distinct(), distinct("a", "y")), {}),  # two kinds of groups
        (
            (distinct(), plain("avg")),
            {"a": "double", "a__arg": "bigint"},
        ),  # beyond 2^53 Spark's is not exact
        ((distinct(), plain("avg")), {"a": "decimal(30,14)", "a__arg": "decimal(26,10)"}),
        ((distinct(), plain("sum")), {"a": "double", "a__arg": "double"}),  # its last bits depend on the order
        ((distinct(), plain("sum")), {"a__arg": "bigint"}),  # a part of it may be too large
        ((distinct(), plain("sum")), {"a": "decimal(38,9)", "a__arg": "decimal(28,9)"}),  # no state keeps its sum
        ((distinct(), plain("max")), {"a": "float"}),  # of 0.0 and -0.0 the first one
        ((distinct(), plain("collect_list")), {"a": "array<int>"}),
        ((distinct(),), {"d__arg": "map<int,int>"}),
        ((distinct(),), {"d__arg": "string collate UTF8_LCASE"}),
        ((Call("d", call("sum", column("x")), "sum", (column("x"),), distinct=True),), {}),
        ((Call("d", call("count", column("x"), column("y")), "count", (column("x"), column("y")), distinct=True),), {}),
    ],
)
def test_what_stays_as_it_is(calls: tuple[Call, ...], types: dict[str, str]) -> None:
    tree = aggregate(*calls)
    assert split_distinct(tree, TYPES | types) is tree
