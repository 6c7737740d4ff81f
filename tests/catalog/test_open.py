"""Opening: new, current, newer, broken and unreachable catalogs."""

from __future__ import annotations

import socket
import sqlite3
import subprocess
import sys
import threading
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from datetime import datetime
from pathlib import Path

import pytest
from sqlalchemy import inspect, text

from spark_trickle.catalog import migrations
from spark_trickle.catalog.connection import Database
from spark_trickle.catalog.database import open_catalog
from spark_trickle.catalog.migrations import HEAD, REVISIONS, VERSION_TABLE
from spark_trickle.catalog.store import CatalogStore
from spark_trickle.catalog.tables import metadata
from spark_trickle.errors import TrickleError
from spark_trickle.model import Pointer, TableName
from tests.catalog.records import code_of


def test_the_migrations_make_the_tables_of_the_metadata(store: CatalogStore) -> None:
    """Tables, columns, types, nullability and keys: the two descriptions cannot drift apart."""
    from alembic.autogenerate import compare_metadata
    from alembic.migration import MigrationContext

    with store.database.read() as connection:
        context = MigrationContext.configure(
            connection, opts={"version_table": VERSION_TABLE, "compare_type": not store.database.is_sqlite}
        )
        assert compare_metadata(context, metadata) == []
        assert set(inspect(connection).get_table_names()) == {*metadata.tables, VERSION_TABLE}


def test_the_revisions_listed_are_the_revisions_there_are() -> None:
    from alembic.config import Config
    from alembic.script import ScriptDirectory

    config = Config()
    config.set_main_option("script_location", str(Path(migrations.__file__).parent))
    config.set_main_option("path_separator", "os")
    scripts = list(ScriptDirectory.from_config(config).walk_revisions())
    assert tuple(s.revision for s in reversed(scripts)) == REVISIONS
    assert all(s.doc and "\n" not in s.doc for s in scripts), "one line says what changes"


def test_the_history_of_before_has_data_timestamps(catalog_url: str) -> None:
    """Those of refreshes that ended well, as far as they can be known: when they began."""
    from alembic import command
    from alembic.config import Config

    config = Config()
    config.set_main_option("script_location", str(Path(migrations.__file__).parent))
    config.set_main_option("path_separator", "os")
    database = Database(catalog_url)
    begun = "2026-03-02T12:00:00.000000+00:00"
    columns = "refresh_id, name, state, action, initiated_by, started_at, rows_inserted, rows_updated, rows_deleted"
    with database.write() as connection:
        config.attributes["connection"] = connection
        command.upgrade(config, "0007")
        for n, (state, action) in enumerate((("COMPLETED", "'FULL'"), ("COMPLETED", "'SKIP'"), ("FAILED", "NULL"))):
            values = f"'r{n}', 's.t', '{state}', {action}, 'manual', '{begun}', 0, 0, 0, '{{}}', '{{}}'"
            insert = f"INSERT INTO trickle_refresh_history ({columns}, rows_changed, stages) VALUES ({values})"
            connection.execute(text(insert.replace(":00", r"\:00")))
    database.close()
    store = open_catalog(catalog_url)
    found = {e.refresh_id: e.data_timestamp for e in store.history()}
    assert found == {"r0": datetime.fromisoformat(begun), "r1": None, "r2": None}
    store.close()


def test_opening_again_changes_nothing_and_does_not_load_alembic(catalog_url: str) -> None:
    first = open_catalog(catalog_url)
    with first.write() as tx:
        tx.put_setting("a", "1")
    first.close()
    program = (
        "import sys\n"
        "from spark_trickle.catalog.database import open_catalog\n"
        "assert open_catalog(sys.argv[1]).setting('a') == '1'\n"
        "assert not any(m.split('.')[0] in ('alembic', 'pyspark') for m in sys.modules)\n"
    )
    subprocess.run([sys.executable, "-c", program, catalog_url], check=True, timeout=60)


