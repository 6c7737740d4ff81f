"""The process of test_delta_lake: its Spark has Delta Lake, which that of all other tests has not.

Runs every scenario, or those named, and prints one line of JSON for each.
"""

from __future__ import annotations

import json
import random
import shutil
import sys
import time
import traceback
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from spark_trickle import Action, Trickle, TrickleError, connect
from spark_trickle.lake.delta_lake.feed import read_changes
from spark_trickle.lake.delta_lake.kind import DeltaLake
from spark_trickle.lake.delta_lake.log import Logs, Version
from spark_trickle.spark.session import has_delta_lake
from tests.fuzz.exact import compare
from tests.fuzz.types import T, values
from tests.jvm import QUICK_JAVA

CONF = {
    "spark.driver.extraJavaOptions": QUICK_JAVA,
    "spark.sql.codegen.wholeStage": "false",
    "spark.sql.codegen.factoryMode": "NO_CODEGEN",
    "spark.databricks.delta.retentionDurationCheck.enabled": "false",
    # VACUUM lists files in this many tasks, 10000 by default.
    "spark.sql.sources.parallelPartitionDiscovery.parallelism": "2",
}
COLUMNS = "id BIGINT, k INT, v DOUBLE, small SMALLINT, `a.b` STRING"
VARIANTS = {
    "change_feed": "'delta.enableChangeDataFeed' = 'true'",
    "files": "'delta.enableChangeDataFeed' = 'false'",
    "vectors": "'delta.enableDeletionVectors' = 'true'",
}
Rows = Counter[tuple[Any, ...]]


class World:
    """One lake, and Delta tables beside it."""

    def __init__(self, root: Path, tr: Trickle) -> None:
        self.root = root
        self.tr = tr

    def sql(self, text: str) -> Any:
        return self.tr.spark.sql(text)

    def path(self, name: str) -> str:
        return f"spark_catalog.delta.`{self.root / name}`"

    def make(self, name: str, properties: str = "", *, partitioned: str = "") -> str:
        """A Delta table with eight rows, registered as s.<name>."""
        table = self.path(name)
        by = f"PARTITIONED BY ({partitioned})" if partitioned else ""
        given = f"TBLPROPERTIES ({properties})" if properties else ""
        self.sql(f"CREATE TABLE {table} ({COLUMNS}) USING delta {by} {given}")
        values = ", ".join(f"({i}, {i % 3}, {i}.5, {i}, 'x{i % 2}')" for i in range(8))
        self.sql(f"INSERT INTO {table} VALUES {values}")
        self.tr.create_source(f"s.{name}", "delta", self.root / name)
        return table

    def now(self, name: str) -> Version:
        found = logs(self.tr).current(str(self.root / name))
        assert found is not None
        return found

    def rows(self, name: str, version: int) -> Rows:
        found = self.sql(f"SELECT id, k, v, CAST(small AS INT), `a.b` FROM {self.path(name)} VERSION AS OF {version}")
        return Counter(map(tuple, found.collect()))

    def feed(self, name: str, old: int, new: Version) -> tuple[str, Rows]:
        columns = ("id", "k", "v", "small", "a.b")
        with (
            self.tr.refresher.attempts.begin({}) as attempt,
            read_changes(attempt.session, logs(self.tr), new, old, columns) as feed,
        ):
            found: Rows = Counter()
            for row in feed.frame.collect() if feed.frame is not None else ():
                assert row[-1] > 0 or not feed.append_only
                found[tuple(row)[:-1]] += row[-1]
            if feed.rows is not None:
                assert feed.rows == sum(map(abs, found.values()))
            return feed.kind, Counter({r: n for r, n in found.items() if n})

    def refused(self, code: str, call: Callable[[], Any]) -> TrickleError:
        with pytest.raises(TrickleError) as caught:
            call()
        assert caught.value.code == code, caught.value
        assert caught.value.hint
        return caught.value

    def equal(self, *names: str) -> None:
        for name in names:
            found = self.tr.verify(name)
            assert found.equal, found


def logs(tr: Trickle) -> Logs:
    kind = tr.refresher.lake.outside["delta"]
    assert isinstance(kind, DeltaLake)
    return kind.logs


def difference(new: Rows, old: Rows) -> dict[tuple[Any, ...], int]:
    return {row: new[row] - old[row] for row in new | old if new[row] != old[row]}


