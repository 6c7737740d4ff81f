"""A publish is all or nothing, whatever fails and whoever else writes."""

from __future__ import annotations

from collections.abc import Collection
from typing import Any

import pytest

from spark_trickle import Action, Trickle, TrickleError
from spark_trickle.model import TableName
from spark_trickle.sql.algebra import Operator
from tests.engine.lakes import Rows, other_session, private_catalogs, rows, unreferenced

GROUP = ["s.a", "s.b", "s.c"]


@pytest.fixture
def group(tr: Trickle) -> Trickle:
    """Three stream tables over one source; the third divides by `d`, so a zero there fails it alone."""
    tr.sql("CREATE TABLE s.src (id BIGINT, k STRING, v BIGINT, d BIGINT)")
    tr.sql("INSERT INTO s.src SELECT id, concat('k', id % 4), id, 1 FROM range(200)")
    tr.create_stream_table("s.a", "SELECT id, v FROM s.src WHERE v % 2 = 0", mode="differential")
    totals = "SELECT k, count(*) AS n, sum(v) AS total FROM s.src GROUP BY k"
    tr.create_stream_table("s.b", totals, mode="differential")
    tr.create_stream_table("s.c", "SELECT id, v div d AS q FROM s.src", mode="differential")
    return tr


def seen(session: Any) -> tuple[Rows, Rows, Rows]:
    return (
        rows(session, "SELECT count(*), sum(v) FROM lake.s.a"),
        rows(session, "SELECT * FROM lake.s.b"),
        rows(session, "SELECT count(*), sum(q) FROM lake.s.c"),
    )


def change(tr: Trickle, step: int) -> None:
    tr.sql(f"INSERT INTO s.src VALUES ({1000 + step}, 'k{step % 4}', {2 * step}, 1), ({2000 + step}, 'new', 4, 1)")


def check_all(tr: Trickle) -> None:
    for name in GROUP:
        found = tr.verify(name)
        assert found.equal, str(found)
    assert private_catalogs(tr) == set()
    assert unreferenced(tr, GROUP) == set()


class Fault:
    """A probe that records the points it passes, and fails at one of them."""

    def __init__(self, at: str | None, error: BaseException | None = None) -> None:
        self.at = at
        self.error = error or TrickleError("STORAGE_FULL", f"injected {at}")
        self.points: list[str] = []

    def __call__(self, point: str) -> None:
        self.points.append(point)
        if point == self.at:
            raise self.error


def test_failure_at_every_point(group: Trickle) -> None:
    tr = group
    reader = other_session(tr)
    change(tr, 0)
    recorder = tr.refresher.probe = Fault(None)
    results = tr.refresh(GROUP)
    print("publish of three:", results[-1].stages["publish"], "s; refresh of three:", sum(r.seconds for r in results))
    points = recorder.points
    assert points == [
        "before checks",
        "before transaction",
        *(f"in transaction, before {n}" for n in GROUP),
        "before commit",
        "after commit",
    ]
    assert points.pop() == "after commit"
    for step, point in enumerate(points, start=1):
        old = seen(reader)
        change(tr, step)
        pointers = tr.store.pointers()
        # One of the failures is not an Exception: what the user interrupts is cleaned up as well.
        error = KeyboardInterrupt() if point == "before transaction" else None
        tr.refresher.probe = Fault(point, error)
        with pytest.raises(KeyboardInterrupt if error else TrickleError, match=None if error else "injected"):
            tr.refresh(GROUP)
        tr.refresher.probe = None
        assert seen(reader) == old, point
        assert tr.store.pointers() == pointers, "nothing of the lake moved"
        last = [tr.history(name, limit=1)[0] for name in GROUP]
        assert {e.state for e in last} == {"FAILED"}, point
        assert {e.error_code for e in last} == {"SPARK_FAILED" if error else "STORAGE_FULL"}, point
        assert private_catalogs(tr) == set(), point
        assert unreferenced(tr, GROUP) == set(), point
        if step % 2:  # else the next repair makes up for two failures
            assert {r.action for r in tr.refresh(GROUP)} == {Action.DIFFERENTIAL}
            assert all(a != b for a, b in zip(old, seen(reader), strict=True)), point
    change(tr, 20)
    tr.refresh(GROUP)
    check_all(tr)
    assert rows(reader, "SELECT count(*) FROM lake.s.c") == rows(reader, "SELECT count(*) FROM lake.s.src")


def test_failure_after_the_commit(group: Trickle) -> None:
    """It is published: the files of the new state are in use, whatever is raised now."""
    tr = group
    reader = other_session(tr)
    old = seen(reader)
    change(tr, 1)
    tr.refresher.probe = Fault("after commit")
    with pytest.raises(TrickleError, match="injected"):
        tr.refresh(GROUP)
    with pytest.raises(TrickleError, match="injected"):
        tr.create_stream_table("s.d", "SELECT id FROM s.src")
    tr.refresher.probe = None
    assert all(a != b for a, b in zip(old, seen(reader), strict=True))
    assert {tr.history(name, limit=1)[0].state for name in GROUP} == {"COMPLETED"}
    assert {r.action for r in tr.refresh(GROUP)} == {Action.NO_DATA}
    check_all(tr)
    assert tr.verify("s.d").equal


