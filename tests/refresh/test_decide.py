"""What a refresh does and why: facts in, decision out."""

from __future__ import annotations

import dataclasses
from typing import Any

import pytest

from spark_trickle.catalog.rows import Cost
from spark_trickle.errors import Reason, TrickleError
from spark_trickle.model import Action, Mode
from spark_trickle.refresh.decide import Change, Past, Situation, decide_by_cost, decide_early

READY = Situation(mode=Mode.AUTO, asked=None, incremental=True, not_incremental=None, initialized=True, pending=True)
WINDOW = Reason("WINDOW", "window functions have no delta rule yet", "line 1, column 8")
VIEW = Reason("DEPENDENCY_CHANGED", "view s.v")
EXPIRED = Reason("SNAPSHOT_EXPIRED", "snapshot 7 of s.t was removed")


def situation(**facts: Any) -> Situation:
    return dataclasses.replace(READY, **facts)


@pytest.mark.parametrize(
    ("facts", "action", "reason"),
    [
        ({"initialized": False}, Action.FULL, "INITIAL"),
        ({"initialized": False, "mode": Mode.DIFFERENTIAL}, Action.FULL, "INITIAL"),
        ({"initialized": False, "pending": False}, Action.FULL, "INITIAL"),
        ({"asked": Mode.FULL}, Action.FULL, "REQUESTED"),
        ({"asked": Mode.FULL, "pending": False}, Action.FULL, "REQUESTED"),
        ({"asked": Mode.FULL, "obstacle": EXPIRED}, Action.FULL, "REQUESTED"),
        (
            {"asked": Mode.FULL, "reshaped": VIEW},
            Action.REINITIALIZE,
            "DEPENDENCY_CHANGED",
        ),
        ({"reshaped": VIEW}, Action.REINITIALIZE, "DEPENDENCY_CHANGED"),
        ({"reshaped": VIEW, "pending": False}, Action.REINITIALIZE, "DEPENDENCY_CHANGED"),
        ({"reshaped": Reason("ALTERED", "q"), "mode": Mode.DIFFERENTIAL}, Action.REINITIALIZE, "ALTERED"),
        ({"obstacle": EXPIRED}, Action.REINITIALIZE, "SNAPSHOT_EXPIRED: snapshot 7 of s.t"),
        ({"obstacle": EXPIRED, "pending": False}, Action.REINITIALIZE, "SNAPSHOT_EXPIRED"),
        ({"obstacle": EXPIRED, "mode": Mode.FULL}, Action.REINITIALIZE, "SNAPSHOT_EXPIRED"),
        ({"obstacle": EXPIRED, "mode": Mode.DIFFERENTIAL, "asked": Mode.AUTO}, Action.REINITIALIZE, "SNAPSHOT_EXPIRED"),
        (
            {
                "time_dependent": True,
                "pending": False,
                "incremental": False,
                "not_incremental": Reason("TIME_DEPENDENT", "now()"),
            },
            Action.FULL,
            "TIME_DEPENDENT: now()",
        ),
        ({"pending": False}, Action.NO_DATA, "NO_CHANGE"),
        ({"pending": False, "mode": Mode.FULL}, Action.NO_DATA, "NO_CHANGE"),
        ({"pending": False, "asked": Mode.DIFFERENTIAL}, Action.NO_DATA, "NO_CHANGE"),
        ({"mode": Mode.FULL}, Action.FULL, "MODE"),
        ({"incremental": False, "not_incremental": WINDOW}, Action.FULL, str(WINDOW)),
        ({"mode": Mode.DIFFERENTIAL}, Action.DIFFERENTIAL, "MODE"),
        ({"asked": Mode.DIFFERENTIAL}, Action.DIFFERENTIAL, "MODE"),
        ({"mode": Mode.FULL, "asked": Mode.DIFFERENTIAL}, Action.DIFFERENTIAL, "MODE"),
    ],
)
def test_decided_early(facts: dict[str, Any], action: Action, reason: str) -> None:
    decision = decide_early(situation(**facts))
    assert decision is not None
    assert (decision.action, str(decision.reason)[: len(reason)]) == (action, reason)


@pytest.mark.parametrize("facts", [{}, {"asked": Mode.AUTO, "mode": Mode.DIFFERENTIAL}])
def test_auto_over_a_change_depends_on_its_size(facts: dict[str, Any]) -> None:
    assert decide_early(situation(**facts)) is None


