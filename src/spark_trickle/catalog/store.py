"""Writing the catalog: `CatalogStore.write()` gives a `Transaction`, and all of it happens or nothing."""

from __future__ import annotations

import uuid
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from typing import Any, TypedDict, Unpack

from sqlalchemy import Connection, Table, and_, delete, insert, literal, select, update

from spark_trickle.catalog import leases, rows, tables
from spark_trickle.catalog.alerts import Alerts
from spark_trickle.catalog.connection import Database
from spark_trickle.catalog.garbage import GarbageWriter
from spark_trickle.catalog.history_writer import HistoryWriter
from spark_trickle.catalog.leases import Lease
from spark_trickle.catalog.owner import Owner
from spark_trickle.catalog.pointers import NAME_LENGTH, PointerWriter, at, checked, conflict
from spark_trickle.catalog.reader import CatalogReader
from spark_trickle.catalog.rows import NamedCut
from spark_trickle.errors import TrickleError
from spark_trickle.model import (
    LAKE,
    RUNS,
    Column,
    Consistency,
    Dependency,
    LakeFunction,
    Lineage,
    Mode,
    Pointer,
    SchedulePolicy,
    Shape,
    Source,
    Star,
    Status,
    StreamTable,
    TableName,
)


class StreamTableFields(TypedDict, total=False):
    """What `update_stream_table` can change: the fields of `model.StreamTable` and some for later use."""

    name: TableName
    definition: str
    namespace: str
    mode: Mode
    schedule: str | None
    status: Status
    columns: tuple[Column, ...]
    incremental: bool
    reason: str | None
    fingerprint: str
    layout: str
    published_snapshot: int | None
    published_pointer: str | None
    data_timestamp: datetime | None
    consecutive_errors: int
    last_error: str | None
    scc_id: int | None
    diamond_consistency: Consistency | None
    diamond_schedule_policy: SchedulePolicy | None
    freshness_deadline: datetime | None
    compiled: str | None
    functions: tuple[tuple[str, str], ...]
    owner_id: int | None
    star: Star
    shapes: tuple[tuple[TableName, Shape], ...]
    settings: tuple[tuple[str, str | None], ...]
    table_uuid: str | None
    file_schema: str


class CatalogStore(CatalogReader):
    """A reader that can write. `owner` is this user of the catalog: each open store is one of its own."""

    def __init__(self, database: Database) -> None:
        super().__init__(database)
        self.owner = Owner.here()
        self.notify_channel: str | None = None  # alerts are told there, where the database is PostgreSQL

    @property
    def database(self) -> Database:
        return self._database

    @contextmanager
    def write(self) -> Iterator[Transaction]:
        """Committed at the end of the block, rolled back by any exception. Not to be nested."""
        with self._database.write() as connection:
            yield Transaction(self._database, connection, self.owner, self.notify_channel)


