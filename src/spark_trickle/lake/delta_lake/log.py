"""Delta Lake tables as sources: what their log says. No Spark job runs here.

A Delta table at one version has a pointer, as an Iceberg table has at one snapshot: `delta:<location>@<version>@<id>`.
Equal pointers mean that nothing changed. The id is the table's: one created again at the same place has another.

Version, schema and table id come from Delta's own reading of the log. What commits did is read from their files, whose
format the Delta protocol fixes: two texts tell which files came and went.
"""

from __future__ import annotations

import hashlib
import json
import zlib
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from spark_trickle.errors import TrickleError
from spark_trickle.lake.cache import LruCache
from spark_trickle.lake.delta_lake.commits import Commits, fold, live_rows
from spark_trickle.lake.delta_lake.schema import as_seen, with_ids
from spark_trickle.lake.jvm import Java, TableFacts, active, fields_of, handles, why
from spark_trickle.spark.names import quote
from spark_trickle.spark.session import require_delta_lake, use_delta_lake
from spark_trickle.thresholds import FILES_AT_ONCE

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

PREFIX = "delta:"
# What Delta says about a version that it cannot put together any more.
_GONE = ("DELTA_", "VersionNotFound", "FileNotFound", "not found", "not contiguous")


@dataclass(frozen=True, slots=True)
class Version:
    """A Delta table at one version."""

    location: str
    number: int
    table_id: str
    seen: str = ""  # in another schema than its own: which one

    def __str__(self) -> str:
        """The pointer."""
        return f"{PREFIX}{self.location}@{self.number}@{self.table_id}" + (f"~{self.seen}" if self.seen else "")

    @classmethod
    def of(cls, pointer: str) -> Version:
        location, number, rest = pointer.removeprefix(PREFIX).rsplit("@", 2)
        table_id, _, seen = rest.partition("~")
        return cls(location, int(number), table_id, seen)

    def at(self, number: int) -> Version:
        return replace(self, number=number)

    @property
    def own(self) -> Version:
        """In the schema that the table has."""
        return replace(self, seen="")


@dataclass(frozen=True, slots=True)
class Description:
    """What the metadata of a version says."""

    facts: TableFacts
    types: Mapping[str, str]  # column -> its Spark type in the lake
    change_feed: bool  # written by commits from here on
    partitioned_by: tuple[str, ...]
    schema: str  # as the log has it


