"""Pipe syntax, `query |> operator |> operator`: its nodes, how they are parsed and written.

A chain stays a chain in the tree, so that the round-trip guard compares what the user wrote. `sql/pipes.py` lowers it.
"""

from __future__ import annotations

from typing import ClassVar, TypeGuard

from sqlglot import exp, generator, parser
from sqlglot.tokenizer_core import TokenType

# A query that is only a FROM clause, `FROM t` or `TABLE t`: a SELECT * in the tree, marked with this in its meta data.
BARE = "bare"


class Pipe(exp.Select):
    """`this |> expression`. To sqlglot it is a SELECT, a query that needs no brackets of its own."""

    arg_types: ClassVar[dict[str, bool]] = {"with_": False, "this": True, "expression": True, **exp.QUERY_MODIFIERS}


class Extend(exp.Expression):
    arg_types: ClassVar[dict[str, bool]] = {"expressions": True}


class SetColumns(exp.Expression):
    """The expressions are aliases: `SET a = b` is the alias a of b."""

    arg_types: ClassVar[dict[str, bool]] = {"expressions": True}


class DropColumns(exp.Expression):
    arg_types: ClassVar[dict[str, bool]] = {"expressions": True}


class Rename(exp.Expression):
    """`AS name`."""


class Totals(exp.Expression):
    """`AGGREGATE expressions GROUP BY keys`."""

    arg_types: ClassVar[dict[str, bool]] = {"expressions": False, "keys": False}


class Bounds(exp.Expression):
    arg_types: ClassVar[dict[str, bool]] = {"limit": False, "offset": False}


# What a SELECT or the right side of a set operation takes with it though it belongs to the whole query.
_OF_THE_WHOLE = ("order", "limit", "offset", "sort", "cluster", "distribute")


class PipeParser(parser.Parser):
    """A part of the dialect's parser."""

    def _parse_select(
        self,
        nested: bool = False,
        table: bool = False,
        parse_subquery_alias: bool = True,
        parse_set_operation: bool = True,
        consume_pipe: bool = True,
    ) -> exp.Expr | None:
        """A chain goes on from a whole query, never from one table of a FROM clause."""
        consume_pipe = consume_pipe and not table
        return super()._parse_select(nested, table, parse_subquery_alias, parse_set_operation, consume_pipe)

    def _parse_pipe_syntax_query(self, query: exp.Query) -> exp.Query | None:
        """The chain after a query; a set operation may follow, and another chain after that."""
        whole: exp.Expr | None = query
        while isinstance(whole, exp.Query) and self._match(TokenType.PIPE_GT):
            whole = self._pipe_operator(whole)
            if self._match_set(self.SET_OPERATIONS, advance=False):
                whole = self._parse_set_operations(_operand(whole))
        whole = self._parse_query_modifiers(whole)
        return whole if isinstance(whole, exp.Query) else None

    def _parse_statement(self) -> exp.Expr | None:
        return self._piped(super()._parse_statement())

    def _parse_wrapped_select(self, table: bool = False) -> exp.Expr | None:
        return self._piped(super()._parse_wrapped_select(table))

    def _piped(self, query: exp.Expr | None) -> exp.Expr | None:
        """A chain after what sqlglot does not expect one after: a set operation of queries in brackets."""
        if isinstance(query, exp.Query) and self._match(TokenType.PIPE_GT, advance=False):
            return self._parse_pipe_syntax_query(query)
        return query

    def _pipe_operator(self, query: exp.Query) -> exp.Query:
        start = self._curr
        if operation := self.parse_set_operation(_operand(query)):
            _move_modifiers(operation.expression, operation)
            return operation
        operator = self._pipe_clause()
        if operator is None:
            self.raise_error(f"Unknown pipe operator {start.text}", start)
        pipe = self.expression(Pipe(this=query, expression=operator))
        if isinstance(operator, exp.Select):
            _move_modifiers(operator, pipe)
        return pipe

    def _pipe_clause(self) -> exp.Expr | None:
        if self._match(TokenType.SELECT, advance=False):
            return self._parse_select(parse_set_operation=False, consume_pipe=False)
        if self._match_text_seq("EXTEND"):
            return self.expression(Extend(expressions=self._parse_expressions()))
        if self._match(TokenType.SET):
            return self.expression(SetColumns(expressions=self._parse_csv(self._assigned)))
        if self._match(TokenType.DROP):
            return self.expression(DropColumns(expressions=self._parse_csv(self._parse_id_var)))
        if self._match(TokenType.ALIAS):
            return self.expression(Rename(this=self._parse_id_var()))
        if self._match_text_seq("AGGREGATE"):
            grouped = self._match(TokenType.GROUP_BY, advance=False)
            expressions = [] if grouped else self._parse_expressions()
            keys = self._parse_expressions() if self._match(TokenType.GROUP_BY) else None
            return self.expression(Totals(expressions=expressions, keys=keys))
        limit, offset = self._parse_limit(), self._parse_offset()
        if limit or offset:
            return self.expression(Bounds(limit=limit, offset=offset))
        return (
            self._parse_where()
            or self._parse_order()
            or self._parse_sort(exp.Sort, TokenType.SORT_BY)
            or self._parse_sort(exp.Cluster, TokenType.CLUSTER_BY)
            or self._parse_sort(exp.Distribute, TokenType.DISTRIBUTE_BY)
            or self._parse_pivot()
            or self._parse_table_sample()
            or self._parse_join()
        )

    def _assigned(self) -> exp.Expr:
        name = self._parse_id_var()
        if not self._match(TokenType.EQ):
            self.raise_error("An = is expected after the column that SET assigns")
        return self.expression(exp.Alias(this=self._parse_disjunction(), alias=name))