class Transaction(PointerWriter, HistoryWriter, GarbageWriter):
    """One write transaction. Use it inside its `with` block only."""

    def __init__(self, database: Database, connection: Connection, owner: Owner, channel: str | None = None) -> None:
        super().__init__(database, connection)
        self._owner = owner
        self.alerts = Alerts(database, connection, channel)

    # Stream tables

    def save_stream_table(self, table: StreamTable, owner_id: int | None = None) -> int:
        """Write the row of a stream table, all of it; id 0: a new one. Returns the id. A taken name: NAME_TAKEN."""
        values = _stream_table_values(_fields_of(table))
        s = tables.stream_tables
        if table.id:
            changed = self.connection.execute(update(s).where(s.c.id == table.id).values(**values))
            if changed.rowcount != 1:
                raise TrickleError("UNKNOWN_STREAM_TABLE", f"stream table {table.name} was dropped")
            return table.id
        statement = self._database.insert(s).values(created_at=table.created_at, owner_id=owner_id, **values)
        # A conflict that the statement swallows leaves the transaction usable, on PostgreSQL too.
        added = self.connection.execute(statement.on_conflict_do_nothing().returning(s.c.id)).scalar()
        if added is None:
            raise TrickleError("NAME_TAKEN", f"there is a stream table {table.name} already")
        return int(added)

    def update_stream_table(self, id: int, **fields: Unpack[StreamTableFields]) -> None:
        s = tables.stream_tables
        changed = self.connection.execute(update(s).where(s.c.id == id).values(**_stream_table_values(fields)))
        if changed.rowcount != 1:
            raise TrickleError("UNKNOWN_STREAM_TABLE", f"stream table {id} was dropped")

    def suspend_failing(self, id: int, errors: int) -> bool:
        """Suspend a stream table that failed so many times in a row, unless somebody helped it meanwhile."""
        s = tables.stream_tables
        failing = and_(s.c.id == id, s.c.consecutive_errors >= errors, s.c.status.in_([r.value for r in RUNS]))
        changed = self.connection.execute(update(s).where(failing).values(status=Status.SUSPENDED.value))
        return changed.rowcount == 1

    def delete_stream_table(self, id: int) -> None:
        """The row, its dependencies, lineage and change log; the history stays."""
        self.clear_change_log(id)
        self.connection.execute(delete(tables.lineage).where(tables.lineage.c.stream_table_id == id))
        self.connection.execute(delete(tables.dependencies).where(tables.dependencies.c.stream_table_id == id))
        s = tables.stream_tables
        gone = self.connection.execute(delete(s).where(s.c.id == id).returning(s.c.namespace, s.c.name)).first()
        if gone is None:
            raise TrickleError("UNKNOWN_STREAM_TABLE", f"stream table {id} was dropped")
        name = str(TableName(*gone))
        self.alerts.resolve(name, None, f"{name} was dropped")

    def put_lineage(self, id: int, found: Lineage | None) -> None:
        """None: it is not known any more."""
        stored = tables.lineage
        if found is None:
            self.connection.execute(delete(stored).where(stored.c.stream_table_id == id))
            return
        statement = self._database.insert(stored).values(stream_table_id=id, lineage=rows.lineage_json(found))
        new = statement.excluded.lineage
        self.connection.execute(
            statement.on_conflict_do_update(
                index_elements=["stream_table_id"], set_={"lineage": new}, where=stored.c.lineage != new
            )
        )

    def set_dependencies(self, id: int, deps: Iterable[Dependency]) -> None:
        """Replace all dependencies, and with them the frontier."""
        d = tables.dependencies
        self.connection.execute(delete(d).where(d.c.stream_table_id == id))
        values = [
            {
                "stream_table_id": id,
                "position": position,
                "input_namespace": dep.input.namespace,
                "input_name": dep.input.name,
                "kind": dep.kind.value,
                "columns": rows.as_json(dep.columns),
                "table_uuid": dep.table_uuid,
                "snapshot_id": dep.snapshot_id,
                "schema_id": dep.schema_id,
                "pointer": dep.pointer,
            }
            for position, dep in enumerate(deps)
        ]
        if values:
            self.connection.execute(insert(d), values)

    def move_frontiers(self, input: TableName, old: str, new: str) -> None:
        """A commit without rows moved a source from one metadata file to the next: frontiers go along."""
        d = tables.dependencies
        where = and_(d.c.input_namespace == input.namespace, d.c.input_name == input.name, d.c.pointer == old)
        self.connection.execute(update(d).where(where).values(pointer=new))

    def follow_upkeep(self, input: TableName, uuid: str | None, old: tuple[int, str], new: tuple[int, str]) -> None:
        """Frontiers at one snapshot and pointer of a stream table move to others that have the same rows.

        Not those of definitions that we have no tree of: they may read a tag, a version or the files themselves, and
        know by the pointer alone that something happened. Nor those at an earlier pointer, for the same reason.
        """
        d, s = tables.dependencies, tables.stream_tables
        named = and_(d.c.input_namespace == input.namespace, d.c.input_name == input.name)
        there = and_(named, d.c.table_uuid == uuid, d.c.snapshot_id == old[0], d.c.pointer == old[1])
        with_tree = d.c.stream_table_id.in_(
            select(s.c.id).where(s.c.incremental == literal(True, s.c.incremental.type))
        )
        moved = update(d).where(there, with_tree)
        self.connection.execute(moved.values(snapshot_id=new[0], pointer=new[1]))

    # Inputs

    def retire(self, name: TableName) -> None:
        """The lake no longer has this table; its files are garbage once no attempt and no cut holds them."""
        p = tables.iceberg_tables
        location = self.connection.execute(select(p.c.metadata_location).where(at(LAKE, name))).scalar()
        if location is not None:
            self.delete_pointer(name)
            self.add_garbage(location, kind="table", reason=f"{name} was dropped")

    def hold_inputs(self, names: Iterable[TableName]) -> None:
        """Keep stream tables that were read from being dropped before the end; gone: PUBLISH_CONFLICT."""
        s = tables.stream_tables
        for name in sorted(names):
            # A shared lock, where the database has one: SQLite lets nobody else write at all.
            if self.connection.execute(select(s.c.id).where(_of(s, name)).with_for_update(read=True)).first() is None:
                raise conflict(name)

    def readers_of(self, names: Iterable[TableName]) -> tuple[TableName, ...]:
        """The stream tables that read one of these."""
        d, s = tables.dependencies, tables.stream_tables
        found: dict[TableName, None] = {}
        for name in names:
            reads = and_(d.c.input_namespace == name.namespace, d.c.input_name == name.name)
            readers = select(s.c.namespace, s.c.name).join(d, d.c.stream_table_id == s.c.id).where(reads)
            found.update({TableName(row[0], row[1]): None for row in self.connection.execute(readers)})
        return tuple(sorted(found))

    # Leases

    def check_lease(self, lease: Lease) -> None:
        """Raise LEASE_LOST unless the lease is held; it cannot be taken before this transaction ends."""
        leases.check(self.connection, lease)

    def release_lease(self, lease: Lease) -> None:
        """Give the lease back with the commit; `Heartbeat.forget` it first."""
        leases.free(self.connection, lease)

    # Settings, cuts, functions, sources

    def put_setting(self, key: str, value: str) -> None:
        statement = self._database.insert(tables.settings).values(key=key, value=value)
        self.connection.execute(statement.on_conflict_do_update(index_elements=["key"], set_={"value": value}))

    def add_cut(self, name: str, comment: str | None = None) -> NamedCut:
        """Keep the lake as it is now under a name; taken: NAME_TAKEN."""
        if not name or len(name) > NAME_LENGTH:
            raise TrickleError("INVALID_NAME", f"a cut's name has 1 to {NAME_LENGTH} characters: {name[:60]!r}")
        cut = NamedCut(name, f"trickle_cut_{uuid.uuid4().hex[:12]}", datetime.now(UTC), comment)
        values = {"catalog_name": cut.catalog_name, "created_at": cut.created_at, "comment": comment}
        statement = self._database.insert(tables.cuts).values(name=name, **values)
        added = self.connection.execute(statement.on_conflict_do_nothing().returning(tables.cuts.c.name)).scalar()
        if added is None:
            raise TrickleError("NAME_TAKEN", f"there is a cut {name} already")
        self.copy_lake(cut.catalog_name)
        return cut

    def drop_cut(self, name: str) -> None:
        c = tables.cuts
        catalog = self.connection.execute(delete(c).where(c.c.name == name).returning(c.c.catalog_name)).scalar()
        if catalog is None:
            known = self.connection.execute(select(c.c.name).order_by(c.c.name)).scalars().all()
            raise TrickleError("UNKNOWN_CUT", f"there is no cut {name}; there are: {', '.join(known) or 'none'}")
        self.drop_catalog(catalog)
        g = tables.garbage
        self.connection.execute(update(g).where(g.c.kind == "table").values(not_before=None))

    def add_function(self, function: LakeFunction) -> None:
        """Taken: NAME_TAKEN."""
        values = {
            "name": function.name,
            "path": function.path,
            "returns": function.returns,
            "deterministic": function.deterministic,
        }
        f = tables.functions
        statement = self._database.insert(f).values(created_at=datetime.now(UTC), **values)
        added = self.connection.execute(statement.on_conflict_do_nothing().returning(f.c.name)).scalar()
        if added is None:
            raise TrickleError("NAME_TAKEN", f"there is a function {function.name} already")

    def drop_function(self, name: str) -> None:
        """Used by a stream table: HAS_DEPENDENTS."""
        f, s = tables.functions, tables.stream_tables
        found = self.connection.execute(select(s).where(s.c.functions_used.is_not(None), s.c.owner_id.is_(None)))
        users = sorted(
            f"{row['namespace']}.{row['name']}" for row in found.mappings() if name in dict(rows.functions_used(row))
        )
        if users:
            raise TrickleError(
                "HAS_DEPENDENTS",
                f"the function {name} is used by {', '.join(users)}",
                hint="Drop these stream tables first, or alter their queries.",
            )
        if self.connection.execute(delete(f).where(f.c.name == name)).rowcount != 1:
            known = self.connection.execute(select(f.c.name).order_by(f.c.name)).scalars().all()
            raise TrickleError(
                "UNKNOWN_FUNCTION", f"the lake has no function {name}; it has: {', '.join(known) or 'none'}"
            )

    def add_source(self, source: Source) -> None:
        """With the view that has its name in the lake; something else has the name: NAME_TAKEN."""
        name = TableName.of(source.name)
        self.insert_pointer(Pointer(name, source.view, is_view=True))
        s = tables.sources
        # A row whose view somebody dropped or replaced describes nothing any more.
        self.connection.execute(delete(s).where(_of(s, name)))
        values = {"namespace": name.namespace, "name": name.name, "kind": source.format}
        statement = insert(s).values(state=rows.source_json(source), created_at=datetime.now(UTC), **values)
        self.connection.execute(statement)

    def drop_source(self, name: TableName) -> None:
        """Read by a stream table: HAS_DEPENDENTS. Of the table itself nothing is touched."""
        s, d, t = tables.sources, tables.dependencies, tables.stream_tables
        found = self.connection.execute(select(s).where(_of(s, name))).mappings().first()
        if found is None:
            known = self.connection.execute(select(s.c.namespace, s.c.name).order_by(s.c.namespace, s.c.name)).all()
            there = ", ".join(f"{n}.{m}" for n, m in known) or "none"
            raise TrickleError("UNKNOWN_SOURCE", f"the lake has no source {name}; it has: {there}")
        source = rows.source(found)
        owner = t.alias("owner")
        readers = self.connection.execute(
            select(t.c.namespace, t.c.name, owner.c.namespace, owner.c.name)
            .select_from(d.join(t, d.c.stream_table_id == t.c.id).outerjoin(owner, t.c.owner_id == owner.c.id))
            .where(d.c.input_namespace == name.namespace, d.c.input_name == name.name)
        ).all()
        if readers:
            # A hidden state table stands for its owner.
            users = sorted({f"{row[2]}.{row[3]}" if row[2] else f"{row[0]}.{row[1]}" for row in readers})
            raise TrickleError(
                "HAS_DEPENDENTS",
                f"the source {name} is read by {', '.join(users)}",
                hint="Drop these stream tables first, or alter their queries.",
            )
        p = tables.iceberg_tables
        self.connection.execute(delete(p).where(and_(at(LAKE, name), p.c.metadata_location == source.view)))
        self.connection.execute(delete(s).where(_of(s, name)))


