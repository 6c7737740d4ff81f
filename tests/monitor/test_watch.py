"""Alerts on their way: looked for, logged, called back, sent to real HTTP servers on the loopback interface."""

from __future__ import annotations

import base64
import io
import json
import logging
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest

from spark_trickle.catalog import outbox
from spark_trickle.catalog.alerts import Notice
from spark_trickle.catalog.database import open_catalog
from spark_trickle.catalog.leases import Lease, acquire
from spark_trickle.catalog.owner import Owner
from spark_trickle.catalog.store import CatalogStore
from spark_trickle.config import Settings
from spark_trickle.model import Dependency, InputKind, Status, TableName
from spark_trickle.monitor import watch, webhook
from spark_trickle.monitor.json_log import JsonFormatter
from spark_trickle.monitor.watch import Watch
from spark_trickle.scheduler.reload import Reloader
from tests.catalog.records import add_revenue, table_pointer

SECRET = "whsec_" + base64.b64encode(b"sixteen bytes it").decode()
A, SOURCE = TableName("s", "a"), TableName("s", "t")


@dataclass
class Receiver:
    """A webhook. `answers` are the status codes to come, then 204 for ever; 0: it says nothing for a while."""

    url: str = ""
    answers: list[int] = field(default_factory=list)
    got: list[tuple[dict[str, str], bytes]] = field(default_factory=list)
    paths: list[str] = field(default_factory=list)
    silent: threading.Event = field(default_factory=threading.Event)

    @property
    def messages(self) -> list[str]:
        return [json.loads(body)["message"] for _, body in self.got]


@contextmanager
def receiving(*answers: int) -> Iterator[Receiver]:
    found = Receiver(answers=list(answers))

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            body = self.rfile.read(int(self.headers["Content-Length"]))
            answer = found.answers.pop(0) if found.answers else 204
            if not answer:
                found.silent.wait(30)
                return
            found.paths.append(self.path)
            found.got.append(({k.lower(): v for k, v in self.headers.items()}, body))
            self.send_response(answer)
            if answer in (301, 307, 308):
                self.send_header("Location", f"{found.url}elsewhere")
            self.end_headers()

        do_GET = do_POST

        def log_message(self, *_: Any) -> None:
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    server.daemon_threads = True
    found.url = f"http://127.0.0.1:{server.server_port}/services/T0KEN/"
    thread = threading.Thread(target=server.serve_forever, args=(0.05,))
    thread.start()
    try:
        yield found
    finally:
        found.silent.set()
        server.shutdown()
        thread.join()
        server.server_close()


@pytest.fixture(autouse=True)
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("no_proxy", "127.0.0.1")
    monkeypatch.setattr(webhook, "FIRST_RETRY", 0.1)
    monkeypatch.setattr(watch, "STEP_SECONDS", 0.05)
    monkeypatch.setattr(watch, "LOOK_SECONDS", 0.0)


@pytest.fixture
def store(tmp_path: Path) -> Iterator[CatalogStore]:
    (tmp_path / "lake").mkdir()
    opened = open_catalog(f"sqlite:///{tmp_path / 'lake' / 'catalog.db'}")
    yield opened
    opened.close()


def settings(tmp_path: Path, *hooks: Receiver, secret: str | None = None) -> Settings:
    urls = [{"url": hook.url} | ({"secret": secret} if secret else {}) for hook in hooks]
    return Settings.load(tmp_path / "lake", webhooks=urls)


def watching(store: CatalogStore, settings_: Settings, lease: Lease | None, **more: Any) -> Watch:
    return Watch(store, Reloader(settings_, lambda _: None), lambda: lease, store.pointers, lambda *_: {}, **more)


def leader(store: CatalogStore) -> Lease:
    return acquire(store, ["scheduler"], store.owner, 30, 0)


@contextmanager
def running(one: Watch) -> Iterator[Watch]:
    one.start()
    try:
        yield one
    finally:
        one.stop()


def wait(done: Callable[[], object], seconds: float = 10) -> None:
    end = time.monotonic() + seconds
    while not done():
        assert time.monotonic() < end, "it did not happen in time"
        time.sleep(0.02)


def stored(store: CatalogStore, *messages: str) -> None:
    for message in messages:
        with store.write() as tx:
            tx.alerts.raise_("REFRESH_COMPLETED", message, "s.a")


