"""The page over catalogs with a history, on a real server; test_page_browser.py looks at it in a browser."""

from __future__ import annotations

import asyncio
import json
import re
import shutil
import threading
import time
import zipfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import httpx
import pytest
from fastapi.concurrency import run_in_threadpool
from sqlalchemy import insert

from spark_trickle import Trickle
from spark_trickle.catalog import tables
from spark_trickle.catalog.database import open_catalog
from spark_trickle.catalog.store import CatalogStore
from spark_trickle.config import Settings
from spark_trickle.errors import TrickleError
from spark_trickle.model import Dependency, InputKind, Status, TableName
from spark_trickle.monitor.health import Health
from spark_trickle.scheduler.decide import ENABLED
from spark_trickle.web import looks, page
from spark_trickle.web.events import UNREADABLE, Events
from spark_trickle.web.wording import path_of
from tests.catalog.records import add_revenue, table_pointer
from tests.web.html import Element, elements, faults
from tests.web.page_lake import PageLake, record, shop
from tests.web.serving import app_of, served

HOSTILE = (
    TableName("s", "a/b"),
    TableName("s", "<script>alert(1)</script>"),
    TableName("s", "\"q\" 'x' `y`"),
    TableName("s", "ü ☃ +%2F?#&amp;;"),
    TableName("with.dots.and spaces", "t"),
    TableName("s", "{{ 7 * 7 }}"),
    TableName("s", "/~/x\\y"),
)


class _Current:
    """One server for all tests: it passes requests on to the app of the test that runs."""

    def __init__(self) -> None:
        self.app: Any = None
        self.state = SimpleNamespace()

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        await self.app(scope, receive, send)


@pytest.fixture(scope="module", autouse=True)
def server() -> Iterator[str]:
    with served(CURRENT) as address:  # type: ignore[arg-type]
        yield address


CURRENT = _Current()


@contextmanager
def asking(lake: Any, run: page.Run = run_in_threadpool) -> Iterator[httpx.Client]:
    CURRENT.app = app_of(page.router(lake, run))
    port = CURRENT.state.server.servers[0].sockets[0].getsockname()[1]
    with httpx.Client(base_url=f"http://127.0.0.1:{port}", trust_env=False, timeout=20) as client:
        yield client


@pytest.fixture
def settings(tmp_path: Path) -> Settings:
    return Settings.load(tmp_path / "lakehouse")


@pytest.fixture(scope="module")
def empty_catalog(tmp_path_factory: pytest.TempPathFactory) -> Path:
    settings = Settings.load(tmp_path_factory.mktemp("empty"))
    open_catalog(settings.sqlalchemy_url).close()
    return settings.location


@pytest.fixture
def store(settings: Settings, empty_catalog: Path) -> Iterator[CatalogStore]:
    shutil.copytree(empty_catalog, settings.location)
    store = open_catalog(settings.sqlalchemy_url)
    yield store
    store.close()


@pytest.fixture
def lake(store: CatalogStore, settings: Settings) -> PageLake:
    lake = PageLake(store, settings)
    lake.led()
    return lake


@pytest.fixture
def client(lake: PageLake) -> Iterator[httpx.Client]:
    with asking(lake) as client:
        yield client


def get(client: httpx.Client, path: str, status: int = 200) -> list[Element]:
    response = client.get(path)
    assert response.status_code == status, response.text
    assert faults(response.text) == [], path
    return elements(response.text)


def text_of(found: list[Element], tag: str = "main") -> str:
    return next(e.text for e in found if e.tag == tag)


def row_of(found: list[Element], name: str) -> str:
    """The row of the table of stream tables."""
    rows = [e for e in found if e.tag == "tr" and e.attributes.get("id", "").startswith("row-")]
    return next(r.text for r in rows for th in found if th.tag == "th" and r in th.above and th.text.startswith(name))


# -- the lake ----------------------------------------------------------------------------------------------------------


def test_an_empty_lake_says_how_to_begin(client: httpx.Client) -> None:
    found = get(client, "/")
    assert "CREATE STREAM TABLE" in text_of(found)
    assert "No stream tables yet" in text_of(found, "h1")
    assert not [e for e in found if e.tag == "table"]
    assert "Nothing has happened" in text_of(get(client, "/alerts"))
    assert "No stream table reads a table yet" in text_of(get(client, "/sources"))