def test_failure_while_staging(group: Trickle) -> None:
    """The third of the group fails at run time: the first two, staged already, are not published either."""
    tr = group
    reader = other_session(tr)
    old, pointers = seen(reader), tr.store.pointers()
    tr.sql("INSERT INTO s.src VALUES (3000, 'k1', 8, 0)")
    source = tr.store.pointers()[TableName("s", "src")]
    with pytest.raises(TrickleError, match=r"s\.c.*DIVIDE_BY_ZERO") as caught:
        tr.refresh(GROUP)
    assert caught.value.code == "EVALUATION_FAILED"
    assert seen(reader) == old
    assert tr.store.pointers() == {**pointers, source.name: source}
    for name in GROUP:
        entry = tr.history(name, limit=1)[0]
        if name == "s.c":
            assert (entry.state, entry.error_code) == ("FAILED", "EVALUATION_FAILED")
            assert "DIVIDE_BY_ZERO" in str(entry.error)
        else:
            assert (entry.state, entry.action) == ("COMPLETED", Action.SKIP)
            assert str(entry.reason).startswith("GROUP_FAILED: it is published together with s.c, which failed: ")
    assert private_catalogs(tr) == set()
    assert unreferenced(tr, GROUP) == set()
    # Each by itself: those that can, do.
    assert tr.refresh("s.a").action is Action.DIFFERENTIAL
    tr.sql("DELETE FROM s.src WHERE d = 0")
    tr.refresh(GROUP)
    check_all(tr)


def test_failed_create_and_alter_leave_nothing(group: Trickle) -> None:
    tr = group
    before = tr.store.pointers()
    for point in ("before checks", "in transaction, before s.d", "before commit"):
        tr.refresher.probe = Fault(point)
        with pytest.raises(TrickleError, match="injected"):
            tr.create_stream_table("s.d", "SELECT id FROM s.src")
        assert tr.store.pointers() == before
    tr.refresher.probe = Fault("before commit")
    with pytest.raises(TrickleError, match="injected"):
        tr.alter_stream_table("s.a", "SELECT id, v, k FROM s.src")
    tr.refresher.probe = None
    assert tr.store.pointers() == before
    assert tr.spark.table("s.a").columns == ["id", "v"]
    warehouse = tr.settings.warehouse_path
    assert warehouse is not None
    assert not [f for f in warehouse.rglob("d-*/data/*") if f.is_file()]
    check_all(tr)
    tr.create_stream_table("s.d", "SELECT id FROM s.src")
    tr.alter_stream_table("s.a", "SELECT id, v, k FROM s.src")
    assert tr.verify("s.d").equal
    check_all(tr)


def test_commit_between_staging_and_publish(group: Trickle) -> None:
    tr = group
    outsider = other_session(tr)

    def meanwhile(statement: str) -> None:
        def probe(point: str) -> None:
            if point == "before transaction":
                outsider.sql(statement)

        tr.refresher.probe = probe
        with pytest.raises(TrickleError) as caught:
            tr.refresh(GROUP)
        tr.refresher.probe = None
        assert caught.value.code == "PUBLISH_CONFLICT", caught.value
        assert caught.value.retryable
        assert {tr.history(n, limit=1)[0].error_code for n in GROUP} == {"PUBLISH_CONFLICT"}
        assert private_catalogs(tr) == set()

    # A commit that changes no row: refused, then repaired without a recompute; the commit stays.
    change(tr, 1)
    old = seen(outsider)
    meanwhile("ALTER TABLE lake.s.a SET TBLPROPERTIES ('note' = 'somebody')")
    assert seen(outsider) == old
    assert {r.action for r in tr.refresh(GROUP)} == {Action.DIFFERENTIAL}
    assert ("note", "somebody") in rows(outsider, "SHOW TBLPROPERTIES lake.s.a")
    check_all(tr)

    # Rows written to an AUTO table: refused; the foreign row stays until a recompute that says so.
    tr.alter_stream_table("s.a", mode="auto")
    change(tr, 2)
    meanwhile("INSERT INTO lake.s.a SELECT * FROM lake.s.a WHERE id = 0")
    assert rows(outsider, "SELECT count(*) FROM lake.s.a WHERE id = 0") == [(2,)]
    by_name = {r.name: r for r in tr.refresh(GROUP)}
    assert by_name["s.a"].action is Action.REINITIALIZE
    assert by_name["s.a"].reason.startswith("INTEGRITY")
    assert by_name["s.b"].action is Action.DIFFERENTIAL
    assert [(a.kind, a.name) for a in tr.store.alerts()] == [("INTEGRITY", "s.a")]
    check_all(tr)

    # Rows deleted from a DIFFERENTIAL table: an error at every refresh until FULL is asked for; nothing changes.
    change(tr, 3)
    meanwhile("DELETE FROM lake.s.b WHERE k = 'k1'")
    pointers, old = tr.store.pointers(), seen(outsider)
    for _ in range(2):
        with pytest.raises(TrickleError) as caught:
            tr.refresh(GROUP)
        assert caught.value.code == "INTEGRITY"
    assert (tr.store.pointers(), seen(outsider)) == (pointers, old)
    assert tr.refresh("s.b", mode="full").action is Action.FULL
    tr.refresh(GROUP)
    check_all(tr)

    # The same without a pending change: noticed all the same.
    tr.alter_stream_table("s.c", mode="auto")
    outsider.sql("DELETE FROM lake.s.c WHERE id < 10")
    assert tr.refresh("s.c").reason.startswith("INTEGRITY")
    check_all(tr)


