"""Nodes that read each other: the strongly connected components of a graph (Tarjan)."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any, TypeVar

Node = TypeVar("Node", bound=Any)


def components(reads: Mapping[Node, Iterable[Node]]) -> tuple[tuple[Node, ...], ...]:
    """Each cycle's nodes, sorted; a node that reads itself is one. Nodes in no cycle are left out.

    >>> components({"a": "b", "b": "ac", "c": "X", "d": "d", "e": "ad"})
    (('a', 'b'), ('d',))
    """
    graph = {node: tuple(sorted(set(read))) for node, read in reads.items()}
    found: list[tuple[Node, ...]] = []
    number: dict[Node, int] = {}
    low: dict[Node, int] = {}
    path: list[Node] = []
    on_path: set[Node] = set()
    for start in sorted(graph):
        if start in number:
            continue
        waiting: list[tuple[Node, Iterator[Node]]] = [(start, iter(graph[start]))]
        number[start] = low[start] = len(number)
        path.append(start)
        on_path.add(start)
        while waiting:
            node, rest = waiting[-1]
            below = next((r for r in rest if r in graph and (r not in number or r in on_path)), None)
            if below is not None and below in number:
                low[node] = min(low[node], number[below])
            elif below is not None:
                number[below] = low[below] = len(number)
                path.append(below)
                on_path.add(below)
                waiting.append((below, iter(graph[below])))
            else:
                waiting.pop()
                if waiting:
                    above = waiting[-1][0]
                    low[above] = min(low[above], low[node])
                if low[node] == number[node]:
                    members = path[path.index(node) :]
                    del path[-len(members) :]
                    on_path.difference_update(members)
                    if len(members) > 1 or node in graph[node]:
                        found.append(tuple(sorted(members)))
    return tuple(sorted(found))


def path_of(reads: Mapping[Node, Iterable[Node]], component: tuple[Node, ...]) -> tuple[Node, ...]:
    """A shortest way from the first node back to itself.

    >>> path_of({"a": "bc", "b": "c", "c": "a"}, ("a", "b", "c"))
    ('a', 'c', 'a')
    """
    start, inside = component[0], set(component)
    paths: list[tuple[Node, ...]] = [(start,)]
    seen: set[Node] = set()
    for path in paths:  # grows meanwhile
        for read in sorted(set(reads.get(path[-1], ()))):
            if read == start:
                return (*path, start)
            if read in inside and read not in seen:
                seen.add(read)
                paths.append((*path, read))
    raise AssertionError(f"{start} is in no cycle")
