"""A stream table is an ordinary Iceberg table: other engines read it, and what others do to it is noticed."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from spark_trickle import Action, Trickle, TrickleError
from spark_trickle.demo import TABLES, run_demo
from spark_trickle.model import TableName
from tests.engine.lakes import other_session

if TYPE_CHECKING:
    from pyiceberg.table import Table
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.spark

Content = Counter[tuple[Any, ...]]
EXPIRE = "CALL lake.system.expire_snapshots(table => '{}', older_than => TIMESTAMP '2100-01-01', retain_last => 1)"


# -- readers -----------------------------------------------------------------------------------------------------------


def _content(rows: Any) -> Content:
    return Counter(tuple(str(v) for v in row) for row in rows)


class PlainSpark:
    """A session on the same catalog that knows nothing of Trickle."""

    def __init__(self, tr: Trickle) -> None:
        self.session: SparkSession = other_session(tr)

    def columns(self, name: str) -> list[str]:
        return list(self.session.table(f"lake.{name}").columns)

    def read(self, name: str, snapshot: int | None = None) -> Content:
        at = "" if snapshot is None else f" VERSION AS OF {snapshot}"
        return _content(self.session.sql(f"SELECT * FROM lake.{name}{at}").collect())

    def snapshots(self, name: str) -> list[int]:
        return [r[0] for r in self.session.sql(f"SELECT snapshot_id FROM lake.{name}.snapshots").collect()]


class PyIceberg:
    def __init__(self, tr: Trickle) -> None:
        from pyiceberg.catalog.sql import SqlCatalog

        place = Path(tr.settings.location)
        self.catalog = SqlCatalog("lake", uri=f"sqlite:///{place / 'catalog.db'}", warehouse=str(place / "warehouse"))

    def table(self, name: str) -> Table:
        return self.catalog.load_table(name)

    def columns(self, name: str) -> list[str]:
        return [f.name for f in self.table(name).schema().fields]

    def read(self, name: str, snapshot: int | None = None) -> Content:
        found = self.table(name).scan(snapshot_id=snapshot).to_arrow()
        return _content(zip(*found.to_pydict().values(), strict=True))

    def snapshots(self, name: str) -> list[int]:
        return [s.snapshot_id for s in self.table(name).snapshots()]


class DuckDb:
    """Reads a metadata file, which PyIceberg finds."""

    def __init__(self, tr: Trickle) -> None:
        import duckdb
        from duckdb_extensions import import_extension

        self.pyiceberg = PyIceberg(tr)
        self.connection = duckdb.connect(config={"autoinstall_known_extensions": "false"})
        for extension in ("avro", "iceberg"):
            import_extension(extension, con=self.connection)

    def _scan(self, name: str, snapshot: int | None = None) -> Any:
        place = self.pyiceberg.table(name).metadata_location.removeprefix("file:").replace("'", "''")
        at = "" if snapshot is None else f", snapshot_from_id = {snapshot}"
        return self.connection.sql(f"SELECT * FROM iceberg_scan('{place}'{at})")

    def columns(self, name: str) -> list[str]:
        return list(self._scan(name).columns)

    def read(self, name: str, snapshot: int | None = None) -> Content:
        return _content(self._scan(name, snapshot).fetchall())


Reader = PlainSpark | PyIceberg | DuckDb
READERS: tuple[Callable[[Trickle], Reader], ...] = (PlainSpark, PyIceberg, DuckDb)


def check_readers(tr: Trickle, readers: list[Reader], name: str, columns: list[str], definition: str) -> None:
    """Everybody sees the definition's rows and columns."""
    expected = _content(tr.spark.sql(definition).collect())
    for reader in readers:
        assert reader.columns(name) == columns, type(reader).__name__
        assert reader.read(name) == expected, type(reader).__name__


