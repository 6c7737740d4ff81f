"""`trickle up` as a process of its own."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import threading
from pathlib import Path

import psutil
import pytest

from spark_trickle import Trickle, connect
from spark_trickle.scheduler.decide import LEASE
from tests.conftest import QUICK

pytestmark = pytest.mark.spark


def started(folder: Path) -> tuple[subprocess.Popen[str], threading.Timer]:
    """The process, and what kills it when it takes too long."""
    environment = {**os.environ, "TRICKLE_MASTER": "local[1]", "TRICKLE_DRIVER_MEMORY": "1g"}
    command = [
        sys.executable,
        "-c",
        "from spark_trickle.cli import main; main()",
        "--lake",
        str(folder),
        "up",
        "--no-web",
        "--output",
        "json",
    ]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=environment)
    watchdog = threading.Timer(300, process.kill)
    watchdog.start()
    return process, watchdog


def test_it_refreshes_and_ends_well_on_ctrl_c(tr: Trickle) -> None:
    tr.sql("CREATE TABLE t (k INT)")
    tr.sql("INSERT INTO t SELECT id FROM range(50)")
    tr.create_stream_table("s.copy", "SELECT k FROM t", schedule="1s")
    tr.sql("INSERT INTO t VALUES (99)")
    folder = Path(tr.settings.location)
    process, watchdog = started(folder)
    try:
        assert process.stdout is not None
        told = json.loads(process.stdout.readline())
        assert (told["name"], told["action"], told["rows_inserted"]) == ("s.copy", "DIFFERENTIAL", 1)
        # SIGHUP, which would end it, has the settings read again.
        (folder / "trickle.toml").write_text("lease_seconds = 31\n", encoding="utf-8")
        process.send_signal(signal.SIGHUP)
        assert process.stderr is not None
        told = next(line for line in process.stderr if "lease_seconds" in line)
        assert told.strip().endswith("these settings take effect when the process starts again: lease_seconds")
        process.send_signal(signal.SIGINT)
        assert process.wait() == 0, process.stderr.read() if process.stderr else ""
    finally:
        watchdog.cancel()
        process.kill()
        process.communicate()
    with connect(folder, **QUICK) as again:
        assert again.refresher.store.find(again._name("s.copy")).consecutive_errors == 0
        assert again.verify("s.copy").equal


def test_it_ends_with_an_error_when_sparks_jvm_dies(tr: Trickle) -> None:
    tr.sql("CREATE TABLE t (k INT)")
    tr.create_stream_table("s.copy", "SELECT k FROM t", schedule="1s")
    process, watchdog = started(Path(tr.settings.location))
    try:
        assert process.stdout is not None
        assert json.loads(process.stdout.readline())["name"] == "s.copy"
        jvms = [p for p in psutil.Process(process.pid).children(recursive=True) if p.name() == "java"]
        assert jvms
        for jvm in jvms:
            jvm.kill()
        assert process.wait(60) > 0
        assert process.stderr is not None
        assert "JVM is gone" in process.stderr.read()
    finally:
        watchdog.cancel()
        process.kill()
        process.communicate()
    assert tr.store.lease_expires_at(LEASE) is None, "another one may lead at once"
