"""Which stream tables are published together: diamonds and cycles, found in the graph alone.

A diamond is a stream table that reaches an ancestor along two paths that share nothing between the two. If one path
were refreshed and the other not, it would read two states of the ancestor at once. So all that lies between, and the
stream table where the paths meet, form a group. Groups that overlap are one. Stream tables that read each other are a
group, too, and one node of any diamond around them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from graphlib import TopologicalSorter
from typing import Any, Generic, TypeVar

from spark_trickle.graph.cycles import components

Node = TypeVar("Node", bound=Any)


@dataclass(frozen=True, slots=True)
class Diamond(Generic[Node]):
    """Why stream tables form a group."""

    ancestor: Node  # not a member: a source, or a stream table that is refreshed before
    fan_in: Node
    members: frozenset[Node]  # what lies between, and the fan-in
    paths: tuple[tuple[Node, ...], ...]  # two of them, from the ancestor to the fan-in


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
    graph: dict[Node, tuple[Node, ...]] = {}
    for node in sorted(reads):
        own = first.get(node, node)
        seen = {first.get(r, r) for r in reads[node]} - {own}
        graph[own] = tuple(sorted({*graph.get(own, ()), *seen}))
    order = tuple(TopologicalSorter(graph).static_order())
    place = {node: n for n, node in enumerate(order)}

    def all_of(nodes: Iterable[Node]) -> tuple[Node, ...]:
        return tuple(m for node in sorted(nodes, key=lambda n: place[n]) for m in whole.get(node, (node,)))

    found = [d for d in _diamonds(graph, order) if all(map(is_atomic, all_of(d.members)))]
    merged: list[set[Node]] = [{cycle[0]} for cycle in cycles]
    for diamond in found:
        _merge(merged, set(diamond.members))
    while grown := next((m for m in merged if _between(graph, order, m) - m), None):
        merged.remove(grown)
        _merge(merged, grown | _between(graph, order, grown))
    groups = []
    for members in sorted(merged, key=lambda m: min(place[n] for n in m)):
        own = tuple(replace(d, members=frozenset(all_of(d.members))) for d in found if d.members <= members)
        groups.append(Group(all_of(members), own, tuple(c for c in cycles if c[0] in members)))
    return tuple(groups)


def _merge(merged: list[set[Node]], members: set[Node]) -> None:
    """Add a set; those that overlap with it become one with it."""
    for other in [m for m in merged if m & members]:
        merged.remove(other)
        members |= other
    merged.append(members)


def _diamonds(graph: Mapping[Node, tuple[Node, ...]], order: tuple[Node, ...]) -> Iterator[Diamond[Node]]:
    consumers: dict[Node, list[Node]] = {node: [] for node in order}
    for node, read in graph.items():
        for one in read:
            consumers[one].append(node)
    for ancestor in order:
        if len(consumers[ancestor]) > 1:
            yield from _from(ancestor, graph, order)


def _from(ancestor: Node, graph: Mapping[Node, tuple[Node, ...]], order: tuple[Node, ...]) -> Iterator[Diamond[Node]]:
    """The diamonds below one ancestor.

    The paths from it to a node share nothing exactly if it is the node's immediate dominator and the node has two
    inputs that can be reached from it. In topological order one pass finds all dominators.
    """
    dominator: dict[Node, Node] = {ancestor: ancestor}
    depth = {ancestor: 0}
    for node in order[order.index(ancestor) + 1 :]:
        inputs = [r for r in graph.get(node, ()) if r in dominator]
        if not inputs:
            continue
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
            between = _between(graph, order, {ancestor, node}) - {ancestor}
            yield Diamond(ancestor, node, frozenset(between), tuple(_paths(graph, ancestor, node, inputs))[:2])


def _paths(
    graph: Mapping[Node, tuple[Node, ...]], ancestor: Node, node: Node, inputs: Iterable[Node]
) -> Iterator[tuple[Node, ...]]:
    """A path through each input, the shortest first. The shortest of all is one input to itself."""
    yield from sorted(((*_shortest(graph, ancestor, i), node) for i in inputs), key=lambda p: (len(p), p))


def _shortest(graph: Mapping[Node, tuple[Node, ...]], ancestor: Node, node: Node) -> tuple[Node, ...]:
    paths: list[tuple[Node, ...]] = [(node,)]
    seen = {node}
    for path in paths:  # grows meanwhile
        if path[0] == ancestor:
            return path
        for read in graph.get(path[0], ()):
            if read not in seen:
                seen.add(read)
                paths.append((read, *path))
    raise AssertionError(f"{node} does not read {ancestor}")


def _between(graph: Mapping[Node, tuple[Node, ...]], order: tuple[Node, ...], ends: set[Node]) -> set[Node]:
    """These nodes, and all that lies on a path from one of them to another."""
    below: set[Node] = set()
    for node in order:
        if node in ends or any(r in below for r in graph.get(node, ())):
            below.add(node)
    above: set[Node] = set()
    for node in reversed(order):
        if node in ends or node in above:
            above.add(node)
            above.update(graph.get(node, ()))
    return below & above
