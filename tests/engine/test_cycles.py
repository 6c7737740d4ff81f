"""Stream tables that read each other: the least fixpoint (docs/cycles.md)."""

from __future__ import annotations

import random
from collections.abc import Iterable, Iterator

import pytest

from spark_trickle import Action, Trickle, TrickleError

Edges = set[tuple[int, int]]


@pytest.fixture
def lake(tr: Trickle) -> Iterator[Trickle]:
    tr.refresher.settings = tr.settings = tr.settings.model_copy(update={"allow_circular": True})
    tr.sql("CREATE TABLE s.edges (src INT, dst INT)")
    yield tr
    tr.refresher.settings = tr.settings = tr.settings.model_copy(update={"allow_circular": False})


def insert(tr: Trickle, edges: Iterable[tuple[int, int]]) -> None:
    tr.sql(f"INSERT INTO s.edges VALUES {', '.join(map(str, edges))}")


def rows(tr: Trickle, name: str) -> list[tuple[int, ...]]:
    return sorted((tuple(r) for r in tr.sql(f"SELECT * FROM {name}").collect()), key=lambda r: [str(v) for v in r])


def closure(edges: Iterable[tuple[int, int]]) -> set[tuple[int, int]]:
    found = set(edges)
    while more := {(a, d) for a, b in found for c, d in edges if b == c} - found:
        found |= more
    return found


REACH = "SELECT src, dst FROM s.edges UNION SELECT r.src, e.dst FROM s.reach r JOIN s.edges e ON r.dst = e.src"


def reach(tr: Trickle) -> None:
    tr.create_stream_tables([{"name": "s.reach", "query": REACH}])


def odd_and_even(tr: Trickle) -> None:
    """Pairs with a path of an odd number of edges, and of an even one."""
    tr.create_stream_tables([
        {"name": "s.even", "query": "SELECT o.src, e.dst FROM s.odd o JOIN s.edges e ON o.dst = e.src UNION "
                                    "SELECT src, dst FROM s.edges WHERE false"},
        {"name": "s.odd", "query": "SELECT src, dst FROM s.edges UNION SELECT v.src, e.dst FROM s.even v "
                                   "JOIN s.edges e ON v.dst = e.src"},
    ])  # fmt: skip


def odds(edges: Edges) -> tuple[set[tuple[int, int]], set[tuple[int, int]]]:
    odd, even = set(edges), set[tuple[int, int]]()
    while True:
        next_even = even | {(a, d) for a, b in odd for c, d in edges if b == c}
        next_odd = odd | {(a, d) for a, b in next_even for c, d in edges if b == c}
        if (next_odd, next_even) == (odd, even):
            return odd, even
        odd, even = next_odd, next_even


def test_transitive_closure(lake: Trickle) -> None:
    edges = {(1, 2), (2, 3), (3, 4)}
    insert(lake, edges)
    reach(lake)
    assert set(rows(lake, "s.reach")) == closure(edges)
    assert lake.verify("s.reach").equal
    insert(lake, [(4, 5)])
    result = lake.refresh("s.reach")
    assert (result.action, result.rows_inserted, result.rows_deleted) == (Action.DIFFERENTIAL, 4, 0)
    assert set(rows(lake, "s.reach")) == closure(edges | {(4, 5)})
    assert lake.history("s.reach", limit=1)[0].fixpoint_iteration
    assert lake.refresh("s.reach").action is Action.NO_DATA


def test_deletions_that_cut_and_that_do_not(lake: Trickle) -> None:
    edges = {(1, 2), (2, 3), (1, 3), (3, 4), (4, 1)}
    insert(lake, edges)
    reach(lake)
    assert set(rows(lake, "s.reach")) == closure(edges)
    lake.sql("DELETE FROM s.edges WHERE src = 1 AND dst = 3")  # there is another way
    result = lake.refresh("s.reach")
    assert (result.action, result.rows_inserted, result.rows_deleted) == (Action.DIFFERENTIAL, 0, 0)
    lake.sql("DELETE FROM s.edges WHERE src = 4")  # cuts the circle
    lake.refresh("s.reach")
    left = edges - {(1, 3), (4, 1)}
    assert set(rows(lake, "s.reach")) == closure(left)
    assert lake.verify("s.reach").equal


