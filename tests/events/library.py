"""What can happen to an Iceberg table, as data: what is done, to which kinds of table, and what the next refresh does.

docs/iceberg-events.md is written from this table, and every row of it is played by the tests.
"""

from __future__ import annotations

from collections.abc import Callable

from tests.events.changes import CHANGES
from tests.events.event import Event
from tests.events.reshaping import RESHAPING
from tests.events.tables import Kind
from tests.events.upkeep import UPKEEP

EVENTS = (*CHANGES, *UPKEEP, *RESHAPING)

# What the engine cannot do yet: the event, where, the code of the error, why. A wrong result is never here, and what
# works again must go from here: the tests fail if it stays.
KNOWN: tuple[tuple[str, Callable[[Kind], bool], str, str], ...] = ()


def known(event: Event, kind: Kind) -> tuple[str, str] | None:
    """(error code, why) where the event is known to fail."""
    return next(((code, why) for name, where, code, why in KNOWN if name == event.name and where(kind)), None)
