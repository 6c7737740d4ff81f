"""What can happen to an Iceberg table, as data: what is done, to which kinds of table, and what the next refresh does.

docs/iceberg-events.md is written from this table, and every row of it is played by the tests.
"""

from __future__ import annotations

from tests.events.changes import CHANGES
from tests.events.reshaping import RESHAPING
from tests.events.upkeep import UPKEEP

EVENTS = (*CHANGES, *UPKEEP, *RESHAPING)
