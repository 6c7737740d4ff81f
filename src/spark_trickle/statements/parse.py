"""STREAM TABLE statements: text to data (`FORMS` has the grammar). Any other statement is Spark's."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import NoReturn, TypeVar

from spark_trickle.errors import TrickleError
from spark_trickle.model import Mode, PartitionField, SortField, Star, TableOptions
from spark_trickle.sql.dialect import string_value
from spark_trickle.sql.parse import Word, WordKind, syntax_error, words
from spark_trickle.statements.data import (
    AlterStreamTable,
    CreateStreamTable,
    CreateStreamTables,
    DescribeStreamTable,
    DropStreamTable,
    ExplainStreamTable,
    Name,
    RefreshStreamTable,
    ResumeStreamTable,
    Settings,
    ShowStreamTables,
    Statement,
    SuspendStreamTable,
)

T = TypeVar("T")

_MODES = "AUTO|DIFFERENTIAL|FULL"
_STARS = "PIN|FOLLOW"
_TRANSFORMS = ("year", "month", "day", "hour", "bucket", "truncate")
FORMS = {
    "CREATE": "CREATE [OR REPLACE] STREAM TABLE [IF NOT EXISTS] name [SCHEDULE '…'] "
    f"[MODE {_MODES}] [STAR {_STARS}] [SET ('key' = 'value', …)] [INITIALIZE TRUE|FALSE] "
    "[PARTITIONED BY (column | year|month|day|hour(column) | bucket|truncate(n, column), …)] "
    "[CLUSTER BY (column [DESC], …)] [COMMENT '…'] [TBLPROPERTIES ('key' = 'value', …)] AS SELECT …",
    "ALTER": f"ALTER STREAM TABLE name [SET SCHEDULE '…'] [SET MODE {_MODES}] [SET STAR {_STARS}] "
    "[SET ('key' = 'value', …)] [AS SELECT …], or ALTER STREAM TABLE name SUSPEND | RESUME",
    "DROP": "DROP STREAM TABLE [IF EXISTS] name [CASCADE]",
    "REFRESH": f"REFRESH STREAM TABLE name [MODE {_MODES} | FULL]",
    "SHOW": "SHOW STREAM TABLES",
    "DESCRIBE": "DESCRIBE STREAM TABLE name",
    "EXPLAIN": "EXPLAIN STREAM TABLE name",
}


def parse_statement(text: str) -> Statement | None:
    """The statement, or None when the text is not about stream tables and goes to Spark unchanged."""
    try:
        tokens = words(text)
    except TrickleError:
        # Spark has the word on text that is not even tokens, unless it clearly begins like one of ours.
        tokens = _words_before_error(text)
        if _verb(tokens) is None:
            return None
        raise
    verb = _verb(tokens)
    if verb is None:
        return None
    parts = _parts(tokens)
    if len(parts) > 1 and all(_verb(part) == "CREATE" for part in parts):
        return CreateStreamTables(tuple(_Reader(text, part, "CREATE").created() for part in parts))
    return _Reader(text, tokens, verb).statement()


def _parts(tokens: tuple[Word, ...]) -> list[tuple[Word, ...]]:
    """The statements of a list, without the semicolons between them."""
    found: list[list[Word]] = [[]]
    for token in tokens:
        if token.text == ";" and token.kind is WordKind.OTHER:
            found.append([])
        else:
            found[-1].append(token)
    return [tuple(part) for part in found if part]


def query_in_place(text: str) -> str:
    """The query of a text that is one, or a CREATE or ALTER STREAM TABLE with one, at its own lines and columns."""
    statement = parse_statement(text)
    if statement is not None:
        query = getattr(statement, "query", None)
        if query is None:
            raise TrickleError("INVALID_STATEMENT", "there is no query in this statement", hint="Give a query.")
        start = text.rindex(query)
        text = re.sub(r"[^\r\n]", " ", text[:start]) + text[start:]
    tokens = words(text)
    last = len(tokens)
    while last and tokens[last - 1].text == ";":
        last -= 1
    return text[: tokens[last - 1].end] if last else text


def _words_before_error(text: str) -> tuple[Word, ...]:
    head = min((at for at in (text.find(quote) for quote in "'\"`") if at >= 0), default=0)
    try:
        return words(text[:head])
    except TrickleError:
        return ()


def _verb(tokens: tuple[Word, ...]) -> str | None:
    head = [token.upper for token in tokens[:5]]
    verb = "DESCRIBE" if head[:1] == ["DESC"] else "".join(head[:1])
    rest = head[3:] if head[:3] == ["CREATE", "OR", "REPLACE"] else head[1:]
    if verb not in FORMS or rest[:1] != ["STREAM"]:
        return None
    return verb if rest[1:2] == ["TABLES" if verb == "SHOW" else "TABLE"] else None


def table_options(
    partitioned_by: Sequence[str] = (),
    cluster_by: Sequence[str] = (),
    comment: str | None = None,
    properties: Mapping[str, str] | None = None,
) -> TableOptions:
    """Options given from Python or the command line: `table_options(["day(ts)"], ["region DESC"])`."""

    def read(texts: Sequence[str], one: Callable[[_Reader], T]) -> tuple[T, ...] | None:
        found = []
        for text in [texts] if isinstance(texts, str) else texts:
            tokens = words(text)
            if not tokens:
                raise TrickleError("INVALID_STATEMENT", "a column to partition or cluster by is empty")
            reader = _Reader(text, tokens, "CREATE")
            found.append(one(reader))
            if reader.next() is not None:
                reader.refuse("This is not expected here")
        return tuple(found) or None

    return TableOptions(
        read(partitioned_by, _Reader.partition),
        read(cluster_by, _Reader.sorting),
        comment,
        tuple((str(k), str(v)) for k, v in (properties or {}).items()),
    )


class _Reader:
    """Reads one statement from left to right; every refusal shows the form and the place."""

    def __init__(self, text: str, tokens: tuple[Word, ...], verb: str) -> None:
        self.text = text
        self.verb = verb
        end = len(tokens)
        while tokens[end - 1].text == ";" and tokens[end - 1].kind is WordKind.OTHER:
            end -= 1
        self.tokens = tokens[:end]
        self.at = 0

    def statement(self) -> Statement:
        self.at += 1
        result: Statement
        match self.verb:
            case "CREATE":
                result = self.create()
            case "ALTER":
                result = self.alter()
            case "DROP":
                self.at += 2
                if_exists = self.phrase("IF", "EXISTS")
                result = DropStreamTable(self.name(), if_exists, self.phrase("CASCADE"))
            case "REFRESH":
                self.at += 2
                result = self.refresh()
            case "SHOW":
                self.at += 2
                result = ShowStreamTables()
            case "DESCRIBE":
                self.at += 2
                result = DescribeStreamTable(self.name())
            case _:
                self.at += 2
                result = ExplainStreamTable(self.name())
        if self.at < len(self.tokens):
            self.refuse("This is not expected here")
        return result

    def created(self) -> CreateStreamTable:
        """One of a list."""
        self.at += 1
        start = self.at
        found = self.create()
        if found.or_replace or found.if_not_exists or not found.initialize:
            self.at = start
            self.refuse("OR REPLACE, IF NOT EXISTS and INITIALIZE FALSE are for one statement, not for a list of them")
        return found

    def create(self) -> CreateStreamTable:
        or_replace = self.phrase("OR", "REPLACE")
        self.at += 2
        start = self.at
        if_not_exists = self.phrase("IF", "NOT", "EXISTS")
        if or_replace and if_not_exists:
            self.at = start
            self.refuse("OR REPLACE and IF NOT EXISTS exclude each other")
        name = self.name()
        schedule: str | None = None
        mode: Mode | None = None
        initialize: bool | None = None  # None is TRUE, and not yet said
        star: Star | None = None
        settings: Settings = ()
        options = TableOptions()
        while not self.phrase("AS"):
            if schedule is None and self.phrase("SCHEDULE"):
                schedule = self.string()
            elif mode is None and self.phrase("MODE"):
                mode = self.mode()
            elif star is None and self.phrase("STAR"):
                star = self.star()
            elif not settings and self.phrase("SET"):
                settings = self.settings()
            elif initialize is None and self.phrase("INITIALIZE"):
                initialize = self.boolean()
            elif options.partitioned_by is None and self.phrase("PARTITIONED", "BY"):
                options = replace(options, partitioned_by=self.listed(self.partition))
            elif options.clustered_by is None and self.phrase("CLUSTER", "BY"):
                options = replace(options, clustered_by=self.listed(self.sorting))
            elif options.comment is None and self.phrase("COMMENT"):
                options = replace(options, comment=self.string())
            elif not options.properties and self.phrase("TBLPROPERTIES"):
                options = replace(options, properties=self.settings())
            else:
                self.refuse(
                    "Expected SCHEDULE, MODE, STAR, SET, INITIALIZE, PARTITIONED BY, CLUSTER BY, COMMENT, "
                    "TBLPROPERTIES (each once) or AS and a query"
                )
        query = self.query()
        filled = initialize is not False
        return CreateStreamTable(
            name, query, schedule, mode, or_replace, if_not_exists, filled, star, settings, options
        )

    def alter(self) -> Statement:
        self.at += 2
        name = self.name()
        if self.phrase("SUSPEND"):
            return SuspendStreamTable(name)
        if self.phrase("RESUME"):
            return ResumeStreamTable(name)
        schedule: str | None = None
        mode: Mode | None = None
        star: Star | None = None
        settings: Settings = ()
        query: str | None = None
        while self.at < len(self.tokens) and query is None:
            if schedule is None and self.phrase("SET", "SCHEDULE"):
                schedule = self.string()
            elif mode is None and self.phrase("SET", "MODE"):
                mode = self.mode()
            elif star is None and self.phrase("SET", "STAR"):
                star = self.star()
            elif not settings and self.tokens[self.at + 1 : self.at + 2] and self.phrase("SET"):
                settings = self.settings()
            elif self.phrase("AS"):
                query = self.query()
            else:
                self.refuse("Expected SET SCHEDULE, SET MODE, SET STAR, SET (…) (each once) or AS and a query")
        if schedule is None and mode is None and star is None and query is None and not settings:
            self.refuse(
                "Nothing to alter: expected SET SCHEDULE, SET MODE, SET STAR, SET (…), AS SELECT …, SUSPEND or RESUME"
            )
        return AlterStreamTable(name, query, schedule, mode, star, settings)

    def listed(self, read: Callable[[], T]) -> tuple[T, ...]:
        """`(term, …)`."""
        if not self.phrase("("):
            self.refuse("Expected columns in parentheses")
        found = [read()]
        while not self.phrase(")"):
            if not self.phrase(","):
                self.refuse("Expected , or )")
            found.append(read())
        return tuple(found)

    def partition(self) -> PartitionField:
        """A column, or a transform of one; the plural is what Spark calls the same."""
        start = self.next()
        name = ".".join(self.name())
        if not self.phrase("("):
            return PartitionField(name)
        transform = name.lower() if name.lower() in _TRANSFORMS else name.lower().removesuffix("s")
        if start is None or start.kind is not WordKind.WORD or transform not in _TRANSFORMS:
            self.at -= 1
            self.refuse(f"Expected one of {', '.join(_TRANSFORMS)}")
        argument = None
        if transform in ("bucket", "truncate"):
            number = self.next()
            if number is None or not number.text.isdigit() or not int(number.text):
                self.refuse(f"Expected a number above zero: {transform}(n, column)")
            argument = int(number.text)
            self.at += 1
            if not self.phrase(","):
                self.refuse("Expected , and a column")
        column = ".".join(self.name())
        if not self.phrase(")"):
            self.refuse("Expected )")
        return PartitionField(column, transform, argument)

    def sorting(self) -> SortField:
        column = ".".join(self.name())
        descending = self.phrase("DESC")
        if not descending:
            self.phrase("ASC")
        return SortField(column, descending)

    def settings(self) -> Settings:
        """`('key' = 'value', …)`, a key also without quotes."""
        if not self.phrase("("):
            self.refuse("Expected settings in parentheses: ('key' = 'value', …)")
        found: list[tuple[str, str]] = []
        while True:
            first = self.next()
            quoted = first is not None and first.kind is WordKind.STRING
            key = self.string() if quoted else ".".join(self.name())
            if not self.phrase("="):
                self.refuse("Expected = and a value in quotes")
            found.append((key, self.string()))
            if self.phrase(")"):
                break
            if not self.phrase(","):
                self.refuse("Expected , or )")
        twice = next((k for n, (k, _) in enumerate(found) if k in dict(found[:n])), None)
        if twice is not None:
            self.refuse(f"{twice} is set twice")
        return tuple(found)

    def refresh(self) -> RefreshStreamTable:
        name = self.name()
        if self.phrase("FULL"):
            return RefreshStreamTable(name, Mode.FULL)
        return RefreshStreamTable(name, self.mode() if self.phrase("MODE") else None)

    def phrase(self, *keywords: str) -> bool:
        ahead = tuple(token.upper for token in self.tokens[self.at : self.at + len(keywords)])
        if ahead != keywords:
            return False
        self.at += len(keywords)
        return True

    def name(self) -> Name:
        parts = [self.part()]
        while self.phrase("."):
            parts.append(self.part())
        return tuple(parts)

    def part(self) -> str:
        token = self.next()
        if token is None or token.kind not in (WordKind.WORD, WordKind.QUOTED) or not token.text:
            self.refuse("Expected a name")
        self.at += 1
        return token.text

    def string(self) -> str:
        token = self.next()
        if token is None or token.kind is not WordKind.STRING:
            self.refuse("Expected a string in quotes")
        self.at += 1
        return string_value(token.text)

    def mode(self) -> Mode:
        token = self.next()
        if token is None or token.upper not in Mode.__members__:
            self.refuse("Expected AUTO, DIFFERENTIAL or FULL")
        self.at += 1
        return Mode(token.upper)

    def star(self) -> Star:
        token = self.next()
        if token is None or token.upper not in Star.__members__:
            self.refuse("Expected PIN or FOLLOW")
        self.at += 1
        return Star(token.upper)

    def boolean(self) -> bool:
        token = self.next()
        if token is None or token.upper not in ("TRUE", "FALSE"):
            self.refuse("Expected TRUE or FALSE")
        self.at += 1
        return token.upper == "TRUE"

    def query(self) -> str:
        """The rest of the text, as written."""
        first = self.next()
        if first is None:
            self.refuse("Expected a query after AS")
        self.at = len(self.tokens)
        return self.text[first.start : self.tokens[-1].end]

    def next(self) -> Word | None:
        return self.tokens[self.at] if self.at < len(self.tokens) else None

    def refuse(self, message: str) -> NoReturn:
        token = self.next()
        end_of_text = self.tokens[-1].end
        start, end = (token.start, token.end) if token else (end_of_text, end_of_text + 1)
        hint = f"The form is: {FORMS[self.verb]}"
        raise syntax_error(message, self.text, start, end, code="INVALID_STATEMENT", hint=hint)
