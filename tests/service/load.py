"""A service that many ask: `python -m tests.service.load --seconds 60 --rate 200`.

`trickle up` keeps six stream tables fresh, with schedules of 2 s to 5 s, while a writer commits every second. Read
endpoints are asked at a steady rate, whatever the answers take, and a time counts from when the request was due. In
between come requests that are malformed, too large or not allowed: each must be answered with its error.
"""

from __future__ import annotations

import argparse
import asyncio
import math
import os
import random
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections import Counter, defaultdict
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import httpx
import pyarrow as pa
from pyiceberg.catalog.sql import SqlCatalog
from pyiceberg.schema import Schema
from pyiceberg.types import LongType, NestedField, StringType

from spark_trickle.catalog.database import open_catalog
from spark_trickle.config import Settings
from spark_trickle.model import LAKE
from spark_trickle.web.registration import find

TOKEN = "a-token-of-the-load-test"
LIMIT = 0.2  # seconds, for 99 of 100 answers
BAD_RATE = 8.0  # per second
_CONNECTIONS = 32
ORDERS = ("id", "customer", "amount")
STREAM_TABLES = {
    "s.big": ("2s", "SELECT id, customer, amount FROM s.orders WHERE amount > 50"),
    "s.totals": ("2s", "SELECT customer, count(*) AS n, sum(amount) AS total FROM s.orders GROUP BY customer"),
    "s.named": ("3s", "SELECT o.id, o.amount, c.name FROM s.orders o JOIN s.customers c ON c.id = o.customer"),
    "s.latest": (
        "5s",
        "SELECT customer, id FROM (SELECT *, row_number() OVER (PARTITION BY customer ORDER BY id DESC) AS p "
        "FROM s.big) WHERE p = 1",
    ),
    "s.buyers": ("5s", "SELECT DISTINCT customer FROM s.big"),
    "s.best": ("5s", "SELECT max(total) AS total FROM s.totals"),
}
V1 = "/api/v1"
# A path and how often it is asked beside the others.
READS = (
    (f"{V1}/stream-tables", 30),
    (f"{V1}/stream-tables/s.totals/status", 10),
    (f"{V1}/stream-tables/s.named", 10),
    (f"{V1}/stream-tables/s.big/history?limit=20", 10),
    (f"{V1}/history?limit=50", 8),
    (f"{V1}/alerts", 8),
    (f"{V1}/graph", 5),
    (f"{V1}/graph?format=svg", 3),
    (f"{V1}/statistics", 2),
    (f"{V1}/service", 4),
    ("/iceberg/v1/lake/namespaces/s/tables", 3),
    ("/iceberg/v1/lake/namespaces/s/tables/totals", 3),
    ("/metrics", 1),
    ("/readyz", 3),
)
_JSON = {"Content-Type": "application/json"}


@dataclass(frozen=True)
class Bad:
    """A request that must be answered with an error."""

    method: str
    path: str
    status: int
    headers: Mapping[str, str] = field(default_factory=dict)
    body: bytes = b""


BAD = (
    Bad("POST", f"{V1}/refresh", 422, _JSON, b'{"names": ["s.t'),
    Bad("POST", f"{V1}/sql", 422, _JSON, b"\x00\xff" * 500),
    Bad("POST", f"{V1}/sql", 400, _JSON, b'{"sql": "DROP TABLE s.orders"}'),
    Bad("POST", f"{V1}/sql", 413, _JSON, b'{"sql": "' + b"x" * 2_000_000 + b'"}'),
    Bad("GET", f"{V1}/stream-tables/s.nothing", 404),
    Bad("GET", f"{V1}/history?limit=-1", 422),
    Bad("DELETE", f"{V1}/history", 405),
    Bad("GET", "/%ff/%00", 404),
    Bad("POST", f"{V1}/stream-tables/s.totals/suspend", 403, {"Origin": "http://evil.example"}),
    Bad("GET", f"{V1}/stream-tables", 421, {"Host": "evil.example"}),
    Bad("POST", f"{V1}/stream-tables/s.totals/suspend", 401, {"Authorization": "Bearer wrong"}),
    Bad("DELETE", f"{V1}/stream-tables/s.totals", 401, {"Authorization": ""}),
    Bad("POST", "/iceberg/v1/lake/namespaces", 405, _JSON, b"{}"),
)


