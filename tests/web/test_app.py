"""The API over a catalog: answers, problems, bounds, and how the server ends."""

from __future__ import annotations

import asyncio
import json
import re
import socket
import threading
import time
from collections.abc import AsyncIterator, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import httpx
import pytest
from fastapi.responses import StreamingResponse

from spark_trickle.catalog.database import open_catalog
from spark_trickle.catalog.store import CatalogStore
from spark_trickle.cli.app import run
from spark_trickle.config import Settings
from spark_trickle.errors import TrickleError
from spark_trickle.model import TableName, Via
from spark_trickle.monitor.lineage import LineageEntry
from spark_trickle.results import Upkeep
from spark_trickle.scheduler.decide import ENABLED
from spark_trickle.web import api, security
from spark_trickle.web.registration import Registration, Service
from spark_trickle.web.security import LONGEST_BODY, LONGEST_STATEMENT
from spark_trickle.web.server import Server, listen, url_of
from spark_trickle.web.work import Work
from tests.catalog.records import add_revenue
from tests.web.service import app_over, asking, engine, problem_of
from tests.web.test_metrics import fill, record

V1 = "/api/v1"
JSON = {"Content-Type": "application/json"}
ODD = TableName("s", "a/b history")


@pytest.fixture
def settings(tmp_path: Path) -> Settings:
    return Settings.load(tmp_path / "lakehouse", lease_wait_seconds=0)


@pytest.fixture
def lake(settings: Settings) -> Iterator[CatalogStore]:
    """src -> a -> b, and c, as for the metrics."""
    settings.location.mkdir()
    store = open_catalog(settings.sqlalchemy_url)
    fill(store)
    yield store
    store.close()


@pytest.fixture(scope="module")
def unchanged(tmp_path_factory: pytest.TempPathFactory) -> Iterator[httpx.Client]:
    """A service whose lake stays as it is."""
    settings = Settings.load(tmp_path_factory.mktemp("unchanged"), lease_wait_seconds=0)
    store = open_catalog(settings.sqlalchemy_url)
    fill(store)
    with asking(app_over(engine(store, settings))) as client:
        yield client
    store.close()


@pytest.fixture
def client(lake: CatalogStore, settings: Settings) -> Iterator[httpx.Client]:
    with asking(app_over(engine(lake, settings))) as client:
        yield client


def test_what_the_catalog_tells(lake: CatalogStore, client: httpx.Client) -> None:
    record(lake, 1, "FULL", seconds=4.0)
    record(lake, 2, "DIFFERENTIAL", seconds=1.0)
    assert client.get(f"{V1}/service").json()["enabled"] is True
    names = [s["name"] for s in client.get(f"{V1}/stream-tables").json()]
    assert names == ["s.a", "s.b", 's.c"\\\n']
    assert client.get(f"{V1}/stream-tables/s.a/status").json()["lag_seconds"] is not None
    assert client.get(f"{V1}/stream-tables/s.b").json()["inputs"] == [["s.a", "STREAM_TABLE"]]
    assert [h["action"] for h in client.get(f"{V1}/history").json()] == ["DIFFERENTIAL", "FULL"]
    assert [h["seconds"] for h in client.get(f"{V1}/stream-tables/s.a/history?limit=1").json()] == [4.0]
    assert {s["name"] for s in client.get(f"{V1}/statistics").json()} == {"s.a", "s.b"}
    assert client.get(f"{V1}/alerts").json() == client.get(f"{V1}/sources").json() == client.get(f"{V1}/cuts").json()
    assert client.get(f"{V1}/groups").json() == client.get(f"{V1}/cycles").json() == []
    graph = client.get(f"{V1}/graph").json()
    assert {"input": "s.a", "reader": "s.b", "columns": []} in graph["edges"]
    for form, begins in (("mermaid", "flowchart"), ("dot", "digraph"), ("svg", "<svg")):
        assert client.get(f"{V1}/graph", params={"format": form}).text.startswith(begins)


