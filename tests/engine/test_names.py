"""Names and literals with quotes, backticks, dots, Unicode and reserved words: they work or are refused."""

from __future__ import annotations

from typing import Any

import pytest

from spark_trickle import Action, Trickle
from tests.engine.refused import refused

WEIRD = """`we``ird "x" ' ; DROP`"""
STREAM = """s.`st ``"' ; -- DROP * $1`"""


@pytest.fixture(scope="module")
def lake(module_tr: Trickle) -> Trickle:
    tr = module_tr
    tr.sql("CREATE TABLE s.base (id BIGINT, v STRING)")
    tr.sql("INSERT INTO s.base VALUES (1, 'a'), (2, 'b')")
    return tr


def rows(tr: Trickle, query: str) -> list[tuple[Any, ...]]:
    return sorted((tuple(r) for r in tr.sql(query).collect()), key=repr)


def test_names_that_need_quotes(lake: Trickle) -> None:
    lake.sql(f"CREATE TABLE s.{WEIRD} (`a.b` BIGINT, `order` STRING, `Ünï日` STRING, `x``y` INT, `q'\"` INT)")
    lake.sql(f"INSERT INTO s.{WEIRD} VALUES (1, 'a', 'b', 3, 4), (1, 'a', 'b', 3, 4), (2, NULL, '', 3, 4)")
    lake.create_stream_table(
        STREAM,
        f"SELECT `a.b`, `order`, `Ünï日`, `x``y`, `q'\"`, count(*) AS `n.n` FROM s.{WEIRD} GROUP BY ALL",
        mode="differential",
    )
    lake.sql(f"CREATE STREAM TABLE s.`日本` MODE DIFFERENTIAL AS SELECT `a.b`, `x``y` + 1 AS `sel``ect` FROM s.{WEIRD}")
    lake.create_stream_table(
        ("s", "table"),
        f"SELECT w.`n.n` AS `from`, j.`sel``ect` AS `a.b.c` FROM {STREAM} w JOIN s.`日本` j ON w.`a.b` = j.`a.b`",
        mode="differential",
    )
    assert rows(lake, "SELECT `from`, `a.b.c` FROM s.`table`") == [(1, 4), (2, 4), (2, 4)]
    lake.sql(f"INSERT INTO s.{WEIRD} VALUES (2, NULL, '', 3, 4), (3, 'DROP TABLE s.base', '`', 5, 6)")
    lake.sql(f"DELETE FROM s.{WEIRD} WHERE `a.b` = 1")
    assert lake.refresh("s.`table`").action is Action.DIFFERENTIAL  # and its upstream first
    assert rows(lake, "SELECT `from`, `a.b.c` FROM s.`table`") == [(1, 6), (2, 4), (2, 4)]
    for name in (STREAM, "s.`日本`", "s.`table`"):
        assert lake.verify(name).equal
        assert lake.explain(name).incremental
    assert len(lake.sql("DESCRIBE STREAM TABLE s.`table`").inputs) == 2
    with refused(lake, "HAS_DEPENDENTS", "s.table"):
        lake.sql(f"DROP STREAM TABLE {STREAM}")
    assert len(lake.sql(f"DROP STREAM TABLE {STREAM} CASCADE")) == 2
    lake.drop_stream_table(("s", "日本"))
    assert rows(lake, "SELECT id FROM s.base") == [(1,), (2,)]


LITERALS = r"""SELECT id, 'it''s "q" \\ \' ; -- `x` /* */' AS a, "d'q; DROP TABLE s.base" AS b, 'new
line	tab' AS c, 'ünï 日本 \u00e9 😀' AS d, r'\raw\n' AS e, '${x} :y ? {{z}} %s' AS f, X'00ff' AS g
FROM s.base WHERE v <> ''';--' AND v <> 'lake.s.base'"""


@pytest.mark.parametrize("through", ["create", "sql", "alter"])
def test_literals_stay_as_they_are(lake: Trickle, through: str) -> None:
    name = f"s.literals_{through}"
    if through == "create":
        lake.create_stream_table(name, LITERALS, mode="differential")
    elif through == "sql":
        lake.sql(f"CREATE STREAM TABLE {name} MODE DIFFERENTIAL AS {LITERALS} ;")
    else:
        lake.create_stream_table(name, "SELECT id FROM s.base", mode="differential")
        lake.alter_stream_table(name, query=LITERALS)
    assert lake.explain(name).definition == LITERALS
    lake.spark.sql("SET spark.sql.variable.substitute = false")  # as in a definition
    plain = rows(lake, LITERALS)
    lake.spark.sql("RESET spark.sql.variable.substitute")
    assert rows(lake, f"SELECT * FROM {name}") == plain
    assert plain[0][6] == "${x} :y ? {{z}} %s"
    assert plain[0][1] == """it's "q" \\ ' ; -- `x` /* */"""
    lake.sql("INSERT INTO s.base VALUES (3, ''';--'), (4, 'it''s')")
    assert lake.refresh(name, mode="differential").rows_inserted == 1
    assert lake.verify(name).equal
    lake.sql("DELETE FROM s.base WHERE id > 2")


