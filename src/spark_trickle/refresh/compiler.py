"""Compile definitions inside attempts, and remember the result while schemas and view texts stay the same."""

from __future__ import annotations

from collections import ChainMap
from collections.abc import Mapping, Sequence
from dataclasses import replace
from textwrap import shorten

from spark_trickle.errors import TrickleError
from spark_trickle.lake.attempt import Attempt
from spark_trickle.lake.cache import LruCache
from spark_trickle.lake.shape import reshape, same
from spark_trickle.lake.tables import Lake
from spark_trickle.model import (
    HIDDEN_NAMESPACE,
    LAKE,
    InputKind,
    LakeFunction,
    Pointer,
    Star,
    StreamTable,
    TableName,
    resolve,
)
from spark_trickle.refresh.definition import Compiled, Definition, LakeTables, compile_definition, misread_of
from spark_trickle.spark.settings import plain_arithmetic
from spark_trickle.sql.mentions import Seen, called, columns_seen, mentioned, without_catalog

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
        self._cache = LruCache[tuple[object, ...], tuple[Signature, Compiled]](size=500)

    def compile(
        self,
        attempt: Attempt,
        definition: Definition,
        pointers: Mapping[TableName, Pointer],
        stream_tables: Mapping[TableName, StreamTable],
        misread: str | None = None,
        cycle: tuple[TableName, ...] = (),
    ) -> Compiled:
        """Compile at the cut `pointers`; everything the definition may read is registered in the attempt.

        The attempt has the definition's settings from now on: what is compiled under them is computed under them.
        Hidden state tables that the stream table has already keep their names. `cycle` are those that read each other
        with it.
        """
        name, namespace, pins = definition.name, definition.namespace, definition.pins
        attempt.apply(pins)
        text = without_catalog(definition.text, LAKE)
        # What this attempt has made is read, too.
        there: Mapping[TableName, Pointer] = ChainMap(attempt.pointers, pointers)  # type: ignore[arg-type]
        names, texts = self._closure(text, namespace, there, stream_tables)
        attempt.register_missing(pointers, names)
        owner = stream_tables.get(name)
        if owner is not None:
            refuse_dropped(self.lake, owner, pointers)
        attempt.see(pointers, {} if owner is None else self._schemas(owner, texts, pointers))
        functions = attempt.functions.register(attempt.session, text)
        signature = (*self._signature(names, attempt.pointers), *((n, f.version) for n, f in functions.items()))
        states = _StateNames(name, owner.states if owner else (), pointers)
        if owner is not None and owner.definition == definition.text:
            misread = misread or misread_of(owner.reason)
        switches = (self.use_states, self.state_tables, misread, cycle)
        key = (name, definition.text, namespace, switches, tuple(sorted(pins.items())))
        found = self._cache.find(key)
        if found is not None and found[0] == signature and states.fit(found[1]):
            return found[1]
        attempt.use(namespace)
        compiled = compile_definition(
            attempt.session,
            LakeTables(self.lake, attempt.pointers, stream_tables),
            text,
            namespace,
            states.name_of,
            use_states=self.use_states,
            state_tables=self.state_tables,
            functions=functions,
            plain_decimals=plain_arithmetic(pins),
            misread=misread,
            cycle=cycle,
        )
        compiled = _with_functions(compiled, functions)
        self._cache.put(key, (signature, compiled))
        return compiled

    def register(
        self,
        attempt: Attempt,
        text: str,
        namespace: str,
        pointers: Mapping[TableName, Pointer],
        stream_tables: Mapping[TableName, StreamTable],
    ) -> None:
        """Let the attempt know what a text may read and call."""
        there: Mapping[TableName, Pointer] = ChainMap(attempt.pointers, pointers)  # type: ignore[arg-type]
        names, _ = self._closure(text, namespace, there, stream_tables)
        attempt.register_missing(pointers, names)
        attempt.functions.register(attempt.session, text)
        attempt.use(namespace)

    def _closure(
        self,
        text: str,
        namespace: str,
        pointers: Mapping[TableName, Pointer],
        stream_tables: Mapping[TableName, StreamTable],
    ) -> tuple[tuple[TableName, ...], tuple[str, ...]]:
        """All tables and views that the text may read, views followed to their ends, and all those texts."""
        texts: list[str] = []
        found: dict[TableName, None] = {}
        waiting = [(text, namespace)]
        while waiting:
            body, home = waiting.pop()
            texts.append(body)
            for parts in sorted(mentioned(body)):
                name = resolve(parts, home)
                pointer = pointers.get(name)
                if pointer is None or name in found:
                    continue
                found[name] = None
                if pointer.is_view and name not in stream_tables:
                    view = self.lake.view(pointer)
                    waiting.append((view.text, view.namespace))
        return tuple(found), tuple(texts)

    def _schemas(
        self, owner: StreamTable, texts: Sequence[str], pointers: Mapping[TableName, Pointer]
    ) -> dict[TableName, str]:
        """The schemas to read sources in, where the stream table sees other columns than they have now."""
        found: dict[TableName, str] = {}
        seen: Seen | None = None
        for name, shape in owner.shapes:
            pointer = pointers.get(name)
            if pointer is None or pointer.is_view:
                continue
            facts = self.lake.facts(pointer.location)
            if facts.uuid != shape.uuid or same(facts.schema, shape.schema):
                continue
            seen = seen or columns_seen(texts)
            schema = reshape(shape.schema, facts.schema, seen, follow=owner.star is Star.FOLLOW)
            if schema is not None:
                found[name] = schema
        return found

    def _signature(self, names: tuple[TableName, ...], pointers: Mapping[TableName, Pointer]) -> Signature:
        """What a compiled definition depends on: schemas of tables, texts of views; functions are added to it."""
        parts: list[tuple[object, ...]] = []
        for name in names:
            pointer = pointers.get(name)
            if pointer is None:
                raise TrickleError("SOURCE_DROPPED", f"{name} is gone")
            if pointer.is_view:
                parts.append((name, "", (), pointer.location))
            else:
                facts = self.lake.facts(pointer.location)
                parts.append((name, facts.uuid, facts.fields, ""))
        return tuple(parts)