def test_statistics_are_those_of_a_day(lake: CatalogStore, client: httpx.Client) -> None:
    record(lake, 1, "FULL", seconds=4.0)
    record(lake, 2, "DIFFERENTIAL", seconds=1.0)
    record(lake, 2, "FULL", datetime.now(UTC) - timedelta(hours=25), seconds=9.0)

    def counts(**query: str) -> dict[str, int]:
        found = client.get(f"{V1}/statistics", params=query)
        assert found.status_code == 200, found.text
        return {s["name"]: s["refreshes"] for s in found.json()}

    assert counts() == {"s.a": 1, "s.b": 1}
    assert counts(since="2d") == {"s.a": 1, "s.b": 2}
    assert counts(since="2d", until="24h") == {"s.b": 1}
    assert counts(name="s.b") == {"s.b": 1}


def test_filters(lake: CatalogStore, client: httpx.Client) -> None:
    record(lake, 1, "FULL", seconds=4.0)
    record(lake, 2, None, seconds=1.0, state="FAILED")
    record(lake, 2, "DIFFERENTIAL", datetime.now(UTC) - timedelta(hours=2), seconds=2.0)

    def seconds(path: str = "history", **query: str) -> list[float]:
        return [h["seconds"] for h in client.get(f"{V1}/{path}", params=query).json()]

    assert seconds() == [2.0, 1.0, 4.0]
    assert seconds(name="s.a") == [4.0]
    assert seconds(since="1h") == [1.0, 4.0]
    assert seconds(until="1h") == [2.0]
    assert seconds(failed="true") == seconds(status="failed") == [1.0]
    assert seconds(action="full") == seconds(min_seconds="3") == [4.0]
    assert seconds("stream-tables/s.b/history", failed="true") == [1.0]
    with lake.write() as tx:
        tx.alerts.raise_("STALE", "late", "s.a")
        tx.alerts.raise_("RESUMED", "back", "s.b")

    def kinds(**query: str) -> list[str]:
        return [a["kind"] for a in client.get(f"{V1}/alerts", params=query).json()]

    assert kinds() == ["RESUMED", "STALE"]
    assert kinds(open="true") == kinds(name="s.a") == kinds(kind="stale") == ["STALE"]
    assert kinds(since="1h") == ["RESUMED", "STALE"]


def test_what_is_monitored(unchanged: httpx.Client) -> None:
    health = unchanged.get(f"{V1}/health").json()
    assert (health["is_well"], health["stream_tables"]) == (False, 3)
    assert "NO_SCHEDULER" in [f["code"] for f in health["findings"]]
    assert "no scheduler leads" in health["summary"]
    pending = unchanged.get(f"{V1}/pending").json()
    assert {(p["name"], p["input"]) for p in pending} >= {("s.b", "s.a")}
    assert {p["name"] for p in unchanged.get(f"{V1}/pending?name=s.b").json()} == {"s.b"}
    assert [s["name"] for s in unchanged.get(f"{V1}/source-states").json()] == ["s.src"]
    assert {c["name"] for c in unchanged.get(f"{V1}/compliance").json()} == {"s.a", "s.b"}
    assert [c["name"] for c in unchanged.get(f"{V1}/compliance?name=s.b&since=1h").json()] == ["s.b"]


