"""What is known about each aggregate function: every fact, asked of every name in the table."""

from __future__ import annotations

import pytest

from spark_trickle.sql.aggregate_facts import (
    AGGREGATES,
    FLOATING,
    UNDETERMINED,
    UNORDERED_BAG,
    AggregateFacts,
    Empty,
    Form,
    facts_of,
)

_BOOLEAN = "bool_and every bool_or any some"
_BASIC = "sum avg mean min max"
_MOMENTS = "stddev stddev_samp stddev_pop variance var_samp var_pop corr covar_pop covar_samp"
_MIDDLE = "percentile percentile_cont median"
_REGRESSION = "regr_avgx regr_avgy regr_count regr_intercept regr_r2 regr_slope regr_sxx regr_sxy regr_syy"
_BAGS = "collect_list array_agg collect_set"
_ONE_OF_SEVERAL = "first first_value last last_value any_value max_by min_by mode approx_percentile percentile_approx"
_SKETCHES = (
    "approx_top_k approx_top_k_accumulate approx_top_k_combine hll_sketch_agg hll_union_agg "
    "theta_sketch_agg theta_union_agg theta_intersection_agg "
    "kll_sketch_agg_bigint kll_sketch_agg_double kll_sketch_agg_float "
    "kll_merge_agg_bigint kll_merge_agg_double kll_merge_agg_float"
)

EXPECTED: dict[tuple[str, object], str] = {
    ("form", Form.COUNT): "count",
    ("form", Form.COUNT_IF): "count_if",
    ("form", Form.EVERY): "bool_and every",
    ("form", Form.SOME): "bool_or any some",
    ("form", Form.SUM): "sum",
    ("form", Form.AVERAGE): "avg mean",
    ("form", Form.EXTREMUM): "min max",
    ("empty", Empty.ZERO): "count count_if regr_count",
    (
        "empty",
        Empty.NULL,
    ): f"{_BASIC} try_sum try_avg {_BOOLEAN} {_MOMENTS} {_MIDDLE} percentile_disc {_ONE_OF_SEVERAL}",
    ("undetermined", True): f"{_ONE_OF_SEVERAL} {_BAGS} listagg string_agg map_agg histogram_numeric {_SKETCHES}",
    ("bag", True): _BAGS,
    ("floating", True): f"sum avg mean try_sum try_avg {_MOMENTS} std skewness kurtosis {_REGRESSION} {_MIDDLE}",
    ("smooth", True): f"{_BASIC} try_sum try_avg",
    ("skips_null", True): f"count count_if {_BASIC} {_BAGS} {_BOOLEAN}",
}


@pytest.mark.parametrize(("fact", "value"), EXPECTED)
def test_which_functions_have_a_fact(fact: str, value: object) -> None:
    assert {name for name in AGGREGATES if getattr(facts_of(name), fact) == value} == {*EXPECTED[fact, value].split()}


def test_every_fact_is_asked_of_every_name() -> None:
    assert {fact for fact, _ in EXPECTED} == set(AggregateFacts.__slots__)
    assert {name for names in EXPECTED.values() for name in names.split()} == AGGREGATES.keys()


def test_an_open_answer_is_nothing_to_build_on() -> None:
    for name, facts in AGGREGATES.items():
        assert facts.undetermined or not facts.bag, name
        assert not (facts.undetermined and (facts.form or facts.floating or facts.smooth)), name


def test_other_functions_have_no_facts() -> None:
    assert facts_of("approx_count_distinct") == AggregateFacts()


def test_sets_by_fact() -> None:
    assert {"first", "mode", "collect_list"} <= UNDETERMINED
    assert {"collect_list", "array_agg", "collect_set"} == UNORDERED_BAG <= UNDETERMINED
    assert "sum" in FLOATING
    assert not FLOATING & UNDETERMINED
