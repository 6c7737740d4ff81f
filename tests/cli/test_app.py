"""Parsing, help, errors and exit codes; what needs a lake is in test_commands.py."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
import time
from pathlib import Path

import pytest

from spark_trickle import __version__
from spark_trickle.cli.app import app, hoist, run

COMMANDS = [
    *("init", "sql", "create", "alter", "drop", "refresh", "status", "history"),
    *("explain", "describe", "changes", "check", "verify", "function", "source", "demo", "doctor", "version"),
    *("up", "suspend", "resume", "enable", "disable", "graph", "alerts", "maintain"),
    *("health", "statistics", "groups", "cycles", "compliance", "pending", "sources", "lineage"),
]


@pytest.fixture(autouse=True)
def _alone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for variable in list(os.environ):
        if variable.startswith("TRICKLE_"):
            monkeypatch.delenv(variable)
    monkeypatch.chdir(tmp_path)


def test_help_is_quick_and_loads_nothing_heavy() -> None:
    code = (
        "import sys; from spark_trickle.cli.app import run; run(['--help']); "
        "print([m for m in ('pyspark', 'sqlalchemy', 'sqlglot', 'pydantic') if m in sys.modules])"
    )
    began = time.perf_counter()
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert time.perf_counter() - began < 3  # 0.3 s on an idle machine
    assert done.stdout.splitlines()[-1] == "[]"


def test_every_command_is_there_with_an_example(capsys: pytest.CaptureFixture[str]) -> None:
    import typer

    commands = typer.main.get_command(app).commands  # type: ignore[attr-defined]
    assert sorted(commands) == sorted(COMMANDS)
    for name in COMMANDS:
        assert run([name, "--help"]) == 0
        shown = capsys.readouterr().out
        assert "Usage: trickle" in shown
        # Once in the usage line, and again in an example.
        assert name == "version" or len(re.findall(rf"trickle {name}\b", shown)) > 1


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        (["status", "-o", "json"], ["-o", "json", "status"]),
        (["status", "--output=json", "x"], ["--output=json", "status", "x"]),
        (["sql", "SELECT 1", "-C", "lake", "--debug"], ["-C", "lake", "--debug", "sql", "SELECT 1"]),
        (["sql", "--", "-C", "lake"], ["sql", "--", "-C", "lake"]),
        (["status", "-o"], ["status", "-o"]),
    ],
)
def test_global_options_stand_anywhere(given: list[str], expected: list[str]) -> None:
    assert hoist(given) == expected


def test_version(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["version"]) == 0
    assert capsys.readouterr().out == f"spark-trickle {__version__}\n"
    assert run(["version", "-o", "json"]) == 0
    assert json.loads(capsys.readouterr().out) == {"version": __version__}


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (["nonsense"], "nonsense"),
        (["status", "--nope"], "--nope"),
        (["status", "--output", "xml"], "xml"),
        (["refresh"], "--all"),
        (["refresh", "a.b", "--all"], "--all"),
        (["alter", "a.b"], "Say what to change"),
        (["create", "a.b", "-q", "SELECT 1", "-f", "x.sql"], "not both"),
        (["sql", "--limit", "0", "SELECT 1"], "--limit"),
        (["-C", "x", "init", "y"], "once"),
    ],
)
def test_wrong_use_exits_2(arguments: list[str], says: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(arguments) == 2
    shown = capsys.readouterr()
    assert says in shown.err
    assert shown.out == ""


@pytest.mark.parametrize("command", [["status"], ["refresh", "--all"], ["sql", "SELECT 1"], ["verify"]])
def test_a_missing_lake_is_not_made(command: list[str], tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["-C", "no such lake", *command]) == 2
    shown = capsys.readouterr().err
    assert "INVALID_SETTING" in shown
    assert "trickle init 'no such lake'" in shown
    assert not (tmp_path / "no such lake").exists()


def test_errors_as_json(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    assert run(["status", "-o", "json"]) == 2
    shown = capsys.readouterr()
    assert shown.out == ""
    error = json.loads(shown.err)["error"]
    assert (error["code"], error["kind"]) == ("INVALID_SETTING", "user")
    monkeypatch.setenv("TRICKLE_LEASE_SECONDS", "soon")
    assert run(["-o", "json", "status"]) == 2
    assert "TRICKLE_LEASE_SECONDS" in json.loads(capsys.readouterr().err)["error"]["message"]
    assert run(["-o", "json", "refresh"]) == 2
    assert "--all" in json.loads(capsys.readouterr().err)["error"]["message"]


def test_debug_shows_the_traceback(capsys: pytest.CaptureFixture[str]) -> None:
    run(["status"])
    assert "Traceback" not in capsys.readouterr().err
    run(["status", "--debug"])
    assert "Traceback" in capsys.readouterr().err


def test_sql_without_a_statement(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    (tmp_path / "empty.sql").write_text("-- nothing\n")
    assert run(["sql", "-f", "empty.sql"]) == 2
    assert "no statement" in capsys.readouterr().err
    assert run(["sql", "-f", "missing.sql"]) == 2
    assert "missing.sql" in capsys.readouterr().err


def test_demo_does_not_remove_a_folder_that_is_not_its_own(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine" / "precious").write_text("x")
    assert run(["demo", "--dir", "mine"]) == 2
    assert "is not a lake of the demo" in capsys.readouterr().err
    assert (tmp_path / "mine" / "precious").read_text() == "x"


def test_doctor_quick(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    assert run(["doctor", "--quick", "-o", "json"]) == 0
    found = {c["name"]: c for c in json.loads(capsys.readouterr().out)}
    assert found["java"]["level"] == "ok"
    assert found["catalog"]["level"] == "warn"
    assert "trickle init" in found["catalog"]["remedy"]
    assert "pyspark" in found
    assert not (tmp_path / "lakehouse").exists()  # a check changes nothing


def test_doctor_names_what_is_wrong(
    capsys: pytest.CaptureFixture[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "lakehouse").mkdir()
    (tmp_path / "lakehouse" / "catalog.db").write_bytes(b"this is no database, it only has the name of one")
    monkeypatch.setenv("JAVA_HOME", "/nowhere")
    assert run(["doctor", "--quick", "-o", "json"]) == 1
    found = {c["name"]: c for c in json.loads(capsys.readouterr().out)}
    assert found["java"]["level"] == found["catalog"]["level"] == "fail"
    assert "openjdk-17" in found["java"]["remedy"]
    monkeypatch.setenv("TRICKLE_NOPE", "1")
    assert run(["doctor", "--quick"]) == 1
    assert "TRICKLE_NOPE" in capsys.readouterr().out
