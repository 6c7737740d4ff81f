"""Every reason why a definition is not incremental: what it means, whether it will stay so, and what to change.

`NotIncremental` carries a name of this table. Three words say what to expect: *never* (no rule could be right, or Spark
itself would refuse), *not yet* (a rule is missing) and *bug* (ours). `check`, the docs and a test over the source
read it.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum


class Word(StrEnum):
    NEVER = "never"
    NOT_YET = "not yet"
    BUG = "bug"


@dataclass(frozen=True, slots=True)
class Entry:
    word: Word
    meaning: str
    change: str  # what to write instead


_NEVER, _NOT_YET = Word.NEVER, Word.NOT_YET

REASONS: dict[str, Entry] = {
    # -- the answer does not follow from the sources -----------------------------------------------------------------
    "VOLATILE": Entry(
        _NEVER,
        "A function is not deterministic, so what it gave once cannot be taken back.",
        "Compute the value where the source is written, or derive it from a column: hash(id) instead of rand().",
    ),
    "TIME_DEPENDENT": Entry(
        _NEVER,
        "The result moves with the clock although no source changes. Also: a time of day cast to TIMESTAMP.",
        "Store the wide result and filter by time where it is read, or compare with a column of a calendar table.",
    ),
    "SESSION_DEPENDENT": Entry(
        _NEVER,
        "A function depends on the session that asks.",
        "Write the value as a literal, or take it from a table.",
    ),
    "SESSION_OBJECT": Entry(
        _NEVER,
        "A function or view exists in one session only; a refresh in another process would not find it.",
        "Use a built-in function or a view of the lake, or register the function with the lake (docs/functions.md).",
    ),
    "SAMPLE": Entry(
        _NEVER,
        "TABLESAMPLE picks other rows every time it runs.",
        "Sample by a column: WHERE pmod(hash(id), 100) < 10.",
    ),
    "TIME_TRAVEL": Entry(
        _NEVER,
        "The definition names a fixed version of a table, whose changes are not followed.",
        "Read the table without VERSION / TIMESTAMP AS OF, or copy that version into a table of its own.",
    ),
    "DEFINITION_CHECK": Entry(
        Word.BUG,
        "Our form of the query gives other rows than its text, so the text is run as it was written.",
        "Please report the query and its tables. Until then, write it in another way, or keep it FULL.",
    ),
    "SQL_ROUNDTRIP": Entry(
        _NOT_YET,
        "Our parser reads the query differently from Spark, or not at all; we do not trust our reading.",
        "Write the named part in another way: an alias, an explicit CAST, brackets; backticks around a column that is "
        "called like a clause (`cross`).",
    ),
    # -- forms that are not Spark SQL ---------------------------------------------------------------------------------
    "DISTINCT_ON": Entry(
        _NEVER,
        "DISTINCT ON is not Spark SQL.",
        "Use row_number() OVER (PARTITION BY … ORDER BY …) = 1 in a subquery.",
    ),
    "MATCH_RECOGNIZE": Entry(_NEVER, "MATCH_RECOGNIZE is not Spark SQL.", "Use window functions."),
    "QUALIFY": Entry(
        _NEVER, "QUALIFY is not Spark SQL.", "Compute the window function in a subquery and filter outside."
    ),
    "STAR_REPLACE": Entry(
        _NEVER, "SELECT * REPLACE is not Spark SQL.", "Write * EXCEPT (c) and the new expression for c."
    ),
    # -- no rule yet --------------------------------------------------------------------------------------------------
    "QUERY_FORM": Entry(
        _NOT_YET, "This form of query has no delta rule.", "Write it as SELECT … FROM …, or use mode AUTO."
    ),
    "JOIN_FORM": Entry(
        _NOT_YET,
        "This kind of join has no delta rule.",
        "Use an inner, outer, semi, anti or cross join with a condition.",
    ),
    "LATERAL": Entry(
        _NOT_YET, "This LATERAL has no delta rule.", "Write it as a join with a subquery that is grouped by the key."
    ),
    "SET_OPERATION": Entry(
        _NOT_YET, "This set operation has no delta rule.", "Use UNION, INTERSECT or EXCEPT by position."
    ),
    "UNION_BY_NAME": Entry(
        _NOT_YET,
        "UNION BY NAME of branches with different columns has no delta rule.",
        "List the columns in each branch, NULL for those it lacks, and use UNION.",
    ),
    "SUBQUERY": Entry(
        _NOT_YET,
        "A subquery stands where it has no delta rule.",
        "Join the subquery in FROM instead, or move it into WHERE.",
    ),
    "CORRELATION": Entry(
        _NOT_YET,
        "A correlated subquery could not be turned into a join.",
        "Join a subquery that is grouped by the correlated columns.",
    ),
    "OUTER_AGGREGATE": Entry(
        _NOT_YET,
        "An aggregate inside a subquery is over columns of the query around it.",
        "Compute the aggregate in the outer query and compare outside.",
    ),
    "WINDOW": Entry(
        _NOT_YET,
        "This window function has no delta rule.",
        "Compute it in a subquery's select list, with PARTITION BY.",
    ),
    "GROUPING_SETS": Entry(
        _NOT_YET,
        "This form of grouping sets has no delta rule.",
        "Use fewer grouping sets, or UNION ALL of plain GROUP BYs.",
    ),
    "GROUP_EXPRESSION": Entry(
        _NOT_YET,
        "An expression of the select list could not be matched with the GROUP BY expressions.",
        "Write it in GROUP BY exactly as in the select list, or group in a subquery.",
    ),
    "LIMIT": Entry(
        _NOT_YET,
        "This LIMIT, OFFSET or ORDER BY has no delta rule.",
        "Use whole numbers, and ORDER BY columns of the result. A LIMIT in EXISTS can go; in other correlated "
        "subqueries compare columns of the same type.",
    ),
    "RECURSION": Entry(
        _NOT_YET,
        "This form of WITH RECURSIVE has no delta rule.",
        "Write it as base UNION ALL step, with LIMIT and WITH outside.",
    ),
    "GENERATOR": Entry(
        _NOT_YET,
        "A generator function stands where it has no delta rule.",
        "Use LATERAL VIEW, and name the columns: LATERAL VIEW explode(a) t AS x.",
    ),
    "TABLE_FUNCTION": Entry(
        _NOT_YET, "This table function has no delta rule.", "Use LATERAL VIEW, or store its rows in a table."
    ),
    "VALUES": Entry(_NOT_YET, "These inline VALUES have no delta rule.", "Use constants in VALUES, or a small table."),
    "PIVOT": Entry(
        _NOT_YET,
        "This form of PIVOT has no delta rule.",
        "Use one aggregate per column: sum(x) FILTER (WHERE k = 'a') AS a.",
    ),
    "UNPIVOT": Entry(_NOT_YET, "This form of UNPIVOT has no delta rule.", "Use LATERAL VIEW stack(…)."),
    "TIME_WINDOW": Entry(
        _NOT_YET,
        "window(), session_window() and window_time() have no delta rule.",
        "Group by date_trunc(), or by floor of the time divided by the length of the window.",
    ),
    "STAR": Entry(_NOT_YET, "This star has no rule.", "List the columns."),
    "COLUMN_ALIASES": Entry(
        _NOT_YET, "There are more column aliases than columns.", "Give as many aliases as there are columns."
    ),
    "NAME_RESOLUTION": Entry(
        _NOT_YET,
        "A name is found in no input, or in several, by our rules for names.",
        "Put the table's alias in front of the column.",
    ),
    "UNKNOWN_INPUT": Entry(
        _NEVER, "The query reads something that is not in the lake.", "Read tables and views of the lake only."
    ),
    "UNKNOWN_FUNCTION": Entry(
        _NOT_YET, "Spark's registry does not know the function.", "Use a built-in function under its own name."
    ),
    "VIEW_DEPTH": Entry(_NOT_YET, "Views are nested too deeply.", "Make one of the views in between a stream table."),
    "ORDER_DEPENDENT": Entry(
        _NOT_YET,
        "An aggregate below the top depends on the order of rows and its value cannot be stored.",
        "Cast the value to a type that a table can hold.",
    ),
    "MAP_KEY": Entry(
        _NOT_YET, "GROUP BY or DISTINCT over a map has no delta rule.", "Group by sort_array(map_entries(m))."
    ),
    "KEY_TYPE": Entry(
        _NOT_YET,
        "A key that is not selected has a type that no table can store.",
        "Select the key in a form that can be stored, such as extract(DAY FROM i).",
    ),
    "COLLATED_KEY": Entry(
        _NOT_YET,
        "A key with a collation has no delta rule.",
        "Group by the binary form: lower(c) COLLATE UTF8_BINARY.",
    ),
}

# An operator without a rule is refused under its own name.
_OPERATOR = Entry(_NOT_YET, "An operator of the query has no delta rule.", "Write it in another way, or use mode AUTO.")


def reason_of(name: str) -> Entry:
    return REASONS.get(name, _OPERATOR)