def test_lineage_and_maintenance_are_asked_as_they_are_said(lake: CatalogStore, settings: Settings) -> None:
    tr, asked = engine(lake, settings), []
    entry = LineageEntry("s.b", "x", "s.a", "x", Via.IDENTITY, direct=True)
    tr.lineage = lambda *args, **given: asked.append((args, given)) or (entry,)
    tr.maintain = lambda *args, **given: asked.append((args, given)) or (Upkeep("s.a", False, "nothing to do"),)
    with asking(app_over(tr)) as client:
        found = client.get(f"{V1}/lineage?name=s.b&column=x&depth=1").json()
        assert (found[0]["from_table"], found[0]["via"]) == ("s.a", "IDENTITY")
        client.get(f"{V1}/lineage?name=s.a&down=true")
        done = client.post(f"{V1}/maintain", json={"names": ["s.a"], "dry_run": True}).json()
        assert (done[0]["name"], done[0]["done"]) == ("s.a", False)
        client.post(f"{V1}/maintain", json={})
    assert asked == [
        (("s.b", "x"), {"depth": 1, "down": False}),
        (("s.a", None), {"depth": None, "down": True}),
        (("s.a",), {"dry_run": True}),
        ((), {"dry_run": False}),
    ]


def test_the_command_maintain_leaves_it_to_the_service(
    lake: CatalogStore, settings: Settings, capsys: pytest.CaptureFixture[str]
) -> None:
    tr, asked = engine(lake, settings), []

    def maintain(*names: str, dry_run: bool) -> tuple[Upkeep, ...]:
        asked.append((names, dry_run))
        return (Upkeep("s.a", False, "the disk is full", failed=not dry_run),)

    tr.maintain = maintain
    with asking(app_over(tr)) as client:
        here = Service.here(str(client.base_url))
        entry = Registration(settings, lake, replace(here, id="this"))
        entry.keep()
        lake_ = ["--lake", str(settings.location), "maintain"]
        codes = run([*lake_, "s.a", "--dry-run"]), run(lake_)
        entry.remove()
    assert asked == [(("s.a",), True), ((), False)]
    assert codes == (0, 1)
    assert "the disk is full" in capsys.readouterr().out


def test_a_long_text_does_not_hold_up_the_others(unchanged: httpx.Client, monkeypatch: pytest.MonkeyPatch) -> None:
    where: list[str] = []

    def parse(text: str) -> None:
        where.append(threading.current_thread().name)

    monkeypatch.setattr(api, "parse_statement", parse)
    monkeypatch.setattr(api, "_all_names", parse)
    problem_of(unchanged.post(f"{V1}/sql", json={"sql": "x"}), 400, "INVALID_STATEMENT")
    unchanged.post(f"{V1}/plan", json={"all": True})
    assert [name.startswith("trickle-web") for name in where] == [True, True]


def test_all_of_it_is_mounted(unchanged: httpx.Client) -> None:
    assert unchanged.get("/healthz").json() == {"status": "ok", "id": "this"}
    assert unchanged.get("/readyz").json() == {"status": "ok", "leads": False}
    assert "trickle_scheduler_enabled 1.0" in unchanged.get("/metrics").text
    assert unchanged.get("/iceberg/v1/config").json()["overrides"]["prefix"] == "lake"
    assert unchanged.get("/iceberg/v1/lake/namespaces").json()["namespaces"] == [["s"]]


def test_changes_are_seen_at_once(lake: CatalogStore, client: httpx.Client) -> None:
    def status() -> str:
        return str(client.get(f"{V1}/stream-tables").json()[0]["status"])

    for _ in range(3):
        assert status() != "SUSPENDED"
        assert client.post(f"{V1}/stream-tables/s.a/suspend").json() is None
        assert status() == "SUSPENDED"
        done = client.post(f"{V1}/sql", json={"sql": "ALTER STREAM TABLE s.a RESUME"}).json()
        assert done == {"kind": None, "many": False, "result": None}
    assert [a["kind"] for a in client.get(f"{V1}/alerts?limit=2").json()] == ["RESUMED", "SUSPENDED"]
    client.post(f"{V1}/disable")
    assert lake.setting(ENABLED) == "false"
    client.post(f"{V1}/enable")
    assert lake.setting(ENABLED) == "true"


