"""Spark SQL for sqlglot, with nothing translated.

sqlglot's own Spark dialect reads calls into an engine-neutral tree and writes them back in its favourite
spelling; on the way `to_date(s, fmt)` loses its format and `percentile_cont` becomes approximate. Here a call
is a name and its arguments (`exp.Anonymous`), a number keeps its suffix (`exp.Literal` with text `1L`), an
interval its text, a typed literal (`DATE '2024-01-01'`) its form; only syntax that is not a plain call (CAST,
EXTRACT, TRIM(... FROM ...)) has nodes of its own.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any, ClassVar

from sqlglot import exp, generator, parser
from sqlglot.dialects.spark import Spark
from sqlglot.errors import ErrorLevel, ParseError
from sqlglot.generators.spark import SparkGenerator
from sqlglot.parsers.spark import SparkParser
from sqlglot.tokenizer_core import Token, TokenType

from spark_trickle.sql.pipe_syntax import BARE, Pipe, PipeGenerator, PipeParser, as_select
from spark_trickle.sql.tokens import TrickleTokenizer

_ESCAPES = {"0": "\0", "b": "\b", "n": "\n", "r": "\r", "t": "\t", "Z": "\x1a", "%": "\\%", "_": "\\_"}
_HEX_ESCAPES = {"u": 4, "U": 8}
_UNITS = frozenset(
    {"YEAR", "QUARTER", "MONTH", "WEEK", "DAY", "DAYOFYEAR", "HOUR", "MINUTE", "SECOND"}
    | {"MILLISECOND", "MICROSECOND", "NANOSECOND"}
)
_UNITS_WITH_PLURAL = _UNITS | {f"{unit}S" for unit in _UNITS}
# Functions whose first of three arguments is a unit, not a column.
_UNIT_FUNCTIONS = frozenset(
    {"DATEADD", "DATE_ADD", "TIMESTAMPADD", "DATEDIFF", "DATE_DIFF", "TIMEDIFF", "TIMESTAMPDIFF"}
)
# Functions with a second form in which keywords stand between the arguments.
_KEYWORD_FORMS = {
    "OVERLAY": {"PLACING"},
    "POSITION": {"IN"},
    "SUBSTR": {"FROM", "FOR"},
    "SUBSTRING": {"FROM", "FOR"},
    "TRIM": {"FROM"},
}
_STRINGS = (TokenType.STRING, TokenType.RAW_STRING)
_BIT_LEVELS: tuple[tuple[TokenType, type[exp.Expr]], ...] = (
    (TokenType.PIPE, exp.BitwiseOr),
    (TokenType.CARET, exp.BitwiseXor),
    (TokenType.AMP, exp.BitwiseAnd),
)


def string_value(source: str) -> str:
    """The value of a string literal as Spark reads it, quotes and prefix included in `source`."""
    if source[0] in "rR":
        return source[2:-1]
    quote = source[0]
    body = source[1:-1].replace(quote * 2, quote)
    out: list[str] = []
    at = 0
    while at < len(body):
        char = body[at]
        if char != "\\" or at + 1 == len(body):
            out.append(char)
            at += 1
            continue
        code = body[at + 1]
        digits = body[at + 2 : at + 2 + _HEX_ESCAPES.get(code, 0)]
        octal = body[at + 1 : at + 4]
        if len(digits) == _HEX_ESCAPES.get(code) and _is_number(digits, 16) and int(digits, 16) < 0x110000:
            out.append(chr(int(digits, 16)))
            at += 2 + len(digits)
        elif len(octal) == 3 and octal[0] in "01" and _is_number(octal, 8):
            out.append(chr(int(octal, 8)))
            at += 4
        else:
            out.append(_ESCAPES.get(code, code))
            at += 2
    # Two escapes can spell the two halves of one character, as in Java.
    return "".join(out).encode("utf-16", "surrogatepass").decode("utf-16", "replace")


def _is_number(digits: str, base: int) -> bool:
    return all(d in "0123456789abcdefABCDEF"[: 22 if base == 16 else base] for d in digits)


def string_literal(value: str) -> str:
    """A literal that Spark reads as `value`, whatever is in it."""
    return "'" + value.replace("\\", "\\\\").replace("'", "\\'").replace("\0", "\\u0000") + "'"


class TrickleParser(PipeParser, SparkParser):
    SUPPORTS_TABLE_QUERY = True
    ADD_JOIN_ON_TRUE = False  # a join without a condition stays one
    STRICT_CAST = True  # CAST is exp.Cast, TRY_CAST is exp.TryCast
    JOINS_HAVE_EQUAL_PRECEDENCE = False  # a comma stays a comma
    ARRAY_CONSTRUCTORS: ClassVar[dict[str, Any]] = {}  # array(a, b)[0] is an element of a call's result
    COLON_IS_VARIANT_EXTRACT = True

    FUNCTIONS: ClassVar[dict[str, Callable[..., Any]]] = {}
    FUNCTION_PARSERS: ClassVar[dict[str, Callable[..., Any]]] = {
        "CAST": lambda self: self._parse_cast(True),
        "TRY_CAST": lambda self: self._parse_cast(False, safe=True),
        "EXTRACT": lambda self: self._parse_extract(),
        "OVERLAY": lambda self: self._keyword_form("overlay", ("PLACING", "FROM", "FOR")),
        "POSITION": lambda self: self._keyword_form("position", ("IN",)),
        "SUBSTR": lambda self: self._keyword_form("substr", ("FROM", "FOR")),
        "SUBSTRING": lambda self: self._keyword_form("substring", ("FROM", "FOR")),
        "TRIM": lambda self: self._parse_trim(),
    }
    NO_PAREN_FUNCTION_PARSERS: ClassVar[dict[str, Callable[..., Any]]] = {
        "CASE": lambda self: self._parse_case(),
    }
    NO_PAREN_FUNCTIONS: ClassVar[dict[TokenType, Callable[..., exp.Expr]]] = {
        token: partial(exp.Anonymous, this=token.name.lower())
        for token in (
            TokenType.CURRENT_DATE,
            TokenType.CURRENT_TIMESTAMP,
            TokenType.CURRENT_USER,
            TokenType.SESSION_USER,
        )
    }

    RANGE_PARSERS: ClassVar[dict[TokenType, Callable[..., Any]]] = {  # no comprehensions: FOR follows a call in PIVOT
        token: parse for token, parse in SparkParser.RANGE_PARSERS.items() if token != TokenType.FOR
    }
    UNARY_PARSERS: ClassVar[dict[TokenType, Callable[..., Any]]] = {
        **SparkParser.UNARY_PARSERS,
        # Not nothing: it fails on what is not a number.
        TokenType.PLUS: lambda self: exp.Anonymous(this="positive", expressions=[self._parse_unary()]),
    }
    # `||` binds like `+`, and the bit operators have levels of their own (see _parse_bitwise).
    TERM: ClassVar[dict[TokenType, type[exp.Binary]]] = {**SparkParser.TERM, TokenType.DPIPE: exp.DPipe}

    def raise_error(self, message: str, token: Token | None = None) -> None:
        """Keep the offsets of the token: the base keeps a line and the column of the token's end."""
        at = token or self._curr or self._prev
        span = {"start": at.start, "end": at.end} if at else {}
        error = ParseError(message, [{"description": message, **span}])
        if self.error_level == ErrorLevel.IMMEDIATE:
            raise error
        self.errors.append(error)

    def _string(self, token: Token) -> exp.Expr:
        value = string_value(self.sql[token.start : token.end + 1])
        return self.expression(exp.Literal(this=value, is_string=True), token)

    STRING_PARSERS: ClassVar[dict[TokenType, Callable[..., Any]]] = {
        **SparkParser.STRING_PARSERS,
        TokenType.STRING: _string,
        TokenType.RAW_STRING: _string,
    }
    PRIMARY_PARSERS: ClassVar[dict[TokenType, Callable[..., Any]]] = {
        **SparkParser.PRIMARY_PARSERS,
        TokenType.STRING: _string,
        TokenType.RAW_STRING: _string,
    }

    def _adjacent_strings(self) -> exp.Expr | None:
        """Adjacent literals are one literal."""
        if not (self._curr.token_type in _STRINGS and self._next.token_type in _STRINGS):
            return None
        first, value = self._curr, ""
        while self._match_set(_STRINGS):
            value += self._string(self._prev).name
        return self.expression(exp.Literal(this=value, is_string=True), first)

    def _parse_atom(self) -> exp.Expr | None:
        return self._adjacent_strings() or super()._parse_atom()

    def _parse_primary(self) -> exp.Expr | None:
        return self._adjacent_strings() or super()._parse_primary()

    def _parse_bitwise(self) -> exp.Expr | None:
        """Spark's levels, from loose to tight: `|`, `^`, `&`, shifts."""
        return self._parse_bit_level(0)

    def _parse_bit_level(self, level: int) -> exp.Expr | None:
        if level == len(_BIT_LEVELS):
            return self._parse_shift()
        token, klass = _BIT_LEVELS[level]
        this = self._parse_bit_level(level + 1)
        while this and self._match(token):
            this = self.expression(klass(this=this, expression=self._parse_bit_level(level + 1)))
        return this

    def _parse_shift(self) -> exp.Expr | None:
        this = self._parse_term()
        while this:
            if self._match_pair(TokenType.LT, TokenType.LT):
                this = self.expression(exp.BitwiseLeftShift(this=this, expression=self._parse_term()))
            elif self._match_pair(TokenType.GT, TokenType.GT):
                unsigned = self._match(TokenType.GT)
                shift = exp.BitwiseRightShift(this=this, expression=self._parse_term())
                this = self.expression(shift)
                if unsigned:  # a >>> b is a call of this function in Spark, too
                    args = [shift.this, shift.expression]
                    this = self.expression(exp.Anonymous(this="shiftrightunsigned", expressions=args))
            else:
                break
        return this

    def _parse_select_query(self, *args: Any, **options: Any) -> exp.Expr | None:
        """`TABLE t` and `FROM t` are queries: marked, because a chain of pipes goes on with their FROM clause."""
        whole = self._curr.token_type in (TokenType.FROM, TokenType.TABLE)
        query = super()._parse_select_query(*args, **options)
        if whole and isinstance(query, exp.Select) and self._is_only_from(query):
            query.meta[BARE] = True
        if isinstance(query, exp.Values) and self._match(TokenType.PIPE_GT, advance=False):
            return as_select(query)
        return query

    @staticmethod
    def _is_only_from(query: exp.Select) -> bool:
        given = {arg for arg, value in query.args.items() if value}
        return given <= {"expressions", "from_", "joins", "laterals"} and query.is_star and len(query.expressions) == 1

    def _parse_pivot_aggregation(self) -> exp.Expr | None:
        return self._parse_alias(self._parse_disjunction())

    def _parse_group(self, skip_group_by_token: bool = False) -> exp.Group | None:
        """ALL is a name like any other: a column of that name goes before GROUP BY ALL."""
        start = self._next
        group = super()._parse_group(skip_group_by_token)
        if group and group.args.get("all"):
            group.set("all", None)
            group.set("expressions", [_all(start), *group.expressions])
        return group

    def _parse_ordered(self, parse_method: Callable[[], Any] | None = None) -> exp.Ordered | None:
        start = self._curr
        ordered = super()._parse_ordered(parse_method)
        if ordered and isinstance(ordered.this, exp.Var) and ordered.this.name.upper() == "ALL":
            ordered.set("this", _all(start))
        return ordered

    def _parse_function_call(
        self,
        functions: dict[str, Callable[..., Any]] | None = None,
        anonymous: bool = False,
        optional_parens: bool = True,
        any_token: bool = False,
    ) -> exp.Expr | None:
        token = self._curr
        name = token.text.upper() if token else ""
        if name == "EXISTS" and self._starts_query(self._index + 1):
            self._advance(2)
            found = self.expression(exp.Exists(this=self._parse_select()), token)
            self._match_r_paren(found)
            return found
        if name in _KEYWORD_FORMS and not self._has_keyword(_KEYWORD_FORMS[name]):
            anonymous = True
        result = super()._parse_function_call(functions, anonymous, optional_parens, any_token)
        call = result
        while isinstance(call, (exp.Window, exp.Filter, exp.WithinGroup, exp.IgnoreNulls, exp.RespectNulls)):
            call = call.this
        if isinstance(call, exp.Expr) and "start" not in call.meta:
            call.update_positions(token)
        if isinstance(call, exp.Anonymous) and name in _UNIT_FUNCTIONS and len(call.expressions) == 3:
            unit = call.expressions[0]
            if isinstance(unit, exp.Column) and not unit.table and unit.name.upper() in _UNITS:
                unit.replace(exp.Var(this=unit.name).update_positions(unit.this))
        return result

    def _starts_query(self, at: int) -> bool:
        """Whether `(TABLE`, `(FROM` or `(VALUES` stands at this token: sqlglot knows SELECT and WITH."""
        pair = [t.token_type for t in self._tokens[at : at + 2]]
        return pair[:1] == [TokenType.L_PAREN] and pair[1] in (TokenType.TABLE, TokenType.FROM, TokenType.VALUES)

    def _has_keyword(self, keywords: set[str]) -> bool:
        """Whether a keyword stands between the arguments of the call that starts here."""
        depth = 0
        for token in self._tokens[self._index + 1 :]:
            if token.token_type == TokenType.L_PAREN:
                depth += 1
            elif token.token_type == TokenType.R_PAREN:
                depth -= 1
            if depth == 0:
                return False
            if depth == 1 and token.token_type != TokenType.IDENTIFIER and token.text.upper() in keywords:
                return True
        return False

    def _keyword_form(self, name: str, keywords: tuple[str, ...]) -> exp.Expr:
        """`substring(s FROM 2 FOR 3)` is the call `substring(s, 2, 3)`."""
        args = [self._parse_term()]
        while self._match_texts(keywords):
            args.append(self._parse_bitwise())
        return self.expression(exp.Anonymous(this=name, expressions=args))

    def _parse_colon_as_variant_extract(self, this: exp.Expr | None) -> exp.Expr | None:
        """`v:a.b[0]` keeps its path as text; a cast after it is a column operator like any other."""
        while self._match(TokenType.COLON):
            start = self._curr.start if self._curr else 0
            self._advance()
            while True:
                if self._match(TokenType.DOT):
                    self._advance()
                elif self._match(TokenType.L_BRACKET):
                    while self._curr and not self._match(TokenType.R_BRACKET):
                        self._advance()
                else:
                    break
            path = exp.Var(this=self.sql[start : self._prev.end + 1])
            this = self.expression(exp.JSONExtract(this=this, expression=path, variant_extract=True))
            this = self._parse_column_ops(this)
        return this

    def _parse_interval(self, require_interval: bool = True, parse_function_unit: bool = True) -> Any:  # noqa: ARG002
        """An interval literal as one node; its `this` is the text after INTERVAL.

        Spark takes literals only: INTERVAL '1-2' YEAR TO MONTH, INTERVAL 1 DAY 2 HOURS, INTERVAL '1 day'.
        """
        index = self._index
        if not self._match(TokenType.INTERVAL):
            return None
        first = self._prev
        parts: list[str] = []
        while True:
            before = self._index
            sign = self._prev.text if self._match_set((TokenType.DASH, TokenType.PLUS)) else ""
            if not self._match_set((*_STRINGS, TokenType.NUMBER)):
                self._retreat(before)
                break
            token = self._prev
            number = token.token_type == TokenType.NUMBER
            value = token.text if number else string_literal(self._string(token).name)
            has_unit = self._curr and self._curr.text.upper() in _UNITS_WITH_PLURAL
            if not has_unit and (parts or number):
                self._retreat(before)
                break
            parts.append(sign + value)
            if not has_unit:
                break
            self._advance()
            parts.append(self._prev.text.upper())
            if self._match_text_seq("TO"):
                parts += ["TO", self._curr.text.upper()]
                self._advance()
                break
        if not parts:
            self._retreat(index)
            return None
        return self.expression(exp.Interval(this=exp.Var(this=" ".join(parts))), first)

    def _parse_types(
        self,
        check_func: bool = False,
        schema: bool = False,
        allow_identifiers: bool = True,
        with_collation: bool = False,
    ) -> exp.Expr | None:
        if allow_identifiers and self._match_text_seq("VOID"):
            return self.expression(exp.DataType(this=exp.DType.NULL), self._prev)
        # Not Hive's version, which drops the length of CHAR and VARCHAR.
        return parser.Parser._parse_types(self, check_func, schema, allow_identifiers, with_collation)

    def _parse_type(self, parse_interval: bool = True, fallback_to_identifier: bool = False) -> exp.Expr | None:
        """Typed literals: a cast marked as one, so that it is written as it was read."""
        keyword, literal = self._curr, self._next
        typed = (
            keyword and literal and keyword.token_type in parser.Parser.TYPE_TOKENS and literal.token_type in _STRINGS
        )
        if not typed or keyword.token_type == TokenType.INTERVAL:
            return super()._parse_type(parse_interval, fallback_to_identifier)
        to = self._parse_types(check_func=False, allow_identifiers=False)
        self._advance()
        node = exp.Cast(this=self._string(self._prev), to=to, action=exp.Var(this="LITERAL"))
        return self._parse_column_ops(self.expression(node, keyword))


