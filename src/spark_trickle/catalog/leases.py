"""Leases: who may refresh what, until when.

A lease is a row with an owner, an expiry that a heartbeat moves, and a *fencing token* that grows with every
change of owner. The holder's right is checked once more inside the publish transaction, by token: a process
that slept through its expiry cannot publish over its successor.
"""

from __future__ import annotations

import logging
import random
import threading
import time
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Any

from sqlalchemy import Connection, Select, Update, and_, delete, select, update
from sqlalchemy.engine import RowMapping

from spark_trickle.catalog.owner import Owner
from spark_trickle.catalog.rows import Reader
from spark_trickle.catalog.tables import leases
from spark_trickle.errors import TrickleError

if TYPE_CHECKING:
    from spark_trickle.catalog.store import CatalogStore

_log = logging.getLogger(__name__)

FREE: dict[str, Any] = dict.fromkeys(("owner_id", "host", "machine", "pid", "start_mark", "acquired_at", "expires_at"))


@dataclass(frozen=True, slots=True)
class Lease:
    """What `acquire` gave: names with their tokens. `took_over`: a dead or silent owner had one."""

    tokens: tuple[tuple[str, int], ...]
    owner: Owner
    ttl_seconds: float
    took_over: bool = False

    @property
    def names(self) -> tuple[str, ...]:
        return tuple(name for name, _ in self.tokens)

    def also(self, other: Lease) -> Lease:
        """Both: for a publish that needs the names of both."""
        return replace(self, tokens=(*self.tokens, *other.tokens))


@dataclass(frozen=True, slots=True)
class Holding:
    """A row of `leases` that somebody holds."""

    name: str
    token: int
    owner: Owner
    acquired_at: datetime
    expires_at: datetime

    def is_stale(self, now: datetime) -> bool:
        return self.expires_at <= now or self.owner.is_dead()


_holding = Reader(
    "trickle_leases",
    Holding,
    key="name",
    without=("owner",),
    owner_id=str,
    host=str,
    machine=str,
    pid=int,
    start_mark=str,
)


def holding(row: RowMapping) -> Holding | None:
    """The row as a record; None when the lease is free."""
    if row["owner_id"] is None:
        return None
    v = _holding.values(row)
    owner = Owner(v["owner_id"], v["host"], v["machine"], v["pid"], v["start_mark"])
    return Holding(v["name"], v["token"], owner, v["acquired_at"], v["expires_at"])


def acquire(store: CatalogStore, names: Sequence[str], owner: Owner, ttl_seconds: float, wait_seconds: float) -> Lease:
    """All of the leases or none, waiting up to `wait_seconds` for those that are held."""
    wanted = tuple(sorted(set(names)))
    deadline = time.monotonic() + wait_seconds
    pause = 0.02
    while True:
        # A waiting process only looks; it takes the write lock when there is something to take.
        blocker = _held(store, wanted)
        if blocker is None:
            taken = _take(store, wanted, owner, ttl_seconds)
            if isinstance(taken, Lease):
                return taken
            blocker = taken
        left = deadline - time.monotonic()
        if left <= 0:
            since = f"{blocker.acquired_at:%Y-%m-%d %H:%M:%S} UTC"
            raise TrickleError("REFRESH_IN_PROGRESS", f"{blocker.name} is held by {blocker.owner} since {since}")
        time.sleep(min(left, pause * random.uniform(0.5, 1.0)))
        pause = min(pause * 1.5, 0.5)


def _held(store: CatalogStore, names: tuple[str, ...]) -> Holding | None:
    with store.database.read() as connection:
        now = store.database.now(connection)
        return _blocker(connection.execute(_rows(names)).mappings(), now)


def _rows(names: tuple[str, ...]) -> Select[Any]:
    return select(leases).where(leases.c.name.in_(names)).order_by(leases.c.name)


def _locked(connection: Connection, names: tuple[str, ...]) -> list[RowMapping]:
    return list(connection.execute(_rows(names).with_for_update()).mappings())


def _blocker(found: Iterable[RowMapping], now: datetime) -> Holding | None:
    held = (holding(row) for row in found)
    return next((h for h in held if h is not None and not h.is_stale(now)), None)


def _take(store: CatalogStore, names: tuple[str, ...], owner: Owner, ttl_seconds: float) -> Lease | Holding:
    with store.write() as tx:
        for name in names:  # in sorted order, as all do: no deadlock
            tx.connection.execute(store.database.insert(leases).values(name=name, token=0).on_conflict_do_nothing())
        found = _locked(tx.connection, names)
        now = store.database.now(tx.connection)
        blocker = _blocker(found, now)
        if blocker is not None:
            return blocker
        values = {
            "owner_id": owner.id,
            "host": owner.host,
            "machine": owner.machine,
            "pid": owner.pid,
            "start_mark": owner.start_mark,
            "acquired_at": now,
            "expires_at": now + timedelta(seconds=ttl_seconds),
        }
        statement = update(leases).where(leases.c.name.in_(names)).values(token=leases.c.token + 1, **values)
        tx.connection.execute(statement)
    tokens = tuple((row["name"], row["token"] + 1) for row in found)
    return Lease(tokens, owner, ttl_seconds, any(row["owner_id"] is not None for row in found))


def _current(lease: Lease, name: str, token: int) -> Any:
    return and_(leases.c.name == name, leases.c.token == token, leases.c.owner_id == lease.owner.id)


