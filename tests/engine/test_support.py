"""The page on SQL support tells the truth: every example is incremental and becomes what the page says."""

from __future__ import annotations

import pytest

from spark_trickle import Trickle
from spark_trickle.sql.support import CONSTRUCTS, Construct


@pytest.fixture(scope="module")
def lake(module_tr: Trickle) -> Trickle:
    module_tr.sql("CREATE TABLE s.a (id BIGINT, k STRING, v INT, m DECIMAL(10,2), d DOUBLE, xs ARRAY<INT>)")
    module_tr.sql("CREATE TABLE s.b (a_id BIGINT, k STRING, w INT)")
    return module_tr


@pytest.mark.parametrize("construct", CONSTRUCTS, ids=lambda c: c.name)
def test_example(lake: Trickle, construct: Construct) -> None:
    found = lake.check(construct.example)
    assert found.incremental, str(found.obstacle)
    met = {o.label.split(" ")[0] for o in found.operators}
    assert set(construct.operators) <= met