def test_other_engines_read_every_demo_table(tr: Trickle) -> None:
    """Through every kind of refresh, and all old versions at the end."""
    for _ in run_demo(tr, rows=600, rounds=1):
        pass
    readers = [make(tr) for make in READERS]
    versions: dict[str, dict[int, tuple[list[str], Content]]] = {t.name: {} for t in TABLES}
    actions = set()

    def check() -> None:
        for table in TABLES:
            columns = list(tr.spark.sql(table.definition).columns)
            check_readers(tr, readers, table.name, columns, table.definition)
            latest = PyIceberg(tr).snapshots(table.name)[-1]
            versions[table.name][latest] = (columns, readers[0].read(table.name))

    check()
    for statement, mode in (
        ("INSERT INTO shop.orders SELECT 90000 + id, 1, date'2026-01-01', 'new' FROM range(3)", None),
        ("DELETE FROM shop.items WHERE order_id % 50 = 1", None),
        ("UPDATE shop.orders SET status = 'paid' WHERE order_id % 40 = 2", "full"),
    ):
        tr.sql(statement)
        actions |= {r.action for r in tr.refresh([t.name for t in TABLES], mode=mode)}
        check()
    assert {Action.DIFFERENTIAL, Action.FULL} <= actions
    for name, known in versions.items():
        for reader in readers:
            for snapshot, (_, content) in known.items():
                assert reader.read(name, snapshot) == content, (name, type(reader).__name__)
            if not isinstance(reader, DuckDb):
                assert set(reader.snapshots(name)) >= set(known)
    listed = {r.tableName for r in other_session(tr).sql("SHOW TABLES IN lake.shop").collect()}
    assert {t.name.partition(".")[2] for t in TABLES} <= listed
    hidden = PyIceberg(tr).catalog.list_tables("shop")
    assert {".".join(n) for n in hidden} >= {t.name for t in TABLES}


# -- one table for life ------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def lake(module_tr: Trickle) -> Trickle:
    tr = module_tr
    tr.sql("CREATE TABLE s.src (id BIGINT COMMENT 'who', k STRING, v BIGINT, ts TIMESTAMP COMMENT 'when')")
    tr.sql(
        "INSERT INTO s.src SELECT id, concat('k', id % 4), id, "
        "timestamp'2026-01-01 12:00:00' + make_dt_interval(CAST(id % 3 AS INT)) FROM range(120)"
    )
    return tr


@pytest.fixture
def outsider(lake: Trickle) -> SparkSession:
    session = other_session(lake)
    session.sql("USE lake.s")
    return session


def facts(tr: Trickle, name: str) -> Any:
    return tr.refresher.lake.facts(tr.store.pointers()[TableName.of(name)].location)


def test_a_changed_column_set_is_another_schema_of_the_same_table(lake: Trickle, outsider: SparkSession) -> None:
    lake.create_stream_table("s.life", "SELECT id, v FROM s.src WHERE id < 10", comment="for life")
    before = facts(lake, "s.life")
    outsider.sql("ALTER TABLE life CREATE TAG first")
    outsider.sql("ALTER TABLE life SET TBLPROPERTIES ('note' = 'hello')")
    lake.create_stream_table("s.above_life", "SELECT v % 2 AS odd, count(*) AS n FROM s.life GROUP BY v % 2")
    lake.alter_stream_table("s.life", "SELECT k, sum(v) AS v, count(*) AS n FROM s.src GROUP BY k")
    after = facts(lake, "s.life")
    assert (after.uuid, after.location) == (before.uuid, before.location)
    assert {f.name: f.id for f in after.fields}["v"] == {f.name: f.id for f in before.fields}["v"], "the same type"
    readers = [make(lake) for make in READERS]
    check_readers(
        lake, readers, "s.life", ["k", "v", "n"], "SELECT k, sum(v) AS v, count(*) AS n FROM s.src GROUP BY k"
    )
    for reader in readers:
        assert reader.read("s.life", before.snapshot_id) == Counter((str(n), str(n)) for n in range(10))
    tagged = outsider.sql("SELECT * FROM life VERSION AS OF 'first'")
    assert (tagged.columns, tagged.count()) == (["id", "v"], 10)
    properties = PyIceberg(lake).table("s.life").properties
    assert (properties["note"], properties["comment"]) == ("hello", "for life")
    lake.refresh("s.above_life")
    assert lake.verify("s.above_life", deep=True).equal
    lake.sql("UPDATE s.src SET v = v + 1 WHERE id = 3")
    assert lake.refresh("s.life").action is Action.DIFFERENTIAL
    assert lake.verify("s.life", deep=True).equal
    # Back to columns of before: their ids are free for no one else.
    lake.alter_stream_table("s.life", "SELECT id, k, CAST(v AS STRING) AS v FROM s.src WHERE id < 5")
    assert lake.verify("s.life", deep=True).equal
    assert readers[1].columns("s.life") == ["id", "k", "v"]


