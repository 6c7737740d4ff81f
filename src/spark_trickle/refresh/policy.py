"""How a stream table takes part in groups: what a user says among its settings."""

from __future__ import annotations

from collections.abc import Mapping
from enum import StrEnum
from typing import TypedDict, cast

from spark_trickle.errors import TrickleError
from spark_trickle.model import Consistency, SchedulePolicy

_VALUES: dict[str, type[StrEnum]] = {
    "diamond_consistency": Consistency,
    "diamond_schedule_policy": SchedulePolicy,
}
LAKE = "default"  # as the lake has it


class Policy(TypedDict, total=False):
    """Fields of `model.StreamTable`; None: as the lake has it."""

    diamond_consistency: Consistency | None
    diamond_schedule_policy: SchedulePolicy | None


def policy_in(settings: Mapping[str, object]) -> tuple[Policy, dict[str, object]]:
    """The policy, and the other settings.

    >>> policy_in({"diamond_consistency": "none", "time_zone": "UTC"})
    ({'diamond_consistency': <Consistency.NONE: 'NONE'>}, {'time_zone': 'UTC'})
    """
    policy: dict[str, StrEnum | None] = {}
    others: dict[str, object] = {}
    for key, value in settings.items():
        kind = _VALUES.get(key.lower())
        if kind is None:
            others[key] = value
        elif str(value).lower() == LAKE:
            policy[key.lower()] = None
        elif str(value).upper() in kind.__members__:
            policy[key.lower()] = kind(str(value).upper())
        else:
            wanted = ", ".join([*(v.lower() for v in kind), LAKE])
            raise TrickleError("INVALID_SETTING", f"Setting {key}: {value!r} is not one of {wanted}.")
    return cast("Policy", policy), others
