from __future__ import annotations

import os
from pathlib import Path

import pytest

from spark_trickle.config import Settings
from spark_trickle.errors import TrickleError

SECRET = "s3cret/p@ss"
URL = "postgresql://ann:s3cret%2Fp%40ss@db.example:6432/lake?sslmode=require&connect_timeout=5"


@pytest.fixture(autouse=True)
def _alone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """No setting of the machine reaches a test."""
    for variable in list(os.environ):
        if variable.startswith("TRICKLE_"):
            monkeypatch.delenv(variable)
    monkeypatch.chdir(tmp_path)


def refused(*args: object, **options: object) -> TrickleError:
    with pytest.raises(TrickleError) as caught:
        Settings.load(*args, **options)  # type: ignore[arg-type]
    assert caught.value.code == "INVALID_SETTING"
    return caught.value


def test_default_is_a_folder_in_the_current_directory(tmp_path: Path) -> None:
    settings = Settings.load()
    assert settings.location == tmp_path / "lakehouse"
    assert settings.database == tmp_path / "lakehouse" / "catalog.db"
    assert settings.warehouse_uri == f"file://{tmp_path}/lakehouse/warehouse"
    assert settings.warehouse_path == tmp_path / "lakehouse" / "warehouse"
    assert settings.jdbc_url == f"jdbc:sqlite:{tmp_path}/lakehouse/catalog.db"
    assert str(settings.sqlalchemy_url) == f"sqlite:///{tmp_path}/lakehouse/catalog.db"
    assert settings.jdbc_properties["transaction_mode"] == "IMMEDIATE"


def test_order_of_sources(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "trickle.toml").write_text('shuffle_partitions = 7\nlease_seconds = 11\ntime_zone = "Asia/Tokyo"\n')
    monkeypatch.setenv("TRICKLE_SHUFFLE_PARTITIONS", "8")
    monkeypatch.setenv("TRICKLE_LEASE_SECONDS", "12")
    settings = Settings.load(lease_seconds=13)
    assert (settings.lease_seconds, settings.shuffle_partitions, settings.time_zone) == (13, 8, "Asia/Tokyo")
    assert settings.max_change_ratio == 0.15