def test_states(lake: PageLake, client: httpx.Client) -> None:
    lake.add("s.fresh", ["src.a"], lag=3000)
    lake.add("s.behind", ["src.b"], lag=70)
    lake.add("s.late", ["src.b"], lag=125)
    lake.add("s.by_hand", ["src.b"], lag=9999, schedule="manual")
    lake.add("s.empty", ["src.b"], status=Status.INITIALIZING, published_snapshot=None)
    lake.add("s.off", ["src.b"], status=Status.SUSPENDED)
    lake.add("s.broken", ["src.b"])
    lake.add("s.waits", ["s.broken"], lag=5000)
    lake.change("src.b")
    lake.fail("s.broken", TrickleError("SOURCE_DROPPED", "src.b <gone>"), times=2)
    found = get(client, "/")
    words = {
        n: row_of(found, f"s.{n}").split(" s.")[0] for n in ("fresh", "behind", "late", "empty", "broken", "waits")
    }
    assert words == {
        "fresh": "fresh",
        "behind": "behind",
        "late": "late",
        "empty": "not filled",
        "broken": "failing",
        "waits": "waiting",
    }
    assert row_of(found, "s.off").startswith("suspended")
    assert "no limit" in row_of(found, "s.by_hand")
    assert re.search(r"2 min \d+ s / 48 s", row_of(found, "s.late"))
    assert re.search(r"0 s / 48 s", row_of(found, "s.fresh"))
    order = [e.text for e in found if e.tag == "tr" and "id" in e.attributes]
    assert "s.broken" in order[0], "what is broken comes first"
    assert "s.fresh" in order[-1]
    shapes = {
        e.text: next(o.attributes["d"] for o in found if o.tag == "path" and e in o.above)
        for e in found
        if "state" in e.attributes.get("class", "").split()
    }
    assert len(shapes) == len(set(shapes.values())) == 7, "each state has a shape of its own"


def test_what_to_do_is_said_at_the_top(lake: PageLake, client: httpx.Client) -> None:
    for n in range(3):
        lake.add(f"s.t{n}", [f"s.t{n - 1}" if n else "src.a"], lag=300)
    lake.add("s.slow", ["src.b"], lag=600)
    lake.change("src.b")
    record(lake.store, "s.slow", "DIFFERENTIAL", seconds=80)
    lake.fail("s.t0", TrickleError("SOURCE_DROPPED", "src.a is not there"), times=3, suspend=True)
    troubles = [e.text for e in get(client, "/") if e.tag == "li" and "trouble" in e.attributes.get("class", "")]
    assert len(troubles) == 2, "what only waits is told with its cause"
    first, second = troubles
    assert "s.t0 is suspended: its refresh failed 3 times in a row" in first
    assert "src.a is not there (SOURCE_DROPPED)" in first
    assert "2 others are not up to date: s.t1 and s.t2" in first
    assert TrickleError("SOURCE_DROPPED", "").hint in first
    assert "s.slow is 10 min" in second
    assert "1 min 20 s, longer than the schedule allows" in second


def test_schedules_that_do_not_run(store: CatalogStore, settings: Settings) -> None:
    lake = PageLake(store, settings)
    lake.add("s.a", ["src.a"])
    with asking(lake) as client:
        assert "No process follows the schedules" in text_of(get(client, "/"))
        lake.led()
        lake.set_enabled(False)
        time.sleep(0.4)  # until then the last look is shown again
        found = get(client, "/")
        assert "The schedules of this lake are switched off" in text_of(found)
        assert [e.attributes["value"] for e in found if e.tag == "button" and "value" in e.attributes] == ["enable"]
        assert client.post("/", data={"action": "enable"}).headers["location"] == "/"
        assert store.setting(ENABLED) == "true"
        assert "as fresh as their schedules say" in text_of(get(client, "/"), "h1")


