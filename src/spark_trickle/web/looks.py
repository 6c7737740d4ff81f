"""How the page looks at a lake: seldom enough, and so that nobody waits for what takes long."""

from __future__ import annotations

import logging
import threading
import time
from datetime import UTC, datetime
from typing import TYPE_CHECKING

from spark_trickle.monitor.health import Finding
from spark_trickle.scheduler.decide import ENABLED, LEASE
from spark_trickle.web.overview import Overview, Seen, overview

if TYPE_CHECKING:
    from spark_trickle.engine import Trickle

_log = logging.getLogger(__name__)

_BARS = 30  # refreshes in the small picture of their times
_SHOWN_AGAIN = 0.3  # seconds for which an overview is not read again
_FOUND_AGAIN = 30.0  # and the findings of `health`, which also looks at the sources
_FINDING = 0.5  # for which the request that begins to look waits for what is found


class Looks:
    """The overview, read from the catalog at most some times a second, by one thread.

    The findings of `health` are looked for in a thread of their own, since that reads the metadata of every source: all
    requests would wait for it. Until they are there the last ones are shown, also when they cannot be found.
    """

    def __init__(self, tr: Trickle) -> None:
        self._tr = tr
        self._lock = threading.Lock()
        self._found: Overview | None = None
        self._findings: tuple[Finding, ...] = ()
        self._looking = threading.Lock()
        self._at = self._findings_at = float("-inf")

    def _look_for_findings(self) -> None:
        is_time = time.monotonic() - self._findings_at > _FOUND_AGAIN
        if not is_time or not self._looking.acquire(blocking=False):
            return
        looking = threading.Thread(target=self._find, name="trickle-findings", daemon=True)
        looking.start()
        looking.join(_FINDING)  # most often that is enough

    def _find(self) -> None:
        try:
            self._findings = self._tr.health().findings
            self._at = float("-inf")
        except Exception as error:
            _log.warning("what the page says about sources is not of now: %s", error)
        finally:
            self._findings_at = time.monotonic()
            self._looking.release()

    def now(self) -> Overview:
        self._look_for_findings()
        with self._lock:
            if self._found is None or time.monotonic() - self._at > _SHOWN_AGAIN:
                self._found = overview(_seen(self._tr, self._findings))
                self._at = time.monotonic()
            return self._found

    def forget(self) -> None:
        """Something was done whose effect must be seen."""
        self._at = float("-inf")


def _seen(tr: Trickle, findings: tuple[Finding, ...]) -> Seen:
    store = tr.store
    tables = store.stream_tables()
    return Seen(
        now=datetime.now(UTC),
        tables=tables,
        statuses=tr.status(),
        recent=store.recent([t.id for t in tables], _BARS),
        failed_at=store.last_failures([t.id for t in tables if t.consecutive_errors]),
        alerts=store.alert_counts(),
        enabled=store.setting(ENABLED) != "false",
        lease_expires_at=store.lease_expires_at(LEASE),
        findings=findings,
        stale_periods=tr.settings.alert_stale_periods,
        max_consecutive_errors=tr.settings.max_consecutive_errors,
    )
