"""Pictures that templates draw: the DAG, and the times of the last refreshes. Pure: places and words, no markup."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from spark_trickle.catalog.rows import Recent
from spark_trickle.graph.draw import Boxes, dag_of, short
from spark_trickle.graph.layout import layout
from spark_trickle.web.overview import Overview, Row

LARGEST = 60  # stream tables up to which the DAG is drawn: more cannot be read as a picture
_NAME = 27  # characters that fit into a box


@dataclass(frozen=True, slots=True)
class Box:
    name: str
    text: str  # the name, cut if it is long
    x: int
    y: int
    row: Row | None  # None: a source
    here: bool


@dataclass(frozen=True, slots=True)
class Line:
    path: str
    says: str
    changed: bool  # the reader has not seen the last change of its input yet


@dataclass(frozen=True, slots=True)
class Picture:
    width: int
    height: int
    box_width: int
    box_height: int
    boxes: tuple[Box, ...]
    lines: tuple[Line, ...]


def picture(found: Overview, here: str | None = None) -> Picture:
    """All stream tables, or one with what it reads and what reads it."""
    rows = {r.name: r for r in found.rows}
    dag = dag_of(r.table for r in found.rows)
    edges = tuple(e for e in dag.edges if here is None or here in (e.input, e.reader))[: 4 * LARGEST]
    names = {here} if here else {n.name for n in dag.nodes}
    names.update(n for e in edges for n in (e.input, e.reader))
    boxes = Boxes(
        layout(names, ((e.input, e.reader) for e in edges)),
        box_width=216,
        box_height=62,
        gap_x=46,
        gap_y=16,
        margin=6,
    )
    drawn = tuple(Box(n, short(n, _NAME), *boxes.corner(n), rows.get(n), n == here) for n in sorted(names))
    lines = tuple(Line(boxes.path(e), str(e), rows[e.reader].status.pending) for e in edges)
    return Picture(boxes.width, boxes.height, boxes.box_width, boxes.box_height, drawn, lines)


@dataclass(frozen=True, slots=True)
class Bar:
    x: int
    y: int
    height: int
    kind: str  # done, nothing, skipped, failed, running


def spark_line(recent: Sequence[Recent], bars: int = 30, height: int = 22) -> tuple[Bar, ...]:
    """One bar for each refresh, the newest at the right; the longest is as high as the picture."""
    longest = max((r.seconds for r in recent if r.seconds is not None), default=0.0) or 1.0
    shown = recent[-bars:]
    found = []
    for n, each in enumerate(shown, bars - len(shown)):
        kind = _kind(each)
        share = 1.0 if kind == "running" else (each.seconds or 0.0) / longest
        high = max(2, round(height * share))
        if kind == "failed":
            high = max(high, height // 2)
        elif kind in ("nothing", "skipped"):
            high = 2
        found.append(Bar(4 * n, height - high, high, kind))
    return tuple(found)


def _kind(refresh: Recent) -> str:
    if refresh.state == "RUNNING":
        return "running"
    if refresh.state == "FAILED":
        return "failed"
    return {"NO_DATA": "nothing", "SKIP": "skipped"}.get(str(refresh.action), "done")
