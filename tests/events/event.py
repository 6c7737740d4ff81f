"""The form of an event, and the texts that many of them share."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from spark_trickle.model import Action
from tests.events.tables import Kind


@dataclass(frozen=True, slots=True)
class Do:
    """A step of another writer, by its name in world.DOES."""

    name: str
    arguments: tuple[str, ...] = ()


Step = str | Do


@dataclass(frozen=True, slots=True)
class Expect:
    """The action of the next refresh of the stream tables that read the source.

    `code`: mode DIFFERENTIAL refuses with this error; mode AUTO then does `action` with the code as its reason.
    """

    action: Action
    code: str | None = None
    reason: str | None = None  # of AUTO, where it is another one than the code
    of: tuple[str, ...] = ()  # the stream tables that are concerned; empty: all that read the source
    says: str = ""  # what the error names


CHANGED = Expect(Action.DIFFERENTIAL)
NOTHING = Expect(Action.NO_DATA)
EXPIRED = Expect(Action.REINITIALIZE, "SNAPSHOT_EXPIRED")
REPLACED = Expect(Action.REINITIALIZE, "TABLE_REPLACED")
DROPPED = Expect(Action.REINITIALIZE, "SOURCE_DROPPED", "TABLE_REPLACED")


@dataclass(frozen=True, slots=True)
class Event:
    name: str
    group: str
    title: str  # for the page
    steps: tuple[Step, ...]
    expect: Expect
    reads: str  # what the feed reads
    before: tuple[Step, ...] = ()  # done and refreshed first
    after: tuple[Step, ...] = ()  # done after a refusal
    note: str = ""
    fits: Callable[[Kind], bool] = lambda kind: True
    limits: str = ""  # what `fits` says, for the page
    once: bool = False  # changes the table for good: last in CI, seldom in sequences
    effect: bool = True  # some stream table ends otherwise than it was
    elsewhere: tuple[tuple[Callable[[Kind], bool], Expect], ...] = ()  # other kinds, other expectation

    def expect_for(self, kind: Kind) -> Expect:
        return next((expect for fits, expect in self.elsewhere if fits(kind)), self.expect)


def position_deletes(kind: Kind) -> bool:
    return kind.version == 2 and kind.mode == "merge-on-read"


def pyiceberg(kind: Kind) -> bool:
    return kind.version < 3


PYICEBERG = "PyIceberg 0.12 cannot write v3."
NO_DATA = "nothing"
ADDED = "the added files"
DELETED = (
    "merge-on-read: the deleted rows of the files whose deletes changed; copy-on-write: the removed and added files"
)
SWAPPED = "the removed and the added files"
STATES = "the files that differ between the two states"
ALL = "all files, once: the content is recomputed"

INSERT = "INSERT INTO {t} {some}"
MERGE = (
    "MERGE INTO {t} AS t USING (SELECT id, max(w) AS w FROM (SELECT {id} AS id, 1 AS w UNION ALL SELECT {id}, 2 "
    "UNION ALL SELECT 1000 + {n}, 0) GROUP BY id) AS x ON t.id = x.id WHEN MATCHED AND t.k = 2 THEN DELETE "
    "WHEN MATCHED THEN UPDATE SET v = x.w + 100 "
    "WHEN NOT MATCHED THEN INSERT (id, k, v, w) VALUES (x.id, 1, 7, x.w)"
)
COMPACT = "CALL lake.system.rewrite_data_files(table => '{name}'{how}, options => map('rewrite-all', 'true'))"
EXPIRE = (
    "CALL lake.system.expire_snapshots(table => '{name}', older_than => TIMESTAMP '2099-01-01 00:00:00', "
    "retain_last => 1)"
)


def compact(how: str = "") -> str:
    return COMPACT.replace("{how}", how)
