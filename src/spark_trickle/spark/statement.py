"""A compiled tree as parts, and how they are computed: what is read more than once, and what is few rows, before.

A join from a change to a large table first learns which keys it needs: its rows are then looked up (`narrow`).
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass

from spark_trickle.model import TableName
from spark_trickle.spark.names import quote
from spark_trickle.sql.algebra import (
    FILE,
    POSITION,
    AsOf,
    Changes,
    Distinct,
    Filter,
    Named,
    Operator,
    Project,
    Restrict,
    ScanColumn,
    Stored,
    UnionAll,
    Weigh,
)
from spark_trickle.sql.trees import is_change


@dataclass(frozen=True, slots=True)
class Narrowed:
    """A table or the stored rows, where only rows with the keys of another relation are needed; a small table whole."""

    leaf: AsOf | Stored
    keys: tuple[tuple[str, str], ...]  # a column of the table, and of the other relation
    by: str  # the name of that relation; none of a small table


@dataclass(frozen=True, slots=True)
class Place:
    """Where the rows of a narrowed table are instead: in a view, or in the table itself under a condition."""

    view: str = ""
    condition: str = ""


@dataclass(frozen=True, slots=True)
class Part:
    """One CTE of a compiled tree."""

    name: str
    sql: str
    op: Operator
    step: bool = False  # of a join: few rows, if computed before a large input follows
    narrowed: Narrowed | None = None  # a table of which few rows are needed


@dataclass(frozen=True, slots=True)
class Statement:
    """A SELECT and the CTEs that it reads, each after those it reads itself."""

    ctes: Mapping[str, str]
    body: str

    @property
    def sql(self) -> str:
        if not self.ctes:
            return self.body
        return "WITH " + ",\n".join(f"{n} AS (\n  {sql}\n)" for n, sql in self.ctes.items()) + f"\n{self.body}"

    def without_hints(self) -> Statement:
        """For relations on the driver: nothing is broadcast."""
        return Statement({name: _without_hint(text) for name, text in self.ctes.items()}, _without_hint(self.body))

    def in_one_piece(self, views: Iterable[str]) -> str:
        """The same, where each of these views is read as one partition: nothing needs to be shuffled or broadcast."""
        sql = self.without_hints().sql
        for view in views:
            sql = sql.replace(f"FROM {quote(view)}", f"FROM (SELECT /*+ COALESCE(1) */ * FROM {quote(view)})")
        return sql

    def over(self, columns: Sequence[str], name: str) -> Statement:
        """Columns of one of the CTEs instead of the body."""
        return _reduced(self.ctes, f"SELECT {', '.join(map(quote, columns))} FROM {name}")


@dataclass(frozen=True, slots=True)
class Parts:
    """A compiled tree: its CTEs, each after those it reads, and the SELECT over the last."""

    ctes: tuple[Part, ...]
    body: str

    def statement(self) -> Statement:
        return Statement({p.name: p.sql for p in self.ctes}, self.body)

    def staged(
        self,
        materialize: Callable[[Statement], str],
        if_small: Callable[[Statement], str | None],
        narrow: Callable[[Narrowed, Statement | None], Place | None],
    ) -> Statement:
        """The statement with shared parts and steps computed before.

        `materialize` runs a query and names its result; `if_small` gives up when there are many rows. `narrow` finds
        the rows of a table that have the keys that a query gives, or all rows, or gives up, too.
        """
        shared = {p.name for p in self.shared()}
        ctes: dict[str, str] = {}
        known = {p.name for p in self.ctes if _is_at_hand(p.op)}  # computed, or computed in no time
        large: set[str] = set()

        def is_known(by: str) -> bool:
            if by not in known and by not in large:
                view = if_small(_reduced(ctes, f"SELECT * FROM {by}"))
                if view is None:
                    large.add(by)
                else:
                    known.add(by)
                    ctes[by] = f"SELECT * FROM {quote(view)}"
            return by in known

        for part in self.ctes:
            ctes[part.name] = part.sql
            wanted = part.narrowed
            if wanted is not None and (not wanted.by or is_known(wanted.by)):
                listed = [other for _, other in wanted.keys]
                place = narrow(wanted, Statement(ctes, "").over(listed, wanted.by) if wanted.by else None)
                if place is not None and place.view:
                    ctes[part.name] = leaf_sql(wanted.leaf, quote(place.view))
                elif place is not None:
                    ctes[part.name] = f"{part.sql}{where(place.condition)}"
            if part.name in shared or part.step:
                run = materialize if part.name in shared else if_small
                view = run(_reduced(ctes, f"SELECT * FROM {part.name}"))
                if view is None:
                    large.add(part.name)
                else:
                    known.add(part.name)
                    ctes[part.name] = f"SELECT * FROM {quote(view)}"
        return _reduced(ctes, self.body)

    def shared(self) -> tuple[Part, ...]:
        """Parts of a change that are read more than once and are more than a change of a table: computed once, they
        keep the plan small, since Spark writes a CTE out wherever it is read. One that joins broadcast counts twice,
        by its hint: computed before, it has a size that Spark knows."""
        uses = self._uses()
        return tuple(p for p in self.ctes if uses[p.name] > 1 and is_derived_change(p.op))

    def reads(self) -> frozenset[TableName]:
        """The tables whose changes it reads."""
        return frozenset(p.op.scan.input for p in self.ctes if isinstance(p.op, Changes))

    def feeds_read_twice(self) -> frozenset[TableName]:
        uses = self._uses()
        reads: Counter[TableName] = Counter()
        for p in self.ctes:
            if isinstance(p.op, Changes):
                reads[p.op.scan.input] += uses[p.name]
        return frozenset(t for t, n in reads.items() if n > 1)

    def _uses(self) -> Counter[str]:
        texts = [p.sql for p in self.ctes] + [self.body]
        return Counter(name for text in texts for name in PART_NAME.findall(text))


def _reduced(ctes: Mapping[str, str], body: str) -> Statement:
    """The body with those CTEs only that it reads, directly or through others."""
    needed: dict[str, str] = {}
    waiting = [body]
    while waiting:
        for name in PART_NAME.findall(waiting.pop()):
            if name in ctes and name not in needed:
                needed[name] = ctes[name]
                waiting.append(ctes[name])
    return Statement({n: sql for n, sql in ctes.items() if n in needed}, body)


PLACES = ("_file", "_pos")  # Iceberg's columns of a row's place
_BROADCAST = re.compile(r"SELECT /\*\+ BROADCAST\([^)]*\) \*/ ")
_ALONE = re.compile(r"\(\s*(\w+|`(?:[^`]|``)+`)\s*\)")  # a name in parentheses
PART_NAME = re.compile(r"(?<![`\w.])[a-z]+_\d+(?![`\w])")


def _without_hint(sql: str) -> str:
    """A hint of ours is the first thing in a SELECT; further on a text may look like one."""
    found = _BROADCAST.match(sql)
    return sql if found is None else "SELECT " + sql[found.end() :]


def is_shared(op: Filter) -> bool:
    """Whether it is worth computing once: a derived change, or what a filter leaves of a feed."""
    return is_derived_change(op) or isinstance(op.child, Changes)


def _is_at_hand(op: Operator) -> bool:
    """Whether it is made of changes and of computed steps, row by row."""
    return all(isinstance(o, Changes | Named | Project | Filter | Weigh | UnionAll | Distinct) for o in op.walk())


def is_derived_change(op: Operator) -> bool:
    return is_change(op) and any(o.stateful or isinstance(o, Restrict) for o in op.walk())


def fields_sql(columns: Iterable[ScanColumn], table: str, *extra: str) -> str:
    fields = [f"{quote(f.source)} AS {quote(f.name)}" for f in columns]
    return f"SELECT {', '.join((*fields, *extra)) or '1 AS `_`'} FROM {table}"


def columns_sql(columns: Iterable[str], table: str) -> str:
    """Columns of a table under their own names."""
    return fields_sql((ScanColumn(c, c) for c in columns), table)


def no_rows(table: str, weight: str | None = None) -> str:
    """A relation with the columns of a table, and a weight if its name is given, that is empty."""
    extra = "" if weight is None else f", 0L AS {quote(weight)}"
    return f"(SELECT *{extra} FROM {table} WHERE false)"


def weighted(table: str, weight: str) -> str:
    """All rows of a relation as rows that came."""
    return f"(SELECT *, 1L AS {quote(weight)} FROM {table})"


def leaf_sql(leaf: AsOf | Stored, table: str) -> str:
    """A table, or something else with its columns."""
    if isinstance(leaf, AsOf):
        return fields_sql(leaf.scan.fields, table)
    places = (f"{name} AS {quote(shown)}" for name, shown in zip(PLACES, (FILE, POSITION), strict=True))
    return fields_sql(leaf.fields, table, *(places if leaf.positions else ()))


def where(condition: str) -> str:
    """Spark reads `FROM t WHERE (flag)` as an alias with a list of columns: a name must not be alone in parentheses."""
    alone = _ALONE.fullmatch(condition)
    return f" WHERE {condition if alone is None else alone[1]}"
