"""A full refresh: the whole definition at the cut."""

from __future__ import annotations

import json
from dataclasses import replace
from datetime import datetime

from spark_trickle.delta.steps import HASH, hashed, names
from spark_trickle.errors import TrickleError
from spark_trickle.lake.attempt import Attempt
from spark_trickle.lake.staging import Staging
from spark_trickle.model import TableName, TableOptions
from spark_trickle.refresh.as_written import definition_view
from spark_trickle.refresh.definition import Compiled
from spark_trickle.spark.compile import compile_sql
from spark_trickle.spark.order import is_large
from spark_trickle.sql.algebra import (
    Constant,
    Explode,
    Join,
    Named,
    Operator,
    OuterJoin,
    Project,
    Recursion,
    State,
    keep,
)
from spark_trickle.sql.lineage import origin
from spark_trickle.thresholds import DRIVER_BYTES


class AttemptLeaves:
    """Tables at the cut: the attempt's catalog has them under their own names."""

    def __init__(self, attempt: Attempt) -> None:
        self.attempt = attempt

    def state(self, table: TableName, state: State) -> str:  # noqa: ARG002
        return self.attempt.qualified(table)

    def changes(self, table: TableName) -> str:
        raise TrickleError("INTERNAL", f"a full refresh asks for the changes of {table}")

    def stored(self) -> str:
        raise TrickleError("INTERNAL", "a full refresh asks for the stored rows")

    def weight(self, table: TableName) -> str:
        raise TrickleError("INTERNAL", f"a full refresh asks for the changes of {table}")

    def small(self, table: TableName) -> bool:  # noqa: ARG002
        return False

    def total(self, table: TableName) -> int | None:  # noqa: ARG002
        return None

    def stored_rows(self) -> int | None:
        return None


def full_select(attempt: Attempt, compiled: Compiled, instant: datetime) -> str:
    """A SELECT of all columns, the hidden ones too, over the tables of the attempt."""
    listed = tuple(c for c in compiled.all_columns if c.name != HASH)
    if compiled.plan is None:
        view = definition_view(attempt, compiled, instant)
        tree: Operator = Named(view=view, names=names(listed))
    else:
        tree = compiled.plan.full
    whole = hashed(tree, listed) if HASH in names(compiled.hidden) else Project(child=tree, items=keep(*names(listed)))
    return compile_sql(whole, AttemptLeaves(attempt))


def described(attempt: Attempt, compiled: Compiled, options: TableOptions) -> TableOptions:
    """With the comments of columns that come from a table as they are."""
    if compiled.whole is None:
        return options
    known: dict[TableName, dict[str, str]] = {}
    found = []
    for column, name in zip(compiled.columns, compiled.whole.columns, strict=True):
        source = origin(compiled.whole, name)
        pointer = None if source is None else attempt.pointers.get(source[0])
        if source is None or pointer is None:
            continue
        if source[0] not in known:
            fields = json.loads(attempt.lake.facts(pointer.location).schema)["fields"]
            known[source[0]] = {f["name"].lower(): f["doc"] for f in fields if f.get("doc")}
        comment = known[source[0]].get(source[1].lower())
        if comment is not None:
            found.append((column.name, comment))
    return replace(options, column_comments=tuple(found))


def write_full(attempt: Attempt, compiled: Compiled, staging: Staging, instant: datetime) -> int:
    """Replace the whole content by the definition's at the cut and its instant; returns the rows written."""
    attempt.use(compiled.namespace)
    select = full_select(attempt, compiled, instant)
    frame = attempt.session.sql(select)
    return staging.overwrite(frame, few=_from_little(attempt, compiled)).get("added-records", 0)


def _from_little(attempt: Attempt, compiled: Compiled) -> bool:
    """Whether the definition gives few rows, as far as metadata and its operators tell."""
    if compiled.root is None or any(_multiplies(op) for op in compiled.root.walk()):
        return False
    inputs = [attempt.lake.facts(attempt.pointers[name].location) for name in compiled.inputs]
    if any(is_large(facts.total_records) for facts in inputs):
        return False
    sizes = [facts.total_bytes for facts in inputs]
    return None not in sizes and sum(size or 0 for size in sizes) <= DRIVER_BYTES


def _multiplies(op: Operator) -> bool:
    """Whether few rows may become many: then it is not computed twice to find out."""
    if isinstance(op, Join):
        return len(op.inputs) > 1 and not op.conditions
    if isinstance(op, OuterJoin):
        return not op.conditions
    return isinstance(op, Explode | Recursion | Constant)
