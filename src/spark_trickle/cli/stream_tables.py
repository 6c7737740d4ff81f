"""The commands on stream tables."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Annotated, Any

import typer

from spark_trickle.cli.common import (
    all_names,
    check_names,
    each,
    load_settings,
    open_engine,
    open_lake,
    open_store,
    output,
    pairs,
    read_text,
    together,
    usage,
)


def _repeated(option: str, metavar: str, says: str) -> Any:
    return typer.Option(option, metavar=metavar, help=f"{says}; may be repeated.", show_default=False)


Name = Annotated[str, typer.Argument(metavar="NAME", help="A stream table, such as shop.revenue.")]
Names = Annotated[list[str] | None, typer.Argument(metavar="NAME", help="Stream tables.")]
Query = Annotated[str | None, typer.Option("--query", "-q", help="The definition, a SELECT.")]
QueryFile = Annotated[str | None, typer.Option("--file", "-f", help="Read it from a file; - is standard input.")]
Schedule = Annotated[
    str | None,
    typer.Option(
        "--schedule", "-s", help="'30s', '5m', '50s exact', a cron line, 'downstream' or 'manual'.", show_default=False
    ),
]
Mode = Annotated[str | None, typer.Option("--mode", "-m", help="auto, differential or full.", show_default=False)]
Set = Annotated[
    list[str] | None,
    _repeated(
        "--set",
        "KEY=VALUE",
        "A Spark setting that the definition runs under, such as time_zone=Europe/Berlin",
    ),
]
PartitionBy = Annotated[
    list[str] | None,
    _repeated(
        "--partition-by",
        "TERM",
        "Partition the table by a column, by 'year(ts)', 'month(ts)', 'day(ts)' or 'hour(ts)' of one, by "
        "'bucket(16, id)' or by 'truncate(4, code)'",
    ),
]
ClusterBy = Annotated[
    list[str] | None,
    _repeated(
        "--cluster-by",
        "COLUMN",
        "Sort the table's files by a column, such as region or 'amount DESC'",
    ),
]
Comment = Annotated[str | None, typer.Option("--comment", help="A comment on the table.", show_default=False)]
Property = Annotated[
    list[str] | None,
    _repeated(
        "--property",
        "KEY=VALUE",
        "An Iceberg table property, such as write.parquet.compression-codec=zstd",
    ),
]
Since = Annotated[
    str | None,
    typer.Option("--since", metavar="TIME", help="A time with its zone, or how long ago: 24h, 7d.", show_default=False),
]
Star = Annotated[
    str | None,
    typer.Option("--star", help="What * means when a source gets other columns: pin or follow.", show_default=False),
]


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
    partition_by: PartitionBy = None,
    cluster_by: ClusterBy = None,
    comment: Comment = None,
    property_: Property = None,
) -> None:
    """Create a stream table from a query.

    [dim]trickle create shop.big -q "SELECT * FROM shop.orders WHERE amount > 100" --schedule 5m
    trickle create shop.big -f big.sql --mode differential
    trickle create shop.days -f days.sql --set time_zone=Europe/Berlin
    trickle create shop.lines -f lines.sql --partition-by "day(ts)" --cluster-by customer --comment "one per item"[/dim]
    """
    out = output()
    settings, properties = pairs("--set", set_), pairs("--property", property_)
    definition = read_text(query, file, "--query")
    _check_schedule(schedule)
    with open_engine(out) as tr, out.progress(f"Creating {name}"):
        result = tr.create_stream_table(
            name,
            definition,
            schedule,
            mode or "auto",
            initialize=initialize,
            star=star or "pin",
            settings=settings,
            partitioned_by=partition_by or (),
            cluster_by=cluster_by or (),
            comment=comment,
            properties=properties,
        )
    out.show(result if result is not None else {"created": name} if out.is_json else f"{name} is created.")


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
    out = output()
    given = query is not None or file is not None
    settings = pairs("--set", set_)
    if not given and not settings and schedule is None and mode is None and star is None:
        usage("Say what to change: --query, --file, --schedule, --mode, --star or --set.")
    if schedule is not None and not given and not settings and mode is None and star is None:
        _set_schedule(name, schedule)
        out.show({"altered": name} if out.is_json else f"{name} is altered.")
        return
    _check_schedule(schedule)
    definition = read_text(query, file, "--query") if given else None
    with open_engine(out, [name]) as tr, out.progress(f"Altering {name}"):
        result = tr.alter_stream_table(
            name, query=definition, schedule=schedule, mode=mode, star=star, settings=settings
        )
    out.show(result if result is not None else {"altered": name} if out.is_json else f"{name} is altered.")


def _check_schedule(schedule: str | None) -> None:
    """Refuse a bad one before Spark is started."""
    from spark_trickle.schedule import check_schedule

    check_schedule(schedule, load_settings().min_schedule_seconds)


def _set_schedule(name: str, schedule: str) -> None:
    from spark_trickle.catalog.controls import set_schedule
    from spark_trickle.schedule import check_schedule

    with open_store() as lake:
        checked = check_schedule(schedule, lake.settings.min_schedule_seconds)
        assert checked is not None
        set_schedule(lake.store, lake.name(name), checked, lake.settings.lease_wait_seconds)


def drop(
    name: Name,
    cascade: Annotated[bool, typer.Option("--cascade", help="Drop the stream tables that read it too.")] = False,
    if_exists: Annotated[bool, typer.Option("--if-exists", help="No error if there is none.")] = False,
) -> None:
    """Drop a stream table and its files.

    [dim]trickle drop shop.big
    trickle drop shop.lines --cascade[/dim]
    """
    out = output()
    with open_engine(out) as tr, out.progress(f"Dropping {name}"):
        result = tr.drop_stream_table(name, cascade=cascade, if_exists=if_exists)
    if out.is_json:
        out.show({"dropped": result if result is not None else [name]})
    else:
        dropped = result if isinstance(result, (tuple, list)) else (name,)
        for one in dropped:
            out.say(f"{one} is dropped.")
        if not dropped:
            out.say(f"There was no {name}.")


def refresh(
    names: Names = None,
    every: Annotated[
        bool,
        typer.Option(
            "--all", help="Every stream table of the lake, one by one: one that fails does not stop the others."
        ),
    ] = False,
    mode: Mode = None,
    upstream: Annotated[
        bool, typer.Option("--upstream/--no-upstream", help="Refresh the stream tables it reads first.")
    ] = True,
    dry_run: Annotated[
        bool,
        typer.Option("--dry-run", help="Say what would be done and why, with the SQL and what it cost before."),
    ] = False,
) -> None:
    """Bring stream tables up to date, computing only what changed. Several names are a group: all or none.

    [dim]trickle refresh shop.revenue
    trickle refresh --all
    trickle refresh shop.revenue --mode full
    trickle refresh --all --dry-run[/dim]
    """
    out = output()
    if bool(names) == every:
        usage("Name stream tables, or say --all.")
    with open_engine(out, names or ()) as tr:
        if dry_run:
            out.show(tr.plan(all_names(tr) if every else list(names or ()), mode=mode, upstream=upstream))
        elif every:
            units = together(tr)
            each(list(units), "Refreshing", lambda unit: tr.refresh(units[unit], mode=mode), out)
        else:
            wanted = list(names or ())
            with out.progress(f"Refreshing {', '.join(wanted)}"):
                found = tr.refresh(wanted[0] if len(wanted) == 1 else wanted, mode=mode, upstream=upstream)
            results = tuple(found) if isinstance(found, (tuple, list)) else (found,)
            out.show(results)


def status(name: Annotated[str | None, typer.Argument(metavar="NAME")] = None) -> None:
    """Show stream tables: state, mode, schedule, freshness, last refresh.

    [dim]trickle status
    trickle status shop.revenue --output json[/dim]
    """
    from spark_trickle.monitor.status import status

    out = output()
    with open_store() as lake:
        found = None if name is None else lake.name(name)
        if not lake.has_outside_sources:
            out.show(status(lake.store, lake.settings, found))
            return
        if found is not None:
            lake.store.find(found)
    with open_engine(out) as tr:
        out.show(tuple(tr.status(name)))


def describe(name: Name) -> None:
    """Show what a stream table is: definition, columns, inputs, functions, and the settings it runs under.

    [dim]trickle describe shop.revenue
    trickle describe shop.revenue --output json[/dim]
    """
    from spark_trickle.monitor.status import describe

    out = output()
    with open_store() as lake:
        out.show(describe(lake.store, lake.name(name)))


def history(
    name: Annotated[str | None, typer.Argument(metavar="NAME")] = None,
    limit: Annotated[int, typer.Option("--limit", "-n", help="Newest entries shown.")] = 20,
    since: Since = None,
    until: Annotated[
        str | None, typer.Option("--until", metavar="TIME", help="Those that began before it.", show_default=False)
    ] = None,
    action: Annotated[
        str | None,
        typer.Option("--action", "-a", help="no_data, differential, full, reinitialize or skip.", show_default=False),
    ] = None,
    status: Annotated[
        str | None, typer.Option("--status", help="running, completed or failed.", show_default=False)
    ] = None,
    failed: Annotated[bool, typer.Option("--failed", help="Failed ones only.")] = False,
    min_seconds: Annotated[
        float | None, typer.Option("--min-seconds", help="Those that took at least so long.", show_default=False)
    ] = None,
) -> None:
    """Show past refreshes, newest first, each with its action and reason.

    [dim]trickle history
    trickle history shop.revenue -n 5
    trickle history --failed --since 24h
    trickle history --action full --min-seconds 10[/dim]
    """
    from spark_trickle.monitor.filters import history_filter

    out = output()
    with open_store() as lake:
        chosen = history_filter(
            None if name is None else str(lake.name(name)),
            limit=limit,
            since=since,
            until=until,
            action=action,
            status=status,
            failed_only=failed,
            min_seconds=min_seconds,
        )
        out.show(lake.store.history(limit=limit, chosen=chosen))


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

    out = output()
    check_since(since)
    check_names([name])
    with open_lake(out) as tr:
        show_changes(out, tr, name, since, limit, follow=follow)


def explain(name: Name) -> None:
    """Show how a stream table is maintained: operators, delta SQL, and what the next refresh would do.

    [dim]trickle explain shop.revenue[/dim]
    """
    out = output()
    with open_engine(out, [name]) as tr, out.progress("Explaining"):
        result = tr.explain(name)
    out.show(result)


def check(
    file: Annotated[str, typer.Argument(metavar="FILE", help="A file with a query; - is standard input.")],
    sql: Annotated[bool, typer.Option("--sql", help="Print what a differential refresh would run, too.")] = False,
) -> None:
    """Say before creation whether a query would be incremental, and if not, why and what to change; exit code 2 if not.

    [dim]trickle check revenue.sql
    echo "SELECT city, count(*) FROM shop.customers GROUP BY city" | trickle check -[/dim]
    """
    from spark_trickle.cli.check import read_query, show_check

    out = output()
    query = read_query(file)
    with open_engine(out) as tr, out.progress("Checking"):
        found = tr.check(query)
    raise typer.Exit(show_check(out, found, sql=sql))


def verify(
    names: Names = None,
    deep: Annotated[bool, typer.Option("--deep", help="Hidden columns and hidden state tables as well.")] = False,
) -> None:
    """Compare stream tables with their definitions, row by row; exit code 1 if one differs. No name: all.

    [dim]trickle verify
    trickle verify shop.revenue --deep[/dim]
    """
    out = output()
    with open_engine(out, names or ()) as tr:
        skipped = () if names else ("VOLATILE_FUNCTION",)
        check = partial(tr.verify, deep=deep)
        each(names or all_names(tr), "Verifying", check, out, skipped, bad=lambda v: not v.equal)


def maintain(
    names: Names = None,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Only say what would be done, and why.")] = False,
) -> None:
    """Merge small files of stream tables, expire old snapshots, delete what nobody needs. No name: all.

    [dim]trickle maintain --dry-run
    trickle maintain shop.revenue[/dim]
    """
    out = output()
    with open_engine(out, names or ()) as tr, out.progress("Maintaining"):
        found = tr.maintain(*names or (), dry_run=dry_run)
    out.show(found)
    if any(upkeep.failed for upkeep in found):
        raise typer.Exit(1)


# In the order of the help text.
COMMANDS: tuple[Callable[..., None], ...] = (
    create,
    alter,
    drop,
    refresh,
    status,
    describe,
    history,
    changes,
    explain,
    check,
    verify,
    maintain,
)
