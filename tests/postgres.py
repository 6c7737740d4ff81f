"""A PostgreSQL server of one's own: made in a temporary directory, gone at the end."""

from __future__ import annotations

import os
import pwd
import shutil
import socket
import subprocess
import tempfile
import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import psycopg
from sqlalchemy import make_url

USER = "trickle"


class NoPostgres(Exception):
    """Why there is no server to be had."""


def binaries() -> Path:
    """The directory of initdb and pg_ctl: Debian's newest, else the one on the PATH."""
    found = sorted(Path("/usr/lib/postgresql").glob("*/bin/initdb"), key=lambda path: float(path.parent.parent.name))
    if found:
        return found[-1].parent
    on_path = shutil.which("initdb")
    if on_path is None:
        raise NoPostgres("initdb is missing: install PostgreSQL (Debian: apt-get install postgresql)")
    return Path(on_path).resolve().parent


@contextmanager
def temporary_postgres() -> Iterator[str]:
    """Start a server on 127.0.0.1 and give its URL. It refuses to run as root: then it is somebody else."""
    tools = binaries()
    prefix, user = _unprivileged()
    home = Path(tempfile.mkdtemp(prefix="trickle-pg-"))
    data, log = home / "data", home / "log"
    if user is not None:
        os.chown(home, user.pw_uid, user.pw_gid)

    def run(*command: str | Path) -> None:
        words = [*prefix, *map(str, command)]
        # To a file: a server started by pg_ctl would keep a pipe open for ever.
        with (home / "output").open("w+") as output:
            code = subprocess.run(words, stdout=output, stderr=output, cwd=home, check=False).returncode
            output.seek(0)
            if code != 0:
                tail = log.read_text()[-2000:] if log.exists() else ""
                raise NoPostgres(f"{' '.join(words)} ended with {code}: {output.read()[-2000:]} {tail}")

    try:
        run(tools / "initdb", "-D", data, "-U", USER, "-A", "trust", "-E", "UTF8", "--locale=C", "--no-sync")
        port = _free_port()
        options = f"-p {port} -k {home} -c listen_addresses=127.0.0.1 -c fsync=off -c max_connections=100"
        run(tools / "pg_ctl", "-D", data, "-l", log, "-w", "-t", "60", "-o", options, "start")
        try:
            yield f"postgresql://{USER}@127.0.0.1:{port}/postgres"
        finally:
            run(tools / "pg_ctl", "-D", data, "-m", "immediate", "-w", "stop")
    finally:
        shutil.rmtree(home, ignore_errors=True)


def fresh_database(server: str) -> str:
    """The URL of a new, empty database on the server."""
    name = f"t_{uuid.uuid4().hex[:12]}"
    with psycopg.connect(server, autocommit=True) as connection:
        connection.execute(f"CREATE DATABASE {name}".encode())
    return make_url(server).set(database=name).render_as_string(hide_password=False)


def _unprivileged() -> tuple[list[str], pwd.struct_passwd | None]:
    if os.geteuid() != 0:
        return [], None
    for name in ("postgres", "nobody"):
        try:
            user = pwd.getpwnam(name)
        except KeyError:
            continue
        return ["setpriv", f"--reuid={user.pw_uid}", f"--regid={user.pw_gid}", "--clear-groups"], user
    raise NoPostgres("running as root, and there is no user postgres or nobody to run the server")


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])
