"""From an operator tree to one Spark SQL statement: a CTE per operator, equal subtrees shared.

The only place where the algebra becomes text. Leaves are named by `Leaves`, so that the same tree can run over the
tables of an attempt, over materialized feeds, or be shown to a person.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import singledispatchmethod
from typing import Protocol

from spark_trickle.errors import TrickleError
from spark_trickle.model import TableName
from spark_trickle.spark.order import is_large, join_order
from spark_trickle.sql.algebra import (
    FILE,
    POSITION,
    WEIGHT,
    Aggregate,
    AsOf,
    Changes,
    Constant,
    Distinct,
    Empty,
    Explode,
    Filter,
    Item,
    Join,
    Level,
    Match,
    Matched,
    Named,
    Operator,
    OuterJoin,
    Project,
    Recursion,
    Restrict,
    Scan,
    ScanColumn,
    State,
    Stored,
    TopK,
    UnionAll,
    Weigh,
    Window,
)
from spark_trickle.sql.scalar import Scalar, sides
from spark_trickle.sql.trees import is_change, open_levels, tables


def quote(name: str) -> str:
    return "`" + name.replace("`", "``") + "`"


def quote_table(name: TableName) -> str:
    return ".".join(map(quote, name.parts))


class Leaves(Protocol):
    """What the leaves of a tree are called in the session that runs it."""

    def state(self, table: TableName, state: State) -> str: ...

    def changes(self, table: TableName) -> str: ...

    def stored(self) -> str:
        """The stream table that is refreshed, with its hidden columns."""
        ...

    def weight(self, table: TableName) -> str:
        """What the weight of its changes is called: a table may have a column of the usual name."""
        ...

    def small(self, table: TableName) -> bool:
        """Whether the changes of a table are few enough to broadcast."""
        ...

    def total(self, table: TableName) -> int | None:
        """How many rows a table has, if that is known."""
        ...

    def stored_rows(self) -> int | None:
        """How many rows are stored, if that is known."""
        ...


@dataclass(frozen=True, slots=True)
class PlainLeaves:
    """Tables by their own names; old states and feeds under telling names. For people and golden files."""

    def state(self, table: TableName, state: State) -> str:
        return quote_table(table) + (" /* at the frontier */" if state is State.OLD else "")

    def changes(self, table: TableName) -> str:
        return quote(f"changes of {table}")

    def stored(self) -> str:
        return quote("stored rows")

    def weight(self, table: TableName) -> str:  # noqa: ARG002
        return WEIGHT

    def small(self, table: TableName) -> bool:  # noqa: ARG002
        return False

    def total(self, table: TableName) -> int | None:  # noqa: ARG002
        return None

    def stored_rows(self) -> int | None:
        return None


@dataclass(frozen=True, slots=True)
class Narrowed:
    """A table or the stored rows, where only rows with the keys of another relation are needed."""

    leaf: AsOf | Stored
    keys: tuple[tuple[str, str], ...]  # a column of the table, and of the other relation
    by: str  # the name of that relation


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
class Staged:
    """A statement whose parts were computed before."""

    sql: str
    without_hints: str
    tables: bool  # whether it reads any, besides views and changes

    def in_one_piece(self, views: Iterable[str]) -> str:
        """The same, where each of these views is read as one partition: nothing needs to be shuffled or broadcast."""
        sql = self.without_hints
        for view in views:
            sql = sql.replace(f"FROM {quote(view)}", f"FROM (SELECT /*+ COALESCE(1) */ * FROM {quote(view)})")
        return sql


@dataclass(frozen=True, slots=True)
class Parts:
    """A compiled tree: its CTEs, each after those it reads, and the SELECT over the last."""

    ctes: tuple[Part, ...]
    body: str
    is_table: bool  # whether it is a table alone

    def sql(self) -> str:
        return _with({p.name: p.sql for p in self.ctes}, self.body)

    def staged(
        self,
        materialize: Callable[[str], str],
        if_small: Callable[[str], str | None],
        narrow: Callable[[Narrowed, str], Place | None],
    ) -> Staged:
        """The SQL with shared parts and steps computed before.

        `materialize` runs a query and names its result; `if_small` gives up when there are many rows. `narrow` finds
        the rows of a table that have the keys that a query gives, or gives up, too.
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
            if part.narrowed is not None and is_known(part.narrowed.by):
                place = narrow(part.narrowed, _reduced(ctes, f"SELECT * FROM {part.narrowed.by}"))
                if place is not None and place.view:
                    ctes[part.name] = _leaf_sql(part.narrowed.leaf, quote(place.view))
                elif place is not None:
                    ctes[part.name] = f"{part.sql}{_where(place.condition)}"
            if part.name in shared or part.step:
                run = materialize if part.name in shared else if_small
                view = run(_reduced(ctes, f"SELECT * FROM {part.name}"))
                if view is None:
                    large.add(part.name)
                else:
                    known.add(part.name)
                    ctes[part.name] = f"SELECT * FROM {quote(view)}"
        sql = _reduced(ctes, self.body)
        left = {p.name for p in self.ctes if isinstance(p.op, _TABLES) and ctes[p.name].startswith(p.sql)}
        plain = _reduced({name: _without_hint(text) for name, text in ctes.items()}, _without_hint(self.body))
        return Staged(sql, plain, tables=self.is_table or not left.isdisjoint(_NAME.findall(sql)))

    def shared(self) -> tuple[Part, ...]:
        """Parts of a change that are read more than once and are more than a change of a table: computed once, they
        keep the plan small, since Spark writes a CTE out wherever it is read. One that joins broadcast counts twice,
        by its hint: computed before, it has a size that Spark knows."""
        uses = self._uses()
        return tuple(p for p in self.ctes if uses[p.name] > 1 and _is_derived_change(p.op))

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
        return Counter(name for text in texts for name in _NAME.findall(text))