def test_settings_that_change_while_it_runs(lake: PageLake, client: httpx.Client) -> None:
    """How late is late, and the schedule of those that have none, are what health and alerts take them for."""
    lake.add("s.t", ["src.a"], lag=125)
    lake.add("s.none", ["src.a"], schedule=None)
    lake.change("src.a")
    found = get(client, "/")
    assert row_of(found, "s.t").startswith("late")
    assert "STALE" in [f.code for f in lake.health().findings]
    lake.settings = lake.settings.model_copy(update={"alert_stale_periods": 3.0, "default_schedule": "7h"})
    time.sleep(0.4)
    found = get(client, "/")
    assert row_of(found, "s.t").startswith("behind")
    assert "STALE" not in [f.code for f in lake.health().findings]
    assert "7h (default)" in row_of(found, "s.none")


def test_suspended_by_hand_after_a_failure(lake: PageLake, client: httpx.Client) -> None:
    """As health says it: it was not suspended for that."""
    lake.add("s.t", ["src.a"])
    lake.fail("s.t", TrickleError("SPARK_FAILED", "boom"), times=1)
    lake.suspend("s.t")
    found = get(client, "/")
    assert row_of(found, "s.t").startswith("suspended")
    assert "s.t is suspended by hand" in text_of(found)
    assert "INFO SUSPENDED" in [f"{f.severity} {f.code}" for f in lake.health().findings]


def test_findings_hold_nobody_up(lake: PageLake, monkeypatch: pytest.MonkeyPatch) -> None:
    """Sources on slow storage: pages are there at once, and say what was found when it is."""
    go, times, well = threading.Event(), 0, lake.health

    def health() -> Health:
        nonlocal times
        times += 1
        assert go.wait(30)
        if times == 2:
            raise RuntimeError("what nobody foresaw")
        return well()

    monkeypatch.setattr(lake, "health", health)
    monkeypatch.setattr(looks, "_FOUND_AGAIN", 2.0)
    lake.add("s.t", ["src.a"])
    with lake.store.write() as tx:
        tx.add_garbage("file:/w/x", not_before=datetime.now(UTC) - timedelta(days=3))
    with asking(lake) as client:
        before = time.monotonic()
        assert "wait to be deleted" not in text_of(get(client, "/"))
        get(client, "/")
        assert time.monotonic() - before < 5
        assert times == 1
        go.set()
        time.sleep(0.5)
        assert "wait to be deleted" in text_of(get(client, "/"))
        time.sleep(2)
        for _ in range(5):  # the next look fails: what was found stays, and the next request does not try again
            assert "wait to be deleted" in text_of(get(client, "/"))
        assert times == 2


def test_filters_and_pages(lake: PageLake, client: httpx.Client) -> None:
    many(lake.store, 250)
    lake.fail("s.t007", TrickleError("INTERNAL", "x"))
    response = client.get("/")
    found = get(client, "/")
    assert not [e for e in found if e.attributes.get("class", "").startswith("dag")]
    assert "250 stream tables are too many for one picture" in text_of(found)
    rows = [e.text for e in found if e.attributes.get("id", "").startswith("row-")]
    assert len(rows) == 100
    assert "s.t007" in rows[0]
    assert "Page 1 of 3" in text_of(found)
    assert len(response.content) < 500_000
    last = get(client, "/?page=3")
    assert len([e for e in last if e.attributes.get("id", "").startswith("row-")]) == 50
    assert "Page 3 of 3" in text_of(get(client, "/?page=99999999"))
    assert "Page 1 of 3" in text_of(get(client, "/?page=-1&q=&state="))
    failing = get(client, "/?state=failing")
    assert "1 stream table failing" in text_of(failing)
    assert "20 stream tables with “t01” in the name" not in text_of(failing)
    assert "10 stream tables with “T01” in the name" in text_of(get(client, "/?q=T01"))
    assert "No stream table is like that" in text_of(get(client, "/?q=%3Cscript%3E"))


