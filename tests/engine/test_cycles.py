"""Stream tables that read each other: the least fixpoint (docs/cycles.md)."""

from __future__ import annotations

import random
from collections.abc import Iterable, Iterator

import pytest

from spark_trickle import Action, Trickle, TrickleError

Edges = set[tuple[int, int]]


@pytest.fixture
def lake(tr: Trickle) -> Iterator[Trickle]:
    tr.refresher.settings = tr.settings = tr.settings.model_copy(update={"allow_circular": True})
    tr.sql("CREATE TABLE s.edges (src INT, dst INT)")
    yield tr
    tr.refresher.settings = tr.settings = tr.settings.model_copy(update={"allow_circular": False})


def insert(tr: Trickle, edges: Iterable[tuple[int, int]]) -> None:
    tr.sql(f"INSERT INTO s.edges VALUES {', '.join(map(str, edges))}")


def rows(tr: Trickle, name: str) -> list[tuple[int, ...]]:
    return sorted(tuple(r) for r in tr.sql(f"SELECT * FROM {name}").collect())


def closure(edges: Iterable[tuple[int, int]]) -> set[tuple[int, int]]:
    found = set(edges)
    while more := {(a, d) for a, b in found for c, d in edges if b == c} - found:
        found |= more
    return found


REACH = "SELECT src, dst FROM s.edges UNION SELECT r.src, e.dst FROM s.reach r JOIN s.edges e ON r.dst = e.src"


def reach(tr: Trickle) -> None:
    tr.create_stream_tables([{"name": "s.reach", "query": REACH}])


def odd_and_even(tr: Trickle) -> None:
    """Pairs with a path of an odd number of edges, and of an even one."""
    tr.create_stream_tables([
        {"name": "s.even", "query": "SELECT o.src, e.dst FROM s.odd o JOIN s.edges e ON o.dst = e.src UNION "
                                    "SELECT src, dst FROM s.edges WHERE false"},
        {"name": "s.odd", "query": "SELECT src, dst FROM s.edges UNION SELECT v.src, e.dst FROM s.even v "
                                   "JOIN s.edges e ON v.dst = e.src"},
    ])  # fmt: skip


def odds(edges: Edges) -> tuple[set[tuple[int, int]], set[tuple[int, int]]]:
    odd, even = set(edges), set[tuple[int, int]]()
    while True:
        next_even = even | {(a, d) for a, b in odd for c, d in edges if b == c}
        next_odd = odd | {(a, d) for a, b in next_even for c, d in edges if b == c}
        if (next_odd, next_even) == (odd, even):
            return odd, even
        odd, even = next_odd, next_even


def test_transitive_closure(lake: Trickle) -> None:
    edges = {(1, 2), (2, 3), (3, 4)}
    insert(lake, edges)
    reach(lake)
    assert set(rows(lake, "s.reach")) == closure(edges)
    assert lake.verify("s.reach").equal
    insert(lake, [(4, 5)])
    result = lake.refresh("s.reach")
    assert (result.action, result.rows_inserted, result.rows_deleted) == (Action.DIFFERENTIAL, 4, 0)
    assert set(rows(lake, "s.reach")) == closure(edges | {(4, 5)})
    assert lake.history("s.reach", limit=1)[0].fixpoint_iteration
    assert lake.refresh("s.reach").action is Action.NO_DATA


def test_deletions_that_cut_and_that_do_not(lake: Trickle) -> None:
    edges = {(1, 2), (2, 3), (1, 3), (3, 4), (4, 1)}
    insert(lake, edges)
    reach(lake)
    assert set(rows(lake, "s.reach")) == closure(edges)
    lake.sql("DELETE FROM s.edges WHERE src = 1 AND dst = 3")  # there is another way
    result = lake.refresh("s.reach")
    assert (result.action, result.rows_inserted, result.rows_deleted) == (Action.DIFFERENTIAL, 0, 0)
    lake.sql("DELETE FROM s.edges WHERE src = 4")  # cuts the circle
    lake.refresh("s.reach")
    left = edges - {(1, 3), (4, 1)}
    assert set(rows(lake, "s.reach")) == closure(left)
    assert lake.verify("s.reach").equal


def test_mutual_recursion_of_two(lake: Trickle) -> None:
    edges = {(1, 2), (2, 3), (3, 1), (3, 4)}
    insert(lake, edges)
    odd_and_even(lake)
    for changed in (edges, edges | {(4, 5), (5, 6)}, (edges | {(4, 5), (5, 6)}) - {(3, 1)}):
        if changed != edges:
            lake.sql("DELETE FROM s.edges")
            insert(lake, changed)
        lake.refresh("s.even")
        odd, even = odds(changed)
        assert (set(rows(lake, "s.odd")), set(rows(lake, "s.even"))) == (odd, even)
        assert lake.verify("s.odd").equal
        assert lake.verify("s.even").equal
    assert [g.members for g in lake.groups()] == [("s.even", "s.odd")]
