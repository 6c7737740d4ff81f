"""Spark for a lake: start it, check one that is given, and make sessions on it.

One process has one SparkContext. Each lake, and each private catalog of a refresh, gets a session of its own
on it (`new_session`), because a session holds its own catalogs: a second `connect` to another lake is only
another session. Catalogs are therefore configured per session at run time, never in the context.

    spark = build_session(settings)          # `lake` is the current catalog
    work = new_session(spark, settings, catalog="trickle_ab12_0")
"""

from __future__ import annotations

import atexit
import logging
import os
import re
import shutil
import subprocess
import sys
import tempfile
import zipfile
from collections.abc import Collection, Iterable
from dataclasses import dataclass, field
from pathlib import Path
from threading import RLock
from typing import TYPE_CHECKING, Any

from spark_trickle.config import Settings
from spark_trickle.errors import TrickleError
from spark_trickle.model import LAKE
from spark_trickle.spark import archive
from spark_trickle.spark.runtime import quicken_local_files, remember_classes

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

ICEBERG = "org.apache.iceberg:iceberg-spark-runtime-4.1_2.13:1.12.0"
SQLITE = "org.xerial:sqlite-jdbc:3.50.3.0"
POSTGRES = "org.postgresql:postgresql:42.7.8"
# Spark 4.1 has a Delta Lake of its own since 4.1.0. Only these two jars are needed to read and write tables by path.
DELTA = "io.delta:delta-spark_4.1_2.13:4.4.0"
DELTA_STORAGE = "io.delta:delta-storage:4.4.0"
# Its kernel brings 90 MB that Spark has already (Hadoop, Parquet, Jackson), and Unity Catalog is not used.
DELTA_EXCLUDES = "io.delta:delta-kernel-*,io.unitycatalog:*"
DELTA_EXTENSION = "io.delta.sql.DeltaSparkSessionExtension"
DELTA_CATALOG = "org.apache.spark.sql.delta.catalog.DeltaCatalog"
EXTENSIONS = "org.apache.iceberg.spark.extensions.IcebergSparkSessionExtensions"
SPARK_CATALOG = "org.apache.iceberg.spark.SparkCatalog"
MIN_JAVA = 17
MIN_SPARK = (4, 1)


@dataclass(slots=True)
class _Process:
    """What this process has started; guarded by `_lock`."""

    context: Any = None  # the SparkContext that this module started
    sessions: list[Any] = field(default_factory=list)  # of the lakes that use it
    log: Path | None = None  # what the JVM wrote to standard error


_log = logging.getLogger(__name__)
_lock = RLock()
_process = _Process()


# --- configuration as data -------------------------------------------------------------------------


def catalog_conf(settings: Settings, name: str = LAKE, *, read_only: bool = False) -> dict[str, str]:
    """The `spark.sql.catalog.<name>.*` entries: the lake's database seen under catalog name `name`.

    `read_only`: the database refuses every commit.
    """
    prefix = f"spark.sql.catalog.{name}"
    conf = {
        prefix: SPARK_CATALOG,
        f"{prefix}.type": "jdbc",
        f"{prefix}.uri": settings.jdbc_url,
        f"{prefix}.warehouse": settings.warehouse_uri,
        f"{prefix}.cache-enabled": "false",  # pointers move behind Spark's back: a cached one is stale
        f"{prefix}.jdbc.schema-version": "V1",  # V1 holds views too
        f"{prefix}.table-default.format-version": "3",
    }
    for operation in ("delete", "update", "merge"):
        conf[f"{prefix}.table-default.write.{operation}.mode"] = "merge-on-read"
    for key, value in (settings.jdbc_properties | (_read_only(settings) if read_only else {})).items():
        conf[f"{prefix}.jdbc.{key}"] = value
    return conf


def _read_only(settings: Settings) -> dict[str, str]:
    """Properties of a JDBC connection that cannot write, whatever is asked of it."""
    if settings.is_postgres:
        return {"readOnly": "true", "readOnlyMode": "always"}
    return {"open_mode": "1", "transaction_mode": "DEFERRED"}  # SQLITE_OPEN_READONLY