def test_none_as_keyword_means_not_given(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TRICKLE_SHUFFLE_PARTITIONS", "8")
    assert Settings.load(shuffle_partitions=None).shuffle_partitions == 8


def test_file_in_the_lake_folder(tmp_path: Path) -> None:
    lake = tmp_path / "lake"
    lake.mkdir()
    (lake / "trickle.toml").write_text("shuffle_partitions = 9\n")
    settings = Settings.load(lake)
    assert (settings.location, settings.shuffle_partitions) == (lake, 9)
    assert Settings.load("lake/trickle.toml").location == lake


def test_paths_in_a_file_are_relative_to_it(tmp_path: Path) -> None:
    (tmp_path / "conf").mkdir()
    (tmp_path / "conf" / "trickle.toml").write_text('location = "../data"\nwarehouse = "files"\n')
    settings = Settings.load("conf/trickle.toml")
    assert settings.location == tmp_path / "data"
    assert settings.warehouse_path == tmp_path / "conf" / "files"


def test_the_lake_that_is_named_is_the_lake_that_is_used(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A production URL in the environment must not be hit by someone who names a folder."""
    (tmp_path / "trickle.toml").write_text('catalog_url = "postgresql://db/prod"\nwarehouse = "s3a://prod"\n')
    monkeypatch.setenv("TRICKLE_CATALOG_URL", "postgresql://db/prod")
    monkeypatch.setenv("TRICKLE_WAREHOUSE", "s3a://prod")
    assert Settings.load().is_postgres
    settings = Settings.load("scratch")
    assert not settings.is_postgres
    assert settings.warehouse_path == tmp_path / "scratch" / "warehouse"


def test_spark_conf_is_merged_and_flattened(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "trickle.toml").write_text('[spark_conf]\nspark.sql.a = 1\n"spark.sql.b" = true\n"spark.c" = "x"\n')
    monkeypatch.setenv("TRICKLE_SPARK_CONF", '{"spark.c": "y"}')
    settings = Settings.load(spark_conf={"spark.sql.a": 2})
    assert settings.spark_conf == {"spark.sql.a": "2", "spark.sql.b": "true", "spark.c": "y"}


def test_postgres_url_in_three_spellings(monkeypatch: pytest.MonkeyPatch) -> None:
    by_argument = Settings.load(URL, warehouse="s3a://bucket/lake/")
    monkeypatch.setenv("TRICKLE_LOCATION", URL)
    monkeypatch.setenv("TRICKLE_WAREHOUSE", "s3a://bucket/lake/")
    assert Settings.load().sqlalchemy_url == by_argument.sqlalchemy_url
    by_keyword = Settings.load(catalog_url=URL, warehouse="s3a://bucket/lake/")
    assert by_keyword.jdbc_properties == by_argument.jdbc_properties
    assert by_argument.warehouse_uri == "s3a://bucket/lake"
    assert by_argument.warehouse_path is None


def test_postgres_url_for_java_and_for_python() -> None:
    settings = Settings.load(URL, warehouse="/w")
    assert settings.jdbc_url == "jdbc:postgresql://db.example:6432/lake"
    assert settings.jdbc_properties == {
        "user": "ann",
        "password": SECRET,
        "sslmode": "require",
        "connectTimeout": "5",
    }
    parsed = settings.sqlalchemy_url
    assert (parsed.username, parsed.password, parsed.host, parsed.port) == ("ann", SECRET, "db.example", 6432)
    assert parsed.drivername == "postgresql+psycopg"


def test_postgres_url_in_its_parts() -> None:
    settings = Settings.load("postgres://[::1]/my%20lake?application_name=x", warehouse="/w")
    assert settings.jdbc_url == "jdbc:postgresql://[::1]:5432/my lake"
    assert settings.jdbc_properties == {"ApplicationName": "x"}
    assert settings.shown_catalog == "postgresql://[::1]:5432/my lake"
    assert settings.sqlalchemy_url.database == "my lake"


def test_python_and_java_open_the_same_file(tmp_path: Path) -> None:
    settings = Settings.load(tmp_path / "lake%41 b")
    assert settings.jdbc_url == f"jdbc:sqlite:{settings.sqlalchemy_url.database}"
    assert settings.sqlalchemy_url.database == f"{tmp_path}/lake%41 b/catalog.db"


@pytest.mark.parametrize(
    "url",
    [
        "postgresql://ann:s3cret@x@db/lake",
        "postgresql://ann:s3cret@x/y@db/lake",
        "postgresql://ann:s3cret/x@db/lake",
        "postgresql://ann:s3cret?x@db/lake",
        "postgresql://ann:s3cret#x@db/lake",
        "postgresql://ann:s3cret@db:x/lake",
        "postgresql://ann:s3cret@db:65536/lake",
        "postgresql://db:5432/lake?password=s3cret@x",
    ],
)
def test_a_url_that_may_mean_something_else_is_refused_and_not_repeated(url: str) -> None:
    error = str(refused(url, warehouse="/w"))
    assert "percent-encode" in error
    assert "s3cret" not in error
    assert "x@" not in error


def test_a_password_in_the_query_is_not_shown_either() -> None:
    settings = Settings.load("postgresql://ann@db/lake?password=s3cret", warehouse="/w")
    assert settings.jdbc_properties["password"] == "s3cret"
    for text in (repr(settings), settings.shown_catalog, settings.jdbc_url, str(settings.shown())):
        assert "s3cret" not in text


def test_password_is_never_shown() -> None:
    conf = {"spark.hadoop.fs.s3a.secret.key": "hidden"}
    settings = Settings.load(URL, warehouse="/w", spark_conf=conf)
    url = settings.sqlalchemy_url
    for text in (repr(settings), str(settings), settings.shown_catalog, str(settings.shown()), str(url), repr(url)):
        assert SECRET not in text
        assert "s3cret" not in text
        assert "hidden" not in text
    assert "ann@db.example" in repr(settings)
    errors = [
        refused(URL),
        refused(URL + "\x00", shuffle_partitions=0),
        refused(URL.replace("6432", "x"), warehouse="/w"),
    ]
    errors += [refused(URL.replace("postgresql", "mysql"))]
    for error in errors:
        assert "s3cret" not in str(error)


@pytest.mark.parametrize(
    ("options", "says"),
    [
        ({"shuffle_partitions": 0}, "'shuffle_partitions' (keyword): 0:"),
        ({"shuffle_partitions": "many"}, "many"),
        ({"max_change_ratio": -1}, "max_change_ratio"),
        ({"max_change_ratio": float("nan")}, "max_change_ratio"),
        ({"driver_memory": "lots"}, "driver_memory"),
        ({"time_zone": "Mars/Olympus"}, "no such time zone"),
        ({"time_zone": "../../etc/passwd"}, "no such time zone"),
        ({"volatile_functions": "maybe"}, "reject"),
        ({"log_level": "loud"}, "ERROR"),
        ({"default_schedule": "sometimes"}, "'default_schedule' (keyword): 'sometimes' is not a valid schedule. Write"),
        ({"default_schedule": "99 99 99 99 99"}, "not a valid schedule"),
        ({"default_schedule": "0 0 31 2 *"}, "never fires"),
        ({"default_schedule": "30s", "min_schedule_seconds": 60}, "'30s' is shorter than min_schedule_seconds (60 s)"),
        ({"extra_packages": "not-a-coordinate"}, "group:artifact:version"),
        ({"spark_conf": {"sql.x": "1"}}, "spark."),
        ({"spark_conf": "x"}, "spark_conf"),
        ({"catalog_url": "mysql://db/x"}, "postgresql://"),
        ({"catalog_url": "postgresql://db/", "warehouse": "/w"}, "no database"),
        ({"catalog_url": "postgresql:///x", "warehouse": "/w"}, "no host"),
        ({"catalog_url": "postgresql://db/x?host=/run", "warehouse": "/w"}, "TCP"),
        ({"catalog_url": "postgresql://db/x"}, "warehouse"),
        ({"location": "s3a://bucket/x"}, "warehouse"),
        ({"location": "what?"}, "question mark"),
        ({"location": ""}, "empty"),
        ({"lease_seconds": 0}, "lease_seconds"),
    ],
)
def test_impossible_values_are_named(options: dict[str, object], says: str) -> None:
    assert says in str(refused(**options))


def test_unknown_names_are_named_with_their_source(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    error = refused(shufle_partitions=4)
    assert "'shufle_partitions' (keyword)" in error.message
    assert "shuffle_partitions" in error.hint
    (tmp_path / "trickle.toml").write_text("lease_second = 1\n")
    error = refused()
    assert "'lease_second' (trickle.toml)" in error.message
    assert "lease_seconds" in error.hint
    monkeypatch.setenv("TRICKLE_WAREHOSE", "/w")
    error = refused()
    assert "environment variable TRICKLE_WAREHOSE" in error.message
    assert "warehouse" in error.hint


def test_wrong_environment_and_files_are_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TRICKLE_LEASE_SECONDS", "soon")
    assert "environment variable TRICKLE_LEASE_SECONDS" in refused().message
    monkeypatch.delenv("TRICKLE_LEASE_SECONDS")
    monkeypatch.setenv("TRICKLE_SPARK_CONF", "{not json")
    assert "JSON" in refused().message
    monkeypatch.delenv("TRICKLE_SPARK_CONF")
    (tmp_path / "trickle.toml").write_text("a = = 1\n")
    assert "trickle.toml is not TOML" in refused().message
    assert "there is no file" in refused("missing.toml").message


@pytest.mark.parametrize("text", ["1h 30m", "2 hours", "0 9 * * MON-FRI", "Downstream", "calculated", "manual"])
def test_the_default_schedule_is_kept_as_written(text: str) -> None:
    assert Settings.load(default_schedule=f" {text} ").default_schedule == text


def test_a_raised_minimum_alone_is_no_error() -> None:
    assert Settings.load(min_schedule_seconds=300).default_schedule == "1m"


def test_settings_do_not_change() -> None:
    settings = Settings.load()
    with pytest.raises(Exception, match="frozen"):
        settings.shuffle_partitions = 5  # type: ignore[misc]
