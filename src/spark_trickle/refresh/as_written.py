"""Definitions that run as they were written: at one instant, and by the policy for volatile functions.

A refresh runs at the cut's instant, a verification at the instant of the refresh that it verifies.
"""

from __future__ import annotations

from datetime import datetime

from spark_trickle.config import Settings
from spark_trickle.errors import TrickleError
from spark_trickle.lake.attempt import Attempt
from spark_trickle.model import LAKE
from spark_trickle.refresh.definition import Compiled
from spark_trickle.spark.names import quote
from spark_trickle.spark.settings import TIME_ZONE, zone
from spark_trickle.sql.clock import pin_time
from spark_trickle.sql.mentions import follows_the_clock, time_of_day, without_catalog


def definition_view(attempt: Attempt, compiled: Compiled, instant: datetime) -> str:
    """A temporary view of the definition's rows, in a session whose current catalog is the attempt's."""
    view = attempt.view_name("definition")
    text = without_catalog(compiled.definition, LAKE)
    if compiled.time_dependent:
        moment = instant.astimezone(zone(attempt.session.conf.get(TIME_ZONE)))
        columns = {c for _, used in compiled.inputs.values() for c in used}
        _pin_views(attempt, compiled, moment, columns)
        attempt.use(compiled.namespace)
        text = _pinned(attempt, text, moment, columns)
    attempt.session.sql(text).createOrReplaceTempView(view)
    return view


def _pin_views(attempt: Attempt, compiled: Compiled, moment: datetime, columns: set[str]) -> None:
    """Views that ask the clock get a text of their own in this attempt, and in it alone."""
    for name in compiled.views:
        view = attempt.lake.view(attempt.pointers[name])
        if follows_the_clock(view.text) is not None or time_of_day(view.text) is not None:
            attempt.use(view.namespace)
            attempt.replace_view(name, _pinned(attempt, view.text, moment, columns))


def _pinned(attempt: Attempt, text: str, moment: datetime, columns: set[str]) -> str:
    """The text at a moment, with the column names it has as written: Spark makes names up from the expressions."""
    from pyspark.errors import AnalysisException

    pinned = pin_time(text, moment, columns)
    if pinned == text:
        return text
    written = attempt.session.sql(text)
    try:
        found = attempt.session.sql(pinned)
    except AnalysisException:
        return text  # a name that Spark made up is used further out: Spark's own instant has to do
    if [f.dataType for f in found.schema] != [f.dataType for f in written.schema]:
        return text
    if found.columns == written.columns:
        return pinned
    return f"SELECT * FROM ({pinned}\n) AS pinned({', '.join(map(quote, written.columns))})"


# -- volatile functions ------------------------------------------------------------------------------------------------


def refuse_volatile(compiled: Compiled, settings: Settings) -> None:
    if compiled.volatile is not None and settings.volatile_functions == "reject":
        raise TrickleError("VOLATILE_FUNCTION", f"{compiled.volatile} is not deterministic")


def notices(compiled: Compiled, settings: Settings) -> tuple[str, ...]:
    """What the author of a definition should know."""
    known = compiled.notices
    if compiled.reason is not None and compiled.reason.code == "DEFINITION_CHECK":
        about = f"{compiled.reason.message}: a fault of Trickle, please report the query and the types of its tables"
        known = (*known, f"{about}. It is kept FULL until then, by its text")
    if "${" in compiled.definition:
        known = (*known, "${…} stays as it is written: Spark's variables are not replaced in a definition")
    if compiled.volatile is None or settings.volatile_functions == "allow":
        return known
    refused = "; it is refused while volatile_functions is reject" if settings.volatile_functions == "reject" else ""
    about = f"{compiled.volatile} is not deterministic: every refresh is FULL, and no two are equal{refused}"
    return (*known, about)
