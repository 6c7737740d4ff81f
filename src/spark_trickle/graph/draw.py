"""The DAG as text for a terminal, as Mermaid, DOT and SVG."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from html import escape

from spark_trickle.model import InputKind, Status, StreamTable, TableName

_COLORS = {
    Status.ACTIVE: "#2e7d32",
    Status.INITIALIZING: "#1565c0",
    Status.SUSPENDED: "#b26a00",
    Status.ERROR: "#b3261e",
    None: "#5f6368",
}
_WIDTH, _HEIGHT, _GAP_X, _GAP_Y, _MARGIN = 200, 44, 70, 18, 16  # of boxes, in pixels


@dataclass(frozen=True, slots=True)
class Node:
    """A source (no status) or a stream table."""

    name: str
    status: Status | None = None
    schedule: str | None = None
    mode: str | None = None

    def __str__(self) -> str:
        if self.status is None:
            return f"{self.name} (source)"
        return f"{self.name}  {self.status}  {self.schedule or 'default schedule'}"


@dataclass(frozen=True, slots=True)
class Edge:
    """`reader` reads these columns of `input`; none: it is not known which."""

    input: str
    reader: str
    columns: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Dag:
    """Nodes and edges, in the order of their names. `str()` draws it for a terminal."""

    nodes: tuple[Node, ...]
    edges: tuple[Edge, ...]

    def __str__(self) -> str:
        return "\n".join(self._lines())

    def _lines(self) -> Iterator[str]:
        by_name = {n.name: n for n in self.nodes}
        readers = _grouped((e.input, e.reader) for e in self.edges)
        read = {e.reader for e in self.edges}
        shown: set[str] = set()

        def below(name: str, indent: str) -> Iterator[str]:
            inner = readers.get(name, [])
            for n, reader in enumerate(inner):
                last = n == len(inner) - 1
                again = reader in shown and bool(readers.get(reader))
                mark = "  (its readers: see above)" if again else ""
                yield f"{indent}{'└─' if last else '├─'} {by_name[reader]}{mark}"
                if not again:
                    shown.add(reader)
                    yield from below(reader, indent + ("   " if last else "│  "))

        for node in self.nodes:
            if node.name not in read:
                yield str(node)
                yield from below(node.name, "")

    def mermaid(self) -> str:
        """A flowchart for Markdown: GitHub and many notebooks draw it."""
        ids = {n.name: f"n{i}" for i, n in enumerate(self.nodes)}
        lines = ["flowchart LR"]
        for node in self.nodes:
            text = escape(node.name).replace("`", "&#96;")
            lines.append(f'  {ids[node.name]}[("{text}")]' if node.status is None else f'  {ids[node.name]}["{text}"]')
        lines += [f"  {ids[e.input]} --> {ids[e.reader]}" for e in self.edges]
        for status in (Status.SUSPENDED, Status.ERROR):
            of = [ids[n.name] for n in self.nodes if n.status is status]
            if of:
                lines.append(f"  classDef {status.lower()} stroke:{_COLORS[status]},stroke-width:3px")
                lines.append(f"  class {','.join(of)} {status.lower()}")
        return "\n".join(lines)

    def dot(self) -> str:
        """For Graphviz."""
        lines = ["digraph lake {", "  rankdir=LR;", '  node [shape=box, fontname="sans-serif"];']
        for node in self.nodes:
            shape = ", shape=cylinder" if node.status is None else ""
            lines.append(f'  {_quoted(node.name)} [color="{_COLORS[node.status]}"{shape}];')
        lines += [f"  {_quoted(e.input)} -> {_quoted(e.reader)};" for e in self.edges]
        return "\n".join((*lines, "}"))

    def svg(self) -> str:
        """A picture with one column per level, sources at the left."""
        places = self._places()
        columns = 1 + max((x for x, _ in places.values()), default=0)
        rows = 1 + max((y for _, y in places.values()), default=0)
        width = 2 * _MARGIN + columns * _WIDTH + (columns - 1) * _GAP_X
        height = 2 * _MARGIN + rows * (_HEIGHT + _GAP_Y) - _GAP_Y
        parts = [
            f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" width="{width}" '
            f'height="{height}" role="img" font-family="sans-serif" font-size="13">',
            "<title>Stream tables and what they read</title>",
        ]
        at = {n: (_MARGIN + x * (_WIDTH + _GAP_X), _MARGIN + y * (_HEIGHT + _GAP_Y)) for n, (x, y) in places.items()}
        for edge in self.edges:
            (x0, y0), (x1, y1) = at[edge.input], at[edge.reader]
            x0, y0, y1 = x0 + _WIDTH, y0 + _HEIGHT // 2, y1 + _HEIGHT // 2
            middle = (x0 + x1) // 2
            parts.append(
                f'<path d="M{x0} {y0} C{middle} {y0} {middle} {y1} {x1} {y1}" fill="none" stroke="#9aa0a6">'
                f"<title>{escape(edge.reader)} reads {escape(', '.join(edge.columns) or edge.input)}</title></path>"
            )
        for node in self.nodes:
            x, y = at[node.name]
            says = "source" if node.status is None else f"{node.status}, {node.schedule or 'default schedule'}"
            parts.append(
                f'<g><title>{escape(str(node))}</title><rect x="{x}" y="{y}" width="{_WIDTH}" height="{_HEIGHT}" '
                f'rx="{_HEIGHT // 2 if node.status is None else 6}" fill="#ffffff" stroke="{_COLORS[node.status]}" '
                f'stroke-width="2"/><text x="{x + 12}" y="{y + 19}" fill="#202124">{escape(_short(node.name))}</text>'
                f'<text x="{x + 12}" y="{y + 35}" fill="{_COLORS[node.status]}" font-size="11">{escape(says)}</text>'
                "</g>"
            )
        return "\n".join((*parts, "</svg>"))

    def _places(self) -> dict[str, tuple[int, int]]:
        """Column and row of each: one after its inputs, and beside them as far as there is room."""
        inputs = _grouped((e.reader, e.input) for e in self.edges)
        levels: dict[str, int] = {}
        left = [n.name for n in self.nodes]
        while left:  # a circle stays where it is
            ready = [n for n in left if all(i in levels for i in inputs.get(n, []))] or left
            for name in ready:
                levels[name] = 1 + max((levels.get(i, -1) for i in inputs.get(name, [])), default=-1)
            left = [n for n in left if n not in levels]
        places: dict[str, tuple[int, int]] = {}
        for level in sorted(set(levels.values())):

            def beside(name: str) -> float:
                rows = [places[i][1] for i in inputs.get(name, []) if i in places]
                return sum(rows) / len(rows) if rows else 0.0

            of = sorted((n for n in levels if levels[n] == level), key=lambda n: (beside(n), n))
            places.update({name: (level, row) for row, name in enumerate(of)})
        return places


def dag_of(tables: Iterable[StreamTable]) -> Dag:
    """The stream tables with everything they read; what they read through views is read directly here."""
    found = tuple(tables)
    nodes: dict[TableName, Node] = {t.name: Node(str(t.name), t.status, t.schedule, str(t.mode)) for t in found}
    edges = []
    for table in found:
        used: dict[TableName, dict[str, None]] = {d.input: {} for d in table.reads if d.kind is not InputKind.VIEW}
        for d in (d for part in (table, *table.states) for d in part.dependencies if d.input in used):
            used[d.input].update(dict.fromkeys(c.name for c in d.columns))
        for input_, columns in used.items():
            nodes.setdefault(input_, Node(str(input_)))
            edges.append(Edge(str(input_), str(table.name), tuple(columns)))
    return Dag(
        tuple(sorted(nodes.values(), key=lambda n: n.name)), tuple(sorted(edges, key=lambda e: (e.input, e.reader)))
    )


def _grouped(pairs: Iterable[tuple[str, str]]) -> Mapping[str, list[str]]:
    found: dict[str, list[str]] = {}
    for key, value in pairs:
        found.setdefault(key, []).append(value)
    return found


def _quoted(name: str) -> str:
    return '"' + name.replace("\\", "\\\\").replace('"', '\\"') + '"'


def _short(name: str) -> str:
    return name if len(name) <= 26 else f"{name[:25]}…"
