"""The command line. Nothing heavy is imported until a command needs it: `trickle --help` answers at once."""

from __future__ import annotations


def main() -> None:
    from spark_trickle.cli.app import run

    raise SystemExit(run())
