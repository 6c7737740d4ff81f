"""Upkeep of one table after the other: each pass is an attempt that is published as a refresh is.

Data files are rewritten as a snapshot of our own, `replace`, with the same rows, row ids and hidden columns; snapshots
that nobody needs are taken out of the table in the same publish. So the engine knows the table as its own, and the
frontiers of consumers move along. Files go later, when no reader can be at them.
"""

from __future__ import annotations

import logging
import math
import time
import uuid
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, timedelta

from spark_trickle.catalog.changes import UpkeepChange
from spark_trickle.catalog.connection import OutcomeUnknown
from spark_trickle.catalog.frontier import location_of
from spark_trickle.catalog.leases import Lease, is_held
from spark_trickle.catalog.reader import unknown
from spark_trickle.catalog.recovery import ORPHANS
from spark_trickle.catalog.retention import trim_history
from spark_trickle.errors import TrickleError
from spark_trickle.lake.cleanup import delete_files, sweep
from spark_trickle.lake.files import FileReader, FileState
from spark_trickle.lake.history import Snapshots, metadata_files, snapshots_of
from spark_trickle.lake.jvm import why
from spark_trickle.lake.orphans import delete_orphans
from spark_trickle.lake.publish import Member, publish
from spark_trickle.lake.staging import Staging
from spark_trickle.maintenance.decide import (
    Need,
    Rules,
    StoredFile,
    need,
    superseded,
    to_expire,
)
from spark_trickle.maintenance.needed import held_snapshots, named_versions, reads
from spark_trickle.model import LAKE, Action, Pointer, StreamTable, TableName
from spark_trickle.refresh.run import Refresher
from spark_trickle.refresh.situation import Cut, foreign
from spark_trickle.refresh.stages import Stages
from spark_trickle.results import HistoryEntry, Upkeep
from spark_trickle.schedule import parse_duration
from spark_trickle.spark.analyze import spark_error
from spark_trickle.thresholds import SWEPT_AT_ONCE

_log = logging.getLogger(__name__)

_NOTHING = "nothing is to be done"
_TRIM_SECONDS = 3600.0


class _LeftAlone(Exception):
    """Why a table is not maintained."""


@dataclass(slots=True)
class Looked:
    """A table, and what it needs."""

    table: StreamTable
    pointer: Pointer
    need: Need
    files: int
    states: tuple[FileState, ...]  # of its files, where they may have to be rewritten