def test_columns_of_others_never_get_a_hidden_id(lake: Trickle, outsider: SparkSession) -> None:
    lake.create_stream_table("s.ids", "SELECT k, count(*) AS n FROM s.src GROUP BY k", mode="auto")
    table = lake.store.stream_table(TableName("s", "ids"))
    assert table is not None
    hidden = {f["id"] for f in json.loads(table.file_schema)["fields"] if f["name"].startswith("_t_")}
    assert hidden
    outsider.sql("ALTER TABLE ids ADD COLUMN mine BIGINT")
    assert not {f.id for f in facts(lake, "s.ids").fields} & hidden
    assert outsider.sql("SELECT count(mine), count(*) FROM ids").first() == (0, 4)
    result = lake.refresh("s.ids")
    assert (result.action, result.reason.split(":")[0]) == (Action.REINITIALIZE, "INTEGRITY")
    assert outsider.table("ids").columns == ["k", "n"]
    assert lake.verify("s.ids", deep=True).equal


def test_what_others_may_do_without_harm(lake: Trickle, outsider: SparkSession) -> None:
    lake.create_stream_table("s.calm", "SELECT k, count(*) AS n, sum(v) AS t FROM s.src GROUP BY k")
    lake.create_stream_table("s.above_calm", "SELECT sum(n) AS n FROM s.calm", mode="differential")
    lake.alter_stream_table("s.calm", mode="differential")
    for n, statement in enumerate(
        (
            "ALTER TABLE calm CREATE TAG kept",
            "COMMENT ON TABLE calm IS 'calm'",
            "ALTER TABLE calm ALTER COLUMN n COMMENT 'how many'",
            "ALTER TABLE calm SET TBLPROPERTIES ('write.parquet.compression-codec' = 'zstd')",
            "ALTER TABLE calm WRITE ORDERED BY k",
            "ALTER TABLE calm ADD PARTITION FIELD bucket(2, k)",
            "CALL lake.system.rewrite_manifests('s.calm')",
            EXPIRE.format("s.calm"),
            "ALTER TABLE calm DROP TAG kept",
            "CALL lake.system.rewrite_position_delete_files(table => 's.calm', options => map('rewrite-all', 'true'))",
        )
    ):
        outsider.sql(statement)
        assert lake.refresh("s.calm").action is Action.NO_DATA, statement
        outsider.sql("ALTER TABLE calm SET TBLPROPERTIES ('again' = 'and again')")
        lake.sql(f"INSERT INTO s.src VALUES ({1000 + n}, 'k{n % 5}', {n}, now())")
        assert lake.refresh("s.calm").action is Action.DIFFERENTIAL, statement
        assert lake.verify("s.calm", deep=True).equal, statement
    assert lake.refresh("s.above_calm").action is Action.DIFFERENTIAL
    assert lake.verify("s.above_calm").equal
    assert outsider.sql("DESCRIBE calm").where("col_name = 'n'").first().comment == "how many"


@pytest.mark.parametrize("definition", ["SELECT id, v FROM s.src", "SELECT k, count(*) AS n FROM s.src GROUP BY k"])
def test_an_outside_compaction_costs_one_recompute(lake: Trickle, outsider: SparkSession, definition: str) -> None:
    for name, mode in (("s.packed", "auto"), ("s.packed_strict", "differential")):
        lake.create_stream_table(name, definition, mode=mode)
        outsider.sql(f"CALL lake.system.rewrite_data_files(table => '{name}', options => map('rewrite-all', 'true'))")
    result = lake.refresh("s.packed")
    assert (result.action, result.reason.split(":")[0]) == (Action.REINITIALIZE, "REWRITTEN")
    with pytest.raises(TrickleError) as caught:
        lake.refresh("s.packed_strict")
    assert caught.value.code == "REWRITTEN"
    assert lake.refresh("s.packed_strict", mode="full").action is Action.FULL
    lake.sql("INSERT INTO s.src VALUES (5000, 'k1', 1, now())")
    for name in ("s.packed", "s.packed_strict"):
        assert lake.refresh(name).action is Action.DIFFERENTIAL
        assert lake.verify(name, deep=True).equal
        lake.drop_stream_table(name)
    lake.sql("DELETE FROM s.src WHERE id = 5000")


