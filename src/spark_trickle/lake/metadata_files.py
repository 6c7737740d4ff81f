"""Iceberg's metadata files as JSON text. Such a file never changes, so what was read is kept by its location."""

from __future__ import annotations

import gzip
import json
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

from spark_trickle.errors import TrickleError
from spark_trickle.lake.cache import LruCache

Read = Callable[[str], bytes]

_KEPT = 128  # files
_LONGEST_KEPT = 512 * 1024  # characters: 64 MB for all of them
_LOCAL = re.compile(r"file:(?://)?|(?=/)")


class NotLocal(TrickleError):
    """Only a Spark session can read the file."""


class MetadataFiles:
    """Shared by threads. `read` is asked for what is not a local file; without it such a file is refused."""

    def __init__(self, read: Read | None = None) -> None:
        self._read = read
        self._texts = LruCache[tuple[str, bool], str](_KEPT)

    def text(self, location: str, *, only_referenced: bool = False) -> str:
        """The JSON; with `only_referenced`, of the snapshots only those that a branch or tag names.

        FileNotFoundError: there is no such file.
        """
        key = (location, only_referenced)
        kept = self._texts.find(key)
        if kept is not None:
            return kept
        metadata = self.metadata(location)
        text = json.dumps(referenced(metadata) if only_referenced else metadata, ensure_ascii=False)
        if len(text) <= _LONGEST_KEPT:
            self._texts.put(key, text)
        return text

    def metadata(self, location: str) -> dict[str, Any]:
        """Not cached."""
        return parsed(location, self._bytes(location))

    def _bytes(self, location: str) -> bytes:
        local = _LOCAL.match(location)
        if local is not None:
            return Path(location[local.end() :]).read_bytes()
        if self._read is None:
            raise NotLocal("INTERNAL", f"nothing was given that can read {location}, which is not a local file")
        return self._read(location)


def parsed(location: str, content: bytes) -> dict[str, Any]:
    """The metadata in a file, which may be compressed."""
    try:
        found = json.loads(gzip.decompress(content) if content.startswith(b"\x1f\x8b") else content)
    except (ValueError, OSError, EOFError) as error:
        raise TrickleError("CATALOG_CORRUPT", f"the metadata file {location} cannot be read: {error}") from error
    if not isinstance(found, dict) or "format-version" not in found:
        raise TrickleError("CATALOG_CORRUPT", f"the file {location} is not metadata of an Iceberg table or view")
    return found


def referenced(metadata: dict[str, Any]) -> dict[str, Any]:
    """
    >>> refs = {"main": {"snapshot-id": 2}}
    >>> referenced({"refs": refs, "snapshots": [{"snapshot-id": 1}, {"snapshot-id": 2}]})["snapshots"]
    [{'snapshot-id': 2}]
    """
    needed = {ref["snapshot-id"] for ref in metadata.get("refs", {}).values()} | {metadata.get("current-snapshot-id")}
    return {**metadata, "snapshots": [s for s in metadata.get("snapshots", ()) if s["snapshot-id"] in needed]}
