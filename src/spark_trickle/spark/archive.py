"""Spark's classes as the JVM maps them into memory (class data sharing): loading them is half of a cold start.

An archive belongs to one Java and one Spark. It is made on request (`trickle doctor`), by a JVM that is waited for: one
that is cut off would end every JVM that maps it. Hence its size is part of its name, and a file of another size is not
used.
"""

from __future__ import annotations

import hashlib
import os
import subprocess
from pathlib import Path

_KEPT = 2  # archives, of 170 MB each; older ones are of a Java or a Spark that was replaced
# With these set, the JVM's class path holds folders, of which no archive can be made.
_FOLDERS = ("SPARK_CONF_DIR", "HADOOP_CONF_DIR", "YARN_CONF_DIR", "SPARK_DIST_CLASSPATH")
_QUIET = "-Xlog:cds=off,cds+dynamic=off,class+path=off"


def java_options(java: str, folder: Path | None = None) -> list[str]:
    """What a JVM is started with to use the archive; nothing if there is none."""
    try:
        archive = find(java, folder)
    except (OSError, RuntimeError):  # no home folder, or another process removes an old one: a slower start
        return []
    return [] if archive is None else [f"-XX:SharedArchiveFile={archive}", _QUIET]


def writing_options(path: Path) -> list[str]:
    """What a JVM is started with to write an archive when it ends."""
    return [f"-XX:ArchiveClassesAtExit={path}", _QUIET]


def find(java: str, folder: Path | None = None) -> Path | None:
    """The archive for this Java and the Spark of this Python, if it is whole."""
    stem = stem_of(java, folder)
    if stem is None:
        return None
    whole = (p for p in stem.parent.glob(f"{stem.name}-*.jsa") if p.stem.endswith(f"-{p.stat().st_size}"))
    return next(whole, None)


def stem_of(java: str, folder: Path | None = None) -> Path | None:
    """What the archive's path begins with; None where none can be made."""
    from pyspark.find_spark_home import _find_spark_home

    home = Path(_find_spark_home())
    where = folder or Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "spark-trickle"
    # Spark takes options apart at spaces.
    if any(os.environ.get(name) for name in _FOLDERS) or (home / "conf").exists() or " " in str(where):
        return None
    try:
        # An upgrade changes the times of their files.
        told = [f"{path} {path.stat().st_mtime_ns}" for path in (Path(java).resolve(), home / "jars")]
    except OSError:
        return None
    return where / f"classes-{hashlib.sha256(chr(10).join(told).encode()).hexdigest()[:16]}"


def keep(java: str, stem: Path, written: Path) -> Path | None:
    """Take what a JVM has written that has ended; None if it is not whole."""
    options = [f"-XX:SharedArchiveFile={written}", "-XX:+VerifySharedSpaces", _QUIET]
    tried = subprocess.run([java, *options, "-version"], capture_output=True, timeout=60, check=False, cwd=stem.parent)
    if tried.returncode != 0:
        written.unlink(missing_ok=True)
        return None
    archive = stem.with_name(f"{stem.name}-{written.stat().st_size}.jsa")
    written.replace(archive)
    known = sorted(stem.parent.glob("classes-*.jsa"), key=lambda path: path.stat().st_mtime, reverse=True)
    for old in known[_KEPT:]:
        old.unlink(missing_ok=True)
    return archive
