"""Spark's classes in an archive: which file a JVM uses. That one starts with it: test_session.py."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from spark_trickle.spark.archive import find, java_options, keep, stem_of


@pytest.fixture
def java(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    """A program that takes every archive for whole but one that says `broken`."""
    for name in ("SPARK_CONF_DIR", "HADOOP_CONF_DIR", "YARN_CONF_DIR", "SPARK_DIST_CLASSPATH"):
        monkeypatch.delenv(name, raising=False)
    return program(tmp_path / "java")


def program(path: Path) -> str:
    path.write_text('#!/bin/sh\n! grep -q broken "${1#*=}"\n')
    path.chmod(0o755)
    return str(path)


def make(java: str, cache: Path, text: str = "classes") -> Path | None:
    cache.mkdir(exist_ok=True)
    stem = stem_of(java, cache)
    assert stem is not None
    (cache / "written").write_text(text)
    return keep(java, stem, cache / "written")


def test_what_was_made_is_used(java: str, tmp_path: Path) -> None:
    cache = tmp_path / "cache"
    assert java_options(java, cache) == []
    archive = make(java, cache)
    assert archive is not None
    assert archive.read_text() == "classes"
    assert java_options(java, cache)[0] == f"-XX:SharedArchiveFile={archive}"
    assert [p.name for p in cache.iterdir()] == [archive.name]


def test_what_is_not_whole_is_not_used(java: str, tmp_path: Path) -> None:
    assert make(java, tmp_path / "cache", "broken") is None
    assert list((tmp_path / "cache").iterdir()) == []
    archive = make(java, tmp_path / "cache")
    assert archive is not None
    archive.write_text("class")
    assert find(java, tmp_path / "cache") is None
    assert make(java, tmp_path / "cache") == archive, "and it is made again"
    assert find(java, tmp_path / "cache") == archive


def test_another_java_has_another_archive(java: str, tmp_path: Path) -> None:
    cache = tmp_path / "cache"
    made = [make(java, cache), *(make(program(tmp_path / f"java{n}"), cache) for n in range(3))]
    assert len(set(made)) == 4
    for n, path in enumerate(made):
        if path is not None and path.exists():
            os.utime(path, (n, n))
    assert [path is not None and path.exists() for path in made] == [False, False, True, True], "the newest two"


def test_where_none_can_be_made(java: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert stem_of(java, tmp_path / "a b") is None
    assert stem_of(str(tmp_path / "no java"), tmp_path) is None
    monkeypatch.setenv("HADOOP_CONF_DIR", str(tmp_path))
    assert java_options(java, tmp_path) == []
