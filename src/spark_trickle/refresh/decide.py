"""What a refresh does, and why. Pure: facts in, decision out.

Two steps, because the second needs what the first may make unnecessary: `decide_early` looks at what is known from
pointers and metadata, `decide_by_cost` at the size of the change and at past refreshes.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from spark_trickle.errors import TrickleError
from spark_trickle.model import Action, Mode

# A past DIFFERENTIAL says something about this one only if it had a comparable change.
COMPARABLE = 0.5
# One slow refresh may only have been a cold start: it takes two to give up on DIFFERENTIAL.
ENOUGH = 2
# After so many refreshes that were FULL for their cost, DIFFERENTIAL is tried again.
PATIENCE = 5


@dataclass(frozen=True, slots=True)
class Decision:
    action: Action
    reason: str


@dataclass(frozen=True, slots=True)
class Situation:
    """What is known before any data is read."""

    mode: Mode
    asked: Mode | None  # what this refresh was asked to do, if anything
    incremental: bool
    not_incremental: str | None
    initialized: bool
    pending: bool  # an input has another snapshot than at the frontier
    time_dependent: bool = False
    reshaped: str | None = None  # why the storage no longer fits the definition
    obstacle: tuple[str, str] | None = None  # (code, message): the delta cannot be known


@dataclass(frozen=True, slots=True)
class Change:
    name: str
    rows: int
    total: int  # rows of the input at the frontier


@dataclass(frozen=True, slots=True)
class Past:
    """What refreshes of this stream table cost lately, the newest first."""

    full_seconds: float | None = None
    differential: tuple[tuple[float, int], ...] = ()  # (seconds, changed rows)
    given_up: int = 0  # refreshes in a row that were FULL for their cost


def decide_early(s: Situation) -> Decision | None:
    """The decision, or None when it depends on the size of the change."""
    mode = s.asked or s.mode
    if not s.initialized:
        return Decision(Action.FULL, "INITIAL: first refresh")
    if s.asked is Mode.FULL and s.reshaped is None:
        return Decision(Action.FULL, "REQUESTED: mode FULL was asked for")
    if s.reshaped is not None:
        if mode is Mode.DIFFERENTIAL and not s.reshaped.startswith("ALTERED"):
            raise TrickleError("DEPENDENCY_CHANGED", s.reshaped)
        return Decision(Action.REINITIALIZE, s.reshaped)
    if s.obstacle is not None:
        code, message = s.obstacle
        if mode is Mode.DIFFERENTIAL:
            raise TrickleError(code, f"{message}; mode DIFFERENTIAL never recomputes by itself")
        return Decision(Action.REINITIALIZE, f"{code}: {message}")
    if s.time_dependent:
        if mode is Mode.DIFFERENTIAL:
            raise TrickleError("NOT_INCREMENTAL", s.not_incremental or "TIME_DEPENDENT")
        return Decision(Action.FULL, s.not_incremental or "TIME_DEPENDENT")
    if not s.pending:
        return Decision(Action.NO_DATA, "NO_CHANGE: no input changed since the last refresh")
    if mode is Mode.FULL:
        return Decision(Action.FULL, "MODE: the stream table's mode is FULL")
    if not s.incremental:
        if mode is Mode.DIFFERENTIAL:
            raise TrickleError("NOT_INCREMENTAL", s.not_incremental or "no delta rule")
        return Decision(Action.FULL, s.not_incremental or "no delta rule")
    if mode is Mode.DIFFERENTIAL:
        return Decision(Action.DIFFERENTIAL, "MODE: the mode is DIFFERENTIAL")
    return None


def decide_by_cost(changes: Sequence[Change], past: Past, max_ratio: float) -> Decision:
    """AUTO: DIFFERENTIAL unless the change is large or has lately cost more than FULL."""
    worst = max(changes, key=lambda c: c.rows / max(c.total, 1), default=None)
    if worst is None or all(c.rows == 0 for c in changes):
        return Decision(Action.DIFFERENTIAL, "CHANGE_RATIO: no row of the inputs changed")
    if worst.total == 0:
        return Decision(Action.FULL, f"CHANGE_RATIO: {worst.name} was empty")
    ratio = worst.rows / worst.total
    text = f"{worst.rows} of {worst.total} rows of {worst.name} changed ({100 * ratio:.2g} %)"
    if ratio > max_ratio:
        return Decision(Action.FULL, f"CHANGE_RATIO: {text}, more than {100 * max_ratio:g} %")
    rows = sum(c.rows for c in changes)
    similar = [(s, n) for s, n in past.differential[:ENOUGH] if rows >= COMPARABLE * n]
    if past.full_seconds is not None and len(similar) == ENOUGH:
        seconds, before = min(similar)
        if seconds > past.full_seconds:
            costs = (
                f"DIFFERENTIAL lately took at least {seconds:.2f} s ({before} changed rows), "
                f"FULL {past.full_seconds:.2f} s"
            )
            if past.given_up >= PATIENCE:
                return Decision(Action.DIFFERENTIAL, f"COST: {costs}; tried again after {past.given_up} times FULL")
            return Decision(Action.FULL, f"COST: {costs}; {text}")
    return Decision(Action.DIFFERENTIAL, f"CHANGE_RATIO: {text}, at most {100 * max_ratio:g} %")
