"""Who holds a lease, and whether that process can still be alive."""

from __future__ import annotations

import os
import socket
import uuid
from dataclasses import dataclass
from functools import cache
from pathlib import Path

import psutil

# What two readings of one start may differ by: the clock can be set between psutil's looks at it. No pid comes round
# again so soon, and if one did, the lease would be waited for until it expires.
_SAME_START_SECONDS = 5


@dataclass(frozen=True, slots=True)
class Owner:
    """One user of a catalog in one process.

    `machine` tells apart hosts, boots and containers of one name; `start_mark` tells apart two processes that
    were given the same pid. Both are empty where the system does not say.
    """

    id: str
    host: str
    machine: str
    pid: int
    start_mark: str

    @classmethod
    def here(cls) -> Owner:
        process = psutil.Process()
        return cls(uuid.uuid4().hex[:8], socket.gethostname(), _machine(), process.pid, _start_mark(process))

    @property
    def process_lease(self) -> str:
        """The lease that stands for the owner being alive."""
        return f"process:{self.id}"

    def private_catalog(self, number: int) -> str:
        """The catalog name of this owner's attempt or reader cut."""
        return f"trickle_{self.id}_{number}"

    def is_dead(self) -> bool:
        """True only when it is certain: same machine, and the process is gone or is another one."""
        if self.host != socket.gethostname() or self.machine != _machine():
            return False
        try:
            process = psutil.Process(self.pid)
            if process.status() in (psutil.STATUS_ZOMBIE, psutil.STATUS_DEAD):
                return True
            found = _start_mark(process)
        except psutil.NoSuchProcess:
            return True
        except psutil.AccessDenied:
            return False
        if not (found.isdecimal() and self.start_mark.isdecimal()):  # one of the two says nothing
            return False
        return abs(int(found) - int(self.start_mark)) > _SAME_START_SECONDS * _ticks()

    def __str__(self) -> str:
        return f"process {self.pid} on {self.host}"


@cache
def _machine() -> str:
    """Boot and pid namespace: only inside one of these do pids mean the same."""
    try:
        boot = Path("/proc/sys/kernel/random/boot_id").read_text().strip()
        return f"{boot}/{os.readlink('/proc/self/ns/pid')}"
    except OSError:
        return ""


def _start_mark(process: psutil.Process) -> str:
    """The start of a process in ticks since boot; empty where that is not to be had.

    Not seconds since 1970, as psutil gives them: those move when the clock is set, and a living process would be
    taken for another one. On Linux the time of the boot moves with them; elsewhere the pid must do.
    """
    if not _machine():
        return ""
    try:
        return str(round((process.create_time() - psutil.boot_time()) * _ticks()))
    except (OSError, RuntimeError):  # no time of the boot
        return ""


def _ticks() -> int:
    return os.sysconf("SC_CLK_TCK")