def test_tables_that_iceberg_made_first_are_kept(catalog_url: str) -> None:
    """Schema V0 of Iceberg's catalog, without views, gains its column; its rows are tables."""
    database = Database(catalog_url)
    with database.write() as connection:
        connection.execute(
            text(
                "CREATE TABLE iceberg_tables (catalog_name VARCHAR(255) NOT NULL,"
                " table_namespace VARCHAR(255) NOT NULL, table_name VARCHAR(255) NOT NULL,"
                " metadata_location VARCHAR(1000),"
                " previous_metadata_location VARCHAR(1000),"
                " PRIMARY KEY (catalog_name, table_namespace, table_name))"
            )
        )
        connection.execute(text("INSERT INTO iceberg_tables VALUES ('lake', 'n', 't', 'file:/m.json', NULL)"))
    database.close()
    store = open_catalog(catalog_url)
    name = TableName("n", "t")
    assert store.pointers() == {name: Pointer(name, "file:/m.json", False)}
    with store.write() as tx:
        tx.insert_pointer(Pointer(TableName("n", "v"), "file:/v.json", True))
    assert store.pointers()[TableName("n", "v")].is_view
    store.close()


def test_a_newer_catalog_is_refused(catalog_url: str) -> None:
    store = open_catalog(catalog_url)
    with store.write() as tx:
        tx.connection.execute(text(f"UPDATE {VERSION_TABLE} SET version_num = '9999'"))
    store.close()
    with pytest.raises(TrickleError) as error:
        open_catalog(catalog_url)
    assert code_of(error) == "CATALOG_NEWER"
    assert "9999" in error.value.message
    assert HEAD in error.value.message


def test_a_catalog_that_lost_its_version_is_corrupt(catalog_url: str) -> None:
    store = open_catalog(catalog_url)
    with store.write() as tx:
        tx.connection.execute(text(f"DELETE FROM {VERSION_TABLE}"))
    store.close()
    with pytest.raises(TrickleError) as error:
        open_catalog(catalog_url)
    assert code_of(error) == "CATALOG_CORRUPT"


def test_a_missing_table_is_corrupt(store: CatalogStore) -> None:
    with store.write() as tx:
        tx.connection.execute(text("DROP TABLE trickle_settings"))
    with pytest.raises(TrickleError) as error:
        store.setting("a")
    assert code_of(error) == "CATALOG_CORRUPT"
    assert "trickle_settings" in error.value.message


def test_a_failed_migration_leaves_the_database_as_it_was(catalog_url: str) -> None:
    """A foreign table in the way of the last one made: none of ours stays behind."""
    database = Database(catalog_url)
    with database.write() as connection:
        connection.execute(text("CREATE TABLE trickle_garbage (x INT)"))
    with pytest.raises(TrickleError):
        open_catalog(catalog_url)
    with database.read() as connection:
        assert inspect(connection).get_table_names() == ["trickle_garbage"]
    with database.write() as connection:
        connection.execute(text("DROP TABLE trickle_garbage"))
    database.close()
    open_catalog(catalog_url).close()


def test_sqlite_uses_wal(sqlite_url: str, tmp_path: Path) -> None:
    open_catalog(sqlite_url).close()
    with sqlite3.connect(tmp_path / "catalog.db") as plain:
        assert plain.execute("PRAGMA journal_mode").fetchone() == ("wal",)


def test_the_switch_to_wal_waits_for_a_writer(sqlite_url: str, tmp_path: Path) -> None:
    """SQLite refuses the switch at once, whatever the timeout, while another connection writes."""
    writer = sqlite3.connect(tmp_path / "catalog.db", isolation_level=None, check_same_thread=False)
    writer.execute("CREATE TABLE x (y)")
    writer.execute("BEGIN IMMEDIATE")
    writer.execute("INSERT INTO x VALUES (1)")
    timer = threading.Timer(0.4, writer.execute, ("COMMIT",))
    timer.start()
    open_catalog(sqlite_url).close()
    timer.join()
    writer.close()
    with sqlite3.connect(tmp_path / "catalog.db") as plain:
        assert plain.execute("PRAGMA journal_mode").fetchone() == ("wal",)


def test_a_file_that_is_no_database(sqlite_url: str, tmp_path: Path) -> None:
    (tmp_path / "catalog.db").write_bytes(b"this is a letter to my aunt " * 100)
    with pytest.raises(TrickleError) as error:
        open_catalog(sqlite_url)
    assert code_of(error) == "CATALOG_UNAVAILABLE"
    assert "catalog.db" in error.value.message