def _of(table: Table, name: TableName) -> Any:
    return and_(table.c.namespace == name.namespace, table.c.name == name.name)


def _fields_of(table: StreamTable) -> StreamTableFields:
    kept = StreamTableFields.__annotations__.keys() - {
        "owner_id",
        "scc_id",
        "freshness_deadline",
        "compiled",
    }
    return {name: getattr(table, name) for name in kept}  # type: ignore[return-value]


def _stream_table_values(fields: StreamTableFields) -> dict[str, Any]:
    """Fields of the record as columns of the table."""
    values: dict[str, Any] = dict(fields)
    unknown = values.keys() - StreamTableFields.__annotations__.keys()
    if unknown:
        raise TypeError(f"no such field of a stream table: {', '.join(sorted(unknown))}")
    if "namespace" in values:
        values["default_namespace"] = values.pop("namespace")
    if "name" in values:
        name = checked(values["name"])
        values |= {"namespace": name.namespace, "name": name.name}
    if "columns" in values:
        values["columns"] = rows.as_json(values["columns"])
    if "functions" in values:
        used = dict(values.pop("functions"))
        values["functions_used"] = rows.as_json(used) if used else None
    if "shapes" in values:
        values["shapes"] = rows.shapes_json(values["shapes"]) if values["shapes"] else None
    if "file_schema" in values:
        values["file_schema"] = values["file_schema"] or None
    if "settings" in values:
        values["settings"] = rows.as_json(dict(values["settings"])) if values["settings"] else None
    for key in ("mode", "status", "star", "diamond_consistency", "diamond_schedule_policy"):
        if values.get(key) is not None:
            values[key] = values[key].value
    return values