# -- what a stream table is like as a table ----------------------------------------------------------------------------


def test_copies_of_a_row_enter_a_partitioned_table(lake: Trickle) -> None:
    lake.sql("CREATE STREAM TABLE s.copies PARTITIONED BY (k) AS SELECT k, CAST(v > 0 AS INT) AS p FROM s.src")
    lake.sql("INSERT INTO s.src VALUES (801, 'kk', 1, now()), (802, 'kk', 2, now()), (803, 'kk', 3, now())")
    lake.sql("DELETE FROM s.src WHERE id = 6")
    assert lake.refresh("s.copies").action is Action.DIFFERENTIAL
    assert lake.verify("s.copies").equal
    assert lake.sql("SELECT count(*) FROM s.copies WHERE k = 'kk'").first()[0] == 3
    lake.sql("DELETE FROM s.src WHERE id IN (801, 802, 803)")
    lake.drop_stream_table("s.copies")


def test_a_partition_value_that_iceberg_would_change_is_refused(lake: Trickle) -> None:
    """It keeps those of identity partitions as Java strings, and readers take the column from there."""
    lake.sql("CREATE TABLE s.words (id INT, word STRING, x DOUBLE) PARTITIONED BY (word)")
    lake.sql("INSERT INTO s.words VALUES (1, 'é', -0.0D), (2, 'b', 0.0D), (3, NULL, double('NaN'))")
    query = "SELECT id, unhex(hex(word)) AS bytes, CAST(unhex(hex(word)) AS STRING) AS word, x FROM s.words"
    lake.create_stream_table("s.by_word", query, partitioned_by=["word", "x"])
    lake.create_stream_table("s.by_bucket", query, partitioned_by=["bucket(4, word)", "truncate(1, word)"])
    lake.sql("INSERT INTO s.words VALUES (4, 'c', 0.0D), (5, 'é', -0.0D)")
    lake.refresh(["s.by_word", "s.by_bucket"])
    assert lake.verify("s.by_word").equal
    # The source is such a table: what it had is lost to all readers alike.
    lake.sql("INSERT INTO s.words VALUES (6, CAST(X'61FF' AS STRING), 0.0D), (7, '\ufffd', 1.0D)")
    lake.refresh(["s.by_word", "s.by_bucket"])
    assert lake.verify("s.by_word").equal
    assert lake.verify("s.by_bucket").equal
    lake.alter_stream_table("s.by_bucket", query.replace("hex(word)", "concat(hex(word), 'FF')"))
    assert lake.verify("s.by_bucket").equal
    before = lake.status("s.by_word")[0].data_timestamp
    for make in (
        lambda: lake.alter_stream_table("s.by_word", query.replace("hex(word)", "concat(hex(word), 'FF')")),
        lambda: lake.create_stream_table(
            "s.by_other", "SELECT id, CAST(X'FF' AS STRING) AS word FROM s.words", partitioned_by=["word"]
        ),
    ):
        with pytest.raises(TrickleError, match=r"a value of word, by which .* is not valid UTF-8") as caught:
            make()
        assert caught.value.code == "PARTITION_VALUE"
    assert lake.status("s.by_word")[0].data_timestamp == before
    assert lake.verify("s.by_word").equal
    for name in ("s.by_word", "s.by_bucket"):
        lake.drop_stream_table(name)