# -- webhooks ----------------------------------------------------------------------------------------------------------


def verified(headers: dict[str, str], body: bytes, secret: str) -> dict[str, Any]:
    """By the code in docs/alerts.md."""
    page = (Path(__file__).parents[2] / "docs" / "alerts.md").read_text(encoding="utf-8")
    names: dict[str, Any] = {}
    exec(page[page.index("import base64,") :].partition("```")[0], names)
    found: dict[str, Any] = names["verified"](headers, body, secret)
    return found


def test_a_webhook_gets_what_happened_once_signed_and_in_order(store: CatalogStore, tmp_path: Path) -> None:
    with receiving() as hook, running(watching(store, settings(tmp_path, hook, secret=SECRET), leader(store))):
        stored(store, "1", "2 é", "3")
        wait(lambda: not outbox.waiting(store))
    assert hook.messages == ["1", "2 é", "3"]
    headers, body = hook.got[1]
    found = verified(headers, body, SECRET)
    assert found["id"] == headers["webhook-id"]
    assert (found["event"], found["alert"]["kind"], found["alert"]["name"]) == ("raised", "REFRESH_COMPLETED", "s.a")
    assert headers["content-type"] == "application/json"
    for wrong in (body + b" ", body.replace(b"2", b"3")):
        with pytest.raises(ValueError, match="not signed"):
            verified(headers, wrong, SECRET)


def test_without_a_secret_nothing_is_signed(store: CatalogStore, tmp_path: Path) -> None:
    with receiving() as hook, running(watching(store, settings(tmp_path, hook), leader(store))):
        stored(store, "1")
        wait(lambda: hook.got)
    assert "webhook-signature" not in hook.got[0][0]


