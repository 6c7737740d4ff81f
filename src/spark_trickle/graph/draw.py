"""The DAG as text for a terminal, as Mermaid, DOT and SVG."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from html import escape

from spark_trickle.graph.layout import Layout, layout
from spark_trickle.model import InputKind, Status, StreamTable, TableName

_COLORS = {
    Status.ACTIVE: "#2e7d32",
    Status.INITIALIZING: "#1565c0",
    Status.SUSPENDED: "#b26a00",
    Status.ERROR: "#b3261e",
    None: "#5f6368",
}


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

    def __str__(self) -> str:
        return f"{self.reader} reads {', '.join(self.columns) or self.input}"


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
        for node in self.nodes:
            if node.name in read and node.name not in shown:  # in a cycle that reads nothing else
                shown.add(node.name)
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
        """A picture with one column per level, inputs left of what reads them."""
        found = layout((n.name for n in self.nodes), ((e.input, e.reader) for e in self.edges))
        boxes = Boxes(found)
        parts = [
            f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {boxes.width} {boxes.height}" '
            f'width="{boxes.width}" height="{boxes.height}" role="img" font-family="sans-serif" font-size="13">',
            "<title>Stream tables and what they read</title>",
        ]
        parts += [
            f'<path d="{boxes.path(edge)}" fill="none" stroke="#9aa0a6"><title>{escape(str(edge))}</title></path>'
            for edge in self.edges
        ]
        for node in self.nodes:
            x, y = boxes.corner(node.name)
            says = "source" if node.status is None else f"{node.status}, {node.schedule or 'default schedule'}"
            parts.append(
                f'<g><title>{escape(str(node))}</title><rect x="{x}" y="{y}" width="{boxes.box_width}" '
                f'height="{boxes.box_height}" rx="{boxes.box_height // 2 if node.status is None else 6}" '
                f'fill="#ffffff" stroke="{_COLORS[node.status]}" stroke-width="2"/>'
                f'<text x="{x + 12}" y="{y + 19}" fill="#202124">{escape(short(node.name))}</text>'
                f'<text x="{x + 12}" y="{y + 35}" fill="{_COLORS[node.status]}" font-size="11">{escape(says)}</text>'
                "</g>"
            )
        return "\n".join((*parts, "</svg>"))


@dataclass(frozen=True, slots=True)
class Boxes:
    """A layout in pixels."""

    layout: Layout
    box_width: int = 200
    box_height: int = 44
    gap_x: int = 70
    gap_y: int = 18
    margin: int = 16

    @property
    def width(self) -> int:
        columns = self.layout.columns
        return 2 * self.margin + columns * self.box_width + (columns - 1) * self.gap_x

    @property
    def height(self) -> int:
        return 2 * self.margin + round(self.layout.rows * (self.box_height + self.gap_y)) - self.gap_y

    def corner(self, name: str) -> tuple[int, int]:
        return self._corner(self.layout.places[name])

    def _corner(self, place: tuple[int, float]) -> tuple[int, int]:
        column, row = place
        return (
            self.margin + column * (self.box_width + self.gap_x),
            self.margin + round(row * (self.box_height + self.gap_y)),
        )

    def path(self, edge: Edge) -> str:
        """From the right side of the input to the left side of the reader, straight through the columns between."""
        stops = [
            self.corner(edge.input),
            *map(self._corner, self.layout.bends[edge.input, edge.reader]),
            self.corner(edge.reader),
        ]
        half = self.box_height // 2
        x, y = stops[0][0] + self.box_width, stops[0][1] + half
        parts = [f"M{x} {y}"]
        for n, (left, top) in enumerate(stops[1:], 2):
            middle, to = (x + left) // 2, top + half
            parts.append(f"C{middle} {y} {middle} {to} {left} {to}")
            x, y = left, to
            if n < len(stops):
                x += self.box_width
                parts.append(f"H{x}")
        return " ".join(parts)


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


def short(name: str, length: int = 26) -> str:
    """
    >>> short("warehouse.customers", 12)
    'warehouse.c…'
    """
    return name if len(name) <= length else f"{name[: length - 1]}…"
