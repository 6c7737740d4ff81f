"""The files of deploy/ name what there is: commands, options, settings, paths of the service."""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterator
from pathlib import Path

import pytest
import typer

from spark_trickle.cli.app import app
from spark_trickle.config import Settings
from spark_trickle.web.security import OPEN

ROOT = Path(__file__).parents[1]
UNIT = (ROOT / "deploy" / "trickle.service").read_text(encoding="utf-8")
CONTAINER = (ROOT / "deploy" / "Containerfile").read_text(encoding="utf-8").replace("\\\n", " ")


def instructions(name: str) -> list[str]:
    return [line.removeprefix(name).strip() for line in CONTAINER.splitlines() if line.startswith(f"{name} ")]


def commands() -> Iterator[list[str]]:
    """What is run of `trickle`, as words."""
    for line in re.findall(r"^ExecStart=(.*)$", UNIT, re.MULTILINE):
        words = shlex.split(line)
        assert words.pop(0).endswith("/bin/trickle")
        yield words
    (entry,), (rest,) = instructions("ENTRYPOINT"), instructions("CMD")
    words = re.findall(r'"([^"]+)"', entry) + re.findall(r'"([^"]+)"', rest)
    assert words[:3] == ["tini", "--", "trickle"]
    yield words[3:]
    for line in instructions("RUN"):
        for one in line.split("&&"):
            given = [w for w in shlex.split(one) if "=" not in w]
            if given[0] == "trickle":
                yield given[1:]


def test_commands_and_options() -> None:
    known = typer.main.get_command(app).commands  # type: ignore[attr-defined]
    found = list(commands())
    assert [words[0] for words in found] == ["up", "up", "init", "doctor"]
    for name, *arguments in found:
        known[name].make_context(name, arguments, resilient_parsing=False)  # wrong ones raise


@pytest.mark.parametrize("text", [UNIT, CONTAINER], ids=["trickle.service", "Containerfile"])
def test_settings(text: str) -> None:
    code = "\n".join(line for line in text.splitlines() if not line.startswith("#"))
    found = {name.lower() for name in re.findall(r"TRICKLE_([A-Z_]+)=", code)}
    assert {"location", "service_token_file"} <= found <= set(Settings.model_fields)
    assert "service_token" not in found, "the token is in a file, not in an environment that others can see"


def test_the_unit_waits_for_refreshes_and_starts_again_after_an_error() -> None:
    values = dict(line.split("=", 1) for line in UNIT.splitlines() if "=" in line and not line.startswith("#"))
    assert (values["Restart"], values["KillSignal"], values["User"]) == ("on-failure", "SIGTERM", "trickle")
    assert int(values["TimeoutStopSec"].removesuffix("min")) >= 10


def test_the_image_is_whole_or_not_built() -> None:
    """A step that failed must not be hidden by what comes after it."""
    for line in instructions("RUN"):
        assert not re.search(r";|\|\|", line), line
    (probe,) = re.findall(r"http://127\.0\.0\.1:([0-9]+)(/\w+)", CONTAINER)
    assert probe[1] in OPEN
    assert probe[0] in instructions("EXPOSE")
    assert f"TRICKLE_SERVICE_PORT={probe[0]}" in CONTAINER
    for copied in instructions("COPY"):
        for path in copied.split()[:-1]:
            assert (ROOT / path).exists(), path
