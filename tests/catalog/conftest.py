"""Every test that takes `store` or `catalog_url` runs on a SQLite file and on a real PostgreSQL."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from spark_trickle.catalog.database import open_catalog
from spark_trickle.catalog.store import CatalogStore
from tests.postgres import NoPostgres, fresh_database, temporary_postgres


@pytest.fixture(scope="session")
def postgres_server() -> Iterator[str]:
    try:
        server = temporary_postgres()
        url = server.__enter__()
    except NoPostgres as error:
        if os.environ.get("REQUIRE_POSTGRES"):
            raise
        pytest.skip(f"no PostgreSQL: {error}")
    yield url
    server.__exit__(None, None, None)


@pytest.fixture
def sqlite_url(tmp_path: Path) -> str:
    return f"sqlite:///{tmp_path / 'catalog.db'}"


@pytest.fixture(params=["sqlite", pytest.param("postgres", marks=pytest.mark.postgres)])
def catalog_url(request: pytest.FixtureRequest) -> str:
    if request.param == "sqlite":
        return str(request.getfixturevalue("sqlite_url"))
    return fresh_database(request.getfixturevalue("postgres_server"))


@pytest.fixture
def store(catalog_url: str) -> Iterator[CatalogStore]:
    opened = open_catalog(catalog_url)
    yield opened
    opened.close()
