"""A DIFFERENTIAL refresh: from feeds to rows that leave and rows that enter the storage.

Every kind of identity ends in the same two lists: positions (`_t_file`, `_t_pos`) of stored rows to delete, and new
rows to append. So apply needs no MERGE, no key in storage and no second look at the target.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

from spark_trickle.delta.aggregates import Merge
from spark_trickle.delta.levels import LEVEL, PREVIOUS, Levels
from spark_trickle.delta.optimize import PASSES, Pass, optimize
from spark_trickle.delta.root import HASH, Keyed, Partitioned, Plan, Rows
from spark_trickle.errors import TrickleError
from spark_trickle.lake.changelog import Delta
from spark_trickle.lake.staging import Counts, Staging
from spark_trickle.model import Column, TableName
from spark_trickle.refresh.inputs import Feeds
from spark_trickle.spark.analyze import data_error
from spark_trickle.spark.compile import compile_parts, compile_sql, quote
from spark_trickle.spark.identity import identity, row_hash
from spark_trickle.sql.algebra import WEIGHT, Empty, Named, Operator, State, TopK, Weigh
from spark_trickle.sql.scalar import in_ddl
from spark_trickle.thresholds import MANY_POSITIONS, SMALL

Stage = Callable[[str], Any]  # a context manager that times a named stage
_COLLATION = re.compile(r" collate \w+", re.IGNORECASE)


@dataclass(slots=True)
class Differential:
    """One DIFFERENTIAL refresh of one stream table."""

    feeds: Feeds
    staging: Staging
    columns: tuple[Column, ...]  # public
    stage: Stage
    passes: tuple[Pass, ...] = PASSES

    def run(self, plan: Plan) -> Counts:
        if not self.feeds.changed:
            return Counts()  # compaction and the like: new snapshots, the same rows
        if isinstance(plan, Rows):
            return self._rows(plan)
        if isinstance(plan, Partitioned):
            return self._partitions(plan)
        if isinstance(plan, Levels):
            return self._levels(plan)
        if plan.algebra is not None:
            return self._algebraic(plan)
        return self._groups(plan)

    def run_carefully(self, plan: Plan) -> Counts:
        """The same without evaluating anything on rows that are in neither state.

        A delta pairs old rows with new ones before the pairs cancel, and adds what leaves to what enters. An expression
        may fail for such a pair, a sum of changes may be larger than any sum. So everything is computed from the new
        state, where only the definition's own errors can happen, and compared with what is stored.
        """
        if isinstance(plan, Keyed) and plan.algebra is not None:
            try:
                return self._groups(plan)  # enough where a sum was the trouble
            except Exception as error:
                if data_error(error) is None:
                    raise
        with self.stage("delta"):
            fresh = compile_sql(plan.full, self.feeds)
        if isinstance(plan, Keyed):
            return self._all_groups(plan, fresh)
        columns = tuple(c for c in (*self.columns, *plan.hidden) if c.name != HASH)
        listed = ", ".join(quote(c.name) for c in columns)
        both = (
            f"SELECT {_as_stored(columns)}, 1L AS {WEIGHT} FROM ({fresh}) "
            f"UNION ALL SELECT {listed}, -1L AS {WEIGHT} FROM {self.staging.target}"
        )
        return self._change_rows(both, columns)

    # -- helpers ---------------------------------------------------------------------------------------------------

    def _sql(self, tree: Operator) -> str | None:
        """The SQL of a delta tree; None when nothing can have changed."""
        slim = optimize(tree, self.feeds.facts, self.passes)
        if isinstance(slim, Empty):
            return None
        return self._staged(slim)

    def _staged(self, tree: Operator) -> str:
        """The SQL of a delta tree, with what it reads more than once computed before."""
        parts = compile_parts(tree, self.feeds)
        twice = parts.feeds_read_twice()
        if twice:
            for name in twice:
                self.feeds.keep(name)
            parts = compile_parts(tree, self.feeds)
        return parts.staged(lambda sql: self._cache(sql, "shared")[0], self._if_small)

    def _if_small(self, sql: str) -> str | None:
        found = self.feeds.materialize_small(self.feeds.attempt.session.sql(sql), "step")
        return None if found is None else found[0]

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
                select = f"SELECT {self._coalesce()}{listed}, {row_hash(self.columns)} AS {quote(HASH)} FROM ({sql})"
                added = self.staging.append(select)
            return Counts(inserted=added.get("added-records", 0))
        return self._change_rows(sql, self.columns)

    def _partitions(self, plan: Partitioned) -> Counts:
        """The affected partitions as they are now, minus as they are stored."""
        names = tuple(f"{k.name}__key" for k in plan.keys)
        with self.stage("delta"):
            affected = self._affected(plan, names)
            if affected is None:
                return Counts()
        columns = (*self.columns, *plan.hidden_keys)
        tree = optimize(plan.recomputed(Named(view=affected, names=names)), self.feeds.facts, self.passes)
        fresh = f"SELECT {_as_stored(columns)}, 1L AS {WEIGHT} FROM ({self._staged(tree)})"
        stored = f"SELECT {', '.join(f'__s.{quote(c.name)}' for c in columns)}, -1L AS {WEIGHT}"
        if names:
            on = " AND ".join(f"__s.{quote(k.stored)} <=> __k.{quote(k.name + '__key')}" for k in plan.keys)
            hint = self._hint_alias(affected, "__k")
            stored = stored.replace("SELECT ", f"SELECT {hint}", 1)
            stored += f" FROM {self.staging.target} __s LEFT SEMI JOIN {quote(affected)} __k ON {on}"
        else:
            stored += f" FROM {self.staging.target} __s"
        return self._change_rows(f"{fresh} UNION ALL {stored}", columns)

    def _affected(self, plan: Partitioned, names: tuple[str, ...]) -> str | None:
        """A view of the keys of the affected partitions, which without keys nobody reads; None when there are none."""
        if plan.order:
            # Only top rows have an order, and all of them are one partition.
            return None if self._below_the_top(plan) else ""
        sql = self._sql(plan.affected())
        if sql is None:
            return None
        affected, keys = self._cache(sql if names else f"SELECT 1 AS `_` FROM ({sql}) LIMIT 1", "affected")
        return affected if keys else None

    def _below_the_top(self, plan: Partitioned) -> bool:
        """Whether every changed row stands after the last of the stored top rows: then the top stays."""
        assert isinstance(plan.node, TopK)
        limit = plan.node.limit
        assert limit is not None
        sql = self._sql(plan.order_of_change())
        if sql is None:
            return True
        changed, rows = self._cache(sql, "order")
        if not rows:
            return True
        listed = ", ".join(quote(k.stored) for k in plan.order)
        order = ", ".join(s.sql() for s in plan.ordered())
        session = self.feeds.attempt.session
        found = session.sql(
            f"SELECT count_if(_t_stored), count_if(NOT _t_stored AND _t_rank <= {limit}) FROM (SELECT _t_stored, "
            f"rank() OVER (ORDER BY {order}) AS _t_rank FROM (SELECT {listed}, true AS _t_stored FROM "
            f"{self.staging.target} UNION ALL SELECT {listed}, false FROM {quote(changed)}))"
        ).first()
        assert found is not None
        return int(found[0]) >= limit and int(found[1]) == 0

    def _levels(self, plan: Levels) -> Counts:
        """The change of each level, from that of the level before; then all of them at once."""
        session = self.feeds.attempt.session
        types = {i.scalar.bare: c.type for i, c in zip(plan.items, self.columns, strict=True)}
        columns = tuple(Column(n, types[n]) for n in plan.node.names)
        limit = int(session.conf.get("spark.sql.cteRecursionLevelLimit", "100") or 100)
        with self.stage("delta"):
            found = session.sql(f"SELECT max({quote(LEVEL)}) FROM {self.staging.target}").first()
            deepest = -1 if found is None or found[0] is None else int(found[0])
            parts: list[str] = []
            level, previous = 0, self._level(plan, columns, 0, None)
            while previous is not None or level <= deepest:
                if previous is not None:
                    shown = ", ".join(f"{i.scalar.sql()} AS {quote(i.name)}" for i in plan.items)
                    parts.append(f"SELECT {shown}, {level} AS {quote(LEVEL)}, {WEIGHT} FROM {quote(previous)}")
                level += 1
                if limit >= 0 and level > limit:
                    raise TrickleError(
                        "SPARK_FAILED", f"[RECURSION_LEVEL_LIMIT_EXCEEDED] the recursion has more than {limit} levels"
                    )
                previous = self._level(plan, columns, level, previous)
        if not parts:
            return Counts()
        return self._change_rows(" UNION ALL ".join(parts), (*self.columns, Column(LEVEL, "int")))

    def _level(self, plan: Levels, columns: tuple[Column, ...], level: int, previous: str | None) -> str | None:
        """The change of one level as a view; None when there is none."""
        names = {i.scalar.bare: i.name for i in plan.items}
        listed = ", ".join(f"{quote(names[c.name])} AS {quote(c.name)}" for c in columns)
        stored = f"(SELECT {listed} FROM {self.staging.target} WHERE {quote(LEVEL)} = {level - 1})"
        leaves = LevelLeaves(self.feeds, stored, quote(previous) if previous else "")
        facts = replace(self.feeds.facts, changed={*self.feeds.changed, *([PREVIOUS] if previous else [])})
        tree = optimize(plan.step if level else plan.base, facts, self.passes)
        if isinstance(tree, Empty):
            return None
        view, rows = self._cache(self._consolidated(compile_sql(tree, leaves), columns), "level")
        return view if rows else None

    def _change_rows(self, sql: str, columns: tuple[Column, ...]) -> Counts:
        """Apply a delta whose rows are identified by all of `columns`."""
        listed = ", ".join(quote(c.name) for c in columns)
        with self.stage("delta"):
            view, rows = self._cache(self._consolidated(sql, columns), "delta")
            if not rows:
                return Counts()
            plus, minus = self._weights(view)
        if minus:
            with self.stage("lookup"):
                doomed, found = self._cache(self._doomed(view, columns), "doomed")
            if found != minus:
                raise TrickleError(
                    "INTEGRITY",
                    f"{minus} rows should leave {self.staging.name}, and only {found} of them are there",
                )
        with self.stage("apply"):
            copies = f"explode(array_repeat(1, CAST({WEIGHT} AS INT)))"
            coming = (
                f"SELECT {self._coalesce(plus)}{listed}, {quote(HASH)} FROM "
                f"(SELECT *, {copies} FROM {quote(view)} WHERE {WEIGHT} > 0)"
            )
            self._write(coming if plus else None, doomed if minus else None, minus)
        stored = f"{listed}, {quote(HASH)}"
        parts = [f"SELECT {stored}, 1L AS {WEIGHT} FROM (SELECT *, {copies} FROM {quote(view)} WHERE {WEIGHT} > 0)"]
        if minus:
            parts.append(f"SELECT {stored}, {WEIGHT} FROM {quote(view)} WHERE {WEIGHT} < 0")
        self._keep_delta(parts, (view,), plus, minus)
        return Counts(inserted=plus, deleted=minus)

    def _keep_delta(self, parts: Sequence[str], views: tuple[str, ...], added: int, removed: int) -> None:
        """What was just staged, for consumers: they need not read it back."""
        staging = self.staging
        base = None if staging.base is None else staging.attempt.lake.facts(staging.base.location).snapshot_id
        if base is None or staging.head is None:
            return
        select = " UNION ALL ".join(parts)
        staging.delta = Delta(staging.name, base, staging.head, select, views, added, removed)

    def _coalesce(self, rows: int | None = None) -> str:
        """Few rows go into one file: small files slow every later refresh."""
        total = rows if rows is not None else sum(self.feeds.rows.values())
        return "/*+ COALESCE(1) */ " if total <= SMALL else ""

    def _consolidated(self, sql: str, columns: tuple[Column, ...]) -> str:
        """Rows of the same values folded into one weight; rows that came and went are gone."""
        keys, shown = [], []
        for c in columns:
            form = identity(quote(c.name), c.type)
            keys.append(form)
            shown.append(quote(c.name) if form == quote(c.name) else f"any_value({quote(c.name)}) AS {quote(c.name)}")
        return (
            f"SELECT *, {row_hash(columns)} AS {quote(HASH)} FROM (SELECT {', '.join(shown)}, "
            f"sum({WEIGHT}) AS {WEIGHT} FROM ({sql}) GROUP BY {', '.join(keys)} HAVING sum({WEIGHT}) <> 0)"
        )

    def _doomed(self, view: str, columns: tuple[Column, ...]) -> str:
        """Which stored copies leave: any n of the same ones."""
        same = " AND ".join(
            f"{identity(f'__s.{quote(c.name)}', c.type)} <=> {identity(f'__d.{quote(c.name)}', c.type)}"
            for c in columns
        )
        whole = ", ".join([f"__d.{quote(HASH)}", *(identity(f"__d.{quote(c.name)}", c.type) for c in columns)])
        return (
            f"SELECT _t_file, _t_pos, true AS _t_doomed FROM ("
            f"SELECT {self._hint_alias(view, '__d')}__s._file AS _t_file, __s._pos AS _t_pos, "
            f"-__d.{WEIGHT} AS _t_n, "
            f"row_number() OVER (PARTITION BY {whole} ORDER BY __s._file, __s._pos) AS _t_rn "
            f"FROM {self.staging.target} __s JOIN (SELECT * FROM {quote(view)} WHERE {WEIGHT} < 0) __d "
            f"ON __s.{quote(HASH)} = __d.{quote(HASH)} AND {same}) WHERE _t_rn <= _t_n"
        )

    def _weights(self, view: str) -> tuple[int, int]:
        """How many rows enter and leave."""
        session = self.feeds.attempt.session
        if self.feeds.is_local(view):
            weights = [r[0] for r in session.sql(f"SELECT {WEIGHT} FROM {quote(view)}").collect()]
            return sum(w for w in weights if w > 0), -sum(w for w in weights if w < 0)
        found = session.sql(
            f"SELECT sum(greatest({WEIGHT}, 0)), sum(greatest(-{WEIGHT}, 0)) FROM {quote(view)}"
        ).first()
        assert found is not None
        return int(found[0]), int(found[1])

    def _write(self, rows: str | None, doomed: str | None, count: int) -> None:
        """Rows in, and the positions of a relation out, in one commit."""
        if doomed is None:
            if rows is not None:
                self.staging.append(rows)
            return
        if count > MANY_POSITIONS:
            self.staging.replace_view(rows, doomed)
            return
        self.staging.replace(rows, self._positions(doomed))

    def _positions(self, doomed: str) -> dict[str, list[int]]:
        session = self.feeds.attempt.session
        if not self.feeds.is_local(doomed):
            found = session.sql(
                f"SELECT _t_file, collect_list(_t_pos) FROM {quote(doomed)} WHERE _t_doomed GROUP BY _t_file"
            ).collect()
            return {r[0]: r[1] for r in found}
        positions: dict[str, list[int]] = {}
        for file, pos in session.sql(f"SELECT _t_file, _t_pos FROM {quote(doomed)} WHERE _t_doomed").collect():
            positions.setdefault(file, []).append(pos)
        return positions

    # -- identity by keys ------------------------------------------------------------------------------------------

    def _storage_columns(self, plan: Keyed) -> tuple[Column, ...]:
        return (*self.columns, *plan.hidden)

    def _stored(self, plan: Keyed, by: str, key_of: Callable[[str], str]) -> str:
        """The stored rows of the affected keys, with their positions; columns prefixed `_t_o_`."""
        listed = ", ".join(f"__s.{quote(c.name)} AS {quote('_t_o_' + c.name)}" for c in self._storage_columns(plan))
        on = " AND ".join(f"__s.{quote(k.stored)} <=> __k.{quote(key_of(k.name))}" for k in plan.keys) or "true"
        return (
            f"SELECT {self._hint_alias(by, '__k')}__s._file AS _t_file, __s._pos AS _t_pos, {listed} "
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
            merged, found = self._cache(self._merged(plan, change), "merged")
            self._refuse_doubles(keys, found)
        if plan.extrema or plan.unsafe:
            with self.stage("rescan"):
                merged = self._rescanned(plan, merged)
        return self._replace(plan, merged)

    def _refuse_doubles(self, keys: int, found: int) -> None:
        """A row per key, and no more."""
        if keys != found:
            raise TrickleError("INTEGRITY", f"{self.staging.name} holds a key more than once")

    def _merged(self, plan: Keyed, change: str) -> str:
        """One row per changed group: new states and columns, the old position, whether the group lives on."""
        hint = self._hint_alias(change, "__o")
        on = " AND ".join(f"__d.{quote(k.name)} <=> __o.{quote('_t_o_' + k.stored)}" for k in plan.keys) or "true"
        states, again = [], ["false"]
        for s in plan.states:
            old, delta, name = f"__o.{quote('_t_o_' + s.name)}", f"__d.{quote(s.name)}", quote(s.name)
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
        olds = ", ".join(f"__o.{quote('_t_o_' + c.name)}" for c in self._storage_columns(plan))
        count = quote(plan.count.name)
        living = f"{count} > 0" if plan.keys else "true"
        # A group that is not stored has nothing to lose, and the one row of a global aggregate is always stored.
        moved = " OR ".join(f"{quote(s.name)} <> 0" for s in plan.states if s.merge is Merge.ADD)
        lost = f"{count} < 0 OR (_t_file IS NULL AND {count} = 0 AND ({moved}))" if plan.keys else "_t_file IS NULL"
        public = {i.name for i in plan.items}
        outputs = [f"{i.scalar.sql()} AS {quote('_t_n_' + i.name)}" for i in plan.finals()]
        outputs += [f"{quote(k.name)} AS {quote('_t_n_' + k.stored)}" for k in plan.keys if k.stored not in public]
        outputs += [f"{quote(s.name)} AS {quote('_t_n_' + s.name)}" for s in plan.states]
        inner = (
            f"SELECT {hint}{keys + ', ' if keys else ''}{', '.join(states)}, {' OR '.join(again)} AS _t_again, "
            f"__o._t_file, __o._t_pos, {olds} FROM {quote(change)} __d "
            f"LEFT JOIN ({self._stored(plan, change, str)}) __o ON {on}"
        )
        again_too = " OR ".join(("_t_again", *(f"({u.sql()})" for u in plan.unsafe)))
        kept = "".join(f"{quote(k.name)} AS {quote(k.name + '__key')}, " for k in plan.keys)
        passed = ", ".join(quote("_t_o_" + c.name) for c in self._storage_columns(plan))
        return self._marked(
            plan,
            f"SELECT {kept}_t_file, _t_pos, ({again_too}) AS _t_again, ({living}) AS _t_new, ({lost}) AS _t_lost, "
            f"{', '.join(outputs)}, {passed} FROM ({inner})",
        )

    def _marked(self, plan: Keyed, sql: str) -> str:
        """Which stored rows leave and which new rows enter: the same ones stay where they are."""
        equal = " AND ".join(
            f"{identity(quote('_t_n_' + c.name), c.type)} <=> {identity(quote('_t_o_' + c.name), c.type)}"
            for c in self._storage_columns(plan)
        )
        return (
            f"SELECT *, _t_file IS NOT NULL AND NOT (_t_new AND ({equal})) AS _t_doomed, "
            f"_t_new AND NOT (_t_file IS NOT NULL AND ({equal})) AS _t_enters FROM ({sql})"
        )

    def _rescanned(self, plan: Keyed, merged: str) -> str:
        """Groups that lost their extremum, or whose states do not tell Spark's answer, recomputed; the others as is."""
        names = tuple(f"{k.name}__key" for k in plan.keys)
        listed = ", ".join(map(quote, names)) or "1 AS `_`"
        wanted, again = self._cache(f"SELECT {listed} FROM {quote(merged)} WHERE _t_again", "rescan")
        if not again:
            return merged
        shape = "_t_file, _t_pos, _t_lost, _t_doomed, _t_enters, " + ", ".join(
            quote(side + c.name) for side in ("_t_n_", "_t_o_") for c in self._storage_columns(plan)
        )
        fresh = self._fresh(plan, wanted, names)
        both = f"SELECT {shape} FROM {quote(merged)} WHERE NOT _t_again UNION ALL SELECT {shape} FROM ({fresh})"
        return self._cache(both, "merged")[0]

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
            merged, found = self._cache(self._fresh(plan, affected, names), "merged")
            self._refuse_doubles(keys, found)
        return self._replace(plan, merged)

    def _all_groups(self, plan: Keyed, fresh: str) -> Counts:
        columns = self._storage_columns(plan)
        new = ", ".join(f"{quote(c.name)} AS {quote('_t_n_' + c.name)}" for c in columns)
        old = ", ".join(f"{quote(c.name)} AS {quote('_t_o_' + c.name)}" for c in columns)
        same = " AND ".join(f"__f.{quote('_t_n_' + k.stored)} <=> __o.{quote('_t_o_' + k.stored)}" for k in plan.keys)
        with self.stage("lookup"):
            merged, _ = self._cache(
                self._marked(
                    plan,
                    f"SELECT *, _t_is_new IS NOT NULL AS _t_new, false AS _t_lost FROM "
                    f"(SELECT {new}, true AS _t_is_new FROM ({fresh})) __f FULL OUTER JOIN "
                    f"(SELECT {old}, _file AS _t_file, _pos AS _t_pos FROM {self.staging.target}) __o "
                    f"ON {same or 'true'}",
                ),
                "merged",
            )
        return self._replace(plan, merged)

    def _fresh(self, plan: Keyed, affected: str, names: tuple[str, ...]) -> str:
        """Per affected key: its recomputed row, if it still has one, and its stored row, if it had one."""
        tree = optimize(plan.recomputed(Named(view=affected, names=names)), self.feeds.facts, self.passes)
        columns = self._storage_columns(plan)
        new = ", ".join(f"{quote(c.name)} AS {quote('_t_n_' + c.name)}" for c in columns)
        fresh = f"SELECT {new}, true AS _t_new FROM ({self._staged(tree)})"
        stored = self._stored(plan, affected, lambda name: f"{name}__key")
        hint = "/*+ BROADCAST(__f, __o) */ " if self.feeds.sizes[affected] <= SMALL else ""
        to_fresh, to_stored = (
            " AND ".join(f"__k.{quote(k.name + '__key')} <=> {alias}.{quote(side + k.stored)}" for k in plan.keys)
            for alias, side in (("__f", "_t_n_"), ("__o", "_t_o_"))
        )
        listed = ", ".join(
            [f"__f.{quote('_t_n_' + c.name)}" for c in columns] + [f"__o.{quote('_t_o_' + c.name)}" for c in columns]
        )
        return self._marked(
            plan,
            f"SELECT {hint}__o._t_file, __o._t_pos, coalesce(__f._t_new, false) AS _t_new, false AS _t_lost, {listed} "
            f"FROM {quote(affected)} __k "
            f"LEFT JOIN ({fresh}) __f ON {to_fresh or 'true'} LEFT JOIN ({stored}) __o ON {to_stored or 'true'}",
        )

    def _replace(self, plan: Keyed, merged: str) -> Counts:
        inserted, updated, deleted, places, lost = self._kinds(merged)
        old = updated + deleted
        if lost:
            raise TrickleError(
                "INTEGRITY", f"{self.staging.name} lacks rows that should change: {lost} of its groups are not right"
            )
        if places != old:
            raise TrickleError("INTEGRITY", f"{self.staging.name} holds a key more than once")
        if not inserted + old:
            return Counts()
        with self.stage("apply"):
            listed = ", ".join(f"{quote('_t_n_' + c.name)} AS {quote(c.name)}" for c in self._storage_columns(plan))
            coming = inserted + updated
            rows = f"SELECT {self._coalesce(coming)}{listed} FROM {quote(merged)} WHERE _t_enters"
            self._write(rows if coming else None, merged if old else None, old)
        leaving = ", ".join(f"{quote('_t_o_' + c.name)} AS {quote(c.name)}" for c in self._storage_columns(plan))
        parts = (
            f"SELECT {listed}, 1L AS {WEIGHT} FROM {quote(merged)} WHERE _t_enters",
            f"SELECT {leaving}, -1L AS {WEIGHT} FROM {quote(merged)} WHERE _t_doomed",
        )
        self._keep_delta(parts[: 2 if old else 1], (merged,), coming, old)
        return Counts(inserted, updated, deleted)

    def _kinds(self, merged: str) -> tuple[int, int, int, int, int]:
        """Groups inserted, updated, deleted, how many different stored rows leave, and groups that cannot be right."""
        session = self.feeds.attempt.session
        if self.feeds.is_local(merged):
            rows = session.sql(f"SELECT _t_doomed, _t_enters, _t_file, _t_pos, _t_lost FROM {quote(merged)}").collect()
            kinds = [(bool(r[0]), bool(r[1])) for r in rows]
            places = len({(r[2], r[3]) for r in rows if r[0]})
            lost = sum(bool(r[4]) for r in rows)
            return kinds.count((False, True)), kinds.count((True, True)), kinds.count((True, False)), places, lost
        found = session.sql(
            "SELECT count_if(NOT _t_doomed AND _t_enters), count_if(_t_doomed AND _t_enters), "
            "count_if(_t_doomed AND NOT _t_enters), count(DISTINCT CASE WHEN _t_doomed THEN _t_file END, "
            f"CASE WHEN _t_doomed THEN _t_pos END), count_if(_t_lost) FROM {quote(merged)}"
        ).first()
        assert found is not None
        return int(found[0]), int(found[1]), int(found[2]), int(found[3]), int(found[4])


