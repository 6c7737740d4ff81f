"""Hidden state tables: right through any changes, published with their owner, gone with it, and seen by nobody else."""

from __future__ import annotations

import random
from collections.abc import Iterator
from typing import TYPE_CHECKING

import pytest
from hypothesis import given, seed

from spark_trickle import Action, Trickle, TrickleError, connect
from spark_trickle.model import StreamTable, TableName
from spark_trickle.refresh.equality import compare
from tests.engine import workload
from tests.engine.lakes import other_session, private_catalogs, rows, unreferenced
from tests.engine.test_invariant import SEED, World, few
from tests.engine.workload import D, Definition, F, L

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

OPTIONAL = (
    Definition(
        "st_having",
        """SELECT k, sum(m) AS total, sum(m) / count(*) + max(id) AS e FROM s.facts GROUP BY k
           HAVING count(*) > 4 AND max(s) IS NOT NULL""",
        F,
    ),
    Definition(
        "st_groups_of_groups",
        """SELECT n, count(*) AS groups, sum(t) AS t, max(hi) AS hi FROM
           (SELECT k, d, count(*) AS n, sum(m) AS t, max(s) AS hi FROM s.facts GROUP BY k, d) GROUP BY n""",
        F,
    ),
    Definition(
        "st_distinct_below_join",
        """SELECT x.lo + x.lo AS twice, x.label, y.name FROM (SELECT DISTINCT lo, label FROM s.labels) x
           JOIN s.dims y ON x.lo = y.o""",
        D + L,
    ),
    Definition(
        "st_cte_twice",
        """WITH c AS (SELECT k, max(s) AS m, count(*) AS n FROM s.facts GROUP BY k)
           SELECT a.k, a.m, b.k AS other, a.n + b.n AS n FROM c a JOIN c b ON a.m = b.m""",
        F,
    ),
    Definition(
        "st_distinct_values",
        """SELECT k, count(DISTINCT s) AS names, count(*) AS n, count(s) AS there, sum(m) AS t, sum(k) AS ks,
           avg(k) AS ak, avg(m) AS am, avg(m) FILTER (WHERE id > 2) AS af,
           max(s) AS hi, min(id) AS lo, bool_or(id > 6) AS late, count_if(id > 3) FILTER (WHERE s IS NOT NULL) AS some
           FROM s.facts GROUP BY k""",
        F,
    ),
    Definition(
        "st_distinct_values_in_all",
        "SELECT count(DISTINCT d) + 1 AS ds, count(k) AS n, sum(k) AS t, every(k > 0) AS e FROM s.facts",
        F,
    ),
    Definition(
        "st_distinct_values_of_groups",
        """SELECT n, count(DISTINCT k) AS k, count(DISTINCT n) AS one FROM
           (SELECT k, d, count(DISTINCT s) AS n FROM s.facts GROUP BY k, d) GROUP BY n HAVING count(*) > 0""",
        F,
    ),
    Definition(
        "st_one_row", "SELECT f.id, f.k, x.c FROM s.facts f JOIN (SELECT max(o) AS c FROM s.dims) x ON f.k < x.c", F + D
    ),
)
MUST = (
    Definition(
        "st_float_below_join",
        """SELECT g.name, x.t, x.sd, x.n FROM s.dims g JOIN (SELECT k, sum(d) AS t, stddev(id) AS sd, count(*) AS n
           FROM s.facts GROUP BY k) x ON g.k <=> x.k""",
        F + D,
    ),
    Definition(
        "st_mean_of_sums",
        """SELECT ok, avg(t) AS a, count(*) AS n FROM (SELECT k, ok, sum(d) AS t FROM s.facts GROUP BY k, ok)
           GROUP BY ok""",
        F,
    ),
    Definition(
        "st_by_float",
        """SELECT a, count(*) AS n, max(t) AS hi FROM (SELECT avg(t) AS a, max(t) AS t, s FROM
           (SELECT k, s, sum(w) AS t FROM (SELECT f.k, f.s, g.w FROM s.facts f JOIN s.dims g ON f.k = g.k)
           GROUP BY k, s) GROUP BY s) GROUP BY a""",
        F + D,
    ),
    Definition(
        "st_collected_below_join",
        """SELECT h.label, x.l, x.c FROM s.labels h JOIN (SELECT o, collect_list(name) AS l, count(*) AS c FROM s.dims
           GROUP BY o) x ON h.o = x.o""",
        D + L,
    ),
    Definition(
        "st_first_below_join",
        """SELECT h.label, x.one, x.c FROM s.labels h JOIN (SELECT k, first(s) AS one, count(*) AS c FROM s.facts
           GROUP BY k) x ON h.o = x.k""",
        F + L,
    ),
    Definition(
        "st_float_in_union",
        "SELECT k, sum(w) AS t FROM s.dims GROUP BY k UNION ALL SELECT o, hi FROM s.labels",
        D + L,
    ),
)