def test_partitions_order_comments_and_properties(lake: Trickle) -> None:
    lake.sql(
        "CREATE STREAM TABLE s.laid PARTITIONED BY (day(ts), bucket(4, id)) CLUSTER BY (v DESC, k) "
        "COMMENT 'it''s mine' TBLPROPERTIES ('read.split.target-size' = '1048576') "
        "AS SELECT id, ts, k, v, v + 1 AS w FROM s.src"
    )
    table = PyIceberg(lake).table("s.laid")
    assert [(f.name, str(f.transform)) for f in table.spec().fields] == [("ts_day", "day"), ("id_bucket", "bucket[4]")]
    assert [str(f.direction) for f in table.sort_order().fields] == ["DESC", "ASC"]
    docs = {f.name: f.doc for f in table.schema().fields}
    assert docs == {"id": "who", "ts": "when", "k": None, "v": None, "w": None}
    assert (table.properties["comment"], table.properties["read.split.target-size"]) == ("it's mine", "1048576")
    files = lake.sql("SELECT count(*), count(DISTINCT partition) FROM s.laid.files").first()
    assert files[0] == files[1] >= 12, "one file in each partition: 4 buckets of 3 days and more"
    for change in ("INSERT INTO s.src VALUES (700, 'k1', 7, now())", "DELETE FROM s.src WHERE id IN (5, 700)"):
        lake.sql(change)
        assert lake.refresh("s.laid").action is Action.DIFFERENTIAL
        assert lake.verify("s.laid", deep=True).equal
    # Another query keeps the layout where its columns allow.
    lake.alter_stream_table("s.laid", "SELECT id, k, v FROM s.src")
    table = PyIceberg(lake).table("s.laid")
    assert [str(f.transform) for f in table.spec().fields if str(f.transform) != "void"] == ["bucket[4]"]
    assert len(table.sort_order().fields) == 2
    assert lake.verify("s.laid", deep=True).equal
    # CREATE OR REPLACE says it anew.
    replaced = lake.sql("CREATE OR REPLACE STREAM TABLE s.laid PARTITIONED BY (k) AS SELECT id, k, v FROM s.src")
    assert "partitioned by k" in replaced.reason
    keys = lake.sql("SELECT count(DISTINCT k) FROM s.src").first()[0]
    assert lake.sql("SELECT count(DISTINCT partition) FROM s.laid.files").first()[0] == keys
    assert lake.verify("s.laid", deep=True).equal
    same = lake.sql(
        "CREATE OR REPLACE STREAM TABLE s.laid PARTITIONED BY (k) COMMENT 'x' AS SELECT id, k, v FROM s.src"
    )
    assert not hasattr(same, "action"), "nothing had to be computed"
    assert PyIceberg(lake).table("s.laid").properties["comment"] == "x"
    lake.sql("INSERT INTO s.src VALUES (701, 'k1', 7, now())")
    assert lake.refresh("s.laid").action is Action.DIFFERENTIAL
    lake.create_stream_table(
        "s.from_python",
        "SELECT k, ts, v FROM s.src",
        partitioned_by=["hour(ts)", "truncate(1, k)"],
        cluster_by=["v"],
        properties={"a": "b"},
    )
    assert [str(f.transform) for f in PyIceberg(lake).table("s.from_python").spec().fields] == ["hour", "truncate[1]"]
    assert lake.verify("s.from_python").equal


@pytest.mark.parametrize(
    ("clause", "code", "says"),
    [
        ("PARTITIONED BY (nope)", "INVALID_OPTION", "nope"),
        ("PARTITIONED BY (day(k))", "INVALID_OPTION", "day"),
        ("PARTITIONED BY (week(ts))", "INVALID_STATEMENT", "year, month"),
        ("PARTITIONED BY (bucket(0, id))", "INVALID_STATEMENT", "above zero"),
        ("PARTITIONED BY id", "INVALID_STATEMENT", "parentheses"),
        ("PARTITIONED BY (id) PARTITIONED BY (k)", "INVALID_STATEMENT", "each once"),
        ("CLUSTER BY (id, nope)", "INVALID_OPTION", "nope"),
        ("TBLPROPERTIES ('format-version' = '2')", "INVALID_OPTION", "format-version"),
        ("TBLPROPERTIES ('trickle.stream-table' = 'no')", "INVALID_OPTION", "trickle.stream-table"),
    ],
)
def test_bad_options(lake: Trickle, clause: str, code: str, says: str) -> None:
    before = lake.store.pointers()
    with pytest.raises(TrickleError) as caught:
        lake.sql(f"CREATE STREAM TABLE s.bad {clause} AS SELECT id, k, ts FROM s.src")
    assert caught.value.code == code
    assert says in str(caught.value)
    assert lake.store.pointers() == before


