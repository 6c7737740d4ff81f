"""What one query's generation carries along: chance, what is wanted, what has been used, what may still be spent."""

from __future__ import annotations

import random
from collections.abc import Mapping
from dataclasses import dataclass, field

from tests.fuzz.schema import Table
from tests.fuzz.types import Column, Ref


@dataclass
class Context:
    rnd: random.Random
    tables: tuple[Table, ...]
    want: set[str] = field(default_factory=set)
    tags: set[str] = field(default_factory=set)
    relations: int = 5  # how many more relations the query may read
    wide: int = 1  # how many more joins without an equality
    subqueries: int = 2  # how many more subqueries in expressions
    names: int = 0
    ctes: list[str] = field(default_factory=list)

    def fresh(self, prefix: str) -> str:
        """A name that nothing else in the query has."""
        self.names += 1
        return f"{prefix}{self.names}"

    def tag(self, *names: str) -> None:
        self.tags.update(names)
        self.want.difference_update(names)

    def maybe(self, name: str, chance: float) -> bool:
        """Whether to use a construct: surely if it is wanted."""
        if name in self.want or self.rnd.random() < chance:
            self.tag(name)
            return True
        return False

    def asked(self, *names: str) -> bool:
        """Whether one of these is wanted; the want stays."""
        return any(n in self.want for n in names)

    def pick(self, options: Mapping[str, float]) -> str:
        """One of the options, a wanted one first. Only the want is settled; the caller tags what it makes."""
        wanted = [o for o in options if o in self.want]
        chosen = wanted[0] if wanted else self.rnd.choices(list(options), list(options.values()))[0]
        self.want.discard(chosen)
        return chosen

    def chance(self, p: float) -> bool:
        return self.rnd.random() < p


@dataclass(frozen=True)
class Query:
    """A query's text (without CTEs, which the context collects) and its output."""

    sql: str
    columns: tuple[Column, ...]


@dataclass(frozen=True)
class From:
    """A FROM clause, and what expressions over it can name."""

    sql: str
    refs: tuple[Ref, ...]
    closed: bool = False  # after a comma a join sees only what follows it
