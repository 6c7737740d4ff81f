"""The constructs of the grammar with the share of queries each must have, and the schedule that keeps to it."""

from __future__ import annotations

import random
from collections import Counter
from dataclasses import dataclass, field


@dataclass(frozen=True)
class Construct:
    share: float  # the least share of queries that use it
    needs: tuple[str, ...] = ()  # choices of the grammar on the way to it


def _each(share: float, needs: tuple[str, ...], *names: str) -> dict[str, Construct]:
    return {name: Construct(share, needs) for name in names}


_AGG = ("shape aggregate",)
_WIN = ("shape window",)
_SETS = ("shape set operation",)

CONSTRUCTS: dict[str, Construct] = {
    # scalar expressions
    **_each(0.03, (), "case", "coalesce", "like", "in list", "between", "try_cast", "string function"),
    **_each(0.03, (), "date function", "struct access", "array access", "map access", "higher-order function"),
    "fine decimal": Construct(0.02, _AGG),
    # values that are easily altered
    **_each(0.03, (), "map order", "nested map", "variant", "sign of zero", "bytes", "wide number"),
    "collation": Construct(0.015),
    "sum near the end": Construct(0.02, _AGG),
    "text of a maximum": Construct(0.015, _AGG),
    # expressions that can fail, over rows for which they do not
    **_each(0.02, ("shape guarded",), "failing cast", "failing division", "failing element", "failing date"),
    **_each(0.015, ("shape guarded",), "raised error", "one row of several"),
    # joins
    **_each(0.05, ("join",), "inner join", "left join"),
    **_each(0.03, ("join",), "right join", "full join", "semi join", "anti join", "cross join"),
    **_each(0.03, ("join", "with condition"), "non-equi condition", "mixed condition"),
    **_each(0.02, ("join", "by name"), "using", "natural"),
    "self join": Construct(0.03, ("join", "with condition")),
    "comparison across types": Construct(0.03, ("join", "with condition", "equi condition")),
    # relations
    **_each(0.04, (), "derived table", "cte", "cte twice"),
    "subquery in cte twice": Construct(0.01, ("cte twice", "subquery")),
    **_each(0.02, (), "values", "generator in from"),
    **_each(0.03, ("join", "lateral"), "lateral subquery"),
    **_each(0.015, ("join", "lateral"), "lateral function"),
    "lateral view": Construct(0.02, ("any lateral view",)),
    "lateral view outer": Construct(0.02, ("any lateral view",)),
    **_each(0.01, ("any lateral view",), "posexplode", "inline", "stack"),
    "generator in select list": Construct(0.02, ("shape generator",)),
    # subqueries
    **_each(0.03, ("subquery",), "exists", "not exists", "in subquery", "not in subquery"),
    "limit in exists": Construct(0.015, ("subquery", "exists")),
    "correlated": Construct(0.04, ("subquery",)),
    "correlated across types": Construct(0.02, ("subquery", "correlated")),
    **_each(0.02, ("subquery",), "subquery under or", "subquery under not", "subquery under case"),
    "subquery in select list": Construct(0.03),
    "scalar subquery": Construct(0.04, ("subquery",)),
    "correlated scalar subquery": Construct(0.03, ("subquery", "scalar subquery")),
    # aggregates
    **_each(0.04, _AGG, "count", "sum", "min max", "avg"),
    **_each(0.015, _AGG, "count distinct", "bool_and", "count_if", "stddev", "collect", "max_by", "percentile"),
    **_each(0.015, _AGG, "median", "first", "aggregate filter", "distinct aggregate"),
    **_each(0.02, _AGG, "group by expression", "group by ordinal", "group by alias", "group by all", "hidden key"),
    "no group by": Construct(0.02, _AGG),
    "having": Construct(0.04, _AGG),
    **_each(0.015, ("shape grouping sets",), "grouping sets", "cube", "rollup"),
    **_each(0.015, ("shape grouping sets",), "grouping()"),
    "nested aggregate": Construct(0.03, ("shape aggregate", "nested aggregate")),
    "aggregate below join": Construct(0.03, ("join",)),
    # windows
    **_each(0.02, _WIN, "row_number", "rank", "dense_rank", "lag lead", "ntile", "aggregate over window"),
    **_each(0.015, _WIN, "rows frame", "range frame", "window without order", "window without partition"),
    **_each(0.02, _WIN, "several windows", "named window"),
    "latest row per key": Construct(0.03, ("shape latest row",)),
    # set operations and the rest
    **_each(0.02, _SETS, "union", "union all", "intersect", "except"),
    **_each(0.015, _SETS, "intersect all", "except all"),
    "distinct": Construct(0.03, ("shape distinct",)),
    "pivot": Construct(0.02, ("shape pivot",)),
    "pivot beside texts": Construct(0.01, ("shape pivot",)),
    "unpivot": Construct(0.02, ("shape unpivot",)),
    "star except": Construct(0.02, ("shape star",)),
    "lateral alias": Construct(0.02, ("shape plain",)),
    "topk": Construct(0.04),
    "offset": Construct(0.01, ("topk",)),
    "order by only": Construct(0.01),
    "recursive": Construct(0.02, ("shape recursive",)),
    "pipe": Construct(0.01, ("shape pipe",)),
    # results that SQL leaves open
    "open result": Construct(0.01, ("undetermined", "shape window")),
}


@dataclass
class Schedule:
    """Counts constructs, and names the one that is furthest behind its share."""

    queries: int = 0
    counts: Counter[str] = field(default_factory=Counter)

    def next(self, rnd: random.Random) -> str | None:
        """The construct to force into the next query, None when none is behind."""
        behind = {n: c.share * (self.queries + 1) - self.counts[n] for n, c in CONSTRUCTS.items()}
        worst = max(behind.values())
        if worst <= 0:
            return None
        # In the beginning all are behind: which comes first is a matter of chance.
        return rnd.choice([n for n, b in behind.items() if b > 0.5 * worst])

    def add(self, tags: frozenset[str]) -> None:
        self.queries += 1
        self.counts.update(tags)

    def missed(self) -> dict[str, tuple[float, float]]:
        """Constructs below their share by more than one query: (share, wanted)."""
        return {
            n: (self.counts[n] / max(self.queries, 1), c.share)
            for n, c in CONSTRUCTS.items()
            if self.counts[n] < int(c.share * self.queries)
        }
