"""Gathering settings from keywords, the environment and one file. Errors say where a wrong one came from."""

from __future__ import annotations

import difflib
import os
import tomllib
from collections.abc import Mapping
from pathlib import Path
from typing import Any, NamedTuple

from pydantic_settings import EnvSettingsSource, SettingsError

from spark_trickle.config.fields import ENV_PREFIX, Fields, flat
from spark_trickle.config.urls import POSTGRES
from spark_trickle.errors import TrickleError

FILE_NAME = "trickle.toml"
_WHERE = ("location", "catalog_url", "warehouse")  # which lake: decided together, by one source


class Gathered(NamedTuple):
    values: dict[str, Any]
    origin: dict[str, str]  # where each of them came from
    file: Path | None  # the one that was read


def gather(path_or_url: str | os.PathLike[str] | None, options: Mapping[str, Any]) -> Gathered:
    """What all sources say, unchecked but for the names; see `Settings.load`."""
    keywords = {k: v for k, v in options.items() if v is not None}
    environment = _environment()
    explicit_file: Path | None = None
    if path_or_url is not None:
        text = os.fspath(path_or_url)
        if "location" in keywords:
            raise invalid("location", "keyword", "it is given twice, as path_or_url and as keyword")
        if text.endswith(".toml"):
            explicit_file = Path(text)
        else:
            keywords["location"] = text
    named = path_or_url is not None or "location" in keywords or "catalog_url" in keywords
    if named:
        environment = {k: v for k, v in environment.items() if k not in _WHERE}
    file, values = _file(explicit_file, named, {**environment, **keywords})

    sources: list[tuple[str, Mapping[str, Any]]] = [
        ("keyword", keywords),
        ("environment", environment),
        (str(file) if file else FILE_NAME, values),
    ]
    merged: dict[str, Any] = {}
    origin: dict[str, str] = {}
    for label, found in reversed(sources):
        for name, value in found.items():
            where = f"environment variable {ENV_PREFIX}{name.upper()}" if label == "environment" else label
            if name not in Fields.model_fields:
                raise _unknown(name, where)
            if name == "spark_conf" and isinstance(value, Mapping) and isinstance(merged.get(name), dict):
                merged[name] = {**merged[name], **flat(value)}
            else:
                merged[name] = flat(value) if name == "spark_conf" and isinstance(value, Mapping) else value
            origin[name] = where
    return Gathered(merged, origin, file)


def invalid(name: str, where: str, why: str) -> TrickleError:
    return TrickleError("INVALID_SETTING", f"Setting {name!r} ({where}): {why.rstrip('.')}.")


def _environment() -> dict[str, Any]:
    known = {f"{ENV_PREFIX}{name}".upper() for name in Fields.model_fields}
    for variable in sorted(os.environ):
        if variable.upper().startswith(ENV_PREFIX) and variable.upper() not in known:
            name = variable[len(ENV_PREFIX) :].lower()
            raise _unknown(name, f"environment variable {variable}")
    try:
        return dict(EnvSettingsSource(Fields, env_prefix=ENV_PREFIX)())
    except SettingsError as e:
        name = next((n for n in Fields.model_fields if f'"{n}"' in str(e)), "spark_conf")
        raise invalid(name, f"environment variable {ENV_PREFIX}{name.upper()}", "it must be written as JSON") from None


def _file(explicit: Path | None, named: bool, stronger: Mapping[str, Any]) -> tuple[Path | None, dict[str, Any]]:
    """The one file that counts: the given one, the lake folder's, or the current folder's."""
    if explicit is not None:
        if not explicit.is_file():
            raise invalid("location", "keyword", f"there is no file {explicit}")
        values = _read_toml(explicit)
        if not ({"location", "catalog_url"} & values.keys()):
            values["location"] = os.path.abspath(explicit.parent)
    else:
        here = Path(FILE_NAME)
        folder = str(stronger.get("location", Fields.model_fields["location"].default))
        there = None if folder.startswith(POSTGRES) else Path(folder) / FILE_NAME
        if there is not None and "catalog_url" not in stronger and (named or not here.is_file()) and there.is_file():
            values, explicit = _read_toml(there), there
            values.setdefault("location", os.path.abspath(there.parent))
        elif not named and here.is_file():
            values, explicit = _read_toml(here), here
        else:
            return None, {}
    # Paths in a file are relative to the file, so that it means the same from everywhere.
    for name in ("location", "warehouse"):
        value = values.get(name)
        if isinstance(value, str) and "://" not in value:
            values[name] = str(explicit.parent / Path(value).expanduser())
    return explicit, values


def _read_toml(file: Path) -> dict[str, Any]:
    try:
        with file.open("rb") as f:
            return tomllib.load(f)
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as e:
        raise TrickleError("INVALID_SETTING", f"{file} is not TOML: {e}.", hint="Correct the named line.") from None
    except OSError as e:
        raise TrickleError("INVALID_SETTING", f"{file} cannot be read: {e.strerror}.") from None


def _unknown(name: str, where: str) -> TrickleError:
    known = list(Fields.model_fields)
    close = difflib.get_close_matches(name.lower(), known, n=3)
    hint = f"Did you mean {' or '.join(close)}?" if close else f"Known settings: {', '.join(known)}."
    return TrickleError("INVALID_SETTING", f"Unknown setting {name!r} ({where}).", hint=hint)
