"""Random source tables and random changes to them, as plain SQL text."""

from __future__ import annotations

import random
from dataclasses import dataclass

from tests.engine.workload import KINDS, Source
from tests.fuzz.types import ENDS, NESTED, ODD, SCALARS, ZEROS, Column, T, values

NAMESPACE = "s"
# Two keys are hot: changes of both sides of a join should meet, which is where a wrong rule shows.
_KEY_POOL = ("NULL", "0", "1", "1", "1", "2", "2", "3", "4")


@dataclass(frozen=True)
class Table:
    """A source: its columns as the grammar sees them, its DDL and rows as the lake does."""

    source: Source
    columns: tuple[Column, ...]
    kind: tuple[int, str]
    rows: int  # at the start
    guarded: bool = False  # its rows keep to a rule (see guarded.py): no random change is made to it

    @property
    def name(self) -> str:
        return f"{NAMESPACE}.{self.source.name}"


def random_tables(rnd: random.Random) -> tuple[Table, ...]:
    """Three or four sources. All have the key `k`, most the label `g`; the first two have every type between them."""
    tables = []
    empty = rnd.randrange(4) if rnd.random() < 0.35 else None
    for n in range(rnd.choice((3, 4, 4))):
        letter = "abcd"[n]
        columns = [Column("k", T.INT)]
        if n != 2:
            columns.append(Column("g", T.STR))
        wanted: list[T] = rnd.sample(SCALARS, 4) + rnd.sample(NESTED, 1)
        if n == 0:
            wanted = [*SCALARS, *NESTED]
        elif n == 1:
            wanted = [*rnd.sample(SCALARS, 3), T.MAP, *ZEROS, *ENDS, *ODD]
        else:
            wanted += rnd.sample((*ZEROS, *ENDS, *ODD), 1)
        columns += [Column(f"{letter}{i}_{_short(t)}", t) for i, t in enumerate(wanted)]
        pools = tuple(_KEY_POOL if c.name == "k" else values(c.type) for c in columns)
        source = Source(f"t{letter}", tuple((c.name, c.type.value) for c in columns), pools, "k")
        rows = 0 if n == empty else rnd.choice((8, 14, 20, 28))
        kinds = KINDS if T.VAR not in wanted else [k for k in KINDS if k[0] == 3]  # version 2 has no variants
        tables.append(Table(source, tuple(columns), rnd.choice(kinds), rows))
    return tuple(tables)


def _short(type_: T) -> str:
    return type_.name.lower()


def creation(rnd: random.Random, tables: tuple[Table, ...]) -> list[str]:
    """The statements that make and fill the sources, in two commits so that files have neighbours."""
    statements = []
    for t in tables:
        statements.append(t.source.create(t.kind))
        for size in (t.rows // 2, t.rows - t.rows // 2):
            if size:
                statements.append(f"INSERT INTO {t.name} {t.source.rows(t.source.random_rows(rnd, size))}")
    return statements


_CHANGES = {
    "insert": 6,
    "copy": 2,
    "update": 3,
    "same": 1,
    "move": 3,
    "delete": 3,
    "delete and insert": 2,
    "merge": 4,
    "overwrite": 1,
    "truncate": 0.5,
    "delete all": 0.5,
    "compact": 0.5,
}


def change(rnd: random.Random, table: Table) -> list[str]:
    """One or two statements that change a source."""
    s, t = table.source, table.name
    names = [c for c, _ in s.columns]
    where = _condition(rnd, table)

    def some(n: int) -> str:
        rows = s.random_rows(rnd, n)
        return s.rows(rows + rnd.choices(rows, k=rnd.randrange(3)))

    kind = rnd.choices(list(_CHANGES), list(_CHANGES.values()))[0]
    if kind == "insert":
        return [f"INSERT INTO {t} {some(rnd.randint(1, 5))}"]
    if kind == "copy":
        return [f"INSERT INTO {t} SELECT * FROM {t} WHERE {where} LIMIT 4"]
    if kind == "update":
        at = rnd.randrange(len(names))
        value = rnd.choice(s.pools[at])
        return [f"UPDATE {t} SET {names[at]} = CAST({value} AS {s.columns[at][1]}) WHERE {where}"]
    if kind == "same":
        return [f"UPDATE {t} SET k = k WHERE {where}"]
    if kind == "move":
        return [f"UPDATE {t} SET k = (coalesce(k, 0) + 1) % 5 WHERE {where}"]
    if kind == "delete":
        return [f"DELETE FROM {t} WHERE {where}"]
    if kind == "delete and insert":
        return [f"DELETE FROM {t} WHERE {where}", f"INSERT INTO {t} {some(3)}"]
    if kind == "merge":
        return [_merge(rnd, table, where)]
    if kind == "overwrite":
        return [f"INSERT OVERWRITE {t} SELECT * FROM {t} WHERE NOT ({where}) UNION ALL {some(3)}"]
    if kind == "compact":
        return [f"CALL lake.system.rewrite_data_files(table => '{t}', options => map('rewrite-all', 'true'))"]
    empty = {"truncate": f"TRUNCATE TABLE {t}", "delete all": f"DELETE FROM {t}"}[kind]
    return [empty, f"INSERT INTO {t} {some(6)}"] if rnd.random() < 0.6 else [empty]


def _condition(rnd: random.Random, table: Table) -> str:
    """Holds for some of the rows; the key more often than other columns."""
    s = table.source
    at = 0 if rnd.random() < 0.5 else rnd.randrange(len(s.columns))
    name, type_ = s.columns[at]
    if type_.startswith(
        ("MAP", "ARRAY", "STRUCT", "VARIANT")
    ):  # Iceberg cannot take constants of these for its filters
        return f"{name} IS NULL"
    return f"{name} <=> CAST({rnd.choice(s.pools[at])} AS {type_})"


def _merge(rnd: random.Random, table: Table, where: str) -> str:
    s = table.source
    rows = {r[0]: r for r in s.random_rows(rnd, 3)}  # by key: a row must not match twice
    names = [c for c, _ in s.columns]
    set_ = ", ".join(f"{n} = u.{n}" for n in (names[1], names[-1]))
    return (
        f"MERGE INTO {table.name} t USING ({s.rows(list(rows.values()))}) u ON t.k <=> u.k "
        f"WHEN MATCHED AND t.{where} THEN DELETE WHEN MATCHED THEN UPDATE SET {set_} WHEN NOT MATCHED THEN INSERT *"
    )


def step(rnd: random.Random, tables: tuple[Table, ...]) -> list[str]:
    """Changes to several sources at once, mostly to all: rules go wrong where both sides of a join change."""
    changed = tables if rnd.random() < 0.75 else rnd.sample(tables, rnd.randint(1, len(tables) - 1))
    statements = []
    for table in changed:
        # Rows that surely come, some of which surely meet others; a condition may hold for no row.
        statements.append(f"INSERT INTO {table.name} {table.source.rows(table.source.random_rows(rnd, 5))}")
        parts = [change(rnd, table) for _ in range(rnd.choice((1, 1, 2)))]
        rnd.shuffle(parts)
        for part in parts:
            statements += part
    return statements
