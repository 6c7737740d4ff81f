"""What the engine must know about functions beyond their names; `aggregate_facts` has the aggregates."""

from __future__ import annotations

from collections.abc import Sequence
from enum import StrEnum
from typing import Protocol

from spark_trickle.sql.algebra import Operator
from spark_trickle.sql.scalar import Scalar


class FunctionKind(StrEnum):
    SCALAR = "scalar"
    AGGREGATE = "aggregate"
    WINDOW = "window"
    GENERATOR = "generator"
    VOLATILE = "volatile"  # a function of the lake that is not deterministic
    SESSION = "session"  # registered in one session only
    UNKNOWN = "unknown"


class Functions(Protocol):
    def kind(self, name: str) -> FunctionKind: ...

    def generated(self, child: Operator, generator: Scalar) -> tuple[str, ...]:
        """The names of the columns that a generator makes over the rows of `child`."""
        ...

    def types(self, child: Operator, scalars: Sequence[Scalar]) -> tuple[str, ...] | None:
        """The types of expressions, also of aggregates, over the rows of `child`; None where nobody can tell."""
        ...

    def same(self, child: Operator, scalars: Sequence[Scalar]) -> tuple[int, ...] | None:
        """For each expression over `child` the position of the first that is the same to Spark; None as above."""
        ...


# Another answer every time they run: a delta computed with one answer cannot be retracted with another.
VOLATILE = frozenset(
    [
        "reflect",
        "java_method",
        "try_reflect",
        "aes_encrypt",
        "rand",
        "random",
        "randn",
        "randstr",
        "uniform",
        "uuid",
        "shuffle",
        "monotonically_increasing_id",
        "spark_partition_id",
        "input_file_name",
        "input_file_block_start",
        "input_file_block_length",
    ]
)

# One answer per query, another in the next: the definition's value moves although no source does.
TIME_DEPENDENT = frozenset(
    ["current_timestamp", "current_date", "now", "localtimestamp", "current_time", "curdate", "unix_timestamp_now"]
)

# Rows of one group depend on rows of others, or a row is in several groups.
TIME_WINDOWS = frozenset(["window", "session_window", "window_time"])

# Depends on who asks.
SESSION_DEPENDENT = frozenset(
    [
        "current_timezone",
        "current_user",
        "user",
        "session_user",
        "current_catalog",
        "current_database",
        "current_schema",
    ]
)
