"""Play one failing case alone, and make it smaller: `python -m tests.fuzz.replay FILE.sql`.

A script is SQL text: statements, one CREATE STREAM TABLE s.st, and steps that each end in a refresh and a comparison.
"""

from __future__ import annotations

import re
import shutil
import sys
import tempfile
import time
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path

from spark_trickle import connect
from tests.fuzz.exact import How
from tests.fuzz.grammar import Generated
from tests.fuzz.plan import Case, Round
from tests.fuzz.shrink import smaller_queries
from tests.fuzz.world import LAKE, Outcome, play

_CREATE = "CREATE STREAM TABLE s.st AS "
_STEP = "-- step"
_TAGS = "-- constructs: "
_HOW = "-- compared less strictly: "
_PARTITIONED = "-- partitioned by: "


@dataclass(frozen=True)
class Script:
    creation: tuple[str, ...]
    query: str
    steps: tuple[tuple[str, ...], ...]
    failure: str = ""
    tags: frozenset[str] = frozenset()
    how: tuple[tuple[str, How], ...] = ()
    partitioned_by: tuple[str, ...] = ()

    @classmethod
    def of(cls, round_: Round, outcome: Outcome) -> Script:
        """Only the sources that the query reads, and the steps up to the failure."""
        query = outcome.case.query.sql
        others = [t.name for t in round_.tables if t.name not in query]

        def mine(statements: tuple[str, ...]) -> tuple[str, ...]:
            return tuple(s for s in statements if not any(o in s for o in others))

        steps = tuple(mine(s) for s in round_.steps[: outcome.step])
        generated = outcome.case.query
        return cls(
            mine(round_.creation),
            query,
            steps,
            outcome.failure or "",
            generated.tags,
            generated.how,
            outcome.partitioned_by,
        )

    @classmethod
    def read(cls, text: str) -> Script:
        creation: list[str] = []
        steps: list[list[str]] = []
        query = ""
        tags: frozenset[str] = frozenset()
        how: list[tuple[str, How]] = []
        partitioned_by: tuple[str, ...] = ()
        for line in text.splitlines():
            if line.startswith(_STEP):
                steps.append([])
            elif line.startswith(_TAGS):
                tags = frozenset(line.removeprefix(_TAGS).split(", "))
            elif line.startswith(_HOW):
                pairs = (one.split(" ") for one in line.removeprefix(_HOW).split(", "))
                how = [(name, How[word]) for name, word in pairs]
            elif line.startswith(_PARTITIONED):
                partitioned_by = tuple(line.removeprefix(_PARTITIONED).split(" / "))
            elif line.startswith(_CREATE):
                query = line.removeprefix(_CREATE).rstrip(";")
            elif line.strip() and not line.startswith("--"):
                (steps[-1] if steps else creation).append(line.rstrip(";"))
        return cls(tuple(creation), query, tuple(map(tuple, steps)), "", tags, tuple(how), partitioned_by)

    def text(self) -> str:
        lines = [f"-- {line}" for line in self.failure.splitlines()]
        if self.tags:
            lines.append(f"{_TAGS}{', '.join(sorted(self.tags))}")
        if self.how:
            lines.append(f"{_HOW}{', '.join(f'{name} {h.name}' for name, h in self.how)}")
        if self.partitioned_by:
            lines.append(f"{_PARTITIONED}{' / '.join(self.partitioned_by)}")
        lines += [f"{s};" for s in self.creation]
        lines.append(f"{_CREATE}{self.query};")
        for n, statements in enumerate(self.steps, 1):
            lines += [f"{_STEP} {n}", *(f"{s};" for s in statements)]
        return "\n".join(lines) + "\n"

    def play(self, folder: Path) -> Outcome:
        case = Case("st", Generated(self.query, self.tags, None, self.how), False, partitioned_by=self.partitioned_by)
        round_ = Round(0, (), self.creation, self.steps, (case,))
        shutil.rmtree(folder, ignore_errors=True)
        try:
            return play(folder, round_, twins=False, threads=1)[0]
        finally:
            shutil.rmtree(folder, ignore_errors=True)


def minimize(script: Script, folder: Path, seconds: float) -> Script | None:
    """A smaller script that fails in the same way, None when this one alone does not fail."""
    until = time.monotonic() + seconds
    outcome = script.play(folder)
    if not outcome.failure:
        return None
    kind = _kind(outcome.failure)
    best = replace(script, failure=outcome.failure)
    again = True
    while again and time.monotonic() < until:
        again = False
        for candidate in _smaller(best):
            if time.monotonic() > until:
                break
            try:
                found = candidate.play(folder)
            except Exception:  # a change that needs what was left out
                continue
            if found.failure and _kind(found.failure) == kind:
                best, again = replace(candidate, failure=found.failure), True
                break
    return best


def _kind(failure: str) -> str:
    return "DIFFERS" if "DIFFERS" in failure else re.sub(r"\d+", "", failure)[:80]


def _smaller(script: Script) -> Iterator[Script]:
    if len(script.steps) > 1:
        # The changes of all steps at once, then the last step alone on top of what came before.
        yield replace(script, steps=(tuple(s for part in script.steps for s in part),))
        before = tuple(s for part in script.steps[:-1] for s in part)
        yield replace(script, creation=(*script.creation, *before), steps=script.steps[-1:])
    if script.partitioned_by:
        yield replace(script, partitioned_by=())
    for query in smaller_queries(script.query):
        yield replace(script, query=query)
    for n, part in enumerate(script.steps):
        for at in range(len(part)):
            rest = part[:at] + part[at + 1 :]
            if rest:
                yield replace(script, steps=(*script.steps[:n], rest, *script.steps[n + 1 :]))
    for at, statement in enumerate(script.creation):
        if not statement.startswith("CREATE"):
            yield replace(script, creation=script.creation[:at] + script.creation[at + 1 :])
    for at, statement in enumerate(script.creation):
        for less in _fewer_rows(statement):
            yield replace(script, creation=(*script.creation[:at], less, *script.creation[at + 1 :]))
    for n, part in enumerate(script.steps):
        for at, statement in enumerate(part):
            for less in _fewer_rows(statement):
                changed = (*part[:at], less, *part[at + 1 :])
                yield replace(script, steps=(*script.steps[:n], changed, *script.steps[n + 1 :]))


def _fewer_rows(statement: str) -> Iterator[str]:
    """The statement with half of its VALUES, or one row less."""
    head, values, rest = statement.partition("FROM VALUES ")
    listed, end, tail = rest.partition(" AS v(")
    rows: list[str] = []
    depth = start = 0
    for at, c in enumerate(listed):  # no constant of the pools has a bracket in a string
        depth += {"(": 1, ")": -1}.get(c, 0)
        if c == ")" and depth == 0:
            rows.append(listed[start : at + 1])
            start = at + 3
    half = len(rows) // 2
    kept = [rows[:half], rows[half:]] if half > 1 else []
    kept += [rows[:n] + rows[n + 1 :] for n in range(len(rows))] if 1 < len(rows) <= 4 else []
    for some in kept:
        yield f"{head}{values}{', '.join(some)}{end}{tail}"


def main(paths: list[str]) -> int:
    failed = 0
    with tempfile.TemporaryDirectory(prefix="trickle-replay-") as folder, connect(Path(folder) / "keep", **LAKE):
        for path in paths:
            outcome = Script.read(Path(path).read_text(encoding="utf-8")).play(Path(folder) / "lake")
            failed += bool(outcome.failure)
            print(f"{path}: {outcome.verdict} {outcome.reason}\n  {outcome.failure or 'no failure'}", flush=True)
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
