"""A refresh as data: what is computed, in which order, and what is written.

Steps are trees over the changes and states of the inputs, over the stored rows, and over steps before them (`Named`).
One runner executes them (refresh/runner.py), and `explain` and `check` print them. Every kind of plan ends in the same
two relations: positions of stored rows that leave, and new rows that enter. So writing needs no MERGE, no key in
storage and no second look at the target.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Protocol

from spark_trickle.model import HIDDEN_PREFIX, Column
from spark_trickle.sql.algebra import (
    FILE,
    POSITION,
    WEIGHT,
    Aggregate,
    Call,
    Explode,
    Filter,
    Item,
    Join,
    Named,
    Operator,
    Project,
    ScanColumn,
    Stored,
    TopK,
    UnionAll,
    Weigh,
    Window,
    keep,
)
from spark_trickle.sql.identity import identity, row_hash, same_value
from spark_trickle.sql.scalar import (
    Scalar,
    call,
    cast,
    column,
    equal,
    greater,
    less,
    negate,
    number,
    row_number,
    subtract,
)

HASH = f"{HIDDEN_PREFIX}hash"
OLD, NEW = "_t_o_", "_t_n_"  # prefixes: a column as it is stored, as it is to be
LEAVES, ENTERS = "_t_leaves", "_t_enters"

# Names of steps.
CHANGE, AFFECTED, MERGED, DELTA, LEAVING = "change", "affected", "merged", "delta", "leaving"
_COPY, _NUMBER = "_t_copy", "_t_rn"
_COLLATION = re.compile(r" collate \w+", re.IGNORECASE)


class Stage(StrEnum):
    """What a step is counted as in `history`."""

    DELTA = "delta"
    LOOKUP = "lookup"
    RESCAN = "rescan"
    APPLY = "apply"


@dataclass(frozen=True, slots=True)
class Total:
    """A number that is known when a step has run: the sum of a column, of its positive or its negative part."""

    step: str
    column: str
    negative: bool = False


@dataclass(frozen=True, slots=True)
class Compute:
    """A relation that later steps read by its name."""

    name: str
    tree: Operator
    stage: Stage = Stage.DELTA
    ends: bool = False  # without rows nothing is left to do
    when: Total | None = None  # only if this is more than zero
    condition: str = ""  # the same in words
    otherwise: str = ""  # else the name stands for this step
    rows: Total | str | None = None  # as many as this, or as that step has: else storage is damaged
    whole: Operator | None = None  # the same tree without restricting its inputs to the rows of that step
    totals: tuple[str, ...] = ()  # the columns whose sums are asked for


class Recursive(Protocol):
    """The levels of a recursion, each from the one before."""

    def deepest(self) -> Operator:
        """One row with one column: the last level that is stored, or NULL."""
        ...

    def level(self, depth: int, previous: str | None) -> Operator:
        """The change of a level; `previous` is the step that has the change of the level before, if it changed."""
        ...

    def shown(self, depth: int, step: str) -> Operator:
        """What the change of a level adds to the change of the stream table."""
        ...


@dataclass(frozen=True, slots=True)
class Repeat:
    """A step per level, until nothing is stored and nothing changed; the name stands for all of them."""

    name: str
    levels: Recursive


@dataclass(frozen=True, slots=True)
class Write:
    """The end: rows in and rows out in one commit."""

    enters: Operator  # a row per copy
    entering: Total | None = None  # None: only insertions, counted when they are written
    leaves: Operator | None = None  # the stored rows that leave, weighted
    positions: Operator | None = None  # and where they are: FILE, POSITION
    leaving: Total | None = None
    updated: Total | None = None  # those of the entering rows that replace one
    lost: Total | None = None  # rows that should be stored and are not

    def change(self, *, removes: bool) -> Operator:
        """What was written, for consumers."""
        added = Weigh(child=self.enters, weight=1)
        if not removes or self.leaves is None:
            return added
        return UnionAll(inputs=(added, self.leaves), names=added.columns)


Step = Compute | Repeat | Write


def names(columns: Iterable[Column]) -> tuple[str, ...]:
    return tuple(c.name for c in columns)


def stored(columns: Iterable[Column]) -> Stored:
    """The stored rows with their positions, every column under the prefix OLD."""
    return Stored(fields=tuple(ScanColumn(c.name, OLD + c.name) for c in columns), positions=True)


def prefixed(prefix: str, columns: Iterable[Column]) -> tuple[Item, ...]:
    """Columns under a prefix."""
    return tuple(Item(prefix + c.name, column(c.name)) for c in columns)


def unprefixed(prefix: str, columns: Iterable[Column]) -> tuple[Item, ...]:
    return tuple(Item(c.name, column(prefix + c.name)) for c in columns)


def as_stored(columns: Iterable[Column]) -> tuple[Item, ...]:
    """Columns in the types that the storage has: Iceberg knows no collations."""

    def one(c: Column) -> Scalar:
        plain = _COLLATION.sub("", c.type)
        return column(c.name) if plain == c.type else cast(column(c.name), plain)

    return tuple(Item(c.name, one(c)) for c in columns)


def plain_call(name: str, scalar: Scalar) -> Call:
    """A call that no rule takes apart."""
    return Call(name=name, whole=scalar, function="", args=())


def any_row(tree: Operator) -> Operator:
    """A row without columns if there is any."""
    return TopK(child=Project(child=tree, items=()), order=(), limit=1, offset=0)


# -- rows identified by all of their columns ---------------------------------------------------------------------------


def hashed(tree: Operator, columns: Sequence[Column]) -> Operator:
    """These columns and their hash."""
    return Project(child=tree, items=(*keep(*names(columns)), Item(HASH, row_hash(columns))))


def folded(tree: Operator, columns: Sequence[Column]) -> Operator:
    """Rows of the same values as one with their weight; rows that came and went are gone."""
    keys, values = [], []
    for c in columns:
        form = identity(column(c.name), c.type)
        if form.bare is not None:
            keys.append(Item(c.name, form))
        else:
            keys.append(Item(f"_t_i_{c.name}", form))
            values.append(plain_call(c.name, call("any_value", column(c.name))))
    weight = plain_call(WEIGHT, call("sum", column(WEIGHT)))
    grouped = Aggregate(child=tree, keys=tuple(keys), calls=(*values, weight))
    return Filter(child=grouped, condition=negate(equal(column(WEIGHT), number(0))))


def consolidated(tree: Operator, columns: Sequence[Column]) -> Operator:
    """The same with the hash of each row."""
    items = (*keep(*names(columns)), Item(HASH, row_hash(columns)), *keep(WEIGHT))
    return Project(child=folded(tree, columns), items=items)


def copies(tree: Operator, columns: Iterable[str]) -> Operator:
    """As many rows of each as its weight says."""
    each = call("explode", call("array_repeat", number(1), cast(column(WEIGHT), "int")))
    there = Filter(child=tree, condition=greater(column(WEIGHT), number(0)))
    return Project(child=Explode(child=there, generator=each, names=(_COPY,)), items=keep(*columns))


def change_rows(tree: Operator, columns: Sequence[Column]) -> tuple[Step, ...]:
    """Apply a weighted relation whose rows are identified by all of `columns`."""
    listed = (*names(columns), HASH)
    delta = Named(view=DELTA, names=(*listed, WEIGHT))
    removed = Total(DELTA, WEIGHT, negative=True)
    return (
        Compute(DELTA, consolidated(tree, columns), ends=True, totals=(WEIGHT,)),
        Compute(LEAVING, _leaving(delta, columns), Stage.LOOKUP, when=removed, condition="rows leave", rows=removed),
        Write(
            enters=copies(delta, listed),
            entering=Total(DELTA, WEIGHT),
            leaves=Filter(child=delta, condition=less(column(WEIGHT), number(0))),
            positions=Named(view=LEAVING, names=(FILE, POSITION)),
            leaving=removed,
        ),
    )


def _leaving(delta: Operator, columns: Sequence[Column]) -> Operator:
    """Where the stored copies are that leave: any n of the same ones."""
    removed = Filter(child=delta, condition=less(column(WEIGHT), number(0)))
    there = stored((*columns, Column(HASH, "bigint")))
    same = (same_value(OLD + c.name, c.name, c.type) for c in columns)
    found = Join(inputs=(removed, there), conditions=(equal(column(OLD + HASH), column(HASH)), *same))
    whole = [column(HASH), *(identity(column(c.name), c.type) for c in columns)]
    place = row_number(whole, (column(FILE), column(POSITION)))
    numbered = Window(
        child=found,
        keys=tuple(Item(f"_t_p{n}", scalar) for n, scalar in enumerate(whole)),
        calls=(plain_call(_NUMBER, place),),
    )
    chosen = Filter(child=numbered, condition=negate(greater(column(_NUMBER), subtract(number(0), column(WEIGHT)))))
    return Project(child=chosen, items=keep(FILE, POSITION))