def owner(tr: Trickle, name: str) -> StreamTable:
    found = tr.store.stream_table(TableName.of(name))
    assert found is not None
    return found


def states(tr: Trickle, name: str) -> list[str]:
    return [str(s.name) for s in owner(tr, name).states]


# -- right through any changes -----------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def worlds(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[World, World]]:
    """The same definitions twice: with all state tables, and with those that must be."""
    folder = tmp_path_factory.mktemp("states") / "lake"
    options = {"shuffle_partitions": 2, "max_change_ratio": 1e6}
    with connect(folder, **options) as tr, connect(folder, **options) as other:
        tr.sql("CREATE NAMESPACE s")
        with_ = World(tr, OPTIONAL + MUST)
        with_.fill(random.Random(SEED), 40)
        other.refresher.compiler.state_tables = False
        without = World(other, tuple(d.twin() for d in OPTIONAL), with_.log)
        without.create()
        yield with_, without


@pytest.mark.slow
@seed(SEED)
@few
@given(statements=workload.step())
def test_equal_after_every_refresh(worlds: tuple[World, World], statements: list[str]) -> None:
    with_, without = worlds
    if with_.failure is not None:  # hypothesis runs a failing example again, but the lake has moved on
        raise with_.failure
    with_.steps += 1
    if with_.steps == 1:
        return
    with with_.reporting():
        before = with_.snapshots()
        for statement in statements:
            with_.run(statement)
        changed = {name for name, snapshot in with_.snapshots().items() if snapshot != before[name]}
        with_.check(changed, with_.refresh(together=with_.steps % 2 == 0))
        without.check(changed, without.refresh(together=True))
        for d in OPTIONAL:
            columns = owner(with_.tr, f"s.{d.name}").columns
            same = compare(with_.tr.spark, f"s.{d.name}", f"s.{d.name}_twin", columns)
            assert same.equal, f"{d.name}: {same}"


def test_every_definition_has_its_state_tables(worlds: tuple[World, World]) -> None:
    with_, without = worlds
    found = {d.name: len(states(with_.tr, f"s.{d.name}")) for d in with_.definitions}
    two = {"st_by_float", "st_distinct_values_of_groups"}
    assert found == {d.name: 2 if d.name in two else 1 for d in with_.definitions}
    assert {d.name: len(states(without.tr, f"s.{d.name}")) for d in without.definitions} == {
        d.name: 0 for d in without.definitions
    }


def test_state_tables_equal_their_own_definitions(worlds: tuple[World, World]) -> None:
    """Also those groups that the owner does not show."""
    tr = worlds[0].tr
    for name in ("s.st_having", "s.st_one_row"):
        (state,) = owner(tr, name).states
        found = compare(tr.spark, f"{state.name}", f"({state.definition})", state.columns)
        assert found.equal, str(found)
        assert found.rows


# -- one life with the owner -------------------------------------------------------------------------------------------

HAVING = "SELECT k, sum(v) AS t FROM s.src GROUP BY k HAVING count(*) > 1"
MEANS = """SELECT n.label, x.a FROM s.names n JOIN
           (SELECT k, avg(t) AS a FROM (SELECT k, p, sum(d) AS t FROM s.src GROUP BY k, p) GROUP BY k) x ON n.k = x.k"""


@pytest.fixture
def lake(tr: Trickle) -> Trickle:
    tr.sql("CREATE TABLE s.src (k STRING, p INT, v BIGINT, d DOUBLE)")
    tr.sql("INSERT INTO s.src SELECT concat('k', id % 4), id % 3, id, id / 7 FROM range(200)")
    tr.sql("CREATE TABLE s.names (k STRING, label STRING)")
    tr.sql("INSERT INTO s.names VALUES ('k0', 'zero'), ('k1', 'one'), ('k2', 'two')")
    return tr