def test_mutual_recursion_of_two(lake: Trickle) -> None:
    edges = {(1, 2), (2, 3), (3, 1), (3, 4)}
    insert(lake, edges)
    odd_and_even(lake)
    for changed in (edges, edges | {(4, 5), (5, 6)}, (edges | {(4, 5), (5, 6)}) - {(3, 1)}):
        if changed != edges:
            lake.sql("DELETE FROM s.edges")
            insert(lake, changed)
        lake.refresh("s.even")
        odd, even = odds(changed)
        assert (set(rows(lake, "s.odd")), set(rows(lake, "s.even"))) == (odd, even)
        assert lake.verify("s.odd").equal
        assert lake.verify("s.even").equal
    assert [g.members for g in lake.groups()] == [("s.even", "s.odd")]


def test_simple_cycle_of_the_textbook(lake: Trickle) -> None:
    """reach_a goes through reach_b and the other way round: {(1, 3)} and {(1, 2), (2, 3)}, no more."""
    insert(lake, [(1, 2), (2, 3)])
    lake.sql("""
        CREATE STREAM TABLE s.reach_a AS
            SELECT DISTINCT e.src, rb.dst FROM s.edges e JOIN s.reach_b rb ON e.dst = rb.src;
        CREATE STREAM TABLE s.reach_b AS
            SELECT src, dst FROM s.edges UNION
            SELECT ra.src, e.dst FROM s.reach_a ra JOIN s.edges e ON ra.dst = e.src;
    """)
    assert rows(lake, "s.reach_a") == [(1, 3)]
    assert rows(lake, "s.reach_b") == [(1, 2), (2, 3)]
    (cycle,) = lake.cycles()
    assert cycle.members == ("s.reach_a", "s.reach_b")
    assert cycle.path == "s.reach_a -> s.reach_b -> s.reach_a"
    assert cycle.converged
    assert cycle.last_iterations
    assert "new rows" in str(cycle.last_reason)
    assert lake.refresh("s.reach_a", "full").action is Action.FULL


@pytest.mark.parametrize(
    ("query", "what"),
    [
        ("SELECT src, max(dst) AS dst FROM s.reach GROUP BY src", "an aggregate .* at line 1, column 42"),
        ("SELECT src, dst FROM s.edges EXCEPT SELECT src, dst FROM s.reach", "an aggregate .* at line 1, column 30"),
        (
            "SELECT DISTINCT src, dst FROM s.edges e WHERE NOT EXISTS (SELECT 1 FROM s.reach r WHERE r.src = e.dst)",
            "NOT EXISTS, .* at line 1, column 47",
        ),
        (
            "SELECT DISTINCT e.src, r.dst FROM s.edges e LEFT JOIN s.reach r ON r.src = e.dst",
            "an outer join .* at line 1, column 45",
        ),
        ("SELECT DISTINCT src, rank() OVER (ORDER BY dst) AS dst FROM s.reach", "a window function at line 1"),
        ("SELECT DISTINCT src, dst FROM s.reach ORDER BY src LIMIT 3", "LIMIT at line 1"),
        ("SELECT src, dst FROM s.reach UNION ALL SELECT src, dst FROM s.edges", "may have the same row twice"),
    ],
)
def test_what_is_not_monotone_is_refused(lake: Trickle, query: str, what: str) -> None:
    insert(lake, [(1, 2)])
    other = "SELECT src, dst FROM s.edges UNION SELECT r.src, r.dst FROM s.other r"
    with pytest.raises(TrickleError, match=what) as error:
        lake.create_stream_tables([{"name": "s.reach", "query": other}, {"name": "s.other", "query": query}])
    assert error.value.code == "NOT_MONOTONE"
    assert "s.reach" in error.value.message
    assert lake.status() == ()


