"""Delta Lake tables as sources. What needs a Spark with Delta Lake runs in one other process, scenario by scenario."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from spark_trickle import Trickle, TrickleError, connect
from spark_trickle.config import Settings
from spark_trickle.lake.delta_lake.commits import fold, live_rows
from spark_trickle.lake.delta_lake.log import Version
from spark_trickle.lake.delta_lake.schema import as_seen, with_ids
from spark_trickle.model import Dependency, InputKind, Source
from spark_trickle.spark.session import DELTA, DELTA_EXTENSION, DELTA_STORAGE, context_conf, has_delta_lake, packages
from tests.engine.delta_lake_process import SCENARIOS

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

# -- with Delta Lake ---------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def outcomes(tmp_path_factory: pytest.TempPathFactory) -> dict[str, dict[str, Any]]:
    command = [sys.executable, "-m", "tests.engine.delta_lake_process", str(tmp_path_factory.mktemp("delta"))]
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=1200, env=os.environ)
    found = [json.loads(line) for line in done.stdout.splitlines() if line.startswith("{")]
    assert done.returncode == 0, done.stderr[-4000:]
    return {o["name"]: o for o in found}


@pytest.mark.parametrize("scenario", [*SCENARIOS, "by_itself"])
def test_with_delta_lake(outcomes: dict[str, dict[str, Any]], scenario: str) -> None:
    assert outcomes[scenario]["problem"] is None, outcomes[scenario]["problem"]


# -- without -----------------------------------------------------------------------------------------------------------


def test_nothing_of_delta_lake_is_loaded_unasked(tr: Trickle) -> None:
    conf = context_conf(Settings.load(tr.settings.location))
    assert not any("delta" in f"{key}={value}".lower() for key, value in conf.items() if "location" not in key)
    assert not has_delta_lake(tr.spark)
    tr.sql("CREATE TABLE t (a INT)")
    tr.create_stream_table("s.copy", "SELECT a FROM t")
    assert tr.sources() == ()
    assert tr.spark.conf.get("spark.sql.catalog.spark_catalog", None) is None


def test_jars_when_there_is_a_source(tmp_path: Path) -> None:
    settings = Settings.load(tmp_path, spark_conf={"spark.jars.ivy": str(tmp_path / "ivy")})
    conf = context_conf(settings, ["delta"])
    assert {DELTA, DELTA_STORAGE} <= {*conf["spark.jars.packages"].split(",")}
    assert conf["spark.sql.extensions"].endswith(DELTA_EXTENSION)
    assert "delta-kernel" in conf["spark.jars.excludes"]
    assert packages(Settings.load(tmp_path, delta_lake=True)) == packages(Settings.load(tmp_path), ["delta"])
    # Another release of Delta Lake takes the place of ours.
    own = "io.delta:delta-spark_4.1_2.13:4.3.1"
    theirs = Settings.load(tmp_path, extra_packages=(own,))
    assert DELTA not in packages(theirs, ["delta"])
    assert DELTA_EXTENSION in context_conf(theirs)["spark.sql.extensions"]
    assert "spark.jars.excludes" not in context_conf(theirs)


def test_spark_without_delta_lake_says_what_to_do(tr: Trickle, spark: SparkSession) -> None:
    with pytest.raises(TrickleError) as caught:
        tr.create_source("s.clicks", "delta", "/nowhere")
    assert caught.value.code == "UNSUITABLE_SESSION"
    assert DELTA in caught.value.hint
    assert "delta_lake=True" in caught.value.hint
    # A lake with a Delta source, opened in such a Spark: what does not read the source works.
    tr.sql("CREATE TABLE t (a INT)")
    tr.create_stream_table("s.copy", "SELECT a FROM t")
    tr.sql("CREATE VIEW clicks AS SELECT 1 AS one")
    view = next(p.location for n, p in tr.store.pointers().items() if n.name == "clicks")
    with tr.store.write() as tx:
        tx.delete_pointer(next(n for n in tr.store.pointers() if n.name == "clicks"))
    with tr.store.write() as tx:
        tx.add_source(Source("s.clicks", "delta", "/nowhere", view))
    with connect(tr.settings.location, shuffle_partitions=2) as again:
        assert [str(s) for s in again.sources()] == ["s.clicks: delta at /nowhere"]
        again.sql("INSERT INTO s.t VALUES (1)")
        assert again.refresh("s.copy").rows_inserted == 1
        assert again.status("s.copy")[0].pending is False
        for call in (
            lambda: again.check("SELECT one FROM s.clicks"),
            lambda: again.create_stream_table("s.n", "SELECT one FROM s.clicks"),
        ):
            with pytest.raises(TrickleError) as caught:
                call()
            assert caught.value.code == "UNSUITABLE_SESSION"
            assert DELTA in caught.value.hint
        with again.cut() as cut:
            assert cut.sql("SELECT count(*) FROM s.t").first()[0] == 1
        # A stream table that reads it says so; the others are not in its way.
        copy = again.store.stream_tables()[0]
        with again.store.write() as tx:
            source = Dependency(next(n for n in again.store.pointers() if n.name == "clicks"), InputKind.SOURCE)
            tx.set_dependencies(copy.id, [*copy.dependencies, source])
        with pytest.raises(TrickleError) as caught:
            again.refresh("s.copy")
        assert caught.value.code == "UNSUITABLE_SESSION"
        assert again.status("s.copy")[0].pending is True


# -- pure --------------------------------------------------------------------------------------------------------------


def test_pointer_and_version() -> None:
    for location in ("/a/b", "s3a://bucket/a@b/c", "file:///x y"):
        version = Version(location, 12, "c0ffee-1")
        assert Version.of(str(version)) == version
        seen = Version(location, 12, "c0ffee-1", "abc")
        assert Version.of(str(seen)) == seen
        assert str(seen.own) == str(version)
    assert str(Version("/a", 1, "x")) != str(Version("/a", 1, "y"))


def add(path: str, *, data: bool = True, size: int = 1, **more: Any) -> dict[str, Any]:
    return {"add": {"path": path, "partitionValues": {}, "size": size, "dataChange": data, **more}}


def remove(path: str, *, data: bool = True, **more: Any) -> dict[str, Any]:
    return {"remove": {"path": path, "partitionValues": {}, "size": 1, "dataChange": data, **more}}


def paths(files: tuple[dict[str, Any], ...]) -> list[str]:
    return [f["path"] for f in files]


def test_files_that_come_and_go_cancel() -> None:
    found = fold([[add("a")], [remove("a"), add("b")], [remove("old")]])
    assert (paths(found.by_change.added), paths(found.by_change.removed)) == (["b"], ["old"])
    assert found.left == ("old",)
    assert found.passing == ()
    assert found.changed


def test_compaction_changes_no_row() -> None:
    found = fold([[remove("x", data=False), remove("y", data=False), add("xy", data=False)]])
    assert not found.changed
    assert paths(found.by_files.added) == ["xy"]
    # Appended, then compacted: the appended file is the change.
    found = fold([[add("a")], [remove("a", data=False), remove("x", data=False), add("ax", data=False)]])
    assert paths(found.by_change.added) == ["a"]
    assert found.passing == ("a",)
    assert (paths(found.by_files.added), paths(found.by_files.removed)) == (["ax"], ["x"])


def test_restored_files_are_no_change() -> None:
    optimized = [remove("x", data=False), add("y", data=False)]
    found = fold([optimized, [remove("y"), add("z")], [remove("z"), add("x")]])
    assert paths(found.by_change.added) == ["x"]  # and "y" is taken off: the same rows
    assert not found.by_files
    assert not found.changed


def test_a_deletion_vector_makes_another_file() -> None:
    vector = {"storageType": "u", "pathOrInlineDv": "q", "offset": 1, "cardinality": 2}
    found = fold([[remove("a"), add("a", deletionVector=vector, stats='{"numRecords": 10}')]])
    assert paths(found.by_change.files) == ["a", "a"]
    assert found.left == ()
    assert live_rows(found.by_change.added[0]) == 8
    assert live_rows(found.by_change.removed[0]) is None


def test_statistics_stated_again_add_no_file() -> None:
    found = fold([[add("a", data=False, stats="{}")], [add("b")]])
    assert paths(found.by_change.added) == ["b"]
    assert paths(found.by_files.added) == ["b"]


def nested(*, renamed: bool = False, more: bool = False) -> dict[str, Any]:
    """A Delta schema with column mapping."""

    def field(name: str, physical: str, kind: Any) -> dict[str, Any]:
        return {"name": name, "type": kind, "metadata": {"delta.columnMapping.physicalName": physical}}

    inner = [field("x", "c1", "integer"), field("why" if renamed else "y", "c2", "string")]
    inner += [field("z", "c3", "string")] if more else []
    struct = {"type": "struct", "fields": inner}
    array = {"type": "array", "elementType": struct, "containsNull": True}
    first = [field("new", "c9", "long")] if more else []
    return {"type": "struct", "fields": [*first, field("id", "id", "long"), field("s", "c0", array)]}


def iceberg(schema: dict[str, Any]) -> dict[str, Any]:
    """As Iceberg converts it: numbered in order."""
    numbers = iter(range(100))

    def struct(kind: dict[str, Any]) -> dict[str, Any]:
        fields = [
            {"id": next(numbers), "name": f["name"], "required": False, "type": convert(f["type"])}
            for f in kind["fields"]
        ]
        return {"type": "struct", "fields": fields}

    def convert(kind: Any) -> Any:
        if isinstance(kind, str):
            return {"integer": "int"}.get(kind, kind)
        if kind["type"] == "array":
            return {"type": "list", "element-id": next(numbers), "element": convert(kind["elementType"])}
        return struct(kind)

    return struct(schema)


def test_ids_follow_physical_names() -> None:
    before, after = (json.loads(with_ids(iceberg(s), s)) for s in (nested(), nested(renamed=True, more=True)))
    ids = {f["name"]: f["id"] for f in before["fields"]}
    assert {f["name"]: f["id"] for f in after["fields"] if f["name"] != "new"} == ids
    inner = {f["id"]: f["name"] for f in before["fields"][1]["type"]["element"]["fields"]}
    assert [inner.get(f["id"]) for f in after["fields"][2]["type"]["element"]["fields"]] == ["x", "y", None]
    # The old form over the new one: by id, without what came later.
    sql = as_seen("`s`", after["fields"][2]["type"], before["fields"][1]["type"])
    assert sql == ("transform(`s`, e0 -> CASE WHEN e0 IS NOT NULL THEN struct(e0.`x` AS `x`, e0.`why` AS `y`) END)")
    assert as_seen("`s`", before["fields"][1]["type"], before["fields"][1]["type"]) == "`s`"
