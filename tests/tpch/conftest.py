"""After a run: how many rows each TPC-H result had, at first and after each round."""

from __future__ import annotations

import re
from typing import Any

import pytest


def pytest_terminal_summary(terminalreporter: Any) -> None:
    rows: dict[str, list[str]] = {}
    reports = [r for found in terminalreporter.stats.values() for r in found if isinstance(r, pytest.TestReport)]
    for report in reports:
        query = re.search(r"test_tpch\.py::test_(?:created|round)\[(?:\d-)?(q\d\d)\]", report.nodeid)
        if query and report.when == "call":
            rows.setdefault(query[1], []).extend(str(v) for k, v in report.user_properties if k == "rows")
    if rows:
        terminalreporter.section("TPC-H result rows, at first and after each round")
        for query, counts in sorted(rows.items()):
            terminalreporter.line(f"{query}: {' '.join(counts) or 'refused'}")