def test_what_is_monotone_beside_the_cycle_is_not_asked(lake: Trickle) -> None:
    """An aggregate over what is outside, and an outer join whose other side is: more rows of the cycle only add."""
    insert(lake, [(1, 2), (2, 3), (7, 8)])
    lake.sql("CREATE TABLE s.names (id INT, name STRING)")
    lake.sql("INSERT INTO s.names VALUES (3, 'three')")
    query = (
        "SELECT src, dst FROM s.edges WHERE src >= (SELECT min(src) FROM s.edges) UNION "
        "SELECT r.src, e.dst FROM s.reach r JOIN s.edges e ON r.dst = e.src LEFT JOIN s.names n ON n.id = r.dst "
        "WHERE coalesce(n.name, '') <> 'stop'"
    )
    lake.create_stream_tables([{"name": "s.reach", "query": query}])
    assert set(rows(lake, "s.reach")) == closure({(1, 2), (2, 3), (7, 8)})
    lake.sql("INSERT INTO s.names VALUES (2, 'stop')")  # a row that came takes rows away
    lake.refresh("s.reach")
    assert set(rows(lake, "s.reach")) == {(1, 2), (2, 3), (7, 8)}
    assert lake.verify("s.reach").equal


def test_cycles_are_refused_unless_allowed(tr: Trickle) -> None:
    tr.sql("CREATE TABLE s.edges (src INT, dst INT)")
    with pytest.raises(TrickleError, match=r"s\.reach -> s\.reach") as error:
        reach(tr)
    assert error.value.code == "CYCLE"
    with pytest.raises(TrickleError, match=r"s\.even -> s\.odd -> s\.even"):
        odd_and_even(tr)
    assert tr.status() == ()


def test_columns_must_follow_from_some_branch(lake: Trickle) -> None:
    with pytest.raises(TrickleError, match="every branch of their definitions"):
        lake.create_stream_tables([
            {"name": "s.x", "query": "SELECT DISTINCT a FROM s.y"},
            {"name": "s.y", "query": "SELECT DISTINCT a FROM s.x"},
        ])  # fmt: skip
    with pytest.raises(TrickleError, match="mode must be AUTO or DIFFERENTIAL"):
        lake.create_stream_tables([{"name": "s.reach", "query": REACH, "mode": "full"}])
    assert lake.status() == ()


def test_one_that_does_not_converge(lake: Trickle) -> None:
    lake.refresher.settings = lake.settings.model_copy(update={"max_fixpoint_iterations": 10})
    lake.sql("CREATE TABLE s.start (n INT)")
    count = "SELECT n FROM s.start UNION SELECT n + 1 FROM s.count WHERE n > 0"
    lake.create_stream_tables([{"name": "s.count", "query": count}])  # empty: it converges
    lake.create_stream_table("s.above", "SELECT sum(n) AS total FROM s.count")
    lake.sql("INSERT INTO s.start VALUES (1)")
    with pytest.raises(TrickleError, match=r"s\.count still grows after 10 rounds, by 1 rows") as error:
        lake.refresh("s.count")
    assert error.value.code == "NO_FIXPOINT"
    assert rows(lake, "s.count") == []
    assert {s.name: str(s.status) for s in lake.status()} == {"s.above": "ACTIVE", "s.count": "ERROR"}
    assert not lake.cycles()[0].converged
    lake.refresher.settings = lake.settings.model_copy(update={"max_fixpoint_rows": 3})
    with pytest.raises(TrickleError, match="still grows after 3 rows"):
        lake.refresh("s.count")
    lake.sql("DELETE FROM s.start")
    lake.refresh("s.above")
    assert {str(s.status) for s in lake.status()} == {"ACTIVE"}
    assert lake.cycles()[0].converged


def test_a_set_that_supports_itself_is_found_out(lake: Trickle, monkeypatch: pytest.MonkeyPatch) -> None:
    """1 and 2 keep each other reachable after the way to them is gone: the definition holds, the least one differs."""
    insert(lake, [(0, 1), (1, 2), (2, 1)])
    nodes = "SELECT 0 AS node UNION SELECT e.dst FROM s.nodes n JOIN s.edges e ON n.node = e.src"
    lake.create_stream_tables([{"name": "s.nodes", "query": nodes}])
    assert rows(lake, "s.nodes") == [(0,), (1,), (2,)]
    lake.sql("DELETE FROM s.edges WHERE src = 0")
    with monkeypatch.context() as patch:
        patch.setattr("spark_trickle.refresh.cycle.CycleRefresh._only_grows", lambda *_: True)
        lake.refresh("s.nodes")
    assert rows(lake, "s.nodes") == [(0,), (1,), (2,)], "as a naive engine would leave it"
    found = lake.verify("s.nodes")
    assert (found.equal, found.extra) == (False, 2)
    lake.refresh("s.nodes", "full")
    assert rows(lake, "s.nodes") == [(0,)]
    assert lake.verify("s.nodes").equal


