"""Lineage through stream tables, from what the catalog has stored of each."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest
from sqlalchemy import text

from spark_trickle.catalog.database import open_catalog
from spark_trickle.catalog.store import CatalogStore
from spark_trickle.cli.app import run
from spark_trickle.config import Settings
from spark_trickle.errors import TrickleError
from spark_trickle.model import Dependency, InputKind, Lineage, Origin, Status, TableName, Via
from spark_trickle.monitor.lineage import LineageEntry, NotStored, comes_from, depends_on, lineage
from tests.catalog.records import add_revenue

T, A, B, C = (TableName("s", n) for n in "tabc")


def o(table: TableName, column: str, via: Via) -> Origin:
    return Origin(table, column, via)


# a: SELECT id, price * 2 AS twice FROM t WHERE state = 1
OF_A = Lineage(
    {"id": frozenset([o(T, "id", Via.IDENTITY)]), "twice": frozenset([o(T, "price", Via.TRANSFORMATION)])},
    frozenset([o(T, "state", Via.FILTER), o(T, "", Via.ROWS)]),
)
# b: SELECT id, sum(twice) AS total FROM a GROUP BY id
OF_B = Lineage(
    {"id": frozenset([o(A, "id", Via.IDENTITY)]), "total": frozenset([o(A, "twice", Via.AGGREGATION)])},
    frozenset([o(A, "id", Via.GROUP_BY), o(A, "", Via.ROWS)]),
)
# c: SELECT b.total AS best FROM b JOIN t ON b.id = t.id AND t.state = b.total
OF_C = Lineage(
    {"best": frozenset([o(B, "total", Via.IDENTITY)])},
    frozenset(
        [
            o(B, "id", Via.JOIN),
            o(B, "total", Via.JOIN),
            o(T, "id", Via.JOIN),
            o(T, "state", Via.JOIN),
            o(B, "", Via.ROWS),
            o(T, "", Via.ROWS),
        ]
    ),
)
ALL = {A: OF_A, B: OF_B, C: OF_C}


def shown(entries: tuple[LineageEntry, ...]) -> list[str]:
    return [str(e) for e in entries]


def test_to_the_sources() -> None:
    assert shown(comes_from(C, "BEST", ALL)) == [
        "s.c.best <- AGGREGATION s.t.price",
        "s.c.* <- FILTER s.t.state",
        "s.c.* <- JOIN s.t.id",
        "s.c.* <- JOIN s.t.price",
        "s.c.* <- JOIN s.t.state",
        "s.c.* <- GROUP_BY s.t.id",
        "s.c.* <- ROWS s.t.*",
    ]


def test_depth() -> None:
    one = shown(comes_from(C, "best", ALL, depth=1))
    assert one[0] == "s.c.best <- IDENTITY s.b.total"
    assert "s.c.* <- ROWS s.b.*" in one
    two = shown(comes_from(C, "best", ALL, depth=2))
    assert two[0] == "s.c.best <- AGGREGATION s.a.twice"
    assert "s.c.* <- GROUP_BY s.a.id" in two
    assert comes_from(C, "best", ALL, depth=9) == comes_from(C, "best", ALL)
    assert [e.direct for e in comes_from(C, "best", ALL)] == [True, *[False] * 6]


def test_all_columns() -> None:
    found = comes_from(A, None, ALL)
    assert [(e.column, e.from_column) for e in found] == [
        ("id", "id"),
        ("twice", "price"),
        ("", "state"),
        ("", ""),
    ]
    with pytest.raises(TrickleError, match=r"s\.a has no column nope; it has: id, twice"):
        comes_from(A, "nope", ALL)


def test_what_depends_on_a_column() -> None:
    assert shown(depends_on(T, "price", ALL)) == [
        "s.a.twice <- TRANSFORMATION s.t.price",
        "s.b.total <- AGGREGATION s.t.price",
        "s.c.best <- AGGREGATION s.t.price",
        "s.c.* <- JOIN s.t.price",
    ]
    assert shown(depends_on(T, "price", ALL, depth=1)) == ["s.a.twice <- TRANSFORMATION s.t.price"]
    # It decides which rows a has, so which rows b and c have.
    assert shown(depends_on(T, "state", ALL)) == [
        "s.a.* <- FILTER s.t.state",
        "s.c.* <- FILTER s.t.state",
        "s.c.* <- JOIN s.t.state",
        "s.b.* <- FILTER s.t.state",
    ]
    assert shown(depends_on(B, None, ALL)) == [
        "s.c.best <- IDENTITY s.b.*",
        "s.c.* <- JOIN s.b.*",
        "s.c.* <- ROWS s.b.*",
    ]
    assert depends_on(C, None, ALL) == ()


def test_both_ways_say_the_same() -> None:
    up = {
        (e.table, e.column, e.from_column, e.via) for name in ALL for e in comes_from(name, None, ALL) if e.from_column
    }
    down = {(e.table, e.column, c, e.via) for c in ("id", "price", "state") for e in depends_on(T, c, ALL)}
    assert up == down


# -- over a catalog ----------------------------------------------------------------------------------------------------


@pytest.fixture
def settings(tmp_path: Path) -> Settings:
    return Settings.load(tmp_path / "lakehouse")


@pytest.fixture
def store(settings: Settings) -> Iterator[CatalogStore]:
    settings.location.mkdir()
    opened = open_catalog(settings.sqlalchemy_url)
    with opened.write() as tx:
        for name, reads in ((A, [T]), (B, [A]), (C, [B, T])):
            id_ = add_revenue(tx, name=name, status=Status.ACTIVE)
            kinds = {T: InputKind.SOURCE}
            tx.set_dependencies(id_, [Dependency(r, kinds.get(r, InputKind.STREAM_TABLE)) for r in reads])
            tx.put_lineage(id_, ALL[name])
    yield opened
    opened.close()


def test_stored_and_read(store: CatalogStore) -> None:
    assert store.lineages() == ALL
    with store.write() as tx:
        tx.put_lineage(store.find(C).id, OF_A)
    assert store.lineages()[C] == OF_A
    with store.write() as tx:
        tx.delete_stream_table(store.find(C).id)
        tx.put_lineage(store.find(B).id, None)
    assert store.lineages() == {A: OF_A}
    with store.write() as tx:
        tx.connection.execute(text('UPDATE trickle_lineage SET lineage = \'{"columns": {}, "rows": [["s"]]}\''))
    with pytest.raises(TrickleError, match="table trickle_lineage, row 1, column lineage") as caught:
        store.lineages()
    assert caught.value.code == "CATALOG_CORRUPT"


def test_names(store: CatalogStore) -> None:
    whole = lineage(store, TableName("s.c", "best"))
    assert whole == lineage(store, C, "best") == comes_from(C, "best", ALL)
    assert lineage(store, TableName("s.t", "price"), down=True) == depends_on(T, "price", ALL)
    assert lineage(store, T, down=True) == depends_on(T, None, ALL)
    for name, down in ((T, False), (TableName("s", "nope"), True)):
        with pytest.raises(TrickleError, match="there is no stream table") as caught:
            lineage(store, name, down=down)
        assert caught.value.code == "UNKNOWN_STREAM_TABLE"
    with pytest.raises(TrickleError, match="depth is 0"):
        lineage(store, C, depth=0)


def test_what_is_not_stored_is_compiled(store: CatalogStore) -> None:
    with store.write() as tx:
        tx.put_lineage(store.find(A).id, None)
    with pytest.raises(NotStored, match=r"s\.a"):
        lineage(store, C)
    asked: list[TableName] = []

    def compile_it(names: object) -> None:
        asked.extend(names)  # type: ignore[call-overload]
        with store.write() as tx:
            tx.put_lineage(store.find(A).id, OF_A)

    assert lineage(store, C, store=compile_it) == comes_from(C, None, ALL)
    assert asked == [A]
    with store.write() as tx:  # one that we cannot read: what is above it is not seen
        tx.put_lineage(store.find(A).id, None)
        tx.update_stream_table(store.find(A).id, incremental=False, reason="SQL_ROUNDTRIP: x")
    assert "s.c.best <- AGGREGATION s.a.twice" in shown(lineage(store, C))
    with pytest.raises(TrickleError, match=r"s\.a is recomputed, for SQL_ROUNDTRIP: x") as caught:
        lineage(store, A)
    assert caught.value.code == "UNKNOWN_LINEAGE"


def test_the_command(
    store: CatalogStore, settings: Settings, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    del store
    monkeypatch.setattr("spark_trickle.engine.build_session", lambda *_, **__: pytest.fail("Spark was started"))
    command = ["--lake", str(settings.location), "lineage"]
    assert run([*command, "s.c.best"]) == 0
    assert "AGGREGATION  s.t.price" in capsys.readouterr().out
    assert run([*command, "s.t.price", "--down", "--output", "json"]) == 0
    assert json.loads(capsys.readouterr().out)[1] == {
        "table": "s.b",
        "column": "total",
        "from_table": "s.t",
        "from_column": "price",
        "via": "AGGREGATION",
        "direct": True,
    }
    assert run([*command, "s.nope"]) == 2
