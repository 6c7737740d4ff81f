"""The REST catalog over a lake that PyIceberg writes: what is answered, and what PyIceberg's REST client reads.

Other clients, and cuts while refreshes publish, are in test_rest_readers.py.
"""

from __future__ import annotations

import gzip
import json
import socket
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from urllib.parse import quote

import httpx
import pyarrow as pa
import pytest
from pyiceberg.catalog import Catalog, load_catalog
from pyiceberg.catalog.sql import SqlCatalog
from pyiceberg.exceptions import NoSuchNamespaceError, NoSuchTableError, RESTError, UnauthorizedError
from pyiceberg.schema import Schema
from pyiceberg.types import LongType, NestedField, StringType
from sqlalchemy import insert, update

from spark_trickle.catalog import tables
from spark_trickle.catalog.database import open_catalog
from spark_trickle.catalog.store import CatalogStore
from spark_trickle.config import Settings
from spark_trickle.errors import TrickleError
from spark_trickle.lake.metadata_files import Read
from spark_trickle.model import LAKE, Pointer, TableName
from spark_trickle.web import rest_catalog
from tests.web.serving import TOKEN, app_of, served

SCHEMA = Schema(NestedField(1, "id", LongType(), required=False), NestedField(2, "v", StringType(), required=False))
ODD = TableName("shop.eu", "a/b c+d é%2F")
VIEW = {"view-uuid": "00000000-0000-4000-8000-000000000001", "format-version": 1, "properties": {}}


class Lake:
    """shop.orders with two snapshots, shop.eu with a table of an odd name, a view, an empty namespace, hidden ones."""

    def __init__(self, folder: Path) -> None:
        self.settings = Settings.load(folder / "lakehouse", rest_catalog_storage={"s3.region": "eu-1"})
        self.settings.location.mkdir()
        self.store: CatalogStore = open_catalog(self.settings.sqlalchemy_url)
        place = str(self.settings.location)
        self.writer = SqlCatalog(
            LAKE,
            uri=f"sqlite:///{place}/catalog.db",
            warehouse=f"file://{place}/warehouse",
            init_catalog_tables="false",
        )
        for namespace in ("shop", "shop.eu", "_trickle"):
            self.writer.create_namespace(namespace, {"comment": f"of {namespace}"} if namespace == "shop" else {})
        with self.store.write() as tx:
            tx.ensure_namespace("empty")
        self.orders = self.writer.create_table("shop.orders", SCHEMA)
        self.append(1, "a")
        self.first_snapshot = self.orders.current_snapshot().snapshot_id
        self.append(2, "b")
        self.writer.create_table("_trickle.hidden", SCHEMA)
        plain = self.writer.create_table("shop.plain", SCHEMA)
        with self.store.write() as tx:  # Spark can make a table of such a name; a writer in Python cannot
            tx.insert_pointer(Pointer(ODD, plain.metadata_location, is_view=False))
            tx.insert_pointer(Pointer(TableName("shop", "some_view"), self._view(), is_view=True))

    def append(self, id_: int, v: str) -> None:
        self.orders = self.writer.load_table("shop.orders")
        self.orders.append(pa.table({"id": pa.array([id_], pa.int64()), "v": [v]}))

    def cut(self, name: str) -> str:
        with self.store.write() as tx:
            return tx.add_cut(name).catalog_name

    def _view(self) -> str:
        file = self.settings.location / "view.metadata.json"
        file.write_text(json.dumps(VIEW))
        return f"file:{file}"

    def move(self, name: TableName, location: str) -> None:
        p = tables.iceberg_tables
        with self.store.write() as tx:
            tx.connection.execute(update(p).where(p.c.table_name == name.name).values(metadata_location=location))

    def close(self) -> None:
        self.writer.close()
        self.store.close()


@pytest.fixture
def lake(tmp_path: Path) -> Iterator[Lake]:
    made = Lake(tmp_path)
    yield made
    made.close()


