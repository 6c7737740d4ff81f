"""Empty tables for plan tests. Iceberg tables: Spark evaluates views over VALUES while it plans."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

TABLES = {
    "t": """a INT, b INT, c BIGINT, x DOUBLE, y FLOAT, n DECIMAL(12,2), m DECIMAL(38,10), s STRING, g STRING,
        d DATE, e DATE, ts TIMESTAMP, tn TIMESTAMP_NTZ, f BOOLEAN, bin BINARY, arr ARRAY<INT>, sarr ARRAY<STRING>,
        mp MAP<STRING, INT>, st STRUCT<p: INT, q: STRUCT<r: STRING, w: ARRAY<INT>>>,
        arrs ARRAY<STRUCT<k: STRING, v: INT>>, j STRING, `odd name` INT, `tick``ed` INT, `größe` INT, `select` INT""",
    "u": "a INT, b INT, z STRING",
    "w": "a INT, d DATE, q STRING",
    "parted": "p INT, k INT",
}

TPCH = {
    "region": "r_regionkey BIGINT, r_name STRING, r_comment STRING",
    "nation": "n_nationkey BIGINT, n_name STRING, n_regionkey BIGINT, n_comment STRING",
    "supplier": """s_suppkey BIGINT, s_name STRING, s_address STRING, s_nationkey BIGINT, s_phone STRING,
        s_acctbal DECIMAL(15,2), s_comment STRING""",
    "customer": """c_custkey BIGINT, c_name STRING, c_address STRING, c_nationkey BIGINT, c_phone STRING,
        c_acctbal DECIMAL(15,2), c_mktsegment STRING, c_comment STRING""",
    "part": """p_partkey BIGINT, p_name STRING, p_mfgr STRING, p_brand STRING, p_type STRING, p_size INT,
        p_container STRING, p_retailprice DECIMAL(15,2), p_comment STRING""",
    "partsupp": """ps_partkey BIGINT, ps_suppkey BIGINT, ps_availqty INT, ps_supplycost DECIMAL(15,2),
        ps_comment STRING""",
    "orders": """o_orderkey BIGINT, o_custkey BIGINT, o_orderstatus STRING, o_totalprice DECIMAL(15,2),
        o_orderdate DATE, o_orderpriority STRING, o_clerk STRING, o_shippriority INT, o_comment STRING""",
    "lineitem": """l_orderkey BIGINT, l_partkey BIGINT, l_suppkey BIGINT, l_linenumber INT, l_quantity DECIMAL(15,2),
        l_extendedprice DECIMAL(15,2), l_discount DECIMAL(15,2), l_tax DECIMAL(15,2), l_returnflag STRING,
        l_linestatus STRING, l_shipdate DATE, l_commitdate DATE, l_receiptdate DATE, l_shipinstruct STRING,
        l_shipmode STRING, l_comment STRING""",
}


def make_tables(session: SparkSession) -> None:
    """All tables in lake.guard, which becomes the current namespace."""
    session.sql("CREATE NAMESPACE IF NOT EXISTS lake.guard")
    session.sql("USE lake.guard")
    for name, columns in {**TABLES, **TPCH}.items():
        by = "PARTITIONED BY (p)" if name == "parted" else ""
        session.sql(f"CREATE TABLE IF NOT EXISTS {name} ({columns}) USING iceberg {by}")
