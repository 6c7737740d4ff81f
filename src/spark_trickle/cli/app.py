"""The commands of `trickle`. Each one parses, calls the engine once or twice, and shows what came back.

Errors become text or JSON, and an exit code, in `run` and nowhere else.
"""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, NoReturn

import typer

from spark_trickle.cli.functions import function_commands
from spark_trickle.cli.output import Format, Output, Rows
from spark_trickle.cli.sources import source_commands
from spark_trickle.errors import TrickleError

if TYPE_CHECKING:
    from spark_trickle.config import Settings
    from spark_trickle.engine import Trickle

DIFFERS = 1  # exit code of a verification that found a difference, and of a failed check
INTERRUPTED = 130
_GLOBAL_WITH_VALUE = ("--lake", "-C", "--output", "-o")
_GLOBAL_FLAGS = ("--debug",)

app = typer.Typer(
    name="trickle",
    help="Stream tables for Spark: declared by a query, kept equal to it by computing only what changed.",
    epilog="The options above may also stand after the command. Exit codes: 0 done, 1 verify or doctor found "
    "something, 2 wrong request, 3 a source changed, 4 try again later, 5 a bug.",
    no_args_is_help=True,
    add_completion=False,
    rich_markup_mode="rich",
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)


@dataclass(slots=True)
class State:
    """The global options."""

    lake: str | None = None
    output: Format = Format.TEXT
    debug: bool = False


_state = State()


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
) -> None:
    _state.lake, _state.output, _state.debug = lake, output, debug


# --- the lake -------------------------------------------------------------------------------------------


@app.command()
def init(
    folder: Annotated[str | None, typer.Argument(help="Folder of the new lake.", show_default="lakehouse")] = None,
) -> None:
    """Make a lake: a folder with a catalog, a warehouse and a settings file.

    [dim]trickle init
    trickle init shop
    TRICKLE_WAREHOUSE=s3a://bucket/lake TRICKLE_LOCATION=postgresql://me@db/lake trickle init[/dim]
    """
    if folder is not None:
        if _state.lake is not None:
            _usage("Name the lake once: as argument or with --lake.")
        _state.lake = folder
    out = Output(_state.output)
    settings = _settings()
    with _lake(out, create=True):
        pass
    file = settings.location / "trickle.toml"
    if not settings.is_postgres and not file.exists():
        file.write_text(_SETTINGS_FILE)
    where = settings.shown_catalog if settings.is_postgres else str(settings.location)
    if out.is_json:
        out.show({"catalog": settings.shown_catalog, "warehouse": settings.warehouse_uri})
    else:
        out.say(f"A lake is at {where}.")
        at = f" -C {_shell(_state.lake)}" if _state.lake else ""
        out.say(f'Next: trickle{at} sql "CREATE TABLE shop.orders (id BIGINT, amount DECIMAL(10,2))"')


@app.command()
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

    out = Output(_state.output)
    parts = split_statements(_text("\n;\n".join(statements) if statements else None, file, "SQL"))
    if not parts:
        raise TrickleError("SYNTAX_ERROR", "There is no statement in the text.", hint="Write one.")
    results: list[Any] = []
    with _lake(out) as tr:
        for number, statement in enumerate(parts, 1):
            label = f"Running statement {number} of {len(parts)}" if len(parts) > 1 else "Running"
            with out.progress(label):
                result = _result(tr.sql(statement), limit)
            if out.is_json:
                results.append(result)
            else:
                out.show(result)
    if out.is_json:
        out.show(results)


@app.command()
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

    out = Output(_state.output)
    with out.progress("Checking"):
        found = list(checks(_state.lake, quick=quick))
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


@app.command()
def version() -> None:
    """Print the version."""
    from spark_trickle import __version__

    out = Output(_state.output)
    out.show({"version": __version__} if out.is_json else f"spark-trickle {__version__}")


# --- stream tables --------------------------------------------------------------------------------------

Name = Annotated[str, typer.Argument(metavar="NAME", help="A stream table, such as shop.revenue.")]
Names = Annotated[list[str] | None, typer.Argument(metavar="NAME", help="Stream tables.")]
Query = Annotated[str | None, typer.Option("--query", "-q", help="The definition, a SELECT.")]
QueryFile = Annotated[str | None, typer.Option("--file", "-f", help="Read it from a file; - is standard input.")]
Schedule = Annotated[
    str | None,
    typer.Option("--schedule", "-s", help="'30s', '5m', a cron line, 'downstream' or 'manual'.", show_default=False),
]
Mode = Annotated[str | None, typer.Option("--mode", "-m", help="auto, differential or full.", show_default=False)]
Set = Annotated[
    list[str] | None,
    typer.Option(
        "--set",
        metavar="KEY=VALUE",
        help="A Spark setting that the definition runs under, such as time_zone=Europe/Berlin; may be repeated.",
        show_default=False,
    ),
]
Star = Annotated[
    str | None,
    typer.Option("--star", help="What * means when a source gets other columns: pin or follow.", show_default=False),
]