def many(store: CatalogStore, n: int, refreshes: int = 0) -> None:
    source = TableName("s", "src")
    now = datetime.now(UTC)
    with store.write() as tx:
        tx.insert_pointer(table_pointer(source))
        for k in range(n):
            name = TableName("s", f"t{k:03}")
            id_ = add_revenue(tx, name=name, status=Status.ACTIVE, data_timestamp=now, published_snapshot=1)
            tx.set_dependencies(id_, [Dependency(source, InputKind.SOURCE, pointer=table_pointer(source).location)])
        for k in range(refreshes):
            row: dict[str, Any] = dict.fromkeys(("rows_inserted", "rows_updated", "rows_deleted"), 1)
            row |= {
                "rows_changed": "{}",
                "stages": "{}",
                "initiated_by": "schedule",
                "started_at": now,
                "ended_at": now,
            }
            row |= {"seconds": 0.2, "state": "COMPLETED", "action": "DIFFERENTIAL"}
            ids = [
                {**row, "refresh_id": f"{k}.{i}", "stream_table_id": i, "name": f"s.t{i - 1:03}"}
                for i in range(1, n + 1)
            ]
            tx.connection.execute(insert(tables.refresh_history), ids)


def test_five_hundred_stream_tables(lake: PageLake, client: httpx.Client) -> None:
    many(lake.store, 500, refreshes=30)
    took = []
    for path in ("/", "/stream-tables/s.t001", "/sources", "/?page=2"):
        time.sleep(0.35)  # else the last look is shown again
        response = client.get(path)
        assert response.status_code == 200
        assert len(response.content) < 500_000
        took.append(response.elapsed.total_seconds())
    print(f"seconds: {took}")
    assert min(took) < 5, "about 0.4 s where nothing else runs"


# -- names and texts ---------------------------------------------------------------------------------------------------


def test_names_of_all_kinds(lake: PageLake, client: httpx.Client) -> None:
    for name in HOSTILE:
        lake.add(name, [TableName("src", f"of {name.name}")])
    links = {
        e.text: e.attributes["href"]
        for e in get(client, "/")
        if e.tag == "a" and e.attributes["href"].startswith("/stream")
    }
    for name in HOSTILE:
        assert links[str(name)] == path_of(str(name))
        found = get(client, links[str(name)])
        assert text_of(found, "h1") == str(name)
        form = next(e for e in found if e.tag == "form")
        answer = client.post(form.attributes["action"], data={"action": "suspend"})
        assert answer.status_code == 303
        assert answer.headers["location"] == f"{path_of(str(name))}#asked"
        table = lake.store.stream_table(name)
        assert table is not None
        assert table.status is Status.SUSPENDED
        assert "Suspend: done" in text_of(get(client, answer.headers["location"].partition("#")[0]))
    text = client.get("/").text + client.get("/sources").text + client.get("/alerts").text
    assert "<script>alert" not in text
    assert "49" not in re.findall(r"s\.(\d+)", text)


def test_texts_are_escaped(lake: PageLake, client: httpx.Client) -> None:
    bad = "<img src=x onerror=alert(1)>\" ' &"
    lake.add("s.a", ["src.a"], definition=f"SELECT '{bad}'", reason=bad, incremental=False, schedule=bad[:200])
    lake.fail("s.a", TrickleError("SPARK_FAILED", bad, hint=bad))
    record(
        lake.store,
        "s.a",
        "FULL",
        reason=bad,
        initiated_by=bad,
        rows_changed=json.dumps({bad: 1}),
        stages=json.dumps({bad: 1}),
    )
    with lake.store.write() as tx:
        row = {"created_at": datetime.now(UTC), "severity": bad, "kind": bad, "name": bad, "message": bad}
        tx.connection.execute(insert(tables.alerts).values(**row))
    for path in ("/", "/stream-tables/s.a", "/stream-tables/s.a?plan=1", "/alerts", "/sources"):
        response = client.get(path)
        assert "<img" not in response.text
        assert faults(response.text) == []
    assert bad in client.get("/stream-tables/s.a").text.replace("&lt;", "<").replace("&gt;", ">").replace(
        "&#34;", '"'
    ).replace("&#39;", "'").replace("&amp;", "&")


# -- a stream table ----------------------------------------------------------------------------------------------------