def test_mutual_recursion_of_three_and_what_reads_it(lake: Trickle) -> None:
    edges = {(n, n + 1) for n in range(7)} | {(7, 0)}
    insert(lake, edges)
    step = "SELECT p.src, e.dst FROM s.{} p JOIN s.edges e ON p.dst = e.src"
    lake.create_stream_tables([
        {"name": "s.two", "query": f"{step.format('one')} UNION SELECT src, dst FROM s.edges WHERE src IS NULL"},
        {"name": "s.zero", "query": f"{step.format('two')} UNION SELECT src, dst FROM s.edges WHERE src IS NULL"},
        {"name": "s.one", "query": f"SELECT src, dst FROM s.edges UNION {step.format('zero')}"},
        {"name": "s.counts", "query": "SELECT src, count(*) AS n FROM s.one GROUP BY src"},
    ])  # fmt: skip
    names = ("s.one", "s.two", "s.zero")
    for statement in (None, "DELETE FROM s.edges WHERE src = 7", "INSERT INTO s.edges VALUES (7, 8), (8, 0)"):
        if statement is not None:
            lake.sql(statement)
        lake.refresh("s.counts")
        edges = set(rows(lake, "s.edges"))  # type: ignore[arg-type]
        walks = {1: set(edges), 2: set[tuple[int, int]](), 0: set[tuple[int, int]]()}
        while True:
            more = {(r + 1) % 3: {(a, d) for a, b in w for c, d in edges if b == c} for r, w in walks.items()}
            if all(more[r] <= walks[r] for r in walks):
                break
            walks = {r: walks[r] | more[r] for r in walks}
        assert [set(rows(lake, n)) for n in names] == [walks[1], walks[2], walks[0]]
        assert all(lake.verify(n).equal for n in (*names, "s.counts"))
    assert lake.history("s.counts", limit=1)[0].action is not Action.NO_DATA


def test_as_with_recursive_does_on_acyclic_graphs(lake: Trickle) -> None:
    pick = random.Random(5)
    insert(lake, {(a, a + pick.randint(1, 4)) for a in range(40)} | {(a, a + pick.randint(1, 9)) for a in range(40)})
    reach(lake)
    lake.create_stream_table(
        "s.with_recursive",
        "WITH RECURSIVE r AS (SELECT src, dst FROM s.edges UNION ALL SELECT r.src, e.dst FROM r "
        "JOIN s.edges e ON r.dst = e.src WHERE r.src > 35) SELECT DISTINCT src, dst FROM r WHERE src > 35",
    )
    for statement in ("DELETE FROM s.edges WHERE src = 38", "INSERT INTO s.edges VALUES (37, 39), (36, 90)"):
        lake.sql(statement)
        lake.refresh(["s.reach", "s.with_recursive"])
        assert [r for r in rows(lake, "s.reach") if r[0] > 35] == rows(lake, "s.with_recursive")


def test_random_graphs(lake: Trickle) -> None:
    pick = random.Random(11)
    edges: Edges = {(pick.randrange(12), pick.randrange(12)) for _ in range(12)}
    insert(lake, edges)
    reach(lake)
    odd_and_even(lake)
    for _ in range(6):
        gone = {e for e in edges if pick.random() < 0.15} if pick.random() < 0.6 else set()
        come = {(pick.randrange(12), pick.randrange(12)) for _ in range(pick.randrange(4))} - edges
        for src, dst in gone:
            lake.sql(f"DELETE FROM s.edges WHERE src = {src} AND dst = {dst}")
        edges = (edges - gone) | come
        if come:
            insert(lake, come)
        lake.refresh(["s.reach", "s.odd"])
        odd, even = odds(edges)
        assert set(rows(lake, "s.reach")) == closure(edges)
        assert (set(rows(lake, "s.odd")), set(rows(lake, "s.even"))) == (odd, even)
    assert all(lake.verify(n).equal for n in ("s.reach", "s.odd", "s.even"))