@app.command()
def create(
    name: Name,
    query: Query = None,
    file: QueryFile = None,
    schedule: Schedule = None,
    mode: Mode = None,
    star: Star = None,
    set_: Set = None,
    initialize: Annotated[
        bool,
        typer.Option("--initialize/--no-initialize", help="Fill it now, or leave that to the first refresh."),
    ] = True,
) -> None:
    """Create a stream table from a query.

    [dim]trickle create shop.big -q "SELECT * FROM shop.orders WHERE amount > 100" --schedule 5m
    trickle create shop.big -f big.sql --mode differential
    trickle create shop.days -f days.sql --set time_zone=Europe/Berlin[/dim]
    """
    out = Output(_state.output)
    settings = _pairs(set_)
    definition = _text(query, file, "--query")
    with _lake(out) as tr, out.progress(f"Creating {name}"):
        result = tr.create_stream_table(
            name, definition, schedule, mode or "auto", initialize=initialize, star=star or "pin", settings=settings
        )
    out.show(result if result is not None else {"created": name} if out.is_json else f"{name} is created.")


@app.command()
def alter(
    name: Name,
    query: Query = None,
    file: QueryFile = None,
    schedule: Schedule = None,
    mode: Mode = None,
    star: Star = None,
    set_: Set = None,
) -> None:
    """Change the query, schedule, mode or settings of a stream table, or what * means in its query.

    [dim]trickle alter shop.big --schedule 10m
    trickle alter shop.days --set time_zone=Asia/Tokyo
    trickle alter shop.big -q "SELECT * FROM shop.orders WHERE amount > 500"[/dim]
    """
    out = Output(_state.output)
    given = query is not None or file is not None
    settings = _pairs(set_)
    if not given and not settings and schedule is None and mode is None and star is None:
        _usage("Say what to change: --query, --file, --schedule, --mode, --star or --set.")
    definition = _text(query, file, "--query") if given else None
    with _lake(out) as tr, out.progress(f"Altering {name}"):
        result = tr.alter_stream_table(
            name, query=definition, schedule=schedule, mode=mode, star=star, settings=settings
        )
    out.show(result if result is not None else {"altered": name} if out.is_json else f"{name} is altered.")


@app.command()
def drop(
    name: Name,
    cascade: Annotated[bool, typer.Option("--cascade", help="Drop the stream tables that read it too.")] = False,
    if_exists: Annotated[bool, typer.Option("--if-exists", help="No error if there is none.")] = False,
) -> None:
    """Drop a stream table with its storage.

    [dim]trickle drop shop.big
    trickle drop shop.lines --cascade[/dim]
    """
    out = Output(_state.output)
    with _lake(out) as tr, out.progress(f"Dropping {name}"):
        result = tr.drop_stream_table(name, cascade=cascade, if_exists=if_exists)
    if out.is_json:
        out.show({"dropped": result if result is not None else [name]})
    else:
        dropped = result if isinstance(result, (tuple, list)) else (name,)
        for one in dropped:
            out.say(f"{one} is dropped.")
        if not dropped:
            out.say(f"There was no {name}.")


@app.command()
def refresh(
    names: Names = None,
    every: Annotated[
        bool,
        typer.Option("--all", help="Every stream table of the lake, each by itself: one that fails stops no other."),
    ] = False,
    mode: Mode = None,
    upstream: Annotated[
        bool, typer.Option("--upstream/--no-upstream", help="Bring the stream tables it reads up first.")
    ] = True,
) -> None:
    """Bring stream tables up to date, computing only what changed. Several names are a group: all or none.

    [dim]trickle refresh shop.revenue
    trickle refresh --all
    trickle refresh shop.revenue --mode full[/dim]
    """
    out = Output(_state.output)
    if bool(names) == every:
        _usage("Name stream tables, or say --all.")
    with _lake(out) as tr:
        if every:
            _each(_all_names(tr), "Refreshing", lambda n: tr.refresh(n, mode=mode), out)
        else:
            wanted = list(names or ())
            with out.progress(f"Refreshing {', '.join(wanted)}"):
                found = tr.refresh(wanted[0] if len(wanted) == 1 else wanted, mode=mode, upstream=upstream)
            results = tuple(found) if isinstance(found, (tuple, list)) else (found,)
            out.show(results)


@app.command()
def status(name: Annotated[str | None, typer.Argument(metavar="NAME")] = None) -> None:
    """Show stream tables: state, mode, schedule, freshness, last refresh.

    [dim]trickle status
    trickle status shop.revenue --output json[/dim]
    """
    out = Output(_state.output)
    with _lake(out) as tr:
        out.show(tuple(tr.status(name)))


