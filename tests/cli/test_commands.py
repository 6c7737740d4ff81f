"""Every command on a real lake, in the order a user would meet them."""

from __future__ import annotations

import io
import json
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import spark_trickle
from spark_trickle.catalog.migrations import HEAD
from spark_trickle.cli.app import run
from spark_trickle.config import Settings
from spark_trickle.spark.session import build_session, release_session

pytestmark = pytest.mark.spark


@pytest.fixture(scope="module")
def _warm(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """A session that stays, so that each command need not start Spark again."""
    folder = tmp_path_factory.mktemp("warm")
    spark = build_session(Settings.load(folder, master="local[2]", shuffle_partitions=2))
    yield
    release_session(spark)


@pytest.fixture
def lake(_warm: None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Path:
    """A lake with a source, and the current folder beside it."""
    for variable in list(os.environ):
        if variable.startswith("TRICKLE_"):
            monkeypatch.delenv(variable)
    monkeypatch.setenv("TRICKLE_SHUFFLE_PARTITIONS", "2")
    monkeypatch.setenv("COLUMNS", "200")
    monkeypatch.chdir(tmp_path)
    assert run(["init"]) == 0, capsys.readouterr().err
    source = "CREATE TABLE shop.orders (id BIGINT, customer STRING, amount DECIMAL(10, 2))"
    rows = "INSERT INTO shop.orders VALUES (1, 'ann', 10), (2, 'bob', 20), (3, 'ann', 5.5)"
    assert run(["sql", source, rows]) == 0, capsys.readouterr().err
    capsys.readouterr()
    return tmp_path / "lakehouse"


def result(capsys: pytest.CaptureFixture[str], *arguments: str, code: int = 0) -> Any:
    """The JSON that a command prints."""
    found = run([*arguments, "--output", "json"])
    shown = capsys.readouterr()
    assert found == code, shown.err
    return json.loads(shown.out)


TOTALS = "SELECT customer, count(*) AS orders, sum(amount) AS total FROM shop.orders GROUP BY customer"


def test_init_makes_a_lake_that_says_how_to_go_on(lake: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert (lake / "catalog.db").is_file()
    assert (lake / "trickle.toml").is_file()
    (lake / "trickle.toml").write_text("shuffle_partitions = 3\n")
    assert run(["init"]) == 0  # again: nothing is lost
    assert "Next: trickle sql" in capsys.readouterr().out
    assert (lake / "trickle.toml").read_text() == "shuffle_partitions = 3\n"
    assert result(capsys, "sql", "SELECT count(*) FROM shop.orders")[0]["rows"] == [[3]]


def test_sql_from_argument_file_and_pipe(
    lake: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    first, second = result(
        capsys, "sql", "SELECT id, amount FROM shop.orders ORDER BY id; SELECT 'a;b' AS x, NULL AS n"
    )
    assert first["columns"] == ["id", "amount"]
    assert first["types"] == ["bigint", "decimal(10,2)"]
    assert first["rows"] == [[1, "10.00"], [2, "20.00"], [3, "5.50"]]
    assert second["rows"] == [["a;b", None]]
    (tmp_path / "q.sql").write_text("-- a remark\nSELECT count(*) AS n FROM shop.orders;\n")
    assert result(capsys, "sql", "-f", "q.sql")[0]["rows"] == [[3]]
    monkeypatch.setattr("sys.stdin", io.StringIO("SELECT double('NaN'), named_struct('a', 1), array(1, 2), X'ff'"))
    assert result(capsys, "sql")[0]["rows"] == [["nan", {"a": 1}, [1, 2], "X'ff'"]]


def test_sql_as_text(lake: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["sql", "--limit", "2", "SELECT id, '[bold]x' AS `[red]y` FROM shop.orders ORDER BY id"]) == 0
    shown = capsys.readouterr().out
    assert "[red]y" in shown  # text of the user is never markup
    assert "[bold]x" in shown
    assert "2 rows, more left off" in shown
    assert run(["sql", "CREATE NAMESPACE other"]) == 0
    assert capsys.readouterr().out == "ok\n"


def test_spark_refusing_a_statement_is_an_error_of_the_user(lake: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["sql", "SELECT nope FROM shop.orders"]) == 2
    shown = capsys.readouterr()
    assert "INVALID_QUERY" in shown.err
    assert "nope" in shown.err
    assert "Traceback" not in shown.err
    assert "JVM" not in shown.err
    assert run(["sql", "SELEC 1"]) == 2
    assert "PARSE_SYNTAX_ERROR" in capsys.readouterr().err


def test_life_of_a_stream_table(lake: Path, capsys: pytest.CaptureFixture[str]) -> None:
    created = result(capsys, "create", "shop.totals", "-q", TOTALS, "--schedule", "5m")
    assert created["name"] == "shop.totals"
    assert created["rows_inserted"] == 2
    assert result(capsys, "verify")[0]["equal"] is True

    assert run(["sql", "INSERT INTO shop.orders VALUES (4, 'cid', 1)"]) == 0
    capsys.readouterr()
    assert result(capsys, "status")[0]["pending"] is True
    (refreshed,) = result(capsys, "refresh", "shop.totals")
    assert refreshed["action"] in ("DIFFERENTIAL", "FULL")
    assert result(capsys, "refresh", "--all")[0]["action"] == "NO_DATA"
    (status,) = result(capsys, "status", "shop.totals")
    assert (status["pending"], status["schedule"], status["status"]) == (False, "5m", "ACTIVE")
    assert result(capsys, "refresh", "shop.totals", "--mode", "full")[0]["action"] == "FULL"
    assert result(capsys, "sql", "SELECT total FROM shop.totals WHERE customer = 'cid'")[0]["rows"] == [["1.00"]]

    assert "GROUP BY" in result(capsys, "explain", "shop.totals")["definition"]
    history = result(capsys, "history", "shop.totals", "-n", "2")
    assert len(history) == 2
    assert history[0]["started_at"] >= history[1]["started_at"]

    result(capsys, "alter", "shop.totals", "--schedule", "10m")
    assert result(capsys, "status")[0]["schedule"] == "10m"
    assert result(capsys, "drop", "shop.totals")["dropped"] == ["shop.totals"]
    assert result(capsys, "status") == []


def test_text_of_the_commands(lake: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["create", "shop.totals", "-q", TOTALS]) == 0
    for arguments, says in (
        (["status"], "ACTIVE"),
        (["history"], "COMPLETED"),
        (["refresh", "shop.totals"], "NO_DATA"),
        (["verify", "shop.totals"], "yes"),
        (["explain", "shop.totals"], "operators:"),
        (["sql", "SHOW STREAM TABLES"], "shop.totals"),
        (["drop", "shop.totals"], "shop.totals is dropped."),
        (["drop", "shop.totals", "--if-exists"], "There was no shop.totals."),
        (["status"], "(none)"),
    ):
        capsys.readouterr()
        assert run(arguments) == 0, capsys.readouterr().err
        assert says in capsys.readouterr().out


def test_names_that_need_quotes(lake: Path, capsys: pytest.CaptureFixture[str]) -> None:
    result(capsys, "create", "shop.`my-totals`", "-q", TOTALS)
    assert [v["equal"] for v in result(capsys, "verify")] == [True]
    assert [r["action"] for r in result(capsys, "refresh", "--all")] == ["NO_DATA"]


def test_a_dry_run(lake: Path, capsys: pytest.CaptureFixture[str]) -> None:
    result(capsys, "create", "shop.totals", "-q", TOTALS)
    (found,) = result(capsys, "refresh", "shop.totals", "--mode", "full", "--dry-run")
    assert (found["name"], found["action"]) == ("shop.totals", "FULL")
    assert "customer" in found["sql"]
    assert [r["action"] for r in result(capsys, "refresh", "--all", "--dry-run")] == ["NO_DATA"]
    assert len(result(capsys, "history")) == 1


def test_verify_that_differs_exits_1(lake: Path, capsys: pytest.CaptureFixture[str]) -> None:
    result(capsys, "create", "shop.totals", "-q", TOTALS)
    with spark_trickle.connect(lake) as tr:
        tr.spark.sql("DELETE FROM shop.totals WHERE customer = 'ann'")
    (found,) = result(capsys, "verify", code=1)
    assert (found["equal"], found["missing"]) == (False, 1)


def test_errors_have_their_exit_code(lake: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for arguments, code, says in (
        (["refresh", "shop.nothing"], 2, "UNKNOWN_STREAM_TABLE"),
        (["create", "shop.x", "-q", "SELECT * FROM shop.nowhere"], 2, "UNKNOWN_TABLE"),
        (["create", "shop.x", "-q", TOTALS, "--mode", "sometimes"], 2, "INVALID_MODE"),
        (["create", "shop.orders", "-q", TOTALS], 2, "NAME_TAKEN"),
        (["drop", "shop.nothing"], 2, "UNKNOWN_STREAM_TABLE"),
    ):
        assert run([*arguments, "-o", "json"]) == code
        assert json.loads(capsys.readouterr().err)["error"]["code"] == says


def test_doctor_on_a_lake(lake: Path, capsys: pytest.CaptureFixture[str]) -> None:
    found = {c["name"]: c for c in result(capsys, "doctor")}
    assert {c["level"] for c in found.values()} <= {"ok", "warn"}
    assert f"schema {HEAD}" in found["catalog"]["found"]
    assert found["spark starts"]["found"].startswith("Spark 4.1")


@pytest.mark.slow
def test_demo(lake: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    shown = result(capsys, "demo", "--rows", "3000", "--rounds", "4", "--dir", "demo")
    assert shown["equal"] is True
    refreshed = [e["data"] for e in shown["events"] if e["event"] == "refreshed"]
    assert len(refreshed) == 20
    assert "DIFFERENTIAL" in {r["action"] for r in refreshed}
    assert all(r["seconds"] > 0 and r["full_seconds"] > 0 for r in refreshed)
    assert sum(r["rows_inserted"] + r["rows_updated"] + r["rows_deleted"] for r in refreshed) > 20
    # Again over its own folder.
    assert result(capsys, "demo", "--rows", "300", "--rounds", "1", "--dir", "demo")["equal"] is True


def test_check_before_creation(
    lake: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "good.sql").write_text(f"-- totals\n{TOTALS};\n")
    good = result(capsys, "check", "good.sql")
    assert (good["incremental"], good["obstacle"]) == (True, None)
    assert [i["name"] for i in good["inputs"]] == ["shop.orders"]
    assert run(["check", "good.sql", "--sql"]) == 0
    shown = capsys.readouterr().out
    assert "incremental, identity: group keys customer" in shown
    assert "GROUP BY" in shown
    monkeypatch.setattr("sys.stdin", io.StringIO("SELECT id,\n  rand() AS r FROM shop.orders"))
    bad = result(capsys, "check", "-", code=2)
    assert (bad["obstacle"]["reason"], bad["obstacle"]["line"], bad["obstacle"]["column"]) == ("VOLATILE", 2, 3)
    (tmp_path / "bad.sql").write_text("SELECT uuid() AS u FROM shop.orders")
    assert run(["check", "bad.sql"]) == 2
    shown = capsys.readouterr().out
    assert "VOLATILE at line 1, column 8 (never)" in shown
    assert "→ " in shown
    assert run(["check", "nowhere.sql"]) == 2
    assert "cannot be read" in capsys.readouterr().err
    assert result(capsys, "status") == []


def test_volatile_functions_are_noticed_and_skipped(
    lake: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    dice = "SELECT id, rand() AS r FROM shop.orders"
    assert run(["create", "shop.dice", "-q", dice]) == 2
    assert "VOLATILE_FUNCTION" in capsys.readouterr().err
    monkeypatch.setenv("TRICKLE_VOLATILE_FUNCTIONS", "warn")
    assert run(["create", "shop.dice", "-q", dice]) == 0
    assert "notice: rand()" in capsys.readouterr().out
    result(capsys, "create", "shop.totals", "-q", TOTALS)
    assert run(["verify"]) == 0
    shown = capsys.readouterr()
    assert "shop.totals" in shown.out
    assert "skipped: shop.dice" in shown.err
    assert run(["verify", "shop.dice"]) == 2


def test_sources(lake: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """What needs no Delta Lake; this Spark has none."""
    assert result(capsys, "source", "list") == []
    assert run(["source", "create", "shop.clicks", "/nowhere"]) == 2
    shown = capsys.readouterr().err
    assert "UNSUITABLE_SESSION" in shown
    assert "io.delta:delta-spark" in shown
    assert run(["source", "create", "shop.clicks", "/nowhere", "--format", "parquet"]) == 2
    assert "INVALID_SOURCE" in capsys.readouterr().err
    assert run(["source", "drop", "shop.clicks"]) == 2
    assert "UNKNOWN_SOURCE" in capsys.readouterr().err


def test_settings_of_a_definition(lake: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["create", "shop.totals", "-q", TOTALS, "--set", "time_zone=Europe/Berlin", "--set", "ansi=false"]) == 0
    assert "notice: spark.sql.session.timeZone is UTC in your session" in capsys.readouterr().out
    described = result(capsys, "describe", "shop.totals")
    assert described["settings"][:2] == [
        ["spark.sql.ansi.enabled", "false"],
        ["spark.sql.session.timeZone", "Europe/Berlin"],
    ]
    altered = result(capsys, "alter", "shop.totals", "--set", "ansi=true")
    assert altered["reason"] == "ALTERED: spark.sql.ansi.enabled is true, was false"
    assert run(["describe", "shop.totals"]) == 0
    shown = capsys.readouterr().out
    assert "spark.sql.session.timeZone = Europe/Berlin" in shown
    assert "ansi" not in shown
    assert run(["alter", "shop.totals", "--set", "ansi"]) == 2
    assert run(["alter", "shop.totals", "--set", "spark.sql.caseSensitive=true"]) == 2


def test_options_of_the_table(lake: Path, capsys: pytest.CaptureFixture[str]) -> None:
    from pyiceberg.catalog.sql import SqlCatalog

    query = "SELECT id, customer, amount FROM shop.orders"
    layout = ["--partition-by", "customer", "--partition-by", "bucket(2, id)", "--cluster-by", "amount DESC"]
    named = ["--cluster-by", "id", "--comment", "one per order", "--property", "a.b=c=d", "--property", "e=f"]
    assert result(capsys, "create", "shop.lines", "-q", query, *layout, *named)["rows_inserted"] == 3
    # As README.md and docs/tables.md read it.
    catalog = SqlCatalog("lake", uri="sqlite:///lakehouse/catalog.db", warehouse="lakehouse/warehouse")
    table = catalog.load_table("shop.lines")
    assert [str(f.transform) for f in table.spec().fields] == ["identity", "bucket[2]"]
    assert [str(f.direction) for f in table.sort_order().fields] == ["DESC", "ASC"]
    assert [table.properties[key] for key in ("comment", "a.b", "e")] == ["one per order", "c=d", "f"]
    assert table.scan().to_arrow().sort_by("id").to_pydict()["customer"] == ["ann", "bob", "ann"]

    for arguments, says in (
        (["--property", "nope"], "--property nope: write it as KEY=VALUE."),
        (["--property", "format-version=2"], "format-version"),
        (["--partition-by", "week(id)"], "year, month, day, hour, bucket, truncate"),
        (["--cluster-by", "nope"], "nope"),
    ):
        assert run(["create", "shop.bad", "-q", query, *arguments]) == 2
        assert says in capsys.readouterr().err
    assert [s["name"] for s in result(capsys, "status")] == ["shop.lines"]