@pytest.mark.parametrize(
    ("facts", "code", "words"),
    [
        (
            {"mode": Mode.DIFFERENTIAL, "reshaped": VIEW},
            "DEPENDENCY_CHANGED",
            "view s.v",
        ),
        ({"mode": Mode.DIFFERENTIAL, "obstacle": EXPIRED}, "SNAPSHOT_EXPIRED", "snapshot 7 of s.t was removed"),
        ({"asked": Mode.DIFFERENTIAL, "obstacle": EXPIRED}, "SNAPSHOT_EXPIRED", "never recomputes by itself"),
        (
            {"asked": Mode.DIFFERENTIAL, "incremental": False, "not_incremental": WINDOW},
            "NOT_INCREMENTAL",
            "line 1, column 8",
        ),
        (
            {"mode": Mode.DIFFERENTIAL, "incremental": False, "not_incremental": WINDOW},
            "NOT_INCREMENTAL",
            "WINDOW",
        ),
    ],
)
def test_differential_never_recomputes_by_itself(facts: dict[str, Any], code: str, words: str) -> None:
    with pytest.raises(TrickleError) as caught:
        decide_early(situation(**facts))
    assert caught.value.code == code
    assert words in caught.value.message
    assert caught.value.hint


def orders(rows: int, total: int) -> Change:
    return Change("s.orders", rows, total)


@pytest.mark.parametrize(
    ("changes", "action", "reason"),
    [
        ([], Action.DIFFERENTIAL, "CHANGE_RATIO: no row"),
        ([orders(0, 100)], Action.DIFFERENTIAL, "CHANGE_RATIO: no row"),
        ([orders(0, 0)], Action.DIFFERENTIAL, "CHANGE_RATIO: no row"),
        ([orders(1, 100)], Action.DIFFERENTIAL, "CHANGE_RATIO: 1 of 100 rows of s.orders"),
        ([orders(15, 100)], Action.DIFFERENTIAL, "CHANGE_RATIO: 15 of 100 rows"),  # the limit itself is allowed
        ([orders(16, 100)], Action.FULL, "CHANGE_RATIO: 16 of 100 rows of s.orders changed (16 %), more than 15 %"),
        ([orders(200, 100)], Action.FULL, "CHANGE_RATIO: 200 of 100 rows"),
        ([orders(5, 0)], Action.FULL, "CHANGE_RATIO: s.orders was empty"),
        # The worst input decides, however large the others are.
        ([orders(1, 1000), Change("s.items", 2, 10)], Action.FULL, "CHANGE_RATIO: 2 of 10 rows of s.items"),
        ([Change("s.items", 1, 10), orders(1, 1000)], Action.DIFFERENTIAL, "CHANGE_RATIO: 1 of 10 rows of s.items"),
        ([orders(0, 1000), Change("s.items", 0, 0)], Action.DIFFERENTIAL, "CHANGE_RATIO: no row"),
    ],
)
def test_auto_by_ratio(changes: list[Change], action: Action, reason: str) -> None:
    decision = decide_by_cost(changes, Past(), 0.15)
    assert (decision.action, str(decision.reason)[: len(reason)]) == (action, reason)


@pytest.mark.parametrize(
    ("ratio", "action"), [(0.0, Action.FULL), (0.01, Action.DIFFERENTIAL), (1.0, Action.DIFFERENTIAL)]
)
def test_the_ratio_is_a_setting(ratio: float, action: Action) -> None:
    assert decide_by_cost([orders(1, 100)], Past(), ratio).action is action


@pytest.mark.parametrize(
    ("past", "rows", "action"),
    [
        (Past(1.0, ((2.0, 100), (3.0, 100))), 100, Action.FULL),
        (Past(1.0, ((2.0, 100), (3.0, 100))), 50, Action.FULL),  # half the change is still comparable
        (Past(1.0, ((2.0, 100), (3.0, 100))), 49, Action.DIFFERENTIAL),
        (Past(1.0, ((2.0, 100),)), 100, Action.DIFFERENTIAL),  # one slow refresh may be a cold start
        (Past(1.0, ((1.0, 100), (9.0, 100))), 100, Action.DIFFERENTIAL),  # a tie is no loss
        (Past(1.0, ((1.001, 100), (9.0, 100))), 100, Action.FULL),
        (Past(1.0, ((9.0, 100), (9.0, 100), (0.5, 100))), 100, Action.FULL),  # the newest two count
        (Past(None, ((9.0, 100), (9.0, 100))), 100, Action.DIFFERENTIAL),  # nothing to compare with
        (Past(1.0, ()), 100, Action.DIFFERENTIAL),
        (Past(1.0, ((2.0, 0), (2.0, 0))), 1, Action.FULL),
    ],
)
def test_auto_by_cost(past: Past, rows: int, action: Action) -> None:
    decision = decide_by_cost([orders(rows, 10_000)], past, 0.15)
    assert decision.action is action
    assert decision.reason.code == ("COST" if action is Action.FULL else "CHANGE_RATIO")
    assert f"{rows} of 10000 rows of s.orders" in str(decision.reason)


