"""Spark's rules for names, case by case. A test runs them in Spark and in our form; docs/names.md is written from them.

`means` spells out what Spark takes the example for, `other` what else it could have meant: the two give different rows.
"""

from __future__ import annotations

from dataclasses import dataclass

TABLES = {
    "t": "(1, 'a', 3), (1, 'b', 4), (2, 'a', 5), (2, null, 6), (null, 'c', 7) AS v(g, k, v)",
    "u": "(1, 10, 'x'), (2, 20, 'y'), (2, 21, 'z') AS v(g, w, z)",
    "every": "(1, 2), (1, 3), (2, 2) AS v(`all`, v)",
    "s": "(1, named_struct('g', 10, 'x', 5)), (2, named_struct('g', 20, 'x', 6)) AS v(g, s)",
}


@dataclass(frozen=True, slots=True)
class Rule:
    clause: str
    rule: str
    text: str
    means: str
    other: str


RULES = (
    # -- SELECT -------------------------------------------------------------------------------------------------------
    Rule(
        "SELECT",
        "An input column goes before an alias of the same select list.",
        "SELECT v + 10 AS v, v AS w FROM t",
        "SELECT t.v + 10 AS v, t.v AS w FROM t",
        "SELECT t.v + 10 AS v, t.v + 10 AS w FROM t",
    ),
    Rule(
        "SELECT",
        "An alias that is no input column is seen by the items after it.",
        "SELECT v + 10 AS x, x + 1 AS y FROM t",
        "SELECT t.v + 10 AS x, t.v + 11 AS y FROM t",
        "SELECT t.v + 10 AS x, t.v + 1 AS y FROM t",
    ),
    Rule(
        "SELECT",
        "An alias of the select list goes before a column of the query around.",
        "SELECT v, (SELECT max(y) FROM (SELECT w AS v, v AS y FROM u)) AS m FROM t",
        "SELECT v, (SELECT max(u.w) FROM u) AS m FROM t",
        "SELECT v, v AS m FROM t",
    ),
    Rule(
        "SELECT",
        "The parameter of a lambda goes before everything else.",
        "SELECT v + 10 AS x, transform(array(1), v -> v) AS y, transform(array(2), x -> x) AS z FROM t",
        "SELECT v + 10 AS x, array(1) AS y, array(2) AS z FROM t",
        "SELECT v + 10 AS x, array(v) AS y, array(v + 10) AS z FROM t",
    ),
    Rule(
        "SELECT",
        "Window functions see input columns, not aliases.",
        "SELECT -v AS v, sum(v) OVER (PARTITION BY g ORDER BY v) AS s FROM t",
        "SELECT -t.v AS v, sum(t.v) OVER (PARTITION BY t.g ORDER BY t.v) AS s FROM t",
        "SELECT x AS v, sum(x) OVER (PARTITION BY g ORDER BY x) AS s FROM (SELECT g, -v AS x FROM t)",
    ),
    Rule(
        "SELECT",
        "struct(), (a, b) and arrays_zip() name their fields after columns, as they are spelled in the query.",
        "SELECT to_json(struct(G, v + 1)) AS j, to_json((k, v AS z)) AS i FROM t",
        "SELECT to_json(named_struct('G', g, 'col2', v + 1)) AS j, to_json(named_struct('k', k, 'z', v)) AS i FROM t",
        "SELECT to_json(named_struct('g', g, 'v', v + 1)) AS j, to_json(named_struct('col1', k, 'z', v)) AS i FROM t",
    ),
    # -- WHERE --------------------------------------------------------------------------------------------------------
    Rule(
        "WHERE, ON",
        "Only input columns are seen, no aliases.",
        "SELECT v - 2 AS g FROM t WHERE g = 1",
        "SELECT t.v - 2 AS g FROM t WHERE t.g = 1",
        "SELECT t.v - 2 AS g FROM t WHERE t.v - 2 = 1",
    ),
    # -- GROUP BY -----------------------------------------------------------------------------------------------------
    Rule(
        "GROUP BY",
        "An input column goes before an alias.",
        "SELECT max(abs(v - 5)) AS k, count(*) AS n FROM t GROUP BY k",
        "SELECT max(abs(t.v - 5)) AS k, count(*) AS n FROM t GROUP BY t.k",
        "SELECT abs(t.v - 5) AS k, count(*) AS n FROM t GROUP BY abs(t.v - 5)",
    ),
    Rule(
        "GROUP BY",
        "An alias that is no input column is its expression.",
        "SELECT g + 1 AS h, count(*) AS n FROM t GROUP BY h",
        "SELECT t.g + 1 AS h, count(*) AS n FROM t GROUP BY t.g + 1",
        "SELECT 'h' AS h, count(*) AS n FROM t",
    ),
    Rule(
        "GROUP BY",
        "A whole number is a position of the select list.",
        "SELECT g % 2 AS o, count(*) AS n FROM t GROUP BY 1",
        "SELECT t.g % 2 AS o, count(*) AS n FROM t GROUP BY t.g % 2",
        "SELECT max(t.g % 2) AS o, count(*) AS n FROM t",
    ),
    Rule(
        "GROUP BY",
        "ALL is all items without an aggregate; backticks around it change nothing.",
        "SELECT g, count(*) AS n FROM t GROUP BY `ALL`",
        "SELECT t.g, count(*) AS n FROM t GROUP BY t.g",
        "SELECT max(t.g) AS g, count(*) AS n FROM t",
    ),
    Rule(
        "GROUP BY",
        "An input column called `all` goes before GROUP BY ALL.",
        "SELECT count(*) AS n FROM every GROUP BY all",
        "SELECT count(*) AS n FROM every GROUP BY every.`all`",
        "SELECT count(*) AS n FROM every",
    ),
    Rule(
        "GROUP BY",
        "So does an alias called `all`.",
        "SELECT v % 2 AS `all`, count(*) AS n, max('x') AS x FROM t GROUP BY all",
        "SELECT t.v % 2 AS `all`, count(*) AS n, max('x') AS x FROM t GROUP BY t.v % 2",
        "SELECT max(t.v % 2) AS `all`, count(*) AS n, max('x') AS x FROM t",
    ),
    Rule(
        "GROUP BY",
        "A column of the query around called `all` does not.",
        "SELECT every.v, (SELECT count(*) FROM t WHERE t.g = every.v GROUP BY all) AS n FROM every",
        "SELECT every.v, (SELECT count(*) FROM t WHERE t.g = every.v) AS n FROM every",
        "SELECT every.v, (SELECT count(*) FROM t WHERE t.g = every.v HAVING count(*) > 0) AS n FROM every",
    ),
    Rule(
        "GROUP BY",
        "Expressions are compared by meaning: `a + b` is `b + a`, `a > b` is `b < a`.",
        "SELECT v + g AS x, g, count(*) AS n FROM t GROUP BY GROUPING SETS ((g + v), (g), (v))",
        "SELECT g + v AS x, g, count(*) AS n FROM t GROUP BY GROUPING SETS ((g + v), (g), (v))",
        "SELECT null AS x, g, count(*) AS n FROM t GROUP BY GROUPING SETS ((g + v), (g), (v))",
    ),
    # -- HAVING -------------------------------------------------------------------------------------------------------
    Rule(
        "HAVING",
        "An input column that is grouped by goes before an alias.",
        "SELECT -g AS g, count(*) AS n FROM t GROUP BY g HAVING g > 1",
        "SELECT -t.g AS g, count(*) AS n FROM t GROUP BY t.g HAVING t.g > 1",
        "SELECT -t.g AS g, count(*) AS n FROM t GROUP BY t.g HAVING -t.g > 1",
    ),
    Rule(
        "HAVING",
        "An alias goes before an input column that is not grouped by.",
        "SELECT g, -max(v) AS v FROM t GROUP BY g HAVING v < -5",
        "SELECT t.g, -max(t.v) AS v FROM t GROUP BY t.g HAVING -max(t.v) < -5",
        "SELECT t.g, -max(t.v) AS v FROM t GROUP BY t.g HAVING min(t.v) < -5",
    ),
    Rule(
        "HAVING",
        "Inside an aggregate it is the input column; outside, in the same condition, the alias.",
        "SELECT -g AS v, count(*) AS n FROM t GROUP BY g HAVING v + max(v) > 3",
        "SELECT -t.g AS v, count(*) AS n FROM t GROUP BY t.g HAVING -t.g + max(t.v) > 3",
        "SELECT -t.g AS v, count(*) AS n FROM t GROUP BY t.g HAVING -t.g + max(-t.g) > 3",
    ),
    Rule(
        "HAVING",
        "Inside an expression that is grouped by it is the input column.",
        "SELECT -(v + 1) AS v, count(*) AS n FROM t GROUP BY v + 1 HAVING v + 1 > 5",
        "SELECT -(t.v + 1) AS v, count(*) AS n FROM t GROUP BY t.v + 1 HAVING t.v + 1 > 5",
        "SELECT x AS v, n FROM (SELECT -(v + 1) AS x, count(*) AS n FROM t GROUP BY v + 1) WHERE x + 1 > 5",
    ),
    Rule(
        "HAVING",
        "A name that several inputs have is the column of the select list.",
        "SELECT -t.g AS g, count(*) AS n FROM t JOIN u ON t.g = u.g GROUP BY t.g HAVING g < -1",
        "SELECT -t.g AS g, count(*) AS n FROM t JOIN u ON t.g = u.g GROUP BY t.g HAVING -t.g < -1",
        "SELECT -t.g AS g, count(*) AS n FROM t JOIN u ON t.g = u.g GROUP BY t.g HAVING t.g < -1",
    ),
    # -- ORDER BY -----------------------------------------------------------------------------------------------------
    Rule(
        "ORDER BY",
        "A column of the select list goes before an input column, inside expressions too.",
        "SELECT -v AS v FROM t ORDER BY v + 0 LIMIT 1",
        "SELECT -t.v AS v FROM t ORDER BY -t.v LIMIT 1",
        "SELECT -t.v AS v FROM t ORDER BY t.v LIMIT 1",
    ),
    Rule(
        "ORDER BY",
        "With the name of its table it is the input column.",
        "SELECT -v AS v FROM t ORDER BY t.v LIMIT 1",
        "SELECT -v AS v FROM (SELECT * FROM t ORDER BY v LIMIT 1)",
        "SELECT -v AS v FROM (SELECT * FROM t ORDER BY -v LIMIT 1)",
    ),
    Rule(
        "ORDER BY",
        "A struct of the select list goes before a table of its name.",
        "SELECT named_struct('v', -v) AS t FROM t ORDER BY t.v LIMIT 1",
        "SELECT named_struct('v', -v) AS t FROM (SELECT * FROM t ORDER BY -v LIMIT 1)",
        "SELECT named_struct('v', -v) AS t FROM (SELECT * FROM t ORDER BY v LIMIT 1)",
    ),
    Rule(
        "ORDER BY",
        "A name that several inputs have is the column of the select list.",
        "SELECT -t.v AS g FROM t JOIN u ON t.g = u.g ORDER BY g LIMIT 1",
        "SELECT -t.v AS g FROM t JOIN u ON t.g = u.g ORDER BY -t.v LIMIT 1",
        "SELECT -t.v AS g FROM t JOIN u ON t.g = u.g ORDER BY t.v LIMIT 1",
    ),
    Rule(
        "ORDER BY",
        "A name that the select list does not have is an input column.",
        "SELECT g FROM t ORDER BY v DESC LIMIT 2",
        "SELECT g FROM (SELECT * FROM t ORDER BY v DESC LIMIT 2)",
        "SELECT g FROM (SELECT * FROM t ORDER BY g DESC LIMIT 2)",
    ),
    Rule(
        "ORDER BY",
        "A whole number is a position, an expression of numbers is not.",
        "SELECT -v AS x FROM t ORDER BY 1 LIMIT 1",
        "SELECT -t.v AS x FROM t ORDER BY -t.v LIMIT 1",
        "SELECT -t.v AS x FROM t ORDER BY t.v LIMIT 1",
    ),
    Rule(
        "ORDER BY",
        "ALL is all columns of the select list.",
        "SELECT -v AS x, g FROM t ORDER BY ALL LIMIT 1",
        "SELECT -t.v AS x, t.g FROM t ORDER BY -t.v, t.g LIMIT 1",
        "SELECT -t.v AS x, t.g FROM t ORDER BY t.g, -t.v DESC LIMIT 1 OFFSET 1",
    ),
    Rule(
        "ORDER BY",
        "A column called `all`, of the select list or of an input, goes before ORDER BY ALL.",
        "SELECT -v AS x FROM every ORDER BY all DESC LIMIT 1",
        "SELECT -v AS x FROM (SELECT * FROM every ORDER BY every.`all` DESC LIMIT 1)",
        "SELECT -v AS x FROM (SELECT * FROM every ORDER BY every.v DESC LIMIT 1)",
    ),
    # -- windows ------------------------------------------------------------------------------------------------------
    Rule(
        "WINDOW",
        "The names of windows differ by case.",
        "SELECT v, sum(v) OVER W AS x FROM t WINDOW w AS (PARTITION BY g), W AS (PARTITION BY k)",
        "SELECT v, sum(v) OVER (PARTITION BY k) AS x FROM t",
        "SELECT v, sum(v) OVER (PARTITION BY g) AS x FROM t",
    ),
    Rule(
        "WINDOW",
        "`OVER (w)` is `OVER w`: the partition, the order and the frame.",
        "SELECT v, sum(v) OVER (w) AS x FROM t WINDOW w AS (PARTITION BY g ORDER BY v)",
        "SELECT v, sum(v) OVER (PARTITION BY g ORDER BY v) AS x FROM t",
        "SELECT v, sum(v) OVER (ORDER BY v) AS x FROM t",
    ),
    Rule(
        "WINDOW",
        "A subquery has windows of its own.",
        "SELECT v, (SELECT max(x) FROM (SELECT sum(v) OVER w AS x FROM t WINDOW w AS (PARTITION BY k))) AS m, "
        "sum(v) OVER w AS y FROM t WINDOW w AS (PARTITION BY g)",
        "SELECT v, 8 AS m, sum(v) OVER (PARTITION BY g) AS y FROM t",
        "SELECT v, 11 AS m, sum(v) OVER (PARTITION BY g) AS y FROM t",
    ),
    # -- dots ---------------------------------------------------------------------------------------------------------
    Rule(
        "a.b",
        "A table goes before a struct: `s.g` is column g of table s.",
        "SELECT s.g FROM s",
        "SELECT x.g FROM s AS x",
        "SELECT x.s.g FROM s AS x",
    ),
    Rule(
        "a.b",
        "A struct of that name is meant where the table has no such column.",
        "SELECT s.x FROM s",
        "SELECT y.s.x FROM s AS y",
        "SELECT y.g AS x FROM s AS y",
    ),
    Rule(
        "a.b",
        "The table's alias hides its name.",
        "SELECT x.g FROM t AS x JOIN u AS t ON x.v = 3 AND t.w = 20",
        "SELECT t.g FROM t JOIN u ON t.v = 3 AND u.w = 20",
        "SELECT u.g FROM t JOIN u ON t.v = 3 AND u.w = 20",
    ),
    Rule(
        "a.b",
        "A column that USING merges is the value of either side; with a table, of that side.",
        "SELECT g, u.g AS h FROM t LEFT JOIN u USING (g)",
        "SELECT t.g AS g, u.g AS h FROM t LEFT JOIN u ON t.g = u.g",
        "SELECT t.g AS g, t.g AS h FROM t LEFT JOIN (SELECT 1 AS one) ON true",
    ),
    # -- subqueries ---------------------------------------------------------------------------------------------------
    Rule(
        "subqueries",
        "A column of the subquery goes before one of the query around.",
        "SELECT v, (SELECT count(*) FROM u WHERE g = g) AS n FROM t",
        "SELECT v, (SELECT count(*) FROM u WHERE u.g = u.g) AS n FROM t",
        "SELECT v, (SELECT count(*) FROM u WHERE u.g = t.g) AS n FROM t",
    ),
    Rule(
        "subqueries",
        "What the subquery does not have is a column of the query around.",
        "SELECT v, (SELECT max(w) FROM u WHERE v = 3) AS m FROM t",
        "SELECT t.v, CASE WHEN t.v = 3 THEN 21 END AS m FROM t",
        "SELECT t.v, 21 AS m FROM t",
    ),
    # -- tables -------------------------------------------------------------------------------------------------------
    Rule(
        "FROM",
        "A CTE goes before a table.",
        "WITH t AS (SELECT g + 100 AS g FROM t) SELECT g FROM t",
        "WITH c AS (SELECT g + 100 AS g FROM t) SELECT g FROM c",
        "SELECT g FROM t",
    ),
    Rule(
        "FROM",
        "A CTE does not see itself, nor those after it.",
        "WITH a AS (SELECT g FROM t), t AS (SELECT 99 AS g) SELECT a.g, t.g AS h FROM a, t",
        "SELECT t.g, 99 AS h FROM t",
        "SELECT 99 AS g, 99 AS h",
    ),
    Rule(
        "FROM",
        "A CTE of a subquery goes before one of the query around.",
        "WITH c AS (SELECT 99 AS g) SELECT (WITH c AS (SELECT 100 AS g) SELECT max(g) FROM c) AS x, g FROM c",
        "SELECT 100 AS x, 99 AS g",
        "SELECT 99 AS x, 99 AS g",
    ),
    # -- pipes --------------------------------------------------------------------------------------------------------
    Rule(
        "|>",
        "A step sees the columns of the step before, and still knows which table they came from.",
        "FROM t |> WHERE g = 1 |> EXTEND v + 10 AS v |> SELECT t.v",
        "SELECT t.v FROM t WHERE t.g = 1",
        "SELECT t.v + 10 AS v FROM t WHERE t.g = 1",
    ),
    Rule(
        "|>",
        "SET assigns one column after the other: the next one sees the new value.",
        "FROM t |> SET v = v + 1, g = v |> SELECT g, v",
        "SELECT v + 1 AS g, v + 1 AS v FROM t",
        "SELECT v AS g, v + 1 AS v FROM t",
    ),
    Rule(
        "|>",
        "A whole number in AGGREGATE … GROUP BY is a position of the input.",
        "FROM t |> SELECT k, g |> AGGREGATE count(*) AS n GROUP BY 2",
        "SELECT g, count(*) AS n FROM t GROUP BY g",
        "SELECT count(*) AS g, count(*) AS n FROM t",
    ),
)


