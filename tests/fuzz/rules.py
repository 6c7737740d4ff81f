"""The rules alone, without a lake: for random queries over random old and new states,

    Spark's answer = our form of the query,   and   new = old + delta

Old states, new states and changes are temporary views over a few rows, so that a case takes a fraction of a second
and thousands of queries can be tried. What the engine adds (feeds, storage, publish, state tables) is `run`'s matter.
Definitions whose value depends on the order of rows need a stored state and are counted apart.
"""

from __future__ import annotations

import argparse
import itertools
import json
import random
import sys
import time
from collections import Counter
from dataclasses import dataclass
from typing import TYPE_CHECKING

from spark_trickle.delta import differentiate
from spark_trickle.delta.facts import Facts
from spark_trickle.delta.optimize import PASSES, optimize
from spark_trickle.delta.root import plan_root
from spark_trickle.delta.states import must_store
from spark_trickle.errors import NotIncremental, TrickleError
from spark_trickle.model import InputKind, TableName
from spark_trickle.spark.analyze import Analyzer, data_error
from spark_trickle.spark.compile import compile_parts, compile_sql
from spark_trickle.spark.guard import roundtrip
from spark_trickle.spark.names import quote
from spark_trickle.spark.runtime import remember_classes
from spark_trickle.spark.statement import Narrowed, Place, Statement
from spark_trickle.sql.algebra import WEIGHT, AsOf, Empty, Operator, State
from spark_trickle.sql.lower import LakeTable, lower
from spark_trickle.sql.prune import prune
from spark_trickle.sql.trees import at
from tests.fuzz import guarded
from tests.fuzz.constructs import Schedule
from tests.fuzz.exact import How, compare, listed, local
from tests.fuzz.grammar import Generated, Generator
from tests.fuzz.schema import NAMESPACE, Table, random_tables
from tests.jvm import PLANNING_JAVA

if TYPE_CHECKING:
    from pyspark.sql import SparkSession
    from pyspark.sql.types import StructType

CASES = 25  # queries per set of tables
CONF = {
    "spark.sql.codegen.wholeStage": "false",
    "spark.sql.codegen.factoryMode": "NO_CODEGEN",
    "spark.sql.adaptive.enabled": "false",
    "spark.sql.constraintPropagation.enabled": "false",
    "spark.sql.shuffle.partitions": "1",
    "spark.default.parallelism": "1",
    "spark.buffer.pageSize": "1m",
    "spark.ui.enabled": "false",
    "spark.ui.showConsoleProgress": "false",
    "spark.driver.memory": "2g",
    "spark.driver.extraJavaOptions": PLANNING_JAVA,
    "spark.log.level": "OFF",
}


@dataclass(frozen=True)
class Tables:
    """The random tables, as `lower` asks for them."""

    tables: tuple[Table, ...]

    def find(self, parts: tuple[str, ...], namespace: str) -> LakeTable | None:
        for t in self.tables:
            if t.source.name == parts[-1]:
                columns = tuple(c.strip("`") for c, _ in t.source.columns)
                return LakeTable(TableName(NAMESPACE, t.source.name), InputKind.SOURCE, columns)
        return None


class Views:
    """States and changes by the names of their views. `large`: joins are made in steps, as if all tables were large."""

    def __init__(self, *, large: bool = False) -> None:
        self.large = large

    def state(self, table: TableName, state: State) -> str:
        return quote(f"{table.name}_{state}")

    def changes(self, table: TableName) -> str:
        return quote(f"{table.name}_changes")

    def weight(self, table: TableName) -> str:
        return WEIGHT

    def small(self, table: TableName) -> bool:
        return True

    def total(self, table: TableName) -> int | None:
        return 10 ** (6 + len(table.name) % 3) if self.large else 10

    def stored_rows(self) -> int | None:
        return None


def fill(session: SparkSession, rnd: random.Random, tables: tuple[Table, ...]) -> set[TableName]:
    """Old and new rows of each table, some of them equal, and what lies between. Returns the tables that changed."""
    changed = set()
    for t in tables:
        if t.guarded:
            continue
        source = t.source
        kept = source.random_rows(rnd, rnd.choice((0, 3, 6)))
        gone = source.random_rows(rnd, rnd.choice((0, 2, 4)))
        come = source.random_rows(rnd, rnd.choice((0, 2, 4)))
        if kept and rnd.random() < 0.5:
            come.append(rnd.choice(kept))
            gone.append(rnd.choice(kept))
        if gone or come:
            changed.add(TableName(NAMESPACE, source.name))
        _views(session, t, kept, gone, come)
    both = [t for t in tables if t.guarded]
    states = (guarded.rows(rnd, guarded.some_open(rnd)) for _ in range(2))
    for t, old, new in zip(both, *states, strict=True):
        _views(session, t, *_parted(old, new))
        changed.add(TableName(NAMESPACE, t.source.name))
    return changed


