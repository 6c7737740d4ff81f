"""The delta SQL of every rule, as text in tests/golden and executed.

A file has a title, the query and the delta; `pytest tests/delta/test_golden.py --update-golden` writes the delta anew.
"""

from __future__ import annotations

import random
import re
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from spark_trickle import Action, Trickle
from spark_trickle.delta import differentiate
from spark_trickle.sql import algebra
from spark_trickle.sql.algebra import AsOf, Changes, Empty, Level, Named, Operator, Restrict, Stored, Unary, Weigh

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

FOLDER = Path(__file__).parent.parent / "golden"
FILES = sorted(FOLDER.glob("*.sql"))
# How a plan goes: its identity and one of its steps.
ROOTS = {
    "root_rows": ("the whole row", "delta"),
    "root_algebraic": ("group keys k", "change"),
    "root_groups": ("group keys k", "affected"),
    "root_global": ("one row", "change"),
    "root_partitions": ("the whole row within partition k", "affected"),
    "root_top": ("the whole row, all rows compared", "order of the change"),
    "root_levels": ("the whole row", "levels 0"),
}
# Only a delta, or the step of a recursion, contains these: they have no delta of their own.
OF_DELTAS = {AsOf, Changes, Empty, Level, Named, Restrict, Stored, Weigh}
_FORM = re.compile(r"-- (?P<title>[^\n]+)\n-- query\n(?P<query>.+?)\n-- delta\n(?P<delta>.*)", re.DOTALL)


@dataclass(frozen=True)
class Golden:
    path: Path
    title: str
    query: str
    delta: str

    @classmethod
    def load(cls, path: Path) -> Golden:
        match = _FORM.fullmatch(path.read_text("utf-8"))
        assert match, f"{path.name} is not of the form: -- title, -- query, -- delta"
        return cls(path, match["title"], match["query"], match["delta"].rstrip("\n"))

    def save(self, delta: str) -> None:
        self.path.write_text(f"-- {self.title}\n-- query\n{self.query}\n-- delta\n{delta}\n", "utf-8")

    @property
    def name(self) -> str:
        return self.path.stem


def operators(base: type[Operator] = Operator) -> Iterator[type[Operator]]:
    for kind in base.__subclasses__():
        # A slotted dataclass is made twice; the module holds the one that counts.
        if getattr(algebra, kind.__name__, None) is kind:
            yield kind
        yield from operators(kind)


def snake(name: str) -> str:
    return re.sub(r"(?<!^)(?=[A-Z])", "_", name).lower()


def definable() -> set[type[Operator]]:
    return set(operators()) - OF_DELTAS - {Unary}


def test_every_operator_of_a_definition_has_a_rule_and_a_golden_file() -> None:
    assert definable(), "no operator found"
    for kind in definable():
        assert kind in differentiate.registry, f"{kind.__name__} has no rule in delta/rules"
        assert (FOLDER / f"{snake(kind.__name__)}.sql").exists(), f"{kind.__name__} has no golden file"


def test_every_golden_file_belongs_to_a_rule() -> None:
    assert {f.stem for f in FILES} == {snake(k.__name__) for k in definable()} | set(ROOTS)


def test_deltas_of_deltas_are_refused() -> None:
    assert not OF_DELTAS & set(differentiate.registry)


@pytest.fixture(scope="module")
def lake(module_tr: Trickle) -> Trickle:
    """Two sources with duplicates and NULLs, and a stream table per golden file."""
    tr = module_tr
    tr.refresher.compiler.state_tables = False  # so that rules below the root run over the sources
    tr.sql("CREATE TABLE s.a (id BIGINT, k STRING, v INT)")
    tr.sql("CREATE TABLE s.b (a_id INT, k STRING, w BIGINT)")
    tr.sql("INSERT INTO s.a SELECT id, nullif(chr(97 + id % 5), 'e'), nullif(id % 7, 5) FROM range(40)")
    tr.sql("INSERT INTO s.a SELECT * FROM s.a WHERE id % 10 = 0")
    tr.sql("INSERT INTO s.b SELECT nullif(id % 50, 7), nullif(chr(97 + id % 6), 'f'), id % 9 FROM range(60)")
    for file in FILES:
        tr.create_stream_table(f"s.{file.stem}", Golden.load(file).query, mode="differential")
    return tr


