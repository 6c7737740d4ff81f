"""Alerts and their outbox in both databases."""

from __future__ import annotations

import json
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import select, text

from spark_trickle.catalog import controls, outbox
from spark_trickle.catalog.alerts import KINDS, Notice, alert_kind
from spark_trickle.catalog.database import open_catalog
from spark_trickle.catalog.leases import Lease, acquire
from spark_trickle.catalog.store import CatalogStore
from spark_trickle.catalog.tables import outbox as rows
from spark_trickle.errors import TrickleError
from spark_trickle.model import Status
from tests.catalog.records import REVENUE, add_revenue
from tests.postgres import fresh_database

NAME = str(REVENUE)


def notices(store: CatalogStore) -> list[Notice]:
    with store.database.read() as connection:
        return [Notice.of(body) for (body,) in connection.execute(select(rows.c.body).order_by(rows.c.id))]


def told(store: CatalogStore) -> list[tuple[str, str]]:
    return [(n.event, n.alert.kind) for n in notices(store)]


def leader(store: CatalogStore) -> Lease:
    return acquire(store, ["scheduler"], store.owner, 30, 0)


def test_what_happens_again_counts_up(store: CatalogStore) -> None:
    for n in range(3):
        with store.write() as tx:
            tx.alerts.raise_("STALE", f"late {n}", NAME)
            tx.alerts.raise_("STALE", "late", "s.other")
    other, first = store.alerts()
    assert (first.kind, first.name, first.severity, first.occurrences) == ("STALE", NAME, "warning", 3)
    assert (first.message, first.state) == ("late 2", "open")
    assert first.last_seen_at is not None
    assert first.last_seen_at > first.created_at
    assert other.name == "s.other"
    assert told(store) == [("raised", "STALE"), ("raised", "STALE")]
    assert store.alert_counts() == {("STALE", "warning"): 2}


def test_an_end_is_a_notice_and_what_comes_after_is_a_new_alert(store: CatalogStore) -> None:
    with store.write() as tx:
        tx.alerts.raise_("STALE", "late", NAME)
    with store.write() as tx:
        assert tx.alerts.resolve(NAME, ("STALE",), "it is fresh")
        assert not tx.alerts.resolve(NAME, ("STALE",), "it is fresh")
        assert not tx.alerts.resolve("s.other", None, "it is fresh")
    (ended,) = store.alerts()
    assert ended.state == "resolved"
    raised, resolved = notices(store)
    assert resolved.message == f"STALE of {NAME} is over: it is fresh"
    assert (resolved.alert.id, resolved.alert.resolved_at) == (raised.alert.id, resolved.at)
    assert resolved.id != raised.id
    with store.write() as tx:
        tx.alerts.raise_("STALE", "late again", NAME)
    assert [a.state for a in store.alerts()] == ["open", "resolved"]
    assert [a.message for a in store.alerts(open_only=True)] == ["late again"]


def test_nothing_is_told_of_what_was_rolled_back(store: CatalogStore) -> None:
    with pytest.raises(KeyboardInterrupt), store.write() as tx:  # noqa: PT012
        tx.alerts.raise_("STALE", "late", NAME)
        raise KeyboardInterrupt
    assert store.alerts() == ()
    assert told(store) == []


def test_what_happened_again_meanwhile_does_not_end(store: CatalogStore) -> None:
    with store.write() as tx:
        tx.alerts.raise_("REFRESH_FAILED", "x", NAME)
    (seen,) = store.alerts()
    with store.write() as tx:
        tx.alerts.raise_("REFRESH_FAILED", "y", NAME)
        assert not tx.alerts.end(seen, "over")
    (now,) = store.alerts(open_only=True)
    with store.write() as tx:
        assert tx.alerts.end(now, "over")


def test_events_are_never_open(store: CatalogStore) -> None:
    for _ in range(2):
        with store.write() as tx:
            tx.alerts.raise_("REFRESH_COMPLETED", "done", NAME)
    assert [(a.state, a.occurrences) for a in store.alerts()] == [("resolved", 1), ("resolved", 1)]
    assert told(store) == [("raised", "REFRESH_COMPLETED")] * 2