@dataclass(frozen=True, slots=True)
class LevelLeaves:
    """The tables of the attempt, and the level before as one more."""

    feeds: Feeds
    stored: str
    change: str

    def state(self, table: TableName, state: State) -> str:
        return self.stored if table == PREVIOUS else self.feeds.state(table, state)

    def changes(self, table: TableName) -> str:
        if table != PREVIOUS:
            return self.feeds.changes(table)
        return self.change or f"(SELECT *, 0L AS {quote(WEIGHT)} FROM {self.stored} WHERE false)"

    def weight(self, table: TableName) -> str:
        return WEIGHT if table == PREVIOUS else self.feeds.weight(table)

    def small(self, table: TableName) -> bool:
        return table != PREVIOUS and self.feeds.small(table)

    def total(self, table: TableName) -> int | None:
        return None if table == PREVIOUS else self.feeds.total(table)


def _as_stored(columns: Sequence[Column]) -> str:
    """Columns in the types that the storage has: Iceberg knows no collations."""
    return ", ".join(
        f"CAST({quote(c.name)} AS {in_ddl(_COLLATION.sub('', c.type))}) AS {quote(c.name)}"
        if _COLLATION.search(c.type)
        else quote(c.name)
        for c in columns
    )


def _retracts(tree: Operator) -> bool:
    """Whether a delta can hold removals although its feeds have none: an affected group is retracted and emitted."""
    return any(isinstance(op, Weigh) and op.weight < 0 for op in tree.walk())