# What happens to a table, and whether rows change by it.
def events(table: str) -> dict[str, tuple[str, bool]]:
    merge = (
        f"MERGE INTO {table} t USING (SELECT 3L AS id, 9 AS k UNION ALL SELECT 90L, 1) s ON t.id = s.id "
        "WHEN MATCHED THEN UPDATE SET k = s.k "
        "WHEN NOT MATCHED THEN INSERT (id, k, v, small, `a.b`) VALUES (s.id, s.k, 0.0, 1S, 'new')"
    )
    return {
        "append": (
            f"INSERT INTO {table} VALUES (8, 1, NULL, 3, NULL), (8, 1, NULL, 3, NULL), (9, 2, 2.5, 4, 'y')",
            True,
        ),
        "update": (f"UPDATE {table} SET k = k + 1, v = -v WHERE id IN (1, 8)", True),
        "delete": (f"DELETE FROM {table} WHERE id = 2", True),
        "merge": (merge, True),
        "optimize": (f"OPTIMIZE {table}", False),
        "overwrite": (f"INSERT OVERWRITE {table} SELECT * FROM {table} WHERE id <> 4", True),
        "restore": (f"RESTORE TABLE {table} TO VERSION AS OF 2", True),
    }


# -- scenarios ---------------------------------------------------------------------------------------------------------


def feeds(world: World) -> None:
    """The feed between any two versions is their difference as multisets, each way."""
    for variant, properties in VARIANTS.items():
        name = f"feed_{variant}"
        table = world.make(name, properties)
        for text, _ in events(table).values():
            world.sql(text)
        last = world.now(name)
        states = [world.rows(name, n) for n in range(last.number + 1)]
        # One after the other for two of them: without a change data feed, vectors or not is the same way to read.
        single = range(1, last.number) if variant != "files" else (1, 2, 5)
        pairs = [(n, n + 1) for n in single] + [(1, last.number), (2, last.number - 1)]
        kinds: dict[tuple[int, int], str] = {}
        for old, new in pairs:
            kinds[old, new], found = world.feed(name, old, last.at(new))
            assert dict(found) == difference(states[new], states[old]), (variant, old, new)
        assert kinds[1, 2] == "added files", kinds
        assert kinds[2, 3] == ("change data feed" if variant == "change_feed" else "multisets"), kinds
        assert kinds[5, 6] == "no row changed", kinds
        # Back at version 2 by RESTORE: the files that came and went in between cancel.
        assert world.feed(name, 2, last) == ("no row changed", Counter())


def maintained(world: World) -> None:
    """A join with an Iceberg table and a chain above it, equal after every event, with and without change data feed."""
    tr = world.tr
    tr.sql("CREATE TABLE s.names (k INT, name STRING)")
    tr.sql("INSERT INTO s.names VALUES (0, 'zero'), (1, 'one'), (2, 'two'), (9, 'nine')")
    chosen = {"change_feed": tuple(events("")), "vectors": ("append", "update", "delete")}
    for variant, wanted_events in chosen.items():
        table = world.make(f"m_{variant}", VARIANTS[variant])
        joined, chain = f"s.j_{variant}", f"s.c_{variant}"
        tr.create_stream_table(
            joined,
            f"SELECT c.id, c.small, c.v, c.`a.b` AS ab, n.name FROM s.m_{variant} c JOIN s.names n ON c.k = n.k",
            mode="differential",
        )
        tr.create_stream_table(
            chain, f"SELECT name, count(*) AS n, sum(small) AS s, count(v) AS nv FROM {joined} GROUP BY name"
        )
        for event in wanted_events:
            text, changes = events(table)[event]
            world.sql(text)
            if event == "update":  # both sides of the join change
                tr.sql(f"INSERT INTO s.names VALUES (3, '{variant}')")
            first, second = tr.refresh([joined, chain])
            wanted = Action.DIFFERENTIAL if changes else Action.NO_DATA
            assert first.action is wanted, (event, first)
            assert second.action is not Action.NO_DATA or not changes, (event, second)
            world.equal(joined, chain)
        assert tr.refresh(chain).action is Action.NO_DATA


