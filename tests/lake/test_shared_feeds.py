"""A change of a source is read once for all stream tables that need the same columns of it."""

from __future__ import annotations

from typing import Any

import pytest

from spark_trickle import Action, Trickle
from spark_trickle.lake import iceberg

pytestmark = pytest.mark.spark

DEFINITIONS = {
    "s.small": "SELECT id, v FROM t WHERE v < 50",
    "s.large": "SELECT id, v FROM t WHERE v >= 50",
    "s.sums": "SELECT id % 5 AS g, sum(v) AS total FROM t GROUP BY 1",
}


def test_read_once_for_three_stream_tables(tr: Trickle, monkeypatch: pytest.MonkeyPatch) -> None:
    read: list[tuple[int | None, int | None]] = []
    real = iceberg.read_changes

    def spy(session: Any, table: Any, old: int | None, new: int | None, columns: Any) -> Any:
        read.append((old, new))
        return real(session, table, old, new, columns)

    monkeypatch.setattr(iceberg, "read_changes", spy)
    tr.sql("CREATE TABLE t (id INT, v INT, other STRING)")
    tr.sql("INSERT INTO t SELECT id, id, 'x' FROM range(100)")
    for name, definition in DEFINITIONS.items():
        tr.create_stream_table(name, definition, mode="differential")
    changes = (
        "INSERT INTO t VALUES (200, 7, 'y'), (201, 70, NULL)",
        "UPDATE t SET v = 100 - v WHERE id IN (3, 60)",
        "DELETE FROM t WHERE id < 2",
        "UPDATE t SET other = 'z' WHERE id = 5",
    )
    for text in changes:
        tr.sql(text)
        read.clear()
        results = [tr.refresh(name) for name in DEFINITIONS]
        assert len(read) == 1, text
        assert {r.action for r in results} == {Action.DIFFERENTIAL}
        for name in DEFINITIONS:
            assert tr.verify(name).equal, (text, name)
    # Of the same change, from other versions: read by itself.
    tr.sql("INSERT INTO t VALUES (300, 1, 'a')")
    tr.refresh("s.small")
    tr.sql("INSERT INTO t VALUES (301, 2, 'b')")
    read.clear()
    for name in DEFINITIONS:
        tr.refresh(name)
        assert tr.verify(name).equal
    assert len(set(read)) == len(read) == 2
