"""SQL text to tree and back, and places in the text for messages."""

from __future__ import annotations

import re
from dataclasses import dataclass
from enum import StrEnum

from sqlglot import exp
from sqlglot.errors import ErrorLevel, ParseError, SqlglotError, TokenError
from sqlglot.tokenizer_core import TokenType

from spark_trickle.errors import ErrorCode, TrickleError
from spark_trickle.sql.dialect import DIALECT, EXPLICIT
from spark_trickle.sql.pipe_syntax import as_select

_NOT_A_QUERY = "A query is expected, one that starts with SELECT or WITH"
_QUERY_WORDS = frozenset({"SELECT", "WITH", "FROM", "TABLE", "VALUES", "("})
_STRINGS = (TokenType.STRING, TokenType.RAW_STRING, TokenType.HEX_STRING)


class WordKind(StrEnum):
    WORD = "word"  # a keyword or a bare name
    QUOTED = "quoted"  # a name in backticks
    STRING = "string"
    OTHER = "other"  # numbers, operators, brackets


@dataclass(frozen=True, slots=True)
class Word:
    """A token of a text. `text` is as written, for QUOTED the name without backticks; `end` is exclusive."""

    kind: WordKind
    text: str
    start: int
    end: int

    @property
    def upper(self) -> str:
        """For comparing with keywords: a name in backticks or a string is never one."""
        return self.text.upper() if self.kind in (WordKind.WORD, WordKind.OTHER) else ""


def words(text: str) -> tuple[Word, ...]:
    """The tokens of a text, without comments."""
    found: list[Word] = []
    try:
        tokens = DIALECT.tokenize(text)
    except TokenError as error:
        raise _token_error(error, text) from None
    for token in tokens:
        source = text[token.start : token.end + 1]
        if token.token_type == TokenType.IDENTIFIER:
            name = source[1:-1].replace("``", "`")
            found.append(Word(WordKind.QUOTED, name, token.start, token.end + 1))
        elif token.token_type in _STRINGS:
            found.append(Word(WordKind.STRING, source, token.start, token.end + 1))
        else:
            # Some keywords are one token of several words: GROUP BY.
            for match in re.finditer(r"\S+", source):
                # A name may start with a digit: shop.2024_orders.
                named = match[0][0].isalpha() or match[0][0] == "_" or token.token_type == TokenType.VAR
                kind = WordKind.WORD if named else WordKind.OTHER
                found.append(Word(kind, match[0], token.start + match.start(), token.start + match.end()))
    return tuple(found)


def parse_query(text: str) -> exp.Query:
    """The tree of one query; anything else is a SYNTAX_ERROR that marks its place."""
    tokens = words(text)
    if not tokens:
        raise TrickleError("SYNTAX_ERROR", "The text is empty; a query is expected.", hint="Write a SELECT.")
    if tokens[0].upper not in _QUERY_WORDS:
        raise syntax_error(_NOT_A_QUERY, text, tokens[0].start, tokens[0].end)
    last = len(tokens)
    while last and tokens[last - 1].text == ";":
        last -= 1
    for at, token in enumerate(tokens[:last]):
        if token.text == ";" and token.kind is WordKind.OTHER:
            after = tokens[at + 1]
            raise syntax_error("Here starts another statement; one is expected", text, after.start, after.end)
    try:
        trees = DIALECT.parse(text, error_level=ErrorLevel.IMMEDIATE)
    except ParseError as error:
        what = error.errors[0] if error.errors else {}
        start, end = what.get("start", 0), what.get("end", len(text) - 1)
        raise syntax_error(_plain(str(what.get("description") or error)), text, start, end + 1) from None
    except RecursionError:
        hint = "Split it into views."
        raise TrickleError("SYNTAX_ERROR", "The query is nested too deeply to be parsed.", hint=hint) from None
    tree = trees[0] if trees else None
    if isinstance(tree, exp.Values):
        tree = as_select(tree)
    if not isinstance(tree, exp.Query):
        raise syntax_error(_NOT_A_QUERY, text, tokens[0].start, tokens[0].end)
    if into := tree.find(exp.Into):
        raise TrickleError("SYNTAX_ERROR", f"SELECT INTO is not a query: {render(into)}")
    return tree


def render(tree: exp.Expr, *, pretty: bool = False, explicit: bool = False) -> str:
    """Spark SQL of a tree. `explicit` brackets every operator inside another: for the guard."""
    dialect = EXPLICIT if explicit else DIALECT
    try:
        return dialect.generate(
            tree,
            comments=False,
            normalize_functions=False,
            pretty=pretty,
            unsupported_level=ErrorLevel.RAISE,
        )
    except (SqlglotError, ValueError) as error:
        raise TrickleError("SYNTAX_ERROR", f"The query cannot be written back as SQL: {error}") from None


def place(node: exp.Expr, text: str) -> str:
    """Where a node stands in the text it was parsed from, as "line 3, column 14"; "" if unknown."""
    starts = [n.meta["start"] for n in node.walk() if "start" in n.meta]
    return at_offset(text, min(starts)) if starts and min(starts) < len(text) else ""


def at_offset(text: str, offset: int) -> str:
    line, column, _ = _line_of(text, offset)
    return f"line {line}, column {column}"


def mark(text: str, start: int, end: int) -> str:
    """The line of a span with the span underlined, indented for a message."""
    _, column, line = _line_of(text, start)
    width = max(1, min(end - start, len(line) - column + 1))
    gap = "".join("\t" if char == "\t" else " " for char in line[: column - 1])
    return f"  {line}\n  {gap}{'^' * width}"


def syntax_error(
    message: str, text: str, start: int, end: int, *, code: ErrorCode = "SYNTAX_ERROR", hint: str | None = None
) -> TrickleError:
    what = message.rstrip(".")
    return TrickleError(code, f"{what}, at {at_offset(text, start)}:\n{mark(text, start, end)}", hint=hint)


def _line_of(text: str, offset: int) -> tuple[int, int, str]:
    before = re.split(r"\r\n|\r|\n", text[:offset])
    rest = re.split(r"\r\n|\r|\n", text[offset:])[0]
    return len(before), len(before[-1]) + 1, before[-1] + rest


def _plain(message: str) -> str:
    """sqlglot's message without the words of its inside."""
    if message.startswith("Required keyword"):
        return "Something is missing here"
    if message.startswith("Invalid expression"):
        return "This is not expected here"
    return message


def _token_error(error: TokenError, text: str) -> TrickleError:
    # sqlglot gives "Missing ' from <line>:<offset>" inside a longer message.
    found = re.search(r"Missing (\S+) from \d+:(\d+)", f"{error} {error.__cause__}")
    if not found:
        return TrickleError("SYNTAX_ERROR", f"The text cannot be read: {error}")
    start = min(int(found[2]), max(len(text) - 1, 0))
    return syntax_error(f"A closing {found[1]} is missing", text, start, start + 1)