def test_auto_counts_rows_as_the_history_does() -> None:
    """A stream table over a hidden state table of 3 changed groups, whose source had 100 changed rows."""
    past = Past(1.0, ((2.0, 100), (3.0, 100)))
    assert decide_by_cost([orders(3, 10_000)], past, 0.15, rows=100).action is Action.FULL
    assert decide_by_cost([orders(3, 10_000)], past, 0.15).action is Action.DIFFERENTIAL


def test_cost_reason_names_both_times() -> None:
    reason = decide_by_cost([orders(100, 10_000)], Past(1.25, ((2.5, 80), (3.0, 80))), 0.15).reason.message
    assert "2.50 s (80 changed rows)" in reason
    assert "FULL 1.25 s" in reason


@pytest.mark.parametrize(("spent", "action"), [(19.9, Action.FULL), (20.0, Action.DIFFERENTIAL)])
def test_differential_is_tried_again_when_a_trial_costs_little(spent: float, action: Action) -> None:
    past = Past(1.0, ((2.0, 80), (2.0, 80)), seconds_of_full=spent)
    decision = decide_by_cost([orders(100, 10_000)], past, 0.15)
    assert decision.action is action
    assert decision.reason.code == "COST"


@pytest.mark.parametrize(
    ("past", "action"),
    [
        (Past(2.0, ((1.0, 80), (1.5, 80)), True, 0.0, 2.5), Action.FULL),  # may take 0.5 s in a warm process
        (Past(2.0, ((1.0, 80), (1.5, 80)), True, 0.0, 1.5), Action.DIFFERENTIAL),  # a trial would cost too much yet
        (Past(2.0, ((1.0, 80), (1.5, 80)), False, 0.0, 2.5), Action.DIFFERENTIAL),  # it was tried
        (Past(5.0, ((1.0, 80), (1.5, 80)), True, 0.0, 99.0), Action.DIFFERENTIAL),  # a cold start explains less
    ],
)
def test_full_is_tried_once_more_when_only_the_first_fill_is_known(past: Past, action: Action) -> None:
    assert decide_by_cost([orders(100, 10_000)], past, 0.15).action is action


@pytest.mark.parametrize("full", [0.2, 1.0, 5.0])
@pytest.mark.parametrize("share", [0.05, 0.5, 0.9, 1.1, 1.5, 2.0])
def test_auto_costs_at_most_a_fifth_more_than_the_better_way(full: float, share: float) -> None:
    """Simulated: DIFFERENTIAL takes `share` of the seconds of FULL; the first fill took four times those of FULL."""
    seconds = {Action.FULL: full, Action.DIFFERENTIAL: full * share}
    known: list[tuple[Action, float, str]] = [(Action.FULL, 4 * full, "INITIAL")]
    for _ in range(200):
        decision = decide_by_cost([orders(100, 10_000)], _past(known), 0.15)
        known.insert(0, (decision.action, seconds[decision.action], decision.reason.code))
    spent = [s for _, s, _ in reversed(known[:-1])]
    best = min(seconds.values())
    for start in range(len(spent) - 9):
        assert sum(spent[start : start + 10]) <= 1.2 * 10 * best + 1e-9


def _past(known: list[tuple[Action, float, str]]) -> Past:
    return Past.of([Cost(0, action, code, s, {"s.orders": 100}) for action, s, code in known])


def test_auto_forgets_what_full_cost_when_the_table_was_small() -> None:
    """Created over an empty source, filled, and then appended to: 60 s of FULL are not 0.3 s."""
    known: list[tuple[Action, float, str]] = [(Action.FULL, 60.0, "CHANGE_RATIO"), (Action.FULL, 0.3, "INITIAL")]
    for _ in range(130):
        decision = decide_by_cost([orders(100, 10_000)], _past(known), 0.15)
        known.insert(0, (decision.action, 60.0 if decision.action is Action.FULL else 1.0, decision.reason.code))
    assert sum(s for _, s, _ in known[:-2]) == 130


def test_one_recomputation_of_a_truncated_table_is_forgotten_after_the_next() -> None:
    known: list[tuple[Action, float, str]] = [
        (Action.FULL, 60.0, "CHANGE_RATIO"),
        (Action.FULL, 0.3, "CHANGE_RATIO"),
        (Action.FULL, 50.0, "INITIAL"),
    ]
    for _ in range(130):
        decision = decide_by_cost([orders(100, 10_000)], _past(known), 0.15)
        known.insert(0, (decision.action, 60.0 if decision.action is Action.FULL else 1.0, decision.reason.code))
    assert [action for action, _, _ in known[:-3]].count(Action.FULL) == 1
