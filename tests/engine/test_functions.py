"""Python functions that the lake knows by module path."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from spark_trickle import Action, Trickle, TrickleError, connect
from spark_trickle.cli.app import run
from spark_trickle.model import LakeFunction, TableName
from tests.engine.lakes import rows

pytestmark = pytest.mark.spark
HERE = "tests.engine.shop_functions"


@pytest.fixture
def lake(tr: Trickle) -> Trickle:
    tr.sql("CREATE TABLE s.orders (id BIGINT, customer STRING, amount DECIMAL(10, 2))")
    tr.sql(
        """INSERT INTO s.orders SELECT id, CASE WHEN id % 7 = 0 THEN NULL ELSE concat('C', id % 5) END,
           CASE WHEN id % 11 = 0 THEN NULL ELSE CAST(id * 1.5 AS DECIMAL(10, 2)) END FROM range(200)"""
    )
    return tr


@pytest.fixture
def module(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A module `rates` that tests may edit. Python's own import of it, which keeps the first code, is in the way."""
    folder = tmp_path / "code"
    folder.mkdir()
    file = folder / "rates.py"
    monkeypatch.syspath_prepend(str(folder))
    file.write_text("def scale(x):\n    return None if x is None else x * 2\n")
    yield file
    sys.modules.pop("rates", None)


def refused(code: str, *words: str) -> pytest.RaisesExc[TrickleError]:
    def fits(error: TrickleError) -> bool:
        return error.code == code and all(w in str(error) for w in words)

    return pytest.RaisesExc(TrickleError, check=fits)


ROUNDS = (
    (
        "INSERT INTO s.orders VALUES (1000, 'C1', 119.00), (1001, NULL, NULL), (1000, 'C1', 119.00)",
        "UPDATE s.orders SET amount = amount + 1 WHERE id % 50 = 3",
    ),
    (
        "UPDATE s.orders SET amount = NULL, customer = 'c9' WHERE id = 20",
        "DELETE FROM s.orders WHERE id IN (5, 7, 11, 1001)",
    ),
)


def test_maintained_like_any_scalar_function(lake: Trickle) -> None:
    tr = lake
    made = tr.create_function("Net", f"{HERE}:net", returns="decimal(10,2)")
    tr.create_function("label", f"{HERE}:label", returns="string")
    assert (made.name, made.path, made.deterministic) == ("net", f"{HERE}:net", True)
    assert made.fingerprint is not None
    definitions = {
        "plain": "SELECT id, NET(amount) AS n, label(customer, CAST(id AS INT)) AS l FROM orders WHERE net(amount) > 3",
        "grouped": """SELECT label(customer, 1) AS l, sum(net(amount)) AS total, count(*) AS c, max(net(amount)) AS hi
                      FROM s.orders GROUP BY label(customer, 1)""",
        "joined": """SELECT a.id, b.c FROM s.orders a JOIN (SELECT net(amount) AS n, count(*) AS c FROM s.orders
                     GROUP BY net(amount) HAVING count(*) >= 1) b ON net(a.amount) = b.n""",
        "latest": """SELECT id, l FROM (SELECT id, label(customer, 0) AS l, row_number() OVER
                     (PARTITION BY label(customer, 0) ORDER BY net(amount) DESC NULLS LAST, id) AS r FROM s.orders)
                     WHERE r = 1""",
    }
    for name, query in definitions.items():
        tr.create_stream_table(f"s.{name}", query, mode="differential")
    for changes in ROUNDS:
        for change in changes:
            tr.sql(change)
        for result in tr.refresh([f"s.{n}" for n in definitions]):
            assert result.action is Action.DIFFERENTIAL, result
        for name in definitions:
            found = tr.verify(f"s.{name}")
            assert found.equal, f"{name} after {changes}: {found}"
    # The oracle that does not go through Spark's Python workers.
    assert rows(tr.spark, "SELECT DISTINCT n FROM s.plain WHERE id = 1000") == [(made_net("119.00"),)]
    assert tr.sql("SELECT count(*) FROM s.grouped WHERE l = 'nobody/1'").first()[0] == 1
    with tr.cut() as cut:
        assert cut.sql("SELECT net(119.00BD) AS n, label(NULL, NULL) AS l").first().asDict() == {
            "n": made_net("119.00"),
            "l": "nobody/-1",
        }
    tr.create_cut("then")
    with tr.cut("then") as cut:
        assert cut.sql("SELECT label('X', 4)").first()[0] == "x/1"
    check = tr.check("SELECT net(amount) AS n FROM s.orders")
    assert check.incremental, check


def made_net(amount: str) -> object:
    from decimal import Decimal

    from tests.engine.shop_functions import net

    return net(Decimal(amount))


