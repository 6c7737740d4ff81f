"""The thin path, a group publish and a cut with the catalog in PostgreSQL."""

from __future__ import annotations

import os
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from spark_trickle import Action, Trickle, TrickleError, connect
from tests.engine.lakes import other_session, private_catalogs, rows
from tests.postgres import NoPostgres, fresh_database, temporary_postgres

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

GROUP = ["s.a", "s.b", "s.c"]


@pytest.fixture
def pg(spark: SparkSession, tmp_path: Path) -> Iterator[Trickle]:
    try:
        server = temporary_postgres()
        url = server.__enter__()
    except NoPostgres as error:
        if os.environ.get("REQUIRE_POSTGRES"):
            raise
        pytest.skip(f"no PostgreSQL: {error}")
    try:
        with connect(fresh_database(url), warehouse=str(tmp_path / "warehouse"), shuffle_partitions=2) as tr:
            yield tr
    finally:
        server.__exit__(None, None, None)


@pytest.mark.postgres
def test_on_postgres(pg: Trickle) -> None:
    tr = pg
    tr.sql("CREATE NAMESPACE s")
    tr.sql("USE s")
    tr.sql("CREATE TABLE s.src (id BIGINT, k STRING)")
    tr.sql("INSERT INTO s.src SELECT id, concat('k', id % 3) FROM range(100)")
    tr.create_stream_table("s.a", "SELECT id, k FROM s.src WHERE id % 2 = 0", mode="differential")
    tr.create_stream_table("s.b", "SELECT k, count(*) AS n FROM s.src GROUP BY k", mode="differential")
    tr.create_stream_table("s.c", "SELECT sum(n) AS n FROM s.b", mode="differential")
    reader = other_session(tr)

    def check() -> None:
        for name in GROUP:
            found = tr.verify(name)
            assert found.equal, str(found)
        assert private_catalogs(tr) == set()

    tr.sql("INSERT INTO s.src VALUES (100, 'k1'), (102, 'new')")
    assert [r.action for r in tr.refresh(GROUP)] == [Action.DIFFERENTIAL] * 3
    assert rows(reader, "SELECT n FROM lake.s.c") == [(102,)]
    assert {r.action for r in tr.refresh(GROUP)} == {Action.NO_DATA}
    check()

    # All or nothing.
    def fail(point: str) -> None:
        if point == "before commit":
            raise TrickleError("SPARK_FAILED", "injected")

    tr.sql("DELETE FROM s.src WHERE id < 4")
    pointers = tr.store.pointers()
    tr.refresher.probe = fail
    with pytest.raises(TrickleError, match="injected"):
        tr.refresh(GROUP)
    tr.refresher.probe = None
    assert tr.store.pointers() == pointers
    assert {tr.history(n, limit=1)[0].state for n in GROUP} == {"FAILED"}

    # A cut stays where it was while the group moves on.
    tr.create_cut("it's before")
    with tr.cut() as cut:
        tr.refresh(GROUP)
        assert rows(cut.spark, "SELECT n FROM s.c") == [(102,)]
        assert rows(cut.spark, "SELECT sum(n) FROM s.b") == [(102,)]
        with pytest.raises(Exception, match="read-only"):
            cut.spark.sql("SELECT 1L AS id, 'x' AS k").writeTo("s.src").append()
    assert rows(reader, "SELECT n FROM lake.s.c") == [(98,)]
    with tr.cut("it's before") as cut:
        assert rows(cut.spark, "SELECT n FROM s.c") == [(102,)]
    tr.drop_cut("it's before")
    check()

    # A foreign commit in between is refused.
    tr.sql("INSERT INTO s.src VALUES (200, 'k1')")

    def meddle(point: str) -> None:
        if point == "before transaction":
            reader.sql("INSERT INTO lake.s.a SELECT * FROM lake.s.a WHERE id = 100")

    tr.refresher.probe = meddle
    with pytest.raises(TrickleError) as caught:
        tr.refresh(GROUP)
    assert caught.value.code == "PUBLISH_CONFLICT"
    tr.refresher.probe = None
    tr.alter_stream_table("s.a", mode="auto")
    assert tr.refresh("s.a").reason.startswith("INTEGRITY")

    # Four at once.
    barrier = threading.Barrier(4)

    def work(number: int) -> Action:
        barrier.wait()
        return tr.refresh(GROUP[1 + number % 2]).action

    with ThreadPoolExecutor(4) as pool:
        actions = list(pool.map(work, range(4)))
    assert actions.count(Action.DIFFERENTIAL) in (1, 2), actions
    check()