@app.command()
def describe(name: Name) -> None:
    """Show what a stream table is: definition, columns, inputs, functions, and the settings it runs under.

    [dim]trickle describe shop.revenue
    trickle describe shop.revenue --output json[/dim]
    """
    out = Output(_state.output)
    with _lake(out) as tr:
        out.show(tr.describe(name))


@app.command()
def history(
    name: Annotated[str | None, typer.Argument(metavar="NAME")] = None,
    limit: Annotated[int, typer.Option("--limit", "-n", min=1, help="Newest entries shown.")] = 20,
) -> None:
    """Show past refreshes, newest first, each with its action and reason.

    [dim]trickle history
    trickle history shop.revenue -n 5[/dim]
    """
    out = Output(_state.output)
    with _lake(out) as tr:
        out.show(tuple(tr.history(name, limit=limit)))


@app.command()
def changes(
    name: Name,
    since: Annotated[
        str | None,
        typer.Option("--since", help="A snapshot id, a time with its zone, or a token. Otherwise from the beginning."),
    ] = None,
    follow: Annotated[bool, typer.Option("--follow", help="Wait for further refreshes, until Ctrl-C.")] = False,
    limit: Annotated[
        int | None,
        typer.Option(
            "--limit", "-n", min=1, help="Rows shown per batch: 100 as text, all as JSON.", show_default=False
        ),
    ] = None,
) -> None:
    """Show what changed in a stream table: rows with weight, snapshot and time, and a token to go on from.

    With --output json each row is one line, and each batch ends with a line that holds the token.

    [dim]trickle changes shop.revenue
    trickle changes shop.revenue --since 2026-01-31T12:00:00+00:00
    trickle changes shop.revenue --follow --output json[/dim]
    """
    from spark_trickle.cli.changes import check_since, show_changes

    out = Output(_state.output)
    check_since(since)
    with _lake(out) as tr:
        show_changes(out, tr, name, since, limit, follow=follow)


@app.command()
def explain(name: Name) -> None:
    """Show how a stream table is maintained: operators, delta SQL, and what the next refresh would do.

    [dim]trickle explain shop.revenue[/dim]
    """
    out = Output(_state.output)
    with _lake(out) as tr, out.progress("Explaining"):
        result = tr.explain(name)
    out.show(result)


@app.command()
def check(
    file: Annotated[str, typer.Argument(metavar="FILE", help="A file with a query; - is standard input.")],
    sql: Annotated[bool, typer.Option("--sql", help="Print what a differential refresh would run, too.")] = False,
) -> None:
    """Say before creation whether a query would be incremental, and if not, why and what to change; exit code 2 if not.

    [dim]trickle check revenue.sql
    echo "SELECT city, count(*) FROM shop.customers GROUP BY city" | trickle check -[/dim]
    """
    from spark_trickle.cli.check import read_query, show_check

    out = Output(_state.output)
    query = read_query(file)
    with _lake(out) as tr, out.progress("Checking"):
        found = tr.check(query)
    raise typer.Exit(show_check(out, found, sql=sql))


@app.command()
def verify(
    names: Names = None,
    deep: Annotated[bool, typer.Option("--deep", help="Hidden columns and hidden state tables as well.")] = False,
) -> None:
    """Compare stream tables with their definitions, row by row; exit code 1 if one differs. No name: all.

    [dim]trickle verify
    trickle verify shop.revenue --deep[/dim]
    """
    out = Output(_state.output)
    with _lake(out) as tr:
        skipped = () if names else ("VOLATILE_FUNCTION",)
        check = partial(tr.verify, deep=deep)
        _each(names or _all_names(tr), "Verifying", check, out, skipped, bad=lambda v: not v.equal)


@app.command()
def demo(
    rows: Annotated[int, typer.Option("--rows", min=100, help="Order items to start with.")] = 300_000,
    rounds: Annotated[int, typer.Option("--rounds", min=1, max=100, help="Rounds of changes.")] = 4,
    folder: Annotated[Path, typer.Option("--dir", help="Folder of the demo's lake.")] = Path("demo-lakehouse"),
    seed: Annotated[int, typer.Option("--seed", help="Other data, other changes.")] = 1,
) -> None:
    """Make a small shop, keep five stream tables on it, and time each refresh against a full recompute.

    [dim]trickle demo
    trickle demo --rows 30000 --rounds 2[/dim]
    """
    from spark_trickle.cli.show_demo import show_demo

    if not show_demo(Output(_state.output), folder, rows=rows, rounds=rounds, seed=seed):
        raise typer.Exit(DIFFERS)


# --- shared -------------------------------------------------------------------------------------------------


def _settings() -> Settings:
    from spark_trickle.config import Settings

    return Settings.load(_state.lake)


