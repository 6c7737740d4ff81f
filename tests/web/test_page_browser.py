"""The page in Chromium: what scripts do, what is seen, and that nothing is refused.

Pictures of all pages are left in build/screenshots.
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from fastapi.concurrency import run_in_threadpool
from playwright.sync_api import Browser, Page, Route, expect, sync_playwright

from spark_trickle.catalog.database import open_catalog
from spark_trickle.config import Settings
from spark_trickle.errors import TrickleError
from spark_trickle.model import TableName
from spark_trickle.web import page as served_page
from spark_trickle.web.wording import age
from tests.web.page_lake import PageLake, record, refreshed, shop
from tests.web.serving import app_of, served

ROOT = Path(__file__).parents[2]
expect.set_options(timeout=15_000)  # a busy machine takes its time
PICTURES = ROOT / "build" / "screenshots"
NAMES = ("chromium", "chromium-browser", "google-chrome")


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    found = next(filter(None, map(shutil.which, NAMES)), None)
    if found is None:
        if os.environ.get("REQUIRE_CHROMIUM"):
            pytest.fail("no chromium")
        pytest.skip("no chromium: run scripts/need-chromium.sh")
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=found, args=["--no-sandbox"] if os.geteuid() == 0 else [])
        yield browser
        browser.close()


@pytest.fixture(scope="module")
def lake(tmp_path_factory: pytest.TempPathFactory) -> Iterator[PageLake]:
    settings = Settings.load(tmp_path_factory.mktemp("browser") / "lakehouse")
    settings.location.mkdir()
    store = open_catalog(settings.sqlalchemy_url)
    yield shop(store, settings)
    store.close()


@contextmanager
def serving(lake: PageLake) -> Iterator[str]:
    app = app_of(served_page.router(lake, run_in_threadpool))  # type: ignore[arg-type]
    with served(app) as address:
        yield address


@pytest.fixture(scope="module")
def address(lake: PageLake) -> Iterator[str]:
    with serving(lake) as address:
        yield address


@pytest.fixture
def open_page(browser: Browser, address: str) -> Iterator[Callable[..., Page]]:
    """Opens a page. Whatever the console says, and whatever comes from elsewhere, fails the test."""
    said: list[str] = []
    contexts = []

    def open_(path: str = "/", **options: Any) -> Page:
        context = browser.new_context(base_url=address, viewport={"width": 1360, "height": 900}, **options)
        contexts.append(context)
        page = context.new_page()
        page.on("console", lambda message: said.append(f"{message.type}: {message.text}"))
        page.on("pageerror", lambda error: said.append(str(error)))
        page.on("request", lambda request: request.url.startswith(address) or said.append(f"asked for {request.url}"))
        page.goto(path)
        return page

    yield open_
    for context in contexts:
        context.close()
    assert said == []


def picture(page: Page, name: str) -> None:
    PICTURES.mkdir(parents=True, exist_ok=True)
    page.screenshot(path=PICTURES / f"{name}.png", full_page=True)


# What text and ground look like, for every text that is seen: as WCAG computes it.
_CONTRAST = """() => {
  const canvas = document.createElement("canvas").getContext("2d", { willReadFrequently: true });
  const parsed = (text) => {
    canvas.clearRect(0, 0, 1, 1); canvas.fillStyle = text; canvas.fillRect(0, 0, 1, 1);
    return canvas.getImageData(0, 0, 1, 1).data;
  };
  const light = (c) => {
    const linear = (v) => v <= .04045 ? v / 12.92 : ((v + .055) / 1.055) ** 2.4;
    const [r, g, b] = [...c].slice(0, 3).map((v) => linear(v / 255));
    return .2126 * r + .7152 * g + .0722 * b;
  };
  const ground = (e) => {
    const box = e.closest("svg.dag .node")?.querySelector(".box");
    if (box) return parsed(getComputedStyle(box).fill);
    for (let at = e; at; at = at.parentElement) {
      const colour = parsed(getComputedStyle(at).backgroundColor);
      if (colour[3] === 255) return colour;
    }
    return [255, 255, 255];
  };
  const low = [];
  let seen = 0;
  const walker = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);
  while (walker.nextNode()) {
    const e = walker.currentNode.parentElement;
    if (!walker.currentNode.nodeValue.trim() || !e.checkVisibility() || e.closest("noscript, title, script")) continue;
    const style = getComputedStyle(e);
    const a = light(parsed(e instanceof SVGElement ? style.fill : style.color)), b = light(ground(e));
    const ratio = (Math.max(a, b) + .05) / (Math.min(a, b) + .05);
    seen += 1;
    if (ratio < 4.5) low.push(`${ratio.toFixed(2)} ${e.outerHTML.slice(0, 200)}`);
  }
  return { low, seen };
}"""


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_looks_and_contrast(open_page: Callable[..., Page], scheme: Any) -> None:
    page = open_page(color_scheme=scheme)
    grounds = set()
    for name, path in (
        ("lake", "/"),
        ("failing", "/stream-tables/shop.revenue_by_region"),
        ("plan", "/stream-tables/shop.sessions?plan=1"),
        ("sources", "/sources"),
        ("alerts", "/alerts"),
    ):
        page.goto(path)
        expect(page.locator("#live")).to_have_text("live")
        found = page.evaluate(_CONTRAST)
        assert found["low"] == [], path
        assert found["seen"] > 10
        grounds.add(page.evaluate("getComputedStyle(document.body).backgroundColor"))
        picture(page, f"{name}-{scheme}")
    assert len(grounds) == 1
    red = int(grounds.pop().removeprefix("rgb(").split(",")[0])
    assert (red > 200) is (scheme == "light")


def test_the_picture(open_page: Callable[..., Page], lake: PageLake) -> None:
    page = open_page()
    nodes = page.locator("svg.dag a.node")
    expect(nodes).to_have_count(12)
    expect(page.locator("svg.dag g.is-source")).to_have_count(5)
    node = page.get_by_role("link", name="shop.revenue_by_region: failing")
    expect(node).to_have_class("node is-failing")
    boxes = [n.bounding_box() for n in nodes.all()]
    assert len({(b["x"], b["y"]) for b in boxes if b}) == 12
    assert page.evaluate(
        """() => [...document.querySelectorAll("svg.dag .node")].every((node) => {
          const box = node.querySelector(".box").getBBox();
          const fits = (text) => text.getBBox().x + text.getBBox().width <= box.x + box.width;
          return [...node.querySelectorAll("text")].every(fits);
        })"""
    ), "no text leaves its box"
    assert page.evaluate("document.documentElement.scrollWidth <= innerWidth")
    node.click()
    expect(page.get_by_role("heading", level=1)).to_have_text("shop.revenue_by_region")


def test_a_refresh_changes_the_row_by_itself(open_page: Callable[..., Page], lake: PageLake) -> None:
    page = open_page()
    page.evaluate("window.stays = true")
    expect(page.locator("#live")).to_have_text("live")
    id_ = lake.store.find(TableName.of("shop.sessions")).id
    row = page.locator(f"#row-{id_}")
    expect(row).to_contain_text("DIFFERENTIAL")
    row.get_by_role("link").focus()
    record(lake.store, "shop.sessions", None, state="RUNNING")
    expect(row).to_contain_text("refreshing for")
    node = page.locator("a.node", has_text="shop.sessions")
    expect(node).to_contain_text("refreshing for")
    refreshed(lake.store, "shop.sessions", seconds=4.2, refresh_id="the one that ran")
    expect(row).to_contain_text("took 4.2 s")
    expect(node).to_contain_text("4.2 s")
    assert page.evaluate("document.activeElement.textContent") == "shop.sessions", "the focus stays"
    assert page.evaluate("window.stays"), "the page was not loaded again"


def test_times_go_on(open_page: Callable[..., Page]) -> None:
    page = open_page()
    moments = (0, 0.4, 59.9, 60, 252, 3599, 3600, 11_530, 86_399, 86_400, 187_300)
    assert page.evaluate("(all) => all.map(age)", moments) == [age(m) for m in moments]
    shown = page.locator("tr time[data-since]").first
    expect(shown).not_to_have_text(shown.inner_text())
    assert shown.get_attribute("title").endswith("UTC")  # type: ignore[union-attr]


def test_buttons(open_page: Callable[..., Page], lake: PageLake) -> None:
    page = open_page("/stream-tables/shop.orders_clean")
    page.keyboard.press("Tab")
    expect(page.get_by_role("link", name="Skip to the content")).to_be_focused()
    picture(page, "focus")
    page.get_by_role("button", name="Suspend").press("Enter")
    expect(page.locator("#asked")).to_contain_text("Suspend: done")
    expect(page.locator("#head .state")).to_have_text("suspended")
    page.get_by_role("button", name="Resume").click()
    expect(page.locator("#head .state")).to_have_text("fresh")
    page.get_by_role("button", name="Verify").click()
    expect(page.locator("#asked")).to_contain_text("equal, 120 rows")
    lake.seconds = 2
    page.get_by_role("button", name="Refresh now").click()
    expect(page.locator("#asked")).to_contain_text("Refresh: running for")
    expect(page.locator("#asked")).to_contain_text("Refresh: done", timeout=8000)
    lake.seconds = 0
    expect(page.locator("#history tr").nth(1)).to_contain_text("manual")
    explained = lake.explained
    page.get_by_role("link", name="Show how it is maintained").click()
    expect(page.get_by_text("Aggregate(region; total = sum(amount))")).to_be_visible()
    page.get_by_text("What a FULL refresh runs").click()
    expect(page.get_by_text("SELECT 2")).to_be_visible()
    refreshed(lake.store, "shop.orders_clean", seconds=7.7)
    expect(page.locator("#history")).to_contain_text("7.7 s")
    expect(page.get_by_text("SELECT 2")).to_be_visible()
    assert lake.explained == explained + 1, "what is pushed does not work out the plan again"


@pytest.mark.parametrize(("status", "says"), [(204, "reload to see changes"), (401, "log in again")])
def test_a_window_that_is_refused_does_not_ask_all_the_time(
    browser: Browser, address: str, status: int, says: str
) -> None:
    asked = 0

    def refuse(route: Route) -> None:
        nonlocal asked
        asked += 1
        route.fulfill(status=status)

    with browser.new_context(base_url=address) as context:
        page = context.new_page()
        page.route("**/events", refuse)
        page.goto("/")
        expect(page.locator("#live")).to_have_text(says)
        before = asked
        page.wait_for_timeout(5000)
        assert asked - before <= (0 if status == 204 else 2)
        if status == 401:  # somebody logged in, in another window
            page.unroute("**/events")
            expect(page.locator("#live")).to_have_text("live")


def test_a_session_that_ended_is_said(browser: Browser, address: str, lake: PageLake) -> None:
    with browser.new_context(base_url=address) as context:
        page = context.new_page()
        page.goto("/sources")
        expect(page.locator("#live")).to_have_text("live")
        page.route("**/login", lambda route: route.fulfill(body="<!doctype html><title>Trickle</title>"))
        page.route("**/sources", lambda route: route.fulfill(status=303, headers={"Location": f"{address}/login"}))
        lake.suspend("finance.audit")
        lake.resume("finance.audit")
        lake.suspend("finance.audit")
        expect(page.locator("#live")).to_have_text("log in again")
    lake.resume("finance.audit")


def test_without_scripts(open_page: Callable[..., Page]) -> None:
    page = open_page(java_script_enabled=False)
    expect(page.locator("svg.dag a.node")).to_have_count(12)
    expect(page.locator("#live noscript")).to_be_visible()
    page.get_by_role("link", name="shop.conversion").last.click()
    page.get_by_role("button", name="Refresh now").click()
    expect(page.locator("#asked")).to_contain_text("Refresh: done")
    page.get_by_role("link", name="Stream tables").first.click()
    page.get_by_label("Name has").fill("finance")
    page.get_by_role("button", name="Filter").click()
    expect(page.get_by_role("row")).to_have_count(3)


def test_on_a_phone(open_page: Callable[..., Page]) -> None:
    page = open_page()
    page.set_viewport_size({"width": 390, "height": 844})
    for path in ("/", "/stream-tables/shop.revenue_by_region", "/alerts", "/sources"):
        page.goto(path)
        assert page.evaluate("document.documentElement.scrollWidth <= innerWidth"), path
    page.goto("/")
    expect(page.locator("#live")).to_have_text("live")
    picture(page, "phone")


def test_from_nothing_to_something_and_away(browser: Browser, tmp_path: Path) -> None:
    """A lake that gets its first stream table, a server that ends, and names that are markup."""
    settings = Settings.load(tmp_path / "lakehouse")
    settings.location.mkdir()
    store = open_catalog(settings.sqlalchemy_url)
    lake = PageLake(store, settings)
    lake.led()
    said: list[str] = []
    with browser.new_context(viewport={"width": 1360, "height": 700}) as context:
        page = context.new_page()
        page.on("pageerror", lambda error: said.append(str(error)))
        page.on("dialog", lambda dialog: (said.append("a dialog"), dialog.dismiss()))
        with serving(lake) as address:
            page.goto(address)
            expect(page.get_by_text("CREATE STREAM TABLE")).to_be_visible()
            expect(page.locator("#live")).to_have_text("live")
            picture(page, "empty")
            name = "<img src=x onerror=alert(1)>"
            lake.add(TableName("s", name), [TableName("s", "src")])
            expect(page.get_by_role("link", name=f"s.{name}").last).to_be_visible()
            lake.fail(f"s.{name}", TrickleError("SPARK_FAILED", "<script>alert(2)</script>"))
            expect(page.locator(".trouble")).to_contain_text("<script>alert(2)</script>")
            page.locator(".trouble a").click()
            expect(page.get_by_role("heading", level=1)).to_have_text(f"s.{name}")
        expect(page.locator("#live")).to_have_text("not connected", timeout=5000)
    store.close()
    assert said == []
