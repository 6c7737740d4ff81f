"""The thread beside the scheduler: while that leads it looks for alerts and tells them; settings it reloads always.

Refreshes do not wait for it, nor the scheduler. Each webhook is served by a thread of its own while it has something
to get, in the order of the notices: one that does not answer holds up nobody else.
"""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta

from spark_trickle.catalog import outbox
from spark_trickle.catalog.alerts import Notice
from spark_trickle.catalog.leases import Lease
from spark_trickle.catalog.store import CatalogStore
from spark_trickle.config import Settings, Webhook
from spark_trickle.errors import TrickleError
from spark_trickle.lake.retention import Expiring
from spark_trickle.model import Pointer, StreamTable, TableName
from spark_trickle.monitor.alarms import Decided, Seen, decide
from spark_trickle.monitor.json_log import FIELDS
from spark_trickle.monitor.status import status
from spark_trickle.monitor.webhook import TIMEOUT, NotDelivered, post, retry_delay
from spark_trickle.scheduler.decide import ENABLED
from spark_trickle.scheduler.reload import Reloader

_log = logging.getLogger(__name__)
_alerts = logging.getLogger("spark_trickle.alerts")
_LEVELS = {"info": logging.INFO, "warning": logging.WARNING, "error": logging.ERROR}

STEP_SECONDS = 1.0  # notices are told after so long at most
LOOK_SECONDS = 5.0
RELOAD_SECONDS = 2.0
SNAPSHOTS_SECONDS = 60.0  # metadata of sources are read for it
CLEAN_SECONDS = 600.0
KEPT = timedelta(days=30)  # of alerts that are over
GIVE_UP = timedelta(hours=24)  # on a notice that cannot be delivered
CLAIM = timedelta(seconds=60)

Callback = Callable[[Notice], object]
Pointers = Mapping[TableName, Pointer]