class Connection:
    """Just enough of HTTP that asking costs little beside answering."""

    def __init__(self, url: str, token: str | None) -> None:
        parts = urlsplit(url)
        self._at = (parts.hostname or "", parts.port or 80)
        self._default = {"Host": parts.netloc} | ({"Authorization": f"Bearer {token}"} if token else {})
        self._streams: tuple[asyncio.StreamReader, asyncio.StreamWriter] | None = None

    async def ask(self, method: str, path: str, headers: Mapping[str, str], body: bytes = b"") -> int:
        """The status."""
        was_open = self._streams is not None
        try:
            return await self._ask(method, path, headers, body)
        except asyncio.IncompleteReadError as error:
            self.close()
            if error.partial or not was_open:
                raise
            return await self._ask(method, path, headers, body)  # it was idle for so long that it was closed

    async def _ask(self, method: str, path: str, headers: Mapping[str, str], body: bytes) -> int:
        if self._streams is None:
            self._streams = await asyncio.open_connection(*self._at)
        reader, writer = self._streams
        given = self._default | dict(headers) | ({"Content-Length": str(len(body))} if body else {})
        head = "".join(f"{k}: {v}\r\n" for k, v in given.items() if v)
        writer.write(f"{method} {path} HTTP/1.1\r\n{head}\r\n".encode() + body)
        answer = (await reader.readuntil(b"\r\n\r\n")).decode("latin-1").lower()
        length = next(line for line in answer.split("\r\n") if line.startswith("content-length:"))
        await reader.readexactly(int(length.partition(":")[2]))
        if "connection: close" in answer:
            self.close()
        return int(answer.split(" ", 2)[1])

    def close(self) -> None:
        if self._streams is not None:
            self._streams[1].close()
            self._streams = None


@dataclass
class Load:
    """Requests at a steady rate, and what came back."""

    url: str
    token: str | None
    rate: float
    seconds: float
    rnd: random.Random
    took: dict[str, list[float]] = field(default_factory=lambda: defaultdict(list))
    refused: Counter[int] = field(default_factory=Counter)
    wrong: list[str] = field(default_factory=list)

    def run(self) -> None:
        asyncio.run(self._run())

    async def _run(self) -> None:
        self._idle: asyncio.LifoQueue[Connection] = asyncio.LifoQueue()
        for _ in range(_CONNECTIONS):
            self._idle.put_nowait(Connection(self.url, self.token))
        paths, weights = zip(*READS, strict=True)
        chosen = self.rnd.choices(paths, weights, k=int(self.rate * self.seconds))
        await asyncio.gather(
            self._steadily(self.rate, chosen, self._read), self._steadily(BAD_RATE, self._bads(), self._bad)
        )
        while not self._idle.empty():
            self._idle.get_nowait().close()

    def _bads(self) -> list[Bad]:
        usual = [b for b in BAD if b.status != 401 or self.token is not None]
        return [usual[n % len(usual)] for n in range(max(len(usual), int(BAD_RATE * self.seconds)))]

    async def _steadily(self, rate: float, items: list[Any], ask: Callable[[Any, float], Any]) -> None:
        began = time.perf_counter()
        tasks = []
        for n, item in enumerate(items):
            due = began + n / rate
            await asyncio.sleep(max(0.0, due - time.perf_counter()))
            tasks.append(asyncio.create_task(ask(item, due)))
        await asyncio.gather(*tasks)

    async def _read(self, path: str, due: float) -> None:
        connection = await self._idle.get()
        try:
            status = await connection.ask("GET", path, {})
        except (OSError, EOFError) as error:
            connection.close()
            self.wrong.append(f"GET {path}: {error!r}")
        else:
            self.took[path].append(time.perf_counter() - due)
            if status != 200:
                self.wrong.append(f"GET {path}: {status}")
        self._idle.put_nowait(connection)

    async def _bad(self, bad: Bad, _due: float) -> None:
        connection = Connection(self.url, self.token)
        try:
            status = await connection.ask(bad.method, bad.path, bad.headers, bad.body)
        except (OSError, EOFError) as error:
            self.wrong.append(f"{bad.method} {bad.path}: {error!r} in place of {bad.status}")
        else:
            self.refused[status] += 1
            if status != bad.status:
                self.wrong.append(f"{bad.method} {bad.path}: {status} in place of {bad.status}")
        connection.close()

    def all(self) -> list[float]:
        return [t for took in self.took.values() for t in took]

    def __str__(self) -> str:
        lines = [f"{'':44} answers     p50     p99  longest"]
        for path, took in [*self.took.items(), ("all", self.all())]:
            lines.append(f"{path:44} {len(took):7} {ms(took, 0.5)} {ms(took, 0.99)} {ms(took, 1)}")
        refused = ", ".join(f"{count} with {status}" for status, count in sorted(self.refused.items()))
        return "\n".join([*lines, f"refused: {refused}"])


def quantile(values: list[float], share: float) -> float:
    """
    >>> quantile([3.0, 1.0, 2.0], 0.5), quantile([1.0, 2.0], 1)
    (2.0, 2.0)
    """
    return sorted(values)[max(0, math.ceil(share * len(values)) - 1)]


def ms(values: list[float], share: float) -> str:
    return f"{1000 * quantile(values, share):4.0f} ms" if values else "      -"


# -- the lake, its writer and its service ------------------------------------------------------------------------------


