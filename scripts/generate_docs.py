"""Write the pages of docs/ that follow from the code. `make docs` runs this; a test compares."""

from __future__ import annotations

import inspect
import re
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

DOCS = Path(__file__).resolve().parent.parent / "docs"
NOTE = "<!-- Written by `make docs`: change the code, not this page. -->"


def configuration() -> str:
    from spark_trickle.config import ENV_PREFIX, Settings

    lines = [
        "# Settings",
        NOTE,
        "",
        "Sources, strongest first: keywords of `spark_trickle.connect`, environment variables, one",
        "`trickle.toml`, defaults. An unknown name or an impossible value is the error `INVALID_SETTING`,",
        "which names it and its source.",
        "",
        "Which `trickle.toml`: the one given as path; else the one in the lake's folder; else, if no lake is",
        "named, the one in the current folder. Paths in it are relative to it. Whoever names a lake",
        '(`connect("folder")`, `trickle -C folder`) gets that lake: `TRICKLE_LOCATION`,',
        "`TRICKLE_CATALOG_URL` and `TRICKLE_WAREHOUSE` are then not looked at.",
        "",
        "*Live* settings may be changed in `trickle.toml` while a scheduler runs: it looks at the file every two",
        "seconds, and at once on SIGHUP (`trickle up`) or `tr.reload_settings()`. A file that is wrong changes",
        "nothing. The others take effect when the process starts again",
        "([decision 23](decisions/0023-alerts-and-live-settings.md)).",
        "",
        "| setting | environment | default | live | meaning |",
        "|---|---|---|---|---|",
    ]
    live = Settings.live()
    for name, field in Settings.model_fields.items():
        default = field.get_default(call_default_factory=True, validated_data={})
        shown = "" if default in (None, (), {}) else f"`{default}`"
        meaning = (field.description or "").replace("|", "\\|")
        now = "yes" if name in live else ""
        lines.append(f"| `{name}` | `{ENV_PREFIX}{name.upper()}` | {shown} | {now} | {meaning} |")
    lines += [
        "",
        "```toml",
        "# lakehouse/trickle.toml",
        "shuffle_partitions = 8",
        'time_zone = "Europe/Berlin"',
        "",
        "[spark_conf]",
        '"spark.sql.autoBroadcastJoinThreshold" = "50m"',
        "```",
        "",
        "In the environment, `spark_conf`, `extra_packages`, `alert_completed` and `webhooks` are written as",
        "JSON. A password belongs into `TRICKLE_CATALOG_URL` rather than into a file; it is not shown in messages.",
        "",
    ]
    return "\n".join(lines)


def settings() -> str:
    from spark_trickle.spark.settings import ALIASES, FIXED, FREE, PINNED

    def shown(value: str | None) -> str:
        return "" if value is None else f"`{value}`"

    short = ", ".join(f"`{a}`" for a in ALIASES)
    lines = [
        "# Spark's settings and the meaning of a definition",
        NOTE,
        "",
        "A definition means one thing. What affects its rows, besides its text and its sources, is stored with the",
        "stream table and used by every refresh, `verify` and `explain`, whoever connects, with whatever `spark_conf`,",
        "and whatever was SET on `tr.spark`. Besides the settings below that is the namespace in which the definition",
        "was written, and the versions of the lake's functions that it calls ([functions.md](functions.md)).",
        "",
        "```sql",
        "CREATE STREAM TABLE shop.days SET ('spark.sql.session.timeZone' = 'Europe/Berlin') AS",
        "SELECT to_date(ts) AS day, count(*) AS n FROM shop.orders GROUP BY to_date(ts);",
        "ALTER STREAM TABLE shop.days SET (time_zone = 'Asia/Tokyo');  -- recomputes it, in the same transaction",
        "DESCRIBE STREAM TABLE shop.days;                              -- shows what is pinned",
        "```",
        "",
        '`tr.create_stream_table(..., settings={"time_zone": "Europe/Berlin"})`, `tr.alter_stream_table` and',
        f"`trickle create --set`, `trickle alter --set` do the same. Short names: {short}. What is not given is what a",
        "new session of the connection has: its `time_zone`, its `spark_conf`, else Spark's defaults. What was SET on",
        "`tr.spark` is not taken over; where it differs, a notice at creation says so. `CREATE OR REPLACE` keeps the",
        "settings that there are. A hidden state table has its owner's.",
        "",
        "A stream table from before settings were kept is pinned at its next refresh, to what the connection that",
        "refreshes it has; if another one filled it, refresh it once with mode FULL.",
        "",
        "## Pinned",
        "",
        "Stored with every stream table, all of them with their values: another version of Spark may have other",
        "defaults.",
        "",
        "| setting | Spark's default | what it changes |",
        "|---|---|---|",
    ]
    lines += [f"| `{s.key}` | {shown(s.value)} | {s.why} |" for s in PINNED.values()]
    lines += [
        "",
        "## Fixed",
        "",
        "One value in every definition, whatever the connection says. No value: Spark's default.",
        "",
        "| setting | value | why |",
        "|---|---|---|",
    ]
    lines += [f"| `{s.key}` | {shown(s.value)} | {s.why} |" for s in FIXED.values()]
    lines += ["", "## Free", "", "They may be set freely; none of them can change a row.", ""]
    for why in dict.fromkeys(s.why for s in FREE):
        keys = ", ".join(f"`{s.key}`" for s in FREE if s.why == why)
        lines += [f"- **{why[0].upper()}{why[1:]}.** {keys}"]
    lines += [
        "",
        "A name goes before a beginning (`*`), a longer beginning before a shorter one. A test goes over all settings",
        "of the installed Spark and fails for one that is not here.",
    ]
    return "\n".join([*lines, ""])