def other_constructs(world: World) -> None:
    """What runs FULL, a view of the lake over the source, a hidden state table, explain and check."""
    tr = world.tr
    table = world.make("other", partitioned="k")
    tr.sql("CREATE VIEW s.seen AS SELECT id, k, v FROM other WHERE id > 1")
    tr.create_stream_table("s.over_view", "SELECT k, count(*) AS n, max(v) AS top FROM s.seen GROUP BY k")
    tr.create_stream_table("s.full", "SELECT * FROM other TABLESAMPLE (100 ROWS)", mode="full")
    tr.create_stream_table(
        "s.above", "SELECT o.id, g.n FROM other o JOIN (SELECT k, count(*) AS n FROM other GROUP BY k) g ON o.k = g.k"
    )
    checked = tr.check("SELECT k, sum(small) AS s FROM other GROUP BY k")
    assert checked.incremental
    assert [(i.name, str(i.kind), i.rows) for i in checked.inputs] == [("s.other", "SOURCE", 8)]
    world.sql(f"UPDATE {table} SET k = 2 WHERE id = 3")
    assert tr.explain("s.over_view").next_action is Action.DIFFERENTIAL
    assert [s.pending for s in tr.status() if s.name == "s.above"] == [True]
    results = tr.refresh(["s.over_view", "s.full", "s.above"])
    assert [r.action for r in results][1] is Action.FULL, results
    world.equal("s.over_view", "s.full", "s.above")
    # Another partitioning: the files of old and new cannot be read side by side.
    before = world.now("other")
    world.sql(f"CREATE OR REPLACE TABLE {table} USING delta PARTITIONED BY (small) AS SELECT * FROM {table}")
    world.sql(f"DELETE FROM {table} WHERE id = 7")
    after = world.now("other")
    if after.table_id == before.table_id:
        kind, found = world.feed("other", before.number, after)
        assert kind == "comparison of two versions"
        assert dict(found) == difference(world.rows("other", after.number), world.rows("other", before.number))
    tr.refresh(["s.over_view", "s.full", "s.above"])
    world.equal("s.over_view", "s.full", "s.above")


def cost(world: World) -> None:
    """AUTO knows how large the source is; nothing is asked of Spark when nothing moved."""
    tr = world.tr
    table = world.make("cost")
    tr.create_stream_table("s.auto", "SELECT id, v FROM cost WHERE id >= 0")
    world.sql(f"INSERT INTO {table} SELECT id, 1, 1.0, 1S, 'c' FROM range(100, 200)")
    large = tr.refresh("s.auto")
    assert large.action is Action.FULL
    assert "100 of 8 rows of s.cost changed" in large.reason, large
    world.sql(f"INSERT INTO {table} VALUES (300, 1, 1.0, 1, 'c')")
    small = tr.refresh("s.auto")
    assert small.action is Action.DIFFERENTIAL
    assert "1 of 108 rows" in small.reason, small
    tracker = world.tr.spark.sparkContext.statusTracker()
    before = len(tracker.getJobIdsForGroup(None))
    assert tr.refresh("s.auto").action is Action.NO_DATA
    assert len(tracker.getJobIdsForGroup(None)) == before
    world.equal("s.auto")


def expired(world: World) -> None:
    """VACUUM of files that are needed, of files that are not, and a log that was cut."""
    tr = world.tr
    table = world.make("old")
    tr.create_stream_table("s.old_auto", "SELECT id, k FROM old")
    tr.create_stream_table("s.old_strict", "SELECT id, v FROM old", mode="differential")
    world.sql(f"INSERT INTO {table} VALUES (20, 1, 1.0, 1, 'n')")
    tr.refresh(["s.old_auto", "s.old_strict"])
    # Files that OPTIMIZE replaced are not needed: no row changed.
    world.sql(f"OPTIMIZE {table}")
    world.sql(f"VACUUM {table} RETAIN 0 HOURS")
    assert [r.action for r in tr.refresh(["s.old_auto", "s.old_strict"])] == [Action.NO_DATA, Action.NO_DATA]
    world.sql(f"UPDATE {table} SET k = 5 WHERE id = 1")
    world.sql(f"VACUUM {table} RETAIN 0 HOURS")
    world.refused("SNAPSHOT_EXPIRED", lambda: tr.verify("s.old_auto"))
    error = world.refused("SNAPSHOT_EXPIRED", lambda: tr.refresh("s.old_strict"))
    assert "s.old_strict" in error.message
    assert "s.old" in error.message
    again = tr.refresh("s.old_auto")
    assert (again.action, again.reason.split(":")[0]) == (Action.REINITIALIZE, "SNAPSHOT_EXPIRED"), again
    tr.refresh("s.old_strict", mode="full")
    world.equal("s.old_auto", "s.old_strict")
    # The log: a checkpoint stands for the commits before it, which are deleted.
    behind = world.now("old").number
    world.sql(f"INSERT INTO {table} VALUES (21, 1, 1.0, 1, 'n')")
    world.sql(f"INSERT INTO {table} VALUES (22, 1, 1.0, 1, 'n')")
    log = logs(tr).log(world.now("old"))
    log.checkpoint()
    for commit in sorted((world.root / "old" / "_delta_log").glob("*.json"))[: behind + 2]:
        commit.unlink()
    tr.spark._jvm.org.apache.spark.sql.delta.DeltaLog.clearCache()
    cut = tr.refresh("s.old_auto")
    assert (cut.action, cut.reason.split(":")[0]) == (Action.REINITIALIZE, "SNAPSHOT_EXPIRED"), cut
    world.equal("s.old_auto")