@contextmanager
def asking(lake: Lake, prefix: str = "/iceberg", read: Read | None = None) -> Iterator[httpx.Client]:
    routes = rest_catalog.router(lake.store, lake.settings, read)
    with served(app_of(routes, prefix)) as address, httpx.Client(base_url=address + prefix, trust_env=False) as client:
        yield client


@pytest.fixture
def client(lake: Lake) -> Iterator[httpx.Client]:
    with asking(lake) as client:
        yield client


@pytest.fixture(scope="module")
def shared(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Lake, httpx.Client]]:
    """A lake that nothing changes, for what must leave it as it is."""
    made = Lake(tmp_path_factory.mktemp("shared"))
    with asking(made) as client:
        yield made, client
    made.close()


@pytest.fixture
def address(lake: Lake) -> Iterator[str]:
    with served(app_of(rest_catalog.router(lake.store, lake.settings), "/iceberg", token=TOKEN)) as address:
        yield f"{address}/iceberg"


def reading(address: str, warehouse: str | None = None, **more: str) -> Catalog:
    chosen = {} if warehouse is None else {"warehouse": warehouse}
    return load_catalog("rest", type="rest", uri=address, **{"token": TOKEN, **chosen, **more})


def ids(catalog: Catalog, name: str = "shop.orders", snapshot: int | None = None) -> list[int]:
    return sorted(catalog.load_table(name).scan(snapshot_id=snapshot).to_arrow()["id"].to_pylist())


def refused(response: httpx.Response, status: int, type_: str) -> str:
    assert response.status_code == status, response.text
    error = response.json()["error"]
    assert (error["code"], error["type"], set(error)) == (status, type_, {"message", "type", "code"})
    return str(error["message"])


# -- PyIceberg's client ------------------------------------------------------------------------------------------------


def test_pyiceberg_reads_the_lake(lake: Lake, address: str) -> None:
    catalog = reading(address)
    assert sorted(catalog.list_namespaces()) == [("empty",), ("shop",)]
    assert catalog.list_namespaces("shop") == [("shop", "eu")]
    assert catalog.list_tables("empty") == []
    assert sorted(catalog.list_tables("shop")) == [("shop", "orders"), ("shop", "plain")]
    assert catalog.list_views("shop") == [("shop", "some_view")]
    assert catalog.load_namespace_properties("shop") == {"comment": "of shop"}
    assert catalog.table_exists("shop.orders")
    assert not catalog.table_exists("shop.some_view")
    assert catalog.namespace_exists(("shop", "eu"))
    assert not catalog.namespace_exists("_trickle")
    assert ids(catalog) == [1, 2]
    assert ids(catalog, snapshot=lake.first_snapshot) == [1]
    lake.append(3, "c")
    assert ids(catalog) == [1, 2, 3], "the head moves on"


def test_names_that_need_encoding(lake: Lake, address: str) -> None:
    catalog = reading(address)
    identifier = (*ODD.namespace.split("."), ODD.name)
    assert catalog.list_tables(("shop", "eu")) == [identifier]
    assert ids(catalog, identifier) == []  # type: ignore[arg-type]
    java = f"{address}/v1/lake/namespaces/shop%1Feu/tables/a%2Fb+c%2Bd+%C3%A9%252F"  # as Java's client writes it
    assert httpx.get(java, headers={"Authorization": f"Bearer {TOKEN}"}).status_code == 200


def test_a_cut_is_a_catalog(lake: Lake, address: str) -> None:
    catalog_name = lake.cut("month end/1")
    lake.append(3, "c")
    at_cut = reading(address, "month end/1")
    assert ids(at_cut) == [1, 2]
    assert ids(reading(address, catalog_name)) == [1, 2]
    assert ids(reading(address)) == ids(reading(address, "lake")) == [1, 2, 3]
    assert at_cut.load_table("shop.orders").current_snapshot() == lake.orders.metadata.snapshots[1]
    with lake.store.write() as tx:
        tx.drop_cut("month end/1")
    lake.cut("month end/1")
    with pytest.raises(NoSuchTableError, match="no warehouse"):
        ids(at_cut)  # the cut is gone; another one of its name is not the same
    assert ids(reading(address, "month end/1")) == [1, 2, 3]