def check(connection: Connection, lease: Lease) -> None:
    """Raise LEASE_LOST unless every token is current; the rows stay locked until the transaction ends.

    An expired lease that nobody took is still good: its row is locked, so nobody can before the commit.
    """
    found = {row["name"]: (row["token"], row["owner_id"]) for row in _locked(connection, lease.names)}
    for name, token in lease.tokens:
        if found.get(name) != (token, lease.owner.id):
            raise _lost(name)


def is_held(store: CatalogStore, lease: Lease) -> bool:
    """Whether every token is still current. Only `check` inside a transaction makes sure of it."""
    with store.database.read() as connection:
        found = {
            row["name"]: (row["token"], row["owner_id"]) for row in connection.execute(_rows(lease.names)).mappings()
        }
    return all(found.get(name) == (token, lease.owner.id) for name, token in lease.tokens)


def _lost(name: str) -> TrickleError:
    return TrickleError("LEASE_LOST", f"the lease {name} was taken over by another process")


def renew(store: CatalogStore, lease: Lease) -> None:
    lost = renew_all(store, (lease,))
    if lost:
        raise _lost(", ".join(lost[0].names))


def renew_all(store: CatalogStore, active: Iterable[Lease]) -> tuple[Lease, ...]:
    """Move the expiry of all in one transaction; returns those that are lost."""
    # Rows are locked in the order of their names, as `acquire` does: no deadlock.
    ordered = sorted(
        ((name, token, lease) for lease in active for name, token in lease.tokens), key=lambda row: row[:2]
    )
    lost: dict[tuple[tuple[str, int], ...], Lease] = {}
    with store.write() as tx:
        now = store.database.now(tx.connection)
        for name, token, lease in ordered:
            expires_at = now + timedelta(seconds=lease.ttl_seconds)
            if tx.connection.execute(_set(lease, name, token, expires_at=expires_at)).rowcount != 1:
                lost[lease.tokens] = lease
    return tuple(lost.values())


def _set(lease: Lease, name: str, token: int, **values: Any) -> Update:
    return update(leases).where(_current(lease, name, token)).values(**values)


def release(store: CatalogStore, lease: Lease) -> None:
    """Give back what is still ours; a lease that was lost is not an error here."""
    with store.write() as tx:
        free(tx.connection, lease)


def free(connection: Connection, lease: Lease) -> None:
    for name, token in lease.tokens:
        if name == lease.owner.process_lease:  # never asked for again: its row would stay forever
            connection.execute(delete(leases).where(_current(lease, name, token)))
        else:
            connection.execute(_set(lease, name, token, **FREE))


class Heartbeat:
    """Says that this process lives: holds its process lease and renews all leases kept in it, every ttl/3.

    It must run before the first private catalog is made, or another process may take that for a leftover.
    """

    def __init__(self, store: CatalogStore, *, ttl_seconds: float = 30.0) -> None:
        self._store = store
        self._ttl_seconds = ttl_seconds
        self._kept: dict[tuple[tuple[str, int], ...], Lease] = {}
        self._lock = threading.Lock()
        self._stop = threading.Event()
        self._thread: threading.Thread | None = None
        self._process: Lease | None = None

    def start(self) -> None:
        if self._thread is not None:
            return
        self._register()
        self._stop.clear()
        self._thread = threading.Thread(target=self._run, name="trickle-heartbeat", daemon=True)
        self._thread.start()

    def stop(self) -> None:
        if self._thread is None:
            return
        self._stop.set()
        self._thread.join()
        self._thread = None
        if self._process is not None:
            with suppress(TrickleError):  # it expires by itself
                release(self._store, self._process)

    def __enter__(self) -> Heartbeat:
        self.start()
        return self

    def __exit__(self, *_exception: object) -> None:
        self.stop()

    def keep(self, lease: Lease) -> None:
        with self._lock:
            self._kept[lease.tokens] = lease

    def forget(self, lease: Lease) -> None:
        with self._lock:
            self._kept.pop(lease.tokens, None)

    @contextmanager
    def holding(self, names: Sequence[str], wait_seconds: float) -> Iterator[Lease]:
        """Acquire, keep renewed while the block runs, release."""
        lease = acquire(self._store, names, self._store.owner, self._ttl_seconds, wait_seconds)
        self.keep(lease)
        try:
            yield lease
        finally:
            self.give_back(lease)

    def take(self, *names: str) -> Lease | None:
        """A lease that is kept renewed until `give_back`; None: somebody else holds one of the names."""
        try:
            lease = acquire(self._store, names, self._store.owner, self._ttl_seconds, 0)
        except TrickleError as error:
            if error.code != "REFRESH_IN_PROGRESS":
                raise
            return None
        self.keep(lease)
        return lease

    def give_back(self, lease: Lease) -> None:
        self.forget(lease)
        try:
            release(self._store, lease)
        except TrickleError as error:  # must not hide what went wrong before; the lease expires by itself
            _log.warning("could not release %s: %s", ", ".join(lease.names), error)

    def beat(self) -> tuple[Lease, ...]:
        """Renew everything once; returns what was lost: a publish under it is refused by its token."""
        with self._lock:
            active = [*self._kept.values(), *([self._process] if self._process else [])]
        lost = renew_all(self._store, active)
        for lease in lost:
            self.forget(lease)
            if lease is self._process:  # another process took us for dead while this machine slept
                self._register()
        return lost

    def _register(self) -> None:
        owner = self._store.owner
        self._process = acquire(self._store, [owner.process_lease], owner, self._ttl_seconds, 0)

    def _run(self) -> None:
        while not self._stop.wait(self._ttl_seconds / 3):
            try:
                for lease in self.beat():
                    _log.warning("lost the lease %s", ", ".join(lease.names))
            except TrickleError as error:
                _log.warning("heartbeat failed, trying again: %s", error)
