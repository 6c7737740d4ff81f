"""A source that refuses tags, without Spark; tests/engine/test_protect.py has the rest."""

from __future__ import annotations

import logging
from pathlib import Path
from typing import Any

import pytest

from spark_trickle.catalog.database import open_catalog
from spark_trickle.lake import protect
from spark_trickle.lake.protect import Protector
from spark_trickle.model import TableName
from tests.catalog.records import table_pointer

SOURCE = TableName("s", "t")


def test_a_source_that_still_refuses_is_said_again_and_logged_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    store = open_catalog(f"sqlite:///{tmp_path / 'catalog.db'}")
    with store.write() as tx:
        tx.insert_pointer(table_pointer(SOURCE))

    def refuse(*_: object) -> None:
        raise PermissionError("read-only")

    monkeypatch.setattr(Protector, "_try_to_protect", refuse)
    clock = 1000.0
    monkeypatch.setattr(protect.time, "monotonic", lambda: clock)
    lake: Any = None
    one = Protector(store, lake, "lazy")
    with caplog.at_level(logging.WARNING):
        for minutes, times in ((0, 1), (1, 1), (10, 2), (15, 2), (20, 3)):
            clock = 1000.0 + 60 * minutes
            one.protect([SOURCE])
            (alert,) = store.alerts()
            assert (alert.kind, alert.name, alert.occurrences) == ("UNPROTECTED", "s.t", times)
    assert len(caplog.records) == 1
    store.close()
