"""Leases: exclusion, expiry, takeover from dead processes, fencing, recovery."""

from __future__ import annotations

import dataclasses
import os
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from datetime import UTC, datetime, timedelta
from pathlib import Path

import psutil
import pytest
from sqlalchemy import text

from spark_trickle.catalog.database import open_catalog
from spark_trickle.catalog.leases import Heartbeat, Lease, acquire, release, renew
from spark_trickle.catalog.owner import Owner
from spark_trickle.catalog.recovery import recover
from spark_trickle.catalog.store import CatalogStore
from spark_trickle.errors import TrickleError
from spark_trickle.model import Action
from tests.catalog.records import ORDERS, code_of, table_pointer

# Holds a lease, runs a refresh in a private catalog, and waits to be killed.
HOLDER = """
import sys, time
from spark_trickle.catalog.database import open_catalog
from spark_trickle.catalog.leases import Heartbeat
from spark_trickle.model import Pointer, TableName
store = open_catalog(sys.argv[1])
with Heartbeat(store, ttl_seconds=600) as heartbeat, heartbeat.holding(["st:1"], 5):
    with store.write() as tx:
        tx.start_refresh("r-" + store.owner.id, 1, "s.a", "manual")
        pointer = Pointer(TableName("s", "a"), "file:/w/a.json", False)
        tx.copy_pointers(store.owner.private_catalog(0), [pointer], ["s"])
    print(store.owner.id, flush=True)
    sys.stdin.read()
"""


@contextmanager
def other_process(url: str) -> Iterator[tuple[subprocess.Popen[str], str]]:
    process = subprocess.Popen(
        [sys.executable, "-c", HOLDER, url], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    )
    try:
        assert process.stdout is not None
        yield process, process.stdout.readline().strip()
    finally:
        process.kill()
        process.communicate()


def elsewhere() -> Owner:
    """An owner whose life nobody here can judge."""
    return dataclasses.replace(Owner.here(), host="elsewhere")


def tokens(lease: Lease) -> dict[str, int]:
    return dict(lease.tokens)


def test_a_held_lease_is_refused_with_its_holder(store: CatalogStore) -> None:
    acquire(store, ["a"], store.owner, 60, 0)
    started = time.monotonic()
    with pytest.raises(TrickleError) as error:
        acquire(store, ["a"], Owner.here(), 60, 0.2)
    assert 0.2 <= time.monotonic() - started < 2
    assert code_of(error) == "REFRESH_IN_PROGRESS"
    assert f"a is held by process {os.getpid()} on {store.owner.host} since 20" in error.value.message
    with pytest.raises(TrickleError):
        acquire(store, ["a"], store.owner, 60, 0)  # the same owner in another thread is no exception


def test_since_when_leases_are_held(store: CatalogStore) -> None:
    before = datetime.now(UTC)
    first = acquire(store, ["a"], store.owner, 30, 0)
    acquire(store, ["b"], store.owner, 300, 0)
    now, pair = datetime.now(UTC), ["a", "b", "c"]
    assert all(before <= at <= now for at in store.leased_at(pair, now))
    assert [len(store.leased_at(pair, now + timedelta(seconds=s))) for s in (0, 60, 600)] == [2, 1, 0]
    release(store, first)
    assert len(store.leased_at(pair, now)) == 1


def test_all_or_nothing(store: CatalogStore) -> None:
    acquire(store, ["b"], store.owner, 60, 0)
    with pytest.raises(TrickleError, match="b is held"):
        acquire(store, ["a", "b", "c"], Owner.here(), 60, 0)
    both = acquire(store, ["c", "a", "c"], Owner.here(), 60, 0)
    assert both.names == ("a", "c")


def test_tokens_grow_with_every_owner(store: CatalogStore) -> None:
    seen = []
    for _ in range(3):
        lease = acquire(store, ["a"], Owner.here(), 60, 0)
        seen.append(tokens(lease)["a"])
        assert not lease.took_over
        release(store, lease)
    assert seen == [1, 2, 3]


def test_a_waiter_gets_the_lease_when_it_is_released(store: CatalogStore) -> None:
    lease = acquire(store, ["a"], store.owner, 60, 0)
    timer = threading.Timer(0.3, release, (store, lease))
    timer.start()
    started = time.monotonic()
    second = acquire(store, ["a"], Owner.here(), 60, 10)
    assert 0.2 < time.monotonic() - started < 3
    assert tokens(second) == {"a": 2}
    timer.join()


def test_an_expired_lease_is_taken_and_the_old_token_refused(store: CatalogStore) -> None:
    with store.write() as tx:
        tx.insert_pointer(table_pointer(ORDERS))
    old = acquire(store, ["a"], elsewhere(), 0.3, 0)
    new = acquire(store, ["a"], Owner.here(), 60, 5)
    assert new.took_over
    with pytest.raises(TrickleError) as error, store.write() as tx:  # noqa: PT012
        tx.swap_pointer(ORDERS, table_pointer(ORDERS).location, "file:/w/late.json")
        tx.check_lease(old)
    assert code_of(error) == "LEASE_LOST"
    assert store.pointers() == {ORDERS: table_pointer(ORDERS)}, "the late publish left nothing"
    with pytest.raises(TrickleError) as error:
        renew(store, old)
    assert code_of(error) == "LEASE_LOST"
    release(store, old)  # must not free the successor's
    with store.write() as tx:
        tx.check_lease(new)


