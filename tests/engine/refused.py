"""A refusal has a code, says what and where, gives a hint, and leaves the lake as it was."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest
from sqlalchemy import select

from spark_trickle import Trickle
from spark_trickle.catalog.tables import iceberg_tables
from spark_trickle.errors import TrickleError
from spark_trickle.model import Action, Status


def state(tr: Trickle) -> dict[str, Any]:
    """Everything that a failure must not change: definitions, frontiers, pointers, what was done, data files."""
    warehouse = tr.settings.warehouse_path
    assert warehouse is not None
    # A failure may say that it happened, nothing else.
    quiet = {"status": Status.ACTIVE, "last_error": None, "consecutive_errors": 0}
    kept = [dataclasses.replace(t, **quiet) for t in tr.store.stream_tables()]
    return {
        "stream tables": kept,
        "pointers": sorted(tuple(r.values()) for r in tr.store._rows(select(iceberg_tables))),
        "done": [h.refresh_id for h in tr.history(limit=1000) if h.state != "FAILED" and h.action is not Action.SKIP],
        "files": {str(f) for f in warehouse.rglob("*") if f.suffix in (".parquet", ".puffin", ".avro")},
    }


@contextmanager
def refused(tr: Trickle, code: str, *words: str, files: bool = True) -> Iterator[None]:
    before = state(tr)
    if not files:
        del before["files"]
    with pytest.raises(TrickleError) as caught:
        yield
    error = caught.value
    assert error.code == code, str(error)
    for word in words:
        assert word in error.message, str(error)
    assert error.hint
    after = state(tr)
    for what, was in before.items():
        assert after[what] == was, f"{what} changed"