def recreated(world: World) -> None:
    """Another table at the same place, also when its version is the same by chance."""
    tr = world.tr
    world.make("again")
    tr.create_stream_table("s.anew", "SELECT id, k FROM again")
    tr.create_stream_table("s.strict", "SELECT id, k FROM again", mode="differential")
    same = world.now("again")
    shutil.rmtree(world.root / "again")
    assert logs(tr).current(str(world.root / "again")) is None
    world.refused("SOURCE_DROPPED", lambda: tr.refresh("s.anew"))
    world.sql(f"CREATE TABLE {world.path('again')} ({COLUMNS}) USING delta")
    world.sql(f"INSERT INTO {world.path('again')} VALUES (70, 7, 7.0, 7, 'seven')")
    assert world.now("again").number == same.number
    world.refused("SNAPSHOT_EXPIRED", lambda: tr.verify("s.anew"))
    result = tr.refresh("s.anew")
    assert (result.action, result.reason.split(":")[0]) == (Action.REINITIALIZE, "TABLE_REPLACED"), result
    world.refused("TABLE_REPLACED", lambda: tr.refresh("s.strict"))
    world.equal("s.anew")
    assert [tuple(r) for r in tr.sql("SELECT * FROM s.anew").collect()] == [(70, 7)]
    for _ in range(3):
        world.sql(f"INSERT INTO {world.path('again')} VALUES (71, 7, 7.0, 7, 'seven')")
    tr.refresh("s.anew")
    shutil.rmtree(world.root / "again")  # made anew with fewer versions than Delta remembers
    world.sql(f"CREATE TABLE {world.path('again')} ({COLUMNS}) USING delta")
    result = tr.refresh("s.anew")
    assert result.reason.startswith("TABLE_REPLACED"), result
    world.equal("s.anew")
    assert tr.sql("SELECT * FROM s.anew").collect() == []


def schema(world: World) -> None:
    """Columns are followed by their physical names; what a definition uses cannot go unseen."""
    tr = world.tr
    table = world.path("shape")
    world.sql(
        f"CREATE TABLE {table} (id BIGINT, k INT, s STRUCT<x: INT, y: STRING>, tags ARRAY<STRING>) USING delta "
        "TBLPROPERTIES ('delta.columnMapping.mode' = 'name', 'delta.enableChangeDataFeed' = 'true')"
    )
    world.sql(f"INSERT INTO {table} VALUES (1, 1, struct(1, 'a'), array('p')), (2, 2, NULL, NULL)")
    tr.create_source("s.shape", "delta", world.root / "shape")
    tr.create_stream_table("s.star", "SELECT * FROM shape")
    tr.create_stream_table("s.some", "SELECT id, k FROM shape WHERE k > 0", mode="differential")
    # A new column, and a renamed one: definitions go on as they were written.
    world.sql(f"ALTER TABLE {table} ADD COLUMNS (later STRING)")
    world.sql(f"ALTER TABLE {table} RENAME COLUMN k TO key")
    world.sql(f"ALTER TABLE {table} RENAME COLUMN s.y TO why")
    assert {r.action for r in tr.refresh(["s.star", "s.some"])} == {Action.NO_DATA}
    world.equal("s.star", "s.some")
    world.sql(f"INSERT INTO {table} VALUES (3, 3, struct(3, 'c'), array('q', NULL), 'l')")
    world.sql(f"UPDATE {table} SET key = 7 WHERE id = 1")
    some = tr.refresh("s.some")
    assert some.action is Action.DIFFERENTIAL
    tr.refresh("s.star")
    world.equal("s.star", "s.some")
    found = {tuple(r) for r in tr.sql("SELECT id, k, s.y FROM s.star").collect()}
    assert found == {(1, 7, "a"), (2, 2, None), (3, 3, "c")}, found
    # Dropped, and the definition uses it.
    world.sql(f"ALTER TABLE {table} DROP COLUMN key")
    error = world.refused("SOURCE_CHANGED", lambda: tr.refresh("s.some"))
    assert "k" in error.message
    assert "s.shape" in error.message
    assert len(tr.sql("SELECT * FROM s.some").collect()) == 3
    # Without column mapping: overwritten with another type.
    plain = world.make("plain")
    tr.create_stream_table("s.typed", "SELECT id, v FROM plain")
    world.sql(f"INSERT INTO {plain} VALUES (1, 1, 1.0, 1, 'b')")
    tr.spark.sql("SELECT 5L AS id, 'text' AS v").write.format("delta").mode("overwrite").option(
        "overwriteSchema", "true"
    ).save(str(world.root / "plain"))
    result = tr.refresh("s.typed")
    assert result.action is Action.REINITIALIZE, result
    world.equal("s.typed")


