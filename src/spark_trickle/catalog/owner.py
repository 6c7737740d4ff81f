"""Who holds a lease, and whether that process can still be alive."""

from __future__ import annotations

import os
import socket
import uuid
from dataclasses import dataclass
from functools import cache
from pathlib import Path


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
        pid = os.getpid()
        return cls(uuid.uuid4().hex[:8], socket.gethostname(), _machine(), pid, _start_mark(pid) or "")

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
        if not self.start_mark:
            return not _exists(self.pid)
        return _start_mark(self.pid) != self.start_mark

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


def _start_mark(pid: int) -> str | None:
    """The start time of a process in ticks since boot; None when it is gone or a zombie."""
    try:
        text = Path(f"/proc/{pid}/stat").read_text()
    except OSError:
        return None
    # The command name, in parentheses, may itself hold spaces and parentheses.
    fields = text.rpartition(")")[2].split()
    return None if fields[0] in ("Z", "X") else fields[19]


def _exists(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    except PermissionError:
        return True
    return True