@contextmanager
def _lake(out: Output, *, create: bool = False, **options: Any) -> Iterator[Trickle]:
    """The lake of this command. Only `init` makes one: a mistyped folder must not become an empty lake."""
    settings = _settings()
    if not create and not settings.is_postgres and not settings.database.exists():
        at = _shell(_state.lake or str(settings.location))
        raise TrickleError(
            "INVALID_SETTING",
            f"There is no lake at {settings.location}.",
            hint=f"Make one: trickle init {at}",
        )
    from spark_trickle import connect

    with out.progress("Opening the lake"):
        tr = connect(_state.lake, **options)
    try:
        yield tr
    finally:
        tr.close()


def _each(
    names: Sequence[str],
    doing: str,
    do: Callable[[str], Any],
    out: Output,
    skipped: Sequence[str] = (),
    *,
    bad: Callable[[Any], bool] = lambda _: False,
) -> None:
    """Do it to each and show all results; then, of what went wrong, first a bad result and then the first error."""
    found, failed = [], []
    for name in names:
        try:
            with out.progress(f"{doing} {name}"):
                found.append(do(name))
        except TrickleError as e:
            if e.code in skipped:
                out.err.print(f"skipped: {e.message}", markup=False, soft_wrap=True)
            else:
                failed.append(e)
    if found or not failed:
        out.show(tuple(found))
    differs = any(map(bad, found))
    for error in failed if differs else failed[1:]:
        out.error(error)
    if differs:
        raise typer.Exit(DIFFERS)
    if failed:
        raise failed[0]


def _all_names(tr: Trickle) -> list[str]:
    """Every stream table, quoted: a name as shown need not be one that can be parsed."""
    return [".".join(f"`{part.replace('`', '``')}`" for part in s.name.split(".")) for s in tr.status()]


def _pairs(given: Sequence[str] | None) -> dict[str, str]:
    found: dict[str, str] = {}
    for one in given or ():
        key, equals, value = one.partition("=")
        if not equals or not key.strip():
            _usage(f"--set {one}: write it as KEY=VALUE.")
        found[key.strip()] = value.strip()
    return found


def _text(given: str | None, file: str | None, what: str) -> str:
    """The SQL of a command: argument, file, or what is piped in."""
    if given is not None and file is not None:
        _usage(f"Give {what} or --file, not both.")
    if given is not None:
        return given
    if file is not None and file != "-":
        try:
            return Path(file).read_text(encoding="utf-8")
        except (OSError, UnicodeDecodeError) as e:
            raise TrickleError("INVALID_STATEMENT", f"{file} cannot be read: {e}", hint="Check the path.") from None
    if file is None and sys.stdin.isatty():
        _usage(f"Give {what}, --file, or pipe it in.")
    return sys.stdin.read()


def _result(result: Any, limit: int) -> Any:
    return Rows.of(result, limit) if hasattr(result, "schema") and hasattr(result, "collect") else result


def _shell(text: str) -> str:
    import shlex

    return shlex.quote(text)


def _usage(message: str) -> NoReturn:
    raise typer.BadParameter(message)


_SETTINGS_FILE = """\
# Settings of this lake; docs/configuration.md lists them all.
# shuffle_partitions = 4
# time_zone = "UTC"
# default_schedule = "1m"
# max_change_ratio = 0.15

# [spark_conf]
# "spark.sql.autoBroadcastJoinThreshold" = "50m"
"""


app.add_typer(function_commands(lambda: Output(_state.output), _lake))
app.add_typer(source_commands(lambda: Output(_state.output), _lake))


# --- the one place where errors become text ---------------------------------------------------------------


def run(arguments: Sequence[str] | None = None) -> int:
    """Run one command and give its exit code."""
    given = list(sys.argv[1:] if arguments is None else arguments)
    hoisted = hoist(given)
    _state.lake, _state.output, _state.debug = None, _asked_format(hoisted), "--debug" in given
    try:
        code = typer.main.get_command(app).main(hoisted, prog_name="trickle", standalone_mode=False)
        return int(code or 0)
    except typer.Exit as e:
        return e.exit_code
    except (KeyboardInterrupt, typer.Abort):
        Output(_state.output).err.print("interrupted")
        return INTERRUPTED
    except BrokenPipeError:
        # The reader of our output has gone: nothing to say, and nobody to say it to.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 0
    except TrickleError as e:
        if _state.debug:
            _traceback()
        Output(_state.output).error(e)
        return e.exit_code
    except Exception as e:
        if hasattr(e, "format_message") and hasattr(e, "exit_code"):  # wrong use of the command line
            return _show_usage(e)
        if _state.debug:
            _traceback()
        wrapped = _translate(e)
        Output(_state.output).error(wrapped)
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
    if _state.output is Format.JSON:
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
