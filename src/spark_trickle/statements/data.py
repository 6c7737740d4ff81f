"""STREAM TABLE statements as data, one class each."""

from __future__ import annotations

from dataclasses import dataclass, field

from spark_trickle.model import Mode, Star, TableOptions

Name = tuple[str, ...]
Settings = tuple[tuple[str, str], ...]


@dataclass(frozen=True, slots=True)
class CreateStreamTable:
    name: Name
    query: str  # the user's text after AS, letter for letter
    schedule: str | None = None
    mode: Mode | None = None
    or_replace: bool = False
    if_not_exists: bool = False
    initialize: bool = True
    star: Star | None = None
    settings: Settings = ()
    options: TableOptions = field(default_factory=TableOptions)


@dataclass(frozen=True, slots=True)
class CreateStreamTables:
    """Several, in one transaction: they may read each other."""

    tables: tuple[CreateStreamTable, ...]


@dataclass(frozen=True, slots=True)
class AlterStreamTable:
    """What is None stays as it is."""

    name: Name
    query: str | None = None
    schedule: str | None = None
    mode: Mode | None = None
    star: Star | None = None
    settings: Settings = ()


@dataclass(frozen=True, slots=True)
class SuspendStreamTable:
    name: Name


@dataclass(frozen=True, slots=True)
class ResumeStreamTable:
    name: Name


@dataclass(frozen=True, slots=True)
class DropStreamTable:
    name: Name
    if_exists: bool = False
    cascade: bool = False


@dataclass(frozen=True, slots=True)
class RefreshStreamTable:
    name: Name
    mode: Mode | None = None


@dataclass(frozen=True, slots=True)
class ShowStreamTables:
    pass


@dataclass(frozen=True, slots=True)
class DescribeStreamTable:
    name: Name


@dataclass(frozen=True, slots=True)
class ExplainStreamTable:
    name: Name


Statement = (
    CreateStreamTable
    | CreateStreamTables
    | AlterStreamTable
    | SuspendStreamTable
    | ResumeStreamTable
    | DropStreamTable
    | RefreshStreamTable
    | ShowStreamTables
    | DescribeStreamTable
    | ExplainStreamTable
)
