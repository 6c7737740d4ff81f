"""Metadata files that are written for one attempt or cut alone, and deleted with it."""

from __future__ import annotations

import uuid
from typing import TYPE_CHECKING

from spark_trickle.model import HIDDEN_NAMESPACE, LAKE

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_PREFIX = "trickle-pin-"


def warehouse(session: SparkSession) -> str:
    return str(session.conf.get(f"spark.sql.catalog.{LAKE}.warehouse"))


def new_pin(session: SparkSession) -> str:
    """A place for such a file. Not among a source's files: those are somebody else's."""
    return f"{warehouse(session)}/{HIDDEN_NAMESPACE}/pins/{_PREFIX}{uuid.uuid4()}.metadata.json"


def is_pin(location: str) -> bool:
    return location.rpartition("/")[2].startswith(_PREFIX)