def test_late_write_of_an_abandoned_attempt(group: Trickle) -> None:
    from spark_trickle.lake.jvm import handles

    tr = group
    change(tr, 1)
    kept: list[Any] = []

    def abandon(point: str) -> None:
        (catalog,) = private_catalogs(tr)
        session = other_session(tr, catalog)
        load = handles(session).jvm.org.apache.iceberg.spark.Spark3Util.loadIcebergTable
        kept.extend([catalog, session, load(session._jsparkSession, f"{catalog}.s.a")])
        raise TrickleError("SPARK_FAILED", "abandoned")

    old = seen(other_session(tr))
    tr.refresher.probe = abandon
    with pytest.raises(TrickleError, match="abandoned"):
        tr.refresh(GROUP)
    tr.refresher.probe = None
    catalog, session, table = kept
    pointers = tr.store.pointers()
    # A job of it that is still running now commits through the table it had loaded, or by name.
    with pytest.raises(Exception, match=r"Commit|NoSuchTable|does not exist"):
        table.updateProperties().set("late", "1").commit()
    with pytest.raises(Exception, match=f"TABLE_OR_VIEW_NOT_FOUND.*{catalog}"):
        session.sql(f"DELETE FROM {catalog}.s.a")
    assert tr.store.pointers() == pointers
    assert seen(other_session(tr)) == old
    tr.refresh(GROUP)
    assert catalog not in private_catalogs(tr)
    check_all(tr)


def test_foreign_write_into_a_running_attempt(group: Trickle) -> None:
    """Into the copy after it was recorded: not published. Between two steps: refused."""
    tr = group
    written: list[str] = []

    def write() -> None:
        (catalog,) = private_catalogs(tr)
        written.append(catalog)
        copy = f"{catalog}.s.a"
        other_session(tr, catalog).sql(f"INSERT INTO {copy} SELECT * FROM {copy}")

    change(tr, 1)
    tr.refresher.probe = lambda point: write() if point == "before checks" else None
    assert {r.action for r in tr.refresh(GROUP)} == {Action.DIFFERENTIAL}
    tr.refresher.probe = None
    assert len(written) == 1
    for name in GROUP:
        assert tr.verify(name).equal
    assert private_catalogs(tr) == set()

    def passing(tree: Operator, changed: Collection[TableName]) -> Operator:
        del changed
        if len(written) == 1:
            write()
        return tree

    change(tr, 2)
    old, passes = seen(other_session(tr)), tr.refresher.passes
    tr.refresher.passes = (*passes, passing)
    with pytest.raises(TrickleError) as caught:
        tr.refresh(GROUP)
    tr.refresher.passes = passes
    assert (caught.value.code, len(written)) == ("PUBLISH_CONFLICT", 2)
    assert seen(other_session(tr)) == old
    tr.refresh(GROUP)
    for name in GROUP:
        assert tr.verify(name).equal
    assert private_catalogs(tr) == set()


def test_dropped_while_a_new_consumer_was_filled(tr: Trickle) -> None:
    """Either the consumer is refused or the drop: never a stream table over nothing."""
    tr.sql("CREATE TABLE s.t (id BIGINT)")
    tr.create_stream_table("s.base", "SELECT id FROM s.t")

    def drop_base(point: str) -> None:
        if point == "before transaction":
            tr.refresher.probe = None
            tr.drop_stream_table("s.base")

    tr.refresher.probe = drop_base
    try:
        with pytest.raises(TrickleError, match="PUBLISH_CONFLICT"):
            tr.create_stream_table("s.late", "SELECT id FROM s.base")
    finally:
        tr.refresher.probe = None
    assert not [s for s in tr.status() if s.name in ("s.base", "s.late")]
