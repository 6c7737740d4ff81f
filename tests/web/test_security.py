"""Who may ask: hosts, origins, tokens, sessions, addresses, and how other commands find a service."""

from __future__ import annotations

import json
import logging
import os
import socket
import stat
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest
from starlette.datastructures import URL
from starlette.requests import Request

from spark_trickle.catalog.database import open_catalog
from spark_trickle.catalog.store import CatalogStore
from spark_trickle.config import Settings
from spark_trickle.errors import TrickleError
from spark_trickle.web.registration import FILE_NAME, Registration, Service, find
from spark_trickle.web.security import OPEN
from spark_trickle.web.server import listen, url_of
from tests.web.service import TOKEN, app_over, asking, engine, problem_of
from tests.web.test_metrics import fill

TABLES = "/api/v1/stream-tables"
SUSPEND = f"{TABLES}/s.a/suspend"


@pytest.fixture(scope="module")
def ours(tmp_path_factory: pytest.TempPathFactory) -> Iterator[httpx.Client]:
    """A service without a token, which nothing changes."""
    settings = Settings.load(tmp_path_factory.mktemp("open"), service_names=["Trickle.example"])
    store = open_catalog(settings.sqlalchemy_url)
    fill(store)
    with asking(app_over(engine(store, settings))) as client:
        yield client
    store.close()


@pytest.fixture
def settings(tmp_path: Path) -> Settings:
    return Settings.load(tmp_path / "lakehouse", lease_wait_seconds=0)


@pytest.fixture
def lake(settings: Settings) -> Iterator[CatalogStore]:
    settings.location.mkdir()
    store = open_catalog(settings.sqlalchemy_url)
    fill(store)
    yield store
    store.close()


@pytest.fixture
def open_(lake: CatalogStore, settings: Settings) -> Iterator[httpx.Client]:
    """A service without a token."""
    with asking(app_over(engine(lake, settings))) as client:
        yield client


@pytest.fixture(scope="module")
def guarded(tmp_path_factory: pytest.TempPathFactory) -> Iterator[httpx.Client]:
    """A service with a token, asked without it."""
    settings = Settings.load(tmp_path_factory.mktemp("guarded"))
    store = open_catalog(settings.sqlalchemy_url)
    fill(store)
    with asking(app_over(engine(store, settings), TOKEN)) as client:
        yield client
    store.close()


@pytest.mark.parametrize(
    ("host", "status"),
    [
        ("127.0.0.1:8787", 200),
        ("localhost", 200),
        ("[::1]:1", 200),
        ("192.168.1.7", 200),
        ("trickle.EXAMPLE:443", 200),
        ("evil.example", 421),
        ("localhost.evil.example", 421),
        ("127.0.0.1.evil.example", 421),
        ("evil.example@127.0.0.1", 421),
        ("127.0.0.1/login?", 421),
        ("127.0.0.1:8787/healthz#", 421),
        ("localhost\\login", 421),
        ("127.0.0.1:", 421),
        ("127.0.0.1:80:80", 421),
        ("[::1", 421),
        ("[::1]x", 421),
        ("::1", 421),
        ("[", 421),
        ("", 421),
    ],
)
def test_hosts(ours: httpx.Client, guarded: httpx.Client, host: str, status: int) -> None:
    response = ours.get(TABLES, headers={"Host": host})
    assert response.status_code == status, response.text
    known = 421 if host.startswith("trickle") else status  # `guarded` has no names
    without = guarded.get(TABLES, headers={"Host": host})
    assert without.status_code == (401 if known == 200 else 421), "no host opens a door"
    given = guarded.get(TABLES, headers={"Host": host, "Authorization": f"Bearer {TOKEN}"})
    assert given.status_code == known, "nor does a token make a host ours"
    assert ours.get("/healthz", headers={"Host": "pod.cluster.local"}).status_code == 200


