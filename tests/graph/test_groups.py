"""Which stream tables form a group: the cases of every shape, and what must hold in any graph."""

from __future__ import annotations

import random
import time
from collections.abc import Iterator, Mapping, Sequence
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from spark_trickle.graph.cycles import components, path_of
from spark_trickle.graph.groups import Group, groups_of, paths_of

Reads = Mapping[str, Sequence[str]]


def groups(reads: Reads, none: str = "") -> list[str]:
    """The members of each; capital letters are sources."""
    return ["".join(g.members) for g in found(reads, none)]


def found(reads: Reads, none: str = "") -> tuple[Group[str], ...]:
    return groups_of(reads, lambda name: name not in none)


def test_simple() -> None:
    (group,) = found({"b": "A", "c": "A", "d": "bc"})
    assert group.members == ("b", "c", "d")
    (diamond,) = group.diamonds
    assert (diamond.ancestor, diamond.fan_in) == ("A", "d")
    assert paths_of({"b": "A", "c": "A", "d": "bc"}, diamond) == (("A", "b", "d"), ("A", "c", "d"))


@pytest.mark.parametrize(
    ("reads", "expected"),
    [
        pytest.param({"b": "A", "c": "b"}, [], id="linear"),
        pytest.param({"b": "A", "c": "A"}, [], id="no fan-in"),
        pytest.param({"b": "A", "c": "X", "d": "bc"}, [], id="different roots"),
        pytest.param({"a": "A", "b": "a", "c": "a", "d": "bc"}, ["bcd"], id="a stream table as the ancestor"),
        pytest.param({"b": "A", "e": "b", "c": "A", "d": "ec"}, ["bced"], id="deep"),
        pytest.param({"b": "A", "d": "Ab"}, ["bd"], id="one path is direct"),
        pytest.param({"b": "A", "c": "A", "d": "bc", "e": "d"}, ["bcd"], id="the tail is no member"),
        pytest.param({"b": "A", "c": "A", "d": "bc", "e": "bc"}, ["bcde"], id="two fan-ins over the same"),
        pytest.param({"b": "A", "c": "A", "d": "bc", "e": "d", "f": "d", "g": "ef"}, ["bcd", "efg"], id="in a row"),
        pytest.param({"b": "A", "c": "A", "d": "bc", "e": "A", "f": "de"}, ["bcdef"], id="nested"),
        pytest.param({"b": "A", "c": "A", "d": "bc", "x": "X", "y": "X", "z": "xy"}, ["bcd", "xyz"], id="independent"),
        pytest.param({"b": "A", "c": "AX", "e": "X", "d": "bc", "f": "ce"}, ["bcdef"], id="overlapping"),
        pytest.param({"b": "AX", "c": "AX", "d": "bc"}, ["bcd"], id="several ancestors"),
        pytest.param({"b": "A", "c": "b", "d": "b", "e": "cd", "f": "eA"}, ["bcdef"], id="a diamond on a path"),
    ],
)
def test_shapes(reads: Reads, expected: list[str]) -> None:
    assert [sorted(g) for g in groups(reads)] == [sorted(g) for g in expected]


def test_a_member_that_is_not_atomic_ends_its_diamonds() -> None:
    reads = {"b": "A", "c": "A", "d": "bc", "e": "d", "f": "d", "g": "ef"}
    assert groups(reads, none="b") == ["efg"]
    assert groups(reads, none="d") == ["efg"]
    assert groups(reads, none="g") == ["bcd"]
    nested = {"b": "A", "c": "A", "d": "bc", "e": "A", "f": "de"}
    assert groups(nested, none="f") == ["bcd"]


def test_what_lies_between_members_is_one() -> None:
    # c is in both diamonds; x lies between b and e, in neither by itself.
    reads = {"b": "A", "c": "AX", "d": "bc", "y": "X", "e": "cyx", "x": "b"}
    assert [sorted(g) for g in groups(reads)] == [sorted("bcdyex")]


def test_groups_that_read_each_other_are_one() -> None:
    """{p, q, r} and {x, y, z} by themselves: x reads p, and q reads y."""
    assert [sorted(g) for g in groups({"p": "A", "y": "B", "q": "Ay", "x": "Bp", "r": "pq", "z": "xy"})] == [
        sorted("pqrxyz")
    ]


