"""The demo, the invariant test and large changes on a cluster: Spark's standalone master and two workers.

Each is a process of its own with its own executors, on the loopback address only: nothing that works here can depend on
sharing a JVM, a class path or a Python environment with the driver. What the tasks did is read from the logs of the
executors: on which of them they ran, and how many bytes each sent to the driver.

    python scripts/cluster.py [--only demo tests large] [--rows 300000] [--large 250000] [--keep] [-- pytest arguments]
"""

from __future__ import annotations

import argparse
import json
import os
import re
import secrets
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pyspark

ROOT = Path(__file__).resolve().parent.parent
HERE = "127.0.0.1"
WORKERS = 2
SECONDS = 120  # until the cluster stands
TESTS = ("tests/engine/test_invariant.py", "tests/engine/test_functions.py")
# What the tasks of one job may send to the driver in the part `large`: Spark ends a job that sends more. The 30,000
# rows that the driver may have are less, and so is what Spark broadcasts; the tables and their changes are more.
RESULTS = 24 << 20
# With so few cores Spark makes few large partitions of many. Here there are as many as on a cluster of 16 cores: what
# each of them sends to the driver is 16 times that.
LARGE = {
    "spark.driver.maxResultSize": str(RESULTS),
    "spark.sql.adaptive.coalescePartitions.enabled": "false",
}
PARTITIONS = 16

DEFAULTS = """\
spark.authenticate true
spark.authenticate.secret {secret}
spark.master.rest.enabled false
spark.executor.memory 1g
spark.executor.cores 1
"""
# The lines that tell what tasks did, whatever the level of the rest.
LOGGING = """\
rootLogger.level = warn
rootLogger.appenderRef.stderr.ref = console
appender.console.type = Console
appender.console.name = console
appender.console.target = SYSTEM_ERR
appender.console.layout.type = PatternLayout
appender.console.layout.pattern = %d{HH:mm:ss} %p %c{1}: %m%n%ex
logger.deploy.name = org.apache.spark.deploy
logger.deploy.level = info
logger.tasks.name = org.apache.spark.executor.Executor
logger.tasks.level = info
"""
SENT = re.compile(r"Finished task .*?(\d+) bytes result sent (?:to driver|via BlockManager)")


class Failed(Exception):
    """What happened, for people."""


def main(arguments: Sequence[str]) -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rows", type=int, default=300_000, help="order items of the demo")
    parser.add_argument("--large", type=int, default=250_000, help="rows of the table that changes a lot")
    parser.add_argument("--only", nargs="+", choices=("demo", "tests", "large"), default=("demo", "tests", "large"))
    parser.add_argument("--keep", action="store_true", help="leave the folder with the logs")
    parser.add_argument("--inside", nargs=2, help=argparse.SUPPRESS)  # this program as the driver of `large`
    parser.add_argument("tests", nargs="*", help="arguments for pytest, in place of the invariant test")
    given = parser.parse_args(arguments)
    if given.inside:
        return large(Path(given.inside[0]), Path(given.inside[1]), given.large)
    for number in (signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, lambda n, _: sys.exit(128 + n))
    folder = Path(tempfile.mkdtemp(prefix="trickle-cluster-"))
    well = False
    began = time.monotonic()
    try:
        with Cluster(folder) as cluster:
            results = [run(cluster, part, given) for part in given.only]
        well = all(results)
    except Failed as error:
        print(f"cluster: {error}", file=sys.stderr)
    except KeyboardInterrupt:
        print("cluster: interrupted", file=sys.stderr)
        return 130
    finally:
        if well and not given.keep:
            shutil.rmtree(folder, ignore_errors=True)
        else:
            say(f"The logs are in {folder}.")
    say(f"{'Everything passed' if well else 'FAILED'}, in {time.monotonic() - began:.0f} s.")
    return 0 if well else 1


def say(text: str) -> None:
    print(text, flush=True)


