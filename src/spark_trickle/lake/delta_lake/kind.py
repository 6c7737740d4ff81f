"""Delta Lake tables: a location is a table at one version (`Version`), an attempt has a view of it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from spark_trickle.lake.delta_lake.feed import read_changes
from spark_trickle.lake.delta_lake.log import PREFIX, Logs, Version, table_sql
from spark_trickle.lake.feed import Feed
from spark_trickle.lake.jvm import TableFacts
from spark_trickle.lake.kinds import Problem
from spark_trickle.lake.table_history import TableHistory
from spark_trickle.lake.views import write_source_view
from spark_trickle.model import Dependency, Pointer, TableName
from spark_trickle.spark.names import quote
from spark_trickle.spark.session import has_delta_lake, require_delta_lake, use_delta_lake

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


class DeltaLake:
    """The source kind of Delta Lake tables."""

    title = "Delta Lake"

    def __init__(self, session: SparkSession) -> None:
        self._session = session
        self.logs = Logs(session)

    def owns(self, location: str) -> bool:
        return location.startswith(PREFIX)

    def available(self, session: SparkSession) -> bool:
        return has_delta_lake(session)

    def require(self, what: str) -> None:
        require_delta_lake(self._session, what)

    def prepare(self, session: SparkSession) -> None:
        use_delta_lake(session)

    def current(self, place: str) -> str | None:
        version = self.logs.current(place)
        return None if version is None else str(version)

    def facts(self, location: str) -> TableFacts:
        return self.logs.describe(Version.of(location)).facts

    def rows(self, session: SparkSession, location: str, snapshot_id: int) -> int | None:
        cut = Version.of(location)
        return self.logs.rows(session, cut.at(snapshot_id), cut)

    def history(self, location: str) -> TableHistory:
        version = Version.of(location)
        return TableHistory(format="delta", uuid=version.table_id, head=version.number, numbered=True)

    def expired(self, location: str, snapshot_id: int) -> str | None:
        new = Version.of(location)
        return self.logs.unreadable(new.at(snapshot_id), new)

    def expires(self, *_: object) -> None:
        return None  # files go when somebody runs VACUUM, which asks only how old they are

    def lost(self, location: str, then: Dependency) -> Problem | None:
        assert then.pointer is not None
        gone = self.logs.unreadable(Version.of(then.pointer), Version.of(location), whole=True)
        return None if gone is None else ("SNAPSHOT_EXPIRED", f"{then.input}: {gone}")

    def registered(self, session: SparkSession, pointer: Pointer) -> Pointer:
        self.prepare(session)
        return Pointer(pointer.name, self.write_view(pointer.name, pointer.location, pinned=True), is_view=True)

    def write_view(self, name: TableName, location: str, *, pinned: bool) -> str:
        version = Version.of(location)
        facts = self.facts(location)
        columns = [f.name for f in facts.fields]
        if pinned:
            text = self.logs.select(version, version, columns)
        else:
            text = f"SELECT {', '.join(map(quote, columns))} FROM {table_sql(version, pinned=False)}"
        return write_source_view(self._session, name, "delta", facts.schema, text, pinned=pinned)

    def at(self, location: str, snapshot_id: int | None) -> str:
        assert snapshot_id is not None, "a Delta Lake table has a version from the start"
        return str(Version.of(location).at(snapshot_id))

    def in_schema(self, location: str, schema: str) -> str:
        return str(self.logs.in_schema(Version.of(location), schema))

    def changes(self, session: SparkSession, pointer: Pointer, old: int | None, columns: Sequence[str]) -> Feed:
        return read_changes(session, self.logs, Version.of(pointer.location), old, columns)

    def old_state(self, pointer: Pointer, _here: str, snapshot_id: int) -> str | None:
        cut = Version.of(pointer.location)
        columns = [f.name for f in self.facts(pointer.location).fields]
        return f"({self.logs.select(cut.at(snapshot_id), cut, columns)})"

    def look_up(self, *_: object) -> None:
        return None  # its files have no field ids