def test_a_stream_table(lake: PageLake, client: httpx.Client) -> None:
    lake.add("s.base", ["src.a"])
    lake.add("s.t", ["s.base", "src.b", "src.gone"], lag=30)
    lake.add("s.reader", ["s.t"])
    record(lake.store, "s.t", "FULL", 100, seconds=4.0, reason="INITIAL: first refresh")
    record(lake.store, "s.t", "DIFFERENTIAL", 50, seconds=0.5)
    record(lake.store, "s.t", None, 20, state="FAILED", seconds=0.1, error_code="SPARK_FAILED", error="out of memory")
    lake.change("src.b")
    with lake.store.write() as tx:
        tx.connection.execute(tables.iceberg_tables.delete().where(tables.iceberg_tables.c.table_name == "gone"))
    found = get(client, "/stream-tables/s.t")
    text = text_of(found)
    assert "GROUP BY region" in text
    assert "decimal(12,2)" in text
    rows = [e.text for e in found if e.tag == "tr"]
    assert any(r.startswith("s.base stream table amount, region all read") for r in rows)
    assert any(re.fullmatch(r"src.b source .* 1 commit to read \+120 −4 rows since 1\d s", r) for r in rows)
    assert any(r.startswith("src.gone source") and r.endswith("is gone") for r in rows)
    history = [r for r in rows if re.search(r" ago ", r)]
    assert [h.split(" ago ")[1].split()[0] for h in history] == ["FAILED", "DIFFERENTIAL", "FULL"]
    assert "SPARK_FAILED out of memory" in history[0]
    assert "read 12 changed rows of shop.orders; feed 150 ms · compute 250 ms · publish 100 ms" in history[1]
    assert "+3 ~2 −0" in history[1]
    assert {
        e.attributes.get("aria-label", "").split(":")[0]
        for e in found
        if "node" in e.attributes.get("class", "") and e.tag == "a"
    } == {"s.base", "s.t", "s.reader"}
    assert "500 ms median, 4.0 s 95th percentile" in text
    assert "INITIAL (1)" in text


def test_the_plan_is_worked_out_on_demand(lake: PageLake, client: httpx.Client) -> None:
    lake.add("s.t", ["src.a"])
    link = next(e for e in get(client, "/stream-tables/s.t") if "?plan=1" in e.attributes.get("href", ""))
    assert lake.explained == 0
    text = text_of(get(client, link.attributes["href"]))
    assert lake.explained == 1
    assert "Aggregate(region; total = sum(amount))" in text
    assert "a notice <b>" in text
    get(client, "/stream-tables/s.none?plan=1", 404)


def test_a_plan_that_cannot_be_made(lake: PageLake) -> None:
    async def run(*_: Any) -> Any:
        raise TrickleError("SOURCE_DROPPED", "src.a is gone")

    lake.add("s.t", ["src.a"])
    with asking(lake, run) as client:
        text = text_of(get(client, "/stream-tables/s.t?plan=1"))
    assert "There is no plan now" in text
    assert "src.a is gone (SOURCE_DROPPED)" in text


def test_long_histories_are_cut(lake: PageLake, client: httpx.Client) -> None:
    many(lake.store, 1, refreshes=600)

    def shown(path: str) -> int:
        return sum("refresh-" in e.attributes.get("id", "") for e in get(client, path))

    assert shown("/stream-tables/s.t000") == 50
    assert shown("/stream-tables/s.t000?history=500") == 500
    assert shown("/stream-tables/s.t000?history=1000000") == 600


def test_what_is_not_there(lake: PageLake, client: httpx.Client) -> None:
    lake.add("s.t", ["src.a"])
    for path in (
        "/stream-tables/s.x",
        "/stream-tables/x",
        "/stream-tables/",
        "/stream-tables/s.t/refresh",
        "/stream-tables/%ff",
    ):
        assert "there is no stream table" in text_of(get(client, path, 404)).lower()
    assert client.post("/stream-tables/s.x", data={"action": "refresh"}).status_code == 303


def test_a_catalog_that_is_gone(lake: PageLake, client: httpx.Client) -> None:
    with lake.store.write() as tx:
        tx.connection.exec_driver_sql("DROP TABLE trickle_alerts")
    for path in ("/", "/alerts"):
        found = get(client, path, 500)
        assert "trickle_alerts" in text_of(found)
        assert next(e for e in found if e.tag == "html").attributes["data-version"] == UNREADABLE