class Logs:
    """Reads Delta logs through a session; safe to share between threads."""

    def __init__(self, session: SparkSession) -> None:
        self.session = session
        self._ready = False
        self._seen: dict[str, str] = {}
        self._described = LruCache[str, Description]()
        self._rows = LruCache[str, int]()
        self._commits = LruCache[tuple[str, int], Commits](size=32)

    # -- versions --------------------------------------------------------------------------------------------------

    def current(self, location: str) -> Version | None:
        """The current version; None where there is no Delta table."""
        self._prepare(location)
        with active(self.session):
            log = self._log(location)
            try:
                snapshot = _updated(self.session, log)
            except Exception:  # created again with fewer versions than Delta remembers
                log = self._log(location, fresh=True)
                snapshot = self._call(location, lambda: _updated(self.session, log))
            if not log.tableExists():
                return None
            number = int(snapshot.version())
            return Version(location, number, self._call(location, lambda: str(snapshot.metadata().id())))

    def describe(self, version: Version) -> Description:
        """A version that cannot be loaded any more: SNAPSHOT_EXPIRED."""
        return self._described.get(str(version), lambda: self._read_description(version))

    def _read_description(self, version: Version) -> Description:
        self._prepare(version.location)
        with active(self.session):
            snapshot = self._call(version.location, lambda: self.snapshot(version))
            seen = self._seen.get(version.seen)
            found: Description = self._call(version.location, lambda: _describe(self.session, version, snapshot, seen))
            return found

    def in_schema(self, version: Version, schema: str) -> Version:
        """The same version in another schema, Iceberg's JSON with the ids of this table."""
        key = hashlib.sha256(schema.encode()).hexdigest()[:16]
        self._seen[key] = schema
        return replace(version, seen=key)

    def snapshot(self, version: Version) -> Java:
        """Delta's Snapshot; to be used inside `active`."""
        none = _none(self.session)
        try:
            return self._log(version.location).getSnapshotAt(version.number, none, none, False)
        except Exception as error:
            if any(sign in str(error) for sign in _GONE):
                raise _expired(version) from error
            raise

    def _prepare(self, location: str) -> None:
        if not self._ready:
            require_delta_lake(self.session, f"{location} is a Delta Lake table")
            use_delta_lake(self.session)
            self._ready = True

    def log(self, version: Version) -> Java:
        return self._log(version.location)

    def _log(self, location: str, *, fresh: bool = False) -> Java:
        jvm = handles(self.session).jvm
        logs = jvm.org.apache.spark.sql.delta.DeltaLog
        jsession = self.session._jsparkSession
        if fresh:
            logs.invalidateCache(jsession, jvm.org.apache.hadoop.fs.Path(location))
        return self._call(location, lambda: logs.forTable(jsession, location))

    def _call(self, location: str, call: Any) -> Any:
        try:
            return call()
        except TrickleError:
            raise
        except Exception as error:
            raise TrickleError(
                "SPARK_FAILED",
                f"the Delta Lake table at {location} cannot be read: {why(error)}",
                hint="Check the location, and that Spark may read it.",
            ) from error

    # -- rows ------------------------------------------------------------------------------------------------------

    def rows(self, session: SparkSession, version: Version, cut: Version) -> int:
        """Rows of a version. Delta tells from the statistics of its files, where it can."""
        if version.number != cut.number:
            # Delta has the log of the current version at hand, and would have to replay that of an older one.
            net = self.commits(version, cut).by_files
            added = [live_rows(f) for f in net.added]
            if not net.removed and None not in added:
                return self.rows(session, cut, cut) - sum(n for n in added if n is not None)
        return self._rows.get(str(version.own), lambda: _count(session, version))

    def select(self, version: Version, cut: Version, columns: Sequence[str]) -> str:
        """The rows of a version in columns of the cut: another name of the same column is followed."""
        items = [f"{e} AS {quote(c)}" for c, e in zip(columns, self.expressions(version, cut, columns), strict=True)]
        return f"SELECT {', '.join(items) or '1'} FROM {table_sql(version)}"

    def expressions(self, version: Version, cut: Version, columns: Sequence[str]) -> list[str]:
        """Columns of the cut over the names that the table has at a version."""
        have = {f["id"]: f for f in json.loads(self.describe(version.own).facts.schema)["fields"]}
        described = self.describe(cut)
        wanted = {f["name"].lower(): f for f in json.loads(described.facts.schema)["fields"]}
        items = []
        for column in columns:
            want = wanted[column.lower()]
            found = have.get(want["id"])
            value = "NULL" if found is None else as_seen(quote(found["name"]), found["type"], want["type"])
            items.append(f"CAST({value} AS {described.types[column.lower()]})")
        return items

    # -- commits ---------------------------------------------------------------------------------------------------

    def commits(self, old: Version, new: Version) -> Commits:
        """What happened after `old` up to `new`. A commit that was removed from the log: SNAPSHOT_EXPIRED."""
        return self._commits.get((str(new), old.number), lambda: self._read_commits(old, new))

    def _read_commits(self, old: Version, new: Version) -> Commits:
        paths = [f"_delta_log/{n:020d}.json" for n in range(old.number + 1, new.number + 1)]
        texts = self._each(new, paths, self._text)
        if None in texts:
            raise _expired(old)
        return fold([json.loads(line) for line in text.split("\n") if line.strip()] for text in texts)

    def unreadable(self, old: Version, new: Version, *, whole: bool = False) -> str | None:
        """Why `old` cannot be compared with `new`; `whole`: why it cannot be read at all.

        Files that OPTIMIZE has replaced may be gone as long as no row changed.
        """
        if old.table_id != new.table_id:
            return "it is another table"
        try:
            commits = self.commits(old, new)
            with active(self.session):
                self._call(old.location, lambda: self.snapshot(old))
        except TrickleError as error:
            if error.code != "SNAPSHOT_EXPIRED":
                raise
            return f"version {old.number} is no longer in the log"
        if commits.changed or whole:
            gone = self.missing(new, commits.left)
            if gone:
                return f"{len(gone)} files of version {old.number} are gone, such as {gone[0]}"
        return None

    def missing(self, version: Version, paths: Sequence[str]) -> list[str]:
        """Files of the table that do not exist."""
        return [p for p, there in zip(paths, self._each(version, paths, self._exists), strict=True) if not there]

    def _each(self, version: Version, paths: Sequence[str], look: Any) -> list[Any]:
        if not paths:
            return []
        hadoop = handles(self.session).jvm.org.apache.hadoop.fs
        root = hadoop.Path(version.location)
        files = root.getFileSystem(self.session._jsparkSession.sessionState().newHadoopConf())
        if len(paths) < FILES_AT_ONCE:
            return [look(files, self._path(root, p)) for p in paths]
        with ThreadPoolExecutor(FILES_AT_ONCE) as pool:
            return list(pool.map(lambda p: look(files, self._path(root, p)), paths))

    def _path(self, root: Java, path: str) -> Java:
        """Paths in the log are URIs, absolute or relative to the table."""
        jvm = handles(self.session).jvm
        return jvm.org.apache.hadoop.fs.Path(root, jvm.org.apache.hadoop.fs.Path(jvm.java.net.URI(path)))

    def _exists(self, files: Java, path: Java) -> bool:
        return bool(files.exists(path))

    def _text(self, files: Java, path: Java) -> str | None:
        if not files.exists(path):
            return None
        opened = files.open(path)
        try:
            return str(handles(self.session).jvm.org.apache.commons.io.IOUtils.toString(opened, "UTF-8"))
        finally:
            opened.close()


