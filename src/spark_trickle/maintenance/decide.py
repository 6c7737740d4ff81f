"""Which upkeep a table needs, and why. Pure: metadata facts and rules in, a decision out."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from itertools import pairwise

from spark_trickle.errors import Reason
from spark_trickle.model import SnapshotFacts
from spark_trickle.thresholds import (
    EXPIRED_AT_ONCE,
    EXPIRED_PER_PASS,
    LOG_ENTRIES,
    MANY_DELETED,
    REWRITTEN_BYTES,
    TIER,
    TINY_BYTES,
)

# Iceberg's own properties: what they say of a table goes before the lake's settings.
MAX_AGE, MIN_SNAPSHOTS = "history.expire.max-snapshot-age-ms", "history.expire.min-snapshots-to-keep"
_FIVE_DAYS = timedelta(days=5)
TARGET_SIZE, GC = "write.target-file-size-bytes", "gc.enabled"


# How much later than a lease the cut may be that its refresh takes, and what clocks may differ by.
CLOCKS = timedelta(minutes=1)


@dataclass(frozen=True, slots=True)
class Rules:
    """`age` and `count` both bound the snapshots that are kept; with `at_least`, one of the two is enough to stay."""

    age: timedelta
    count: int
    target_bytes: int
    min_files: int
    at_least: bool = False
    expires: bool = True

    def of(self, properties: Mapping[str, str]) -> Rules:
        """As a table's own properties say."""
        age, count = _number(properties.get(MAX_AGE)), _number(properties.get(MIN_SNAPSHOTS))
        found = self
        if age is not None or count is not None:
            # Without an age Iceberg takes five days.
            kept = max(self.age, _FIVE_DAYS) if age is None else timedelta(milliseconds=min(age, 10**14))
            found = replace(found, age=kept, count=max(1, count or 1), at_least=True)
        target = _number(properties.get(TARGET_SIZE))
        expires = properties.get(GC, "true").lower() != "false"
        return replace(found, target_bytes=target or found.target_bytes, expires=expires)


@dataclass(frozen=True, slots=True)
class StoredFile:
    """A data file of the current snapshot."""

    path: str
    partition: str
    size: int
    rows: int
    live: int  # rows that are not deleted


@dataclass(frozen=True, slots=True)
class Need:
    """What is to be done. Nothing: `reason` is None."""

    rewrite: tuple[str, ...] = ()
    left: int = 0  # files that wait for the next pass: one pass is bounded
    pieces: int = 1  # that their rows are to be written in
    expire: tuple[int, ...] = ()
    reason: Reason | None = None  # there is always one when there is something to do

    def __bool__(self) -> bool:
        return self.reason is not None


def need(files: Sequence[StoredFile], expire: tuple[int, ...], rules: Rules) -> Need:
    """`expire`: as `to_expire` gives."""
    chosen, why = to_rewrite(files, rules)
    few = _bounded(chosen, rules.target_bytes)
    said = list(why)
    if len(few) < len(chosen):
        said.append(f"{len(chosen) - len(few)} of them in a later pass")
    if len(expire) < EXPIRED_AT_ONCE and not few:
        expire = ()  # a pass costs as much as a refresh: it waits for more
    if expire:
        kept = "or" if rules.at_least else "and"
        bound = f", {EXPIRED_PER_PASS} of them in this pass" if len(expire) > EXPIRED_PER_PASS else ""
        said.append(f"{len(expire)} snapshots past the newest {rules.count} {kept} {shown(rules.age)}{bound}")
        expire = expire[:EXPIRED_PER_PASS]  # the oldest first
    reason = Reason("MAINTENANCE", "; ".join(said)) if said else None
    # By the table's own target, as they were chosen: pieces of another size would be chosen again.
    pieces = max(1, round(sum(f.size for f in few) / rules.target_bytes))
    return Need(tuple(f.path for f in few), len(chosen) - len(few), pieces, expire, reason)


def to_rewrite(files: Sequence[StoredFile], rules: Rules) -> tuple[list[StoredFile], list[str]]:
    """Files that cost more to read than to write anew.

    Small files are merged with others of their size, so that a row is written again only when the files around it have
    grown by a factor: a stream table that grows by small files rewrites each row a few times in all.

    >>> rules = Rules(timedelta(days=7), 100, 128_000_000, 3)
    >>> small = [StoredFile(str(n), "", 10_000, 9, 9) for n in range(3)]
    >>> to_rewrite(small[:2], rules)
    ([], [])
    >>> to_rewrite([*small, StoredFile("large", "", 100_000_000, 9, 8)], rules)[1]
    ['3 small files']
    """
    small: dict[tuple[str, int], list[StoredFile]] = {}
    dead: list[StoredFile] = []
    for file in files:
        tier = tier_of(file.size, rules.target_bytes)
        if tier is not None:
            small.setdefault((file.partition, tier), []).append(file)
        if file.size >= TINY_BYTES and file.rows - file.live >= MANY_DELETED * file.rows:
            dead.append(file)
    merged = [f for group in small.values() if len(group) >= rules.min_files for f in group]
    known = {f.path for f in merged}
    dead = [f for f in dead if f.path not in known]
    why = [f"{len(merged)} small files"] if merged else []
    if dead:
        why.append(f"{len(dead)} files of which {MANY_DELETED:.0%} of the rows or more are deleted")
    return merged + dead, why


