"""Spark's classes as the JVM maps them into memory (class data sharing): loading them is half of a cold start.

The archive is written by the JVM itself when the first process that has none ends, and used by all later ones. It
belongs to one Java and one Spark: for others another is written. A JVM that finds an archive that does not fit starts
without it.
"""

from __future__ import annotations

import hashlib
import logging
import os
import time
from pathlib import Path

import psutil

_log = logging.getLogger(__name__)
_KEPT = 2  # archives, of 170 MB each; older ones are of a Java or a Spark that was replaced
_SETTLED = 10  # seconds after which the JVM of a process that ended has written all of its archive
# With these set, the JVM's class path holds folders, of which no archive can be made.
_FOLDERS = ("SPARK_CONF_DIR", "HADOOP_CONF_DIR", "YARN_CONF_DIR", "SPARK_DIST_CLASSPATH")


def java_options(java: str, folder: Path | None = None) -> list[str]:
    """What the JVM is started with: to use the archive, else to write it when it ends. Empty where none can be made."""
    from pyspark.find_spark_home import _find_spark_home

    home = Path(_find_spark_home())
    where = folder or _cache()
    # Spark takes options apart at spaces.
    if any(os.environ.get(name) for name in _FOLDERS) or (home / "conf").exists() or " " in str(where):
        return []
    try:
        archive = where / f"classes-{_key(Path(java).resolve(), home / 'jars')}.jsa"
        where.mkdir(parents=True, exist_ok=True)
        _tidy(archive)
    except OSError as error:
        _log.info("Spark starts without an archive of its classes: %s", error)
        return []
    use = f"-XX:SharedArchiveFile={archive}" if archive.exists() else f"-XX:ArchiveClassesAtExit={_part(archive)}"
    return [use, "-Xlog:cds=off,cds+dynamic=off,class+path=off"]


def _cache() -> Path:
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "spark-trickle"


def _key(java: Path, jars: Path) -> str:
    """Which Java and which Spark: an upgrade changes the times of their files."""
    told = [f"{path} {path.stat().st_mtime_ns}" for path in (java, jars)]
    return hashlib.sha256("\n".join(told).encode()).hexdigest()[:16]


def _part(archive: Path) -> Path:
    """What the JVM of this process writes."""
    return archive.with_suffix(f".{os.getpid()}.part")


def _tidy(archive: Path) -> None:
    """Take the archive that a process has written which has ended; delete what nobody needs."""
    for part in archive.parent.glob("classes-*.part"):
        process = int(part.suffixes[-2].lstrip("."))
        if psutil.pid_exists(process) or time.time() - part.stat().st_mtime < _SETTLED:
            continue
        if archive.exists() or not part.name.startswith(f"{archive.stem}."):
            part.unlink(missing_ok=True)
        else:
            part.replace(archive)
    known = sorted(archive.parent.glob("classes-*.jsa"), key=lambda path: path.stat().st_mtime, reverse=True)
    for old in known[_KEPT:]:
        old.unlink(missing_ok=True)