def session_conf(settings: Settings) -> dict[str, str]:
    """What a session of this lake sets at run time, besides its catalog."""
    conf = {
        "spark.sql.session.timeZone": settings.time_zone,
        "spark.sql.shuffle.partitions": str(settings.shuffle_partitions),
        "spark.sql.adaptive.enabled": "true",
        # A query gives what a stream table of it gives (`settings.py`).
        "spark.sql.cteRecursionAnchorRowsLimitToConvertToLocalRelation": "0",
        "spark.sql.iceberg.aggregate-push-down.enabled": "false",
    }
    return conf | {k: v for k, v in settings.spark_conf.items() if k.startswith("spark.sql.")}


def packages(settings: Settings, formats: Collection[str] = ()) -> tuple[str, ...]:
    """Maven coordinates that Spark needs for this lake; `formats`: those of its sources."""
    driver = POSTGRES if settings.is_postgres else SQLITE
    own = _brings_delta_lake(settings.extra_packages)
    needed = (DELTA, DELTA_STORAGE) if ("delta" in formats or settings.delta_lake) and not own else ()
    return (ICEBERG, driver, *needed, *settings.extra_packages)


def _brings_delta_lake(coordinates: Iterable[str]) -> bool:
    return any(c.startswith("io.delta:delta-spark") for c in coordinates)


def context_conf(settings: Settings, formats: Collection[str] = ()) -> dict[str, str]:
    """What must be known when Spark starts."""
    conf = {
        "spark.master": settings.master,
        "spark.app.name": "trickle",
        "spark.driver.memory": settings.driver_memory,
        "spark.sql.extensions": EXTENSIONS,
        "spark.ui.enabled": "false",
        "spark.ui.showConsoleProgress": "false",
        "spark.log.level": settings.log_level,
        "spark.scheduler.mode": "FAIR",  # concurrent refreshes share the cores
        # Spark keeps the compiled code of 100 stages: a dozen stream tables have more, and compiling costs 50 ms each.
        "spark.sql.codegen.cache.maxEntries": "5000",
        # By itself Spark takes pages of 32 to 64 MB here, for each sort, join and aggregate of a task, whatever rows it
        # has: a statement with dozens of them would fill the heap.
        "spark.buffer.pageSize": "2m",
    }
    if settings.master.startswith("local"):
        # Otherwise Spark asks the network who it is, warns, and fails where the host's name does not resolve.
        conf |= {"spark.driver.host": "localhost", "spark.driver.bindAddress": "127.0.0.1"}
    conf |= session_conf(settings) | settings.spark_conf
    if EXTENSIONS not in conf["spark.sql.extensions"]:
        conf["spark.sql.extensions"] += f",{EXTENSIONS}"
    needed = packages(settings, formats)
    found = [jar_path(p, settings) for p in needed]
    asked = [p for p in conf.get("spark.jars.packages", "").split(",") if p]
    if _brings_delta_lake((*needed, *asked)) and DELTA_EXTENSION not in conf["spark.sql.extensions"]:
        conf["spark.sql.extensions"] += f",{DELTA_EXTENSION}"
    if settings.extra_packages or asked or not all(found):
        # Ivy also brings what the packages depend on. Both drivers: a process may open lakes of both kinds.
        conf["spark.jars.packages"] = ",".join(dict.fromkeys((*needed, SQLITE, POSTGRES, *asked)))
        if DELTA in needed:
            conf.setdefault("spark.jars.excludes", DELTA_EXCLUDES)
    else:
        # All here: naming the files saves Ivy's two seconds and works without a network.
        others = [p for p in (jar_path(SQLITE, settings), jar_path(POSTGRES, settings)) if p]
        jars = dict.fromkeys(str(p) for p in (*found, *others) if p)
        given = [j for j in conf.get("spark.jars", "").split(",") if j]
        conf["spark.jars"] = ",".join((*jars, *given))
    return conf


def ivy_folder(settings: Settings) -> Path:
    return Path(settings.spark_conf.get("spark.jars.ivy", "~/.ivy2.5.2")).expanduser()


def jar_path(package: str, settings: Settings) -> Path | None:
    """The jar of a Maven coordinate in Ivy's folder, if it is there and whole."""
    group, artifact, version = package.split(":")
    path = ivy_folder(settings) / "jars" / f"{group}_{artifact}-{version}.jar"
    return path if path.is_file() and zipfile.is_zipfile(path) else None


# --- Java ------------------------------------------------------------------------------------------


