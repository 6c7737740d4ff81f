"""The commands that keep a lake fresh by itself, and those that look at it as a whole."""

from __future__ import annotations

import json
import signal
import sys
import threading
from collections.abc import Callable
from datetime import UTC, datetime
from enum import StrEnum
from functools import partial
from types import FrameType
from typing import TYPE_CHECKING, Annotated

import typer
from rich.text import Text

from spark_trickle.cli.alerts import alerts
from spark_trickle.cli.common import open_lake, open_store, output
from spark_trickle.cli.output import Output, plain
from spark_trickle.cli.stream_tables import Name
from spark_trickle.errors import TrickleError
from spark_trickle.model import Action
from spark_trickle.scheduler.decide import ENABLED

if TYPE_CHECKING:
    from spark_trickle.results import RefreshResult


KEEP_SECONDS = 5.0


class Drawing(StrEnum):
    TEXT = "text"
    MERMAID = "mermaid"
    DOT = "dot"
    SVG = "svg"


class LogFormat(StrEnum):
    TEXT = "text"
    JSON = "json"


def up(
    host: Annotated[
        str | None, typer.Option("--host", help="Address to listen at; else service_host.", show_default=False)
    ] = None,
    port: Annotated[
        int | None,
        typer.Option(
            "--port", "-p", min=0, max=65535, help="Port; 0: any that is free; else service_port.", show_default=False
        ),
    ] = None,
    web: Annotated[bool, typer.Option("--web/--no-web", help="Serve the page and the API, or schedules only.")] = True,
    log_format: Annotated[
        LogFormat, typer.Option("--log-format", help="How to write the log, on standard error.")
    ] = LogFormat.TEXT,
) -> None:
    """Keep stream tables fresh by their schedules, and serve page and API, until it is stopped (Ctrl-C, SIGTERM).

    Several processes may run it on one lake: one leads, the others stand by. Other commands that need Spark let it
    do their work. At the end, refreshes that run are finished. A changed `trickle.toml` is read again, on SIGHUP at
    once.

    [dim]trickle up
    trickle up --port 0 --log-format json
    trickle up --no-web --output json   # one JSON object per refresh[/dim]
    """
    from spark_trickle.cli.serving import serving, write_log

    out = output()
    write_log(as_json=log_format is LogFormat.JSON)
    stopped = threading.Event()
    with serving(web, host, port) as attach, open_lake(out) as tr:
        before = {each: signal.getsignal(each) for each in (signal.SIGTERM, signal.SIGINT)}

        def stop(_signal: int, _frame: FrameType | None) -> None:
            stopped.set()
            for each, handler in before.items():  # the second one does not wait
                signal.signal(each, handler)

        for each in before:  # now: Spark has set its own, which cancels all jobs
            signal.signal(each, stop)
        # In a thread: what it logs must not wait for what was interrupted.
        signal.signal(signal.SIGHUP, lambda *_: threading.Thread(target=tr.reload_settings).start())
        served = attach(tr)
        try:
            tr.start(partial(_tell, out))
            if served is not None:
                served.start()
                out.say(f"Serving {served.url}")
            off = " They are switched off: trickle enable." if tr.store.setting(ENABLED) == "false" else ""
            out.say(f"Following the schedules of {len(tr.store.stream_tables())} stream tables; Ctrl-C to stop.{off}")
            while not stopped.wait(KEEP_SECONDS):
                if not tr.spark_runs:  # whoever stands by leads then, and a supervisor starts this one again
                    raise TrickleError("SPARK_FAILED", "Spark's JVM is gone: this process can refresh nothing more.")
                if served is not None:
                    served.keep()
            out.say("Stopping: refreshes that run are finished.")
        finally:
            tr.stop(wait=False)  # the server may still have to finish what was asked for
            if served is not None:
                served.stop()
            tr.stop()


def _tell(out: Output, what: RefreshResult | TrickleError) -> None:
    now = datetime.now(UTC)
    failed = isinstance(what, Exception)
    if out.is_json:
        shown = {"error": {"code": what.code, "message": what.message}} if failed else plain(what)  # type: ignore[union-attr]
        line = json.dumps({"at": now.isoformat(), **shown}, ensure_ascii=False)
        sys.stdout.write(line + "\n")  # at once: several threads tell
        sys.stdout.flush()
        return
    style = "red" if failed else "dim" if what.action == Action.NO_DATA else ""  # type: ignore[union-attr]
    out.out.print(Text(f"{now:%H:%M:%S} {what}", style=style), soft_wrap=True)


def suspend(name: Name) -> None:
    """Take a stream table off its schedule.

    [dim]trickle suspend shop.revenue[/dim]
    """
    from spark_trickle.catalog import controls

    out = output()
    with open_store() as lake:
        controls.suspend(lake.store, lake.name(name), lake.settings.lease_wait_seconds)
    out.show({"suspended": name} if out.is_json else f"{name} is suspended.")


def resume(name: Name) -> None:
    """Put a stream table that is SUSPENDED or in ERROR back on its schedule.

    [dim]trickle resume shop.revenue[/dim]
    """
    from spark_trickle.catalog import controls

    out = output()
    with open_store() as lake:
        controls.resume(lake.store, lake.name(name), lake.settings.lease_wait_seconds)
    out.show({"resumed": name} if out.is_json else f"{name} is resumed.")


def enable() -> None:
    """Let the lake's schedules run again.

    [dim]trickle enable   # after trickle disable[/dim]
    """
    _switch("true", "The schedules of this lake run.")


def disable() -> None:
    """Stop all schedules of the lake, whoever runs them. Refreshes by hand still work.

    [dim]trickle disable[/dim]
    """
    _switch("false", "The schedules of this lake are off: trickle enable switches them on again.")


def _switch(value: str, says: str) -> None:
    out = output()
    with open_store() as lake, lake.store.write() as tx:
        tx.put_setting(ENABLED, value)
    out.show({"enabled": value == "true"} if out.is_json else says)


def graph(
    form: Annotated[Drawing, typer.Option("--format", "-f", help="How to draw it.")] = Drawing.TEXT,
) -> None:
    """Draw the stream tables and what they read.

    [dim]trickle graph
    trickle graph --format svg > lake.svg
    trickle graph --output json   # nodes, edges and the columns that are read[/dim]
    """
    from spark_trickle.graph.draw import dag_of

    out = output()
    with open_store() as lake:
        dag = dag_of(lake.store.stream_tables())
    if out.is_json:
        out.show(dag)
    elif not dag.nodes:
        out.say("There are no stream tables.")
    else:
        draw: dict[Drawing, Callable[[], str]] = {
            Drawing.TEXT: lambda: str(dag),
            Drawing.MERMAID: dag.mermaid,
            Drawing.DOT: dag.dot,
            Drawing.SVG: dag.svg,
        }
        print(draw[form]())


# In the order of the help text.
COMMANDS: tuple[Callable[..., None], ...] = (up, suspend, resume, enable, disable, graph, alerts)
