"""An attempt is a catalog.

A refresh works on copies of pointers under a private catalog name, in a Spark session of its own whose current
catalog that is. What it reads is frozen at the cut; what it writes is seen by nobody. Publishing is one SQL transaction
that moves the lake's pointers to the metadata files the attempt recorded (`publish.py`). An attempt that fails or dies
leaves rows and files that nobody refers to.

Sessions and catalogs are costly to make and cheap to reuse, so they are kept in slots. A slot whose attempt did not end
well is not used again: a job of it may still be running.
"""

from __future__ import annotations

import itertools
import json
import re
import threading
import uuid
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from spark_trickle.catalog.store import CatalogStore
from spark_trickle.config import Settings
from spark_trickle.errors import Kind, TrickleError
from spark_trickle.lake import jvm
from spark_trickle.lake.changelog import Delta
from spark_trickle.lake.functions import Functions
from spark_trickle.lake.jvm import Java
from spark_trickle.lake.pins import is_pin, new_pin
from spark_trickle.lake.sources import Sources
from spark_trickle.lake.tables import Lake
from spark_trickle.model import HIDDEN_NAMESPACE, Pointer, TableName
from spark_trickle.spark.names import quote, quote_table
from spark_trickle.spark.runtime import forget_prepared, register_functions
from spark_trickle.spark.session import close_catalog, new_session
from spark_trickle.spark.settings import ENGINE, FIXED, PINNED, Pins, is_fixed, normal

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

# How statements over local relations alone are run: compiling code and broadcasting take longer than a few rows do.
_DURING_A_JOB = ("EVALUATION_FAILED", "PARTITION_VALUE")
_LOCAL = {
    "spark.sql.codegen.wholeStage": "false",
    "spark.sql.codegen.factoryMode": "NO_CODEGEN",
    "spark.sql.autoBroadcastJoinThreshold": "-1",
}
PINNED_NAMESPACE = "_pinned"  # old states whose schema differs from the cut's


@dataclass(slots=True)
class Slot:
    catalog: str
    session: SparkSession
    pins: dict[str, str | None]  # what the session has now
    tuned: dict[str, str | None] = field(default_factory=dict)  # the same, of what bears on speed alone
    own: dict[str, str | None] = field(default_factory=dict)  # what it had of this at first
    namespace: str | None = None  # the current one, if it was set

    def tune(self, wanted: Mapping[str, str]) -> None:
        """Run under these, and otherwise under what the session had at first."""
        for key in wanted:
            if key not in self.own:
                self.own[key] = self.tuned[key] = self.session.conf.get(key, None)
        for key, before in self.own.items():
            value = wanted.get(key, before)
            if self.tuned[key] != value:
                set_conf(self.session, key, value)
                self.tuned[key] = value

    def apply(self, pins: Pins) -> None:
        """Set what differs: every call to the JVM costs."""
        for key, value in pins.items():
            if self.pins.get(key) != value:
                set_conf(self.session, key, value)
                self.pins[key] = value