def java_version() -> tuple[int, str]:
    """(major version, path of `java`) of the Java that Spark will use."""
    home = os.environ.get("JAVA_HOME")
    java = str(Path(home) / "bin" / "java") if home else shutil.which("java")
    install = (
        "Install Java 17 or newer (Debian, Ubuntu: apt-get install openjdk-17-jre-headless; macOS: "
        "brew install openjdk@17; Fedora: dnf install java-21-openjdk-headless). If it is not on PATH, "
        "set JAVA_HOME."
    )
    if java is None:
        raise TrickleError("MISSING_JAVA", "No `java` on PATH, and JAVA_HOME is not set.", hint=install)
    try:
        done = subprocess.run([java, "-version"], capture_output=True, text=True, timeout=60, check=False)
    except (OSError, subprocess.TimeoutExpired):
        raise TrickleError("MISSING_JAVA", f"{java} cannot be run.", hint=install) from None
    match = re.search(r'version "(?:1\.)?(\d+)', done.stderr + done.stdout)
    if done.returncode != 0 or match is None:
        raise TrickleError("MISSING_JAVA", f"{java} does not tell its version.", hint=install)
    if int(match[1]) < MIN_JAVA:
        raise TrickleError("MISSING_JAVA", f"{java} is Java {match[1]}; Spark 4.1 needs {MIN_JAVA}.", hint=install)
    return int(match[1]), java


# --- sessions --------------------------------------------------------------------------------------


def build_session(settings: Settings, formats: Collection[str] = ()) -> SparkSession:
    """A session on the lake; starts Spark if this process has none. Give it back with `release_session`."""
    from pyspark import SparkContext

    with _lock:
        context = SparkContext._active_spark_context
        if context is None:
            context = _process.context = _start(settings, formats)
            remember_classes(context)
            _process.sessions.clear()
        from pyspark.sql import SparkSession

        base = SparkSession.builder.getOrCreate()
        if context is not _process.context:
            # Somebody else's Spark: a session of ours on it leaves their catalogs alone.
            _check_spark(base, settings)
            return new_session(base, settings)
        try:
            spark = new_session(base, settings)
        except BaseException:
            _stop_if_unused()
            raise
        _process.sessions.append(spark)
        return spark


def jvm_process(spark: SparkSession) -> subprocess.Popen[bytes] | None:
    """The process of Spark's JVM, if this process started it."""
    return getattr(spark.sparkContext._gateway, "proc", None)


def release_session(spark: SparkSession) -> None:
    """The lake is done with Spark: stops it if Trickle started it and no other lake uses it."""
    with _lock:
        known = [s for s in _process.sessions if s is spark]
        if known:  # not twice, and not a session that was passed in
            _process.sessions[:] = [s for s in _process.sessions if s is not spark]
            _stop_if_unused()


def _stop_if_unused() -> None:
    if _process.context is not None and not _process.sessions:
        _process.context.stop()
        _process.context = None


def close_catalog(session: SparkSession, catalog: str) -> None:
    """Give back the database connection of a catalog that nobody uses any more: no session does so by itself."""
    try:
        session._jsparkSession.sessionState().catalogManager().catalog(catalog).icebergCatalog().close()
    except Exception as error:
        _log.warning("the catalog %s could not be closed: %s", catalog, error)


def new_session(
    spark: SparkSession, settings: Settings, catalog: str = LAKE, *, read_only: bool = False
) -> SparkSession:
    """A session of its own on the same context, whose current catalog is `catalog` on the lake's database."""
    if spark.sparkContext.master.startswith("local"):
        quicken_local_files(spark.sparkContext)
    session = spark.newSession()
    _require_driver(session, settings)
    prefix = f"spark.sql.catalog.{catalog}"
    for key in session.conf.getAll:  # what the context has under this name is of another lake
        if key == prefix or key.startswith(f"{prefix}."):
            session.conf.unset(key)
    for key, value in (session_conf(settings) | catalog_conf(settings, catalog, read_only=read_only)).items():
        _set(session, key, value)
    # USE does not remember a catalog that is the default already, and calls outside a statement
    # (`spark.catalog.…`) would then look the default up in another session: make it the default after USE.
    session.conf.set("spark.sql.defaultCatalog", "spark_catalog")
    _use(session, settings, catalog)
    session.conf.set("spark.sql.defaultCatalog", catalog)
    return session


