"""The relational algebra: one frozen dataclass per operator.

Column names are unique within a tree (`lower` makes them so), which keeps every rule free of scoping: a join is
`SELECT * FROM l JOIN r`, and a column of one input can never be mistaken for another's. A *weighted* relation is a
Z-set: it carries the column `_t_w` (WEIGHT). The delta of a tree is a tree of the same algebra, whose leaves are
`Changes` and `AsOf` instead of `Scan`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from enum import StrEnum
from typing import ClassVar

from spark_trickle.model import TableName
from spark_trickle.sql.scalar import Scalar, column

WEIGHT = "_t_w"
FILE, POSITION = "_t_file", "_t_pos"  # where a stored row lies
Fresh = Callable[[str], str]  # a prefix -> a column name that nothing else has


class State(StrEnum):
    OLD = "old"  # at the frontier
    NEW = "new"  # at the cut


@dataclass(frozen=True, slots=True)
class Item:
    """A named scalar of a select list."""

    name: str
    scalar: Scalar

    def __str__(self) -> str:
        return self.name if self.scalar.bare == self.name else f"{self.scalar} AS {self.name}"


def keep(*names: str) -> tuple[Item, ...]:
    return tuple(Item(n, column(n)) for n in names)


@dataclass(frozen=True, slots=True, kw_only=True)
class Operator:
    """Base of all operators. `columns` is derived, never stored; constructors refuse invalid trees."""

    # Algebraic facts, asked by passes instead of lists of classes.
    linear: ClassVar[bool] = False  # d(op(X)) = op(dX)
    stateful: ClassVar[bool] = False  # its delta needs more than dX

    @property
    def children(self) -> tuple[Operator, ...]:
        return ()

    def with_children(self, children: tuple[Operator, ...]) -> Operator:
        assert not children
        return self

    @property
    def columns(self) -> tuple[str, ...]:
        raise NotImplementedError

    @property
    def weighted(self) -> bool:
        return WEIGHT in self.columns

    @property
    def label(self) -> str:
        return type(self).__name__

    def walk(self) -> Iterator[Operator]:
        """This operator and all below it. A subtree that is held in several places is visited once."""
        seen: set[int] = set()
        waiting: list[Operator] = [self]
        while waiting:
            op = waiting.pop()
            if id(op) not in seen:
                seen.add(id(op))
                yield op
                waiting += reversed(op.children)

    def transform(self, change: Callable[[Operator], Operator]) -> Operator:
        """Bottom-up rewrite. A subtree that is held in several places is rewritten once, and stays shared."""
        return self._transform(change, {})

    def _transform(self, change: Callable[[Operator], Operator], done: dict[int, Operator]) -> Operator:
        if id(self) not in done:
            children = tuple(c._transform(change, done) for c in self.children)
            same = all(a is b for a, b in zip(children, self.children, strict=True))
            done[id(self)] = change(self if same else self.with_children(children))
        return done[id(self)]

    def tree(self, depth: int = 0) -> str:
        """One line per operator, for people."""
        lines = ["  " * depth + self.label]
        lines += [c.tree(depth + 1) for c in self.children]
        return "\n".join(lines)


def _demand(names: frozenset[str], offered: tuple[str, ...], what: str) -> None:
    missing = names - set(offered)
    if missing:
        raise ValueError(f"{what} uses {sorted(missing)}, but its input has {list(offered)}")


@dataclass(frozen=True, slots=True)
class ScanColumn:
    source: str  # the table's own name for it
    name: str  # unique in the tree


@dataclass(frozen=True, slots=True, kw_only=True)
class Scan(Operator):
    """A table of the lake; which state of it is decided by AsOf and Changes."""

    input: TableName
    fields: tuple[ScanColumn, ...]

    @property
    def columns(self) -> tuple[str, ...]:
        return tuple(f.name for f in self.fields)

    @property
    def label(self) -> str:
        return f"Scan {self.input} [{', '.join(f.source for f in self.fields)}]"


@dataclass(frozen=True, slots=True, kw_only=True)
class AsOf(Operator):
    """The content of a table at the frontier (old) or at the cut (new)."""

    scan: Scan
    state: State

    @property
    def columns(self) -> tuple[str, ...]:
        return self.scan.columns

    @property
    def label(self) -> str:
        return f"AsOf {self.state} {self.scan.input}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Changes(Operator):
    """The delta of a table between frontier and cut: the change feed."""

    scan: Scan

    @property
    def columns(self) -> tuple[str, ...]:
        return (*self.scan.columns, WEIGHT)

    @property
    def label(self) -> str:
        return f"Changes {self.scan.input}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Empty(Operator):
    """No rows: what is left of a term whose input did not change."""

    names: tuple[str, ...]

    @property
    def columns(self) -> tuple[str, ...]:
        return self.names


@dataclass(frozen=True, slots=True, kw_only=True)
class Unary(Operator):
    child: Operator

    @property
    def children(self) -> tuple[Operator, ...]:
        return (self.child,)

    def with_children(self, children: tuple[Operator, ...]) -> Operator:
        return replace(self, child=children[0])

    @property
    def columns(self) -> tuple[str, ...]:
        return self.child.columns


@dataclass(frozen=True, slots=True, kw_only=True)
class Filter(Unary):
    condition: Scalar
    linear: ClassVar[bool] = True

    def __post_init__(self) -> None:
        _demand(self.condition.columns, self.child.columns, "Filter")

    @property
    def label(self) -> str:
        return f"Filter {self.condition}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Project(Unary):
    items: tuple[Item, ...]
    linear: ClassVar[bool] = True

    def __post_init__(self) -> None:
        for item in self.items:
            _demand(item.scalar.columns, self.child.columns, "Project")

    @property
    def columns(self) -> tuple[str, ...]:
        return tuple(i.name for i in self.items)

    @property
    def label(self) -> str:
        return f"Project {', '.join(map(str, self.items))}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Join(Operator):
    """Inner join of any number of inputs; no conditions = cross. Conditions are conjuncts over all inputs.

    N-ary, because the delta of one input must meet the others in an order that starts from the small side.
    """

    inputs: tuple[Operator, ...]
    conditions: tuple[Scalar, ...]
    stateful: ClassVar[bool] = True

    def __post_init__(self) -> None:
        offered = self.columns
        if len(set(offered)) != len(offered):
            raise ValueError(f"join inputs share column names: {offered}")
        for condition in self.conditions:
            _demand(condition.columns, offered, "Join")

    @property
    def children(self) -> tuple[Operator, ...]:
        return self.inputs

    def with_children(self, children: tuple[Operator, ...]) -> Operator:
        return replace(self, inputs=children)

    @property
    def columns(self) -> tuple[str, ...]:
        return tuple(c for i in self.inputs for c in i.columns)

    @property
    def label(self) -> str:
        return "Join " + (" AND ".join(map(str, self.conditions)) or "(cross)")


class Side(StrEnum):
    LEFT = "left"
    FULL = "full"


@dataclass(frozen=True, slots=True, kw_only=True)
class OuterJoin(Operator):
    """LEFT or FULL OUTER JOIN (a RIGHT one is a LEFT one with its inputs swapped)."""

    left: Operator
    right: Operator
    conditions: tuple[Scalar, ...]
    side: Side
    single: bool = False  # a row of the left meets one of the right at most, and the right has no others
    stateful: ClassVar[bool] = True

    def __post_init__(self) -> None:
        offered = self.columns
        if len(set(offered)) != len(offered):
            raise ValueError(f"join inputs share column names: {offered}")
        for condition in self.conditions:
            _demand(condition.columns, offered, "OuterJoin")

    @property
    def children(self) -> tuple[Operator, ...]:
        return (self.left, self.right)

    def with_children(self, children: tuple[Operator, ...]) -> Operator:
        return replace(self, left=children[0], right=children[1])

    @property
    def columns(self) -> tuple[str, ...]:
        return (*self.left.columns, *self.right.columns)

    @property
    def label(self) -> str:
        return f"OuterJoin {self.side} " + (" AND ".join(map(str, self.conditions)) or "(all)")


class Match(StrEnum):
    SEMI = "semi"  # the rows with a partner
    ANTI = "anti"  # the rows without
    MARK = "mark"  # all rows, with a column that tells


@dataclass(frozen=True, slots=True, kw_only=True)
class Matched(Operator):
    """Rows of `child` by whether some row of `by` meets all conditions: semi join, anti join, existence join.

    A condition that is NULL is not met. NOT IN is an anti join whose condition says `a = b OR a = b IS NULL`.
    """

    child: Operator
    by: Operator
    conditions: tuple[Scalar, ...]
    kind: Match
    mark: str = ""  # the name of the column that tells, for MARK
    stateful: ClassVar[bool] = True

    def __post_init__(self) -> None:
        offered = (*self.child.columns, *self.by.columns)
        if set(self.child.columns) & set(self.by.columns):
            raise ValueError(f"{self.kind} join inputs share column names: {offered}")
        for condition in self.conditions:
            _demand(condition.columns, offered, "Matched")

    @property
    def children(self) -> tuple[Operator, ...]:
        return (self.child, self.by)

    def with_children(self, children: tuple[Operator, ...]) -> Operator:
        return replace(self, child=children[0], by=children[1])

    @property
    def columns(self) -> tuple[str, ...]:
        if self.kind is not Match.MARK:
            return self.child.columns
        # The weight stays last, as everywhere.
        plain = tuple(c for c in self.child.columns if c != WEIGHT)
        return (*plain, self.mark, WEIGHT) if self.child.weighted else (*plain, self.mark)

    @property
    def label(self) -> str:
        word = f"{self.kind} {self.mark}" if self.kind is Match.MARK else str(self.kind)
        return f"Matched {word} " + (" AND ".join(map(str, self.conditions)) or "(any row)")


@dataclass(frozen=True, slots=True, kw_only=True)
class UnionAll(Operator):
    """Bag union; every branch has the columns `names`, in that order."""

    inputs: tuple[Operator, ...]
    names: tuple[str, ...]
    linear: ClassVar[bool] = True

    def __post_init__(self) -> None:
        for branch in self.inputs:
            if branch.columns != self.names:
                raise ValueError(f"union branch has {branch.columns}, not {self.names}")

    @property
    def children(self) -> tuple[Operator, ...]:
        return self.inputs

    def with_children(self, children: tuple[Operator, ...]) -> Operator:
        return replace(self, inputs=children)

    @property
    def columns(self) -> tuple[str, ...]:
        return self.names


@dataclass(frozen=True, slots=True, kw_only=True)
class Distinct(Unary):
    stateful: ClassVar[bool] = True


@dataclass(frozen=True, slots=True)
class Call:
    """One aggregate call. `whole` is the call as Spark runs it; the parts serve the algebraic rules."""

    name: str
    whole: Scalar
    function: str  # lower case
    args: tuple[Scalar, ...]
    distinct: bool = False
    filter: Scalar | None = None
    plain: bool = True  # False: WITHIN GROUP, IGNORE NULLS, ORDER BY inside
    open: bool = False  # a window function whose answer SQL leaves open: ties in its order

    def __str__(self) -> str:
        return f"{self.whole} AS {self.name}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Aggregate(Unary):
    """GROUP BY keys; without keys one row, also over no rows."""

    keys: tuple[Item, ...]
    calls: tuple[Call, ...]
    stateful: ClassVar[bool] = True

    def __post_init__(self) -> None:
        for scalar in (*(k.scalar for k in self.keys), *(c.whole for c in self.calls)):
            _demand(scalar.columns, self.child.columns, "Aggregate")

    @property
    def columns(self) -> tuple[str, ...]:
        return (*(k.name for k in self.keys), *(c.name for c in self.calls))

    @property
    def label(self) -> str:
        by = ", ".join(map(str, self.keys)) or "()"
        return f"Aggregate by {by}: {', '.join(map(str, self.calls))}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Window(Unary):
    """Window functions that share their PARTITION BY; all columns of the child, and one more per call."""

    keys: tuple[Item, ...]  # the partition; the names serve the affected keys
    calls: tuple[Call, ...]
    stateful: ClassVar[bool] = True

    def __post_init__(self) -> None:
        for scalar in (*(k.scalar for k in self.keys), *(c.whole for c in self.calls)):
            _demand(scalar.columns, self.child.columns, "Window")

    @property
    def columns(self) -> tuple[str, ...]:
        return (*self.child.columns, *(c.name for c in self.calls))

    @property
    def label(self) -> str:
        by = ", ".join(str(k.scalar) for k in self.keys) or "()"
        return f"Window by {by}: {', '.join(map(str, self.calls))}"


@dataclass(frozen=True, slots=True, kw_only=True)
class TopK(Unary):
    """ORDER BY … LIMIT … OFFSET."""

    order: tuple[Scalar, ...]  # `x DESC NULLS LAST`
    limit: int | None
    offset: int
    stateful: ClassVar[bool] = True

    def __post_init__(self) -> None:
        for scalar in self.order:
            _demand(scalar.columns, self.child.columns, "TopK")

    @property
    def label(self) -> str:
        by = ", ".join(map(str, self.order)) or "(any order)"
        many = "all" if self.limit is None else str(self.limit)
        return f"TopK {many} by {by}" + (f" after {self.offset}" if self.offset else "")


@dataclass(frozen=True, slots=True, kw_only=True)
class Explode(Unary):
    """A generator function run for each row: LATERAL VIEW, a lateral function, a generator in the select list."""

    generator: Scalar
    names: tuple[str, ...]  # of the columns it makes
    outer: bool = False  # a row that generates nothing stays, with NULLs
    linear: ClassVar[bool] = True

    def __post_init__(self) -> None:
        _demand(self.generator.columns, self.child.columns, "Explode")

    @property
    def columns(self) -> tuple[str, ...]:
        plain = tuple(c for c in self.child.columns if c != WEIGHT)
        return (*plain, *self.names, WEIGHT) if self.child.weighted else (*plain, *self.names)

    @property
    def label(self) -> str:
        return f"Explode {'outer ' if self.outer else ''}{self.generator} AS {', '.join(self.names)}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Constant(Operator):
    """Rows that never change: VALUES, range(), or the one row of a SELECT without FROM."""

    names: tuple[str, ...]
    body: Scalar | None = None  # what stands in FROM; None: one row without columns

    @property
    def columns(self) -> tuple[str, ...]:
        return self.names

    @property
    def label(self) -> str:
        return f"Constant {self.body}" if self.body is not None else "Constant row"


@dataclass(frozen=True, slots=True, kw_only=True)
class Recursion(Operator):
    """WITH RECURSIVE: base UNION ALL step, where the step reads the rows of the level before (`Level`)."""

    base: Operator
    step: Operator
    names: tuple[str, ...]
    level: str  # which Level leaves are ours
    stateful: ClassVar[bool] = True

    def __post_init__(self) -> None:
        for part in self.children:
            if part.columns != self.names:
                raise ValueError(f"recursion has {part.columns}, not {self.names}")

    @property
    def children(self) -> tuple[Operator, ...]:
        return (self.base, self.step)

    def with_children(self, children: tuple[Operator, ...]) -> Operator:
        return replace(self, base=children[0], step=children[1])

    @property
    def columns(self) -> tuple[str, ...]:
        return self.names

    @property
    def label(self) -> str:
        return f"Recursion {self.level}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Level(Operator):
    """Inside the step of a recursion: the rows of the level before."""

    level: str
    fields: tuple[ScanColumn, ...]

    @property
    def columns(self) -> tuple[str, ...]:
        return tuple(f.name for f in self.fields)

    @property
    def label(self) -> str:
        return f"Level of {self.level}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Weigh(Unary):
    """Make a plain relation a Z-set: every row with this weight."""

    weight: int

    def __post_init__(self) -> None:
        if self.child.weighted:
            raise ValueError("the input has a weight already")

    @property
    def columns(self) -> tuple[str, ...]:
        return (*self.child.columns, WEIGHT)

    @property
    def label(self) -> str:
        return f"Weigh {self.weight:+d}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Restrict(Operator):
    """The rows of `child` whose keys appear in `by` (null-safe): a state limited to the affected keys.

    Without keys: all rows if `by` has any, else none.
    """

    child: Operator
    keys: tuple[Item, ...]  # scalar over child, name of the column in `by`
    by: Operator

    def __post_init__(self) -> None:
        for key in self.keys:
            _demand(key.scalar.columns, self.child.columns, "Restrict")
            _demand(frozenset({key.name}), self.by.columns, "Restrict.by")

    @property
    def children(self) -> tuple[Operator, ...]:
        return (self.child, self.by)

    def with_children(self, children: tuple[Operator, ...]) -> Operator:
        return replace(self, child=children[0], by=children[1])

    @property
    def columns(self) -> tuple[str, ...]:
        return self.child.columns

    @property
    def label(self) -> str:
        return f"Restrict to affected {', '.join(map(str, self.keys))}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Named(Operator):
    """A relation that was materialized under a name in the session, such as the affected keys of this refresh."""

    view: str
    names: tuple[str, ...]

    @property
    def columns(self) -> tuple[str, ...]:
        return self.names

    @property
    def label(self) -> str:
        return f"Named {self.view}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Stored(Operator):
    """The rows that the stream table has before this refresh, its hidden columns among them."""

    fields: tuple[ScanColumn, ...]
    positions: bool = False  # with FILE and POSITION of each row

    @property
    def columns(self) -> tuple[str, ...]:
        return (*(f.name for f in self.fields), *((FILE, POSITION) if self.positions else ()))

    @property
    def label(self) -> str:
        return f"Stored rows [{', '.join(f.source for f in self.fields)}]"
