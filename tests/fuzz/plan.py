"""What a run does, as data: rounds of sources, queries and changes that follow from the seed alone."""

from __future__ import annotations

import random
from collections.abc import Iterator
from dataclasses import dataclass

from tests.fuzz import guarded
from tests.fuzz.constructs import Schedule
from tests.fuzz.grammar import Generated, Generator
from tests.fuzz.schema import Table, creation, random_tables, step

BATCH = 14  # queries of a round
STEPS = 3  # times that the sources change
TWINS = 10  # every tenth query is maintained a second time, with optimizations off
PARTITIONED = 5  # every fifth stream table is partitioned


@dataclass(frozen=True)
class Case:
    name: str
    query: Generated
    twin: bool
    partitioned: bool = False
    partitioned_by: tuple[str, ...] = ()  # else chosen when the columns are known


@dataclass(frozen=True)
class Round:
    number: int
    tables: tuple[Table, ...]
    creation: tuple[str, ...]
    steps: tuple[tuple[str, ...], ...]
    cases: tuple[Case, ...]


def rounds(seed: int, schedule: Schedule, batch: int = BATCH, steps: int = STEPS) -> Iterator[Round]:
    """Rounds without end. The shares of constructs go on from round to round."""
    number = made = 0
    while True:
        rnd = random.Random(f"{seed}/{number}")
        tables = random_tables(rnd)
        statements = creation(rnd, tables)
        both = guarded.tables(rnd)
        open_ = guarded.some_open(rnd)
        statements += guarded.creation(rnd, both, open_)
        changes = []
        for _ in range(steps):
            before, open_ = open_, guarded.some_open(rnd)
            changes.append((*step(rnd, tables), *guarded.step(rnd, both, before, open_)))
        tables = (*tables, *both)
        generator = Generator(rnd, tables, schedule)
        cases = []
        for n in range(batch):
            made += 1
            cases.append(Case(f"q{n}", generator.next(), made % TWINS == 0, made % PARTITIONED == 1))
        yield Round(number, tables, tuple(statements), tuple(changes), tuple(cases))
        number += 1
