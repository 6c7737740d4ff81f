"""Lineage by column through stream tables: where a column comes from, and what depends on it.

Each stream table has the lineage of its own definition, in terms of the tables that it reads. Here they are put
together: a column of a stream table that is read stands for what that column comes from itself.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass

from spark_trickle.catalog.reader import CatalogReader, unknown
from spark_trickle.errors import TrickleError
from spark_trickle.graph.dag import Graph
from spark_trickle.model import Lineage, Origin, Origins, TableName, Via, resolve, through

Lineages = Mapping[TableName, Lineage]


@dataclass(frozen=True, slots=True)
class LineageEntry:
    """That one column depends on another. An empty name is the rows of a table: how many there are, and which."""

    table: str
    column: str
    from_table: str
    from_column: str
    via: Via
    direct: bool  # values are made of its values; else they decide which rows there are, or which value is taken

    def __str__(self) -> str:
        return f"{self.table}.{self.column or '*'} <- {self.via} {self.from_table}.{self.from_column or '*'}"


class NotStored(TrickleError):
    """The lineage of these stream tables is not in the catalog: their definitions must be compiled."""


def lineage(
    reader: CatalogReader,
    name: TableName,
    column: str | None = None,
    *,
    depth: int | None = None,
    down: bool = False,
    store: Callable[[Collection[TableName]], None] | None = None,
    namespace: str = "default",
) -> tuple[LineageEntry, ...]:
    """Where columns of a stream table come from; with `down`, what depends on a table or its column.

    `store` compiles and stores what is missing; without it that is NotStored. A stream table whose definition is not
    read for certain (it is kept FULL) has no lineage: what is above it is not seen.
    """
    if depth is not None and depth < 1:
        raise TrickleError("INVALID_FILTER", f"depth is {depth}; it must be 1 or more")
    tables = {t.name: t for t in reader.stream_tables()}
    read = {d.input for t in tables.values() for d in t.reads}
    if column is None:
        name, column = target(name, {*tables, *read}, namespace)
    if name not in tables and not (down and name in read):
        raise unknown(name, {*tables, *read} if down else tables)
    graph = Graph({t.name: [d.input for d in t.reads if d.input in tables] for t in tables.values()})
    needed = tuple(tables) if down else graph.ancestors([name])
    found = reader.lineages(None if down else needed)
    missing = sorted(n for n in needed if n not in found and tables[n].incremental)
    if missing:
        names = ", ".join(map(str, missing))
        if store is None:
            raise NotStored("UNKNOWN_LINEAGE", f"the lineage of {names} is not stored")
        store(missing)
        found = reader.lineages(None if down else needed)
    if down:
        return depends_on(name, column, found, depth)
    if name not in found:
        raise TrickleError("UNKNOWN_LINEAGE", f"{name} is recomputed, for {tables[name].reason}")
    return comes_from(name, column, found, depth)


def comes_from(
    name: TableName, column: str | None, lineages: Lineages, depth: int | None = None
) -> tuple[LineageEntry, ...]:
    """What the columns of a stream table, or one, and its rows come from.

    `depth` is how many definitions are looked through: 1 gives what the own one reads, None goes on to the sources.
    """
    own = lineages[name]
    chosen = list(own.columns) if column is None else [_column(name, column, own.columns)]
    found = [(c, _far(own.columns[c], lineages, depth)) for c in chosen]
    found.append(("", _far(own.rows, lineages, depth)))
    return tuple(_entry(name, c, o) for c, origins in found for o in sorted(origins, key=_order))


def _far(origins: Origins, lineages: Lineages, depth: int | None) -> Origins:
    """Followed through stream tables."""
    left = None if depth is None else depth - 1
    seen: set[Origin] = set()  # stream tables may read each other
    while left != 0:
        inner = frozenset(o for o in origins if o.table in lineages)
        new = inner - seen
        origins = (origins - inner).union(*(_step(o, lineages) for o in new))
        if not new:
            break
        seen |= new
        left = None if left is None else left - 1
    return origins


def _step(o: Origin, lineages: Lineages) -> Origins:
    known = lineages.get(o.table)
    if known is None:
        return frozenset([o])
    if o.via is Via.ROWS:
        return known.rows
    return through(o.via, known.columns.get(o.column, frozenset()))


def depends_on(
    name: TableName, column: str | None, lineages: Lineages, depth: int | None = None
) -> tuple[LineageEntry, ...]:
    """The columns of stream tables that depend on a column of a table, or on any of it, the nearest first."""
    affected: dict[tuple[TableName, str], set[Via]] = {}
    wave: dict[tuple[TableName, str], set[Via]] = {}
    for reader, own in lineages.items():
        for c, origins in (*own.columns.items(), ("", own.rows)):
            vias = {o.via for o in origins if o.table == name and _meant(o, column)}
            if vias:
                wave[reader, c] = vias
    while wave and depth != 0:
        new: dict[tuple[TableName, str], set[Via]] = {}
        for at, vias in wave.items():
            fresh = vias - affected.get(at, set())
            if fresh:
                affected.setdefault(at, set()).update(fresh)
                new[at] = fresh
        depth = None if depth is None else depth - 1
        wave = _readers(new, lineages)
    return tuple(
        LineageEntry(str(table), c, str(name), column or "", via, via.direct)
        for (table, c), vias in affected.items()
        for via in sorted(vias, key=list(Via).index)
    )


def _meant(o: Origin, column: str | None) -> bool:
    """Whether rows of the table are meant, too, is said by leaving the column out."""
    return column is None or o.column.lower() == column.lower()


def _readers(
    changed: Mapping[tuple[TableName, str], set[Via]], lineages: Lineages
) -> dict[tuple[TableName, str], set[Via]]:
    found: dict[tuple[TableName, str], set[Via]] = {}
    for reader, own in lineages.items():
        for c, origins in (*own.columns.items(), ("", own.rows)):
            for o in origins:
                for via in changed.get((o.table, o.column), ()):
                    below = frozenset([Origin(o.table, o.column, via)])
                    found.setdefault((reader, c), set()).update(x.via for x in through(o.via, below))
    return found


def target(name: TableName, known: Collection[TableName], namespace: str) -> tuple[TableName, str | None]:
    """`a.b.c` is a table that is known, or else a table and its column."""
    table = resolve(tuple(name.namespace.split(".")), namespace)
    return (table, name.name) if name not in known and table in known else (name, None)


def _column(name: TableName, column: str, known: Collection[str]) -> str:
    found = next((c for c in known if c.lower() == column.lower()), None)
    if found is None:
        raise TrickleError("UNKNOWN_COLUMN", f"{name} has no column {column}; it has: {', '.join(known)}")
    return found


def _entry(name: TableName, column: str, o: Origin) -> LineageEntry:
    return LineageEntry(str(name), column, str(o.table), o.column, o.via, o.via.direct)


def _order(o: Origin) -> tuple[int, TableName, str]:
    return list(Via).index(o.via), o.table, o.column