@pytest.mark.parametrize(
    "name",
    [
        "",
        "s.",
        ".x",
        "s..x",
        "s.x y",
        "s.x; DROP TABLE s.base",
        "s.'x'",
        "s.1+1",
        "`s.x`.y",
        "s.`a.b`",
        "s.`a/b`",
        "s.`a\\b`",
        "s.` `",
        "s.``",
        "s.`x",
        "_trickle.x",
        "s." + "x" * 300,
        ("s", "a.b"),
        ("s", ""),
        (),
    ],
    ids=repr,
)
def test_names_that_are_refused(lake: Trickle, name: Any) -> None:
    with refused(lake, "SYNTAX_ERROR" if name == "s.`x" else "INVALID_NAME"):
        lake.create_stream_table(name, "SELECT id FROM s.base")


def test_a_namespace_that_is_not_there(lake: Trickle) -> None:
    with refused(lake, "INVALID_NAME", "nowhere"):
        lake.create_stream_table("nowhere.x", "SELECT id FROM s.base")


def test_a_table_with_a_dot_in_its_name_is_refused_or_read_right(lake: Trickle) -> None:
    """The catalog cannot tell namespace `s.a` with table `b` from namespace `s` with table `a.b`."""
    lake.sql("CREATE NAMESPACE s.a")
    lake.sql("CREATE TABLE s.a.b (id INT)")
    lake.sql("INSERT INTO s.a.b VALUES (42)")
    lake.create_stream_table("s.a.nested", "SELECT id FROM s.a.b", mode="differential")
    assert rows(lake, "SELECT id FROM s.a.nested") == [(42,)]
    lake.sql("INSERT INTO s.a.b VALUES (43)")
    assert lake.refresh("s.a.nested").rows_inserted == 1


def test_names_differ_by_case_or_are_refused(lake: Trickle) -> None:
    lake.create_stream_table("s.Mixed", "SELECT ID AS Id, V FROM s.base")
    assert [c.name for c in lake.store.stream_tables() if c.name.name == "Mixed" for c in c.columns] == ["Id", "V"]
    lake.create_stream_table("s.over_mixed", "SELECT iD FROM s.Mixed WHERE ID > 0", mode="differential")
    lake.sql("INSERT INTO s.base VALUES (5, 'm')")
    lake.refresh("s.over_mixed")
    assert rows(lake, "SELECT id FROM s.over_mixed") == [(1,), (2,), (5,)]
    lake.sql("DELETE FROM s.base WHERE id = 5")


def test_a_field_may_be_called_like_a_type(lake: Trickle) -> None:
    lake.create_stream_table("s.fields", "SELECT named_struct('avoid', id, 'interval', v) AS f FROM s.base")
    assert rows(lake, "SELECT f.interval FROM s.fields") == [("a",), ("b",)]


def test_names_resolve_as_in_spark(lake: Trickle) -> None:
    for table, columns, values in (
        ("u1", "x INT, id INT", "(1, 10), (2, 20)"),
        ("u2", "v INT, id INT", "(7, 10), (8, 30)"),
        ("n1", "x INT, y INT", "(1, 2), (3, 4)"),
        ("n2", "y INT, x INT", "(2, 1), (9, 9)"),
        ("la", "a INT, x INT, arr ARRAY<INT>", "(1, 100, array(1, 2)), (2, 200, array(3))"),
    ):
        lake.sql(f"CREATE TABLE s.{table} ({columns})")
        lake.sql(f"INSERT INTO s.{table} VALUES {values}")
    for n, definition in enumerate(
        [
            "SELECT u1.* FROM s.u1 JOIN s.u2 USING (id)",
            "SELECT u2.* FROM s.u1 JOIN s.u2 USING (id)",
            "SELECT * FROM s.u1 JOIN s.u2 USING (id)",
            "SELECT * FROM s.n1 NATURAL JOIN s.n2",
            "SELECT x, id FROM (s.u1) AS t(id, x)",
            "SELECT id, concat_ws('-', *) AS c FROM s.u1",
            "SELECT transform(arr, la_a -> la_a + a) AS t FROM s.la",
            "SELECT transform(arr, X -> x + 1) AS t FROM s.la",
        ]
    ):
        lake.create_stream_table(f"s.names{n}", definition)
        assert lake.verify(f"s.names{n}").equal, definition
    for table, values in (("u1", "(5, 30)"), ("u2", "(6, 20)"), ("n1", "(9, 9)"), ("la", "(5, 5, array(6))")):
        lake.sql(f"INSERT INTO s.{table} VALUES {values}")
    lake.sql("DELETE FROM s.la WHERE a = 1")
    for n in range(8):
        lake.refresh(f"s.names{n}")
        found = lake.verify(f"s.names{n}")
        assert found.equal, (n, found.examples)
