"""What the engine knows about each aggregate function of Spark, in one table.

A function that is not in the table has none of these properties: its groups are recomputed, its answer is exact, and
nobody relies on what it gives over no rows.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum


class Form(StrEnum):
    """The state that an aggregate is kept by, if the types allow it (delta/aggregates)."""

    COUNT = "count"
    COUNT_IF = "count_if"
    EVERY = "every"
    SOME = "some"
    SUM = "sum"
    AVERAGE = "average"
    EXTREMUM = "extremum"


class Empty(StrEnum):
    """What an aggregate gives over no rows."""

    ZERO = "zero"
    NULL = "null"


@dataclass(frozen=True, slots=True)
class AggregateFacts:
    form: Form | None = None  # None: never kept by a state
    empty: Empty | None = None  # None: neither, or not looked into
    undetermined: bool = False  # SQL leaves the answer open: row order, ties, sketch merges
    bag: bool = False  # undetermined, but an array in an open order: comparable once sorted
    floating: bool = False  # adds up doubles: the last bits depend on the order of the rows
    smooth: bool = False  # a float argument that is off by a little gives a result that is off by as little
    skips_null: bool = False  # a NULL is no value at all


_TABLE: tuple[tuple[str, AggregateFacts], ...] = (
    ("count", AggregateFacts(Form.COUNT, Empty.ZERO, skips_null=True)),
    ("count_if", AggregateFacts(Form.COUNT_IF, Empty.ZERO, skips_null=True)),
    ("bool_and every", AggregateFacts(Form.EVERY, Empty.NULL, skips_null=True)),
    ("bool_or any some", AggregateFacts(Form.SOME, Empty.NULL, skips_null=True)),
    ("sum", AggregateFacts(Form.SUM, Empty.NULL, floating=True, smooth=True, skips_null=True)),
    ("avg mean", AggregateFacts(Form.AVERAGE, Empty.NULL, floating=True, smooth=True, skips_null=True)),
    ("min max", AggregateFacts(Form.EXTREMUM, Empty.NULL, smooth=True, skips_null=True)),
    ("try_sum try_avg", AggregateFacts(empty=Empty.NULL, floating=True, smooth=True)),
    (
        "stddev stddev_samp stddev_pop variance var_samp var_pop corr covar_pop covar_samp "
        "percentile percentile_cont median",
        AggregateFacts(empty=Empty.NULL, floating=True),
    ),
    ("percentile_disc", AggregateFacts(empty=Empty.NULL)),
    ("regr_count", AggregateFacts(empty=Empty.ZERO, floating=True)),
    (
        "std skewness kurtosis regr_avgx regr_avgy regr_intercept regr_r2 regr_slope regr_sxx regr_sxy regr_syy",
        AggregateFacts(floating=True),
    ),
    (
        "first first_value last last_value any_value max_by min_by mode approx_percentile percentile_approx",
        AggregateFacts(empty=Empty.NULL, undetermined=True),
    ),
    ("collect_list array_agg collect_set", AggregateFacts(undetermined=True, bag=True, skips_null=True)),
    (
        "listagg string_agg map_agg histogram_numeric "
        "approx_top_k approx_top_k_accumulate approx_top_k_combine hll_sketch_agg hll_union_agg "
        "theta_sketch_agg theta_union_agg theta_intersection_agg "
        "kll_sketch_agg_bigint kll_sketch_agg_double kll_sketch_agg_float "
        "kll_merge_agg_bigint kll_merge_agg_double kll_merge_agg_float",
        AggregateFacts(undetermined=True),
    ),
)

AGGREGATES = {name: facts for names, facts in _TABLE for name in names.split()}

UNDETERMINED = frozenset(name for name, facts in AGGREGATES.items() if facts.undetermined)
UNORDERED_BAG = frozenset(name for name, facts in AGGREGATES.items() if facts.bag)
FLOATING = frozenset(name for name, facts in AGGREGATES.items() if facts.floating)

_UNKNOWN = AggregateFacts()


def facts_of(function: str) -> AggregateFacts:
    return AGGREGATES.get(function, _UNKNOWN)