def test_changed_code_recomputes(lake: Trickle, module: Path) -> None:
    tr = lake
    tr.create_function("scale", "rates:scale", returns="decimal(20,2)")
    tr.create_stream_table("s.scaled", "SELECT id, scale(amount) AS a FROM s.orders")
    tr.create_stream_table(
        "s.averages",  # an average of averages: its hidden state table calls the function
        """SELECT c, avg(m) AS m FROM (SELECT customer AS c, id % 3 AS p, avg(scale(amount)) AS m FROM s.orders
           GROUP BY customer, id % 3) GROUP BY c""",
    )
    tr.create_stream_table("s.over", "SELECT a FROM s.scaled WHERE a > 100")
    assert tr.sql("SELECT a FROM s.scaled WHERE id = 4").first()[0] == 12
    assert tr.refresh("s.scaled").action is Action.NO_DATA
    # Same length, same second: what Python's own cache of compiled modules would not see.
    module.write_text(module.read_text().replace("x * 2", "x * 3"))
    with refused("DEPENDENCY_CHANGED", "scale"):
        tr.verify("s.scaled")
    assert tr.explain("s.scaled").next_action is Action.REINITIALIZE
    result = tr.refresh("s.over")  # brings its upstream up first
    assert result.action is not Action.NO_DATA
    history = tr.history("s.scaled", limit=1)[0]
    assert (history.action, history.reason) == (
        Action.REINITIALIZE,
        "DEPENDENCY_CHANGED: the code of function scale changed",
    )
    averages = tr.refresh("s.averages")
    assert averages.action is Action.REINITIALIZE
    assert averages.reason.startswith("DEPENDENCY_CHANGED")
    assert tr.sql("SELECT a FROM s.scaled WHERE id = 4").first()[0] == 18
    tr.sql("INSERT INTO s.orders VALUES (4, 'C1', 10)")
    for name in ("s.scaled", "s.averages", "s.over"):
        assert tr.refresh(name).action is Action.DIFFERENTIAL, name
        assert tr.verify(name).equal, name
    assert rows(tr.spark, "SELECT a FROM s.scaled WHERE id = 4") == [(18,), (30,)]
    # Told never to recompute, it does not.
    tr.alter_stream_table("s.scaled", mode="differential")
    module.write_text(module.read_text().replace("x * 3", "x * 4"))
    with refused("DEPENDENCY_CHANGED", "scale", "s.scaled"):
        tr.refresh("s.scaled")
    assert tr.refresh("s.scaled", mode="full").action is Action.REINITIALIZE
    assert tr.verify("s.scaled").equal
    assert tr.sql("SELECT scale(1BD)").first()[0] == 4
    # A module that is gone stops what uses it, with the cause, and nothing else.
    tr.create_stream_table("s.other", "SELECT id FROM s.orders")
    module.unlink()
    tr.sql("INSERT INTO s.orders VALUES (5, 'C1', 10)")
    with refused("FUNCTION_UNAVAILABLE", "rates", "PYTHONPATH"):
        tr.refresh("s.scaled")
    assert tr.refresh("s.other").action is Action.DIFFERENTIAL
    assert [f.fingerprint for f in tr.functions()] == [None]


def test_kept_by_the_lake(spark: object, tmp_path: Path) -> None:
    with connect(tmp_path / "lake", shuffle_partitions=2) as tr:
        tr.sql("CREATE NAMESPACE s")
        tr.sql("CREATE TABLE s.t (v DECIMAL(10, 2))")
        made = tr.create_function("net", f"{HERE}:net", "decimal(10,2)")
        tr.create_stream_table("s.nets", "SELECT net(v) AS n FROM s.t", mode="differential")
        tr.create_stream_table("s.full", "SELECT net(v) AS n FROM s.t", mode="full")
    with connect(tmp_path / "lake", shuffle_partitions=2) as tr:
        assert tr.functions() == (made,)
        tr.sql("INSERT INTO s.t VALUES (119), (NULL)")
        assert tr.refresh("s.nets").action is Action.DIFFERENTIAL
        assert tr.verify("s.nets").equal
        assert [r for (r,) in rows(tr.spark, "SELECT n FROM s.nets WHERE n IS NOT NULL")] == [made_net("119.00")]
        with refused("HAS_DEPENDENTS", "s.full, s.nets"):
            tr.drop_function("net")
        tr.drop_stream_table("s.full")
        tr.alter_stream_table("s.nets", query="SELECT v AS n FROM s.t")
        assert tr.store.stream_table(TableName.of("s.nets")).functions == ()
        assert tr.sql("SELECT net(NULL)").first()[0] is None
        tr.drop_function("NET")
        assert tr.functions() == ()
        with refused("UNKNOWN_FUNCTION", "net"):
            tr.drop_function("net")
        with pytest.raises(Exception, match="UNRESOLVED_ROUTINE"):
            tr.sql("SELECT net(NULL)")
        with refused("INVALID_QUERY", "net"):  # not found in a session that has been used with it, either
            tr.create_stream_table("s.again", "SELECT net(v) AS n FROM s.t")


