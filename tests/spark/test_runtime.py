"""Java beside the Python, compiled at run time."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from spark_trickle.spark.runtime import java, quicken_local_files, remember_classes

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


@pytest.mark.spark
def test_threads_compile_a_class_once(spark: SparkSession) -> None:
    """py4j calls methods by the class's name: with two classes of one name a call fails in some threads."""

    def count(_: int) -> int:
        counter = java(spark.sparkContext, "tests.spark", "java", "tests.spark.Counter")
        return int(counter.next())

    with ThreadPoolExecutor(8) as pool:
        assert sorted(pool.map(count, range(16))) == list(range(1, 17))


@pytest.mark.spark
def test_local_files_are_made_without_a_process_for_each(spark: SparkSession, tmp_path: Path) -> None:
    assert quicken_local_files(spark.sparkContext)
    jvm: Any = spark._jvm
    conf = spark.sparkContext._jsc.hadoopConfiguration()
    path = jvm.org.apache.hadoop.fs.Path(f"file://{tmp_path}/some where/file")
    files = path.getFileSystem(conf)
    assert files.getRaw().getClass().getName() == "trickle.runtime.LocalFiles$Raw"
    permission = jvm.org.apache.hadoop.fs.permission.FsPermission
    files.mkdirs(path.getParent(), permission("750"))
    assert (tmp_path / "some where").stat().st_mode & 0o7777 == 0o750
    files.create(path, permission("640"), True, 4096, 1, 1 << 20, None).close()
    assert (tmp_path / "some where" / "file").stat().st_mode & 0o7777 == 0o640
    assert (tmp_path / "some where" / ".file.crc").exists()
    (tmp_path / "some where").chmod(0o2700)  # new files get its group: chmod lets that be
    files.setPermission(path.getParent(), permission("755"))
    assert (tmp_path / "some where").stat().st_mode & 0o7777 == 0o2755
    (tmp_path / "some where").chmod(0o700)
    files.setPermission(path.getParent(), permission("1777"))
    assert (tmp_path / "some where").stat().st_mode & 0o7777 == 0o1777


@pytest.mark.spark
def test_pyspark_asks_the_jvm_once_for_a_class(spark: SparkSession, monkeypatch: pytest.MonkeyPatch) -> None:
    remember_classes(spark.sparkContext)
    jvm: Any = spark._jvm
    asked: list[str] = []
    client = jvm._gateway_client
    send = client.send_command

    def count(command: str, *others: Any, **named: Any) -> Any:
        if command.startswith("r\nu\n"):  # reflection, something unknown
            asked.append(command.splitlines()[2])
        return send(command, *others, **named)

    monkeypatch.setattr(client, "send_command", count)
    for _ in range(2):
        assert spark.sql("SELECT 1 AS one").first() is not None  # asks for PythonUtils
        assert jvm.java.time.ZoneId.of("Z").getId() == jvm.java.time.ZoneId.of("UTC").normalized().getId()
    assert "java.time.ZoneId" in asked
    assert len(asked) == len(set(asked))