def errors() -> str:
    from spark_trickle.errors import CODES, EXIT_CODES, Kind
    from spark_trickle.spark.analyze import EVALUATION_STATES

    meanings = {
        Kind.USER: "the request is wrong: change it",
        Kind.SCHEMA: "the world changed under the definition",
        Kind.TRANSIENT: "the same request may succeed later",
        Kind.INTERNAL: "a broken promise of ours: report it",
    }
    lines = ["# Errors", NOTE, "", "| kind | exit code | meaning |", "|---|---|---|"]
    lines += [f"| {kind} | {EXIT_CODES[kind]} | {meanings[kind]} |" for kind in Kind]
    lines += ["", "| code | kind | what happened | what to do |", "|---|---|---|---|"]
    lines += [f"| `{name}` | {c.kind} | {c.meaning} | {c.remedy} |" for name, c in CODES.items()]
    lines += [
        "",
        "## Errors of Spark",
        "An error of Spark while it computes is sorted by its SQLSTATE. What a row of the sources causes is the "
        "user's: `EVALUATION_FAILED`. Everything else is `SPARK_FAILED`, which may succeed later: files, network, "
        "memory, executors. The old content of the stream table stays readable in either case.",
        "",
        "| SQLSTATE | what happened | code |",
        "|---|---|---|",
        *(
            f"| {state if len(state) == 5 else f'{state}…'} | {says} | `EVALUATION_FAILED` |"
            for state, says in EVALUATION_STATES.items()
        ),
        "| all others | the environment | `SPARK_FAILED` |",
    ]
    return "\n".join([*lines, ""])


def cli() -> str:
    import typer

    from spark_trickle.cli.app import app

    group: Any = typer.main.get_command(app)
    lines = [
        "# The command `trickle`",
        NOTE,
        "",
        str(group.help),
        "",
        "Results go to standard output, progress and errors to standard error. With `--output json` a",
        "command prints one JSON document (`changes`: one per row), and an error is",
        '`{"error": {"code", "kind", "message", "hint"}}`.',
        "",
        *_parameters(group),
        str(group.epilog),
    ]
    for name, command in _commands(group):
        text, _, examples = inspect.cleandoc(command.help or "").partition("[dim]")
        usage = " ".join(_metavar(p) for p in command.params if p.param_type_name == "argument")
        lines += ["", f"## trickle {name} {usage}".rstrip(), "", text.strip(), ""]
        lines += _parameters(command)
        if examples:
            shown = [line.strip() for line in examples.replace("[/dim]", "").strip().splitlines()]
            lines += ["", "```sh", *shown, "```"]
    return re.sub(r"\n{3,}", "\n\n", "\n".join([*lines, ""]))


def sql_support() -> str:
    from spark_trickle.sql.reasons import REASONS
    from spark_trickle.sql.support import CONSTRUCTS

    lines = [
        "# What of Spark SQL is incremental",
        NOTE,
        "",
        "Whatever Spark accepts can be a definition. Most of it is maintained incrementally (DIFFERENTIAL); the",
        "rest is recomputed (FULL), with the reason stored. `trickle check FILE.sql` says which, before anything is",
        "created. What a name means where it could mean two things is in [names.md](names.md).",
        "",
        "## Constructs",
        "",
        "Every example is compiled by a test, which also sees that it becomes the operators named here.",
        "",
        "| construct | example | becomes | a refresh costs | mind |",
        "|---|---|---|---|---|",
    ]
    for c in CONSTRUCTS:
        example = c.example.replace("|", "\\|")
        lines.append(f"| {c.name} | `{example}` | {', '.join(c.operators)} | {c.cost} | {c.limits} |")
    lines += ["", "## Aggregate functions", "", *_aggregates()]
    lines += [
        "",
        "## Reasons for FULL",
        "",
        "*never*: no rule could be right. *not yet*: a rule is missing.",
        "",
        "| reason | | meaning | what to change |",
        "|---|---|---|---|",
    ]
    lines += [f"| `{name}` | {r.word} | {r.meaning} | {r.change} |" for name, r in REASONS.items()]
    lines += [
        "",
        "Not noticed: a *column* of strings that are only a time of day (`12:30`), cast to TIMESTAMP. Spark adds the",
        "date on which it computes them. Cast such a column to TIME, or add a date.",
    ]
    return "\n".join([*lines, ""])


