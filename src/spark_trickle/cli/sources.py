"""`trickle source`: tables outside the lake that it knows by names of its own."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer
from rich.text import Text

from spark_trickle.cli.common import open_lake, output
from spark_trickle.cli.output import Output, grid

if TYPE_CHECKING:
    from spark_trickle.model import Source

Name = Annotated[str, typer.Argument(metavar="NAME", help="Its name in the lake, such as shop.clicks.")]

commands = typer.Typer(
    name="source",
    help="Tables outside the lake, such as Delta Lake tables, by name.\n\n[dim]trickle source list[/dim]",
    no_args_is_help=True,
    rich_markup_mode="rich",
)


@commands.command()
def create(
    name: Name,
    location: Annotated[str, typer.Argument(metavar="LOCATION", help="Path or URI of the table.")],
    format: Annotated[str, typer.Option("--format", "-f", help="What it is: delta.")] = "delta",
) -> None:
    """Let definitions read a table outside the lake by a name.

    [dim]trickle source create shop.clicks s3a://bucket/clicks[/dim]
    """
    out = output()
    # Before there is a Delta Lake source, Spark does not start with Delta Lake by itself.
    with open_lake(out, delta_lake=True) as tr, out.progress(f"Looking at {location}"):
        made = tr.create_source(name, format, location)
    _show(out, made)


@commands.command(name="list")
def list_() -> None:
    """Show the tables outside the lake that it knows.

    [dim]trickle source list[/dim]
    """
    out = output()
    with open_lake(out) as tr:
        _show(out, tr.sources())


@commands.command()
def drop(name: Name) -> None:
    """Drop a source; refused while a stream table reads it. The table itself stays.

    [dim]trickle source drop shop.clicks[/dim]
    """
    out = output()
    with open_lake(out) as tr:
        tr.drop_source(name)
    out.show({"dropped": name} if out.is_json else f"{name} is dropped.")


def _show(out: Output, found: Source | tuple[Source, ...]) -> None:
    sources = found if isinstance(found, tuple) else (found,)
    if out.is_json or not sources:
        out.show(found)
        return
    table = grid("source", "format", "location")
    for s in sources:
        table.add_row(Text(s.name), s.format, Text(s.location))
    out.out.print(table)
