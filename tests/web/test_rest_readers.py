"""Stream tables and cuts as other engines read them over REST: PyIceberg, Spark's own REST client, DuckDB."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import partial
from typing import Any

import duckdb
import pytest
from pyiceberg.catalog import load_catalog

from spark_trickle import Action, Trickle
from spark_trickle.lake import jvm
from spark_trickle.model import TableName
from spark_trickle.web import rest_catalog
from tests.engine.lakes import other_session
from tests.web.serving import TOKEN, app_of, served

pytestmark = pytest.mark.spark

TOTALS = "SELECT k, count(*) AS n, sum(v) AS total FROM s.src GROUP BY k"
Rows = list[tuple[Any, ...]]


@dataclass(frozen=True)
class Served:
    tr: Trickle
    address: str

    def spark(self, warehouse: str, **more: str) -> Callable[[str], Rows]:
        """Spark's REST client, in a session of its own."""
        session = other_session(self.tr)
        for key, value in {
            "": "org.apache.iceberg.spark.SparkCatalog",
            ".type": "rest",
            ".uri": self.address,
            ".token": TOKEN,
            ".warehouse": warehouse,
            ".cache-enabled": "false",
            **{f".{key.replace('_', '-')}": value for key, value in more.items()},
        }.items():
            session.conf.set(f"spark.sql.catalog.rest{key}", value)
        session.sql("USE rest.s")
        return lambda query: sorted(tuple(row) for row in session.sql(query).collect())

    def pyiceberg(self, warehouse: str) -> Callable[[str], Rows]:
        catalog = load_catalog("rest", type="rest", uri=self.address, token=TOKEN, warehouse=warehouse)

        def read(name: str) -> Rows:
            found = catalog.load_table(name).scan().to_arrow().to_pydict()
            return sorted(zip(*found.values(), strict=True))

        return read

    def duckdb(self, warehouse: str) -> duckdb.DuckDBPyConnection:
        from duckdb_extensions import import_extension

        connection = duckdb.connect(config={"autoinstall_known_extensions": "false"})
        for extension in ("httpfs", "avro", "iceberg"):
            import_extension(extension, con=connection)
        connection.execute(
            f"ATTACH '{warehouse}' AS rest (TYPE iceberg, ENDPOINT '{self.address}', TOKEN '{TOKEN}', "
            "ACCESS_DELEGATION_MODE 'none')"
        )
        return connection


@pytest.fixture(scope="module")
def lake(module_tr: Trickle) -> Iterator[Served]:
    """s.src, s.totals over it and s.big over that; the cut `monday`; then another refresh."""
    tr = module_tr
    tr.sql("CREATE TABLE s.src (id INT, k INT, v BIGINT)")
    tr.sql("INSERT INTO s.src SELECT CAST(id AS INT), CAST(id % 3 AS INT), id FROM range(0, 9, 1, 1)")
    tr.create_stream_table("s.totals", TOTALS, mode="differential")
    tr.create_stream_table("s.big", "SELECT k, total FROM s.totals WHERE total > 9", mode="differential")
    tr.sql("CREATE VIEW s.seen AS SELECT k, total FROM big WHERE k > 1")
    tr.create_cut("monday")
    tr.sql("INSERT INTO s.src VALUES (100, 0, 1000)")
    tr.refresh("s.big")
    routes = rest_catalog.router(tr.store, tr.settings, partial(jvm.read_file, tr.spark))
    with served(app_of(routes, "/iceberg", token=TOKEN)) as address:
        yield Served(tr, f"{address}/iceberg")


AT_CUT = {
    "s.totals": [(0, 3, 9), (1, 3, 12), (2, 3, 15)],
    "s.big": [(1, 12), (2, 15)],
}
HEAD = {
    "s.totals": [(0, 4, 1009), (1, 3, 12), (2, 3, 15)],
    "s.big": [(0, 1009), (1, 12), (2, 15)],
}


def test_spark_reads_the_lake_and_a_cut(lake: Served) -> None:
    at_cut, head = lake.spark("monday"), lake.spark("lake")
    for read, expected in ((at_cut, AT_CUT), (head, HEAD)):
        assert {name: read(f"SELECT * FROM rest.{name}") for name in expected} == expected
    assert at_cut("SELECT count(*) FROM src") == [(9,)]
    assert head("SELECT count(*) FROM src") == [(10,)]
    assert at_cut("SELECT * FROM seen") == [(2, 15)]  # a view, whose names are those of the cut
    assert {row[1] for row in head("SHOW TABLES IN rest.s")} >= {"src", "totals", "big"}
    assert ("_trickle",) not in head("SHOW NAMESPACES IN rest")