def change(tr: Trickle, step: int) -> None:
    tr.sql(f"INSERT INTO s.src VALUES ('k{step % 5}', {step % 3}, {step}, 0.1D * {step}), ('new{step}', 0, 1, 1.0D)")


class Probe:
    """Counts publishes, and fails at one point."""

    def __init__(self, at: str | None = None) -> None:
        self.at = at
        self.points: list[str] = []

    def __call__(self, point: str) -> None:
        self.points.append(point)
        if point == self.at:
            raise TrickleError("STORAGE_FULL", f"injected {point}")


def test_one_publish_and_failure_at_every_point(lake: Trickle) -> None:
    tr = lake
    tr.create_stream_table("s.means", MEANS, mode="differential")
    hidden = states(tr, "s.means")
    assert hidden == ["_trickle.s__means__state1", "_trickle.s__means__state2"]
    tables = [*hidden, "s.means"]
    reader = other_session(tr)
    change(tr, 0)
    probe = tr.refresher.probe = Probe()
    assert tr.refresh("s.means").action is Action.DIFFERENTIAL
    points = probe.points
    assert points == [
        "before checks",
        "before transaction",
        *(f"in transaction, before {n}" for n in ("s.means", *hidden)),
        "before commit",
        "after commit",
    ]
    for step, point in enumerate(points[:-1], start=1):
        change(tr, step)
        old, pointers, known = rows(reader, "SELECT * FROM lake.s.means"), tr.store.pointers(), owner(tr, "s.means")
        tr.refresher.probe = Probe(point)
        with pytest.raises(TrickleError, match="injected"):
            tr.refresh("s.means")
        assert rows(reader, "SELECT * FROM lake.s.means") == old, point
        assert tr.store.pointers() == pointers, point
        assert owner(tr, "s.means").states == known.states, point
        assert private_catalogs(tr) == set(), point
        assert unreferenced(tr, tables) == set(), point
    tr.refresher.probe = None
    assert tr.refresh("s.means").action is Action.DIFFERENTIAL
    assert tr.verify("s.means").equal
    assert tr.refresh("s.means").action is Action.NO_DATA


def test_hidden_from_everybody(lake: Trickle) -> None:
    tr = lake
    created = tr.create_stream_table("s.means", MEANS)
    tr.create_stream_table("s.many", HAVING)
    change(tr, 1)
    result = tr.refresh("s.means", mode="differential")
    assert (created.action, created.rows_inserted) == (Action.FULL, 3)
    assert result.rows_changed == {"s.src": 2}
    assert "states" in result.stages
    assert [s.name for s in tr.status()] == ["s.many", "s.means"]
    (status,) = tr.status("s.means")
    assert set(status.inputs) == {"s.src", "s.names"}
    assert status.states == tuple(states(tr, "s.means"))
    assert not status.pending
    assert tr.status("s.many")[0].pending
    assert {e.name for e in tr.history()} == {"s.means", "s.many"}
    assert [e.action for e in tr.history("s.means")] == [Action.DIFFERENTIAL, Action.FULL]
    inner = status.states[0]
    assert [e.action for e in tr.store.history(inner)] == [Action.DIFFERENTIAL, Action.FULL]
    for act in (tr.refresh, tr.verify, tr.drop_stream_table, tr.explain):
        with pytest.raises(TrickleError, match=r"there is no stream table _trickle\.s__means__state1; there are: s"):
            act(inner)
    with pytest.raises(TrickleError, match="is a hidden state table"):
        tr.create_stream_table("s.thief", f"SELECT * FROM {inner}")
    explained = tr.explain("s.means")
    assert all(s in explained.operators and s in str(explained.delta_sql) for s in status.states)
    assert explained.next_action is Action.NO_DATA


def test_drop_leaves_nothing(lake: Trickle) -> None:
    tr = lake
    warehouse = tr.settings.warehouse_path
    assert warehouse is not None
    before = tr.store.pointers()
    tr.create_stream_table("s.means", MEANS)
    tr.create_stream_table("s.on_top", "SELECT label, max(a) AS a FROM s.means GROUP BY label HAVING count(*) > 0")
    change(tr, 1)
    tr.refresh("s.on_top")
    with pytest.raises(TrickleError, match=r"s\.means is read by s\.on_top"):
        tr.drop_stream_table("s.means")
    assert tr.drop_stream_table("s.means", cascade=True) == ("s.on_top", "s.means")
    assert tr.store.pointers().keys() == before.keys()
    assert tr.store.stream_tables() == ()
    hidden = warehouse / "_trickle"
    assert [f for f in hidden.rglob("*") if f.suffix in (".parquet", ".puffin", ".avro")] == []
    tr.create_stream_table("s.means", MEANS)
    assert states(tr, "s.means") == ["_trickle.s__means__state1", "_trickle.s__means__state2"]


