"""Every method of reader and store, on both databases."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta, timezone

import pytest
from sqlalchemy import insert, text

from spark_trickle.catalog import tables
from spark_trickle.catalog.store import CatalogStore
from spark_trickle.errors import TrickleError
from spark_trickle.model import (
    Action,
    Column,
    Consistency,
    Dependency,
    InputKind,
    LakeFunction,
    Mode,
    Pointer,
    Source,
    Status,
    TableName,
)
from spark_trickle.results import HistoryEntry
from tests.catalog.records import (
    ORDERS,
    REVENUE,
    add_revenue,
    all_rows,
    code_of,
    orders_dependency,
    table_pointer,
)


def test_a_stream_table_comes_back_as_it_was_written(store: CatalogStore) -> None:
    deps = (
        orders_dependency(),
        orders_dependency(input=TableName("a", "b"), kind=InputKind.VIEW, columns=()),
    )
    before = datetime.now(UTC)
    with store.write() as tx:
        id = add_revenue(tx)
        tx.set_dependencies(id, deps)
    read = store.stream_table(REVENUE)
    assert read is not None
    assert (read.id, read.name, read.namespace) == (id, REVENUE, "shop.eu")
    assert read.definition == "SELECT 'it''s' AS ü FROM orders"
    assert (read.mode, read.schedule, read.status) == (Mode.AUTO, "1m", Status.INITIALIZING)
    assert read.columns == (Column("ü", "string"), Column("total", "decimal(12,2)"))
    assert (read.incremental, read.reason, read.fingerprint) == (True, None, "f1")
    assert read.layout == '{"identity": ["\\u00fc"]}'
    assert (read.published_snapshot, read.data_timestamp, read.last_error) == (None, None, None)
    assert read.consecutive_errors == 0
    assert before <= read.created_at <= datetime.now(UTC)
    assert read.created_at.utcoffset() == timedelta(0)
    assert read.dependencies == deps, "order and every field of the frontier"
    assert store.stream_table(TableName("sales", "other")) is None


def test_update_changes_the_named_fields_only(store: CatalogStore) -> None:
    moment = datetime(2026, 3, 1, 12, 0, 0, 123456, tzinfo=timezone(timedelta(hours=2)))
    with store.write() as tx:
        id = add_revenue(tx)
    with store.write() as tx:
        tx.update_stream_table(
            id,
            status=Status.ACTIVE,
            mode=Mode.FULL,
            schedule=None,
            columns=(Column("x", "int"),),
            incremental=False,
            reason="WINDOW",
            published_snapshot=-(2**63),
            published_pointer="file:/w/m.json",
            data_timestamp=moment,
            consecutive_errors=2,
            last_error="boom",
            scc_id=4,
            diamond_consistency=Consistency.ATOMIC,
        )
    read = store.stream_table(REVENUE)
    assert read is not None
    assert (read.status, read.mode, read.schedule) == (Status.ACTIVE, Mode.FULL, None)
    assert (read.columns, read.incremental) == ((Column("x", "int"),), False)
    assert (read.reason, read.published_snapshot) == ("WINDOW", -(2**63))
    assert read.published_pointer == "file:/w/m.json"
    assert (read.consecutive_errors, read.last_error) == (2, "boom")
    assert read.data_timestamp == moment
    assert (read.namespace, read.fingerprint) == ("shop.eu", "f1"), "untouched"


def test_rename_keeps_the_default_namespace(store: CatalogStore) -> None:
    with store.write() as tx:
        id = add_revenue(tx)
        tx.update_stream_table(id, name=TableName("other", "income"))
    read = store.stream_table(TableName("other", "income"))
    assert read is not None
    assert read.namespace == "shop.eu"
    assert store.stream_table(REVENUE) is None


def test_update_refuses_unknown_fields_and_rows(store: CatalogStore) -> None:
    with store.write() as tx:
        with pytest.raises(TypeError, match="colour"):
            tx.update_stream_table(1, colour="red")  # type: ignore[call-arg]
        with pytest.raises(TrickleError) as error:
            tx.update_stream_table(99, reason="x")
        assert code_of(error) == "UNKNOWN_STREAM_TABLE"
        with pytest.raises(TrickleError) as error:
            tx.delete_stream_table(99)
        assert code_of(error) == "UNKNOWN_STREAM_TABLE"


def test_a_name_is_given_once_and_the_transaction_goes_on(store: CatalogStore) -> None:
    with store.write() as tx:
        add_revenue(tx)
    with store.write() as tx:
        with pytest.raises(TrickleError) as error:
            add_revenue(tx, definition="other")
        assert code_of(error) == "NAME_TAKEN"
        assert "sales.revenue" in error.value.message
        add_revenue(tx, name=TableName("sales", "second"))
    assert [t.name.name for t in store.stream_tables()] == ["revenue", "second"]


@pytest.mark.parametrize("name", [TableName("", "x"), TableName("n", "x" * 256)])
def test_a_name_that_does_not_fit_is_refused_on_both(store: CatalogStore, name: TableName) -> None:
    with store.write() as tx:
        for write in (lambda: add_revenue(tx, name=name), lambda: tx.insert_pointer(table_pointer(name))):
            with pytest.raises(TrickleError) as error:
                write()
            assert code_of(error) == "INVALID_NAME"
    assert store.stream_tables() == ()


def test_delete_takes_dependencies_and_leaves_history(store: CatalogStore) -> None:
    with store.write() as tx:
        id = add_revenue(tx)
        tx.set_dependencies(id, [orders_dependency()])
        tx.start_refresh("r1", id, str(REVENUE), "manual")
    with store.write() as tx:
        tx.delete_stream_table(id)
    assert all_rows(store)["trickle_dependencies"] == []
    assert store.stream_tables() == ()
    assert [e.refresh_id for e in store.history()] == ["r1"]
    with store.write() as tx:
        assert add_revenue(tx) > id, "an id is never given twice"


@pytest.mark.parametrize(
    ("incremental", "changes", "moves"),
    [
        (True, {}, True),
        (True, {"snapshot_id": 5}, False),  # it is further behind
        (True, {"pointer": "file:/w/orders/metadata/00000.json"}, False),  # something happened that it has not seen
        (True, {"table_uuid": "0f5c7c1e-0000-4000-8000-000000000001"}, False),
        (False, {}, False),  # without a tree it may read tags, versions or the files
    ],
)
def test_frontiers_follow_upkeep(
    store: CatalogStore, incremental: bool, changes: dict[str, object], moves: bool
) -> None:
    base = orders_dependency()
    then = orders_dependency(**changes)
    with store.write() as tx:
        tx.set_dependencies(add_revenue(tx, incremental=incremental), [then])
        assert base.snapshot_id is not None
        assert base.pointer is not None
        tx.follow_upkeep(ORDERS, base.table_uuid, (base.snapshot_id, base.pointer), (7, "file:/new.json"))
    read = store.stream_table(REVENUE)
    assert read is not None
    expected = orders_dependency(snapshot_id=7, pointer="file:/new.json") if moves else then
    assert read.dependencies == (expected,)


def test_set_dependencies_replaces_all(store: CatalogStore) -> None:
    with store.write() as tx:
        id = add_revenue(tx)
        tx.set_dependencies(id, [orders_dependency(), orders_dependency(input=TableName("a", "b"))])
        moved = Dependency(ORDERS, InputKind.SOURCE)
        tx.set_dependencies(id, [moved])
    read = store.stream_table(REVENUE)
    assert read is not None
    assert read.dependencies == (moved,)
    with store.write() as tx:
        tx.set_dependencies(id, [])
    read = store.stream_table(REVENUE)
    assert read is not None
    assert read.dependencies == ()


def test_stream_tables_keep_their_dependencies_apart(store: CatalogStore) -> None:
    names = [TableName("s", n) for n in ("c", "a", "b")]
    with store.write() as tx:
        for count, name in enumerate(names):
            id = add_revenue(tx, name=name)
            tx.set_dependencies(
                id, [orders_dependency(input=TableName("shop", f"{name.name}{i}")) for i in range(count)]
            )
    read = {t.name.name: [d.input.name for d in t.dependencies] for t in store.stream_tables()}
    assert read == {"a": ["a0"], "b": ["b0", "b1"], "c": []}
    assert list(read) == ["a", "b", "c"]


def test_history_newest_first_with_limit_and_name(store: CatalogStore) -> None:
    with store.write() as tx:
        for i in range(5):
            tx.start_refresh(f"r{i}", 1, "s.a" if i % 2 else "s.b", "manual")
    assert [e.refresh_id for e in store.history()] == ["r4", "r3", "r2", "r1", "r0"]
    assert [e.refresh_id for e in store.history(limit=2)] == ["r4", "r3"]
    assert [e.refresh_id for e in store.history("s.a")] == ["r3", "r1"]
    assert store.history("s.none") == ()


def test_a_refresh_from_start_to_end(store: CatalogStore) -> None:
    with store.write() as tx:
        tx.start_refresh("r1", 1, "s.a", "manual")
    running = store.refresh_entry("r1")
    assert running is not None
    assert (running.state, running.action, running.ended_at, running.seconds) == ("RUNNING", None, None, None)
    with store.write() as tx:
        tx.finish_refresh(
            "r1",
            state="COMPLETED",
            action=Action.DIFFERENTIAL,
            reason="2 of 3 inputs changed",
            rows_inserted=3_000_000_000,
            rows_updated=2,
            rows_deleted=1,
            rows_changed={"shop.orders": 7},
            stages={"feed": 0.25, "apply": 1},
            seconds=1.5,
        )
    done = store.refresh_entry("r1")
    assert done is not None
    assert (done.state, done.action, done.reason) == (
        "COMPLETED",
        Action.DIFFERENTIAL,
        "2 of 3 inputs changed",
    )
    assert (done.rows_inserted, done.rows_updated, done.rows_deleted) == (3_000_000_000, 2, 1)
    assert (done.rows_changed, done.stages) == ({"shop.orders": 7}, {"feed": 0.25, "apply": 1.0})
    assert done.seconds == 1.5
    assert done.ended_at is not None
    assert done.started_at == running.started_at <= done.ended_at
    with store.write() as tx, pytest.raises(TrickleError) as error:
        tx.finish_refresh("r1", state="FAILED", action=None, reason=None, error_code="INTERNAL", error="late")
    assert code_of(error) == "LEASE_LOST"
    assert store.refresh_entry("r2") is None


def test_a_finished_refresh_in_one_row(store: CatalogStore) -> None:
    moment = datetime(2026, 1, 1, tzinfo=UTC)
    entry = HistoryEntry(
        refresh_id="r1",
        name="s.a",
        state="FAILED",
        action=Action.NO_DATA,
        reason="nothing changed",
        initiated_by="schedule",
        started_at=moment,
        ended_at=moment,
        seconds=0.001,
        rows_inserted=1,
        rows_updated=2,
        rows_deleted=3,
        rows_changed={"x": 1},
        stages={"check": 0.001},
        error_code="SPARK_FAILED",
        error="e",
    )
    with store.write() as tx:
        tx.add_refresh(entry, None)
    assert store.history() == (entry,)


def test_costs_are_those_of_refreshes_that_computed(store: CatalogStore) -> None:
    done: list[tuple[int, str, Action, float]] = [
        (1, "COMPLETED", Action.FULL, 4.0),
        (1, "COMPLETED", Action.NO_DATA, 0.001),
        (1, "FAILED", Action.DIFFERENTIAL, 9.0),
        (2, "COMPLETED", Action.FULL, 7.0),  # another stream table
        (1, "COMPLETED", Action.DIFFERENTIAL, 0.5),
    ]
    with store.write() as tx:
        for n, (table, state, action, seconds) in enumerate(done):
            tx.start_refresh(f"r{n}", table, "s.a", "manual")
            tx.finish_refresh(
                f"r{n}", state=state, action=action, reason="COST: slow", seconds=seconds, rows_changed={"s.t": n}
            )
    found = store.costs(1, limit=10)
    assert [(c.action, c.seconds, c.rows_changed) for c in found] == [
        (Action.DIFFERENTIAL, 0.5, {"s.t": 4}),
        (Action.FULL, 4.0, {"s.t": 0}),
    ]
    assert {c.code for c in found} == {"COST"}
    assert [c.seconds for c in store.costs(1, limit=1)] == [0.5]


def test_swap_moves_only_from_the_expected_pointer(store: CatalogStore) -> None:
    first, second, third = (table_pointer(REVENUE, version) for version in (1, 2, 3))
    with store.write() as tx:
        tx.insert_pointer(first)
        tx.insert_pointer(table_pointer(ORDERS))
    with store.write() as tx:
        tx.swap_pointer(REVENUE, first.location, second.location)
    assert store.pointers()[REVENUE] == second
    assert store.pointers()[ORDERS] == table_pointer(ORDERS), "no other row moved"
    for name, old in ((REVENUE, first.location), (TableName("no", "table"), second.location)):
        with pytest.raises(TrickleError) as error, store.write() as tx:
            tx.swap_pointer(name, old, third.location)
        assert code_of(error) == "PUBLISH_CONFLICT"
        assert str(name) in error.value.message
    assert store.pointers()[REVENUE] == second
    row = next(r for r in all_rows(store)["iceberg_tables"] if r[2] == REVENUE.name)
    assert row == ("lake", "sales", REVENUE.name, second.location, first.location, "TABLE")


def test_swap_leaves_private_copies_alone(store: CatalogStore) -> None:
    first, second = table_pointer(REVENUE, 1), table_pointer(REVENUE, 2)
    with store.write() as tx:
        tx.insert_pointer(first)
        tx.copy_pointers("trickle_ab12cd34_0", [first], ["sales"])
        tx.swap_pointer(REVENUE, first.location, second.location)
    assert store.pointers("trickle_ab12cd34_0") == {REVENUE: first}


def test_views_are_inserted_and_deleted(store: CatalogStore) -> None:
    view = table_pointer(REVENUE, is_view=True)
    with store.write() as tx:
        tx.insert_pointer(view)
        with pytest.raises(TrickleError) as error:
            tx.insert_pointer(table_pointer(REVENUE, 7))
        assert code_of(error) == "NAME_TAKEN"
    assert store.pointers() == {REVENUE: view}
    with store.write() as tx:
        assert tx.delete_pointer(REVENUE)
        assert not tx.delete_pointer(REVENUE)
    assert store.pointers() == {}


def test_a_location_that_iceberg_cannot_hold_is_refused(store: CatalogStore) -> None:
    with store.write() as tx, pytest.raises(TrickleError) as error:
        tx.insert_pointer(Pointer(REVENUE, "x" * 1001, False))
    assert code_of(error) == "INVALID_SETTING"


@pytest.mark.parametrize("many", [3, 1200])
def test_pointers_of_named_tables(store: CatalogStore, many: int) -> None:
    names = [TableName("n.deep", f"t{i}") for i in range(many)]
    with store.write() as tx:
        for name in (*names, TableName("n", "deep.t1"), TableName("n", "t1")):
            tx.insert_pointer(table_pointer(name))
    wanted = [*names[1:], TableName("n.deep", "missing")]
    assert store.pointers(names=wanted) == {n: table_pointer(n) for n in names[1:]}
    assert store.pointers(names=[]) == {}
    assert len(store.pointers()) == many + 2
    assert store.pointers("other") == {}


def test_private_catalogs_hold_what_was_copied_until_dropped(store: CatalogStore) -> None:
    pointers = [table_pointer(ORDERS), table_pointer(REVENUE, is_view=True)]
    with store.write() as tx:
        for pointer in pointers:
            tx.insert_pointer(pointer)
    lake = all_rows(store)
    with store.write() as tx:
        tx.copy_pointers("trickle_ab12cd34_0", pointers, ["shop.eu", "sales", "sales", "_trickle"])
    assert store.pointers("trickle_ab12cd34_0") == {p.name: p for p in pointers}
    assert store.namespaces("trickle_ab12cd34_0") == ("_trickle", "sales", "shop.eu")
    marks = [r for r in all_rows(store)["iceberg_namespace_properties"] if r[0] != "lake"]
    assert {r[2:] for r in marks} == {("exists", "true")}
    with store.write() as tx:
        tx.drop_catalog("trickle_ab12cd34_0")
    assert all_rows(store) == lake


def test_the_lake_is_no_private_catalog(store: CatalogStore) -> None:
    with store.write() as tx:
        tx.insert_pointer(table_pointer(ORDERS))
        for refused in (
            lambda: tx.drop_catalog("lake"),
            lambda: tx.copy_lake("lake"),
            lambda: tx.copy_pointers("lake", [], []),
        ):
            with pytest.raises(TrickleError) as error:
                refused()
            assert code_of(error) == "INTERNAL"
    assert store.pointers() == {ORDERS: table_pointer(ORDERS)}


def test_properties_of_a_namespace(store: CatalogStore) -> None:
    n = tables.iceberg_namespaces
    with store.write() as tx:
        tx.ensure_namespace("shop")
        for catalog, key in (("lake", "owner"), ("lake", "comment"), ("other", "secret")):
            row = {"catalog_name": catalog, "namespace": "shop", "property_key": key, "property_value": f"its {key}"}
            tx.connection.execute(n.insert().values(**row))
    assert store.namespace_properties("shop") == {"comment": "its comment", "owner": "its owner"}
    assert store.namespace_properties("elsewhere") == {}


def test_namespaces_are_made_once(store: CatalogStore) -> None:
    with store.write() as tx:
        tx.ensure_namespace("_trickle")
        tx.ensure_namespace("_trickle")
        tx.ensure_namespace("a.b")
    assert store.namespaces() == ("_trickle", "a.b")


def test_a_named_cut_keeps_the_lake(store: CatalogStore) -> None:
    old = {p.name: p for p in (table_pointer(ORDERS), table_pointer(REVENUE, is_view=True))}
    with store.write() as tx:
        for pointer in old.values():
            tx.insert_pointer(pointer)
        tx.ensure_namespace("empty")
        tx.connection.execute(text("INSERT INTO iceberg_namespace_properties VALUES ('lake', 'sales', 'comment', 'x')"))
        tx.copy_pointers("trickle_ab12cd34_0", [table_pointer(TableName("p", "q"))], ["p"])
    with store.write() as tx:
        cut = tx.add_cut("month_end", "closing")
    with store.write() as tx:
        tx.swap_pointer(ORDERS, old[ORDERS].location, "file:/w/new.json")
        tx.delete_pointer(REVENUE)
    assert store.pointers(cut.catalog_name) == old
    assert store.namespaces(cut.catalog_name) == ("empty", "sales", "shop.eu")
    properties = {r[1:] for r in all_rows(store)["iceberg_namespace_properties"] if r[0] == cut.catalog_name}
    assert ("sales", "comment", "x") in properties
    assert store.cuts() == (cut,)
    assert cut.comment == "closing"
    with store.write() as tx:
        with pytest.raises(TrickleError) as error:
            tx.add_cut("month_end")
        assert code_of(error) == "NAME_TAKEN"
        with pytest.raises(TrickleError) as error:
            tx.drop_cut("year_end")
        assert code_of(error) == "UNKNOWN_CUT"
        assert "month_end" in error.value.message
        with pytest.raises(TrickleError) as error:
            tx.add_cut("")
        assert code_of(error) == "INVALID_NAME"
        tx.drop_cut("month_end")
    assert store.cuts() == ()
    assert store.pointers(cut.catalog_name) == {}
    assert store.namespaces(cut.catalog_name) == ()


def test_settings_and_garbage(store: CatalogStore) -> None:
    now = datetime.now(UTC)
    with store.write() as tx:
        tx.put_setting("a", "1")
        tx.put_setting("a", "2")
        tx.add_garbage("file:/w/a", kind="table", reason="dropped")
        tx.add_garbage("file:/w/b", not_before=now + timedelta(hours=1))
    assert store.setting("a") == "2"
    assert store.setting("b") is None
    assert [g.location for g in store.garbage()] == ["file:/w/a", "file:/w/b"]
    (due,) = store.garbage(due=now)
    assert (due.kind, due.location, due.reason) == ("table", "file:/w/a", "dropped")
    assert len(store.garbage(due=now + timedelta(hours=2))) == 2
    with store.write() as tx:
        tx.drop_garbage([])
        tx.drop_garbage([due.id])
    assert [g.location for g in store.garbage()] == ["file:/w/b"]


def test_the_check_reads_the_stream_table_and_its_inputs(store: CatalogStore) -> None:
    below = TableName("sales", "items")
    pointers = [
        table_pointer(ORDERS),
        table_pointer(REVENUE),
        table_pointer(below),
        table_pointer(TableName("shop", "unrelated")),
    ]
    deps = (
        orders_dependency(),
        orders_dependency(input=below, kind=InputKind.STREAM_TABLE),
        orders_dependency(input=TableName("shop", "dropped")),
    )
    with store.write() as tx:
        for pointer in pointers:
            tx.insert_pointer(pointer)
        tx.copy_pointers("trickle_ab12cd34_0", [Pointer(ORDERS, "file:/private", False)], [])
        add_revenue(tx, name=below)
        tx.set_dependencies(add_revenue(tx), deps)
    check = store.snapshot_for_check(REVENUE)
    assert check is not None
    assert check.stream_table == store.stream_table(REVENUE)
    assert check.stream_table.dependencies == deps
    assert check.pointers == {p.name: p for p in pointers[:3]}
    assert store.snapshot_for_check(ORDERS) is None


def test_the_check_of_a_table_without_inputs(store: CatalogStore) -> None:
    with store.write() as tx:
        add_revenue(tx)
    check = store.snapshot_for_check(REVENUE)
    assert check is not None
    assert (check.stream_table.dependencies, check.pointers) == ((), {})


def test_a_transaction_that_fails_leaves_nothing(store: CatalogStore) -> None:
    first = table_pointer(REVENUE)
    with store.write() as tx:
        id = add_revenue(tx)
        tx.set_dependencies(id, [orders_dependency()])
        tx.insert_pointer(first)
        tx.start_refresh("r1", id, str(REVENUE), "manual")
    before = all_rows(store)
    with pytest.raises(KeyboardInterrupt), store.write() as tx:  # noqa: PT012
        tx.swap_pointer(REVENUE, first.location, "file:/w/new.json")
        tx.set_dependencies(id, [])
        tx.update_stream_table(id, status=Status.ACTIVE)
        tx.finish_refresh("r1", state="COMPLETED", action=Action.FULL, reason=None)
        tx.add_cut("c")
        tx.alerts.raise_("STALE", "y", "s.a")
        assert tx.delete_pointer(REVENUE)
        raise KeyboardInterrupt
    assert all_rows(store) == before


def test_names_are_never_sql(store: CatalogStore) -> None:
    name = TableName("a'; DROP TABLE x; --", 'b"`%(p)s :x \\')
    with store.write() as tx:
        add_revenue(tx, name=name, definition="%s :name ?")
        tx.insert_pointer(table_pointer(name))
        tx.add_cut(name.name)
    read = store.stream_table(name)
    assert read is not None
    assert (read.name, read.definition) == (name, "%s :name ?")
    assert store.pointers(names=[name]) == {name: table_pointer(name)}
    assert store.cuts()[0].name == name.name


def test_functions(store: CatalogStore) -> None:
    net = LakeFunction("net", "shop.prices:net", "decimal(10,2)", deterministic=True)
    dice = LakeFunction("dice", "shop.games:dice", "int", deterministic=False)
    with store.write() as tx:
        tx.add_function(net)
        tx.add_function(dice)
        with pytest.raises(TrickleError) as error:
            tx.add_function(LakeFunction("net", "other:net", "int", deterministic=True))
        assert code_of(error) == "NAME_TAKEN"
        id = add_revenue(tx)
        tx.update_stream_table(id, functions=(("net", "v1"),))
    assert store.functions() == (dice, net)
    (table,) = store.stream_tables()
    assert table.functions == (("net", "v1"),)
    with store.write() as tx:
        with pytest.raises(TrickleError) as error:
            tx.drop_function("net")
        assert code_of(error) == "HAS_DEPENDENTS"
        assert str(REVENUE) in error.value.message
        tx.drop_function("dice")
        with pytest.raises(TrickleError) as error:
            tx.drop_function("dice")
        assert code_of(error) == "UNKNOWN_FUNCTION"
        assert "net" in error.value.message
        tx.update_stream_table(id, functions=())
        tx.drop_function("net")
    assert store.functions() == ()


def test_sources(store: CatalogStore) -> None:
    """A source has its name by a view; a view that somebody replaced leaves a row that is not in the way."""
    clicks = Source("shop.eu.clicks", "delta", "s3a://b/clicks ü", "file:/w/v1.json")
    name = TableName("shop.eu", "clicks")
    with store.write() as tx:
        tx.add_source(clicks)
        with pytest.raises(TrickleError) as error:
            tx.add_source(clicks)
        assert code_of(error) == "NAME_TAKEN"
        id = add_revenue(tx)
        state = add_revenue(tx, name=TableName("_trickle", "state"), owner_id=id)
        tx.set_dependencies(state, [orders_dependency(input=name)])
    assert store.sources() == (clicks,)
    assert store.pointers() == {name: Pointer(name, clicks.view, is_view=True)}
    assert "shop.eu" in store.namespaces()
    with store.write() as tx:
        with pytest.raises(TrickleError) as error:
            tx.drop_source(name)
        assert code_of(error) == "HAS_DEPENDENTS"
        assert f"read by {REVENUE}" in error.value.message  # the owner, not its hidden state table
        with pytest.raises(TrickleError) as error:
            tx.drop_source(REVENUE)
        assert code_of(error) == "UNKNOWN_SOURCE"
        assert "shop.eu.clicks" in error.value.message
        tx.delete_stream_table(state)
        tx.delete_pointer(name)
        tx.insert_pointer(table_pointer(name))
        tx.drop_source(name)
    assert store.sources() == ()
    assert store.pointers() == {name: table_pointer(name)}  # somebody else's by now
    with store.write() as tx:
        tx.delete_pointer(name)
        tx.add_source(clicks)
        tx.delete_pointer(name)
        moved = Source(clicks.name, "delta", "/elsewhere", "file:/w/v2.json")
        tx.add_source(moved)
    assert store.sources() == (moved,)


def test_recent_refreshes_of_each_stream_table(store: CatalogStore) -> None:
    """The last ones of each, the oldest first; other stream tables and those without a history do no harm."""
    with store.write() as tx:
        ids = [add_revenue(tx, name=TableName("s", n)) for n in "abc"]
        row = dict.fromkeys(("rows_inserted", "rows_updated", "rows_deleted"), 0)
        row |= {"rows_changed": "{}", "stages": "{}", "initiated_by": "manual", "started_at": datetime.now(UTC)}
        for n in range(5):
            for id_ in ids[:2]:
                state = "RUNNING" if (n, id_) == (4, ids[0]) else "COMPLETED"
                more = {"refresh_id": f"{n}.{id_}", "stream_table_id": id_, "name": "s.x", "state": state}
                done = {"action": "FULL", "seconds": float(n)} if state == "COMPLETED" else {}
                tx.connection.execute(insert(tables.refresh_history).values(**row, **more, **done))
    found = store.recent(ids, 3)
    assert [r.seconds for r in found[ids[0]]] == [2.0, 3.0, None]
    assert found[ids[0]][-1].state == "RUNNING"
    assert [(r.action, r.seconds) for r in found[ids[1]]] == [
        (Action.FULL, 2.0),
        (Action.FULL, 3.0),
        (Action.FULL, 4.0),
    ]
    assert found[ids[2]] == ()
    assert store.recent(ids[:1], 100)[ids[0]][0].seconds == 0.0
    assert store.recent([], 3) == {}
