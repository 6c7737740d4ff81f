"""Steps that `explain` does not show, as text in tests/golden/steps: what a refresh does in special cases.

Whether their rows are right is tested elsewhere: tests/engine/test_careful.py, test_most_groups.py, test_invariant.py.
`pytest tests/delta/test_golden_steps.py --update-golden` writes the texts again.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import pytest

from spark_trickle import Trickle
from spark_trickle.delta.facts import Facts
from spark_trickle.delta.optimize import PASSES, UNRESTRICTED, Pass, optimize
from spark_trickle.delta.steps import Compute, Step, Write
from spark_trickle.model import TableName
from spark_trickle.refresh.definition import Compiled
from spark_trickle.refresh.step_texts import titled
from spark_trickle.spark.compile import PlainLeaves, compile_sql
from spark_trickle.sql.algebra import Operator

FOLDER = Path(__file__).parent.parent / "golden" / "steps"


@dataclass(frozen=True)
class Case:
    title: str
    query: str
    which: str  # careful, append-only, whole, all


CASES = {
    "append_only": Case(
        "Only insertions: what enters is written, nothing is looked up", "SELECT id, upper(k) AS k FROM a WHERE v > 2",
        "append-only",
    ),
    "append_only_join": Case(
        "Only insertions into both sides of a join", "SELECT a.k, b.w FROM a JOIN b ON a.id = b.a_id", "append-only",
    ),
    "careful_rows": Case(
        "The careful step of whole rows", "SELECT a.k, 10 / b.w AS w FROM a JOIN b ON a.id = b.a_id", "careful",
    ),
    "careful_groups": Case(
        "The careful step of groups: the affected ones first, all if that fails",
        "SELECT k, sum(10 / v) AS total, max(v) AS best FROM a GROUP BY k", "careful",
    ),
    "careful_global": Case("The careful step of one row", "SELECT sum(10 / v) AS total FROM a", "careful"),
    "careful_partitions": Case(
        "The careful step of partitions", "SELECT id, sum(10 / v) OVER (PARTITION BY k) AS total FROM a", "careful",
    ),
    "careful_top": Case("The careful step of a top", "SELECT id, 10 / v AS v FROM a ORDER BY id LIMIT 3", "careful"),
    "careful_levels": Case(
        "The careful step of a recursion",
        "WITH RECURSIVE r AS (SELECT id, 1 AS n FROM a UNION ALL SELECT b.w, n + 1 FROM r JOIN b ON b.a_id = r.id "
        "WHERE n < 4) SELECT * FROM r", "careful",
    ),
    "distinct_calls": Case(
        "DISTINCT aggregates in two steps: a hidden state table of the values, and sums over it",
        "SELECT k, count(DISTINCT v) AS n, sum(v) AS total FROM a GROUP BY k", "all",
    ),
    "most_groups": Case(
        "Where most groups are affected: the same without a restriction to their keys",
        "SELECT k, max_by(v, id) AS latest FROM a GROUP BY k", "whole",
    ),
}  # fmt: skip


@pytest.fixture(scope="module")
def lake(module_tr: Trickle) -> Trickle:
    tr = module_tr
    tr.sql("CREATE TABLE s.a (id BIGINT, k STRING, v INT)")
    tr.sql("CREATE TABLE s.b (a_id INT, k STRING, w BIGINT)")
    return tr


def compiled(tr: Trickle, name: str, query: str) -> Compiled:
    tr.create_stream_table(f"s.{name}", query, mode="differential")
    r = tr.refresher
    table = r.store.find(TableName("s", name))
    with r.attempts.begin({}, table.namespace) as attempt:
        return r.compile(attempt, table, r.cut(), r.known())


def texts(steps: Iterable[Step], facts: Facts, passes: tuple[Pass, ...] = PASSES) -> Iterator[str]:
    for step in steps:
        for title, _, tree in written(step) if isinstance(step, Write) else titled(step):
            yield f"-- {title}\n{compile_sql(optimize(tree, facts, passes), PlainLeaves())}"


def written(step: Write) -> Iterator[tuple[str, str, Operator]]:
    yield "rows that enter", "", step.enters
    if step.positions is not None:
        yield "positions of rows that leave", "", step.positions


def shown(found: Compiled, which: str) -> str:
    assert found.plan is not None
    facts = Facts(frozenset(found.inputs))
    if which == "careful":
        ways: Sequence[Sequence[Step]] = found.plan.careful(found.columns)
        parts = [";\n\n".join(texts(way, facts)) for way in ways]
        return ";\n\n-- ---- if that fails ----\n\n".join(parts)
    if which == "append-only":
        only = Facts(frozenset(found.inputs), append_only=True)
        steps = found.plan.steps(found.columns, only)
        assert [type(s) for s in steps] == [Write]
        return ";\n\n".join(texts(steps, only))
    if which == "whole":
        computed = [s for s in found.plan.steps(found.columns, facts) if isinstance(s, Compute)]
        whole = [(s.name, s.whole) for s in computed if s.whole is not None]
        assert whole
        passes = tuple(p for p in PASSES if p in UNRESTRICTED)
        return ";\n\n".join(
            f"-- {name}, whole\n{compile_sql(optimize(tree, facts, passes), PlainLeaves())}" for name, tree in whole
        )
    parts = [f"-- ---- hidden {state.name} ----\n\n{shown(state.compiled, 'steps')}" for state in found.states]
    if which == "all":
        assert parts, "there is no hidden state table"
    return ";\n\n".join([*parts, *texts(found.plan.steps(found.columns, facts), facts)])


@pytest.mark.parametrize("name", CASES)
def test_text(lake: Trickle, name: str, request: pytest.FixtureRequest) -> None:
    case = CASES[name]
    text = f"-- {case.title}\n-- query\n{case.query}\n-- steps\n{shown(compiled(lake, name, case.query), case.which)}\n"
    file = FOLDER / f"{name}.sql"
    if request.config.getoption("--update-golden"):
        file.parent.mkdir(exist_ok=True)
        file.write_text(text, "utf-8")
    else:
        assert text == file.read_text("utf-8")


def test_every_golden_file_has_a_case() -> None:
    assert {f.stem for f in FOLDER.glob("*.sql")} == set(CASES)