def names(world: World) -> None:
    """Sources have names of the lake: taken ones are refused, both ways round."""
    tr = world.tr
    world.make("named")
    place = world.root / "named"
    assert [s.name for s in tr.sources() if s.name == "s.named"] == ["s.named"]
    assert tr.sql("SELECT count(*) FROM named").first()[0] == 8
    world.refused("NAME_TAKEN", lambda: tr.create_source("s.named", "delta", place))
    world.refused("NAME_TAKEN", lambda: tr.create_stream_table("s.named", "SELECT 1 AS one"))
    with pytest.raises(Exception, match="already exists"):
        tr.sql("CREATE TABLE s.named (a INT)")
    tr.sql("CREATE TABLE s.iceberg (a INT)")
    world.refused("NAME_TAKEN", lambda: tr.create_source("s.iceberg", "delta", place))
    world.refused("INVALID_SOURCE", lambda: tr.create_source("s.nothing", "delta", world.root / "nowhere"))
    world.refused("INVALID_SOURCE", lambda: tr.create_source("s.nothing", "delta", "nosuch://host/x"))
    world.refused("INVALID_SOURCE", lambda: tr.create_source("s.nothing", "parquet", place))
    world.refused("INVALID_SOURCE", lambda: tr.create_source("s.nothing", "delta", " "))
    world.refused("INVALID_NAME", lambda: tr.create_source("_trickle.x", "delta", place))
    world.refused("UNKNOWN_SOURCE", lambda: tr.drop_source("s.nothing"))
    tr.create_stream_table("s.reader", "SELECT id FROM s.named")
    error = world.refused("HAS_DEPENDENTS", lambda: tr.drop_source("s.named"))
    assert "s.reader" in error.message
    tr.drop_stream_table("s.reader")
    tr.drop_source("s.named")
    assert "s.named" not in {s.name for s in tr.sources()}
    world.refused("UNKNOWN_TABLE", lambda: tr.check("SELECT id FROM s.named"))
    assert (place / "_delta_log").is_dir()
    # Its view dropped in SQL: the source is gone, and its name is free.
    tr.create_source("s.named", "delta", place)
    tr.create_stream_table("s.reader", "SELECT id FROM s.named")
    tr.sql("DROP VIEW s.named")
    world.refused("SOURCE_DROPPED", lambda: tr.refresh("s.reader"))
    tr.create_source("s.named", "delta", place)
    assert tr.refresh("s.reader").action is not Action.FULL


def cuts(world: World) -> None:
    """A cut has the source at one version, a named one for good."""
    tr = world.tr
    table = world.make("cut")
    tr.create_cut("before")
    with tr.cut() as cut:
        world.sql(f"DELETE FROM {table} WHERE id < 4")
        assert cut.sql("SELECT count(*) FROM s.cut").first()[0] == 8
        assert tr.sql("SELECT count(*) FROM s.cut").first()[0] == 4
    with tr.cut("before") as cut:
        assert cut.sql("SELECT count(*) FROM lake.s.cut").first()[0] == 8
    tr.drop_cut("before")


