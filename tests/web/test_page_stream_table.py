"""The page of a stream table, and its buttons."""

from __future__ import annotations

import re
import threading
import time
from typing import Any

import httpx
import pytest

from spark_trickle.catalog import tables
from spark_trickle.errors import TrickleError
from spark_trickle.model import Status
from spark_trickle.web.events import UNREADABLE
from tests.web.html import elements
from tests.web.page_lake import PageLake, many, record
from tests.web.pages import asking, get, press, text_of

pytestmark = pytest.mark.usefixtures("server")


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
