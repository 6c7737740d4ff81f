"""What lowering a query starts from and leads to: tables, contexts, relations."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Protocol

from sqlglot import exp

from spark_trickle.model import InputKind, TableName
from spark_trickle.sql.algebra import Operator
from spark_trickle.sql.scope import Output, Scope, Visible


@dataclass(frozen=True, slots=True)
class LakeTable:
    """A table the definition may read: a source or a stream table."""

    name: TableName
    kind: InputKind
    columns: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class LakeView:
    """A plain view: its text is inlined."""

    name: TableName
    text: str
    namespace: str
    columns: tuple[str, ...]


class Tables(Protocol):
    def find(self, parts: tuple[str, ...], namespace: str) -> LakeTable | LakeView | None: ...


@dataclass(frozen=True, slots=True)
class Relation:
    """A query: its rows, its columns, and the tables that columns can still be asked for by, `t` in `t.a`."""

    operator: Operator
    outputs: tuple[Output, ...]
    relations: tuple[Visible, ...] = ()

    @property
    def scope(self) -> Scope:
        return Scope(list(self.relations), list(self.outputs))


@dataclass(frozen=True, slots=True)
class Cte:
    body: exp.Expr
    columns: tuple[str, ...]
    context: Context
    recursive: bool = False


@dataclass(frozen=True, slots=True)
class Recursing:
    """A CTE inside its own recursive step: the rows of the level before."""

    level: str
    outputs: tuple[Output, ...]


@dataclass(frozen=True, slots=True)
class Context:
    """What a query sees from outside: CTEs by name, where unqualified tables live, the columns around a subquery."""

    namespace: str
    text: str
    ctes: Mapping[str, Cte | Recursing] = field(default_factory=dict)
    view_depth: int = 0
    outer: Scope | None = None