def test_the_same_owner_with_an_old_token_is_refused(store: CatalogStore) -> None:
    old = acquire(store, ["a"], store.owner, 60, 0)
    release(store, old)
    new = acquire(store, ["a"], store.owner, 60, 0)
    with pytest.raises(TrickleError) as error, store.write() as tx:
        tx.check_lease(old)
    assert code_of(error) == "LEASE_LOST"
    with store.write() as tx:
        tx.check_lease(new)


def test_an_expired_lease_that_nobody_took_still_publishes(store: CatalogStore) -> None:
    lease = acquire(store, ["a"], elsewhere(), 0.01, 0)
    time.sleep(0.05)
    with store.write() as tx:
        tx.check_lease(lease)
        tx.release_lease(lease)
    assert tokens(acquire(store, ["a"], store.owner, 60, 0)) == {"a": 2}


def test_renewal_moves_the_expiry(store: CatalogStore) -> None:
    lease = acquire(store, ["a"], elsewhere(), 0.5, 0)
    for _ in range(4):
        time.sleep(0.25)
        renew(store, lease)
    with pytest.raises(TrickleError):
        acquire(store, ["a"], store.owner, 60, 0)
    assert acquire(store, ["a"], store.owner, 60, 5).took_over


def test_a_check_holds_off_a_takeover_until_the_commit(store: CatalogStore) -> None:
    """The publish transaction and a thief meet: the thief waits, then finds the lease freed."""
    lease = acquire(store, ["a"], elsewhere(), 0.01, 0)
    time.sleep(0.05)
    got: list[float] = []

    def steal() -> None:
        acquire(store, ["a"], Owner.here(), 60, 10)
        got.append(time.monotonic())

    with store.write() as tx:
        tx.check_lease(lease)
        thief = threading.Thread(target=steal)
        thief.start()
        time.sleep(0.4)
        assert got == []
        committing = time.monotonic()
    thief.join()
    assert got[0] >= committing


def test_the_lease_of_a_killed_process_is_taken_at_once(catalog_url: str) -> None:
    store = open_catalog(catalog_url)
    with other_process(catalog_url) as (process, _):
        with pytest.raises(TrickleError) as error:
            acquire(store, ["st:1"], store.owner, 60, 0.1)
        assert f"held by process {process.pid} on" in error.value.message
        process.kill()  # not waited for: a zombie is dead too
        started = time.monotonic()
        lease = acquire(store, ["st:1"], store.owner, 60, 10)
        assert time.monotonic() - started < 5, "long before its 600 s are over"
        assert lease.took_over
    store.close()


def test_a_pid_given_to_another_process_does_not_keep_a_lease(store: CatalogStore) -> None:
    earlier = dataclasses.replace(Owner.here(), start_mark="1")  # this pid, another start
    acquire(store, ["a"], earlier, 600, 0)
    assert acquire(store, ["a"], store.owner, 60, 0).took_over


@pytest.mark.parametrize("change", [{"host": "elsewhere"}, {"machine": "another-boot/pid:[1]"}])
def test_a_pid_of_another_machine_says_nothing(change: dict[str, str]) -> None:
    owner = dataclasses.replace(Owner.here(), pid=2**22 + 1, **change)
    assert not owner.is_dead()
    assert dataclasses.replace(Owner.here(), pid=2**22 + 1).is_dead()
    assert not Owner.here().is_dead()


@pytest.mark.parametrize("mark", ["", "1763305231.25", "another form"])
def test_without_a_start_mark_that_can_be_read_the_pid_decides(mark: str) -> None:
    assert not dataclasses.replace(Owner.here(), start_mark=mark).is_dead()
    assert dataclasses.replace(Owner.here(), pid=2**22 + 1, start_mark=mark).is_dead()


@pytest.mark.skipif(not psutil.LINUX, reason="start marks are there on Linux")
def test_start_marks_are_ticks_since_boot_as_they_always_were() -> None:
    """A version that reads them otherwise would take the living processes of this one for dead."""
    fields = Path("/proc/self/stat").read_text().rpartition(")")[2].split()
    assert Owner.here().start_mark == fields[19]


@pytest.mark.parametrize("moved", [-86400, -1, 1, 3600])
def test_a_clock_that_is_set_kills_nobody(monkeypatch: pytest.MonkeyPatch, moved: int) -> None:
    owner = Owner.here()
    boot = psutil.boot_time() + moved
    monkeypatch.setattr(sys.modules[psutil.Process()._proc.__module__], "boot_time", lambda: boot)
    assert psutil.boot_time() == boot
    assert not owner.is_dead()


