"""docs/iceberg-events.md, from the library."""

from __future__ import annotations

from spark_trickle.model import Action
from tests.events.event import Event
from tests.events.library import EVENTS
from tests.events.tables import DEFINITIONS, KINDS, PARTITIONINGS

TITLES = {
    "rows": "Rows",
    "other writers": "Other writers",
    "maintenance": "Maintenance",
    "snapshots": "Snapshots, branches, write-audit-publish",
    "layout": "Layout and format",
    "schema": "Columns",
    "replaced": "Another table under the name",
}


def page(note: str) -> str:
    lines = [
        "# What happens to an Iceberg table, and what a refresh makes of it",
        note,
        "",
        "A source may be written by anyone with anything, and maintained as its owner likes. Nothing has to be",
        "announced: a refresh compares the source at its frontier with the source at the cut, and reads only the files",
        "that differ.",
        "",
        "Every row below is a test: the event is done to a source, four stream tables are refreshed, each is compared",
        "with its definition as a multiset, and the action must be the one named here. After an event without changed",
        "rows the frontier is where the source is, no Spark job has run and no byte of data was read.",
        "",
        "`make test` plays every event on v3 merge-on-read or on v2 copy-on-write with partitions, `make test-all` on",
        "both, `make events` on",
        f"{len(KINDS)} kinds of source: format v1, v2 and v3, copy-on-write and merge-on-read, partitioned by",
        f"{_list(PARTITIONINGS)}. It also plays random sequences of 30 events and compares after each:",
        "`make events SEED=7 SEQUENCES=20`.",
        "",
        "The stream tables:",
        "",
        "```sql",
        *(f"-- {name}\n{definition};" for name, definition in DEFINITIONS.items()),
        "```",
        "",
        "Where the change since the frontier cannot be known, mode AUTO recomputes once (REINITIALIZE, with the",
        "reason), and consumers follow; mode DIFFERENTIAL, which was told never to recompute, goes to ERROR and keeps",
        "its content.",
        "",
        "There is no counterpart to settings such as `block_source_ddl`, with which other systems forbid changes of a",
        "source: Trickle never stands in a writer's way. What a change of columns means is decided at the next",
        "refresh.",
    ]
    for group, title in TITLES.items():
        found = [e for e in EVENTS if e.group == group]
        if not found:
            continue
        lines += ["", f"## {title}", "", "| event | the feed reads | next refresh | mind |", "|---|---|---|---|"]
        lines += [f"| {e.title} | {e.reads} | {_action(e)} | {_mind(e)} |" for e in found]
    return "\n".join([*lines, ""])


def _list(names: dict[str, str]) -> str:
    shown = [n for n in names if n != "none"]
    return f"{', '.join(shown[:-1])} or {shown[-1]}, and not"


def _action(event: Event) -> str:
    expect = event.expect
    if expect.code is None:
        return f"{expect.action}, frontier advances" if expect.action is Action.NO_DATA else str(expect.action)
    reason = expect.reason or expect.code
    if event.after:
        return f"error `{expect.code}`; once it is back, AUTO: {expect.action} `{reason}`"
    return f"AUTO: {expect.action} `{reason}`; DIFFERENTIAL: error `{expect.code}`"


def _mind(event: Event) -> str:
    only = f"Only {event.limits}." if event.limits else ""
    return " ".join(part for part in (only, event.note) if part).replace("|", "\\|")
