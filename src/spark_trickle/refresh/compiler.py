"""Compile definitions inside attempts, and remember the result while schemas and view texts stay the same."""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Mapping, Sequence
from dataclasses import replace

from spark_trickle.errors import TrickleError
from spark_trickle.lake.attempt import Attempt
from spark_trickle.lake.tables import Lake
from spark_trickle.model import HIDDEN_NAMESPACE, LAKE, LakeFunction, Pointer, StreamTable, TableName
from spark_trickle.refresh.definition import Compiled, LakeTables, compile_definition, resolve
from spark_trickle.sql.mentions import called, mentioned, without_catalog

_KEPT = 500

Signature = tuple[tuple[object, ...], ...]


class Compiler:
    """Two switches for tests of optimizations, which must not change any result.

    `use_states=False` keeps no algebraic state: affected groups are recomputed. `state_tables=False` keeps only those
    hidden state tables that must be.
    """

    def __init__(self, lake: Lake, *, use_states: bool = True, state_tables: bool = True) -> None:
        self.lake = lake
        self.use_states = use_states
        self.state_tables = state_tables
        self._known: OrderedDict[tuple[object, ...], tuple[Signature, Compiled]] = OrderedDict()
        self._lock = threading.Lock()

    def compile(
        self,
        attempt: Attempt,
        name: TableName,
        definition: str,
        namespace: str,
        pointers: Mapping[TableName, Pointer],
        stream_tables: Mapping[TableName, StreamTable],
    ) -> Compiled:
        """Compile at the cut `pointers`; everything the definition may read is registered in the attempt.

        Hidden state tables that the stream table `name` has already keep their storage.
        """
        text = without_catalog(definition, LAKE)
        names = self._closure(text, namespace, pointers, stream_tables)
        attempt.register_missing(pointers, names)
        functions = attempt.functions.register(attempt.session, text)
        signature = (*self._signature(names, attempt.pointers), *((n, f.version) for n, f in functions.items()))
        owner = stream_tables.get(name)
        storages = _Storages(name, owner.states if owner else (), pointers)
        key = (name, definition, namespace, self.use_states, self.state_tables)
        with self._lock:
            found = self._known.get(key)
        if found is not None and found[0] == signature and storages.fit(found[1]):
            return found[1]
        attempt.use(namespace)
        compiled = compile_definition(
            attempt.session,
            LakeTables(self.lake, attempt.pointers, stream_tables),
            text,
            namespace,
            storages.storage_of,
            use_states=self.use_states,
            state_tables=self.state_tables,
            functions=functions,
        )
        compiled = _with_functions(compiled, functions)
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
        """What a compiled definition depends on: schemas of tables, texts of views; functions are added to it."""
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


def _with_functions(compiled: Compiled, functions: Mapping[str, LakeFunction]) -> Compiled:
    """Each hidden state table has its part of the functions: another version starts those that call it anew."""
    if not functions:
        return compiled
    names = sorted(called(compiled.definition) & functions.keys())
    states = tuple(replace(s, compiled=_with_functions(s.compiled, functions)) for s in compiled.states)
    return replace(compiled, functions=tuple((n, functions[n].version) for n in names), states=states)


class _Storages:
    """Where the hidden state tables of one stream table are: those it has stay, new ones get free names.

    A state table is the same as before if its definition and its layout are. So it never moves: another layout is
    another state table.
    """

    def __init__(self, name: TableName, known: Sequence[StreamTable], pointers: Mapping[TableName, Pointer]) -> None:
        self.base = storage_base(name)
        self.known = {(t.definition, t.layout): t.storage for t in known if t.storage in pointers}
        self.taken = set(pointers) | {t.storage for t in known}

    def storage_of(self, definition: str, layout: str) -> TableName:
        known = self.known.get((definition, layout))
        if known is not None:
            return known
        n = 1
        while (candidate := TableName(HIDDEN_NAMESPACE, f"{self.base}__state{n}")) in self.taken:
            n += 1
        self.taken.add(candidate)
        return candidate

    def fit(self, compiled: Compiled) -> bool:
        for state in compiled.states:
            known = self.known.get((state.compiled.definition, state.compiled.layout))
            if known != state.storage and (known is not None or state.storage in self.taken):
                return False
        return True


def storage_base(name: TableName) -> str:
    return f"{name.namespace.replace('.', '__')}__{name.name}"