@dataclass(slots=True)
class Watch:
    """`lease` tells whether the scheduler of this process leads. `expiring` looks at the sources' snapshots."""

    store: CatalogStore
    reloader: Reloader
    lease: Callable[[], Lease | None]
    pointers: Callable[[], Pointers]
    expiring: Callable[[tuple[StreamTable, ...], Pointers], Mapping[str, Expiring]]
    on_alert: Callback | None = None
    _thread: threading.Thread | None = None
    _stopping: threading.Event = field(default_factory=threading.Event)
    _last: dict[str, float] = field(default_factory=dict)  # when something was last done
    _snapshots: Mapping[str, Expiring] = field(default_factory=dict)
    _senders: dict[str, threading.Thread] = field(default_factory=dict)  # by target

    @property
    def settings(self) -> Settings:
        return self.reloader.settings

    # -- life ------------------------------------------------------------------------------------------------------

    def start(self) -> None:
        if self._thread is None:
            self._stopping.clear()
            self._thread = threading.Thread(target=self._run, name="trickle-alerts", daemon=True)
            self._thread.start()

    def stop(self) -> None:
        """What was not told waits in the catalog for whoever leads next."""
        if self._thread is None:
            return
        self._stopping.set()
        self._thread.join()
        self._thread = None
        until = time.monotonic() + 2 * TIMEOUT
        for sender in self._senders.values():
            sender.join(max(0.0, until - time.monotonic()))

    def _run(self) -> None:
        while not self._stopping.wait(STEP_SECONDS):
            try:
                if self._is_time("reload", RELOAD_SECONDS):
                    self.reloader.look()
                lease = self.lease()
                if lease is not None:
                    self.step(lease, datetime.now(UTC))
            except TrickleError as error:  # the catalog does not answer, say; or somebody else leads now
                _log.warning("alerts go on after: %s", error)
            except Exception:
                _log.exception("alerts go on after an error")

    def _is_time(self, what: str, seconds: float) -> bool:
        now = time.monotonic()
        if now - self._last.get(what, -seconds) < seconds:
            return False
        self._last[what] = now
        return True

    def step(self, lease: Lease, now: datetime) -> None:
        """Look, and tell what there is to tell."""
        if self._is_time("look", LOOK_SECONDS):
            self.look(lease, now)
        if self._is_time("clean", CLEAN_SECONDS):
            self._clean(lease, now)
        self.tell(lease, now)

    # -- looking ---------------------------------------------------------------------------------------------------

    def look(self, lease: Lease, now: datetime) -> Decided:
        """Raise and resolve what the state of the lake asks for.

        Each in a transaction of its own: one that locked several alerts could meet a publish that locks them, too.
        """
        decided = decide(self._seen(now))
        for one in decided.raises:
            with self.store.write() as tx:
                tx.check_lease(lease)
                tx.alerts.raise_(one.kind, one.message, one.name)
        for over in decided.resolves:
            with self.store.write() as tx:
                tx.check_lease(lease)
                tx.alerts.end(over.alert, over.why)
        return decided

    def _seen(self, now: datetime) -> Seen:
        store, settings = self.store, self.settings
        open_ = store.alerts(None, open_only=True)  # first: what is raised while we look is not taken for over
        pointers = self.pointers()
        if self._is_time("snapshots", SNAPSHOTS_SECONDS):
            self._snapshots = self.expiring(store.stream_tables(), pointers)
        return Seen(
            now=now,
            open=open_,
            statuses=status(store, settings, pointers=pointers, now=now),
            log_entries={str(name): entries for name, entries in store.log_sizes().items()},
            expiring=self._snapshots,
            enabled=store.setting(ENABLED) != "false",
            stale_periods=settings.alert_stale_periods,
            most_log_entries=settings.alert_change_log_entries,
        )

    def _clean(self, lease: Lease, now: datetime) -> None:
        lost = outbox.give_up(self.store, lease, now - GIVE_UP)
        if lost:
            _log.error("%d notices of alerts could not be delivered for %s and are given up", lost, GIVE_UP)
        with self.store.write() as tx:
            tx.check_lease(lease)
            tx.alerts.forget(now - KEPT)

    # -- telling ---------------------------------------------------------------------------------------------------

    def tell(self, lease: Lease, now: datetime) -> None:
        """Log new notices, call back, and let webhooks have what is due."""
        hooks = {hook.target: hook for hook in self.settings.webhooks}
        notices, lost = outbox.hand_out(self.store, lease, tuple(hooks), now)
        if lost:
            _log.error("%d notices of alerts are given up: %d wait for one webhook", lost, outbox.MOST)
        for delivery in notices:
            self._say(delivery.body)
        if not hooks:
            return
        self._senders = {target: sender for target, sender in self._senders.items() if sender.is_alive()}
        for target in outbox.due(self.store, now):
            if target in hooks and target not in self._senders:
                sender = threading.Thread(
                    target=self._send, args=(lease, hooks[target]), name="trickle-webhook", daemon=True
                )
                self._senders[target] = sender
                sender.start()

    def _say(self, body: str) -> None:
        notice = Notice.of(body)
        level = _LEVELS.get(notice.alert.severity, logging.WARNING) if notice.event == "raised" else logging.INFO
        _alerts.log(level, "%s", notice.message, extra={FIELDS: notice.fields()})
        if self.on_alert is not None:
            try:
                self.on_alert(notice)
            except Exception:
                _log.exception("the callback for alerts failed")

    def _send(self, lease: Lease, hook: Webhook) -> None:
        """Deliveries of one webhook until one fails or none is left."""
        try:
            while not self._stopping.is_set() and self._send_one(lease, hook):
                pass
        except TrickleError as error:
            _log.warning("alerts wait for %s: %s", hook, error)
        except Exception:
            _log.exception("alerts wait for %s", hook)

    def _send_one(self, lease: Lease, hook: Webhook) -> bool:
        now = datetime.now(UTC)
        delivery = outbox.claim(self.store, lease, hook.target, now, now + CLAIM)
        if delivery is None:
            return False
        try:
            post(hook, delivery.notice, delivery.body, int(now.timestamp()))
        except NotDelivered as error:
            if delivery.attempts == 1:
                _log.warning("%s did not take an alert, which is tried again: %s", hook, error)
            outbox.failed(self.store, delivery, str(error), datetime.now(UTC) + retry_delay(delivery.attempts))
            return False
        outbox.delivered(self.store, delivery)
        return True