# -- buttons -----------------------------------------------------------------------------------------------------------


def press(client: httpx.Client, action: str, name: str = "s.t") -> str:
    answer = client.post(path_of(name), data={"action": action})
    assert answer.status_code == 303
    return text_of(get(client, path_of(name)))


def test_buttons(lake: PageLake, client: httpx.Client) -> None:
    lake.add("s.t", ["src.a"], lag=60)
    lake.change("src.a")
    assert "behind" in text_of(get(client, "/stream-tables/s.t"))
    text = press(client, "refresh")
    assert "Refresh: done" in text
    assert "DIFFERENTIAL +3 ~0 -1 in 250 ms" in text
    assert "fresh" in text
    assert "Verify: done" in press(client, "verify")
    assert "Resume" in press(client, "suspend")
    assert lake.store.stream_tables()[0].status is Status.SUSPENDED
    press(client, "resume")
    assert lake.store.stream_tables()[0].status is Status.ACTIVE


def test_a_button_whose_work_fails(lake: PageLake, client: httpx.Client) -> None:
    lake.add("s.t", ["src.a"])
    lake.fails = TrickleError("SNAPSHOT_EXPIRED", "snapshot 7 is gone", hint="Recompute it.")
    text = press(client, "refresh")
    assert "Refresh: failed" in text
    assert "snapshot 7 is gone (SNAPSHOT_EXPIRED)" in text
    assert "Recompute it." in text
    lake.refresh = None  # type: ignore[assignment]
    assert "See the log of trickle up" in press(client, "refresh")


def test_open_alerts_are_all_there(lake: PageLake, client: httpx.Client) -> None:
    """However many came, and ended, after them."""
    lake.add("s.t", ["src.a"])
    with lake.store.write() as tx:
        for n in range(5):
            tx.alerts.raise_("STALE", f"late {n}.", f"s.t{n}")
        for n in range(6):
            tx.alerts.raise_("RESUMED", f"back {n}.", "s.t")
    text = text_of(get(client, "/alerts?limit=4"))
    assert [n for n in range(5) if f"late {n}." in text] == [0, 1, 2, 3, 4]
    assert [n for n in range(6) if f"back {n}." in text] == [2, 3, 4, 5]
    assert text.index("late 0.") < text.index("back 5."), "the open ones come first"
    assert "Show more" in text
    assert "Show more" not in text_of(get(client, "/alerts"))


def test_work_that_takes_long(lake: PageLake, client: httpx.Client) -> None:
    """The browser is not kept waiting, a second click begins nothing, and the outcome is shown when it is there."""
    lake.add("s.t", ["src.a"])
    lake.seconds = 2.5
    before = time.monotonic()
    text = press(client, "refresh")
    assert "Refresh: running for 1 s" in text
    assert time.monotonic() - before < 2
    reload = [e for e in elements(client.get("/stream-tables/s.t").text) if e.attributes.get("http-equiv") == "refresh"]
    assert reload, "without scripts the page loads itself again"
    press(client, "refresh")
    while "running for" in text:
        assert time.monotonic() - before < 10
        time.sleep(0.1)
        text = text_of(get(client, "/stream-tables/s.t"))
    assert "Refresh: done" in text
    assert len(lake.store.history("s.t")) == 1


@pytest.mark.parametrize(
    "body",
    [
        b"",
        b"action=drop",
        b"action",
        b"\xff\xfe",
        b"action=refresh&x=" + b"y" * 5000,
        b"a=b&" * 30,
        b'{"action":"refresh"}',
    ],
)
def test_forms_that_mean_nothing(lake: PageLake, client: httpx.Client, body: bytes) -> None:
    lake.add("s.t", ["src.a"])
    for path in ("/", "/stream-tables/s.t"):
        assert client.post(path, content=body).status_code == 303
    assert lake.store.history() == ()


def test_too_many_requests(lake: PageLake, client: httpx.Client) -> None:
    lake.seconds = 1.5
    for n in range(9):
        lake.add(f"s.t{n}", ["src.a"])
    threads = [threading.Thread(target=press, args=(client, "refresh", f"s.t{n}")) for n in range(8)]
    for thread in threads:
        thread.start()
    time.sleep(0.5)
    assert "Too much is running" in press(client, "refresh", "s.t8")
    for thread in threads:
        thread.join()