@dataclass(slots=True)
class Maintainer:
    refresher: Refresher
    _seen: dict[int, str] = field(default_factory=dict)  # metadata files that were looked at, by id of the table
    _planned: dict[int, int] = field(default_factory=dict)  # snapshots whose files need nothing, by id of the table
    _served: TableName | None = None  # whose turn it was last
    _trimmed_at: float = -math.inf

    # -- what is asked for -----------------------------------------------------------------------------------------

    def maintain(self, names: Sequence[TableName] = (), *, dry_run: bool = False, by: str = "manual") -> list[Upkeep]:
        """One pass for each of these stream tables and their hidden state tables; no name: all."""
        known = self.refresher.known()
        for name in names:
            if name not in known:
                raise unknown(name, known)
        found = []
        for owner in (known[n] for n in names or sorted(known)):
            found += self._look_only(owner) if dry_run else self._pass(owner, by)
        if not dry_run:
            sweep(self.refresher.lake.session, self.refresher.store)
            self.delete_orphans()
        if not dry_run and not names:
            self._trimmed_at = -math.inf
            self._trim_history()
        return found

    def next(self, by: str) -> list[Upkeep]:
        """A pass for the next stream table that needs one, in turn; nothing if none does.

        One that has not moved since it was looked at needs no more than it did then.
        """
        self._trim_history()
        sweep(self.refresher.lake.session, self.refresher.store, limit=SWEPT_AT_ONCE)
        self.delete_orphans()
        known = self.refresher.known()
        for name in sorted(known, key=lambda n: (self._served is not None and n <= self._served, n)):
            owner = known[name]
            at = {t.id: t.published_pointer or "" for t in (owner, *owner.states)}
            if at.items() <= self._seen.items():
                continue
            needed = any(looked.need for looked in self._look_all(owner, datetime.now(UTC)))
            self._seen |= at
            if needed:
                self._served = name
                return self._pass(owner, by)
        return []

    def delete_orphans(self) -> int:
        """Delete the files that dead processes left in the folders of tables they worked on, when they are old."""
        r, now = self.refresher, datetime.now(UTC)
        due = {g.location: g.id for g in r.store.garbage(now, kinds=(ORPHANS,))}
        before = now - timedelta(seconds=parse_duration(r.settings.orphan_age))
        deleted, known = 0, r.known() if due else {}
        there = {f"stream_table:{part.id}" for owner in known.values() for part in (owner, *owner.states)}
        done = [due.pop(gone) for gone in due.keys() - there]  # dropped: their folders go as a whole
        for owner in known.values():
            parts = [part for part in (owner, *owner.states) if f"stream_table:{part.id}" in due]
            lease = r.heartbeat.take(f"stream_table:{owner.id}") if parts else None
            if lease is None:
                continue
            try:
                for part in parts:
                    deleted += delete_orphans(r.lake, r.store, part.name, before)
            except Exception as error:
                _log.warning("files of dead processes stay behind: %s", why(error))
                continue
            finally:
                r.heartbeat.give_back(lease)
            done += [due[f"stream_table:{part.id}"] for part in parts]
        if done:
            with r.store.write() as tx:
                tx.drop_garbage(done)
        return deleted

    def _trim_history(self) -> None:
        """Delete old history, now and then."""
        now = time.monotonic()
        if now - self._trimmed_at >= _TRIM_SECONDS:
            self._trimmed_at = now
            keep = timedelta(seconds=parse_duration(self.refresher.settings.history_retain))
            trim_history(self.refresher.store, datetime.now(UTC) - keep)

    @property
    def rules(self) -> Rules:
        s = self.refresher.settings
        age = timedelta(seconds=parse_duration(s.retain))
        return Rules(age, s.retain_snapshots, s.target_file_size, s.compact_files)

    @property
    def _grace(self) -> timedelta:
        return timedelta(seconds=parse_duration(self.refresher.settings.reader_grace))

    # -- looking ---------------------------------------------------------------------------------------------------

    def _look_only(self, owner: StreamTable) -> list[Upkeep]:
        found = []
        for table in (owner, *owner.states):
            try:
                looked = self._look(table, datetime.now(UTC))
                found.append(Upkeep(str(table.name), False, str(looked.need.reason or _NOTHING), looked.files))
            except (TrickleError, _LeftAlone) as error:
                found.append(Upkeep(str(table.name), False, str(error)))
        return found

    def _look_all(self, owner: StreamTable, now: datetime) -> Iterable[Looked]:
        for table in (owner, *owner.states):
            try:
                yield self._look(table, now, sparing=True)
            except (TrickleError, _LeftAlone) as error:
                _log.debug("%s is left alone: %s", table.name, error)

    def _look(self, table: StreamTable, now: datetime, *, sparing: bool = False) -> Looked:
        """What a table needs; _LeftAlone when it is not as we left it.

        `sparing`: its files are not planned again for a few new ones.
        """
        r = self.refresher
        pointer = r.store.pointers(names=[table.name]).get(table.name)
        if pointer is None or table.published_snapshot is None or not table.file_schema:
            raise _LeftAlone("it has no content that we wrote")
        others = foreign(r.lake, table, Cut({table.name: pointer}, now))
        if others is not None:
            raise _LeftAlone(f"the next refresh recomputes it: {others}")
        held = snapshots_of(r.lake, pointer.location)
        rules = self.rules.of(held.properties)
        files: tuple[FileState, ...] = ()
        stored: list[StoredFile] = []
        planned = not (held.few_files(rules.min_files) or (sparing and self._few_new(table, pointer, rules)))
        if planned:
            files, stored = self._files(table, pointer, held.current)
        found = need(stored, self._expirable(table, held, rules, now), rules)
        if found.rewrite:
            self._planned.pop(table.id, None)
        elif planned:
            self._planned[table.id] = held.current
        return Looked(table, pointer, found, held.files, files)

    def _few_new(self, table: StreamTable, pointer: Pointer, rules: Rules) -> bool:
        """Whether fewer files have come than are merged, data and deletes, since those there are needed nothing."""
        then = self._planned.get(table.id)
        commits = None if then is None else self.refresher.lake.history(pointer.location).since(then)
        return commits is not None and sum(c.files_added for c in commits) < rules.min_files

    def _files(
        self, table: StreamTable, pointer: Pointer, snapshot: int
    ) -> tuple[tuple[FileState, ...], list[StoredFile]]:
        r = self.refresher
        reader = FileReader(r.lake.session, r.lake.table(pointer.location, str(table.name)))
        files = reader.plan(snapshot)
        places = reader.partitions(files)
        stored = [
            StoredFile(f.path, place, f.size, f.rows, f.rows if f.live_rows is None else f.live_rows)
            for f, place in zip(files, places, strict=True)
            if all(d.is_vector for d in f.deletes)
        ]
        return files, stored

    def _expirable(self, table: StreamTable, held: Snapshots, rules: Rules, now: datetime) -> tuple[int, ...]:
        """The snapshots of a table that nobody needs."""
        r, known = self.refresher, self.refresher.known().values()
        # In this order: a refresh that ends meanwhile is in what comes after.
        cuts = r.store.leased_at([f"stream_table:{t.id}" for t in known if reads(t, table.name)], now)
        needed = {held.current, *held.referred, *named_versions(r.lake, table.name, known)}
        needed |= held_snapshots(r.store, r.lake, table.name)
        frontiers = r.store.frontiers_at(table.name)
        return to_expire(held.snapshots, needed, frontiers, rules, now, cuts)

    # -- doing -----------------------------------------------------------------------------------------------------

    def _pass(self, owner: StreamTable, by: str) -> list[Upkeep]:
        r = self.refresher
        lease = r.heartbeat.take(f"stream_table:{owner.id}")
        if lease is None:
            return [Upkeep(str(owner.name), False, "a refresh of it is running")]
        found = []
        try:
            now = r.known().get(owner.name)
            if now is None or now.id != owner.id:
                return [Upkeep(str(owner.name), False, "it was dropped")]
            for table in (now, *now.states):
                try:
                    found.append(self._maintain(table, lease, by))
                except _LeftAlone as error:
                    found.append(Upkeep(str(table.name), False, str(error)))
                except Exception as error:
                    found.append(self._failed(owner, table, spark_error(error)))
        finally:
            r.heartbeat.give_back(lease)
        return found

    def _failed(self, owner: StreamTable, table: StreamTable, error: TrickleError) -> Upkeep:
        """Said, and nothing more: the table is as it was, and its refreshes go on.

        The alert is the owner's: a hidden state table has no status by which it could end.
        """
        _log.warning("maintenance of %s failed: %s", table.name, error)
        message = f"maintenance of {table.name} failed: {error.message}"
        with self.refresher.store.write() as tx:
            tx.alerts.raise_("MAINTENANCE_FAILED", message, str(owner.name))
        return Upkeep(str(table.name), False, str(error), failed=True)

    def _maintain(self, table: StreamTable, lease: Lease, by: str) -> Upkeep:
        r, stages, started = self.refresher, Stages(), datetime.now(UTC)
        with stages("look"):
            looked = self._look(table, started)
        found = looked.need
        if found.reason is None:
            deleted = self._delete_metadata(table, lease, looked.pointer.location)
            said = _NOTHING if not deleted else "old metadata files"
            return Upkeep(str(table.name), bool(deleted), said, looked.files, metadata_deleted=deleted)
        by_path = {f.path: f for f in looked.states}
        chosen = [by_path[p] for p in found.rewrite]
        size = sum(f.size for f in chosen)
        with r.attempts.begin({table.name: looked.pointer}) as attempt:
            attempt.apply(r.pins(table))  # names may differ in case alone
            attempt.tune(small=found.pieces == 1)
            staging = Staging.onto(attempt, table.name, table.file_schema)
            before = staging.head
            assert before is not None
            base = (before, looked.pointer.location)
            try:
                if chosen:
                    with stages("rewrite"):
                        staging.rewrite(chosen, found.pieces)
                garbage: list[str] = []
                if found.expire:
                    with stages("expire"):
                        garbage = staging.expire(found.expire)
                facts = r.lake.metadata(staging.location).currentSnapshot().summary()
                result = Upkeep(
                    str(table.name),
                    True,
                    str(found.reason),
                    files_before=looked.files,
                    files_after=int(facts.get("total-data-files") or 0),
                    files_left=found.left,
                    bytes_rewritten=size,
                    snapshots_expired=len(found.expire),
                    files_unneeded=len(garbage),
                )
                change = self._change(staging, table, base, garbage, result, stages, started, by)
                with stages("publish"):
                    publish(r.store, r.lake, [Member(table.name, lease, change, staging)], probe=r.probe)
            except BaseException as error:
                self._discard(staging, error)
                if isinstance(error, TrickleError) and error.code == "PUBLISH_CONFLICT":
                    # A commit of somebody else came in between, or the tag of a named cut.
                    self._seen.pop(table.id, None)
                    raise _LeftAlone(f"it is left for the next pass: {error.message}") from error
                raise
        deleted = self._delete_metadata(table, lease, staging.location)
        return replace(result, metadata_deleted=deleted, seconds=round(stages.total, 4))

    def _change(
        self,
        staging: Staging,
        table: StreamTable,
        before: tuple[int, str],
        garbage: Sequence[str],
        result: Upkeep,
        stages: Stages,
        started: datetime,
        by: str,
    ) -> UpkeepChange:
        assert staging.head is not None
        now = datetime.now(UTC)
        history = HistoryEntry(
            refresh_id=uuid.uuid4().hex,
            name=str(table.name),
            state="COMPLETED",
            action=Action.MAINTENANCE,
            reason=result.reason,
            initiated_by=by,
            started_at=started,
            ended_at=now,
            seconds=round(stages.total, 4),
            rows_inserted=0,
            rows_updated=0,
            rows_deleted=0,
            rows_changed={},
            stages=stages.rounded(),
            error_code=None,
            error=None,
            snapshot_id=staging.head,
            bytes_read=result.bytes_rewritten,
        )
        keep = now + self._grace
        return UpkeepChange(table, history, staging.location, staging.head, before, tuple(garbage), keep)

    def _discard(self, staging: Staging, error: BaseException) -> None:
        """Delete the files of a pass that failed, unless it was published after all."""
        live = location_of(self.refresher.store.pointers(names=[staging.name]), staging.name)
        if isinstance(error, OutcomeUnknown) or live == staging.location:
            return
        try:
            staging.discard()
        except Exception as second:
            _log.warning("files of failed maintenance of %s stay behind: %s", staging.name, why(second))

    def _delete_metadata(self, table: StreamTable, lease: Lease, location: str) -> int:
        """Metadata files that were replaced some time ago, and at which no cut and no attempt stands.

        Under the lease of the table: nobody else makes one of them the current one. A pass that was paused for long has
        lost it, perhaps, and the table is at a file that it does not know.
        """
        r = self.refresher
        listed = metadata_files(r.lake, location)
        held = r.store.held_at(table.name)
        if held.get(LAKE) != location or not is_held(r.store, lease):
            return 0
        names = {place.rpartition("/")[2] for place in held.values()}  # a listing may spell the folder in another way
        by_name = {path.rpartition("/")[2]: path for path, _ in listed}
        limit = datetime.now(UTC) - self._grace
        old = superseded([(path.rpartition("/")[2], at) for path, at in listed], names, limit)
        delete_files(r.lake.session, [by_name[name] for name in old])
        return len(old)
