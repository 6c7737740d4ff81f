"""What the compiler writes is what Spark reads."""

from __future__ import annotations

import pytest

from spark_trickle import Trickle
from spark_trickle.spark.statement import where


@pytest.mark.parametrize(
    ("condition", "text"),
    [
        ("(false)", "false"),
        ("(`flag`)", "`flag`"),
        ("( `a ``b` )", "`a ``b`"),
        ("(`a` = 1)", "(`a` = 1)"),
        ("(`a`) AND (`b`)", "(`a`) AND (`b`)"),
        ("`a`", "`a`"),
    ],
)
def test_a_name_is_not_alone_in_parentheses(condition: str, text: str) -> None:
    """Spark reads `FROM t WHERE (flag)` as the table t with the alias WHERE and one renamed column."""
    assert where(condition) == f" WHERE {text}"


@pytest.mark.spark
def test_conditions_that_are_a_name_in_parentheses(module_tr: Trickle) -> None:
    tr = module_tr
    tr.sql("CREATE TABLE flags (flag BOOLEAN, a INT)")
    tr.sql("INSERT INTO flags SELECT id % 3 = 0, id FROM range(30)")
    tr.sql("CREATE TABLE other (b BOOLEAN)")
    tr.sql("INSERT INTO other VALUES (true), (false)")
    definitions = {
        "s.one": "SELECT x.flag FROM flags AS x WHERE (x.flag)",
        "s.two": "SELECT x.flag, x.a FROM flags AS x WHERE (flag)",
        "s.joined": "SELECT x.a, o.b FROM flags AS x CROSS JOIN other AS o WHERE (o.b)",
        "s.grouped": "SELECT x.flag, count(*) AS n FROM flags AS x GROUP BY x.flag HAVING (x.flag)",
    }
    for name, text in definitions.items():
        tr.create_stream_table(name, text, mode="differential")
    tr.sql("INSERT INTO flags VALUES (true, 100), (false, 101)")
    tr.sql("UPDATE flags SET flag = NOT flag WHERE a < 3")
    for name in definitions:
        tr.refresh(name)
        found = tr.verify(name)
        assert found.equal, found
        assert found.rows > 0
