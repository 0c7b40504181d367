"""Pipelines that a plugin feeds: each fed batch runs one iteration."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from ..pipeline.front import core_of

if TYPE_CHECKING:
    from ..pipeline import Pipeline
    from ..runtime.order.record import Record


def fed_inputs(pipeline: Pipeline) -> list[str]:
    """Names of the external inputs without a source. Builds the pipeline."""
    return [port.name for port in core_of(pipeline).built().producer.sources.pushed]


def feed_and_launch(pipeline: Pipeline, data: Mapping[str, object], layouts: Mapping[str, str | None] | None = None) -> Record | None:
    """Feed every input one batch and queue exactly one iteration that takes them, also at the start.

    Returns the iteration. Returns None if a source of the pipeline has ended or failed; a fetch behind the iterations in flight raises the
    reason. Errors as `feed_input`; then no input is fed.
    """
    core = core_of(pipeline)
    core.refuse_in_callbacks("feeding a batch")
    producer = core.built().producer
    ports = {name: producer.sources.port(name) for name in data}
    batches = {name: port.accepted(data[name], (layouts or {}).get(name)) for name, port in ports.items()}
    for name, port in ports.items():
        port.drop()  # data that an interrupted call left behind
        port.queue(batches[name])
    producer.start_with_one()
    before = producer.launched
    producer.schedule(core.hook())
    producer.wait_without_frames()
    return producer.in_flight[-1] if producer.launched > before else None
