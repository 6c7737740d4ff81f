"""Commands that leave their work to a `trickle up`: the same answers, without Spark of their own."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from tests.conftest import QUICK

from spark_trickle import connect
from spark_trickle.cli.app import run
from spark_trickle.config import Settings
from spark_trickle.web.registration import FILE_NAME, find

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.spark
TOKEN = "0123456789abcdef-token"
TOTALS = "SELECT k % 3 AS g, count(*) AS n FROM s.t GROUP BY k % 3"
MAIN = "from spark_trickle.cli import main; main()"


@dataclass
class Up:
    lake: Path
    process: subprocess.Popen[str]
    log: Path


@pytest.fixture(scope="module")
def up(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Up]:
    """A lake with a stream table that is refreshed by hand, and its service, which wants a token."""
    del spark
    folder = tmp_path_factory.mktemp("up")
    lake, log = folder / "lake", folder / "log"
    with connect(lake, **QUICK) as tr:
        tr.sql("CREATE NAMESPACE s")
        tr.sql("CREATE TABLE s.t AS SELECT id AS k FROM range(10)")
        tr.create_stream_table("s.totals", TOTALS, schedule="manual")
        tr.sql("INSERT INTO s.t VALUES (100)")
    given = {"TRICKLE_MASTER": "local[1]", "TRICKLE_DRIVER_MEMORY": "1g", "TRICKLE_SERVICE_TOKEN": TOKEN}
    command = [sys.executable, "-c", MAIN, "-C", str(lake), "up", "--port", "0", "--log-format", "json"]
    with log.open("w") as to:
        process = subprocess.Popen(command, stdout=to, stderr=to, text=True, env={**os.environ, **given})
    try:
        deadline = time.monotonic() + 120
        while not (lake / FILE_NAME).exists():
            assert process.poll() is None, log.read_text()
            assert time.monotonic() < deadline, log.read_text()
            time.sleep(0.1)
        yield Up(lake, process, log)
    finally:
        process.kill()
        process.wait()


@pytest.fixture
def lake(up: Up, monkeypatch: pytest.MonkeyPatch) -> str:
    monkeypatch.setenv("TRICKLE_SERVICE_TOKEN", TOKEN)
    monkeypatch.setenv("TRICKLE_SHUFFLE_PARTITIONS", "2")
    monkeypatch.setenv("COLUMNS", "200")
    return str(up.lake)


def shown(capsys: pytest.CaptureFixture[str], *arguments: str) -> tuple[int, str, str]:
    """Exit code and both outputs, without times."""
    code = run(list(arguments))
    out, err = capsys.readouterr()
    return code, *(re.sub(r"\d+\.\d\d+|\d\d:\d\d:\d\d|\s+", " ", text) for text in (out, err))


def result(capsys: pytest.CaptureFixture[str], *arguments: str) -> Any:
    code = run([*arguments, "-o", "json"])
    out, err = capsys.readouterr()
    assert code == 0, err
    return json.loads(out)


def test_a_warm_refresh_needs_no_spark(lake: str) -> None:
    asks = (
        "import sys, time; began = time.time(); from spark_trickle.cli.app import run\n"
        f"code = run(['-C', {lake!r}, 'refresh', 's.totals', '-o', 'json'])\n"
        "heavy = {m.partition('.')[0] for m in sys.modules} & {'pyspark', 'sqlalchemy', 'sqlglot', 'fastapi'}\n"
        "print(f'{time.time() - began:.2f} s', file=sys.stderr); sys.exit(code or str(heavy) if heavy else code)"
    )
    for action in ("FULL", "NO_DATA"):  # the first one of a process takes long
        done = subprocess.run([sys.executable, "-c", asks], capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stderr
        found = json.loads(done.stdout)[0]
        assert found["name"] == "s.totals"
        if action == "NO_DATA":
            assert found["action"] == action
        else:
            assert found["rows_changed"] == {"s.t": 1}
    print(done.stderr)


@pytest.mark.parametrize(
    "command",
    [
        ("refresh", "s.totals"),
        ("refresh", "--all"),
        ("refresh", "s.totals", "--dry-run"),
        ("explain", "s.totals"),
        ("verify", "-o", "json"),
        ("sql", "REFRESH STREAM TABLE s.totals; SHOW STREAM TABLES"),
        ("sql", "DESCRIBE STREAM TABLE s.totals"),
        ("sql", "SELECT count(*) FROM s.totals"),
        ("check", "{file}"),
        ("refresh", "s.nothing"),
        ("explain", "s.nothing", "-o", "json"),
        ("drop", "s.nothing"),
        ("drop", "s.nothing", "--if-exists"),
        ("create", "s.x", "-q", "SELECT * FROM s.nowhere"),
        ("create", "s.x", "-q", "SELEC 1"),
        ("alter", "s.totals", "--mode", "sometimes"),
        ("refresh", "s.totals", "--mode", "sometimes"),
    ],
)
def test_the_same_answers(
    lake: str, tmp_path: Path, capsys: pytest.CaptureFixture[str], command: tuple[str, ...]
) -> None:
    file = tmp_path / "q.sql"
    file.write_text("SELECT DISTINCT k FROM s.t WHERE rand() < 1")
    given = ["-C", lake, *(word.format(file=file) for word in command)]
    assert shown(capsys, *given) == shown(capsys, "--local", *given)


def test_create_alter_drop(lake: str, capsys: pytest.CaptureFixture[str]) -> None:
    at = ("-C", lake)
    options = ["--set", "ansi=false", "--comment", "it's\none", "--partition-by", "k", "--property", "a.b=c"]
    name = "s.`my odd-name`"
    made = result(capsys, *at, "create", name, "-q", "SELECT k FROM s.t -- all\n", "-s", "1h", *options)
    assert (made["name"], made["action"], made["rows_inserted"]) == ("s.my odd-name", "FULL", 11)
    described = result(capsys, *at, "describe", name)
    assert ["spark.sql.ansi.enabled", "false"] in described["settings"]
    altered = result(capsys, *at, "alter", name, "-q", "SELECT k FROM s.t WHERE k > 3", "--mode", "full")
    assert altered["rows_deleted"] + altered["rows_inserted"] > 0
    assert result(capsys, *at, "alter", name, "--star", "follow")
    assert len(result(capsys, *at, "refresh", "s.totals", name)) == 2
    assert result(capsys, *at, "status", name)[0]["mode"] == "FULL"
    assert result(capsys, *at, "drop", name) == {"dropped": ["s.my odd-name"]}


def test_without_the_token(lake: str, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    for token in (None, "another-token-0123456789"):
        monkeypatch.delenv("TRICKLE_SERVICE_TOKEN")
        if token is not None:
            monkeypatch.setenv("TRICKLE_SERVICE_TOKEN", token)
        assert run(["-C", lake, "refresh", "s.totals"]) == 2
        err = capsys.readouterr().err
        assert "UNAUTHORIZED" in err
        assert "TRICKLE_SERVICE_TOKEN" in err
        monkeypatch.setenv("TRICKLE_SERVICE_TOKEN", TOKEN)


def test_it_ends_well(up: Up, lake: str, capsys: pytest.CaptureFixture[str]) -> None:
    """The last one here: whoever asks afterwards works by itself."""
    settings = Settings.load(lake)
    assert find(settings) is not None
    up.process.send_signal(signal.SIGTERM)
    assert up.process.wait(60) == 0
    assert not (up.lake / FILE_NAME).exists()
    assert find(settings) is None
    log = up.log.read_text()
    assert TOKEN not in log
    lines = [line for line in log.splitlines() if line.startswith("{")]
    assert "this scheduler leads" in {json.loads(line)["message"] for line in lines}
    assert result(capsys, "-C", lake, "refresh", "s.totals")[0]["action"] == "NO_DATA"