def tier_of(size: int, target: int) -> int | None:
    """Sizes that are merged with each other; None: large enough.

    >>> [tier_of(size, 128_000_000) for size in (1, 999_999, 1_000_000, 8_000_000, 95_000_000, 96_000_000)]
    [0, 0, 1, 2, 3, None]
    """
    if size >= 0.75 * target:
        return None
    tier, limit = 0, TINY_BYTES
    while size >= limit:
        tier, limit = tier + 1, limit * TIER
    return tier


def _bounded(chosen: Sequence[StoredFile], target: int) -> list[StoredFile]:
    """As many as one pass takes, whole partitions first come; at least two."""
    found: list[StoredFile] = []
    total = 0
    for file in chosen:
        if len(found) >= 2 and total + file.size > REWRITTEN_BYTES:
            break
        found.append(file)
        total += file.size
    last = found[-1] if found else None
    if last is not None and len(found) < len(chosen) and last.live == last.rows:
        group = (last.partition, tier_of(last.size, target))
        if sum((f.partition, tier_of(f.size, target)) == group for f in found) == 1:
            found.pop()  # by itself it would only be copied
    return found


def to_expire(
    snapshots: Sequence[SnapshotFacts],
    needed: Collection[int],
    frontiers: Collection[int],
    rules: Rules,
    now: datetime,
    cuts: Collection[datetime] = (),
) -> tuple[int, ...]:
    """The snapshots that nobody needs. `snapshots` in the order they were made.

    `needed` are never expired: the current one, those of tags and branches, those at which a cut, a reader or a refresh
    stands. Of consumers, `frontiers` are kept, and what came after them, so that they can read step by step what
    changed; one that is further behind than the change log reaches compares two snapshots. About `cuts` refreshes of
    consumers have begun that may publish what was current then as their frontier.

    A snapshot grows old from the moment another one took its place: what a table was a week ago may be older.
    """
    if not rules.expires:
        return ()
    newest = [s.id for s in snapshots if s.is_current]
    places = {id: n for n, id in enumerate(reversed(newest))}
    behind = [places[f] for f in frontiers if places.get(f, LOG_ENTRIES) < LOG_ENTRIES]
    reach = max(behind, default=0)
    gone = []
    for snapshot in snapshots:
        place = places.get(snapshot.id, rules.count)
        until = snapshot.until or snapshot.at
        young, near = now - until < rules.age, place < rules.count
        stays = (young or near) if rules.at_least else (young and near)
        stays = stays or any(snapshot.at - CLOCKS <= cut <= until + CLOCKS for cut in cuts)
        if stays or place <= reach or snapshot.id in needed or snapshot.id in frontiers:
            continue
        gone.append(snapshot.id)
    return tuple(gone)


def shown(age: timedelta) -> str:
    """
    >>> [shown(timedelta(seconds=n)) for n in (90, 3600, 604800)]
    ['90s', '1h', '7d']
    """
    seconds = int(age.total_seconds())
    for unit, length in (("d", 86400), ("h", 3600), ("m", 60)):
        if seconds and seconds % length == 0:
            return f"{seconds // length}{unit}"
    return f"{seconds}s"


def superseded(files: Iterable[tuple[str, datetime]], held: Collection[str], before: datetime) -> tuple[str, ...]:
    """Metadata files whose successor is older than `before`; `files` with the time each was written.

    >>> from datetime import UTC
    >>> at = [datetime(2026, 1, 1, hour, tzinfo=UTC) for hour in range(5)]
    >>> superseded([("a", at[0]), ("b", at[1]), ("c", at[2]), ("d", at[3])], ["b"], at[3])
    ('a',)
    """
    ordered = sorted(files, key=lambda f: f[1])
    return tuple(path for (path, _), (_, replaced) in pairwise(ordered) if replaced < before and path not in held)


def _number(text: str | None) -> int | None:
    return int(text) if text is not None and text.isdigit() and int(text) > 0 else None
