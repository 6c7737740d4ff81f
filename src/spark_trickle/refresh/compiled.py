"""A definition, compiled: what it reads, what it gives, and how it can be maintained."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from dataclasses import dataclass, field

from spark_trickle.delta.plans.plan import Comparison, Plan
from spark_trickle.delta.steps import HASH
from spark_trickle.errors import Reason
from spark_trickle.model import Column, InputKind, Lineage, TableName
from spark_trickle.spark.compile import PlainLeaves, compile_sql
from spark_trickle.spark.settings import Pins
from spark_trickle.sql.algebra import Operator

Inputs = dict[TableName, tuple[InputKind, tuple[str, ...]]]


@dataclass(frozen=True, slots=True)
class Definition:
    """What a user declared, with all that bears on its meaning."""

    name: TableName
    text: str
    namespace: str  # unqualified names are looked up here
    pins: Pins  # the Spark settings that it runs under


@dataclass(frozen=True, slots=True)
class Compiled:
    definition: str
    namespace: str
    columns: tuple[Column, ...]
    inputs: Inputs  # columns used, in the table's own names
    views: tuple[TableName, ...]
    root: Operator | None  # state tables cut out
    plan: Plan | None  # None: FULL only
    reason: Reason | None  # why FULL only
    compare: Mapping[str, Comparison]
    notices: tuple[str, ...]
    whole: Operator | None = None  # nothing cut out
    states: tuple[StateTable, ...] = ()  # all hidden state tables below, those that others read first
    volatile: str | None = None  # a function that is not deterministic, with its place
    settled: bool = True  # False: which rows there are depends on values that only the state tables know
    over_states: Mapping[str, Comparison] = field(default_factory=dict)  # `compare`, the state tables given
    functions: tuple[tuple[str, str], ...] = ()  # of the lake: name and version
    lineage: Lineage | None = None  # None: we may read the query otherwise than Spark does

    @property
    def incremental(self) -> bool:
        return self.plan is not None

    @property
    def time_dependent(self) -> bool:
        return self.reason is not None and self.reason.code == "TIME_DEPENDENT"

    @property
    def hidden(self) -> tuple[Column, ...]:
        return self.plan.hidden if self.plan is not None else (Column(HASH, "bigint"),)

    @property
    def all_columns(self) -> tuple[Column, ...]:
        return (*self.columns, *self.hidden)

    @property
    def reads(self) -> Inputs:
        """What the definition reads, directly or through its state tables."""
        own = {s.name for s in self.states}
        read: Inputs = {}
        for compiled in (self, *(s.compiled for s in self.states)):
            for name, (kind, columns) in compiled.inputs.items():
                if name not in own:
                    known = read[name][1] if name in read else ()
                    read[name] = (kind, tuple(dict.fromkeys((*known, *columns))))
        return read

    @property
    def layout(self) -> str:
        """The columns of the data files and what they are for: another layout needs other files."""
        identity = "rows" if self.plan is None else self.plan.kind
        keys = [] if self.plan is None else [k.stored for k in self.plan.keys]
        columns = [[c.name, c.type] for c in self.all_columns]
        return json.dumps({"identity": identity, "keys": keys, "columns": columns}, sort_keys=True)

    @property
    def fingerprint(self) -> str:
        """Of the meaning: names in the tree follow from the text alone, so equal meaning gives equal SQL."""
        body = compile_sql(self.whole, PlainLeaves()) if self.whole is not None else self.definition
        shape = json.dumps([[c.name, c.type] for c in self.columns])
        return hashlib.sha256(f"{body}\n{shape}".encode()).hexdigest()[:32]


@dataclass(frozen=True, slots=True)
class StateTable:
    """A hidden state table: a part of a definition, kept as a stream table of its own."""

    name: TableName
    compiled: Compiled


def misread_of(reason: str | None) -> str | None:
    """What a stored reason says about how a definition was misread."""
    found = None if reason is None else Reason.parse(reason)
    return found.message if found is not None and found.code == "DEFINITION_CHECK" else None