def test_names_of_cuts_that_mean_something_else(lake: Lake, address: str) -> None:
    first = lake.cut("first")
    lake.append(3, "c")
    other, called_lake = lake.cut(first), lake.cut("lake")
    lake.append(4, "d")
    assert ids(reading(address, first)) == [1, 2], "a prefix that clients have"
    assert ids(reading(address, other)) == ids(reading(address, called_lake)) == [1, 2, 3]
    assert ids(reading(address, "lake")) == [1, 2, 3, 4]


def test_private_catalogs_are_not_served(lake: Lake, client: httpx.Client) -> None:
    with lake.store.write() as tx:
        tx.copy_lake("trickle_attempt_1")
    for path in ("v1/config?warehouse=trickle_attempt_1", "v1/trickle_attempt_1/namespaces"):
        message = refused(client.get(path), 404, "NoSuchWarehouseException")
        assert "there are: lake" in message


def test_unknown_names(address: str) -> None:
    catalog = reading(address)
    with pytest.raises(NoSuchTableError, match=r"no table shop\.nothing"):
        catalog.load_table("shop.nothing")
    with pytest.raises(NoSuchTableError):
        catalog.load_table("_trickle.hidden")
    with pytest.raises(NoSuchNamespaceError, match="no namespace nowhere"):
        catalog.list_tables("nowhere")
    with pytest.raises(NoSuchNamespaceError):
        catalog.list_namespaces("nowhere")
    with pytest.raises(RESTError, match=r"no warehouse friday; there are: lake"):
        reading(address, "friday")


def test_pyiceberg_cannot_write(lake: Lake, address: str) -> None:
    catalog = reading(address)
    before = lake.store.pointers()
    table = catalog.load_table("shop.orders")
    rows = pa.table({"id": pa.array([9], pa.int64()), "v": ["x"]})
    writes = (
        lambda: table.append(rows),
        lambda: catalog.create_table("shop.more", SCHEMA),
        lambda: catalog.drop_table("shop.orders"),
        lambda: catalog.rename_table("shop.orders", "shop.other"),
        lambda: catalog.create_namespace("other"),
        lambda: catalog.drop_namespace("empty"),
        lambda: catalog.update_namespace_properties("shop", updates={"a": "b"}),
    )
    for write in writes:
        with pytest.raises((RESTError, NotImplementedError)):
            write()
    assert lake.store.pointers() == before
    assert lake.store.namespace_properties("shop") == {"comment": "of shop"}


def test_a_token_is_sent(address: str) -> None:
    with pytest.raises(UnauthorizedError):
        reading(address, token="another")


# -- requests by hand --------------------------------------------------------------------------------------------------


def test_config(client: httpx.Client) -> None:
    answer = client.get("v1/config").json()
    assert answer["overrides"] == {"prefix": LAKE}
    assert answer["endpoints"] == list(rest_catalog.ENDPOINTS)
    reads = [e for e in answer["endpoints"] if e.startswith(("GET /", "HEAD /"))]
    assert [e for e in answer["endpoints"] if e not in reads] == [
        "POST /v1/{prefix}/namespaces/{namespace}/tables/{table}/metrics"
    ]
    for endpoint in reads:  # each of them is there
        method, path = endpoint.split(" ")
        known = {"prefix": "lake", "namespace": "shop", "table": "orders", "view": "some_view"}
        response = client.request(method, path.lstrip("/").format(**known))
        assert response.status_code == (204 if method == "HEAD" else 200), endpoint


def test_load_table_and_view(lake: Lake, client: httpx.Client) -> None:
    found = client.get("v1/lake/namespaces/shop/tables/orders").json()
    location = lake.orders.metadata_location
    assert found["metadata-location"] == location
    assert found["metadata"] == json.loads(Path(location.removeprefix("file://")).read_text())
    assert found["config"] == {"s3.region": "eu-1"}
    view = client.get("v1/lake/namespaces/shop/views/some_view").json()
    assert (view["metadata"], view["config"]) == (VIEW, {})