def test_nulls_and_values_that_are_nearly_the_same(lake: Trickle) -> None:
    """NULL is one value of a set; 0.0 and -0.0 are one value, as they are to DISTINCT."""
    lake.sql("CREATE TABLE s.v (a DOUBLE, b STRING)")
    lake.sql("INSERT INTO s.v VALUES (0.0, NULL), (-0.0, NULL), (double('NaN'), 'x'), (NULL, NULL)")
    query = "SELECT a, b FROM s.v UNION SELECT -a, concat(b, '') FROM s.same"
    lake.create_stream_tables([{"name": "s.same", "query": query}])
    assert len(rows(lake, "s.same")) == 3
    lake.sql("INSERT INTO s.v VALUES (-0.0, NULL), (1.5, 'y')")
    lake.refresh("s.same")
    assert len(rows(lake, "s.same")) == 5
    assert lake.verify("s.same").equal


def test_a_cycle_in_the_middle_of_a_diamond(lake: Trickle) -> None:
    insert(lake, [(1, 2), (2, 3)])
    odd_and_even(lake)
    lake.create_stream_table("s.degrees", "SELECT src, count(*) AS n FROM s.edges GROUP BY src")
    lake.create_stream_table(
        "s.top", "SELECT d.src, d.n, o.dst FROM s.degrees d JOIN s.odd o ON o.src = d.src", mode="differential"
    )
    (group,) = lake.groups()
    assert sorted(group.members) == ["s.degrees", "s.even", "s.odd", "s.top"]
    insert(lake, [(3, 4), (4, 1)])
    lake.refresh("s.degrees")
    assert len({lake.history(n, limit=1)[0].group_epoch for n in group.members}) == 1
    assert all(lake.verify(n).equal for n in group.members)
    odd, even = odds({(1, 2), (2, 3), (3, 4), (4, 1)})
    assert (set(rows(lake, "s.odd")), set(rows(lake, "s.even"))) == (odd, even)


def test_altered_into_a_cycle_and_out_of_it(lake: Trickle) -> None:
    edges = {(1, 2), (2, 3), (3, 4)}
    insert(lake, edges)
    plain = "SELECT src, dst FROM s.edges UNION SELECT src, dst FROM s.edges WHERE src > 1"
    lake.create_stream_table("s.a", plain)
    step = "SELECT p.src, e.dst FROM s.a p JOIN s.edges e ON p.dst = e.src"
    lake.create_stream_table("s.b", f"{step} UNION SELECT src, dst FROM s.edges WHERE src < 0", mode="differential")
    assert lake.cycles() == ()
    lake.alter_stream_table("s.a", "SELECT src, dst FROM s.edges UNION SELECT src, dst FROM s.b")
    assert [c.members for c in lake.cycles()] == [("s.a", "s.b")]
    assert set(rows(lake, "s.a")) == closure(edges)
    assert all(lake.verify(n).equal for n in ("s.a", "s.b"))
    insert(lake, [(4, 5)])
    assert lake.refresh("s.b").action is Action.DIFFERENTIAL
    assert set(rows(lake, "s.a")) == closure(edges | {(4, 5)})
    lake.alter_stream_table("s.a", plain)
    assert lake.cycles() == ()
    insert(lake, [(5, 6)])
    lake.refresh("s.b")
    assert set(rows(lake, "s.a")) == edges | {(4, 5), (5, 6)}
    assert all(lake.verify(n).equal for n in ("s.a", "s.b"))


