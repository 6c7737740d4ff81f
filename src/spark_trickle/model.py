"""The words of the design as plain data. Nothing here knows Spark, SQL text or a database."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from enum import StrEnum

LAKE = "lake"  # the Spark catalog that holds the user's tables
HIDDEN_NAMESPACE = "_trickle"  # hidden state tables live here
STREAM_TABLE_MARK = "trickle.stream-table"  # a property by which anybody can tell whose table it is
HIDDEN_PREFIX = "_t_"  # hidden columns: in the data files of a stream table, not in its schema


class Action(StrEnum):
    """What one refresh did."""

    NO_DATA = "NO_DATA"
    DIFFERENTIAL = "DIFFERENTIAL"
    FULL = "FULL"
    REINITIALIZE = "REINITIALIZE"
    SKIP = "SKIP"
    MAINTENANCE = "MAINTENANCE"  # no refresh: upkeep of its files, which changes no row


class Mode(StrEnum):
    """What the user allows."""

    AUTO = "AUTO"
    DIFFERENTIAL = "DIFFERENTIAL"
    FULL = "FULL"


class Status(StrEnum):
    ACTIVE = "ACTIVE"
    SUSPENDED = "SUSPENDED"
    ERROR = "ERROR"
    INITIALIZING = "INITIALIZING"


RUNS = (Status.ACTIVE, Status.INITIALIZING)  # schedules refresh it


class Star(StrEnum):
    """What `SELECT *` means when its source gets other columns."""

    PIN = "PIN"  # the columns of the time of creation
    FOLLOW = "FOLLOW"  # the columns of today: the stream table is recomputed


class Consistency(StrEnum):
    """Whether the members of a diamond are published together."""

    ATOMIC = "ATOMIC"
    NONE = "NONE"


class SchedulePolicy(StrEnum):
    """When a group is due whose members have different schedules."""

    FASTEST = "FASTEST"  # when any member is
    SLOWEST = "SLOWEST"  # when all are


class InputKind(StrEnum):
    SOURCE = "SOURCE"  # a table that Trickle does not own
    STREAM_TABLE = "STREAM_TABLE"  # another stream table
    VIEW = "VIEW"  # a view whose text is inlined


@dataclass(frozen=True, slots=True, order=True)
class TableName:
    """A table of the lake: `namespace` may hold dots (nested namespaces), `name` may not."""

    namespace: str
    name: str

    def __str__(self) -> str:
        return f"{self.namespace}.{self.name}"

    @property
    def parts(self) -> tuple[str, ...]:
        return (*self.namespace.split("."), self.name)

    @classmethod
    def of(cls, text: str) -> TableName:
        namespace, _, name = text.rpartition(".")
        return cls(namespace, name)


def resolve(parts: tuple[str, ...], namespace: str) -> TableName:
    """What the parts of a name mean where `namespace` is the current one."""
    if len(parts) > 1 and parts[0].lower() == LAKE:
        parts = parts[1:]
    if len(parts) == 1:
        return TableName(namespace, parts[0])
    return TableName(".".join(parts[:-1]), parts[-1])


@dataclass(frozen=True, slots=True)
class Column:
    """A column of a table or result; `type` is Spark's DDL text such as decimal(12,2)."""

    name: str
    type: str


@dataclass(frozen=True, slots=True)
class UsedColumn:
    """A source column that a definition uses, pinned by Iceberg field id."""

    name: str
    type: str
    field_id: int


@dataclass(frozen=True, slots=True)
class Shape:
    """The columns of a source as a stream table saw them at its last refresh."""

    uuid: str  # of the source
    schema: str  # Iceberg's JSON


@dataclass(frozen=True, slots=True)
class Dependency:
    """One direct input of a stream table, with its part of the frontier.

    `pointer` is the metadata file that the catalog named at the cut: equal pointers mean nothing changed.
    `snapshot_id` is None for an EMPTY table. All frontier fields are None before the first refresh.
    """

    input: TableName
    kind: InputKind
    columns: tuple[UsedColumn, ...] = ()
    table_uuid: str | None = None
    snapshot_id: int | None = None
    schema_id: int | None = None
    pointer: str | None = None


@dataclass(frozen=True, slots=True)
class LakeFunction:
    """A Python function that the lake knows by the path of its code."""

    name: str
    path: str  # package.module:function
    returns: str  # Spark's type, such as decimal(10,2)
    deterministic: bool
    fingerprint: str | None = None  # sha256 of the module's source; None: the module is not to be had here

    @property
    def version(self) -> str:
        """Another one may give other answers."""
        parts = (self.path, self.returns, str(self.deterministic), str(self.fingerprint))
        return hashlib.sha256("\n".join(parts).encode()).hexdigest()[:32]

    def __str__(self) -> str:
        volatile = "" if self.deterministic else ", volatile"
        missing = "" if self.fingerprint else "; its module cannot be imported here"
        return f"{self.name}: {self.path} returns {self.returns}{volatile}{missing}"


@dataclass(frozen=True, slots=True)
class Source:
    """A table outside the lake that the lake knows by a name of its own."""

    name: str
    format: str  # delta
    location: str
    view: str = field(default="", repr=False)  # metadata file of the view that has the name in the lake

    def __str__(self) -> str:
        return f"{self.name}: {self.format} at {self.location}"


@dataclass(frozen=True, slots=True)
class PartitionField:
    """One term of PARTITIONED BY: a column, or Iceberg's transform of one."""

    column: str
    transform: str = "identity"  # year, month, day, hour, bucket, truncate
    argument: int | None = None  # of bucket and truncate

    def __str__(self) -> str:
        if self.transform == "identity":
            return self.column
        return f"{self.transform}({'' if self.argument is None else f'{self.argument}, '}{self.column})"