def test_only_the_snapshots_of_refs(lake: Lake, client: httpx.Client) -> None:
    path = "v1/lake/namespaces/shop/tables/orders"
    head = lake.orders.current_snapshot().snapshot_id
    every = client.get(path).json()["metadata"]["snapshots"]
    assert [s["snapshot-id"] for s in every] == [lake.first_snapshot, head]
    some = client.get(path, params={"snapshots": "refs"}).json()["metadata"]["snapshots"]
    assert [s["snapshot-id"] for s in some] == [head]
    lake.orders.manage_snapshots().create_tag(lake.first_snapshot, "kept").commit()
    tagged = client.get(path, params={"snapshots": "refs"}).json()["metadata"]["snapshots"]
    assert tagged == every


def test_unchanged_tables_are_not_sent_again(lake: Lake, client: httpx.Client) -> None:
    path = "v1/lake/namespaces/shop/tables/orders"
    tag = client.get(path).headers["etag"]
    again = client.get(path, headers={"If-None-Match": tag})
    assert (again.status_code, again.content, again.headers["etag"]) == (304, b"", tag)
    assert client.get(path, params={"snapshots": "refs"}, headers={"If-None-Match": tag}).status_code == 200
    lake.append(3, "c")
    changed = client.get(path, headers={"If-None-Match": f'"other", W/{tag}'})
    assert changed.status_code == 200
    assert changed.headers["etag"] != tag


def test_pages(lake: Lake, client: httpx.Client) -> None:
    names = [f"t{n:02}" for n in range(25)]
    with lake.store.write() as tx:
        for name in names:
            tx.insert_pointer(Pointer(TableName("many", name), lake.orders.metadata_location, is_view=False))
    path = "v1/lake/namespaces/many/tables"
    assert [t["name"] for t in client.get(path).json()["identifiers"]] == names
    seen: list[str] = []
    token, pages = "", 0
    while token is not None:
        answer = client.get(path, params={"pageToken": token, "pageSize": "10"}).json()
        seen += [t["name"] for t in answer["identifiers"]]
        token, pages = answer["next-page-token"], pages + 1
        if pages == 1:
            with lake.store.write() as tx:
                tx.delete_pointer(TableName("many", "t09"))  # the last name of the page that was given
    assert (seen, pages) == (names, 3)
    spaces = client.get("v1/lake/namespaces", params={"pageToken": "", "pageSize": "2"}).json()
    assert spaces["namespaces"] == [["empty"], ["many"]]
    rest = client.get("v1/lake/namespaces", params={"pageToken": spaces["next-page-token"]}).json()
    assert (rest["namespaces"], rest["next-page-token"]) == ([["shop"]], None)


@pytest.mark.parametrize(
    ("method", "path"),
    [
        ("POST", "v1/lake/namespaces"),
        ("DELETE", "v1/lake/namespaces/shop"),
        ("POST", "v1/lake/namespaces/shop/properties"),
        ("POST", "v1/lake/namespaces/shop/tables"),
        ("POST", "v1/lake/namespaces/shop/tables/orders"),
        ("POST", "v1/lake/namespaces/shop/tables/orders/plan"),
        ("DELETE", "v1/lake/namespaces/shop/tables/orders?purgeRequested=true"),
        ("POST", "v1/lake/namespaces/shop/register"),
        ("POST", "v1/lake/tables/rename"),
        ("POST", "v1/lake/transactions/commit"),
        ("PUT", "v1/config"),
        ("POST", "v1/oauth/tokens"),
    ],
)
def test_other_endpoints_are_refused(shared: tuple[Lake, httpx.Client], method: str, path: str) -> None:
    lake, client = shared
    before = lake.store.pointers()
    response = client.request(method, path, json={"name": "x"})
    message = refused(response, 405, "UnsupportedOperationException")
    assert response.headers["allow"] == "GET, HEAD"
    assert ("gives no tokens" if "oauth" in path else "read-only") in message
    assert lake.store.pointers() == before