def test_one_member_is_altered(lake: Trickle) -> None:
    """It is recomputed, and so is what follows for the others."""
    edges = {(1, 2), (2, 3), (3, 4), (4, 5)}
    insert(lake, edges)
    odd_and_even(lake)
    step = "SELECT v.src, e.dst FROM s.even v JOIN s.edges e ON v.dst = e.src"
    lake.alter_stream_table("s.odd", f"SELECT src, dst FROM s.edges WHERE src > 1 UNION {step}")
    assert set(rows(lake, "s.odd")) == {(2, 3), (3, 4), (4, 5), (2, 5)}
    assert set(rows(lake, "s.even")) == {(2, 4), (3, 5)}
    assert all(lake.verify(n).equal for n in ("s.odd", "s.even"))
    lake.refresh("s.odd", "full")
    assert set(rows(lake, "s.even")) == {(2, 4), (3, 5)}


def test_altered_out_of_a_cycle_to_what_no_cycle_allows(lake: Trickle) -> None:
    insert(lake, [(1, 2), (2, 3)])
    lake.create_stream_tables([
        {"name": "s.a", "query": "SELECT src, dst FROM s.edges UNION SELECT src, dst FROM s.b"},
        {"name": "s.b", "query": "SELECT DISTINCT src, dst FROM s.a WHERE src <> dst", "mode": "differential"},
    ])  # fmt: skip
    with pytest.raises(TrickleError, match="must be AUTO or DIFFERENTIAL"):
        lake.alter_stream_table("s.a", mode="full")
    lake.alter_stream_table("s.a", "SELECT src, max(dst) AS dst FROM s.edges GROUP BY src")
    assert lake.cycles() == ()
    insert(lake, [(1, 7)])
    assert lake.refresh("s.b").action is not Action.NO_DATA
    assert rows(lake, "s.b") == [(1, 7), (2, 3)]
    assert all(lake.verify(n).equal for n in ("s.a", "s.b"))


def test_types_must_not_grow_from_round_to_round(lake: Trickle) -> None:
    lake.sql("CREATE TABLE s.owns (a INT, b INT, share DECIMAL(5, 4))")
    lake.sql("INSERT INTO s.owns VALUES (1, 2, 0.5), (2, 3, 0.5), (3, 1, 0.5)")
    first = "SELECT a, b, share FROM s.owns UNION SELECT o.a, s.b, "
    last = " FROM s.owns o JOIN s.shares s ON o.b = s.a"
    with pytest.raises(TrickleError, match=r"column share of s\.shares is DECIMAL\(5,4\) where its cycle reads it"):
        lake.create_stream_tables([{"name": "s.shares", "query": f"{first}o.share * s.share{last}"}])
    assert lake.status() == ()
    cast = f"{first}CAST(o.share * s.share AS DECIMAL(5, 4)){last}"
    lake.create_stream_tables([{"name": "s.shares", "query": cast}])
    assert lake.verify("s.shares").equal
    lake.sql("INSERT INTO s.owns VALUES (3, 4, 0.25)")
    lake.refresh("s.shares")
    assert lake.verify("s.shares").equal


def test_the_columns_are_called_as_in_the_first_branch(lake: Trickle) -> None:
    insert(lake, [(1, 2), (2, 3)])
    query = (
        "WITH step AS (SELECT p.a, e.dst AS b FROM s.pairs p JOIN s.edges e ON p.b = e.src), e AS (TABLE s.edges) "
        "SELECT a, b FROM step UNION SELECT src, dst FROM e UNION SELECT 9, 9"
    )
    lake.create_stream_tables([{"name": "s.pairs", "query": query}])
    assert lake.sql("SELECT a, b FROM s.pairs").count() == 4
    assert lake.verify("s.pairs").equal


def test_over_a_view_and_in_one_statement(lake: Trickle) -> None:
    insert(lake, [(1, 2), (2, 3)])
    lake.sql("CREATE VIEW s.some AS SELECT src, dst FROM s.edges WHERE src < 100")
    lake.sql("CREATE STREAM TABLE s.reach AS " + REACH.replace("s.edges", "s.some"))
    assert set(rows(lake, "s.reach")) == closure({(1, 2), (2, 3)})
    insert(lake, [(3, 4)])
    lake.refresh("s.reach")
    assert set(rows(lake, "s.reach")) == closure({(1, 2), (2, 3), (3, 4)})


