"""Which aggregates keep a state, and what the state is."""

from __future__ import annotations

import pytest

from spark_trickle.delta.aggregates import Merge, algebraic, approximate, decimal, group_count, order_dependent
from spark_trickle.sql.algebra import Call
from spark_trickle.sql.scalar import Scalar, call, column, greater, number

X = column("x")


def aggregate(function: str, *args: Scalar, distinct: bool = False, **more: object) -> Call:
    return Call("a", call(function, *args), function, args, distinct, **more)  # type: ignore[arg-type]


def types(result: str, argument: str | None = None) -> dict[str, str]:
    return {"a": result} | ({"a__arg": argument} if argument else {})


@pytest.mark.parametrize(
    ("function", "argument", "result", "states"),
    [
        ("count", "string", "bigint", ["bigint"]),
        ("count", "double", "bigint", ["bigint"]),
        ("count_if", "boolean", "bigint", ["bigint"]),
        ("bool_and", "boolean", "boolean", ["bigint", "bigint"]),
        ("every", "boolean", "boolean", ["bigint", "bigint"]),
        ("any", "boolean", "boolean", ["bigint", "bigint"]),
        ("sum", "tinyint", "bigint", ["bigint", "bigint"]),
        ("sum", "bigint", "bigint", ["bigint", "bigint"]),
        ("sum", "decimal(12,2)", "decimal(22,2)", ["bigint", "decimal(38,2)"]),
        ("sum", "decimal(38,6)", "decimal(38,6)", ["bigint", "decimal(38,6)"]),
        ("sum", "decimal(27,9)", "decimal(37,9)", ["bigint", "decimal(37,9)"]),
        ("avg", "int", "double", ["bigint", "bigint"]),
        ("avg", "bigint", "double", ["bigint", "decimal(38,0)", "decimal(38,0)"]),  # an average does not overflow
        ("mean", "decimal(15,2)", "decimal(19,6)", ["bigint", "decimal(38,2)"]),
        ("avg", "decimal(18,6)", "decimal(22,10)", ["bigint", "decimal(38,6)"]),
        ("min", "string", "string", ["string"]),
        ("max", "date", "date", ["date"]),
        ("max", "decimal(38,10)", "decimal(38,10)", ["decimal(38,10)"]),
        ("min", "timestamp_ntz", "timestamp_ntz", ["timestamp_ntz"]),
    ],
)
def test_with_a_state(function: str, argument: str, result: str, states: list[str]) -> None:
    form = algebraic(aggregate(function, X), types(result, argument), "_t_0")
    assert form is not None
    assert [s.type for s in form.states] == states
    assert all(s.name.startswith("_t_0_") for s in form.states)
    assert form.final.columns <= {s.name for s in form.states}


@pytest.mark.parametrize(
    ("function", "argument", "result"),
    [
        ("sum", "double", "double"),  # additions of doubles do not commute to the last bit
        ("sum", "float", "double"),
        ("sum", "decimal(28,7)", "decimal(38,7)"),  # times a weight it would lose digits
        ("sum", "interval day", "interval day"),
        ("avg", "double", "double"),
        ("avg", "decimal(23,2)", "decimal(27,6)"),  # its sum could not be divided exactly
        ("avg", "decimal(12,7)", "decimal(16,11)"),
        ("try_avg", "int", "double"),
        ("min", "double", "double"),  # 0.0 or -0.0, whichever came first
        ("max", "float", "float"),
        ("min", "array<int>", "array<int>"),
        ("max", "struct<a:int>", "struct<a:int>"),
        ("first", "int", "int"),
        ("collect_list", "int", "array<int>"),
        ("approx_count_distinct", "int", "bigint"),
    ],
)
def test_recomputed_instead(function: str, argument: str, result: str) -> None:
    assert algebraic(aggregate(function, X), types(result, argument), "p") is None


def test_forms_that_are_recomputed() -> None:
    known = types("bigint", "bigint")
    assert algebraic(aggregate("count", X, distinct=True), known, "p") is None
    assert algebraic(aggregate("sum", X, plain=False), known, "p") is None
    assert algebraic(aggregate("count", X, column("y")), {"a": "bigint"}, "p") is None


def test_count_star_counts_rows_and_count_x_counts_values() -> None:
    star = algebraic(aggregate("count"), {"a": "bigint"}, "p")
    some = algebraic(aggregate("count", X), types("bigint", "int"), "p")
    assert star is not None
    assert some is not None
    assert "`x`" not in star.states[0].full.sql()
    assert some.states[0].full.sql() == "count(CASE WHEN isnotnull(`x`) THEN 1 END)"
    assert some.states[0].delta.sql() == "coalesce(sum(CASE WHEN isnotnull(`x`) THEN 1 END * `_t_w`), 0)"


def test_filter_is_part_of_the_argument() -> None:
    condition = greater(column("y"), number(3))
    form = algebraic(aggregate("sum", X, filter=condition), types("bigint", "int"), "p")
    assert form is not None
    for state in form.states:
        assert "`y` > 3" in state.full.sql()
        assert "`y` > 3" in state.delta.sql()


def test_sum_of_no_values_is_null() -> None:
    form = algebraic(aggregate("sum", X), types("bigint", "int"), "p")
    assert form is not None
    assert form.final.sql() == "CASE WHEN `p_n` > 0 THEN CAST(`p_s` AS BIGINT) END"


def test_extrema_look_at_insertions_and_know_their_value() -> None:
    form = algebraic(aggregate("min", X), types("int", "int"), "p")
    assert form is not None
    (state,) = form.states
    assert state.merge is Merge.LEAST
    assert state.value == X
    assert state.delta.sql() == "min(CASE WHEN `_t_w` > 0 THEN `x` END)"
    top = algebraic(aggregate("max", X), types("int", "int"), "p")
    assert top is not None
    assert top.states[0].merge is Merge.GREATEST


def test_group_count_counts_copies() -> None:
    count = group_count("_t_count")
    assert (count.full.sql(), count.delta.sql(), count.merge) == ("count(1)", "coalesce(sum(`_t_w`), 0)", Merge.ADD)


@pytest.mark.parametrize(
    ("function", "result", "is_approximate", "depends"),
    [
        ("sum", "double", True, True),
        ("avg", "double", True, True),
        ("avg", "decimal(14,6)", False, False),
        ("sum", "bigint", False, False),
        ("first", "int", False, True),
        ("collect_list", "array<double>", False, True),
        ("max", "double", False, True),  # of 0.0 and -0.0 the first one wins
        ("count", "bigint", False, False),
    ],
)
def test_order_dependence(function: str, result: str, is_approximate: bool, depends: bool) -> None:
    one = aggregate(function, X)
    assert (approximate(one, types(result)), order_dependent(one, types(result))) == (is_approximate, depends)


@pytest.mark.parametrize(("type_", "digits"), [("decimal(12,2)", (12, 2)), ("decimal(38, 0)", (38, 0)), ("int", None)])
def test_decimal_types(type_: str, digits: tuple[int, int] | None) -> None:
    assert decimal(type_) == digits
