"""Spans for OpenTelemetry. Most tests need the package opentelemetry-sdk and are skipped without it."""

from __future__ import annotations

import importlib.util
from contextlib import closing

import numpy as np
import pytest

import asyncdali
from asyncdali import fn


def made(**options):
    pipe = asyncdali.Pipeline(batch_size=2, num_threads=1, seed=1, **options)
    with pipe:
        data = fn.external_source(lambda info: np.float32(info.idx_in_epoch), batch=False, name="S")
        pipe.set_outputs(data, fn.random.uniform(name="U"))
    return pipe


@pytest.fixture
def exported():
    pytest.importorskip("opentelemetry.sdk", reason="spans need OpenTelemetry")
    from opentelemetry.sdk.trace import TracerProvider
    from opentelemetry.sdk.trace.export import SimpleSpanProcessor
    from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter

    exporter, provider = InMemorySpanExporter(), TracerProvider()
    provider.add_span_processor(SimpleSpanProcessor(exporter))
    return exporter, provider.get_tracer("training")


def test_iterations_become_spans_below_the_current_one(exported):
    exporter, tracer = exported
    with closing(made()) as pipe:
        pipe.run()
        with tracer.start_as_current_span("epoch") as parent, pipe.record_spans(tracer):
            for _ in range(3):
                pipe.run()
        spans = [span for span in exporter.get_finished_spans() if span.name != "epoch"]
        asked = [span for span in spans if span.name == "ask S"]
        assert [span.attributes["asyncdali.iteration"] for span in asked] == sorted(
            span.attributes["asyncdali.iteration"] for span in asked
        ) and len(asked) >= 3
        assert any("wait" in span.name for span in spans) and all(span.attributes["asyncdali.lane"] for span in spans)
        epoch = next(span for span in exporter.get_finished_spans() if span.name == "epoch")
        assert {span.parent.span_id for span in spans} == {parent.get_span_context().span_id}
        assert all(span.start_time <= span.end_time <= epoch.end_time + 10**9 for span in spans)
        count = len(exporter.get_finished_spans())
        pipe.run()
        assert len(exporter.get_finished_spans()) == count


def test_one_trace_at_a_time(exported):
    _, tracer = exported
    with closing(made()) as pipe:
        recording = pipe.record_spans(tracer)
        with pytest.raises(RuntimeError, match="is being recorded already"):
            pipe.record_spans(tracer)
        recording.stop()
        recording.stop()
        pipe.record_spans(tracer).stop()


def test_a_tracer_that_fails_costs_no_iteration(exported, caplog):
    class Broken:
        def start_span(self, *given, **named):
            raise OSError("no collector")

    with closing(made()) as pipe, pipe.record_spans(Broken()):
        for _ in range(3):
            pipe.run()
    assert caplog.text.count("a span was not sent") == 1


def test_the_programs_provider_is_the_default(exported, monkeypatch):
    exporter, tracer = exported
    monkeypatch.setattr("opentelemetry.trace.get_tracer", {"asyncdali": tracer}.__getitem__)
    with closing(made()) as pipe, pipe.record_spans():
        pipe.run()
    assert exporter.get_finished_spans()


@pytest.mark.skipif(importlib.util.find_spec("opentelemetry") is not None, reason="OpenTelemetry is installed")
def test_without_opentelemetry_the_extra_is_named():
    with closing(made()) as pipe, pytest.raises(ModuleNotFoundError, match=r"pip install asyncdali\[opentelemetry\]"):
        pipe.record_spans()