def table_sql(version: Version, *, pinned: bool = True) -> str:
    """The table, as SQL names it, at this version or as it is; Delta reads paths through the session's own catalog."""
    table = f"spark_catalog.delta.{quote(version.location)}"
    return f"{table} VERSION AS OF {version.number}" if pinned else table


# -- inside ------------------------------------------------------------------------------------------------------------


def _updated(session: SparkSession, log: Java) -> Java:
    none = _none(session)
    return log.update(False, none, none)


def _none(session: SparkSession) -> Java:
    return handles(session).jvm.scala.Option.empty()


def _expired(version: Version) -> TrickleError:
    return TrickleError(
        "SNAPSHOT_EXPIRED", f"version {version.number} of the Delta table at {version.location} is gone"
    )


def _count(session: SparkSession, version: Version) -> int:
    counted = session.sql(f"SELECT count(*) FROM {table_sql(version)}").first()
    return int(counted[0]) if counted else 0


def _describe(session: SparkSession, version: Version, snapshot: Java, seen: str | None) -> Description:
    iceberg = handles(session).jvm.org.apache.iceberg
    metadata = snapshot.metadata()
    text = str(metadata.schemaString())
    try:
        converted = iceberg.spark.SparkSchemaUtil.convert(metadata.schema())
    except Exception as error:
        raise TrickleError(
            "UNSTORABLE_TYPE",
            f"the Delta table at {version.location} has a column that Iceberg has no type for: {error}",
        ) from error
    schema = seen or with_ids(json.loads(iceberg.SchemaParser.toJson(converted)), json.loads(text))
    # Through Iceberg and back: the types that a view in the lake shows.
    shown = iceberg.spark.SparkSchemaUtil.convert(iceberg.SchemaParser.fromJson(schema)).fields()
    properties = metadata.configuration()
    feed = properties.get("delta.enableChangeDataFeed")
    columns = metadata.partitionColumns()
    return Description(
        facts=TableFacts(
            uuid=version.table_id,
            format_version=0,
            snapshot_id=version.number,
            schema_id=zlib.crc32(schema.encode()) & 0x7FFFFFFF,
            fields=fields_of(schema),
            total_records=None,
            location=version.location,
            schema=schema,
        ),
        types={str(f.name()).lower(): str(f.dataType().sql()) for f in shown},
        change_feed=bool(feed.isDefined()) and str(feed.get()).lower() == "true",
        partitioned_by=tuple(str(columns.apply(i)) for i in range(columns.length())),
        schema=text,
    )