def test_a_change_without_effect_stops_at_the_state(lake: Trickle) -> None:
    tr = lake
    tr.create_stream_table("s.many", HAVING, mode="differential")
    tr.sql("INSERT INTO s.src VALUES ('once', 0, 5, 0.0D)")  # a group that HAVING rejects
    result = tr.refresh("s.many")
    assert (result.action, result.rows_inserted, result.rows_changed) == (Action.DIFFERENTIAL, 0, {"s.src": 1})
    tr.sql("INSERT INTO s.src VALUES ('once', 0, 6, 0.0D)")
    assert tr.refresh("s.many").rows_inserted == 1
    assert rows(tr.spark, "SELECT t FROM s.many WHERE k = 'once'") == [(11,)]
    before = owner(tr, "s.many")
    tr.sql("CALL lake.system.rewrite_data_files(table => 's.src', options => map('rewrite-all', 'true'))")
    tr.refresh("s.many")
    after = owner(tr, "s.many")
    assert [t.published_pointer for t in after.states] == [t.published_pointer for t in before.states]
    assert after.published_pointer == before.published_pointer
    assert tr.refresh("s.many").action is Action.NO_DATA
    assert tr.verify("s.many").equal


def test_asked_for_full_everything_is_recomputed(lake: Trickle) -> None:
    tr = lake
    tr.create_stream_table("s.means", MEANS)
    result = tr.refresh("s.means", mode="full")
    assert result.action is Action.FULL
    for state in states(tr, "s.means"):
        assert [e.reason for e in tr.store.history(state, limit=1)] == ["REQUESTED: mode FULL was asked for"]
    assert tr.verify("s.means").equal


def test_auto_decides_for_each(lake: Trickle) -> None:
    tr = lake
    tr.create_stream_table("s.means", MEANS)
    tr.sql("INSERT INTO s.src SELECT concat('k', id % 4), id % 3, id, id / 3 FROM range(100)")
    large = tr.refresh("s.means")
    inner = tr.store.history(states(tr, "s.means")[0], limit=1)[0]
    assert (inner.action, str(inner.reason).split(":")[0]) == (Action.FULL, "CHANGE_RATIO")
    assert large.action is Action.FULL
    tr.sql("INSERT INTO s.src VALUES ('k9', 0, 1, 1.0D)")  # nobody joins it
    small = tr.refresh("s.means")
    assert small.action in (Action.DIFFERENTIAL, Action.FULL), "one of five groups is more than 15 %"
    assert tr.store.history(states(tr, "s.means")[0], limit=1)[0].action is Action.DIFFERENTIAL
    assert tr.verify("s.means").equal


def test_created_empty(lake: Trickle) -> None:
    tr = lake
    tr.create_stream_table("s.means", MEANS, initialize=False)
    assert states(tr, "s.means") == []
    assert set(tr.status("s.means")[0].inputs) == {"s.src", "s.names"}
    assert tr.refresh("s.means").reason == "INITIAL: first refresh"
    assert len(states(tr, "s.means")) == 2
    change(tr, 1)
    assert tr.refresh("s.means", mode="differential").action is Action.DIFFERENTIAL
    assert tr.verify("s.means").equal


def test_altered(lake: Trickle) -> None:
    tr = lake
    tr.create_stream_table("s.means", MEANS)
    inner, outer = owner(tr, "s.means").states
    # The inner groups stay what they are; what is above them does not.
    result = tr.alter_stream_table("s.means", MEANS.replace("avg(t)", "max(t)"))
    assert result is not None
    assert result.action is Action.REINITIALIZE
    after = {s.definition: s for s in owner(tr, "s.means").states}
    assert len(after) == 2
    assert after[inner.definition].id == inner.id
    assert outer.definition not in after
    assert outer.name not in tr.store.pointers()
    assert tr.verify("s.means").equal
    tr.alter_stream_table("s.means", "SELECT k, label AS a FROM s.names")
    assert states(tr, "s.means") == []
    assert [n for n in tr.store.pointers() if "state" in n.name] == []
    change(tr, 1)
    assert tr.refresh("s.means").action is Action.NO_DATA
    assert tr.verify("s.means").equal


