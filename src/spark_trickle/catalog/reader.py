"""Reading the catalog. Every method is one SELECT, so every answer is one consistent instant."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Any

from sqlalchemy import Select, and_, bindparam, func, or_, select, true, tuple_
from sqlalchemy.engine import RowMapping

from spark_trickle.catalog import rows, tables
from spark_trickle.catalog.connection import Database
from spark_trickle.catalog.history import WROTE, HistoryReader, is_refresh, sums, sums_of
from spark_trickle.catalog.rows import Alert, Cost, Garbage, LogEntry, NamedCut, RefreshSum
from spark_trickle.errors import TrickleError
from spark_trickle.model import (
    LAKE,
    Action,
    Dependency,
    LakeFunction,
    Lineage,
    Pointer,
    Source,
    StreamTable,
    TableName,
)
from spark_trickle.results import HistoryEntry
from spark_trickle.thresholds import LISTED_NAMES, SLOW_REFRESHES


@dataclass(frozen=True, slots=True)
class Check:
    """A stream table with its own pointer and those of its inputs at one instant."""

    stream_table: StreamTable
    pointers: dict[TableName, Pointer]


def _prefixed(table: Any, prefix: str) -> list[Any]:
    return [column.label(prefix + column.name) for column in table.c]


_s, _d, _p = tables.stream_tables, tables.dependencies, tables.iceberg_tables
_with_dependencies = (
    select(*_prefixed(_s, "s_"), *_prefixed(_d, "d_"))
    .select_from(_s.outerjoin(_d, _d.c.stream_table_id == _s.c.id))
    .order_by(_s.c.namespace, _s.c.name, _d.c.position)
)
_named = and_(_s.c.namespace == bindparam("namespace"), _s.c.name == bindparam("name"))
_the_owner = _s.alias("owner")
_one = _with_dependencies.where(
    or_(
        _named,
        _s.c.owner_id
        == select(_the_owner.c.id)
        .where(_the_owner.c.namespace == bindparam("namespace"), _the_owner.c.name == bindparam("name"))
        .scalar_subquery(),
    )
)


def _check_statement() -> Select[Any]:
    own, input_ = _p.alias("own"), _p.alias("input")

    def points(alias: Any, namespace: Any, name: Any) -> Any:
        at = and_(alias.c.table_namespace == namespace, alias.c.table_name == name)
        return and_(alias.c.catalog_name == LAKE, at)

    joined = (
        _s.outerjoin(_d, _d.c.stream_table_id == _s.c.id)
        .outerjoin(own, points(own, _s.c.namespace, _s.c.name))
        .outerjoin(input_, points(input_, _d.c.input_namespace, _d.c.input_name))
    )
    columns = [*_prefixed(_s, "s_"), *_prefixed(_d, "d_")]
    for alias, prefix in ((own, "p0_"), (input_, "p1_")):
        columns += _prefixed(alias, prefix)
    return select(*columns).select_from(joined).where(_named).order_by(_d.c.position)


_check = _check_statement()
_pointers = select(_p.c.table_namespace, _p.c.table_name, _p.c.metadata_location, _p.c.iceberg_type).where(
    _p.c.catalog_name == bindparam("catalog")
)


class CatalogReader(HistoryReader):
    """What monitor and web receive: it cannot write."""

    def __init__(self, database: Database) -> None:
        self._database = database

    @property
    def shown_url(self) -> str:
        """The URL without its password."""
        return self._database.shown_url

    def close(self) -> None:
        self._database.close()

    def _rows(self, statement: Any, parameters: dict[str, Any] | None = None) -> list[RowMapping]:
        with self._database.read() as connection:
            return list(connection.execute(statement, parameters or {}).mappings())

    def _tuples(self, statement: Any) -> Sequence[Any]:
        with self._database.read() as connection:
            return connection.execute(statement).all()

    def pointers(self, catalog: str = LAKE, names: Collection[TableName] | None = None) -> dict[TableName, Pointer]:
        """The pointers of all tables and views, or of those named: a cut. Names without one are left out."""
        if names is not None and not names:
            return {}
        statement = _pointers
        wanted = None if names is None else set(names)
        if wanted is not None and len(wanted) <= LISTED_NAMES:
            keys = [(n.namespace, n.name) for n in sorted(wanted)]
            statement = statement.where(tuple_(_p.c.table_namespace, _p.c.table_name).in_(keys))
        with self._database.read() as connection:
            found = connection.execute(statement, {"catalog": catalog}).all()
        read = (rows.pointer(*row) for row in found)
        return {p.name: p for p in read if wanted is None or p.name in wanted}

    def namespaces(self, catalog: str = LAKE) -> tuple[str, ...]:
        n = tables.iceberg_namespaces
        statement = select(n.c.namespace).where(n.c.catalog_name == catalog).distinct().order_by(n.c.namespace)
        return tuple(row["namespace"] for row in self._rows(statement))

    def namespace_properties(self, namespace: str, catalog: str = LAKE) -> dict[str, str]:
        n = tables.iceberg_namespaces
        one = and_(n.c.catalog_name == catalog, n.c.namespace == namespace, n.c.property_key != "exists")
        found = self._rows(select(n.c.property_key, n.c.property_value).where(one).order_by(n.c.property_key))
        return {row["property_key"]: row["property_value"] or "" for row in found}

    def stream_table(self, name: TableName) -> StreamTable | None:
        found = self._rows(_one, {"namespace": name.namespace, "name": name.name})
        return next(iter(_with_states(_stream_tables(found))), None)

    def find(self, name: TableName) -> StreamTable:
        """The stream table, or UNKNOWN_STREAM_TABLE with those there are."""
        table = self.stream_table(name)
        if table is None:
            raise unknown(name, (t.name for t in self.stream_tables()))
        return table

    def stream_tables(self) -> tuple[StreamTable, ...]:
        """All stream tables, in the order of their names; hidden state tables are inside their owners."""
        return _with_states(_stream_tables(self._rows(_with_dependencies)))

    def lineages(self, names: Collection[TableName] | None = None) -> dict[TableName, Lineage]:
        """Where the columns of stream tables come from, as far as that was stored; of those named, or of all."""
        stored = tables.lineage
        joined = stored.join(_s, _s.c.id == stored.c.stream_table_id)
        statement = select(stored, _s.c.namespace, _s.c.name).select_from(joined)
        if names is not None and len(names) <= LISTED_NAMES:
            keys = [(n.namespace, n.name) for n in sorted(names)]
            statement = statement.where(tuple_(_s.c.namespace, _s.c.name).in_(keys))
        return {TableName(row["namespace"], row["name"]): rows.lineage(row) for row in self._rows(statement)}

    def snapshot_for_check(self, name: TableName) -> Check | None:
        """Everything the NO_DATA check compares, in one round trip."""
        found = self._rows(_check, {"namespace": name.namespace, "name": name.name})
        if not found:
            return None
        pointers: dict[TableName, Pointer] = {}
        for row in found:
            for prefix in ("p0_", "p1_"):
                if row[prefix + "table_name"] is not None:
                    pointer = rows.pointer(
                        row[prefix + "table_namespace"],
                        row[prefix + "table_name"],
                        row[prefix + "metadata_location"],
                        row[prefix + "iceberg_type"],
                    )
                    pointers[pointer.name] = pointer
        return Check(next(iter(_stream_tables(found))), pointers)

    def costs(self, stream_table_id: int, limit: int) -> tuple[Cost, ...]:
        """What computing content took, the newest first; of this very table: another one may have had its name.

        Of what is older than `limit` refreshes there is what tells whether DIFFERENTIAL is worth another trial: what it
        took lately, whenever that was, and what was spent since on FULL for its cost, in one sum.
        """
        h = tables.refresh_history
        wrote = h.c.action.in_(WROTE)
        chosen = and_(h.c.stream_table_id == stream_table_id, h.c.state == "COMPLETED", wrote, h.c.seconds.is_not(None))
        statement = select(h.c.id, h.c.action, h.c.reason, h.c.seconds, h.c.rows_changed).order_by(h.c.id.desc())
        newest = tuple(map(rows.cost, self._rows(statement.where(chosen).limit(limit))))
        missing = SLOW_REFRESHES - sum(c.action is Action.DIFFERENTIAL for c in newest)
        if missing <= 0 or len(newest) < limit or any(c.code == "ALTERED" for c in newest):
            return newest
        altered = select(func.coalesce(func.max(h.c.id), 0)).where(chosen, h.c.reason.like("ALTERED%"))
        before = and_(chosen, h.c.id < newest[-1].id, h.c.id > altered.scalar_subquery())
        tried = and_(before, h.c.action == Action.DIFFERENTIAL.value)
        older = tuple(map(rows.cost, self._rows(statement.where(tried).limit(missing))))
        if not older:
            return newest
        since = and_(before, h.c.id > older[0].id, h.c.reason.like("COST%"))
        spent = float(self._rows(select(func.sum(h.c.seconds).label("seconds")).where(since))[0]["seconds"] or 0)
        return (*newest, Cost(older[0].id + 1, Action.FULL, "COST", spent, {}), *older)

    def last_failures(self, stream_table_ids: Collection[int]) -> dict[int, datetime]:
        """When the last failed refresh of each of these ended; those without one are left out."""
        h = tables.refresh_history
        found: dict[int, datetime] = {}
        ids = sorted(set(stream_table_ids))
        for start in range(0, len(ids), LISTED_NAMES):
            failed = and_(h.c.stream_table_id.in_(ids[start : start + LISTED_NAMES]), tables.failed)
            last = select(h.c.stream_table_id, func.max(h.c.ended_at).label("at")).where(failed)
            found |= {int(row["stream_table_id"]): row["at"] for row in self._rows(last.group_by(h.c.stream_table_id))}
        return found

    def last_refreshes(self) -> dict[int, HistoryEntry]:
        """The newest refresh of each stream table there is, by its id."""
        h = tables.refresh_history
        # One look at the index for each: grouping would read all of a long history.
        here = and_(h.c.stream_table_id == _s.c.id, is_refresh(h))
        newest = select(func.max(h.c.id)).where(here).correlate(_s).scalar_subquery()
        found = self._rows(select(h).where(h.c.id.in_(select(newest).select_from(_s))))
        return {int(row["stream_table_id"]): rows.history_entry(row) for row in found}

    def running(self) -> dict[str, int]:
        """Refreshes that have begun and not ended, with their stream tables; perhaps a process is dead."""
        h = tables.refresh_history
        begun = select(h.c.refresh_id, h.c.stream_table_id)
        found = self._rows(begun.where(h.c.state == "RUNNING", h.c.stream_table_id.is_not(None)))
        return {str(row["refresh_id"]): int(row["stream_table_id"]) for row in found}

    def settled(self, after: int, before: datetime) -> int:
        """The last id in the history up to which every refresh ended before a time; that is known up to `after`."""
        h = tables.refresh_history
        open_ = and_(h.c.id > after, or_(h.c.ended_at.is_(None), h.c.ended_at >= before))
        first = self._rows(select(h.c.id).where(open_).order_by(h.c.id).limit(1))
        # Not the id before it: that may be of a row which is not committed yet.
        below = h.c.id < first[0]["id"] if first else true()
        last = self._rows(select(func.max(h.c.id).label("id")).where(h.c.id > after, below))[0]["id"]
        if last is None:
            # SQLite gives ids again that were the last ones when their rows were deleted.
            highest = self._rows(select(func.max(h.c.id).label("id")))[0]["id"]
            return min(after, int(highest or 0))
        return int(last)

    def refresh_sums(self, after: int, upto: int | None, limits: Sequence[float]) -> tuple[RefreshSum, ...]:
        """The refreshes of public stream tables with an id in between (None: no end) that are over, in groups.

        A group has all refreshes of a table with one outcome, and with a duration between two of the limits.
        """
        h = tables.refresh_history
        between = h.c.id > after if upto is None else and_(h.c.id > after, h.c.id <= upto)
        return sums(self._rows(sums_of(between, limits)))

    def refresh_entry(self, refresh_id: str) -> HistoryEntry | None:
        """The history of one refresh; after OutcomeUnknown its state tells whether the publish happened."""
        h = tables.refresh_history
        found = self._rows(select(h).where(h.c.refresh_id == refresh_id))
        return rows.history_entry(found[0]) if found else None

    def change_log(self, names: Collection[TableName]) -> tuple[LogEntry, ...]:
        """The change log of these stream tables, in the order of publishing."""
        if not names:
            return ()
        c = tables.change_log
        named = tuple_(_s.c.namespace, _s.c.name).in_([(n.namespace, n.name) for n in sorted(names)])
        joined = c.join(_s, _s.c.id == c.c.stream_table_id)
        statement = select(c, _s.c.namespace, _s.c.name).select_from(joined).where(named)
        return tuple(rows.log_entry(row) for row in self._rows(statement.order_by(c.c.id)))

    def published(self, stream_table_id: int, snapshots: Collection[int]) -> dict[int, datetime]:
        """When each of these snapshots of a stream table was published; those that never were are left out."""
        found: dict[int, datetime] = {}
        h = tables.refresh_history
        ids = sorted(set(snapshots))
        for start in range(0, len(ids), LISTED_NAMES):
            listed = ids[start : start + LISTED_NAMES]
            chosen = and_(h.c.stream_table_id == stream_table_id, h.c.snapshot_id.in_(listed))
            # A refresh that changed nothing names the snapshot of an earlier one.
            first = select(h.c.snapshot_id, func.min(h.c.ended_at).label("at")).where(chosen).group_by(h.c.snapshot_id)
            found |= {int(row["snapshot_id"]): row["at"] for row in self._rows(first)}
        return found

    def published_at(self, stream_table_id: int, at: datetime) -> tuple[int | None, datetime] | None:
        """The last publish of content at or before a time; its snapshot is None when nobody wrote it down."""
        h = tables.refresh_history
        wrote = h.c.action.in_(WROTE)
        chosen = and_(h.c.stream_table_id == stream_table_id, h.c.state == "COMPLETED", wrote, h.c.ended_at <= at)
        found = self._rows(select(h.c.snapshot_id, h.c.ended_at).where(chosen).order_by(h.c.id.desc()).limit(1))
        return (found[0]["snapshot_id"], found[0]["ended_at"]) if found else None

    def was_published(self, snapshot_id: int) -> bool:
        """Whether a refresh published this snapshot of its stream table, even if it has expired since."""
        h = tables.refresh_history
        done = and_(h.c.snapshot_id == snapshot_id, h.c.state == "COMPLETED")
        return bool(self._rows(select(h.c.id).where(done).limit(1)))

    def catalogs_with(self, name: TableName) -> tuple[str, ...]:
        """The private catalogs and cuts that hold a table of this name."""
        p = tables.iceberg_tables
        statement = select(p.c.catalog_name).where(
            p.c.table_namespace == name.namespace, p.c.table_name == name.name, p.c.catalog_name != LAKE
        )
        return tuple(str(row["catalog_name"]) for row in self._rows(statement.order_by(p.c.catalog_name)))

    def held_at(self, name: TableName) -> dict[str, str]:
        """Where the lake, the private catalogs and the cuts have a table of this name, by catalog."""
        p = tables.iceberg_tables
        here = and_(p.c.table_namespace == name.namespace, p.c.table_name == name.name)
        found = self._rows(select(p.c.catalog_name, p.c.metadata_location).where(here))
        return {row["catalog_name"]: row["metadata_location"] for row in found if row["metadata_location"]}

    def locations_of(self, name: TableName) -> set[str]:
        """All metadata files of a table that the catalog refers to: also those that frontiers were taken at."""
        d, s = tables.dependencies, tables.stream_tables
        read = select(d.c.pointer).where(d.c.input_namespace == name.namespace, d.c.input_name == name.name)
        own = select(s.c.published_pointer).where(s.c.namespace == name.namespace, s.c.name == name.name)
        found = {pointer for statement in (read, own) for (pointer,) in self._tuples(statement) if pointer}
        return found | set(self.held_at(name).values())

    def frontiers_at(self, name: TableName) -> frozenset[int]:
        """The snapshots of a table that stream tables and state tables reflect."""
        d = tables.dependencies
        here = and_(d.c.input_namespace == name.namespace, d.c.input_name == name.name, d.c.snapshot_id.is_not(None))
        return frozenset(int(row["snapshot_id"]) for row in self._rows(select(d.c.snapshot_id).where(here)))

    def is_held(self, location: str) -> bool:
        """Whether any catalog, the lake itself too, has a table whose files are in this folder."""
        p = tables.iceberg_tables
        inside = p.c.metadata_location.startswith(f"{location}/", autoescape=True)
        return bool(self._rows(select(p.c.table_name).where(inside).limit(1)))

    def setting(self, key: str) -> str | None:
        s = tables.settings
        found = self._rows(select(s.c.value).where(s.c.key == key))
        return str(found[0]["value"]) if found else None

    def cuts(self) -> tuple[NamedCut, ...]:
        return tuple(rows.named_cut(row) for row in self._rows(select(tables.cuts).order_by(tables.cuts.c.name)))

    def functions(self) -> tuple[LakeFunction, ...]:
        """In the order of their names, without fingerprints: those are of the code, not of the catalog."""
        return tuple(
            rows.function(row) for row in self._rows(select(tables.functions).order_by(tables.functions.c.name))
        )

    def sources(self) -> tuple[Source, ...]:
        """Tables outside the lake, in the order of their names."""
        s = tables.sources
        return tuple(rows.source(row) for row in self._rows(select(s).order_by(s.c.namespace, s.c.name)))

    def groups(self) -> tuple[rows.GroupState, ...]:
        """Of groups that were refreshed; not all of them need be groups still."""
        return tuple(rows.group_state(row) for row in self._rows(select(tables.groups)))

    def alerts(
        self,
        limit: int | None = 50,
        *,
        open_only: bool = False,
        name: str | None = None,
        kind: str | None = None,
        since: datetime | None = None,
    ) -> tuple[Alert, ...]:
        """Those seen last first; `since`: last seen at that time or later."""
        a = tables.alerts
        statement = select(a).order_by(a.c.last_seen_at.desc(), a.c.id.desc()).limit(limit)
        if open_only:
            statement = statement.where(a.c.resolved_at.is_(None))
        if name is not None:
            statement = statement.where(a.c.name == name)
        if kind is not None:
            statement = statement.where(a.c.kind == kind)
        if since is not None:
            statement = statement.where(a.c.last_seen_at >= since)
        return tuple(rows.alert(row) for row in self._rows(statement))

    def alert_counts(self) -> dict[tuple[str, str], int]:
        """How many alerts are open, by kind and severity."""
        a = tables.alerts
        counted = select(a.c.kind, a.c.severity, func.count().label("alerts")).where(a.c.resolved_at.is_(None))
        found = self._rows(counted.group_by(a.c.kind, a.c.severity).order_by(a.c.kind, a.c.severity))
        return {(row["kind"], row["severity"]): int(row["alerts"]) for row in found}

    def notices_waiting(self) -> dict[str | None, int]:
        """What is still to be told of alerts, by target; None: nobody has looked at it."""
        o = tables.outbox
        found = self._rows(select(o.c.target, func.count().label("notices")).group_by(o.c.target))
        return {row["target"]: int(row["notices"]) for row in found}

    def log_sizes(self) -> dict[TableName, int]:
        """Entries in the change log of each stream table that has some."""
        c = tables.change_log
        counted = select(_s.c.namespace, _s.c.name, func.count().label("entries")).group_by(_s.c.namespace, _s.c.name)
        found = self._rows(counted.select_from(c.join(_s, _s.c.id == c.c.stream_table_id)))
        return {TableName(row["namespace"], row["name"]): int(row["entries"]) for row in found}

    def lease_expires_at(self, name: str) -> datetime | None:
        """None: nobody holds it."""
        held = and_(tables.leases.c.name == name, tables.leases.c.owner_id.is_not(None))
        found = self._rows(select(tables.leases.c.expires_at).where(held))
        return found[0]["expires_at"] if found else None

    def leased_at(self, names: Collection[str], now: datetime) -> tuple[datetime, ...]:
        """Since when those of these leases are held that have not expired."""
        found: list[datetime] = []
        held = and_(tables.leases.c.owner_id.is_not(None), tables.leases.c.expires_at > now)
        ordered = sorted(names)
        for start in range(0, len(ordered), LISTED_NAMES):
            listed = tables.leases.c.name.in_(ordered[start : start + LISTED_NAMES])
            found += [row["acquired_at"] for row in self._rows(select(tables.leases.c.acquired_at).where(held, listed))]
        return tuple(found)

    def garbage(
        self, due: datetime | None = None, limit: int = 1000, kinds: Collection[str] | None = None
    ) -> tuple[Garbage, ...]:
        """The oldest first; with `due`, only what may be deleted at that time."""
        g = tables.garbage
        statement = select(g).order_by(g.c.id).limit(limit)
        if kinds is not None:
            statement = statement.where(g.c.kind.in_(kinds))
        if due is not None:
            statement = statement.where(or_(g.c.not_before.is_(None), g.c.not_before <= due))
        return tuple(rows.garbage(row) for row in self._rows(statement))

    def garbage_due(self, due: datetime) -> tuple[int, datetime | None]:
        """How much may be deleted at that time, and when the first of it could be known."""
        g = tables.garbage
        allowed = or_(g.c.not_before.is_(None), g.c.not_before <= due)
        since = func.min(func.coalesce(g.c.not_before, g.c.created_at), type_=g.c.created_at.type)
        found = self._rows(select(func.count().label("n"), since.label("since")).where(allowed))[0]
        return int(found["n"]), found["since"]


def unknown(name: TableName, known: Iterable[TableName]) -> TrickleError:
    there = ", ".join(sorted(map(str, known))) or "none"
    return TrickleError("UNKNOWN_STREAM_TABLE", f"there is no stream table {name}; there are: {there}")


def _with_states(found: Iterable[StreamTable]) -> tuple[StreamTable, ...]:
    """Hidden state tables move into their owners, in the order in which they were made."""
    all_ = tuple(found)
    if all(t.owner_id is None for t in all_):
        return all_
    owned: dict[int, list[StreamTable]] = {}
    for t in sorted(all_, key=lambda t: t.id):
        if t.owner_id is not None:
            owned.setdefault(t.owner_id, []).append(t)
    return tuple(replace(t, states=tuple(owned.get(t.id, ()))) for t in all_ if t.owner_id is None)


def _stream_tables(found: Iterable[RowMapping]) -> Iterable[StreamTable]:
    """Fold the rows of the join, which come ordered by stream table."""
    current: RowMapping | None = None
    inputs: list[Dependency] = []
    for row in found:
        if current is not None and row["s_id"] != current["s_id"]:
            yield rows.stream_table(current, tuple(inputs))
            inputs = []
        current = row
        if row["d_id"] is not None:
            inputs.append(rows.dependency(row))
    if current is not None:
        yield rows.stream_table(current, tuple(inputs))
