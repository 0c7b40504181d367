"""The counters of a running pipeline as text for Prometheus: https://prometheus.io/docs/instrumenting/exposition_formats/."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from .statistics import Statistics

_CONSUMER = {
    "iterations": "iterations delivered, failed ones included", "samples": "samples delivered", "failed": "iterations that failed",
    "wait_seconds": "time in which the consumer waited for a batch", "away_seconds": "time between two calls of the consumer",
    "latency_seconds": "time from queueing an iteration to its end, summed",
}  # fmt: skip
_QUEUE = {"depth": "iterations that are kept in flight", "in_flight": "iterations in flight", "ready": "iterations in flight that are done"}
_OPERATOR = {
    "samples": "samples made by an operator", "bytes": "bytes made by an operator", "planning_seconds": "time of an operator's plans",
    "prepare_seconds": "time on threads before planning, such as reading files", "steps_seconds": "time on threads in compiled steps",
}  # fmt: skip
_SEGMENT = {
    "planning_seconds": "time of a segment's plans", "pixels_busy_seconds": "time of a segment's pixels, summed over threads",
    "wait_output_seconds": "time in which a segment waited for requests", "wait_input_seconds": "time in which a segment waited for inputs",
    "wait_turn_seconds": "time in which a segment waited for its turn",
}  # fmt: skip
_SOURCE = {"batches": "batches of a source", "samples": "samples of a source", "wait_seconds": "time in which a source was asked"}
_BUFFERS = {
    "allocated_bytes": "memory of the pool", "free_bytes": "free memory of the pool", "held_blocks": "blocks that outputs hold",
    "held_bytes": "memory that outputs hold",
}  # fmt: skip
_WORKERS = {
    "tasks": "tasks of worker processes", "samples": "samples of worker processes", "busy_seconds": "working time of worker processes",
    "queue_wait_seconds": "time in which tasks waited for a worker", "restarts": "replaced worker processes",
}  # fmt: skip
_ENGINE = {
    "asked": "iterations asked of an engine", "answered": "iterations that an engine answered", "restarts": "replacements of an engine",
    "busy_seconds": "time from a request's arrival at an engine to its answer, summed",
}  # fmt: skip


def prometheus(found: Statistics) -> str:
    """All counters and gauges of a report."""
    lines: list[str] = []
    _add(lines, "consumer", _CONSUMER, [({}, found.consumer)])
    _add(lines, "queue", _QUEUE, [({}, found.queue)], "gauge")
    _add(lines, "operator", _OPERATOR, [({"name": item.name, "operator": item.operator}, item) for item in found.operators])
    segments = [({"segment": item.index, "backend": item.backend}, item) for item in found.segments]
    _add(lines, "segment", _SEGMENT, segments)
    slowest = [(labels, sample) for labels, item in segments for sample in item.slowest_samples]
    if slowest:
        lines += _head("asyncdali_segment_slowest_sample_seconds", "processor time of the slowest samples that were measured", "gauge")
        lines += [
            _line("asyncdali_segment_slowest_sample_seconds", {**labels, "iteration": iteration, "sample": sample, "file": file}, seconds)
            for labels, (seconds, iteration, sample, file) in slowest
        ]
    _add(lines, "source", _SOURCE, [({"name": item.name, "kind": item.kind}, item) for item in found.sources])
    _add(lines, "buffers", _BUFFERS, [({}, found.buffers)], "gauge")
    if found.workers is not None:
        _add(lines, "workers", _WORKERS, [({}, found.workers)])
    _add(lines, "engine", _ENGINE, [({"engine": item.address or item.index}, item) for item in found.engines])
    return "\n".join(lines) + "\n"


def _add(
    lines: list[str], part: str, fields: Mapping[str, str], items: Iterable[tuple[Mapping[str, object], object]], kind: str = "counter"
) -> None:
    items = list(items)
    for field, text in fields.items() if items else ():
        name = f"asyncdali_{part}_{field}" + ("_total" if kind == "counter" else "")
        lines += _head(name, text, kind)
        lines += [_line(name, labels, getattr(item, field)) for labels, item in items]


def _head(name: str, text: str, kind: str) -> list[str]:
    return [f"# HELP {name} {text}", f"# TYPE {name} {kind}"]


def _line(name: str, labels: Mapping[str, object], value: float) -> str:
    shown = ",".join(f'{key}="{_escaped(label)}"' for key, label in labels.items())
    return f"{name}{{{shown}}} {float(value):.15g}" if shown else f"{name} {float(value):.15g}"


def _escaped(value: object) -> str:
    text = str(value).encode("utf-8", "backslashreplace").decode()
    return text.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")