def _reduced(ctes: Mapping[str, str], body: str) -> str:
    """The body with those CTEs only that it reads, directly or through others."""
    needed: dict[str, str] = {}
    waiting = [body]
    while waiting:
        for name in _NAME.findall(waiting.pop()):
            if name in ctes and name not in needed:
                needed[name] = ctes[name]
                waiting.append(ctes[name])
    return _with({n: sql for n, sql in ctes.items() if n in needed}, body)


_TABLES = (Scan, AsOf, Stored)
PLACES = ("_file", "_pos")  # Iceberg's columns of a row's place
_BROADCAST = re.compile(r"SELECT /\*\+ BROADCAST\([^)]*\) \*/ ")
_ALONE = re.compile(r"\(\s*(\w+|`(?:[^`]|``)+`)\s*\)")  # a name in parentheses
_NAME = re.compile(r"(?<![`\w.])[a-z]+_\d+(?![`\w])")


def _with(ctes: Mapping[str, str], body: str) -> str:
    if not ctes:
        return body
    return "WITH " + ",\n".join(f"{n} AS (\n  {sql}\n)" for n, sql in ctes.items()) + f"\n{body}"


def _without_hint(sql: str) -> str:
    """A hint of ours is the first thing in a SELECT; further on a text may look like one."""
    found = _BROADCAST.match(sql)
    return sql if found is None else "SELECT " + sql[found.end() :]


def _is_shared(op: Filter) -> bool:
    """Whether it is worth computing once: a derived change, or what a filter leaves of a feed."""
    return _is_derived_change(op) or isinstance(op.child, Changes)


def _is_at_hand(op: Operator) -> bool:
    """Whether it is made of changes and of computed steps, row by row."""
    return all(isinstance(o, Changes | Named | Project | Filter | Weigh | UnionAll | Distinct) for o in op.walk())


def _is_derived_change(op: Operator) -> bool:
    return is_change(op) and any(o.stateful or isinstance(o, Restrict) for o in op.walk())


def compile_parts(tree: Operator, leaves: Leaves) -> Parts:
    """One CTE per operator, to be computed in stages."""
    return _compiled(tree, leaves, steps=True)