# --- the cluster ----------------------------------------------------------------------------------------------------


@dataclass
class Cluster:
    """A master and its workers from `with` to its end: then whatever was started here, and nothing else, is stopped."""

    folder: Path
    url: str = ""
    processes: dict[str, subprocess.Popen[bytes]] = field(default_factory=dict)

    @property
    def work(self) -> Path:
        """A folder per worker; in it one per application, and in that one per executor."""
        return self.folder / "work"

    def __enter__(self) -> Cluster:
        try:
            self._start()
        except BaseException:
            self.__exit__()
            raise
        return self

    def __exit__(self, *_: object) -> None:
        for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
            signal.signal(number, signal.SIG_IGN)  # this is to be finished
        for name in reversed(list(self.processes)):
            self.stop(name)

    def _start(self) -> None:
        began = time.monotonic()
        conf = self.folder / "conf"
        conf.mkdir()
        (conf / "spark-defaults.conf").write_text(DEFAULTS.format(secret=secrets.token_hex(16)))
        (conf / "log4j2.properties").write_text(LOGGING)
        there = ("--host", HERE, "--port", "0", "--webui-port", "0")  # 0: any port that is free
        self._daemon("master", "org.apache.spark.deploy.master.Master", *there)
        self.url = self._told("master", r"Starting Spark master at (spark://\S+)")
        names = [f"worker-{n}" for n in range(1, WORKERS + 1)]
        for name in names:
            size = ("--cores", "1", "--memory", "1g", "--work-dir", str(self.work / name))
            self._daemon(name, "org.apache.spark.deploy.worker.Worker", *there, *size, self.url)
        for name in names:
            self._told(name, r"Successfully registered with master (\S+)")
        numbers = ", ".join(f"{name} {process.pid}" for name, process in self.processes.items())
        say(f"A cluster at {self.url} after {time.monotonic() - began:.1f} s (processes: {numbers}).")

    def environment(self) -> dict[str, str]:
        """Nothing of the settings of whoever runs this, and all of the cluster's."""
        left_out = ("SPARK_", "PYSPARK_", "TRICKLE_", "HADOOP_", "YARN_")
        mine = {k: v for k, v in os.environ.items() if not k.startswith(left_out) and k != "PYTHONPATH"}
        return mine | {
            "SPARK_HOME": str(Path(pyspark.__file__).parent),
            "SPARK_CONF_DIR": str(self.folder / "conf"),
            "SPARK_LOCAL_DIRS": str(self.folder / "local"),
            "SPARK_LOCAL_IP": HERE,  # what the web pages are bound to, too
            "SPARK_LOCAL_HOSTNAME": HERE,  # `localhost` may also be another address
            "SPARK_DAEMON_MEMORY": "256m",
            # The same Python without the packages of this environment: executors elsewhere do not have them, either.
            "PYSPARK_PYTHON": getattr(sys, "_base_executable", sys.executable),
        }

    def start(self, name: str, command: Sequence[str], environment: Mapping[str, str], log: Path | None = None) -> None:
        """In a session of its own, so that Ctrl-C reaches this program alone, which then stops all that it started."""
        stream = None if log is None else log.open("wb")
        self.processes[name] = subprocess.Popen(
            command,
            cwd=ROOT if name == "tests" else self.folder,  # the arguments for pytest name files
            env=environment,
            stdin=subprocess.DEVNULL,
            stdout=stream,
            stderr=stream,
            start_new_session=True,
        )
        if stream is not None:
            stream.close()

    def stop(self, name: str) -> None:
        """A process and those that it started, which are of its group."""
        process = self.processes.pop(name)
        with suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGTERM)
        with suppress(subprocess.TimeoutExpired):
            process.wait(20)
        with suppress(ProcessLookupError, PermissionError):  # none is left, or only one that nobody has waited for
            os.killpg(process.pid, signal.SIGKILL)
        process.wait()

    def _daemon(self, name: str, java_class: str, *arguments: str) -> None:
        environment = self.environment()
        command = (f"{environment['SPARK_HOME']}/bin/spark-class", java_class, *arguments)
        self.start(name, command, environment, self._log(name))

    def _log(self, name: str) -> Path:
        return self.folder / f"{name}.log"

    def _told(self, name: str, pattern: str) -> str:
        """What a process writes to its log when it is ready."""
        until = time.monotonic() + SECONDS
        while True:
            ended = self.processes[name].poll()
            text = self._log(name).read_text(errors="replace")
            if (found := re.search(pattern, text)) is not None:
                return found[1]
            if ended is not None or time.monotonic() > until:
                why = f"is not ready after {SECONDS} s" if ended is None else f"ended with exit code {ended}"
                raise Failed(f"{name} {why}. The end of its log:\n" + "\n".join(text.splitlines()[-25:]))
            time.sleep(0.2)


