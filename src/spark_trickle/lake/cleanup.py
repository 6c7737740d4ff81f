"""Remove what failed or dead attempts left behind. Only files that no published metadata refers to."""

from __future__ import annotations

import logging
from collections.abc import Collection, Container, Iterable
from datetime import UTC, datetime, timedelta
from itertools import takewhile
from typing import TYPE_CHECKING

from spark_trickle.catalog.recovery import note_orphans, recover
from spark_trickle.catalog.store import CatalogStore
from spark_trickle.lake import jvm
from spark_trickle.lake.changelog import log_folder
from spark_trickle.lake.jvm import Java
from spark_trickle.lake.pins import is_pin
from spark_trickle.lake.tables import Lake
from spark_trickle.model import STREAM_TABLE_MARK, Pointer
from spark_trickle.thresholds import HELD_SECONDS

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_log = logging.getLogger(__name__)


def clean_up(session: SparkSession, store: CatalogStore, lake: Lake, age: timedelta) -> tuple[str, ...]:
    """Close the books of dead processes; returns the refresh ids that were found unfinished.

    `age` is that of files which maintenance then looks for, because nothing refers to them.
    """
    found = recover(store)
    dead = {leftover.catalog for leftover in found.leftovers}
    ours = {part.name: part.id for table in store.stream_tables() for part in (table, *table.states)}
    for leftover in found.leftovers:
        live = store.pointers()
        never_published = []
        for pointer in leftover.pointers:
            try:
                if is_pin(pointer.location):
                    delete_files(session, [pointer.location])
                elif pointer.name in ours and pointer.name in live:
                    _delete_log(session, store, lake, pointer, leftover.catalog)
                    if dead.issuperset(store.catalogs_with(pointer.name)):  # else a cut or a reader uses the files
                        _delete_staged(session, store, lake, pointer, live[pointer.name])
                elif pointer.name not in live and _is_marked(lake, pointer):
                    never_published.append(pointer)
            except Exception as error:  # a leftover that cannot be read must not keep the lake shut
                _log.warning("left behind: %s (%s)", pointer.location, jvm.why(error))
        with store.write() as tx:
            tx.drop_catalog(leftover.catalog)
            for pointer in never_published:  # deleted below, unless a catalog has it under another name
                tx.add_garbage(pointer.location, kind="table", reason=f"{pointer.name} was never published")
    note_orphans(store, (ours[p.name] for gone in found.leftovers for p in gone.pointers if p.name in ours), age)
    sweep(session, store)
    return found.failed


def _is_marked(lake: Lake, pointer: Pointer) -> bool:
    return not pointer.is_view and bool(lake.metadata(pointer.location).properties().containsKey(STREAM_TABLE_MARK))


def _delete_staged(
    session: SparkSession, store: CatalogStore, lake: Lake, pointer: Pointer, published: Pointer
) -> None:
    if published.is_view or published.location == pointer.location:
        return
    staged, kept = lake.metadata(pointer.location), lake.metadata(published.location)
    known = {published.location, *(entry.file() for entry in kept.previousFiles())}
    head, before = staged.currentSnapshot(), staged.previousFiles()
    if head is not None and kept.snapshot(head.snapshotId()) is not None:
        # Nothing but metadata was staged: snapshots were to expire.
        if pointer.location not in known and before.size() and before.get(before.size() - 1).file() in known:
            delete_files(session, [pointer.location])
        return
    # Only the one snapshot that was staged on top of a published one: what was published and has expired since may
    # have live files.
    if head is None or head.parentId() is None:
        return
    if store.was_published(head.snapshotId()):
        return
    if kept.snapshot(head.parentId()) is not None:
        delete_staged(session, staged, [head.snapshotId()], known)


_LOCATION = ("org.apache.iceberg.ContentFile", "location")
_MANIFEST = "org.apache.iceberg.ManifestFile"


