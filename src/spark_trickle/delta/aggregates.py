"""Which aggregates can be kept by adding deltas to a stored state, bit-equal to Spark's own result.

An algebraic call keeps *state columns* in storage. Each state has three scalars: `full` (how a full refresh computes
it from the rows), `delta` (how much a Z-set adds to it) and, for extrema, how to merge. `final` gives the call's
value from its states. Everything not in this table is recomputed for the affected groups.

The weight of a delta row is an integer n: n copies added, or removed when negative.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum

from spark_trickle.sql.algebra import WEIGHT, Call
from spark_trickle.sql.functions import FLOATING, UNDETERMINED
from spark_trickle.sql.scalar import (
    Scalar,
    call,
    case_when,
    cast,
    column,
    greater,
    multiply,
    number,
)

_INTEGERS = ("tinyint", "smallint", "int", "bigint")
_ORDERED = (*_INTEGERS, "string", "date", "timestamp", "timestamp_ntz", "boolean", "binary")
_DECIMAL = re.compile(r"decimal\((\d+),\s*(\d+)\)")

# x * weight has 10 digits more than x: beyond 27 the product would lose scale or overflow.
_WIDEST_DECIMAL = 27


class Merge(StrEnum):
    ADD = "add"
    LEAST = "least"  # a deletion that reaches the extremum makes the group a rescan
    GREATEST = "greatest"


@dataclass(frozen=True, slots=True)
class StateColumn:
    name: str
    type: str
    merge: Merge
    full: Scalar  # over the rows of a group
    delta: Scalar  # over the Z-set of a group; for extrema: over its insertions
    value: Scalar | None = None  # for extrema: what the extremum is of


@dataclass(frozen=True, slots=True)
class Algebraic:
    call: Call
    states: tuple[StateColumn, ...]
    final: Scalar  # over the state columns


def decimal(type_: str) -> tuple[int, int] | None:
    match = _DECIMAL.fullmatch(type_)
    return (int(match[1]), int(match[2])) if match else None


def order_dependent(aggregate: Call, types: Mapping[str, str]) -> bool:
    """Whether two correct evaluations may differ: row order, ties, or the last bits of a float."""
    return aggregate.function in UNDETERMINED or approximate(aggregate, types)


def approximate(aggregate: Call, types: Mapping[str, str]) -> bool:
    """Whether the value is a float that depends on the order of summation."""
    result = types.get(aggregate.name, "")
    return aggregate.function in FLOATING and any(t in result for t in ("double", "float"))


def algebraic(aggregate: Call, types: Mapping[str, str], prefix: str) -> Algebraic | None:
    """The algebraic form of a call, or None: then its groups are recomputed.

    `types` holds, for each call, the type of its result under its name and of its argument under `<name>__arg`.
    """
    if aggregate.distinct or not aggregate.plain or len(aggregate.args) > 1:
        return None
    function, result = aggregate.function, types[aggregate.name]
    arg = aggregate.args[0] if aggregate.args else number(1)
    arg_type = types.get(f"{aggregate.name}__arg", "int")
    if aggregate.filter is not None:
        arg = case_when(aggregate.filter, arg)
    if function == "count":
        n = _count(f"{prefix}_n", case_when(_not_null(arg), number(1)))
        return Algebraic(aggregate, (n,), column(n.name))
    if function == "count_if":
        n = _count(f"{prefix}_n", case_when(arg, number(1)))
        return Algebraic(aggregate, (n,), column(n.name))
    if function in ("bool_and", "every", "bool_or", "any", "some"):
        return _boolean(aggregate, arg, prefix, every=function in ("bool_and", "every"))
    if function == "sum":
        return _sum(aggregate, arg, arg_type, result, prefix)
    if function in ("min", "max"):
        return _extremum(aggregate, arg, arg_type, prefix)
    return None


def _not_null(value: Scalar) -> Scalar:
    return call("isnotnull", value)


def _count(name: str, one_or_null: Scalar) -> StateColumn:
    weight = multiply(one_or_null, column(WEIGHT))
    return StateColumn(
        name=name,
        type="bigint",
        merge=Merge.ADD,
        full=call("count", one_or_null),
        delta=call("coalesce", call("sum", weight), number(0)),
    )


def group_count(name: str) -> StateColumn:
    """The number of rows in a group: at zero the group is gone."""
    total = call("coalesce", call("sum", column(WEIGHT)), number(0))
    return StateColumn(name, "bigint", Merge.ADD, call("count", number(1)), total)


def _sum(aggregate: Call, arg: Scalar, arg_type: str, result: str, prefix: str) -> Algebraic | None:
    digits = decimal(arg_type)
    if arg_type in _INTEGERS:
        state_type = "bigint"
        value = cast(arg, "bigint")
        weighed = multiply(value, column(WEIGHT))
    elif digits and digits[0] <= _WIDEST_DECIMAL:
        # Not 38 digits: adding two of those would cost a digit of the scale. A sum has at most 37.
        state_type = f"decimal(37,{digits[1]})"
        value = arg
        weighed = multiply(arg, cast(column(WEIGHT), "decimal(10,0)"))
    else:
        return None
    n = _count(f"{prefix}_n", case_when(_not_null(arg), number(1)))
    total = StateColumn(
        name=f"{prefix}_s",
        type=state_type,
        merge=Merge.ADD,
        full=cast(call("coalesce", call("sum", value), number(0)), state_type),
        delta=cast(call("coalesce", call("sum", weighed), number(0)), state_type),
    )
    # SUM over no values is NULL, not 0: hence its own count of values.
    final = case_when(greater(column(n.name), number(0)), cast(column(total.name), result))
    return Algebraic(aggregate, (n, total), final)


def _boolean(aggregate: Call, arg: Scalar, prefix: str, *, every: bool) -> Algebraic:
    yes = _count(f"{prefix}_t", case_when(arg, number(1)))
    no = _count(f"{prefix}_f", case_when(call("not", arg), number(1)))
    decisive, other = (no, yes) if every else (yes, no)
    final = case_when(
        greater(column(decisive.name), number(0)),
        cast(number(0 if every else 1), "boolean"),
        case_when(greater(column(other.name), number(0)), cast(number(1 if every else 0), "boolean")),
    )
    return Algebraic(aggregate, (yes, no), final)


def _extremum(aggregate: Call, arg: Scalar, arg_type: str, prefix: str) -> Algebraic | None:
    # Floats are left out: the extremum of 0.0 and -0.0 is whichever came first.
    if arg_type not in _ORDERED and decimal(arg_type) is None:
        return None
    function = aggregate.function
    state = StateColumn(
        name=f"{prefix}_x",
        type=arg_type,
        merge=Merge.LEAST if function == "min" else Merge.GREATEST,
        full=call(function, arg),
        delta=call(function, case_when(greater(column(WEIGHT), number(0)), arg)),
        value=arg,
    )
    return Algebraic(aggregate, (state,), column(state.name))
