"""Spans of a running pipeline for OpenTelemetry: https://opentelemetry.io/docs/specs/otel/trace/api/."""

from __future__ import annotations

import logging
import threading
import time
from typing import Any

from ...messages.extras import need
from .counters import PipelineCounters

log = logging.getLogger("asyncdali")


class SpanRecording:
    """Sends the work of a pipeline as spans, until :meth:`stop` or the end of a ``with`` block.

    A span is one piece of work of one thread: asking a source, planning a segment, its pixels, a wait of the consumer. Its attributes are
    ``asyncdali.iteration`` and ``asyncdali.lane``, the thread or stream. The parent is the span that was current when the recording began.
    """

    def __init__(self, counters: PipelineCounters, tracer: Any = None):
        need("opentelemetry", "opentelemetry", "record_spans()")
        from opentelemetry import context, trace

        self._tracer = trace.get_tracer("asyncdali") if tracer is None else tracer
        self._context = context.get_current()
        self._offset = time.time_ns() - time.perf_counter_ns()
        self._counters = counters
        self._failed = False
        if counters.recorder is not None:
            raise RuntimeError("a trace of this pipeline is being recorded already; stop it first")
        counters.record(self)

    def stop(self) -> None:
        """Record no more spans. Idempotent."""
        if self._counters.recorder is self:
            self._counters.record(None)

    def __enter__(self) -> SpanRecording:
        return self

    def __exit__(self, *exc: object) -> None:
        self.stop()

    # --- called by the pipeline

    def span(self, what: str, began: int, ended: int, iteration: int, lane: str | None = None) -> None:
        """Send a span. Times are those of ``time.perf_counter_ns``."""
        attributes: dict[str, Any] = {"asyncdali.lane": lane or threading.current_thread().name}
        if iteration >= 0:
            attributes["asyncdali.iteration"] = iteration
        try:
            made = self._tracer.start_span(what, context=self._context, attributes=attributes, start_time=began + self._offset)
            made.end(end_time=ended + self._offset)
        except Exception:  # any exception: the tracer is the user's, and the iteration is worth more than its span
            if not self._failed:
                self._failed = True
                log.exception("a span was not sent; further failures are not logged")

    def level(self, what: str, time: int, value: int) -> None:
        """Spans have no levels; :meth:`Pipeline.metrics` has the fill of the queue."""