def test_a_cycle_is_a_group_and_one_node_of_a_diamond() -> None:
    (group,) = found({"b": "cA", "c": "b", "d": "bc"})
    assert (group.members, group.cycles, group.diamonds) == (("b", "c"), (("b", "c"),), ())
    (around,) = found({"a": "A", "b": "ca", "c": "b", "d": "a", "e": "cd"})
    assert around.members in (("b", "c", "d", "e"), ("d", "b", "c", "e"))
    assert around.cycles == (("b", "c"),)
    assert [(d.ancestor, d.fan_in) for d in around.diamonds] == [("a", "e")]
    assert groups({"a": "A", "b": "ca", "c": "b", "d": "a", "e": "cd"}, none="c") == ["bc"]
    assert groups({"b": "bA"}) == ["b"], "it reads itself"


def test_paths_of_cycles() -> None:
    reads = {"a": "b", "b": "c", "c": "ab", "d": "a"}
    assert components(reads) == (("a", "b", "c"),)
    assert path_of(reads, ("a", "b", "c")) == ("a", "b", "c", "a")
    chain = {n: [n + 1] for n in range(5000)} | {5000: [0]}
    assert [len(c) for c in components(chain)] == [5001]


@st.composite
def graphs(draw: st.DrawFn) -> dict[str, list[str]]:
    size = draw(st.integers(1, 12))
    names = [chr(ord("a") + n) for n in range(size)]
    reads = {}
    for n, name in enumerate(names):
        sources = ["A", "B", "C", "D", "E"]
        reads[name] = draw(st.lists(st.sampled_from([*sources, *names[:n]]), min_size=1, max_size=3, unique=True))
    return reads


def paths(reads: Reads, start: str, end: str) -> Iterator[tuple[str, ...]]:
    if start == end:
        yield (end,)
        return
    for read in reads.get(end, ()):
        for path in paths(reads, start, read):
            yield (*path, end)


@given(graphs())
def test_any_graph(reads: dict[str, list[str]]) -> None:
    made = found(reads)
    members = [m for g in made for m in g.members]
    assert len(members) == len(set(members)), "groups are disjoint"
    group_of = {m: n for n, g in enumerate(made) for m in g.members}
    for node in reads:
        above = {x for x in (*reads, *"ABCDE") if x != node and any(paths(reads, x, node))}
        for ancestor in above:
            ways = list(paths(reads, ancestor, node))
            disjoint = [(p, q) for p in ways for q in ways if p < q and not set(p[1:-1]) & set(q[1:-1])]
            for p, q in disjoint:
                assert len({group_of.get(m, -1) for m in (*p[1:], *q[1:])} - {-1}) == 1, (p, q)
                assert all(m in group_of for m in (*p[1:], *q[1:])), "all between are members"
    for group in made:
        assert len(group.members) > 1
        for diamond in group.diamonds:
            p, q = paths_of(reads, diamond)
            assert p != q
            for path in (p, q):
                assert (path[0], path[-1]) == (diamond.ancestor, diamond.fan_in)
                assert all(a in reads[b] for a, b in pairwise(path))
    # As units the groups are a DAG again.
    unit = {n: group_of.get(n, n) for n in reads}
    edges = {(unit[r], unit[n]) for n, read in reads.items() for r in read if r in reads and unit[r] != unit[n]}
    while edges:
        ends = {b for _, b in edges}
        free = {a for a, _ in edges} - ends
        assert free, f"groups read each other: {edges}"
        edges = {(a, b) for a, b in edges if a not in free}


def test_order_and_repetition_do_not_matter() -> None:
    pick = random.Random(3)
    names = [f"t{n}" for n in range(30)]
    reads = {n: pick.sample(["A", "B", *names[:i]], min(3, i + 2)) for i, n in enumerate(names)}
    shuffled = {n: [*reads[n], *reads[n]] for n in pick.sample(names, len(names))}
    assert groups(reads)
    assert {frozenset(g.members) for g in found(reads)} == {frozenset(g.members) for g in found(shuffled)}


def test_a_thousand_tables_take_little() -> None:
    names = [f"t{n:03}" for n in range(1000)]
    reads = {n: ["A"] if i < 100 else [names[i - 100], names[i - 99]] for i, n in enumerate(names)}
    pick = random.Random(1)
    sources = [f"S{n}" for n in range(20)]
    others = {n: pick.sample([*sources, *names[:i]], 3) for i, n in enumerate(names)}
    began = time.process_time()
    assert [len(g.members) for g in found(reads)] == [1000]
    assert max(len(g.members) for g in found(others)) > 900
    assert time.process_time() - began < 10
