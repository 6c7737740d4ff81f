"""Stream tables for Spark: declare a table by a SQL query, and it is kept equal to it by computing only what changed."""

from __future__ import annotations

from spark_trickle.engine import Trickle as Trickle
from spark_trickle.engine import connect as connect
from spark_trickle.errors import TrickleError as TrickleError
from spark_trickle.model import Action as Action
from spark_trickle.model import Mode as Mode
from spark_trickle.model import RefreshResult as RefreshResult

__version__ = "0.1.0"