def _set(session: SparkSession, key: str, value: str) -> None:
    try:
        session.conf.set(key, value)
    except Exception as error:
        if "CANNOT_MODIFY_STATIC_CONFIG" not in str(error):  # those were given to the context
            raise


def check_session(spark: SparkSession, settings: Settings) -> SparkSession:
    """Check a running session that the user passed in, and give it the catalog `lake` if it has none."""
    _check_spark(spark, settings)
    prefix = f"spark.sql.catalog.{LAKE}"
    have = spark.conf.get(prefix, None)
    want = catalog_conf(settings)
    if have is None:
        for key, value in want.items():
            spark.conf.set(key, value)
    else:
        for key in (
            prefix,
            f"{prefix}.type",
            f"{prefix}.uri",
            f"{prefix}.cache-enabled",
            f"{prefix}.jdbc.schema-version",
        ):
            found = spark.conf.get(key, None)
            if not _same(key, found, want[key]):
                what = f"{key} is {found}" if found is not None else f"{key} is not set"
                raise _unsuitable(
                    f"{what}, and this lake needs {want[key]}.",
                    f"Set {key}={want[key]} before catalog `{LAKE}` is used, or leave that catalog unset.",
                )
    _use(spark, settings, LAKE)
    return spark


def _check_spark(spark: SparkSession, settings: Settings) -> None:
    if type(spark).__module__.startswith("pyspark.sql.connect"):
        raise _unsuitable(
            "It is a Spark Connect session.",
            "Pass a classic session: SparkSession.builder.master(...).getOrCreate().",
        )
    version = tuple(int(n) for n in re.findall(r"\d+", spark.version)[:2])
    if version < MIN_SPARK:
        raise _unsuitable(f"It is Spark {spark.version}.", "Use Spark 4.1 or newer.")
    _quiet()
    extensions = spark.sparkContext.getConf().get("spark.sql.extensions") or ""
    if EXTENSIONS not in extensions:
        raise _unsuitable(
            "Iceberg's SQL extension is missing.",
            f"Set spark.sql.extensions={EXTENSIONS} before the session starts.",
        )
    if not _has_class(spark, SPARK_CATALOG):
        raise _unsuitable(
            "Iceberg's classes are missing.",
            f"Set spark.jars.packages={','.join(packages(settings))} before the session starts.",
        )
    _require_driver(spark, settings)


def has_delta_lake(spark: SparkSession) -> bool:
    """Whether this Spark was started with Delta Lake."""
    extensions = spark.sparkContext.getConf().get("spark.sql.extensions") or ""
    return DELTA_EXTENSION in extensions and _has_class(spark, DELTA_CATALOG)


def require_delta_lake(spark: SparkSession, what: str) -> None:
    if not has_delta_lake(spark):
        raise TrickleError(
            "UNSUITABLE_SESSION",
            f"{what}, and the running Spark was started without Delta Lake",
            hint="Start another process and connect with delta_lake=True (a lake that has a Delta Lake source does so "
            f"by itself), or start your own Spark with spark.jars.packages={DELTA} and {DELTA_EXTENSION} among "
            "spark.sql.extensions.",
        )


def use_delta_lake(session: SparkSession) -> None:
    """Let a session of ours read Delta Lake tables by path."""
    conf = session.conf
    conf.set("spark.sql.catalog.spark_catalog", DELTA_CATALOG)
    # Whether an old version can be read is told by its files, not by its age.
    conf.set("spark.databricks.delta.vacuum.enforceTimeTravelWithinDeletedFileRetentionDuration", "false")
    # Delta Lake replays a table's log in this many tasks: 50, unless somebody says otherwise.
    partitions = "spark.databricks.delta.snapshotPartitions"
    if conf.get(partitions, None) is None:
        conf.set(partitions, conf.get("spark.sql.shuffle.partitions"))


def log_tail(lines: int = 20) -> str:
    """The last lines that Spark's process wrote to standard error."""
    if _process.log is None or not _process.log.exists():
        return ""
    return "\n".join(_process.log.read_text(errors="replace").splitlines()[-lines:])


# --- inside ----------------------------------------------------------------------------------------