class Writer:
    """It commits once a second; no second Spark takes part."""

    def __init__(self, settings: Settings, rnd: random.Random, rows: int = 20_000) -> None:
        at = str(settings.location)
        open_catalog(settings.sqlalchemy_url).close()
        self.catalog = SqlCatalog(
            LAKE, uri=f"sqlite:///{at}/catalog.db", warehouse=f"file://{at}/warehouse", init_catalog_tables="false"
        )
        self._rnd = rnd
        self._next = 0
        self.commits = 0
        self.catalog.create_namespace("s")
        long = LongType()
        columns = [NestedField(n, name, long, required=False) for n, name in enumerate(ORDERS, 1)]
        self.catalog.create_table("s.orders", Schema(*columns))
        name = NestedField(2, "name", StringType(), required=False)
        customers = self.catalog.create_table("s.customers", Schema(columns[0], name))
        customers.append(pa.table({"id": pa.array(range(500), pa.int64()), "name": [f"c{n}" for n in range(500)]}))
        self.append(rows)

    def append(self, rows: int) -> None:
        ids = range(self._next, self._next + rows)
        values = [ids, [n % 500 for n in ids], [self._rnd.randrange(100) for _ in ids]]
        added = pa.table({name: pa.array(v, pa.int64()) for name, v in zip(ORDERS, values, strict=True)})
        self.catalog.load_table("s.orders").append(added)
        self._next += rows
        self.commits += 1

    def run(self, over: threading.Event) -> None:
        while not over.wait(1):
            try:
                self.append(50)
            except Exception as error:  # another writer of the catalog had the lock
                print(f"a commit failed: {error}", file=sys.stderr)


@contextmanager
def service(lake: Path, log: Path) -> Iterator[str]:
    """Its address."""
    command = [sys.executable, "-c", "from spark_trickle.cli import main; main()", "-C", str(lake), "up"]
    given = {"TRICKLE_DRIVER_MEMORY": "2g", "TRICKLE_SHUFFLE_PARTITIONS": "2", "TRICKLE_SERVICE_TOKEN": TOKEN}
    settings = Settings.load(lake)
    with log.open("w") as to:
        process = subprocess.Popen(
            [*command, "--port", "0", "--log-format", "json"], stdout=to, stderr=to, env={**os.environ, **given}
        )
    try:
        deadline = time.monotonic() + 120
        while (found := find(settings)) is None:
            if process.poll() is not None or time.monotonic() > deadline:
                raise RuntimeError(f"no service:\n{log.read_text()[-3000:]}")
            time.sleep(0.2)
        yield found.url
        process.send_signal(signal.SIGTERM)
        if process.wait(120) != 0:
            raise RuntimeError(f"it ended with {process.returncode}:\n{log.read_text()[-3000:]}")
    finally:
        process.kill()
        process.wait()


def refreshes(client: httpx.Client, since: str) -> Counter[str]:
    history = client.get(f"{V1}/history", params={"limit": 10_000}).json()
    return Counter(h["action"] or h["state"] for h in history if h["started_at"] >= since)


def main(arguments: list[str]) -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seconds", type=float, default=60)
    parser.add_argument("--rate", type=float, default=200)
    parser.add_argument("--seed", type=int, default=1)
    a = parser.parse_args(arguments)
    rnd = random.Random(a.seed)
    wrong: list[str] = []
    with tempfile.TemporaryDirectory(prefix="trickle-load-") as folder:
        lake = Path(folder) / "lake"
        lake.mkdir()
        writer = Writer(Settings.load(lake), rnd)
        headers = {"Authorization": f"Bearer {TOKEN}"}
        with (
            service(lake, Path(folder) / "log") as url,
            httpx.Client(base_url=url, headers=headers, trust_env=False, timeout=300) as client,
        ):
            for name, (schedule, query) in STREAM_TABLES.items():
                body = {"name": name, "query": query, "schedule": schedule}
                client.post(f"{V1}/stream-tables", json=body).raise_for_status()
            over = threading.Event()
            writing = threading.Thread(target=writer.run, args=(over,))
            writing.start()
            time.sleep(20)  # the first refreshes of a process are slow, and so are those who ask it meanwhile
            began = client.get(f"{V1}/history", params={"limit": 1}).json()[0]["started_at"]
            before, commits = time.process_time(), writer.commits
            load = Load(url, TOKEN, a.rate, a.seconds, rnd)
            load.run()
            cpu = time.process_time() - before
            over.set()
            writing.join()
            actions = refreshes(client, began)
            for name in STREAM_TABLES:
                found = client.post(f"{V1}/stream-tables/{name}/verify").json()
                if not found.get("equal"):
                    wrong.append(f"{name}: {found}")
        print(load)
        p99 = quantile(load.all(), 0.99)
        print(
            f"{a.rate:g} requests a second for {a.seconds:g} s: p50 {ms(load.all(), 0.5)}, p99 {ms(load.all(), 0.99)}"
        )
        print(
            f"meanwhile: {writer.commits - commits} commits, refreshes {dict(actions)}; asking took {cpu:.0f} s of CPU"
        )
        wrong += load.wrong
        if actions["FAILED"] or actions["DIFFERENTIAL"] + actions["FULL"] < a.seconds / 10:
            wrong.append(f"refreshes were disturbed: {dict(actions)}")
        if p99 >= LIMIT:
            wrong.append(f"p99 is {1000 * p99:.0f} ms; {1000 * LIMIT:.0f} ms are asked for")
    for each in wrong[:20]:
        print(f"WRONG: {each}")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