@pytest.mark.parametrize(
    ("given", "status"),
    [
        ({}, 200),
        ({"Origin": "http://{host}"}, 200),
        ({"Origin": "https://{host}", "Sec-Fetch-Site": "same-origin"}, 200),
        ({"Origin": "http://evil.example"}, 403),
        ({"Origin": "http://127.0.0.1:1"}, 403),
        ({"Origin": "null"}, 403),
        ({"Origin": "http://[", "Sec-Fetch-Site": "none"}, 403),
        ({"Sec-Fetch-Site": "cross-site"}, 403),
        ({"Sec-Fetch-Site": "same-site"}, 403),
    ],
)
def test_other_sites_change_nothing(
    lake: CatalogStore, open_: httpx.Client, given: dict[str, str], status: int
) -> None:
    headers = {k: v.format(host=open_.base_url.netloc.decode()) for k, v in given.items()}
    assert open_.post(SUSPEND, headers=headers).status_code == status
    suspended = {str(t.name) for t in lake.stream_tables() if t.status == "SUSPENDED"}
    assert suspended == ({"s.a"} if status == 200 else set())


def test_the_path_is_not_that_of_the_host_header(guarded: httpx.Client, monkeypatch: pytest.MonkeyPatch) -> None:
    """As if Starlette made it of that header, which its versions before 1.0.1 do."""
    monkeypatch.setattr(Request, "url", property(lambda _: URL("http://127.0.0.1/login?/api/v1/stream-tables")))
    problem_of(guarded.get(TABLES), 401, "UNAUTHORIZED")
    assert "error" in guarded.get("/iceberg/v1/config").json()
    assert "error" not in guarded.get(TABLES).json()


def test_other_sites_read_nothing(ours: httpx.Client) -> None:
    cross = {"Sec-Fetch-Site": "cross-site", "Sec-Fetch-Mode": "no-cors"}
    problem_of(ours.get(f"{TABLES}/s.a/explain", headers=cross), 403, "INVALID_REQUEST")
    link = {"Sec-Fetch-Site": "cross-site", "Sec-Fetch-Mode": "navigate"}
    assert ours.get(TABLES, headers=link).status_code == 200
    answer = ours.get(TABLES, headers={"Origin": "http://evil.example"})
    assert "access-control-allow-origin" not in answer.headers
    assert "frame-ancestors 'none'" in answer.headers["content-security-policy"]


def test_every_route_wants_the_token(lake: CatalogStore, settings: Settings) -> None:
    app = app_over(engine(lake, settings), TOKEN)
    routes = [(method.upper(), path) for path, methods in app.openapi()["paths"].items() for method in methods]
    assert len(routes) > 25
    routes += [("GET", path) for path in ("/", "/docs", "/openapi.json", "/metrics", "/iceberg/v1/config", "/nothing")]
    routes += [("POST", "/logout"), ("POST", "/iceberg/v1/lake/namespaces")]
    with asking(app) as client:
        for method, path in routes:
            assert client.request(method, path.replace("{name}", "s.a")).status_code == 401, (method, path)
        for path in (*OPEN, "/login"):
            assert client.get(path).status_code == 200
    assert {t.status for t in lake.stream_tables()} == {"ACTIVE", "INITIALIZING"}, "nothing was done"


@pytest.mark.parametrize(
    ("given", "status"),
    [
        (f"Bearer {TOKEN}", 200),
        (f"bearer  {TOKEN}", 200),
        (f"Bearer {TOKEN}x", 401),
        (f"Bearer {TOKEN[:-1]}", 401),
        ("Bearer", 401),
        (f"Basic {TOKEN}", 401),
        (TOKEN, 401),
        ("Bearer é", 401),
    ],
)
def test_tokens(guarded: httpx.Client, given: str, status: int) -> None:
    headers = {"Authorization": given.encode()}
    response = guarded.get(TABLES, headers=headers)
    assert response.status_code == status
    if status == 401:
        assert "token" in problem_of(response, 401, "UNAUTHORIZED")["detail"]
        assert response.headers["www-authenticate"].startswith("Bearer")
    assert guarded.get("/metrics", headers=headers).status_code == status
    iceberg = guarded.get("/iceberg/v1/config", headers=headers)
    assert iceberg.status_code == status
    if status == 401:
        assert iceberg.json()["error"]["type"] == "NotAuthorizedException"


