"""`trickle function`: Python functions that the lake knows by module path."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer
from rich.text import Text

from spark_trickle.cli.common import open_lake, output
from spark_trickle.cli.output import Output, grid

if TYPE_CHECKING:
    from spark_trickle.model import LakeFunction

Name = Annotated[str, typer.Argument(metavar="NAME", help="What SQL calls it, such as net_price.")]

commands = typer.Typer(
    name="function",
    help="Python functions that the lake knows by module path.\n\n[dim]trickle function list[/dim]",
    no_args_is_help=True,
    rich_markup_mode="rich",
)


@commands.command()
def create(
    name: Name,
    path: Annotated[str, typer.Argument(metavar="PATH", help="package.module:function, on PYTHONPATH.")],
    returns: Annotated[str, typer.Option("--returns", "-r", help="Its Spark type, such as decimal(10,2).")],
    volatile: Annotated[bool, typer.Option("--volatile", help="It is not deterministic.")] = False,
) -> None:
    """Register a Python function with the lake.

    [dim]trickle function create net_price shop.prices:net --returns "decimal(10,2)"[/dim]
    """
    out = output()
    with open_lake(out) as tr, out.progress(f"Registering {name}"):
        made = tr.create_function(name, path, returns, deterministic=not volatile)
    _show(out, made)


@commands.command(name="list")
def list_() -> None:
    """Show the lake's functions.

    [dim]trickle function list[/dim]
    """
    out = output()
    with open_lake(out) as tr:
        _show(out, tr.functions())


@commands.command()
def drop(name: Name) -> None:
    """Drop a function; refused while a stream table uses it.

    [dim]trickle function drop net_price[/dim]
    """
    out = output()
    with open_lake(out) as tr:
        tr.drop_function(name)
    out.show({"dropped": name} if out.is_json else f"{name} is dropped.")


def _show(out: Output, found: LakeFunction | tuple[LakeFunction, ...]) -> None:
    functions = found if isinstance(found, tuple) else (found,)
    if out.is_json or not functions:
        out.show(found)
        return
    table = grid("function", "path", "returns", "deterministic", "code")
    for f in functions:
        code = Text(f.fingerprint[:12]) if f.fingerprint else Text("not importable here", style="yellow")
        table.add_row(Text(f.name), Text(f.path), Text(f.returns), "yes" if f.deterministic else "no", code)
    out.out.print(table)
