"""Services as processes of their own."""

from __future__ import annotations

import os
import selectors
import signal
import subprocess
import sys
import time
from dataclasses import dataclass
from pathlib import Path

import psutil


@dataclass
class Service:
    """A `tests.service.daemon` and its JVM: a process group."""

    process: subprocess.Popen[str]

    @classmethod
    def start(cls, lake: Path, *arguments: str) -> Service:
        command = [sys.executable, "-m", "tests.service.daemon", str(lake), *arguments]
        return cls(subprocess.Popen(command, stdout=subprocess.PIPE, text=True, start_new_session=True))

    @property
    def alive(self) -> bool:
        return self.process.poll() is None

    def leads(self, seconds: float) -> bool:
        """Whether it says so in time. Only once."""
        assert self.process.stdout is not None
        with selectors.DefaultSelector() as selector:
            selector.register(self.process.stdout, selectors.EVENT_READ)
            return bool(selector.select(seconds)) and self.process.stdout.readline() == "leads\n"

    def died(self, seconds: float) -> bool:
        """Whether it ends in time."""
        try:
            self.process.wait(seconds)
        except subprocess.TimeoutExpired:
            return False
        return True

    @property
    def stopped(self) -> bool:
        return psutil.Process(self.process.pid).status() == psutil.STATUS_STOPPED

    def send(self, number: signal.Signals) -> None:
        """To Python and the JVM."""
        os.killpg(self.process.pid, number)

    def end(self) -> None:
        """Whatever it does. Returns when Python and the JVM are gone."""
        for number in (signal.SIGKILL, signal.SIGCONT):
            try:
                self.send(number)
            except ProcessLookupError:  # nobody is left in the group
                break
        self.process.wait()
        if self.process.stdout is not None:
            self.process.stdout.close()
        while True:
            try:
                os.killpg(self.process.pid, 0)
            except (ProcessLookupError, PermissionError):
                return
            time.sleep(0.02)
