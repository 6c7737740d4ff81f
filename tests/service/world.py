"""A lake whose stream tables a service keeps fresh: two sources, twelve stream tables, random changes.

What must hold at any moment, whatever was killed, is in `faults`; what dead processes may leave, in `leftovers`.
"""

from __future__ import annotations

import random
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from pathlib import Path

from spark_trickle import Trickle
from spark_trickle.lake import jvm
from spark_trickle.model import Action, TableName
from spark_trickle.results import HistoryEntry
from tests.engine.lakes import private_catalogs

# Name, schedule, definition; upstream first, five deep. Filter, join, aggregate, window, DISTINCT, anti join.
STREAM_TABLES = (
    ("big", "5s", "SELECT id, customer, amount, day FROM s.orders WHERE amount > 90"),
    ("enriched", "10s", "SELECT o.id, o.amount, o.day, c.id AS customer, c.region FROM s.orders o "
                        "JOIN s.customers c ON c.id = o.customer WHERE o.amount > 50"),
    ("daily", "10s", "SELECT day, count(*) AS n, sum(amount) AS total FROM s.orders GROUP BY day"),
    ("active", "15s", "SELECT DISTINCT customer FROM s.orders"),
    ("idle", "20s", "SELECT c.id, c.region FROM s.customers c LEFT ANTI JOIN s.active a ON a.customer = c.id"),
    ("latest", "15s", "SELECT customer, id, amount FROM (SELECT *, row_number() OVER (PARTITION BY customer "
                      "ORDER BY id DESC) AS place FROM s.big) WHERE place = 1"),
    ("spent", "15s", "SELECT customer, region, count(*) AS n, sum(amount) AS total FROM s.enriched "
                     "GROUP BY customer, region"),
    ("regions", "20s", "SELECT region, sum(total) AS total, max(total) AS best, count(*) AS customers FROM s.spent "
                       "GROUP BY region"),
    ("ranked", "30s", "SELECT region, total, rank() OVER (ORDER BY total DESC, region) AS place FROM s.regions"),
    ("shares", "30s", "SELECT s.customer, s.total / r.total AS share FROM s.spent s JOIN s.regions r "
                      "ON r.region = s.region WHERE s.total = r.best"),
    ("good_days", "30s", "SELECT day, total FROM s.daily WHERE total > (SELECT avg(total) FROM s.daily)"),
    ("overview", "60s", "SELECT (SELECT count(*) FROM s.idle) AS idle, (SELECT count(*) FROM s.latest) AS latest, "
                        "(SELECT count(*) FROM s.good_days) AS good_days"),
)  # fmt: skip
NAMES = tuple(f"s.{name}" for name, _, _ in STREAM_TABLES)
CHAIN = ("enriched", "spent", "regions", "ranked", "big", "latest")  # enough where each is verified a hundred times
ORDER = "id, id % {customers} AS customer, CAST(id * 7 % 101 AS DECIMAL(10, 2)) AS amount, date_add(DATE'2026-01-01', "


@dataclass
class World:
    """The sources, and what changes them. The same seed makes the same changes."""

    tr: Trickle
    rnd: random.Random
    orders: int = 2_000
    customers: int = 100
    only: tuple[str, ...] = ()  # of the stream tables
    next_id: int = field(init=False, default=0)

    @property
    def names(self) -> tuple[str, ...]:
        return tuple(f"s.{name}" for name, _, _ in STREAM_TABLES if not self.only or name in self.only)

    def make(self, schedule: str | None = None) -> None:
        """`schedule`: one for all of them."""
        tr = self.tr
        tr.sql("CREATE NAMESPACE s")
        tr.sql(
            f"CREATE TABLE s.orders TBLPROPERTIES ('format-version' = '3', 'write.delete.mode' = 'merge-on-read', "
            f"'write.update.mode' = 'merge-on-read') AS {self._rows(0, self.orders)}"
        )
        tr.sql(
            "CREATE TABLE s.customers AS SELECT id, concat('region ', id % 7) AS region "
            f"FROM range({self.customers + 5})"
        )
        self.next_id = self.orders
        for name, own, query in STREAM_TABLES:
            if f"s.{name}" in self.names:
                tr.create_stream_table(f"s.{name}", query, schedule=schedule or own)

    def _rows(self, first: int, last: int) -> str:
        return (
            f"SELECT {ORDER.format(customers=self.customers)}CAST(id % 60 AS INT)) AS day FROM range({first}, {last})"
        )

    def change(self, rows: int = 20) -> str:
        """One commit to a source that inserts, updates or deletes about so many rows."""
        kind = self.rnd.choice(("insert", "insert", "update", "delete", "customers"))
        if kind == "insert":
            first, self.next_id = self.next_id, self.next_id + rows
            statement = f"INSERT INTO s.orders {self._rows(first, self.next_id)}"
        elif kind == "customers":
            statement = f"UPDATE s.customers SET region = concat('region ', {self.rnd.randrange(7)}) WHERE id = "
            statement += str(self.rnd.randrange(self.customers))
        else:
            first = self.rnd.randrange(max(1, self.next_id - rows))
            where = f"WHERE id BETWEEN {first} AND {first + rows - 1}"
            set_ = f"SET amount = amount + {self.rnd.randrange(1, 30)}"
            statement = f"UPDATE s.orders {set_} {where}" if kind == "update" else f"DELETE FROM s.orders {where}"
        self.tr.sql(statement)
        return statement


