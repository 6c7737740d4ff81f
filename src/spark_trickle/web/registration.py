"""How other commands find the service of a lake.

An embedded lake has the file `service.json` in its folder, which only its owner can read; a lake in PostgreSQL has a
row in its catalog. An entry is believed only if its process lives and answers by its id, so one that a dead process
left does no harm, and the next service replaces it.
"""

from __future__ import annotations

import json
import logging
import os
import secrets
import socket
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from http.client import HTTPConnection, HTTPException
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

import psutil

from spark_trickle.errors import TrickleError

if TYPE_CHECKING:
    from pathlib import Path

    from spark_trickle.catalog.store import CatalogStore
    from spark_trickle.config import Settings

_log = logging.getLogger(__name__)

FILE_NAME = "service.json"
ANSWER_SECONDS = 0.3
_KEY = "service"


@dataclass(frozen=True, slots=True)
class Service:
    """Where a service answers."""

    id: str
    url: str
    host: str  # the machine's name
    pid: int
    started_at: str

    @classmethod
    def here(cls, url: str) -> Service:
        return cls(secrets.token_hex(8), url, socket.gethostname(), os.getpid(), datetime.now(UTC).isoformat())

    @classmethod
    def read(cls, text: str | None) -> Service | None:
        """None for what is no such entry: it is replaced."""
        try:
            found = cls(**json.loads(text or ""))
            return found if all(isinstance(v, t) for v, t in zip(asdict(found).values(), _TYPES, strict=True)) else None
        except (ValueError, TypeError):
            return None

    @property
    def text(self) -> str:
        return json.dumps(asdict(self), indent=1)

    def answers(self) -> bool:
        """Whether it is there, as far as can be told in a moment."""
        if self.host == socket.gethostname():
            if not psutil.pid_exists(self.pid):
                return False
        elif is_local(self.url):
            return False  # of another machine
        try:
            connection = connect(self.url, ANSWER_SECONDS)
            try:
                connection.request("GET", "/healthz")
                found = json.loads(connection.getresponse().read(10_000))
            finally:
                connection.close()
        except (OSError, ValueError, HTTPException):
            return False
        return isinstance(found, dict) and found.get("id") == self.id


_TYPES = (str, str, str, int, str)


def connect(url: str, seconds: float | None) -> HTTPConnection:
    parts = urlsplit(url)
    return HTTPConnection(parts.hostname or "", parts.port, timeout=seconds)


def is_local(url: str) -> bool:
    return (urlsplit(url).hostname or "").startswith(("127.", "::1", "localhost"))


def find(settings: Settings) -> Service | None:
    """The service of this lake, if one answers."""
    found = Service.read(_entry(settings))
    return found if found is not None and found.answers() else None


def _entry(settings: Settings) -> str | None:
    if not settings.is_postgres:
        return _text(settings.location / FILE_NAME)
    from spark_trickle.catalog.database import open_catalog

    store = open_catalog(settings.sqlalchemy_url)
    try:
        return store.setting(_KEY)
    finally:
        store.close()


def _text(file: Path) -> str | None:
    try:
        return file.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError):
        return None


class Registration:
    """The entry of this service. With several services on a lake, the first one has it, until it is gone."""

    def __init__(self, settings: Settings, store: CatalogStore, service: Service) -> None:
        self._file = None if settings.is_postgres else settings.location / FILE_NAME
        self._store = store
        self._service = service

    def keep(self) -> None:
        """Make the entry if there is none of a service that answers; to be called now and then."""
        try:
            there = self._read()
            if there is None or (there.id != self._service.id and not there.answers()):
                self._write(self._service.text)
        except (OSError, TrickleError) as error:  # the service works without
            _log.warning("other commands may not find this service: %s", error)

    def remove(self) -> None:
        try:
            there = self._read()
            if there is not None and there.id == self._service.id:
                self._write("")
        except (OSError, TrickleError) as error:
            _log.warning("the entry of this service stays: %s", error)

    def _read(self) -> Service | None:
        return Service.read(self._store.setting(_KEY) if self._file is None else _text(self._file))

    def _write(self, text: str) -> None:
        if self._file is None:
            with self._store.write() as tx:
                tx.put_setting(_KEY, text)
        elif not text:
            self._file.unlink(missing_ok=True)
        else:
            new = self._file.with_name(f"{FILE_NAME}.{self._service.id}")
            descriptor = os.open(new, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
            with os.fdopen(descriptor, "w", encoding="utf-8") as file:
                file.write(text)
            os.replace(new, self._file)
