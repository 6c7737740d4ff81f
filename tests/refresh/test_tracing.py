"""Spans of refreshes, as OpenTelemetry's own SDK exports them."""

from __future__ import annotations

import sys
import time
from collections.abc import Iterator
from typing import Any

import pytest
from opentelemetry.sdk.trace import ReadableSpan, TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
from opentelemetry.trace import StatusCode

from spark_trickle import Trickle, TrickleError
from spark_trickle.refresh import tracing
from spark_trickle.refresh.stages import Stages


class Spans:
    def __init__(self, exporter: InMemorySpanExporter) -> None:
        self._exporter = exporter

    def take(self) -> tuple[ReadableSpan, ...]:
        """Those since the last time."""
        found = self._exporter.get_finished_spans()
        self._exporter.clear()
        return found


@pytest.fixture
def provider() -> Iterator[TracerProvider]:
    made = TracerProvider()
    yield made
    made.shutdown()


@pytest.fixture
def spans(provider: TracerProvider, monkeypatch: pytest.MonkeyPatch) -> Spans:
    exporter = InMemorySpanExporter()
    provider.add_span_processor(SimpleSpanProcessor(exporter))
    monkeypatch.setattr(tracing, "tracer", lambda: provider.get_tracer("spark_trickle"))
    return Spans(exporter)


def children(spans: tuple[ReadableSpan, ...], parent: ReadableSpan) -> list[str]:
    own = [s for s in spans if s.parent is not None and s.parent.span_id == parent.context.span_id]
    assert all(parent.start_time <= s.start_time <= s.end_time <= parent.end_time for s in own)
    return [s.name for s in own]


def refresh_of(spans: tuple[ReadableSpan, ...]) -> tuple[ReadableSpan, dict[str, Any]]:
    (found,) = (s for s in spans if s.name == "trickle.refresh")
    return found, dict(found.attributes or {})


@pytest.mark.spark
def test_refreshes_and_their_stages(tr: Trickle, provider: TracerProvider, spans: Spans) -> None:
    tr.sql("CREATE TABLE s.src (k INT, v INT, w DOUBLE)")
    tr.sql("INSERT INTO s.src VALUES (1, 1, 1.0), (2, 2, 2.0)")
    tr.create_stream_table("s.t", "SELECT k, sum(v) AS v FROM s.src GROUP BY k", mode="differential")
    span, said = refresh_of(spans.take())
    assert (said["trickle.table"], said["trickle.action"]) == ("s.t", "FULL")
    assert said["trickle.reason"].startswith("INITIAL")
    assert span.status.status_code is StatusCode.UNSET

    tr.sql("INSERT INTO s.src VALUES (1, 10, 1.0)")
    with provider.get_tracer("the user's").start_as_current_span("nightly") as outer:
        result = tr.refresh("s.t")
    found = spans.take()
    span, said = refresh_of(found)
    assert span.parent is not None
    assert span.parent.span_id == outer.get_span_context().span_id
    assert said["trickle.refresh_id"] == tr.history("s.t")[0].refresh_id
    assert (said["trickle.action"], said["trickle.reason"]) == ("DIFFERENTIAL", result.reason)
    assert (said["trickle.rows_updated"], said["trickle.rows_read"]) == (1, 1)
    assert set(children(found, span)) == {f"trickle.refresh.{stage}" for stage in result.stages}
    assert (span.end_time - span.start_time) / 1e9 == pytest.approx(result.seconds, abs=0.5)

    tr.refresh("s.t")
    assert spans.take() == (), "nothing to do: told by pointers alone"

    tr.refresher.probe = fail
    tr.sql("INSERT INTO s.src VALUES (3, 3, 3.0)")
    with pytest.raises(TrickleError):
        tr.refresh("s.t")
    span, said = refresh_of(spans.take())
    assert said["error.type"] == "STORAGE_FULL"
    assert (span.status.status_code, span.status.description) == (StatusCode.ERROR, "no space is left")


def fail(point: str) -> None:
    if point == "before commit":
        raise TrickleError("STORAGE_FULL", "no space is left")


@pytest.mark.spark
def test_hidden_state_tables_are_below_their_owner(tr: Trickle, spans: Spans) -> None:
    tr.sql("CREATE TABLE s.src (k INT, v INT)")
    tr.sql("INSERT INTO s.src VALUES (1, 1), (1, 2)")
    tr.create_stream_table("s.t", "SELECT k, count(DISTINCT v) AS n FROM s.src GROUP BY k", mode="differential")
    assert tr.status("s.t")[0].states, "it has a hidden state table"
    found = spans.take()
    span, _ = refresh_of(found)
    assert "trickle.state" in children(found, span)
    (state,) = (s for s in found if s.name == "trickle.state")
    assert str((state.attributes or {})["trickle.table"]) == tr.status("s.t")[0].states[0]
    assert children(found, state)


def test_without_opentelemetry(monkeypatch: pytest.MonkeyPatch) -> None:
    tracing.tracer.cache_clear()
    monkeypatch.setitem(sys.modules, "opentelemetry", None)
    try:
        assert tracing.tracer() is None
        tracing.trace(object())  # type: ignore[arg-type]  # nothing is looked at
    finally:
        tracing.tracer.cache_clear()


def test_a_failure_to_make_spans_is_only_said(monkeypatch: pytest.MonkeyPatch, caplog: Any) -> None:
    class Broken:
        def start_span(self, *_: Any, **__: Any) -> Any:
            raise RuntimeError("the exporter is gone")

    class Work:
        stages, table, refresh_id, decision, made, states = Stages(), type("T", (), {"name": "s.t"}), "", None, None, ()

    monkeypatch.setattr(tracing, "tracer", Broken)
    tracing.trace(Work())  # type: ignore[arg-type]
    assert "the exporter is gone" in caplog.text


def test_intervals() -> None:
    before = time.time_ns()
    stages = Stages()
    for name in ("a", "b", "a"):
        with stages(name):
            time.sleep(0.002)
    stages.end()
    assert [i.stage for i in stages.intervals] == ["a", "b", "a"]
    for interval in stages.intervals:
        assert before <= stages.whole.start <= interval.start < interval.end <= stages.whole.end
    took = sum(i.end - i.start for i in stages.intervals if i.stage == "a") / 1e9
    assert took == pytest.approx(stages.seconds["a"], abs=1e-6)
