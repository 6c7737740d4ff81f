"""Write the pages of docs/ that follow from the code. `make docs` runs this; a test compares."""

from __future__ import annotations

import inspect
import re
import sys
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
        "| setting | environment | default | meaning |",
        "|---|---|---|---|",
    ]
    for name, field in Settings.model_fields.items():
        default = field.get_default(call_default_factory=True, validated_data={})
        shown = "" if default in (None, (), {}) else f"`{default}`"
        meaning = (field.description or "").replace("|", "\\|")
        lines.append(f"| `{name}` | `{ENV_PREFIX}{name.upper()}` | {shown} | {meaning} |")
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
        "In the environment, `spark_conf` and `extra_packages` are written as JSON. A password belongs into",
        "`TRICKLE_CATALOG_URL` rather than into a file; it is not shown in messages.",
        "",
    ]
    return "\n".join(lines)


def errors() -> str:
    from spark_trickle.errors import CODES, EXIT_CODES, Kind

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
        'command prints one JSON document, and an error is `{"error": {"code", "kind", "message", "hint"}}`.',
        "",
        *_parameters(group),
        str(group.epilog),
    ]
    for name, command in group.commands.items():
        text, _, examples = inspect.cleandoc(command.help or "").partition("[dim]")
        usage = " ".join(_metavar(p) for p in command.params if p.param_type_name == "argument")
        lines += ["", f"## trickle {name} {usage}".rstrip(), "", text.strip(), ""]
        lines += _parameters(command)
        if examples:
            shown = [line.strip() for line in examples.replace("[/dim]", "").strip().splitlines()]
            lines += ["", "```sh", *shown, "```"]
    return re.sub(r"\n{3,}", "\n\n", "\n".join([*lines, ""]))


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


PAGES = {"configuration.md": configuration, "errors.md": errors, "cli.md": cli}


def main() -> int:
    DOCS.mkdir(exist_ok=True)
    for name, page in PAGES.items():
        (DOCS / name).write_text(page(), encoding="utf-8")
        print(f"docs/{name}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