def _start(settings: Settings, formats: Collection[str] = ()) -> Any:
    _, java = java_version()
    _quiet()
    from pyspark import SparkConf, SparkContext
    from pyspark.java_gateway import launch_gateway

    conf = context_conf(settings, formats)
    if settings.class_archive:
        options = "spark.driver.extraJavaOptions"
        conf[options] = " ".join((*archive.java_options(java), conf.get(options, ""))).strip()
    missing = [p for p in packages(settings, formats) if jar_path(p, settings) is None]
    if "spark.jars.packages" in conf and missing:
        what = "Delta Lake" if missing == [DELTA, DELTA_STORAGE] else "Iceberg and JDBC"
        size = "10 MB" if missing == [DELTA, DELTA_STORAGE] else "60 MB"
        print(
            f"First start: Spark downloads its {what} jars (about {size}, once).",
            file=sys.stderr,
            flush=True,
        )
    spark_conf = SparkConf().setAll(list(conf.items()))
    try:
        if SparkContext._gateway is None:
            gateway = launch_gateway(spark_conf, _popen(settings))
            SparkContext._ensure_initialized(gateway=gateway, conf=spark_conf)
        return SparkContext.getOrCreate(spark_conf)
    except Exception as e:
        cause = _cause(str(e))
        raise TrickleError(
            "SPARK_FAILED",
            f"Spark does not start: {cause}",
            hint="Run `trickle doctor`. Missing jar: check the network. Memory: setting driver_memory.",
        ) from e


def _popen(settings: Settings) -> dict[str, Any]:
    """Where the JVM's standard error goes: a file, unless the user wants to see Spark's log."""
    if settings.log_level not in ("OFF", "ERROR"):
        return {}
    handle, name = tempfile.mkstemp(prefix="trickle-spark-", suffix=".log")
    _process.log = Path(name)
    atexit.register(_process.log.unlink, missing_ok=True)
    stream = os.fdopen(handle, "wb")
    return {"stderr": stream, "stdout": stream}


def _cause(message: str) -> str:
    """The line that says why, from the error and from what the launcher wrote."""
    lines = log_tail(400).splitlines()
    missing = [m[0] for line in lines if (m := re.search(r"unresolved dependency: .*", line))]
    errors = [
        line.strip() for line in lines if re.search(r"Exception|^Error|ERROR", line) and "JAVA_GATEWAY" not in line
    ]
    return (missing or errors or [message.strip().splitlines()[0] if message.strip() else "no message"])[0]


def _quiet() -> None:
    # PySpark writes every analysis error to standard error as a JSON line; the user gets the exception.
    from pyspark.logger import PySparkLogger

    for name in ("SQLQueryContextLogger", "DataFrameQueryContextLogger"):
        PySparkLogger.getLogger(name)
        logging.getLogger(name).disabled = True


def _use(spark: SparkSession, settings: Settings, catalog: str) -> None:
    if not settings.is_postgres:
        settings.location.mkdir(parents=True, exist_ok=True)
    try:
        # As a statement: `catalog.setCurrentCatalog` looks the name up in whatever session is active.
        spark.sql(f"USE {catalog}")
    except Exception as e:
        why = str(e).strip().splitlines()[0] if str(e).strip() else type(e).__name__
        raise TrickleError(
            "CATALOG_UNAVAILABLE", f"Spark cannot open the catalog {settings.shown_catalog}: {why}"
        ) from e


def _require_driver(spark: SparkSession, settings: Settings) -> None:
    name, package = ("org.postgresql.Driver", POSTGRES) if settings.is_postgres else ("org.sqlite.JDBC", SQLITE)
    if not _has_class(spark, name):
        raise _unsuitable(
            f"The JDBC driver {name} is missing: Spark was started without it.",
            f"Set spark.jars.packages={package} before Spark starts, or use another process for this lake.",
        )


def _has_class(spark: SparkSession, name: str) -> bool:
    jvm = spark.sparkContext._jvm
    assert jvm is not None
    try:
        jvm.org.apache.spark.util.Utils.classForName(name, False, False)
    except Exception as e:
        if "ClassNotFoundException" in str(e) or "NoClassDefFoundError" in str(e):
            return False
        raise
    return True


def _same(key: str, found: str | None, want: str) -> bool:
    if found is None:
        return False
    if key.endswith(".uri"):
        # The same database may be written with other parameters.
        return found.partition("?")[0].replace("sqlite:file:", "sqlite:") == want.partition("?")[0]
    return found.lower() == want.lower()


def _unsuitable(what: str, hint: str) -> TrickleError:
    return TrickleError("UNSUITABLE_SESSION", f"The Spark session cannot host the lake. {what}", hint=hint)