def _all(token: Token) -> exp.Column:
    return exp.Column(this=exp.Identifier(this=token.text, quoted=False).update_positions(token))


def _infix(operator: str) -> Callable[[generator.Generator, exp.Binary], str]:
    return lambda self, node: self.binary(node, operator)


class TrickleGenerator(PipeGenerator, SparkGenerator):
    # The base generator's, which writes trees as they are; Spark's rewrites whole SELECTs.
    TRANSFORMS: ClassVar[dict[type[exp.Expr], Callable[..., str]]] = {
        **generator.Generator.TRANSFORMS,
        exp.IntDiv: _infix("DIV"),
        exp.JSONExtract: lambda self, node: f"{self.sql(node, 'this')}:{node.expression.name}",
        exp.NullSafeEQ: _infix("<=>"),
        exp.RegexpLike: _infix("RLIKE"),
        Pipe: lambda self, node: self.pipe(node),
    }
    TABLESAMPLE_SEED_KEYWORD = "REPEATABLE"
    EXPRESSIONS_WITHOUT_NESTED_CTES: ClassVar[set[type[exp.Expr]]] = set()
    TYPE_MAPPING: ClassVar[dict[exp.DType, str]] = {
        **SparkGenerator.TYPE_MAPPING,
        exp.DType.NULL: "VOID",
        exp.DType.TIME: "TIME",
    }

    def literal_sql(self, expression: exp.Literal) -> str:
        return string_literal(expression.name) if expression.is_string else expression.name

    def interval_sql(self, expression: exp.Interval) -> str:
        return f"INTERVAL {expression.name}"

    def cast_sql(self, expression: exp.Cast, safe_prefix: str | None = None) -> str:
        to = self.sql(expression, "to")
        value = self.sql(expression, "this")
        if expression.args.get("action"):
            return f"{to} {value}"
        return f"{safe_prefix or ''}CAST({value} AS {to})"

    def trycast_sql(self, expression: exp.TryCast) -> str:
        return self.cast_sql(expression, safe_prefix="TRY_")

    def datatype_sql(self, expression: exp.DataType) -> str:
        return generator.Generator.datatype_sql(self, expression)

    def not_sql(self, expression: exp.Not) -> str:
        test = expression.this
        if isinstance(test, exp.Is) and not test.args.get("negate"):
            return f"{self.sql(test, 'this')} IS NOT {self.sql(test, 'expression')}"
        return super().not_sql(expression)

    def trim_sql(self, expression: exp.Trim) -> str:
        parts = [self.sql(expression, key) for key in ("position", "expression")]
        return f"TRIM({' '.join(p for p in (*parts, 'FROM', self.sql(expression, 'this')) if p)})"

    def hexstring_sql(self, expression: exp.HexString, binary_function_repr: str | None = None) -> str:  # noqa: ARG002
        return f"X'{expression.name}'"

    def bracket_sql(self, expression: exp.Bracket) -> str:
        return generator.Generator.bracket_sql(self, expression)


