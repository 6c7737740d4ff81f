"""A full refresh: the whole definition at the cut into storage, and the public view over it."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime

from spark_trickle.delta.root import HASH
from spark_trickle.errors import TrickleError
from spark_trickle.lake.attempt import Attempt
from spark_trickle.lake.staging import Staging
from spark_trickle.model import Column, Pointer, TableName
from spark_trickle.refresh.as_written import definition_view
from spark_trickle.refresh.definition import Compiled
from spark_trickle.spark.compile import compile_sql, quote, quote_table
from spark_trickle.spark.identity import row_hash
from spark_trickle.sql.algebra import State


class AttemptLeaves:
    """Tables at the cut: the attempt's catalog has them under their own names."""

    def __init__(self, attempt: Attempt) -> None:
        self.attempt = attempt

    def state(self, table: TableName, state: State) -> str:  # noqa: ARG002
        return self.attempt.qualified(table)

    def changes(self, table: TableName) -> str:
        raise TrickleError("INTERNAL", f"a full refresh asks for the changes of {table}")

    def weight(self, table: TableName) -> str:
        raise TrickleError("INTERNAL", f"a full refresh asks for the changes of {table}")

    def small(self, table: TableName) -> bool:  # noqa: ARG002
        return False

    def total(self, table: TableName) -> int | None:  # noqa: ARG002
        return None


def full_select(attempt: Attempt, compiled: Compiled, instant: datetime) -> str:
    """A SELECT of all storage columns over the tables of the attempt."""
    names = ", ".join(quote(c.name) for c in compiled.storage_columns if c.name != HASH)
    if compiled.plan is None:
        view = definition_view(attempt, compiled, instant)
        return f"SELECT {names}, {row_hash(compiled.columns)} AS {quote(HASH)} FROM {quote(view)}"
    sql = compile_sql(compiled.plan.full, AttemptLeaves(attempt))
    if HASH in {c.name for c in compiled.hidden}:
        hashed = tuple(c for c in compiled.storage_columns if c.name != HASH)
        return f"SELECT {names}, {row_hash(hashed)} AS {quote(HASH)} FROM ({sql})"
    return f"SELECT {names} FROM ({sql})"


def write_full(attempt: Attempt, compiled: Compiled, staging: Staging, instant: datetime) -> int:
    """Replace the whole content by the definition's at the cut and its instant; returns the rows written."""
    attempt.use(compiled.namespace)
    select = full_select(attempt, compiled, instant)
    summary = staging.append(select) if staging.base is None else staging.overwrite(select)
    return summary.get("added-records", 0)


def create_view(attempt: Attempt, name: TableName, storage: TableName, columns: Sequence[Column]) -> Pointer:
    """The public view, made in the attempt. Its text never names a catalog, so it resolves inside any cut."""
    listed = ", ".join(quote(c.name) for c in columns)
    attempt.use(name.namespace)
    attempt.session.sql(
        f"CREATE OR REPLACE VIEW {attempt.qualified(name)} TBLPROPERTIES ('trickle.stream-table' = 'true') "
        f"AS SELECT {listed} FROM {quote_table(storage)}"
    )
    return Pointer(name, attempt.location(name), is_view=True)