def _operand(query: exp.Query) -> exp.Expr:
    """The left side of a set operation in a chain: all that stands before it."""
    return query.subquery(copy=False) if isinstance(query, exp.SetOperation | Pipe) else query


def _move_modifiers(part: exp.Expr, whole: exp.Expr) -> None:
    for arg in _OF_THE_WHOLE:
        if part.args.get(arg) is not None:
            whole.set(arg, part.args[arg].pop())


class PipeGenerator(generator.Generator):
    """A part of the dialect's generator."""

    def pipe(self, expression: Pipe) -> str:
        base, operator = expression.this, expression.expression
        left = self._from_sql(base) if base.meta.get(BARE) else self.sql(base)
        text = self.query_modifiers(expression, f"{left} |> {self._operator_sql(operator).strip()}")
        return self.prepend_ctes(expression, text)

    def _from_sql(self, select: exp.Expr) -> str:
        parts = [select.args["from_"], *(select.args.get("joins") or ()), *(select.args.get("laterals") or ())]
        return "".join(self.sql(p) for p in parts)

    def _operator_sql(self, node: exp.Expr) -> str:
        listed = self.expressions(node, flat=True)
        match node:
            case Extend():
                return f"EXTEND {listed}"
            case SetColumns():
                return "SET " + ", ".join(f"{self.sql(e, 'alias')} = {self.sql(e, 'this')}" for e in node.expressions)
            case DropColumns():
                return f"DROP {listed}"
            case Rename():
                return f"AS {self.sql(node, 'this')}"
            case Totals():
                keys = self.expressions(node, key="keys", flat=True)
                return f"AGGREGATE {listed}" + (f" GROUP BY {keys}" if keys else "")
            case Bounds():
                return f"{self.sql(node, 'limit')}{self.sql(node, 'offset')}"
            case _:
                return self.sql(node)


def as_select(values: exp.Values) -> exp.Select:
    """VALUES as a query: ORDER BY and LIMIT are of the query."""
    select = exp.Select(expressions=[exp.Star()])
    _move_modifiers(values, select)
    select.set("from_", exp.From(this=values))
    return select


def is_bare(node: exp.Expr) -> TypeGuard[exp.Select]:
    return isinstance(node, exp.Select) and bool(node.meta.get(BARE))
