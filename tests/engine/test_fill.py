"""How the whole content of a stream table is written: by the driver where it is little, else by Spark's job."""

from __future__ import annotations

from typing import Any

import pytest

from spark_trickle import Trickle
from spark_trickle.lake import staging
from spark_trickle.refresh import full

pytestmark = pytest.mark.spark


@pytest.fixture
def collected(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """The rows that came to the driver, by fill."""
    found: list[int] = []
    collect = staging.collect_local

    def spy(*arguments: Any, **named: Any) -> Any:
        local = collect(*arguments, **named)
        found.append(-1 if local is None else local.rows)
        return local

    monkeypatch.setattr(staging, "collect_local", spy)
    return found


def test_few_rows_are_written_by_the_driver(tr: Trickle, collected: list[int], monkeypatch: pytest.MonkeyPatch) -> None:
    tr.sql("CREATE TABLE t (id INT, g STRING)")
    tr.sql("INSERT INTO t SELECT id, concat('g', id % 3) FROM range(300)")
    definitions = {
        "s.plain": ("SELECT id, g FROM t WHERE id < 250", [250]),
        "s.joined": ("SELECT a.id, b.id AS other FROM t a JOIN t b ON a.id = b.id", [300]),
        # These may give any number of rows: they are not computed once to see that they are too many.
        "s.crossed": ("SELECT a.id * 300 + b.id AS k, count(*) AS n FROM t a CROSS JOIN t b GROUP BY 1", []),
        "s.multiplied": ("SELECT id, n FROM t LATERAL VIEW explode(sequence(1, id + 1)) AS n", []),
        "s.from_nothing": ("SELECT id % 7 AS k, count(*) AS n FROM range(100000) GROUP BY 1", []),
    }
    for name, (definition, rows) in definitions.items():
        collected.clear()
        tr.create_stream_table(name, definition)
        assert collected == rows, name
        assert tr.verify(name).equal, name
    # Few rows may be long.
    monkeypatch.setattr(full, "DRIVER_BYTES", 100)
    collected.clear()
    tr.refresh("s.plain", mode="full")
    assert collected == []
    assert tr.verify("s.plain").equal
