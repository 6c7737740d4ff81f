"""What the engine asks of a table that definitions read, whatever kind of table it is.

A kind is a module with a class. Iceberg tables, all stream tables among them, are in the lake (`iceberg.py`). Tables of
the other kinds are outside it (`delta_lake/`): the lake has a name and a view for each. `Lake` has the list of kinds,
and only `Lake.kind` tells them apart.

A location is what a pointer has: it says which table it is, at which version, in which schema. The versions of a table
are whole numbers, of which facts, frontiers and feeds speak as snapshots.
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from typing import TYPE_CHECKING, Protocol

from spark_trickle.errors import ErrorCode
from spark_trickle.lake.feed import Feed
from spark_trickle.lake.jvm import TableFacts
from spark_trickle.lake.table_history import TableHistory
from spark_trickle.model import Dependency, Pointer, TableName
from spark_trickle.spark.runtime import Local

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

Problem = tuple[ErrorCode, str]  # code of an error, message


class SourceKind(Protocol):
    """Shared by threads. Metadata is read through a session of its own, data through the one that is given."""

    def facts(self, location: str) -> TableFacts: ...

    def rows(self, session: SparkSession, location: str, snapshot_id: int) -> int | None:
        """Rows of the table at this or an older snapshot; None: nobody counted them."""

    def history(self, location: str) -> TableHistory:
        """The commits of the table, as far as its metadata tells. No Spark job runs."""

    def expired(self, location: str, snapshot_id: int) -> str | None:
        """Why the change since an older snapshot cannot be known any more; None: it can."""

    def expires(self, location: str, snapshot_id: int) -> tuple[datetime, datetime] | None:
        """When an older snapshot was made, and when the table's own retention lets it go; None: it does not."""

    def lost(self, location: str, then: Dependency) -> Problem | None:
        """Why all rows that a refresh read then cannot be read any more; None: they can."""

    def registered(self, session: SparkSession, pointer: Pointer) -> Pointer:
        """How the catalog of an attempt holds the table, so that the attempt's session can read it."""

    def at(self, location: str, snapshot_id: int | None) -> str:
        """The location of the table at an older snapshot (None: EMPTY).

        Its columns may be those of that snapshot or of this one: whoever reads follows them by field id.
        """

    def in_schema(self, location: str, schema: str) -> str:
        """The location of the table in another schema, Iceberg's JSON with the field ids of this table."""

    def changes(self, session: SparkSession, pointer: Pointer, old: int | None, columns: Sequence[str]) -> Feed:
        """The change feed from an older snapshot (None: EMPTY) to the pointer's."""

    def old_state(self, pointer: Pointer, here: str, snapshot_id: int) -> str | None:
        """SQL of the table at an older snapshot in the columns of this one, where `here` names it in the attempt.

        None: only the table `at` that snapshot shows them.
        """

    def look_up(
        self,
        session: SparkSession,
        pointer: Pointer,
        snapshot_id: int,
        columns: Sequence[str],
        keys: Sequence[str],
        by: Local | None,
    ) -> Local | None:
        """Few rows of the table at a snapshot: all whose keys `by` has in its columns, perhaps more; all rows
        if it is None. None: Spark must look for them."""


class OutsideKind(SourceKind, Protocol):
    """Tables outside the lake: each is known to it as a source, by format and place."""

    title: str  # of the format, for people

    def owns(self, location: str) -> bool:
        """Whether the location is of this kind."""

    def available(self, session: SparkSession) -> bool:
        """Whether this Spark can read such tables."""

    def require(self, what: str) -> None:
        """Refuse if it cannot; `what` says why it should."""

    def prepare(self, session: SparkSession) -> None:
        """Let a session of ours read such tables."""

    def current(self, place: str) -> str | None:
        """The location of the table there, at the version it has now; None: there is none."""

    def write_view(self, name: TableName, location: str, *, pinned: bool) -> str:
        """The metadata file of a view with this name that shows the table: at that version, or as it will be."""


def replaced(then: Dependency) -> Problem:
    return "TABLE_REPLACED", f"{then.input} is another table than at its last refresh"
