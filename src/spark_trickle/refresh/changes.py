"""The change feed of a stream table for users: `tr.changes(name, since)`.

Each publish between `since` and now is a step of its own, so that rows carry the snapshot and the time of the refresh
that wrote them. A step is read from the change log where there is one, else its two snapshots are compared. Within a
step equal rows are summed up: what came and went, and what only changed in hidden columns, is not shown.
"""

from __future__ import annotations

import base64
import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from time import sleep
from typing import TYPE_CHECKING

from spark_trickle.catalog.reader import unknown
from spark_trickle.catalog.retention import deleted_until
from spark_trickle.catalog.rows import LogEntry
from spark_trickle.errors import TrickleError
from spark_trickle.lake import changelog
from spark_trickle.lake.attempt import Attempt
from spark_trickle.lake.feed import Feed, cancel, lineage, union
from spark_trickle.lake.jvm import Java, TableFacts, handles, let_go
from spark_trickle.lake.shape import same
from spark_trickle.model import LAKE, StreamTable, TableName
from spark_trickle.refresh.run import Refresher
from spark_trickle.spark.names import quote, quote_table
from spark_trickle.spark.runtime import collect_local
from spark_trickle.sql.algebra import WEIGHT
from spark_trickle.thresholds import LOCAL

if TYPE_CHECKING:
    from types import TracebackType

    from pyspark.sql import DataFrame, SparkSession

Since = int | str | datetime | None

ADDED = ("_weight", "_snapshot", "_time")  # columns of the feed besides the public ones
_START_OVER = "Start over with since=None: it gives everything that is in the table now."
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_MICROSECOND = timedelta(microseconds=1)


@dataclass(slots=True)
class Changes:
    """The changes of a stream table between two of its snapshots.

    `frame` has the public columns, `_weight` (BIGINT: how many copies came, or left when negative), `_snapshot`
    (BIGINT) and `_time` (TIMESTAMP) of the refresh that wrote them. It is computed already: it stays usable whatever
    happens to the table, until `close()`, which is only needed to give the memory of a large one back early. With
    `since=None` it is not computed yet: it reads the table at `to_snapshot`.
    """

    frame: DataFrame
    token: str  # the next call's `since`
    from_snapshot: int | None  # None: the empty table
    to_snapshot: int | None
    _held: list[DataFrame] = field(default_factory=list, repr=False)

    def close(self) -> None:
        while self._held:
            let_go(self._held.pop())

    def __enter__(self) -> Changes:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()


@dataclass(frozen=True, slots=True)
class Published:
    """One publish: what it changed lies between two snapshots."""

    start: int
    end: int
    time: datetime | None  # None: nobody wrote it down


def publishes(start: int, line: Sequence[tuple[int, str]], times: Mapping[int, datetime]) -> tuple[Published, ...]:
    """Cut a history at its publishes; compactions alone are none.

    A snapshot that was never published by itself belongs to the publish after it: a refresh may commit twice. What
    comes after the last publish is somebody else's write, and stands by itself.

    >>> now = datetime(2026, 1, 1, tzinfo=UTC)
    >>> line = [(2, "append"), (3, "replace"), (4, "delete"), (5, "append"), (6, "replace")]
    >>> [(p.start, p.end) for p in publishes(1, line, {2: now, 5: now})]
    [(1, 2), (3, 5)]
    """
    found: list[Published] = []
    at, wrote = start, False
    for snapshot, operation in line:
        if operation == "replace" and not wrote:
            at = snapshot
            continue
        wrote = wrote or operation != "replace"
        if snapshot in times:
            found.append(Published(at, snapshot, times[snapshot]))
            at, wrote = snapshot, False
    if wrote:
        found.append(Published(at, line[-1][0], None))
    return tuple(found)


@dataclass(frozen=True, slots=True)
class Token:
    """Where a feed ended."""

    name: TableName
    table: int  # id of the stream table: another one may have the name later
    uuid: str  # of the Iceberg table
    snapshot: int | None

    def text(self) -> str:
        body = [1, self.name.namespace, self.name.name, self.table, self.uuid, self.snapshot]
        return base64.urlsafe_b64encode(json.dumps(body).encode()).decode().rstrip("=")

    @classmethod
    def parse(cls, text: str) -> Token:
        try:
            body = json.loads(base64.urlsafe_b64decode(text + "=" * (-len(text) % 4)))
            version, namespace, name, table, uuid, snapshot = body
            kinds = (int, str, str, int, str, int | None)
            if version != 1 or not all(isinstance(v, k) for v, k in zip(body, kinds, strict=True)):
                raise ValueError(text)
        except (ValueError, TypeError):
            shown = text if len(text) <= 40 else text[:37] + "..."
            raise TrickleError("INVALID_SINCE", f"{shown!r} is not a token of a change feed") from None
        return cls(TableName(namespace, name), table, uuid, snapshot)


