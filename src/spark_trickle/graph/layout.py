"""Where the boxes of a DAG go: one column per level, inputs left of their readers, few crossings, short ways."""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise

_SWEEPS = 6
_BEND = 0.45  # the height that an edge takes where it passes a column, in boxes

Place = tuple[int, float]  # column, and row in heights of a box
_Spot = Hashable  # a name, or an edge where it passes a column


@dataclass(frozen=True, slots=True)
class Layout:
    """Places of the nodes, and where each edge passes the columns between its ends."""

    places: Mapping[str, Place]
    bends: Mapping[tuple[str, str], tuple[Place, ...]]

    @property
    def columns(self) -> int:
        return 1 + max((x for x, _ in self.places.values()), default=0)

    @property
    def rows(self) -> float:
        ways = (y for bend in self.bends.values() for _, y in bend)
        return 1 + max((*(y for _, y in self.places.values()), *ways), default=0.0)


def layout(names: Iterable[str], edges: Iterable[tuple[str, str]]) -> Layout:
    """Edges lead from an input to its reader. Deterministic.

    >>> layout("abc", [("a", "b"), ("b", "c")]).places
    {'a': (0, 0.0), 'b': (1, 0.0), 'c': (2, 0.0)}
    """
    names, edges = sorted(set(names)), sorted(set(edges))
    levels = _levels(names, edges)
    columns: list[list[_Spot]] = [[] for _ in range(1 + max(levels.values(), default=0))]
    for name in names:
        columns[levels[name]].append(name)
    left: dict[_Spot, list[_Spot]] = {}
    right: dict[_Spot, list[_Spot]] = {}
    for edge in edges:
        first, last = levels[edge[0]], levels[edge[1]]
        way: list[_Spot] = [edge[0], *((edge, level) for level in range(first + 1, last)), edge[1]]
        for level, spot in zip(range(first + 1, last), way[1:-1], strict=False):
            columns[level].append(spot)
        for a, b in pairwise(way):
            left.setdefault(b, []).append(a)
            right.setdefault(a, []).append(b)
    ordered = _ordered(columns, left, right)
    rows = _rows(ordered, left, right)
    places = {name: (levels[name], rows[name]) for name in names}
    bends = {
        edge: tuple((level, rows[edge, level]) for level in range(levels[edge[0]] + 1, levels[edge[1]]))
        for edge in edges
    }
    return Layout(places, bends)


def _levels(names: Sequence[str], edges: Sequence[tuple[str, str]]) -> dict[str, int]:
    """One after its inputs; what has no inputs is just before its first reader. A circle stays where it is."""
    inputs: dict[str, list[str]] = {}
    readers: dict[str, list[str]] = {}
    for input_, reader in edges:
        inputs.setdefault(reader, []).append(input_)
        readers.setdefault(input_, []).append(reader)
    levels: dict[str, int] = {}
    left = list(names)
    while left:
        ready = [n for n in left if all(i in levels for i in inputs.get(n, []))] or left
        levels |= {n: 1 + max((levels.get(i, -1) for i in inputs.get(n, [])), default=-1) for n in ready}
        left = [n for n in left if n not in levels]
    first = {n: max(0, min(levels[r] for r in readers[n]) - 1) for n in readers if n not in inputs}
    return levels | first


def _ordered(
    columns: list[list[_Spot]], left: Mapping[_Spot, list[_Spot]], right: Mapping[_Spot, list[_Spot]]
) -> list[list[_Spot]]:
    """Sort each column by the mean place of its neighbours, to and fro; the order with the fewest crossings wins."""
    best, fewest = columns, _crossings(columns, right)
    for sweep in range(_SWEEPS):
        if fewest == 0:
            break
        forth = sweep % 2 == 0
        columns = list(columns)
        beside = left if forth else right
        for at in range(len(columns)) if forth else reversed(range(len(columns))):
            before = at - 1 if forth else at + 1
            index = {s: n for n, s in enumerate(columns[before])} if 0 <= before < len(columns) else {}
            own = {s: n for n, s in enumerate(columns[at])}
            columns[at] = sorted(own, key=lambda s: _mean([index[b] for b in beside.get(s, []) if b in index], own[s]))
        crossings = _crossings(columns, right)
        if crossings < fewest:
            best, fewest = columns, crossings
    return best


def _crossings(columns: Sequence[Sequence[_Spot]], right: Mapping[_Spot, list[_Spot]]) -> int:
    count = 0
    for column, following in pairwise(columns):
        index = {s: n for n, s in enumerate(following)}
        ends = [sorted(index[r] for r in right.get(s, []) if r in index) for s in column]
        seen: list[int] = []
        for each in ends:
            count += sum(1 for end in each for other in seen if other > end)
            seen += each
    return count


def _rows(
    columns: list[list[_Spot]], left: Mapping[_Spot, list[_Spot]], right: Mapping[_Spot, list[_Spot]]
) -> dict[_Spot, float]:
    """Each as near to the mean of its neighbours as the order and the heights allow."""
    offsets: dict[_Spot, float] = {}
    for column in columns:
        at = 0.0
        for spot in column:
            height = 1.0 if isinstance(spot, str) else _BEND
            offsets[spot] = at + height / 2 - 0.5
            at += height
    rows = dict(offsets)
    for sweep in range(2 * _SWEEPS):
        for column in columns if sweep % 2 == 0 else reversed(columns):
            wanted = []
            for spot in column:
                near = [rows[n] for n in (*left.get(spot, ()), *right.get(spot, ())) if n in rows]
                wanted.append(_mean(near, rows[spot]) - offsets[spot])
            for spot, shift in zip(column, _ascending(wanted), strict=True):
                rows[spot] = offsets[spot] + shift
    top = min(rows.values(), default=0.0)
    return {spot: round(row - top, 3) for spot, row in rows.items()}


def _ascending(values: Sequence[float]) -> list[float]:
    """The ascending numbers that differ least, in squares, from the given ones.

    >>> _ascending([3, 1, 5])
    [2.0, 2.0, 5.0]
    """
    pools: list[tuple[float, int]] = []
    for value in values:
        total, count = float(value), 1
        while pools and pools[-1][0] / pools[-1][1] > total / count:
            more, others = pools.pop()
            total, count = total + more, count + others
        pools.append((total, count))
    return [total / count for total, count in pools for _ in range(count)]


def _mean(values: Sequence[float], default: float) -> float:
    return sum(values) / len(values) if values else default