@pytest.mark.parametrize(
    ("path", "type_"),
    [
        ("", "NotFoundException"),
        ("v1", "NotFoundException"),
        ("v2/config", "NotFoundException"),
        ("v1/lake/namespaces/shop/tables/orders/credentials", "NotFoundException"),
        ("v1/friday/namespaces", "NoSuchWarehouseException"),
        ("v1/config?warehouse=friday", "NoSuchWarehouseException"),
        ("v1/lake/namespaces/", "NoSuchNamespaceException"),
        ("v1/lake/namespaces/_trickle", "NoSuchNamespaceException"),
        ("v1/lake/namespaces/_trickle/tables", "NoSuchNamespaceException"),
        ("v1/lake/namespaces/_trickle/tables/hidden", "NoSuchTableException"),
        ("v1/lake/namespaces/shop/tables/", "NoSuchTableException"),
        ("v1/lake/namespaces/shop/tables/" + "x" * 5000, "NoSuchTableException"),
        ("v1/lake/namespaces/shop/tables/some_view", "NoSuchTableException"),
        ("v1/lake/namespaces/shop/views/orders", "NoSuchViewException"),
        ("v1/lake/namespaces/shop/tables/orders'%20OR%201=1--", "NoSuchTableException"),
        ("v1/lake/namespaces/shop/tables/..%2F..%2Fetc%2Fpasswd", "NoSuchTableException"),
    ],
)
def test_what_is_not_there(shared: tuple[Lake, httpx.Client], path: str, type_: str) -> None:
    _, client = shared
    refused(client.get(path), 404, type_)
    if not path.startswith("v1/config"):
        head = client.head(path)
        assert (head.status_code, head.content) == (404, b"")


@pytest.mark.parametrize(
    "path",
    [
        "v1/lake/namespaces?pageSize=0",
        "v1/lake/namespaces?pageSize=-1",
        "v1/lake/namespaces?pageSize=1e3",
        "v1/lake/namespaces?pageSize=99999999999999999999",
        "v1/lake/namespaces?pageToken=%C3%A9",
        "v1/lake/namespaces/shop/tables?pageToken=_w==&pageSize=1",
        "v1/lake/namespaces/shop/tables/orders?snapshots=some",
        "v1/lake/namespaces/%FF/tables",
        "v1/lake/namespaces/shop/tables/a%00b",
    ],
)
def test_malformed_requests(shared: tuple[Lake, httpx.Client], path: str) -> None:
    refused(shared[1].get(path), 400, "BadRequestException")


def test_reports_are_accepted_and_dropped(client: httpx.Client) -> None:
    path = "v1/lake/namespaces/shop/tables/orders/metrics"
    response = client.post(path, content=b"not even JSON")
    assert (response.status_code, response.content) == (204, b"")
    refused(client.post(path, content=b"x" * (5 * 1024 * 1024)), 413, "BadRequestException")


def test_a_client_that_hangs_up(client: httpx.Client, caplog: pytest.LogCaptureFixture) -> None:
    path = f"{client.base_url.path}v1/lake/namespaces/shop/tables/orders/metrics"
    with socket.create_connection((client.base_url.host, client.base_url.port)) as line:
        line.sendall(f"POST {path} HTTP/1.1\r\nHost: test\r\nContent-Length: 1000\r\n\r\nhalf".encode())
    assert client.get("v1/config").status_code == 200
    assert not [r for r in caplog.records if r.levelname == "ERROR"]


