"""A small directed graph over any sortable nodes: deterministic orders, and cycles told by their path."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, Generic, TypeVar

from spark_trickle.errors import TrickleError

Node = TypeVar("Node", bound=Any)


class Graph(Generic[Node]):
    """`upstream[x]` are the nodes x reads."""

    def __init__(self, upstream: Mapping[Node, Iterable[Node]]) -> None:
        self.upstream = {node: tuple(sorted(set(reads))) for node, reads in upstream.items()}

    def ancestors_first(self, targets: Iterable[Node]) -> tuple[Node, ...]:
        """The targets and everything they read, upstream before downstream."""
        order: list[Node] = []
        done: set[Node] = set()
        for target in targets:
            self._visit(target, (), done, order)
        return tuple(order)

    def _visit(self, node: Node, path: tuple[Node, ...], done: set[Node], order: list[Node]) -> None:
        if node in path:
            circle = " -> ".join(map(str, (*path[path.index(node) :], node)))
            raise TrickleError("CYCLE", f"the definition would read itself: {circle}")
        if node in done:
            return
        for read in self.upstream.get(node, ()):
            self._visit(read, (*path, node), done, order)
        done.add(node)
        order.append(node)

    def ancestors(self, targets: Iterable[Node]) -> tuple[Node, ...]:
        """The targets and everything they read. A circle does no harm here."""
        found = dict.fromkeys(targets)
        waiting = list(found)
        while waiting:
            for read in self.upstream.get(waiting.pop(), ()):
                if read not in found:
                    found[read] = None
                    waiting.append(read)
        return tuple(found)

    def consumers(self, node: Node) -> tuple[Node, ...]:
        """The nodes that read this one directly."""
        return tuple(sorted(n for n, reads in self.upstream.items() if node in reads))

    def descendants(self, node: Node) -> tuple[Node, ...]:
        """Everything that reads this node, directly or not; the farthest first. A circle does no harm here."""
        order: list[Node] = []
        seen = {node}

        def visit(at: Node) -> None:
            for consumer in self.consumers(at):
                if consumer not in seen:
                    seen.add(consumer)
                    visit(consumer)
                    order.append(consumer)

        visit(node)
        return tuple(order)