def test_changes_of_the_page_are_seen_at_once(lake: CatalogStore, client: httpx.Client) -> None:
    for action, status in (("suspend", "SUSPENDED"), ("resume", "INITIALIZING"), ("suspend", "SUSPENDED")):
        client.get(f"{V1}/stream-tables/s.a/status")  # which is kept for a while
        assert client.post("/stream-tables/s.a", data={"action": action}).status_code == 303
        assert client.get(f"{V1}/stream-tables/s.a/status").json()["status"] == status
    client.post(f"{V1}/disable")
    assert client.get(f"{V1}/service").json()["enabled"] is False
    client.post("/", data={"action": "disable"})  # the page does not offer that
    client.post("/", data={"action": "enable"})
    assert client.get(f"{V1}/service").json()["enabled"] is True


def test_statements(unchanged: httpx.Client) -> None:
    shown = unchanged.post(f"{V1}/sql", json={"sql": "SHOW STREAM TABLES"}).json()
    assert (shown["kind"], shown["many"], len(shown["result"])) == ("StreamTableStatus", True, 3)
    assert unchanged.post(f"{V1}/sql", json={"sql": "DESCRIBE STREAM TABLE s.b"}).json()["kind"] == "Description"
    for other in ("DROP TABLE s.src", "SELECT 1", "INSERT INTO s.a VALUES (1)", ""):
        found = problem_of(unchanged.post(f"{V1}/sql", json={"sql": other}), 400, "INVALID_STATEMENT")
        assert "STREAM TABLE" in found["detail"]
    problem_of(unchanged.post(f"{V1}/sql", json={"sql": "SUSPEND STREAM TABLE"}), 400, "INVALID_STATEMENT")
    problem_of(unchanged.post(f"{V1}/sql", json={"sql": "DROP STREAM TABLE"}), 400, "INVALID_STATEMENT")


def test_names_as_in_sql(lake: CatalogStore, client: httpx.Client) -> None:
    with lake.write() as tx:
        add_revenue(tx, name=ODD)
    assert client.get(f"{V1}/stream-tables/s.%60a%2Fb%20history%60").json()["name"] == str(ODD)
    assert client.get(f"{V1}/stream-tables/s.%60a%2Fb%20history%60/history").json() == []
    assert client.get(f"{V1}/stream-tables/%60s%60.%60b%60").json()["name"] == "s.b"


