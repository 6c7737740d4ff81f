"""Spark's classes in an archive: which file a JVM uses or writes. That one starts with it: test_session.py."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from spark_trickle.spark.archive import java_options

GONE = 2**22 + 1  # no process has this number: it is past the largest


@pytest.fixture
def java(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    for name in ("SPARK_CONF_DIR", "HADOOP_CONF_DIR", "YARN_CONF_DIR", "SPARK_DIST_CLASSPATH"):
        monkeypatch.delenv(name, raising=False)
    (tmp_path / "java").touch()
    return str(tmp_path / "java")


def written(options: list[str]) -> Path:
    """The file that a JVM with these options writes."""
    return Path(options[0].removeprefix("-XX:ArchiveClassesAtExit="))


def used(options: list[str]) -> Path:
    return Path(options[0].removeprefix("-XX:SharedArchiveFile="))


def leave(part: Path, process: int, *, seconds: float) -> Path:
    """What the JVM of another process wrote so many seconds ago."""
    left = part.with_name(part.name.replace(str(os.getpid()), str(process)))
    left.write_text("classes")
    at = left.stat().st_mtime - seconds
    os.utime(left, (at, at))
    return left


def test_first_process_writes_and_later_ones_use(java: str, tmp_path: Path) -> None:
    cache = tmp_path / "cache"
    part = written(java_options(java, cache))
    assert part.parent == cache
    assert str(os.getpid()) in part.name
    leave(part, GONE, seconds=60)
    twin = leave(part, GONE + 1, seconds=60)
    archive = used(java_options(java, cache))
    assert archive.read_text() == "classes"
    java_options(java, cache)
    assert not twin.exists(), "one is enough"


def test_what_may_still_be_written_is_left(java: str, tmp_path: Path) -> None:
    part = written(java_options(java, tmp_path))
    fresh = leave(part, GONE, seconds=0)
    running = leave(part, os.getppid(), seconds=60)
    assert written(java_options(java, tmp_path)) == part
    assert fresh.exists()
    assert running.exists()


def test_another_java_has_another_archive(java: str, tmp_path: Path) -> None:
    leave(written(java_options(java, tmp_path)), GONE, seconds=60)
    first = used(java_options(java, tmp_path))
    names = {first}
    for n in range(3):
        (tmp_path / f"java{n}").touch()
        other = str(tmp_path / f"java{n}")
        leave(written(java_options(other, tmp_path)), GONE, seconds=50 - n)
        names.add(used(java_options(other, tmp_path)))
    assert len(names) == 4
    assert sum(name.exists() for name in names) == 2
    assert not first.exists(), "the oldest go"


def test_where_none_can_be_made(java: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert java_options(java, tmp_path / "a b") == []
    (tmp_path / "file").touch()
    assert java_options(java, tmp_path / "file") == []
    assert java_options(str(tmp_path / "no java"), tmp_path) == []
    monkeypatch.setenv("HADOOP_CONF_DIR", str(tmp_path))
    assert java_options(java, tmp_path) == []