# -- headers and files -------------------------------------------------------------------------------------------------


def test_headers(lake: PageLake, client: httpx.Client) -> None:
    lake.add("s.t", ["src.a"])
    for path in (
        "/",
        "/stream-tables/s.t",
        "/stream-tables/x",
        "/alerts",
        "/sources",
        "/static/page.js",
        "/static/none",
    ):
        headers = client.get(path).headers
        policy = headers["content-security-policy"]
        assert "default-src 'none'" in policy
        assert "unsafe" not in policy
        assert headers["x-content-type-options"] == "nosniff"
        assert headers["referrer-policy"] == "same-origin"
    assert client.get("/").headers["cache-control"] == "no-store"
    assert client.post("/").headers["content-security-policy"] == policy


def test_static_files(client: httpx.Client) -> None:
    found = get(client, "/")
    used = [e.attributes.get("src") or e.attributes["href"] for e in found if e.tag in ("script", "link")]
    assert len(used) == 3
    for path in used:
        response = client.get(path)
        assert response.status_code == 200
        assert "immutable" in response.headers["cache-control"]
    assert client.get("/static/page.js?v=old").headers["cache-control"] == "no-cache"
    for path in ("/static/none.js", "/static/..%2Fpage.py", "/static/%2e%2e/page.py", "/static/"):
        assert client.get(path).status_code == 404


def test_the_wheel_has_templates_and_files(tmp_path: Path) -> None:
    from hatchling.builders.wheel import WheelBuilder

    root = Path(__file__).parents[2]
    (wheel,) = WheelBuilder(str(root)).build(directory=str(tmp_path), versions=["standard"])
    names = set(zipfile.ZipFile(wheel).namelist())
    web = root / "src" / "spark_trickle" / "web"
    files = [p for folder in ("templates", "static") for p in (web / folder).iterdir()]
    assert len(files) >= 9
    assert {str(p.relative_to(root / "src")) for p in files} <= names


# -- events ------------------------------------------------------------------------------------------------------------


def events_of(lines: Iterator[str]) -> Iterator[str]:
    for line in lines:
        if line.startswith("data: "):
            yield line.removeprefix("data: ")


def version(client: httpx.Client) -> str:
    return next(e for e in elements(client.get("/").text) if e.tag == "html").attributes["data-version"]


def test_events_tell_of_changes(lake: PageLake, client: httpx.Client) -> None:
    lake.add("s.t", ["src.a"])
    with client.stream("GET", "/events") as response:
        assert response.headers["content-type"].startswith("text/event-stream")
        assert response.headers["cache-control"] == "no-store"
        found = events_of(response.iter_lines())
        first = next(found)
        assert first == version(client), "a browser that shows this need not ask again"
        for happens in (
            lambda: lake.change("src.a"),
            lambda: press(client, "refresh"),
            lambda: lake.suspend("s.t"),
            lambda: record(lake.store, "s.t", None, state="RUNNING"),
            lambda: lake.add("s.other", ["src.a"]),
            lambda: lake.set_enabled(False),
        ):
            before = first
            happens()
            while first == before:
                first = next(found)
        time.sleep(0.5)
        assert first == version(client)


def test_a_server_with_listeners_stops_at_once(lake: PageLake) -> None:
    app = app_of(page.router(lake, run_in_threadpool))  # type: ignore[arg-type]
    with served(app) as address, httpx.stream("GET", f"{address}/events", trust_env=False) as response:
        found = response.iter_lines()
        next(found)
        app.state.server.should_exit = True
        before = time.monotonic()
        assert [line for line in found if line and not line.startswith(("event", "data"))] == []
        assert time.monotonic() - before < 3