def compile_sql(tree: Operator, leaves: Leaves) -> str:
    """One SELECT with a CTE per operator."""
    return _compiled(tree, leaves, steps=False).sql()


def _compiled(tree: Operator, leaves: Leaves, *, steps: bool) -> Parts:
    compiler = _Compiler(leaves, steps=steps)
    if isinstance(tree, Recursion):  # a WITH of its own
        body = f"SELECT {_list(tree.columns)} FROM {compiler.name(tree)}"
    else:
        body = compiler.sql(tree)
    return Parts(tuple(compiler.ctes), body, is_table=isinstance(tree, _TABLES))


def _leaf_fields(op: Operator) -> tuple[ScanColumn, ...]:
    if isinstance(op, AsOf):
        return op.scan.fields
    return op.fields if isinstance(op, Stored) else ()


def _fields(columns: Iterable[ScanColumn], table: str, *extra: str) -> str:
    fields = [f"{quote(f.source)} AS {quote(f.name)}" for f in columns]
    return f"SELECT {', '.join((*fields, *extra)) or '1 AS `_`'} FROM {table}"


def _leaf_sql(leaf: AsOf | Stored, table: str) -> str:
    """A table, or something else with its columns."""
    if isinstance(leaf, AsOf):
        return _fields(leaf.scan.fields, table)
    places = (f"{name} AS {quote(shown)}" for name, shown in zip(PLACES, (FILE, POSITION), strict=True))
    return _fields(leaf.fields, table, *(places if leaf.positions else ()))


def _list(columns: Iterable[str]) -> str:
    return ", ".join(map(quote, columns)) or "1 AS `_`"


def _items(items: Iterable[Item]) -> str:
    def one(item: Item) -> str:
        name = quote(item.name)
        return name if item.scalar.bare == item.name else f"{item.scalar.sql()} AS {name}"

    return ", ".join(map(one, items)) or "1 AS `_`"