def test_metadata_that_cannot_be_read(lake: Lake, client: httpx.Client, tmp_path: Path) -> None:
    def load(location: str) -> httpx.Response:
        lake.move(TableName("shop", "orders"), location)
        return client.get("v1/lake/namespaces/shop/tables/orders")

    gone = refused(load(f"file://{tmp_path}/gone.metadata.json"), 500, "InternalServerError")
    assert "is not there" in gone
    for content in (b"{", b"[]", b"\x1f\x8bx", b'{"a": 1}', b"\xff"):
        file = tmp_path / f"{content.hex()}.metadata.json"
        file.write_bytes(content)
        assert str(file) in refused(load(f"file:{file}"), 500, "CATALOG_CORRUPT")
    assert "s3://b/m" in refused(load("s3://b/m.metadata.json"), 500, "INTERNAL")
    assert client.get("v1/lake/namespaces/shop/tables/plain").status_code == 200


def test_compressed_and_remote_metadata(lake: Lake, tmp_path: Path) -> None:
    content = Path(lake.orders.metadata_location.removeprefix("file://")).read_bytes()
    read: list[str] = []

    def remote(location: str) -> bytes:
        read.append(location)
        return gzip.compress(content)

    lake.move(TableName("shop", "orders"), "s3://b/m.gz.metadata.json")
    with asking(lake, read=remote) as client:
        for _ in range(3):
            answer = client.get("v1/lake/namespaces/shop/tables/orders").json()
            assert answer["metadata"] == json.loads(content)
    assert read == ["s3://b/m.gz.metadata.json"], "a metadata file never changes"


def test_a_metadata_file_that_is_removed_meanwhile(lake: Lake) -> None:
    """The pointer moves on between looking at it and reading the file, and maintenance deletes the old file."""
    name, content = (
        TableName("shop", "orders"),
        Path(lake.orders.metadata_location.removeprefix("file://")).read_bytes(),
    )

    def remote(location: str) -> bytes:
        if location == "s3://b/old":
            lake.move(name, "s3://b/new")
            raise FileNotFoundError(location)
        return content

    lake.move(name, "s3://b/old")
    with asking(lake, read=remote) as client:
        assert client.get("v1/lake/namespaces/shop/tables/orders").json()["metadata-location"] == "s3://b/new"


def test_a_catalog_that_does_not_answer(lake: Lake, client: httpx.Client, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*_: Any) -> Any:
        raise TrickleError("CATALOG_UNAVAILABLE", "the catalog is locked")

    monkeypatch.setattr(CatalogStore, "pointers", fail)
    message = refused(client.get("v1/lake/namespaces"), 503, "ServiceUnavailableException")
    assert "locked" in message


def test_a_prefix_of_the_app_in_any_depth(lake: Lake) -> None:
    with asking(lake, "/a/v1/b") as client:
        path = f"v1/lake/namespaces/shop%1Feu/tables/{quote(ODD.name, safe='')}"
        assert client.get(path).status_code == 200


def test_settings_hide_credentials(tmp_path: Path) -> None:
    settings = Settings.load(
        tmp_path, rest_catalog_storage={"s3": {"secret-access-key": "hush", "endpoint": "http://m"}}
    )
    assert settings.rest_catalog_storage["s3.secret-access-key"] == "hush"
    assert settings.shown()["rest_catalog_storage"] == {"s3.secret-access-key": "***", "s3.endpoint": "http://m"}
    with pytest.raises(TrickleError) as caught:
        Settings.load(tmp_path, rest_catalog_storage=["hush"])
    assert "rest_catalog_storage" in str(caught.value)
    assert "hush" not in str(caught.value)


def test_thousand_tables_are_listed_quickly(lake: Lake, client: httpx.Client) -> None:
    p = tables.iceberg_tables
    row = {"catalog_name": LAKE, "table_namespace": "many", "metadata_location": "file:/x", "iceberg_type": "TABLE"}
    with lake.store.write() as tx:
        tx.connection.execute(insert(p), [{**row, "table_name": f"t{n}"} for n in range(1000)])
    answer = client.get("v1/lake/namespaces/many/tables")
    assert len(answer.json()["identifiers"]) == 1000
    assert answer.elapsed.total_seconds() < 2