def test_a_source_that_gets_another_column(lake: Trickle) -> None:
    insert(lake, [(1, 2), (2, 3)])
    lake.create_stream_tables([
        {"name": "s.a", "query": "SELECT * FROM s.edges UNION SELECT r.src, e.dst FROM s.b r JOIN s.edges e "
                                 "ON r.dst = e.src"},
        {"name": "s.b", "query": "SELECT DISTINCT src, dst FROM s.a"},
    ])  # fmt: skip
    lake.sql("ALTER TABLE s.edges ADD COLUMN w INT")
    lake.refresh("s.a")
    lake.sql("INSERT INTO s.edges VALUES (3, 4, 5)")
    for _ in range(2):
        lake.refresh("s.b")
        assert set(rows(lake, "s.a")) == closure({(1, 2), (2, 3), (3, 4)})
    assert all(lake.verify(n).equal for n in ("s.a", "s.b"))


def test_a_list_is_made_again_with_other_columns(lake: Trickle) -> None:
    insert(lake, [(1, 2)])
    for columns in ("src", "src, dst"):
        lake.create_stream_tables([
            {"name": "s.second", "query": "SELECT * FROM s.first"},
            {"name": "s.first", "query": f"SELECT {columns} FROM s.edges"},
        ])  # fmt: skip
        assert ", ".join(lake.sql("SELECT * FROM s.second").columns) == columns
        lake.drop_stream_table("s.first", cascade=True)


def test_a_list_that_fails_leaves_nothing(lake: Trickle) -> None:
    insert(lake, [(1, 2)])
    with pytest.raises(TrickleError, match="uuid"):
        lake.create_stream_tables([
            {"name": "s.first", "query": "SELECT src FROM s.edges"},
            {"name": "s.second", "query": "SELECT uuid() AS u FROM s.first", "mode": "differential"},
        ])  # fmt: skip
    assert lake.status() == ()
    warehouse = lake.settings.warehouse_path
    assert warehouse is not None
    assert not [f for f in warehouse.rglob("first-*/**/*.parquet") if f.is_file()]


def test_dropped(lake: Trickle) -> None:
    insert(lake, [(1, 2)])
    odd_and_even(lake)
    with pytest.raises(TrickleError, match="is read by"):
        lake.drop_stream_table("s.odd")
    assert set(lake.drop_stream_table("s.odd", cascade=True)) == {"s.odd", "s.even"}
    assert (lake.status(), lake.cycles()) == ((), ())
    reach(lake)
    assert lake.drop_stream_table("s.reach") == ("s.reach",)


def test_what_is_said_of_a_cycle(lake: Trickle) -> None:
    insert(lake, [(1, 2), (2, 3)])
    odd_and_even(lake)
    explanation = lake.explain("s.odd")
    assert explanation.incremental
    assert explanation.identity == "the whole row, once"
    assert "derived rows" in str(explanation.delta_sql)
    assert lake.describe("s.odd").definition.startswith("SELECT src, dst")
    assert {s.name for s in lake.status()} == {"s.even", "s.odd"}
    assert lake.lineage("s.odd", "dst")
    assert "s.odd" in str(lake.graph())
    insert(lake, [(3, 4)])
    assert {p.name for p in lake.plan("s.odd")} == {"s.even", "s.odd"}
    assert lake.status("s.odd")[0].pending
    assert lake.pending("s.odd")
    lake.refresh("s.odd")
    assert not lake.status("s.odd")[0].pending


def test_by_schedule(lake: Trickle) -> None:
    from spark_trickle.refresh.tick import Tick

    insert(lake, [(1, 2), (2, 3)])
    odd_and_even(lake)
    names = sorted(lake._name(n) for n in ("s.even", "s.odd"))
    insert(lake, [(3, 4)])
    tick = Tick.begin(lake.refresher, names, "schedule")
    assert tick.todo == (tuple(names),)
    assert [r.action for r in tick.refresh(tick.todo[0])] == [Action.DIFFERENTIAL] * 2
    tick.end()
    idle = Tick.begin(lake.refresher, names, "schedule")
    assert idle.todo == ()
    assert [r.action for r in idle.idle] == [Action.NO_DATA] * 2
