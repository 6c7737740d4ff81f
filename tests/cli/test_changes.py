"""`trickle changes` on a real lake."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from spark_trickle import connect
from spark_trickle.cli.app import run
from spark_trickle.cli.changes import since_of
from spark_trickle.config import Settings
from spark_trickle.spark.session import build_session, release_session


def test_since_is_a_number_a_time_or_a_token() -> None:
    assert since_of(None) is None
    assert since_of("8012345678901234567") == 8012345678901234567
    assert since_of("2026-01-31T12:00:00Z") == datetime(2026, 1, 31, 12, tzinfo=UTC)
    assert since_of("WzEsICJzIl0") == "WzEsICJzIl0"


def test_a_time_without_a_zone_is_refused_before_spark_starts(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(["-C", str(tmp_path / "nothing"), "changes", "s.a", "--since", "2026-01-31 12:00:00"]) == 2
    shown = capsys.readouterr().err
    assert "INVALID_SINCE" in shown
    assert "+00:00" in shown


@pytest.fixture(scope="module")
def lake(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """A lake with a stream table; its session stays, so that each command need not start Spark again."""
    for variable in [v for v in os.environ if v.startswith("TRICKLE_")]:
        os.environ.pop(variable)
    folder = tmp_path_factory.mktemp("changes") / "lake"
    spark = build_session(Settings.load(folder, master="local[2]", shuffle_partitions=2))
    with connect(folder, shuffle_partitions=2) as tr:
        tr.sql("CREATE NAMESPACE s")
        tr.sql("CREATE TABLE s.src (id BIGINT, name STRING)")
        tr.sql("INSERT INTO s.src VALUES (1, 'ann'), (2, NULL)")
        tr.create_stream_table("s.a", "SELECT id, name FROM s.src")
    yield folder
    release_session(spark)


def lines(capsys: pytest.CaptureFixture[str], lake: Path, *arguments: str, code: int = 0) -> list[dict[str, Any]]:
    found = run(["-C", str(lake), "changes", *arguments, "--output", "json"])
    shown = capsys.readouterr()
    assert found == code, shown.err
    return [json.loads(line) for line in shown.out.splitlines()]


@pytest.mark.spark
def test_changes_as_text_and_as_lines(lake: Path, capsys: pytest.CaptureFixture[str]) -> None:
    *rows, last = lines(capsys, lake, "s.a")
    assert [(r["id"], r["name"], r["_weight"]) for r in rows] == [(1, "ann", 1), (2, None, 1)]
    assert {r["_snapshot"] for r in rows} == {last["to_snapshot"]}
    assert last["from_snapshot"] is None
    with connect(lake, shuffle_partitions=2) as tr:
        tr.sql("UPDATE s.src SET name = 'bob' WHERE id = 2")
        tr.refresh("s.a")
    for since in (last["token"], str(last["to_snapshot"]), rows[0]["_time"]):
        *rows_since, end = lines(capsys, lake, "s.a", "--since", since)
        assert [(r["id"], r["name"], r["_weight"]) for r in rows_since] == [(2, None, -1), (2, "bob", 1)]
    (nothing,) = lines(capsys, lake, "s.a", "--since", end["token"])
    assert nothing["token"] == end["token"]
    (one, cut) = lines(capsys, lake, "s.a", "--since", last["token"], "--limit", "1")
    assert one["_weight"] == -1
    assert cut["token"] is None  # going on from it would miss a row

    assert run(["-C", str(lake), "changes", "s.a", "--since", last["token"]]) == 0
    shown = capsys.readouterr()
    assert "bob" in shown.out
    assert "2 rows" in shown.out
    assert f"token: {end['token']}" in shown.err
    assert run(["-C", str(lake), "changes", "s.a", "--since", last["token"], "-n", "1"]) == 0
    assert "no token" in capsys.readouterr().err
    assert run(["-C", str(lake), "changes", "s.a", "--since", "12345"]) == 3
    assert "since=None" in capsys.readouterr().err


@pytest.mark.spark
def test_follow_prints_each_publish_and_ends_on_interrupt(
    lake: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    waits: list[float] = []

    def wait(seconds: float) -> None:
        """Instead of sleeping, do what happens meanwhile; then press Ctrl-C."""
        waits.append(seconds)
        if len(waits) == 3:
            raise KeyboardInterrupt
        if len(waits) == 2:
            with connect(lake, shuffle_partitions=2) as tr:
                tr.sql("INSERT INTO s.src VALUES (7, 'cid')")
                tr.refresh("s.a")

    monkeypatch.setattr("spark_trickle.refresh.changes.sleep", wait)
    found = lines(capsys, lake, "s.a", "--follow")
    tokens = [n for n, line in enumerate(found) if "token" in line]
    assert len(tokens) == 2
    assert [(r["id"], r["_weight"]) for r in found[tokens[0] + 1 : tokens[1]]] == [(7, 1)]
    waits.clear()
    assert run(["-C", str(lake), "changes", "s.a", "--follow", "--since", found[-1]["token"]]) == 0
    shown = capsys.readouterr()
    assert "(7" not in shown.out
    assert shown.out.count("cid") == 1  # what was inserted meanwhile
    assert shown.err.count("token: ") == 1
    assert waits == [1.0] * 3
