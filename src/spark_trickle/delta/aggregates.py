"""Which aggregates can be kept by adding deltas to a stored state, bit-equal to Spark's own result.

An algebraic call keeps *state columns* in storage. Each state has three scalars: `full` (how a full refresh computes
it from the rows), `delta` (how much a Z-set adds to it) and, for extrema, how to merge. `final` gives the call's
value from its states. Everything else is recomputed for the affected groups. Which functions have which form is in
sql/aggregate_facts; here is what the types of a call make of it.

The weight of a delta row is an integer n: n copies added, or removed when negative.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum

from spark_trickle.sql.aggregate_facts import Form, facts_of
from spark_trickle.sql.algebra import WEIGHT, Call
from spark_trickle.sql.scalar import (
    Scalar,
    add,
    call,
    case_when,
    cast,
    column,
    divide,
    greater,
    less,
    multiply,
    number,
    subtract,
    text,
)

_INTEGERS = ("tinyint", "smallint", "int", "bigint")
_ORDERED = (*_INTEGERS, "string", "date", "timestamp", "timestamp_ntz", "boolean", "binary")
_DECIMAL = re.compile(r"decimal\((\d+),\s*(\d+)\)")

# A decimal that would have over 38 digits gives up digits of its scale, but never the first six. So what has at most
# six keeps them in every sum and product; what has more must leave room for the 11 digits of x * weight.
_SAFE_SCALE = 6
_WIDEST_DECIMAL = 27
# The digits and the scale of an average's argument, at most: its sum over 10^10 rows is divided with scale + 4 digits.
_WIDEST_AVERAGE = 24


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
    change_type: str = ""  # of the delta, where it can be larger than the state

    @property
    def delta_type(self) -> str:
        return self.change_type or self.type


@dataclass(frozen=True, slots=True)
class Algebraic:
    call: Call
    states: tuple[StateColumn, ...]
    final: Scalar  # over the state columns
    unsafe: Scalar | None = None  # over the state columns: the group must be recomputed by Spark itself


def decimal(type_: str) -> tuple[int, int] | None:
    match = _DECIMAL.fullmatch(type_)
    return (int(match[1]), int(match[2])) if match else None


def order_dependent(aggregate: Call, types: Mapping[str, str]) -> bool:
    """Whether two correct evaluations may differ: row order, ties, or the last bits of a float."""
    return facts_of(aggregate.function).undetermined or approximate(aggregate, types) or extremal(aggregate, types)


def extremal(aggregate: Call, types: Mapping[str, str]) -> bool:
    """Whether it is an extremum of values that may differ although they compare equal: the first one wins."""
    result = types.get(aggregate.name, "")
    extremum = facts_of(aggregate.function).form is Form.EXTREMUM
    return extremum and any(t in result for t in ("double", "float", "collate"))


def approximate(aggregate: Call, types: Mapping[str, str]) -> bool:
    """Whether the value is a float that depends on the order of summation."""
    result = types.get(aggregate.name, "")
    return facts_of(aggregate.function).floating and any(t in result for t in ("double", "float"))


def algebraic(aggregate: Call, types: Mapping[str, str], prefix: str) -> Algebraic | None:
    """The algebraic form of a call, or None: then its groups are recomputed.

    `types` holds, for each call, the type of its result under its name and of its argument under `<name>__arg`.
    """
    form = facts_of(aggregate.function).form
    if form is None or aggregate.distinct or not aggregate.plain or len(aggregate.args) > 1:
        return None
    arg = aggregate.args[0] if aggregate.args else number(1)
    arg_type = types.get(f"{aggregate.name}__arg", "int")
    if aggregate.filter is not None:
        arg = case_when(aggregate.filter, arg)
    match form:
        case Form.COUNT | Form.COUNT_IF:
            counted = arg if form is Form.COUNT_IF else _not_null(arg)
            n = _count(f"{prefix}_n", case_when(counted, number(1)))
            return Algebraic(aggregate, (n,), column(n.name))
        case Form.EVERY | Form.SOME:
            return _boolean(aggregate, arg, prefix, every=form is Form.EVERY)
        case Form.SUM:
            return _sum(aggregate, arg, arg_type, types[aggregate.name], prefix)
        case Form.AVERAGE:
            return _average(aggregate, arg, arg_type, types[aggregate.name], prefix)
        case Form.EXTREMUM:
            return _extremum(aggregate, arg, arg_type, prefix)


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


def _total(arg: Scalar, arg_type: str, name: str, *, wide: bool) -> StateColumn | None:
    """The sum of the values; `wide`: also where it is larger than the type that sum() gives."""
    digits = decimal(arg_type)
    weight = cast(column(WEIGHT), "decimal(10,0)")
    if arg_type in _INTEGERS:
        large = arg_type == "bigint"
        # What one refresh takes away may be larger than any sum, before what it adds is counted.
        value = cast(arg, "decimal(20,0)") if large else cast(arg, "bigint")
        change_type = "decimal(38,0)" if large else "bigint"
        state_type = change_type if wide else "bigint"
        total = value if wide else cast(arg, "bigint")
        weighed = multiply(value, weight if large else column(WEIGHT))
    elif digits and (digits[1] <= _SAFE_SCALE or digits[0] <= _WIDEST_DECIMAL):
        # With more digits after the point not 38: adding two of those would cost one of them.
        state_type = change_type = f"decimal({38 if digits[1] <= _SAFE_SCALE else 37},{digits[1]})"
        total = arg
        weighed = multiply(arg, weight)
    else:
        return None
    return StateColumn(
        name=name,
        type=state_type,
        merge=Merge.ADD,
        full=cast(call("coalesce", call("sum", total), number(0)), state_type),
        delta=cast(call("coalesce", call("sum", weighed), number(0)), change_type),
        change_type=change_type,
    )


def _sum(aggregate: Call, arg: Scalar, arg_type: str, result: str, prefix: str) -> Algebraic | None:
    total = _total(arg, arg_type, f"{prefix}_s", wide=False)
    if total is None:
        return None
    # SUM over no values is NULL, not 0: hence its own count of values.
    n = _count(f"{prefix}_n", case_when(_not_null(arg), number(1)))
    final = case_when(greater(column(n.name), number(0)), cast(column(total.name), result))
    return Algebraic(aggregate, (n, total), final)


def _average(aggregate: Call, arg: Scalar, arg_type: str, result: str, prefix: str) -> Algebraic | None:
    """The quotient of sum and count, rounded once, as Spark does."""
    digits = decimal(arg_type)
    if digits and not exact_average(arg_type):
        return None
    total = _total(arg, arg_type, f"{prefix}_s", wide=True)
    if total is None:
        return None
    n = _count(f"{prefix}_n", case_when(_not_null(arg), number(1)))
    value = quotient(column(total.name), column(n.name), digits)
    final = case_when(greater(column(n.name), number(0)), cast(value, result))
    if arg_type != "bigint":
        return Algebraic(aggregate, (n, total), final)
    # Spark adds doubles, which is exact in any order as long as no partial sum can leave their whole numbers.
    size = _total(call("abs", cast(arg, "decimal(20,0)")), "decimal(20,0)", f"{prefix}_a", wide=True)
    assert size is not None
    return Algebraic(aggregate, (n, total, size), final, unsafe=greater(column(size.name), number(2**53)))


def exact_average(type_: str) -> bool:
    """Whether the average of such decimals follows from their sum and count, to the last digit."""
    digits = decimal(type_)
    return digits is not None and digits[1] <= _SAFE_SCALE and sum(digits) <= _WIDEST_AVERAGE


def quotient(total: Scalar, count: Scalar, digits: tuple[int, int] | None) -> Scalar:
    """total / count; of decimals with four digits more than they have, halves away from zero.

    Spark's division of wide decimals keeps few digits, which a cast would round a second time. So the division is
    made in whole numbers, where it leaves no remainder, and the remainder decides which way to round.
    """
    if digits is None:
        return divide(cast(total, "double"), cast(count, "double"))
    width, scale = digits[0] + 4, digits[1] + 4
    by = cast(count, "decimal(20,0)")
    units = multiply(call("abs", total), cast(number(10**scale), f"decimal({scale + 1},0)"))
    whole = cast(units, "decimal(38,0)")
    rest = call("mod", whole, by)
    up = case_when(less(multiply(rest, number(2)), by), number(0), number(1))
    rounded = cast(add(divide(subtract(whole, rest), by), up), f"decimal({width},0)")
    sign = cast(case_when(less(total, number(0)), number(-1), number(1)), "decimal(1,0)")
    return multiply(multiply(rounded, cast(text(f"1e-{scale}"), f"decimal({scale},{scale})")), sign)


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
