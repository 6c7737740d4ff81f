"""Aggregates of distinct values as aggregates over their groups:

    count(DISTINCT x) by k   =   count(x) by k   over   the groups by (k, x)

The groups by (k, x) then become a hidden state table (delta/states), whose counts tell when the last row of a value
goes. Without it a change makes the whole group be read again, and a definition with few groups nearly all rows.

Other calls of the same aggregate are taken in two steps, too: sums of sums, sums of counts, averages by both, extrema
of extrema. It is done only where that gives the very value that Spark's one step gives: no floats, no sums that might
leave their type.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from spark_trickle.delta.aggregates import decimal, exact_average, quotient
from spark_trickle.sql.aggregate_facts import Form, facts_of
from spark_trickle.sql.algebra import Aggregate, Call, Item, Operator, Project, keep
from spark_trickle.sql.scalar import Scalar, call, case_when, cast, column, greater, number

_SMALL_INTEGERS = ("tinyint", "smallint", "int")
_LARGEST_SCALE = 6  # of decimals whose sums are kept by a state (delta/aggregates)
# What is no key of a state table.
_NO_KEYS = ("map<", "collate", "variant", "void", "interval")


@dataclass(frozen=True, slots=True)
class _Steps:
    """One call, in two steps."""

    inner: tuple[Call, ...]
    outer: tuple[Call, ...]
    final: Scalar  # over the outer calls


def split_distinct(tree: Operator, types: Mapping[str, str], *, plain_decimals: bool = True) -> Operator:
    """`types` as `Analyzer.annotate` gives them. `plain_decimals`: a sum of decimals that is too large is an error."""
    return tree.transform(lambda op: _split(op, types, plain_decimals) if isinstance(op, Aggregate) else op)


def _split(op: Aggregate, types: Mapping[str, str], plain_decimals: bool) -> Operator:
    distinct = [c for c in op.calls if c.distinct]
    values = {c.args for c in distinct}
    fit = all(c.function == "count" and len(c.args) == 1 and c.plain and c.filter is None for c in distinct)
    steps = {c.name: _in_steps(c, types, plain_decimals) for c in op.calls if not c.distinct}
    if len(values) != 1 or not fit or any(s is None for s in steps.values()):
        return op
    type_ = types.get(f"{distinct[0].name}__arg")
    if type_ is None or any(t in type_ for t in _NO_KEYS):
        return op
    value = distinct[0].args[0]
    known = next((k.name for k in op.keys if k.scalar == value), None)
    name = known or f"{distinct[0].name}__d"
    added = () if known else (Item(name, value),)
    counted = column(name)
    found = {name: s for name, s in steps.items() if s is not None}
    counts = tuple(Call(c.name, call("count", counted), "count", (counted,)) for c in distinct)
    inner = Aggregate(child=op.child, keys=(*op.keys, *added), calls=tuple(c for s in found.values() for c in s.inner))
    outer = Aggregate(
        child=inner,
        keys=tuple(Item(k.name, column(k.name)) for k in op.keys),
        calls=(*counts, *(c for s in found.values() for c in s.outer)),
    )
    finals = (Item(c.name, found[c.name].final if c.name in found else column(c.name)) for c in op.calls)
    return Project(child=outer, items=(*keep(*(k.name for k in op.keys)), *finals))


def _in_steps(one: Call, types: Mapping[str, str], plain_decimals: bool) -> _Steps | None:
    """None: in two steps it might give something else."""
    if not one.plain or len(one.args) > 1:
        return None
    result, arg = types.get(one.name, ""), types.get(f"{one.name}__arg", "")
    part, whole = f"{one.name}__p", f"{one.name}__w"

    def again(function: str) -> tuple[tuple[Call, ...], tuple[Call, ...]]:
        """The call over the rows of a value, and a function of it over the values."""
        inner = Call(part, one.whole, one.function, one.args, filter=one.filter)
        return (inner,), (Call(whole, call(function, column(part)), function, (column(part),)),)

    match facts_of(one.function).form:
        case Form.COUNT | Form.COUNT_IF:
            # Without keys there is a row over no rows: then the count is zero, and the sum of counts is NULL.
            return _Steps(*again("sum"), call("coalesce", column(whole), number(0)))
        case Form.SUM if arg in _SMALL_INTEGERS or (plain_decimals and _fits(arg)):
            return _Steps(*again("sum"), cast(column(whole), result))
        case Form.AVERAGE if arg in _SMALL_INTEGERS or (plain_decimals and exact_average(arg)):
            return _average(one, arg, result)
        case Form.EXTREMUM if not any(t in result for t in ("double", "float", "collate", "<", "variant", "interval")):
            return _Steps(*again(one.function), column(whole))
        case Form.EVERY | Form.SOME:
            return _Steps(*again(one.function), column(whole))
    return None


def _average(one: Call, arg: str, result: str) -> _Steps:
    """The sum of sums by the sum of counts."""
    value = one.args[0] if one.filter is None else case_when(one.filter, one.args[0])
    digits = decimal(arg)
    added = value if digits else cast(value, "bigint")
    inner, outer = [], []
    for function, of, name in (("sum", added, "s"), ("count", value, "n")):
        part, whole = f"{one.name}__{name}p", f"{one.name}__{name}w"
        inner.append(Call(part, call(function, of), function, (of,)))
        outer.append(Call(whole, call("sum", column(part)), "sum", (column(part),)))
    total, count = column(outer[0].name), column(outer[1].name)
    if digits:
        total = cast(total, f"decimal(38,{digits[1]})")
    final = case_when(greater(count, number(0)), cast(quotient(total, count, digits), result))
    return _Steps(tuple(inner), tuple(outer), final)


def _fits(type_: str) -> bool:
    """Whether the sum of the sums is exact. A part of it is too large where it is too large for Spark, too, which
    sums by group and distinct value before it sums by group."""
    digits = decimal(type_)
    return digits is not None and digits[1] <= _LARGEST_SCALE
