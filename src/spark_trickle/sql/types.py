"""Types as Spark writes them (`array<struct<a:int,`b c`:map<string,int>>>`), taken apart."""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import lru_cache

_TOKEN = re.compile(r"`(?:[^`]|``)*`|[<>,:]|[^<>,:`()]+(?:\([^)]*\))?")


@dataclass(frozen=True, slots=True)
class Type:
    """`name` is `array`, `map`, `struct`, or the whole text of a type without parts such as `decimal(10,2)`."""

    name: str
    parts: tuple[Type, ...] = ()  # the element; key and value; the fields
    fields: tuple[str, ...] = ()  # of a struct

    @property
    def floating(self) -> bool:
        return self.name in ("float", "double")

    @property
    def collated(self) -> bool:
        return self.name.startswith("string collate")

    def holds(self, *names: str) -> bool:
        """Whether it is, or holds at any depth, one of these: names of types, or `collated`."""
        own = self.name in names or (self.collated and "collated" in names)
        return own or any(p.holds(*names) for p in self.parts)


@lru_cache(maxsize=4096)
def parse_type(text: str) -> Type:
    """
    >>> parse_type("map<string,decimal(10,2)>").parts[1].name
    'decimal(10,2)'
    >>> parse_type("struct<a:int,`b,c`:array<double>>").fields
    ('a', 'b,c')
    """
    found, rest = _read(_TOKEN.findall(text))
    if rest:
        raise ValueError(f"{text} is not a type")
    return found


def _read(tokens: list[str]) -> tuple[Type, list[str]]:
    name, rest = tokens[0].strip().lower(), tokens[1:]
    if name not in ("array", "map", "struct") or rest[:1] != ["<"]:
        return Type(name), rest
    parts: list[Type] = []
    fields: list[str] = []
    rest = rest[1:]
    while rest[0] != ">":
        if rest[0] == ",":
            rest = rest[1:]
        if name == "struct":
            fields.append(rest[0][1:-1].replace("``", "`") if rest[0].startswith("`") else rest[0].strip())
            rest = rest[2:]  # the name and the colon
        part, rest = _read(rest)
        parts.append(part)
    return Type(name, tuple(parts), tuple(fields)), rest[1:]
