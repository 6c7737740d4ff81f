"""The load test for some seconds: `make load` is the real one."""

from __future__ import annotations

import random
import threading

import httpx
import pytest
from pydantic import SecretStr

from spark_trickle import Trickle
from spark_trickle.web.app import create_app
from spark_trickle.web.server import Server, listen, url_of
from tests.service.load import BAD, READS, TOKEN, V1, Load, quantile, refreshes


@pytest.mark.spark
def test_many_ask_while_refreshes_run(tr: Trickle) -> None:
    tr.sql("CREATE TABLE s.orders AS SELECT id, id % 50 AS customer, id % 100 AS amount FROM range(500)")
    for name in ("totals", "named", "big"):
        query = "SELECT customer, count(*) AS n FROM s.orders GROUP BY customer"
        tr.create_stream_table(f"s.{name}", query, schedule="1s")
    listener = listen("127.0.0.1", 0, has_token=True)
    server = Server(create_app(tr, token=SecretStr(TOKEN)), listener)
    load = Load(url_of(listener), TOKEN, 60, 4, random.Random(1))
    tr.start()
    server.start()
    try:
        asking = threading.Thread(target=load.run)
        asking.start()
        while asking.is_alive():
            tr.sql("INSERT INTO s.orders SELECT id, id % 50, 1 FROM range(10)")
            asking.join(0.5)
        headers = {"Authorization": f"Bearer {TOKEN}"}
        with httpx.Client(base_url=load.url, headers=headers, trust_env=False, timeout=60) as client:
            actions = refreshes(client, "")
            assert client.post(f"{V1}/stream-tables/s.totals/verify").json()["equal"]
    finally:
        server.stop()
        tr.stop()
    assert load.wrong == []
    assert len(load.all()) == 240
    assert {path for path, _ in READS} == load.took.keys()
    assert set(load.refused) == {b.status for b in BAD}
    assert actions["DIFFERENTIAL"] + actions["FULL"] > 3
    assert actions["FAILED"] == 0
    assert quantile(load.all(), 0.99) < 3, "49 ms of `make load` where nothing else runs"
