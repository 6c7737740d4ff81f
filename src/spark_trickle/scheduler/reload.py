"""Settings that change while the process runs: `trickle.toml` is looked at, and what can take effect does.

docs/decisions/0023 says which can. A file that cannot be read, or is not there any more, changes nothing.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

from spark_trickle.config import Settings
from spark_trickle.errors import TrickleError

_log = logging.getLogger(__name__)

Stamp = tuple[int, int, int]  # time of change, size, inode


@dataclass(frozen=True, slots=True)
class Change:
    """What another reading of the settings means for a process that runs."""

    settings: Settings  # with what takes effect now
    changed: tuple[str, ...]
    waiting: tuple[str, ...]  # take effect when the process starts again


def change(now: Settings, read: Settings) -> Change:
    """Pure."""
    live = Settings.live()
    other = [name for name in Settings.model_fields if getattr(now, name) != getattr(read, name)]
    changed = tuple(name for name in other if name in live)
    settings = now.model_copy(update={name: getattr(read, name) for name in changed})
    return Change(settings, changed, tuple(name for name in other if name not in live))


@dataclass(slots=True)
class Reloader:
    """`apply` gets the settings that hold from now on."""

    settings: Settings
    apply: Callable[[Settings], object]
    _read: Stamp | None = field(init=False)
    _seen: Stamp | None = field(init=False)
    _told: str = ""
    _lock: threading.Lock = field(default_factory=threading.Lock)

    def __post_init__(self) -> None:
        self._read = self._seen = _stamp(self.settings.file)

    def look(self) -> None:
        """Read the file again if it has changed, and not since the last look: it may be half written."""
        stamp = _stamp(self.settings.file)
        settled, self._seen = stamp == self._seen, stamp
        if stamp != self._read and settled:
            self.reload()

    def reload(self) -> tuple[str, ...]:
        """Read all sources of settings again. Returns the names of those that changed."""
        with self._lock:
            return self._reload()

    def _reload(self) -> tuple[str, ...]:
        file = self.settings.file
        stamp = _stamp(file)
        gone = stamp is None and self._read is not None
        self._read = self._seen = stamp
        if gone:
            # An editor may be about to put it there again; and to fall back to defaults is nothing to do by accident.
            self._tell(f"{file} is gone")
            return ()
        try:
            found = change(self.settings, self.settings.loaded_again())
        except TrickleError as error:
            self._tell(str(error))
            return ()
        self._told = ""
        if found.waiting:
            _log.warning("these settings take effect when the process starts again: %s", ", ".join(found.waiting))
        if found.changed:
            self.settings = found.settings
            self.apply(found.settings)
            shown = found.settings.shown()
            _log.info("settings changed: %s", ", ".join(f"{name} = {shown[name]!r}" for name in found.changed))
        return found.changed

    def _tell(self, why: str) -> None:
        if why != self._told:
            _log.error("the settings stay as they are: %s", why)
        self._told = why


def _stamp(file: Path | None) -> Stamp | None:
    try:
        found = None if file is None else file.stat()
    except OSError:
        found = None
    return None if found is None else (found.st_mtime_ns, found.st_size, found.st_ino)