def test_filters(store: CatalogStore) -> None:
    with store.write() as tx:
        tx.alerts.raise_("STALE", "a", "s.a")
        tx.alerts.raise_("STALE", "b", "s.b")
        tx.alerts.raise_("RESUMED", "a", "s.a")
    assert [a.message for a in store.alerts(kind="STALE")] == ["b", "a"]
    assert [a.kind for a in store.alerts(name="s.a")] == ["RESUMED", "STALE"]
    assert [a.kind for a in store.alerts(name="s.a", open_only=True)] == ["STALE"]
    assert store.alerts(since=datetime.now(UTC) + timedelta(hours=1)) == ()
    assert len(store.alerts(1, since=datetime.now(UTC) - timedelta(hours=1))) == 1
    with store.write() as tx:
        tx.alerts.forget(datetime.now(UTC) + timedelta(seconds=1))
    assert [a.kind for a in store.alerts()] == ["STALE", "STALE"]


def test_old_ones_go_and_what_is_open_stays(store: CatalogStore, monkeypatch: pytest.MonkeyPatch) -> None:
    with store.write() as tx:
        for n in range(6):
            tx.alerts.raise_("STALE", str(n), f"s.t{n}")
            if n % 2:
                tx.alerts.resolve(f"s.t{n}", None, "over")
    long_ago = datetime.now(UTC) - timedelta(days=1)
    for most, kept in ((3, "543210"), (2, "54320"), (1, "5420")):
        monkeypatch.setattr("spark_trickle.catalog.alerts.MOST_RESOLVED", most)
        with store.write() as tx:
            tx.alerts.forget(long_ago)
        assert "".join(sorted((a.message for a in store.alerts()), reverse=True)) == kept


def test_kinds_by_name() -> None:
    assert {alert_kind(kind.lower().replace("_", "-")) for kind in KINDS} == set(KINDS)
    with pytest.raises(TrickleError, match="'late' is not a kind of alert") as caught:
        alert_kind("late")
    assert "STALE" in str(caught.value)


def test_suspend_resume_and_drop(store: CatalogStore) -> None:
    with store.write() as tx:
        id_ = add_revenue(tx, status=Status.ACTIVE, consecutive_errors=2, last_error="[SPARK_FAILED] x")
        tx.alerts.raise_("REFRESH_FAILED", "x", NAME)
    controls.suspend(store, REVENUE, 0)
    controls.suspend(store, REVENUE, 0)
    controls.resume(store, REVENUE, 0)
    controls.resume(store, REVENUE, 0)
    assert [(a.kind, a.state, a.severity) for a in store.alerts()] == [
        ("RESUMED", "resolved", "info"),
        ("SUSPENDED", "resolved", "info"),
        ("REFRESH_FAILED", "resolved", "error"),
    ]
    # That it is resumed is what tells that it is no longer suspended.
    assert told(store) == [
        ("raised", "REFRESH_FAILED"),
        ("raised", "SUSPENDED"),
        ("resolved", "REFRESH_FAILED"),
        ("raised", "RESUMED"),
    ]
    with store.write() as tx:
        tx.alerts.raise_("STALE", "late", NAME)
        tx.delete_stream_table(id_)
    assert store.alerts(open_only=True) == ()
    assert notices(store)[-1].message == f"STALE of {NAME} is over: {NAME} was dropped"


# -- the outbox --------------------------------------------------------------------------------------------------------


def test_deliveries_go_out_in_order_and_are_claimed(store: CatalogStore) -> None:
    lease = leader(store)
    now = datetime.now(UTC)
    assert outbox.hand_out(store, lease, ("a", "b"), now) == ((), 0)
    with store.write() as tx:
        tx.alerts.raise_("STALE", "1", "s.a")
        tx.alerts.raise_("STALE", "2", "s.b")
    found, lost = outbox.hand_out(store, lease, ("a", "b"), now)
    assert ([Notice.of(d.body).message for d in found], lost) == (["1", "2"], 0)
    assert outbox.hand_out(store, lease, ("a", "b"), now) == ((), 0)
    assert outbox.waiting(store) == {"a": 2, "b": 2}
    assert outbox.due(store, now) == ("a", "b")
    until = now + timedelta(seconds=60)
    first = outbox.claim(store, lease, "a", now, until)
    assert first is not None
    assert (first.notice, first.attempts) == (found[0].notice, 1)
    # The second one waits for the first: order is kept.
    assert outbox.claim(store, lease, "a", now, until) is None
    assert outbox.due(store, now) == ("b",)
    outbox.failed(store, first, "the answer is 500", now + timedelta(seconds=5))
    assert outbox.due(store, now + timedelta(seconds=4)) == ("b",)
    again = outbox.claim(store, lease, "a", now + timedelta(seconds=5), until)
    assert again is not None
    assert (again.id, again.attempts) == (first.id, 2)
    outbox.delivered(store, again)
    second = outbox.claim(store, lease, "a", now, until)
    assert second is not None
    assert second.notice == found[1].notice
    assert outbox.claim(store, lease, "nobody", now, until) is None
    assert outbox.give_up(store, lease, now - timedelta(hours=1)) == 0
    assert outbox.give_up(store, lease, now + timedelta(hours=1)) == 3
    assert outbox.waiting(store) == {}