def test_one_task_looks_for_all_and_only_while_somebody_listens() -> None:
    async def scenario() -> None:
        looks = 0

        def look() -> str:
            nonlocal looks
            looks += 1
            if looks == 4:
                raise TrickleError("CATALOG_UNAVAILABLE", "down")
            return str(looks // 3)

        events = Events(look, most=3, every=0.02, heartbeat=60)
        streams = [events.stream() for _ in range(3)]
        assert [await anext(s) for s in streams] == ["retry: 2000\n\n"] * 3
        assert events.is_full
        assert [await anext(s) for s in streams] == ["event: version\ndata: 0\n\n"] * 3
        assert [await anext(s) for s in streams] == ["event: version\ndata: 1\n\n"] * 3
        seen = [await anext(streams[0]) for _ in range(2)]
        assert seen == [f"event: version\ndata: {v}\n\n" for v in (UNREADABLE, "1")]
        late = looks
        for s in streams[1:]:
            await s.aclose()
        assert events.clients == 1
        assert not events.is_full
        await streams[0].aclose()
        await asyncio.sleep(0.1)
        assert looks <= late + 2, "nobody listens: nobody looks"
        again = events.stream()
        await anext(again)
        await asyncio.sleep(0.1)
        assert looks > late
        await again.aclose()

    asyncio.run(scenario())


def test_a_heartbeat_when_nothing_happens() -> None:
    async def scenario() -> None:
        events = Events(lambda: "same", every=0.02, heartbeat=0.05)
        stream = events.stream()
        assert [await anext(stream) for _ in range(4)] == [
            "retry: 2000\n\n",
            "event: version\ndata: same\n\n",
            ": still here\n\n",
            ": still here\n\n",
        ]
        await stream.aclose()

    asyncio.run(scenario())


def test_more_listeners_than_places(lake: PageLake, monkeypatch: pytest.MonkeyPatch) -> None:
    small: Callable[..., Events] = lambda look: Events(look, most=1)  # noqa: E731
    monkeypatch.setattr(page, "Events", small)
    with asking(lake) as client:
        with client.stream("GET", "/events") as first:
            lines = first.iter_lines()
            next(lines)
            assert client.get("/events").status_code == 204, "a browser does not try again after this"
        deadline = time.monotonic() + 10
        while True:  # the place is free again when the first has gone
            with client.stream("GET", "/events") as second:
                if second.status_code == 200:
                    break
            assert time.monotonic() < deadline
            time.sleep(0.1)


# -- the shop of the screenshots, and a real lake ----------------------------------------------------------------------


def test_the_shop(store: CatalogStore, settings: Settings) -> None:
    with asking(shop(store, settings)) as client:
        for path in ("/", "/sources", "/alerts", *(path_of(str(t.name)) for t in store.stream_tables())):
            get(client, path)


@pytest.mark.spark
def test_a_real_lake(tr: Trickle) -> None:
    tr.sql("CREATE TABLE src (id INT, v INT) USING iceberg")
    tr.sql("INSERT INTO src SELECT id, id % 2 FROM range(200)")
    tr.sql("CREATE STREAM TABLE `a b <i>` MODE DIFFERENTIAL AS SELECT v, count(*) AS n FROM src GROUP BY v")
    name = TableName("s", "a b <i>")
    with asking(tr) as client:
        assert "fresh" in row_of(get(client, "/"), str(name))
        tr.sql("INSERT INTO src VALUES (999, 30)")
        time.sleep(0.4)
        assert "1 commit to read +1 −0 rows" in text_of(get(client, path_of(str(name))))
        assert "1 commit to read" in text_of(get(client, "/sources"))
        answer = client.post(path_of(str(name)), data={"action": "refresh"}, timeout=60)
        text = ""
        deadline = time.monotonic() + 60
        while "Refresh: done" not in text:
            assert time.monotonic() < deadline, text
            text = text_of(get(client, answer.headers["location"].partition("#")[0]))
        assert "DIFFERENTIAL" in text
        plan = text_of(get(client, f"{path_of(str(name))}?plan=1"))
        assert "Aggregate" in plan
        assert "SELECT" in plan
        client.post(path_of(str(name)), data={"action": "verify"}, timeout=60)
        while "Verify: done" not in text:
            assert time.monotonic() < deadline, text
            text = text_of(get(client, path_of(str(name))))
        assert "equal, 3 rows" in text
    assert datetime.now(UTC) - tr.store.find(name).created_at < timedelta(minutes=5)