def _aggregates() -> list[str]:
    from spark_trickle.delta.aggregates import algebraic
    from spark_trickle.sql.aggregate_facts import FLOATING, UNDETERMINED
    from spark_trickle.sql.algebra import Call
    from spark_trickle.sql.scalar import call, column

    types = [
        "int",
        "bigint",
        "decimal(15,2)",
        "decimal(38,6)",
        "decimal(38,9)",
        "double",
        "string",
        "date",
        "timestamp",
        "boolean",
    ]
    names = ["count", "count_if", "sum", "min", "max", "bool_and", "bool_or", "avg"]
    lines = [
        "Bit-equal to Spark's own result by adding the change to stored states, else the affected groups are",
        "recomputed from the new state. DISTINCT, ORDER BY inside and WITHIN GROUP always go by affected groups.",
        "",
        "| function | by state for | else |",
        "|---|---|---|",
    ]
    for name in names:
        fit = []
        for type_ in types:
            one = Call("a", call(name, column("x")), name, (column("x"),))
            try:
                found = algebraic(one, {"a": type_, "a__arg": type_}, "s")
            except KeyError:
                found = None
            if found is not None and not (name in ("count_if", "bool_and", "bool_or") and type_ != "boolean"):
                fit.append(type_)
        lines.append(f"| {name} | {', '.join(fit) or 'no type'} | affected groups |")
    lines.append("| every other aggregate of Spark | no type | affected groups |")
    open_ones = ", ".join(sorted(UNDETERMINED))
    floats = ", ".join(sorted(FLOATING))
    lines += [
        "",
        f"SQL leaves the answer of these open, by row order or ties: {open_ones}. Below the top of a query they are",
        "kept in a hidden state table, so that what is taken back is what was given.",
        "",
        f"So are these where they add up floats, whose last bits depend on the order of rows: {floats}. A comparison",
        "allows them a relative error of 1e-9; they do not drift, since affected groups are recomputed.",
    ]
    return lines


def _commands(group: Any, before: str = "") -> Iterator[tuple[str, Any]]:
    """The commands by their full names, those of groups in place."""
    for name, command in group.commands.items():
        if hasattr(command, "commands"):
            yield from _commands(command, f"{before}{name} ")
        else:
            yield f"{before}{name}", command


def _metavar(argument: Any) -> str:
    name = argument.metavar or argument.name.upper()
    shown = f"{name}..." if argument.nargs == -1 else name
    return str(shown if argument.required else f"[{shown}]")


def _parameters(command: Any) -> list[str]:
    found = [p for p in command.params if p.param_type_name == "option"]
    if not found:
        return []
    rows = [f"| `{', '.join((*p.opts, *p.secondary_opts))}` | {p.help or ''} |" for p in found]
    return ["| option | meaning |", "|---|---|", *rows, ""]


def iceberg_events() -> str:
    root = str(DOCS.parent)
    if root not in sys.path:
        sys.path.insert(0, root)
    from tests.events.page import page

    return page(NOTE)


def names() -> str:
    root = str(DOCS.parent)
    if root not in sys.path:
        sys.path.insert(0, root)
    from tests.sql.name_rules import page

    return page(NOTE)


def alerts() -> str:
    """The table of kinds; the rest of the page is written by hand."""
    from spark_trickle.catalog.alerts import KINDS

    before, _, rest = (DOCS / "alerts.md").read_text(encoding="utf-8").partition("<!-- kinds -->")
    _, _, after = rest.partition("<!-- /kinds -->")
    lines = ["<!-- kinds -->", "| kind | severity | meaning | what to do | it ends |", "|---|---|---|---|---|"]
    lines += [f"| `{name}` | {k.severity} | {k.meaning} | {k.remedy} | {k.ends} |" for name, k in KINDS.items()]
    return before + "\n".join([*lines, "<!-- /kinds -->"]) + after


PAGES = {
    "alerts.md": alerts,
    "configuration.md": configuration,
    "settings.md": settings,
    "errors.md": errors,
    "cli.md": cli,
    "sql-support.md": sql_support,
    "names.md": names,
    "iceberg-events.md": iceberg_events,
}


def main() -> int:
    DOCS.mkdir(exist_ok=True)
    for name, page in PAGES.items():
        (DOCS / name).write_text(page(), encoding="utf-8")
        print(f"docs/{name}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
