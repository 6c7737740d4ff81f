"""Where the boxes of a DAG go."""

from __future__ import annotations

import random
from itertools import pairwise

from spark_trickle.graph.layout import layout


def test_an_edge_that_passes_a_column_has_a_way_of_its_own() -> None:
    found = layout(["a", "b", "c", "d"], [("a", "b"), ("b", "c"), ("c", "d"), ("a", "d")])
    assert [x for x, _ in found.bends["a", "d"]] == [1, 2]
    assert found.bends["a", "b"] == ()
    for x, y in found.bends["a", "d"]:
        box = next(row for column, row in found.places.values() if column == x)
        assert abs(box - y) > 0.7, "the edge runs beside the box"


def test_crossings_are_avoided() -> None:
    found = layout("abcxyz", [("a", "z"), ("b", "y"), ("c", "x")]).places
    assert [found[n][1] for n in "abc"] == [found[n][1] for n in "zyx"]


def test_a_source_is_just_before_its_first_reader() -> None:
    edges = [("s", "a"), ("a", "b"), ("b", "c"), ("late", "c")]
    assert layout(["s", "a", "b", "c", "late"], edges).places["late"][0] == 2


def test_random_dags() -> None:
    """No two boxes of a column overlap, inputs are left of their readers, and order of input does not matter."""
    for seed in range(30):
        r = random.Random(seed)
        names = [f"n{i}" for i in range(r.randint(1, 30))]
        edges = [(names[r.randrange(i)], names[i]) for i in range(1, len(names)) for _ in range(r.randint(0, 3))]
        found = layout(names, edges)
        for input_, reader in edges:
            assert found.places[input_][0] < found.places[reader][0]
        for column in range(found.columns):
            rows = sorted(row for x, row in found.places.values() if x == column)
            assert all(b - a >= 0.99 for a, b in pairwise(rows)), (seed, rows)
        assert min(y for _, y in found.places.values()) >= 0
        assert found.rows <= 1 + len(names) + len(edges) * 10
        assert layout(reversed(names), r.sample(edges, len(edges))) == found


def test_a_circle_and_nothing() -> None:
    assert set(layout("ab", [("a", "b"), ("b", "a")]).places) == {"a", "b"}
    assert layout([], []).columns == 1