@pytest.mark.parametrize("file", FILES, ids=lambda f: f.stem)
def test_text(lake: Trickle, file: Path, request: pytest.FixtureRequest) -> None:
    golden = Golden.load(file)
    found = lake.explain(f"s.{golden.name}")
    assert found.delta_sql is not None
    seen = {line.strip().split(" ")[0] for line in found.operators.splitlines()}
    if golden.name in ROOTS:
        titles = re.findall(r"^-- (.*)$", found.delta_sql, re.MULTILINE)
        assert (found.identity, ROOTS[golden.name][1] in titles) == (ROOTS[golden.name][0], True)
    else:
        assert golden.name in {snake(name) for name in seen}, f"{golden.name} is not in its own query"
        assert found.identity == "the whole row"  # so that the rule itself runs, not the root's shortcut
    text = re.sub(r"VERSION AS OF \d+", "VERSION AS OF 1", found.delta_sql)
    if request.config.getoption("--update-golden"):
        golden.save(text)
    else:
        assert text == golden.delta


def changes(pick: random.Random) -> list[str]:
    """Inserts, updates and deletes on both sources, NULLs and duplicates among them."""

    def some(values: list[str]) -> str:
        return pick.choice(values)

    letters, small = ["'a'", "'b'", "'c'", "'d'", "'z'", "NULL"], ["0", "1", "2", "3", "8", "NULL"]
    rows_a = ", ".join(f"({pick.randrange(50)}, {some(letters)}, {some(small)})" for _ in range(6))
    rows_b = ", ".join(f"({pick.randrange(50)}, {some(letters)}, {some(small)})" for _ in range(6))
    return [
        f"INSERT INTO s.a VALUES {rows_a}",
        f"UPDATE s.a SET k = {some(letters)}, v = {some(small)} WHERE id % 11 = {pick.randrange(11)}",
        f"DELETE FROM s.b WHERE a_id % 13 = {pick.randrange(13)}",
        f"INSERT INTO s.b VALUES {rows_b}",
        f"DELETE FROM s.a WHERE id = {pick.randrange(40)}",
        f"UPDATE s.b SET w = w + 1 WHERE k = {some(letters[:5])}",
    ]


def rows_of(frame: DataFrame) -> Counter[str]:
    return Counter(str(r) for r in frame.collect())


def test_the_steps_that_explain_shows_can_be_run_by_hand(lake: Trickle) -> None:
    """In a plain session: what enters and leaves turns the stored rows into those of the query."""
    for statement in changes(random.Random(5)):
        lake.sql(statement)
    spark = lake.spark
    for file in FILES:
        if file.stem not in ROOTS:
            continue  # the same steps over another tree
        script = lake.explain(f"s.{file.stem}").delta_sql
        assert script is not None
        for statement in script.split(";\n\n"):
            spark.sql(statement)
            # Each step once: a view over views is computed again wherever it is read.
            view = re.search(r"VIEW (`[^`]+`) AS", statement)
            assert view is not None, statement
            spark.table(view[1]).localCheckpoint().createOrReplaceTempView(view[1])
        query, name = Golden.load(file).query, f"s.{file.stem}"
        listed = ", ".join(f"`{c}`" for c in spark.table(name).columns)
        now = rows_of(spark.table(name))
        for sign, add in ((">", now.update), ("<", now.subtract)):
            copies = "explode(array_repeat(1, CAST(abs(_t_w) AS INT)))"
            moved = f"SELECT *, {copies} FROM `changes of {name}` WHERE _t_w {sign} 0"
            add(rows_of(spark.sql(f"SELECT {listed} FROM ({moved})")))
        spark.sql("USE s")
        assert +now == rows_of(spark.sql(query)), file.stem
        assert all(n >= 0 for n in now.values()), file.stem


def test_executed(lake: Trickle) -> None:
    """The same SQL keeps its stream table right while both sources change."""
    seed = 3
    print(f"seed {seed}")
    for statement in changes(random.Random(seed)):
        print(statement)
        lake.sql(statement)
    names = [f"s.{f.stem}" for f in FILES]
    for result in lake.refresh(names):
        assert result.action is Action.DIFFERENTIAL, str(result)
        assert result.rows_inserted + result.rows_updated + result.rows_deleted, f"{result.name} saw no change"
    for name in names:
        verdict = lake.verify(name)
        assert verdict.equal, str(verdict)
        assert verdict.rows, f"{name} is empty: nothing was tested"
