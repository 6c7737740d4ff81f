"""Every error a user can meet, in one table.

An error has a *code* (what happened), a *kind* (what to do about it, for machines) and a *hint* (what to do about
it, for people). Retry and exit code derive from the kind alone. docs/errors.md is generated from `CODES`.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, replace
from enum import StrEnum
from typing import Literal


class Kind(StrEnum):
    USER = "user"  # the request is wrong: change it
    SCHEMA = "schema"  # the world changed under the definition: alter or reinitialize
    TRANSIENT = "transient"  # the same request may succeed later
    INTERNAL = "internal"  # a broken promise of ours: report it


EXIT_CODES = {Kind.USER: 2, Kind.SCHEMA: 3, Kind.TRANSIENT: 4, Kind.INTERNAL: 5}
RETRYABLE = frozenset({Kind.TRANSIENT})


@dataclass(frozen=True, slots=True)
class Code:
    kind: Kind
    meaning: str
    remedy: str


_U, _S, _T, _I = Kind.USER, Kind.SCHEMA, Kind.TRANSIENT, Kind.INTERNAL

ErrorCode = Literal[
    "INVALID_SETTING",
    "INVALID_NAME",
    "INVALID_SCHEDULE",
    "INVALID_MODE",
    "INVALID_STAR",
    "SYNTAX_ERROR",
    "UNKNOWN_TABLE",
    "UNKNOWN_COLUMN",
    "INVALID_QUERY",
    "DUPLICATE_COLUMN",
    "UNSTORABLE_TYPE",
    "SESSION_OBJECT",
    "NOT_INCREMENTAL",
    "VOLATILE_FUNCTION",
    "NAME_TAKEN",
    "UNKNOWN_STREAM_TABLE",
    "INVALID_OPTION",
    "PARTITION_VALUE",
    "STREAM_TABLE",
    "HAS_DEPENDENTS",
    "CYCLE",
    "NOT_MONOTONE",
    "NO_FIXPOINT",
    "INVALID_FUNCTION",
    "UNKNOWN_FUNCTION",
    "FUNCTION_UNAVAILABLE",
    "INVALID_SINCE",
    "INVALID_FILTER",
    "UNKNOWN_LINEAGE",
    "INVALID_SOURCE",
    "UNKNOWN_SOURCE",
    "UNKNOWN_CUT",
    "CUT_IS_READ_ONLY",
    "UNSUITABLE_SESSION",
    "INVALID_STATEMENT",
    "SOURCE_DROPPED",
    "SOURCE_CHANGED",
    "SNAPSHOT_EXPIRED",
    "TABLE_REPLACED",
    "DEPENDENCY_CHANGED",
    "INTEGRITY",
    "REWRITTEN",
    "REFRESH_IN_PROGRESS",
    "PUBLISH_CONFLICT",
    "LEASE_LOST",
    "STORAGE_FULL",
    "CATALOG_UNAVAILABLE",
    "CATALOG_CORRUPT",
    "CATALOG_NEWER",
    "EVALUATION_FAILED",
    "SPARK_FAILED",
    "MISSING_JAVA",
    "INVALID_REQUEST",
    "UNAUTHORIZED",
    "ADDRESS_IN_USE",
    "SERVICE_BUSY",
    "SERVICE_GONE",
    "INTERNAL",
]

CODES: dict[ErrorCode, Code] = {
    "INVALID_SETTING": Code(
        _U, "A setting is unknown or has an impossible value.", "Correct or remove the named setting."
    ),
    "INVALID_NAME": Code(
        _U,
        "A name cannot be used for a stream table.",
        "Use one or more namespaces and a table name, without dots inside a part.",
    ),
    "INVALID_SCHEDULE": Code(
        _U,
        "A schedule cannot be read.",
        "Write a duration such as '30s', '5m' or '50s exact', a cron line of five fields, with or without a time zone, 'downstream' or 'manual'.",
    ),
    "INVALID_MODE": Code(_U, "A mode is not one of AUTO, DIFFERENTIAL, FULL.", "Choose one of the three."),
    "INVALID_STAR": Code(_U, "What `*` means is not one of PIN, FOLLOW.", "Choose one of the two."),
    "SYNTAX_ERROR": Code(_U, "The SQL text cannot be parsed.", "Correct the marked place."),
    "UNKNOWN_TABLE": Code(
        _U, "A table or view in the definition does not exist.", "Create it first, or correct the name."
    ),
    "UNKNOWN_COLUMN": Code(
        _U, "A column in the definition does not exist.", "Correct the name; the message lists what is there."
    ),
    "INVALID_QUERY": Code(_U, "Spark refuses the definition.", "Run the query by itself in Spark and correct it."),
    "DUPLICATE_COLUMN": Code(_U, "Two output columns have the same name.", "Give each output column its own alias."),
    "UNSTORABLE_TYPE": Code(
        _U, "An output column has a type that Iceberg cannot store.", "Cast the column to a type a table can hold."
    ),
    "SESSION_OBJECT": Code(
        _U,
        "The definition uses a temporary view or function of one session.",
        'Make the view a view of the lake; register a Python function with the lake: tr.create_function("name", "package.module:function", returns="type").',
    ),
    "NOT_INCREMENTAL": Code(
        _U,
        "Mode DIFFERENTIAL was asked for and the definition cannot be maintained incrementally.",
        "Change the named part, or use mode AUTO.",
    ),
    "VOLATILE_FUNCTION": Code(
        _U,
        "The definition uses a function that is not deterministic.",
        "Replace the function, or set volatile_functions to warn or allow: every refresh is then FULL.",
    ),
    "NAME_TAKEN": Code(_U, "The name belongs to another table or view.", "Choose another name, or drop what has it."),
    "UNKNOWN_STREAM_TABLE": Code(_U, "There is no stream table of that name.", "SHOW STREAM TABLES lists them."),
    "INVALID_OPTION": Code(
        _U,
        "PARTITIONED BY, CLUSTER BY or TBLPROPERTIES of a stream table cannot be used so.",
        "Name columns of the definition: PARTITIONED BY (day(ts), bucket(16, id)) CLUSTER BY (region, id DESC).",
    ),
    "PARTITION_VALUE": Code(
        _U,
        "A stream table is partitioned by a text of which a value is not valid UTF-8: Iceberg would keep another value.",
        "Partition by bucket(16, column) or truncate(8, column), or make the value valid in the definition: make_valid_utf8(column).",
    ),
    "STREAM_TABLE": Code(
        _U,
        "A statement would write to a stream table, or change or drop it as a plain table.",
        "Write to its sources; change it with ALTER STREAM TABLE; drop it with DROP STREAM TABLE.",
    ),
    "HAS_DEPENDENTS": Code(_U, "Stream tables use what was to be dropped.", "Drop them first, or drop with cascade."),
    "CYCLE": Code(
        _U,
        "The definition would read itself, directly or through others.",
        "Break the printed path, or allow cycles: `allow_circular` (docs/cycles.md).",
    ),
    "NOT_MONOTONE": Code(
        _U,
        "The definition is in a cycle, and more rows of the cycle could take rows away from it.",
        "Read the cycle through filters, projections, inner and semi joins and UNION only; end in UNION or SELECT DISTINCT.",
    ),
    "NO_FIXPOINT": Code(
        _U,
        "Stream tables that read each other still grow after `max_fixpoint_iterations` rounds or `max_fixpoint_rows` rows.",
        "Bound the definition that grows, as with `WHERE depth < 20`, or raise the limit.",
    ),
    "INVALID_FUNCTION": Code(
        _U,
        "A function cannot be registered with the lake.",
        "Give a free name, package.module:function of a plain Python function, and the Spark type it returns.",
    ),
    "UNKNOWN_FUNCTION": Code(_U, "The lake has no function of that name.", "`tr.functions()` lists them."),
    "FUNCTION_UNAVAILABLE": Code(
        _U,
        "The module of a function that the lake knows cannot be imported in this process.",
        "Install its package, or put its folder on PYTHONPATH, wherever the lake is used.",
    ),
    "INVALID_SINCE": Code(
        _U,
        "The start of a change feed cannot be understood.",
        "Give a snapshot id, a time with its zone, or the token that an earlier call returned.",
    ),
    "INVALID_FILTER": Code(
        _U,
        "A limit, a time, an action or another filter of what is to be shown cannot be understood.",
        "Give times with their zone, such as 2026-01-31T12:00:00+00:00, or how long ago: '24h', '7d'.",
    ),
    "UNKNOWN_LINEAGE": Code(
        _U,
        "Where the columns of a stream table come from is not known: we may read its definition otherwise than Spark.",
        "`trickle explain` says why it is recomputed; `trickle graph` shows the tables that it reads.",
    ),
    "INVALID_SOURCE": Code(
        _U,
        "A table outside the lake cannot be registered as a source.",
        'tr.create_source("namespace.name", format="delta", location="/path/or/uri") with the location of a Delta Lake table.',
    ),
    "UNKNOWN_SOURCE": Code(_U, "The lake has no such source.", "`tr.sources()` lists them."),
    "UNKNOWN_CUT": Code(_U, "There is no cut of that name.", "`tr.cuts()` lists them."),
    "CUT_IS_READ_ONLY": Code(
        _U, "A statement inside a cut would write.", "Run it outside of the cut: tr.sql(...); a cut is for reading."
    ),
    "UNSUITABLE_SESSION": Code(
        _U, "The Spark session passed in cannot host a lake.", "Set what the message names before the session starts."
    ),
    "INVALID_STATEMENT": Code(
        _U, "A STREAM TABLE statement cannot be parsed.", "Compare it with the form in the message."
    ),
    "SOURCE_DROPPED": Code(
        _S, "A table that a stream table reads is gone.", "Recreate the source, or alter or drop the stream table."
    ),
    "SOURCE_CHANGED": Code(
        _S, "A column that a stream table uses was dropped or changed its meaning.", "Alter the stream table's query."
    ),
    "SNAPSHOT_EXPIRED": Code(
        _S, "The snapshot a stream table reflects was removed from its source.", "Refresh once with mode FULL."
    ),
    "TABLE_REPLACED": Code(_S, "A source was replaced by another table.", "Refresh once with mode FULL."),
    "DEPENDENCY_CHANGED": Code(
        _S, "A view or function used by the definition changed its meaning.", "Refresh once with mode FULL."
    ),
    "INTEGRITY": Code(
        _S,
        "A stream table was written by somebody else.",
        "Refresh once with mode FULL; write to the sources instead.",
    ),
    "REWRITTEN": Code(
        _S,
        "Somebody else rewrote the data files of a stream table (a compaction), which drops its hidden columns.",
        "Refresh once with mode FULL; leave stream tables out of other maintenance jobs.",
    ),
    "REFRESH_IN_PROGRESS": Code(
        _T, "Another refresh of the same stream table is running.", "Wait for it, or raise lease_wait_seconds."
    ),
    "PUBLISH_CONFLICT": Code(
        _T,
        "The stream table was changed by somebody else while a refresh was computed; nothing was published.",
        "Refresh again.",
    ),
    "LEASE_LOST": Code(
        _T, "Another process took over while this refresh was running; nothing was published.", "Refresh again."
    ),
    "STORAGE_FULL": Code(
        _T, "The disk is full; nothing was published.", "Free space in the warehouse and refresh again."
    ),
    "CATALOG_UNAVAILABLE": Code(
        _T, "The catalog database does not answer.", "Check that it runs and the URL is right."
    ),
    "CATALOG_CORRUPT": Code(
        _I,
        "A row of the catalog cannot be read.",
        "Restore the row from a backup, or drop and recreate the stream table.",
    ),
    "CATALOG_NEWER": Code(_U, "The catalog was made by a newer version of Trickle.", "Upgrade spark-trickle."),
    "EVALUATION_FAILED": Code(
        _U,
        "An expression of the definition fails for a row that its sources have; nothing was published.",
        "Correct the row at its source, or let the definition allow for it: try_cast, try_divide, a WHERE clause. Then refresh again.",
    ),
    "SPARK_FAILED": Code(_T, "Spark failed while computing; nothing was published.", "See the cause; refresh again."),
    "MISSING_JAVA": Code(_U, "No Java 17 or newer was found.", "Install one and set JAVA_HOME."),
    "INVALID_REQUEST": Code(_U, "The service does not take a request as it is.", "GET /docs lists what it takes."),
    "UNAUTHORIZED": Code(
        _U, "The service wants its token.", "Set TRICKLE_SERVICE_TOKEN, or service_token_file, as for `trickle up`."
    ),
    "ADDRESS_IN_USE": Code(
        _U,
        "`trickle up` cannot listen at its address.",
        "Choose another one: --port 8788, --port 0 (any), or --no-web.",
    ),
    "SERVICE_BUSY": Code(_T, "The service has as much work waiting as it accepts.", "Try again in some seconds."),
    "SERVICE_GONE": Code(
        _T, "The service stopped answering while it worked.", "Look at the history, then do it again if needed."
    ),
    "INTERNAL": Code(_I, "A bug in Trickle.", "Report it with the message and `trickle doctor`."),
}


class TrickleError(Exception):
    """Base of all errors. `code` is a key of CODES; kind, exit code and a default hint follow from it."""

    def __init__(self, code: ErrorCode, message: str, *, hint: str | None = None) -> None:
        super().__init__(message)
        self.code: ErrorCode = code
        self.kind = CODES[code].kind
        self.message = message
        self.hint = CODES[code].remedy if hint is None else hint

    @property
    def exit_code(self) -> int:
        return EXIT_CODES[self.kind]

    @property
    def retryable(self) -> bool:
        return self.kind in RETRYABLE

    def __str__(self) -> str:
        return f"[{self.code}] {self.message}" + (f"\n  hint: {self.hint}" if self.hint else "")


_REASON = re.compile(r"(?P<code>[A-Z_]+)(?: at (?P<place>line \d+, column \d+))?: (?P<message>.*)", re.DOTALL)


@dataclass(frozen=True, slots=True)
class Reason:
    """Why something was decided: a code for programs, a message for people, and for a definition the place in it.

    >>> str(Reason("SAMPLE", "TABLESAMPLE picks rows", "line 2, column 6"))
    'SAMPLE at line 2, column 6: TABLESAMPLE picks rows'
    """

    code: str
    message: str
    place: str = ""

    def __str__(self) -> str:
        at = f" at {self.place}" if self.place else ""
        return f"{self.code}{at}: {self.message}"

    def also(self, text: str) -> Reason:
        return replace(self, message=f"{self.message}; {text}")

    @classmethod
    def parse(cls, text: str) -> Reason:
        """A stored reason."""
        found = _REASON.fullmatch(text)
        return cls(text, text) if found is None else cls(found["code"], found["message"], found["place"] or "")


class NotIncremental(TrickleError):
    """A construct without a delta rule: a refusal in DIFFERENTIAL, a stored reason for FULL in AUTO.

    `reason` is a short upper-case name such as WINDOW; `place` is the line and column in the definition.
    """

    def __init__(self, reason: str, message: str, *, place: str = "") -> None:
        self.why = Reason(reason, message, place)
        super().__init__("NOT_INCREMENTAL", str(self.why))
        self.reason = reason
        self.place = place
