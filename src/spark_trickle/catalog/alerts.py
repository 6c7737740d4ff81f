"""Alerts: their kinds in one table, how one is raised, how it ends, and the notices that tell of both.

There is at most one open alert of a kind and a stream table: what happens again counts up. Raising and ending an alert
happens in the transaction of what it is about, and so does its notice.
"""

from __future__ import annotations

import json
import uuid
from collections.abc import Collection
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from enum import StrEnum
from typing import Any, Literal

from sqlalchemy import Connection, and_, delete, func, insert, or_, select, update

from spark_trickle.catalog import rows
from spark_trickle.catalog.connection import Database
from spark_trickle.catalog.rows import Alert
from spark_trickle.catalog.tables import alerts, outbox
from spark_trickle.errors import TrickleError

AlertKind = Literal[
    "STALE",
    "REFRESH_FAILED",
    "REINITIALIZE_NEEDED",
    "GROUP_FAILED",
    "SUSPENDED",
    "RESUMED",
    "INTEGRITY",
    "REWRITTEN",
    "UNPROTECTED",
    "SNAPSHOT_EXPIRING",
    "CHANGE_LOG_GROWING",
    "MAINTENANCE_FAILED",
    "REFRESH_COMPLETED",
]
Severity = Literal["info", "warning", "error"]


class Ends(StrEnum):
    """How an alert ends."""

    RECOVERY = "when it is over"
    QUIET = "an hour after it was last seen"
    AT_ONCE = "it is an event"


@dataclass(frozen=True, slots=True)
class Kind:
    severity: Severity
    ends: Ends
    meaning: str
    remedy: str


KINDS: dict[AlertKind, Kind] = {
    "STALE": Kind(
        "warning",
        Ends.RECOVERY,
        "The content is more than `alert_stale_periods` periods of its schedule behind its sources.",
        "`trickle status` names the upstream it waits for; `trickle history NAME` says how long refreshes take: give "
        "it a longer schedule, or raise `max_concurrent_refreshes`.",
    ),
    "REFRESH_FAILED": Kind(
        "error",
        Ends.RECOVERY,
        "A refresh failed; a transient failure counts from the second one in a row. The old content stays readable.",
        "The message says what to do; the code is in [errors.md](errors.md). Transient failures are tried again.",
    ),
    "REINITIALIZE_NEEDED": Kind(
        "error",
        Ends.RECOVERY,
        "What changed cannot be known any more, and mode DIFFERENTIAL does not allow to recompute.",
        "`trickle refresh NAME --mode full`, once; or mode AUTO, which does so by itself.",
    ),
    "GROUP_FAILED": Kind(
        "error",
        Ends.RECOVERY,
        "Stream tables that are published together were not: one of them failed.",
        "Mend the one that the message names, and refresh the group again.",
    ),
    "SUSPENDED": Kind(
        "error",
        Ends.RECOVERY,
        "A stream table is off its schedule: after `max_consecutive_errors` failures, or (severity info) by hand.",
        "Mend what the message names, then `trickle resume NAME`.",
    ),
    "RESUMED": Kind(
        "info", Ends.AT_ONCE, "A stream table that was SUSPENDED or in ERROR is back on its schedule.", "Nothing."
    ),
    "INTEGRITY": Kind(
        "warning",
        Ends.QUIET,
        "Somebody else wrote to a stream table or dropped it, or a stored row was missing. It is recomputed, except in "
        "mode DIFFERENTIAL.",
        "Find who writes to it; nobody but Trickle may. In mode DIFFERENTIAL refresh it once with mode FULL.",
    ),
    "REWRITTEN": Kind(
        "warning",
        Ends.QUIET,
        "Somebody else compacted a stream table, which costs its hidden columns. It is recomputed, except in mode "
        "DIFFERENTIAL.",
        "Take it out of other engines' maintenance.",
    ),
    "UNPROTECTED": Kind(
        "warning",
        Ends.QUIET,
        "A source refuses the tags that keep the snapshots which stream tables reflect.",
        "Let Trickle commit tags to it, or keep its snapshots for longer than stream tables lag.",
    ),
    "SNAPSHOT_EXPIRING": Kind(
        "warning",
        Ends.RECOVERY,
        "A source snapshot that a stream table reflects is no longer its newest, has no tag, and has passed 80 % of "
        "the age (`history.expire.max-snapshot-age-ms`) at which it may be expired.",
        "Refresh the stream table, let the source keep its snapshots longer, or set `protect`.",
    ),
    "CHANGE_LOG_GROWING": Kind(
        "warning",
        Ends.RECOVERY,
        "The change log of a stream table has more than `alert_change_log_entries` entries, since a consumer that is "
        "not refreshed has not read them.",
        "`trickle status` shows which consumer stands still: resume, refresh or drop it.",
    ),
    "MAINTENANCE_FAILED": Kind(
        "warning",
        Ends.QUIET,
        "Small files could not be rewritten, or snapshots not expired. The content is as it was, and is refreshed.",
        "The message says why; `trickle maintain NAME` tries it now, and the scheduler does later (maintenance.md).",
    ),
    "REFRESH_COMPLETED": Kind(
        "info",
        Ends.AT_ONCE,
        "A refresh changed a stream table. Only for those that the setting `alert_completed` names.",
        "Nothing.",
    ),
}
_SUSPENDED: tuple[AlertKind, ...] = ("SUSPENDED",)
FAILURES: tuple[AlertKind, ...] = ("REFRESH_FAILED", "REINITIALIZE_NEEDED", "GROUP_FAILED")

MOST_RESOLVED = 10_000  # alerts that are kept

_SHORT = 500  # characters of a message in a NOTIFY
_PAYLOAD = 7999  # bytes that PostgreSQL takes