def test_a_folder_that_is_missing(tmp_path: Path) -> None:
    with pytest.raises(TrickleError) as error:
        open_catalog(f"sqlite:///{tmp_path}/no/catalog.db")
    assert code_of(error) == "CATALOG_UNAVAILABLE"


@pytest.mark.parametrize(("user", "query"), [("me:geheim", ""), ("me", "?password=geheim&sslpassword=geheim2")])
def test_no_server_and_no_password_in_the_message(user: str, query: str) -> None:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))  # bound, not listening: refused at once
        port = probe.getsockname()[1]
        with pytest.raises(TrickleError) as error:
            open_catalog(f"postgresql://{user}@127.0.0.1:{port}/db{query}")
    assert code_of(error) == "CATALOG_UNAVAILABLE"
    assert f"{user.replace('geheim', '***')}@127.0.0.1:{port}" in error.value.message
    assert "geheim" not in str(error.value)


@pytest.mark.postgres
def test_a_server_that_goes_away_and_comes_back(postgres_server: str) -> None:
    from tests.postgres import fresh_database

    url = fresh_database(postgres_server)
    store, other = open_catalog(url), open_catalog(url)
    with pytest.raises(TrickleError) as error, store.write() as tx:  # noqa: PT012
        tx.put_setting("a", "1")
        with other.database.autocommit() as connection:
            end = "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE datname = current_database()"
            connection.execute(text(f"{end} AND pid <> pg_backend_pid()"))
        tx.put_setting("a", "2")
    assert code_of(error) == "CATALOG_UNAVAILABLE"
    assert store.setting("a") is None, "rolled back, and the store works again"
    store.close()
    other.close()


@pytest.mark.postgres
def test_a_connection_lost_in_the_commit_is_told_apart(postgres_server: str) -> None:
    from spark_trickle.catalog.connection import OutcomeUnknown
    from tests.postgres import fresh_database

    url = fresh_database(postgres_server)
    store, other = open_catalog(url), open_catalog(url)
    with pytest.raises(OutcomeUnknown) as error, store.write() as tx:  # noqa: PT012
        tx.put_setting("a", "1")
        with other.database.autocommit() as connection:
            end = "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE datname = current_database()"
            connection.execute(text(f"{end} AND pid <> pg_backend_pid()"))
    assert error.value.retryable
    store.close()
    other.close()


@pytest.mark.postgres
def test_a_process_that_is_paused_in_a_transaction_does_not_keep_its_locks(postgres_server: str) -> None:
    from tests.postgres import fresh_database

    url = fresh_database(postgres_server)
    paused, other = open_catalog(url, busy_seconds=0.5), open_catalog(url)
    with pytest.raises(TrickleError) as error, paused.write() as tx:  # noqa: PT012
        tx.put_setting("a", "1")
        with other.write() as others:  # waits for the row, until the server ends the first one
            others.put_setting("a", "2")
        tx.put_setting("a", "3")
    assert code_of(error) == "CATALOG_UNAVAILABLE"
    assert other.setting("a") == "2"
    assert paused.setting("a") == "2", "it works again"
    paused.close()
    other.close()


@pytest.mark.parametrize("url", ["sqlite://", "sqlite:///:memory:", "mysql://u:geheim@h/d", "nonsense geheim"])
def test_other_urls_are_refused(url: str) -> None:
    with pytest.raises(TrickleError) as error:
        open_catalog(url)
    assert code_of(error) == "INVALID_SETTING"
    assert "geheim" not in str(error.value)


def test_a_path_with_odd_characters(tmp_path: Path) -> None:
    folder = tmp_path / "größe 100% #1?"
    folder.mkdir()
    from sqlalchemy import URL

    url = URL.create("sqlite", database=str(folder / "catalog.db")).render_as_string()
    store = open_catalog(url)
    with store.write() as tx:
        tx.put_setting("a", "1")
    assert store.setting("a") == "1"
    assert (folder / "catalog.db").exists()
    store.close()


def test_two_new_catalogs_at_once(tmp_path: Path) -> None:
    """Alembic keeps its context in the process: two migrations must not meet in it."""

    def make(n: int) -> int:
        with closing(open_catalog(f"sqlite:///{tmp_path / f'catalog{n}.db'}")) as store:
            return len(store.stream_tables())

    with ThreadPoolExecutor(4) as pool:
        assert list(pool.map(make, range(8))) == [0] * 8
