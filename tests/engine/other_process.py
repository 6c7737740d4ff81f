"""The second process of test_recovery: refreshes a few times, then stops in the middle of a refresh."""

from __future__ import annotations

import sys
import time

from spark_trickle import connect


def main(lake: str, rounds: int) -> None:
    with connect(lake, master="local[1]", driver_memory="1g", shuffle_partitions=2) as tr:
        print("ready", flush=True)
        for _ in range(rounds):
            sys.stdin.readline()
            print(*(r.action for r in tr.refresh(["s.n", "s.copy"])), flush=True)

        def hang(point: str) -> None:
            if point == "before transaction":
                print("holding", flush=True)
                time.sleep(600)

        tr.refresher.probe = hang
        sys.stdin.readline()
        with tr.cut():  # a reader that dies with it
            tr.refresh(["s.n", "s.copy"])


if __name__ == "__main__":
    main(sys.argv[1], int(sys.argv[2]))