def _parted(old: guarded.Rows, new: guarded.Rows) -> tuple[guarded.Rows, guarded.Rows, guarded.Rows]:
    """Rows that stay, go and come."""
    kept = Counter(old) & Counter(new)
    return list(kept.elements()), list((Counter(old) - kept).elements()), list((Counter(new) - kept).elements())


def _views(session: SparkSession, table: Table, kept: guarded.Rows, gone: guarded.Rows, come: guarded.Rows) -> None:
    """All rows are parsed once, with their parts; states and changes are made of these, and are local relations too."""
    name, source = table.source.name, table.source
    parts = [(*r, part) for part, rows in (("0", kept), ("-1", gone), ("1", come)) for r in rows]
    listed_rows = ", ".join(f"({', '.join(r)})" for r in parts or [(*("NULL" for _ in source.columns), "NULL")])
    names = ", ".join(f"c{n}" for n in range(len(source.columns)))
    typed = ", ".join(f"CAST(c{n} AS {t}) AS {c}" for n, (c, t) in enumerate(source.columns))
    local(session.sql(f"SELECT {typed}, part FROM VALUES {listed_rows} AS v({names}, part)")).createOrReplaceTempView(
        "rows"
    )
    columns = ", ".join(c for c, _ in source.columns)
    for suffix, what in (
        ("_old", f"SELECT {columns} FROM rows WHERE part <= 0"),
        ("_new", f"SELECT {columns} FROM rows WHERE part >= 0"),
        ("_changes", f"SELECT {columns}, CAST(part AS BIGINT) AS {WEIGHT} FROM rows WHERE part <> 0"),
    ):
        local(session.sql(what)).createOrReplaceTempView(f"{name}{suffix}")
    session.table(f"{name}_new").createOrReplaceTempView(name)


def problem(
    session: SparkSession,
    analyzer: Analyzer,
    tables: tuple[Table, ...],
    query: Generated,
    changed: set[TableName],
    rnd: random.Random,
) -> tuple[str, str]:
    """(verdict, detail): ok, careful, state, refused, raises, invalid or a failure."""
    text, how = query.sql.replace(f"{NAMESPACE}.", ""), dict(query.how)
    try:
        columns = analyzer.columns(text)
    except TrickleError as error:
        return "invalid", error.message
    try:
        lowered = lower(text, Tables(tables), analyzer, NAMESPACE)
        differs = roundtrip(session, text)
        if differs:
            return "refused", f"SQL_ROUNDTRIP: {differs}"
        root, types = analyzer.annotate(prune(lowered.root), Views())
        delta = differentiate(root)
        if any(must_store(op, types) for op in root.walk()):
            return "state", ""
        plan_root(root, tuple(c.name for c in columns), types)
    except NotIncremental as refusal:
        return "refused", refusal.message
    except Exception as error:
        return "stumbled", repr(error)[:600]
    passes = PASSES if rnd.random() < 0.9 else tuple(p for p in PASSES if p is not rnd.choice(PASSES))
    new, old = (f"({compile_sql(at(root, state), Views())})" for state in (State.NEW, State.OLD))
    shown = ", ".join(f"{quote(n)} AS {quote(c.name)}" for n, c in zip(root.columns, columns, strict=True))
    try:
        definition = session.sql(text)
        definition.createOrReplaceTempView("definition")
        found = compare(session, f"(SELECT {shown} FROM {new})", "definition", definition.schema, how)
        if not found.equal:
            return "wrong form", "; ".join(found.examples)
    except Exception as error:
        return _failed(session, text, error)
    try:
        slim = optimize(delta, Facts(changed), passes)
        parts = compile_parts(slim, Views(large=rnd.random() < 0.5))
        numbers = itertools.count()

        def named(sql: str) -> str:
            name = f"shared_view_{next(numbers)}"
            local(session.sql(sql)).createOrReplaceTempView(name)
            return name

        def materialize(statement: Statement) -> str:
            return named(statement.sql)

        def narrow(wanted: Narrowed, keys: Statement | None) -> Place:
            """Only the rows that have the keys: the delta must not need any others."""
            leaf = wanted.leaf
            assert isinstance(leaf, AsOf)
            table = Views().state(leaf.scan.input, leaf.state)
            if keys is None:
                return Place(view=named(f"SELECT * FROM {table}"))
            same = " AND ".join(f"t.{quote(own)} <=> k.{quote(other)}" for own, other in wanted.keys)
            return Place(view=named(f"SELECT t.* FROM {table} AS t LEFT SEMI JOIN ({keys.sql}) AS k ON {same}"))

        found_delta = parts.staged(materialize, materialize, narrow).sql
        if isinstance(slim, Empty):  # the engine runs no statement then: NULLs without rows have no types
            found_delta = f"SELECT *, 0L AS {WEIGHT} FROM {new} WHERE false"
        odd = session.sql(_difference(root, definition.schema, how, new, old, f"({found_delta})")).collect()
        if odd:
            return "wrong delta", "; ".join(str(tuple(r)) for r in odd[:3])
    except Exception as error:
        # For a pair of rows that never existed: the engine then computes all from the new state, which was compared.
        return ("careful", str(error)[:200]) if data_error(error) else _failed(session, text, error)
    return "ok", ""


