"""The DAG as text, Mermaid, DOT and SVG."""

from __future__ import annotations

from xml.etree import ElementTree

from spark_trickle.graph.draw import Dag, Edge, Node
from spark_trickle.model import Status

HOSTILE = 'shop.a "b" <&> `c`\\'
DAG = Dag(
    (
        Node("shop.big", Status.ACTIVE, "1m"),
        Node("shop.lines", Status.ACTIVE),
        Node("shop.names"),
        Node("shop.orders"),
        Node("shop.top", Status.SUSPENDED, "downstream"),
    ),
    (
        Edge("shop.big", "shop.top", ("id",)),
        Edge("shop.lines", "shop.big"),
        Edge("shop.lines", "shop.top"),
        Edge("shop.names", "shop.lines"),
        Edge("shop.orders", "shop.lines", ("id", "amount")),
    ),
)


def test_text() -> None:
    assert str(DAG).splitlines() == [
        "shop.names (source)",
        "└─ shop.lines  ACTIVE  default schedule",
        "   ├─ shop.big  ACTIVE  1m",
        "   │  └─ shop.top  SUSPENDED  downstream",
        "   └─ shop.top  SUSPENDED  downstream",
        "shop.orders (source)",
        "└─ shop.lines  ACTIVE  default schedule  (its readers: see above)",
    ]


def test_mermaid_and_dot() -> None:
    mermaid = DAG.mermaid().splitlines()
    assert mermaid[0] == "flowchart LR"
    assert '  n3[("shop.orders")]' in mermaid
    assert "  n3 --> n1" in mermaid
    assert "  class n4 suspended" in mermaid
    dot = DAG.dot()
    assert '"shop.orders" -> "shop.lines";' in dot
    assert dot.count("->") == len(DAG.edges)


def test_svg_has_a_box_for_each_and_inputs_left_of_their_readers() -> None:
    svg = ElementTree.fromstring(DAG.svg())
    space = {"s": "http://www.w3.org/2000/svg"}
    boxes = {g.find("s:text", space).text: g.find("s:rect", space) for g in svg.findall("s:g", space)}  # type: ignore[union-attr]
    assert set(boxes) == {n.name for n in DAG.nodes}
    for edge in DAG.edges:
        left, right = boxes[edge.input], boxes[edge.reader]
        assert left is not None
        assert right is not None
        assert int(left.attrib["x"]) < int(right.attrib["x"])
    places = [(b.attrib["x"], b.attrib["y"]) for b in boxes.values() if b is not None]
    assert len(places) == len(set(places))
    assert len(svg.findall("s:path", space)) == len(DAG.edges)


def test_hostile_names() -> None:
    dag = Dag((Node(HOSTILE),), ())
    assert HOSTILE in str(dag)
    svg = ElementTree.fromstring(dag.svg())
    assert HOSTILE in "".join(svg.itertext())
    assert "<&>" not in dag.mermaid()
    assert '\\"b\\"' in dag.dot()


def test_an_empty_one() -> None:
    assert str(Dag((), ())) == ""
    ElementTree.fromstring(Dag((), ()).svg())


def test_stream_tables_that_read_each_other() -> None:
    dag = Dag(
        (Node("s.a", Status.ACTIVE), Node("s.b", Status.ACTIVE), Node("s.self", Status.ACTIVE), Node("s.t")),
        (Edge("s.t", "s.a"), Edge("s.a", "s.b"), Edge("s.b", "s.a"), Edge("s.t", "s.self"), Edge("s.self", "s.self")),
    )
    lines = str(dag).splitlines()
    assert lines[0] == "s.t (source)"
    assert sum("s.b" in line for line in lines) == 1
    assert dag.mermaid().count("-->") == dag.dot().count("->") == 5
    assert all(n.name in dag.svg() for n in dag.nodes)
    alone = Dag((Node("s.a", Status.ACTIVE), Node("s.b", Status.ACTIVE)), (Edge("s.a", "s.b"), Edge("s.b", "s.a")))
    assert [line.split()[0] for line in str(alone).splitlines()] == ["s.a", "└─", "└─"]