@pytest.mark.parametrize(
    ("method", "path", "body", "status", "code"),
    [
        ("GET", "/nothing", None, 404, "INVALID_REQUEST"),
        ("GET", f"{V1}/nothing", None, 404, "INVALID_REQUEST"),
        ("DELETE", f"{V1}/alerts", None, 405, "INVALID_REQUEST"),
        ("GET", f"{V1}/stream-tables/s.a/refresh", None, 405, "INVALID_REQUEST"),
        ("GET", f"{V1}/stream-tables/s.nothing", None, 404, "UNKNOWN_STREAM_TABLE"),
        ("GET", f"{V1}/stream-tables/s.nothing/history", None, 404, "UNKNOWN_STREAM_TABLE"),
        ("POST", f"{V1}/stream-tables/s.nothing/suspend", None, 404, "UNKNOWN_STREAM_TABLE"),
        ("GET", f"{V1}/stream-tables/a%20b", None, 400, "INVALID_NAME"),
        ("GET", f"{V1}/stream-tables/s.%FF%00", None, 422, "INVALID_REQUEST"),
        ("GET", f"{V1}/history?limit=0", None, 422, "INVALID_REQUEST"),
        ("GET", f"{V1}/history?limit=a", None, 422, "INVALID_REQUEST"),
        ("GET", f"{V1}/history?limit=99999999999999999999", None, 422, "INVALID_REQUEST"),
        ("GET", f"{V1}/graph?format=gif", None, 422, "INVALID_REQUEST"),
        ("POST", f"{V1}/sql", b"{", 422, "INVALID_REQUEST"),
        ("POST", f"{V1}/sql", b"\xff\xfe", 422, "INVALID_REQUEST"),
        ("POST", f"{V1}/sql", b"[]", 422, "INVALID_REQUEST"),
        ("POST", f"{V1}/sql", b"", 422, "INVALID_REQUEST"),
        ("POST", f"{V1}/sql", b'{"sql": 1}', 422, "INVALID_REQUEST"),
        ("POST", f"{V1}/sql", b'{"sql": "SELECT 1", "more": 1}', 422, "INVALID_REQUEST"),
        ("POST", f"{V1}/sql", b"[" * 100_000, 400, "INVALID_REQUEST"),
        ("POST", f"{V1}/refresh", b"{}", 400, "INVALID_REQUEST"),
        ("POST", f"{V1}/refresh", b'{"all": true, "names": ["s.a"]}', 400, "INVALID_REQUEST"),
        ("POST", f"{V1}/plan", b"{}", 400, "INVALID_REQUEST"),
        ("POST", f"{V1}/plan", b'{"all": true, "names": ["s.a"]}', 400, "INVALID_REQUEST"),
        ("GET", f"{V1}/statistics?since=yesterday", None, 400, "INVALID_FILTER"),
        ("GET", f"{V1}/statistics?limit=5&since=1h&until=2h", None, 400, "INVALID_FILTER"),
        ("GET", f"{V1}/compliance?since=-", None, 400, "INVALID_FILTER"),
        ("GET", f"{V1}/history?status=lost", None, 400, "INVALID_FILTER"),
        ("GET", f"{V1}/history?min_seconds=nan", None, 400, "INVALID_FILTER"),
        ("GET", f"{V1}/alerts?kind=weather", None, 400, "INVALID_FILTER"),
        ("GET", f"{V1}/pending?name=s.nothing", None, 404, "UNKNOWN_STREAM_TABLE"),
        ("GET", f"{V1}/lineage", None, 422, "INVALID_REQUEST"),
        ("GET", f"{V1}/lineage?name=s.a&depth=0", None, 422, "INVALID_REQUEST"),
    ],
)
def test_problems(unchanged: httpx.Client, method: str, path: str, body: bytes | None, status: int, code: str) -> None:
    found = problem_of(unchanged.request(method, path, content=body, headers=JSON), status, code)
    assert found["type"] == f"urn:trickle:error:{code}"
    assert "Traceback" not in str(found)
    assert unchanged.get("/healthz").status_code == 200


@pytest.mark.parametrize("chunked", [False, True])
def test_large_bodies(unchanged: httpx.Client, chunked: bool) -> None:
    text = json.dumps({"sql": "x" * LONGEST_BODY}).encode()
    content: Any = (text[at : at + 100_000] for at in range(0, len(text), 100_000)) if chunked else text
    problem_of(unchanged.post(f"{V1}/sql", content=content, headers=JSON), 413, "INVALID_REQUEST")
    problem_of(unchanged.post(f"{V1}/sql", json={"sql": "x" * LONGEST_STATEMENT}), 413, "INVALID_REQUEST")
    almost = json.dumps({"sql": "x" * (LONGEST_STATEMENT - 100)}).encode()
    problem_of(unchanged.post(f"{V1}/sql", content=almost, headers=JSON), 400, "INVALID_STATEMENT")
    longer = {"names": [], "mode": "x" * (LONGEST_BODY - 100)}
    problem_of(unchanged.post(f"{V1}/refresh", json=longer), 400, "INVALID_REQUEST")


def test_an_unexpected_error(lake: CatalogStore, settings: Settings, monkeypatch: pytest.MonkeyPatch) -> None:
    tr = engine(lake, settings)
    tr.alerts = lambda *_, **__: 1 // 0
    with asking(app_over(tr)) as client:
        found = problem_of(client.get(f"{V1}/alerts"), 500, "INTERNAL")
        assert "division" not in str(found)
        assert client.get(f"{V1}/sources").status_code == 200


