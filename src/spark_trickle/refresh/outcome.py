"""A DIFFERENTIAL refresh: from feeds to rows that leave and rows that enter the storage.

Every kind of identity ends in the same two lists: positions (`__file`, `__pos`) of stored rows to delete, and new rows
to append. So apply needs no MERGE, no key in storage and no second look at the target.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from spark_trickle.delta.aggregates import Merge
from spark_trickle.delta.optimize import PASSES, Pass, optimize
from spark_trickle.delta.root import HASH, Keyed, Rows
from spark_trickle.errors import TrickleError
from spark_trickle.lake.staging import MANY_POSITIONS, Staging
from spark_trickle.model import Column
from spark_trickle.refresh.equality import canonical, row_hash
from spark_trickle.refresh.inputs import SMALL, Feeds
from spark_trickle.spark.compile import compile_sql, quote
from spark_trickle.sql.algebra import WEIGHT, Changes, Empty, Named, Operator, Weigh

Stage = Callable[[str], Any]  # a context manager that times a named stage


@dataclass(frozen=True, slots=True)
class Counts:
    inserted: int = 0
    updated: int = 0
    deleted: int = 0


@dataclass(slots=True)
class Differential:
    """One DIFFERENTIAL refresh of one stream table."""

    feeds: Feeds
    staging: Staging
    columns: tuple[Column, ...]  # public
    stage: Stage
    passes: tuple[Pass, ...] = PASSES

    def run(self, plan: Rows | Keyed) -> Counts:
        if isinstance(plan, Rows):
            return self._rows(plan)
        if plan.algebra is not None:
            return self._algebraic(plan)
        return self._groups(plan)

    # -- helpers ---------------------------------------------------------------------------------------------------

    def _sql(self, tree: Operator) -> str | None:
        """The SQL of a delta tree; None when nothing can have changed."""
        slim = optimize(tree, self.feeds.changed, self.passes)
        if isinstance(slim, Empty):
            return None
        leaves = [op.scan.input for op in slim.walk() if isinstance(op, Changes)]
        for name in {n for n in leaves if leaves.count(n) > 1}:
            self.feeds.keep(name)
        return compile_sql(slim, self.feeds)

    def _cache(self, sql: str, what: str) -> tuple[str, int]:
        return self.feeds.materialize(self.feeds.attempt.session.sql(sql), what)

    def _hint_alias(self, view: str, alias: str) -> str:
        """Broadcast `alias` when the materialized view behind it is small: Spark has no statistics of it."""
        return f"/*+ BROADCAST({alias}) */ " if self.feeds.sizes.get(view, SMALL + 1) <= SMALL else ""

    # -- whole-row identity ----------------------------------------------------------------------------------------

    def _rows(self, plan: Rows) -> Counts:
        with self.stage("delta"):
            sql = self._sql(plan.delta)
        if sql is None:
            return Counts()
        names = [c.name for c in self.columns]
        listed = ", ".join(map(quote, names))
        if self.feeds.append_only and not _retracts(plan.delta):
            # Only insertions, each of weight one: nothing to consolidate, nothing to look up.
            with self.stage("apply"):
                select = f"SELECT {self._coalesce()}{listed}, {row_hash(self.columns)} FROM ({sql})"
                added = self.staging.append(select)
            return Counts(inserted=added.get("added-records", 0))
        with self.stage("delta"):
            view, rows = self._cache(self._consolidated(sql), "delta")
            if not rows:
                return Counts()
            session = self.feeds.attempt.session
            plus, minus = session.sql(
                f"SELECT coalesce(sum(greatest({WEIGHT}, 0)), 0), coalesce(sum(greatest(-{WEIGHT}, 0)), 0) "
                f"FROM {quote(view)}"
            ).first()
        if minus:
            with self.stage("lookup"):
                doomed, found = self._cache(self._doomed(view), "doomed")
            if found != minus:
                raise TrickleError(
                    "INTEGRITY",
                    f"{minus} rows should leave {self.staging.storage}, and only {found} of them are there",
                )
        with self.stage("apply"):
            copies = f"explode(array_repeat(1, CAST({WEIGHT} AS INT)))"
            rows = (
                f"SELECT {self._coalesce(plus)}{listed}, {quote(HASH)} FROM "
                f"(SELECT *, {copies} FROM {quote(view)} WHERE {WEIGHT} > 0)"
            )
            self._write(rows if plus else None, doomed if minus else None, minus)
        return Counts(inserted=plus, deleted=minus)

    def _coalesce(self, rows: int | None = None) -> str:
        """Few rows go into one file: small files slow every later refresh."""
        total = rows if rows is not None else sum(self.feeds.rows.values())
        return "/*+ COALESCE(1) */ " if total <= SMALL else ""

    def _consolidated(self, sql: str) -> str:
        """Equal rows folded into one weight; rows that came and went are gone."""
        keys, shown = [], []
        for c in self.columns:
            form = canonical(quote(c.name), c.type)
            keys.append(form)
            # A value whose canonical form is another expression stands for all rows that share the form.
            shown.append(quote(c.name) if form == quote(c.name) else f"any_value({quote(c.name)}) AS {quote(c.name)}")
        return (
            f"SELECT *, {row_hash(self.columns)} AS {quote(HASH)} FROM (SELECT {', '.join(shown)}, "
            f"sum({WEIGHT}) AS {WEIGHT} FROM ({sql}) GROUP BY {', '.join(keys)} HAVING sum({WEIGHT}) <> 0)"
        )

    def _doomed(self, view: str) -> str:
        """Which stored copies leave: any n of the equal ones."""
        same = " AND ".join(
            f"{canonical(f'__s.{quote(c.name)}', c.type)} <=> {canonical(f'__d.{quote(c.name)}', c.type)}"
            for c in self.columns
        )
        whole = ", ".join([f"__d.{quote(HASH)}", *(canonical(f"__d.{quote(c.name)}", c.type) for c in self.columns)])
        return (
            f"SELECT __file, __pos FROM (SELECT {self._hint_alias(view, '__d')}__s._file AS __file, __s._pos AS __pos, "
            f"-__d.{WEIGHT} AS __n, row_number() OVER (PARTITION BY {whole} ORDER BY __s._file, __s._pos) AS __rn "
            f"FROM {self.staging.target} __s JOIN (SELECT * FROM {quote(view)} WHERE {WEIGHT} < 0) __d "
            f"ON __s.{quote(HASH)} = __d.{quote(HASH)} AND {same}) WHERE __rn <= __n"
        )

    def _write(self, rows: str | None, doomed: str | None, count: int) -> None:
        """Rows in, and the positions of a view out: one commit while the positions fit on the driver."""
        if doomed is None:
            if rows is not None:
                self.staging.append(rows)
            return
        if count > MANY_POSITIONS:
            self.staging.delete_view(doomed)
            if rows is not None:
                self.staging.append(rows)
            return
        found = self.feeds.attempt.session.sql(
            f"SELECT __file, collect_list(__pos) FROM {quote(doomed)} WHERE __file IS NOT NULL GROUP BY __file"
        ).collect()
        self.staging.replace(rows, {r[0]: r[1] for r in found})

    # -- identity by keys ------------------------------------------------------------------------------------------

    def _storage_columns(self, plan: Keyed) -> tuple[Column, ...]:
        return (*self.columns, *plan.hidden)

    def _stored(self, plan: Keyed, by: str, key_of: Callable[[str], str]) -> str:
        """The stored rows of the affected keys, with their positions; columns prefixed `o__`."""
        listed = ", ".join(f"__s.{quote(c.name)} AS {quote('o__' + c.name)}" for c in self._storage_columns(plan))
        on = " AND ".join(f"__s.{quote(k.stored)} <=> __k.{quote(key_of(k.name))}" for k in plan.keys) or "true"
        return (
            f"SELECT {self._hint_alias(by, '__k')}__s._file AS __file, __s._pos AS __pos, {listed} "
            f"FROM {self.staging.target} __s JOIN {quote(by)} __k ON {on}"
        )

    def _algebraic(self, plan: Keyed) -> Counts:
        """Add the delta to the stored states; groups that lost their extremum are recomputed."""
        with self.stage("delta"):
            sql = self._sql(plan.change())
            if sql is None:
                return Counts()
            change, keys = self._cache(sql, "change")
            if not keys:
                return Counts()
        with self.stage("lookup"):
            merged, rows = self._cache(self._merged(plan, change), "merged")
            again = 0
            if plan.extrema and rows:
                again = self.feeds.attempt.session.sql(f"SELECT 1 FROM {quote(merged)} WHERE __again").count()
        if again:
            with self.stage("rescan"):
                merged, rows = self._rescanned(plan, merged, again)
        return self._replace(plan, merged, rows)

    def _merged(self, plan: Keyed, change: str) -> str:
        """One row per changed group: new states and columns, the old position, whether the group lives on."""
        hint = self._hint_alias(change, "__o")
        on = " AND ".join(f"__d.{quote(k.name)} <=> __o.{quote('o__' + k.stored)}" for k in plan.keys) or "true"
        states, again = [], ["false"]
        for s in plan.states:
            old, delta, name = f"__o.{quote('o__' + s.name)}", f"__d.{quote(s.name)}", quote(s.name)
            if s.merge is Merge.ADD:
                states.append(f"CAST(coalesce({old}, 0) + {delta} AS {s.type}) AS {name}")
                continue
            best = f"{s.merge}({old}, {delta})"
            removed = f"__d.{quote(s.name + '_removed')}"
            reaches = f"{removed} <= {best}" if s.merge is Merge.LEAST else f"{removed} >= {best}"
            states.append(f"{best} AS {name}")
            # Nothing left to compare with: the extremum, if there is one, must be looked for.
            again.append(f"({removed} IS NOT NULL AND ({best} IS NULL OR {reaches}))")
        keys = ", ".join(f"__d.{quote(k.name)}" for k in plan.keys)
        olds = ", ".join(f"__o.{quote('o__' + c.name)}" for c in self._storage_columns(plan))
        count = quote(plan.count.name)
        living = f"{count} > 0" if plan.keys else "true"
        public = {i.name for i in plan.items}
        outputs = [f"{i.scalar.sql()} AS {quote('n__' + i.name)}" for i in plan.finals()]
        outputs += [f"{quote(k.name)} AS {quote('n__' + k.stored)}" for k in plan.keys if k.stored not in public]
        outputs += [f"{quote(s.name)} AS {quote('n__' + s.name)}" for s in plan.states]
        inner = (
            f"SELECT {hint}{keys + ', ' if keys else ''}{', '.join(states)}, {' OR '.join(again)} AS __again, "
            f"__o.__file, __o.__pos, {olds} FROM {quote(change)} __d LEFT JOIN ({self._stored(plan, change, str)}) __o ON {on}"
        )
        kept = "".join(f"{quote(k.name)} AS {quote(k.name + '__key')}, " for k in plan.keys)
        passed = ", ".join(quote("o__" + c.name) for c in self._storage_columns(plan))
        return (
            f"SELECT {kept}__file, __pos, __again, ({living}) AS __new, {', '.join(outputs)}, {passed} FROM ({inner})"
        )

    def _rescanned(self, plan: Keyed, merged: str, again: int) -> tuple[str, int]:
        names = tuple(f"{k.name}__key" for k in plan.keys)
        listed = ", ".join(map(quote, names)) or "1 AS `_`"
        wanted, _ = self._cache(f"SELECT {listed} FROM {quote(merged)} WHERE __again", "rescan")
        assert self.feeds.sizes[wanted] == again
        columns = self._storage_columns(plan)
        shape = "__file, __pos, __new, " + ", ".join(quote(p + c.name) for p in ("n__", "o__") for c in columns)
        fresh = self._fresh(plan, wanted, names)
        return self._cache(
            f"SELECT {shape} FROM {quote(merged)} WHERE NOT __again UNION ALL SELECT {shape} FROM ({fresh})", "merged"
        )

    def _groups(self, plan: Keyed) -> Counts:
        """Recompute the affected groups from the new state."""
        with self.stage("delta"):
            sql = self._sql(plan.affected())
            if sql is None:
                return Counts()
            if not plan.keys:
                sql = f"SELECT 1 AS `_` FROM ({sql}) LIMIT 1"
            affected, keys = self._cache(sql, "affected")
            if not keys:
                return Counts()
        with self.stage("lookup"):
            names = tuple(f"{k.name}__key" for k in plan.keys)
            merged, rows = self._cache(self._fresh(plan, affected, names), "merged")
        return self._replace(plan, merged, rows)

    def _fresh(self, plan: Keyed, affected: str, names: tuple[str, ...]) -> str:
        """Per affected key: its recomputed row, if it still has one, and its stored row, if it had one."""
        tree = optimize(plan.recomputed(Named(view=affected, names=names)), self.feeds.changed, self.passes)
        columns = self._storage_columns(plan)
        new = ", ".join(f"{quote(c.name)} AS {quote('n__' + c.name)}" for c in columns)
        fresh = f"SELECT {new}, true AS __new FROM ({compile_sql(tree, self.feeds)})"
        stored = self._stored(plan, affected, lambda name: f"{name}__key")
        hint = "/*+ BROADCAST(__f, __o) */ " if self.feeds.sizes[affected] <= SMALL else ""
        to_fresh = " AND ".join(f"__k.{quote(k.name + '__key')} <=> __f.{quote('n__' + k.stored)}" for k in plan.keys)
        to_stored = " AND ".join(f"__k.{quote(k.name + '__key')} <=> __o.{quote('o__' + k.stored)}" for k in plan.keys)
        listed = ", ".join(
            [f"__f.{quote('n__' + c.name)}" for c in columns] + [f"__o.{quote('o__' + c.name)}" for c in columns]
        )
        return (
            f"SELECT {hint}__o.__file, __o.__pos, coalesce(__f.__new, false) AS __new, {listed} FROM {quote(affected)} __k "
            f"LEFT JOIN ({fresh}) __f ON {to_fresh or 'true'} LEFT JOIN ({stored}) __o ON {to_stored or 'true'}"
        )

    def _replace(self, plan: Keyed, merged: str, rows: int) -> Counts:
        """Rows that differ from what is stored go in and out; equal ones stay where they are."""
        if not rows:
            return Counts()
        columns = self._storage_columns(plan)
        equal = " AND ".join(
            f"{canonical(quote('n__' + c.name), c.type)} <=> {canonical(quote('o__' + c.name), c.type)}"
            for c in columns
        )
        changes = f"(__new AND __file IS NULL) OR (NOT __new AND __file IS NOT NULL) OR (__new AND NOT ({equal}))"
        with self.stage("lookup"):
            outcome, total = self._cache(f"SELECT * FROM {quote(merged)} WHERE {changes}", "outcome")
            if not total:
                return Counts()
            kinds = self.feeds.attempt.session.sql(
                f"SELECT count_if(__file IS NULL), count_if(NOT __new), count(DISTINCT __file, __pos), "
                f"count_if(__file IS NOT NULL) FROM {quote(outcome)}"
            ).first()
            assert kinds is not None
        inserted, deleted, places, old = kinds
        if places != old:
            raise TrickleError("INTEGRITY", f"{self.staging.storage} holds a key more than once")
        with self.stage("apply"):
            listed = ", ".join(f"{quote('n__' + c.name)} AS {quote(c.name)}" for c in columns)
            rows_in = f"SELECT {self._coalesce(total)}{listed} FROM {quote(outcome)} WHERE __new"
            self._write(rows_in if total - deleted else None, outcome if old else None, old)
        return Counts(inserted=inserted, updated=total - inserted - deleted, deleted=deleted)


def _retracts(tree: Operator) -> bool:
    """Whether a delta can hold removals although its feeds have none: an affected group is retracted and emitted."""
    return any(isinstance(op, Weigh) and op.weight < 0 for op in tree.walk())