def faults(tr: Trickle, names: Sequence[str]) -> list[str]:
    """What is wrong with stream tables that nobody refreshes meanwhile: their content, and the books."""
    found = [str(seen) for seen in map(tr.verify, names) if not seen.equal]
    pointers = tr.store.pointers()
    for name in names:
        metadata = tr.refresher.lake.metadata(pointers[TableName.of(name)].location)
        parent = {s.snapshotId(): s.parentId() for s in metadata.snapshots()}
        current = metadata.currentSnapshot()
        found += book_faults(name, tr.history(name, limit=100_000), parent, current and current.snapshotId())
    return found


def book_faults(
    name: str, history: Sequence[HistoryEntry], parent: Mapping[int, int | None], current: int | None
) -> list[str]:
    """Each snapshot that a stream table has is of one refresh that completed, in their order: none is lost or doubled.

    `history` is the newest first, `parent` has the parent of each snapshot that the table still has.
    """
    published: list[int] = []
    for entry in reversed(history):
        moved = entry.action in (Action.DIFFERENTIAL, Action.FULL, Action.REINITIALIZE, Action.MAINTENANCE)
        # A change that came to nothing leaves the table at the snapshot it was at.
        if entry.state == "COMPLETED" and moved and entry.snapshot_id not in (None, *published[-1:]):
            published.append(entry.snapshot_id or 0)
    found = []
    if len(published) != len(set(published)):
        found.append(f"{name}: a snapshot was published twice: {published}")
    for before, after in pairwise(published):
        if after in parent and parent[after] != before:
            found.append(f"{name}: {after} follows {parent[after]}, by the history it follows {before}")
    found += [f"{name}: no completed refresh recorded {s}" for s in parent if s not in published]
    if published and published[-1] != current:
        found.append(f"{name}: the last refresh published {published[-1]}, the table shows {current}")
    return found


def leftovers(tr: Trickle) -> list[str]:
    """What dead processes left; nothing, once somebody has cleaned up and nothing runs."""
    running = [e.refresh_id for e in tr.history(limit=1000) if e.state == "RUNNING"]
    return [
        *(f"RUNNING: {r}" for r in running),
        *(f"a private catalog: {c}" for c in sorted(private_catalogs(tr))),
        *(f"a file that nothing refers to: {f}" for f in sorted(unreachable(tr))),
    ]


def unreachable(tr: Trickle) -> set[str]:
    """Files in the folders of stream tables and states that neither their metadata nor the change log refers to."""
    handles, io = jvm.handles(tr.spark), jvm.file_io(tr.spark)
    pointers = tr.store.pointers()
    tables = [part.name for t in tr.store.stream_tables() for part in (t, *t.states)]
    reachable = {f.path for e in tr.store.change_log(tables) for f in e.files}
    reachable |= {path for g in tr.store.garbage() for path in g.location.split("\n")}
    read = jvm.manifests(tr.spark)
    folders = []
    for name in tables:
        location = pointers[name].location
        metadata = tr.refresher.lake.metadata(location)
        folders.append(Path(_plain(str(metadata.location()))))
        reachable |= {location, *(m.file() for m in metadata.previousFiles())}
        for snapshot in metadata.snapshots():
            manifests = snapshot.allManifests(io)
            reachable |= {snapshot.manifestListLocation(), *handles.pluck(manifests, (_MANIFEST, "path"))}
            table = tr.refresher.lake.table(location, str(name))
            data, deletes = snapshot.dataManifests(io), snapshot.deleteManifests(io)
            for files in (read.dataFiles(data, table), read.deleteFiles(deletes, table)):
                reachable |= set(handles.pluck(files, _LOCATION))
    known = {_plain(path) for path in reachable}
    on_disk = {str(f) for folder in folders for f in folder.rglob("*") if f.is_file() and f.suffix != ".crc"}
    return on_disk - known


def _plain(uri: str) -> str:
    return re.sub(r"^file:(//)?", "", uri)


_LOCATION = ("org.apache.iceberg.ContentFile", "location")
_MANIFEST = "org.apache.iceberg.ManifestFile"
