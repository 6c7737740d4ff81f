"""Which stream tables are published together: diamonds and cycles, found in the graph alone.

A diamond is a stream table that reaches an ancestor along two paths that share nothing between the two. If one path
were refreshed and the other not, it would read two states of the ancestor at once. So all that lies between, and the
stream table where the paths meet, form a group. Groups that overlap, or that read each other, are one. Stream tables
that read each other are a group, too, and one node of any diamond around them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from graphlib import TopologicalSorter
from typing import Any, Generic, TypeVar

from spark_trickle.graph.cycles import components

Node = TypeVar("Node", bound=Any)


@dataclass(frozen=True, slots=True)
class Diamond(Generic[Node]):
    """Why stream tables form a group: one for each stream table where paths meet."""

    ancestor: Node  # not a member: a source, or a stream table that is refreshed before
    fan_in: Node


@dataclass(frozen=True, slots=True)
class Group(Generic[Node]):
    members: tuple[Node, ...]  # upstream first; those of a cycle beside each other
    diamonds: tuple[Diamond[Node], ...] = ()
    cycles: tuple[tuple[Node, ...], ...] = ()


def groups_of(reads: Mapping[Node, Iterable[Node]], is_atomic: Callable[[Node], bool]) -> tuple[Group[Node], ...]:
    """The groups of two and more, and cycles. `reads` has what each stream table reads: others, and sources.

    A diamond with a member that is not atomic forms no group.
    """
    cycles = components(reads)
    first = {member: cycle[0] for cycle in cycles for member in cycle}  # it stands for its cycle
    whole = {cycle[0]: cycle for cycle in cycles}
    graph: dict[Node, set[Node]] = {}
    for node in sorted(reads):
        own = first.get(node, node)
        graph.setdefault(own, set()).update({first.get(r, r) for r in reads[node]} - {own})
    shape = _Shape.of({node: sorted(read) for node, read in graph.items()})
    loose = [n for n in shape.order if not all(map(is_atomic, whole.get(n, (n,))))]
    sets, why = _merged(shape, sum(1 << shape.place[n] for n in loose), [1 << shape.place[c[0]] for c in cycles])
    groups = []
    for members in sorted(sets, key=lambda m: m & -m):
        nodes = shape.nodes(members)
        listed = tuple(m for node in nodes for m in whole.get(node, (node,)))
        own_cycles = tuple(c for c in cycles if c[0] in nodes)
        groups.append(Group(listed, tuple(why[n] for n in nodes if n in why), own_cycles))
    return tuple(groups)


@dataclass(frozen=True, slots=True)
class _Shape(Generic[Node]):
    """A DAG with its nodes numbered in topological order; sets of nodes are the bits of an integer."""

    order: tuple[Node, ...]
    place: Mapping[Node, int]
    reads: tuple[tuple[int, ...], ...]
    above: tuple[int, ...]  # of each node: all it reads, directly or not, and itself
    below: tuple[int, ...]  # of each node: all that read it, directly or not, and itself
    fans: tuple[int, ...]  # how many read it directly

    @classmethod
    def of(cls, graph: Mapping[Node, Iterable[Node]]) -> _Shape[Node]:
        order = tuple(TopologicalSorter(graph).static_order())
        place = {node: n for n, node in enumerate(order)}
        reads = tuple(tuple(place[r] for r in graph.get(node, ())) for node in order)
        above, below, fans = [0] * len(order), [0] * len(order), [0] * len(order)
        for n, read in enumerate(reads):
            above[n] = 1 << n
            for r in read:
                above[n] |= above[r]
                fans[r] += 1
        for n in reversed(range(len(order))):
            below[n] |= 1 << n
            for r in reads[n]:
                below[r] |= below[n]
        return cls(order, place, reads, tuple(above), tuple(below), tuple(fans))

    def nodes(self, bits: int) -> tuple[Node, ...]:
        return tuple(self.order[n] for n in _numbers(bits))


def _numbers(bits: int) -> Iterator[int]:
    while bits:
        low = bits & -bits
        yield low.bit_length() - 1
        bits ^= low


def _merged(shape: _Shape[Node], loose: int, sets: list[int]) -> tuple[list[int], dict[Node, Diamond[Node]]]:
    """The members of each group. `loose` are not atomic; `sets` are groups already."""
    why: dict[Node, Diamond[Node]] = {}
    for ancestor, fans in enumerate(shape.fans):
        under = shape.below[ancestor] ^ (1 << ancestor)
        if fans < 2 or any(under & ~s == 0 for s in sets):
            continue  # nothing below it could make a group larger
        for fan_in in _fan_ins(shape, ancestor):
            members = under & shape.above[fan_in]
            if not members & loose:
                why.setdefault(shape.order[fan_in], Diamond(shape.order[ancestor], shape.order[fan_in]))
                sets = _with(sets, members)
    while True:  # as units, they must be a DAG again
        unit = {n: s for s in sets for n in _numbers(s)}
        units: dict[int, set[int]] = {}
        for n, read in enumerate(shape.reads):
            own = unit.get(n, 1 << n)
            units.setdefault(own, set()).update(u for r in read if (u := unit.get(r, 1 << r)) != own)
        circles = components(units)
        if not circles:
            return sets, why
        for circle in circles:
            sets = _with(sets, sum(circle))


def _with(sets: list[int], members: int) -> list[int]:
    """Those that overlap with it become one with it."""
    for other in sets:
        if other & members:
            members |= other
    return [*(s for s in sets if not s & members), members]


def _fan_ins(shape: _Shape[Node], ancestor: int) -> Iterator[int]:
    """Where paths from one ancestor meet that share nothing before.

    They do exactly if the ancestor is the node's immediate dominator and the node has two inputs that can be reached
    from it. In topological order one pass finds all dominators.
    """
    dominator, depth = {ancestor: ancestor}, {ancestor: 0}
    for node in _numbers(shape.below[ancestor] ^ (1 << ancestor)):
        inputs = [r for r in shape.reads[node] if r in dominator]
        common = inputs[0]
        for one in inputs[1:]:
            other = one
            while common != other:
                if depth[common] < depth[other]:
                    other = dominator[other]
                else:
                    common = dominator[common]
        dominator[node], depth[node] = common, depth[common] + 1
        if common == ancestor and len(inputs) > 1:
            yield node


def paths_of(reads: Mapping[Node, Iterable[Node]], diamond: Diamond[Node]) -> tuple[tuple[Node, ...], ...]:
    """The two shortest ways from the ancestor to the fan-in that begin apart at the fan-in."""
    found = []
    for read in sorted(set(reads[diamond.fan_in])):
        path = _shortest(reads, diamond.ancestor, read)
        if path is not None:
            found.append((*path, diamond.fan_in))
    return tuple(sorted(found, key=lambda p: (len(p), p))[:2])


def _shortest(reads: Mapping[Node, Iterable[Node]], ancestor: Node, node: Node) -> tuple[Node, ...] | None:
    paths: list[tuple[Node, ...]] = [(node,)]
    seen = {node}
    for path in paths:  # grows meanwhile
        if path[0] == ancestor:
            return path
        for read in sorted(set(reads.get(path[0], ()))):
            if read not in seen:
                seen.add(read)
                paths.append((read, *path))
    return None
