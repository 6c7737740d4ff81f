"""Tags on sources: what a stream table reflects does not expire while it is needed."""

from __future__ import annotations

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from datetime import timedelta
from pathlib import Path

import pytest

from spark_trickle import Action, Trickle, connect
from spark_trickle.lake.jvm import file_io, handles
from spark_trickle.lake.protect import PREFIX, tags_to_change
from spark_trickle.lake.retention import expiring
from spark_trickle.model import Status
from tests.engine.refused import refused

EXPIRE = "CALL lake.system.expire_snapshots(table => '{t}', older_than => TIMESTAMP '2999-01-01', retain_last => 1)"


@pytest.mark.parametrize(
    ("policy", "frontiers", "head", "tagged", "add", "remove"),
    [
        ("lazy", {1}, 1, set(), set(), set()),
        ("lazy", {1, 2}, 2, set(), {1}, set()),
        ("lazy", {2}, 2, {1}, set(), {1}),
        ("lazy", {1}, 3, {1}, set(), set()),
        ("lazy", set(), None, set(), set(), set()),
        ("always", {1}, 1, set(), {1}, set()),
        ("always", {2}, 2, {1}, {2}, {1}),
        ("off", {1}, 2, {1}, set(), {1}),
    ],
)
def test_decision(
    policy: str, frontiers: set[int], head: int | None, tagged: set[int], add: set[int], remove: set[int]
) -> None:
    change = tags_to_change(policy, frontiers, head, tagged)
    assert (change.add, change.remove) == (add, remove)


def tags(tr: Trickle, table: str) -> set[str]:
    found = tr.sql(f"SELECT name FROM lake.{table}.refs WHERE type = 'TAG'").collect()
    return {r[0] for r in found if r[0].startswith(PREFIX)}


def pointer(tr: Trickle, table: str) -> str:
    return next(p.location for p in tr.store.pointers().values() if str(p.name) == table)


def going(tr: Trickle) -> dict[str, tuple[str, timedelta]]:
    """By stream table: the source of the snapshot that may be expired first, and at which age."""
    found = expiring(tr.refresher.lake, tr.store.stream_tables(), tr.store.pointers())
    return {name: (e.source, e.expires_at - e.made_at) for name, e in found.items()}


def make(tr: Trickle, table: str) -> None:
    tr.sql(f"CREATE TABLE {table} (id BIGINT, v INT)")
    tr.sql(f"INSERT INTO {table} SELECT id, id % 5 FROM range(20)")


def allow_no_commits(tr: Trickle, table: str) -> None:
    """Metadata files of this table go where none can be written: every later commit fails."""
    before = next(p for p in tr.store.pointers().values() if str(p.name) == table)
    iceberg = handles(tr.spark).jvm.org.apache.iceberg
    builder = iceberg.TableMetadata.buildFrom(tr.refresher.lake.metadata(before.location))
    made = builder.setProperties({"write.metadata.path": "file:/proc/nowhere"}).build()
    after = before.location.replace(".metadata.json", "-x.metadata.json")
    iceberg.TableMetadataParser.write(made, file_io(tr.refresher.lake.session).newOutputFile(after))
    with tr.store.write() as tx:
        tx.swap_pointer(before.name, before.location, after)
    with pytest.raises(Exception, match="nowhere"):
        tr.sql(f"INSERT INTO {table} VALUES (1, 1)")


@pytest.fixture(scope="module")
def lake(module_tr: Trickle) -> Trickle:
    return module_tr


@pytest.fixture(scope="module")
def always(module_tr: Trickle, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Trickle]:
    folder: Path = tmp_path_factory.mktemp("always")
    with connect(folder, protect="always", shuffle_partitions=2) as tr:
        tr.sql("CREATE NAMESPACE s")
        yield tr