@dataclass(frozen=True, slots=True)
class _Now:
    """A stream table and its Iceberg table at one instant."""

    table: StreamTable
    pinned: Java
    facts: TableFacts


@dataclass(slots=True)
class ChangeReader:
    refresher: Refresher
    spark: SparkSession  # the user's: frames belong to it

    def changes(self, name: TableName, since: Since) -> Changes:
        now = self._now(name)
        start, end = self._start(now, since), now.facts.snapshot_id
        token = Token(now.table.name, now.table.id, now.facts.uuid, end).text()
        if start is None or end is None:
            return Changes(self._content(now), token, None, end)
        store = self.refresher.store
        entries = store.change_log([name])
        while True:
            try:
                frame, held = self._since(now, start, end, entries)
                return Changes(frame, token, start, end, held)
            except Exception:
                # Files of the log go when the last consumer has passed: then there is less of it, and we try again.
                left = store.change_log([name])
                if not {e.id for e in entries} - {e.id for e in left}:
                    raise
                entries = tuple(e for e in entries if e in left)

    def follow(self, name: TableName, since: Since, poll_seconds: float) -> Iterator[Changes]:
        """Changes without end: first those since `since`, then those of every publish."""
        first = True
        while True:
            seen = self._published(name)
            with self.changes(name, since) as found:
                since = found.token
                if first or found.from_snapshot != found.to_snapshot:
                    yield found
            first = False
            while self._published(name) == seen:
                sleep(poll_seconds)

    def _published(self, name: TableName) -> str | None:
        return self.refresher.store.find(name).published_pointer

    def _now(self, name: TableName) -> _Now:
        r = self.refresher
        found = r.store.snapshot_for_check(name)
        if found is None:
            raise unknown(name, (t.name for t in r.store.stream_tables()))
        table = found.stream_table
        pointer = found.pointers.get(table.name)
        if pointer is None:
            raise TrickleError("INTEGRITY", f"somebody else dropped {name}")
        for column in table.columns:
            if column.name.lower() in ADDED:
                raise TrickleError(
                    "INVALID_NAME",
                    f"{name} has a column {column.name}, and the change feed has one of that name, too",
                    hint="Give the column another alias in the definition.",
                )
        location = pointer.location
        return _Now(table, r.lake.table(location, str(table.name)), r.lake.facts(location))

    # -- where to start ----------------------------------------------------------------------------------------------

    def _start(self, now: _Now, since: Since) -> int | None:
        """The snapshot to start after; None: the empty table."""
        name = now.table.name
        if since is None:
            return None
        if isinstance(since, str):
            return self._after_token(now, Token.parse(since))
        if isinstance(since, datetime):
            if since.tzinfo is None or since.utcoffset() is None:
                raise TrickleError("INVALID_SINCE", f"{since} has no time zone", hint="Write it with one: …+00:00.")
            published = self.refresher.store.published_at(now.table.id, since.astimezone(UTC))
            if published is None:
                return None
            forgotten = deleted_until(self.refresher.store, now.table.id)
            if forgotten is not None and published[1] < forgotten:
                raise _gone(f"what {name} was at {since}", "the history of that time was deleted")
            return self._there(now, published[0], f"what {name} was at {since}")
        if isinstance(since, bool) or not isinstance(since, int):
            raise TrickleError("INVALID_SINCE", f"{since!r} is not a snapshot id, a time or a token")
        return self._there(now, since, f"snapshot {since} of {name}")

    def _after_token(self, now: _Now, token: Token) -> int | None:
        name = now.table.name
        if token.name != name:
            raise TrickleError("INVALID_SINCE", f"the token is of {token.name}, not of {name}")
        if token.table != now.table.id:
            raise _gone(f"the {name} that the token is of", "it was dropped, and another one has its name")
        if token.snapshot is None:
            return None
        if token.uuid != now.facts.uuid:
            raise _gone(f"snapshot {token.snapshot} of {name}", "somebody dropped the table, and it was made again")
        return self._there(now, token.snapshot, f"snapshot {token.snapshot} of {name}")

    def _there(self, now: _Now, snapshot: int | None, what: str) -> int:
        found = None if snapshot is None else now.pinned.snapshot(snapshot)
        if found is None or snapshot is None:
            raise _gone(what, "it expired")
        then = now.pinned.schemas().get(found.schemaId())
        parser = handles(self.spark).jvm.org.apache.iceberg.SchemaParser
        if then is None or not same(parser.toJson(then), now.facts.schema):
            raise _gone(what, "the table has other columns now")
        return snapshot

    # -- frames ------------------------------------------------------------------------------------------------------

    def _content(self, now: _Now) -> DataFrame:
        """Everything that is in the table, read when it is asked for."""
        table, end = now.table, now.facts.snapshot_id
        listed = ", ".join(quote(c.name) for c in table.columns)
        source = f"{quote(LAKE)}.{quote_table(table.name)}"
        if end is None:
            where, micros = f"{source} WHERE false", 0
        else:
            where = f"{source} VERSION AS OF {end}"
            # After a compaction the content is still that of the last publish.
            last = self.refresher.store.published_at(table.id, datetime.now(UTC))
            micros = self._micros(now, end, None if last is None else last[1])
        return self.spark.sql(
            f"SELECT {listed}, 1L AS _weight, {end or 0}L AS _snapshot, "
            f"timestamp_micros({micros}L) AS _time FROM {where}"
        )

    def _since(self, now: _Now, start: int, end: int, entries: Sequence[LogEntry]) -> tuple[DataFrame, list[DataFrame]]:
        r, table = self.refresher, now.table
        with r.attempts.begin({}) as attempt:
            line = () if start == end else lineage(attempt.session, now.pinned, start, end)
            if line is None:  # not a descendant: somebody rolled the table back
                steps: tuple[Published, ...] = (Published(start, end, None),)
            else:
                steps = publishes(start, line, r.store.published(table.id, [s for s, _ in line]))
            feeds: list[Feed] = []
            try:
                return self._frame(attempt, now, steps, entries, feeds)
            finally:
                for feed in feeds:
                    feed.release()

    def _frame(
        self, attempt: Attempt, now: _Now, steps: Sequence[Published], entries: Sequence[LogEntry], feeds: list[Feed]
    ) -> tuple[DataFrame, list[DataFrame]]:
        from pyspark.sql import functions as F

        columns = [c.name for c in now.table.columns]
        sums: list[DataFrame] = []
        plain: list[DataFrame] = []
        for step in steps:
            feed = changelog.read(attempt.session, now.pinned, step.start, step.end, columns, entries)
            feeds.append(feed)
            if feed.frame is None:
                continue
            micros = self._micros(now, step.end, step.time)
            weighed = feed.frame.select(
                *map(quote, columns),
                WEIGHT,
                F.lit(step.end).cast("bigint").alias("_snapshot"),
                F.timestamp_micros(F.lit(micros).cast("bigint")).alias("_time"),
            )
            (plain if feed.append_only else sums).append(weighed)
        summed = union(sums)
        parts = plain if summed is None else [*plain, cancel(summed, [*columns, "_snapshot", "_time"])]
        shown = [*map(quote, columns), f"{WEIGHT} AS _weight", "_snapshot", "_time"]
        whole = union([p.selectExpr(*shown) for p in parts])
        if whole is None:
            return self._content(now).where("false"), []
        return self._settled(whole)

    def _settled(self, frame: DataFrame) -> tuple[DataFrame, list[DataFrame]]:
        """The rows themselves, in the user's session: neither a trimmed log nor an expired snapshot can take them."""
        from pyspark.sql import DataFrame as Frame

        local = collect_local(frame, LOCAL, self.spark)
        if local is not None:
            return local.frame, []
        kept = frame.localCheckpoint()
        datasets = getattr(handles(self.spark).jvm, "org.apache.spark.sql.classic.Dataset")
        moved = datasets.ofRows(self.spark._jsparkSession, kept._jdf.queryExecution().analyzed())
        return Frame(moved, self.spark), [kept]

    def _micros(self, now: _Now, snapshot: int, published: datetime | None) -> int:
        """The time of a publish; of one that was not written down, that of its snapshot."""
        if published is None:
            return int(now.pinned.snapshot(snapshot).timestampMillis()) * 1000
        return round((published - _EPOCH) / _MICROSECOND)


def _gone(what: str, why: str) -> TrickleError:
    return TrickleError("SNAPSHOT_EXPIRED", f"{what} is gone: {why}", hint=_START_OVER)
