"""Random queries over the whole grammar, each with the constructs it uses.

    Generator(random.Random(1), tables).next()

A schedule forces the construct that is furthest behind its share into the next query, half of the time deep inside.
"""

from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import dataclass

from tests.fuzz import shapes
from tests.fuzz.aggregates import grouped, grouping_sets
from tests.fuzz.constructs import CONSTRUCTS, Schedule
from tests.fuzz.context import Context, Query
from tests.fuzz.exact import How
from tests.fuzz.expressions import expression
from tests.fuzz.guarded import guarded
from tests.fuzz.relations import Relation, derived, from_clause
from tests.fuzz.schema import Table
from tests.fuzz.subqueries import where
from tests.fuzz.types import COMPARABLE, Column, T
from tests.fuzz.windows import latest_row, windowed

_SHAPES = {
    "shape plain": 5.0,
    "shape aggregate": 3.0,
    "shape distinct": 0.7,
    "shape window": 1.5,
    "shape latest row": 0.4,
    "shape set operation": 1.2,
    "shape grouping sets": 0.4,
    "shape star": 0.3,
    "shape generator": 0.3,
    "shape pivot": 0.2,
    "shape unpivot": 0.2,
    "shape recursive": 0.1,
    "shape guarded": 0.3,
}


@dataclass(frozen=True)
class Generated:
    sql: str
    tags: frozenset[str]
    forced: str | None
    how: tuple[tuple[str, How], ...] = ()  # output columns that are compared less strictly

    @property
    def open(self) -> bool:
        """SQL leaves a part of the result open."""
        return "open result" in self.tags


class Generator:
    def __init__(self, rnd: random.Random, tables: Sequence[Table], schedule: Schedule | None = None) -> None:
        self.rnd = rnd
        self.tables = tuple(tables)
        self.schedule = schedule or Schedule()

    def next(self) -> Generated:
        forced = self.schedule.next(self.rnd)
        for _ in range(8):
            made = self._make(forced)
            if forced is None or forced in made.tags:
                break
        self.schedule.add(made.tags)
        return made

    def _make(self, forced: str | None) -> Generated:
        want = {forced, *CONSTRUCTS[forced].needs} if forced else set()
        ctx = Context(self.rnd, tuple(t for t in self.tables if not t.guarded), want)
        made = top(ctx)
        prefix = f"WITH {', '.join(ctx.ctes)} " if ctx.ctes else ""
        if "recursive" in ctx.tags:
            prefix = prefix.replace("WITH ", "WITH RECURSIVE ", 1)
        tags = frozenset(t for t in ctx.tags if t in CONSTRUCTS)
        how = ((c.name, _how(c, rough="stddev" in tags)) for c in made.columns)
        return Generated(prefix + made.sql, tags, forced, tuple((name, h) for name, h in how if h is not None))


def _how(column: Column, *, rough: bool) -> How | None:
    if column.type is T.LOOSE:
        return How.LOOSE
    if column.type is T.INEXACT and rough:
        return How.ROUGH
    return How.UNSIGNED if column.type in (T.DBL, T.INEXACT) else None


def top(ctx: Context) -> Query:
    """A whole query: a block, perhaps over another one, perhaps ordered and cut off."""
    ordered = ctx.asked("topk", "offset", "order by only") or ctx.chance(0.04)
    below = bool(ctx.want) and not ordered and not ctx.asked("shape pipe", "undetermined") and ctx.chance(0.25)
    if below:
        inner = query(ctx, 1, root=False)
        ctx.relations = max(ctx.relations, 1)
        made = _over(ctx, derived(ctx, inner))
    elif ctx.asked("shape pipe"):
        made = shapes.piped(ctx)
    else:
        # Flat queries fail in ways that others hide: half of them read sources only.
        made = query(ctx, ctx.rnd.choice((1, 2)), root=not ordered)
    if ordered:
        made = shapes.ordered(ctx, made)
    return made


def _over(ctx: Context, base: Relation) -> Query:
    """A block over a relation that is there already."""
    kind = ctx.pick({"plain": 3.0, "aggregate": 2.0, "distinct": 0.5, "window": 0.5})
    if kind == "window" and all(c.type in COMPARABLE for c in base.columns):
        return windowed(ctx, base)
    from_ = from_clause(ctx, 0, nested, base)
    test = where(ctx, from_.refs, 0.25)
    if kind == "aggregate":
        return grouped(ctx, from_, test, root=True)
    if kind == "distinct":
        return shapes.distinct(ctx, from_, test)
    return shapes.plain(ctx, from_, test)


def nested(ctx: Context, depth: int) -> Query:
    return query(ctx, depth, root=False)


def query(ctx: Context, depth: int, *, root: bool) -> Query:
    shape = ctx.pick(_SHAPES)
    if shape == "shape window":
        return windowed(ctx, _small(ctx, depth))
    if shape == "shape latest row":
        return latest_row(ctx, _small(ctx, depth))
    if shape == "shape set operation":
        return shapes.set_operation(ctx, depth, nested)
    if shape == "shape pivot":
        return shapes.pivot(ctx)
    if shape == "shape unpivot":
        return shapes.unpivot(ctx)
    if shape == "shape guarded":
        return guarded(ctx)
    if shape == "shape recursive":
        return shapes.recursive(ctx)
    if shape == "shape star":
        return shapes.star(ctx, where)
    if shape == "shape aggregate" and ctx.relations > 1 and ctx.maybe("nested aggregate", 0.1):
        return _nested_aggregate(ctx)
    from_ = from_clause(ctx, depth - 1, nested)
    if shape == "shape generator":
        return shapes.generator(ctx, from_, where(ctx, from_.refs, 0.3))
    test = where(ctx, from_.refs)
    if shape == "shape aggregate":
        return grouped(ctx, from_, test, root=root)
    if shape == "shape grouping sets":
        return grouping_sets(ctx, from_, test, root=root)
    if shape == "shape distinct":
        return shapes.distinct(ctx, from_, test)
    return shapes.plain(ctx, from_, test)


def _small(ctx: Context, depth: int) -> Relation:
    """A few comparable columns of something, as the input of windows: an order can cover them all."""
    from_ = from_clause(ctx, depth - 1, nested)
    test = where(ctx, from_.refs, 0.3)
    types = [T.INT, T.STR, ctx.rnd.choice((T.DEC, T.DATE, T.INT, T.DBL))]
    return derived(ctx, shapes.typed(ctx, from_, test, types))


def _nested_aggregate(ctx: Context) -> Query:
    inner_from = from_clause(ctx, 0, nested)
    inner = grouped(ctx, inner_from, where(ctx, inner_from.refs, 0.3), root=False)
    base = derived(ctx, inner)
    from_ = from_clause(ctx, 0, nested, base) if ctx.chance(0.2) else None
    sql, refs = (from_.sql, from_.refs) if from_ else (base.aliased, base.refs)
    test = f" WHERE {expression(ctx, refs, T.BOOL, 1)}" if ctx.chance(0.2) else ""
    return grouped(ctx, shapes.From(sql, refs), test, root=True)