def test_recovery_closes_the_books_of_a_killed_process(catalog_url: str) -> None:
    store = open_catalog(catalog_url)
    with Heartbeat(store) as heartbeat, other_process(catalog_url) as (process, dead):
        with store.write() as tx:
            tx.start_refresh("mine", 2, "s.b", "manual")
            tx.copy_pointers(store.owner.private_catalog(0), [table_pointer(ORDERS)], [])
            tx.add_cut("kept")
        nothing = recover(store)
        assert (nothing.failed, nothing.leftovers) == ((), ()), "all owners live"
        process.kill()
        process.wait()
        found = recover(store)
        assert found.failed == (f"r-{dead}",)
        (leftover,) = found.leftovers
        assert leftover.catalog == f"trickle_{dead}_0"
        assert [p.location for p in leftover.pointers] == ["file:/w/a.json"]
        entry = store.refresh_entry(f"r-{dead}")
        assert entry is not None
        assert (entry.state, entry.error_code, entry.error) == ("FAILED", "LEASE_LOST", "the process died")
        assert entry.ended_at is not None
        mine = store.refresh_entry("mine")
        assert mine is not None
        assert mine.state == "RUNNING"
        assert recover(store).leftovers == found.leftovers, "listed until somebody has cleaned up"
        with store.write() as tx:
            tx.drop_catalog(leftover.catalog)
        assert recover(store) == nothing
        with heartbeat.holding(["st:1"], 0) as lease:
            assert tokens(lease)["st:1"] == 3, "freed under a higher token"
    store.close()


def test_an_owner_that_wakes_up_after_recovery_cannot_publish(store: CatalogStore, catalog_url: str) -> None:
    sleeper = open_catalog(catalog_url)
    sleeper.owner = elsewhere()
    lease = acquire(sleeper, ["st:1", sleeper.owner.process_lease], sleeper.owner, 0.05, 0)
    with sleeper.write() as tx:
        tx.start_refresh("r1", 1, "s.a", "schedule")
    time.sleep(0.1)
    assert recover(store).failed == ("r1",)
    with pytest.raises(TrickleError) as error, sleeper.write() as tx:
        tx.check_lease(lease)
    assert code_of(error) == "LEASE_LOST"
    with pytest.raises(TrickleError) as error, sleeper.write() as tx:
        tx.finish_refresh("r1", state="COMPLETED", action=Action.FULL, reason=None)
    assert code_of(error) == "LEASE_LOST"
    sleeper.close()


def test_the_heartbeat_keeps_leases_and_lets_go(store: CatalogStore) -> None:
    store.owner = elsewhere()
    with Heartbeat(store, ttl_seconds=0.6) as heartbeat:
        with heartbeat.holding(["a", "b"], 0) as lease:
            time.sleep(1.5)
            with pytest.raises(TrickleError):
                acquire(store, ["b"], Owner.here(), 60, 0)
            with store.write() as tx:
                tx.check_lease(lease)
        acquire(store, ["b"], Owner.here(), 60, 0)
        assert recover(store).failed == ()
    with store.database.read() as connection:
        left = connection.execute(text("SELECT name FROM trickle_leases ORDER BY name")).scalars().all()
    assert left == ["a", "b"], "the process lease is gone"


def test_the_heartbeat_notices_a_loss_and_registers_again(store: CatalogStore) -> None:
    with Heartbeat(store, ttl_seconds=600) as heartbeat:
        lease = acquire(store, ["a"], store.owner, 600, 0)
        heartbeat.keep(lease)
        assert heartbeat.beat() == ()
        with store.write() as tx:
            tx.connection.execute(text("UPDATE trickle_leases SET token = token + 1, owner_id = NULL"))
        assert lease in heartbeat.beat()
        assert heartbeat.beat() == ()
        with pytest.raises(TrickleError):
            acquire(store, [store.owner.process_lease], Owner.here(), 60, 0)


def test_a_lease_that_cannot_be_released_does_not_hide_the_error(sqlite_url: str) -> None:
    store, other = open_catalog(sqlite_url, busy_seconds=0.1), open_catalog(sqlite_url)
    stack = ExitStack()
    with pytest.raises(ZeroDivisionError), stack, Heartbeat(store).holding(["a"], 0):  # noqa: PT012
        stack.enter_context(other.write())  # open until after the release was tried
        raise ZeroDivisionError
    store.close()
    other.close()


def test_the_heartbeat_survives_a_catalog_that_is_away(sqlite_url: str) -> None:
    store = open_catalog(sqlite_url, busy_seconds=0.1)
    store.owner = elsewhere()
    with Heartbeat(store, ttl_seconds=0.9) as heartbeat, heartbeat.holding(["a"], 0) as lease:
        with store.write():
            time.sleep(0.5)  # one beat fails meanwhile
        time.sleep(1.0)
        with store.write() as tx:
            tx.check_lease(lease)
        with pytest.raises(TrickleError):
            acquire(store, ["a"], Owner.here(), 60, 0)
    store.close()