def test_a_webhook_that_fails_gets_it_later_and_redirects_are_not_followed(
    store: CatalogStore, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    with (
        receiving(500, 307, 403) as hook,
        running(watching(store, settings(tmp_path, hook, secret=SECRET), leader(store))),
    ):
        stored(store, "1", "2")
        wait(lambda: not outbox.waiting(store))
    assert hook.messages == ["1", "1", "1", "1", "2"]
    assert len({headers["webhook-id"] for headers, _ in hook.got}) == 2  # a receiver can tell that it is the same
    assert set(hook.paths) == {"/services/T0KEN/"}
    said = [r.getMessage() for r in caplog.records if r.name.endswith("watch")]
    assert len(said) == 1
    assert said[0].endswith("/… did not take an alert, which is tried again: the answer is 500")
    for text in (*(r.getMessage() for r in caplog.records), repr(settings(tmp_path, hook, secret=SECRET))):
        assert "T0KEN" not in text
        assert SECRET not in text


def test_a_dead_webhook_stops_nobody(store: CatalogStore, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(watch, "TIMEOUT", 0.2)
    monkeypatch.setattr("spark_trickle.monitor.watch.post", lambda *a: webhook.post(*a, timeout=0.5))
    heard: list[Notice] = []
    with receiving(0, 0, 0, 0, 0) as dead, receiving() as alive:
        gone = Receiver(url="http://127.0.0.1:9/nobody-listens")
        used = settings(tmp_path, dead, gone, alive)
        with running(watching(store, used, leader(store), on_alert=heard.append)):
            for n in range(20):
                stored(store, str(n))
            begun = time.monotonic()
            wait(lambda: len(alive.got) == 20, 5)
            assert len(heard) == 20
            assert time.monotonic() - begun < 5
    assert alive.messages == [str(n) for n in range(20)]
    waiting = outbox.waiting(store)
    assert {waiting[hook.target] for hook in used.webhooks[:2]} == {20}


def test_what_was_not_told_is_told_by_the_next_leader_and_nothing_twice(tmp_path: Path, store: CatalogStore) -> None:
    with receiving(503, 503) as hook:
        used = settings(tmp_path, hook)
        first = leader(store)
        with running(watching(store, used, first)):
            stored(store, "1", "2")
            wait(lambda: len(hook.got) == 2)
        # Another process takes over; the old one, paused meanwhile, still believes that it leads.
        other = open_catalog(store.database.url)
        other.owner = Owner.here()
        with store.write() as tx:
            tx.release_lease(first)
        second = acquire(other, ["scheduler"], other.owner, 30, 0)
        standby, old = watching(other, used, None), watching(store, used, first)
        with running(old), running(standby):
            time.sleep(0.5)
            assert len(hook.got) == 2
            with running(watching(other, used, second)):
                stored(store, "3")
                wait(lambda: not outbox.waiting(store))
                time.sleep(0.2)
        other.close()
    assert hook.messages == ["1", "1", "1", "2", "3"]


def test_a_notice_that_nobody_takes_is_given_up(
    store: CatalogStore, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    one = watching(store, settings(tmp_path, Receiver(url="http://127.0.0.1:9/")), leader(store))
    lease = one.lease()
    assert lease is not None
    stored(store, "1")
    now = datetime.now(UTC)
    outbox.hand_out(store, lease, ("a",), now)
    one._clean(lease, now + timedelta(hours=23))
    assert outbox.waiting(store) == {"a": 1}
    one._clean(lease, now + timedelta(hours=25))
    assert outbox.waiting(store) == {}
    assert "given up" in caplog.text


# -- logs and callbacks ------------------------------------------------------------------------------------------------


def test_alerts_are_logged_as_json_and_a_callback_that_fails_harms_nobody(
    store: CatalogStore, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level("INFO", "spark_trickle.alerts")
    stream = io.StringIO()
    handler = logging.StreamHandler(stream)
    handler.setFormatter(JsonFormatter())
    logger = logging.getLogger("spark_trickle.alerts")
    logger.addHandler(handler)
    heard: list[Notice] = []

    def callback(notice: Notice) -> None:
        heard.append(notice)
        raise ZeroDivisionError

    try:
        one = watching(store, settings(tmp_path), None, on_alert=callback)
        lease = leader(store)
        with store.write() as tx:
            tx.alerts.raise_("SUSPENDED", "s.a is suspended\nafter 3 failures", "s.a")
        stored(store, "2")
        one.tell(lease, datetime.now(UTC))
    finally:
        logger.removeHandler(handler)
    assert [n.alert.kind for n in heard] == ["SUSPENDED", "REFRESH_COMPLETED"]
    assert heard[0].alert == store.alerts()[1]
    first, _ = map(json.loads, stream.getvalue().splitlines())
    assert (first["level"], first["message"], first["event"]) == (
        "ERROR",
        "s.a is suspended\nafter 3 failures",
        "raised",
    )
    assert first["alert"]["severity"] == "error"
    assert outbox.waiting(store) == {}


# -- looking -----------------------------------------------------------------------------------------------------------


def test_a_lake_is_looked_at(store: CatalogStore, tmp_path: Path) -> None:
    noon = datetime(2026, 3, 2, 12, tzinfo=UTC)
    with store.write() as tx:
        id_ = add_revenue(tx, name=A, schedule="5m", status=Status.ACTIVE, data_timestamp=noon, published_snapshot=1)
        tx.set_dependencies(id_, [Dependency(SOURCE, InputKind.SOURCE, pointer="file:/w/before.json")])
        for name in (A, SOURCE):
            tx.insert_pointer(table_pointer(name))
    lease = leader(store)
    one = watching(store, settings(tmp_path), lease)
    for minutes, expected in ((6, []), (7, [("STALE", "open")]), (8, [("STALE", "open")])):
        one.look(lease, noon + timedelta(minutes=minutes))
        assert [(a.kind, a.state) for a in store.alerts()] == expected
    with store.write() as tx:
        tx.update_stream_table(id_, data_timestamp=noon + timedelta(minutes=8))
    one.look(lease, noon + timedelta(minutes=9))
    assert [(a.kind, a.state) for a in store.alerts()] == [("STALE", "resolved")]
    # Suspended, and put back by something that said nothing, as an ALTER of its schedule does.
    with store.write() as tx:
        tx.update_stream_table(id_, status=Status.SUSPENDED)
        tx.alerts.raise_("SUSPENDED", "x", "s.a")
    one.look(lease, noon + timedelta(minutes=10))
    assert [a.kind for a in store.alerts(open_only=True)] == ["SUSPENDED"]
    with store.write() as tx:
        tx.update_stream_table(id_, status=Status.ACTIVE)
    one.look(lease, noon + timedelta(minutes=10))
    assert [(a.kind, a.state) for a in store.alerts()][:2] == [("RESUMED", "resolved"), ("SUSPENDED", "resolved")]
