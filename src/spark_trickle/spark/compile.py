"""From an operator tree to one Spark SQL statement: a CTE per operator, equal subtrees shared.

The only place where the algebra becomes text. Leaves are named by `Leaves`, so that the same tree can run over the
tables of an attempt, over materialized feeds, or be shown to a person.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass, replace
from functools import singledispatchmethod
from typing import Protocol

from spark_trickle.errors import TrickleError
from spark_trickle.model import TableName
from spark_trickle.spark.names import quote, quote_table
from spark_trickle.spark.order import is_large, join_order
from spark_trickle.spark.statement import (
    PART_NAME,
    Narrowed,
    Part,
    Parts,
    Statement,
    fields_sql,
    is_derived_change,
    is_shared,
    leaf_sql,
    where,
)
from spark_trickle.sql.algebra import (
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


def compile_parts(tree: Operator, leaves: Leaves) -> Parts:
    """One CTE per operator, to be computed in stages."""
    return _compiled(tree, leaves, steps=True)


def compile_statement(tree: Operator, leaves: Leaves) -> Statement:
    """One SELECT with a CTE per operator."""
    return _compiled(tree, leaves, steps=False).statement()


def compile_sql(tree: Operator, leaves: Leaves) -> str:
    return compile_statement(tree, leaves).sql


def _compiled(tree: Operator, leaves: Leaves, *, steps: bool) -> Parts:
    compiler = _Compiler(leaves, steps=steps)
    if isinstance(tree, Recursion):  # a WITH of its own
        body = f"SELECT {_list(tree.columns)} FROM {compiler.name(tree)}"
    else:
        body = compiler.sql(tree)
    return Parts(tuple(compiler.ctes), body)


def _leaf_fields(op: Operator) -> tuple[ScanColumn, ...]:
    if isinstance(op, AsOf):
        return op.scan.fields
    return op.fields if isinstance(op, Stored) else ()


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
            whole = None
            if self.steps and isinstance(op, AsOf) and not self.is_large(op):
                whole = Narrowed(op, (), "")
            self.ctes.append(Part(self._known[sql], sql, op, narrowed=whole))
        return self._known[sql]

    def source(self, op: Operator) -> tuple[str, str]:
        """What a SELECT over one relation has after FROM: a filter of it, or a view, needs no CTE of its own."""
        if isinstance(op, Named):
            return quote(op.view), ""
        if isinstance(op, Filter) and not is_shared(op) and not open_levels(op):
            table, filtered = self.source(op.child)
            return (self.name(op), "") if filtered else (table, where(op.condition.sql()))
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
        return fields_sql(op.fields, self.leaves.state(op.input, State.NEW))

    @sql.register
    def _as_of(self, op: AsOf) -> str:
        return leaf_sql(op, self.leaves.state(op.scan.input, op.state))

    @sql.register
    def _changes(self, op: Changes) -> str:
        name = self.leaves.weight(op.scan.input)
        weight = quote(WEIGHT) if name == WEIGHT else f"{quote(name)} AS {quote(WEIGHT)}"
        return fields_sql(op.scan.fields, self.leaves.changes(op.scan.input), weight)

    @sql.register
    def _named(self, op: Named) -> str:
        return f"SELECT {_list(op.names)} FROM {quote(op.view)}"

    @sql.register
    def _stored(self, op: Stored) -> str:
        return leaf_sql(op, self.leaves.stored())

    @sql.register
    def _empty(self, op: Empty) -> str:
        return f"SELECT {', '.join(f'NULL AS {quote(n)}' for n in op.names)} WHERE false"

    @sql.register
    def _filter(self, op: Filter) -> str:
        child = quote(op.child.view) if isinstance(op.child, Named) else self.name(op.child)
        return f"SELECT {_list(op.columns)} FROM {child}{where(op.condition.sql())}"

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
            if isinstance(part, Project | Weigh) and not is_derived_change(part):
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
        if not self.steps or open_levels(op) or not PART_NAME.fullmatch(by):
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
            sql = f"SELECT {_list(op.columns)} FROM {child}{where(op.condition.sql())}"
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
        return fields_sql(op.fields, op.level)

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
        left = _and(conditions)
        return f"SELECT {hint}{_list(op.columns)} FROM {text}{where(left) if left else ''}"

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


def _and(conditions: Iterable[Scalar]) -> str:
    return " AND ".join(f"({c.sql()})" for c in conditions)
