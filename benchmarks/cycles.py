"""The transitive closure of 10,000 edges as a stream table that reads itself: `python benchmarks/cycles.py`.

From nothing, after ten more edges, and after ten edges less; each is compared with a closure in plain Python.
"""

from __future__ import annotations

import argparse
import json
import random
import sys
import tempfile
import time
from collections.abc import Iterable
from pathlib import Path

from spark_trickle import Trickle, connect

REACH = "SELECT src, dst FROM g.edges UNION SELECT r.src, e.dst FROM g.reach r JOIN g.edges e ON r.dst = e.src"
Edge = tuple[int, int]


def graph(edges: int, rnd: random.Random) -> set[Edge]:
    """Clusters of 20 nodes, in which random edges make circles, and few edges from cluster to cluster."""
    found: set[Edge] = set()
    clusters = edges // 25
    while len(found) < edges:
        cluster = rnd.randrange(clusters)
        src, dst = cluster * 20 + rnd.randrange(20), cluster * 20 + rnd.randrange(20)
        if rnd.random() < 0.01 and cluster + 1 < clusters:
            dst += 20
        found.add((src, dst))
    return found


def closure(edges: Iterable[Edge]) -> set[Edge]:
    after: dict[int, set[int]] = {}
    for src, dst in edges:
        after.setdefault(src, set()).add(dst)
    found: set[Edge] = set()
    for start, first in after.items():
        seen: set[int] = set()
        waiting = list(first)
        while waiting:
            node = waiting.pop()
            if node not in seen:
                seen.add(node)
                waiting += after.get(node, ())
        found |= {(start, node) for node in seen}
    return found


def insert(tr: Trickle, edges: Iterable[Edge]) -> None:
    tr.sql(f"INSERT INTO g.edges VALUES {', '.join(map(str, sorted(edges)))}")


def refreshed(tr: Trickle, edges: set[Edge], mode: str | None = None) -> dict[str, object]:
    began = time.perf_counter()
    tr.refresh("g.reach", mode)
    seconds = time.perf_counter() - began
    entry = tr.history("g.reach", limit=1)[0]
    rows = {(r[0], r[1]) for r in tr.sql("SELECT src, dst FROM g.reach").collect()}
    assert rows == closure(edges), "it is not the closure"
    return {"seconds": round(seconds, 2), "rows": len(rows), "rounds": entry.fixpoint_iteration, "why": entry.reason}


def main(arguments: list[str]) -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--edges", type=int, default=10_000)
    parser.add_argument("--seed", type=int, default=1)
    a = parser.parse_args(arguments)
    rnd = random.Random(a.seed)
    edges = graph(a.edges, rnd)
    found: dict[str, object] = {}
    with (
        tempfile.TemporaryDirectory(prefix="trickle-cycles-") as folder,
        connect(Path(folder) / "lake", allow_circular=True) as tr,
    ):
        tr.sql("CREATE NAMESPACE g")
        tr.sql("CREATE TABLE g.edges (src INT, dst INT) TBLPROPERTIES ('format-version' = '3')")
        insert(tr, edges)
        tr.create_stream_tables([{"name": "g.reach", "query": REACH}])
        for n in range(3):
            found[f"from nothing, {n}"] = refreshed(tr, edges, "full")
        for n in range(5):
            more = graph(a.edges, rnd) - edges
            ten = set(rnd.sample(sorted(more), 10))
            edges |= ten
            insert(tr, ten)
            found[f"ten edges more, {n}"] = refreshed(tr, edges)
        for n in range(2):
            ten = set(rnd.sample(sorted(edges), 10))
            edges -= ten
            tr.sql(f"DELETE FROM g.edges WHERE (src, dst) IN ({', '.join(map(str, sorted(ten)))})")
            found[f"ten edges less, {n}"] = refreshed(tr, edges)
    print(json.dumps(found, indent=2))
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