def test_a_catalog_that_is_gone(lake: CatalogStore, client: httpx.Client) -> None:
    with lake.write() as tx:
        tx.connection.exec_driver_sql("DROP TABLE trickle_settings")
    problem_of(client.get("/readyz"), 500, "CATALOG_CORRUPT")
    assert client.get("/healthz").status_code == 200


def test_a_scheduler_that_was_stopped(lake: CatalogStore, settings: Settings) -> None:
    tr = engine(lake, settings)
    tr._scheduler.is_running = False
    with asking(app_over(tr)) as client:
        assert "scheduler" in problem_of(client.get("/readyz"), 503, "SERVICE_BUSY")["detail"]


def test_a_service_without_spark_is_not_ready(lake: CatalogStore, settings: Settings) -> None:
    tr = engine(lake, settings)
    with asking(app_over(tr)) as client:
        assert client.get("/readyz").status_code == 200
        tr.spark.sparkContext._gateway.proc.poll = lambda: -9
        assert "JVM" in problem_of(client.get("/readyz"), 503, "SPARK_FAILED")["detail"]
        tr.spark.sparkContext._gateway.proc = None  # somebody else's: nothing is known of it
        assert client.get("/readyz").status_code == 200


def test_it_is_ready_while_others_wait(lake: CatalogStore, settings: Settings) -> None:
    """More than there are threads for what the catalog tells."""
    go, tr = threading.Event(), engine(lake, settings)
    tr.alerts = lambda *_, **__: go.wait(30) and ()
    with asking(app_over(tr)) as client, ThreadPoolExecutor(50) as pool:
        for n in range(1, 51):
            pool.submit(client.get, f"{V1}/alerts?limit={n}", timeout=60)
        time.sleep(1)
        try:
            assert httpx.get(f"{client.base_url}/readyz", trust_env=False, timeout=5).status_code == 200
        finally:
            go.set()


def test_work_is_bounded(lake: CatalogStore, settings: Settings) -> None:
    """One works, one waits, the third is refused; what the catalog tells is answered meanwhile."""
    go, begun = threading.Event(), threading.Semaphore(0)

    def verify(name: str, deep: bool) -> None:
        begun.release()
        assert go.wait(30)
        raise TrickleError("SPARK_FAILED", f"{name} was looked at")

    tr = engine(lake, settings)
    tr.verify = verify
    app = app_over(tr, work=Work(workers=1, waiting=1))
    with asking(app) as client, ThreadPoolExecutor(2) as pool:
        asked = [pool.submit(client.post, f"{V1}/stream-tables/s.a/verify", timeout=60) for _ in range(2)]
        assert begun.acquire(timeout=30)
        deadline = time.monotonic() + 30
        while app.state.work._places._value and time.monotonic() < deadline:
            time.sleep(0.01)
        refused = client.post(f"{V1}/stream-tables/s.a/verify")
        problem_of(refused, 503, "SERVICE_BUSY")
        assert refused.headers["retry-after"] == "5"
        assert client.get(f"{V1}/stream-tables").status_code == 200
        go.set()
        for each in asked:
            assert "was looked at" in problem_of(each.result(), 503, "SPARK_FAILED")["detail"]
        problem_of(client.post(f"{V1}/stream-tables/s.a/verify"), 503, "SPARK_FAILED")