# -- what tr.sql refuses -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "statement",
    [
        "INSERT INTO s.guarded VALUES (1, 1)",
        "INSERT OVERWRITE lake.s.guarded SELECT 1, 1",
        "INSERT INTO s.guarded REPLACE WHERE id = 1 SELECT 1, 1",
        "WITH c AS (SELECT 1, 1) INSERT INTO guarded SELECT * FROM c",
        "FROM s.src INSERT INTO s.scratch SELECT id INSERT INTO s.guarded SELECT id, v",
        "UPDATE s.guarded SET v = 1",
        "DELETE FROM `s`.`guarded` WHERE id = 1",
        "MERGE INTO s.guarded g USING s.src s ON g.id = s.id WHEN MATCHED THEN DELETE",
        "TRUNCATE TABLE s.guarded",
        "DROP TABLE s.guarded",
        "DROP TABLE IF EXISTS s.guarded PURGE",
        "DROP VIEW IF EXISTS s.guarded",
        "ALTER TABLE s.guarded ADD COLUMN x INT",
        "ALTER TABLE s.guarded RENAME TO s.other",
        "ALTER TABLE s.guarded SET TBLPROPERTIES ('a' = 'b')",
        "ALTER TABLE s.guarded ADD PARTITION FIELD id",
        "ALTER TABLE s.guarded WRITE ORDERED BY id",
        "ALTER TABLE s.guarded DROP COLUMN v",
        "CREATE OR REPLACE TABLE s.guarded (a INT)",
        "CREATE OR REPLACE TABLE s.guarded AS SELECT 1 AS a",
        "CREATE OR REPLACE VIEW s.guarded AS SELECT 1 AS a",
        "EXECUTE IMMEDIATE 'DELETE FROM s.guarded'",
        "BEGIN SELECT 1; INSERT INTO s.guarded VALUES (1, 1); END",
        "BEGIN IF true THEN SELECT 1; ELSE DELETE FROM s.guarded; END IF; END",
        "BEGIN FOR r AS SELECT 1 AS a DO DROP TABLE s.guarded; END FOR; END",
        "BEGIN WHILE false DO BEGIN EXECUTE IMMEDIATE 'TRUNCATE TABLE s.guarded'; END; END WHILE; END",
        "BEGIN DECLARE EXIT HANDLER FOR SQLEXCEPTION BEGIN DROP TABLE s.guarded; END; SELECT 1; END",
    ],
)
def test_statements_that_would_change_a_stream_table(lake: Trickle, statement: str) -> None:
    if lake.store.stream_table(TableName("s", "guarded")) is None:
        lake.create_stream_table("s.guarded", "SELECT id, v FROM s.src")
    before = lake.store.pointers()
    with pytest.raises(TrickleError, match=r"s\.guarded is a stream table") as caught:
        lake.sql(statement)
    assert caught.value.code == "STREAM_TABLE"
    assert "STREAM TABLE s.guarded" in str(caught.value.hint)
    assert lake.store.pointers() == before


def test_a_statement_that_is_computed_is_refused(lake: Trickle) -> None:
    with pytest.raises(TrickleError, match="EXECUTE IMMEDIATE") as caught:
        lake.sql("EXECUTE IMMEDIATE concat('DELETE FROM s.', 'src')")
    assert caught.value.code == "STREAM_TABLE"


def test_statements_that_only_read_a_stream_table(lake: Trickle) -> None:
    if lake.store.stream_table(TableName("s", "guarded")) is None:
        lake.create_stream_table("s.guarded", "SELECT id, v FROM s.src")
    lake.sql("CREATE TABLE s.copy AS SELECT * FROM s.guarded")
    lake.sql("INSERT INTO s.copy SELECT * FROM s.guarded")
    lake.sql("EXECUTE IMMEDIATE 'INSERT INTO s.copy SELECT * FROM s.guarded'")
    lake.sql("BEGIN FOR r AS SELECT 1 AS a DO INSERT INTO s.copy SELECT * FROM s.guarded; END FOR; END")
    lake.sql("MERGE INTO s.copy c USING s.guarded g ON c.id = g.id WHEN MATCHED THEN DELETE")
    lake.sql("COMMENT ON TABLE s.guarded IS 'kept by Trickle'")
    lake.sql("DESCRIBE TABLE EXTENDED s.guarded").collect()
    lake.sql("DROP TABLE s.copy")
    assert lake.refresh("s.guarded").action is Action.NO_DATA
    assert lake.verify("s.guarded").equal