def delete_staged(session: SparkSession, staged: Java, snapshots: list[int], known: Container[str]) -> None:
    """Delete what an attempt put on top of `known` metadata files: the files of its snapshots, and its metadata files.

    Somebody else may delete them at the same time: an attempt that was paused, and who took its leases over.
    """
    try:
        delete_added(session, staged, snapshots)
    finally:
        earlier = [str(entry.file()) for entry in staged.previousFiles()]
        ours = list(takewhile(lambda file: file not in known, reversed(earlier)))
        # A long chain has forgotten its beginning: then it does not tell whose its files are.
        delete_files(session, [str(staged.metadataFileLocation()), *(ours if len(ours) < len(earlier) else ())])


def delete_added(session: SparkSession, metadata: Java, snapshots: list[int]) -> None:
    """Delete the files that these unpublished snapshots brought: data, deletes, manifests."""
    handles, io = jvm.handles(session), jvm.file_io(session)
    for snapshot_id in snapshots:
        snapshot = metadata.snapshot(snapshot_id)
        for added in (snapshot.addedDataFiles(io), snapshot.addedDeleteFiles(io)):
            delete_files(session, handles.pluck(added, _LOCATION))
        manifests = snapshot.allManifests(io)
        makers = handles.pluck(manifests, (_MANIFEST, "snapshotId"))
        paths = handles.pluck(manifests, (_MANIFEST, "path"))
        own = [path for path, maker in zip(paths, makers, strict=True) if maker == str(snapshot_id)]
        delete_files(session, [*own, snapshot.manifestListLocation()])


def delete_files(session: SparkSession, paths: Iterable[str]) -> None:
    io, all_ = jvm.file_io(session), list(paths)
    held = jvm.handles(session)
    if len(all_) > 1 and held.class_of("org.apache.iceberg.io.SupportsBulkOperations").isInstance(io):
        io.deleteFiles(held.strings(all_))
        return
    for path in all_:
        io.deleteFile(path)


def sweep(session: SparkSession, store: CatalogStore, kinds: Collection[str] | None = None, limit: int = 1000) -> None:
    """Delete files that are garbage by now. One that cannot be deleted is tried again next time."""
    done: list[int] = []
    held: list[int] = []
    for item in store.garbage(datetime.now(UTC), limit, kinds):
        try:
            if item.kind == "file":
                delete_files(session, [item.location])
            elif item.kind == "files":
                delete_files(session, item.location.split("\n"))
            elif item.kind != "table":
                continue
            elif not _delete_table(session, store, item.location):
                held.append(item.id)
                continue
            done.append(item.id)
        except Exception as error:
            _log.warning("not deleted yet: %s (%s)", item.location, jvm.why(error))
    if done or held:
        with store.write() as tx:
            tx.drop_garbage(done)
            tx.put_off_garbage(held, datetime.now(UTC) + timedelta(seconds=HELD_SECONDS))


def _delete_table(session: SparkSession, store: CatalogStore, location: str) -> bool:
    """All files of a table that the lake no longer has; not while an attempt, a reader or a cut holds it."""
    # As the catalogs spell it: a metadata file may name its table's place in another way.
    folder, found, _ = location.rpartition("/metadata/")
    if not found or store.is_held(folder):
        return False
    if jvm.file_io(session).newInputFile(location).exists():
        drop_files(session, jvm.load_metadata(session, location))
    return True


def _delete_log(session: SparkSession, store: CatalogStore, lake: Lake, pointer: Pointer, catalog: str) -> None:
    """Files of a change log that a dead attempt wrote and did not publish."""
    from py4j.protocol import Py4JError

    folder = log_folder(lake.metadata(pointer.location).location(), catalog)
    try:
        listed = jvm.file_io(session).listPrefix(folder)
        found = jvm.handles(session).pluck(listed, ("org.apache.iceberg.io.FileInfo", "location"))
    except Py4JError:  # no such folder, or storage that cannot be listed
        return
    # A listing may spell the place in another way; the file names hold random ids.
    known = {_last(f.path) for entry in store.change_log([pointer.name]) for f in entry.files}
    delete_files(session, [path for path in found if _last(path) not in known])


def _last(path: str) -> str:
    return path.rpartition("/")[2]


def drop_files(session: SparkSession, metadata: Java) -> None:
    """Delete all files of a table that no catalog has."""
    jvm.handles(session).jvm.org.apache.iceberg.CatalogUtil.dropTableData(jvm.file_io(session), metadata)
