"""What tests of the publish look at: rows as a reader sees them, rows and files that must not be left behind."""

from __future__ import annotations

import re
from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING, Any

from sqlalchemy import select

from spark_trickle import Trickle
from spark_trickle.catalog.tables import iceberg_tables
from spark_trickle.lake import jvm
from spark_trickle.spark.session import new_session

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

Rows = list[tuple[Any, ...]]


def other_session(tr: Trickle, catalog: str = "lake") -> SparkSession:
    """A session that shares nothing with the refresher's but the lake."""
    return new_session(tr.spark, tr.settings, catalog)


def rows(session: SparkSession, query: str) -> Rows:
    return sorted((tuple(r) for r in session.sql(query).collect()), key=repr)


def private_catalogs(tr: Trickle) -> set[str]:
    """Catalog names of attempts and reader cuts that have rows now; named cuts are not among them."""
    p = iceberg_tables
    found = tr.store._rows(select(p.c.catalog_name).where(p.c.catalog_name.like("trickle!_%", escape="!")))
    return {r["catalog_name"] for r in found if not r["catalog_name"].startswith("trickle_cut_")}


def unreferenced(tr: Trickle, names: Iterable[str]) -> set[str]:
    """Data and delete files in the folders of stream tables that no snapshot of the lake's tables refers to."""
    warehouse = tr.settings.warehouse_path
    assert warehouse is not None
    on_disk: set[str] = set()
    referred: set[str] = set()
    handles, io, manifests = jvm.handles(tr.spark), jvm.file_io(tr.spark), jvm.manifests(tr.spark)
    pointers = {str(p.name): p for p in tr.store.pointers().values()}
    for name in names:
        metadata = tr.refresher.lake.metadata(pointers[name].location)
        folder = Path(_plain(str(metadata.location()))) / "data"
        on_disk |= {str(f) for f in folder.rglob("*") if f.is_file() and not f.name.endswith(".crc")}
        table = tr.refresher.lake.table(pointers[name].location, name)
        for snapshot in metadata.snapshots():
            # Not what it added: that of an expired one may still be there.
            data, deletes = snapshot.dataManifests(io), snapshot.deleteManifests(io)
            referred |= {_plain(f) for f in handles.pluck(manifests.dataFiles(data, table), _LOCATION)}
            referred |= {_plain(f) for f in handles.pluck(manifests.deleteFiles(deletes, table), _LOCATION)}
    return on_disk - referred


def _plain(uri: str) -> str:
    return re.sub(r"^file:(//)?", "", uri)


_LOCATION = ("org.apache.iceberg.ContentFile", "location")
