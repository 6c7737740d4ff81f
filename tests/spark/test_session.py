"""Real Spark. Tests that must start Spark by themselves run in a process of their own."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import textwrap
from pathlib import Path

import pytest

from spark_trickle.config import Settings
from spark_trickle.errors import TrickleError
from spark_trickle.spark import session
from tests.postgres import fresh_database, temporary_postgres

# Ivy settings that look into an empty folder instead of the network.
NOWHERE = """<ivysettings><settings defaultResolver="nowhere"/><resolvers><filesystem name="nowhere">
<artifact pattern="{folder}/[artifact]-[revision].[ext]"/></filesystem></resolvers></ivysettings>"""
OPTIONS = {"master": "local[2]", "driver_memory": "2g", "shuffle_partitions": 2}


def run(code: str, folder: Path, **environment: str) -> subprocess.CompletedProcess[str]:
    """Run code in a fresh interpreter; `show(x)` in it prints x as JSON."""
    head = """
        import json, sys
        from spark_trickle.config import Settings
        from spark_trickle.errors import TrickleError
        from spark_trickle.spark.session import *
        from spark_trickle.spark import session
        OPTIONS = %r
        def show(x): print(json.dumps(x))
        def error(call):
            try: call()
            except TrickleError as e: return [e.code, e.message, e.hint]
            return None
    """
    text = textwrap.dedent(head) % OPTIONS + textwrap.dedent(code)
    return subprocess.run(
        [sys.executable, "-c", text],
        cwd=folder,
        env=os.environ | environment,
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )


def shown(done: subprocess.CompletedProcess[str]) -> list[object]:
    assert done.returncode == 0, done.stderr
    return [json.loads(line) for line in done.stdout.splitlines()]


@pytest.mark.spark
def test_two_lakes_in_one_process_and_nothing_on_standard_error(tmp_path: Path) -> None:
    done = run(
        """
        one, two = Settings.load("a b é", **OPTIONS), Settings.load("b", time_zone="Asia/Tokyo", **OPTIONS)
        first = build_session(one)
        first.sql("CREATE TABLE shop.t (id INT)")
        first.sql("INSERT INTO shop.t VALUES (1), (2)")
        first.sql("DELETE FROM shop.t WHERE id = 1")
        second = build_session(two)
        second.sql("CREATE TABLE shop.t AS SELECT 5 AS x")
        show([r[0] for r in first.sql("SELECT * FROM shop.t").collect()])
        show([r[0] for r in second.sql("SELECT * FROM shop.t").collect()])
        show(dict(map(tuple, first.sql("SHOW TBLPROPERTIES shop.t").collect())))
        show([first.conf.get("spark.sql.session.timeZone"), second.conf.get("spark.sql.session.timeZone")])
        try: first.sql("SELECT nope FROM shop.t")
        except Exception as e: show(type(e).__name__)
        private = new_session(first, one, "trickle_x_0")
        show([private.catalog.currentCatalog(), len(private.sql("SHOW NAMESPACES").collect())])
        release_session(second)
        release_session(second)  # a second time does nothing
        show(first.sql("SELECT count(*) FROM shop.t").collect()[0][0])
        release_session(first)
        third = build_session(one)
        show([r[0] for r in third.sql("SELECT * FROM shop.t").collect()])
        release_session(third)
        """,
        tmp_path,
    )
    rows, other, properties, zones, failure, private, count, again = shown(done)
    assert (rows, other, count, again) == ([2], [5], 1, [2])
    assert isinstance(properties, dict)
    assert properties["format-version"] == "3"
    assert {properties[f"write.{w}.mode"] for w in ("delete", "update", "merge")} == {"merge-on-read"}
    assert zones == ["UTC", "Asia/Tokyo"]
    assert failure == "AnalysisException"
    assert private == ["trickle_x_0", 0]
    assert done.stderr == ""
    assert (tmp_path / "a b é" / "warehouse" / "shop" / "t").is_dir()


@pytest.mark.spark
def test_a_session_without_iceberg_is_refused(tmp_path: Path) -> None:
    done = run(
        """
        from pyspark.sql import SparkSession
        settings = Settings.load("lake", **OPTIONS)
        spark = SparkSession.builder.master("local[1]").config("spark.ui.enabled", "false").getOrCreate()
        show(error(lambda: check_session(spark, settings)))
        show(error(lambda: build_session(settings)))
        spark.stop()
        spark = (SparkSession.builder.master("local[1]").config("spark.ui.enabled", "false")
            .config("spark.sql.extensions", EXTENSIONS).getOrCreate())
        show(error(lambda: check_session(spark, settings)))
        """,
        tmp_path,
    )
    extension, implicit, classes = shown(done)
    assert isinstance(extension, list)
    assert isinstance(classes, list)
    assert extension[0] == classes[0] == "UNSUITABLE_SESSION"
    assert f"spark.sql.extensions={session.EXTENSIONS}" in extension[2]
    assert implicit == extension
    assert f"spark.jars.packages={session.ICEBERG},{session.SQLITE}" in classes[2]


@pytest.mark.spark
def test_a_session_of_the_user_gets_the_catalog_or_is_refused(tmp_path: Path) -> None:
    done = run(
        """
        from pyspark.sql import SparkSession
        settings = Settings.load("lake", **OPTIONS)
        base = SparkSession.builder.config(map={
            "spark.master": "local[1]", "spark.ui.enabled": "false", "spark.sql.extensions": EXTENSIONS,
            "spark.jars": context_conf(settings)["spark.jars"]}).getOrCreate()
        spark = base.newSession()
        check_session(spark, settings)
        spark.sql("CREATE TABLE shop.t AS SELECT 1 AS x")
        show(spark.catalog.currentCatalog())
        check_session(spark, settings)   # a second time: it is configured now, and right
        for key, value in (("", "org.apache.iceberg.spark.SparkSessionCatalog"), (".type", "hadoop"),
                           (".uri", "jdbc:sqlite:/elsewhere.db"), (".cache-enabled", "true"),
                           (".jdbc.schema-version", "V0")):
            wrong = base.newSession()
            for k, v in (catalog_conf(settings) | {"spark.sql.catalog.lake" + key: value}).items():
                wrong.conf.set(k, v)
            show(error(lambda: check_session(wrong, settings)))
        silent = base.newSession()
        for k, v in catalog_conf(settings).items():
            if "cache" not in k: silent.conf.set(k, v)
        show(error(lambda: check_session(silent, settings)))
        own = build_session(Settings.load("other", **OPTIONS))  # on the same Spark, of another lake
        show(len(own.sql("SHOW NAMESPACES").collect()))
        release_session(own)
        release_session(spark)  # not ours to stop
        show(spark.sql("SELECT * FROM shop.t").collect()[0][0])
        """,
        tmp_path,
    )
    current, *wrong, silent, other, value = shown(done)
    assert (current, other, value) == ("lake", 0, 1)
    suffixes = ("", ".type", ".uri", ".cache-enabled", ".jdbc.schema-version")
    wanted = session.catalog_conf(Settings.load(tmp_path / "lake"))
    for suffix, found in zip(suffixes, wrong, strict=True):
        assert isinstance(found, list)
        key = f"spark.sql.catalog.lake{suffix}"
        assert found[0] == "UNSUITABLE_SESSION"
        assert f"Set {key}={wanted[key]}" in found[2]
    assert isinstance(silent, list)
    assert "cache-enabled is not set" in silent[1]


@pytest.mark.spark
def test_spark_that_does_not_start_says_why(tmp_path: Path) -> None:
    (tmp_path / "ivy.xml").write_text(NOWHERE.format(folder=tmp_path))
    done = run(
        """
        settings = Settings.load("lake", extra_packages="no.such:artifact:1.0", master="local[1]",
            spark_conf={"spark.jars.ivy": "ivy", "spark.jars.ivySettings": "ivy.xml"})
        show(error(lambda: build_session(settings)))
        """,
        tmp_path,
    )
    ((code, message, hint),) = shown(done)  # type: ignore[misc]
    assert code == "SPARK_FAILED"
    assert "unresolved dependency: " in message
    assert "iceberg-spark-runtime" in message
    assert "network" in hint
    assert done.stderr.count("First start") == 1
    assert "Ivy Default Cache" not in done.stderr


def test_spark_connect_is_refused(tmp_path: Path) -> None:
    # The class alone tells: no server is needed to refuse it.
    remote = type("SparkSession", (), {"__module__": "pyspark.sql.connect.session"})()
    with pytest.raises(TrickleError, match="Spark Connect") as caught:
        session.check_session(remote, Settings.load(tmp_path))
    assert caught.value.code == "UNSUITABLE_SESSION"


def java(folder: Path, text: str) -> str:
    """A `java` that reports some version."""
    program = folder / "bin" / "java"
    program.parent.mkdir(parents=True)
    program.write_text(f"#!/bin/sh\ncat >&2 <<'END'\n{text}\nEND\n")
    program.chmod(0o755)
    return str(folder)


@pytest.mark.parametrize(("text", "major"), [('openjdk version "17.0.15" 2025-04-15', 17), ('java version "21"', 21)])
def test_java_is_found(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, text: str, major: int) -> None:
    monkeypatch.setenv("JAVA_HOME", java(tmp_path, text))
    assert session.java_version() == (major, str(tmp_path / "bin" / "java"))


@pytest.mark.parametrize("text", ['openjdk version "11.0.2" 2019-01-15', 'java version "1.8.0_402"', "hello"])
def test_old_or_strange_java_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, text: str) -> None:
    monkeypatch.setenv("JAVA_HOME", java(tmp_path, text))
    with pytest.raises(TrickleError) as caught:
        session.java_version()
    assert caught.value.code == "MISSING_JAVA"
    assert "openjdk-17-jre-headless" in caught.value.hint


def test_missing_java_is_refused_before_spark_starts(tmp_path: Path) -> None:
    done = run(
        """
        show(error(lambda: build_session(Settings.load("lake"))))
        import os; os.environ["JAVA_HOME"] = "/nowhere"
        show(error(lambda: build_session(Settings.load("lake"))))
        """,
        tmp_path,
        PATH="/nonexistent",
        JAVA_HOME="",
    )
    (absent, wrong) = shown(done)
    assert isinstance(absent, list)
    assert isinstance(wrong, list)
    assert absent[0] == wrong[0] == "MISSING_JAVA"
    assert "/nowhere/bin/java" in wrong[1]


def test_a_truncated_jar_is_not_taken_for_a_jar(tmp_path: Path) -> None:
    settings = Settings.load(tmp_path, spark_conf={"spark.jars.ivy": str(tmp_path / "ivy")})
    assert session.jar_path(session.SQLITE, settings) is None
    jar = tmp_path / "ivy" / "jars" / "org.xerial_sqlite-jdbc-3.50.3.0.jar"
    jar.parent.mkdir(parents=True)
    jar.write_bytes(b"PK\x03\x04 half a jar")
    assert session.jar_path(session.SQLITE, settings) is None
    assert session.SQLITE in session.context_conf(settings)["spark.jars.packages"]


def test_catalog_conf_of_postgres(tmp_path: Path) -> None:
    settings = Settings.load("postgresql://ann:pw@db/lake", warehouse=tmp_path.as_uri())
    conf = session.catalog_conf(settings, "trickle_1")
    assert conf["spark.sql.catalog.trickle_1.uri"] == "jdbc:postgresql://db:5432/lake"
    assert conf["spark.sql.catalog.trickle_1.jdbc.password"] == "pw"
    assert session.POSTGRES in session.packages(settings)
    assert session.SQLITE not in session.packages(settings)


@pytest.mark.spark
@pytest.mark.postgres
def test_a_catalog_in_postgres_beside_one_in_sqlite(tmp_path: Path) -> None:
    with temporary_postgres() as server:
        url = fresh_database(server).replace("postgresql+psycopg://", "postgresql://")
        done = run(
            f"""
            local = build_session(Settings.load("local", **OPTIONS))
            local.sql("CREATE TABLE shop.t AS SELECT 1 AS x")
            spark = build_session(Settings.load({url!r}, warehouse="files", **OPTIONS))
            spark.sql("CREATE TABLE shop.t AS SELECT 2 AS x")
            spark.sql("CREATE VIEW shop.v AS SELECT x + 1 AS y FROM shop.t")
            show([spark.table("shop.v").collect()[0][0], local.table("shop.t").collect()[0][0]])
            wrong = {url!r}.rpartition("/")[0] + "/no_such_database"
            show(error(lambda: build_session(Settings.load(wrong, warehouse="files", **OPTIONS))))
            """,
            tmp_path,
        )
    values, refused = shown(done)
    assert values == [3, 1]
    assert isinstance(refused, list)
    assert refused[0] == "CATALOG_UNAVAILABLE"
    assert "no_such_database" in refused[1]
    assert (tmp_path / "files" / "shop" / "t").is_dir()


@pytest.mark.spark
def test_eight_threads_write_through_one_sqlite_catalog(tmp_path: Path) -> None:
    done = run(
        """
        from concurrent.futures import ThreadPoolExecutor
        settings = Settings.load("lake", **OPTIONS)
        spark = build_session(settings)
        def work(n):
            mine = new_session(spark, settings)
            mine.sql(f"CREATE TABLE shop.t{n} (x INT)")
            for i in range(5):
                mine.sql(f"INSERT INTO shop.t{n} VALUES ({i})")
            return mine.table(f"shop.t{n}").count()
        with ThreadPoolExecutor(8) as pool:
            show(list(pool.map(work, range(8))))
        """,
        tmp_path,
    )
    assert shown(done) == [[5] * 8]
    assert done.stderr == ""


@pytest.mark.spark
def test_classes_come_from_an_archive(tmp_path: Path) -> None:
    """Made on request; one that was cut off does no harm."""
    code = """
        from pyspark import SparkContext
        spark = build_session(Settings.load("lake", **OPTIONS))
        show(spark.sql("SELECT 1").first()[0])
        arguments = SparkContext._jvm.java.lang.management.ManagementFactory.getRuntimeMXBean().getInputArguments()
        show([a.partition("=")[2] for a in arguments if "Archive" in a])
        """
    cache = str(tmp_path / "cache")
    make = "from spark_trickle.cli.class_archive import make_archive\nshow(str(make_archive()))"
    [made] = shown(run(make, tmp_path, XDG_CACHE_HOME=cache))
    archive = Path(str(made))
    assert archive.stat().st_size > 2**20
    assert list(archive.parent.iterdir()) == [archive]
    assert shown(run(make, tmp_path, XDG_CACHE_HOME=cache)) == [made]
    assert shown(run(code, tmp_path, XDG_CACHE_HOME=cache)) == [1, [made]]
    assert shown(run(code, tmp_path, XDG_CACHE_HOME=cache, TRICKLE_CLASS_ARCHIVE="false")) == [1, []]
    archive.chmod(0o600)
    os.truncate(archive, 100_000)
    done = run(code, tmp_path, XDG_CACHE_HOME=cache)
    assert shown(done) == [1, []]
    assert done.stderr == ""
