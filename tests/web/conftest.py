"""The page over an empty catalog, asked on a real server. Tests of other routers have fixtures of the same names."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from pathlib import Path

import httpx
import pytest

from spark_trickle.catalog.database import open_catalog
from spark_trickle.catalog.store import CatalogStore
from spark_trickle.config import Settings
from tests.web.page_lake import PageLake
from tests.web.pages import CURRENT, asking
from tests.web.serving import served


@pytest.fixture(scope="module")
def server() -> Iterator[str]:
    with served(CURRENT) as address:  # type: ignore[arg-type]
        yield address


@pytest.fixture
def settings(tmp_path: Path) -> Settings:
    return Settings.load(tmp_path / "lakehouse")


@pytest.fixture(scope="module")
def empty_catalog(tmp_path_factory: pytest.TempPathFactory) -> Path:
    settings = Settings.load(tmp_path_factory.mktemp("empty"))
    open_catalog(settings.sqlalchemy_url).close()
    return settings.location


@pytest.fixture
def store(settings: Settings, empty_catalog: Path) -> Iterator[CatalogStore]:
    shutil.copytree(empty_catalog, settings.location)
    store = open_catalog(settings.sqlalchemy_url)
    yield store
    store.close()


@pytest.fixture
def lake(store: CatalogStore, settings: Settings) -> PageLake:
    lake = PageLake(store, settings)
    lake.led()
    return lake


@pytest.fixture
def client(lake: PageLake) -> Iterator[httpx.Client]:
    with asking(lake) as client:
        yield client
