"""What the passes over a delta tree know of the refresh that they are made for."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass

from spark_trickle.model import TableName


@dataclass(frozen=True, slots=True)
class Facts:
    changed: Collection[TableName]
    little: Collection[TableName] = ()  # tables of so few rows that reading all of them costs nothing
    append_only: bool = False  # rows came to the inputs, and none left
