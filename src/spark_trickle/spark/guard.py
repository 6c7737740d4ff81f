"""The round-trip guard: what we understood of a query must mean to Spark what the query means.

A definition is parsed by us and by Spark. Before any rewriting, our tree is written back as SQL and both
texts are analyzed by Spark; only if the plans are the same do we trust the tree. Plans are compared as Spark
canonicalizes them, else node by node with the ids renumbered; first as analyzed, then as optimized.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

from spark_trickle.errors import TrickleError
from spark_trickle.sql.clock import pin_time
from spark_trickle.sql.parse import parse_query, render

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_MAX_FIELDS = 2**31 - 1
# Numbers that Spark draws on every analysis. A string literal may look like one in the tree text
# ('#12'), but not in JSON, which is compared too.
_JSON_IDS = re.compile(r'(?P<before>"(?:id|cteId|loopId|planId|resultId)":)(?P<id>\d+)(?:,"jvmId":"[^"]*")?')
_TEXT_IDS = re.compile(r"(?P<before>#|\b(?:CTERelation|UnionLoop)(?:Def|Ref)? )(?P<id>\d+)L?")
_LATERAL_CROSS = re.compile(r"(LateralJoin [^\n]*,) Cross\b")
_REFERENCES = frozenset({"CTERelationRef", "UnionLoopRef"})


def roundtrip(session: SparkSession, text: str) -> str | None:
    """None when our reading of the query is Spark's; else the reason why not, naming what differs.

    The text itself must be a query that Spark accepts: its refusal is raised as Spark's own exception.
    """
    from py4j.protocol import Py4JError
    from pyspark.errors import PySparkException

    theirs = _analyzed(session, text)
    try:
        # The operators' brackets show Spark the tree that later passes work on, not only its text.
        written = render(parse_query(text), explicit=True)
    except TrickleError as error:
        return error.message
    try:
        ours = _analyzed(session, written)
        if _same_analyzed(theirs, ours) or _same_optimized(session, text, written):
            return None
    except (PySparkException, Py4JError) as error:
        return f"the query as we read it is refused by Spark: {_first_line(error)}"
    return _difference(theirs, ours)


def same_plan(session: SparkSession, text_a: str, text_b: str) -> bool:
    """Whether two texts mean the same to Spark. False may be a false alarm; True may not."""
    a, b = _analyzed(session, text_a), _analyzed(session, text_b)
    return _same_analyzed(a, b) or _same_optimized(session, text_a, text_b)


def _same_analyzed(a: Any, b: Any) -> bool:
    return bool(a.sameResult(b)) or _same_form(a, b)


def _same_optimized(session: SparkSession, text_a: str, text_b: str) -> bool:
    """Spark folds constants and simplifies; what is equal then was equal before."""
    a, b = _execution(session, pin_time(text_a)), _execution(session, pin_time(text_b))
    if _types(a.analyzed()) != _types(b.analyzed()):
        return False
    return _same_analyzed(a.optimizedPlan(), b.optimizedPlan())


def _execution(session: SparkSession, text: str) -> Any:
    return session.sql(text)._jdf.queryExecution()


def _analyzed(session: SparkSession, text: str) -> Any:
    return _execution(session, text).analyzed()


def _types(plan: Any) -> list[str]:
    return [field.dataType().json() for field in plan.schema().fields()]


def _same_form(a: Any, b: Any) -> bool:
    """Equal node by node.

    JSON has the types of literals; the tree text has what JSON leaves out (frames, try_ forms). Neither has
    the rows of VALUES or the filters inside a scan, so leaves are compared by Spark.
    """
    if _shown(a) != _shown(b) or _renumber(_JSON_IDS, a.toJSON()) != _renumber(_JSON_IDS, b.toJSON()):
        return False
    leaves_a, leaves_b = _leaves(a), _leaves(b)
    return len(leaves_a) == len(leaves_b) and all(map(_same_leaf, leaves_a, leaves_b))


def _leaves(plan: Any) -> list[Any]:
    inside = plan.subqueriesAll()
    plans = [plan, *(inside.apply(at) for at in range(inside.size()))]
    found = [p.collectLeaves() for p in plans]
    return [leaves.apply(at) for leaves in found for at in range(leaves.size())]


def _same_leaf(a: Any, b: Any) -> bool:
    # A reference to a CTE is its number, which _same_form has compared already.
    return a.getClass().getSimpleName() in _REFERENCES or bool(a.sameResult(b))


def _shown(plan: Any) -> str:
    return _renumber(_TEXT_IDS, plan.treeString(True, False, _MAX_FIELDS, False, False))


def _renumber(ids: re.Pattern[str], text: str) -> str:
    """Ids in order of appearance; a cross join is an inner join."""
    seen: dict[str, str] = {}
    text = ids.sub(lambda m: m["before"] + seen.setdefault(m["id"], str(len(seen))), text)
    text = _LATERAL_CROSS.sub(r"\1 Inner", text)
    return text.replace("Join Cross", "Join Inner").replace("plans.Cross$", "plans.Inner$")


def _difference(a: Any, b: Any) -> str:
    """The first line in which two plans differ, cut down to the expressions that differ."""
    lines_a, lines_b = _shown(a).splitlines(), _shown(b).splitlines()
    for one, other in zip(lines_a, lines_b, strict=False):
        if one != other:
            left, right = _differing(_plain(one), _plain(other))
            return f"Spark reads `{left}` in the query, and `{right}` in the query as we read it"
    if len(lines_a) != len(lines_b):
        extra = max(lines_a, lines_b, key=len)[min(len(lines_a), len(lines_b))]
        return f"one plan has more steps: `{_plain(extra)}`"
    return "the plans look the same and differ in the type of a literal or in a hidden part"


def _plain(line: str) -> str:
    return re.sub(r"#\d+L?", "", line.lstrip(" :+-"))


def _differing(a: str, b: str) -> tuple[str, str]:
    parts_a, parts_b = _parts(a), _parts(b)
    while len(parts_a) > 1 and len(parts_b) > 1 and parts_a[0] == parts_b[0]:
        parts_a, parts_b = parts_a[1:], parts_b[1:]
    while len(parts_a) > 1 and len(parts_b) > 1 and parts_a[-1] == parts_b[-1]:
        parts_a, parts_b = parts_a[:-1], parts_b[:-1]
    return ", ".join(parts_a), ", ".join(parts_b)


def _parts(line: str) -> list[str]:
    """A line of a plan, split at the commas of its outermost list."""
    inner = re.match(r"\w+ \[(.*)\]$", line)
    parts, depth = [""], 0
    for char in inner[1] if inner else line:
        depth += (char in "([") - (char in ")]")
        if char == "," and depth == 0:
            parts.append("")
        else:
            parts[-1] += char
    return [part.strip() for part in parts]


def _first_line(error: Exception) -> str:
    return next((line for line in str(error).splitlines() if line.strip()), type(error).__name__)