# --- what runs on it ------------------------------------------------------------------------------------------------


def run(cluster: Cluster, part: str, given: argparse.Namespace) -> bool:
    """Run a part as a process of its own, and tell what the executors did for it."""
    environment = cluster.environment() | {"PYTHONPATH": f"{ROOT / 'src'}:{ROOT}", "TRICKLE_MASTER": cluster.url}
    if part == "demo":
        trickle = "from spark_trickle.cli import main; main()"
        command = ["-c", trickle, "demo", "--dir", str(cluster.folder / "demo"), "--rows", str(given.rows)]
    elif part == "tests":
        del environment["TRICKLE_MASTER"]  # the tests look at settings, too
        environment["TEST_MASTER"] = cluster.url
        own = ("--rootdir", str(ROOT), "-c", str(ROOT / "pyproject.toml"), "--basetemp", str(cluster.folder / "tests"))
        command = ["-m", "pytest", *own, "-p", "no:cacheprovider", *(given.tests or TESTS)]
    else:
        environment |= {"TRICKLE_SPARK_CONF": json.dumps(LARGE), "TRICKLE_SHUFFLE_PARTITIONS": str(PARTITIONS)}
        own = ("--inside", str(cluster.folder / "large"), str(cluster.work))
        command = [str(Path(__file__).resolve()), "--large", str(given.large), *own]
    say(f"\n--- {part}: python {' '.join(command)}")
    began, before = time.monotonic(), executors(cluster.work).keys()
    cluster.start(part, (sys.executable, *command), environment)
    code = cluster.processes[part].wait()
    cluster.stop(part)
    say(f"--- {part}: exit code {code} after {time.monotonic() - began:.1f} s.")
    done = {log: sent for log, sent in executors(cluster.work).items() if log not in before}
    for log, sent in done.items():
        application, executor = log.parts[-3:-1]
        say(f"    {application} on {log.parts[-4]}, executor {executor}: {told(sent)}")
    applications = {log.parts[-3] for log in done}
    # An executor that is lost is replaced by another.
    whole = len(done) == len(applications) * WORKERS > 0 and all(done.values())
    if not whole:
        say(f"    An executor ran no task, or was lost: {WORKERS} for each application should have run them all.")
    return code == 0 and whole


def executors(work: Path) -> dict[Path, list[int]]:
    """The logs of all executors, with the bytes that each of their tasks sent to the driver."""
    logs = sorted(work.glob("*/app-*/*/stderr"))
    return {log: [int(n) for n in SENT.findall(log.read_text(errors="replace"))] for log in logs}


def told(sent: Sequence[int]) -> str:
    """
    >>> told([1000, 2_000_000])
    '2 tasks, which sent 2.0 MB to the driver, the largest result 2.00 MB'
    """
    largest = max(sent, default=0) / 1e6
    total = sum(sent) / 1e6
    return f"{len(sent):,} tasks, which sent {total:.1f} MB to the driver, the largest result {largest:.2f} MB"


