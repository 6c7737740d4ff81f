"""The page over catalogs with a history, on a real server; test_page_browser.py looks at it in a browser."""

from __future__ import annotations

import json
import re
import threading
import time
from datetime import UTC, datetime, timedelta

import httpx
import pytest
from sqlalchemy import insert

from spark_trickle import Trickle
from spark_trickle.catalog import tables
from spark_trickle.catalog.store import CatalogStore
from spark_trickle.config import Settings
from spark_trickle.errors import TrickleError
from spark_trickle.model import Status, TableName
from spark_trickle.monitor.health import Health
from spark_trickle.scheduler.decide import ENABLED
from spark_trickle.web import looks
from spark_trickle.web.wording import path_of
from tests.web.html import faults
from tests.web.page_lake import PageLake, many, record, shop
from tests.web.pages import asking, get, row_of, text_of

pytestmark = pytest.mark.usefixtures("server")

HOSTILE = (
    TableName("s", "a/b"),
    TableName("s", "<script>alert(1)</script>"),
    TableName("s", "\"q\" 'x' `y`"),
    TableName("s", "ü ☃ +%2F?#&amp;;"),
    TableName("with.dots.and spaces", "t"),
    TableName("s", "{{ 7 * 7 }}"),
    TableName("s", "/~/x\\y"),
)


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