_OPERATORS = (
    *(exp.Add, exp.Sub, exp.Mul, exp.Div, exp.IntDiv, exp.Mod, exp.DPipe, exp.Neg),
    *(
        exp.BitwiseAnd,
        exp.BitwiseOr,
        exp.BitwiseXor,
        exp.BitwiseNot,
        exp.BitwiseLeftShift,
        exp.BitwiseRightShift,
    ),
    *(exp.EQ, exp.NEQ, exp.GT, exp.GTE, exp.LT, exp.LTE, exp.NullSafeEQ, exp.NullSafeNEQ),
    *(exp.And, exp.Or, exp.Not, exp.Is, exp.In, exp.Between, exp.Like, exp.ILike, exp.RegexpLike),
)


class ExplicitGenerator(TrickleGenerator):
    """Writes the shape of the tree: brackets wherever an operator is inside another.

    A tree that binds `a | b & c` wrongly would be written back without brackets, letter for letter; only the
    brackets show Spark what we understood. Likewise joins are a flat list in the tree, commas included, as they
    are in Spark unless spark.sql.ansi.relationPrecedence is set: a CROSS JOIN says so.
    """

    def sql(self, expression: Any, key: str | None = None, comment: bool = True) -> str:
        text = super().sql(expression, key, comment)
        if key is None and isinstance(expression, _OPERATORS) and isinstance(expression.parent, _OPERATORS):
            return f"({text})"
        return text

    def join_sql(self, expression: exp.Join, join_op: str | None = None) -> str:
        text = super().join_sql(expression, join_op)
        return f" CROSS JOIN {text[2:]}" if text.startswith(", ") else text


class Trickle(Spark):
    Tokenizer = TrickleTokenizer
    Parser = TrickleParser
    Generator = TrickleGenerator


class Explicit(Trickle):
    Generator = ExplicitGenerator


DIALECT = Trickle()
EXPLICIT = Explicit()
