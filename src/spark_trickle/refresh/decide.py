"""What a refresh does, and why. Pure: facts in, decision out.

Two steps, because the second needs what the first may make unnecessary: `decide_early` looks at what is known from
pointers and metadata, `decide_by_cost` at the size of the change and at past refreshes.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import cast

from spark_trickle.catalog.rows import Cost
from spark_trickle.errors import ErrorCode, Reason, TrickleError
from spark_trickle.model import Action, Mode
from spark_trickle.thresholds import (
    COLD_START,
    COMPARABLE_SHARE,
    EXPLORED,
    EXPLORED_ONCE,
    RECENT_FULLS,
    SLOW_REFRESHES,
)

NO_CHANGE = Reason("NO_CHANGE", "no input changed since the last refresh")
_NO_RULE = Reason("NOT_INCREMENTAL", "no delta rule")


@dataclass(frozen=True, slots=True)
class Decision:
    action: Action
    reason: Reason


@dataclass(frozen=True, slots=True)
class Situation:
    """What is known before any data is read."""

    mode: Mode
    asked: Mode | None  # what this refresh was asked to do, if anything
    incremental: bool
    not_incremental: Reason | None
    initialized: bool
    pending: bool  # an input has another snapshot than at the frontier
    time_dependent: bool = False
    reshaped: Reason | None = None  # why the stored rows no longer fit the definition
    obstacle: Reason | None = None  # why the delta cannot be known; its code is that of an error


@dataclass(frozen=True, slots=True)
class Change:
    name: str
    rows: int
    total: int  # rows of the input at the frontier


@dataclass(frozen=True, slots=True)
class Past:
    """What refreshes of this stream table cost lately, the newest first."""

    full_seconds: float | None = None  # of the faster of the newest
    differential: tuple[tuple[float, int], ...] = ()  # (seconds, changed rows)
    filled_once: bool = False  # that FULL was the first fill, perhaps in a process that had just started
    seconds_of_full: float = 0.0  # spent on refreshes that were FULL for their cost, since the last DIFFERENTIAL
    seconds_of_differential: float = 0.0  # spent on those since the last FULL

    @classmethod
    def of(cls, costs: Iterable[Cost]) -> Past:
        """From the history of one stream table, the newest first."""
        full: list[Cost] = []
        differential: list[tuple[float, int]] = []
        of_full = of_differential = 0.0
        for cost in costs:
            if cost.action is Action.DIFFERENTIAL:
                differential.append((cost.seconds, sum(cost.rows_changed.values())))
                of_differential += 0 if full else cost.seconds
            else:
                full.append(cost)
                of_full += cost.seconds if not differential and cost.code == "COST" else 0
            if cost.code == "ALTERED":
                break  # before, it was another query
        # The newest: the inputs may have been far smaller before, and at the first fill they often are.
        later = [c for c in full if c.code != "INITIAL"]
        return cls(
            min((c.seconds for c in (later or full)[:RECENT_FULLS]), default=None),
            tuple(differential),
            not later,
            of_full,
            of_differential,
        )


def decide_early(s: Situation) -> Decision | None:
    """The decision, or None when it depends on the size of the change."""
    mode = s.asked or s.mode
    if not s.initialized:
        return Decision(Action.FULL, Reason("INITIAL", "first refresh"))
    if s.asked is Mode.FULL and s.reshaped is None:
        return Decision(Action.FULL, Reason("REQUESTED", "mode FULL was asked for"))
    if s.reshaped is not None:
        if mode is Mode.DIFFERENTIAL and s.reshaped.code != "ALTERED":
            raise TrickleError("DEPENDENCY_CHANGED", str(s.reshaped))
        return Decision(Action.REINITIALIZE, s.reshaped)
    if s.obstacle is not None:
        if mode is Mode.DIFFERENTIAL:
            code = cast(ErrorCode, s.obstacle.code)
            raise TrickleError(code, f"{s.obstacle.message}; mode DIFFERENTIAL never recomputes by itself")
        return Decision(Action.REINITIALIZE, s.obstacle)
    if s.time_dependent:
        if mode is Mode.DIFFERENTIAL:
            raise TrickleError("NOT_INCREMENTAL", str(s.not_incremental or _NO_RULE))
        return Decision(Action.FULL, s.not_incremental or _NO_RULE)
    if not s.pending:
        return Decision(Action.NO_DATA, NO_CHANGE)
    if mode is Mode.FULL:
        return Decision(Action.FULL, Reason("MODE", "the stream table's mode is FULL"))
    if not s.incremental:
        if mode is Mode.DIFFERENTIAL:
            raise TrickleError("NOT_INCREMENTAL", str(s.not_incremental or _NO_RULE))
        return Decision(Action.FULL, s.not_incremental or _NO_RULE)
    if mode is Mode.DIFFERENTIAL:
        return Decision(Action.DIFFERENTIAL, Reason("MODE", "the mode is DIFFERENTIAL"))
    return None


def decide_by_cost(changes: Sequence[Change], past: Past, max_ratio: float, rows: int | None = None) -> Decision:
    """AUTO: DIFFERENTIAL unless the change is large or has lately cost more than FULL.

    `rows`: how many changed as the history counts them, which differs where hidden state tables are among the inputs.
    """
    worst = max(changes, key=lambda c: c.rows / max(c.total, 1), default=None)
    if worst is None or all(c.rows == 0 for c in changes):
        return Decision(Action.DIFFERENTIAL, Reason("CHANGE_RATIO", "no row of the inputs changed"))
    if worst.total == 0:
        return Decision(Action.FULL, Reason("CHANGE_RATIO", f"{worst.name} was empty"))
    ratio = worst.rows / worst.total
    text = f"{worst.rows} of {worst.total} rows of {worst.name} changed ({_percent(ratio)})"
    if ratio > max_ratio:
        return Decision(Action.FULL, Reason("CHANGE_RATIO", f"{text}, more than {100 * max_ratio:g} %"))
    rows = sum(c.rows for c in changes) if rows is None else rows
    similar = [(s, n) for s, n in past.differential[:SLOW_REFRESHES] if rows >= COMPARABLE_SHARE * n]
    if past.full_seconds is not None and len(similar) == SLOW_REFRESHES:
        found = _by_past(min(similar), past.full_seconds, past, text)
        if found is not None:
            return found
    return Decision(Action.DIFFERENTIAL, Reason("CHANGE_RATIO", f"{text}, at most {100 * max_ratio:g} %"))


def _by_past(differential: tuple[float, int], full: float, past: Past, text: str) -> Decision | None:
    """The way that was faster lately; None: DIFFERENTIAL was.

    DIFFERENTIAL is tried again where what it may cost more is a small share of what was spent since it was last tried:
    all trials together cost no more than that share. FULL is tried once, if its cost is only known from the first fill.
    """
    seconds, rows = differential
    worse = seconds - full
    costs = f"DIFFERENTIAL lately took at least {seconds:.2f} s ({rows} changed rows), FULL {full:.2f} s"
    if worse > 0:
        if EXPLORED * past.seconds_of_full >= worse:
            tried = f"{costs}; tried again after {past.seconds_of_full:.0f} s of FULL"
            return Decision(Action.DIFFERENTIAL, Reason("COST", tried))
        return Decision(Action.FULL, Reason("COST", f"{costs}; {text}"))
    if past.filled_once and full < COLD_START * seconds and EXPLORED_ONCE * past.seconds_of_differential >= -worse:
        return Decision(Action.FULL, Reason("COST", f"{costs} at the first fill; tried once more to compare; {text}"))
    return None


def _percent(ratio: float) -> str:
    """
    >>> _percent(0.00123), _percent(0.1234), _percent(1), _percent(2.5)
    ('0.12 %', '12 %', '100 %', '250 %')
    """
    return f"{100 * ratio:.0f} %" if ratio >= 0.1 else f"{100 * ratio:.2g} %"
