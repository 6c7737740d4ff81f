"""The command `trickle`. Each of its commands parses, calls the engine once or twice, and shows what came back.

Errors become text or JSON, and an exit code, in `run` and nowhere else.
"""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from spark_trickle.cli import functions, monitoring, service, sources, stream_tables
from spark_trickle.cli.common import (
    DIFFERS,
    load_settings,
    open_engine,
    open_lake,
    output,
    read_text,
    shell,
    state,
    usage,
)
from spark_trickle.cli.output import Format, Output, Rows
from spark_trickle.demo import ROWS
from spark_trickle.errors import TrickleError

if TYPE_CHECKING:
    from spark_trickle.engine import Trickle
    from spark_trickle.web.client import RemoteLake

INTERRUPTED = 130
_GLOBAL_WITH_VALUE = ("--lake", "-C", "--output", "-o")
_GLOBAL_FLAGS = ("--debug", "--local")

app = typer.Typer(
    name="trickle",
    help="Stream tables for Spark: declared by a query, kept equal to it by computing only what changed.",
    epilog="The options above may also stand after the command. Exit codes: 0 done, 1 verify, doctor or health "
    "found something, 2 wrong request, 3 a source changed, 4 try again later, 5 a bug.",
    no_args_is_help=True,
    add_completion=False,
    rich_markup_mode="rich",
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)


@app.callback()
def options(
    lake: Annotated[
        str | None,
        typer.Option(
            "--lake",
            "-C",
            metavar="PATH_OR_URL",
            help="The lake: a folder, a trickle.toml or a postgresql:// URL. Otherwise TRICKLE_LOCATION, "
            "./trickle.toml, ./lakehouse.",
            show_default=False,
        ),
    ] = None,
    output: Annotated[Format, typer.Option("--output", "-o", help="Tables for people, or JSON.")] = Format.TEXT,
    debug: Annotated[bool, typer.Option("--debug", help="Show Python's traceback of an error.")] = False,
    local: Annotated[
        bool, typer.Option("--local", help="Start Spark here even if `trickle up` runs, which would do the work.")
    ] = False,
) -> None:
    state.lake, state.output, state.debug, state.local = lake, output, debug, local


# --- the lake; the other modules of this package have the other commands ----------------------------------------------


def init(
    folder: Annotated[str | None, typer.Argument(help="Folder of the new lake.", show_default="lakehouse")] = None,
) -> None:
    """Create a lake: a folder with a catalog, a warehouse and a settings file.

    [dim]trickle init
    trickle init shop
    TRICKLE_WAREHOUSE=s3a://bucket/lake TRICKLE_LOCATION=postgresql://me@db/lake trickle init[/dim]
    """
    if folder is not None:
        if state.lake is not None:
            usage("Name the lake once: as argument or with --lake.")
        state.lake = folder
    out = output()
    settings = load_settings()
    with open_lake(out, create=True):
        pass
    file = settings.location / "trickle.toml"
    if not settings.is_postgres and not file.exists():
        file.write_text(_SETTINGS_FILE)
    where = settings.shown_catalog if settings.is_postgres else str(settings.location)
    if out.is_json:
        out.show({"catalog": settings.shown_catalog, "warehouse": settings.warehouse_uri})
    else:
        out.say(f"A lake is at {where}.")
        at = f" -C {shell(state.lake)}" if state.lake else ""
        out.say(f'Next: trickle{at} sql "CREATE TABLE shop.orders (id BIGINT, amount DECIMAL(10,2))"')


def sql(
    statements: Annotated[
        list[str] | None, typer.Argument(metavar="SQL", help="Statements, separated by semicolons.")
    ] = None,
    file: Annotated[
        str | None, typer.Option("--file", "-f", help="Read them from a file; - is standard input.")
    ] = None,
    limit: Annotated[int, typer.Option("--limit", "-n", min=1, help="Rows shown per statement.")] = 100,
) -> None:
    """Run SQL: Spark's statements and those on stream tables.

    [dim]trickle sql "SELECT count(*) FROM shop.orders"
    trickle sql "CREATE STREAM TABLE shop.big SCHEDULE '1m' AS SELECT * FROM shop.orders WHERE amount > 100"
    trickle sql "REFRESH STREAM TABLE shop.big; SHOW STREAM TABLES"
    trickle sql -f changes.sql
    echo "SELECT 1" | trickle sql[/dim]
    """
    from spark_trickle.cli.script import split_statements

    out = output()
    parts = split_statements(read_text("\n;\n".join(statements) if statements else None, file, "SQL"))
    if not parts:
        raise TrickleError("SYNTAX_ERROR", "There is no statement in the text.", hint="Write one.")
    results: list[Any] = []
    with _engine_for(out, parts) as tr:
        for number, statement in enumerate(parts, 1):
            label = f"Running statement {number} of {len(parts)}" if len(parts) > 1 else "Running"
            with out.progress(label):
                result = _rows(tr.sql(statement), limit)
            if out.is_json:
                results.append(result)
            else:
                out.show(result)
    if out.is_json:
        out.show(results)


def doctor(
    quick: Annotated[bool, typer.Option("--quick", help="Do not start Spark.")] = False,
) -> None:
    """Check Java, Python, Spark, jars, catalog, warehouse and disk, and say what to do.

    [dim]trickle doctor
    trickle -C shop doctor --quick --output json[/dim]
    """
    from rich.text import Text

    from spark_trickle.cli.doctor import Level, checks
    from spark_trickle.cli.output import grid

    out = output()
    with out.progress("Checking"):
        found = list(checks(state.lake, quick=quick))
    if out.is_json:
        out.show(found)
    else:
        table = grid("", "check", "found")
        styles = {Level.OK: "green", Level.WARN: "yellow", Level.FAIL: "bold red"}
        for check in found:
            text = Text(check.found)
            if check.remedy:
                text.append(f"\n→ {check.remedy}", style="cyan")
            table.add_row(Text(check.level, style=styles[check.level]), check.name, text)
        out.out.print(table)
    if any(check.level is Level.FAIL for check in found):
        raise typer.Exit(DIFFERS)


