"""Is everything there that a lake needs? Each check says what it found and, where needed, what to do."""

from __future__ import annotations

import os
import shutil
import sqlite3
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from enum import StrEnum
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

from spark_trickle.config import Settings
from spark_trickle.errors import TrickleError

LOW_DISK = 5 * 2**30


class Level(StrEnum):
    OK = "ok"
    WARN = "warn"
    FAIL = "fail"


@dataclass(frozen=True, slots=True)
class Check:
    name: str
    level: Level
    found: str
    remedy: str = ""


def checks(lake: str | None, *, quick: bool) -> Iterator[Check]:
    yield _python()
    yield _java()
    yield from _packages()
    try:
        settings = Settings.load(lake)
    except TrickleError as e:
        yield Check("settings", Level.FAIL, e.message, e.hint)
        return
    yield Check(
        "settings",
        Level.OK,
        f"lake {settings.location if not settings.is_postgres else settings.shown_catalog}",
    )
    yield from _jars(settings)
    yield _archive(settings, quick=quick)
    catalog = _catalog(settings)
    yield catalog
    yield _warehouse(settings)
    yield _disk(settings)
    if quick:
        yield Check("spark starts", Level.OK, "not tried (--quick)")
    else:
        yield _spark(settings, exists=catalog.level is Level.OK)


def _python() -> Check:
    # An older Python cannot have installed this package.
    return Check("python", Level.OK, f"{'.'.join(str(n) for n in sys.version_info[:3])} ({sys.executable})")


def _java() -> Check:
    from spark_trickle.spark.session import java_version

    try:
        major, path = java_version()
    except TrickleError as e:
        return Check("java", Level.FAIL, e.message, e.hint)
    return Check("java", Level.OK, f"{major} ({path})")


def _archive(settings: Settings, *, quick: bool) -> Check:
    """Made if it is not there: it needs what is checked before, and its time is saved by the second start of Spark."""
    from spark_trickle.cli.class_archive import make_archive
    from spark_trickle.spark.archive import find
    from spark_trickle.spark.session import java_version

    name = "class archive"
    if not settings.class_archive:
        return Check(name, Level.OK, "not wanted (class_archive)")
    try:
        found = find(java_version()[1]) if quick else make_archive()
    except (TrickleError, OSError, subprocess.SubprocessError) as e:
        return Check(name, Level.WARN, f"cannot be made: {e}", "Spark starts without it, in about twice the time.")
    if found is None:
        remedy = "Without --quick it is made." if quick else ""
        return Check(name, Level.OK, "none: Spark starts in about twice the time", remedy)
    return Check(name, Level.OK, str(found))


def _packages() -> Iterator[Check]:
    yield Check("spark-trickle", Level.OK, version("spark-trickle"))
    for name in ("pyspark", "sqlglot", "SQLAlchemy", "alembic"):
        try:
            yield Check(name, Level.OK, version(name))
        except PackageNotFoundError:
            yield Check(name, Level.FAIL, "not installed", "Install spark-trickle again: pip install spark-trickle")


def _jars(settings: Settings) -> Iterator[Check]:
    from spark_trickle.spark.session import ivy_folder, jar_path, packages

    for package in packages(settings):
        short = package.partition(":")[2]
        if jar_path(package, settings):
            yield Check("jar", Level.OK, short)
        else:
            remedy = "The first start downloads it: that needs a network."
            yield Check("jar", Level.WARN, f"{short} is not in {ivy_folder(settings)}", remedy)


def _catalog(settings: Settings) -> Check:
    if not settings.is_postgres and not settings.database.exists():
        return Check("catalog", Level.WARN, f"{settings.database} does not exist", "Create the lake: trickle init")
    try:
        if settings.is_postgres:
            found = _postgres_version(settings)
        else:
            # Read-only: a check must not change what it checks.
            with sqlite3.connect(f"{settings.database.as_uri()}?mode=ro", uri=True, timeout=10) as connection:
                found = _schema_version(connection.execute)
                connection.execute("SELECT count(*) FROM iceberg_tables")
            connection.close()
    except Exception as e:
        why = (str(e).strip().splitlines() or [type(e).__name__])[0]
        missing = "no such table" in why or "does not exist" in why
        if missing:
            return Check("catalog", Level.FAIL, f"{settings.shown_catalog}: {why}", "Run trickle init on it.")
        remedy = "Check that the database runs, the URL, user and password."
        return Check("catalog", Level.FAIL, f"{settings.shown_catalog}: {why}", remedy)
    return Check("catalog", Level.OK, f"{settings.shown_catalog}, schema {found}")


def _schema_version(execute: Callable[[Any], Any]) -> str:
    from spark_trickle.catalog.migrations import VERSION_TABLE

    row = execute(f"SELECT version_num FROM {VERSION_TABLE}").fetchone()
    return str(row[0]) if row else "?"


def _postgres_version(settings: Settings) -> str:
    import psycopg

    url = settings.sqlalchemy_url
    where = url.translate_connect_args(username="user", database="dbname")
    with psycopg.connect(**{**url.query, **where, "connect_timeout": 10}) as connection:
        found = _schema_version(connection.execute)
        connection.execute("SELECT count(*) FROM iceberg_tables")
        return found


def _warehouse(settings: Settings) -> Check:
    folder = settings.warehouse_path
    if folder is None:
        return Check("warehouse", Level.OK, f"{settings.warehouse_uri} (remote: seen when Spark writes)")
    existing = _existing(folder)
    try:
        with tempfile.NamedTemporaryFile(dir=existing, prefix=".trickle-doctor-"):
            pass
    except OSError as e:
        return Check(
            "warehouse",
            Level.FAIL,
            f"{existing} cannot be written: {e.strerror}",
            "Give this user write access.",
        )
    note = "" if existing == folder else " (created when first used)"
    return Check("warehouse", Level.OK, f"{folder}{note}")


def _disk(settings: Settings) -> Check:
    free = shutil.disk_usage(_existing(settings.warehouse_path or Path(tempfile.gettempdir()))).free
    found = f"{free / 2**30:.1f} GiB free"
    if free < LOW_DISK:
        return Check(
            "disk",
            Level.WARN,
            found,
            "A full refresh rewrites a table before its old files are deleted: free some space.",
        )
    return Check("disk", Level.OK, found)


def _existing(folder: Path) -> Path:
    while not folder.exists():
        folder = folder.parent
    return folder if folder.is_dir() else Path(os.path.dirname(folder))


def _spark(settings: Settings, *, exists: bool) -> Check:
    """Start Spark and read: on the lake if there is one, else on an empty one that goes away."""
    from spark_trickle.spark.session import build_session, release_session

    with tempfile.TemporaryDirectory(prefix="trickle-doctor-") as folder:
        try:
            spark = build_session(settings if exists else Settings.load(folder, master=settings.master))
        except TrickleError as e:
            return Check("spark starts", Level.FAIL, e.message, e.hint)
        try:
            spaces = spark.sql("SHOW NAMESPACES").count()
            found = f"Spark {spark.version} on {spark.sparkContext.master}"
        except Exception as e:
            why = (str(e).strip().splitlines() or [type(e).__name__])[0]
            return Check("spark starts", Level.FAIL, why, "Run again with TRICKLE_LOG_LEVEL=INFO to see Spark's log.")
        finally:
            release_session(spark)
    return Check("spark starts", Level.OK, f"{found}, {spaces} namespaces" if exists else found)
