"""What waits at inputs, and how sources stand: from metadata files, which PyIceberg writes here."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from pyiceberg.catalog.sql import SqlCatalog

from spark_trickle.catalog.database import open_catalog
from spark_trickle.catalog.store import CatalogStore
from spark_trickle.cli.app import run
from spark_trickle.config import Settings
from spark_trickle.errors import TrickleError
from spark_trickle.lake.metadata_files import MetadataFiles, NotLocal
from spark_trickle.lake.table_history import Commit, TableHistories, TableHistory
from spark_trickle.model import Dependency, InputKind, Pointer, Source, Status, TableName
from spark_trickle.monitor.pending import Behind, pending, source_states
from tests.catalog.records import add_revenue, table_pointer

T, A, B = (TableName("s", n) for n in ("t", "a", "b"))
HISTORIES = TableHistories(MetadataFiles()).of


@pytest.fixture
def settings(tmp_path: Path) -> Settings:
    return Settings.load(tmp_path / "lakehouse")


@pytest.fixture
def store(settings: Settings) -> Iterator[CatalogStore]:
    settings.location.mkdir()
    opened = open_catalog(settings.sqlalchemy_url)
    yield opened
    opened.close()


@pytest.fixture
def table(store: CatalogStore, settings: Settings) -> Any:
    """s.t with one commit of three rows."""
    where = f"file://{settings.location}/warehouse"
    catalog = SqlCatalog("lake", uri=str(store.database.url), warehouse=where)
    catalog.create_namespace("s")
    made = catalog.create_table("s.t", pa.schema([("id", pa.int64())]))
    made.append(rows(3))
    return made


def rows(count: int) -> pa.Table:
    return pa.table({"id": pa.array(range(count), pa.int64())})


def read(store: CatalogStore, name: TableName, then: Dependency) -> None:
    with store.write() as tx:
        id_ = add_revenue(tx, name=name, status=Status.ACTIVE, schedule="5m")
        tx.set_dependencies(id_, [then])
        tx.insert_pointer(table_pointer(name))


def now_at(store: CatalogStore, made: Any) -> Dependency:
    """The frontier of who reads it now."""
    head = made.current_snapshot()
    uuid = str(made.metadata.table_uuid)
    return Dependency(T, InputKind.SOURCE, (), uuid, head.snapshot_id, 0, store.pointers()[T].location)


def test_commits_since_the_frontier(store: CatalogStore, table: Any) -> None:
    then = now_at(store, table)
    read(store, A, then)
    read(store, B, Dependency(T, InputKind.SOURCE))
    a, b = pending(store, HISTORIES)
    assert (a.state, a.commits, a.rows_added, a.oldest_at) == (Behind.NOTHING, 0, 0, None)
    assert (b.state, b.commits, b.rows_added, b.current) == (Behind.NEVER_READ, 1, 3, then.snapshot_id)

    table.append(rows(5))
    first = datetime.fromtimestamp(table.current_snapshot().timestamp_ms / 1000, UTC)
    table.append(rows(2))
    table.delete("id = 4")  # one of five rows of a file: a copy-on-write
    (a,) = pending(store, HISTORIES, A, now=first + timedelta(seconds=90))
    # The delete writes four rows of the file again, which the summary counts.
    assert (a.state, a.commits, a.rows_added, a.rows_deleted) == (Behind.CHANGES, 3, 5 + 2 + 4, 5)
    assert (a.files_added, a.files_removed) == (3, 1)
    assert (a.oldest_at, a.age_seconds) == (first, 90)
    assert (a.frontier, a.current) == (then.snapshot_id, table.current_snapshot().snapshot_id)
    with table.transaction() as tx:
        tx.set_properties(owner="me")
    assert pending(store, HISTORIES, A, now=first)[0].commits == 3


def test_a_property_is_no_change(store: CatalogStore, table: Any) -> None:
    read(store, A, now_at(store, table))
    with table.transaction() as tx:
        tx.set_properties(owner="me")
    (a,) = pending(store, HISTORIES)
    assert (a.state, a.commits) == (Behind.NOTHING, 0)


def test_what_cannot_be_read_on_from(store: CatalogStore, table: Any) -> None:
    then = now_at(store, table)
    table.append(rows(1))
    read(store, A, then)
    read(store, B, replace(then, table_uuid="another"))
    c, d, e = (TableName("s", n) for n in "cde")
    read(store, c, replace(then, snapshot_id=1))
    read(store, d, replace(then, input=TableName("s", "gone")))
    read(store, e, replace(then, kind=InputKind.VIEW))
    states = [p.state for p in pending(store, HISTORIES)]
    assert states == [Behind.CHANGES, Behind.REPLACED, Behind.EXPIRED, Behind.DROPPED, Behind.VIEW_CHANGED]
    assert [p.rows_added for p in pending(store, HISTORIES)] == [1, None, None, None, 0]
    table.manage_snapshots().set_current_snapshot(snapshot_id=then.snapshot_id).commit()  # a rollback
    behind = replace(then, snapshot_id=table.metadata.snapshots[-1].snapshot_id)
    f = TableName("s", "f")
    read(store, f, behind)
    assert pending(store, HISTORIES, f)[0].state is Behind.REWOUND
    with pytest.raises(TrickleError, match=r"there is no stream table s\.nope; there are: s\.a, s\.b"):
        pending(store, HISTORIES, TableName("s", "nope"))


def test_versions_that_count_up(store: CatalogStore) -> None:
    """As those of Delta Lake: how many commits, not what they did."""
    read(store, A, Dependency(T, InputKind.SOURCE, (), "u", 4, 0, "v4"))
    read(store, B, Dependency(T, InputKind.SOURCE))
    at7 = {T: Pointer(T, "v7", is_view=False)}

    def history(_location: str) -> TableHistory:
        return TableHistory(format="delta", uuid="u", head=7, numbered=True)

    a, b = pending(store, history, pointers=at7)
    assert (a.state, a.commits, a.rows_added, a.age_seconds) == (Behind.CHANGES, 3, None, None)
    assert (b.state, b.commits) == (Behind.NEVER_READ, None)
    (source,) = source_states(store, history, at7)
    assert (source.format, source.behind, source.oldest_frontier, source.readers) == ("delta", 3, 4, ("s.a", "s.b"))


def test_a_compaction_changes_no_rows() -> None:
    at = datetime(2026, 1, 1, tzinfo=UTC)
    commits = {
        1: Commit(1, None, at, "append", rows_added=10, files_added=2),
        2: Commit(2, 1, at, "replace", rows_added=10, rows_deleted=10, files_added=1, files_removed=2),
        3: Commit(3, 2, at, "append", rows_added=1, files_added=1),
    }
    history = TableHistory("iceberg v3", "u", 3, commits)
    assert [c.id for c in history.since(1) or ()] == [3, 2]
    assert [c.changes_rows for c in history.since(1) or ()] == [True, False]
    assert history.since(3) == ()
    assert history.since(7) is None
    assert [c.id for c in history.since(None) or ()] == [3, 2, 1]


def test_sources(store: CatalogStore, table: Any) -> None:
    first = now_at(store, table)
    read(store, A, first)
    table.append(rows(4))
    second = now_at(store, table)
    read(store, B, second)
    (t,) = source_states(store, HISTORIES)
    assert (t.name, t.format, t.readers, t.rows) == ("s.t", "iceberg v2", ("s.a", "s.b"), 7)
    assert (t.oldest_frontier, t.oldest_reader, t.behind) == (first.snapshot_id, "s.a", 1)
    assert (t.frontiers, t.protected, t.frontiers_readable) == (2, 1, True)  # the current one needs no tag
    assert t.changed_at == datetime.fromtimestamp(table.current_snapshot().timestamp_ms / 1000, UTC)
    assert t.exposed_since == t.changed_at  # the commit after the frontier of s.a
    table.manage_snapshots().create_tag(first.snapshot_id, f"trickle_frontier_{first.snapshot_id}").commit()
    (t,) = source_states(store, HISTORIES)
    assert (t.protected, t.exposed_since) == (2, None)

    read(store, TableName("s", "c"), replace(first, snapshot_id=1))
    (t,) = source_states(store, HISTORIES)
    assert (t.frontiers_readable, t.behind) == (False, None)
    assert "it will be recomputed" in str(t.problem)


def test_sources_that_are_gone_or_unread(store: CatalogStore) -> None:
    read(store, A, Dependency(T, InputKind.SOURCE, (), "u", 4, 0, "file:/nowhere.json"))
    with store.write() as tx:
        tx.add_source(Source("s.clicks", "delta", "/data/clicks", "file:/w/clicks/view.json"))
    clicks, t = source_states(store, HISTORIES)
    assert (clicks.format, clicks.readers, clicks.problem is not None) == ("delta", (), True)  # nobody reads it
    assert (t.problem, t.current) == ("the table is gone", None)


def test_files_elsewhere_need_a_session(store: CatalogStore) -> None:
    with store.write() as tx:
        tx.insert_pointer(Pointer(T, "s3a://bucket/t/metadata/1.json", is_view=False))
    read(store, A, Dependency(T, InputKind.SOURCE))
    for call in (pending, source_states):
        with pytest.raises(NotLocal):
            call(store, HISTORIES)


@pytest.mark.parametrize(("command", "text"), [("pending", "CHANGES"), ("sources", "iceberg v2")])
def test_commands(
    store: CatalogStore,
    table: Any,
    settings: Settings,
    command: str,
    text: str,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    read(store, A, now_at(store, table))
    table.append(rows(4))
    monkeypatch.setattr("spark_trickle.engine.build_session", lambda *_, **__: pytest.fail("Spark was started"))
    monkeypatch.setenv("COLUMNS", "200")
    assert run(["--lake", str(settings.location), command]) == 0
    assert text in capsys.readouterr().out