def _failed(session: SparkSession, text: str, error: Exception) -> tuple[str, str]:
    try:
        session.sql(text).collect()
    except Exception as raised:
        return "raises", str(raised)[:200]
    return "error", str(error)[:600]


def _difference(root: Operator, schema: StructType, how: dict[str, How], new: str, old: str, delta: str) -> str:
    keys, names = listed(schema, how, list(root.columns))
    sides = " UNION ALL ".join(
        f"SELECT {keys}, {weight} AS w FROM {side}"
        for side, weight in ((new, "1L"), (old, "-1L"), (delta, f"-{WEIGHT}"))
    )
    return f"SELECT {names}, sum(w) FROM ({sides}) GROUP BY {names} HAVING sum(w) <> 0"


def main(arguments: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0] if __doc__ else "")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--seconds", type=float, default=300)
    parser.add_argument("--queries", type=int, default=1_000_000)
    parser.add_argument("--json")
    options = parser.parse_args(arguments)
    from pyspark.sql import SparkSession

    builder = SparkSession.builder.master("local[2]").appName("rules")
    for key, value in CONF.items():
        builder = builder.config(key, value)
    session = builder.getOrCreate()
    remember_classes(session.sparkContext)
    import spark_trickle.spark.analyze as analysis

    analysis.PlainLeaves = Views  # type: ignore[misc,assignment]
    analyzer = Analyzer(session)
    schedule = Schedule()
    verdicts: Counter[str] = Counter()
    reasons: Counter[str] = Counter()
    constructs: Counter[str] = Counter()
    started, made, number = time.monotonic(), 0, 0
    while time.monotonic() - started < options.seconds and made < options.queries:
        rnd = random.Random(f"{options.seed}/{number}")
        tables = (*random_tables(rnd), *guarded.tables(rnd))
        changed = fill(session, rnd, tables)
        generator = Generator(rnd, tables, schedule)
        for n in range(CASES):
            generated = generator.next()
            verdict, detail = problem(session, analyzer, tables, generated, changed, rnd)
            made += 1
            verdicts[verdict] += 1
            constructs.update(generated.tags)
            if verdict == "refused":
                reasons[detail.split(" ")[0].rstrip(":")] += 1
            if verdict not in ("ok", "state", "careful"):
                print(
                    f"-- {verdict} (seed {options.seed}, tables {number}, query {n}): {detail}\n{generated.sql}",
                    flush=True,
                )
            if made % 5 == 0:
                spent = time.monotonic() - started
                print(f"{made} queries, {spent:.0f} s: {dict(verdicts)}", file=sys.stderr, flush=True)
            if time.monotonic() - started > options.seconds or made >= options.queries:
                break
        number += 1
        print(f"{made} queries, {time.monotonic() - started:.0f} s: {dict(verdicts)}", file=sys.stderr, flush=True)
    figures = {
        "seed": options.seed,
        "queries": made,
        "verdicts": verdicts,
        "reasons": reasons,
        "constructs": constructs,
    }
    print(json.dumps(figures, indent=1))
    if options.json:
        with open(options.json, "w", encoding="utf-8") as file:
            json.dump(figures, file)
    return int(any(verdicts[v] for v in ("wrong form", "wrong delta", "error", "stumbled")))


if __name__ == "__main__":
    sys.exit(main())