def test_nobody_logs_out_where_nobody_logs_in(ours: httpx.Client) -> None:
    assert "Log out" not in ours.get("/").text


def test_a_token_in_a_url_is_none(guarded: httpx.Client) -> None:
    for name in ("token", "access_token", "authorization"):
        assert guarded.get(TABLES, params={name: TOKEN}).status_code == 401
    assert guarded.get(TABLES, headers={"Cookie": f"trickle_session_0={TOKEN}"}).status_code == 401


def test_a_session(guarded: httpx.Client) -> None:
    html = {"Accept": "text/html,*/*"}
    sent = guarded.get("/docs?x=1", headers=html)
    assert (sent.status_code, sent.headers["location"]) == (303, "/login?next=/docs%3Fx%3D1")
    form = guarded.get(sent.headers["location"], headers=html)
    assert 'value="/docs?x=1"' in form.text
    wrong = guarded.post("/login", data={"token": TOKEN + "x", "next": "/docs"})
    assert (wrong.status_code, wrong.headers.get("set-cookie")) == (401, None)
    assert TOKEN not in wrong.text
    right = guarded.post("/login", data={"token": TOKEN, "next": "/docs"})
    assert (right.status_code, right.headers["location"]) == (303, "/docs")
    cookie = right.headers["set-cookie"]
    assert "HttpOnly" in cookie
    assert "samesite=strict" in cookie.lower()
    assert TOKEN not in cookie
    assert guarded.get("/docs", headers=html).status_code == 200  # the client keeps the cookie
    shown = guarded.get("/", headers=html).text
    assert '<form method="post" action="/logout"><button>Log out</button></form>' in shown
    assert guarded.post(SUSPEND, headers={"Origin": "http://evil.example"}).status_code == 403
    assert guarded.post(SUSPEND).status_code == 200
    kept = dict(guarded.cookies)
    assert guarded.post("/logout").status_code == 303
    assert guarded.get("/docs", headers=html).status_code == 303
    guarded.cookies.update(kept)
    assert guarded.get("/docs", headers=html).status_code == 303, "the session is over, not only its cookie"


@pytest.mark.parametrize("there", ["//evil.example", "https://evil.example", "/\\evil.example", "", "\r\nX: y"])
def test_a_login_leads_nowhere_else(guarded: httpx.Client, there: str) -> None:
    assert guarded.post("/login", data={"token": TOKEN, "next": there}).headers["location"] == "/"
    assert 'name="next" value="/"' in guarded.get("/login", params={"next": there or "x"}).text


def test_a_login_is_small(guarded: httpx.Client) -> None:
    problem_of(guarded.post("/login", data={"token": "x" * 5000}), 413, "INVALID_REQUEST")
    parts: Any = (b"token=" + b"x" * 3000 for _ in range(2))
    problem_of(guarded.post("/login", content=parts), 413, "INVALID_REQUEST")


def test_no_token_in_logs(guarded: httpx.Client, caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.DEBUG):
        guarded.get(TABLES, headers={"Authorization": f"Bearer {TOKEN}"})
        guarded.post("/login", data={"token": TOKEN})
        guarded.post("/api/v1/sql", json={"sql": TOKEN}, headers={"Authorization": f"Bearer {TOKEN}"})
    ours = [r.getMessage() for r in caplog.records if not r.name.startswith(("httpx", "httpcore"))]
    assert TOKEN not in "\n".join(ours)


