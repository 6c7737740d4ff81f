"""The graph: deterministic orders, and cycles told by their path."""

from __future__ import annotations

import pytest

from spark_trickle.errors import TrickleError
from spark_trickle.graph.dag import Graph

DIAMOND = Graph({"d": ["c", "b"], "b": ["a"], "c": ["a"], "a": [], "far": ["d"], "alone": []})


def test_ancestors_come_first() -> None:
    assert DIAMOND.ancestors_first(["d"]) == ("a", "b", "c", "d")
    assert DIAMOND.ancestors_first(["alone"]) == ("alone",)
    assert DIAMOND.ancestors_first(["far", "alone", "b"]) == ("a", "b", "c", "d", "far", "alone")


def test_order_does_not_depend_on_how_it_was_written() -> None:
    other = Graph({"c": ["a", "a"], "a": [], "d": ["b", "c", "b"], "b": ["a"]})
    assert other.ancestors_first(["d"]) == DIAMOND.ancestors_first(["d"])


def test_nodes_that_only_are_read() -> None:
    assert Graph({"x": ["source"]}).ancestors_first(["x"]) == ("source", "x")


def test_consumers_and_descendants() -> None:
    assert DIAMOND.consumers("a") == ("b", "c")
    assert DIAMOND.consumers("far") == ()
    assert DIAMOND.descendants("alone") == ()
    assert DIAMOND.descendants("d") == ("far",)
    farthest_first = DIAMOND.descendants("a")
    assert set(farthest_first) == {"b", "c", "d", "far"}
    assert farthest_first.index("far") < farthest_first.index("d") < min(map(farthest_first.index, "bc"))


@pytest.mark.parametrize(
    ("upstream", "start", "path"),
    [
        ({"a": ["a"]}, "a", "a -> a"),
        ({"a": ["b"], "b": ["a"]}, "a", "a -> b -> a"),
        ({"x": ["a"], "a": ["b"], "b": ["c"], "c": ["a"]}, "x", "a -> b -> c -> a"),
    ],
)
def test_a_cycle_prints_its_path(upstream: dict[str, list[str]], start: str, path: str) -> None:
    with pytest.raises(TrickleError) as caught:
        Graph(upstream).ancestors_first([start])
    assert caught.value.code == "CYCLE"
    assert path in caught.value.message
    assert f"x -> {path}" not in caught.value.message  # the way to the cycle is no part of it


def test_a_long_chain() -> None:
    graph = Graph({n: [n - 1] for n in range(1, 500)} | {0: []})
    assert graph.ancestors_first([499]) == tuple(range(500))
    assert graph.descendants(0) == tuple(range(499, 0, -1))
