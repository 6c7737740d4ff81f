"""What was asked for on the page: it runs on when the browser has gone, and its outcome is shown to who looks next."""

from __future__ import annotations

import asyncio
import itertools
import logging
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, replace
from datetime import UTC, datetime

from spark_trickle.errors import TrickleError

_log = logging.getLogger(__name__)

_KEPT = 50  # outcomes
_MOST = 8  # at once


@dataclass(frozen=True, slots=True)
class Asked:
    """One request. `outcome` is None while it runs."""

    id: int
    name: str
    action: str  # refresh, suspend, resume, verify
    started_at: datetime
    ended_at: datetime | None = None
    outcome: str | None = None
    good: bool = True
    hint: str = ""


class Requests:
    """Used in the event loop only."""

    def __init__(self) -> None:
        self._ids = itertools.count(1)
        self._found: dict[int, Asked] = {}
        self._tasks: dict[int, asyncio.Task[None]] = {}

    @property
    def version(self) -> str:
        """Another one: there is something else to show."""
        last = max(self._found, default=0)
        return f"{last}.{len(self._tasks)}"

    def of(self, name: str) -> Asked | None:
        """The last request about a stream table."""
        return next((a for a in reversed(self._found.values()) if a.name == name), None)

    async def ask(
        self, name: str, action: str, work: Callable[[], Awaitable[tuple[str, bool]]], wait: float = 1.0
    ) -> Asked:
        """Begin it, unless the same runs already, and wait a moment for its end. `work` says how it went."""
        for same in self._found.values():
            if (same.name, same.action) == (name, action) and same.outcome is None:
                return same
        asked = Asked(next(self._ids), name, action, datetime.now(UTC))
        if len(self._tasks) >= _MOST:
            asked = replace(asked, ended_at=asked.started_at, outcome="Too much is running.", good=False)
            self._found[asked.id] = replace(asked, hint=f"At most {_MOST} requests run at once: try again later.")
            return self._found[asked.id]
        self._found[asked.id] = asked
        for old in [a.id for a in self._found.values() if a.outcome is not None][: max(0, len(self._found) - _KEPT)]:
            del self._found[old]
        task = asyncio.create_task(self._run(asked, work))
        self._tasks[asked.id] = task
        await asyncio.wait({task}, timeout=wait)
        return self._found[asked.id]

    async def _run(self, asked: Asked, work: Callable[[], Awaitable[tuple[str, bool]]]) -> None:
        hint = ""
        try:
            outcome, good = await work()
        except TrickleError as error:
            outcome, good, hint = f"{error.message} ({error.code})", False, error.hint
        except Exception:
            _log.exception("%s of %s failed", asked.action, asked.name)
            outcome, good = "It failed for a reason that nobody foresaw.", False
            hint = "See the log of trickle up."
        finally:
            del self._tasks[asked.id]
        self._found[asked.id] = replace(asked, ended_at=datetime.now(UTC), outcome=outcome, good=good, hint=hint)