def test_volatile(lake: Trickle) -> None:
    lake.create_function("dice", f"{HERE}:dice", returns="int", deterministic=False)
    query = "SELECT id, dice(6) AS d FROM s.orders"
    with refused("VOLATILE_FUNCTION", "dice() at line 1, column 12"):
        lake.create_stream_table("s.d", query)
    obstacle = lake.check(query).obstacle
    assert obstacle is not None
    assert (obstacle.reason, obstacle.column) == ("VOLATILE", 12)


def test_refusals(lake: Trickle, module: Path) -> None:
    tr = lake
    tr.spark.udf.register("shout", lambda s: s.upper(), "string")
    for act in (lambda q: tr.create_stream_table("s.x", q), tr.check):
        with refused("SESSION_OBJECT", "shout", 'tr.create_function("shout"'):
            act("SELECT shout(customer) AS c FROM s.orders")
    bad = {
        ("f", "nowhere.at_all:f", "int"): "nowhere",
        ("f", f"{HERE}:nothing", "int"): "its functions are: net, label",
        ("f", "json:dumps.x", "int"): "is not a path",
        ("f", "rates", "int"): "is not a path",
        ("f", "__main__:f", "int"): "is not a path",
        ("f", "math:sqrt", "double"): "no Python source",
        ("f", f"{HERE}:VAT", "int"): "Decimal",
        ("f", f"{HERE}:cached", "int"): "is not a plain Python function",
        ("f", f"{HERE}:uses_cached", "int"): "cannot be sent to executors",
        ("f", f"{HERE}:later", "int"): "coroutine",
        ("f", f"{HERE}:decorated", "int"): "UDF already",
        ("f", f"{HERE}:Decimal", "int"): "is not a plain Python function",
        ("f", f"{HERE}:dataclass", "int"): "is defined in dataclasses",
        ("f", "rates:scale", "number(3)"): "'number(3)' is not a Spark type",
        ("s.f", "rates:scale", "int"): "is not a valid function name",
        ("", "rates:scale", "int"): "is not a valid function name",
        ("upper", "rates:scale", "int"): "a function of Spark",
        ("select", "rates:scale", "int"): "select",
    }
    for (name, path, returns), words in bad.items():
        with refused("INVALID_FUNCTION", words):
            tr.create_function(name, path, returns)
    module.write_text("def scale(x) return x")
    with refused("INVALID_FUNCTION", "rates:scale", "SyntaxError"):
        tr.create_function("f", "rates:scale", "int")
    assert tr.functions() == ()
    made = tr.create_function("net", f"{HERE}:net", "decimal(10,2)")
    with refused("NAME_TAKEN", "net"):
        tr.create_function("NET", f"{HERE}:label", "string")
    assert tr.functions() == (made,)
    assert str(made) == f"net: {HERE}:net returns decimal(10,2)"
    assert LakeFunction("net", "a:b", "int", False).version != LakeFunction("net", "a:b", "int", True).version


def test_command_line(
    lake: Trickle, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    at = ["-C", str(tmp_path / "lake")]
    monkeypatch.setenv("COLUMNS", "160")
    assert run(["function", "create", "net", f"{HERE}:net", "--returns", "decimal(10,2)", *at]) == 0
    assert f"{HERE}:net" in capsys.readouterr().out
    assert run(["function", "create", "dice", f"{HERE}:dice", "-r", "int", "--volatile", *at, "-o", "json"]) == 0
    assert json.loads(capsys.readouterr().out)["deterministic"] is False
    assert run(["function", "list", *at, "-o", "json"]) == 0
    assert [f["name"] for f in json.loads(capsys.readouterr().out)] == ["dice", "net"]
    assert run(["function", "list", *at]) == 0
    assert "decimal(10,2)" in capsys.readouterr().out
    assert run(["sql", "SELECT net(119.00BD) AS n", *at, "-o", "json"]) == 0
    assert json.loads(capsys.readouterr().out)[0]["rows"] == [["100.00"]]
    assert run(["function", "create", "upper", f"{HERE}:net", "-r", "int", *at]) == 2
    assert "INVALID_FUNCTION" in capsys.readouterr().err
    lake.create_stream_table("s.n", "SELECT net(amount) AS n FROM s.orders")
    assert run(["function", "drop", "net", *at]) == 2
    assert "used by s.n" in capsys.readouterr().err
    assert run(["function", "drop", "dice", *at]) == 0
    assert "dice is dropped" in capsys.readouterr().out
    assert run(["function", "list", *at, "-o", "json"]) == 0
    assert [f["name"] for f in json.loads(capsys.readouterr().out)] == ["net"]
