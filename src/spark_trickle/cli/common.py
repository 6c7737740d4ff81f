"""What the commands share: the global options, opening the lake, and reading arguments."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, NoReturn

import typer

from spark_trickle.cli.output import Format, Output
from spark_trickle.errors import TrickleError

if TYPE_CHECKING:
    from spark_trickle.catalog.store import CatalogStore
    from spark_trickle.config import Settings
    from spark_trickle.engine import Trickle
    from spark_trickle.model import TableName
    from spark_trickle.web.client import RemoteLake

DIFFERS = 1  # exit code of a verification that found a difference, and of a failed check


@dataclass(slots=True)
class State:
    """The global options."""

    lake: str | None = None
    output: Format = Format.TEXT
    debug: bool = False
    local: bool = False


state = State()


def output() -> Output:
    return Output(state.output)


def load_settings() -> Settings:
    from spark_trickle.config import Settings

    return Settings.load(state.lake)


@contextmanager
def open_lake(out: Output, *, create: bool = False, **options: Any) -> Iterator[Trickle]:
    """The lake of this command. Only `init` creates one: a mistyped folder must not become an empty lake."""
    settings = load_settings()
    if not create:
        _check_lake(settings)
    from spark_trickle import connect

    with out.progress("Opening the lake"):
        tr = connect(state.lake, **options)
    try:
        yield tr
    finally:
        tr.close()


@contextmanager
def open_engine(out: Output, names: Iterable[str] = ()) -> Iterator[Trickle | RemoteLake]:
    """The service of the lake, if one runs, else the lake: for commands that need Spark, and can leave it to others.

    Unknown stream tables among `names` are refused before Spark starts.
    """
    remote = find_service()
    if remote is not None:
        try:
            yield remote
        finally:
            remote.close()
        return
    check_names(names)
    with open_lake(out) as tr:
        yield tr


def find_service() -> RemoteLake | None:
    if state.local:
        return None
    from spark_trickle.web.client import RemoteLake
    from spark_trickle.web.registration import find

    settings = load_settings()
    _check_lake(settings)
    service = find(settings)
    return None if service is None else RemoteLake(service, settings.token)


@dataclass(frozen=True, slots=True)
class CatalogOnly:
    """A lake without Spark."""

    store: CatalogStore
    settings: Settings

    def name(self, text: str) -> TableName:
        from spark_trickle.statements.names import parse_name

        return parse_name(text, lambda: "default")

    @property
    def has_outside_sources(self) -> bool:
        """Whether Spark has to look at tables outside of the lake to tell how fresh a stream table is."""
        return bool(self.store.sources())


@contextmanager
def open_store() -> Iterator[CatalogOnly]:
    """The catalog alone: for commands that need no data, which then answer at once."""
    settings = load_settings()
    _check_lake(settings)
    from spark_trickle.catalog.database import open_catalog

    store = open_catalog(settings.sqlalchemy_url)
    store.notify_channel = settings.notify_channel
    try:
        yield CatalogOnly(store, settings)
    finally:
        store.close()


def check_names(names: Iterable[str]) -> None:
    """Refuse unknown stream tables before Spark is started."""
    names = tuple(names)
    if not names:
        return
    with open_store() as lake:
        for name in names:
            lake.store.find(lake.name(name))


def _check_lake(settings: Settings) -> None:
    if not settings.is_postgres and not settings.database.exists():
        at = shell(state.lake or str(settings.location))
        raise TrickleError(
            "INVALID_SETTING",
            f"There is no lake at {settings.location}.",
            hint=f"Create one: trickle init {at}",
        )


def each(
    names: Sequence[str],
    doing: str,
    do: Callable[[str], Any],
    out: Output,
    skipped: Sequence[str] = (),
    *,
    bad: Callable[[Any], bool] = lambda _: False,
) -> None:
    """Do it to each and show all results; then, of what went wrong, first a bad result and then the first error."""
    found: list[Any] = []
    failed: list[TrickleError] = []
    for name in names:
        try:
            with out.progress(f"{doing} {name}"):
                one = do(name)
                found += one if isinstance(one, tuple) else [one]
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


def all_names(tr: Trickle | RemoteLake) -> list[str]:
    """Every stream table, quoted: a name as shown need not be one that can be parsed."""
    return [".".join(f"`{part.replace('`', '``')}`" for part in s.name.split(".")) for s in tr.status()]


def together(tr: Trickle | RemoteLake) -> dict[str, list[str]]:
    """The same, those of a group at once; by what they are called for people."""
    from spark_trickle.results import units_of

    names = dict(zip((s.name for s in tr.status()), all_names(tr), strict=True))
    return {", ".join(unit): [names[m] for m in unit if m in names] for unit in units_of(names, tr.groups())}


def pairs(option: str, given: Sequence[str] | None) -> dict[str, str]:
    """The values of a repeated KEY=VALUE option."""
    found: dict[str, str] = {}
    for one in given or ():
        key, equals, value = one.partition("=")
        if not equals or not key.strip():
            usage(f"{option} {one}: write it as KEY=VALUE.")
        found[key.strip()] = value.strip()
    return found


def read_text(given: str | None, file: str | None, what: str) -> str:
    """The SQL of a command: argument, file, or what is piped in."""
    if given is not None and file is not None:
        usage(f"Give {what} or --file, not both.")
    if given is not None:
        return given
    if file is not None and file != "-":
        try:
            return Path(file).read_text(encoding="utf-8")
        except (OSError, UnicodeDecodeError) as e:
            raise TrickleError("INVALID_STATEMENT", f"{file} cannot be read: {e}", hint="Check the path.") from None
    if file is None and sys.stdin.isatty():
        usage(f"Give {what}, --file, or pipe it in.")
    return sys.stdin.read()


def shell(text: str) -> str:
    import shlex

    return shlex.quote(text)


def usage(message: str) -> NoReturn:
    raise typer.BadParameter(message)
