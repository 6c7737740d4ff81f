"""Many threads and processes on one catalog."""

from __future__ import annotations

import subprocess
import sys
import threading
from concurrent.futures import ThreadPoolExecutor

import pytest

from spark_trickle.catalog.database import open_catalog
from spark_trickle.catalog.leases import acquire, release
from spark_trickle.catalog.owner import Owner
from spark_trickle.catalog.store import CatalogStore
from spark_trickle.errors import TrickleError
from spark_trickle.model import TableName
from tests.catalog.records import code_of, table_pointer

# Counts up n times, reading inside the transaction it writes in.
COUNT = """
import sys
from sqlalchemy import text
from spark_trickle.catalog.database import open_catalog

store = open_catalog(sys.argv[1])
for _ in range(int(sys.argv[2])):
    with store.write() as tx:
        read = "SELECT value FROM trickle_settings WHERE key = 'n'"
        lock = "" if store.database.is_sqlite else " FOR UPDATE"
        n = int(tx.connection.execute(text(read + lock)).scalar_one())
        tx.put_setting("n", str(n + 1))
"""


def number(location: str) -> int:
    return int(location.rpartition("/")[2].removesuffix(".json"))


def test_eight_threads_of_fifty_transactions(store: CatalogStore) -> None:
    with store.write() as tx:
        for i in range(8):
            tx.insert_pointer(table_pointer(TableName("t", f"t{i}"), 0))

    def work(thread: int) -> None:
        name = TableName("t", f"t{thread}")
        for step in range(50):
            old, new = table_pointer(name, step), table_pointer(name, step + 1)
            assert store.pointers(names=[name]) == {name: old}
            with store.write() as tx:
                tx.start_refresh(f"{thread}-{step}", thread, str(name), "manual")
                tx.swap_pointer(name, old.location, new.location)

    with ThreadPoolExecutor(8) as pool:
        list(pool.map(work, range(8)))
    assert {number(p.location) for p in store.pointers().values()} == {50}
    assert len(store.history(limit=1000)) == 400


def test_two_processes_lose_no_update(catalog_url: str) -> None:
    store = open_catalog(catalog_url)
    with store.write() as tx:
        tx.put_setting("n", "0")
    command = [sys.executable, "-c", COUNT, catalog_url, "200"]
    processes = [subprocess.Popen(command, stderr=subprocess.PIPE, text=True) for _ in range(2)]
    for process in processes:
        _, errors = process.communicate(timeout=120)
        assert process.returncode == 0, errors
    assert store.setting("n") == "400"
    store.close()


@pytest.mark.parametrize("_round", range(3))
def test_processes_that_open_a_new_catalog_at_once(catalog_url: str, _round: int) -> None:
    program = (
        "import sys, time\n"
        "import alembic.command\n"
        "from spark_trickle.catalog.database import open_catalog\n"
        "print('ready', flush=True)\n"
        "sys.stdin.readline()\n"
        "store = open_catalog(sys.argv[1])\n"
        "with store.write() as tx: tx.put_setting(sys.argv[2], 'x')\n"
    )
    processes = [
        subprocess.Popen(
            [sys.executable, "-c", program, catalog_url, str(i)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        for i in range(3)
    ]
    for process in processes:
        assert process.stdout is not None
        assert process.stdout.readline() == "ready\n"
    for process in processes:
        assert process.stdin is not None
        process.stdin.write("\n")
        process.stdin.flush()
    for process in processes:
        _, errors = process.communicate(timeout=60)
        assert process.returncode == 0, errors
    store = open_catalog(catalog_url)
    assert [store.setting(str(i)) for i in range(3)] == ["x"] * 3
    store.close()


def test_threads_that_open_a_new_catalog_at_once(catalog_url: str) -> None:
    barrier = threading.Barrier(4)

    def work(_: int) -> None:
        barrier.wait()
        open_catalog(catalog_url).close()

    with ThreadPoolExecutor(4) as pool:
        list(pool.map(work, range(4)))


def test_a_lease_excludes(store: CatalogStore) -> None:
    """Eight threads take turns; what the lease guards is never entered twice."""
    inside: list[int] = []
    tokens: list[int] = []

    def work(thread: int) -> None:
        owner = Owner.here()
        for _ in range(5):
            lease = acquire(store, ["a", f"own:{thread}"], owner, 60, 60)
            inside.append(thread)
            assert inside == [thread]
            tokens.append(dict(lease.tokens)["a"])
            inside.remove(thread)
            release(store, lease)

    with ThreadPoolExecutor(8) as pool:
        list(pool.map(work, range(8)))
    assert tokens == list(range(1, 41))


def test_leases_in_any_order_do_not_deadlock(store: CatalogStore) -> None:
    names = ["a", "b", "c", "d"]

    def work(thread: int) -> None:
        turned = names[thread:] + names[:thread]
        for _ in range(10):
            release(store, acquire(store, turned, Owner.here(), 60, 60))

    with ThreadPoolExecutor(4) as pool:
        list(pool.map(work, range(4)))


def test_a_writer_that_waits_too_long_is_told(sqlite_url: str) -> None:
    holder, waiting = open_catalog(sqlite_url), open_catalog(sqlite_url, busy_seconds=0.2)
    with holder.write() as tx:
        tx.put_setting("a", "1")
        assert waiting.setting("a") is None, "readers do not wait"
        with pytest.raises(TrickleError) as error, waiting.write():
            pass
        assert code_of(error) == "CATALOG_UNAVAILABLE"
        with pytest.raises(TrickleError) as error, waiting.write(), waiting.write():
            pass
    assert code_of(error) == "CATALOG_UNAVAILABLE"
    assert waiting.setting("a") == "1"
    holder.close()
    waiting.close()