def test_only_the_leader_hands_out_and_claims(store: CatalogStore) -> None:
    lease = leader(store)
    with store.write() as tx:
        tx.alerts.raise_("STALE", "1", "s.a")
    now = datetime.now(UTC)
    old = Lease(tuple((name, token - 1) for name, token in lease.tokens), lease.owner, 30)
    for attempt in (
        lambda: outbox.hand_out(store, old, ("a",), now),
        lambda: outbox.claim(store, old, "a", now, now),
        lambda: outbox.give_up(store, old, now + timedelta(hours=1)),
    ):
        with pytest.raises(TrickleError) as caught:
            attempt()
        assert caught.value.code == "LEASE_LOST"
    assert outbox.waiting(store) == {None: 1}


def test_the_queue_of_a_target_is_bounded(store: CatalogStore, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(outbox, "MOST", 3)
    lease, now = leader(store), datetime.now(UTC)
    with store.write() as tx:
        for n in range(5):
            tx.alerts.raise_("STALE", str(n), f"s.t{n}")
    found, lost = outbox.hand_out(store, lease, ("a", "b"), now)
    assert (len(found), lost) == (5, 4)
    kept = outbox.claim(store, lease, "a", now, now)
    assert kept is not None
    assert Notice.of(kept.body).message == "2"  # the oldest went


# -- PostgreSQL --------------------------------------------------------------------------------------------------------


@pytest.mark.postgres
def test_notify_is_in_the_transaction(postgres_server: str) -> None:
    import psycopg

    url = fresh_database(postgres_server)
    store = open_catalog(url)
    store.notify_channel = "trickle"
    with psycopg.connect(url, autocommit=True) as listener:
        listener.execute("LISTEN trickle")

        def heard(n: int = 0) -> list[dict[str, Any]]:
            found = listener.notifies(timeout=10 if n else 0.2, stop_after=n or None)
            return [json.loads(one.payload) for one in found]

        with pytest.raises(KeyboardInterrupt), store.write() as tx:  # noqa: PT012
            tx.alerts.raise_("STALE", "late", NAME)
            raise KeyboardInterrupt
        assert heard() == []
        with store.write() as tx:
            tx.alerts.raise_("STALE", "x" * 100_000, NAME)
            tx.alerts.raise_("INTEGRITY", "\x01" * 100_000, NAME)  # six bytes each in JSON
            tx.alerts.resolve(NAME, ("STALE",), "it is fresh")
        long, worst, end = heard(3)
        assert (long["event"], long["alert"]["kind"], long["message"]) == ("raised", "STALE", "x" * 500)
        assert worst["alert"]["kind"] == "INTEGRITY"
        assert (end["event"], end["alert"]["id"]) == ("resolved", long["alert"]["id"])
        assert [n.id for n in notices(store)] == [long["id"], worst["id"], end["id"]]
        store.notify_channel = ""
        with store.write() as tx:
            tx.alerts.raise_("STALE", "late", NAME)
        assert heard() == []
    store.close()


# -- catalogs of before ------------------------------------------------------------------------------------------------


def test_alerts_of_before_are_closed(catalog_url: str) -> None:
    from alembic import command
    from alembic.config import Config

    from spark_trickle.catalog import migrations
    from spark_trickle.catalog.connection import Database

    database = Database(catalog_url)
    config = Config()
    config.set_main_option("script_location", str(Path(migrations.__file__).parent).replace("%", "%%"))
    config.set_main_option("path_separator", "os")
    with database.write() as connection:
        config.attributes["connection"] = connection
        command.upgrade(config, "0007")
        columns = "(created_at, severity, code, name, message)"
        for _ in range(2):
            connection.execute(
                text(f"INSERT INTO trickle_alerts {columns} VALUES (:at, 'error', 'SUSPENDED', 's.a', 'x')"),
                {"at": "2026-03-02T12:00:00.000000+00:00"},
            )
    database.close()
    store = open_catalog(catalog_url)
    found = store.alerts()
    assert [(a.kind, a.state, a.occurrences) for a in found] == [("SUSPENDED", "resolved", 1)] * 2
    assert found[0].last_seen_at == found[0].created_at == datetime(2026, 3, 2, 12, tzinfo=UTC)
    store.close()