def test_settings(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TRICKLE_SERVICE_TOKEN", TOKEN)
    found = Settings.load(tmp_path)
    assert found.token is not None
    assert found.token.get_secret_value() == TOKEN
    assert TOKEN not in f"{found!r} {found.shown()} {found.token}"
    assert found.service_names == ()
    for bad in ("short", "0123456789 abcdef", "0123456789abcdefé"):
        monkeypatch.setenv("TRICKLE_SERVICE_TOKEN", bad)
        with pytest.raises(TrickleError, match="service_token") as caught:
            Settings.load(tmp_path)
        assert bad not in caught.value.message
    monkeypatch.delenv("TRICKLE_SERVICE_TOKEN")
    file = tmp_path / "token"
    file.write_text(f"{TOKEN}\n")
    kept = Settings.load(tmp_path, service_token_file=file).token
    assert kept is not None
    assert kept.get_secret_value() == TOKEN
    for text in ("", "short"):
        file.write_text(text)
        with pytest.raises(TrickleError, match="16 printable"):
            _ = Settings.load(tmp_path, service_token_file=file).token
    with pytest.raises(TrickleError, match="No such file"):
        _ = Settings.load(tmp_path, service_token_file=tmp_path / "nothing").token


def test_addresses() -> None:
    for host in ("0.0.0.0", "::"):
        with pytest.raises(TrickleError, match="needs a token") as refused:
            listen(host, 0, has_token=False)
        assert refused.value.code == "INVALID_SETTING"
    with listen("0.0.0.0", 0, has_token=True) as everywhere:
        assert url_of(everywhere).startswith("http://127.0.0.1:")
        assert everywhere.proto == socket.IPPROTO_TCP  # else every answer takes 40 ms
    with listen("localhost", 0, has_token=False) as first:
        port = first.getsockname()[1]
        with pytest.raises(TrickleError, match=f"{port}: Address already in use") as taken:
            listen("localhost", port, has_token=False)
        assert (taken.value.code, taken.value.exit_code) == ("ADDRESS_IN_USE", 2)
    with pytest.raises(TrickleError, match="is not an address"):
        listen("no.such.host.invalid", 0, has_token=True)


# -- how others find it ------------------------------------------------------------------------------------------------


@pytest.fixture
def running(lake: CatalogStore, settings: Settings) -> Iterator[Service]:
    """It says that its id is `this`."""
    with asking(app_over(engine(lake, settings))) as client:
        here = Service.here(str(client.base_url))
        yield Service("this", here.url, here.host, here.pid, here.started_at)


def test_a_service_is_found(lake: CatalogStore, settings: Settings, running: Service) -> None:
    file = settings.location / FILE_NAME
    assert find(settings) is None
    entry = Registration(settings, lake, running)
    entry.keep()
    assert stat.S_IMODE(file.stat().st_mode) == 0o600
    assert find(settings) == running
    second = Registration(settings, lake, Service.here("http://127.0.0.1:1"))
    second.keep()
    second.remove()
    assert find(settings) == running, "the first one keeps the entry"
    file.unlink()
    entry.keep()
    assert find(settings) == running
    entry.remove()
    assert not file.exists()
    assert os.listdir(settings.location) == [f for f in os.listdir(settings.location) if FILE_NAME not in f]


def dead_pid() -> int:
    process = subprocess.Popen([sys.executable, "-c", ""])
    process.wait()
    return process.pid


@pytest.mark.parametrize(
    "change",
    [
        {"pid": None},
        {"id": "another"},
        {"url": "http://127.0.0.1:1"},
        {"url": "http://"},
        {"url": 5},
        {"host": "elsewhere"},
        {"more": 1},
        None,
    ],
)
def test_stale_entries(lake: CatalogStore, settings: Settings, running: Service, change: dict[str, Any] | None) -> None:
    file = settings.location / FILE_NAME
    entry = json.loads(running.text)
    if change == {"pid": None}:
        change = {"pid": dead_pid()}
    file.write_text("{" if change is None else json.dumps(entry | change))
    assert find(settings) is None
    next_ = Service.here(running.url)
    Registration(settings, lake, next_).keep()
    assert Service.read(file.read_text()) == next_
