"""Stream tables for Spark: tables declared by a SQL query, kept equal to it by computing what changed."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from spark_trickle.engine import Trickle as Trickle
    from spark_trickle.engine import connect as connect
    from spark_trickle.errors import TrickleError as TrickleError
    from spark_trickle.model import Action as Action
    from spark_trickle.model import Mode as Mode
    from spark_trickle.refresh.changes import Changes as Changes
    from spark_trickle.results import RefreshResult as RefreshResult

__version__ = "0.1.0"

__all__ = ["Action", "Changes", "Mode", "RefreshResult", "Trickle", "TrickleError", "connect"]

_HOME = {
    "Trickle": "engine",
    "connect": "engine",
    "TrickleError": "errors",
    "Action": "model",
    "Changes": "refresh.changes",
    "Mode": "model",
    "RefreshResult": "results",
}


def __getattr__(name: str) -> Any:
    # Names load when first used: `trickle --help` must not wait for SQLAlchemy and sqlglot.
    if name not in _HOME:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from importlib import import_module

    return getattr(import_module(f"{__name__}.{_HOME[name]}"), name)