@dataclass(slots=True)
class Attempt:
    """One piece of work on a frozen copy of the lake."""

    id: str
    slot: Slot
    lake: Lake
    store: CatalogStore
    pointers: dict[TableName, Pointer]
    partitions: int  # of shuffles
    functions: Functions
    _names: Iterator[int] = field(default_factory=itertools.count)
    _views: list[str] = field(default_factory=list)
    scratch: list[str] = field(default_factory=list)  # metadata files to delete at the end
    lake_pointers: dict[TableName, Pointer] = field(default_factory=dict)  # of tables that are read in another schema
    _schemas: dict[TableName, str] = field(default_factory=dict)
    deltas: dict[TableName, Delta] = field(default_factory=dict)  # what this attempt wrote, for consumers in it
    checkpoints: list[DataFrame] = field(default_factory=list)  # behind the deltas; released at the end
    to_come: frozenset[TableName] = frozenset()  # stream tables that this attempt refreshes after the present one
    _small: bool = False  # whether statements over tables are tuned for few rows

    @property
    def session(self) -> SparkSession:
        return self.slot.session

    def qualified(self, name: TableName) -> str:
        return f"{quote(self.slot.catalog)}.{quote_table(name)}"

    def load(self, name: TableName) -> Java:
        """The Iceberg table in the attempt's catalog: commits go there."""
        util = jvm.handles(self.session).jvm.org.apache.iceberg.spark.Spark3Util
        return util.loadIcebergTable(self.session._jsparkSession, self.qualified(name))

    def location(self, name: TableName) -> str:
        """Where the attempt's catalog points now."""
        return self.store.pointers(self.slot.catalog, [name])[name].location

    def apply(self, pins: Pins) -> None:
        """Run under these settings from now on: one attempt serves several stream tables in turn."""
        self.slot.apply(pins)

    def use(self, namespace: str) -> None:
        if namespace:  # a definition's namespace need not hold any of its inputs
            with self.store.write() as tx:
                tx.ensure_namespace(namespace, self.slot.catalog)
        if self.slot.namespace != namespace:
            parts = ".".join(map(quote, namespace.split("."))) if namespace else ""
            self.session.sql(f"USE {quote(self.slot.catalog)}" + (f".{parts}" if parts else ""))
            self.slot.namespace = namespace

    def tune(self, *, small: bool | None = None, local: bool = False) -> None:
        """Plans over few rows run in one piece: adaptive execution would cut them into jobs to learn their sizes.

        `local`: they read no table at all. `small`: None is what it was.
        """
        if small is not None:
            self._small = small
        small = local or self._small
        wanted = {
            "spark.sql.adaptive.enabled": "false" if small else "true",
            "spark.sql.shuffle.partitions": "1" if small else str(self.partitions),
        }
        if small:
            wanted["spark.sql.leafNodeDefaultParallelism"] = "1"
        self.slot.tune(wanted | _LOCAL if local else wanted)

    def view_name(self, what: str) -> str:
        """A fresh name for a temporary view of this attempt, dropped at its end."""
        name = f"{what}_{self.id[:8]}_{next(self._names)}"
        self._views.append(name)
        return name

    def views_in(self, sql: str) -> list[str]:
        """The views of this attempt that a statement reads, as they first appear."""
        return list(dict.fromkeys(re.findall(f"`([a-z_A-Z0-9]+_{self.id[:8]}_[0-9]+)`", sql)))

    def register(self, pointers: Iterable[Pointer]) -> None:
        found = list(pointers)
        shown = [self._registered(p) for p in found]
        with self.store.write() as tx:
            tx.copy_pointers(self.slot.catalog, shown, {p.name.namespace for p in found})
        self.pointers.update({p.name: p for p in found})

    def _registered(self, pointer: Pointer) -> Pointer:
        """How the attempt's catalog holds a table: one outside the lake as a view."""
        shown = self.lake.kind(pointer.location).registered(self.session, pointer)
        self._own(shown.location, pointer)
        return shown

    def _own(self, location: str, made_from: Pointer) -> str:
        """A metadata file that was written for this attempt is deleted with it."""
        if location != made_from.location and is_pin(location):
            self.scratch.append(location)
        return location

    def register_missing(self, pointers: Mapping[TableName, Pointer], names: Iterable[TableName]) -> None:
        """Copy the pointers of these tables from the cut, unless the attempt has them (perhaps newer) already."""
        missing = [pointers[n] for n in names if n not in self.pointers and n in pointers]
        if missing:
            self.register(missing)

    def see(self, pointers: Mapping[TableName, Pointer], schemas: Mapping[TableName, str]) -> None:
        """Read these tables in other schemas than their own; all others, from now on, in their own."""
        for name in [n for n in self.lake_pointers if n not in schemas]:
            del self._schemas[name]
            self._move(self.lake_pointers.pop(name))
        for name, schema in schemas.items():
            if self._schemas.get(name) != schema or self.lake_pointers[name] != pointers[name]:
                location = self.in_schema(pointers[name], schema)
                self._schemas[name], self.lake_pointers[name] = schema, pointers[name]
                self._move(Pointer(name, location, is_view=False))

    @property
    def sees(self) -> dict[TableName, str]:
        """The tables that are read in other schemas than their own."""
        return dict(self._schemas)

    def in_lake(self, name: TableName) -> Pointer:
        """The table's pointer as the lake has it at the cut, whatever schema it is read in here."""
        return self.lake_pointers.get(name) or self.pointers[name]

    def _move(self, pointer: Pointer) -> None:
        shown = self._registered(pointer)
        with self.store.write() as tx:
            tx.move_private_pointer(self.slot.catalog, pointer.name, shown.location)
        self.pointers[pointer.name] = pointer

    def restore(self, pointers: Mapping[TableName, Pointer], name: TableName) -> None:
        """Forget what was staged on a table: the attempt has it again as the cut has."""
        self._move(pointers[name])

    def pin(self, name: TableName, snapshot_id: int) -> str:
        """The table at an old snapshot, read by field id in the schema of the cut."""
        location = self.at(self.pointers[name], snapshot_id)
        pinned = self.copy_name()
        self.register([Pointer(pinned, location, is_view=False)])
        return self.qualified(pinned)

    def copy_name(self) -> TableName:
        """A name for a copy of a table in this attempt."""
        return TableName(PINNED_NAMESPACE, f"p{next(self._names)}")

    def show_all(self, pointer: Pointer, schema: str, copy: TableName | None = None) -> TableName:
        """A copy of a stream table, in this attempt only, that shows the columns its schema hides."""
        name = copy or self.copy_name()
        self.register([Pointer(name, self.in_schema(pointer, schema), is_view=False)])
        return name

    def at(self, pointer: Pointer, snapshot_id: int | None) -> str:
        """The location of the table at an older snapshot (None: EMPTY), for this attempt only."""
        return self._own(self.lake.kind(pointer.location).at(pointer.location, snapshot_id), pointer)

    def in_schema(self, pointer: Pointer, schema: str) -> str:
        """The location of the table in another schema, for this attempt only."""
        return self._own(self.lake.kind(pointer.location).in_schema(pointer.location, schema), pointer)

    def replace_view(self, name: TableName, text: str) -> None:
        """Another text for a view, in this attempt only; its metadata file is deleted with the attempt."""
        parser = jvm.handles(self.session).jvm.org.apache.iceberg.view.ViewMetadataParser
        io = jvm.file_io(self.lake.session)
        body = json.loads(parser.toJson(parser.read(io, self.pointers[name].location)))
        current = next(v for v in body["versions"] if v["version-id"] == body["current-version-id"])
        for representation in current["representations"]:
            if representation["dialect"] == "spark":
                representation["sql"] = text
        location = new_pin(self.lake.session)
        parser.write(parser.fromJson(json.dumps(body)), io.newOutputFile(location))
        self.scratch.append(location)
        with self.store.write() as tx:
            tx.move_private_pointer(self.slot.catalog, name, location)

    def close(self) -> None:
        for view in self._views:
            self.session.catalog.dropTempView(view)
        for frame in self.checkpoints:
            jvm.let_go(frame)
        with self.store.write() as tx:
            tx.drop_catalog(self.slot.catalog)
        io = jvm.file_io(self.lake.session)
        for location in self.scratch:
            io.deleteFile(location)