def test_a_view_that_changes_its_meaning(lake: Trickle) -> None:
    tr = lake
    tr.sql("CREATE VIEW s.some AS SELECT k, v FROM s.src WHERE p = 0")
    query = "SELECT k, sum(v) AS t FROM s.some GROUP BY k HAVING count(*) > 1"
    tr.create_stream_table("s.auto_view", query)
    tr.create_stream_table("s.strict_view", query, mode="differential")
    before = states(tr, "s.auto_view")
    tr.sql("CREATE OR REPLACE VIEW s.some AS SELECT k, v FROM s.src WHERE p > 0")
    result = tr.refresh("s.auto_view")
    assert (result.action, result.reason.split(":")[0]) == (Action.REINITIALIZE, "DEPENDENCY_CHANGED")
    assert states(tr, "s.auto_view") != before
    assert TableName.of(before[0]) not in tr.store.pointers()
    assert tr.verify("s.auto_view").equal
    kept = owner(tr, "s.strict_view").states
    with pytest.raises(TrickleError, match="DEPENDENCY_CHANGED"):
        tr.refresh("s.strict_view")
    assert owner(tr, "s.strict_view").states == kept
    assert tr.refresh("s.strict_view", mode="full").action is Action.REINITIALIZE
    change(tr, 1)
    assert tr.refresh(["s.auto_view", "s.strict_view"])[1].action is Action.DIFFERENTIAL
    assert tr.verify("s.strict_view").equal


def test_somebody_else_writes_to_a_state(lake: Trickle) -> None:
    tr = lake
    tr.create_stream_table("s.many", HAVING)
    (state,) = states(tr, "s.many")
    tr.sql(f"DELETE FROM {state} WHERE c0 = 'k1'")
    result = tr.refresh("s.many")
    assert (result.action, result.reason.split(":")[0]) == (Action.REINITIALIZE, "INTEGRITY")
    assert [a.kind for a in tr.store.alerts()] == ["INTEGRITY"]
    assert tr.verify("s.many").equal
    tr.sql(f"DROP TABLE {state}")
    result = tr.refresh("s.many")
    assert (result.action, result.reason.split(":")[0]) == (Action.REINITIALIZE, "INTEGRITY")
    assert len(states(tr, "s.many")) == 1
    change(tr, 1)
    assert tr.refresh("s.many", mode="differential").action is Action.DIFFERENTIAL
    assert tr.verify("s.many").equal


def test_a_state_over_a_stream_table(lake: Trickle) -> None:
    """The state, not its owner, reads the stream table below: it comes first, and its columns may change."""
    tr = lake
    tr.create_stream_table("s.base", "SELECT k, v FROM s.src WHERE p < 2")
    tr.create_stream_table("s.top", "SELECT k, sum(v) AS t FROM s.base GROUP BY k HAVING sum(v) > 10")
    change(tr, 1)
    assert tr.refresh("s.top", mode="differential").action is Action.DIFFERENTIAL
    assert not tr.status("s.base")[0].pending
    assert tr.status("s.top")[0].inputs == ("s.base",)
    assert tr.verify("s.top").equal
    before = owner(tr, "s.top").states[0].definition
    tr.alter_stream_table("s.base", "SELECT k, v, p FROM s.src WHERE p < 1")
    assert tr.refresh("s.top").action is Action.FULL, "the columns it reads stay, and most of their rows change"
    assert owner(tr, "s.top").states[0].definition == before
    assert tr.verify("s.top").equal


def test_another_process_goes_on(lake: Trickle) -> None:
    """What one process made, another one maintains: nothing is only remembered."""
    tr = lake
    tr.create_stream_table("s.means", MEANS, mode="differential")
    before = [s.id for s in owner(tr, "s.means").states]
    change(tr, 1)
    with connect(tr.settings.location, shuffle_partitions=2) as again:
        assert again.refresh("s.means").action is Action.DIFFERENTIAL
        assert again.verify("s.means").equal
    assert [s.id for s in owner(tr, "s.means").states] == before