# --- many changed rows: the driver of this part is this program ------------------------------------------------------

FACTS = """SELECT id, id % {parts} AS part, CAST(id % 1000 AS DECIMAL(10, 2)) AS amount,
           sha2(CAST(id AS STRING), 512) AS text FROM range({first}, {last})"""
DEFINITIONS = {
    "rows": "SELECT id, part, concat(text, '!') AS text FROM big.facts WHERE amount < 900",
    "groups": "SELECT part, count(*) AS n, sum(amount) AS total, max(text) AS hi FROM big.facts GROUP BY part",
    "joined": "SELECT f.id, f.text, p.name FROM big.facts f JOIN big.parts p ON p.part = f.part",
    "latest": """SELECT part, id, text FROM (SELECT part, id, text, row_number() OVER (PARTITION BY part
                 ORDER BY amount DESC, id) AS place FROM big.facts) WHERE place = 1""",
    "sizes": "SELECT n, count(*) AS groups, sum(total) AS total FROM big.groups GROUP BY n",
}


def large(folder: Path, work: Path, rows: int) -> int:
    """Most of a large table changes: the rows go from executor to executor, however many they are."""
    from spark_trickle import Action, connect

    seen = {log: len(sent) for log, sent in executors(work).items()}
    names = [f"big.{name}" for name in DEFINITIONS]
    wrong: list[str] = []

    def step(what: str, do: Callable[[], object]) -> Sequence[Any]:
        began = time.monotonic()
        found = do()
        seconds = time.monotonic() - began
        time.sleep(0.5)  # the driver knows of the end of a task before the log does
        now = executors(work)
        say(f"{what}: {seconds:.1f} s, {told([n for log, sent in now.items() for n in sent[seen.get(log, 0) :]])}")
        seen.update((log, len(sent)) for log, sent in now.items())
        results = found if isinstance(found, list | tuple) else ()
        for result in results:
            say(f"    {result}")
        return results

    with connect(folder) as tr:

        def fill() -> None:
            parts = rows // 2
            tr.sql("CREATE NAMESPACE big")
            tr.sql(f"CREATE TABLE big.facts AS {FACTS.format(parts=parts, first=0, last=rows)}")
            named = f"SELECT id AS part, sha2(CAST(-id AS STRING), 256) AS name FROM range({parts})"
            tr.sql(f"CREATE TABLE big.parts AS {named}")

        def create() -> None:
            for name, query in DEFINITIONS.items():
                tr.create_stream_table(f"big.{name}", query, mode="differential")

        def changes() -> list[str]:
            with tr.changes("big.rows", since=token) as found:
                return [f"{found.frame.count():,} rows"]

        step(f"a table of {rows:,} rows", fill)
        step("five stream tables", create)
        token = tr.changes("big.rows").token
        more = FACTS.format(parts=rows // 2, first=rows, last=rows * 3 // 2)
        for what, statement in (
            ("two thirds updated", "UPDATE big.facts SET amount = amount + 1, text = reverse(text) WHERE id % 3 > 0"),
            ("one third deleted", "DELETE FROM big.facts WHERE id % 3 = 1"),
            ("half as many inserted", f"INSERT INTO big.facts {more}"),
        ):
            step(what, lambda statement=statement: tr.sql(statement))
            for result in step("refreshed", lambda: tr.refresh(names)):
                # A job that sends too much must not be made up for by another way to the same rows.
                if result.action is not Action.DIFFERENTIAL or "DELTA_FAILED" in result.reason:
                    wrong.append(str(result))
        step("refreshed in full", lambda: [tr.refresh(name, mode="full", upstream=False) for name in names])
        step("the changes of a stream table", changes)
        wrong += [str(v) for v in step("verified", lambda: [tr.verify(name) for name in names]) if not v.equal]
    for line in wrong:
        say(f"WRONG: {line}")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
