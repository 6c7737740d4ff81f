"""The words of a text, as Spark sees them."""

from __future__ import annotations

from typing import ClassVar

from sqlglot.dialects.spark import Spark
from sqlglot.tokenizer_core import Token, TokenType

# Words that start or join clauses. Spark lets them be names wherever no clause can start.
_CLAUSES = frozenset(
    [
        *(TokenType.JOIN, TokenType.LEFT, TokenType.RIGHT, TokenType.FULL, TokenType.INNER, TokenType.OUTER),
        *(TokenType.CROSS, TokenType.NATURAL, TokenType.SEMI, TokenType.ANTI, TokenType.ON, TokenType.USING),
        *(TokenType.SELECT, TokenType.FROM, TokenType.WHERE, TokenType.HAVING, TokenType.WINDOW, TokenType.LIMIT),
        *(TokenType.UNION, TokenType.EXCEPT, TokenType.INTERSECT, TokenType.WITH, TokenType.SET, TokenType.TABLE),
        *(TokenType.VALUES, TokenType.PIVOT, TokenType.UNPIVOT, TokenType.LATERAL, TokenType.CASE, TokenType.END),
        *(TokenType.DISTINCT, TokenType.ALL, TokenType.EXISTS, TokenType.NOT, TokenType.AND, TokenType.OR),
    ]
)
_TABLE_FOLLOWS = (TokenType.FROM, TokenType.JOIN)
_STARTS_TABLE = (TokenType.LATERAL, TokenType.VALUES, TokenType.TABLE, TokenType.SELECT, TokenType.FROM, TokenType.WITH)


def _is_name(before: Token | None, token: Token, after: Token | None) -> bool:
    """Whether a word of a clause is a name here: beside a dot, after AS, or where a table must stand."""
    if token.token_type not in _CLAUSES:
        return False
    if (before and before.token_type == TokenType.DOT) or (after and after.token_type == TokenType.DOT):
        return True
    if before is None or (after and after.token_type == TokenType.L_PAREN):
        return False
    table = before.token_type in _TABLE_FOLLOWS and token.token_type not in _STARTS_TABLE
    return table or before.token_type == TokenType.ALIAS


class TrickleTokenizer(Spark.Tokenizer):
    # A doubled quote is a quote. Values are read from the source text by string_value, not from here.
    STRING_ESCAPES: ClassVar[list[str]] = ["\\", "'", '"']
    COMMANDS: ClassVar[set[TokenType]] = set()  # no statement swallows the rest of the text as one string

    def tokenize(self, sql: str) -> list[Token]:
        """Number suffixes stay on the number; the base splits 1L into 1 :: BIGINT, all at one place.

        `window(` is a call: the clause has a name after the word.
        """
        merged: list[Token] = []
        for token in super().tokenize(sql):
            last = merged[-1] if merged else None
            if last and last.token_type == TokenType.NUMBER and token.start == last.start:
                last.text = sql[token.start : token.end + 1]
                continue
            if last and last.token_type == TokenType.WINDOW and token.token_type == TokenType.L_PAREN:
                last.token_type = TokenType.VAR
            merged.append(token)
        for before, token, after in zip([None, *merged], merged, [*merged[1:], None], strict=False):
            if _is_name(before, token, after):
                token.token_type = TokenType.VAR
        return merged
