"""The relational algebra: one frozen dataclass per operator.

Column names are unique within a tree (`lower` makes them so), which keeps every rule free of scoping: a join is
`SELECT * FROM l JOIN r`, and a column of one input can never be mistaken for another's. A *weighted* relation is a
Z-set: it carries the column `__w` (WEIGHT). The delta of a tree is a tree of the same algebra, whose leaves are
`Changes` and `AsOf` instead of `Scan`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from enum import StrEnum
from typing import ClassVar

from spark_trickle.model import TableName
from spark_trickle.sql.scalar import Scalar, column

WEIGHT = "__w"


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
        yield self
        for child in self.children:
            yield from child.walk()

    def transform(self, change: Callable[[Operator], Operator]) -> Operator:
        """Bottom-up rewrite."""
        children = tuple(c.transform(change) for c in self.children)
        same = all(a is b for a, b in zip(children, self.children, strict=True))
        return change(self if same else self.with_children(children))

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


def at(tree: Operator, state: State) -> Operator:
    """The tree over the old or the new state of its inputs."""
    return tree.transform(lambda op: AsOf(scan=op, state=state) if isinstance(op, Scan) else op)


def scans(tree: Operator) -> tuple[Scan, ...]:
    return tuple(op for op in tree.walk() if isinstance(op, Scan))