def version() -> None:
    """Print the version."""
    from spark_trickle import __version__

    out = output()
    out.show({"version": __version__} if out.is_json else f"spark-trickle {__version__}")


def demo(
    rows: Annotated[int, typer.Option("--rows", min=100, help="Order items to start with.")] = ROWS,
    rounds: Annotated[int, typer.Option("--rounds", min=1, max=100, help="Rounds of changes.")] = 4,
    folder: Annotated[Path, typer.Option("--dir", help="Folder of the demo's lake.")] = Path("demo-lakehouse"),
    seed: Annotated[int, typer.Option("--seed", help="Other data, other changes.")] = 1,
) -> None:
    """Create a small shop with five stream tables, and time each refresh against a full recompute.

    [dim]trickle demo
    trickle demo --rows 30000 --rounds 2[/dim]
    """
    from spark_trickle.cli.show_demo import show_demo

    if not show_demo(output(), folder, rows=rows, rounds=rounds, seed=seed):
        raise typer.Exit(DIFFERS)


@contextmanager
def _engine_for(out: Output, statements: Sequence[str]) -> Iterator[Trickle | RemoteLake]:
    """The service runs STREAM TABLE statements only."""
    from spark_trickle.statements.parse import parse_statement

    ours = all(parse_statement(s) is not None for s in statements)
    with open_engine(out) if ours else open_lake(out) as tr:
        yield tr


def _rows(result: Any, limit: int) -> Any:
    return Rows.of(result, limit) if hasattr(result, "schema") and hasattr(result, "collect") else result


_SETTINGS_FILE = """\
# Settings of this lake; docs/configuration.md lists them all.
# shuffle_partitions = 4
# time_zone = "UTC"
# default_schedule = "1m"
# max_change_ratio = 0.15

# [spark_conf]
# "spark.sql.autoBroadcastJoinThreshold" = "50m"
"""


# In the order of the help text.
_COMMANDS: tuple[Callable[..., None], ...] = (
    init,
    sql,
    doctor,
    version,
    *stream_tables.COMMANDS,
    *service.COMMANDS,
    *monitoring.COMMANDS,
    demo,
)
for _command in _COMMANDS:
    app.command()(_command)
app.add_typer(functions.commands)
app.add_typer(sources.commands)


# --- the one place where errors become text ---------------------------------------------------------------


def run(arguments: Sequence[str] | None = None) -> int:
    """Run one command and give its exit code."""
    given = list(sys.argv[1:] if arguments is None else arguments)
    hoisted = hoist(given)
    state.lake, state.output, state.debug, state.local = None, _asked_format(hoisted), "--debug" in given, False
    try:
        code = typer.main.get_command(app).main(hoisted, prog_name="trickle", standalone_mode=False)
        return int(code or 0)
    except typer.Exit as e:
        return e.exit_code
    except (KeyboardInterrupt, typer.Abort):
        output().err.print("interrupted")
        return INTERRUPTED
    except BrokenPipeError:
        # The reader of our output has gone: nothing to say, and nobody to say it to.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 0
    except TrickleError as e:
        if state.debug:
            _traceback()
        output().error(e)
        return e.exit_code
    except Exception as e:
        if hasattr(e, "format_message") and hasattr(e, "exit_code"):  # wrong use of the command line
            return _show_usage(e)
        if state.debug:
            _traceback()
        wrapped = _translate(e)
        output().error(wrapped)
        return wrapped.exit_code


def hoist(arguments: Sequence[str]) -> list[str]:
    """Move the global options to the front, so that `trickle status -o json` works as well."""
    front: list[str] = []
    rest: list[str] = []
    queue = list(arguments)
    while queue:
        word = queue.pop(0)
        if word == "--":
            rest += [word, *queue]
            break
        if word in _GLOBAL_FLAGS or word.startswith(tuple(f"{o}=" for o in _GLOBAL_WITH_VALUE if o.startswith("--"))):
            front.append(word)
        elif word in _GLOBAL_WITH_VALUE and queue:
            front += [word, queue.pop(0)]
        else:
            rest.append(word)
    return front + rest


def _asked_format(arguments: Sequence[str]) -> Format:
    """How to print before the options are read: what is wrong with them is said in that format, too."""
    words = " ".join(arguments)
    return Format.JSON if re.search(r"(^| )(-o|--output)[ =]json( |$)", words) else Format.TEXT


def _show_usage(e: Any) -> int:
    if state.output is Format.JSON:
        Output(Format.JSON).error(TrickleError("INVALID_STATEMENT", e.format_message(), hint="See trickle --help."))
    else:
        e.show()
    return int(e.exit_code)


def _translate(e: Exception) -> TrickleError:
    """What is not ours: Spark refusing the user's statement, or a bug."""
    first = (str(e).strip().splitlines() or [type(e).__name__])[0]
    if type(e).__module__.startswith("pyspark.errors"):
        user = type(e).__name__ in ("AnalysisException", "ParseException", "IllegalArgumentException")
        text = str(e).split("JVM stacktrace:")[0].rstrip().removesuffix(";")
        return TrickleError("INVALID_QUERY" if user else "SPARK_FAILED", text if user else first)
    return TrickleError("INTERNAL", f"{type(e).__name__}: {first}", hint="Run it again with --debug, and report it.")


def _traceback() -> None:
    import traceback

    traceback.print_exc()