def hostile_values(world: World) -> None:
    """Values that are easily altered on the way come through each kind of feed as they are."""
    held = (T.STR, T.MAP, T.SIGNED, T.FLT, T.DBLS, T.WIDE, T.TS, T.SMAP, T.BMAP, T.STRS)
    for variant, properties in VARIANTS.items():
        name, tr, rnd = f"hostile_{variant}", world.tr, random.Random(variant)
        table = world.path(name)
        columns = [f"c{n}" for n in range(len(held))]
        listed = ", ".join(f"{c} {t.value.strip()}" for c, t in zip(columns, held, strict=True))
        world.sql(f"CREATE TABLE {table} (id INT, {listed}) USING delta TBLPROPERTIES ({properties})")

        def some(first: int, count: int, rnd: random.Random = rnd) -> str:
            """Rows that have each value of each type in turn."""
            rows = [
                ", ".join((str(first + n), *(f"CAST({rnd.choice(values(t))} AS {t.value.strip()})" for t in held)))
                for n in range(count)
            ]
            return " UNION ALL ".join(f"SELECT {row}" for row in rows)

        world.sql(f"INSERT INTO {table} {some(0, 24)}")
        tr.create_source(f"s.{name}", "delta", world.root / name)
        queries = {
            "copied": f"SELECT * FROM s.{name}",
            "grouped": f"SELECT c0, count(*) AS n, sum(id) AS s FROM s.{name} GROUP BY c0",
            "shown": f"SELECT id, to_json(c1) AS m, get(map_keys(c1), 0) AS k, CAST(c2 AS STRING) AS t FROM s.{name}",
            "joined": f"SELECT a.id, b.c7, b.c8 FROM s.{name} a JOIN s.{name} b ON a.id = b.id + 1",
        }
        for label, query in queries.items():
            tr.create_stream_table(f"s.{name}_{label}", query)
        for change in (
            f"INSERT INTO {table} {some(24, 12)}",
            f"UPDATE {table} SET c1 = c7.m, c2 = -c2, c0 = get(c9, 0) WHERE id % 3 = 0",
            f"DELETE FROM {table} WHERE id % 4 = 1",
        ):
            world.sql(change)
            for label, query in queries.items():
                result = tr.refresh(f"s.{name}_{label}", "DIFFERENTIAL")
                assert result.action is Action.DIFFERENTIAL, (change, result)
                tr.sql(query).createOrReplaceTempView("defined")
                found = compare(tr.spark, f"s.{name}_{label}", "defined", tr.spark.table("defined").schema, {})
                assert found.equal, (variant, change, label, found)


def left_behind(world: World) -> None:
    """Views of attempts are gone with them."""
    pins = [p for p in (world.root / "lake" / "warehouse").rglob("trickle-pin-*") if not p.name.endswith(".crc")]
    assert pins == [], pins


SCENARIOS: dict[str, Callable[[World], None]] = {
    f.__name__: f
    for f in (
        *(feeds, maintained, other_constructs, hostile_values, cost, expired, recreated, schema, names, cuts),
        left_behind,
    )
}


def connect_here(root: Path, **options: Any) -> Trickle:
    quick: dict[str, Any] = {"shuffle_partitions": 1, "spark_conf": CONF, "check_definition": "off"}
    tr = connect(root / "lake", master="local[2]", driver_memory="1g", **quick, **options)
    tr.sql("CREATE NAMESPACE IF NOT EXISTS s")
    tr.sql("USE s")
    return tr


def main(root: Path, chosen: list[str]) -> None:
    with connect_here(root, delta_lake=True) as tr:
        tr.spark.conf.set("spark.sql.catalog.spark_catalog", "org.apache.spark.sql.delta.catalog.DeltaCatalog")
        world = World(root, tr)
        for name in chosen or SCENARIOS:
            report(name, lambda name=name: SCENARIOS[name](world))
        tr.spark.sql("SELECT 1L AS id").write.format("delta").save(str(root / "kept"))
        tr.create_source("s.kept", "delta", root / "kept")
        tr.create_stream_table("s.of_kept", "SELECT id FROM s.kept")
    report("by_itself", lambda: by_itself(root))


def by_itself(root: Path) -> None:
    """A lake that has a Delta source starts Spark with Delta Lake without being told."""
    with connect_here(root) as tr:
        assert has_delta_lake(tr.spark)
        assert tr.sql("SELECT count(*) FROM s.kept").first()[0] == 1
        assert tr.refresh("s.of_kept").action is Action.NO_DATA


def report(name: str, run: Callable[[], None]) -> None:
    started = time.perf_counter()
    problem = None
    try:
        run()
    except Exception:
        problem = traceback.format_exc()
    print(
        json.dumps({"name": name, "problem": problem, "seconds": round(time.perf_counter() - started, 1)}), flush=True
    )


if __name__ == "__main__":
    main(Path(sys.argv[1]), sys.argv[2:])
