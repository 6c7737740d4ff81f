"""Compile definitions inside attempts, and remember the result while schemas and view texts stay the same."""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Mapping

from spark_trickle.errors import TrickleError
from spark_trickle.lake.attempt import Attempt
from spark_trickle.lake.tables import Lake
from spark_trickle.model import LAKE, Pointer, StreamTable, TableName
from spark_trickle.refresh.definition import Compiled, LakeTables, compile_definition, resolve
from spark_trickle.sql.mentions import mentioned, without_catalog

_KEPT = 500

Signature = tuple[tuple[TableName, str, int, str], ...]


class Compiler:
    """`use_states=False` keeps no algebraic state: affected groups are recomputed (for tests of the optimization)."""

    def __init__(self, lake: Lake, *, use_states: bool = True) -> None:
        self.lake = lake
        self.use_states = use_states
        self._known: OrderedDict[tuple[str, str], tuple[Signature, Compiled]] = OrderedDict()
        self._lock = threading.Lock()

    def compile(
        self,
        attempt: Attempt,
        definition: str,
        namespace: str,
        pointers: Mapping[TableName, Pointer],
        stream_tables: Mapping[TableName, StreamTable],
    ) -> Compiled:
        """Compile at the cut `pointers`; everything the definition may read is registered in the attempt."""
        text = without_catalog(definition, LAKE)
        names = self._closure(text, namespace, pointers, stream_tables)
        attempt.register_missing(pointers, names)
        signature = self._signature(names, attempt.pointers)
        key = (definition, namespace)
        with self._lock:
            found = self._known.get(key)
        if found is not None and found[0] == signature:
            return found[1]
        attempt.use(namespace)
        tables = LakeTables(self.lake, attempt.pointers, stream_tables)
        compiled = compile_definition(attempt.session, tables, text, namespace, use_states=self.use_states)
        with self._lock:
            self._known[key] = (signature, compiled)
            while len(self._known) > _KEPT:
                self._known.popitem(last=False)
        return compiled

    def _closure(
        self,
        text: str,
        namespace: str,
        pointers: Mapping[TableName, Pointer],
        stream_tables: Mapping[TableName, StreamTable],
    ) -> tuple[TableName, ...]:
        """All tables and views that the text may read, views followed to their ends."""
        found: dict[TableName, None] = {}
        waiting = [(text, namespace)]
        while waiting:
            body, home = waiting.pop()
            for parts in sorted(mentioned(body)):
                name = resolve(parts, home)
                pointer = pointers.get(name)
                if pointer is None or name in found:
                    continue
                found[name] = None
                stream_table = stream_tables.get(name)
                if stream_table is not None:
                    found[stream_table.storage] = None
                elif pointer.is_view:
                    view = self.lake.view(pointer)
                    waiting.append((view.text, view.namespace))
        return tuple(found)

    def _signature(self, names: tuple[TableName, ...], pointers: Mapping[TableName, Pointer]) -> Signature:
        """What a compiled definition depends on: schemas of tables, texts of views."""
        parts = []
        for name in names:
            pointer = pointers.get(name)
            if pointer is None:
                raise TrickleError("SOURCE_DROPPED", f"{name} is gone")
            if pointer.is_view:
                parts.append((name, "", 0, pointer.location))
            else:
                facts = self.lake.facts(pointer.location)
                parts.append((name, facts.uuid, facts.schema_id, ""))
        return tuple(parts)