def _with_functions(compiled: Compiled, functions: Mapping[str, LakeFunction]) -> Compiled:
    """Each hidden state table has its part of the functions: with another version those that call it are recomputed."""
    if not functions:
        return compiled
    names = sorted(called(compiled.definition) & functions.keys())
    states = tuple(replace(s, compiled=_with_functions(s.compiled, functions)) for s in compiled.states)
    return replace(compiled, functions=tuple((n, functions[n].version) for n in names), states=states)


class _StateNames:
    """The names of the hidden state tables of one stream table: those it has stay, new ones get free names.

    A state table is the same as before if its definition and its layout are. So it never moves: another layout is
    another state table.
    """

    def __init__(self, name: TableName, known: Sequence[StreamTable], pointers: Mapping[TableName, Pointer]) -> None:
        self.base = _base(name)
        self.known = {(t.definition, t.layout): t.name for t in known if t.name in pointers}
        self.taken = set(pointers) | {t.name for t in known}

    def name_of(self, definition: str, layout: str) -> TableName:
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
            if known != state.name and (known is not None or state.name in self.taken):
                return False
        return True


def refuse_dropped(lake: Lake, table: StreamTable, pointers: Mapping[TableName, Pointer]) -> None:
    """A column that the content was computed from and that is gone. FOLLOW lets `*` go on without it."""
    if table.star is Star.FOLLOW or not table.shapes:  # an altered definition has seen nothing yet
        return
    for known in table.reads:
        pointer = pointers.get(known.input)
        if known.kind is not InputKind.SOURCE or pointer is None or pointer.location == known.pointer:
            continue
        facts = lake.facts(pointer.location)
        if facts.uuid != known.table_uuid:
            continue
        ids, names = {f.id for f in facts.fields}, {f.name.lower() for f in facts.fields}
        for used in known.columns:
            if used.field_id not in ids and used.name.lower() not in names:
                raise dropped(table, f"column {used.name} of {known.input}")


def dropped(table: StreamTable, what: str) -> TrickleError:
    text = shorten(table.definition, 200, placeholder=" …")
    return TrickleError("SOURCE_CHANGED", f"{table.name}: {what} was dropped, and the definition uses it: {text}")


def _base(name: TableName) -> str:
    return f"{name.namespace.replace('.', '__')}__{name.name}"
