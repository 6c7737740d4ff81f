"""Compiling a definition.

Everything here is analysis; no Spark job runs. The result depends on the definition's text, the schemas of its inputs,
the texts of its views, the lake's functions that it calls and the settings of the session, and on nothing else, so it
can be cached under those.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING

from spark_trickle.delta.distinct_calls import split_distinct
from spark_trickle.delta.monotone import described, offending, set_body
from spark_trickle.delta.plans.fixpoint import fixpoint
from spark_trickle.delta.states import openness
from spark_trickle.errors import NotIncremental, Reason, TrickleError
from spark_trickle.model import HIDDEN_PREFIX, Column, LakeFunction, TableName
from spark_trickle.refresh.compiled import Compiled, Definition, StateTable, misread_of
from spark_trickle.refresh.lookup import LakeTables, clock_in, first_in, mentioned_inputs, refuse_foreign
from spark_trickle.refresh.planner import Maintenance, NameOf, Planner, approximate, fitting
from spark_trickle.refresh.traced import lineage_at_a_moment
from spark_trickle.spark.analyze import Analyzer
from spark_trickle.spark.compile import PlainLeaves, compile_sql
from spark_trickle.spark.guard import roundtrip
from spark_trickle.sql.algebra import Operator
from spark_trickle.sql.lineage import lineage
from spark_trickle.sql.lower import Lowered, lower
from spark_trickle.sql.mentions import volatile
from spark_trickle.sql.parse import at_offset, words
from spark_trickle.sql.prune import prune

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

__all__ = ["Compiled", "Definition", "LakeTables", "StateTable", "compile_definition", "misread_of"]

# Spark has accepted the definition before: when it refuses our form of it, the fault is ours, and FULL is right.
_OURS = frozenset(["SYNTAX_ERROR", "INVALID_QUERY", "UNKNOWN_COLUMN"])


def compile_definition(
    session: SparkSession,
    tables: LakeTables,
    definition: str,
    namespace: str,
    name_of: NameOf,
    *,
    use_states: bool = True,
    state_tables: bool = True,
    functions: Mapping[str, LakeFunction] | None = None,
    plain_decimals: bool = True,
    misread: str | None = None,
    cycle: tuple[TableName, ...] = (),
) -> Compiled:
    """Compile a definition in a session whose current catalog and namespace are the lake's.

    `state_tables=False` cuts out only the state tables that must be. `functions` of the lake are registered in the
    session. `plain_decimals=False`: the session's settings give decimals other types, or NULL for an overflow.
    `cycle`: the stream tables that read each other with this one.
    `misread`: how our form of this definition was found to differ from its text; then it runs as written.
    """
    analyzer = Analyzer(session, functions)
    analyzer.check_query(definition)
    refuse_foreign(tables, definition, namespace)
    columns = analyzer.columns(definition)
    _check_columns(columns)
    whole: Operator | None = None
    how: Maintenance | None = None
    planner: Planner | None = None
    reason: Reason | None = None
    lowered: Lowered | None = None
    trusted: Operator | None = None  # the tree, once it is known to mean what the text does
    try:
        if misread is not None:
            raise NotIncremental("DEFINITION_CHECK", misread)
        lowered = lower(definition, tables, analyzer, namespace)
        differs = roundtrip(session, definition)
        if differs is not None:
            raise NotIncremental("SQL_ROUNDTRIP", differs)
        clock = clock_in(analyzer, tables, definition, namespace)
        if clock is not None:
            trusted = lowered.root
            raise NotIncremental("TIME_DEPENDENT", f"{clock} moves with the time although no source changes")
        if any(ours and ours != c.name for ours, c in zip(lowered.shown, columns, strict=True)):
            raise NotIncremental("SQL_ROUNDTRIP", f"we read the columns as {', '.join(lowered.shown)}")
        whole, types = analyzer.annotate(prune(lowered.root), PlainLeaves())
        found = analyzer.columns(compile_sql(whole, PlainLeaves()))
        if [c.type for c in found] != [c.type for c in columns]:
            raise NotIncremental("SQL_ROUNDTRIP", "our form of the query has other types than the query")
        trusted = whole
        planner = Planner(
            analyzer=analyzer,
            namespace=namespace,
            kinds={i.name: i.kind for i in lowered.inputs},
            types=types,
            name_of=name_of,
            use_states=use_states,
            optional=state_tables,
            plain_decimals=plain_decimals,
        )
        kept = split_distinct(whole, types, plain_decimals=plain_decimals) if state_tables and not cycle else whole
        if kept is not whole:
            kept, planner.types = analyzer.annotate(kept, PlainLeaves())
        how = planner.plan(kept, columns) if not cycle else _in_cycle(whole, columns, cycle, definition)
        if kept is not whole:  # Spark adds floats where sums of whole numbers are kept
            floats = approximate(whole, columns, openness(whole, {}, types))
            how = replace(how, compare=fitting(columns, {**floats, **how.compare}))
    except NotIncremental as refusal:
        reason = refusal.why
    except (ValueError, IndexError, KeyError, AttributeError, AssertionError) as error:
        reason = Reason("SQL_ROUNDTRIP", f"our parser stumbled over the query ({error!r})")
    except TrickleError as refusal:
        if refusal.code not in _OURS:
            raise
        reason = Reason("SQL_ROUNDTRIP", refusal.message)
    if how is None and (reason is None or reason.code != "TIME_DEPENDENT"):
        clock = clock_in(analyzer, tables, definition, namespace)
        if clock is not None:  # it must be recomputed even when no source changes
            reason = Reason("TIME_DEPENDENT", f"{clock} moves with the time; also {reason}")
    traced = None if trusted is None else lineage(trusted, [c.name for c in columns])
    notices = lowered.notices if lowered else ()
    answers_vary = [f.name for f in (functions or {}).values() if not f.deterministic]
    if lowered is not None and how is not None and planner is not None:
        views = tuple(v.name for v in lowered.views)
        made = planner.compiled(definition, columns, whole, how, views, notices, tuple(planner.states))
        return replace(made, lineage=traced)
    inputs, views = mentioned_inputs(tables, definition, namespace)
    if traced is None and reason is not None and reason.code == "TIME_DEPENDENT" and misread is None:
        read = {c for _, used in inputs.values() for c in used}
        traced = lineage_at_a_moment(session, analyzer, tables, definition, namespace, [c.name for c in columns], read)
    return Compiled(
        definition=definition,
        namespace=namespace,
        columns=columns,
        inputs=inputs,
        views=views,
        root=None,
        plan=None,
        reason=reason,
        compare={},
        notices=notices,
        volatile=first_in(partial(volatile, also=answers_vary), tables, definition, namespace),
        lineage=traced,
    )


def _in_cycle(
    whole: Operator, columns: tuple[Column, ...], cycle: tuple[TableName, ...], definition: str
) -> Maintenance:
    """What reads itself has the least fixpoint as its content: only monotone definitions of sets have one."""
    bad = offending(whole, cycle)
    if bad is not None:
        what, marks = described(bad)
        place = next((at_offset(definition, w.start) for w in words(definition) if w.upper in marks), "")
        raise TrickleError(
            "NOT_MONOTONE",
            f"it is in a cycle ({', '.join(map(str, cycle))}), and reads it through {what}{place and f' at {place}'}",
            hint="In a cycle only filters, projections, inner and semi joins, UNION, DISTINCT and explode may be over "
            "its members.",
        )
    collated = next((c.name for c in columns if "collate" in c.type.lower()), None)
    if collated is not None:
        raise TrickleError("NOT_MONOTONE", f"it is in a cycle, and its column {collated} has a collation")
    body = set_body(whole)
    if body is None:
        raise TrickleError(
            "NOT_MONOTONE",
            f"it is in a cycle ({', '.join(map(str, cycle))}), and may have the same row twice",
            hint="End it in UNION, or begin it with SELECT DISTINCT.",
        )
    plan = fixpoint(whole, body, columns, cycle)
    return Maintenance(whole, plan, {}, {}, settled=True)


_UNSTORABLE = re.compile(r"\b(void|interval)\b(?!:)")  # as a type, not as the name of a field
_RESERVED = frozenset(
    ["_file", "_pos", "_deleted", "_spec_id", "_partition", "_row_id", "_last_updated_sequence_number"]
)


def _check_columns(columns: tuple[Column, ...]) -> None:
    seen: set[str] = set()
    for column in columns:
        if column.name.lower() in seen:
            raise TrickleError("DUPLICATE_COLUMN", f"two output columns are called {column.name}")
        if column.name.lower() in _RESERVED or column.name.lower().startswith(HIDDEN_PREFIX):
            raise TrickleError(
                "INVALID_NAME",
                f"output column {column.name}: this name is kept for hidden columns, like all that start with "
                f"{HIDDEN_PREFIX}",
                hint="Give the column an alias.",
            )
        if _UNSTORABLE.search(column.type):
            raise TrickleError("UNSTORABLE_TYPE", f"output column {column.name} has type {column.type}")
        seen.add(column.name.lower())
