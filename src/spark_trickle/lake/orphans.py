"""Files that nothing refers to: what a process wrote for a commit that it did not live to make.

The books of a dead process tell which tables it worked on (`catalog/recovery.py`). Their folders are listed when its
files are old: other engines may be writing there as well, and nothing refers to the files of their commits yet, either.
"""

from __future__ import annotations

from collections.abc import Iterable
from datetime import datetime

from spark_trickle.catalog.store import CatalogStore
from spark_trickle.lake import jvm
from spark_trickle.lake.cleanup import delete_files
from spark_trickle.lake.history import listed_files
from spark_trickle.lake.tables import Lake
from spark_trickle.model import LAKE, TableName

_ABOUT = (".avro", ".metadata.json")
_CONTENT = ("org.apache.iceberg.ContentFile", "location")
_MANIFEST = ("org.apache.iceberg.ManifestFile", "path")


def delete_orphans(lake: Lake, store: CatalogStore, name: TableName, before: datetime) -> int:
    """Delete the files of a table that nothing refers to and that were written before a time.

    Under the lease of the table: nobody else of ours writes to it.
    """
    held = store.held_at(name)
    if LAKE not in held:
        return 0
    folder = str(lake.metadata(held[LAKE]).location())
    old = {path.rpartition("/")[2]: path for path in _listed(lake, folder, before)}
    if not old:
        return 0
    referred = {location.rpartition("/")[2] for location in store.locations_of(name)}
    unknown = set(old) - referred - _known(lake, name, held.values()) - _garbage(store)
    delete_files(lake.session, [old[file] for file in sorted(unknown)])
    return len(unknown)


def _listed(lake: Lake, folder: str, before: datetime) -> list[str]:
    """A listing may spell the folder in another way than metadata does: files are told by their names."""
    data = [(path, at) for path, at in listed_files(lake, f"{folder}/data") if not path.endswith(".crc")]
    # Statistics are somebody else's.
    about = [(path, at) for path, at in listed_files(lake, f"{folder}/metadata") if path.endswith(_ABOUT)]
    return [path for path, at in (*data, *about) if at < before]


def _known(lake: Lake, name: TableName, locations: Iterable[str]) -> set[str]:
    """The names of files that the lake, an attempt or a cut refers to."""
    handles, io, read = jvm.handles(lake.session), jvm.file_io(lake.session), jvm.manifests(lake.session)
    known: set[str] = set()
    for location in locations:
        metadata, table = lake.metadata(location), lake.table(location, str(name))
        known.update(str(entry.file()).rpartition("/")[2] for entry in metadata.previousFiles())
        for snapshot in metadata.snapshots():
            known.add(str(snapshot.manifestListLocation()).rpartition("/")[2])
            for listed, files in (
                (snapshot.dataManifests(io), read.dataFiles),
                (snapshot.deleteManifests(io), read.deleteFiles),
            ):
                paths = [path.rpartition("/")[2] for path in handles.pluck(listed, _MANIFEST)]
                if not known.issuperset(paths):  # most manifests are those of the snapshot before
                    new = handles.jvm.java.util.ArrayList()
                    for n, path in enumerate(paths):
                        if path not in known:
                            new.add(listed.get(n))
                    known.update(path.rpartition("/")[2] for path in handles.pluck(files(new, table), _CONTENT))
                    known.update(paths)
    return known


def _garbage(store: CatalogStore) -> set[str]:
    """Files that are deleted in their time."""
    found = store.garbage(kinds=("file", "files"), limit=1_000_000)
    return {path.rpartition("/")[2] for g in found for path in g.location.split("\n")}