@dataclass(frozen=True, slots=True)
class SortField:
    """One term of CLUSTER BY."""

    column: str
    descending: bool = False

    def __str__(self) -> str:
        return f"{self.column} DESC" if self.descending else self.column


@dataclass(frozen=True, slots=True)
class TableOptions:
    """What a stream table is like as an Iceberg table, besides its columns. None: it stays as it is."""

    partitioned_by: tuple[PartitionField, ...] | None = None
    clustered_by: tuple[SortField, ...] | None = None
    comment: str | None = None
    properties: tuple[tuple[str, str], ...] = ()
    column_comments: tuple[tuple[str, str], ...] = ()  # of columns that come from a source as they are


@dataclass(frozen=True, slots=True)
class StreamTable:
    """A row of `stream_tables` with its dependencies."""

    id: int
    name: TableName
    definition: str
    namespace: str  # unqualified table names in the definition resolve here
    mode: Mode
    schedule: str | None
    status: Status
    columns: tuple[Column, ...]
    incremental: bool
    reason: str | None  # why not incremental
    fingerprint: str  # of the compiled form: another one means another meaning
    layout: str  # JSON: identity, columns, hidden columns
    published_snapshot: int | None  # what we published last: anything else on main is foreign
    published_pointer: str | None  # the metadata file we published last
    data_timestamp: datetime | None
    consecutive_errors: int
    last_error: str | None
    created_at: datetime
    dependencies: tuple[Dependency, ...] = ()
    owner_id: int | None = None  # of a hidden state table: whose it is
    states: tuple[StreamTable, ...] = ()  # the hidden state tables it owns
    functions: tuple[tuple[str, str], ...] = ()  # of the lake, that its content was computed with: name and version
    star: Star = Star.PIN
    shapes: tuple[tuple[TableName, Shape], ...] = ()  # of the sources, also of those below views and state tables
    # What Spark's settings are for its definition, by name; None: not set. Empty: from before settings were kept.
    settings: tuple[tuple[str, str | None], ...] = ()
    table_uuid: str | None = None  # of the Iceberg table: another one under the name is somebody else's
    diamond_consistency: Consistency | None = None  # None: the lake's
    diamond_schedule_policy: SchedulePolicy | None = None  # None: the lake's
    file_schema: str = ""  # Iceberg's JSON of all columns in the data files, the hidden ones too

    @classmethod
    def draft(cls, name: TableName, definition: str, namespace: str, mode: Mode, at: datetime) -> StreamTable:
        """A stream table before it is compiled and has a row."""
        return cls(
            id=0,
            name=name,
            definition=definition,
            namespace=namespace,
            mode=mode,
            schedule=None,
            status=Status.INITIALIZING,
            columns=(),
            incremental=False,
            reason=None,
            fingerprint="",
            layout="{}",
            published_snapshot=None,
            published_pointer=None,
            data_timestamp=None,
            consecutive_errors=0,
            last_error=None,
            created_at=at,
        )

    @property
    def reads(self) -> tuple[Dependency, ...]:
        """What the definition reads, directly or through hidden state tables: its frontier over sources."""
        own = {s.name for s in self.states}
        found = {d.input: d for t in (*self.states, self) for d in t.dependencies if d.input not in own}
        return tuple(found.values())


class Via(StrEnum):
    """How a column depends on another. The first three are direct: values are made of its values."""

    IDENTITY = "IDENTITY"  # unchanged
    TRANSFORMATION = "TRANSFORMATION"
    AGGREGATION = "AGGREGATION"
    # Its values decide which rows there are, or which value is taken.
    CONDITIONAL = "CONDITIONAL"
    FILTER = "FILTER"
    JOIN = "JOIN"
    GROUP_BY = "GROUP_BY"
    WINDOW = "WINDOW"
    SORT = "SORT"
    EXPLODE = "EXPLODE"
    ROWS = "ROWS"  # on which rows a table has, whatever is in them

    @property
    def direct(self) -> bool:
        return self in _DIRECT


_DIRECT = (Via.IDENTITY, Via.TRANSFORMATION, Via.AGGREGATION)  # the one that changes more comes later


@dataclass(frozen=True, slots=True, order=True)
class Origin:
    """A column of a table that something is made of or depends on; `column` is empty for ROWS."""

    table: TableName
    column: str
    via: Via


Origins = frozenset[Origin]


def through(via: Via, origins: Iterable[Origin]) -> Origins:
    """What depends on something that has these origins, itself in this way."""
    return frozenset(Origin(o.table, o.column, o.via if not o.via.direct else _weaker(via, o.via)) for o in origins)


def _weaker(outer: Via, inner: Via) -> Via:
    order = list(Via)
    return max(outer, inner, key=order.index) if outer.direct else outer


@dataclass(frozen=True, slots=True)
class Lineage:
    """Where the columns of a stream table come from, in terms of the tables that its definition reads.

    `rows` decide which rows there are: each column depends on them, too.
    """

    columns: Mapping[str, Origins]
    rows: Origins


@dataclass(frozen=True, slots=True)
class SnapshotFacts:
    """A snapshot of a table."""

    id: int
    at: datetime
    is_current: bool = False  # or one of its ancestors
    until: datetime | None = None  # when another one took its place; None: it is current, or nobody knows


@dataclass(frozen=True, slots=True)
class Pointer:
    """A row of `iceberg_tables`: where the current metadata of a table or view is.

    A Delta Lake source at one version has a pointer too, in a cut only (`lake/delta_lake/log.py`).
    """

    name: TableName
    location: str
    is_view: bool