def test_the_end(lake: CatalogStore, settings: Settings) -> None:
    """Streams are ended, what works is finished, what waits is refused, nothing new is accepted."""
    go, begun = threading.Event(), threading.Event()

    def verify(name: str, deep: bool) -> None:
        begun.set()
        assert go.wait(30)
        raise TrickleError("SPARK_FAILED", "it was finished")

    tr = engine(lake, settings)
    tr.verify = verify
    app = app_over(tr, work=Work(workers=1, waiting=9))

    async def forever() -> AsyncIterator[str]:
        yield "data: 1\n\n"
        await asyncio.sleep(600)

    @app.get("/forever")
    async def endless() -> StreamingResponse:
        return StreamingResponse(forever(), media_type="text/event-stream")

    listener = listen("127.0.0.1", 0, has_token=False)
    url = url_of(listener)
    server = Server(app, listener)
    server.start()
    with httpx.Client(base_url=url, trust_env=False, timeout=60) as client, ThreadPoolExecutor(4) as pool:
        first = pool.submit(client.post, f"{V1}/stream-tables/s.a/verify")
        assert begun.wait(30)
        second = pool.submit(client.post, f"{V1}/stream-tables/s.b/verify")
        while app.state.work._places._value > 8:
            time.sleep(0.01)
        with client.stream("GET", "/forever") as stream:
            lines = stream.iter_lines()
            assert next(lines) == "data: 1"
            stopping = pool.submit(server.stop)
            assert [line for line in lines if line] == []  # it ends
        problem_of(second.result(), 503, "SERVICE_BUSY")
        assert not stopping.done()
        with pytest.raises(httpx.ConnectError):
            httpx.get(f"{url}/healthz", trust_env=False)
        go.set()
        assert problem_of(first.result(), 503, "SPARK_FAILED")["detail"] == "it was finished"
        stopping.result(30)


@contextmanager
def half_sent(url: str, *paths: str, sent: bytes = b"{") -> Iterator[list[socket.socket]]:
    """Connections that said 100 bytes would come, and send one."""
    host, port = url.removeprefix("http://").split(":")
    with ExitStack() as opened:
        found = []
        for path in paths:
            one = opened.enter_context(socket.create_connection((host, int(port)), timeout=20))
            head = (
                f"POST {path} HTTP/1.1\r\nHost: {host}\r\nContent-Type: application/json\r\nContent-Length: 100\r\n\r\n"
            )
            one.sendall(head.encode() + sent)
            found.append(one)
        yield found


def test_bodies_that_are_never_whole_hold_up_no_end(lake: CatalogStore, settings: Settings) -> None:
    listener = listen("127.0.0.1", 0, has_token=False)
    url = url_of(listener)
    server = Server(app_over(engine(lake, settings)), listener)
    server.start()
    # One is read by a route, one by the page, one is refused by its Host, and one is nobody's.
    with half_sent(url, f"{V1}/sql", "/", "/iceberg/v1/lake/namespaces", "/nothing") as connections:
        foreign = socket.create_connection(connections[0].getpeername(), timeout=20)
        foreign.sendall(b"POST /api/v1/sql HTTP/1.1\r\nHost: evil.example\r\nContent-Length: 100\r\n\r\n{")
        assert httpx.get(f"{url}/healthz", trust_env=False).status_code == 200
        time.sleep(0.2)
        stopping = threading.Thread(target=server.stop, daemon=True)
        stopping.start()
        stopping.join(15)
        assert not stopping.is_alive(), "the service ends"
        answer = connections[0].recv(10_000).decode()
        assert answer.startswith("HTTP/1.1 503"), answer
        assert "SERVICE_BUSY" in answer
        foreign.close()


def test_a_body_must_come_in_time(client: httpx.Client, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(security, "BODY_SECONDS", 0.3)
    with half_sent(str(client.base_url), f"{V1}/sql") as (one,):
        answer = b"".join(iter(lambda: one.recv(10_000), b"")).decode()  # to the end: it is closed
    assert answer.startswith("HTTP/1.1 408"), answer
    assert "application/problem+json" in answer


def test_the_page_of_the_api(unchanged: httpx.Client) -> None:
    paths = unchanged.get("/openapi.json").json()["paths"]
    page = unchanged.get("/docs").text
    for path, methods in paths.items():
        for method in methods:
            assert f"<h3>{method.upper()} {path}</h3>" in page
    assert not re.search(r"(src|href)=.?(https?:)?//", page)
    assert '"if_exists"' not in page
    assert "if_exists" in page
    assert "RefreshResult" in page