def page(note: str) -> str:
    lines = [
        "# What a name means",
        note,
        "",
        "A definition is read as Spark reads it. Where a name could mean two things, these are the rules, in the order",
        "of the clauses. A test runs every example three times: as it stands, in the form we maintain, and spelled out",
        "as on the right; it also sees that the other reading would have given other rows.",
        "",
        "The examples are over `t (g, k, v)`, `u (g, w, z)`, `every (all, v)` and `s (g, s STRUCT<g, x>)`.",
        "",
        "| where | rule | example | means |",
        "|---|---|---|---|",
    ]
    for r in RULES:
        cells = (f"`{r.clause}`" if r.clause == "|>" else r.clause, r.rule, _code(r.text), _code(r.means))
        lines.append(f"| {' | '.join(c.replace('|', chr(92) + '|') for c in cells)} |")
    lines += [
        "",
        "Not followed, so that such a definition runs FULL: a window that is defined outside of the subquery in FROM",
        "that uses it, an alias of the select list inside a subquery of HAVING, names that a generator in the select",
        "list gives its columns (`posexplode(a) AS (x, y)`) in ORDER BY with LIMIT, FILTER inside PIVOT, and a LIMIT",
        "of a pipe after a query in parentheses that is ordered.",
    ]
    return "\n".join([*lines, ""])


def _code(text: str) -> str:
    return f"`` {text} ``" if "`" in text else f"`{text}`"