class Attempts:
    """Hands out attempts."""

    def __init__(self, spark: SparkSession, settings: Settings, store: CatalogStore, lake: Lake) -> None:
        self._spark = spark
        self._settings = settings
        self._store = store
        self._lake = lake
        self.functions = Functions(store)
        self.sources = Sources(store, lake)
        self._free: list[Slot] = []
        self._own: dict[str, str | None] | None = None
        self._loosened: tuple[str, ...] = ()  # fixed settings that this connection sets otherwise
        self._numbers = itertools.count()
        self._lock = threading.Lock()

    @contextmanager
    def begin(
        self, pointers: Mapping[TableName, Pointer], namespace: str = "", attempt_id: str | None = None
    ) -> Iterator[Attempt]:
        """An attempt over these pointers; its rows are gone afterwards, whatever happened."""
        with self._attempt(attempt_id) as attempt:
            attempt.pointers = dict(pointers)
            with self._store.write() as tx:
                namespaces = {n.namespace for n in pointers} | {HIDDEN_NAMESPACE, namespace or HIDDEN_NAMESPACE}
                tx.copy_pointers(attempt.slot.catalog, pointers.values(), namespaces)
            attempt.use(namespace)
            attempt.tune(small=False)
            yield attempt

    @contextmanager
    def frozen(self, namespace: str) -> Iterator[Attempt]:
        """An attempt over the whole lake at this instant, for readers, in a session that nobody uses afterwards."""
        with self._attempt(None, reuse=False) as attempt:
            with self._store.write() as tx:
                tx.copy_lake(attempt.slot.catalog)
                tx.ensure_namespace(namespace, attempt.slot.catalog)
            attempt.pointers = self._store.pointers(attempt.slot.catalog)
            views = self.freeze_sources(attempt.slot.catalog)
            if views:
                self._lake.prepare(attempt.session)
            attempt.scratch += [view.location for view in views.values()]
            attempt.pointers.update(views)
            attempt.use(namespace)
            yield attempt

    def close(self) -> None:
        """Let go of the sessions that wait for an attempt, and of the plans that were prepared in them."""
        with self._lock:
            free, self._free = self._free, []
        for slot in free:
            forget_prepared(slot.session)

    def freeze_sources(self, catalog: str) -> dict[TableName, Pointer]:
        """Let a copy of the lake show its sources at the versions they have now; returns their views."""
        frozen = self.sources.freeze(self._store.pointers(catalog))
        if frozen:
            with self._store.write() as tx:
                for name, view in frozen.items():
                    tx.move_private_pointer(catalog, name, view.location)
        return frozen

    @property
    def own_settings(self) -> dict[str, str | None]:
        """What a new session of this connection has for every setting that is pinned."""
        if self._own is None:
            slot = self._new_slot()
            with self._lock:
                self._free.append(slot)
        assert self._own is not None
        return self._own

    @contextmanager
    def _attempt(self, attempt_id: str | None, *, reuse: bool = True) -> Iterator[Attempt]:
        slot = self._take() if reuse else self._reader_slot()
        attempt = Attempt(
            attempt_id or uuid.uuid4().hex,
            slot,
            self._lake,
            self._store,
            {},
            self._settings.shuffle_partitions,
            self.functions,
        )
        well = False
        try:
            if reuse:
                # Some of Spark's parts ask the thread's active session for its settings, perhaps the user's.
                with jvm.active(slot.session):
                    yield attempt
            else:
                yield attempt
            well = True
        except TrickleError as error:
            # Refused before or after a job, not during one, whose other tasks may still run.
            well = error.kind in (Kind.USER, Kind.SCHEMA) and error.code not in _DURING_A_JOB
            raise
        finally:
            try:
                attempt.close()
            finally:
                if well and reuse:
                    with self._lock:
                        self._free.append(slot)
                else:
                    forget_prepared(slot.session)
                    close_catalog(slot.session, slot.catalog)

    def _take(self) -> Slot:
        with self._lock:
            slot = self._free.pop() if self._free else None
        if slot is None:
            return self._new_slot()
        slot.apply(self.own_settings)  # nothing is carried over from the attempt before
        return slot

    def _reader_slot(self) -> Slot:
        """A session for a user's reading, which has what the connection says."""
        with self._lock:
            catalog = self._store.owner.private_catalog(next(self._numbers))
        return Slot(catalog, new_session(self._spark, self._settings, catalog, read_only=True), {})

    def _new_slot(self) -> Slot:
        with self._lock:
            catalog = self._store.owner.private_catalog(next(self._numbers))
        session = new_session(self._spark, self._settings, catalog)
        if self._own is None:
            self._loosened = tuple(key for key in session.conf.getAll if is_fixed(key))
            self._own = settings_of(session)
        for key in self._loosened:
            session.conf.unset(key)
        for key, value in ENGINE.items():
            session.conf.set(key, value)
        register_functions(session)
        return Slot(catalog, session, dict(self._own))


def settings_of(session: SparkSession) -> dict[str, str | None]:
    """What a session has for every setting that is pinned."""
    found: dict[str, str | None] = {}
    for key in PINNED:
        value = session.conf.get(key)  # a second argument would be taken for Spark's default
        found[key] = None if value is None else normal(key, value)
    return found


def session_settings(session: SparkSession) -> dict[str, str | None]:
    """What somebody's session has for every setting that is pinned, and for those fixed ones that were set in it."""
    internal = jvm.handles(session).jvm.org.apache.spark.sql.internal
    entries = getattr(getattr(internal, "SQLConf$"), "MODULE$")
    found = settings_of(session)
    for key, value in session.conf.getAll.items():
        if is_fixed(key):
            entry = entries.getConfigEntry(key)
            if entry is None or key in FIXED or entry.defaultValueString() != value:
                found[key] = value
    return found


def set_conf(session: SparkSession, key: str, value: str | None) -> None:
    if value is None:
        session.conf.unset(key)
        return
    try:
        session.conf.set(key, value)
    except Exception as error:
        raise TrickleError("INVALID_SETTING", f"Setting {key}: Spark refuses {value!r}: {jvm.why(error)}") from error