class _Compiler:
    def __init__(self, leaves: Leaves, *, steps: bool) -> None:
        self.leaves = leaves
        self.steps = steps
        self.ctes: list[Part] = []
        # Of operators met before: a subtree may be held in several places. It is kept, or another could get its id.
        self._names: dict[int, tuple[Operator, str]] = {}
        self._inline: dict[str, str] = {}
        self._known: dict[str, str] = {}  # SQL of a CTE -> its name: equal subtrees have equal SQL

    def name(self, op: Operator) -> str:
        if id(op) not in self._names:
            self._names[id(op)] = (op, self._name(op))
        return self._names[id(op)][1]

    def _name(self, op: Operator) -> str:
        sql = self.sql(op)
        if open_levels(op):
            # Spark looks for the recursive reference in the step itself, not in a CTE of it.
            alias = f"step_{len(self._inline) + 1}"
            self._inline[alias] = sql
            return f"({sql}) AS {alias}"
        return self._part(op, sql)

    def _part(self, op: Operator, sql: str) -> str:
        if sql not in self._known:
            self._known[sql] = f"{type(op).__name__.lower()}_{len(self.ctes) + 1}"
            self.ctes.append(Part(self._known[sql], sql, op))
        return self._known[sql]

    def source(self, op: Operator) -> tuple[str, str]:
        """What a SELECT over one relation has after FROM: a filter of it, or a view, needs no CTE of its own."""
        if isinstance(op, Named):
            return quote(op.view), ""
        if isinstance(op, Filter) and not _is_shared(op) and not open_levels(op):
            table, where = self.source(op.child)
            return (self.name(op), "") if where else (table, _where(op.condition.sql()))
        return self.name(op), ""

    def is_small(self, op: Operator) -> bool:
        """Whether a relation is no larger than the small feeds it is made of."""
        if isinstance(op, Changes):
            return self.leaves.small(op.scan.input)
        if isinstance(op, Named):
            return self.leaves.small(TableName("", op.view))
        if isinstance(op, Filter | Project | Weigh | Distinct | Aggregate | Explode | Matched | TopK | Window):
            return self.is_small(op.child)
        if isinstance(op, OuterJoin):
            return op.single and self.is_small(op.left)
        if isinstance(op, UnionAll):
            return all(self.is_small(i) for i in op.inputs)
        return isinstance(op, Empty)

    @singledispatchmethod
    def sql(self, op: Operator) -> str:
        raise TrickleError("INTERNAL", f"the compiler does not know {type(op).__name__}")

    @sql.register
    def _scan(self, op: Scan) -> str:
        return _fields(op.fields, self.leaves.state(op.input, State.NEW))

    @sql.register
    def _as_of(self, op: AsOf) -> str:
        return _leaf_sql(op, self.leaves.state(op.scan.input, op.state))

    @sql.register
    def _changes(self, op: Changes) -> str:
        name = self.leaves.weight(op.scan.input)
        weight = quote(WEIGHT) if name == WEIGHT else f"{quote(name)} AS {quote(WEIGHT)}"
        return _fields(op.scan.fields, self.leaves.changes(op.scan.input), weight)

    @sql.register
    def _named(self, op: Named) -> str:
        return f"SELECT {_list(op.names)} FROM {quote(op.view)}"

    @sql.register
    def _stored(self, op: Stored) -> str:
        return _leaf_sql(op, self.leaves.stored())

    @sql.register
    def _empty(self, op: Empty) -> str:
        return f"SELECT {', '.join(f'NULL AS {quote(n)}' for n in op.names)} WHERE false"

    @sql.register
    def _filter(self, op: Filter) -> str:
        child = quote(op.child.view) if isinstance(op.child, Named) else self.name(op.child)
        return f"SELECT {_list(op.columns)} FROM {child}{_where(op.condition.sql())}"

    @sql.register
    def _project(self, op: Project) -> str:
        child, where = self.source(op.child)
        return f"SELECT {_items(op.items)} FROM {child}{where}"

    @sql.register
    def _weigh(self, op: Weigh) -> str:
        child, where = self.source(op.child)
        return f"SELECT {_list(op.child.columns)}, {op.weight}L AS {quote(WEIGHT)} FROM {child}{where}"

    @sql.register
    def _union_all(self, op: UnionAll) -> str:
        def branch(part: Operator) -> str:
            if isinstance(part, Project | Weigh) and not _is_derived_change(part):
                return self.sql(part)
            return f"SELECT {_list(op.names)} FROM {self.name(part)}"

        return "\n  UNION ALL ".join(map(branch, op.inputs))

    @sql.register
    def _distinct(self, op: Distinct) -> str:
        child, where = self.source(op.child)
        return f"SELECT DISTINCT {_list(op.columns)} FROM {child}{where}"

    @sql.register
    def _aggregate(self, op: Aggregate) -> str:
        if not op.keys and not op.calls:
            return f"SELECT count(1) AS `_` FROM {self.name(op.child)}"  # one row, whatever there is
        items = _items((*op.keys, *(Item(c.name, c.whole) for c in op.calls)))
        by = f" GROUP BY {', '.join(str(n + 1) for n in range(len(op.keys)))}" if op.keys else ""
        child, where = self.source(op.child)
        return f"SELECT {items} FROM {child}{where}{by}"

    def narrowed(self, op: Operator, keys: Sequence[Item], by: str) -> str:
        """The name of a relation of which rows with these keys are needed; the keys' names are those in `by`."""
        if not self.steps or open_levels(op) or not _NAME.fullmatch(by):
            return self.name(op)
        if isinstance(op, Project | Filter):
            below = keys
            if isinstance(op, Project):
                given = {i.name: i.scalar for i in op.items}
                below = [Item(k.name, k.scalar.substitute(given)) for k in keys]
            return self._over(op, self.narrowed(op.child, below, by))
        fields = {f.name: f.source for f in _leaf_fields(op)}
        pairs = tuple((fields[k.scalar.bare], k.name) for k in keys if k.scalar.bare in fields)
        if not isinstance(op, AsOf | Stored) or not pairs or (isinstance(op, AsOf) and not self.is_large(op)):
            return self.name(op)
        sql = self.sql(op)
        key = f"{sql} {pairs} {by}"
        if key not in self._known:
            self._known[key] = f"narrowed_{len(self.ctes) + 1}"
            self.ctes.append(Part(self._known[key], sql, op, narrowed=Narrowed(op, pairs, by)))
        return self._known[key]

    def _over(self, op: Project | Filter, child: str) -> str:
        """A projection or filter of a relation that has a name already."""
        if isinstance(op, Project):
            sql = f"SELECT {_items(op.items)} FROM {child}"
        else:
            sql = f"SELECT {_list(op.columns)} FROM {child}{_where(op.condition.sql())}"
        return self._part(op, sql)

    @sql.register
    def _restrict(self, op: Restrict) -> str:
        if self.steps and op.keys and self.is_small(op.by):
            by = self.name(op.by)  # its keys are known before the child is read
            child = self.narrowed(op.child, op.keys, by)
        else:
            child, by = self.name(op.child), self.name(op.by)
        if not op.keys:
            return f"SELECT {_list(op.columns)} FROM {child} WHERE EXISTS (SELECT 1 FROM {by})"
        hint = f"/*+ BROADCAST({by}) */ " if self.is_small(op.by) else ""
        on = " AND ".join(f"({k.scalar.sql()}) <=> {by}.{quote(k.name)}" for k in op.keys)
        return f"SELECT {hint}{_list(op.columns)} FROM {child} LEFT SEMI JOIN {by} ON {on}"

    @sql.register
    def _constant(self, op: Constant) -> str:
        if op.body is None:
            return "SELECT 1 AS `_`"
        return f"SELECT {_list(op.names)} FROM {op.body.sql()} AS `c`({_list(op.names)})"

    @sql.register
    def _explode(self, op: Explode) -> str:
        view = f"LATERAL VIEW {'OUTER ' if op.outer else ''}{op.generator.sql()} `e` AS {_list(op.names)}"
        return f"SELECT {_list(op.columns)} FROM {self.name(op.child)} {view}"

    @sql.register
    def _window(self, op: Window) -> str:
        calls = _items(Item(c.name, c.whole) for c in op.calls)
        return f"SELECT {_list(op.child.columns)}, {calls} FROM {self.name(op.child)}"

    @sql.register
    def _top_k(self, op: TopK) -> str:
        order = f" ORDER BY {', '.join(s.sql() for s in op.order)}" if op.order else ""
        limit = f" LIMIT {op.limit}" if op.limit is not None else ""
        offset = f" OFFSET {op.offset}" if op.offset else ""
        return f"SELECT {_list(op.columns)} FROM {self.name(op.child)}{order}{limit}{offset}"

    @sql.register
    def _matched(self, op: Matched) -> str:
        child, by = self.name(op.child), self.name(op.by)
        on = _and(op.conditions)
        if op.kind is Match.MARK:
            # Not EXISTS in the select list: Spark loses columns when such a query meets itself in a union.
            return "\n  UNION ALL ".join(
                f"SELECT {', '.join(f'{told} AS {quote(c)}' if c == op.mark else quote(c) for c in op.columns)} "
                f"FROM {self.name(replace(op, kind=kind))}"
                for kind, told in ((Match.SEMI, "true"), (Match.ANTI, "false"))
            )
        if not on:
            word = "EXISTS" if op.kind is Match.SEMI else "NOT EXISTS"
            return f"SELECT {_list(op.columns)} FROM {child} WHERE {word} (SELECT 1 FROM {by})"
        hint = f"/*+ BROADCAST({by}) */ " if self.is_small(op.by) else ""
        return f"SELECT {hint}{_list(op.columns)} FROM {child} LEFT {op.kind.upper()} JOIN {by} ON {on}"

    @sql.register
    def _outer_join(self, op: OuterJoin) -> str:
        left, right = self.name(op.left), self.name(op.right)
        on = _and(op.conditions) or "true"
        # In backticks: a hint is not one more use of the relation.
        hint = f"/*+ BROADCAST({quote(right)}) */ " if op.single and self.is_small(op.left) else ""
        return f"SELECT {hint}{_list(op.columns)} FROM {left} {op.side.upper()} OUTER JOIN {right} ON {on}"

    @sql.register
    def _recursion(self, op: Recursion) -> str:
        base = f"SELECT {_list(op.names)} FROM {self.name(op.base)}"
        step = self.sql(op.step)
        level = f"{op.level}({_list(op.names)})"
        return f"WITH RECURSIVE {level} AS ({base} UNION ALL {step}) SELECT {_list(op.names)} FROM {op.level}"

    @sql.register
    def _level(self, op: Level) -> str:
        return _fields(op.fields, op.level)

    @sql.register
    def _join(self, op: Join) -> str:
        """Inputs join in an order that the conditions connect, starting from the first.

        A join that starts from a change is made in steps: what comes out before a large input is computed, so that
        Spark knows how little it is.
        """
        current, *others = self._ordered(op)
        conditions = list(op.conditions)
        hint = f"/*+ BROADCAST({self.name(current)}) */ " if self.is_small(current) and others else ""
        stepwise = self.steps and is_change(current) and not open_levels(op)
        few = self.is_small(current)
        # What was materialized before has nothing to compute first.
        grown = bool(tables(current)) and not self.is_small(current)
        seen, text = set(current.columns), self.name(current)
        for following in others:
            if stepwise and grown and self.is_large(following):
                seen &= {c for s in conditions for c in s.columns}.union(op.columns)
                text = self._step(op, f"SELECT {hint}{_list(sorted(seen))} FROM {text}")
                hint, grown, few = "", False, True
            # What was computed, or is a relation by itself, tells which rows can be partners.
            told = stepwise and few and not grown
            name = self.partners(following, seen, conditions, text) if told else self.name(following)
            seen |= set(following.columns)
            ready = [c for c in conditions if c.columns <= seen]
            conditions = [c for c in conditions if c not in ready]
            on = _and(ready)
            text += f"\n  JOIN {name} ON {on}" if on else f"\n  CROSS JOIN {name}"
            grown = True
        where = _and(conditions)
        return f"SELECT {hint}{_list(op.columns)} FROM {text}{_where(where) if where else ''}"

    def _ordered(self, op: Join) -> list[Operator]:
        known = [r for r in map(self.rows, op.inputs) if r is not None]
        by_rows = is_change(op.inputs[0]) and len(known) == len(op.inputs)
        return [op.inputs[i] for i in join_order(op.inputs, op.conditions, known if by_rows else None)]

    def _step(self, op: Operator, sql: str) -> str:
        if sql not in self._known:
            self._known[sql] = f"joined_{len(self.ctes) + 1}"
            self.ctes.append(Part(self._known[sql], sql, op, step=True))
        return self._known[sql]

    def partners(self, op: Operator, seen: Collection[str], conditions: Iterable[Scalar], by: str) -> str:
        """The name of an input of a join, of which rows are needed that meet some of those joined before."""
        keys = []
        own = set(op.columns)
        for condition in conditions:
            found = sides(condition)
            for mine, other in () if found is None else (found, found[::-1]):
                if mine.bare in own and other.bare is not None and other.bare in seen:
                    keys.append(Item(other.bare, mine))
                    break
        return self.narrowed(op, keys, by) if keys else self.name(op)

    def rows(self, op: Operator) -> int | None:
        """Of the largest table that a relation reads, if all are known."""
        if any(isinstance(o, Stored) for o in op.walk()):
            return self.leaves.stored_rows()
        found = [self.leaves.total(t) for t in tables(op)]
        return None if None in found else max((r for r in found if r is not None), default=1)

    def is_large(self, op: Operator) -> bool:
        return is_large(self.rows(op))


def _where(condition: str) -> str:
    """Spark reads `FROM t WHERE (flag)` as an alias with a list of columns: a name must not be alone in parentheses."""
    alone = _ALONE.fullmatch(condition)
    return f" WHERE {condition if alone is None else alone[1]}"


def _and(conditions: Iterable[Scalar]) -> str:
    return " AND ".join(f"({c.sql()})" for c in conditions)
