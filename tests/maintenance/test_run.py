"""What a pass of maintenance that fails says, without Spark."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from spark_trickle.catalog.database import open_catalog
from spark_trickle.catalog.leases import Heartbeat
from spark_trickle.config import Settings
from spark_trickle.errors import TrickleError
from spark_trickle.maintenance.run import Maintainer
from spark_trickle.model import HIDDEN_NAMESPACE, StreamTable, TableName
from spark_trickle.monitor.alarms import Seen, decide
from spark_trickle.monitor.status import status
from tests.catalog.records import add_revenue

A, STATE = TableName("s", "a"), TableName(HIDDEN_NAMESPACE, "a_1")


def test_the_alert_of_a_hidden_state_table_is_that_of_its_owner(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    store = open_catalog(f"sqlite:///{tmp_path / 'catalog.db'}")
    with store.write() as tx:
        add_revenue(tx, name=STATE, owner_id=add_revenue(tx, name=A))

    def fail(_self: object, table: StreamTable, *_: object) -> None:
        raise TrickleError("SPARK_FAILED", f"{table.name} cannot be written")

    monkeypatch.setattr(Maintainer, "_maintain", fail)
    heartbeat = Heartbeat(store, ttl_seconds=30)
    refresher: Any = SimpleNamespace(
        store=store, heartbeat=heartbeat, known=lambda: {t.name: t for t in store.stream_tables()}
    )
    found = Maintainer(refresher)._pass(store.find(A), "manual")
    assert [u.failed for u in found] == [True, True]
    (alert,) = store.alerts(open_only=True)
    assert (alert.kind, alert.name, alert.occurrences) == ("MAINTENANCE_FAILED", "s.a", 2)
    assert str(STATE) in alert.message

    now = datetime.now(UTC)
    for minutes, over in ((0, 0), (59, 0), (61, 1)):
        at = now + timedelta(minutes=minutes)
        seen = Seen(at, store.alerts(open_only=True), status(store, Settings.load(tmp_path), now=at))
        assert len(decide(seen).resolves) == over
    store.close()