@dataclass(frozen=True, slots=True)
class Notice:
    """What is told: an alert was raised, or is resolved."""

    id: str
    event: Literal["raised", "resolved"]
    at: datetime
    message: str
    alert: Alert

    def fields(self, longest: int | None = None) -> dict[str, Any]:
        """As values of JSON."""
        alert = {k: v.isoformat() if isinstance(v, datetime) else v for k, v in asdict(self.alert).items()}
        alert["message"] = self.alert.message[:longest]
        found = {"id": self.id, "event": self.event, "at": self.at.isoformat(), "message": self.message[:longest]}
        return {**found, "alert": alert}

    def json(self, longest: int | None = None) -> str:
        return json.dumps(self.fields(longest), ensure_ascii=False)

    @classmethod
    def of(cls, text: str) -> Notice:
        shown = json.loads(text)
        alert: dict[str, Any] = dict(shown["alert"])
        alert |= {k: datetime.fromisoformat(v) for k, v in alert.items() if v and k.endswith("_at")}
        at = datetime.fromisoformat(shown["at"])
        return cls(shown["id"], shown["event"], at, shown["message"], Alert(**alert))


class Alerts:
    """Writes alerts in one transaction. `channel` is that of PostgreSQL's NOTIFY; None: nobody is notified."""

    def __init__(self, database: Database, connection: Connection, channel: str | None) -> None:
        self._database, self._connection, self._channel = database, connection, channel

    def raise_(self, kind: AlertKind, message: str, name: str, severity: Severity | None = None) -> None:
        """A new alert, with a notice; or one more occurrence of the one that is open."""
        now = datetime.now(UTC)
        known = KINDS[kind]
        statement = self._database.insert(alerts).values(
            created_at=now,
            last_seen_at=now,
            severity=severity or known.severity,
            kind=kind,
            name=name,
            message=message,
            occurrences=1,
            resolved_at=now if known.ends is Ends.AT_ONCE else None,
        )
        again = {"occurrences": alerts.c.occurrences + 1, "last_seen_at": now, "message": message}
        found = self._connection.execute(
            statement.on_conflict_do_update(
                index_elements=["kind", "name"], index_where=alerts.c.resolved_at.is_(None), set_=again
            ).returning(alerts)
        )
        alert = rows.alert(found.mappings().one())
        if alert.occurrences == 1:
            self._tell("raised", now, message, alert)

    def resolve(self, name: str, kinds: Collection[AlertKind] | None, why: str, *, silently: bool = False) -> bool:
        """End the open alerts of a stream table, of these kinds or all. Returns whether there was one."""
        chosen = alerts.c.name == name
        if kinds is not None:
            chosen = and_(chosen, alerts.c.kind.in_(sorted(kinds)))
        return self._resolve(chosen, why, silently=silently)

    def end(self, alert: Alert, why: str) -> bool:
        """End this alert, unless it has happened again since it was read."""
        chosen = and_(alerts.c.id == alert.id, alerts.c.occurrences == alert.occurrences)
        resumed = alert.kind == "SUSPENDED" and alert.name is not None
        ended = self._resolve(chosen, why, silently=resumed)
        if ended and resumed:
            self._resumed(str(alert.name), why)
        return ended

    def _resolve(self, chosen: Any, why: str, *, silently: bool) -> bool:
        now = datetime.now(UTC)
        ended = update(alerts).where(chosen, alerts.c.resolved_at.is_(None)).values(resolved_at=now).returning(alerts)
        found = [rows.alert(row) for row in self._connection.execute(ended).mappings()]
        for alert in sorted(found, key=lambda a: a.id):
            if not silently:
                self._tell("resolved", now, f"{alert.kind} of {alert.name} is over: {why}", alert)
        return bool(found)

    def recovered(self, name: str, why: str, *, resumed: bool = False) -> None:
        """A stream table works again: its failures are over. `resumed` says so even if it was not suspended."""
        self.resolve(name, FAILURES, why)
        if self.resolve(name, _SUSPENDED, why, silently=True) or resumed:
            self._resumed(name, why)

    def _resumed(self, name: str, why: str) -> None:
        """This tells that it is no longer SUSPENDED."""
        self.raise_("RESUMED", f"{name} is back on its schedule: {why}", name)

    def forget(self, before: datetime) -> None:
        """Delete what was resolved before a time; of the others that are, the newest stay."""
        over = alerts.c.resolved_at.is_not(None)
        last = select(alerts.c.id).where(over).order_by(alerts.c.id.desc()).offset(MOST_RESOLVED - 1).limit(1)
        old = or_(alerts.c.resolved_at < before, and_(over, alerts.c.id < last.scalar_subquery()))
        self._connection.execute(delete(alerts).where(old))

    def _tell(self, event: Literal["raised", "resolved"], now: datetime, message: str, alert: Alert) -> None:
        notice = Notice(uuid.uuid4().hex, event, now, message, alert)
        values = {"notice": notice.id, "body": notice.json(), "created_at": now, "next_at": now, "attempts": 0}
        self._connection.execute(insert(outbox).values(**values))
        if self._channel and not self._database.is_sqlite:
            payload = notice.json(_SHORT)
            if len(payload.encode("utf-8", "replace")) > _PAYLOAD:
                payload = json.dumps({"id": notice.id, "event": event, "alert": {"id": alert.id, "kind": alert.kind}})
            self._connection.execute(select(func.pg_notify(self._channel, payload)))


def alert_kind(text: str) -> AlertKind:
    """The kind of that name, in whatever case."""
    for kind in KINDS:
        if kind == text.strip().upper().replace("-", "_"):
            return kind
    raise TrickleError(
        "INVALID_FILTER", f"{text!r} is not a kind of alert", hint=f"There are: {', '.join(sorted(KINDS))}."
    )
