"""HTML as a list of its elements, and what is wrong with it: for tests of the page."""

from __future__ import annotations

from dataclasses import dataclass, field
from html.parser import HTMLParser

_VOID = frozenset(
    ["area", "base", "br", "col", "embed", "hr", "img", "input", "link", "meta", "source", "track", "wbr"]
)


@dataclass(slots=True)
class Element:
    tag: str
    attributes: dict[str, str]
    above: tuple[Element, ...] = ()
    parts: list[str] = field(default_factory=list)

    @property
    def text(self) -> str:
        return " ".join("".join(self.parts).split())


class _Parser(HTMLParser):
    def __init__(self) -> None:
        super().__init__()
        self.elements: list[Element] = []
        self.open: list[Element] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        element = Element(tag, {k: v or "" for k, v in attrs}, tuple(self.open))
        assert len(attrs) == len(element.attributes), f"<{tag}> has an attribute twice"
        self.elements.append(element)
        if tag not in _VOID:
            self.open.append(element)

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.handle_starttag(tag, attrs)
        if tag not in _VOID:
            self.open.pop()

    def handle_endtag(self, tag: str) -> None:
        assert self.open, f"</{tag}> ends nothing"
        assert self.open[-1].tag == tag, f"</{tag}> inside <{self.open[-1].tag}>"
        self.open.pop()

    def handle_data(self, data: str) -> None:
        for each in self.open:
            each.parts.append(data)


def elements(text: str) -> list[Element]:
    """All elements in their order; every one that is opened must be closed."""
    parser = _Parser()
    parser.feed(text)
    parser.close()
    assert not parser.open, f"<{parser.open[-1].tag}> is not closed"
    return parser.elements


def faults(text: str) -> list[str]:
    """What keeps people out, or would be refused by the page's own Content-Security-Policy."""
    found, all_ = [], elements(text)
    ids = [e.attributes["id"] for e in all_ if "id" in e.attributes]
    found += [f"id {i} twice" for i in set(ids) if ids.count(i) > 1]
    labelled = {e.attributes.get("for") for e in all_ if e.tag == "label"}
    level = 0
    for e in all_:
        a, name = e.attributes, f"<{e.tag} {e.attributes}>"
        inline = [k for k in a if k.startswith("on") or k == "style"]
        if inline or (e.tag == "script" and (e.text or "src" not in a)) or e.tag == "style":
            found.append(f"{name}: inline script or style")
        for key in ("src", "href", "action"):
            if a.get(key, "/").partition("#")[0] and not a.get(key, "/").startswith(("/", "#")):
                found.append(f"{name}: leads elsewhere")
        if a.get("href", "").startswith("//"):
            found.append(f"{name}: leads elsewhere")
        if a.get("href", "").startswith("#") and a["href"][1:] not in ids:
            found.append(f"{name}: leads nowhere")
        for reference in a.get("aria-labelledby", "").split():
            if reference not in ids:
                found.append(f"{name}: its label is not there")
        if e.tag in ("a", "button", "summary", "h1", "h2", "h3", "th") and not (e.text or a.get("aria-label")):
            found.append(f"{name}: has no text")
        if e.tag == "input" and a.get("type") != "hidden" and a.get("id") not in labelled:
            found.append(f"{name}: has no label")
        if e.tag == "svg" and not (a.get("aria-hidden") == "true" or a.get("aria-label")):
            found.append(f"{name}: has no label")
        if e.tag == "th" and "scope" not in a:
            found.append(f"{name}: has no scope")
        if e.tag == "table" and not any(o.tag == "caption" and e in o.above for o in all_):
            found.append(f"{name}: has no caption")
        if e.tag in ("nav", "form", "section") and not (
            a.get("aria-label") or a.get("aria-labelledby") or a.get("role")
        ):
            found.append(f"{name}: is a landmark without a name")
        if e.tag in ("h1", "h2", "h3"):
            if int(e.tag[1]) > level + 1:
                found.append(f"{name}: follows h{level}")
            level = int(e.tag[1])
    for tag in ("h1", "main", "title"):
        if sum(e.tag == tag and not any(o.tag == "svg" for o in e.above) for e in all_) != 1:
            found.append(f"not one <{tag}>")
    return found
