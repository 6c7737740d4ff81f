"""What a browser gets besides HTML: headers, files, events."""

from __future__ import annotations

import asyncio
import time
import zipfile
from collections.abc import Callable, Iterator
from pathlib import Path

import httpx
import pytest
from fastapi.concurrency import run_in_threadpool

from spark_trickle.errors import TrickleError
from spark_trickle.web import page
from spark_trickle.web.events import UNREADABLE, Events
from tests.web.html import elements
from tests.web.page_lake import PageLake, record
from tests.web.pages import asking, get, press
from tests.web.serving import app_of, served

pytestmark = pytest.mark.usefixtures("server")


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