def test_lazy(lake: Trickle) -> None:
    make(lake, "s.lazy")
    lake.create_stream_table("s.lazy_fast", "SELECT id FROM s.lazy WHERE v > 1", mode="differential")
    lake.create_stream_table("s.lazy_slow", "SELECT v, count(*) AS n FROM s.lazy GROUP BY v", mode="differential")
    assert not tags(lake, "s.lazy")  # both are at the head: nothing to commit
    lake.sql("INSERT INTO s.lazy VALUES (100, 4)")
    lake.refresh("s.lazy_fast")
    assert len(tags(lake, "s.lazy")) == 1  # for the slow one
    at = pointer(lake, "s.lazy")
    assert lake.refresh("s.lazy_fast").stages == {}  # NO_DATA by pointers alone: the tag's commit is known
    assert not lake.status("s.lazy_fast")[0].pending
    lake.sql(EXPIRE.format(t="s.lazy"))
    lake.sql("DELETE FROM s.lazy WHERE id = 3")
    assert going(lake) == {"s.lazy_fast": ("s.lazy", timedelta(days=5))}  # the slow one's frontier has a tag
    age, kept = "'history.expire.max-snapshot-age-ms' = '3600000'", "'history.expire.min-snapshots-to-keep' = '2'"
    lake.sql(f"ALTER TABLE s.lazy SET TBLPROPERTIES ({age})")
    assert going(lake) == {"s.lazy_fast": ("s.lazy", timedelta(hours=1))}
    lake.sql(f"ALTER TABLE s.lazy SET TBLPROPERTIES ({kept})")
    assert going(lake) == {}
    lake.sql(EXPIRE.format(t="s.lazy"))
    assert pointer(lake, "s.lazy") != at
    assert lake.refresh("s.lazy_slow").action is Action.DIFFERENTIAL  # its frontier is still there
    assert lake.verify("s.lazy_slow").equal
    # The fast one's own frontier was the head, unprotected, and went with the second expiry.
    with refused(lake, "SNAPSHOT_EXPIRED", "s.lazy"):
        lake.refresh("s.lazy_fast")
    assert lake.status("s.lazy_fast")[0].status is Status.ERROR
    assert [a.kind for a in lake.alerts(name="s.lazy_fast", open_only=True)] == ["REINITIALIZE_NEEDED"]
    assert lake.refresh("s.lazy_fast", mode="full").action is Action.FULL
    assert lake.alerts(name="s.lazy_fast", open_only=True) == ()
    assert lake.verify("s.lazy_fast").equal
    assert not tags(lake, "s.lazy")
    lake.sql("INSERT INTO s.lazy VALUES (101, 4)")
    lake.refresh("s.lazy_fast")
    assert tags(lake, "s.lazy")
    lake.drop_stream_table("s.lazy_slow")
    assert not tags(lake, "s.lazy")


def test_always(always: Trickle) -> None:
    make(always, "s.held")
    always.create_stream_table("s.held_st", "SELECT v, sum(id) AS t FROM s.held GROUP BY v", mode="differential")
    assert len(tags(always, "s.held")) == 1
    assert always.refresh("s.held_st").action is Action.NO_DATA
    for n in range(3):
        always.sql(f"UPDATE s.held SET v = v + 1 WHERE id = {n}")
        always.sql(f"INSERT INTO s.held VALUES ({200 + n}, 1)")
        always.sql(EXPIRE.format(t="s.held"))
        assert always.refresh("s.held_st").action is Action.DIFFERENTIAL
        assert always.verify("s.held_st").equal
        assert len(tags(always, "s.held")) == 1
    always.drop_stream_table("s.held_st")
    assert not tags(always, "s.held")


def test_a_source_that_refuses_tags(always: Trickle) -> None:
    make(always, "s.refuses")
    allow_no_commits(always, "s.refuses")
    always.create_stream_table("s.refuses_st", "SELECT id FROM s.refuses", mode="differential")
    assert always.verify("s.refuses_st").equal
    said = [a for a in always.store.alerts() if a.kind == "UNPROTECTED"]
    assert [a.name for a in said] == ["s.refuses"]
    assert always.refresh("s.refuses_st").action is Action.NO_DATA
    always.drop_stream_table("s.refuses_st")
    assert len([a for a in always.store.alerts() if a.kind == "UNPROTECTED"]) == 1


def test_threads_that_refresh_at_once_do_not_meet_in_the_tags(lake: Trickle) -> None:
    make(lake, "s.busy")
    names = [f"s.busy{n}" for n in range(5)]
    for name in names:
        lake.create_stream_table(name, "SELECT v, count(*) AS n FROM s.busy GROUP BY v")
    for _ in range(2):
        lake.sql("INSERT INTO s.busy VALUES (1, 1)")
        with ThreadPoolExecutor(len(names)) as pool:
            assert {r.action for r in pool.map(lake.refresh, names)} == {Action.DIFFERENTIAL}
    assert not [a for a in lake.store.alerts() if a.kind == "UNPROTECTED" and a.name == "s.busy"]
    assert tags(lake, "s.busy") == set()


def test_an_expired_frontier_starts_anew_once(lake: Trickle) -> None:
    make(lake, "s.gone")
    lake.create_stream_table("s.gone_st", "SELECT id, v FROM s.gone WHERE v > 0")
    lake.create_stream_table("s.gone_above", "SELECT v, count(*) AS n FROM s.gone_st GROUP BY v", mode="differential")
    lake.sql("DELETE FROM s.gone WHERE id = 7")
    lake.sql(EXPIRE.format(t="s.gone"))
    result = lake.refresh("s.gone_st")
    assert (result.action, result.reason.partition(":")[0]) == (Action.REINITIALIZE, "SNAPSHOT_EXPIRED")
    assert lake.refresh("s.gone_st").action is Action.NO_DATA
    assert lake.refresh("s.gone_above").action is Action.DIFFERENTIAL
    assert lake.verify("s.gone_above").equal
    lake.sql("INSERT INTO s.gone VALUES (300, 2)")
    assert lake.refresh("s.gone_above").action is Action.DIFFERENTIAL
    assert lake.verify("s.gone_st").equal