def test_spark_reads_old_snapshots_and_sees_new_ones(lake: Served) -> None:
    # The snapshots that no branch has are fetched when they are asked for.
    tr, head = lake.tr, lake.spark("lake", snapshot_loading_mode="refs", rest_page_size="2")
    tr.sql("CREATE TABLE s.few (k INT)")
    tr.sql("INSERT INTO s.few VALUES (1)")
    tr.create_stream_table("s.kept", "SELECT k FROM s.few", mode="differential")
    assert head("SELECT * FROM rest.s.kept") == [(1,)]
    old = head("SELECT snapshot_id FROM rest.s.kept.snapshots")[0][0]
    tr.sql("INSERT INTO s.few VALUES (2)")
    assert tr.refresh("s.kept").action is Action.DIFFERENTIAL
    assert head("SELECT * FROM rest.s.kept") == [(1,), (2,)]
    assert head(f"SELECT * FROM rest.s.kept VERSION AS OF {old}") == [(1,)]
    assert {row[1] for row in head("SHOW TABLES IN rest.s")} >= {"few", "kept", "src", "totals", "big"}


@pytest.mark.parametrize(
    "statement",
    [
        "INSERT INTO rest.s.totals VALUES (1, 1, 1)",
        "DELETE FROM rest.s.src WHERE k = 1",
        "CREATE TABLE rest.s.other (a INT)",
        "DROP TABLE rest.s.big",
        "ALTER TABLE rest.s.big SET TBLPROPERTIES ('a' = 'b')",
        "CREATE NAMESPACE rest.other",
    ],
)
def test_spark_cannot_write(lake: Served, statement: str) -> None:
    before = lake.tr.store.pointers()
    head = lake.spark("lake")
    with pytest.raises(Exception, match=r"(?i)does not support endpoint|read-only"):
        head(statement)
    assert lake.tr.store.pointers() == before


def test_duckdb_reads_the_lake_and_a_cut(lake: Served) -> None:
    for warehouse, expected in (("lake", HEAD), ("monday", AT_CUT)):
        connection = lake.duckdb(warehouse)
        read = {name: sorted(connection.sql(f"SELECT * FROM rest.{name}").fetchall()) for name in expected}
        assert read == expected
        with pytest.raises(Exception, match="read-only"):
            connection.execute("DROP TABLE rest.s.big")


def test_a_metadata_file_through_spark(lake: Served) -> None:
    location = lake.tr.store.pointers()[TableName("s", "totals")].location
    with open(location.removeprefix("file:").replace("///", "/"), "rb") as file:
        assert jvm.read_file(lake.tr.spark, location) == file.read()
    with pytest.raises(FileNotFoundError):
        jvm.read_file(lake.tr.spark, f"{location}.gone")


def test_a_cut_stays_while_refreshes_publish(lake: Served) -> None:
    """PyIceberg and Spark read a cut, and PyIceberg the head, over and over, while refreshes move the head."""
    tr = lake.tr
    over_spark = lake.spark("monday")
    read: dict[str, Callable[[str], Rows]] = {
        "pyiceberg": lake.pyiceberg("monday"),
        "spark": lambda name: over_spark(f"SELECT * FROM rest.{name}"),
        "head": lake.pyiceberg("lake"),
    }
    seen: dict[str, list[dict[str, Rows]]] = {reader: [] for reader in read}
    done = threading.Event()

    def keep_reading(reader: str) -> None:
        while True:
            last = done.is_set()
            seen[reader].append({name: read[reader](name) for name in AT_CUT})
            if last:
                return

    with ThreadPoolExecutor(len(read)) as pool:
        running = [pool.submit(keep_reading, reader) for reader in read]
        try:
            for step in (1, 2, 3):
                tr.sql(f"INSERT INTO s.src VALUES ({step}, 1, {100 * step}), ({step}, 2, {100 * step})")
                assert tr.refresh("s.big").action is Action.DIFFERENTIAL
        finally:
            done.set()
        for each in running:
            each.result(60)
    assert all(found == AT_CUT for reader in ("pyiceberg", "spark") for found in seen[reader])
    assert min(len(found) for found in seen.values()) >= 2, "each read before the end and after it"
    assert seen["head"][-1]["s.big"] == [(0, 1009), (1, 612), (2, 615)]
    for found in seen["head"]:  # a published state, and not half of one
        assert [row[2] for row in found["s.totals"]] in [[1009, 12 + n, 15 + n] for n in (0, 100, 300, 600)]
    # What the cut reads is protected: the lake forgets its old snapshots, the cut has them.
    for name in AT_CUT:
        until = "older_than => TIMESTAMP '2100-01-01', retain_last => 1"
        tr.sql(f"CALL lake.system.expire_snapshots(table => '{name}', {until})")
    assert {name: read["spark"](name) for name in AT_CUT} == AT_CUT
    again = lake.pyiceberg("monday")
    assert {name: again(name) for name in AT_CUT} == AT_CUT
