"""The short form of `python -m tests.groups.torn`."""

from __future__ import annotations

import pytest

from spark_trickle import Trickle
from tests.groups.torn import NONE, Dag, is_torn, play


@pytest.mark.parametrize("seed", [1, 2])
def test_no_read_of_a_group_is_torn(tr: Trickle, seed: int) -> None:
    found = play(tr, seed, 40)
    assert (found.reads, found.torn) == (40, 0)
    assert found.groups
    assert found.refreshes > found.failed


def test_without_groups_reads_are_torn(tr: Trickle) -> None:
    assert play(tr, 1, 40, consistency="none").torn


def test_what_is_torn() -> None:
    groups = [("s.a", "s.b")]
    assert not is_torn(groups, {"a": (1, 1, 5, 5), "b": (1, 1, NONE, NONE), "c": (0, 0, 0, 0)})
    assert is_torn(groups, {"a": (1, 1, 5, 5), "b": (2, 2, 5, 5)})
    assert is_torn(groups, {"a": (1, 2, 5, 5), "b": (2, 2, 5, 5)})
    assert Dag({"a": ("s1",), "b": ("a", "s1")}).query("b").endswith("FROM s.a a CROSS JOIN s.s1 s1")
